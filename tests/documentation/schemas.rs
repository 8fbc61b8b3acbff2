//! What the shipped JSON Schemas say: the names of keys, where they stand, and the words a key may hold.

use serde_json::Value;

use crate::Names;

/// One shipped schema.
pub struct Schema {
    root: Value,
}

impl Schema {
    /// `policy`, `request`, `result` or `audit`.
    pub fn shipped(name: &str) -> Schema {
        let text = guardexec::report::schema::get(name).unwrap_or_else(|| panic!("no schema {name}"));
        Schema { root: serde_json::from_str(text).expect("the schema is JSON") }
    }

    /// Every name of a property, wherever it stands.
    pub fn all_names(&self) -> Names {
        let mut names = Names::new();
        walk(&self.root, &mut names);
        names
    }

    /// The names directly below a way of properties; `*` is any name of a table.
    pub fn names_at(&self, way: &[&str]) -> Names {
        let mut here = vec![&self.root];
        for step in way {
            here = here.into_iter().flat_map(|s| self.parts(s)).filter_map(|s| below(s, step)).collect();
            here =
                here.into_iter().flat_map(|s| self.parts(s)).map(|s| s.get("items").unwrap_or(s)).collect();
        }
        let parts = here.into_iter().flat_map(|s| self.parts(s));
        parts.filter_map(|s| s["properties"].as_object()).flat_map(|p| p.keys().cloned()).collect()
    }

    /// The words in the `enum`s and `const`s of a property of the document itself.
    pub fn words_of(&self, key: &str) -> Names {
        let mut words = Names::new();
        let own = self.parts(&self.root).into_iter().filter_map(|s| below(s, key));
        for part in own.flat_map(|s| self.parts(s)) {
            let listed = part["enum"].as_array().into_iter().flatten();
            words.extend(listed.chain([&part["const"]]).filter_map(Value::as_str).map(str::to_owned));
        }
        words
    }

    /// A schema, what it refers to, and its alternatives.
    fn parts<'s>(&'s self, schema: &'s Value) -> Vec<&'s Value> {
        let mut parts = vec![schema];
        if let Some(pointer) = schema["$ref"].as_str().and_then(|r| r.strip_prefix('#')) {
            let target = self.root.pointer(pointer).unwrap_or_else(|| panic!("{pointer} leads nowhere"));
            parts.extend(self.parts(target));
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            for part in schema[key].as_array().into_iter().flatten() {
                parts.extend(self.parts(part));
            }
        }
        parts
    }
}

fn below<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    if name == "*" {
        let pattern = schema["patternProperties"].as_object().and_then(|p| p.values().next());
        return pattern.or_else(|| schema.get("additionalProperties").filter(|a| a.is_object()));
    }
    schema["properties"].get(name)
}

/// Properties are told from keywords: a property may be named like one (`default`, `required`).
fn walk(schema: &Value, names: &mut Names) {
    match schema {
        Value::Array(parts) => parts.iter().for_each(|p| walk(p, names)),
        Value::Object(keywords) => {
            for (keyword, value) in keywords {
                match (keyword.as_str(), value) {
                    ("properties", Value::Object(properties)) => {
                        names.extend(properties.keys().cloned());
                        properties.values().for_each(|p| walk(p, names));
                    }
                    ("$defs" | "definitions" | "patternProperties", Value::Object(named)) => {
                        named.values().for_each(|p| walk(p, names));
                    }
                    ("enum" | "const" | "default" | "examples" | "required", _) => {}
                    (_, value) => walk(value, names),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn a_schema_is_read() {
    let root = serde_json::json!({
        "properties": { "a": { "$ref": "#/$defs/a" }, "l": { "items": { "properties": { "c": {} } } }, "s": { "anyOf": [{ "enum": ["x", "y"] }, { "type": "null" }] } },
        "$defs": { "a": { "properties": { "default": { "default": { "properties": { "no": {} } } } } } }
    });
    let schema = Schema { root };
    let names = |list: &[&str]| list.iter().map(|n| (*n).to_owned()).collect::<Names>();
    assert_eq!(schema.all_names(), names(&["a", "c", "default", "l", "s"]));
    assert_eq!(schema.names_at(&["a"]), names(&["default"]));
    assert_eq!(schema.names_at(&["l"]), names(&["c"]));
    assert_eq!(schema.words_of("s"), names(&["x", "y"]));
}
