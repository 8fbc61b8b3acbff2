//! Long lists of names.

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

    /// Whether `name` is one.
    pub fn has(self, name: &[u8]) -> bool {
        self.iter().any(|known| known.as_bytes() == name)
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
    fn a_name_is_in_the_list_as_a_whole() {
        let names = Names::new("one three\n    two");
        assert!(names.has(b"one") && names.has(b"three") && names.has(b"two") && names.are_sorted());
        for other in ["", "thr", "three\n", "one three", " ", "One"] {
            assert!(!names.has(other.as_bytes()), "{other:?}");
        }
        assert!(!Names::new("b a").are_sorted() && !Names::new("a a").are_sorted());
    }
}
