//! Many requests at once: what waits, what was answered lately, and what nobody answers.

use rusqlite::{Connection, Transaction, named_params, params};

use super::{PUBLIC, Row, row, with_private};
use crate::state::{Moment, StateError};

/// So many are given to one caller: each comes with its private part, which may be large, and each starts a program.
const AT_ONCE: u32 = 8;

/// Pending requests of which somebody else is to be told now. Each is given once, to one caller; what is left is for the next.
///
/// # Errors
/// As every use of the store.
pub fn escalations(tx: &Transaction<'_>, now: &Moment) -> Result<Vec<Row>, StateError> {
    let sql = format!(
        "SELECT {PUBLIC} FROM approvals INDEXED BY approvals_open WHERE settled IS NULL AND state = 'pending'
             AND escalated_at IS NULL AND escalate <= :now AND expires > :now ORDER BY number LIMIT {AT_ONCE}"
    );
    let rows = tx
        .prepare(&sql)?
        .query_map(named_params! {":now": now.nanos}, |found| Ok((found.get("number")?, row(found, now)?)))?
        .collect::<Result<Vec<(i64, Row)>, _>>()?;
    let told = |(number, row): (i64, Row)| {
        tx.execute("UPDATE approvals SET escalated_at = ?2 WHERE number = ?1", params![number, now.wall])?;
        let row = Row { escalated_at: Some(now.wall.clone()), ..row };
        with_private(tx, number, row)
    };
    rows.into_iter().map(told).collect()
}

/// Whether [`escalations`] would give any.
///
/// # Errors
/// As every use of the store.
pub fn escalation_is_due(db: &Connection, now: &Moment) -> Result<bool, StateError> {
    let found = db.query_row(
        "SELECT EXISTS (SELECT 1 FROM approvals INDEXED BY approvals_open WHERE settled IS NULL
             AND state = 'pending' AND escalated_at IS NULL AND escalate <= ?1 AND expires > ?1)",
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
        "SELECT {PUBLIC} FROM approvals WHERE cause = ?1 AND answered IS NOT NULL
         ORDER BY answered DESC, number DESC LIMIT ?2"
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
    let from = match all {
        true => "approvals WHERE",
        false => {
            "approvals INDEXED BY approvals_open WHERE settled IS NULL AND state = 'pending' AND expires > :now AND"
        }
    };
    let sql = format!("SELECT {PUBLIC} FROM {from} number > :behind ORDER BY number LIMIT {PAGE}");
    let mut statement = db.prepare(&sql)?;
    let read = |found: &rusqlite::Row<'_>| Ok((found.get("number")?, row(found, now)?));
    let rows = match all {
        true => statement.query_map(named_params! {":behind": behind}, read)?,
        false => statement.query_map(named_params! {":behind": behind, ":now": now.nanos}, read)?,
    };
    Ok(rows.collect::<Result<_, _>>()?)
}
