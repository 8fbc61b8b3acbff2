//! Ledgers: what was counted in the window that ends now, for each key apart.
//!
//! Every entry keeps its amount and the sum of all entries of its key up to it. What a window holds is the difference
//! between its last and its first entry, so it takes two look-ups, however many entries lie between. Entries leave as windows
//! pass.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::files::DATABASE;
use super::{Amount, Moment, StateError};

/// How many old entries of one ledger a transaction removes: more than it adds, and few enough to take no time.
const SWEPT: u32 = 256;

/// Of how many ledgers: more than most policies have.
const LEDGERS: u32 = 16;

/// One ledger: a rate's or an alert's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ledger<'a> {
    /// The policy's canonical path: two policies never share a ledger.
    pub policy: &'a Path,
    /// `rate` or `alert`.
    pub kind: &'static str,
    /// The name in the policy.
    pub name: &'a str,
    /// What is added up: amounts of different things are not added to each other.
    pub measure: &'a str,
    /// The window.
    pub per: Duration,
}

/// What a key holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// The sum of the entries in the window.
    pub used: Amount,
    /// When the oldest of them was made, in the store's time.
    pub oldest: Option<i64>,
}

struct Entry {
    at: i64,
    amount: Amount,
    upto: Amount,
}

impl Entry {
    fn read(row: &Row<'_>) -> rusqlite::Result<(i64, String, String)> {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    }

    fn of((at, amount, upto): (i64, String, String)) -> Result<Entry, StateError> {
        let number =
            |text: String| Amount::kept(&text).ok_or_else(|| damaged(format!("an amount is {text:?}")));
        Ok(Entry { at, amount: number(amount)?, upto: number(upto)? })
    }
}

fn damaged(what: String) -> StateError {
    StateError::Corrupt(DATABASE.into(), what)
}

impl Ledger<'_> {
    fn id(&self, db: &Connection) -> Result<Option<i64>, StateError> {
        let found = db
            .query_row(
                "SELECT id FROM ledgers WHERE policy = ?1 AND kind = ?2 AND name = ?3 AND measure = ?4",
                params![self.policy.as_os_str().as_bytes(), self.kind, self.name, self.measure],
                |row| row.get(0),
            )
            .optional()?;
        Ok(found)
    }

    /// What `key` holds. Reads only.
    pub(super) fn standing(&self, db: &Connection, key: &str, now: &Moment) -> Result<Standing, StateError> {
        let counter = match self.id(db)? {
            Some(id) => counter(db, id, key)?,
            None => None,
        };
        match counter {
            Some(counter) => self.window(db, counter, now),
            None => Ok(Standing { used: Amount::ZERO, oldest: None }),
        }
    }

    /// What every key holds that holds anything, those that hold most first. Reads only.
    pub(super) fn standings(
        &self,
        db: &Connection,
        now: &Moment,
    ) -> Result<Vec<(String, Standing)>, StateError> {
        let Some(id) = self.id(db)? else { return Ok(Vec::new()) };
        let mut statement = db.prepare("SELECT id, key FROM counters WHERE ledger = ?1 ORDER BY key")?;
        let keys: Vec<(i64, String)> =
            statement.query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
        let mut found = Vec::with_capacity(keys.len());
        for (counter, key) in keys {
            let standing = self.window(db, counter, now)?;
            if standing.oldest.is_some() {
                found.push((key, standing));
            }
        }
        // The keys come in order, and stay so where they hold the same.
        found.sort_by_key(|(_, standing)| std::cmp::Reverse(standing.used));
        Ok(found)
    }

    /// An entry made at the edge or before it has left: no window holds two that lie its whole length apart.
    fn window(&self, db: &Connection, counter: i64, now: &Moment) -> Result<Standing, StateError> {
        let edge = now.minus(self.per);
        let oldest = db
            .query_row(
                "SELECT at, amount, upto FROM uses WHERE counter = ?1 AND at > ?2 ORDER BY at LIMIT 1",
                [counter, edge],
                Entry::read,
            )
            .optional()?;
        let Some(oldest) = oldest.map(Entry::of).transpose()? else {
            return Ok(Standing { used: Amount::ZERO, oldest: None });
        };
        let newest = last(db, counter)?.ok_or_else(|| damaged("a counter lost its entries".into()))?;
        let between = newest.upto.minus(oldest.upto).and_then(|rest| rest.plus(oldest.amount));
        let used = between.ok_or_else(|| damaged("a counter's sums do not follow on each other".into()))?;
        Ok(Standing { used, oldest: Some(oldest.at) })
    }

    /// Adds an entry, and gives what the key holds with it.
    pub(super) fn add(
        &self,
        tx: &Transaction<'_>,
        key: &str,
        now: &Moment,
        amount: Amount,
    ) -> Result<Standing, StateError> {
        let ledger = self.made(tx)?;
        tx.execute(
            "INSERT INTO counters (ledger, key) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            params![ledger, key],
        )?;
        let counter = counter(tx, ledger, key)?.ok_or_else(|| damaged("a counter is gone".into()))?;
        let last = last(tx, counter)?;
        // Two entries of one moment lie a nanosecond apart.
        let at = last.as_ref().map_or(now.nanos, |last| now.nanos.max(last.at.saturating_add(1)));
        let upto = last.map_or(Amount::ZERO, |last| last.upto).plus(amount);
        let upto = upto.ok_or_else(|| damaged("a counter is larger than can be counted".into()))?;
        tx.execute(
            "INSERT INTO uses (counter, at, ledger, amount, upto) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![counter, at, ledger, amount.to_string(), upto.to_string()],
        )?;
        self.window(tx, counter, now)
    }

    /// The ledger's row, with the window that it has now.
    fn made(&self, tx: &Transaction<'_>) -> Result<i64, StateError> {
        let per = i64::try_from(self.per.as_nanos()).unwrap_or(i64::MAX);
        let id = tx.query_row(
            "INSERT INTO ledgers (policy, kind, name, measure, per) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (policy, kind, name, measure) DO UPDATE SET per = ?5 RETURNING id",
            params![self.policy.as_os_str().as_bytes(), self.kind, self.name, self.measure, per],
            |row| row.get(0),
        )?;
        Ok(id)
    }

    /// Whether the figure may be told of now: it was not within the last window. Then that is kept.
    pub(super) fn tell(&self, tx: &Transaction<'_>, now: &Moment) -> Result<bool, StateError> {
        let ledger = self.made(tx)?;
        let told: Option<i64> =
            tx.query_row("SELECT told FROM ledgers WHERE id = ?1", [ledger], |row| row.get(0))?;
        if told.is_some_and(|told| told > now.minus(self.per)) {
            return Ok(false);
        }
        tx.execute("UPDATE ledgers SET told = ?2 WHERE id = ?1", [ledger, now.nanos])?;
        Ok(true)
    }
}

fn counter(db: &Connection, ledger: i64, key: &str) -> Result<Option<i64>, StateError> {
    let found = db
        .query_row("SELECT id FROM counters WHERE ledger = ?1 AND key = ?2", params![ledger, key], |row| {
            row.get(0)
        })
        .optional()?;
    Ok(found)
}

fn last(db: &Connection, counter: i64) -> Result<Option<Entry>, StateError> {
    let found = db
        .query_row(
            "SELECT at, amount, upto FROM uses WHERE counter = ?1 ORDER BY at DESC LIMIT 1",
            [counter],
            Entry::read,
        )
        .optional()?;
    found.map(Entry::of).transpose()
}

/// Removes some of what has left its window, of some ledgers: also of those whose policy is gone.
pub(super) fn sweep(tx: &Transaction<'_>, now: &Moment) -> Result<(), StateError> {
    let ledgers = some(tx, now)?;
    let mut leaving =
        tx.prepare("SELECT counter, at FROM uses WHERE ledger = ?1 AND at <= ?2 ORDER BY at LIMIT ?3")?;
    for (ledger, per) in &ledgers {
        let edge = now.nanos.saturating_sub(*per);
        let old: Vec<(i64, i64)> = leaving
            .query_map(params![ledger, edge, SWEPT], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        if !old.is_empty() {
            remove(tx, &old)?;
        }
    }
    if ledgers.is_empty() {
        return Ok(());
    }
    // Also one that tells and never counts, which has no entries that could leave.
    tx.execute(
        "DELETE FROM ledgers WHERE id >= ?1 AND id <= ?2 AND (told IS NULL OR told <= ?3 - per)
         AND NOT EXISTS (SELECT 1 FROM counters WHERE ledger = ledgers.id)",
        params![ledgers.first().map(|first| first.0), ledgers.last().map(|last| last.0), now.nanos],
    )?;
    Ok(())
}

/// Removes these entries, and the counters that have none left.
fn remove(tx: &Transaction<'_>, old: &[(i64, i64)]) -> Result<(), StateError> {
    let mut remove = tx.prepare("DELETE FROM uses WHERE counter = ?1 AND at = ?2")?;
    for (counter, at) in old {
        remove.execute([counter, at])?;
    }
    for counter in old.iter().map(|(counter, _)| counter).collect::<BTreeSet<_>>() {
        tx.execute(
            "DELETE FROM counters WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM uses WHERE counter = ?1)",
            [counter],
        )?;
    }
    Ok(())
}

/// Some ledgers with their windows: all of a few, and of many those behind one that the time chooses, so that each has its turn.
fn some(tx: &Transaction<'_>, now: &Moment) -> Result<Vec<(i64, i64)>, StateError> {
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let first: Vec<(i64, i64)> = tx
        .prepare("SELECT id, per FROM ledgers ORDER BY id LIMIT ?1")?
        .query_map([LEDGERS + 1], read)?
        .collect::<Result<_, _>>()?;
    if first.len() <= LEDGERS as usize {
        return Ok(first);
    }
    let last: i64 = tx.query_row("SELECT max(id) FROM ledgers", [], |row| row.get(0))?;
    let from = now.nanos.rem_euclid(last.saturating_add(1).max(1));
    let turn = tx
        .prepare("SELECT id, per FROM ledgers WHERE id >= ?1 ORDER BY id LIMIT ?2")?
        .query_map(params![from, LEDGERS], read)?
        .collect::<Result<_, _>>()?;
    Ok(turn)
}
