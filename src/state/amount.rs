//! Amounts that are added up: exact decimals, never floating point.

use std::fmt;

use serde_json::Value;

/// Digits behind the point.
const FINE: usize = 9;
/// Digits before the point.
const LARGE: usize = 18;
const ONE: i128 = 1_000_000_000;

/// A decimal number of at most 18 digits before the point and 9 behind it, never negative; sums may be larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(i128);

/// Why something is no amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmountError {
    /// Not a plain decimal number: `NaN`, `1e3`, `+1`, `007`, `1,5`, `true`, a list.
    NotPlain,
    /// It would take something back.
    Negative,
    /// More than 18 digits before the point.
    TooLarge,
    /// More than 9 digits behind the point.
    TooFine,
}

impl fmt::Display for AmountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AmountError::NotPlain => "is not a plain decimal number",
            AmountError::Negative => "is negative, and nothing that was counted is given back",
            AmountError::TooLarge => "has more than 18 digits before the point",
            AmountError::TooFine => "has more than 9 digits behind the point",
        })
    }
}

impl std::error::Error for AmountError {}

impl Amount {
    /// Nothing.
    pub const ZERO: Amount = Amount(0);
    /// What a call counts for.
    pub const ONE: Amount = Amount(ONE);

    /// Reads `(0|[1-9][0-9]*)(\.[0-9]+)?` and nothing else.
    ///
    /// # Errors
    /// Why it is no amount.
    pub fn parse(text: &str) -> Result<Amount, AmountError> {
        if let Some(rest) = text.strip_prefix('-') {
            // -0 is no plain number, and whatever else follows the sign decides between the two.
            let plain = match Amount::parse(rest) {
                Ok(amount) => amount != Amount::ZERO,
                Err(why) => matches!(why, AmountError::TooLarge | AmountError::TooFine),
            };
            return Err(if plain { AmountError::Negative } else { AmountError::NotPlain });
        }
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || (whole.len() > 1 && whole.starts_with('0')) {
            return Err(AmountError::NotPlain);
        }
        let fraction = fraction.trim_end_matches('0');
        if whole.len() > LARGE {
            return Err(AmountError::TooLarge);
        }
        if fraction.len() > FINE {
            return Err(AmountError::TooFine);
        }
        let number = |digits: &str| digits.parse::<i128>().map_err(|_| AmountError::TooLarge);
        Ok(Amount(number(whole)? * ONE + number(&format!("{fraction:0<FINE$}"))?))
    }

    /// An argument of a tool: a JSON number, or a text that is one.
    ///
    /// # Errors
    /// Why it is no amount.
    pub fn of(value: &Value) -> Result<Amount, AmountError> {
        match value {
            Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
                // The shortest digits that read back as this double, without an exponent.
                Some(double) => Amount::parse(&double.to_string()),
                None => Amount::parse(&number.to_string()),
            },
            Value::String(text) => Amount::parse(text),
            _ => Err(AmountError::NotPlain),
        }
    }

    /// A sum that was kept, of any size.
    pub(super) fn kept(text: &str) -> Option<Amount> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > FINE {
            return None;
        }
        let fine: i128 = format!("{fraction:0<FINE$}").parse().ok()?;
        whole.parse::<i128>().ok()?.checked_mul(ONE)?.checked_add(fine).map(Amount)
    }

    /// The sum, where it can be kept.
    #[must_use]
    pub fn plus(self, other: Amount) -> Option<Amount> {
        self.0.checked_add(other.0).map(Amount)
    }

    /// The difference; `None` where it would be negative.
    #[must_use]
    pub fn minus(self, other: Amount) -> Option<Amount> {
        self.0.checked_sub(other.0).filter(|rest| *rest >= 0).map(Amount)
    }

    /// As JSON: a number, unless a reader of JSON would round it; then a text.
    #[must_use]
    pub fn to_json(self) -> Value {
        let text = self.to_string();
        if let Ok(whole) = text.parse::<i64>() {
            return whole.into();
        }
        match text.parse::<f64>() {
            Ok(double) if double.to_string() == text => double.into(),
            _ => text.into(),
        }
    }
}

impl fmt::Display for Amount {
    /// The shortest plain decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fine) = (self.0 / ONE, self.0 % ONE);
        if fine == 0 {
            return write!(f, "{whole}");
        }
        let fine = format!("{fine:0>FINE$}");
        write!(f, "{whole}.{}", fine.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn t1_44_and_45_only_plain_decimals_are_amounts() {
        for bad in [
            "NaN", "nan", "inf", "Infinity", "1e309", "1e1", "-0", "-0.0", "+5", "007", "00", "5.", ".5",
            "-", "", "0x10", " 5", "5 ", "5\n", "1_000", "--5", "1.2.3", "\u{663}", "1,5", "-05", "-1e3",
        ] {
            assert_eq!(Amount::parse(bad), Err(AmountError::NotPlain), "{bad:?}");
        }
        for (bad, why) in [
            ("-1", AmountError::Negative),
            ("-0.000000001", AmountError::Negative),
            ("1000000000000000000", AmountError::TooLarge),
            ("0.0000000001", AmountError::TooFine),
        ] {
            assert_eq!(Amount::parse(bad), Err(why), "{bad:?}");
        }
        for good in ["0", "5", "0.5", "10", "999999999999999999.999999999", "0.000000001"] {
            assert_eq!(Amount::parse(good).unwrap().to_string(), good);
        }
        assert_eq!(Amount::parse("10.500000000000").unwrap().to_string(), "10.5");
    }

    #[test]
    fn arguments_are_amounts_by_what_they_say() {
        for (value, shown) in [
            (json!(3), "3"),
            (json!(0.1), "0.1"),
            (json!("12.50"), "12.5"),
            (json!(1.0), "1"),
            (json!(1e-9), "0.000000001"),
            (json!(1e17), "100000000000000000"),
            (json!(u64::from(u32::MAX)), "4294967295"),
        ] {
            assert_eq!(Amount::of(&value).unwrap().to_string(), shown);
        }
        for bad in [
            json!(-1),
            json!(1e300),
            json!(1e-10),
            json!(true),
            json!(null),
            json!([1]),
            json!({"a": 1}),
            json!("x"),
            json!(-0.0),
        ] {
            assert!(Amount::of(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ten_tenths_are_one_and_sums_may_be_large() {
        let tenth = Amount::parse("0.1").unwrap();
        let sum = (0..10).try_fold(Amount::ZERO, |sum, _| sum.plus(tenth)).unwrap();
        assert_eq!(sum, Amount::ONE);
        let most = Amount::parse("999999999999999999.999999999").unwrap();
        let large = (0..1000).try_fold(Amount::ZERO, |sum, _| sum.plus(most)).unwrap();
        assert_eq!(Amount::kept(&large.to_string()), Some(large));
        assert_eq!(large.minus(most).unwrap().plus(most), Some(large));
        assert_eq!((tenth.minus(sum), Amount(i128::MAX).plus(tenth)), (None, None));
        assert!(
            ["", ".", ".5", "x", "-1", "1.0000000001", "1e3"].iter().all(|bad| Amount::kept(bad).is_none())
        );
    }

    #[test]
    fn json_never_rounds() {
        for (text, value) in [
            ("3", json!(3)),
            ("0.1", json!(0.1)),
            ("123456789012345678.5", json!("123456789012345678.5")),
            ("999999999999999999", json!(999_999_999_999_999_999_i64)),
        ] {
            assert_eq!(Amount::parse(text).unwrap().to_json(), value);
        }
    }

    proptest::proptest! {
        #[test]
        fn it_adds_as_integers_do(a in 0_i64..1_000_000_000_000, b in 0_i64..1_000_000_000_000) {
            let of = |n: i64| Amount::parse(&format!("{}.{:04}", n / 10_000, n % 10_000)).unwrap();
            proptest::prop_assert_eq!(of(a).plus(of(b)), Some(of(a + b)));
            proptest::prop_assert_eq!(of(a).cmp(&of(b)), a.cmp(&b));
            proptest::prop_assert_eq!(Amount::kept(&of(a).to_string()), Some(of(a)));
        }
    }
}
