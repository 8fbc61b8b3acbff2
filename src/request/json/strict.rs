//! JSON text to a value, without `serde_json`'s silence: repeated keys are refused at every level, nesting is
//! bounded, and a number that would lose digits is refused.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::request::{RequestError, quote};

/// Objects and lists inside each other, the request itself included. Stays below the 128 at which `serde_json`
/// gives up, so that the message is ours.
const DEEPEST: usize = 32;

/// From here on a float no longer tells whole numbers apart (2^53).
const EXACT: f64 = 9_007_199_254_740_992.0;

/// What a custom error starts with when it is about a key: the only way through `serde_json`'s error type.
const KEY_MARK: &str = "key given twice: ";

/// Parses one value with nothing but blanks around it.
pub(super) fn parse(text: &str) -> Result<Value, RequestError> {
    value(text).map_err(refused)
}

/// The numbers with a fraction or an exponent in a JSON text, as they are spelled.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start_matches(|c: char| c != '"' && c != '-' && !c.is_ascii_digit());
            if rest.starts_with('"') {
                let mut escaped = false;
                let end = rest[1..].find(|c| {
                    let ends = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    ends
                })?;
                rest = &rest[end + 2..];
                continue;
            }
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
            let (number, after) = rest.split_at(end.unwrap_or(rest.len()));
            rest = after;
            match number.is_empty() {
                true => return None,
                false if number.contains(['.', 'e', 'E']) => return Some(number),
                false => {}
            }
        }
    })
}

/// Whether the double that stands for a number in decimal has no other shortest spelling.
fn is_kept(number: &str) -> bool {
    number.parse::<f64>().is_ok_and(|double| digits(number) == digits(&format!("{double:e}")))
}

/// The digits of a number without zeros at either end, and the power of ten that stands behind them.
fn digits(number: &str) -> (String, i64) {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{}{fraction}", whole.trim_start_matches('-'));
    let kept = all.trim_end_matches('0');
    let moved = all.len() as i64 - kept.len() as i64 - fraction.len() as i64;
    let kept = kept.trim_start_matches('0').to_owned();
    // An exponent that is no number of this size belongs to a zero, or was refused before.
    let power = exponent.parse::<i64>().unwrap_or(0).saturating_add(moved);
    if kept.is_empty() { (kept, 0) } else { (kept, power) }
}

/// The same for any document: what a policy's own program answers is held to the same rules as a request. The error is
/// one line about the text, safe to print.
///
/// # Errors
/// No JSON, more than one value, a key given twice, too deep, or a number that would lose digits.
pub(crate) fn value(text: &str) -> Result<Value, String> {
    let shown = |error: serde_json::Error| quote::escape_text(&error.to_string()).replace('\n', "\\n");
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict { depth: 0 }.deserialize(&mut reader).map_err(shown)?;
    reader.end().map_err(shown)?;
    match numbers(text).find(|number| !is_kept(number)) {
        None => Ok(value),
        Some(number) => {
            let shown = quote::repr(&number.as_bytes()[..number.len().min(64)]);
            Err(format!("{shown} has more digits than can be kept exactly; send it as a text"))
        }
    }
}

fn refused(message: String) -> RequestError {
    let code = if message.starts_with(KEY_MARK) { "request_key" } else { "request_json" };
    RequestError::new(code, format!("the JSON request cannot be read: {message}"))
}

/// Builds a value that stands `depth` levels deep.
#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
}

impl Strict {
    fn deeper<E: Error>(self) -> Result<Strict, E> {
        if self.depth >= DEEPEST {
            return Err(E::custom(format_args!("nested deeper than {DEEPEST} levels")));
        }
        Ok(Strict { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let exact = Number::from_f64(value).filter(|_| value.abs() < EXACT);
        exact.map(Value::Number).ok_or_else(|| E::custom("a number too large to be exact; send it as a text"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_string()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!("{KEY_MARK}{}", quote::repr(key.as_bytes()))));
            }
            let value = entries.next_value_seed(inner)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
