//! Judging one value against its limits. For `allow` a value must be shown to satisfy every limit; for `deny`
//! and `ask` a limit that cannot be judged counts as satisfied. Both fail closed.

use std::cmp::Ordering;

use super::paths::{self, Paths};
use crate::decision::shown::repr;
use crate::policy::decimal::Decimal;
use crate::policy::value::{Pattern, ValueLimits};

/// All limits that `value` fails, each as the end of a sentence that starts with the value. Empty: it passes.
pub(super) fn failures(limits: &ValueLimits, value: &[u8], paths: &Paths<'_>) -> Vec<String> {
    let mut failed = Vec::new();
    if let Some(most) = limits.max_length.filter(|&most| value.len() as u64 > most) {
        failed.push(format!("is {} bytes long, more than max_length {most}", value.len()));
    }
    failed.extend(content_failures(limits, value, paths));
    failed
}

/// The same but for `max_length`: of an element of an array, whose elements that limit counts.
pub(super) fn content_failures(limits: &ValueLimits, value: &[u8], paths: &Paths<'_>) -> Vec<String> {
    let mut failed = Vec::new();
    failed.extend(number_failure(limits, value));
    if let Some(pattern) = &limits.pattern {
        failed.extend(pattern_failure(pattern, value));
    }
    if let Some(choices) = limits.choices.as_ref().filter(|c| !c.iter().any(|c| c.as_bytes() == value)) {
        failed.push(format!("is not one of {}", list(choices)));
    }
    if let Some(limit) = &limits.path {
        failed.extend(paths::failure(limit, value, paths));
    }
    failed
}

/// Whether an open rule has to take `value` for one that it speaks of.
pub(super) fn may_satisfy(limits: &ValueLimits, value: &[u8], paths: &Paths<'_>) -> bool {
    limits.max_length.is_none_or(|most| value.len() as u64 <= most)
        && may_be_in_range(limits, value)
        && limits.pattern.as_ref().is_none_or(|p| p.compile().map_or(true, |regex| regex.is_match(value)))
        && limits.choices.as_ref().is_none_or(|c| c.iter().any(|c| c.as_bytes() == value))
        && limits.path.as_ref().is_none_or(|limit| paths::may_lie_under(limit, value, paths))
}

/// Whether the limits speak of a number, so that a separate value may be a negative one.
pub(super) fn is_numeric(limits: &ValueLimits) -> bool {
    limits.min_value.is_some() || limits.max_value.is_some()
}

/// Names in a sentence: `['a', 'b']`.
pub(super) fn list<T: AsRef<[u8]>>(names: &[T]) -> String {
    let shown: Vec<String> = names.iter().map(|n| repr(n.as_ref())).collect();
    format!("[{}]", shown.join(", "))
}

fn number_failure(limits: &ValueLimits, value: &[u8]) -> Option<String> {
    if !is_numeric(limits) {
        return None;
    }
    let Some(number) = Decimal::parse(value) else {
        return Some("is not a plain decimal number (such as 7, -2 or 0.5)".into());
    };
    // A bound that cannot be read is never met.
    let outside = |bound: &&String, wrong: Ordering| {
        Decimal::lenient(bound.as_bytes()).is_none_or(|bound| number.compare(&bound) == wrong)
    };
    if let Some(min) = limits.min_value.as_ref().filter(|min| outside(min, Ordering::Less)) {
        return Some(format!("is less than min_value {min}"));
    }
    let max = limits.max_value.as_ref().filter(|max| outside(max, Ordering::Greater))?;
    Some(format!("is more than max_value {max}"))
}

/// What is no plain number may still be one to the program (`0x10`, `1e3`), so it is taken to be in range.
fn may_be_in_range(limits: &ValueLimits, value: &[u8]) -> bool {
    Decimal::parse(value).is_none() || number_failure(limits, value).is_none()
}

fn pattern_failure(pattern: &Pattern, value: &[u8]) -> Option<String> {
    match pattern.compile() {
        Ok(regex) if regex.is_match(value) => None,
        Ok(_) => Some(format!("does not match the pattern {} as a whole", repr(pattern.source.as_bytes()))),
        Err(_) => {
            Some(format!("cannot be judged: the pattern {} is invalid", repr(pattern.source.as_bytes())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Paths<'static> = Paths::Names;

    fn pattern(source: &str) -> ValueLimits {
        ValueLimits { pattern: Some(Pattern::new(source)), ..ValueLimits::default() }
    }

    fn range(min: &str, max: &str) -> ValueLimits {
        ValueLimits { min_value: Some(min.into()), max_value: Some(max.into()), ..ValueLimits::default() }
    }

    fn passes(limits: &ValueLimits, value: &[u8]) -> bool {
        failures(limits, value, &HERE).is_empty()
    }

    #[test]
    fn t1_42_patterns_match_the_whole_value() {
        for source in ["[a-z]+", "^[a-z]+$", "(?m)^[a-z]+$"] {
            let limits = pattern(source);
            assert!(passes(&limits, b"main"), "{source}");
            for bad in [&b"main\n"[..], b"main\nmain", b"\nmain", b"Main", b"", b"ma\xff"] {
                assert!(!passes(&limits, bad), "{source} {bad:?}");
            }
        }
    }

    #[test]
    fn a_pattern_that_does_not_compile_fails_closed_both_ways() {
        for source in ["[a-z", "a)|(.*", "(?P<x", "a{9999}{9999}"] {
            let limits = pattern(source);
            assert!(!passes(&limits, b"a"), "{source}");
            assert!(may_satisfy(&limits, b"a", &HERE), "{source}");
        }
    }

    #[test]
    fn t1_44_and_45_bounds_take_plain_numbers_only() {
        let limits = range("0", "10");
        for good in ["0", "10", "2.50", "10.0"] {
            assert!(passes(&limits, good.as_bytes()), "{good}");
        }
        for bad in ["NaN", "inf", "1e309", "-0", "+5", "007", "5.", "0x10", " 5", "11", "-1", "10.000001", ""]
        {
            assert!(!passes(&limits, bad.as_bytes()), "{bad}");
        }
        assert!(!passes(&range("nan", "inf"), b"5"), "bounds that are no numbers are never met");
    }

    #[test]
    fn for_an_open_rule_a_value_that_is_no_plain_number_may_be_in_range() {
        let limits = range("1", "10");
        assert!(may_satisfy(&limits, b"0x5", &HERE) && may_satisfy(&limits, b"5", &HERE));
        assert!(!may_satisfy(&limits, b"11", &HERE));
    }

    #[test]
    fn all_failures_are_told_together_and_lengths_are_bytes() {
        let limits = ValueLimits {
            max_length: Some(3),
            choices: Some(vec!["a".into(), "b".into()]),
            ..pattern("[a-z]*")
        };
        let failed = failures(&limits, "\u{e9}\u{e9}".as_bytes(), &HERE);
        assert_eq!(
            failed,
            [
                "is 4 bytes long, more than max_length 3",
                "does not match the pattern '[a-z]*' as a whole",
                "is not one of ['a', 'b']",
            ]
        );
    }

    #[test]
    fn t1_39_and_78_choices_and_patterns_are_bytes() {
        let limits = ValueLimits { choices: Some(vec!["git".into()]), ..ValueLimits::default() };
        assert!(passes(&limits, b"git"));
        for bad in ["GIT", "git ", "\u{ff47}it", "g\u{456}t", "git\u{200b}"] {
            assert!(!passes(&limits, bad.as_bytes()), "{bad:?}");
        }
        assert!(!passes(&pattern("[a-z]+"), b"\xff\xfe"));
        assert!(passes(&pattern("(?s-u:.*)"), b"\xff\xfe"));
    }

    proptest::proptest! {
        #[test]
        fn what_passes_also_counts_for_an_open_rule(value: Vec<u8>) {
            for limits in [pattern("[a-z0-9.]+"), range("-5", "5"), pattern("(?s-u:.*)")] {
                if passes(&limits, &value) {
                    proptest::prop_assert!(may_satisfy(&limits, &value, &HERE));
                }
            }
        }
    }
}
