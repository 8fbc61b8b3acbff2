//! Requests of which nothing can come any more: when their private part goes, and when they go themselves.

use rusqlite::{Transaction, params};

use crate::state::prune::{KEPT, ROWS};
use crate::state::{Moment, StateError};

/// What no person answered goes when this many have been filed after it: an asker can make such entries at will, and fill
/// the disk with them.
const PASSING: i64 = 10_000;

/// About so many bytes of private parts are overwritten in one transaction, of one at least.
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
    tx.execute(
        "DELETE FROM approvals WHERE number IN (
             SELECT number FROM approvals INDEXED BY approvals_settled WHERE settled <= ?1 ORDER BY settled LIMIT ?2)",
        params![now.minus(KEPT), ROWS],
    )?;
    tx.execute(
        "DELETE FROM approvals WHERE number IN (
             SELECT number FROM approvals INDEXED BY approvals_passing
             WHERE settled IS NOT NULL AND by_person = 0 AND number <= (SELECT max(number) FROM approvals) - ?1
             ORDER BY number LIMIT ?2)",
        params![PASSING, ROWS],
    )?;
    Ok(())
}
