//! Durations as text: a whole number and its unit.

use std::time::Duration;

/// The longest duration that is taken: a hundred years. Longer ones overflow the clocks they are added to.
const LONGEST_MS: u64 = 36_500 * 24 * 60 * 60 * 1000;

/// Parses `500ms`, `5s`, `10m`, `1h` or `30d`.
///
/// A unit is required; fractions, signs, blanks, leading zeros and sums (`1h30m`) are refused, and so are zero
/// and anything above 36500 days.
///
/// # Errors
/// One sentence, safe to print, without the text itself.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err("a duration is a whole number and a unit, as in 500ms, 5s, 10m, 1h or 30d".to_string());
    }
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        "d" => 24 * 60 * 60 * 1000,
        "" => return Err("a duration needs a unit: ms, s, m, h or d".to_string()),
        _ => return Err("a duration is a whole number and one of the units ms, s, m, h, d".to_string()),
    };
    if number.bytes().all(|b| b == b'0') {
        return Err("a duration must be greater than zero".to_string());
    }
    if number.starts_with('0') {
        return Err("a duration must not start with a zero".to_string());
    }
    // The only way for these digits not to parse is that they are too many.
    let total = number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit_ms));
    match total {
        Some(ms) if ms <= LONGEST_MS => Ok(Duration::from_millis(ms)),
        _ => Err("a duration must not be longer than 36500d".to_string()),
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
        assert_eq!(ms("36500d"), Ok(u128::from(LONGEST_MS)));
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
            ("5 s", units),
            ("5S", units),
            ("5s ", units),
            ("1.5s", units),
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
