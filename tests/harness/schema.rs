//! The shipped JSON Schemas, compiled once; every real result and record is held against them.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use serde_json::Value;

/// Fails with every violation if `value` does not satisfy the schema of that name.
#[track_caller]
pub fn check(name: &'static str, value: &Value) {
    static COMPILED: OnceLock<Mutex<HashMap<&'static str, &'static jsonschema::Validator>>> = OnceLock::new();
    let validator = *COMPILED
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(|e| e.into_inner())
        .entry(name)
        .or_insert_with(|| {
            let text = guardexec::report::schema::get(name).expect("a shipped schema");
            let schema: Value = serde_json::from_str(text).expect("the schema is JSON");
            Box::leak(Box::new(jsonschema::validator_for(&schema).expect("the schema compiles")))
        });
    let wrong: Vec<String> =
        validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path)).collect();
    assert!(wrong.is_empty(), "not a valid {name}:\n{}\n{value:#}", wrong.join("\n"));
}
