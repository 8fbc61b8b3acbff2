//! Words of a request in sentences: quoted, and no longer than a person reads. The whole words stand in the result's
//! `argv` and in the audit record.

use crate::request::quote;

/// The most bytes of one word that a sentence shows.
const MOST: usize = 200;

/// The most words that a step of `explain` shows.
const MOST_WORDS: usize = 64;

/// A word or name in single quotes, everything unprintable escaped; a longer one is cut and its length told.
pub(super) fn repr(word: &[u8]) -> String {
    match word.get(..MOST) {
        Some(start) if word.len() > MOST => {
            format!("{} (the first {MOST} of {} bytes)", quote::repr(start), word.len())
        }
        _ => quote::repr(word),
    }
}

/// Words in a row.
pub(super) fn row(words: &[&[u8]]) -> String {
    let one = |word: &&[u8]| if word.len() > MOST { repr(word) } else { quote::display(word) };
    let shown: Vec<String> = words.iter().take(MOST_WORDS).map(one).collect();
    match words.len().saturating_sub(MOST_WORDS) {
        0 => shown.join(" "),
        more => format!("{} (and {more} more)", shown.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_and_counted() {
        assert_eq!(repr(b"a'b\n"), "'a\\'b\\n'");
        assert_eq!(repr(&[b'a'; 200]).len(), 202);
        let long = repr(&[b'a'; 131_072]);
        assert!(long.ends_with("a' (the first 200 of 131072 bytes)") && long.len() < 300, "{long}");
        assert!(row(&[&b"x"[..]; 100]).ends_with(" x (and 36 more)"));
    }
}
