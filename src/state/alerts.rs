//! Alerts: figures that somebody wants to be told of, once in a window.
//!
//! Counting, comparing and keeping that it was told happen in one transaction, so of many processes that pass a figure
//! together one is told to tell. Running the alert's program is for the caller, after the transaction.

use rusqlite::Transaction;
use serde_json::{Value, json};

use super::amount::Amount;
use super::ledger::{self, Ledger};
use super::rates::{self, Weighed};
use super::{Moment, StateError};
use crate::policy::model::{Alert, AlertOn, Policy};
use crate::request::units::show_duration;

/// Something that alerts count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A request was denied.
    Denial,
    /// A run reached its `wall_time`.
    Timeout,
    /// A check blocked or failed.
    Check,
}

impl Event {
    fn as_str(self) -> &'static str {
        match self {
            Event::Denial => "denied",
            Event::Timeout => "timeout",
            Event::Check => "check",
        }
    }

    fn is_counted_by(self, alert: &Alert) -> bool {
        matches!(
            (self, &alert.on),
            (Event::Denial, AlertOn::Denials)
                | (Event::Timeout, AlertOn::Timeouts)
                | (Event::Check, AlertOn::Checks)
        )
    }
}

/// An alert whose figure was passed: its program is to be run now.
#[derive(Debug)]
pub struct Alarm<'p> {
    /// The policy it stands in.
    pub policy: &'p Policy,
    /// The alert.
    pub alert: &'p Alert,
    /// What it is told, as JSON: `alert`, `file`, `line`, `on`, `rate`, `key`, `figure`, `above`, `per`, `at`.
    pub facts: Value,
}

/// Counts an event for every alert on such events; gives those whose figure is passed and that were silent for a window.
///
/// # Errors
/// The store cannot be used.
pub fn note<'p>(
    tx: &Transaction<'_>,
    now: &Moment,
    policies: &'p [Policy],
    event: Event,
) -> Result<Vec<Alarm<'p>>, StateError> {
    let mut alarms = Vec::new();
    for (policy, alert) in all(policies).filter(|(_, alert)| event.is_counted_by(alert)) {
        let standing = ledger_of(policy, alert, event.as_str()).add(tx, "", now, Amount::ONE)?;
        alarms.extend(pass(tx, now, (policy, alert), event.as_str(), standing.used, Value::Null)?);
    }
    ledger::sweep(tx, now)?;
    Ok(alarms)
}

/// After a call was counted: the alerts on the use of its rates whose figure is passed and that were silent for a window.
///
/// # Errors
/// The store cannot be used.
pub fn note_rates<'p>(
    tx: &Transaction<'_>,
    now: &Moment,
    policies: &'p [Policy],
    counted: &[Weighed<'_>],
) -> Result<Vec<Alarm<'p>>, StateError> {
    let mut alarms = Vec::new();
    for (policy, alert) in all(policies) {
        let AlertOn::Rate(name) = &alert.on else { continue };
        let speaks = |one: &&Weighed<'_>| one.policy.path == policy.path && one.rate.name == *name;
        for one in counted.iter().filter(speaks) {
            let used = rates::used(tx, now, one)?;
            let key = json!({ "rate": name, "key": one.key.to_json() });
            alarms.extend(pass(tx, now, (policy, alert), "rate", used, key)?);
        }
    }
    Ok(alarms)
}

/// Whether any alert counts such events, so that the store has to be opened for one.
pub fn counts(policies: &[Policy], event: Event) -> bool {
    all(policies).any(|(_, alert)| event.is_counted_by(alert))
}

fn all(policies: &[Policy]) -> impl Iterator<Item = (&Policy, &Alert)> {
    rates::each(policies).flat_map(|policy| policy.oversight.alerts.iter().map(move |alert| (policy, alert)))
}

fn ledger_of<'a>(policy: &'a Policy, alert: &'a Alert, on: &'a str) -> Ledger<'a> {
    Ledger { policy, kind: "alert", name: &alert.name, measure: on, per: alert.per }
}

fn pass<'p>(
    tx: &Transaction<'_>,
    now: &Moment,
    (policy, alert): (&'p Policy, &'p Alert),
    on: &'static str,
    figure: Amount,
    rate: Value,
) -> Result<Option<Alarm<'p>>, StateError> {
    // A figure that is no number was refused when the policy was read; one that slipped through is passed by everything.
    let above = Amount::parse(&alert.above).unwrap_or(Amount::ZERO);
    if figure <= above || !ledger_of(policy, alert, on).tell(tx, now)? {
        return Ok(None);
    }
    let facts = json!({
        "alert": alert.name,
        "file": alert.at.file.to_string_lossy(),
        "line": alert.at.line,
        "on": on,
        "rate": rate["rate"],
        "key": rate["key"],
        "figure": figure.to_json(),
        "above": above.to_json(),
        "per": show_duration(alert.per),
        "at": now.wall,
    });
    Ok(Some(Alarm { policy, alert, facts }))
}

#[cfg(test)]
mod tests;
