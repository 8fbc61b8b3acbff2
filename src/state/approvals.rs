//! The approvals' table: what was asked, what was answered, what was used. What the texts in it mean is the approval room's
//! to know.
//!
//! Every state is left behind by one statement: a process that dies leaves a row that says what was done and no more.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row as Found, Transaction, named_params, params};

use super::{Moment, StateError};

/// The table and its indices.
pub(super) const TABLES: [(&str, &str); 3] = [
    (
        "approval",
        "CREATE TABLE approval (
            id TEXT PRIMARY KEY,
            state TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'declined', 'consumed', 'expired')),
            digest TEXT NOT NULL,
            asked_digest TEXT NOT NULL,
            bound TEXT NOT NULL,
            asked_argv TEXT,
            private TEXT,
            bucket TEXT NOT NULL,
            cause TEXT NOT NULL,
            filed_at TEXT NOT NULL,
            filed_by TEXT NOT NULL,
            expires INTEGER NOT NULL,
            expires_at TEXT NOT NULL,
            escalate INTEGER,
            escalated_at TEXT,
            verdict TEXT CHECK (verdict IN ('approve', 'decline')),
            answered INTEGER,
            answered_at TEXT,
            answered_by TEXT,
            said TEXT,
            used_at TEXT,
            run_id TEXT
        ) STRICT",
    ),
    ("approval_open", "CREATE INDEX approval_open ON approval (state, bucket)"),
    ("approval_lately", "CREATE INDEX approval_lately ON approval (cause, answered)"),
];

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

const COLUMNS: &str = "id, state, digest, asked_digest, bound, asked_argv, bucket, cause, filed_at, filed_by, expires, \
                       expires_at, escalate, escalated_at, verdict, answered_at, answered_by, said, used_at, run_id, private";

/// All but the private part, which may be large and is not read for many at once.
const PUBLIC: &str = "id, state, digest, asked_digest, bound, asked_argv, bucket, cause, filed_at, filed_by, expires, \
                      expires_at, escalate, escalated_at, verdict, answered_at, answered_by, said, used_at, run_id, \
                      NULL AS private";

fn row(found: &Found<'_>, now: &Moment) -> rusqlite::Result<Row> {
    let verdict: Option<String> = found.get("verdict")?;
    let answer = match verdict {
        None => None,
        Some(verdict) => Some(Answer {
            approved: verdict == "approve",
            at: found.get("answered_at")?,
            by: found.get("answered_by")?,
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
        private: found.get::<_, Option<String>>("private")?.filter(|_| !over),
        bucket: found.get("bucket")?,
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

/// Writes down what has expired, and forgets what was only kept while it was open. Gives how many there were.
///
/// # Errors
/// As every use of the store.
pub fn expire(tx: &Transaction<'_>, now: &Moment) -> Result<usize, StateError> {
    let done = tx.execute(
        "UPDATE approval SET state = 'expired', private = NULL WHERE state IN ('pending', 'approved') AND expires <= ?1",
        [now.nanos],
    )?;
    Ok(done)
}

/// Keeps a new request.
///
/// # Errors
/// As every use of the store.
pub fn insert(tx: &Transaction<'_>, row: &Row) -> Result<(), StateError> {
    tx.execute(
        "INSERT INTO approval (id, state, digest, asked_digest, bound, private, bucket, cause, filed_at, filed_by, expires,
             expires_at, escalate)
         VALUES (:id, :state, :digest, :asked_digest, :bound, :private, :bucket, :cause, :filed_at, :filed_by, :expires,
             :expires_at, :escalate)",
        named_params! {
            ":id": row.id, ":state": row.state, ":digest": row.digest, ":asked_digest": row.asked_digest,
            ":bound": row.bound, ":private": row.private, ":bucket": row.bucket, ":cause": row.cause,
            ":filed_at": row.filed_at, ":filed_by": row.filed_by, ":expires": row.expires,
            ":expires_at": row.expires_at, ":escalate": row.escalate,
        },
    )?;
    Ok(())
}

/// The request of this id.
///
/// # Errors
/// As every use of the store.
pub fn find(db: &Connection, now: &Moment, id: &str) -> Result<Option<Row>, StateError> {
    let sql = format!("SELECT {COLUMNS} FROM approval WHERE id = ?1");
    Ok(db.prepare(&sql)?.query_row([id], |found| row(found, now)).optional()?)
}

/// Where the request of this id stands.
///
/// # Errors
/// As every use of the store.
pub fn state(db: &Connection, now: &Moment, id: &str) -> Result<Option<State>, StateError> {
    let sql = format!("SELECT {PUBLIC} FROM approval WHERE id = ?1");
    Ok(db.prepare(&sql)?.query_row([id], |found| row(found, now)).optional()?.map(|row| row.state))
}

/// An open request that asks for exactly this, the approved one first; without its private part.
///
/// # Errors
/// As every use of the store.
pub fn open_like(db: &Connection, now: &Moment, asked_digest: &str) -> Result<Option<Row>, StateError> {
    let sql = format!(
        "SELECT {PUBLIC} FROM approval
         WHERE state IN ('pending', 'approved') AND expires > ?1 AND asked_digest = ?2 ORDER BY state LIMIT 1"
    );
    let found = db.prepare(&sql)?.query_row(params![now.nanos, asked_digest], |found| row(found, now));
    Ok(found.optional()?)
}

/// How many requests of this bucket wait for an answer.
///
/// # Errors
/// As every use of the store.
pub fn pending(db: &Connection, now: &Moment, bucket: &str) -> Result<u64, StateError> {
    let count: i64 = db.query_row(
        "SELECT count(*) FROM approval WHERE state = 'pending' AND bucket = ?1 AND expires > ?2",
        params![bucket, now.nanos],
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
    let (state, verdict) =
        if answer.approved { (State::Approved, "approve") } else { (State::Declined, "decline") };
    let done = tx.execute(
        "UPDATE approval SET state = :state, verdict = :verdict, answered = :now, answered_at = :at, answered_by = :by,
             said = :said, private = CASE WHEN :state = 'approved' THEN private ELSE NULL END
         WHERE id = :id AND state = 'pending' AND expires > :now",
        named_params! {
            ":state": state, ":verdict": verdict, ":now": now.nanos, ":at": answer.at, ":by": answer.by,
            ":said": answer.said, ":id": id,
        },
    )?;
    if let (1, Some(edit)) = (done, edit) {
        tx.execute(
            "UPDATE approval SET digest = ?2, bound = ?3, asked_argv = ?4, private = ?5 WHERE id = ?1",
            params![id, edit.digest, edit.bound, edit.asked_argv, edit.private],
        )?;
    }
    Ok(done == 1)
}

/// Uses an approval. False where it cannot be used, or not any more.
///
/// # Errors
/// As every use of the store.
pub fn consume(tx: &Transaction<'_>, now: &Moment, id: &str, run_id: &str) -> Result<bool, StateError> {
    let done = tx.execute(
        "UPDATE approval SET state = 'consumed', used_at = ?2, run_id = ?3, private = NULL
         WHERE id = ?1 AND state = 'approved' AND expires > ?4",
        params![id, now.wall, run_id, now.nanos],
    )?;
    Ok(done == 1)
}

/// Pending requests of which somebody else is to be told now. Each is given once, to one caller.
///
/// # Errors
/// As every use of the store.
pub fn escalations(tx: &Transaction<'_>, now: &Moment) -> Result<Vec<Row>, StateError> {
    let due = "state = 'pending' AND escalated_at IS NULL AND escalate <= :now AND expires > :now";
    let sql = format!("SELECT {COLUMNS} FROM approval WHERE {due} ORDER BY rowid");
    let mut rows = tx
        .prepare(&sql)?
        .query_map(named_params! {":now": now.nanos}, |found| row(found, now))?
        .collect::<Result<Vec<_>, _>>()?;
    if !rows.is_empty() {
        let sql = format!("UPDATE approval SET escalated_at = :at WHERE {due}");
        tx.execute(&sql, named_params! {":now": now.nanos, ":at": now.wall})?;
        rows.iter_mut().for_each(|row| row.escalated_at = Some(now.wall.clone()));
    }
    Ok(rows)
}

/// Whether [`escalations`] would give any.
///
/// # Errors
/// As every use of the store.
pub fn escalation_is_due(db: &Connection, now: &Moment) -> Result<bool, StateError> {
    let found = db.query_row(
        "SELECT EXISTS (SELECT 1 FROM approval
             WHERE state = 'pending' AND escalated_at IS NULL AND escalate <= ?1 AND expires > ?1)",
        [now.nanos],
        |found| found.get(0),
    )?;
    Ok(found)
}

/// The last answers to requests that the same rule asked for, the latest first; without their private parts.
///
/// # Errors
/// As every use of the store.
pub fn lately(db: &Connection, now: &Moment, cause: &str, most: u32) -> Result<Vec<Row>, StateError> {
    let sql = format!(
        "SELECT {PUBLIC} FROM approval WHERE cause = ?1 AND answered IS NOT NULL ORDER BY answered DESC, rowid DESC LIMIT ?2"
    );
    let mut statement = db.prepare(&sql)?;
    let rows = statement.query_map(params![cause, most], |found| row(found, now))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Up to this many are handed out at once: whoever writes them out must not hold the store meanwhile.
pub const PAGE: u32 = 64;

/// Requests in the order in which they were filed, behind the one of this number: all of them, or those that wait. Each
/// with its number and without its private part; the last page has fewer than [`PAGE`].
///
/// # Errors
/// As every use of the store.
pub fn page(db: &Connection, now: &Moment, all: bool, behind: i64) -> Result<Vec<(i64, Row)>, StateError> {
    let sql = format!(
        "SELECT rowid AS number, {PUBLIC} FROM approval
         WHERE rowid > :behind AND (:all OR (state = 'pending' AND expires > :now)) ORDER BY rowid LIMIT {PAGE}"
    );
    let mut statement = db.prepare(&sql)?;
    let which = named_params! {":behind": behind, ":all": all, ":now": now.nanos};
    let rows = statement.query_map(which, |found| Ok((found.get("number")?, row(found, now)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
