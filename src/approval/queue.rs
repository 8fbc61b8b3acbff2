//! Requests in the store: filed, answered, used once.
//!
//! Each function is a part of somebody's transaction. What they say no to is a [`Denial`]; only a store that cannot be
//! used is an error.

use std::time::Duration;

use rusqlite::{Connection, Transaction};

use super::bound::Bound;
use super::entry::{Entry, Lately, State};
use super::kept::Kept;
use super::refusal::refusal;
use crate::decision::Denial;
use crate::policy::oversight::Asked;
use crate::request::quote;
use crate::state::approvals::{self, Answer, Edit, Row};
use crate::state::{Moment, StateError};
use crate::sys::account::Person;

mod output;
mod said;
#[cfg(test)]
pub(super) mod tests;

pub use output::{check_output, hand_out};

/// A part of a transaction that may say no.
type Outcome<T> = Result<Result<T, Box<Denial>>, StateError>;

/// How many earlier answers are shown.
const LATELY: u32 = 5;
/// Digits of an id: no letter in it looks like another or like a digit.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Digits of an id, five bits each. An id is no secret, but nobody should meet another's by chance.
const ID_LENGTH: usize = 12;

/// What the policies say of a filed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How long it counts, its answer included.
    pub expires: Duration,
    /// How many of one agent may wait.
    pub max_pending: u64,
    /// After how long somebody else is told.
    pub escalate_after: Option<Duration>,
}

impl Terms {
    /// The terms of all policies together.
    pub fn of(asked: &Asked<'_>) -> Terms {
        let escalate_after = asked.escalate.iter().map(|(_, after)| *after).min();
        Terms { expires: asked.expires, max_pending: asked.max_pending, escalate_after }
    }
}

/// A request that waits, or was approved already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filed {
    /// Its id.
    pub id: String,
    /// Pending or approved.
    pub state: State,
    /// When its time is over, RFC 3339.
    pub expires_at: String,
    /// Other words were approved in place of those that were asked for.
    pub edited: bool,
    /// It is the output of a run that is over.
    pub output: bool,
    /// It was not there before.
    pub fresh: bool,
}

impl Filed {
    /// What the asker can do, in one sentence.
    pub fn hint(&self) -> String {
        let id = &self.id;
        match (self.state, self.edited) {
            _ if self.output => self.output_hint(),
            (State::Approved, true) => {
                format!(
                    "other words were approved in its place; run those with --approval {id} and no command"
                )
            }
            (State::Approved, false) => format!("it is approved; run it with --approval {id}"),
            _ => format!(
                "nothing ran; once a person has answered (guardexec approvals show {id}, with the same --policy), run it with --approval {id} until \
                 {}, or let --wait wait for the answer",
                self.expires_at
            ),
        }
    }
}

impl Filed {
    /// What was filed before.
    pub fn of(entry: &Entry) -> Filed {
        Filed {
            id: entry.id.clone(),
            state: entry.state,
            expires_at: entry.expires_at.clone(),
            edited: entry.digest != entry.asked_digest,
            output: entry.bound.output.is_some(),
            fresh: false,
        }
    }

    fn output_hint(&self) -> String {
        let (id, until) = (&self.id, &self.expires_at);
        match self.state {
            State::Approved => {
                format!(
                    "it did run, do not run it again; its result is approved: get it with --approval {id} and no command"
                )
            }
            _ => format!(
                "it did run, do not run it again; once a person has answered (guardexec approvals show {id}), get its result \
                 with --approval {id} and no command until {until}, or let --wait wait for the answer"
            ),
        }
    }
}

/// What is filed.
#[derive(Debug)]
pub struct Filing<'a> {
    /// What an approval binds to.
    pub bound: &'a Bound,
    /// What is kept to run it again.
    pub kept: Kept,
    /// For how long, and how many.
    pub terms: Terms,
    /// Who runs guardexec.
    pub by: &'a Person,
}

/// Files a request. One that asks for exactly the same and is still open shares its id, and does not last longer by that.
///
/// # Errors
/// Denied where the agent has too many that wait (`approval_too_many`).
pub fn file(tx: &Transaction<'_>, now: &Moment, filing: Filing<'_>) -> Outcome<Filed> {
    approvals::expire(tx, now)?;
    let digest = filing.bound.digest();
    if let Some(row) = approvals::open_like(tx, now, &digest)? {
        return Ok(Ok(filed(&row, filing.bound.output.is_some(), false)));
    }
    let bucket = bucket(filing.bound.agent.as_deref());
    let terms = filing.terms;
    if approvals::pending(tx, now, &bucket)? >= terms.max_pending {
        return Ok(Err(too_many(&bucket, terms.max_pending)));
    }
    let kept = filing.kept.with_values(filing.bound);
    let row = Row {
        id: new_id()?,
        state: State::Pending,
        asked_digest: digest.clone(),
        digest,
        bound: encode(&nameless(filing.bound)),
        asked_argv: None,
        private: Some(encode(&kept)),
        bucket,
        cause: filing.bound.causes.first().map(|cause| cause.id.clone()).unwrap_or_default(),
        filed_at: now.wall.clone(),
        filed_by: encode(filing.by),
        expires: now.plus(terms.expires),
        expires_at: now.wall_after(terms.expires),
        escalate: terms.escalate_after.map(|after| now.plus(after)),
        escalated_at: None,
        answer: None,
        used_at: None,
        run_id: None,
    };
    approvals::insert(tx, &row)?;
    Ok(Ok(filed(&row, filing.bound.output.is_some(), true)))
}

fn filed(row: &Row, output: bool, fresh: bool) -> Filed {
    let edited = row.digest != row.asked_digest;
    Filed { id: row.id.clone(), state: row.state, expires_at: row.expires_at.clone(), edited, output, fresh }
}

/// With whom a request counts: `lead/a` and `lead/b` are both lead's, who could have any number of such.
fn bucket(agent: Option<&str>) -> String {
    agent.and_then(|agent| agent.split('/').next()).unwrap_or_default().to_owned()
}

fn too_many(bucket: &str, most: u64) -> Box<Denial> {
    let who = match bucket {
        "" => "askers without a name".to_owned(),
        name => format!("agent {}", quote::repr(name.as_bytes())),
    };
    let message = format!("{who} cannot have more than {most} requests that wait for an answer");
    refusal("approval_too_many", message, "wait until a person has answered some (guardexec approvals list)")
}

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
    approvals::expire(tx, now)?;
    let entry = match find(tx, now, id)? {
        Ok(entry) => entry,
        Err(denial) => return Ok(Err(denial)),
    };
    let answer = Answer {
        approved: verdict.approved,
        at: now.wall.clone(),
        by: encode(verdict.by),
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
