//! Compiling patterns: all of them for `check`, only those that a request can meet for a run.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use super::error::{ErrorKind, PolicyError, printable};
use super::model::{Policy, Rule};
use super::value::{Pattern, ValueLimits};

impl Policy {
    /// Compiles the patterns of the rules that name the program `name`, or its last component, so that a run
    /// pays for no others. A rule that matches only by the file opened compiles its patterns when it is judged.
    ///
    /// # Errors
    /// The first pattern that the engine refuses, at its place.
    pub fn compile_patterns_for(&self, name: &[u8]) -> Result<(), PolicyError> {
        let base = name.rsplit(|b| *b == b'/').next().unwrap_or(name);
        let base = OsStr::from_bytes(base);
        let named = |rule: &&Rule| rule.programs.iter().any(|p| p.base() == base);
        self.rules.iter().filter(named).try_for_each(rule_patterns)
    }

    /// Compiles every pattern of the policy, those of its tools included.
    ///
    /// # Errors
    /// The first pattern that the engine refuses, at its place.
    pub fn compile_all(&self) -> Result<(), PolicyError> {
        self.rules.iter().try_for_each(rule_patterns)?;
        self.tools.keys().try_for_each(|name| self.compile_patterns_of_tool(name))
    }

    /// Compiles the patterns of one tool's parameters; nothing if there is no such tool.
    ///
    /// # Errors
    /// The first pattern that the engine refuses, at its place.
    pub fn compile_patterns_of_tool(&self, name: &str) -> Result<(), PolicyError> {
        let params = self.tools.get(name).into_iter().flat_map(|tool| &tool.params);
        params.map(|p| &p.value).try_for_each(value_patterns)
    }
}

fn rule_patterns(rule: &Rule) -> Result<(), PolicyError> {
    let args = &rule.args;
    let flags = args.flags.iter().chain(&args.global_flags).flatten();
    flags.filter_map(|f| f.value.as_deref()).try_for_each(value_patterns)?;
    args.operands.iter().flatten().map(|o| &o.value).try_for_each(value_patterns)
}

fn value_patterns(value: &ValueLimits) -> Result<(), PolicyError> {
    value.pattern.iter().try_for_each(|pattern| match pattern.compile() {
        Ok(_) => Ok(()),
        Err(why) => Err(refused(pattern, why)),
    })
}

/// The engine's report is several lines with a picture of its own; its last sentence says what is wrong.
fn refused(pattern: &Pattern, why: &str) -> PolicyError {
    let last = why.rsplit("error: ").next().unwrap_or(why).trim_end_matches(['.', '\n']);
    let message = format!("the pattern cannot be used: {}", printable(last));
    match &pattern.spot {
        Some(spot) => spot.error(ErrorKind::Invalid, message),
        None => PolicyError::general(ErrorKind::Invalid, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::load::load;
    use crate::policy::load::tests::{Dir, context};

    #[test]
    fn patterns_are_compiled_when_asked_for_and_complain_at_their_place() {
        let d = Dir::new();
        let p = load(&d.put(
        "p.toml",
        "[[rule]]\nid = \"a\"\nprogram = \"/bin/a\"\ndecision = \"allow\"\noperands = [{ pattern = '(?=x)' }]\n[[rule]]\n\
         id = \"b\"\nprogram = \"b\"\ndecision = \"allow\"\nflags = [{ name = \"-b\", value = { pattern = 'x)|(y' } }]\n[[rule]]\n\
         id = \"c\"\nprogram = \"c\"\ndecision = \"deny\"\noperands = [{ pattern = '(a)\\1' }]\n[tools.t]\nargv = [\"ls\"]\n\
         description = \"d\"\ndecision = \"ask\"\nparams.p = { type = \"string\", pattern = '(a{1000}){1000}' }",
    ), &context()).unwrap();
        p.compile_patterns_for(b"other").unwrap();
        let error = p.compile_patterns_for(b"/bin/a").unwrap_err();
        let want = format!(
        "error: the pattern cannot be used: look-around, including look-ahead and look-behind, is not supported
 --> {}:6:25
  |
6 | operands = [{{ pattern = '(?=x)' }}]
  |                         ^^^^^^^",
        d.0.join("p.toml").display()
    );
        assert_eq!(error.to_string(), want);
        assert_eq!(p.compile_all().unwrap_err(), error);
        assert_eq!(p.compile_patterns_for(b"a").unwrap_err(), error);
        let line = |e: PolicyError| d.plain(&e);
        assert_eq!(
            line(p.compile_patterns_for(b"b").unwrap_err()),
            "D/p.toml:11:45: the pattern cannot be used: unopened group"
        );
        assert_eq!(
            line(p.compile_patterns_for(b"./c").unwrap_err()),
            "D/p.toml:16:25: the pattern cannot be used: backreferences are not supported"
        );
        assert_eq!(
            line(p.compile_patterns_of_tool("t").unwrap_err()),
            "D/p.toml:21:41: the pattern cannot be used: Compiled regex exceeds size limit of 1048576 bytes"
        );
        p.compile_patterns_of_tool("none").unwrap();
    }
}
