//! A tool's template with values in it. A placeholder stands inside exactly one word, whatever its value holds; only an
//! array that is a word of its own becomes several, or none.

use std::cmp::Ordering;
use std::ffi::OsString;

use super::arguments::{Values, named, text_of};
use crate::decision::shown::repr;
use crate::policy::decimal::Decimal;
use crate::policy::model::{ActionKind, Param, ParamType, Tool};
use crate::policy::template::{Piece, pieces, placeholders};

/// The words of the command, and one sentence for each that a program could take for a flag.
pub(super) fn words(tool: &Tool, values: &Values) -> (Vec<OsString>, Vec<String>) {
    let mut out: Vec<OsString> = Vec::with_capacity(tool.argv.len());
    let mut failures = Vec::new();
    let mut ended = false;
    for template in &tool.argv {
        let parts = pieces(template);
        let filled = match parts[..] {
            [Piece::Param(name)] => values.get(name).map(each).unwrap_or_default(),
            _ => fill(&parts, values).into_iter().collect(),
        };
        for word in filled {
            if !ended && let Some(Piece::Param(name)) = parts.first() {
                let param = tool.params.iter().find(|p| p.name == *name);
                let alone = param.filter(|_| parts.len() == 1);
                if word.starts_with('-') && !alone.is_some_and(|param| meant(param, &word)) {
                    failures.push(dashed(param, &word));
                }
            }
            out.push(word.into());
        }
        ended |= template == "--";
    }
    (out, failures)
}

/// The standard input; a parameter that is missing leaves nothing.
pub(super) fn input(template: &str, values: &Values) -> Vec<u8> {
    let text = |piece: &Piece<'_>| match piece {
        Piece::Text(text) => (*text).to_owned(),
        Piece::Param(name) => values.get(*name).map(text_of).unwrap_or_default(),
    };
    pieces(template).iter().map(text).collect::<String>().into_bytes()
}

/// The words that a placeholder alone becomes.
fn each(value: &serde_json::Value) -> Vec<String> {
    match value {
        serde_json::Value::Array(items) => items.iter().map(text_of).collect(),
        other => vec![text_of(other)],
    }
}

/// A word with text in it; without one of its values it is left out as a whole, since half a word means something else.
fn fill(parts: &[Piece<'_>], values: &Values) -> Option<String> {
    let text = |piece: &Piece<'_>| match piece {
        Piece::Text(text) => Some((*text).to_owned()),
        Piece::Param(name) => values.get(*name).map(text_of),
    };
    parts.iter().map(text).collect()
}

/// Whether the author has said that this value, dash and all, is one that the tool takes: it is in `choices`, or it is
/// a negative number and `min_value` is one too. A type or a pattern alone says no such thing.
fn meant(param: &Param, value: &str) -> bool {
    let listed = param.value.choices.as_ref().is_some_and(|c| c.iter().any(|choice| choice == value));
    let numeric = matches!(param.kind, ParamType::Integer | ParamType::Number);
    let below_zero = |bound: &String| {
        let zero = Decimal::lenient(b"0");
        let bound = Decimal::lenient(bound.as_bytes());
        bound.zip(zero).is_some_and(|(bound, zero)| bound.compare(&zero) == Ordering::Less)
    };
    listed || (numeric && param.value.min_value.as_ref().is_some_and(below_zero))
}

fn dashed(param: Option<&Param>, word: &str) -> String {
    let subject = param.map_or_else(|| "a word".to_owned(), named);
    format!("{subject} makes the word {}, which the program would take for a flag", repr(word.as_bytes()))
}

/// The parameters whose values are content for somebody to read: all that stand in the template of the standard input.
pub(super) fn content(tool: &Tool) -> Vec<String> {
    let input = tool.stdin.iter().flat_map(|text| placeholders(text)).map(str::to_owned);
    let written = tool.action.as_ref().is_some_and(|a| a.kind == ActionKind::WriteFile);
    input.chain(written.then(|| super::action::CONTENT.to_owned())).collect()
}
