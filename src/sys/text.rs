//! Shared texts without copies: what a large file's text needs most is memory that was touched once.
#![allow(unsafe_code)]

use std::io::{self, Read};
use std::str::Utf8Error;
use std::sync::Arc;

/// Reads to the end, into memory that is shared from the start. Content of the expected length is read in one piece;
/// what turns out shorter or longer is copied. No more than `most` bytes are read.
///
/// # Errors
/// As the reader says.
pub fn read_shared(mut from: impl Read, expected: usize, most: usize) -> io::Result<Arc<[u8]>> {
    let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, expected.min(most)).collect();
    let count = match Arc::get_mut(&mut bytes) {
        Some(space) => fill(&mut from, space)?,
        None => 0,
    };
    if count < bytes.len() {
        return Ok(Arc::from(&bytes[..count]));
    }
    let mut more = Vec::new();
    from.take(u64::try_from(most - count).unwrap_or(u64::MAX)).read_to_end(&mut more)?;
    if more.is_empty() { Ok(bytes) } else { Ok(Arc::from([&bytes[..], &more].concat())) }
}

/// Reads until there is no space or no more to read.
fn fill(from: &mut impl Read, space: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < space.len() {
        match from.read(&mut space[count..]) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Bytes as the text that they are.
///
/// # Errors
/// Where they stop being UTF-8.
pub fn shared_text(bytes: Arc<[u8]>) -> Result<Arc<str>, Utf8Error> {
    std::str::from_utf8(&bytes)?;
    // SAFETY: the bytes are UTF-8, and `str` has the layout of `[u8]`, so the pointer leads to the same allocation with
    // the same layout.
    Ok(unsafe { Arc::from_raw(Arc::into_raw(bytes) as *const str) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives two bytes at a time, interrupted before each.
    struct Drops<'a>(&'a [u8], bool);

    impl Read for Drops<'_> {
        fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let piece = &space.len().min(2);
            self.0.read(&mut space[..*piece])
        }
    }

    #[test]
    fn all_is_read_whatever_was_expected_and_no_more_than_may_be() {
        for length in [0, 1, 5, 9] {
            let content: Vec<u8> = (0..length).collect();
            for expected in 0..12 {
                for most in 0..12 {
                    let read = read_shared(Drops(&content, false), expected, most).unwrap();
                    assert_eq!(&read[..], &content[..content.len().min(most)], "{expected} {most}");
                }
            }
        }
    }

    #[test]
    fn a_text_is_its_bytes_and_says_where_it_is_none() {
        let bytes: Arc<[u8]> = Arc::from("aü".as_bytes());
        let other = Arc::clone(&bytes);
        let place = bytes.as_ptr();
        let text = shared_text(bytes).unwrap();
        assert_eq!((&*text, text.as_ptr()), ("aü", place));
        drop(other);
        assert_eq!(&*text.clone(), "aü");
        assert_eq!(&*shared_text(Arc::from([])).unwrap(), "");
        assert_eq!(shared_text(Arc::from(&b"ab\xffc"[..])).unwrap_err().valid_up_to(), 2);
    }
}
