//! Everything that an approval binds to, and its digest.
//!
//! The parts are kept beside the digest, so that a request that is not the approved one can be told which part of it
//! differs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::bytes::Bytes;
use super::files::{self, Content, Ground, Named};
use super::output::BoundOutput;
use super::refusal::{unbindable, unbindable_file};
use crate::decision::{Denial, Grant, RuleRef, ToolCall};
use crate::policy::model::Policy;
use crate::program::{self, Program};
use crate::request::{Asker, Evidence, Stdin, quote};

mod difference;
mod encode;
mod settings;
#[cfg(test)]
mod tests;

pub use difference::Difference;
pub(super) use difference::policies as policies_differ;
pub use settings::Setting;

/// Why a person is asked: a rule, a tool, a rate, a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Its id.
    pub id: String,
    /// The file it stands in.
    pub file: Bytes,
    /// The line.
    pub line: u32,
    /// Its reason, or a sentence made for it; safe to print.
    pub reason: String,
}

impl Cause {
    /// A rule that asks, and why.
    pub fn of(rule: &RuleRef, reason: &str) -> Cause {
        let file = rule.at.file.as_os_str().as_bytes().into();
        Cause { id: rule.id.clone(), file, line: rule.at.line, reason: reason.to_owned() }
    }

    /// Whether it is the same rule, tool, rate or check, whatever it says at the moment.
    pub fn is(&self, other: &Cause) -> bool {
        (&self.id, &self.file, self.line) == (&other.id, &other.file, other.line)
    }

    /// With the whole path of its file: what a place says may depend on where guardexec was started.
    pub(super) fn placed(mut self, policies: &[Policy]) -> Cause {
        let mut sources = policies.iter().flat_map(|policy| &policy.sources);
        if let Some(source) = sources.find(|source| source.shown.as_os_str().as_bytes() == self.file.0) {
            self.file = source.path.as_os_str().as_bytes().into();
        }
        self
    }

    /// The rule that asks, else the first check or rate that does, and all that is said together about why.
    pub fn of_grant(grant: &Grant) -> Cause {
        Cause::of(grant.asker(), &grant.why())
    }
}

/// A call of a typed tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundTool {
    /// Its name.
    pub name: String,
    /// Its arguments, of their parameters' types.
    pub arguments: Map<String, Value>,
    /// Those whose values are content: they go to standard input or into a file.
    pub content: Vec<String>,
}

impl BoundTool {
    fn of(call: &ToolCall) -> BoundTool {
        let ToolCall { name, arguments, content, .. } = call;
        BoundTool { name: name.clone(), arguments: arguments.clone(), content: content.clone() }
    }
}

/// A path and what the file held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundFile {
    /// The path.
    pub path: Bytes,
    /// The content.
    pub content: Content,
}

/// Standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum BoundInput {
    /// `/dev/null`.
    Null,
    /// A file.
    File(BoundFile),
    /// Bytes that come with the request.
    Bytes(Content),
    /// guardexec's own, which went through to a run that is over.
    Relayed,
}

/// A variable of the command's environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: Bytes,
    /// Its value; `None` where it is not kept any more.
    pub value: Option<Bytes>,
}

/// All that an approval binds to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The words.
    pub argv: Vec<Bytes>,
    /// The program that was opened; `None` for a built-in action, which starts none.
    pub program: Option<BoundFile>,
    /// The working directory.
    pub cwd: Bytes,
    /// The whole environment.
    pub env: Vec<Variable>,
    /// Standard input.
    pub stdin: BoundInput,
    /// Files and directories that words name.
    pub files: Vec<Named>,
    /// Why a person is asked.
    pub causes: Vec<Cause>,
    /// The tool that is called, where one is.
    pub tool: Option<BoundTool>,
    /// Every policy file: path and SHA-256.
    pub policies: Vec<(Bytes, String)>,
    /// The asker.
    pub agent: Option<String>,
    /// The session.
    pub session: Option<String>,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The asker's reason.
    pub why: Option<String>,
    /// What the asker lays before whoever decides: name and content.
    pub evidence: Option<BoundFile>,
    /// Limits and confinement.
    pub settings: Vec<Setting>,
    /// What came of it, where that is what a person is asked about.
    pub output: Option<BoundOutput>,
}

/// What is bound besides the grant itself.
#[derive(Debug)]
pub struct Asking<'a> {
    /// Who asks.
    pub asker: &'a Asker,
    /// `--evidence`.
    pub evidence: Option<&'a Evidence>,
    /// Why a person is asked.
    pub causes: Vec<Cause>,
    /// The policies that judge.
    pub policies: &'a [Policy],
}

impl Bound {
    /// Reads and hashes what the grant means. Standard input that is relayed has to be read into the grant before.
    ///
    /// # Errors
    /// The content of the program, of a file that a word names or of standard input cannot be read, or there is too much
    /// of it: code `approval_unbindable`.
    pub fn of(grant: &Grant, asking: Asking<'_>) -> Result<Bound, Box<Denial>> {
        if matches!(grant.stdin, Stdin::Relay) {
            return Err(unbindable("standard input was not read before the approval was asked for"));
        }
        Bound::of_run(grant, asking)
    }

    /// The same for a run whose output may have to be asked about: it starts at once, and what is relayed to it is not read
    /// before.
    ///
    /// # Errors
    /// As [`Bound::of`].
    pub fn of_run(grant: &Grant, asking: Asking<'_>) -> Result<Bound, Box<Denial>> {
        let argv: Vec<&[u8]> = grant.argv.iter().map(|word| word.as_bytes()).collect();
        let asker = asking.asker;
        Ok(Bound {
            argv: argv.iter().map(Bytes::from).collect(),
            program: grant.program.as_ref().map(bound_program).transpose()?,
            cwd: grant.cwd.as_os_str().as_bytes().into(),
            env: grant.envp.iter().map(|entry| variable(entry.as_bytes())).collect(),
            stdin: input(&grant.stdin)?,
            files: named(grant, &argv)?,
            causes: asking.causes.into_iter().map(|cause| cause.placed(asking.policies)).collect(),
            tool: grant.tool.as_ref().map(BoundTool::of),
            policies: policies(asking.policies),
            agent: asker.agent.clone(),
            session: asker.session.clone(),
            labels: asker.labels.clone(),
            why: asker.why.clone(),
            evidence: asking.evidence.map(evidence),
            settings: settings::of(&grant.limits, &grant.wanted),
            output: None,
        })
    }

    /// The same request with whatever its files hold now. Of an output these are the policies alone: whatever else it came
    /// of has been used already.
    ///
    /// # Errors
    /// The working directory or a file is gone or cannot be read.
    pub fn now(&self) -> Result<Bound, Box<Denial>> {
        let mut now = self.clone();
        for (policy, sha256) in &mut now.policies {
            *sha256 = files::content_of(&PathBuf::from(OsStr::from_bytes(&policy.0)))?.sha256;
        }
        if self.output.is_some() {
            return Ok(now);
        }
        let path = |bytes: &Bytes| PathBuf::from(OsStr::from_bytes(&bytes.0));
        let gone = |bytes: &Bytes, error: std::io::Error| {
            unbindable_file(&bytes.0, &quote::escape_text(&files::reason(&error)))
        };
        let cwd = File::open(path(&self.cwd)).map_err(|error| gone(&self.cwd, error))?;
        if let Some(file) = &mut now.program {
            let opened = program::open_absolute(&path(&file.path));
            let opened =
                opened.map_err(|_| unbindable_file(&file.path.0, "it cannot be executed any more"))?;
            *file = bound_program(&opened)?;
        }
        now.files.retain(|named| named.word == 0);
        for interpreter in &mut now.files {
            interpreter.content = Some(files::content_of(&path(&interpreter.path))?);
        }
        let map = settings::map_of(&self.settings);
        let here = path(&self.cwd);
        let ground = Ground { dir: cwd.as_fd(), cwd: &here, map: &map };
        now.files.extend(match (&self.program, self.files.first()) {
            // Of a built-in action, the one file that it is about.
            (None, Some(named)) => {
                files::named(Ground { map: &[], ..ground }, &[b"", named.path.0.as_slice()])?
            }
            _ => files::named(ground, &self.argv)?,
        });
        if let BoundInput::File(file) = &mut now.stdin {
            file.content = files::content_of(&path(&file.path))?;
        }
        Ok(now)
    }

    /// What is asked for by name: the tool, or the program as the words have it.
    pub fn name(&self) -> String {
        let kind = if self.tool.is_some() { "tool" } else { "command" };
        format!("{kind} {}", quote::repr(self.asked_name()))
    }

    /// The same without saying which of the two it is.
    pub(super) fn asked_name(&self) -> &[u8] {
        match &self.tool {
            Some(tool) => tool.name.as_bytes(),
            None => self.argv.first().map(|word| word.0.as_slice()).unwrap_or_default(),
        }
    }
}

fn bound_program(program: &Program) -> Result<BoundFile, Box<Denial>> {
    let path = program.path.as_os_str().as_bytes();
    let sha256 = program::hash(program).map_err(|error| {
        let why = quote::escape_text(&files::reason(&error));
        unbindable(format!("the program {} cannot be read: {why}", quote::repr(path)))
    })?;
    let size = nix::sys::stat::fstat(&program.file).map_or(0, |stat| stat.st_size.unsigned_abs());
    Ok(BoundFile { path: path.into(), content: Content { size, sha256 } })
}

/// What interprets the program, and what words name; of a built-in action, the file that it is about.
fn named(grant: &Grant, argv: &[&[u8]]) -> Result<Vec<Named>, Box<Denial>> {
    let action = grant.tool.as_ref().and_then(|tool| tool.action.as_ref());
    let ground = Ground { dir: grant.cwd_fd.as_fd(), cwd: &grant.cwd, map: &grant.wanted.filesystem.map };
    if let Some(action) = action {
        return files::named(Ground { map: &[], ..ground }, &[b"", action.path.as_os_str().as_bytes()]);
    }
    let interpreters =
        grant.program.as_ref().map(|program| files::interpreters(program, &grant.wanted.path)).transpose()?;
    let mut all = interpreters.unwrap_or_default();
    all.extend(files::named(ground, argv)?);
    Ok(all)
}

fn variable(entry: &[u8]) -> Variable {
    let at = entry.iter().position(|b| *b == b'=').unwrap_or(entry.len());
    Variable { name: entry[..at].into(), value: Some(entry.get(at + 1..).unwrap_or_default().into()) }
}

fn input(stdin: &Stdin) -> Result<BoundInput, Box<Denial>> {
    Ok(match stdin {
        Stdin::Null => BoundInput::Null,
        Stdin::Bytes(bytes) => BoundInput::Bytes(files::content(bytes)),
        Stdin::File(path) => {
            let content = files::content_of(path)?;
            // As it will be called where it is run again, perhaps from another directory.
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            BoundInput::File(BoundFile { path: path.as_os_str().as_bytes().into(), content })
        }
        Stdin::Relay => BoundInput::Relayed,
    })
}

fn evidence(evidence: &Evidence) -> BoundFile {
    let path = evidence.name.as_os_str().as_bytes().into();
    BoundFile { path, content: files::content(&evidence.bytes) }
}

/// Every file of every policy, each once.
pub(super) fn policies(policies: &[Policy]) -> Vec<(Bytes, String)> {
    let mut files = Vec::new();
    for source in policies.iter().flat_map(|policy| &policy.sources) {
        let file = (source.path.as_os_str().as_bytes().into(), source.sha256.clone());
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

impl Bound {
    /// The same for the output of the run that this was.
    pub fn of_output(mut self, output: BoundOutput, causes: Vec<Cause>, policies: &[Policy]) -> Bound {
        self.causes = causes.into_iter().map(|cause| cause.placed(policies)).collect();
        self.output = Some(output);
        self
    }

    /// What is asked about, for people.
    pub fn subject(&self) -> String {
        match &self.output {
            Some(_) => format!("the output of {}", self.name()),
            None => self.name(),
        }
    }
}
