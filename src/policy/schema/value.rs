//! Limits on one value, wherever they stand: a flag's value, an operand, a tool's parameter.

use std::cmp::Ordering;

use super::reader::{Item, Table};
use crate::policy::decimal::compare;
use crate::policy::error::{PolicyError, printable};
use crate::policy::tree::Value;
use crate::policy::value::{PathKind, PathLimit, Pattern, ValueLimits};

/// The keys that limit a value.
pub(super) const KEYS: [&str; 6] = ["max_length", "min_value", "max_value", "pattern", "choices", "path"];

/// Digits of a number that a person would write. It keeps the comparison of two of them short.
const MAX_DIGITS: usize = 64;

/// `KEYS` and the `MORE` keys that stand beside them in some kind of table.
pub(super) const fn keys_with<const MORE: usize, const ALL: usize>(
    more: [&'static str; MORE],
) -> [&'static str; ALL] {
    assert!(ALL == KEYS.len() + MORE);
    let mut all = [""; ALL];
    let mut at = 0;
    while at < ALL {
        all[at] = if at < KEYS.len() { KEYS[at] } else { more[at - KEYS.len()] };
        at += 1;
    }
    all
}

/// Reads the six keys; the caller has refused unknown ones.
pub(super) fn limits(t: &Table<'_>) -> Result<ValueLimits, PolicyError> {
    let value = ValueLimits {
        max_length: t.opt("max_length", |i| i.count(0, u64::MAX))?,
        min_value: t.opt("min_value", decimal)?,
        max_value: t.opt("max_value", decimal)?,
        pattern: t.opt("pattern", pattern)?,
        choices: t.opt("choices", choices)?,
        path: t.opt("path", |i| path(i).map(Box::new))?,
    };
    if let (Some(min), Some(max)) = (&value.min_value, &value.max_value)
        && compare(min, max) == Ordering::Greater
    {
        let item = t.need("min_value")?;
        return Err(item.error(format!("min_value {min} is greater than max_value {max}")));
    }
    Ok(value)
}

/// A decimal number exactly as it stands in the file. TOML's other spellings are refused: the same text is
/// what a value is judged and messages are made with.
pub(super) fn decimal(item: &Item<'_>) -> Result<String, PolicyError> {
    if !item.is_number() {
        return Err(item.wrong("a number"));
    }
    let text = item.doc.source(&item.span);
    if text.ends_with("nan") || text.ends_with("inf") {
        return Err(item.error(format!("{} must be a finite number", item.what)));
    }
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || text.len() > MAX_DIGITS {
        return Err(item
            .error(format!("{} must be a plain decimal number", item.what))
            .hint("write it without exponent, underscore, plus sign or base, such as 1000 or 0.5"));
    }
    Ok(text.to_owned())
}

fn pattern(item: &Item<'_>) -> Result<Pattern, PolicyError> {
    let source = item.string()?;
    Ok(Pattern::at(source, item.doc.spot(&item.span)))
}

/// Texts, or whole numbers in plain decimal spelling.
fn choices(item: &Item<'_>) -> Result<Vec<String>, PolicyError> {
    let entries = item.each("a list of strings")?;
    let mut out: Vec<String> = Vec::with_capacity(item.length());
    if item.length() == 0 {
        return Err(item.error(format!("{} is empty: no value could ever pass", item.what)));
    }
    for entry in entries {
        let text = match entry.value() {
            Value::Integer(_) => decimal(&entry)?,
            _ => entry.string()?.to_owned(),
        };
        if out.contains(&text) {
            return Err(entry.error(format!("`{}` stands twice in {}", printable(&text), item.what)));
        }
        out.push(text);
    }
    Ok(out)
}

fn path(item: &Item<'_>) -> Result<PathLimit, PolicyError> {
    let t = item.table("`path`")?;
    t.only(&["under", "kind", "symlinks"])?;
    Ok(PathLimit {
        under: t.need("under")?.path()?,
        kind: t.opt("kind", |i| i.word(&[("file", PathKind::File), ("dir", PathKind::Dir)]))?,
        symlinks: t.flag("symlinks")?,
    })
}
