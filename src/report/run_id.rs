//! Names for runs: unique, and in the order of time when sorted as text.
//!
//! A run's name is a ULID: 48 bits of milliseconds since 1970, 80 random bits, written as 26 characters of
//! Crockford's base 32 (digits and upper-case letters without I, L, O, U).

use std::time::{SystemTime, UNIX_EPOCH};

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// A new name for a run that starts at `now`.
pub fn new(now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut random = [0u8; 16];
    if getrandom::fill(&mut random[..10]).is_err() {
        // The name has to be unique, not secret: without a random source, process and nanosecond are enough.
        let mixed = (u128::from(std::process::id()) << 40) ^ u128::from(since.subsec_nanos());
        random = (mixed << 48).to_be_bytes();
    }
    let entropy = u128::from_be_bytes(random) >> 48;
    encode(((since.as_millis() & ((1 << 48) - 1)) << 80) | entropy)
}

fn encode(value: u128) -> String {
    (0..26).rev().map(|digit| char::from(ALPHABET[((value >> (digit * 5)) & 31) as usize])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::time::Duration;

    #[test]
    fn names_are_unique() {
        let now = SystemTime::now();
        let names: HashSet<String> = (0..10_000).map(|_| new(now)).collect();
        assert_eq!(names.len(), 10_000);
        assert!(names.iter().all(|n| n.len() == 26 && n.bytes().all(|b| ALPHABET.contains(&b))));
    }

    #[test]
    fn names_sort_by_time() {
        let times = [0u64, 1, 999, 1_700_000_000_000, 1_700_000_000_001, (1 << 48) - 1];
        let names: Vec<String> =
            times.iter().map(|ms| new(UNIX_EPOCH + Duration::from_millis(*ms))).collect();
        assert!(names.windows(2).all(|w| w[0] < w[1]), "{names:?}");
    }

    #[test]
    fn the_time_can_be_read_back() {
        assert_eq!(&encode(1_469_918_176_385 << 80)[..10], "01ARYZ6S41");
    }
}
