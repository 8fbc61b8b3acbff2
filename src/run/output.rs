//! What a stream wrote, in bounded memory: the first half of the cap, the last half, and an exact count of all.

use std::collections::VecDeque;

use crate::policy::model::{Bound, MAX_OUTPUT};

/// Kept per stream where the policy lifts `output`: memory stays bounded all the same.
pub const LIFTED_CAP: u64 = MAX_OUTPUT;

/// A bounded capture of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_cap: usize,
    tail_cap: usize,
    total: u64,
}

impl Captured {
    /// Keeps at most `cap` bytes: the greater half of it from the start, the rest from the end.
    pub fn new(cap: Bound<u64>) -> Captured {
        let cap = cap.get().unwrap_or(LIFTED_CAP).min(LIFTED_CAP) as usize;
        let tail_cap = cap / 2;
        Captured { head: Vec::new(), tail: VecDeque::new(), head_cap: cap - tail_cap, tail_cap, total: 0 }
    }

    /// Takes what was read next.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let room = (self.head_cap - self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.tail_cap)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_cap);
        self.tail.drain(..excess);
        if self.tail.capacity() < self.tail.len() + rest.len() {
            // Grows by doubling, but never beyond what will be kept.
            let wanted = (self.tail.capacity() * 2).max(self.tail.len() + rest.len()).min(self.tail_cap);
            self.tail.reserve_exact(wanted - self.tail.len());
        }
        self.tail.extend(rest);
    }

    /// All bytes that the stream wrote, kept or not.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether something was left out.
    pub fn truncated(&self) -> bool {
        self.total > (self.head.len() + self.tail.len()) as u64
    }

    /// The kept bytes before the gap.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The kept bytes after the gap; without a gap, those that follow the head.
    pub fn tail(&self) -> Vec<u8> {
        let (a, b) = self.tail.as_slices();
        [a, b].concat()
    }

    /// All kept bytes exactly, without a mark where the gap is (it lies after [`Captured::head`]).
    pub fn kept(&self) -> Vec<u8> {
        let (a, b) = self.tail.as_slices();
        [self.head.as_slice(), a, b].concat()
    }

    /// The bytes to show: whole where nothing was left out; else head and tail, cut so that no UTF-8 character
    /// is split, with `\n...[N bytes omitted]...\n` between them, N being exactly what is not shown.
    pub fn shown(&self) -> Vec<u8> {
        if !self.truncated() {
            return self.kept();
        }
        let tail = self.tail();
        let head = &self.head[..whole_end(&self.head)];
        let tail = &tail[whole_start(&tail)..];
        let omitted = self.total - (head.len() + tail.len()) as u64;
        let mut shown = head.to_vec();
        shown.extend_from_slice(format!("\n...[{omitted} bytes omitted]...\n").as_bytes());
        shown.extend_from_slice(tail);
        shown
    }

    /// Whether all that is shown is UTF-8.
    pub fn is_utf8(&self) -> bool {
        std::str::from_utf8(&self.shown()).is_ok()
    }

    /// [`Captured::shown`] as text; bytes that are not UTF-8 become U+FFFD.
    pub fn text(&self) -> String {
        match String::from_utf8(self.shown()) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

fn length_by_lead(byte: u8) -> usize {
    match byte {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 1,
    }
}

/// Where to end a head so that its last character is whole.
fn whole_end(head: &[u8]) -> usize {
    let reach = head.len().saturating_sub(3);
    match head[reach..].iter().rposition(|&b| !is_continuation(b)) {
        Some(at) if reach + at + length_by_lead(head[reach + at]) > head.len() => reach + at,
        _ => head.len(),
    }
}

/// Where to start a tail so that its first character is whole.
fn whole_start(tail: &[u8]) -> usize {
    let rest = tail.iter().take(4).take_while(|&&b| is_continuation(b)).count();
    // Four in a row are no UTF-8 anyway; then nothing is gained by dropping them.
    if rest > 3 { 0 } else { rest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn capture(cap: u64, pieces: &[&[u8]]) -> Captured {
        let mut c = Captured::new(Bound::At(cap));
        pieces.iter().for_each(|p| c.push(p));
        c
    }

    fn omitted(shown: &str) -> Option<u64> {
        let (_, rest) = shown.split_once("\n...[")?;
        rest.split_once(" bytes omitted]...\n")?.0.parse().ok()
    }

    #[test]
    fn short_output_is_whole_up_to_the_very_cap() {
        let c = capture(4, &[b"ab", b"cd"]);
        assert_eq!((c.text().as_str(), c.truncated(), c.total()), ("abcd", false, 4));
        let c = capture(4, &[b"ab", b"cde"]);
        assert_eq!((c.text().as_str(), c.truncated()), ("ab\n...[1 bytes omitted]...\nde", true));
    }

    #[test]
    fn a_cap_of_zero_keeps_nothing_and_counts_all() {
        let c = capture(0, &[b"abc"]);
        assert_eq!((c.text().as_str(), c.total()), ("\n...[3 bytes omitted]...\n", 3));
    }

    #[test]
    fn a_wide_character_at_either_cut_is_left_out_whole() {
        let text = "中".repeat(40_000);
        let c = capture(25_000, &[text.as_bytes()]);
        let shown = c.text();
        assert!(!shown.contains('\u{FFFD}'));
        let kept = shown.chars().filter(|&ch| ch == '中').count() as u64 * 3;
        assert_eq!(omitted(&shown), Some(120_000 - kept));
    }

    #[test]
    fn bytes_that_are_no_text_are_kept_exactly() {
        let c = capture(10, &[&[0xFF; 100]]);
        assert!(!c.is_utf8());
        assert_eq!(c.kept(), [0xFF; 10]);
        assert_eq!(omitted(&c.text()), Some(90));
    }

    #[test]
    fn a_gigabyte_costs_the_cap_only() {
        let mut c = Captured::new(Bound::At(64 << 10));
        let piece = vec![b'x'; 1 << 20];
        (0..1024).for_each(|_| c.push(&piece));
        assert_eq!(c.total(), 1 << 30);
        assert!(c.head.capacity() <= 64 << 10 && c.tail.capacity() <= 64 << 10);
    }

    proptest! {
        #[test]
        fn kept_is_a_prefix_and_a_suffix_however_it_comes(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            cuts in proptest::collection::vec(1usize..40, 1..20),
            cap in 0u64..200,
        ) {
            let mut c = Captured::new(Bound::At(cap));
            let (mut rest, mut n) = (bytes.as_slice(), 0);
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(cuts[n % cuts.len()].min(rest.len()));
                c.push(piece);
                (rest, n) = (after, n + 1);
            }
            prop_assert_eq!(c.total(), bytes.len() as u64);
            prop_assert_eq!(c.kept().len() as u64, cap.min(bytes.len() as u64));
            prop_assert!(bytes.starts_with(c.head()) && bytes.ends_with(&c.tail()));
            prop_assert_eq!(c.truncated(), bytes.len() as u64 > cap);
        }

        #[test]
        fn text_never_splits_a_character_and_counts_exactly(text in "[a-zé中🦀]{0,120}", cap in 0u64..200) {
            let c = capture(cap, &[text.as_bytes()]);
            let shown = c.text();
            prop_assert!(c.is_utf8());
            match shown.split_once("\n...[") {
                None => prop_assert_eq!(shown, text),
                Some((head, rest)) => {
                    let (n, tail) = rest.split_once(" bytes omitted]...\n").unwrap();
                    prop_assert!(text.starts_with(head) && text.ends_with(tail));
                    let omitted: usize = n.parse().unwrap();
                    prop_assert_eq!(head.len() + omitted + tail.len(), text.len());
                    prop_assert!((omitted as u64) < text.len() as u64 - cap.min(text.len() as u64) + 7);
                }
            }
        }
    }
}
