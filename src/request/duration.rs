//! Durations as text: a whole number and its unit.

use std::time::Duration;

use super::units::{self, UnitError};

/// Parses `500ms`, `5s`, `10m`, `1h` or `30d`.
///
/// A unit is required; fractions, signs, blanks, leading zeros and sums (`1h30m`) are refused, and so are zero
/// and anything above 36500 days.
///
/// # Errors
/// One sentence, safe to print, without the text itself.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let sentence = |error| {
        Err(match error {
            UnitError::NotANumber => {
                "a duration is a whole number and a unit, as in 500ms, 5s, 10m, 1h or 30d"
            }
            UnitError::NoUnit(_) => "a duration needs a unit: ms, s, m, h or d",
            UnitError::UnknownUnit(..) => "a duration is a whole number and one of the units ms, s, m, h, d",
            UnitError::Zero => "a duration must be greater than zero",
            UnitError::TooLarge => "a duration must not be longer than 36500d",
        }
        .to_owned())
    };
    match units::parse_duration(text) {
        Ok(_) if text.starts_with('0') => Err("a duration must not start with a zero".to_owned()),
        parsed => parsed.or_else(sentence),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit() {
        let ms = |text: &str| parse_duration(text).map(|d| d.as_millis());
        assert_eq!(ms("500ms"), Ok(500));
        assert_eq!(ms("5s"), Ok(5_000));
        assert_eq!(ms("10m"), Ok(600_000));
        assert_eq!(ms("1h"), Ok(3_600_000));
        assert_eq!(ms("30d"), Ok(2_592_000_000));
        assert_eq!(ms("36500d"), Ok(36_500 * 24 * 60 * 60 * 1000));
    }

    #[test]
    fn what_is_refused_and_why() {
        let shape = "a duration is a whole number and a unit, as in 500ms, 5s, 10m, 1h or 30d";
        let units = "a duration is a whole number and one of the units ms, s, m, h, d";
        let long = "a duration must not be longer than 36500d";
        for (text, why) in [
            ("", shape),
            ("s", shape),
            ("-5s", shape),
            ("+5s", shape),
            (" 5s", shape),
            ("inf", shape),
            ("\u{665}s", shape),
            ("5", "a duration needs a unit: ms, s, m, h or d"),
            ("5 s", shape),
            ("5S", units),
            ("5s ", units),
            ("1.5s", shape),
            ("1e3s", units),
            ("1h30m", units),
            ("5min", units),
            ("0s", "a duration must be greater than zero"),
            ("000ms", "a duration must be greater than zero"),
            ("007s", "a duration must not start with a zero"),
            ("36501d", long),
            ("99999999999999999999ms", long),
            ("18446744073709551615d", long),
        ] {
            assert_eq!(parse_duration(text), Err(why.to_string()), "{text:?}");
        }
    }
}
