//! The JSON document that a check reads; `guardexec-check(7)` has it key by key.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{Output, Subject};
use crate::policy::model::{Check, CheckOn};

/// The name of the format.
pub const SCHEMA: &str = "guardexec.check/v1";

/// For a check on the request.
pub fn request(subject: &Subject<'_>, check: &Check) -> Vec<u8> {
    bytes(&about(subject, check))
}

/// For a check on the output.
pub fn output(subject: &Subject<'_>, check: &Check, out: &Output<'_>) -> Vec<u8> {
    let mut document = about(subject, check);
    document.insert("status".into(), out.status.into());
    document.insert("exit_code".into(), out.exit_code.into());
    text(&mut document, "stdout", Some(out.stdout));
    text(&mut document, "stderr", Some(out.stderr));
    document.insert("truncated".into(), out.truncated.into());
    bytes(&document)
}

fn about(subject: &Subject<'_>, check: &Check) -> Map<String, Value> {
    let on = match check.on {
        CheckOn::Request => "request",
        CheckOn::Output => "output",
    };
    let rule = |rule: &crate::decision::RuleRef| json!({"id": rule.id, "file": rule.at.file.to_string_lossy(), "line": rule.at.line});
    let sources = subject.policies.iter().flat_map(|policy| &policy.sources);
    let policy: Vec<Value> =
        sources.map(|s| json!({"path": s.path.to_string_lossy(), "sha256": s.sha256})).collect();
    let mut document = Map::new();
    let mut put = |key: &str, value: Value| drop(document.insert(key.to_owned(), value));
    put("schema", SCHEMA.into());
    put("check", check.name.as_str().into());
    put("on", on.into());
    put("run_id", subject.run_id.into());
    put("rule", subject.rule.map_or(Value::Null, rule));
    put("tool", subject.tool.into());
    put("arguments", subject.arguments.cloned().map_or(Value::Null, Value::Object));
    put("argv", subject.argv.map_or(Value::Null, |words| words.iter().map(lossy).collect()));
    put("argv_base64", subject.argv.map_or(Value::Null, encoded));
    text(&mut document, "command", subject.command);
    text(&mut document, "cwd", Some(subject.cwd.as_os_str().as_bytes()));
    let mut put = |key: &str, value: Value| drop(document.insert(key.to_owned(), value));
    put("agent", subject.asker.agent.as_deref().into());
    put("session", subject.asker.session.as_deref().into());
    put("labels", json!(subject.asker.labels));
    put("why", subject.asker.why.as_deref().into());
    put("policy", policy.into());
    document
}

fn lossy(word: &OsString) -> Value {
    word.to_string_lossy().into()
}

/// The exact words, where one of them is not UTF-8.
fn encoded(words: &[OsString]) -> Value {
    if words.iter().all(|word| word.to_str().is_some()) {
        return Value::Null;
    }
    words.iter().map(|word| Value::from(STANDARD.encode(word.as_bytes()))).collect()
}

/// `KEY`, and beside it `KEY_base64` with the exact bytes where they are not UTF-8.
fn text(document: &mut Map<String, Value>, key: &str, exact: Option<&[u8]>) {
    let encoded =
        exact.filter(|bytes| std::str::from_utf8(bytes).is_err()).map(|bytes| STANDARD.encode(bytes));
    document.insert(key.to_owned(), exact.map(String::from_utf8_lossy).map(String::from).into());
    document.insert(format!("{key}_base64"), encoded.into());
}

fn bytes(document: &Map<String, Value>) -> Vec<u8> {
    // All keys are texts and no number is a float: there is nothing that could not be written.
    let mut bytes = serde_json::to_vec(document).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}
