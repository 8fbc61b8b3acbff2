//! The plan: which rows are measured how. Tab-separated lines; a section's line, then its rows.
//!
//! ```text
//! latency    TITLE    ROUNDS    SECONDS
//! output     TITLE    ROUNDS    SECONDS
//! inflight   TITLE    AT_ONCE   RUNS      SECONDS (a row)
//! memory     TITLE
//! row        NAME     WORD...
//! ```
//! The first row of a section is what its ratios are to. SECONDS bound the section (`inflight`: each row).

use std::str::FromStr;
use std::time::Duration;

/// Rows that are measured together.
pub struct Section {
    pub title: String,
    pub kind: Kind,
    pub rows: Vec<Row>,
}

/// How they are measured.
pub enum Kind {
    /// One at a time, in turn, output thrown away.
    Latency { rounds: usize, seconds: Duration },
    /// The same with standard output read from a pipe.
    Output { rounds: usize, seconds: Duration },
    /// Many at once, row after row, in several turns.
    InFlight { at_once: usize, runs: usize, seconds: Duration },
    /// Peak memory of the row's own processes.
    Memory,
}

/// A command with a name.
pub struct Row {
    pub name: String,
    pub words: Vec<String>,
}

/// Reads a plan.
pub fn parse(text: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, l)| !l.is_empty()) {
        let fields: Vec<&str> = line.split('\t').collect();
        let wrong = || format!("line {}: cannot make sense of `{line}`", number + 1);
        if let ["row", name, program, args @ ..] = fields.as_slice() {
            let words = std::iter::once(program).chain(args).map(|w| (*w).to_owned()).collect();
            let section = sections.last_mut().ok_or_else(wrong)?;
            section.rows.push(Row { name: (*name).to_owned(), words });
            continue;
        }
        let kind = kind(&fields).ok_or_else(wrong)?;
        sections.push(Section { title: fields[1].to_owned(), kind, rows: Vec::new() });
    }
    Ok(sections)
}

fn kind(fields: &[&str]) -> Option<Kind> {
    match fields {
        ["latency", _, rounds, seconds] => {
            Some(Kind::Latency { rounds: number(rounds)?, seconds: duration(seconds)? })
        }
        ["output", _, rounds, seconds] => {
            Some(Kind::Output { rounds: number(rounds)?, seconds: duration(seconds)? })
        }
        ["inflight", _, at_once, runs, seconds] => Some(Kind::InFlight {
            at_once: number(at_once)?,
            runs: number(runs)?,
            seconds: duration(seconds)?,
        }),
        ["memory", _] => Some(Kind::Memory),
        _ => None,
    }
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn duration(text: &str) -> Option<Duration> {
    number(text).map(Duration::from_secs)
}
