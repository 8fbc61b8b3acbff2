//! Whether audit files are one unbroken chain.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::record::{self, Parsed, Torn};
use super::{Head, MAX_LINE};
use crate::sys::hex;

/// What was found. `bad` alone says whether the chain is whole.
#[derive(Debug, Default)]
#[must_use]
pub struct VerifyReport {
    /// Records read and found good.
    pub records: u64,
    /// `seq` and `prev` of the first record. A `prev` says that an older file belongs before the first.
    pub first: Option<(u64, Option<String>)>,
    /// `seq` and `hash` of the last good record.
    pub last: Option<(u64, String)>,
    /// Torn lines that an `error` record closed.
    pub torn: u64,
    /// The first thing that is wrong.
    pub bad: Option<Bad>,
}

/// The first thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bad {
    /// In which file.
    pub file: PathBuf,
    /// In which line, counted from 1; 0 where it is the file as a whole.
    pub line: u64,
    /// What, in one sentence.
    pub reason: String,
}

impl std::fmt::Display for Bad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let file = self.file.to_string_lossy();
        for c in file.chars() {
            if super::super::json::is_unsafe(c) {
                write!(f, "{}", c.escape_unicode())?;
            } else {
                write!(f, "{c}")?;
            }
        }
        write!(f, ":{}: {}", self.line, self.reason)
    }
}

/// Reads the files, oldest first, as one chain. `expect` is the `SEQ:HASH` of a record that must be in them.
/// Memory stays bounded by [`MAX_LINE`].
pub fn verify(files: &[PathBuf], expect: Option<(u64, &str)>) -> VerifyReport {
    let mut chain = Chain { report: VerifyReport::default(), head: None, debris: None, expect, seen: false };
    let mut end = (PathBuf::new(), 0);
    for file in files {
        let mut line = 0;
        let result = chain.read(file, &mut line);
        if let Err(reason) = result {
            let (file, line) = match chain.debris.take() {
                // What is wrong with the line after debris is that it does not close it.
                Some(debris) => (debris.file, debris.line),
                None => (file.clone(), line),
            };
            chain.report.bad = Some(Bad { file, line, reason });
            return chain.report;
        }
        end = (file.clone(), line);
    }
    if let Err(reason) = chain.finish() {
        chain.report.bad = Some(Bad { file: end.0, line: end.1, reason });
    }
    chain.report
}

struct Chain<'a> {
    report: VerifyReport,
    head: Option<Head>,
    debris: Option<Debris>,
    expect: Option<(u64, &'a str)>,
    seen: bool,
}

/// A line that is no record, until the next one closes it.
struct Debris {
    file: PathBuf,
    line: u64,
    torn: Torn,
}

const NO_RECORD: &str = "not an audit record, and no error record closes it";

impl Chain<'_> {
    fn read(&mut self, path: &Path, number: &mut u64) -> Result<(), String> {
        // O_NONBLOCK: a pipe without a writer must not hold us.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY)
            .open(path)
            .map_err(|e| format!("cannot be opened: {e}"))?;
        if !file.metadata().is_ok_and(|m| m.is_file()) {
            return Err("not a regular file".into());
        }
        let mut reader = BufReader::with_capacity(64 << 10, file);
        let mut line = Vec::new();
        while read_line(&mut reader, &mut line).map_err(|e| format!("cannot be read: {e}"))? {
            *number += 1;
            if line.pop() != Some(b'\n') {
                let why = if line.len() + 1 >= MAX_LINE {
                    "longer than 8 MiB"
                } else {
                    "torn: no newline at its end"
                };
                return Err(why.into());
            }
            match record::parse(&line) {
                Some(found) => self.record(&found)?,
                None => self.set_aside(path, *number, &line)?,
            }
        }
        match self.debris {
            None => Ok(()),
            Some(_) => Err(NO_RECORD.into()),
        }
    }

    fn set_aside(&mut self, file: &Path, line: u64, bytes: &[u8]) -> Result<(), String> {
        if self.debris.is_some() {
            return Err(NO_RECORD.into());
        }
        let torn = Torn { bytes: bytes.len() as u64, sha256: hex(&Sha256::digest(bytes)) };
        self.debris = Some(Debris { file: file.to_owned(), line, torn });
        Ok(())
    }

    fn record(&mut self, found: &Parsed<'_>) -> Result<(), String> {
        match (&self.debris, &found.torn) {
            (None, None) => {}
            (Some(debris), Some(torn)) if debris.torn == *torn && !found.foreign => {
                self.report.torn += 1;
            }
            (Some(_), Some(_)) if found.foreign => return Err("a line that is no record was put here".into()),
            (Some(_), _) => return Err(NO_RECORD.into()),
            (None, Some(_)) => return Err("closes a torn line that is not there".into()),
        }
        self.debris = None;
        if !found.is_intact() {
            return Err(format!("record {} was changed: its hash does not fit", found.seq));
        }
        self.link(found)?;
        if let Some((seq, hash)) = self.expect.filter(|(seq, _)| *seq == found.seq) {
            if hash != found.hash {
                return Err(format!("record {seq} is not the expected one: its hash differs"));
            }
            self.seen = true;
        }
        self.report.records += 1;
        self.report.last = Some((found.seq, found.hash.to_owned()));
        self.head = Some(Head { seq: found.seq, hash: found.hash.to_owned() });
        Ok(())
    }

    /// Whether the record follows the one before it.
    fn link(&mut self, found: &Parsed<'_>) -> Result<(), String> {
        let seq = found.seq;
        let Some(head) = &self.head else {
            if (seq == 1) != found.prev.is_none() || seq == 0 {
                return Err(format!("record {seq} cannot begin a chain with this prev"));
            }
            self.report.first = Some((seq, found.prev.clone()));
            return Ok(());
        };
        let want = head.seq.saturating_add(1);
        if seq > want {
            let missing = if seq - 1 == want {
                format!("record {want} is")
            } else {
                format!("records {want} to {} are", seq - 1)
            };
            return Err(format!("{missing} missing before record {seq}"));
        }
        if seq < want {
            return Err(format!("record {seq} after record {}: repeated or out of order", head.seq));
        }
        if found.prev.as_deref() != Some(head.hash.as_str()) {
            return Err(format!("record {seq} does not follow the record before it: prev differs"));
        }
        Ok(())
    }

    fn finish(&self) -> Result<(), String> {
        let Some((seq, _)) = self.expect else { return Ok(()) };
        match &self.report.last {
            _ if self.seen => Ok(()),
            None => Err(format!("no records, but record {seq} was expected")),
            Some((last, _)) if *last < seq => {
                Err(format!("the tail was cut: the last record is {last}, but record {seq} was written"))
            }
            Some(_) => Err(format!("record {seq} is older than the first record here")),
        }
    }
}

/// Reads one line with its newline; false at the end. A line that is being written at this moment is waited
/// for briefly. Never reads more than [`MAX_LINE`].
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    for _ in 0..5 {
        let room = (MAX_LINE - line.len()) as u64;
        reader.by_ref().take(room).read_until(b'\n', line)?;
        if line.is_empty() {
            return Ok(false);
        }
        if line.ends_with(b"\n") || line.len() >= MAX_LINE {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(true)
}
