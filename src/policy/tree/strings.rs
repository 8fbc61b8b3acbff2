//! The four kinds of strings. Most are used where they stand; only those with escapes are put together anew.

use super::Stretch;
use super::scan::{Scan, class};

impl Scan<'_, '_> {
    /// A string from its first quote to its last; where its characters are, and whether that is in `decoded`.
    pub(super) fn string(&mut self) -> Option<(Stretch, bool)> {
        let quote = self.peek()?;
        if self.bytes[self.at..].starts_with(&[quote; 3]) {
            return self.lines(quote);
        }
        self.at += 1;
        let start = self.at;
        self.run(if quote == b'"' { class::BASIC } else { class::LITERAL });
        let inner = self.from(start);
        match self.peek()? {
            b'\\' if quote == b'"' => Some((self.escaped(start, None)?, true)),
            next if next == quote => {
                self.at += 1;
                Some((inner, false))
            }
            _ => None,
        }
    }

    /// A string of several lines, in three quotes each.
    fn lines(&mut self, quote: u8) -> Option<(Stretch, bool)> {
        self.at += 3;
        self.newline();
        let start = self.at;
        let end = self.end_of_lines(quote)?;
        loop {
            self.run(if quote == b'"' { class::BASIC } else { class::LITERAL });
            if self.at == end {
                break;
            }
            match self.peek()? {
                b'\\' if quote == b'"' => {
                    let decoded = self.escaped(start, Some(end))?;
                    self.at += 3;
                    return Some((decoded, true));
                }
                next if next == quote => self.at += 1,
                _ => self.newline().then_some(())?,
            }
        }
        let inner = self.from(start);
        self.at += 3;
        Some((inner, false))
    }

    /// Where the three last quotes begin: up to two more before them are the string's own.
    fn end_of_lines(&self, quote: u8) -> Option<usize> {
        let mut at = self.at;
        while !self.bytes[at..].starts_with(&[quote; 3]) {
            let escape = quote == b'"' && self.bytes.get(at) == Some(&b'\\');
            at += if escape { 2 } else { 1 };
            if at >= self.bytes.len() {
                return None;
            }
        }
        let more = self.bytes[at + 3..].iter().take(2).take_while(|b| **b == quote).count();
        Some(at + more)
    }

    /// The rest of a string in which an escape has turned up: what stands from `start` to here is taken as it is. It
    /// ends at `end`, or else with the next quote, which is stepped over.
    fn escaped(&mut self, start: usize, end: Option<usize>) -> Option<Stretch> {
        let decoded = self.tree.decoded.len();
        let mut plain = start;
        loop {
            self.run(class::BASIC);
            let stop = end == Some(self.at);
            let next = if stop { b'"' } else { self.peek()? };
            if !stop && end.is_some() {
                if next == b'"' {
                    self.at += 1;
                    continue;
                }
                if self.newline() {
                    continue;
                }
            }
            self.tree.decoded.push_str(self.tree.text.get(plain..self.at)?);
            match next {
                b'"' => {
                    self.at += usize::from(!stop);
                    return Some(Stretch::new(decoded, self.tree.decoded.len()));
                }
                b'\\' => self.escape(end.is_some())?,
                _ => return None,
            }
            plain = self.at;
        }
    }

    /// A backslash and what it stands for; in a string of several lines also one that swallows the line's end and all
    /// space after it.
    fn escape(&mut self, lines: bool) -> Option<()> {
        self.at += 1;
        let byte = self.peek()?;
        if lines && matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            self.blank();
            self.newline().then_some(())?;
            while {
                let before = self.at;
                self.blank();
                self.newline() || self.at > before
            } {}
            return Some(());
        }
        self.at += 1;
        let meant = match byte {
            b'b' => '\u{8}',
            b'e' => '\u{1b}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'"' => '"',
            b'\\' => '\\',
            b'x' => self.hex(2)?,
            b'u' => self.hex(4)?,
            b'U' => self.hex(8)?,
            _ => return None,
        };
        self.tree.decoded.push(meant);
        Some(())
    }

    fn hex(&mut self, digits: usize) -> Option<char> {
        let text = self.bytes.get(self.at..self.at + digits)?;
        self.at += digits;
        let digit = |value: u32, byte: &u8| Some(value << 4 | char::from(*byte).to_digit(16)?);
        char::from_u32(text.iter().try_fold(0, digit)?)
    }
}
