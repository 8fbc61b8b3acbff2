//! Bytes as people compare them.

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [b >> 4, b & 15]).map(|d| char::from(DIGITS[usize::from(d)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_stands_for_four_bits() {
        assert_eq!(hex(&[0x00, 0x9a, 0xff, 0x10]), "009aff10");
        assert_eq!(hex(&[]), "");
    }
}
