//! The end of the file: the last record, and whatever was left behind it.

use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::file::Log;
use super::record;
use super::{AuditError, Head, MAX_LINE};
use crate::sys::hex;

/// What was read at the end. `len` is the file's length.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) len: u64,
    pub(super) head: Option<Head>,
    /// Bytes behind the last record that are no record.
    pub(super) debris: Option<Debris>,
    /// The last byte is no newline.
    pub(super) unfinished: bool,
}

/// Bytes that are no record.
#[derive(Debug)]
pub(super) struct Debris {
    pub(super) lines: usize,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl Tail {
    /// Whether something has to be closed first.
    pub(super) fn torn(&self) -> bool {
        self.debris.is_some() || self.unfinished
    }
}

/// The first look at the end; most records fit.
const FIRST: usize = 4 << 10;

/// Reads the end of the file, more and more of it until a whole record is found, at most twice [`MAX_LINE`].
pub(super) fn read(path: &Path, log: &Log) -> Result<Tail, AuditError> {
    let len = log.len().map_err(|e| AuditError::io(path, "inspect", e))?;
    let mut size = FIRST;
    loop {
        let from = len.saturating_sub(size as u64);
        let mut window = vec![0; (len - from) as usize];
        log.read_exact_at(&mut window, from).map_err(|e| AuditError::io(path, "read", e))?;
        if let Some(tail) = look(&window, from == 0, len) {
            return Ok(tail);
        }
        if from == 0 || size >= 2 * MAX_LINE {
            return Err(AuditError::NotAudit { path: path.to_owned() });
        }
        size *= 8;
    }
}

/// Finds the last record in the window. `whole`: the window starts where the file does.
fn look(window: &[u8], whole: bool, len: u64) -> Option<Tail> {
    let unfinished = window.last().is_some_and(|b| *b != b'\n');
    let mut end = window.len();
    while end > 0 {
        let line_end = if window[end - 1] == b'\n' { end - 1 } else { end };
        let newline = window[..line_end].iter().rposition(|b| *b == b'\n');
        let start = match newline {
            Some(at) => at + 1,
            None if whole => 0,
            None => return None,
        };
        if let Some(found) = record::parse(&window[start..line_end]) {
            let head = Some(Head { seq: found.seq, hash: found.hash.to_owned() });
            return Some(Tail { len, head, debris: debris(&window[end..]), unfinished });
        }
        end = start;
    }
    // No record at all: an empty file, or a first line that was torn. Anything else is not ours to write to.
    let first_torn = unfinished && !window.contains(&b'\n') && record::may_start(window);
    (whole && (window.is_empty() || first_torn)).then(|| Tail {
        len,
        head: None,
        debris: debris(window),
        unfinished,
    })
}

fn debris(bytes: &[u8]) -> Option<Debris> {
    let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    (!bytes.is_empty()).then(|| Debris {
        lines: 1 + text.iter().filter(|b| **b == b'\n').count(),
        bytes: text.len() as u64,
        sha256: hex(&Sha256::digest(text)),
    })
}
