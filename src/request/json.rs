//! A JSON request to a [`Request`], strictly: what is unknown, said twice or of another type is refused.
//!
//! Two steps. `strict` reads the text into a value and refuses what `serde_json` alone would pass over in silence
//! (a repeated key, of which it keeps the last; a number that loses digits). Then each key is taken out of that
//! value by hand, so that every refusal names its key.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use base64::Engine as _;
use serde_json::{Map, Value};

use super::{
    Arguments, Ask, Asker, Request, RequestError, Stdin, check_nul, check_variable, parse_duration, quote,
};

mod strict;
#[cfg(test)]
mod tests;

pub(crate) use strict::value as one_value;

/// The longest JSON request, in bytes.
pub const LONGEST: usize = 16 << 20;

/// Every key of a JSON request.
pub const KEYS: [&str; 13] = [
    "argv",
    "command",
    "tool",
    "arguments",
    "cwd",
    "env",
    "stdin",
    "stdin_base64",
    "timeout",
    "agent",
    "session",
    "labels",
    "why",
];

/// Parses a JSON request: one object in UTF-8, at most [`LONGEST`] bytes, nothing behind it.
///
/// # Errors
/// [`RequestError`]; its message is one line and safe to print.
pub fn parse(bytes: &[u8]) -> Result<Request, RequestError> {
    if bytes.len() > LONGEST {
        return Err(RequestError::new("request_too_large", "the JSON request is longer than 16 MiB"));
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let at = e.valid_up_to() + 1;
        RequestError::new("request_not_utf8", format!("the JSON request is not UTF-8 (byte {at})"))
    })?;
    let Value::Object(mut fields) = strict::parse(text)? else {
        return Err(RequestError::new("request_json", "the JSON request is not an object"));
    };
    check_keys(&fields)?;
    let request = Request {
        ask: ask(&mut fields)?,
        cwd: cwd(&mut fields)?,
        env: env(&mut fields)?,
        stdin: stdin(&mut fields)?,
        timeout: text_of(&mut fields, "timeout")?
            .map(|text| parse_duration(&text).map_err(|why| RequestError::value(format!("'timeout': {why}"))))
            .transpose()?,
        asker: Asker {
            agent: text_of(&mut fields, "agent")?,
            session: text_of(&mut fields, "session")?,
            labels: labels(&mut fields)?,
            why: text_of(&mut fields, "why")?,
        },
        evidence: None,
        approval: None,
    };
    request.asker.check()?;
    Ok(request)
}

fn check_keys(fields: &Map<String, Value>) -> Result<(), RequestError> {
    let Some(unknown) = fields.keys().find(|key| !KEYS.contains(&key.as_str())) else {
        return Ok(());
    };
    let shown = quote::repr(unknown.as_bytes());
    let nearest = KEYS
        .iter()
        .map(|key| (strsim::damerau_levenshtein(key, truncated(unknown)), *key))
        .min()
        .filter(|(distance, _)| *distance <= 2);
    let advice = match nearest {
        Some((_, key)) => format!("did you mean '{key}'?"),
        None => "policy, state, audit and output are named on the command line only".to_string(),
    };
    Err(RequestError::new("request_key", format!("unknown key {shown} in the JSON request; {advice}")))
}

/// Enough of a key to compare it: the comparison takes time and space by the product of the lengths.
fn truncated(key: &str) -> &str {
    &key[..key.char_indices().nth(32).map_or(key.len(), |(at, _)| at)]
}

fn ask(fields: &mut Map<String, Value>) -> Result<Ask, RequestError> {
    let said = |key: &str| fields.contains_key(key);
    if [said("argv"), said("command"), said("tool")].iter().filter(|&&is| is).count() != 1 {
        return Err(RequestError::value(
            "a JSON request has exactly one of 'argv', 'command' and 'tool' (with 'arguments')",
        ));
    }
    if said("arguments") && !said("tool") {
        return Err(RequestError::value("'arguments' goes with 'tool' only"));
    }
    if let Some(words) = fields.shift_remove("argv") {
        return argv(words).map(Ask::Argv);
    }
    if let Some(command) = text_of(fields, "command")? {
        check_nul("'command'", command.as_bytes())?;
        return Ok(Ask::Command(command.into_bytes()));
    }
    let name = text_of(fields, "tool")?.unwrap_or_default();
    if name.is_empty() {
        return Err(RequestError::value("'tool' must not be empty"));
    }
    let arguments = object_of(fields, "arguments")?.unwrap_or_default();
    Ok(Ask::Tool { name, arguments: Arguments::Typed(arguments) })
}

fn argv(words: Value) -> Result<Vec<OsString>, RequestError> {
    let wrong = || RequestError::value("'argv' must be a list of texts");
    let Value::Array(words) = words else { return Err(wrong()) };
    if words.is_empty() {
        return Err(RequestError::value("'argv' must not be empty"));
    }
    let word = |(index, word): (usize, Value)| match word {
        Value::String(text) => {
            check_nul(&format!("word {index} of 'argv'"), text.as_bytes())?;
            Ok(OsString::from(text))
        }
        _ => Err(wrong()),
    };
    words.into_iter().enumerate().map(word).collect()
}

fn cwd(fields: &mut Map<String, Value>) -> Result<Option<PathBuf>, RequestError> {
    let Some(path) = text_of(fields, "cwd")? else { return Ok(None) };
    check_nul("'cwd'", path.as_bytes())?;
    if path.is_empty() {
        return Err(RequestError::value("'cwd' must not be empty"));
    }
    Ok(Some(PathBuf::from(path)))
}

type Wishes = Vec<(OsString, Option<OsString>)>;

fn env(fields: &mut Map<String, Value>) -> Result<Wishes, RequestError> {
    let variables = object_of(fields, "env")?.unwrap_or_default();
    let wish = |(name, value): (String, Value)| {
        check_variable(name.as_bytes())?;
        let shown = quote::repr(name.as_bytes());
        let value = match value {
            Value::Null => None,
            Value::String(text) => {
                check_nul(&format!("{shown} in env"), text.as_bytes())?;
                Some(OsString::from_vec(text.into_bytes()))
            }
            _ => return Err(RequestError::value(format!("{shown} in env must be a text or null"))),
        };
        Ok((OsString::from(name), value))
    };
    variables.into_iter().map(wish).collect()
}

fn stdin(fields: &mut Map<String, Value>) -> Result<Stdin, RequestError> {
    let text = text_of(fields, "stdin")?;
    let encoded = text_of(fields, "stdin_base64")?;
    match (text, encoded) {
        (None, None) => Ok(Stdin::Null),
        (Some(text), None) => Ok(Stdin::Bytes(text.into_bytes())),
        (None, Some(encoded)) => base64::engine::general_purpose::STANDARD
            .decode(encoded)
            .map(Stdin::Bytes)
            .map_err(|_| RequestError::value("'stdin_base64' is not base64 (RFC 4648, with padding)")),
        (Some(_), Some(_)) => {
            Err(RequestError::value("a JSON request has at most one of 'stdin' and 'stdin_base64'"))
        }
    }
}

fn labels(fields: &mut Map<String, Value>) -> Result<BTreeMap<String, String>, RequestError> {
    let label = |(name, value)| match value {
        Value::String(text) => Ok((name, text)),
        _ => Err(RequestError::value("'labels' must be an object of texts")),
    };
    object_of(fields, "labels")?.unwrap_or_default().into_iter().map(label).collect()
}

fn text_of(fields: &mut Map<String, Value>, key: &str) -> Result<Option<String>, RequestError> {
    match fields.shift_remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(RequestError::value(format!("'{key}' must be a text"))),
    }
}

fn object_of(fields: &mut Map<String, Value>, key: &str) -> Result<Option<Map<String, Value>>, RequestError> {
    match fields.shift_remove(key) {
        None => Ok(None),
        Some(Value::Object(map)) => Ok(Some(map)),
        Some(_) => Err(RequestError::value(format!("'{key}' must be an object"))),
    }
}
