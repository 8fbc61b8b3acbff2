//! Sessions as they are kept: read, and as the verbs print them.

use rusqlite::{Connection, OptionalExtension as _, Row};
use serde_json::{Value, json};

use super::{Halt, Session, SessionEvent};
use crate::state::StateError;

const COLUMNS: &str = "id, first, last, since, since_wall, runs, denials, all_runs, all_denials, halted, halted_wall, halted_run";

pub(super) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

fn session(row: &Row<'_>) -> rusqlite::Result<Session> {
    let (reason, wall): (Option<String>, Option<String>) = (row.get(9)?, row.get(10)?);
    let run: Option<String> = row.get(11)?;
    Ok(Session {
        id: row.get(0)?,
        first: row.get(1)?,
        last: row.get(2)?,
        since: row.get(3)?,
        since_wall: row.get(4)?,
        runs: count(row, 5)?,
        denials: count(row, 6)?,
        all_runs: count(row, 7)?,
        all_denials: count(row, 8)?,
        halted: reason.map(|reason| Halt { reason, wall: wall.unwrap_or_default(), run }),
    })
}

/// One session. Reads only.
///
/// # Errors
/// The store cannot be read.
pub fn find(db: &Connection, id: &str) -> Result<Option<Session>, StateError> {
    let sql = format!("SELECT {COLUMNS} FROM sessions WHERE id = ?1");
    Ok(db.query_row(&sql, [id], session).optional()?)
}

/// All sessions, the last called first. Reads only.
///
/// # Errors
/// The store cannot be read.
pub fn list(db: &Connection) -> Result<Vec<Session>, StateError> {
    let sql = format!("SELECT {COLUMNS} FROM sessions ORDER BY last DESC, id");
    let mut statement = db.prepare(&sql)?;
    let found = statement.query_map([], session)?.collect::<Result<_, _>>()?;
    Ok(found)
}

/// What happened to a session, in order. Reads only.
///
/// # Errors
/// The store cannot be read.
pub fn history(db: &Connection, id: &str) -> Result<Vec<SessionEvent>, StateError> {
    let mut statement =
        db.prepare("SELECT event, wall, by, reason, run FROM session_events WHERE session = ?1 ORDER BY id")?;
    let event = |row: &Row<'_>| {
        Ok(SessionEvent {
            event: row.get(0)?,
            wall: row.get(1)?,
            by: row.get(2)?,
            reason: row.get(3)?,
            run: row.get(4)?,
        })
    };
    let found = statement.query_map([id], event)?.collect::<Result<_, _>>()?;
    Ok(found)
}

impl Session {
    /// As the verbs print it.
    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "state": if self.halted.is_some() { "halted" } else { "open" },
            "first": self.first,
            "last": self.last,
            "since": self.since_wall,
            "runs": self.runs,
            "denials": self.denials,
            "all_runs": self.all_runs,
            "all_denials": self.all_denials,
            "halted": self.halted.as_ref().map(Halt::to_json),
        })
    }
}

impl Halt {
    /// As the verbs print it.
    pub fn to_json(&self) -> Value {
        json!({"reason": self.reason, "at": self.wall, "run": self.run})
    }
}

impl SessionEvent {
    /// As the verbs print it.
    pub fn to_json(&self) -> Value {
        json!({"event": self.event, "at": self.wall, "by": self.by, "reason": self.reason, "run": self.run})
    }
}
