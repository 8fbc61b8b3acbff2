//! The tools that a policy offers, as agent frameworks register them: name, description, and the parameters as a JSON
//! Schema.
//!
//! Of stacked policies the schema is the tightest: what each of them alone would refuse it refuses, as far as JSON Schema
//! can say it. What it cannot say (bytes where it counts characters, `path`, a pattern in no other dialect) is judged
//! all the same when the tool is called.

use serde_json::{Map, Value, json};

use crate::decision::Offered;
use crate::policy::model::{Param, ParamType};
use crate::policy::value::ValueLimits;

/// One tool as a framework registers it.
pub fn to_json(offered: &Offered<'_>) -> Value {
    json!({
        "name": offered.name(),
        "description": offered.description(),
        "decision": offered.decision().as_str(),
        "parameters": parameters(offered),
    })
}

/// One tool on one line, for a person: `name(a: string, b: integer = 3, c?: array)`.
pub fn to_line(offered: &Offered<'_>) -> String {
    let shown = |params: Vec<&Param>| {
        let (first, required) = (params.first().map_or("", |p| &p.name), params.iter().any(|p| p.required));
        let kind = params.first().map_or("", |p| type_name(p.kind));
        match params.iter().find_map(|p| p.default.as_ref()) {
            Some(default) => format!("{first}: {kind} = {default}"),
            None if required => format!("{first}: {kind}"),
            None => format!("{first}?: {kind}"),
        }
    };
    let params: Vec<String> = shared(offered).into_iter().map(shown).collect();
    let (name, decision) = (offered.name(), offered.decision().as_str());
    format!("{name}({}) {decision}: {}", params.join(", "), offered.description())
}

/// Each parameter that every policy's tool has, as each has it.
fn shared<'p>(offered: &Offered<'p>) -> Vec<Vec<&'p Param>> {
    let Some((first, rest)) = offered.definitions.split_first() else { return Vec::new() };
    let everywhere = |param: &'p Param| {
        let others = rest.iter().map(|tool| tool.params.iter().find(|p| p.name == param.name));
        std::iter::once(Some(param)).chain(others).collect::<Option<Vec<_>>>()
    };
    first.params.iter().filter_map(everywhere).collect()
}

fn parameters(offered: &Offered<'_>) -> Value {
    let shared = shared(offered);
    let required: Vec<&str> = shared
        .iter()
        .filter(|params| params.iter().any(|param| param.required))
        .filter_map(|params| Some(params.first()?.name.as_str()))
        .collect();
    let property = |params: &Vec<&Param>| Some((params.first()?.name.clone(), of_all(params)));
    let properties: Map<String, Value> = shared.iter().filter_map(property).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn type_name(kind: ParamType) -> &'static str {
    match kind {
        ParamType::String => "string",
        ParamType::Integer => "integer",
        ParamType::Number => "number",
        ParamType::Boolean => "boolean",
        ParamType::Array => "array",
    }
}

/// The schema of one parameter, in all policies together.
fn of_all(params: &[&Param]) -> Value {
    let mut schemas = params.iter().map(|param| of_one(param));
    let mut whole = schemas.next().unwrap_or_default();
    let others: Vec<Value> =
        schemas.filter(|other| limits_of(other) != limits_of(&whole)).map(Value::from).collect();
    if !others.is_empty() {
        whole.insert("allOf".to_owned(), others.into());
    }
    whole.into()
}

/// A schema without what only says something to a reader.
fn limits_of(schema: &Map<String, Value>) -> Map<String, Value> {
    let told = |key: &String| key != "description" && key != "default";
    schema.iter().filter(|(key, _)| told(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn of_one(param: &Param) -> Map<String, Value> {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), type_name(param.kind).into());
    let mut description: Vec<String> = param.description.iter().cloned().collect();
    if let Some(default) = &param.default {
        schema.insert("default".to_owned(), default.clone());
    }
    let mut of_values = Map::new();
    limits(&param.value, param.kind, &mut of_values, &mut description);
    if let Some(bound) = &param.ask_above {
        description.push(format!("More than {bound} has to be approved by a person."));
    }
    if param.kind == ParamType::Array {
        of_values.shift_insert(0, "type".to_owned(), "string".into());
        schema.insert("items".to_owned(), of_values.into());
        schema.extend(param.value.max_length.map(|most| ("maxItems".to_owned(), most.into())));
    } else {
        schema.extend(param.value.max_length.map(|most| ("maxLength".to_owned(), most.into())));
        schema.extend(of_values);
    }
    if !description.is_empty() {
        schema.shift_insert(1, "description".to_owned(), description.join(" ").into());
    }
    schema
}

fn limits(
    value: &ValueLimits,
    kind: ParamType,
    schema: &mut Map<String, Value>,
    description: &mut Vec<String>,
) {
    for (key, bound) in [("minimum", &value.min_value), ("maximum", &value.max_value)] {
        schema.extend(bound.as_deref().and_then(number).map(|bound| (key.to_owned(), bound)));
    }
    if let Some(choices) = &value.choices {
        let numeric = matches!(kind, ParamType::Integer | ParamType::Number);
        let choice = |text: &String| number(text).filter(|_| numeric).unwrap_or_else(|| text.as_str().into());
        schema.insert("enum".to_owned(), choices.iter().map(choice).collect());
    }
    if let Some(pattern) = &value.pattern {
        // Of a number there is no text that a schema could match.
        match portable(&pattern.source) && matches!(kind, ParamType::String | ParamType::Array) {
            true => drop(schema.insert("pattern".to_owned(), format!("^(?:{})$", pattern.source).into())),
            false => description.push(format!("It has to match {} as a whole.", pattern.source)),
        }
    }
    if let Some(limit) = &value.path {
        description.push(format!("A path under {}.", limit.under.display()));
    }
}

/// A figure of a policy as JSON has it.
fn number(text: &str) -> Option<Value> {
    let negative = text.starts_with('-');
    let digits = text.trim_start_matches('-').trim_start_matches('0');
    let plain =
        if digits.is_empty() || digits.starts_with('.') { format!("0{digits}") } else { digits.to_owned() };
    serde_json::from_str(&format!("{}{plain}", if negative { "-" } else { "" })).ok()
}

/// Whether a pattern means the same in the dialect of JSON Schema (ECMA-262): no flags, named groups or anchors of the
/// other, and no sets within sets.
fn portable(source: &str) -> bool {
    let groups = source.match_indices("(?").all(|(at, _)| source[at..].starts_with("(?:"));
    let mut bytes = source.bytes();
    let escapes =
        std::iter::from_fn(|| bytes.find(|b| *b == b'\\').map(|_| bytes.next().unwrap_or_default()));
    let known = escapes.into_iter().all(|b| b"dDwWsSbBtnrfv^$\\.*+?()[]{}|/-".contains(&b));
    let sets = ["[[", "&&", "--]", "~~", "[]", "[^]"];
    groups && known && source.is_ascii() && !sets.iter().any(|part| source.contains(part))
}

#[cfg(test)]
mod tests;
