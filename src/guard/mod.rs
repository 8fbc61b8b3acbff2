//! Checks of one's own: programs that judge a request before it runs and its output before it goes out.
//!
//! A check is a hook that reads one JSON document and answers with a verdict: `guardexec-check(7)` has both. Whatever
//! else it does, it has failed, and what fails blocks. Over all checks the strictest verdict wins: block over ask over
//! rewrite over warn over pass.
//!
//! Nothing goes on that some check has not seen as it goes on:
//!
//! - A **request** is first judged side by side by the checks that do not rewrite, then by those that may, in order,
//!   each on what the last one made of it. Once it was rewritten it is judged again from the start, policy and all, until a
//!   round leaves it as it is ([`Rounds`]). That last round is one in which every check saw what will run.
//! - An **output** is first rewritten, in order, and what came of that is judged side by side by all others. Nothing is run
//!   again, so this is the only way in which all of those see what goes out.

mod document;
mod output;
mod request;
mod tally;
#[cfg(test)]
mod tests;
mod verdict;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

pub use output::{OutputJudgement, judge_output};
pub use request::{MOST_REWRITES, Next, Replacement, Rounds};

use crate::decision::{RuleRef, policy_path};
use crate::policy::model::{Check, CheckOn, Place, Policy, Severity};
use crate::request::Asker;
use crate::request::quote::repr;

/// The most bytes of a check's reason that are kept, before they are escaped.
pub const LONGEST_REASON: usize = 1 << 10;

/// A check that has to be asked.
#[derive(Debug)]
pub struct Asked<'p> {
    /// Which.
    pub check: &'p Check,
    /// The search path of the policy that it stands in.
    pub path: Vec<PathBuf>,
}

/// The checks of all policies that speak of a request which these rules and tools decided, in the order in which
/// they stand.
pub fn checks_for<'p>(policies: &'p [Policy], on: CheckOn, ids: &[&str]) -> Vec<Asked<'p>> {
    let of = |policy: &'p Policy| {
        let checks = policy.oversight.checks.iter().filter(|check| check.on == on && check.speaks_of(ids));
        checks.map(|check| Asked { check, path: policy_path(policy) })
    };
    policies.iter().flat_map(of).collect()
}

/// What checks are told of a request. Neither the environment nor the standard input of the command is.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The id of this run.
    pub run_id: &'a str,
    /// The rule that decided.
    pub rule: Option<&'a RuleRef>,
    /// The tool that is called.
    pub tool: Option<&'a str>,
    /// Its arguments.
    pub arguments: Option<&'a Map<String, Value>>,
    /// The words that would run; a built-in action has none.
    pub argv: Option<&'a [OsString]>,
    /// The command string that they were split from.
    pub command: Option<&'a [u8]>,
    /// Where it would run.
    pub cwd: &'a Path,
    /// Who asks, and why.
    pub asker: &'a Asker,
    /// The policies that judge it.
    pub policies: &'a [Policy],
}

/// What came out of a run, as the caller would get it.
#[derive(Debug, Clone, Copy)]
pub struct Output<'a> {
    /// The result's `status`.
    pub status: &'a str,
    /// The command's own exit code.
    pub exit_code: Option<i32>,
    /// Standard output.
    pub stdout: &'a [u8],
    /// Standard error.
    pub stderr: &'a [u8],
    /// Something was left out of one of them.
    pub truncated: bool,
}

/// What all checks together come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    /// It may go on.
    Pass,
    /// A person has to agree first.
    Ask(Objection),
    /// It ends here.
    Block(Objection),
    /// guardexec got this signal meanwhile; nothing may go on.
    Cancelled(i32),
    /// Whoever had it judged wanted that stopped; nothing may go on.
    Stopped,
}

/// Why a check does not let something pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection {
    /// The check.
    pub check: String,
    /// Where it stands.
    pub at: Place,
    /// Its reason, bounded and escaped; of a check that failed, what went wrong with it.
    pub reason: String,
    /// It gave no verdict.
    pub failed: bool,
    /// The policy's word for how bad that is.
    pub severity: Severity,
    /// It wants a person to be asked, rather than blocks.
    asks: bool,
}

impl Objection {
    /// One sentence without a prefix; safe to print.
    pub fn sentence(&self) -> String {
        let (check, reason) = (repr(self.check.as_bytes()), &self.reason);
        match (self.failed, self.asks) {
            (true, _) => format!("check {check} failed, and that blocks: {reason}"),
            (_, true) => format!("check {check} wants a person to decide: {reason}"),
            (_, false) => format!("check {check} blocks this: {reason}"),
        }
    }

    /// What to do instead.
    pub fn hint(&self) -> &'static str {
        match (self.failed, self.asks) {
            (true, _) => "the operator has to mend the check; until then nothing that it judges goes on",
            (_, true) => "a person can approve it",
            (_, false) => "trying the same again does not help",
        }
    }
}

/// What one check said, for the audit record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The check.
    pub check: String,
    /// Where it stands.
    pub at: Place,
    /// What it judged.
    pub on: CheckOn,
    /// `pass`, `warn`, `block`, `ask` or `rewrite`; of a check that failed `block`.
    pub verdict: &'static str,
    /// It gave no verdict.
    pub failed: bool,
    /// The policy's word for how bad it is when it does not pass.
    pub severity: Severity,
    /// Its reason, bounded and escaped; of a check that failed, what went wrong with it.
    pub reason: String,
    /// Of a check on a request that failed: the last of what it wrote to standard error, bounded and escaped. For the
    /// operator alone. Of a check on an output nothing is kept, since it may repeat the output.
    pub stderr: String,
}
