//! Requests in the store: filed, answered, used once.
//!
//! Each function is a part of somebody's transaction. What they say no to is a [`Denial`]; only a store that cannot be
//! used is an error.

use rusqlite::{Connection, Transaction};

use super::bound::Bound;
use super::entry::{Answerer, Entry, Lately, State};
use super::kept::Kept;
use super::refusal::refusal;
use crate::decision::Denial;
use crate::request::quote;
use crate::state::approvals::{self, Answer, Edit};
use crate::state::{Moment, StateError};
use crate::sys::account::Person;

mod filing;
mod output;
mod said;
#[cfg(test)]
pub(super) mod tests;

pub use filing::{AtOnce, Filed, Filing, TOO_MANY, Terms, file, keep_answer, use_answer};
pub use output::{check_output, hand_out};

/// A part of a transaction that may say no.
type Outcome<T> = Result<Result<T, Box<Denial>>, StateError>;

/// How many earlier answers are shown.
const LATELY: u32 = 5;
/// Digits of an id: no letter in it looks like another or like a digit.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Digits of an id, five bits each. An id is no secret, but nobody should meet another's by chance.
const ID_LENGTH: usize = 12;

/// What came of using an approval.
#[derive(Debug)]
pub enum Use {
    /// It is used now: the run may start, and this approval starts nothing else.
    Run(Box<Entry>),
    /// Nobody has answered yet.
    Wait(Filed),
}

/// Uses an approval for a request, exactly once whoever tries at the same time.
///
/// # Errors
/// Denied where there is none that can be used (`approval_unknown`, `approval_consumed`, `approval_declined`,
/// `approval_expired`), or where it is for another request (`approval_mismatch`, `approval_stale`, `approval_edited`).
pub fn consume(tx: &Transaction<'_>, now: &Moment, id: &str, bound: &Bound, run_id: &str) -> Outcome<Use> {
    let waiting = match check(tx, now, id, bound)? {
        Ok(entry) => entry,
        Err(denial) => return Ok(Err(denial)),
    };
    if let Use::Run(entry) = &waiting {
        use_up(tx, now, &entry.id, run_id)?;
    }
    Ok(Ok(waiting))
}

fn use_up(tx: &Transaction<'_>, now: &Moment, id: &str, run_id: &str) -> Result<(), StateError> {
    if !approvals::consume(tx, now, id, run_id)? {
        // Inside one transaction it cannot have changed since it was looked at.
        return Err(StateError::Corrupt("state.db".into(), format!("approval {id} changed meanwhile")));
    }
    Ok(())
}

/// The same without using it up: what using it would come to.
///
/// # Errors
/// As [`consume`].
pub fn check(db: &Connection, now: &Moment, id: &str, bound: &Bound) -> Outcome<Use> {
    let Some(row) = approvals::find(db, now, id)? else { return Ok(Err(unknown(id))) };
    let entry = Entry::of(row, now)?;
    let same_asker = entry.bound.agent == bound.agent && entry.bound.session == bound.session;
    if !same_asker {
        return Ok(Err(entry.another_asker()));
    }
    if entry.bound.output.is_some() {
        return Ok(Err(entry.has_run()));
    }
    if !entry.state.is_open() {
        return Ok(Err(entry.closed()));
    }
    let bound = bound.in_terms_of(&entry.bound);
    if bound.digest() != entry.digest {
        return Ok(Err(entry.differs(&bound)));
    }
    Ok(Ok(match entry.state {
        State::Approved => Use::Run(Box::new(entry)),
        _ => Use::Wait(Filed::of(&entry)),
    }))
}

/// The request of this id.
///
/// # Errors
/// Denied where there is none (`approval_unknown`).
pub fn find(db: &Connection, now: &Moment, id: &str) -> Outcome<Entry> {
    match approvals::find(db, now, id)? {
        Some(row) => Entry::of(row, now).map(Ok),
        None => Ok(Err(unknown(id))),
    }
}

/// The last answers to what the same rule asked for.
///
/// # Errors
/// As every use of the store.
pub fn lately(db: &Connection, now: &Moment, entry: &Entry) -> Result<Vec<Lately>, StateError> {
    let Some(cause) = entry.bound.causes.first() else { return Ok(Vec::new()) };
    let rows = approvals::lately(db, now, &cause.id, LATELY)?;
    let all = rows.iter().map(Lately::of).collect::<Result<Vec<_>, _>>()?;
    Ok(all.into_iter().flatten().filter(|one| one.id != entry.id).collect())
}

/// Requests of which somebody else is to be told now; nobody else is given them again.
///
/// # Errors
/// As every use of the store.
pub fn escalations(tx: &Transaction<'_>, now: &Moment) -> Result<Vec<Entry>, StateError> {
    approvals::escalations(tx, now)?.into_iter().map(|row| Entry::of(row, now)).collect()
}

/// What a person answers.
#[derive(Debug)]
pub struct Verdict<'a> {
    /// Yes or no.
    pub approved: bool,
    /// By whom.
    pub by: &'a Person,
    /// The note to a yes, the reason of a no.
    pub said: Option<&'a str>,
    /// What is approved in place of what was asked: what it binds to, and what is kept for it.
    pub edit: Option<(Bound, Kept)>,
}

/// Answers a request that waits.
///
/// # Errors
/// Denied where it does not wait: the sentence says what was answered.
pub fn answer(tx: &Transaction<'_>, now: &Moment, id: &str, verdict: Verdict<'_>) -> Outcome<Entry> {
    let entry = match find(tx, now, id)? {
        Ok(entry) => entry,
        Err(denial) => return Ok(Err(denial)),
    };
    let answer = Answer {
        approved: verdict.approved,
        at: now.wall.clone(),
        by: encode(&Answerer::from(verdict.by.clone())),
        by_person: true,
        said: verdict.said.map(str::to_owned),
    };
    let edit = verdict.edit.map(|(bound, kept)| Edit {
        digest: bound.digest(),
        asked_argv: encode(&entry.bound.argv),
        bound: encode(&nameless(&bound)),
        private: encode(&kept.with_values(&bound)),
    });
    if !approvals::answer(tx, now, id, &answer, edit.as_ref())? {
        return Ok(Err(entry.answered_already()));
    }
    find(tx, now, id)
}

/// Without the values of the environment, which are kept apart.
fn nameless(bound: &Bound) -> Bound {
    let mut bound = bound.clone();
    bound.env.iter_mut().for_each(|variable| variable.value = None);
    bound
}

fn encode<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("all keys are texts")
}

fn new_id() -> Result<String, StateError> {
    let mut bytes = [0; ID_LENGTH];
    getrandom::fill(&mut bytes).map_err(|error| StateError::Io {
        path: "/dev/urandom".into(),
        doing: "name a request by",
        source: error.into(),
    })?;
    Ok(bytes.iter().map(|byte| char::from(DIGITS[usize::from(byte & 31)])).collect())
}

/// The refusal where there is no such request.
pub fn unknown(id: &str) -> Box<Denial> {
    let message = format!("there is no approval {}", quote::repr(id.as_bytes()));
    refusal(
        "approval_unknown",
        message,
        "guardexec approvals list --all shows those that are kept for this --policy and --state",
    )
}
