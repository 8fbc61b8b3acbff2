//! Long lists of names.

use std::cmp::Ordering;

/// A list of names, sorted bytewise, written as one text with spaces or newlines between them. A list of `&str` would hold a
/// pointer a name, and a position-independent program relocates every pointer that it has at every start.
#[derive(Debug, Clone, Copy)]
pub struct Names(&'static str);

impl Names {
    /// The names of `text`.
    pub const fn new(text: &'static str) -> Names {
        Names(text)
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = &'static str> {
        self.0.split_ascii_whitespace()
    }

    /// Whether `name` is one. The middle word of what is left decides on which side to go on.
    pub fn has(self, name: &[u8]) -> bool {
        let text = self.0.as_bytes();
        let (mut from, mut to) = (0, text.len());
        while from < to {
            let before = &text[from..from + (to - from) / 2];
            let begin = before.iter().rposition(u8::is_ascii_whitespace).map_or(from, |at| from + at + 1);
            let word = text[begin..to].trim_ascii_start();
            let start = to - word.len();
            let word = word.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            match name.cmp(word) {
                _ if word.is_empty() => to = begin,
                Ordering::Equal => return true,
                Ordering::Less => to = begin,
                Ordering::Greater => from = start + word.len(),
            }
        }
        false
    }

    /// For tests: whether each stands once, and where it should.
    #[cfg(test)]
    pub(crate) fn are_sorted(self) -> bool {
        self.iter().is_sorted_by(|a, b| a < b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_nothing_between_them() {
        for text in ["", " ", "b", " b\n", "b d", "\n    b  d\n    f h\n    ja jb k\n"] {
            let names = Names::new(text);
            for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "ja", "jaa", "jb", "k", "l"] {
                let known = names.iter().any(|known| known == name);
                assert_eq!(names.has(name.as_bytes()), known, "{name} in {text:?}");
            }
        }
    }

    #[test]
    fn a_name_is_in_the_list_as_a_whole() {
        let names = Names::new("one three\n    two");
        assert!(names.has(b"one") && names.has(b"three") && names.has(b"two") && names.are_sorted());
        for other in ["", "thr", "three\n", "one three", " ", "One"] {
            assert!(!names.has(other.as_bytes()), "{other:?}");
        }
        assert!(!Names::new("b a").are_sorted() && !Names::new("a a").are_sorted());
    }
}
