//! The words after the program: which of a policy's rules they satisfy, and what that comes to.

use std::os::unix::ffi::OsStrExt;

use super::asker::{covers, grants};
use super::closed::{self, Refusal};
use super::command::{Short, denied_by, denies};
use super::denial::said_by;
use super::open;
use super::paths::Paths;
use super::word::{Word, shown};
use super::{Denial, Stage};
use crate::policy::model::{Rule, Verdict};
use crate::program::Program;

/// What is being judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command<'a> {
    pub word: Word<'a>,
    /// The words after the program.
    pub args: &'a [&'a [u8]],
    pub agent: Option<&'a str>,
    /// The file opened; `None` where names alone decide (examples).
    pub program: Option<&'a Program>,
    pub paths: Paths<'a>,
}

impl Command<'_> {
    /// All names the program goes by.
    fn names(&self) -> Vec<&[u8]> {
        let opened = self.program.and_then(|p| p.path.file_name());
        let mut names = vec![self.word.base().as_bytes()];
        names.extend(opened.map(OsStrExt::as_bytes));
        names
    }
}

/// What one policy says: its strictest matching rules, or why none allows it.
pub(super) fn judge<'p>(
    short: &Short<'p>,
    command: &Command<'_>,
) -> Result<(Verdict, Vec<&'p Rule>), Denial> {
    let names = command.names();
    let open = |rule: &Rule| open::matches(&rule.args, &names, command.args, &command.paths);
    let speaks = |rule: &Rule| match command.program {
        Some(program) => denies(short.policy, rule, command.word, program),
        None => rule.programs.iter().any(|p| p.base() == command.word.base()),
    };
    let denying = |r: &&Rule| r.decision == Verdict::Deny && covers(r, command.agent) && speaks(r) && open(r);
    if let Some(rule) = short.policy.rules.iter().find(denying) {
        return Err(refused(rule, command));
    }
    let (asks, allows): (Vec<&Rule>, Vec<&Rule>) =
        short.rules.iter().partition(|r| r.decision == Verdict::Ask);
    let asks: Vec<&Rule> = asks.into_iter().filter(|r| open(r)).collect();
    let mut refusals = Vec::new();
    let mut accepted = Vec::new();
    for rule in allows {
        let context = closed::Context { rule: &rule.id, names: &names, paths: command.paths };
        match closed::accept(&rule.args, command.args, context) {
            Ok(()) => accepted.push(rule),
            Err(refusal) => refusals.push((rule, refusal)),
        }
    }
    if !asks.iter().chain(&accepted).any(|r| grants(r, command.agent)) {
        return Err(no_rule(command, refusals));
    }
    if asks.is_empty() { Ok((Verdict::Allow, accepted)) } else { Ok((Verdict::Ask, asks)) }
}

fn refused(rule: &Rule, command: &Command<'_>) -> Denial {
    let mut denial = denied_by(rule, command.word);
    if rule.args.closes() {
        denial.stage = Stage::Arguments;
        denial.message =
            format!("these arguments of {} are denied by {}", shown(command.word), said_by(rule));
        denial.hint = Some("leave out what the rule speaks of; no other rule can allow it".into());
    }
    denial
}

/// The refusal of the rule that came furthest: most likely the one that was meant.
fn no_rule(command: &Command<'_>, refusals: Vec<(&Rule, Refusal)>) -> Denial {
    let others = refusals.len().saturating_sub(1);
    let Some((rule, refusal)) = refusals.into_iter().rev().max_by_key(|(_, r)| r.progress) else {
        let message = format!("no rule allows {} with these arguments", shown(command.word));
        return Denial::new(Stage::Arguments, "arguments_not_allowed", message)
            .hint("its rules speak of other arguments only; ask the policy's owner for one");
    };
    let mut denial = Denial::new(Stage::Arguments, refusal.code, refusal.message).by(rule);
    denial.hint = match (refusal.hint, others) {
        (hint, 0) => hint,
        (hint, n) => Some(format!(
            "{} ({n} other rule(s) for {} do not allow it either)",
            hint.unwrap_or_default(),
            shown(command.word)
        )),
    };
    denial
}
