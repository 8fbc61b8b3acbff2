//! Ledgers: what was counted in the window that ends now, for each key apart.
//!
//! A policy has its ledgers under its path; under its name in what its directory is, so that a mount of that elsewhere is no
//! other policy, edited or not; and under what its file is, so that a hard link is none. What is counted is added to all
//! three, and the one that holds most is right.
//!
//! Every entry keeps its amount and the sum of all entries of its key up to it. What a window holds is the difference
//! between its last and its first entry, so it takes two look-ups, however many entries lie between. Entries leave as windows
//! pass.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::files::DATABASE;
use super::{Amount, Moment, StateError};
use crate::policy::model::Policy;
use crate::sys;

/// How many old entries of one ledger a transaction removes: more than it adds, and few enough to take no time.
const SWEPT: u32 = 256;

/// One ledger: a rate's or an alert's own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ledger<'a> {
    /// The policy: two of them never share a ledger.
    pub policy: &'a Policy,
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

impl Standing {
    /// Where nothing is kept.
    pub(super) const NOTHING: Standing = Standing { used: Amount::ZERO, oldest: None };

    /// The one that holds more.
    fn or(self, other: Standing) -> Standing {
        if other.used > self.used { other } else { self }
    }
}

/// Under what a policy's ledgers are kept: its canonical path, its place in its directory, and its file.
fn names(policy: &Policy) -> [Vec<u8>; 3] {
    let path = &*policy.path;
    let place = [
        &identity(path.parent().unwrap_or(path), "dir")[..],
        b"/",
        path.file_name().unwrap_or_default().as_bytes(),
    ];
    [path.as_os_str().as_bytes().to_vec(), place.concat(), identity(path, "file")]
}

/// What is there, under whatever path.
fn identity(path: &Path, what: &str) -> Vec<u8> {
    let identity = match sys::path::birth(path) {
        Some((inode, made)) => format!("{what}:{inode}:{made}"),
        None => match path.metadata() {
            Ok(meta) => format!("{what}:{}:on:{}", meta.ino(), meta.dev()),
            // Gone since the policy was read: then the path has to do.
            Err(_) => return [what.as_bytes(), b":at:", path.as_os_str().as_bytes()].concat(),
        },
    };
    identity.into_bytes()
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
    fn id(&self, db: &Connection, policy: &[u8]) -> Result<Option<i64>, StateError> {
        let found = db
            .query_row(
                "SELECT id FROM ledgers WHERE policy = ?1 AND kind = ?2 AND name = ?3 AND measure = ?4",
                params![policy, self.kind, self.name, self.measure],
                |row| row.get(0),
            )
            .optional()?;
        Ok(found)
    }

    /// What `key` holds. Reads only.
    pub(super) fn standing(&self, db: &Connection, key: &str, now: &Moment) -> Result<Standing, StateError> {
        let mut found: Option<Standing> = None;
        for name in names(self.policy) {
            let Some(id) = self.id(db, &name)? else { continue };
            let Some(counter) = counter(db, id, key)? else { continue };
            let standing = self.window(db, counter, now)?;
            found = Some(found.map_or(standing, |other| other.or(standing)));
        }
        Ok(found.unwrap_or(Standing::NOTHING))
    }

    /// What every key holds that holds anything, those that hold most first. Reads only.
    pub(super) fn standings(
        &self,
        db: &Connection,
        now: &Moment,
    ) -> Result<Vec<(String, Standing)>, StateError> {
        let mut keys: BTreeMap<String, Standing> = BTreeMap::new();
        for name in names(self.policy) {
            let Some(id) = self.id(db, &name)? else { continue };
            let mut statement = db.prepare("SELECT id, key FROM counters WHERE ledger = ?1")?;
            let counters: Vec<(i64, String)> =
                statement.query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
            for (counter, key) in counters {
                let standing = self.window(db, counter, now)?;
                if standing.oldest.is_some() {
                    keys.entry(key).and_modify(|other| *other = other.or(standing)).or_insert(standing);
                }
            }
        }
        let mut found: Vec<(String, Standing)> = keys.into_iter().collect();
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
            return Ok(Standing::NOTHING);
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
        let [path, place, file] = names(self.policy);
        let by_path = self.add_to(tx, &path, key, now, amount)?;
        let by_place = self.add_to(tx, &place, key, now, amount)?;
        Ok(by_path.or(by_place).or(self.add_to(tx, &file, key, now, amount)?))
    }

    fn add_to(
        &self,
        tx: &Transaction<'_>,
        policy: &[u8],
        key: &str,
        now: &Moment,
        amount: Amount,
    ) -> Result<Standing, StateError> {
        let ledger = self.made(tx, policy)?;
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
    fn made(&self, tx: &Transaction<'_>, policy: &[u8]) -> Result<i64, StateError> {
        let per = i64::try_from(self.per.as_nanos()).unwrap_or(i64::MAX);
        let id = tx.query_row(
            "INSERT INTO ledgers (policy, kind, name, measure, per) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (policy, kind, name, measure) DO UPDATE SET per = ?5 RETURNING id",
            params![policy, self.kind, self.name, self.measure, per],
            |row| row.get(0),
        )?;
        Ok(id)
    }

    /// Whether the figure may be told of now: it was not within the last window. Then that is kept.
    pub(super) fn tell(&self, tx: &Transaction<'_>, now: &Moment) -> Result<bool, StateError> {
        let edge = now.minus(self.per);
        let mut ledgers = Vec::with_capacity(3);
        for name in names(self.policy) {
            let ledger = self.made(tx, &name)?;
            let told: Option<i64> =
                tx.query_row("SELECT told FROM ledgers WHERE id = ?1", [ledger], |row| row.get(0))?;
            if told.is_some_and(|told| told > edge) {
                return Ok(false);
            }
            ledgers.push(ledger);
        }
        for ledger in ledgers {
            tx.execute("UPDATE ledgers SET told = ?2 WHERE id = ?1", [ledger, now.nanos])?;
        }
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

/// Removes some of what has left its window, of all ledgers: also of those whose policy is gone.
pub(super) fn sweep(tx: &Transaction<'_>, now: &Moment) -> Result<(), StateError> {
    let ledgers: Vec<(i64, i64)> = tx
        .prepare("SELECT id, per FROM ledgers")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (ledger, per) in ledgers {
        let edge = now.nanos.saturating_sub(per);
        let old: Vec<(i64, i64)> = tx
            .prepare("SELECT counter, at FROM uses WHERE ledger = ?1 AND at <= ?2 ORDER BY at LIMIT ?3")?
            .query_map(params![ledger, edge, SWEPT], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        if old.is_empty() {
            continue;
        }
        let mut remove = tx.prepare("DELETE FROM uses WHERE counter = ?1 AND at = ?2")?;
        for (counter, at) in &old {
            remove.execute([counter, at])?;
        }
        for counter in old.iter().map(|(counter, _)| counter).collect::<BTreeSet<_>>() {
            tx.execute(
                "DELETE FROM counters WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM uses WHERE counter = ?1)",
                [counter],
            )?;
        }
        tx.execute(
            "DELETE FROM ledgers WHERE id = ?1 AND (told IS NULL OR told <= ?2)
             AND NOT EXISTS (SELECT 1 FROM counters WHERE ledger = ?1)",
            [ledger, edge],
        )?;
    }
    Ok(())
}
