//! Rates: at most so much in any window, exactly.
//!
//! [`weigh`] says what each rate that speaks of a call holds and whether the call would go beyond it; [`count`] adds the
//! call. Both belong into the same [`super::Store::transaction`], so that no other call comes between: what was counted is
//! never given back. A rate keeps its counts under its policy's path and file, its name and what it adds up: its `max` and
//! `per` can be edited without losing them, and no other path to the same policy begins afresh.

mod key;

use std::time::Duration;

use rusqlite::{Connection, Transaction};
use serde_json::{Map, Value, json};

pub use key::Key;

use super::amount::{Amount, AmountError};
use super::ledger::{self, Ledger, Standing};
use super::refusal::{Refusal, span};
use super::{Moment, StateError};
use crate::decision::{Grant, listed};
use crate::policy::model::{Measure, Policy, Rate, Verdict};
use crate::request::Asker;
use crate::request::quote::{escape_text, repr};
use crate::request::units::show_duration;

/// A call that judging allows or asks about, as far as rates look at it.
#[derive(Debug, Clone, Default)]
pub struct Call<'a> {
    /// The ids of all deciding rules; of a typed tool, its name.
    pub ids: Vec<&'a str>,
    /// Who asks.
    pub agent: Option<&'a str>,
    /// The session.
    pub session: Option<&'a str>,
    /// The tool that is called, and its arguments with the defaults filled in.
    pub tool: Option<(&'a str, &'a Map<String, Value>)>,
}

impl<'a> Call<'a> {
    /// The call of a grant, by whom it was asked.
    pub fn of(grant: &'a Grant, asker: &'a Asker) -> Call<'a> {
        Call {
            ids: grant.ids.iter().map(String::as_str).collect(),
            agent: asker.agent.as_deref(),
            session: asker.session.as_deref(),
            tool: grant.tool.as_ref().map(|tool| (tool.name.as_str(), &tool.arguments)),
        }
    }
}

/// What one rate makes of a call.
#[derive(Debug, Clone)]
pub struct Weighed<'p> {
    /// The policy it stands in.
    pub policy: &'p Policy,
    /// The rate.
    pub rate: &'p Rate,
    /// Under which key the call counts.
    pub key: Key,
    /// What it holds and what the call adds.
    pub weight: Weight,
}

/// What a rate holds and what a call adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Weight {
    /// The call can be counted.
    Counted {
        /// In the window that ends now, without the call.
        used: Amount,
        /// What the call adds.
        amount: Amount,
        /// The most that a window may hold.
        max: Amount,
        /// How long until the oldest entry leaves the window.
        oldest_leaves_in: Option<Duration>,
    },
    /// It cannot, and so must not run: the argument, and what is wrong with it.
    Unusable(String),
}

/// Where counts are read; `None` where nothing was kept yet, so that all of them stand at nothing.
pub type Source<'a> = Option<(&'a Connection, &'a Moment)>;

/// Every rate that speaks of the call, in the order of the policies. Reads only.
///
/// # Errors
/// The store cannot be read.
pub fn weigh<'p>(
    source: Source<'_>,
    policies: &'p [Policy],
    call: &Call<'_>,
) -> Result<Vec<Weighed<'p>>, StateError> {
    let mut all = Vec::new();
    for policy in each(policies) {
        for rate in &policy.oversight.rates {
            let Some(amount) = amount(policy, rate, call) else { continue };
            let key = Key::of(rate, call);
            let weight = match limits(rate).and_then(|max| Ok((amount?, max))) {
                Ok((amount, max)) => {
                    let standing = standing(source, policy, rate, &key)?;
                    let oldest_leaves_in = leaves_in(source, rate, &standing);
                    Weight::Counted { used: standing.used, amount, max, oldest_leaves_in }
                }
                Err(why) => Weight::Unusable(why),
            };
            all.push(Weighed { policy, rate, key, weight });
        }
    }
    Ok(all)
}

/// Counts the call under every rate that was weighed, and lets go of some of what has left its window.
///
/// # Errors
/// The store cannot be written.
pub fn count(tx: &Transaction<'_>, now: &Moment, weighed: &[Weighed<'_>]) -> Result<(), StateError> {
    for one in weighed {
        if let Weight::Counted { amount, .. } = one.weight
            && amount != Amount::ZERO
        {
            ledger_of(one.policy, one.rate, &measure(one.rate)).add(tx, &one.key.encoded(), now, amount)?;
        }
    }
    ledger::sweep(tx, now)
}

/// Every policy once: one that was named twice, by whatever paths, counts once.
pub(super) fn each(policies: &[Policy]) -> impl Iterator<Item = &Policy> {
    let first = |n: usize, policy: &Policy| {
        policies[..n].iter().all(|a| a.path != policy.path && a.identity != policy.identity)
    };
    policies.iter().enumerate().filter(move |(n, policy)| first(*n, policy)).map(|(_, policy)| policy)
}

/// What the rate holds now under the key that was weighed.
pub(super) fn used(db: &Connection, now: &Moment, weighed: &Weighed<'_>) -> Result<Amount, StateError> {
    Ok(standing(Some((db, now)), weighed.policy, weighed.rate, &weighed.key)?.used)
}

/// What the call adds to the rate; `None` where the rate does not speak of it.
fn amount(policy: &Policy, rate: &Rate, call: &Call<'_>) -> Option<Result<Amount, String>> {
    if !rate.speaks_of(&call.ids) || !listed(rate.agents.as_deref(), call.agent) {
        return None;
    }
    let Measure::Sum(param) = &rate.measure else { return Some(Ok(Amount::ONE)) };
    let (name, arguments) = call.tool?;
    let says =
        |why: String| format!("argument {} of {} {why}", repr(param.as_bytes()), repr(name.as_bytes()));
    match arguments.get(param) {
        Some(value) => Some(Amount::of(value).map_err(|why| says(why.to_string()))),
        // An amount that a tool has and a call leaves out is not nothing.
        None if has_param(policy, name, param) => Some(Err(says("is missing, and is counted".to_owned()))),
        None => None,
    }
}

fn has_param(policy: &Policy, tool: &str, param: &str) -> bool {
    policy.tools.get(tool).is_some_and(|tool| tool.params.iter().any(|p| p.name == param))
}

fn limits(rate: &Rate) -> Result<Amount, String> {
    Amount::parse(&rate.max).map_err(|why: AmountError| format!("its max {why}"))
}

fn measure(rate: &Rate) -> String {
    match &rate.measure {
        Measure::Count => "count".to_owned(),
        Measure::Sum(param) => format!("sum:{param}"),
    }
}

fn ledger_of<'a>(policy: &'a Policy, rate: &'a Rate, measure: &'a str) -> Ledger<'a> {
    Ledger { policy, kind: "rate", name: &rate.name, measure, per: rate.per }
}

fn standing(source: Source<'_>, policy: &Policy, rate: &Rate, key: &Key) -> Result<Standing, StateError> {
    match source {
        Some((db, now)) => ledger_of(policy, rate, &measure(rate)).standing(db, &key.encoded(), now),
        None => Ok(Standing::NOTHING),
    }
}

fn leaves_in(source: Source<'_>, rate: &Rate, standing: &Standing) -> Option<Duration> {
    let (_, now) = source?;
    Some(rate.per.saturating_sub(now.since(standing.oldest?)))
}

impl Weighed<'_> {
    /// `Allow` where the call stays within the rate; else what the rate says then. What cannot be counted is denied.
    pub fn verdict(&self) -> Verdict {
        match &self.weight {
            Weight::Unusable(_) => Verdict::Deny,
            Weight::Counted { used, amount, max, .. } => match used.plus(*amount) {
                Some(sum) if sum <= *max => Verdict::Allow,
                _ => self.rate.then,
            },
        }
    }

    /// Why the call may not go on, or has to be asked about; `None` where it stays within the rate.
    pub fn refusal(&self) -> Option<Refusal> {
        let refusal = |code, message: String, hint| {
            let name = self.rate.name.clone();
            Some(Refusal { code, message, hint, name, at: self.rate.at.clone() })
        };
        let named = format!("rate {}", repr(self.rate.name.as_bytes()));
        match &self.weight {
            Weight::Unusable(why) => {
                let hint = "give it as a plain number, such as 12.50".to_owned();
                refusal("amount_invalid", format!("{named} cannot count this call: {why}"), hint)
            }
            Weight::Counted { .. } if self.verdict() == Verdict::Allow => None,
            Weight::Counted { used, amount, max, oldest_leaves_in } => {
                let reason = self.rate.reason.as_ref().map(|r| format!("{}: ", escape_text(r)));
                let message =
                    format!("{}{named} {}", reason.unwrap_or_default(), self.beyond(*used, *amount, *max));
                let hint = match oldest_leaves_in {
                    _ if amount > max => "ask for less: no window allows that much at once".to_owned(),
                    Some(wait) => format!("wait: the oldest leaves the window in {}", span(*wait)),
                    None => "ask for less".to_owned(),
                };
                refusal("rate_limited", message, hint)
            }
        }
    }

    fn beyond(&self, used: Amount, amount: Amount, max: Amount) -> String {
        let per = show_duration(self.rate.per);
        let each = self.key.phrase();
        match &self.rate.measure {
            Measure::Count => format!("allows {max} calls in {per}{each}, and {used} are used"),
            Measure::Sum(param) => format!(
                "allows {max} of {} in {per}{each}, of which {used} are used, and this call wants {amount}",
                repr(param.as_bytes()),
            ),
        }
    }

    /// For `explain`, a person who decides, and programs.
    pub fn to_json(&self) -> Value {
        let mut object = facts(self.rate, Some(&self.key));
        match &self.weight {
            Weight::Counted { used, amount, oldest_leaves_in, .. } => {
                object.insert("use".into(), used.to_json());
                object.insert("amount".into(), amount.to_json());
                object.insert("oldest_leaves_in_ms".into(), json!(oldest_leaves_in.map(millis)));
            }
            Weight::Unusable(why) => {
                object.insert("unusable".into(), json!(why));
            }
        }
        object.insert("verdict".into(), json!(self.verdict().as_str()));
        Value::Object(object)
    }
}

/// What a rate holds under one key, for a listing.
#[derive(Debug, Clone)]
pub struct Held<'p> {
    /// The rate.
    pub rate: &'p Rate,
    /// The key; `None` for a rate that holds nothing.
    pub key: Option<Key>,
    /// In the window that ends now.
    pub used: Amount,
    /// How long until the oldest entry leaves it, and when that is for people.
    pub oldest_leaves: Option<(Duration, String)>,
}

/// Where all rates of the policies stand: one entry for each key that holds something, at least one for each rate. Reads
/// only.
///
/// # Errors
/// The store cannot be read.
pub fn held<'p>(source: Source<'_>, policies: &'p [Policy]) -> Result<Vec<Held<'p>>, StateError> {
    let mut all = Vec::new();
    for policy in each(policies) {
        for rate in &policy.oversight.rates {
            let found = match source {
                Some((db, now)) => ledger_of(policy, rate, &measure(rate)).standings(db, now)?,
                None => Vec::new(),
            };
            if found.is_empty() {
                all.push(Held { rate, key: None, used: Amount::ZERO, oldest_leaves: None });
            }
            for (key, standing) in found {
                let wait = leaves_in(source, rate, &standing);
                let oldest_leaves = wait.zip(source).map(|(wait, (_, now))| (wait, now.wall_after(wait)));
                all.push(Held { rate, key: Some(Key::decoded(&key)?), used: standing.used, oldest_leaves });
            }
        }
    }
    Ok(all)
}

impl Held<'_> {
    /// As `rates --json` prints it.
    pub fn to_json(&self) -> Value {
        let mut object = facts(self.rate, self.key.as_ref());
        object.insert("use".into(), self.used.to_json());
        let leaves = self.oldest_leaves.as_ref();
        object.insert("oldest_leaves_in_ms".into(), json!(leaves.map(|(wait, _)| millis(*wait))));
        object.insert("oldest_leaves_at".into(), json!(leaves.map(|(_, at)| at)));
        Value::Object(object)
    }

    /// One line for a person; safe to print.
    pub fn to_line(&self) -> String {
        let key = self.key.as_ref().map_or_else(String::new, |key| key.phrase());
        let of = match &self.rate.measure {
            Measure::Count => String::new(),
            Measure::Sum(param) => format!(" of {}", escape_text(param)),
        };
        let leaves = match &self.oldest_leaves {
            Some((wait, _)) => format!(", the oldest leaves in {}", span(*wait)),
            None => String::new(),
        };
        format!(
            "{}: {} {}: {}{of} of {} in {}{key}, then {}{leaves}",
            escape_text(&self.rate.at.to_string()),
            "rate",
            repr(self.rate.name.as_bytes()),
            self.used,
            escape_text(&self.rate.max),
            show_duration(self.rate.per),
            self.rate.then.as_str(),
        )
    }
}

/// What is always said of a rate.
fn facts(rate: &Rate, key: Option<&Key>) -> Map<String, Value> {
    let max = Amount::parse(&rate.max).map_or_else(|_| rate.max.clone().into(), Amount::to_json);
    let sum = match &rate.measure {
        Measure::Count => None,
        Measure::Sum(param) => Some(param),
    };
    let Value::Object(object) = json!({
        "name": rate.name,
        "file": rate.at.file.to_string_lossy(),
        "line": rate.at.line,
        "key": key.map(Key::to_json),
        "sum": sum,
        "max": max,
        "per": show_duration(rate.per),
        "then": rate.then.as_str(),
    }) else {
        return Map::new();
    };
    object
}

fn millis(span: Duration) -> u64 {
    // Up, so that whoever waits that long does not come too early.
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
