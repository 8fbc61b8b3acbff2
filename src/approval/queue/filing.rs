//! Putting a request into the store, or the answer to one that was given at once.

use std::time::Duration;

use rusqlite::Transaction;

use super::{Outcome, encode, nameless, new_id};
use crate::approval::bound::Bound;
use crate::approval::entry::{Answerer, Entry, State};
use crate::approval::kept::Kept;
use crate::approval::refusal::refusal;
use crate::decision::Denial;
use crate::policy::oversight::Asked;
use crate::request::quote;
use crate::state::approvals::{self, Answer, Row};
use crate::state::{Moment, StateError};
use crate::sys::account::Person;

/// How many times `max_pending` the agents may have together whose names nobody but they themselves say.
const CLAIMED: u64 = 4;

/// How many times `max_pending` all may have together. `$GUARDEXEC_AGENT` is only as good as whoever sets the environment:
/// under ever new names an asker that sets it itself would fill the store.
const TOGETHER: u64 = 16;

/// The code of a refusal where too many wait.
pub const TOO_MANY: &str = "approval_too_many";

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
    let digest = filing.bound.digest();
    if let Some(row) = approvals::open_like(tx, now, &digest)? {
        return Ok(Ok(filed(&row, filing.bound.output.is_some(), false)));
    }
    let bucket = bucket(filing.bound.agent.as_deref());
    let terms = filing.terms;
    let proven = filing.kept.is_of_proven_agent();
    let output = filing.bound.output.is_some();
    if let Some(denial) = too_many(tx, now, &Whose { bucket: &bucket, proven, output }, terms.max_pending)? {
        return Ok(Err(denial));
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
        proven,
        cause: cause(filing.bound),
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
    approvals::insert(tx, now, &row)?;
    Ok(Ok(filed(&row, output, true)))
}

fn filed(row: &Row, output: bool, fresh: bool) -> Filed {
    let edited = row.digest != row.asked_digest;
    Filed { id: row.id.clone(), state: row.state, expires_at: row.expires_at.clone(), edited, output, fresh }
}

/// With whom a request counts: `lead/a` and `lead/b` are both lead's, who could have any number of such.
fn bucket(agent: Option<&str>) -> String {
    agent.and_then(|agent| agent.split('/').next()).unwrap_or_default().to_owned()
}

/// The rule that asks: what was answered to it before is shown with what it asks next.
fn cause(bound: &Bound) -> String {
    bound.causes.first().map(|cause| cause.id.clone()).unwrap_or_default()
}

/// With what one more counts.
struct Whose<'a> {
    bucket: &'a str,
    proven: bool,
    output: bool,
}

/// Why one more cannot wait. A name that is only claimed is not an agent that could be told from another: however many of
/// them there are, together they have [`CLAIMED`] times what one may have.
///
/// What cannot be filed of an output is lost, for its command has run. So nobody who claims names takes away the room for
/// those of others: neither the shared one, nor, by claiming it, that of a proven name.
fn too_many(
    tx: &Transaction<'_>,
    now: &Moment,
    whose: &Whose<'_>,
    most: u64,
) -> Result<Option<Box<Denial>>, StateError> {
    let &Whose { bucket, proven, output } = whose;
    // A name that GUARDEXEC_AGENT says is not held up by those who only claim it.
    let same = if output { Some(proven) } else { proven.then_some(true) };
    let [claimed, together] = [CLAIMED, TOGETHER].map(|times| most.saturating_mul(times));
    let waiting = "wait until a person has answered some (guardexec approvals list)";
    let (said, hint) = if approvals::pending(tx, now, same, Some(bucket))? >= most {
        let said = match bucket {
            "" => format!("askers without a name cannot have more than {most}"),
            name => format!("agent {} cannot have more than {most}", quote::repr(name.as_bytes())),
        };
        (said, waiting.to_owned())
    } else if !proven && !output && approvals::pending(tx, now, Some(false), None)? >= claimed {
        let whose = "agents whose names GUARDEXEC_AGENT does not say";
        (format!("{whose} cannot together have more than {claimed}"), waiting.to_owned())
    } else if approvals::pending(tx, now, None, None)? >= together {
        let hint = format!("{waiting}, and see to it that no agent sets GUARDEXEC_AGENT itself");
        (format!("all agents together, whatever their names, cannot have more than {together}"), hint)
    } else {
        return Ok(None);
    };
    Ok(Some(refusal(TOO_MANY, format!("{said} requests that wait for an answer"), hint)))
}

/// An answer that a program or the terminal gave at once, to a request that nobody filed.
#[derive(Debug)]
pub struct AtOnce<'a> {
    /// What it was asked about.
    pub bound: &'a Bound,
    /// Yes or no.
    pub approved: bool,
    /// Who gave it.
    pub by: &'a Answerer,
    /// The note to a yes, the reason of a no.
    pub said: Option<&'a str>,
    /// The run that has used it already.
    pub used_by: Option<&'a str>,
    /// Who runs guardexec.
    pub asked_by: &'a Person,
    /// The agent is the one that guardexec inherited.
    pub proven: bool,
}

/// Keeps such an answer, which counts for nothing but the call that asked; gives its id.
///
/// # Errors
/// As every use of the store.
pub fn keep_answer(tx: &Transaction<'_>, now: &Moment, answer: &AtOnce<'_>) -> Result<String, StateError> {
    let digest = answer.bound.digest();
    let row = Row {
        id: new_id()?,
        state: match (answer.approved, answer.used_by) {
            (false, _) => State::Declined,
            (true, Some(_)) => State::Consumed,
            (true, None) => State::Expired,
        },
        asked_digest: digest.clone(),
        digest,
        bound: encode(&nameless(answer.bound)),
        asked_argv: None,
        private: None,
        bucket: bucket(answer.bound.agent.as_deref()),
        proven: answer.proven,
        cause: cause(answer.bound),
        filed_at: now.wall.clone(),
        filed_by: encode(answer.asked_by),
        expires: now.nanos,
        expires_at: now.wall.clone(),
        escalate: None,
        escalated_at: None,
        answer: Some(Answer {
            approved: answer.approved,
            at: now.wall.clone(),
            by: encode(answer.by),
            by_person: answer.by.program.is_none(),
            said: answer.said.map(str::to_owned),
        }),
        used_at: answer.used_by.map(|_| now.wall.clone()),
        run_id: answer.used_by.map(str::to_owned),
    };
    approvals::insert(tx, now, &row)?;
    Ok(row.id)
}

/// Notes that an answer that was given at once was used, by the run that had asked.
///
/// # Errors
/// As every use of the store; there is no such answer.
pub fn use_answer(tx: &Transaction<'_>, now: &Moment, id: &str, run_id: &str) -> Result<(), StateError> {
    if approvals::use_at_once(tx, now, id, run_id)? {
        return Ok(());
    }
    Err(StateError::Corrupt("state.db".into(), format!("the answer {id} is gone")))
}
