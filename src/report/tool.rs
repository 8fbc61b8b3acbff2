//! A tool's call as results and audit records show it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::decision::ToolCall;
use crate::request::mask::mask_argv;
use crate::request::{Arguments, Ask, Request};

/// A longer text among the arguments is told by its length and its hash.
const LONGEST: usize = 256;

/// A tool's call as results and audit records show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDoc {
    /// The tool.
    pub name: String,
    /// Its arguments: of a granted call a value for each parameter, else what was asked. Content (what goes into a file
    /// or to standard input), and any text that is long, is `{bytes, sha256}`.
    pub arguments: Map<String, Value>,
}

impl ToolDoc {
    /// The call that a request is, as it was asked.
    pub fn of_request(request: &Request) -> Option<ToolDoc> {
        match &request.ask {
            Ask::Tool { name, arguments } => Some(ToolDoc::asked(name, arguments)),
            _ => None,
        }
    }

    /// A call as it was asked. Nothing of it has been judged, so it may hold anything.
    pub fn asked(name: &str, given: &Arguments) -> ToolDoc {
        let mut arguments = Map::new();
        match given {
            Arguments::Typed(map) => {
                arguments.extend(map.iter().map(|(key, value)| (short_name(key), short(value))));
            }
            Arguments::Texts(texts) => {
                for (key, text) in texts {
                    let value = short(&Value::from(text.as_str()));
                    match arguments.get_mut(key) {
                        None => drop(arguments.insert(short_name(key), value)),
                        Some(Value::Array(items)) => items.push(value),
                        Some(first) => *first = Value::Array(vec![first.take(), value]),
                    }
                }
            }
        }
        ToolDoc { name: short_name(name), arguments }
    }

    /// A call whose arguments are settled.
    pub fn settled(call: &ToolCall) -> ToolDoc {
        let shown =
            |(key, value): (&String, &Value)| match value.as_str().filter(|_| call.content.contains(key)) {
                Some(text) => (key.clone(), measured(text)),
                None => (key.clone(), short(value)),
            };
        ToolDoc { name: call.name.clone(), arguments: call.arguments.iter().map(shown).collect() }
    }

    /// The same without the secrets that are known by their names or shapes.
    pub fn masked(&self) -> ToolDoc {
        let masked = |(key, value): (&String, &Value)| (key.clone(), masked(key, value));
        ToolDoc { name: self.name.clone(), arguments: self.arguments.iter().map(masked).collect() }
    }

    /// The call as words that a sentence about it may quote.
    pub fn words(&self) -> Vec<String> {
        let flag = |(key, value): (&String, &Value)| Some(format!("--{key}={}", value.as_str()?));
        std::iter::once(self.name.clone()).chain(self.arguments.iter().filter_map(flag)).collect()
    }
}

fn short_name(name: &str) -> String {
    let end = (0..=LONGEST).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    match name.len() {
        0..=LONGEST => name.to_owned(),
        length => format!("{}...[{} bytes omitted]", &name[..end], length - end),
    }
}

fn short(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() > LONGEST => measured(text),
        Value::Array(items) => items.iter().map(short).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (short_name(key), short(value))).collect(),
        other => other.clone(),
    }
}

fn measured(text: &str) -> Value {
    let hash = crate::sys::hex(&Sha256::digest(text.as_bytes()));
    json!({ "bytes": text.len(), "sha256": hash })
}

/// A text is judged as the value of a flag of its parameter's name would be.
fn masked(key: &str, value: &Value) -> Value {
    match value {
        Value::String(text) => {
            let flag = format!("--{key}=");
            let shown = mask_argv(&["", &format!("{flag}{text}")]).pop().unwrap_or_default();
            shown.strip_prefix(&flag).unwrap_or(&shown).into()
        }
        Value::Array(items) => items.iter().map(|item| masked(key, item)).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), masked(key, value))).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
