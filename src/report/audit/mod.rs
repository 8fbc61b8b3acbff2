//! The operator's record: a chain of JSON lines that says what was decided and what came of it.
//!
//! # The line
//! `{"ts":…,"run_id":…,"seq":…,"event":…,"severity":…,"prev":…, …, "hash":…}` and a newline. `seq` counts from 1.
//! `prev` is the `hash` of the record before it, null in the first. `hash` comes last and is the SHA-256, in
//! lower-case hex, of the line's own bytes without `,"hash":"…"` and without the newline. With standard tools:
//!
//! ```text
//! sed -n 7p audit.jsonl | sed 's/,"hash":"[0-9a-f]*"}$/}/' | tr -d '\n' | sha256sum
//! ```
//!
//! No control character, line separator or bidirectional mark stands in a line as it is (see [`super::json`]).
//!
//! The chain shows that a file is whole, not who wrote it: whoever may write the file can compute a new chain.
//! That is what the `SEQ:HASH` of a result is for: kept elsewhere, it pins everything up to that record.
//!
//! # The lock
//! Writers exclude each other by a lock on `FILE.lock`, not on the file itself. A lock on the file could be
//! taken by anybody who can read it (`flock` asks for no write access, and a read lock keeps a write lock out),
//! so a log shipper, or whoever may only read, could stall every run. The sibling is created with mode 0200,
//! so that nobody can open it for reading, and refused unless it is closed to group and others; a record lock
//! on it (`F_OFD_SETLK`, `F_WRLCK`) needs an open for writing. It is never renamed, so that rotation cannot
//! split the writers. The kernel drops the lock with its holder. It is waited for 5 seconds at most.
//!
//! # Failure
//! A line is written by one `write`. If that fails or falls short (a full disk, `RLIMIT_FSIZE`), the file is
//! cut back to its old length and the error is returned; the caller decides, and guardexec's answer is to run
//! nothing. A torn last line (a crash in mid-write) is closed by a newline and an `error` record that names
//! its length and SHA-256. Records survive the death of guardexec at once; they are not forced to the disk, so a
//! power failure may lose the last seconds.
//!
//! # Rotation
//! A file that would grow past `rotate` becomes `FILE.YYYYMMDDTHHMMSSmmm-SEQ` (UTC, the last `seq` in it). Its
//! successor is written aside with its first record, whose `prev` is the old head, and put in place by a rename.

mod error;
mod file;
mod lock;
pub mod record;
mod tail;
pub mod verify;

use std::path::{Path, PathBuf};

pub use error::AuditError;
pub use record::{Body, Record};
pub use verify::{VerifyReport, verify};

use file::Log;
use lock::Lock;
use tail::Tail;

/// The longest line that is written or read, in bytes, its newline included.
pub const MAX_LINE: usize = 8 << 20;

/// How often a file that was rotated away meanwhile is opened again before giving up.
const REOPENS: usize = 8;

/// An open audit file.
#[derive(Debug)]
pub struct Audit {
    path: PathBuf,
    rotate: Option<u64>,
    lock: Lock,
    log: Log,
}

/// Where a record came to stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// Its number.
    pub seq: u64,
    /// Its hash, lower-case hex.
    pub hash: String,
}

/// The last record of a chain, to which the next one is tied.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Head {
    seq: u64,
    hash: String,
}

impl Audit {
    /// Opens the file, creating it with mode 0600 where it is missing, and proves that it may be trusted and
    /// that records can be told apart in it. `rotate` is in bytes.
    ///
    /// # Errors
    /// The file or its lock cannot be opened for writing, is a symbolic link or no regular file, belongs to
    /// neither root nor the effective user, or can be written by group or others.
    pub fn open(path: &Path, rotate: Option<u64>) -> Result<Audit, AuditError> {
        let log = Log::open(path)?;
        let lock = Lock::open(path)?;
        Ok(Audit { path: path.to_owned(), rotate, lock, log })
    }

    /// The file as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one record as one line.
    ///
    /// # Errors
    /// See [`AuditError`]. After an error the file holds what it held before, as far as that is possible.
    pub fn append(&mut self, record: &Record) -> Result<Appended, AuditError> {
        let held = self.lock.take()?;
        follow(&self.path, &mut self.log)?;
        let tail = tail::read(&self.path, &self.log)?;
        let mut head = tail.head.clone();
        let mut lines = Vec::with_capacity(2048);
        if let Some(closing) = closing(record, &tail) {
            if tail.unfinished {
                lines.push(b'\n');
            }
            head = Some(add(&self.path, &mut lines, &closing, head)?);
        }
        let last = add(&self.path, &mut lines, record, head)?;
        let full = self.rotate.is_some_and(|most| tail.len > 0 && tail.len + lines.len() as u64 > most);
        match &tail.head {
            // What closes a torn line has to stand behind it, so such a file is rotated one record later.
            Some(old) if full && !tail.torn() => {
                self.log = file::rotate(&self.path, &self.log, &lines, old.seq, record.ts)?;
            }
            _ => self.log.append(&self.path, &lines, tail.len)?,
        }
        drop(held);
        Ok(Appended { seq: last.seq, hash: last.hash })
    }
}

/// Opens the file again if another writer rotated it away. Called under the lock.
fn follow(path: &Path, log: &mut Log) -> Result<(), AuditError> {
    for _ in 0..REOPENS {
        if log.is_at(path) {
            return Ok(());
        }
        *log = Log::open(path)?;
    }
    Err(AuditError::Moving { path: path.to_owned() })
}

/// The record that closes what a crashed writer or somebody else left behind the last record.
fn closing(record: &Record, tail: &Tail) -> Option<Record> {
    let (kind, message) = match (&tail.debris, tail.unfinished) {
        (None, false) => return None,
        (None, true) => ("torn_line", "the newline of the last record was missing"),
        (Some(debris), true) if debris.lines == 1 => ("torn_line", "the last line was torn"),
        (Some(_), _) => ("foreign_line", "the file ended in lines that are no records"),
    };
    let torn = tail.debris.as_ref().map(|d| record::Torn { bytes: d.bytes, sha256: d.sha256.clone() });
    let body =
        Body::Error(record::ErrorRecord { kind: kind.into(), message: message.into(), hint: None, torn });
    Some(Record { ts: record.ts, run_id: record.run_id.clone(), body })
}

/// Adds one finished line to `lines`.
fn add(path: &Path, lines: &mut Vec<u8>, record: &Record, head: Option<Head>) -> Result<Head, AuditError> {
    let (seq, prev) = match head {
        None => (1, None),
        Some(head) => (head.seq.saturating_add(1), Some(head.hash)),
    };
    let (line, hash) = record::line(record, seq, prev.as_deref())
        .map_err(|e| AuditError::io(path, "put together a record for", e.into()))?;
    if line.len() >= MAX_LINE {
        return Err(AuditError::TooLong { bytes: line.len() });
    }
    lines.extend_from_slice(line.as_bytes());
    lines.push(b'\n');
    Ok(Head { seq, hash })
}

#[cfg(test)]
mod tests;
