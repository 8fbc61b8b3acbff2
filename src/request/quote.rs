//! The one terminal-safe quoting: whatever a person reads of a request goes through here.
//!
//! A word is shown bare where a shell would take it as it is, in single quotes where that is enough, and else as
//! `$'...'` with escapes, in which every backslash is one of ours or doubled, so that no two words look the same
//! to a careful reader (letters of different scripts that look alike stay as they are: names are compared byte by
//! byte, never by looks).

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::os::unix::ffi::OsStrExt;

use super::{Ask, Request};

#[cfg(test)]
mod tests;

/// A longer run of one blank character is shown with its length, so that padding pushes nothing out of sight.
const LONGEST_RUN: usize = 8;

/// One word, safe on a terminal and on one line.
pub fn display(word: &[u8]) -> String {
    let (escaped, needed) = escape(word, '\'');
    if needed {
        return format!("$'{escaped}'");
    }
    let bare = |b: u8| b.is_ascii_alphanumeric() || b"-_./:=,@%+^".contains(&b) || !b.is_ascii();
    if !word.is_empty() && word.iter().all(|&b| bare(b)) {
        return String::from_utf8_lossy(word).into_owned();
    }
    if !word.contains(&b'\'') {
        return format!("'{}'", String::from_utf8_lossy(word));
    }
    if !word.iter().any(|b| b"\"$`\\!".contains(b)) {
        return format!("\"{}\"", String::from_utf8_lossy(word));
    }
    format!("$'{escaped}'")
}

/// Words in a row, each as [`display`] shows it.
pub fn display_words<I>(words: I) -> String
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let shown: Vec<String> = words.into_iter().map(|w| display(w.as_ref().as_bytes())).collect();
    shown.join(" ")
}

/// A name as lists and messages hold it: always in single quotes (`'rm'`), with `\'` and `\\` inside, and
/// everything that a terminal might act on escaped.
pub fn repr(name: &[u8]) -> String {
    format!("'{}'", escape(name, '\'').0)
}

/// One line of somebody else's text, without quotes around it: escaped as [`repr`] does it, so that nothing in it can
/// look like an escape of ours.
pub fn line(text: &[u8]) -> String {
    escape(text, '\\').0
}

/// A word with everything beyond ASCII escaped, where that tells more than [`display`]: letters that look alike, and
/// scripts that a terminal draws from right to left. `None` where it holds ASCII alone.
pub fn ascii(word: &[u8]) -> Option<String> {
    if word.is_ascii() {
        return None;
    }
    let mut out = String::with_capacity(word.len() * 2);
    for c in escape(word, '\'').0.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            push_escape(&mut out, c);
        }
    }
    Some(format!("$'{out}'"))
}

/// Text of several lines that a person reads on a terminal: newlines and tabs stay, everything else that is not
/// printable is escaped. Unlike [`repr`] it leaves backslashes and long runs of spaces alone, for it is meant for
/// sentences and excerpts; a single word belongs into [`display`].
pub fn escape_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\n' | '\t') || !is_unprintable(c) {
            out.push(c);
        } else {
            push_escape(&mut out, c);
        }
    }
    out
}

/// Whether a person sees this character as itself in a name: printable ASCII, and letters and digits of any
/// script. All else (symbols and blanks beyond ASCII included) is escaped in words.
pub fn is_plain(c: char) -> bool {
    if c.is_ascii() { !c.is_ascii_control() } else { c.is_alphanumeric() && !is_unprintable(c) }
}

/// The inside of a quoted word, and whether more than `\` and the quote had to be escaped.
fn escape(word: &[u8], quote: char) -> (String, bool) {
    let mut out = String::with_capacity(word.len() + 2);
    let mut needed = false;
    for chunk in word.utf8_chunks() {
        needed |= escape_chars(&mut out, chunk.valid(), quote);
        for byte in chunk.invalid() {
            needed = true;
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    (out, needed)
}

fn escape_chars(out: &mut String, text: &str, quote: char) -> bool {
    let mut needed = false;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        // Counted for blanks and escapes only, which are then passed over: the whole stays linear in the text.
        let counted = c.is_whitespace() || !is_plain(c);
        let run = if counted { text[at..].chars().take_while(|&next| next == c).count() } else { 1 };
        if run > LONGEST_RUN {
            needed = true;
            push_run(out, c, run);
            chars.nth(run - 2);
        } else if c == quote || c == '\\' {
            out.push('\\');
            out.push(c);
        } else if is_plain(c) {
            out.push(c);
        } else {
            needed = true;
            push_escape(out, c);
        }
    }
    needed
}

/// `\[40 spaces]`, `\[9 times \t]`.
fn push_run(out: &mut String, c: char, run: usize) {
    if c == ' ' {
        let _ = write!(out, "\\[{run} spaces]");
    } else {
        let _ = write!(out, "\\[{run} times ");
        push_escape(out, c);
        out.push(']');
    }
}

fn push_escape(out: &mut String, c: char) {
    let code = u32::from(c);
    let _ = match c {
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        c if c.is_ascii() => write!(out, "\\x{code:02x}"),
        _ => write!(out, "\\u{{{code:x}}}"),
    };
}

/// What no terminal shows as itself: control, format, surrogate, private-use and unassigned characters, line and
/// paragraph separators, blanks beyond ASCII (all that the standard library's own escaping calls unprintable),
/// and those that Unicode calls default-ignorable or draws as nothing.
pub(super) fn is_unprintable(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    if IGNORABLE.iter().any(|&(first, last)| (first..=last).contains(&c)) {
        return true;
    }
    // `char::escape_debug` also escapes combining marks; behind another character, `str::escape_debug` does not.
    let mut buffer = [b'a'; 5];
    let length = 1 + c.encode_utf8(&mut buffer[1..]).len();
    let behind_a = std::str::from_utf8(&buffer[..length]).unwrap_or_default();
    behind_a.escape_debug().nth(1) != Some(c)
}

/// Printable by general category, and yet drawn as nothing: `Default_Ignorable_Code_Point` of the Unicode
/// Character Database (DerivedCoreProperties.txt) as far as it holds letters and marks, and the empty Braille
/// pattern.
const IGNORABLE: &[(char, char)] = &[
    ('\u{34f}', '\u{34f}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Bytes as text without loss: UTF-8 as it is; in anything else each byte that does not belong to a valid
/// character becomes `\xHH` and each backslash is doubled. Which of the two a text is has to be told apart by
/// other means (records list the words that were escaped).
pub fn lossless(bytes: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        out.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

impl fmt::Display for Request {
    /// What is asked, as the command line would say it, on one line; environment, stdin and asker are not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ask {
            super::Ask::Stored => f.write_str("what was filed under the approval"),
            Ask::Argv(words) => f.write_str(&display_words(words)),
            Ask::Command(text) => write!(f, "--command {}", display(text)),
            Ask::Tool { name, arguments } => {
                write!(f, "--tool {}", display(name.as_bytes()))?;
                for (key, text) in arguments.texts() {
                    write!(f, " --arg {}", display(format!("{key}={text}").as_bytes()))?;
                }
                Ok(())
            }
        }
    }
}
