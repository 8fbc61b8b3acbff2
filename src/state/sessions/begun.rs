//! Runs between their beginning and their end: where guardexec is killed, nobody says how the run went, and the next call of
//! the session has to find out that it never came to its end.
//!
//! A row says that a run began; it goes when its call is over. A lock on one byte of a file says that its process is there
//! yet. The kernel drops the lock with the process, however that ends, so neither a number that another process got
//! meanwhile nor a reboot is taken for it, and it is seen from every PID namespace.

use std::fs::File;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rusqlite::{Connection, Transaction, params};

use super::{Halt, Session, halt, halts};
use crate::policy::model::{HaltOn, Policy};
use crate::state::{Moment, StateError, files};

/// The file of the locks: the byte of a run is the number of its row, which is never given twice.
const RUNS: &str = "state.runs";

/// Why a session is halted whose run was cut off.
const CUT_OFF: &str = "a call was cut off before its end";

/// A run of a session that has begun. While this lives, it is not taken for one that was cut off.
#[derive(Debug)]
pub struct Begun {
    row: i64,
    lock: File,
}

impl Drop for Begun {
    fn drop(&mut self) {
        // Said out loud, not left to close: a child forked meanwhile by the embedding program shares the description and
        // would keep the lock until it execs.
        let _ = fcntl(&self.lock, FcntlArg::F_OFD_SETLK(&byte(libc::F_UNLCK, self.row)));
    }
}

/// Whether it matters how runs end: any policy halts a session for what a run came to. What one came to that was cut off
/// nobody knows, so it is taken for each of these.
pub fn is_kept(policies: &[Policy]) -> bool {
    halts(policies).any(|on| !matches!(on, HaltOn::Denied(_)))
}

/// Keeps that a run of the session begins, in the store in `dir`, after it was counted.
///
/// # Errors
/// The store cannot be written.
pub fn run_begins(
    tx: &Transaction<'_>,
    now: &Moment,
    dir: &Path,
    session: &str,
    run: &str,
) -> Result<Begun, StateError> {
    tx.execute(
        "INSERT INTO session_runs (session, run, wall) VALUES (?1, ?2, ?3)",
        params![session, run, now.wall],
    )?;
    let row = tx.last_insert_rowid();
    let path = dir.join(RUNS);
    let failed = |errno: Errno| StateError::io(&path, "lock", errno.into());
    let file = files::with_an_owners_umask(|| files::open(&path, true))?;
    let lock = file.ok_or(Errno::ENOENT).map_err(failed)?;
    // Before the row is there for others to see.
    fcntl(&lock, FcntlArg::F_OFD_SETLK(&byte(libc::F_WRLCK, row))).map_err(failed)?;
    Ok(Begun { row, lock })
}

/// The call is over, and what the run came to is kept.
///
/// # Errors
/// The store cannot be written.
pub fn conclude(tx: &Transaction<'_>, begun: &Begun) -> Result<(), StateError> {
    tx.execute("DELETE FROM session_runs WHERE id = ?1", [begun.row])?;
    Ok(())
}

/// The session as it stands: one that is open and has a run that was cut off is halted, by the policies that say so. Reads only.
///
/// # Errors
/// The store cannot be read.
pub fn with_cut_off(
    db: &Connection,
    dir: &Path,
    policies: &[Policy],
    mut session: Session,
) -> Result<Session, StateError> {
    if session.halted.is_none() && is_kept(policies) {
        session.halted = cut_off(db, dir, &session.id)?.into_iter().next().map(|(_, halt)| halt);
    }
    Ok(session)
}

/// Whether the session has a run that was cut off and is not dealt with yet, and a policy that cares. Reads only.
///
/// # Errors
/// The store cannot be read.
pub fn has_cut_off(db: &Connection, dir: &Path, policies: &[Policy], id: &str) -> Result<bool, StateError> {
    Ok(is_kept(policies) && !cut_off(db, dir, id)?.is_empty())
}

/// Halts a session that has a run that was cut off; that run has been dealt with then. Gives the reason where this halted
/// it.
///
/// # Errors
/// The store cannot be used.
pub fn halt_cut_off(
    tx: &Transaction<'_>,
    now: &Moment,
    dir: &Path,
    policies: &[Policy],
    id: &str,
) -> Result<Option<Halt>, StateError> {
    let found = cut_off(tx, dir, id)?;
    let Some((_, first)) = found.first() else { return Ok(None) };
    let halted = halt(tx, now, policies, id, CUT_OFF, first.run.as_deref())?;
    forget(tx, &found)?;
    Ok(halted)
}

/// What was cut off so far counts no more.
pub(super) fn forget_cut_off(tx: &Transaction<'_>, dir: &Path, id: &str) -> Result<(), StateError> {
    forget(tx, &cut_off(tx, dir, id)?)
}

fn forget(tx: &Transaction<'_>, found: &[(i64, Halt)]) -> Result<(), StateError> {
    for (row, _) in found {
        tx.execute("DELETE FROM session_runs WHERE id = ?1", [row])?;
    }
    Ok(())
}

/// The session's runs that began and whose process is gone, each with what it halts the session for.
fn cut_off(db: &Connection, dir: &Path, id: &str) -> Result<Vec<(i64, Halt)>, StateError> {
    let mut statement =
        db.prepare("SELECT id, run, wall FROM session_runs WHERE session = ?1 ORDER BY id")?;
    let all: Vec<(i64, Halt)> = statement
        .query_map([id], |row| {
            let halt = Halt { reason: CUT_OFF.to_owned(), run: Some(row.get(1)?), wall: row.get(2)? };
            Ok((row.get(0)?, halt))
        })?
        .collect::<Result<_, _>>()?;
    if all.is_empty() {
        return Ok(all);
    }
    // Without the file nobody holds a lock.
    let locks = files::open(&dir.join(RUNS), false)?;
    let mut found = Vec::new();
    for (row, halt) in all {
        if !locks.as_ref().map_or(Ok(false), |locks| is_held(locks, row, dir))? {
            found.push((row, halt));
        }
    }
    Ok(found)
}

fn is_held(locks: &File, row: i64, dir: &Path) -> Result<bool, StateError> {
    let mut range = byte(libc::F_WRLCK, row);
    fcntl(locks, FcntlArg::F_OFD_GETLK(&mut range))
        .map_err(|errno| StateError::io(&dir.join(RUNS), "look at the locks of", errno.into()))?;
    Ok(i32::from(range.l_type) != libc::F_UNLCK)
}

/// Open file description locks, as the store's own: see `lock`. A process forked meanwhile holds it too until it is gone.
fn byte(kind: libc::c_int, row: i64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: row,
        l_len: 1,
        l_pid: 0,
    }
}
