//! What stands over single decisions, of all policies that judge a request together. Nothing here looks at the disk,
//! except to tell whether two paths are one directory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{ErrorKind, PolicyError, printable};
use super::model::{
    ApprovalPolicy, AskBy, Check, Hook, KillSwitch, Place, Policy, Rate, SessionPolicy, StatePolicy, Verdict,
};
use crate::sys::canonical;

/// Every `[kill_switch]`, with its policy: any of them stops.
pub fn kill_switches(policies: &[Policy]) -> impl Iterator<Item = (&Policy, &KillSwitch)> {
    policies.iter().filter_map(|p| Some((p, p.oversight.kill_switch.as_ref()?)))
}

/// Whether a name is that of a rule or a tool in any of the policies.
pub fn is_known(policies: &[Policy], name: &str) -> bool {
    policies.iter().any(|p| p.tools.contains_key(name) || p.rules.iter().any(|r| r.id == name))
}

/// The one `[state]` of all policies.
///
/// # Errors
/// Two of them name different directories.
pub fn state(policies: &[Policy]) -> Result<Option<&StatePolicy>, PolicyError> {
    let mut all = policies.iter().filter_map(|p| Some((p, p.oversight.state.as_ref()?)));
    let Some((_, first)) = all.next() else { return Ok(None) };
    match all.find(|(_, other)| !same_directory(&other.dir, &first.dir)) {
        None => Ok(Some(first)),
        Some((policy, other)) => {
            let message = format!(
                "two policies keep their state in different places: {} here, {} at {}",
                shown(&other.dir),
                shown(&first.dir),
                printable(&first.at.to_string())
            );
            Err(at(policy, &other.at, message).hint("name one directory in all of them"))
        }
    }
}

/// The directory of the store: the policies' `[state] dir`, else the caller's `given`, else nothing is said.
///
/// # Errors
/// As [`state`], and a `given` that is another directory than the policies'.
pub fn state_dir(policies: &[Policy], given: Option<&Path>) -> Result<Option<PathBuf>, PolicyError> {
    let Some(state) = state(policies)? else { return Ok(given.map(Path::to_owned)) };
    match given.filter(|given| !same_directory(given, &state.dir)) {
        None => Ok(Some(state.dir.clone())),
        Some(given) => {
            let message = format!(
                "--state {} contradicts the policy, which keeps its state in {} ({})",
                shown(given),
                shown(&state.dir),
                printable(&state.at.to_string())
            );
            Err(PolicyError::general(ErrorKind::Invalid, message).hint("leave --state out"))
        }
    }
}

fn same_directory(a: &Path, b: &Path) -> bool {
    a == b || settled(a) == settled(b)
}

/// The path with every link resolved, as far as it exists; what does not exist yet stays as it is written.
fn settled(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|dir| Some((dir, canonical(dir).ok()?)));
    match there.map(|(dir, real)| (path.strip_prefix(dir), real)) {
        Some((Ok(rest), real)) if !rest.as_os_str().is_empty() => real.join(rest),
        Some((_, real)) => real,
        None => path.to_owned(),
    }
}

fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

fn at(policy: &Policy, place: &Place, message: String) -> PolicyError {
    match policy.spot(place) {
        Some(spot) => spot.error(ErrorKind::Invalid, message),
        None => PolicyError::file(ErrorKind::Invalid, &place.file, message),
    }
}

/// Whether every call is counted or belongs to a session whose state decides: `[[rate]]`, `[[alert]]`, `[session]`.
pub fn counts(policies: &[Policy]) -> bool {
    policies
        .iter()
        .map(|p| &p.oversight)
        .any(|o| !o.rates.is_empty() || !o.alerts.is_empty() || o.session.is_some())
}

/// Whether a call may be asked about at all: by a rule, a tool, a parameter, a rate or the verdict of a check.
pub fn can_ask(policy: &Policy) -> bool {
    let tools = || policy.tools.values();
    policy.rules.iter().any(|r| r.decision == Verdict::Ask)
        || tools().any(|t| t.decision == Verdict::Ask || t.params.iter().any(|p| p.ask_above.is_some()))
        || policy.oversight.rates.iter().any(|r| r.then == Verdict::Ask)
        || !policy.oversight.checks.is_empty()
}

/// Whether some call may need the store: what [`counts`], and what may be asked by way of the queue. A call that is
/// neither counted nor asked about does not open it, whatever this says.
pub fn needs_state(policies: &[Policy]) -> bool {
    let queued = || asked(policies, can_ask).queue;
    counts(policies) || (policies.iter().any(can_ask) && queued())
}

/// Who has to say yes, and within what bounds, where policies ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked<'p> {
    /// The section that lets nobody be asked: denied.
    pub nobody: Option<&'p ApprovalPolicy>,
    /// Programs that must all approve.
    pub programs: Vec<&'p Hook>,
    /// The terminal must approve.
    pub tty: bool,
    /// Somebody has to approve by way of the store.
    pub queue: bool,
    /// The shortest of the times for the terminal or a program.
    pub timeout: Duration,
    /// The shortest of the times that a filed request counts.
    pub expires: Duration,
    /// The smallest number of those that may wait.
    pub max_pending: u64,
    /// All that are told of a filed request.
    pub notify: Vec<&'p Hook>,
    /// All that are told of one without an answer, and after how long.
    pub escalate: Vec<(&'p Hook, Duration)>,
}

impl Asked<'_> {
    /// Who would be asked, for people.
    pub fn in_words(&self) -> String {
        if self.nobody.is_some() {
            return "nobody may be asked: denied".to_owned();
        }
        let programs = self.programs.iter().filter_map(|hook| hook.argv.first());
        let mut who: Vec<String> =
            programs.map(|program| format!("the program {}", printable(program))).collect();
        who.extend(self.tty.then(|| "whoever sits at the terminal".to_owned()));
        who.extend(self.queue.then(|| "a person, by way of the queue".to_owned()));
        format!("asks {}", who.join(", then "))
    }
}

/// Settles the `[approval]` of all policies where those ask for which `asks` says so. As in everything else each has its
/// say: an asking policy's section, written or default, and every other one that is written.
pub fn asked(policies: &[Policy], asks: impl Fn(&Policy) -> bool) -> Asked<'_> {
    let default = ApprovalPolicy::default();
    let all: Vec<&ApprovalPolicy> = policies
        .iter()
        .filter(|p| asks(p) || p.oversight.approval.at.is_some())
        .map(|p| &p.oversight.approval)
        .collect();
    let mut programs: Vec<&Hook> = Vec::new();
    for approval in &all {
        if let AskBy::Program(hook) = &approval.ask
            && !programs.iter().any(|known| known.argv == hook.argv)
        {
            programs.push(hook);
        }
    }
    let is = |ask: &AskBy| all.iter().find(|a| a.ask == *ask).copied();
    Asked {
        nobody: is(&AskBy::Deny),
        programs,
        tty: is(&AskBy::Tty).is_some(),
        queue: is(&AskBy::Queue).is_some(),
        timeout: all.iter().map(|a| a.timeout).min().unwrap_or(default.timeout),
        expires: all.iter().map(|a| a.expires).min().unwrap_or(default.expires),
        max_pending: all.iter().map(|a| a.max_pending).min().unwrap_or(default.max_pending),
        notify: all.iter().filter_map(|a| a.notify.as_ref()).collect(),
        escalate: all.iter().filter_map(|a| Some((a.escalate.as_ref()?, a.escalate_after?))).collect(),
    }
}

/// Whether something stands in this policy, or in a file that it extends.
pub fn stands_in(policy: &Policy, place: &Place) -> bool {
    policy.sources.iter().any(|s| s.shown == place.file)
}

/// Every `[session]`: all hold.
pub fn sessions(policies: &[Policy]) -> impl Iterator<Item = &SessionPolicy> {
    policies.iter().filter_map(|p| p.oversight.session.as_ref())
}

impl Hook {
    /// The absolute paths in its further words: a whole word, what stands behind its first `=` (`--db=/x`), and what is
    /// glued to a short flag (`-f/x`).
    pub fn named(&self) -> Vec<&Path> {
        fn parts(word: &str) -> [Option<&str>; 3] {
            let glued = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            [Some(word), word.split_once('=').map(|(_, value)| value), glued.and_then(|rest| rest.get(1..))]
        }
        let words = self.argv.iter().skip(1).flat_map(|word| parts(word)).flatten();
        words.filter(|part| part.starts_with('/')).map(Path::new).collect()
    }
}

impl Rate {
    /// Whether it speaks of a call that these rules or tools of its policy decide.
    pub fn speaks_of(&self, ids: &[&str]) -> bool {
        speaks_of(self.matches.as_deref(), ids)
    }
}

impl Check {
    /// Whether it speaks of a call that these rules or tools of its policy decide.
    pub fn speaks_of(&self, ids: &[&str]) -> bool {
        speaks_of(self.matches.as_deref(), ids)
    }
}

fn speaks_of(matches: Option<&[String]>, ids: &[&str]) -> bool {
    matches.is_none_or(|names| names.iter().any(|name| ids.contains(&name.as_str())))
}

/// What a file is to the policy that leads to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The kill switch. It need not exist; its directory does.
    Switch,
    /// The directory of the store. It need not exist yet.
    State,
    /// A program that guardexec runs. It has to exist.
    Program,
    /// A path in a further word of such a program. It may name a file, or nothing.
    Word,
}

/// A file that oversight leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Led<'p> {
    /// The file (absolute).
    pub path: &'p Path,
    /// What it is.
    pub role: Role,
    /// Where the policy names it.
    pub at: &'p Place,
}

/// Every program that guardexec runs for a policy, in order.
pub fn hooks(policy: &Policy) -> impl Iterator<Item = &Hook> {
    let o = &policy.oversight;
    let ask = match &o.approval.ask {
        AskBy::Program(hook) => Some(hook),
        _ => None,
    };
    let approval = [ask, o.approval.notify.as_ref(), o.approval.escalate.as_ref()];
    let alerts = o.alerts.iter().map(|a| &a.run);
    approval.into_iter().flatten().chain(alerts).chain(o.checks.iter().map(|c| &c.run))
}

/// Every file that the oversight of these policies leads to. None of them may be a run's to write, and each passes the
/// trust test when it is used.
pub fn files(policies: &[Policy]) -> Vec<Led<'_>> {
    let mut all = Vec::new();
    for policy in policies {
        let o = &policy.oversight;
        all.extend(o.kill_switch.iter().map(|s| Led { path: &s.file, role: Role::Switch, at: &s.at }));
        all.extend(o.state.iter().map(|s| Led { path: &s.dir, role: Role::State, at: &s.at }));
        for hook in hooks(policy) {
            let program = hook.argv.first().map(|program| (Path::new(program), Role::Program));
            let words = hook.named().into_iter().map(|path| (path, Role::Word));
            all.extend(program.into_iter().chain(words).map(|(path, role)| Led { path, role, at: &hook.at }));
        }
    }
    all
}

#[cfg(test)]
mod tests;
