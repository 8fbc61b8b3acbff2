//! What is wrong with a policy, said as a compiler would say it: file, line, column, the line itself, a hint.
//!
//! The excerpt may hold anything an attacker got into a file, so whatever is shown is escaped here, once.

use std::fmt::{self, Write as _};
use std::ops::{Deref, DerefMut, Range};
use std::path::Path;
use std::sync::Arc;

use super::place::Place;

/// How many characters of a long line are shown around the caret.
const WINDOW: usize = 100;

/// What kind of trouble a policy makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// No such file, or no policy at all.
    NotFound,
    /// The file could not be opened or read.
    Unreadable,
    /// Someone else could change the file.
    Untrusted,
    /// Not UTF-8, not TOML, too large, not a regular file.
    Malformed,
    /// TOML, but not a policy that makes sense.
    Invalid,
}

/// One reason why a policy cannot be used. One word, since every value read from a policy is handed on with the room
/// for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError(Box<Complaint>);

/// What a [`PolicyError`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// What kind of trouble.
    pub kind: ErrorKind,
    /// One sentence without a full stop; safe to print.
    pub message: String,
    /// The file and the line, where there is one. Line 0 stands for the file as a whole.
    pub place: Option<Place>,
    /// The column, in characters, counted from 1; 0 where the whole line is meant.
    pub column: u32,
    /// The line and what the caret points at.
    pub excerpt: Option<Box<Excerpt>>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Deref for PolicyError {
    type Target = Complaint;

    fn deref(&self) -> &Complaint {
        &self.0
    }
}

impl DerefMut for PolicyError {
    fn deref_mut(&mut self) -> &mut Complaint {
        &mut self.0
    }
}

/// A line of a policy, made safe to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The line, escaped and clipped.
    pub line: String,
    /// How many characters stand before the caret.
    pub indent: usize,
    /// How many carets.
    pub width: usize,
}

/// A stretch of a policy file's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// The file and the line.
    pub place: Place,
    /// The whole text of the file.
    pub text: Arc<str>,
    /// Byte offsets in it.
    pub span: Range<usize>,
}

impl Spot {
    /// An error at this spot: its column, its line and carets under it. A spot of several lines is marked on
    /// the first.
    pub fn error(&self, kind: ErrorKind, message: impl Into<String>) -> PolicyError {
        let before = self.text.get(..self.span.start).unwrap_or(&self.text);
        let start = before.rfind('\n').map_or(0, |i| i + 1);
        let line = self.text.get(start..).unwrap_or("").split('\n').next().unwrap_or("");
        let chars_to = |offset: usize| {
            let within = offset.saturating_sub(start).min(line.len());
            line.char_indices().take_while(|(i, _)| *i < within).count()
        };
        let (from, to) = (chars_to(self.span.start), chars_to(self.span.end));
        let mut error = PolicyError::general(kind, message);
        error.place = Some(self.place.clone());
        error.column = u32::try_from(from + 1).unwrap_or(u32::MAX);
        error.excerpt = Some(Box::new(Excerpt::new(line, from, to)));
        error
    }
}

impl PolicyError {
    /// An error about a file as a whole.
    pub fn file(kind: ErrorKind, path: &Path, message: impl Into<String>) -> PolicyError {
        let mut error = PolicyError::general(kind, message);
        error.place = Some(Place { file: Arc::from(path), line: 0 });
        error
    }

    /// An error about no file in particular.
    pub fn general(kind: ErrorKind, message: impl Into<String>) -> PolicyError {
        let message = message.into();
        PolicyError(Box::new(Complaint { kind, message, place: None, column: 0, excerpt: None, hint: None }))
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> PolicyError {
        self.hint = Some(hint.into());
        self
    }

    /// `FILE:LINE:COLUMN: MESSAGE; HINT` on one line.
    pub fn one_line(&self) -> String {
        let mut out = String::new();
        if let Some(place) = &self.place {
            push_where(&mut out, place, self.column);
            out.push_str(": ");
        }
        out.push_str(&self.message);
        if let Some(hint) = &self.hint {
            let _ = write!(out, "; {hint}");
        }
        out
    }
}

/// `FILE[:LINE[:COLUMN]]`.
fn push_where(out: &mut String, place: &Place, column: u32) {
    out.push_str(&printable(&place.file.to_string_lossy()));
    if place.line > 0 {
        let _ = write!(out, ":{}", place.line);
        if column > 0 {
            let _ = write!(out, ":{column}");
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        let number = match &self.place {
            Some(place) if place.line > 0 => place.line.to_string(),
            _ => String::new(),
        };
        let pad = " ".repeat(number.len());
        if let Some(place) = &self.place {
            let mut at = String::new();
            push_where(&mut at, place, self.column);
            write!(f, "\n{pad}--> {at}")?;
        }
        if let Some(excerpt) = &self.excerpt {
            let carets = "^".repeat(excerpt.width);
            let indent = " ".repeat(excerpt.indent);
            write!(f, "\n{pad} |\n{number} | {}\n{pad} | {indent}{carets}", excerpt.line)?;
            if let Some(hint) = &self.hint {
                write!(f, " {hint}")?;
            }
        } else if let Some(hint) = &self.hint {
            write!(f, "\n{pad} = help: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyError {}

impl Excerpt {
    /// The excerpt of `line` with carets under the characters `start..end` (counted in characters).
    pub fn new(line: &str, start: usize, end: usize) -> Excerpt {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let chars: Vec<char> = line.chars().collect();
        let start = start.min(chars.len());
        let end = end.clamp(start, chars.len());
        let from = if start < WINDOW { 0 } else { start - WINDOW / 2 };
        let to = (from + WINDOW).min(chars.len());
        let show = |range: std::ops::Range<usize>| {
            chars[range.start..range.end.max(range.start)].iter().map(|c| shown(*c)).collect::<String>()
        };
        let head = if from > 0 { "..." } else { "" };
        let before = show(from..start);
        let marked = show(start..end.min(to));
        let tail = if to < chars.len() { "..." } else { "" };
        Excerpt {
            indent: head.len() + before.chars().count(),
            width: marked.chars().count().max(1),
            line: format!("{head}{before}{marked}{}{tail}", show(end.min(to)..to)),
        }
    }
}

/// A character as it is safe to show: no controls, no invisible or direction-changing characters.
fn shown(c: char) -> String {
    match c {
        '\t' => " ".to_owned(),
        c if is_unprintable(c) => c.escape_unicode().to_string(),
        c => c.to_string(),
    }
}

/// Control, invisible and direction-changing characters, and line separators.
#[inline]
pub(super) fn is_unprintable(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A text that is made [`printable`] only when it is shown.
pub(super) struct Shown<'a>(pub &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(self.0))
    }
}

/// Any text made safe to print on one line, and not longer than 200 characters.
pub(super) fn printable(text: &str) -> String {
    let mut out: String = text.chars().take(200).map(shown).collect();
    if text.chars().nth(200).is_some() {
        out.push_str("...");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_clipped_around_the_caret() {
        let line = format!("{}X{}", "a".repeat(300), "b".repeat(300));
        let e = Excerpt::new(&line, 300, 301);
        assert_eq!(e.line, format!("...{}X{}...", "a".repeat(50), "b".repeat(49)));
        assert_eq!((e.indent, e.width), (53, 1));
    }

    #[test]
    fn hostile_characters_are_escaped_and_the_caret_still_points_at_the_right_one() {
        let e = Excerpt::new("a\u{1b}[31m\u{202e}b\r", 7, 8);
        assert_eq!(e.line, r"a\u{1b}[31m\u{202e}b");
        assert_eq!(&e.line[e.indent..e.indent + e.width], "b");
    }

    #[test]
    fn a_caret_beyond_the_end_still_shows() {
        let e = Excerpt::new("ab", 9, 12);
        assert_eq!((e.line.as_str(), e.indent, e.width), ("ab", 2, 1));
    }

    #[test]
    fn file_errors_have_a_help_line() {
        let e = PolicyError::file(ErrorKind::Untrusted, Path::new("/p\n.toml"), "others can write it")
            .hint("chmod go-w it");
        assert_eq!(e.to_string(), "error: others can write it\n--> /p\\u{a}.toml\n = help: chmod go-w it");
        assert_eq!(e.one_line(), "/p\\u{a}.toml: others can write it; chmod go-w it");
        let general = PolicyError::general(ErrorKind::NotFound, "no policy");
        assert_eq!(
            (general.to_string(), general.one_line()),
            ("error: no policy".into(), "no policy".into())
        );
    }
}
