//! A request as one JSON object: for `show --json`, and for the programs that answer or are told.
//!
//! The same facts as on the screen. No secret value of the environment and no byte of standard input is in it; a byte of an
//! output only where that is what is asked about.

use serde_json::{Map, Value, json};

use super::bound::{BoundFile, BoundInput, Cause, Variable};
use super::bytes::Bytes;
use super::entry::{Answered, Answerer, Entry};
use super::files::{self, Content};
use super::output::BoundOutput;
use super::screen::Paper;
use crate::request::mask::{MASKED, mask_argv, mask_variable};
use crate::request::quote::lossless;
use crate::sys::account::Person;

/// The value of `schema`.
pub const SCHEMA: &str = "guardexec.approval/v1";

impl Paper<'_> {
    /// One object. Every key is always there; what does not apply is null.
    pub fn document(&self) -> Value {
        let mut to = Map::new();
        to.insert("schema".into(), SCHEMA.into());
        standing(self.entry, &mut to);
        let bound = self.bound;
        words("argv", &bound.argv, &mut to);
        let asked = self.entry.and_then(|entry| entry.asked_argv.as_ref());
        to.insert("asked_argv".into(), asked.map(|words| texts(words)).into());
        let tool = bound.tool.as_ref();
        to.insert("tool".into(), tool.map(|tool| tool.name.clone()).into());
        to.insert("arguments".into(), tool.map_or(Value::Null, |tool| tool.arguments.clone().into()));
        to.insert("program".into(), bound.program.as_ref().map(file).into());
        to.insert("cwd".into(), text(&bound.cwd));
        to.insert("env".into(), bound.env.iter().map(variable).collect());
        to.insert("stdin".into(), input(&bound.stdin));
        let files = bound.files.iter().map(|named| {
            let content = named.content.as_ref();
            json!({
                "word": named.word,
                "path": text(&named.path),
                "kind": if content.is_some() { "file" } else { "directory" },
                "size": content.map(|content| content.size),
                "sha256": content.map(|content| &content.sha256),
            })
        });
        to.insert("files".into(), files.collect());
        to.insert("causes".into(), bound.causes.iter().map(cause).collect());
        let policies =
            bound.policies.iter().map(|(path, sha256)| json!({"path": text(path), "sha256": sha256}));
        to.insert("policy".into(), policies.collect());
        let settings = bound.settings.iter().map(|setting| (setting.name.clone(), texts(&setting.values)));
        to.insert("settings".into(), Value::Object(settings.collect()));
        to.insert("agent".into(), bound.agent.clone().into());
        to.insert("session".into(), bound.session.clone().into());
        to.insert("labels".into(), json!(bound.labels));
        to.insert("why".into(), bound.why.clone().into());
        let evidence = bound.evidence.as_ref().map(|evidence| {
            let mut object = file(evidence);
            object["text"] = self.evidence.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).into();
            object
        });
        to.insert("evidence".into(), evidence.into());
        let lately = self.lately.unwrap_or_default().iter().map(|one| {
            let mut object = answer(&one.answered);
            object["id"] = one.id.clone().into();
            object["agent"] = one.agent.clone().into();
            object
        });
        to.insert("lately".into(), lately.collect());
        let output = bound.output.as_ref().map(|output| output.document(self.output));
        to.insert("output".into(), output.into());
        Value::Object(to)
    }
}

fn standing(entry: Option<&Entry>, to: &mut Map<String, Value>) {
    to.insert("id".into(), entry.map(|entry| entry.id.clone()).into());
    to.insert("state".into(), entry.map(|entry| entry.state.as_str()).into());
    to.insert("digest".into(), entry.map(|entry| entry.digest.clone()).into());
    to.insert("filed_at".into(), entry.map(|entry| entry.filed_at.clone()).into());
    to.insert("filed_by".into(), entry.map(|entry| by(&entry.filed_by)).into());
    to.insert("expires_at".into(), entry.map(|entry| entry.expires_at.clone()).into());
    let left = entry.filter(|entry| entry.state.is_open()).map(|entry| entry.left.as_secs());
    to.insert("expires_in_s".into(), left.into());
    to.insert("answer".into(), entry.and_then(|entry| entry.answered.as_ref()).map(answer).into());
    let used = entry.and_then(|entry| entry.used.as_ref());
    to.insert("used_at".into(), used.map(|(at, _)| at.clone()).into());
    to.insert("run_id".into(), used.map(|(_, run_id)| run_id.clone()).into());
    to.insert("escalated_at".into(), entry.and_then(|entry| entry.escalated_at.clone()).into());
}

/// The line of `export` for a request: who asked for what, and what was answered. Nothing secret is in it, and for an agent
/// nothing that tells of an output.
pub fn record(entry: &Entry, for_agent: bool) -> Value {
    let bound = &entry.bound;
    let mut to = Map::new();
    to.insert("schema".into(), "guardexec.approval.record/v1".into());
    standing(Some(entry), &mut to);
    to.remove("expires_in_s");
    if for_agent && bound.output.is_some() {
        // Of a short answer it would tell which one it is.
        to.insert("digest".into(), Value::Null);
    }
    let masked = |words: &[Bytes]| mask_argv(&words.iter().map(|word| &word.0).collect::<Vec<_>>());
    to.insert("argv".into(), masked(&bound.argv).into());
    to.insert("asked_argv".into(), entry.asked_argv.as_deref().map(masked).into());
    let tool = bound.tool.as_ref().map(|tool| {
        let shown = |(name, value): (&String, &Value)| {
            let text = value.as_str().filter(|_| tool.content.contains(name));
            (name.clone(), text.map_or_else(|| masked_value(name, value), measured))
        };
        let arguments = tool.arguments.iter().map(shown);
        json!({"name": tool.name, "arguments": arguments.collect::<Map<_, _>>()})
    });
    to.insert("tool".into(), tool.into());
    to.insert("program".into(), bound.program.as_ref().map(file).into());
    to.insert("cwd".into(), text(&bound.cwd));
    to.insert("causes".into(), bound.causes.iter().map(cause).collect());
    let policies = bound.policies.iter().map(|(path, sha256)| json!({"path": text(path), "sha256": sha256}));
    to.insert("policy".into(), policies.collect());
    to.insert("agent".into(), bound.agent.clone().into());
    to.insert("session".into(), bound.session.clone().into());
    to.insert("labels".into(), json!(bound.labels));
    let words: Vec<&[u8]> = bound.argv.iter().map(|word| word.0.as_slice()).collect();
    let why = bound.why.as_ref().map(|why| crate::request::mask::mask_text(why, &words));
    to.insert("why".into(), why.into());
    to.insert("evidence".into(), bound.evidence.as_ref().map(file).into());
    let told = |output: &BoundOutput| if for_agent { output.untold() } else { output.document(None) };
    to.insert("output".into(), bound.output.as_ref().map(told).into());
    Value::Object(to)
}

/// A tool's argument without what its name or its look says is a secret; longer texts are content, and left out.
fn masked_value(name: &str, value: &Value) -> Value {
    const LONG: usize = 256;
    match value {
        Value::String(text) if text.len() > LONG => measured(text),
        Value::String(text) => lossless(&mask_variable(name.as_bytes(), text.as_bytes())).into(),
        Value::Array(list) => list.iter().map(|one| masked_value(name, one)).collect(),
        Value::Object(_) => MASKED.into(),
        other => other.clone(),
    }
}

fn measured(text: &str) -> Value {
    let content = files::content(text.as_bytes());
    json!({"bytes": content.size, "sha256": content.sha256})
}

/// A list of texts under `name`, and the exact bytes where they are not UTF-8.
fn words(name: &str, words: &[Bytes], to: &mut Map<String, Value>) {
    to.insert(name.into(), texts(words));
    let exact = words.iter().any(|word| std::str::from_utf8(&word.0).is_err());
    let base64 = |word: &Bytes| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(&word.0)
    };
    to.insert(format!("{name}_base64"), exact.then(|| words.iter().map(base64).collect::<Vec<_>>()).into());
}

fn texts(words: &[Bytes]) -> Value {
    words.iter().map(text).collect()
}

fn text(bytes: &Bytes) -> Value {
    lossless(&bytes.0).into()
}

fn file(file: &BoundFile) -> Value {
    json!({"path": text(&file.path), "size": file.content.size, "sha256": file.content.sha256})
}

fn input(stdin: &BoundInput) -> Value {
    let object = |kind: &str, path: Option<Value>, content: Option<&Content>| {
        json!({
            "kind": kind,
            "path": path,
            "size": content.map(|content| content.size),
            "sha256": content.map(|content| &content.sha256),
        })
    };
    match stdin {
        BoundInput::Null => object("null", None, None),
        BoundInput::File(file) => object("file", Some(text(&file.path)), Some(&file.content)),
        BoundInput::Bytes(content) => object("bytes", None, Some(content)),
        BoundInput::Relayed => object("relayed", None, None),
    }
}

fn variable(variable: &Variable) -> Value {
    let shown = variable.value.as_ref().map(|value| mask_variable(&variable.name.0, &value.0));
    let masked =
        shown.as_ref().is_some_and(|shown| variable.value.as_ref().is_some_and(|value| value.0 != *shown));
    json!({"name": text(&variable.name), "value": shown.map(|shown| lossless(&shown)), "masked": masked})
}

fn cause(cause: &Cause) -> Value {
    json!({"id": cause.id, "file": text(&cause.file), "line": cause.line, "reason": cause.reason})
}

fn answer(answered: &Answered) -> Value {
    json!({
        "verdict": if answered.approved { "approve" } else { "decline" },
        "by": answerer(&answered.by),
        "at": answered.at,
        "text": answered.text,
    })
}

fn answerer(answerer: &Answerer) -> Value {
    let mut object = by(&answerer.person);
    object["program"] = answerer.program.clone().into();
    object
}

fn by(person: &Person) -> Value {
    json!({"uid": person.uid, "user": person.user, "login_uid": person.login_uid})
}
