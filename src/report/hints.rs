//! What a failed run may have met of its confinement, so that a model can tell a refusal from an ordinary failure.
//!
//! The kernel tells the run alone what it refuses, and the run tells it on standard error or not at all. So nothing is
//! guessed about what happened: a name that stands beside the words of a refusal is looked up among what the confinement
//! keeps from the run, and where it is kept, that is said, and what in the policy would change it. It is true whatever the run
//! writes there.

use std::path::Path;

use super::result::ResultDoc;
use super::status::Status;
use crate::request::quote;
use crate::sandbox::bounds::{Bounds, Failure, Refusal};

/// How many are given, and how much of standard error is looked at: its end.
const MOST: usize = 3;
const TAIL: usize = 8 << 10;
/// Longer names are not looked up.
const MAX_NAME: usize = 512;

/// The words of a refusal, in lower case.
const PHRASES: [(&str, Failure); 7] = [
    ("permission denied", Failure::Permission),
    ("operation not permitted", Failure::Permission),
    ("read-only file system", Failure::ReadOnly),
    ("no such file or directory", Failure::Missing),
    (" eacces", Failure::Permission),
    (" eperm", Failure::Permission),
    (" erofs", Failure::ReadOnly),
];
/// What programs say that reached nobody.
const NO_NETWORK: [&str; 8] = [
    "resolve host",
    "unable to resolve",
    "name resolution",
    "name or service not known",
    "network is unreachable",
    "getaddrinfo",
    "establish a new connection",
    "socket: ",
];

impl ResultDoc {
    /// Lines to follow the text of a run that failed by itself; each begins with a newline.
    pub(super) fn hints(&self) -> String {
        match (&self.bounds, &self.stderr) {
            (Some(bounds), Some(stderr)) if self.status == Status::NonzeroExit => {
                hints(bounds, stderr).iter().map(|hint| format!("\nhint: {hint}")).collect()
            }
            _ => String::new(),
        }
    }
}

fn hints(bounds: &Bounds, stderr: &str) -> Vec<String> {
    let start = (stderr.len().saturating_sub(TAIL)..).find(|at| stderr.is_char_boundary(*at));
    let mut found: Vec<String> = Vec::new();
    for line in stderr[start.unwrap_or_default()..].lines() {
        let lower = line.to_ascii_lowercase();
        let hint = match named(line, &lower).and_then(|(name, failure)| bounds.refuses(name, failure)) {
            // What could not be executed is told by its name alone, and nothing was to be read or written there.
            Some((_, refusal)) if lower.contains("exec ") && !matches!(refusal, Refusal::Starting(_)) => {
                continue;
            }
            Some((path, refusal)) => said(&path, refusal),
            None if bounds.no_network && NO_NETWORK.iter().any(|words| lower.contains(words)) => {
                "this run has no network: [network] mode in the policy is none".to_owned()
            }
            None => continue,
        };
        if !found.contains(&hint) {
            found.push(hint);
        }
        if found.len() == MOST {
            break;
        }
    }
    found
}

fn said(path: &Path, refusal: Refusal) -> String {
    let shown = quote::display(path.as_os_str().as_encoded_bytes());
    match refusal {
        Refusal::Reading => format!(
            "the confinement does not let this run read or write {shown}: neither read nor write in [filesystem] of the policy names it"
        ),
        Refusal::Writing => format!(
            "the confinement does not let this run write {shown}: write elsewhere, for write in [filesystem] of the policy does not name it"
        ),
        Refusal::Changing => format!(
            "the confinement keeps {shown} as it is, for it is the policy's or would make the host run code: a person has to change it"
        ),
        Refusal::Denied => format!("the policy keeps {shown} from this run: it is in [filesystem] deny"),
        Refusal::Starting(true) => {
            "the confinement lets this run start no further program: its rule has no exec that lists any"
                .to_owned()
        }
        Refusal::Starting(false) => {
            format!("the confinement does not let this run start {shown}: exec in its rule does not list it")
        }
        Refusal::Hosts => {
            format!(
                "{shown} is this run's own and was empty when it began: keep elsewhere what several runs need"
            )
        }
    }
}

/// The name that a line speaks of, and how it failed. `lower`: the line in lower case.
fn named<'l>(line: &'l str, lower: &str) -> Option<(&'l str, Failure)> {
    let (at, words, failure) =
        PHRASES.iter().find_map(|(words, failure)| Some((lower.find(words)?, *words, *failure)))?;
    let (before, after) = (&line[..at], &line[at + words.len()..]);
    let name = quoted(after).or_else(|| last(before))?;
    let fits = !name.is_empty() && name.len() <= MAX_NAME && !name.contains(char::is_control);
    fits.then_some((name, failure))
}

const QUOTES: [(char, char); 5] = [('\'', '\''), ('"', '"'), ('`', '\''), ('`', '`'), ('‘', '’')];

/// The first text in quotes.
fn quoted(text: &str) -> Option<&str> {
    let (at, open) = text.char_indices().find(|(_, c)| QUOTES.iter().any(|(open, _)| open == c))?;
    let rest = &text[at + open.len_utf8()..];
    rest.split_once(|c| QUOTES.contains(&(open, c))).map(|(inside, _)| inside)
}

/// The text in quotes, or else the word, that stands last.
fn last(text: &str) -> Option<&str> {
    let between = [' ', ':', '('];
    let text = text.trim_end_matches(between);
    // Python puts the number there.
    let text = match text.rsplit_once(" [Errno ") {
        Some((before, number)) if number.ends_with(']') => before.trim_end_matches(between),
        _ => text,
    };
    for (open, close) in QUOTES {
        if let Some(text) = text.strip_suffix(close)
            && let Some((_, inside)) = text.rsplit_once(open)
        {
            return Some(inside);
        }
    }
    text.rsplit(char::is_whitespace).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_found_as_ordinary_programs_write_it() {
        use Failure::{Missing, Permission, ReadOnly};
        for (line, name, failure) in [
            ("sh: 1: cannot create /etc/a: Read-only file system", "/etc/a", ReadOnly),
            ("touch: cannot touch '/a b': Permission denied", "/a b", Permission),
            ("mkdir: cannot create directory ‘x’: Operation not permitted", "x", Permission),
            ("PermissionError: [Errno 13] Permission denied: '/root/x'", "/root/x", Permission),
            ("OSError: [Errno 30] Read-only file system: '/x'", "/x", ReadOnly),
            ("Error: EACCES: permission denied, open '/x'", "/x", Permission),
            ("Error: spawn id EACCES", "id", Permission),
            ("bash: line 1: /usr/bin/id: Permission denied", "/usr/bin/id", Permission),
            ("find: ‘sh’: Permission denied", "sh", Permission),
            ("open /x: permission denied", "/x", Permission),
            ("java.io.FileNotFoundException: /x (Permission denied)", "/x", Permission),
            ("error: could not lock config file .git/config: Read-only file system", ".git/config", ReadOnly),
            (
                "python3: can't open file '/tmp/a.py': [Errno 2] No such file or directory",
                "/tmp/a.py",
                Missing,
            ),
        ] {
            assert_eq!(named(line, &line.to_ascii_lowercase()), Some((name, failure)), "{line}");
        }
        for line in
            ["", "Permission denied", "all is well", "x\u{1}: Permission denied", "permission denied: ''"]
        {
            assert_eq!(named(line, &line.to_ascii_lowercase()), None, "{line}");
        }
    }
}
