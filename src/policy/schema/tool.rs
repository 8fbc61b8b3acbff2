//! `[tools.NAME]`: a fixed argv with typed parameters.

use std::collections::BTreeMap;

use super::reader::{Item, Name, Table, nearest_hint};
use super::{Span, rule, sections, value};
use crate::policy::error::{PolicyError, printable};
use crate::policy::model::{Param, ParamType, Tool, ToolOutput};
use crate::policy::tree;

const KEYS: &[&str] = &["description", "argv", "params", "decision", "reason", "agents", "limits"];

const PARAM_TYPES: [(&str, ParamType); 5] = [
    ("string", ParamType::String),
    ("integer", ParamType::Integer),
    ("number", ParamType::Number),
    ("boolean", ParamType::Boolean),
    ("array", ParamType::Array),
];

/// All tools, each with the place of its name.
pub(super) fn tools(top: &Table<'_>) -> Result<BTreeMap<String, (Tool, Span)>, PolicyError> {
    let Some(item) = top.get("tools") else { return Ok(BTreeMap::new()) };
    let mut out = BTreeMap::new();
    for (name, span, entry) in item.by_key().table("[tools]")?.entries() {
        identifier(&entry.at(&span), name, "a tool")?;
        let t = entry.named_table(Name("[tools.", name, "]"))?;
        out.insert(name.to_owned(), (tool(&t, name, &span)?, span));
    }
    Ok(out)
}

/// Names that every framework takes for a tool or a parameter.
fn identifier(item: &Item<'_>, name: &str, what: &str) -> Result<(), PolicyError> {
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    let rest = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if first && rest && name.len() <= 64 {
        return Ok(());
    }
    Err(item
        .error(format!("`{}` cannot be the name of {what}", printable(name)))
        .hint("letters, digits, `_` and `-`, not more than 64"))
}

fn tool(t: &Table<'_>, name: &str, span: &Span) -> Result<Tool, PolicyError> {
    t.only(KEYS)?;
    let params = t.opt("params", params)?.unwrap_or_default();
    Ok(Tool {
        name: name.to_owned(),
        at: t.doc.place(span),
        description: rule::sentence(&t.need("description")?)?,
        argv: argv(&t.need("argv")?, &params)?,
        params,
        action: None,
        stdin: None,
        check_exit: false,
        output: ToolOutput::default(),
        decision: t.need("decision")?.word(&rule::DECISIONS)?,
        reason: t.opt("reason", rule::sentence)?,
        agents: t.opt("agents", rule::agents)?,
        limits: t.opt("limits", |i| sections::limits(&i.table("`limits` of a tool")?))?.unwrap_or_default(),
    })
}

/// The template: a fixed program, then words in which `{name}` stands for a parameter.
fn argv(item: &Item<'_>, params: &[Param]) -> Result<Vec<String>, PolicyError> {
    let entries = item.list("a list of strings")?;
    let Some(first) = entries.first() else {
        return Err(item.error(format!("{} is empty: it has to name a program", item.what)));
    };
    if placeholders(first.string()?).next().is_some() {
        return Err(first.error("the program of a tool cannot come from a parameter"));
    }
    rule::program(first, None)?;
    let known: Vec<&str> = params.iter().map(|p| p.name.as_str()).collect();
    let mut argv = Vec::with_capacity(entries.len());
    for entry in &entries {
        let word = entry.string()?;
        if let Some(unknown) = placeholders(word).find(|name| !known.contains(name)) {
            return Err(entry
                .error(format!("`{{{unknown}}}` names no parameter of this tool"))
                .hint(nearest_hint(unknown, &known)));
        }
        argv.push(word.to_owned());
    }
    Ok(argv)
}

/// The names in braces in a word of a template. Braces around anything but a name are plain text, as in
/// `find ... {} +`.
pub(in crate::policy) fn placeholders(word: &str) -> impl Iterator<Item = &str> {
    word.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name)).filter(|name| {
        name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    })
}

fn params(item: &Item<'_>) -> Result<Vec<Param>, PolicyError> {
    let mut out = Vec::new();
    for (name, span, entry) in item.table("`params`")?.entries() {
        identifier(&entry.at(&span), name, "a parameter")?;
        out.push(param(&entry.named_table(Name("the parameter `", name, "`"))?, name)?);
    }
    Ok(out)
}

fn param(t: &Table<'_>, name: &str) -> Result<Param, PolicyError> {
    t.only(&value::keys_with(&["type", "required", "default"]))?;
    let kind = t.need("type")?.word(&PARAM_TYPES)?;
    let limits = value::limits(t)?;
    fitting(t, kind)?;
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
        ask_above: None,
        description: None,
    })
}

/// Refuses limits that could never be asked of a value of this type.
fn fitting(t: &Table<'_>, kind: ParamType) -> Result<(), PolicyError> {
    let unfit: &[&str] = match kind {
        ParamType::Boolean => &value::KEYS,
        ParamType::String | ParamType::Array => &["min_value", "max_value"],
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
