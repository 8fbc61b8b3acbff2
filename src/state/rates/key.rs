//! By what a rate counts apart: the values of its key in a call, and their one spelling in the store.

use serde_json::{Map, Value};

use super::Call;
use crate::policy::model::{Rate, RateKey};
use crate::request::quote::repr;
use crate::state::StateError;
use crate::state::files::DATABASE;

/// The values under which a call counts. A part that the call does not have is `None`: all such calls count together.
#[derive(Debug, Clone, PartialEq)]
pub struct Key(Vec<(RateKey, Option<Value>)>);

impl Key {
    /// The key of a call.
    pub(super) fn of(rate: &Rate, call: &Call<'_>) -> Key {
        let text = |text: &str| Value::from(text);
        let value = |part: &RateKey| match part {
            // An agent and all its children count together: whoever may add `/child` to its name as it likes would else
            // have a fresh count for each.
            RateKey::Agent => call.agent.map(|agent| text(agent.split('/').next().unwrap_or(agent))),
            RateKey::Session => call.session.map(text),
            RateKey::Param(name) => {
                call.tool.and_then(|(_, arguments)| arguments.get(name)).filter(|v| !v.is_null()).map(settled)
            }
        };
        Key(rate.key.iter().map(|part| (part.clone(), value(part))).collect())
    }

    /// Its spelling in the store: a JSON list of `[kind, value]` or `["param", name, value]`. Two keys have the same only
    /// where they are the same, whatever their values hold.
    pub(super) fn encoded(&self) -> String {
        let part = |(part, value): &(RateKey, Option<Value>)| {
            let value = value.clone().unwrap_or(Value::Null);
            match part {
                RateKey::Agent => Value::from(vec![Value::from("agent"), value]),
                RateKey::Session => Value::from(vec![Value::from("session"), value]),
                RateKey::Param(name) => {
                    Value::from(vec![Value::from("param"), Value::from(name.as_str()), value])
                }
            }
        };
        Value::from(self.0.iter().map(part).collect::<Vec<_>>()).to_string()
    }

    /// Reads what [`Key::encoded`] wrote.
    pub(super) fn decoded(text: &str) -> Result<Key, StateError> {
        let damaged = || StateError::Corrupt(DATABASE.into(), format!("a counter's key is {text:?}"));
        let parts: Vec<Vec<Value>> = serde_json::from_str(text).map_err(|_| damaged())?;
        let part = |part: Vec<Value>| {
            let kind = part.first().and_then(Value::as_str);
            let (kind, value) = match (kind, &part[..]) {
                (Some("agent"), [_, value]) => (RateKey::Agent, value),
                (Some("session"), [_, value]) => (RateKey::Session, value),
                (Some("param"), [_, Value::String(name), value]) => (RateKey::Param(name.clone()), value),
                _ => return Err(damaged()),
            };
            Ok((kind, Some(value.clone()).filter(|value| !value.is_null())))
        };
        parts.into_iter().map(part).collect::<Result<_, _>>().map(Key)
    }

    /// An object with a member for each part, in order; `null` where the call had none. No parameter of a key is named
    /// `agent` or `session`, for the words mean the asker and the session.
    pub fn to_json(&self) -> Value {
        let members = self.0.iter().map(|(part, value)| {
            let name = match part {
                RateKey::Agent => "agent",
                RateKey::Session => "session",
                RateKey::Param(name) => name,
            };
            (name.to_owned(), value.clone().unwrap_or(Value::Null))
        });
        Value::Object(members.collect::<Map<_, _>>())
    }

    /// Behind "in 30d": ` with customer 'C-1' and no agent`; nothing where the rate counts everything together. Safe to
    /// print.
    pub(super) fn phrase(&self) -> String {
        let part = |(part, value): &(RateKey, Option<Value>)| {
            let name = match part {
                RateKey::Agent => "agent",
                RateKey::Session => "session",
                RateKey::Param(name) => name,
            };
            match value {
                None => format!("no {name}"),
                Some(Value::String(text)) => format!("{name} {}", repr(text.as_bytes())),
                Some(other) => format!("{name} {}", repr(other.to_string().as_bytes())),
            }
        };
        let parts: Vec<String> = self.0.iter().map(part).collect();
        if parts.is_empty() { String::new() } else { format!(" with {}", parts.join(" and ")) }
    }
}

/// The same value in one spelling: `1`, `1.0` and `1e0` are one number and must not be counted apart. A text stays as it
/// is, and is never the same as a number.
fn settled(value: &Value) -> Value {
    match value {
        Value::Number(number) if !number.is_i64() => {
            let double = number.as_f64().unwrap_or(f64::NAN);
            // Below 2^63 a whole double is an integer exactly. Beyond, neighbours may count together.
            match double.fract() == 0.0 && double.abs() < 9.2e18 {
                true => Value::from(double as i64),
                false => Value::from(double),
            }
        }
        Value::Array(values) => values.iter().map(settled).collect(),
        other => other.clone(),
    }
}
