//! The first word: which rules speak of it, before anything is looked up, and which still do once it is opened.
//!
//! `allow` and `ask` match a bare word by name, and an absolute path by its letters or by opening the same file as the
//! rule's own name does. `deny` matches by name, by basename and by the file opened.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::asker::{covers, grants};
use super::denial::said_by;
use super::listed::{allowlist, by_stack, not_listed};
use super::values::list;
use super::word::{Word, shown};
use super::{Decision, Denial, Judged, Stage};
use crate::decision::shown::repr;
use crate::policy::model::{Policy, ProgramName, Rule, Verdict};
use crate::program::{self, FindError, Program, same_file};
use crate::request::quote::escape_text;

#[cfg(test)]
mod tests;

/// The search path of a policy that sets none.
pub(super) const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Programs that are many: which one runs is told by the name they were started with.
const MULTI_CALL: &[&str] = &["busybox", "busybox.static", "toybox", "coreutils", "gnu-coreutils", "uutils"];

/// A policy with the `allow` and `ask` rules that speak of the command.
#[derive(Debug)]
pub(super) struct Short<'p> {
    pub policy: &'p Policy,
    pub rules: Vec<&'p Rule>,
    /// The rule that a called tool stands for: it takes part whatever else speaks of its program.
    pub tool: Option<&'p Rule>,
}

impl Short<'_> {
    /// One of its rules in a sentence.
    pub(super) fn said(&self, rule: &Rule) -> String {
        if self.tool.is_some_and(|tool| std::ptr::eq(tool, rule)) {
            return format!("tool {} ({})", repr(rule.id.as_bytes()), escape_text(&rule.at.to_string()));
        }
        said_by(rule)
    }
}

/// Asks the lists, not the disk. `stack` is all policies that have to allow, this one among them.
pub(super) fn shortlist<'p>(
    policy: &'p Policy,
    stack: &[Policy],
    word: Word<'_>,
    agent: Option<&str>,
) -> Judged<Short<'p>> {
    let named = |rule: &Rule| rule.programs.iter().any(|p| p.base() == word.base());
    let denied = policy.rules.iter().find(|r| r.decision == Verdict::Deny && covers(r, agent) && named(r));
    let rules: Vec<&Rule> =
        policy.rules.iter().filter(|r| r.decision != Verdict::Deny && covers(r, agent) && named(r)).collect();
    let relative = matches!(word, Word::Relative(_));
    if relative || !rules.iter().any(|r| grants(r, agent)) {
        let names = allowlist(stack, agent);
        let mut denial = not_listed(&names, word, denied, relative && !rules.is_empty());
        denial.hint = denial.hint.or_else(|| by_stack(policy, stack, &names, agent));
        return denial.deny();
    }
    not_denied_outright(policy, word, agent)?;
    Ok(Short { policy, rules, tool: None })
}

/// A deny rule without conditions needs no file to be found: what it denies is never "not found".
fn not_denied_outright(policy: &Policy, word: Word<'_>, agent: Option<&str>) -> Judged<()> {
    let named = |rule: &Rule| rule.programs.iter().any(|p| p.base() == word.base());
    let certain = |r: &&Rule| r.decision == Verdict::Deny && covers(r, agent) && named(r) && says_nothing(r);
    match policy.rules.iter().find(certain) {
        Some(rule) => denied_by(rule, word).deny(),
        None => Ok(()),
    }
}

/// The same for the program of a tool: `own` allows it, and the policy's `ask` and `deny` rules still speak of it.
pub(super) fn of_tool<'p>(
    policy: &'p Policy,
    own: &'p Rule,
    word: Word<'_>,
    agent: Option<&str>,
) -> Judged<Short<'p>> {
    not_denied_outright(policy, word, agent)?;
    let named = |rule: &&Rule| rule.programs.iter().any(|p| p.base() == word.base());
    let asks = policy.rules.iter().filter(|r| r.decision == Verdict::Ask && covers(r, agent)).filter(named);
    Ok(Short { policy, rules: std::iter::once(own).chain(asks).collect(), tool: Some(own) })
}

fn says_nothing(rule: &Rule) -> bool {
    !rule.args.closes()
}

/// The refusal by a deny rule.
pub(super) fn denied_by(rule: &Rule, word: Word<'_>) -> Denial {
    let message = format!("command {} is denied by {}", shown(word), said_by(rule));
    Denial::new(Stage::Command, "denied_by_rule", message)
        .hint("do without this command; no other rule can allow it")
        .by(rule)
}

/// Opens the program once and keeps the rules that speak of the file opened. `judge` is asked about the rest where there is
/// nothing to open: what would be refused anyway is not to be installed first.
pub(super) fn identify<'p>(
    shorts: Vec<Short<'p>>,
    word: Word<'_>,
    judge: impl FnOnce(&[Short<'p>]) -> Judged<()>,
) -> Judged<(Program, Vec<Short<'p>>)> {
    let first = first_path(&shorts, word);
    let opened = match word {
        Word::Absolute(path) => program::open_absolute(path),
        Word::Bare(name) => program::find(name, &first),
        Word::Relative(_) => Err(FindError::NotFound),
    };
    let program = match opened {
        Ok(program) => program,
        Err(error) => return not_opened(&shorts, word, error, judge),
    };
    let mut kept = Vec::with_capacity(shorts.len());
    for short in shorts {
        let mut rules = Vec::new();
        for rule in short.rules {
            if speaks_of(short.policy, rule, word, &program, &first)? {
                rules.push(rule);
            }
        }
        if rules.is_empty() {
            return another_file(short.policy, word);
        }
        kept.push(Short { policy: short.policy, rules, tool: short.tool });
    }
    Ok((program, kept))
}

/// The search path of the first rule that names the bare word.
fn first_path(shorts: &[Short<'_>], word: Word<'_>) -> Vec<PathBuf> {
    let naming = shorts.iter().find_map(|s| {
        let rule = s.rules.iter().find(|r| r.programs.iter().any(|p| word.is(p)))?;
        Some(search_path(s.policy, rule))
    });
    let any = || {
        let short = shorts.first()?;
        Some(search_path(short.policy, short.rules.first()?))
    };
    naming.or_else(any).unwrap_or_default()
}

fn speaks_of(
    policy: &Policy,
    rule: &Rule,
    word: Word<'_>,
    opened: &Program,
    first: &[PathBuf],
) -> Judged<bool> {
    for name in rule.programs.iter().filter(|p| p.base() == word.base()) {
        let same = match (word, name) {
            (Word::Absolute(_), ProgramName::Absolute(_)) if word.is(name) => true,
            (_, ProgramName::Absolute(path)) => {
                program::open_absolute(path).is_ok_and(|p| same_file(&p, opened))
            }
            (_, ProgramName::Bare(name)) => {
                let path = search_path(policy, rule);
                let bare = matches!(word, Word::Bare(_));
                let same = (bare && path == first)
                    || program::find(name, &path).is_ok_and(|found| same_file(&found, opened));
                if bare && !same {
                    return ambiguous(rule, word);
                }
                same
            }
        };
        if same {
            return Ok(true);
        }
    }
    Ok(false)
}

fn ambiguous<T>(rule: &Rule, word: Word<'_>) -> Judged<T> {
    let message =
        format!("{} opens different files in the search paths of the rules that allow it", shown(word));
    Denial::new(Stage::Command, "ambiguous_program", message)
        .hint("set the same PATH in all stacked policies, or name the program by its absolute path in each")
        .by(rule)
        .deny()
}

fn another_file<T>(policy: &Policy, word: Word<'_>) -> Judged<T> {
    let names: Vec<&[u8]> = policy
        .rules
        .iter()
        .filter(|r| r.decision != Verdict::Deny)
        .flat_map(|r| &r.programs)
        .filter(|p| p.base() == word.base())
        .map(|p| p.as_os_str().as_bytes())
        .collect();
    let message =
        format!("command {} is not the file that the allowlist means with {}", shown(word), list(&names));
    Denial::new(Stage::Command, "path_mismatch", message).hint("ask for it as the policy names it").deny()
}

/// 127 is only for what every policy allows by its letters; else a path is refused the same way whether there is
/// something or not.
fn not_opened<'p, T>(
    shorts: &[Short<'p>],
    word: Word<'_>,
    error: FindError,
    judge: impl FnOnce(&[Short<'p>]) -> Judged<()>,
) -> Judged<T> {
    let by_letters = |s: &&Short<'_>| s.rules.iter().any(|r| r.programs.iter().any(|p| word.is(p)));
    if let Some(short) = shorts.iter().find(|s| !by_letters(s)) {
        return another_file(short.policy, word);
    }
    judge(shorts)?;
    let rule = shorts.first().and_then(|s| s.rules.first());
    let with_rule = |d: Denial| rule.map_or(d.clone(), |r| d.by(r));
    Err(Box::new(match error {
        FindError::NotFound => {
            let mut place = String::new();
            let mut hint = "install it, or use another command";
            if matches!(word, Word::Bare(_)) {
                let dirs = first_path(shorts, word);
                let path: Vec<&[u8]> = dirs.iter().map(|dir| dir.as_os_str().as_bytes()).collect();
                place = format!(" in the policy's PATH, {}", repr(&path.join(&b':')));
                hint =
                    "install it there, or use another command; the policy's owner can set PATH in [env] set";
            }
            let message = format!("command {} is allowed and was not found{place}", shown(word));
            let denial = Denial::new(Stage::Command, "not_found", message);
            Decision::NotFound(with_rule(denial.hint(hint)))
        }
        FindError::NotExecutable { path, errno } => {
            let path = repr(path.as_os_str().as_bytes());
            let sought = shown(word);
            let found = if path == sought { String::new() } else { format!(" was found for {sought} and") };
            let message = format!("{path}{found} cannot be executed: {}", errno.desc());
            Decision::NotExecutable(with_rule(
                Denial::new(Stage::Command, "not_executable", message)
                    .hint("make it executable for this user"),
            ))
        }
    }))
}

/// Whether a deny rule speaks of the word or of the file that was opened for it.
pub(super) fn denies(policy: &Policy, rule: &Rule, word: Word<'_>, opened: &Program) -> bool {
    let file_name = opened.path.file_name();
    let as_another = file_name.is_some_and(|f| f != word.base() && MULTI_CALL.iter().any(|m| f == *m));
    rule.programs.iter().any(|name| {
        name.base() == word.base()
            || Some(name.base()) == file_name
            // A multi-call program is judged by the name asked for: `cat` is not `rm` for sharing a file with it.
            || (!as_another && leads_to(policy, rule, name, opened))
    })
}

/// Whether any file that the rule's name may stand for is the one opened, executable or not.
fn leads_to(policy: &Policy, rule: &Rule, name: &ProgramName, opened: &Program) -> bool {
    let is_it = |path: &Path| {
        nix::sys::stat::stat(path).is_ok_and(|s| (s.st_dev, s.st_ino) == (opened.device, opened.inode))
    };
    match name {
        ProgramName::Absolute(path) => is_it(path),
        ProgramName::Bare(name) => search_path(policy, rule).iter().any(|dir| is_it(&dir.join(name))),
    }
}

/// The rule's own `PATH`, else its policy's, else [`DEFAULT_PATH`].
pub(super) fn search_path(policy: &Policy, rule: &Rule) -> Vec<PathBuf> {
    let own = rule.own.env.as_ref().and_then(|env| env.set.get("PATH"));
    own.map_or_else(|| policy_path(policy), |text| directories(text))
}

/// The policy's own `PATH`, in which its programs find others; else the built-in one.
pub fn policy_path(policy: &Policy) -> Vec<PathBuf> {
    directories(policy.env.set.get("PATH").map_or(DEFAULT_PATH, String::as_str))
}

fn directories(text: &str) -> Vec<PathBuf> {
    text.split(':').filter(|dir| dir.starts_with('/')).map(PathBuf::from).collect()
}
