//! A command string to words: the word splitting of `dash`, without any of its other meanings.
//!
//! The rules are those of POSIX.1-2017 XCU 2.2 (Quoting) as `dash` applies them: blanks are space and tab,
//! single quotes keep everything, double quotes keep everything but `\` before one of `$`, backtick, `"`, `\`
//! and newline, a backslash outside quotes keeps the next character, and a backslash-newline vanishes. `#` never
//! starts a comment. Nothing is expanded and nothing is run.
//!
//! The splitter is a small state machine of its own: the crates that split words drop comments and take a
//! newline for a blank, and neither tells where the unquoted syntax stood.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;

#[cfg(test)]
mod properties;
mod refusal;
#[cfg(test)]
mod tests;

/// What becomes of unquoted shell syntax in a command string (`[command] syntax` of a policy).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Syntax {
    /// Unquoted shell syntax in a command string is refused.
    #[default]
    Refuse,
    /// It is plain bytes of a word.
    Literal,
}

/// Why a command string gives no words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordsError {
    /// It is not a command at all: an unclosed quote, a backslash at the end, no word, a NUL byte.
    Unparsable {
        /// What is wrong, without a prefix; safe to print.
        message: String,
    },
    /// It holds shell syntax that has no meaning here. Only under [`Syntax::Refuse`].
    Syntax {
        /// The syntax itself, as written (`;`, `&&`, `A=`), or its name where it cannot be seen (`newline`,
        /// `U+00A0`); safe to print.
        what: String,
        /// Where it starts: bytes from the start of the string, counted from 0.
        position: usize,
        /// One sentence: the character, where it stands, and that no shell runs; safe to print.
        message: String,
        /// What to do instead.
        hint: String,
    },
}

impl fmt::Display for WordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WordsError::Unparsable { message } => write!(f, "could not parse command: {message}"),
            WordsError::Syntax { message, .. } => f.write_str(message),
        }
    }
}

impl std::error::Error for WordsError {}

/// Splits a command string into words, at least one.
///
/// Total: every byte string gives words or a [`WordsError`]. Bytes that are not UTF-8 pass unchanged.
///
/// # Errors
/// [`WordsError::Unparsable`] in both modes; [`WordsError::Syntax`] under [`Syntax::Refuse`]. The first one met
/// from the left is reported, but a NUL byte anywhere comes before all.
pub fn split(text: &[u8], syntax: Syntax) -> Result<Vec<OsString>, WordsError> {
    if let Some(at) = text.iter().position(|&b| b == 0) {
        return Err(unparsable(format!("NUL byte (byte {})", at + 1)));
    }
    let mut splitter = Splitter { text, at: 0, syntax, words: Vec::new(), word: Word::default() };
    splitter.all()?;
    if splitter.words.is_empty() {
        return Err(unparsable("the command is empty".to_string()));
    }
    Ok(splitter.words)
}

fn unparsable(message: String) -> WordsError {
    WordsError::Unparsable { message }
}

/// The word being gathered.
#[derive(Default)]
struct Word {
    bytes: Vec<u8>,
    /// Something of it was seen, be it an empty pair of quotes.
    begun: bool,
    /// A quote or a backslash was seen in it: then it is no assignment.
    quoted: bool,
    /// Where it begins.
    start: usize,
}

struct Splitter<'a> {
    text: &'a [u8],
    at: usize,
    syntax: Syntax,
    words: Vec<OsString>,
    word: Word,
}

impl Splitter<'_> {
    fn all(&mut self) -> Result<(), WordsError> {
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b' ' | b'\t' => {
                    self.end_word();
                    self.at += 1;
                }
                b'\'' => self.single_quoted()?,
                b'"' => self.double_quoted()?,
                b'\\' => self.escaped()?,
                _ => self.unquoted()?,
            }
        }
        self.end_word();
        Ok(())
    }

    fn begin(&mut self, quoted: bool) {
        if !self.word.begun {
            self.word.begun = true;
            self.word.start = self.at;
        }
        self.word.quoted |= quoted;
    }

    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        if word.begun {
            self.words.push(OsString::from_vec(word.bytes));
        }
    }

    /// At an opening `'`.
    fn single_quoted(&mut self) -> Result<(), WordsError> {
        self.begin(true);
        let inside = &self.text[self.at + 1..];
        let Some(length) = inside.iter().position(|&b| b == b'\'') else {
            return Err(unparsable(format!("unclosed single quote (opened at byte {})", self.at + 1)));
        };
        self.word.bytes.extend_from_slice(&inside[..length]);
        self.at += length + 2;
        Ok(())
    }

    /// At an opening `"`.
    fn double_quoted(&mut self) -> Result<(), WordsError> {
        self.begin(true);
        let opened = self.at;
        self.at += 1;
        while let Some(&byte) = self.text.get(self.at) {
            match (byte, self.text.get(self.at + 1)) {
                (b'"', _) => {
                    self.at += 1;
                    return Ok(());
                }
                (b'\\', Some(b'\n')) => self.at += 2,
                (b'\\', Some(&next @ (b'$' | b'`' | b'"' | b'\\'))) => {
                    self.word.bytes.push(next);
                    self.at += 2;
                }
                (b'$' | b'`', _) if self.syntax == Syntax::Refuse => {
                    return Err(refusal::in_double_quotes(byte, self.at));
                }
                _ => {
                    self.word.bytes.push(byte);
                    self.at += 1;
                }
            }
        }
        Err(unparsable(format!("unclosed double quote (opened at byte {})", opened + 1)))
    }

    /// At a `\` outside quotes.
    fn escaped(&mut self) -> Result<(), WordsError> {
        match self.text.get(self.at + 1) {
            None => Err(unparsable("backslash at the end".to_string())),
            // A continued line: both bytes vanish and neither begins nor ends a word.
            Some(b'\n') => {
                self.at += 2;
                Ok(())
            }
            Some(_) => {
                self.begin(true);
                let length = refusal::char_at(self.text, self.at + 1).1;
                self.word.bytes.extend_from_slice(&self.text[self.at + 1..][..length]);
                self.at += 1 + length;
                Ok(())
            }
        }
    }

    /// At any other byte outside quotes.
    fn unquoted(&mut self) -> Result<(), WordsError> {
        if self.syntax == Syntax::Refuse {
            if let Some(refused) = refusal::unquoted(self.text, self.at, !self.word.begun) {
                return Err(refused);
            }
            let may_assign = self.words.is_empty() && !self.word.quoted && self.text[self.at] == b'=';
            if may_assign && refusal::is_name(&self.word.bytes) {
                return Err(refusal::assignment(&self.word.bytes, self.word.start));
            }
        }
        self.begin(false);
        let length = refusal::char_at(self.text, self.at).1;
        self.word.bytes.extend_from_slice(&self.text[self.at..][..length]);
        self.at += length;
        Ok(())
    }
}
