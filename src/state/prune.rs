//! Forgetting: a little of what nobody needs any more, in every transaction that writes.
//!
//! No process looks after the store between calls, so those that use it keep it small. Each does a bounded part of it; what
//! is left is for the next.

use rusqlite::Transaction;

use super::{Moment, StateError, approvals, ledger, sessions};

/// Free pages are given back to the file system where there are more than this (1 MiB), and about as many at once.
const FREE_PAGES: i64 = 256;

/// Does a part of it.
///
/// # Errors
/// The store cannot be written.
pub(super) fn some(tx: &Transaction<'_>, now: &Moment) -> Result<(), StateError> {
    approvals::expire(tx, now)?;
    approvals::forget(tx, now)?;
    sessions::forget(tx, now)?;
    ledger::sweep(tx, now)?;
    give_back(tx)
}

fn give_back(tx: &Transaction<'_>) -> Result<(), StateError> {
    let free: i64 = tx.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
    if free > FREE_PAGES {
        // Each step gives back one page.
        let mut statement = tx.prepare(&format!("PRAGMA incremental_vacuum({FREE_PAGES})"))?;
        let mut rows = statement.query([])?;
        while rows.next()?.is_some() {}
    }
    Ok(())
}

#[cfg(test)]
mod tests;
