//! Checks on the request: before anything runs.

use std::ffi::OsString;

use serde_json::{Map, Value};

use super::tally::Tally;
use super::verdict::nothing_else;
use super::{Asked, Finding, Objection, Ruling, Subject, document};
use crate::decision::Facts;
use crate::policy::model::{Check, Severity};
use crate::request::{Arguments, Ask, Request};
use crate::run::Stop;

/// How often a request may be rewritten before it counts as blocked: rewriting that never comes to rest is no judgement.
pub const MOST_REWRITES: usize = 4;

/// What is to be run instead.
#[derive(Debug, Clone, PartialEq)]
pub enum Replacement {
    /// These words.
    Argv(Vec<OsString>),
    /// The same tool with these arguments.
    Arguments(Map<String, Value>),
}

impl Replacement {
    /// Puts it in the place of what was asked for.
    pub fn put_into(self, request: &mut Request) {
        match (self, &mut request.ask) {
            (Replacement::Arguments(new), Ask::Tool { arguments, .. }) => *arguments = Arguments::Typed(new),
            (Replacement::Argv(words), ask) => *ask = Ask::Argv(words),
            // Only of a tool's call are the arguments ever replaced; then nothing is left to run.
            (Replacement::Arguments(_), ask) => *ask = Ask::Argv(Vec::new()),
        }
    }
}

/// What comes next for a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// The checks are done with it.
    Settled(Ruling),
    /// It was rewritten: put this in its place and judge it again, from the start.
    Again(Replacement),
}

/// The rounds of one request. `ask` of an earlier round stays: a person is asked in the end, about what will run.
#[derive(Debug, Default)]
pub struct Rounds {
    rewrites: usize,
    ask: Option<Objection>,
    /// What each check said, in the order in which they were asked, of all rounds.
    pub findings: Vec<Finding>,
    /// Sentences for the result's `warnings`.
    pub warnings: Vec<String>,
}

impl Rounds {
    /// Has the request, as it is now, judged by all checks that speak of it.
    pub fn judge(
        &mut self,
        checks: &[Asked<'_>],
        subject: &Subject<'_>,
        facts: &Facts,
        stop: Stop<'_>,
    ) -> Next {
        let mut tally = Tally::default();
        let (rewriting, plain): (Vec<&Asked<'_>>, Vec<_>) = checks.iter().partition(|a| a.check.rewrites);
        tally.hear(&plain, |check| document::request(subject, check), facts, stop);
        let rewritten = rewrite(&mut tally, &rewriting, subject, facts, stop);
        let ruling = tally.ruling();
        self.findings.append(&mut tally.findings);
        let new = tally.warnings.into_iter().filter(|sentence| !self.warnings.contains(sentence));
        self.warnings.extend(new.collect::<Vec<_>>());
        if let Ruling::Ask(objection) = &ruling {
            self.keep(objection);
        }
        match (ruling, rewritten) {
            (ruling @ (Ruling::Block(_) | Ruling::Cancelled(_) | Ruling::Stopped), _) => {
                Next::Settled(ruling)
            }
            (_, Some((by, _))) if self.rewrites == MOST_REWRITES => {
                Next::Settled(Ruling::Block(restless(by)))
            }
            (_, Some((_, replacement))) => {
                self.rewrites += 1;
                Next::Again(replacement)
            }
            (_, None) => Next::Settled(self.ask.clone().map_or(Ruling::Pass, Ruling::Ask)),
        }
    }

    fn keep(&mut self, objection: &Objection) {
        let severity = |old: &Objection| old.severity;
        if self.ask.as_ref().map(severity).is_none_or(|old: Severity| objection.severity > old) {
            self.ask = Some(objection.clone());
        }
    }
}

fn restless(check: &Check) -> Objection {
    Objection {
        check: check.name.clone(),
        at: check.at.clone(),
        reason: format!("it rewrites what it has rewritten already, after {MOST_REWRITES} times still"),
        failed: true,
        severity: check.severity,
        asks: false,
    }
}

/// Asks those that may rewrite, one after the other, each on what the last one made. What came of it, and who was the
/// last to change it.
fn rewrite<'c>(
    tally: &mut Tally,
    checks: &[&Asked<'c>],
    subject: &Subject<'_>,
    facts: &Facts,
    stop: Stop<'_>,
) -> Option<(&'c Check, Replacement)> {
    let mut now: Option<(&Check, Replacement)> = None;
    for asked in checks {
        if tally.over() {
            break;
        }
        let made = now.as_ref().map(|(_, replacement)| replacement);
        let seen = as_rewritten(subject, made);
        let wanted =
            tally.hear(&[asked], |check| document::request(&seen, check), facts, stop).pop().flatten();
        let Some(wanted) = wanted else { continue };
        match replacement(wanted, &seen) {
            Ok(None) => {}
            Ok(Some(new)) => {
                tally.rewrote(asked.check, "request");
                now = Some((asked.check, new));
            }
            Err(why) => tally.failed(asked.check, &why, &[]),
        }
    }
    now
}

/// What a check is told of a request that was rewritten and not judged again yet: the words of a tool's call are not
/// known before that, and the command string is no longer what would run.
fn as_rewritten<'s>(subject: &Subject<'s>, made: Option<&'s Replacement>) -> Subject<'s> {
    match made {
        None => *subject,
        Some(Replacement::Argv(words)) => Subject { argv: Some(words), command: None, ..*subject },
        Some(Replacement::Arguments(new)) => Subject { arguments: Some(new), argv: None, ..*subject },
    }
}

/// The replacement that a check wants; `None` where it is what the check has read.
fn replacement(wanted: Value, seen: &Subject<'_>) -> Result<Option<Replacement>, String> {
    let Value::Object(mut fields) = wanted else {
        return Err("its replacement is not an object".to_owned());
    };
    let key = if seen.tool.is_some() { "arguments" } else { "argv" };
    let value = fields.shift_remove(key);
    nothing_else(&fields, true)?;
    match (key, value) {
        ("arguments", Some(Value::Object(new))) => {
            Ok((seen.arguments != Some(&new)).then_some(Replacement::Arguments(new)))
        }
        ("arguments", _) => Err("its replacement for a tool's call has no object of arguments".to_owned()),
        (_, Some(Value::Array(words))) => {
            let words = words.into_iter().map(word).collect::<Result<Vec<_>, _>>()?;
            if words.is_empty() {
                return Err("its replacement has no words".to_owned());
            }
            Ok((seen.argv != Some(&words[..])).then_some(Replacement::Argv(words)))
        }
        _ => Err("its replacement has no list argv".to_owned()),
    }
}

fn word(value: Value) -> Result<OsString, String> {
    match value {
        Value::String(text) if text.contains('\0') => {
            Err("its replacement has a word with a NUL byte".to_owned())
        }
        Value::String(text) => Ok(text.into()),
        _ => Err("its replacement has a word that is not a text".to_owned()),
    }
}
