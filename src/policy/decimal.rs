//! Decimal numbers as text. No floating point: `0.1` is exactly a tenth, `1e309` and `NaN` are no numbers, and the
//! number judged is spelled like the number the program will read.

use std::cmp::Ordering;

/// A finite decimal number of any size.
#[derive(Debug, Clone, Copy)]
pub struct Decimal<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
}

/// Compares two of a policy's own numbers, which the schema takes as plain decimals only.
pub(in crate::policy) fn compare(a: &str, b: &str) -> Ordering {
    let zero = Decimal { negative: false, whole: b"", fraction: b"" };
    let read = |text| Decimal::lenient(text).unwrap_or(zero);
    read(a.as_bytes()).compare(&read(b.as_bytes()))
}

impl<'a> Decimal<'a> {
    /// Reads `-?(0|[1-9][0-9]*)(\.[0-9]+)?` and nothing else: no sign on zero, no `+`, exponent, base, blank,
    /// leading zero, or digit of another script. Programs disagree about all of these.
    pub fn parse(text: &'a [u8]) -> Option<Decimal<'a>> {
        let number = Decimal::lenient(text)?;
        let zero = number.whole.is_empty() && number.fraction.is_empty();
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        let padded = digits.len() > 1 && digits[0] == b'0' && digits[1] != b'.';
        let signed_zero = zero && text[0] == b'-';
        if padded || signed_zero { None } else { Some(number) }
    }

    /// The same, but zeros may lead and `-0` is zero: a policy's own bound means what it says.
    pub fn lenient(text: &'a [u8]) -> Option<Decimal<'a>> {
        let unsigned = text.strip_prefix(b"-").unwrap_or(text);
        let (whole, fraction) = match unsigned.iter().position(|&b| b == b'.') {
            None => (unsigned, &b"0"[..]),
            Some(dot) => (&unsigned[..dot], &unsigned[dot + 1..]),
        };
        let digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
        if !digits(whole) || !digits(fraction) {
            return None;
        }
        let first = whole.iter().position(|&b| b != b'0').unwrap_or(whole.len());
        let last = fraction.iter().rposition(|&b| b != b'0').map_or(0, |i| i + 1);
        let (whole, fraction) = (&whole[first..], &fraction[..last]);
        let zero = whole.is_empty() && fraction.is_empty();
        Some(Decimal { negative: text.starts_with(b"-") && !zero, whole, fraction })
    }

    /// Compares two numbers exactly.
    pub fn compare(&self, other: &Decimal<'_>) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.magnitude(other),
            (true, true) => other.magnitude(self),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }

    fn magnitude(&self, other: &Decimal<'_>) -> Ordering {
        let longer = self.whole.len().cmp(&other.whole.len());
        longer.then_with(|| self.whole.cmp(other.whole)).then_with(|| self.fraction.cmp(other.fraction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(a: &str, b: &str) -> Ordering {
        let parse = |t: &str| Decimal::parse(t.as_bytes()).is_some();
        assert!(parse(a) && parse(b), "{a} {b}");
        Decimal::parse(a.as_bytes()).expect("a").compare(&Decimal::parse(b.as_bytes()).expect("b"))
    }

    #[test]
    fn t1_44_and_45_only_plain_finite_decimals_are_numbers() {
        for bad in [
            "NaN", "nan", "inf", "-inf", "Infinity", "1e309", "1e1", "-0", "-0.0", "+5", "007", "00", "5.",
            ".5", "-", "", "0x10", " 5", "5 ", "5\n", "1_000", "--5", "1.2.3", "\u{663}", "\u{ff11}", "1,5",
            "-05",
        ] {
            assert!(Decimal::parse(bad.as_bytes()).is_none(), "{bad:?}");
        }
        for good in ["0", "5", "-5", "0.5", "-0.5", "10", "10.00", "123456789012345678901234567890.1"] {
            assert!(Decimal::parse(good.as_bytes()).is_some(), "{good:?}");
        }
    }

    #[test]
    fn comparison_is_exact_at_any_size() {
        assert_eq!(compare("10", "10.000"), Ordering::Equal);
        assert_eq!(compare("10.0000000000000000001", "10"), Ordering::Greater);
        assert_eq!(compare("9", "10"), Ordering::Less);
        assert_eq!(compare("-9", "-10"), Ordering::Greater);
        assert_eq!(compare("-0.5", "0"), Ordering::Less);
        assert_eq!(compare("0.09", "0.1"), Ordering::Less);
        assert_eq!(compare("9007199254740993", "9007199254740992"), Ordering::Greater);
    }

    proptest::proptest! {
        #[test]
        fn small_numbers_compare_as_integers_do(a in -100_000_i64..100_000, b in -100_000_i64..100_000) {
            proptest::prop_assert_eq!(compare(&a.to_string(), &b.to_string()), a.cmp(&b));
        }
    }
}
