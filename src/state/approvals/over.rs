//! Requests of which nothing can come any more: when their private part goes, and when they go themselves.

use rusqlite::{Transaction, params};

use crate::state::keeping::{KEPT, ROWS};
use crate::state::{Moment, StateError};

/// What no person answered goes when this many have been filed after it: an asker can make such entries at will, and fill
/// the disk with them.
const PASSING: i64 = 10_000;

/// Nor do they take more than this in all, for one may be megabytes: the oldest go first.
const PASSING_BYTES: i64 = 64 << 20;

/// About so many bytes of private parts are overwritten in one transaction, of one at least; and as many of requests.
const BYTES: i64 = 1 << 20;

/// Writes down of some what has expired, and overwrites what was only kept while it was open.
///
/// # Errors
/// As every use of the store.
pub(in crate::state) fn expire(tx: &Transaction<'_>, now: &Moment) -> Result<(), StateError> {
    tx.execute(
        "UPDATE approvals SET state = 'expired', settled = ?1 WHERE number IN (
             SELECT number FROM approvals INDEXED BY approvals_open
             WHERE settled IS NULL AND expires <= ?1 ORDER BY number LIMIT ?2)",
        params![now.nanos, ROWS],
    )?;
    // What is answered or used has none any more: these have expired, just now or in a transaction that had enough to do.
    let over: Vec<(i64, i64)> = tx
        .prepare(
            "SELECT approval, octet_length(content) FROM approvals_private JOIN approvals ON number = approval
             WHERE settled IS NOT NULL ORDER BY approval LIMIT ?1",
        )?
        .query_map([ROWS], |found| Ok((found.get(0)?, found.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut bytes = 0;
    for (number, length) in over {
        if bytes > 0 && bytes + length > BYTES {
            break;
        }
        bytes += length;
        super::forget_private(tx, number)?;
    }
    Ok(())
}

/// Forgets some of what was settled long ago, and of what is only passing.
///
/// # Errors
/// As every use of the store.
pub(in crate::state) fn forget(tx: &Transaction<'_>, now: &Moment) -> Result<(), StateError> {
    let mut room = Room { bytes: BYTES, taken: false };
    let old = "approvals INDEXED BY approvals_settled WHERE settled <= ?1 ORDER BY settled";
    room.clear(tx, old, now.minus(KEPT), i64::from(ROWS))?;
    let passing =
        "approvals INDEXED BY approvals_passing WHERE settled IS NOT NULL AND by_person = 0 AND number <= ?1
                   ORDER BY number";
    let newest: i64 = tx.query_row("SELECT ifnull(max(number), 0) FROM approvals", [], |row| row.get(0))?;
    room.clear(tx, passing, newest - PASSING, i64::from(ROWS))?;
    if let Some(number) = outweighed(tx)? {
        // As many as the bytes allow: a few small ones would not make room for a large one.
        room.clear(tx, passing, number, BYTES)?;
    }
    Ok(())
}

/// What one transaction may still forget, of one request at least.
struct Room {
    bytes: i64,
    taken: bool,
}

impl Room {
    /// Forgets up to `most` of these, as long as there is room.
    fn clear(&mut self, tx: &Transaction<'_>, these: &str, until: i64, most: i64) -> Result<(), StateError> {
        let mut statement =
            tx.prepare(&format!("SELECT number, octet_length(bound) FROM {these} LIMIT ?2"))?;
        let mut rows = statement.query([until, most])?;
        let mut numbers: Vec<i64> = Vec::new();
        while let Some(row) = rows.next()? {
            self.bytes -= row.get::<_, i64>(1)?;
            if self.taken && self.bytes < 0 {
                break;
            }
            self.taken = true;
            numbers.push(row.get(0)?);
        }
        for number in numbers {
            tx.execute("DELETE FROM approvals WHERE number = ?1", [number])?;
        }
        Ok(())
    }
}

/// The last of the passing ones, in the order of their numbers, for which the later ones leave no room.
fn outweighed(tx: &Transaction<'_>) -> Result<Option<i64>, StateError> {
    let figure = |name| tx.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    // Where the whole database is not that large, nothing in it is, and no request has to be looked at.
    let used = figure("page_count")? - figure("freelist_count")?;
    if used.saturating_mul(figure("page_size")?) <= PASSING_BYTES {
        return Ok(None);
    }
    let mut statement = tx.prepare(
        "SELECT number, octet_length(bound) FROM approvals INDEXED BY approvals_passing
         WHERE settled IS NOT NULL AND by_person = 0 ORDER BY number DESC",
    )?;
    let mut rows = statement.query([])?;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        bytes += row.get::<_, i64>(1)?;
        if bytes > PASSING_BYTES {
            return Ok(Some(row.get(0)?));
        }
    }
    Ok(None)
}
