//! A tool's parameters: `params.NAME`.

use super::nearest::nearest_hint;
use super::reader::{Item, Name, Table};
use super::{rule, value};
use crate::policy::decimal::Decimal;
use crate::policy::error::{PolicyError, printable};
use crate::policy::model::{ActionKind, Param, ParamType};
use crate::policy::tree;
use crate::policy::value::ValueLimits;

const KEYS: [&str; 11] = value::keys_with(["type", "required", "default", "ask_above", "description"]);
/// Those of a built-in action's parameter.
const ACTION_KEYS: [&str; 9] = value::keys_with(["type", "required", "description"]);

const PARAM_TYPES: [(&str, ParamType); 6] = [
    ("string", ParamType::String),
    ("integer", ParamType::Integer),
    ("number", ParamType::Number),
    ("boolean", ParamType::Boolean),
    ("array", ParamType::Array),
    ("array of strings", ParamType::Array),
];

pub(super) fn params(item: &Item<'_>) -> Result<Vec<Param>, PolicyError> {
    let mut out = Vec::new();
    for (name, span, entry) in item.table("`params`")?.entries() {
        identifier(&entry.at(&span), name, "a parameter")?;
        out.push(param(&entry.named_table(Name("the parameter `", name, "`"))?, name)?);
    }
    Ok(out)
}

fn param(t: &Table<'_>, name: &str) -> Result<Param, PolicyError> {
    t.only(&KEYS)?;
    let kind = t.need("type")?.word(&PARAM_TYPES)?;
    let limits = value::limits(t)?;
    fitting(t, kind)?;
    if matches!(kind, ParamType::Integer | ParamType::Number) {
        numeric(t, kind, limits.choices.as_deref())?;
    }
    let default = t.opt("default", |i| default(i, kind, limits.choices.as_deref()))?;
    let required = t.opt("required", Item::boolean)?;
    if required == Some(true) && default.is_some() {
        return Err(t
            .need("default")?
            .error("a required parameter is never missing, so it takes no default"));
    }
    let required = required.unwrap_or(default.is_none());
    Ok(Param {
        name: name.to_owned(),
        kind,
        required,
        default,
        value: limits,
        ask_above: t.opt("ask_above", value::decimal)?,
        description: t.opt("description", rule::sentence)?,
    })
}

/// The parameters that a built-in action has by itself; `params` may narrow them.
pub(super) fn of_action(kind: ActionKind, item: Option<&Item<'_>>) -> Result<Vec<Param>, PolicyError> {
    let mut own: Vec<Param> = action_params(kind)
        .iter()
        .map(|(name, required, description)| Param {
            name: (*name).to_owned(),
            kind: ParamType::String,
            required: *required,
            default: None,
            value: ValueLimits::default(),
            ask_above: None,
            description: Some((*description).to_owned()),
        })
        .collect();
    let Some(item) = item else { return Ok(own) };
    let known: Vec<&str> = action_params(kind).iter().map(|(name, ..)| *name).collect();
    for (name, span, entry) in item.table("`params`")?.entries() {
        let Some(param) = own.iter_mut().find(|p| p.name == name) else {
            let message = format!("the action {} has no parameter `{}`", kind.as_str(), printable(name));
            return Err(item.doc.error(&span, message).hint(nearest_hint(name, &known)));
        };
        narrow(&entry.named_table(Name("the parameter `", name, "`"))?, param, kind)?;
    }
    Ok(own)
}

fn narrow(t: &Table<'_>, param: &mut Param, kind: ActionKind) -> Result<(), PolicyError> {
    t.only(&ACTION_KEYS).map_err(|error| match t.get("default").or_else(|| t.get("ask_above")) {
        Some(_) => error.hint("a built-in action's parameters can only be narrowed"),
        None => error,
    })?;
    if let Some(item) = t.get("type")
        && item.word(&PARAM_TYPES)? != ParamType::String
    {
        let message = format!("`{}` of the action {} is a string", param.name, kind.as_str());
        return Err(item.error(message));
    }
    if let Some(item) = t.get("path") {
        return Err(item.error("`path` has no meaning for a parameter of a built-in action").hint(
            "`root` says beneath which directory it works; `pattern` and `choices` narrow what it is given",
        ));
    }
    fitting(t, ParamType::String)?;
    match t.opt("required", Item::boolean)? {
        Some(false) if param.required => {
            let message = format!("the action {} cannot do without `{}`", kind.as_str(), param.name);
            return Err(t.need("required")?.error(message));
        }
        Some(required) => param.required = required,
        None => {}
    }
    param.value = value::limits(t)?;
    if let Some(description) = t.opt("description", rule::sentence)? {
        param.description = Some(description);
    }
    Ok(())
}

/// Name, whether it is required, and what it is.
fn action_params(kind: ActionKind) -> &'static [(&'static str, bool, &'static str)] {
    match kind {
        ActionKind::ReadFile => &[("path", true, "The file, relative to the tool's directory.")],
        ActionKind::WriteFile => &[
            ("path", true, "The file, relative to the tool's directory."),
            ("content", true, "All of what the file is to hold."),
        ],
        ActionKind::ListDir => &[(
            "path",
            false,
            "The directory, relative to the tool's directory; that one itself if not given.",
        )],
        ActionKind::DeleteFile => &[("path", true, "The file, relative to the tool's directory.")],
    }
}

/// Refuses limits that could never be asked of a value of this type.
fn fitting(t: &Table<'_>, kind: ParamType) -> Result<(), PolicyError> {
    let unfit: &[&str] = match kind {
        ParamType::Boolean => {
            &["max_length", "min_value", "max_value", "pattern", "choices", "path", "ask_above"]
        }
        ParamType::String | ParamType::Array => &["min_value", "max_value", "ask_above"],
        ParamType::Integer | ParamType::Number => &["max_length", "path"],
    };
    match unfit.iter().find_map(|key| t.get(key).map(|item| (key, item))) {
        None => Ok(()),
        Some((key, item)) => {
            let name = PARAM_TYPES.iter().find(|(_, k)| *k == kind).map_or("", |(n, _)| n);
            Err(item.error(format!("`{key}` has no meaning for a parameter of type {name}")))
        }
    }
}

/// A value is compared by its letters, and a number has one spelling: a choice in another is never met.
fn numeric(t: &Table<'_>, kind: ParamType, choices: Option<&[String]>) -> Result<(), PolicyError> {
    let shortest = |text: &str| match text.split_once('.') {
        Some((_, fraction)) => kind == ParamType::Number && !fraction.ends_with('0'),
        None => true,
    };
    let met = |text: &&String| Decimal::parse(text.as_bytes()).is_some() && shortest(text);
    match choices.unwrap_or_default().iter().find(|text| !met(text)) {
        None => Ok(()),
        Some(text) => Err(t
            .need("choices")?
            .error(format!("`{}` in `choices` is a value that no number has", printable(text)))
            .hint("write plain digits and no more of them than needed, such as 7, -2 or \"0.5\"")),
    }
}

fn default(
    item: &Item<'_>,
    kind: ParamType,
    choices: Option<&[String]>,
) -> Result<serde_json::Value, PolicyError> {
    use serde_json::Value;
    let value = match (kind, item.value()) {
        (ParamType::String, tree::Value::String(_)) => Value::from(item.string()?),
        (ParamType::Boolean, tree::Value::Boolean(b)) => Value::from(b),
        (ParamType::Array, tree::Value::Array) => Value::from(item.strings()?),
        (ParamType::Integer | ParamType::Number, tree::Value::Integer(_)) => Value::from(whole(item)?),
        (ParamType::Number, tree::Value::Float) => Value::from(decimal(item)?),
        (ParamType::String, _) => return Err(item.wrong("a string")),
        (ParamType::Boolean, _) => return Err(item.wrong("true or false")),
        (ParamType::Array, _) => return Err(item.wrong("a list of strings")),
        (ParamType::Integer, _) => return Err(item.wrong("a whole number")),
        (ParamType::Number, _) => return Err(item.wrong("a number")),
    };
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if kind != ParamType::Array && choices.is_some_and(|c| !c.contains(&text)) {
        return Err(item.error(format!("the default `{}` is not one of `choices`", printable(&text))));
    }
    Ok(value)
}

fn whole(item: &Item<'_>) -> Result<i64, PolicyError> {
    item.doc
        .source(&item.span)
        .parse()
        .map_err(|_| item.error(format!("{} must be a whole number in plain decimal digits", item.what)))
}

fn decimal(item: &Item<'_>) -> Result<f64, PolicyError> {
    let text = item.doc.source(&item.span);
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'-' || b == b'.');
    let number = text.parse::<f64>().ok().filter(|n| plain && n.is_finite());
    number.ok_or_else(|| item.error(format!("{} must be a plain decimal number", item.what)))
}

/// Names that every framework takes for a tool or a parameter.
pub(super) fn identifier(item: &Item<'_>, name: &str, what: &str) -> Result<(), PolicyError> {
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    let rest = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if first && rest && name.len() <= 64 {
        return Ok(());
    }
    Err(item
        .error(format!("`{}` cannot be the name of {what}", printable(name)))
        .hint("letters, digits, `_` and `-`, not more than 64"))
}
