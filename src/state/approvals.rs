//! The approvals' table: what was asked, what was answered, what was used. What the texts in it mean is the approval room's
//! to know.
//!
//! Every state is left behind by one statement: a process that dies leaves a row that says what was done and no more.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row as Found, Transaction, named_params, params};

use super::{Moment, StateError};

mod listed;
mod over;
mod tables;

pub use listed::{PAGE, escalation_is_due, escalations, lately, page};
pub(super) use over::{expire, forget};
pub(super) use tables::TABLES;

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Nobody has answered yet.
    Pending,
    /// It may run, once.
    Approved,
    /// It may not.
    Declined,
    /// It was used.
    Consumed,
    /// Its time is over.
    Expired,
}

impl State {
    const ALL: [State; 5] =
        [State::Pending, State::Approved, State::Declined, State::Consumed, State::Expired];

    /// The word used in the store, in results and in audit records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Approved => "approved",
            State::Declined => "declined",
            State::Consumed => "consumed",
            State::Expired => "expired",
        }
    }

    /// Whether anything can still come of it.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, State::Pending | State::Approved)
    }
}

impl FromSql for State {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<State> {
        let word = value.as_str()?;
        State::ALL.into_iter().find(|state| state.as_str() == word).ok_or(FromSqlError::InvalidType)
    }
}

impl ToSql for State {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Yes or no.
    pub approved: bool,
    /// The time of day, for people.
    pub at: String,
    /// Who, as JSON.
    pub by: String,
    /// A person gave it, and no program of the policy's.
    pub by_person: bool,
    /// The note to a yes, the reason of a no.
    pub said: Option<String>,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// Where it stands at the moment of the transaction: what has expired says so, also where nobody wrote that down yet.
    pub state: State,
    /// The digest that a run must have.
    pub digest: String,
    /// The digest of what was asked; another one where something else was approved.
    pub asked_digest: String,
    /// What the digest is of, as JSON, without secrets.
    pub bound: String,
    /// The words that were asked for, as JSON, where others were approved.
    pub asked_argv: Option<String>,
    /// What is only kept while it is open, as JSON.
    pub private: Option<String>,
    /// With whose requests it counts.
    pub bucket: String,
    /// That name is what guardexec inherited, and not only what the asker says.
    pub proven: bool,
    /// The first rule that asks.
    pub cause: String,
    /// When it was filed, for people.
    pub filed_at: String,
    /// By whom, as JSON.
    pub filed_by: String,
    /// When its time is over, in the store's own time.
    pub expires: i64,
    /// The same, for people.
    pub expires_at: String,
    /// When somebody else is to be told, in the store's own time.
    pub escalate: Option<i64>,
    /// When that was done, for people.
    pub escalated_at: Option<String>,
    /// What was answered.
    pub answer: Option<Answer>,
    /// When it was used, for people.
    pub used_at: Option<String>,
    /// By which run.
    pub run_id: Option<String>,
}

/// All but the private part.
const PUBLIC: &str = "number, id, state, digest, asked_digest, bound, asked_argv, bucket, proven, cause, filed_at, filed_by, \
                      expires, expires_at, escalate, escalated_at, verdict, answered_at, answered_by, by_person, said, \
                      used_at, run_id";

fn row(found: &Found<'_>, now: &Moment) -> rusqlite::Result<Row> {
    let verdict: Option<String> = found.get("verdict")?;
    let answer = match verdict {
        None => None,
        Some(verdict) => Some(Answer {
            approved: verdict == "approve",
            at: found.get("answered_at")?,
            by: found.get("answered_by")?,
            by_person: found.get("by_person")?,
            said: found.get("said")?,
        }),
    };
    let (state, expires): (State, i64) = (found.get("state")?, found.get("expires")?);
    let over = state.is_open() && expires <= now.nanos;
    Ok(Row {
        id: found.get("id")?,
        state: if over { State::Expired } else { state },
        digest: found.get("digest")?,
        asked_digest: found.get("asked_digest")?,
        bound: found.get("bound")?,
        asked_argv: found.get("asked_argv")?,
        private: None,
        bucket: found.get("bucket")?,
        proven: found.get("proven")?,
        cause: found.get("cause")?,
        filed_at: found.get("filed_at")?,
        filed_by: found.get("filed_by")?,
        expires,
        expires_at: found.get("expires_at")?,
        escalate: found.get("escalate")?,
        escalated_at: found.get("escalated_at")?,
        answer,
        used_at: found.get("used_at")?,
        run_id: found.get("run_id")?,
    })
}

/// Keeps a new request, or an answer to one that nobody filed.
///
/// # Errors
/// As every use of the store.
pub fn insert(tx: &Transaction<'_>, now: &Moment, row: &Row) -> Result<(), StateError> {
    let answer = row.answer.as_ref();
    let number: i64 = tx.query_row(
        "INSERT INTO approvals (id, state, digest, asked_digest, bound, asked_argv, bucket, proven, cause, filed_at, filed_by,
             expires, expires_at, escalate, verdict, answered, answered_at, answered_by, by_person, said, used_at, run_id,
             settled)
         VALUES (:id, :state, :digest, :asked_digest, :bound, :asked_argv, :bucket, :proven, :cause, :filed_at, :filed_by,
             :expires, :expires_at, :escalate, :verdict, :answered, :answered_at, :answered_by, :by_person, :said, :used_at,
             :run_id, :settled) RETURNING number",
        named_params! {
            ":id": row.id, ":state": row.state, ":digest": row.digest, ":asked_digest": row.asked_digest,
            ":bound": row.bound, ":asked_argv": row.asked_argv, ":bucket": row.bucket, ":proven": row.proven,
            ":cause": row.cause, ":filed_at": row.filed_at, ":filed_by": row.filed_by, ":expires": row.expires,
            ":expires_at": row.expires_at, ":escalate": row.escalate,
            ":verdict": answer.map(|answer| verdict(answer.approved)), ":answered": answer.map(|_| now.nanos),
            ":answered_at": answer.map(|answer| &answer.at), ":answered_by": answer.map(|answer| &answer.by),
            ":by_person": answer.is_some_and(|answer| answer.by_person),
            ":said": answer.and_then(|answer| answer.said.as_ref()), ":used_at": row.used_at, ":run_id": row.run_id,
            ":settled": (!row.state.is_open()).then_some(now.nanos),
        },
        |found| found.get(0),
    )?;
    if let Some(content) = &row.private {
        tx.execute(
            "INSERT INTO approvals_private (approval, content) VALUES (?1, ?2)",
            params![number, content],
        )?;
    }
    Ok(())
}

fn verdict(approved: bool) -> &'static str {
    if approved { "approve" } else { "decline" }
}

/// The request of this id, with its private part while it is open.
///
/// # Errors
/// As every use of the store.
pub fn find(db: &Connection, now: &Moment, id: &str) -> Result<Option<Row>, StateError> {
    let sql = format!("SELECT {PUBLIC} FROM approvals WHERE id = ?1");
    let found = db.query_row(&sql, [id], |found| Ok((found.get("number")?, row(found, now)?))).optional()?;
    found.map(|(number, row)| with_private(db, number, row)).transpose()
}

fn with_private(db: &Connection, number: i64, mut row: Row) -> Result<Row, StateError> {
    if row.state.is_open() {
        let sql = "SELECT content FROM approvals_private WHERE approval = ?1";
        row.private = db.query_row(sql, [number], |found| found.get(0)).optional()?;
    }
    Ok(row)
}

/// Where the request of this id stands.
///
/// # Errors
/// As every use of the store.
pub fn state(db: &Connection, now: &Moment, id: &str) -> Result<Option<State>, StateError> {
    let found = db
        .query_row("SELECT state, expires FROM approvals WHERE id = ?1", [id], |found| {
            Ok((found.get::<_, State>(0)?, found.get::<_, i64>(1)?))
        })
        .optional()?;
    let over = |state: State, expires| state.is_open() && expires <= now.nanos;
    Ok(found.map(|(state, expires)| if over(state, expires) { State::Expired } else { state }))
}

/// An open request that asks for exactly this, the approved one first; without its private part.
///
/// # Errors
/// As every use of the store.
pub fn open_like(db: &Connection, now: &Moment, asked_digest: &str) -> Result<Option<Row>, StateError> {
    let sql = format!(
        "SELECT {PUBLIC} FROM approvals INDEXED BY approvals_open
         WHERE settled IS NULL AND expires > ?1 AND asked_digest = ?2 ORDER BY state LIMIT 1"
    );
    let found = db.prepare(&sql)?.query_row(params![now.nanos, asked_digest], |found| row(found, now));
    Ok(found.optional()?)
}

/// How many requests wait for an answer: of all, or of askers whose name is `proven` or not, or of this bucket alone.
///
/// # Errors
/// As every use of the store.
pub fn pending(
    db: &Connection,
    now: &Moment,
    proven: Option<bool>,
    bucket: Option<&str>,
) -> Result<u64, StateError> {
    let count: i64 = db.query_row(
        "SELECT count(*) FROM approvals INDEXED BY approvals_open
         WHERE settled IS NULL AND state = 'pending' AND expires > ?1
             AND (?2 IS NULL OR proven = ?2) AND (?3 IS NULL OR bucket = ?3)",
        params![now.nanos, proven, bucket],
        |found| found.get(0),
    )?;
    Ok(count.unsigned_abs())
}

/// What is approved in place of what was asked.
#[derive(Debug)]
pub struct Edit {
    /// Its digest.
    pub digest: String,
    /// What that is of, as JSON.
    pub bound: String,
    /// The words that were asked for, as JSON.
    pub asked_argv: String,
    /// What is only kept while it is open, as JSON.
    pub private: String,
}

/// Answers a pending request. False where it is not pending any more.
///
/// # Errors
/// As every use of the store.
pub fn answer(
    tx: &Transaction<'_>,
    now: &Moment,
    id: &str,
    answer: &Answer,
    edit: Option<&Edit>,
) -> Result<bool, StateError> {
    let state = if answer.approved { State::Approved } else { State::Declined };
    let number: Option<i64> = tx
        .query_row(
            "UPDATE approvals SET state = :state, verdict = :verdict, answered = :now, answered_at = :at, answered_by = :by,
                 by_person = :by_person, said = :said, settled = :settled
             WHERE id = :id AND state = 'pending' AND expires > :now RETURNING number",
            named_params! {
                ":state": state, ":verdict": verdict(answer.approved), ":now": now.nanos, ":at": answer.at,
                ":by": answer.by, ":by_person": answer.by_person, ":said": answer.said,
                ":settled": (!state.is_open()).then_some(now.nanos), ":id": id,
            },
            |found| found.get(0),
        )
        .optional()?;
    let Some(number) = number else { return Ok(false) };
    if !state.is_open() {
        forget_private(tx, number)?;
    } else if let Some(edit) = edit {
        tx.execute(
            "UPDATE approvals SET digest = ?2, bound = ?3, asked_argv = ?4 WHERE number = ?1",
            params![number, edit.digest, edit.bound, edit.asked_argv],
        )?;
        tx.execute(
            "UPDATE approvals_private SET content = ?2 WHERE approval = ?1",
            params![number, edit.private],
        )?;
    }
    Ok(true)
}

fn forget_private(tx: &Transaction<'_>, number: i64) -> Result<(), StateError> {
    tx.execute("DELETE FROM approvals_private WHERE approval = ?1", [number])?;
    Ok(())
}

/// Uses an approval. False where it cannot be used, or not any more.
///
/// # Errors
/// As every use of the store.
pub fn consume(tx: &Transaction<'_>, now: &Moment, id: &str, run_id: &str) -> Result<bool, StateError> {
    let number: Option<i64> = tx
        .query_row(
            "UPDATE approvals SET state = 'consumed', used_at = ?2, run_id = ?3, settled = ?4
             WHERE id = ?1 AND state = 'approved' AND expires > ?4 RETURNING number",
            params![id, now.wall, run_id, now.nanos],
            |found| found.get(0),
        )
        .optional()?;
    number.map_or(Ok(false), |number| forget_private(tx, number).map(|()| true))
}

/// Notes that an answer that was given at once was used. False where there is none that was not used yet.
///
/// # Errors
/// As every use of the store.
pub fn use_at_once(tx: &Transaction<'_>, now: &Moment, id: &str, run_id: &str) -> Result<bool, StateError> {
    let done = tx.execute(
        "UPDATE approvals SET state = 'consumed', used_at = ?2, run_id = ?3
         WHERE id = ?1 AND state = 'expired' AND verdict = 'approve' AND used_at IS NULL",
        params![id, now.wall, run_id],
    )?;
    Ok(done == 1)
}
