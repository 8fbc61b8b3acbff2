//! The arguments of a call: one value of the right type for each parameter, or everything that is wrong with them.
//!
//! From JSON a type is what it is: nothing is turned into anything else. From the command line all is text, and a
//! number has the one spelling that every program reads alike. What comes out is the same for both, so that one call
//! is one call however it came: `1.0` is `1`, and a number that could not be kept exactly is refused.

use serde_json::{Map, Number, Value};

use crate::decision::paths::Paths;
use crate::decision::shown::repr;
use crate::decision::values::{self, list};
use crate::policy::decimal::Decimal;
use crate::policy::model::{Param, ParamType, Tool};
use crate::request::Arguments;

/// From here on a float no longer tells whole numbers apart (2^53).
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Values by parameter, in the tool's order; a parameter that is neither given nor has a default is missing.
pub(super) type Values = Map<String, Value>;

/// The values of a call, and one sentence for each thing that is wrong; the values are complete only without any.
pub(super) fn settle(tool: &Tool, given: &Arguments, paths: &Paths<'_>) -> (Values, Vec<String>) {
    let mut values = Values::new();
    let mut failures = Vec::new();
    for param in &tool.params {
        let value = match given {
            Arguments::Typed(map) => map.get(&param.name).map(|value| typed(param, value)),
            Arguments::Texts(texts) => {
                let own = texts.iter().filter(|(name, _)| *name == param.name).map(|(_, text)| text.as_str());
                from_texts(param, &own.collect::<Vec<_>>())
            }
        };
        match value.or_else(|| param.default.clone().map(Ok)) {
            Some(Ok(value)) => {
                let wrong = limits(param, &value, paths);
                if wrong.is_empty() {
                    values.insert(param.name.clone(), value);
                }
                failures.extend(wrong);
            }
            Some(Err(wrong)) => failures.push(wrong),
            None if param.required => failures.push(format!("{} is missing", named(param))),
            None => {}
        }
    }
    failures.extend(unknown(tool, given));
    (values, failures)
}

/// A value as a program reads it.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // Without exponent, and never with a point where none is needed.
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.to_string(),
            (None, Some(float)) => float.to_string(),
            (None, None) => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// Whether a value is above the figure from which on a person is asked; the sentence that says so.
pub(super) fn asks(param: &Param, value: &Value) -> Option<String> {
    let bound = param.ask_above.as_ref()?;
    let text = text_of(value);
    let above = match (Decimal::parse(text.as_bytes()), Decimal::lenient(bound.as_bytes())) {
        (Some(value), Some(bound)) => value.compare(&bound).is_gt(),
        // What cannot be compared is not known to be small.
        _ => true,
    };
    above.then(|| format!("{} is {text}, more than ask_above {bound}", named(param)))
}

pub(super) fn named(param: &Param) -> String {
    format!("argument {}", repr(param.name.as_bytes()))
}

fn unknown<'a>(tool: &'a Tool, given: &'a Arguments) -> Vec<String> {
    let mut seen: Vec<&str> = Vec::new();
    let names: Vec<&str> = match given {
        Arguments::Typed(map) => map.keys().map(String::as_str).collect(),
        Arguments::Texts(texts) => texts.iter().map(|(name, _)| name.as_str()).collect(),
    };
    let known: Vec<&str> = tool.params.iter().map(|p| p.name.as_str()).collect();
    for name in names {
        if !known.contains(&name) && !seen.contains(&name) {
            seen.push(name);
        }
    }
    let takes = if known.is_empty() { "none".to_owned() } else { list(&known) };
    seen.iter()
        .map(|name| format!("argument {} is unknown; the tool takes {takes}", repr(name.as_bytes())))
        .collect()
}

/// What a person calls a type.
fn kind_name(kind: ParamType) -> &'static str {
    match kind {
        ParamType::String => "a text",
        ParamType::Integer => "a whole number",
        ParamType::Number => "a number",
        ParamType::Boolean => "true or false",
        ParamType::Array => "a list of texts",
    }
}

/// A value of a JSON request: of the type itself, or refused.
fn typed(param: &Param, value: &Value) -> Result<Value, String> {
    let refused = || format!("{} must be {}, not {}", named(param), kind_name(param.kind), kind_of(value));
    match (param.kind, value) {
        (ParamType::String, Value::String(_)) | (ParamType::Boolean, Value::Bool(_)) => Ok(value.clone()),
        (ParamType::Array, Value::Array(items)) if items.iter().all(Value::is_string) => Ok(value.clone()),
        (ParamType::Integer | ParamType::Number, Value::Number(number)) => {
            if let Some(whole) = number.as_i64() {
                Ok(whole.into())
            } else if number.is_u64() {
                Err(too_large(param, &number.to_string()))
            } else if param.kind == ParamType::Number {
                number.as_f64().and_then(float).ok_or_else(refused)
            } else {
                Err(refused())
            }
        }
        _ => Err(refused()),
    }
}

/// A float that is kept exactly; a whole one as the whole number it is, so that the two spellings are one value.
fn float(number: f64) -> Option<Value> {
    let plain = number.is_finite() && number.abs() < EXACT && !(number == 0.0 && number.is_sign_negative());
    let whole = plain && number.fract() == 0.0;
    #[allow(clippy::cast_possible_truncation)]
    match (plain, whole) {
        (false, _) => None,
        (true, true) => Some((number as i64).into()),
        (true, false) => Number::from_f64(number).map(Value::Number),
    }
}

fn too_large(param: &Param, text: &str) -> String {
    format!("{} must lie between {} and {}, and is {text}", named(param), i64::MIN, i64::MAX)
}

fn kind_of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(_) => "a text".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// What the command line gave for one parameter; `None` where it gave nothing.
fn from_texts(param: &Param, texts: &[&str]) -> Option<Result<Value, String>> {
    match (param.kind, texts) {
        (_, []) => None,
        (ParamType::Array, texts) => Some(Ok(texts.iter().map(|text| Value::from(*text)).collect())),
        (_, [text]) => Some(from_text(param, text)),
        (_, texts) => {
            Some(Err(format!("{} is given {} times and takes one value", named(param), texts.len())))
        }
    }
}

fn from_text(param: &Param, text: &str) -> Result<Value, String> {
    let refused = || {
        let digits = match param.kind {
            ParamType::Integer => " in plain digits (such as 7 or -2)",
            ParamType::Number => " in plain digits (such as 7, -2 or 0.5)",
            _ => "",
        };
        let (name, kind) = (named(param), kind_name(param.kind));
        format!("{name} must be {kind}{digits}, not {}", repr(text.as_bytes()))
    };
    match param.kind {
        ParamType::String | ParamType::Array => Ok(text.into()),
        ParamType::Boolean => text.parse::<bool>().map(Value::from).map_err(|_| refused()),
        ParamType::Integer | ParamType::Number => {
            let number = Decimal::parse(text.as_bytes()).ok_or_else(refused)?;
            if !text.contains('.') {
                return text.parse::<i64>().map(Value::from).map_err(|_| too_large(param, text));
            }
            if param.kind == ParamType::Integer {
                return Err(refused());
            }
            let value = text.parse().ok().and_then(float);
            let exact = |value: &Value| {
                Decimal::parse(text_of(value).as_bytes()).is_some_and(|kept| kept.compare(&number).is_eq())
            };
            value.filter(exact).ok_or_else(|| {
                format!(
                    "{} has more digits than can be kept exactly: {}",
                    named(param),
                    repr(text.as_bytes())
                )
            })
        }
    }
}

/// All limits that a value fails. Of an array `max_length` counts the elements, and every other limit is each element's.
fn limits(param: &Param, value: &Value, paths: &Paths<'_>) -> Vec<String> {
    let Value::Array(items) = value else {
        let text = text_of(value);
        return judged(&named(param), &text, || values::failures(&param.value, text.as_bytes(), paths));
    };
    let mut failed = Vec::new();
    let count = items.len() as u64;
    if let Some(most) = param.value.max_length.filter(|&most| count > most) {
        failed.push(format!("{} has {count} elements, more than max_length {most}", named(param)));
    }
    for (index, item) in items.iter().enumerate() {
        let subject = format!("element {} of {}", index + 1, named(param));
        let text = item.as_str().unwrap_or_default();
        failed.extend(judged(&subject, text, || {
            values::content_failures(&param.value, text.as_bytes(), paths)
        }));
    }
    failed
}

fn judged(subject: &str, text: &str, failures: impl Fn() -> Vec<String>) -> Vec<String> {
    if text.contains('\0') {
        return vec![format!("{subject} holds a NUL byte, which no tool takes")];
    }
    failures().iter().map(|how| format!("{subject} {} {how}", repr(text.as_bytes()))).collect()
}
