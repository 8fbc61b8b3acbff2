//! What a counter or a session refuses with: a value for whoever makes the result, not an error.

use std::time::Duration;

use crate::policy::model::Place;

/// Why a call may not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Stable, machine-readable: `rate_limited`, `amount_invalid`, `session_required`, `session_halted`,
    /// `session_max_runs`, `session_max_wall_time`.
    pub code: &'static str,
    /// One sentence; safe to print.
    pub message: String,
    /// What to do instead.
    pub hint: String,
    /// The name of what refused: the rate's, or `session`.
    pub name: String,
    /// Where it stands.
    pub at: Place,
}

/// A time to wait, for a person: the two largest units, rounded up.
pub(super) fn span(span: Duration) -> String {
    let seconds = span.as_secs() + u64::from(span.subsec_nanos() > 0);
    let parts = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let first = parts.iter().position(|(length, _)| seconds >= *length).unwrap_or(3);
    let (large, unit) = parts[first];
    let Some((small, small_unit)) = parts.get(first + 1) else { return format!("{seconds}s") };
    // Rounding the smaller unit up may fill the larger one.
    let whole = seconds.div_ceil(*small) * small;
    match (whole / large, whole % large / small) {
        (count, 0) => format!("{count}{unit}"),
        (count, rest) => format!("{count}{unit} {rest}{small_unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short_and_never_too_short() {
        for (millis, shown) in [
            (0, "0s"),
            (1, "1s"),
            (59_000, "59s"),
            (60_000, "1m"),
            (61_001, "1m 2s"),
            (3_599_500, "1h"),
            (3_600_000, "1h"),
            (3_661_000, "1h 2m"),
            (90_000_000, "1d 1h"),
            (2_592_000_000, "30d"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), shown);
        }
    }
}
