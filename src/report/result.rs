//! `guardexec.result/v1`: the one JSON document for the caller.
//!
//! The fields stand in the order of the documentation and are always present; what does not apply is null. The
//! document is plain data: the spine fills it in, and nothing here knows where a figure came from.

use std::collections::BTreeMap;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};

use crate::policy::model::Severity;
use crate::sandbox::bounds::Bounds;

use super::json;
use super::status::Status;
use super::tool::ToolDoc;
use super::word::{SCHEMA, Word, pairs, word, word_or_null, words as known_words};

/// The result. Every field is what the documentation of the same name says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct ResultDoc {
    #[serde(deserialize_with = "word")]
    pub schema: Word,
    pub run_id: String,
    #[serde(deserialize_with = "word_or_null")]
    pub decision: Option<Word>,
    pub status: Status,
    #[serde(deserialize_with = "word_or_null")]
    pub stage: Option<Word>,
    pub rule: Option<RuleDoc>,
    pub reason: Option<String>,
    pub text: String,
    pub policy: Vec<PolicyDoc>,
    pub argv: Option<Vec<String>>,
    pub argv_base64: Option<Vec<String>>,
    pub tool: Option<ToolDoc>,
    pub program: Option<ProgramDoc>,
    pub cwd: Option<String>,
    pub agent: Option<String>,
    pub session: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// RFC 3339 in UTC, to the millisecond.
    pub started_at: String,
    pub duration_ms: u64,
    pub exit_code: Option<u8>,
    pub exit_status: u8,
    pub signal: Option<String>,
    pub core_dumped: bool,
    #[serde(deserialize_with = "word_or_null")]
    pub limit: Option<Word>,
    /// In the order in which they are pushed.
    #[serde(serialize_with = "as_map", deserialize_with = "pairs")]
    pub limits: Vec<(Word, LimitDoc)>,
    pub cpu_user_ms: Option<u64>,
    pub cpu_system_ms: Option<u64>,
    pub max_rss_bytes: Option<u64>,
    pub processes: Option<u64>,
    pub stdout: Option<String>,
    pub stderr: Option<String>,
    pub stdout_base64: Option<String>,
    pub stderr_base64: Option<String>,
    pub stdout_bytes: Option<u64>,
    pub stderr_bytes: Option<u64>,
    pub stdout_truncated: bool,
    pub stderr_truncated: bool,
    pub redactions: Vec<RedactionDoc>,
    pub sandbox: Option<SandboxDoc>,
    pub violations: Vec<ViolationDoc>,
    pub warnings: Vec<String>,
    pub approval: Option<ApprovalDoc>,
    pub survivors: Option<u64>,
    pub audit: Option<AuditDoc>,
    pub error: Option<ErrorDoc>,
    /// What checks said since the last audit record: for the operator, not for the caller.
    #[serde(skip)]
    pub checks: Vec<CheckDoc>,
    /// The run changed what the workspace protects: `warnings` say what.
    #[serde(skip)]
    pub planted: bool,
    /// What was kept from the run, where that can be told: `text` says what of it a failed run may have met.
    #[serde(skip)]
    pub bounds: Option<Rc<Bounds>>,
}

/// What one check said.
#[derive(Debug, Clone, Serialize)]
pub struct CheckDoc {
    /// Its name.
    pub check: String,
    /// `request` or `output`.
    pub on: &'static str,
    /// `pass`, `warn`, `block`, `ask` or `rewrite`.
    pub verdict: &'static str,
    /// It gave no verdict, which blocks.
    pub failed: bool,
    /// The policy's word for how bad it is when it does not pass.
    pub severity: SeverityDoc,
    /// Its reason.
    pub reason: String,
    /// The last of what a failed check wrote to standard error.
    pub stderr: String,
}

/// A severity, spelled as policies spell it.
#[derive(Debug, Clone, Copy)]
pub struct SeverityDoc(pub Severity);

impl Serialize for SeverityDoc {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.as_str())
    }
}

/// The rule that decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleDoc {
    /// Its id.
    pub id: String,
    /// The file it stands in.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
}

/// One file of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyDoc {
    /// Its path.
    pub path: String,
    /// SHA-256 of its bytes, lower-case hex.
    pub sha256: String,
}

/// The program that was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramDoc {
    /// The canonical path.
    pub path: String,
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// SHA-256 of its content, where something asked for it.
    pub sha256: Option<String>,
}

/// One limit as it was in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitDoc {
    /// Milliseconds for times, bytes for sizes, a count otherwise; null where the policy lifted it.
    pub value: Option<u64>,
    /// `exact`, `approximate` or `none`.
    #[serde(deserialize_with = "word")]
    pub how: Word,
}

/// What a guard cut out of the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedactionDoc {
    /// `stdout` or `stderr`.
    #[serde(deserialize_with = "word")]
    pub stream: Word,
    /// The guard's rule.
    pub rule: String,
    /// How many times.
    pub count: u64,
}

/// The confinement that was really on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxDoc {
    /// The profile.
    #[serde(deserialize_with = "word")]
    pub profile: Word,
    /// Layer and mechanism, in the order in which they are pushed.
    #[serde(serialize_with = "as_map", deserialize_with = "pairs")]
    pub enforced: Vec<(Word, String)>,
    /// Layers that the profile wants and that could not be had.
    #[serde(deserialize_with = "known_words")]
    pub missing: Vec<Word>,
}

/// Something that the confinement refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViolationDoc {
    /// The layer that refused.
    #[serde(deserialize_with = "word")]
    pub layer: Word,
    /// What was tried: `execve`, `connect`, `write`, ...
    pub operation: String,
    /// On what, where that is known.
    pub target: Option<String>,
    /// What to change, where guardexec knows.
    pub hint: Option<String>,
}

/// Where an approval stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDoc {
    /// What `--approval` takes.
    pub id: String,
    /// `pending`, `approved`, `declined`, `expired`, `consumed`.
    pub state: String,
    /// RFC 3339, or null where it does not expire.
    pub expires_at: Option<String>,
}

/// The last audit record of this request; `SEQ:HASH` proves later that the tail was not cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditDoc {
    /// The audit file.
    pub file: String,
    /// The record's number.
    pub seq: u64,
    /// The record's hash, lower-case hex.
    pub hash: String,
}

/// What went wrong with guardexec itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDoc {
    /// Stable and machine-readable: `usage`, `policy`, `audit`, ...
    pub kind: String,
    /// One sentence.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl ResultDoc {
    /// A result in which nothing has happened yet: status `error`, exit 125, so that a field somebody forgot
    /// to fill in never reads as success.
    pub fn new(run_id: String, started_at: std::time::SystemTime) -> ResultDoc {
        ResultDoc {
            schema: SCHEMA,
            run_id,
            decision: None,
            status: Status::Error,
            stage: None,
            rule: None,
            reason: None,
            text: String::new(),
            policy: Vec::new(),
            argv: None,
            argv_base64: None,
            tool: None,
            program: None,
            cwd: None,
            agent: None,
            session: None,
            labels: BTreeMap::new(),
            started_at: humantime::format_rfc3339_millis(started_at).to_string(),
            duration_ms: 0,
            exit_code: None,
            exit_status: 125,
            signal: None,
            core_dumped: false,
            limit: None,
            limits: Vec::new(),
            cpu_user_ms: None,
            cpu_system_ms: None,
            max_rss_bytes: None,
            processes: None,
            stdout: None,
            stderr: None,
            stdout_base64: None,
            stderr_base64: None,
            stdout_bytes: None,
            stderr_bytes: None,
            stdout_truncated: false,
            stderr_truncated: false,
            redactions: Vec::new(),
            sandbox: None,
            violations: Vec::new(),
            warnings: Vec::new(),
            approval: None,
            survivors: None,
            audit: None,
            error: None,
            checks: Vec::new(),
            planted: false,
            bounds: None,
        }
    }

    /// The exact bytes that were kept of standard output.
    pub fn stdout_kept(&self) -> Vec<u8> {
        let exact = self.stdout_base64.as_ref().and_then(|text| STANDARD.decode(text).ok());
        exact.unwrap_or_else(|| self.stdout.clone().unwrap_or_default().into_bytes())
    }

    /// The exact bytes that were kept of standard error.
    pub fn stderr_kept(&self) -> Vec<u8> {
        let exact = self.stderr_base64.as_ref().and_then(|text| STANDARD.decode(text).ok());
        exact.unwrap_or_else(|| self.stderr.clone().unwrap_or_default().into_bytes())
    }

    /// The document as one line of JSON, without a newline, safe to show on a terminal.
    pub fn to_line(&self) -> String {
        json::to_line(self).expect("every map of a result has strings for keys")
    }
}

/// Words as `argv` and `argv_base64` show them: the text with U+FFFD for what is not UTF-8, and the exact
/// bytes of all words only where one of them is not.
pub fn words<W: AsRef<[u8]>>(argv: &[W]) -> (Vec<String>, Option<Vec<String>>) {
    let text = argv.iter().map(|w| String::from_utf8_lossy(w.as_ref()).into_owned()).collect();
    let exact = argv.iter().any(|w| std::str::from_utf8(w.as_ref()).is_err());
    (text, exact.then(|| argv.iter().map(|w| STANDARD.encode(w)).collect()))
}

/// One stream as `stdout` and `stdout_base64` show it. `tail` is empty and `omitted` 0 where nothing was cut;
/// the base64 text is of the kept bytes alone, head then tail, without the mark.
pub fn stream(head: &[u8], tail: &[u8], omitted: u64) -> (String, Option<String>) {
    let mut text = String::from_utf8_lossy(head).into_owned();
    if omitted > 0 {
        text.push_str(&format!("\n...[{omitted} bytes omitted]...\n"));
    }
    text.push_str(&String::from_utf8_lossy(tail));
    let whole = std::str::from_utf8(head).is_ok() && std::str::from_utf8(tail).is_ok();
    (text, (!whole).then(|| STANDARD.encode([head, tail].concat())))
}

fn as_map<S: Serializer, T: Serialize>(pairs: &[(&'static str, T)], to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(pairs.len()))?;
    for (key, value) in pairs {
        map.serialize_entry(key, value)?;
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn an_empty_result_is_an_error() {
        let doc = ResultDoc::new("R".into(), UNIX_EPOCH + Duration::from_millis(1500));
        assert_eq!((doc.status, doc.exit_status), (Status::Error, 125));
        let json: serde_json::Value = serde_json::from_str(&doc.to_line()).unwrap();
        assert_eq!(json["started_at"], "1970-01-01T00:00:01.500Z");
        assert_eq!(json["limits"], serde_json::json!({}));
    }

    #[test]
    fn the_order_of_fields_is_the_documented_one() {
        let line = ResultDoc::new("R".into(), UNIX_EPOCH).to_line();
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let documented = "schema run_id decision status stage rule reason text policy argv argv_base64 tool program cwd \
            agent session labels started_at duration_ms exit_code exit_status signal core_dumped limit limits \
            cpu_user_ms cpu_system_ms max_rss_bytes processes stdout stderr stdout_base64 stderr_base64 \
            stdout_bytes stderr_bytes stdout_truncated stderr_truncated redactions sandbox violations warnings approval \
            survivors audit error";
        assert_eq!(keys, documented.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn the_line_is_safe_and_round_trips() {
        let mut doc = ResultDoc::new("R".into(), UNIX_EPOCH);
        doc.stdout = Some("\u{1b}]0;x\u{7}\u{202e}\u{2028}\n\u{9b}".into());
        doc.labels.insert("k\n".into(), "\u{7f}".into());
        let line = doc.to_line();
        assert!(!line.chars().any(json::is_unsafe), "{line}");
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(json["stdout"].as_str(), doc.stdout.as_deref());
        assert_eq!(json["labels"]["k\n"], "\u{7f}");
    }

    #[test]
    fn base64_only_where_text_would_lose_something() {
        assert_eq!(words(&["a", "é"]), (vec!["a".into(), "é".into()], None));
        let (text, exact) = words(&[b"a".as_slice(), b"\xff"]);
        assert_eq!((text[1].as_str(), exact), ("\u{fffd}", Some(vec!["YQ==".into(), "/w==".into()])));
        assert_eq!(stream(b"ab", b"", 0), ("ab".into(), None));
        assert_eq!(stream(b"a", b"b", 7), ("a\n...[7 bytes omitted]...\nb".into(), None));
        assert_eq!(
            stream(b"\xff", b"b", 7),
            ("\u{fffd}\n...[7 bytes omitted]...\nb".into(), Some("/2I=".into()))
        );
    }
}
