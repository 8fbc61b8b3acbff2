//! Durations and sizes as people write them: a whole number and a unit, nothing between them.

use std::fmt;
use std::time::Duration;

/// The longest duration that makes sense: a hundred years of 365 days, in milliseconds. It keeps every sum
/// with a clock inside its type.
const MAX_MS: u64 = 100 * 365 * 86_400_000;

/// The largest size that the kernel's interfaces take (`off_t`).
const MAX_SIZE: u64 = i64::MAX as u64;

/// Duration units and their milliseconds, the smallest first.
const DURATION_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Size units and their bytes.
const SIZE_UNITS: [(&str, u64); 10] = [
    ("B", 1),
    ("K", 1 << 10),
    ("KiB", 1 << 10),
    ("M", 1 << 20),
    ("MiB", 1 << 20),
    ("G", 1 << 30),
    ("GiB", 1 << 30),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// Why a text is no duration or size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitError {
    /// It does not start with a digit, or has a sign, a blank, a point or an underscore.
    NotANumber,
    /// A number without a unit; the units there are.
    NoUnit(&'static str),
    /// A number and a unit that does not exist; the units there are.
    UnknownUnit(String, &'static str),
    /// Nothing at all: no limit can be zero.
    Zero,
    /// More than the machine can count or a person can mean.
    TooLarge,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnitError::NotANumber => f.write_str("must be a whole number and a unit, nothing else"),
            UnitError::NoUnit(units) => write!(f, "needs a unit: {units}"),
            UnitError::UnknownUnit(unit, units) => {
                write!(f, "has the unknown unit `{}`; there are {units}", unit.escape_debug())
            }
            UnitError::Zero => f.write_str("0 is not a limit"),
            UnitError::TooLarge => f.write_str("is too large"),
        }
    }
}

impl std::error::Error for UnitError {}

/// A duration such as `500ms`, `5s`, `10m`, `1h` or `30d`.
///
/// # Errors
/// Anything else, zero, and more than a hundred years.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let ms = parse(text, &DURATION_UNITS, "ms, s, m, h, d", MAX_MS)?;
    Ok(Duration::from_millis(ms))
}

/// A size in bytes such as `100B`, `64K`, `64KiB`, `512M`, `1G` (of 1024) or `64KB`, `512MB`, `1GB` (of 1000).
///
/// # Errors
/// Anything else, zero, and more than `i64::MAX` bytes.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    parse(text, &SIZE_UNITS, "B, K, KiB, M, MiB, G, GiB, KB, MB, GB", MAX_SIZE)
}

fn parse(text: &str, units: &[(&str, u64)], names: &'static str, max: u64) -> Result<u64, UnitError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() || unit.starts_with(['.', ',', '_', ' ', '\t']) {
        return Err(UnitError::NotANumber);
    }
    if unit.is_empty() {
        return Err(if number.bytes().all(|b| b == b'0') {
            UnitError::Zero
        } else {
            UnitError::NoUnit(names)
        });
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(UnitError::UnknownUnit(unit.to_owned(), names));
    };
    let value = number.parse::<u64>().ok().and_then(|n| n.checked_mul(*factor)).filter(|v| *v <= max);
    match value {
        None => Err(UnitError::TooLarge),
        Some(0) => Err(UnitError::Zero),
        Some(v) => Ok(v),
    }
}

/// A duration in the largest unit that shows it exactly; [`parse_duration`] reads it back. Parts of a
/// millisecond are not shown.
pub fn show_duration(duration: Duration) -> String {
    match u64::try_from(duration.as_millis()).unwrap_or(u64::MAX) {
        0 => "0s".to_owned(),
        ms => show(ms, &DURATION_UNITS),
    }
}

/// A size in the largest unit of 1024 that shows it exactly; [`parse_size`] reads it back.
pub fn show_size(bytes: u64) -> String {
    show(bytes, &[SIZE_UNITS[0], SIZE_UNITS[1], SIZE_UNITS[3], SIZE_UNITS[5]])
}

fn show(value: u64, units: &[(&str, u64)]) -> String {
    let exact = |(_, factor): &&(&str, u64)| value >= *factor && value.is_multiple_of(*factor);
    let (name, factor) = units.iter().rev().find(exact).unwrap_or(&units[0]);
    format!("{}{name}", value / factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_in_every_unit() {
        for (text, ms) in
            [("500ms", 500), ("5s", 5000), ("10m", 600_000), ("1h", 3_600_000), ("30d", 2_592_000_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn sizes_in_every_unit() {
        let want = [
            ("1B", 1),
            ("1K", 1024),
            ("2KiB", 2048),
            ("1M", 1 << 20),
            ("1MiB", 1 << 20),
            ("1G", 1 << 30),
            ("1GiB", 1 << 30),
            ("1KB", 1000),
            ("1MB", 1_000_000),
            ("1GB", 1_000_000_000),
        ];
        for (text, bytes) in want {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_its_reason() {
        let units = "ms, s, m, h, d";
        for bad in ["", "s", "-5s", "+5s", "1.5s", "1_0s", "5 s", " 5s", "٥s", "0x5s", "1e3s", "inf", "none"]
        {
            let error = parse_duration(bad).unwrap_err();
            assert!(!matches!(error, UnitError::Zero | UnitError::TooLarge), "{bad}: {error:?}");
        }
        assert_eq!(parse_duration("1.5s"), Err(UnitError::NotANumber));
        assert_eq!(parse_duration("5"), Err(UnitError::NoUnit(units)));
        assert_eq!(parse_duration("5S"), Err(UnitError::UnknownUnit("S".into(), units)));
        assert_eq!(parse_duration("1h30m"), Err(UnitError::UnknownUnit("h30m".into(), units)));
        assert_eq!(parse_duration("5s\n"), Err(UnitError::UnknownUnit("s\n".into(), units)));
        assert_eq!(parse_duration("0"), Err(UnitError::Zero));
        assert_eq!(parse_duration("000ms"), Err(UnitError::Zero));
        assert_eq!(parse_duration("36501d"), Err(UnitError::TooLarge));
        assert_eq!(parse_duration("18446744073709551616ms"), Err(UnitError::TooLarge));
        assert_eq!(parse_duration("18446744073709551615d"), Err(UnitError::TooLarge));
        assert_eq!(parse_size("0B"), Err(UnitError::Zero));
        assert_eq!(parse_size("9999999999G"), Err(UnitError::TooLarge));
        assert!(matches!(parse_size("64k"), Err(UnitError::UnknownUnit(..))));
        assert!(matches!(parse_size("64"), Err(UnitError::NoUnit(_))));
    }

    #[test]
    fn the_messages_are_sentences_after_the_value() {
        let say = |text: &str| parse_duration(text).unwrap_err().to_string();
        assert_eq!(say("5"), "needs a unit: ms, s, m, h, d");
        assert_eq!(say("5w"), "has the unknown unit `w`; there are ms, s, m, h, d");
        assert_eq!(say("x"), "must be a whole number and a unit, nothing else");
        assert_eq!(say("0s"), "0 is not a limit");
        assert_eq!(say("99999d"), "is too large");
    }

    #[test]
    fn what_is_shown_is_the_largest_exact_unit() {
        let times =
            [(0, "0s"), (1, "1ms"), (1500, "1500ms"), (90_000, "90s"), (600_000, "10m"), (7_200_000, "2h")];
        for (ms, want) in times {
            assert_eq!(show_duration(Duration::from_millis(ms)), want);
        }
        for (bytes, want) in [(0, "0B"), (1000, "1000B"), (1024, "1K"), (64 << 10, "64K"), (1 << 30, "1G")] {
            assert_eq!(show_size(bytes), want);
        }
    }

    proptest! {
        #[test]
        fn durations_round_trip(ms in 1..=MAX_MS) {
            let d = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&show_duration(d)), Ok(d));
        }

        #[test]
        fn sizes_round_trip(bytes in 1..=MAX_SIZE) {
            prop_assert_eq!(parse_size(&show_size(bytes)), Ok(bytes));
        }

        #[test]
        fn arbitrary_text_never_panics(text in "\\PC*") {
            let _ = (parse_duration(&text), parse_size(&text));
        }
    }
}
