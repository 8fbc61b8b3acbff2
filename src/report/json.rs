//! JSON that is safe to print: one line, and no character in it that a terminal or a reader obeys.
//!
//! JSON itself only demands that C0 controls, quotes and backslashes are escaped. DEL and the C1 controls drive
//! terminals too, U+2028 and U+2029 end lines in some readers, and the bidirectional and invisible characters
//! make a line show something other than what it holds. All of them leave here as `\uXXXX`, which any JSON
//! parser turns back into the very same string.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

pub use crate::request::quote::lossless;

/// Code points that are written as escapes, besides C0. Inclusive ranges, ascending.
const ESCAPED: [(u32, u32); 12] = [
    (0x7f, 0x9f),       // DEL, C1
    (0xad, 0xad),       // soft hyphen
    (0x61c, 0x61c),     // Arabic letter mark
    (0x180e, 0x180e),   // Mongolian vowel separator
    (0x200b, 0x200f),   // zero width, left-to-right and right-to-left marks
    (0x2028, 0x202e),   // line and paragraph separator, bidirectional embeddings and overrides
    (0x2060, 0x206f),   // word joiner, invisible operators, bidirectional isolates
    (0xfe00, 0xfe0f),   // variation selectors
    (0xfeff, 0xfeff),   // byte order mark
    (0xfff0, 0xfffb),   // interlinear annotation
    (0x1d173, 0x1d17a), // musical formatting
    (0xe0000, 0xe0fff), // tags and the variation selectors supplement
];

/// Whether a character must never reach a terminal or a log as it is.
pub fn is_unsafe(c: char) -> bool {
    let code = u32::from(c);
    code < 0x20 || (code >= 0x7f && ESCAPED.iter().any(|&(from, to)| (from..=to).contains(&code)))
}

struct Safe;

impl Formatter for Safe {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        if text.bytes().all(|b| b.is_ascii() && b != 0x7f) {
            return out.write_all(text.as_bytes());
        }
        let mut clean = 0;
        for (at, c) in text.char_indices().filter(|&(_, c)| is_unsafe(c)) {
            out.write_all(&text.as_bytes()[clean..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            clean = at + c.len_utf8();
        }
        out.write_all(&text.as_bytes()[clean..])
    }
}

/// One line of JSON without its newline.
///
/// # Errors
/// Only a value with map keys that are not strings cannot be written.
pub fn to_line<T: Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    let mut out = Vec::with_capacity(1024);
    value.serialize(&mut Serializer::with_formatter(&mut out, Safe))?;
    String::from_utf8(out).map_err(|e| serde_json::Error::io(io::Error::other(e)))
}

/// The same, made no further than to `most` bytes; `None` where there are more.
pub fn to_line_within<T: Serialize + ?Sized>(value: &T, most: usize) -> Option<String> {
    let mut out = Bounded { bytes: Vec::with_capacity(1024), most };
    value.serialize(&mut Serializer::with_formatter(&mut out, Safe)).ok()?;
    String::from_utf8(out.bytes).ok()
}

struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The same written out as it is made: a result with much output is several times as long as that, and is held only once.
///
/// # Errors
/// What the writer gives.
pub fn write_line<T: Serialize + ?Sized>(value: &T, to: impl io::Write) -> io::Result<()> {
    let mut to = io::BufWriter::with_capacity(PIECE, to);
    value.serialize(&mut Serializer::with_formatter(&mut to, Safe)).map_err(io::Error::from)?;
    io::Write::write_all(&mut to, b"\n")?;
    io::Write::flush(&mut to)
}

/// What is written at once; nearly every result is shorter.
const PIECE: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hostile_characters_become_escapes_and_come_back() {
        let hostile = "a\n\u{1b}[2K\u{7f}\u{9b}\u{2028}\u{202e}\u{2066}\u{e0041}\"\\é";
        let line = to_line(hostile).unwrap();
        assert_eq!(line, "\"a\\n\\u001b[2K\\u007f\\u009b\\u2028\\u202e\\u2066\\udb40\\udc41\\\"\\\\é\"");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), hostile);
    }

    #[test]
    fn a_bound_holds_to_the_byte() {
        let text = "a\u{1b}\u{e9}".repeat(700);
        let line = to_line(&text).unwrap();
        assert_eq!(to_line_within(&text, line.len()).as_ref(), Some(&line));
        assert_eq!(to_line_within(&text, line.len() - 1), None);
    }

    #[test]
    fn ranges_ascend() {
        assert!(ESCAPED.windows(2).all(|w| w[0].0 <= w[0].1 && w[0].1 < w[1].0));
    }

    #[test]
    fn keys_are_escaped_too() {
        let map = std::collections::BTreeMap::from([("k\u{202e}\n", 1)]);
        assert_eq!(to_line(&map).unwrap(), "{\"k\\u202e\\n\":1}");
    }

    proptest! {
        #[test]
        fn any_string_is_one_safe_line(text in ".*") {
            let line = to_line(&text).unwrap();
            prop_assert!(!line.chars().any(is_unsafe));
            prop_assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
        }

        #[test]
        fn any_char_round_trips(c in any::<char>()) {
            let line = to_line(&c.to_string()).unwrap();
            prop_assert!(!line.chars().any(is_unsafe));
            prop_assert_eq!(serde_json::from_str::<String>(&line).unwrap(), c.to_string());
        }
    }
}
