//! What stands in a record, and the one line it becomes.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::policy::model::Severity;
use crate::report::json;
use crate::report::result::{CheckDoc, ErrorDoc, PolicyDoc, ProgramDoc, RuleDoc, SandboxDoc};
use crate::report::status::Status;
use crate::report::tool::ToolDoc;
use crate::request::mask::mask_argv;
use crate::sys::hex;

/// Above this length (bytes) a record's long texts and lists are cut.
const LONG: usize = 1 << 20;

/// What is kept of each text (bytes) and each list (elements) of a record that is too long.
const KEPT: usize = 1000;

/// One record, before it has its place in a chain.
#[derive(Debug, Clone)]
pub struct Record {
    /// When.
    pub ts: SystemTime,
    /// The run it belongs to.
    pub run_id: String,
    /// What happened.
    pub body: Body,
}

/// What happened. The severity follows from it.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Body {
    /// A request was judged; written before anything runs.
    Decision(Box<DecisionRecord>),
    /// A run ended.
    Outcome(Box<OutcomeRecord>),
    /// An approval was asked for, given, declined, used.
    Approval(ApprovalRecord),
    /// The kill switch was thrown or lifted.
    Switch(SwitchRecord),
    /// A session was opened, halted, resumed.
    Session(SessionRecord),
    /// Something went wrong with guardexec itself.
    Error(ErrorRecord),
}

/// The words of a command as records show them: masked, one line, lossless.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Words {
    /// The words.
    pub argv: Vec<String>,
    /// Which of them (counted from 0) were not UTF-8 and are spelled with `\xHH` and `\\`; null if none.
    pub argv_escaped: Option<Vec<usize>>,
}

impl Words {
    /// Masks and spells out the words of a command.
    pub fn new<W: AsRef<[u8]>>(argv: &[W]) -> Words {
        let escaped: Vec<usize> =
            (0..argv.len()).filter(|i| std::str::from_utf8(argv[*i].as_ref()).is_err()).collect();
        Words { argv: mask_argv(argv), argv_escaped: (!escaped.is_empty()).then_some(escaped) }
    }
}

/// `decision`. `status` is null where the request may run: how it ends is not known yet.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct DecisionRecord {
    pub decision: Option<&'static str>,
    pub status: Option<Status>,
    pub stage: Option<&'static str>,
    pub rule: Option<RuleDoc>,
    pub reason: Option<String>,
    #[serde(flatten)]
    pub words: Words,
    /// The command string, masked, where it could not be split into words.
    pub command: Option<String>,
    /// The call of a tool, masked.
    pub tool: Option<ToolDoc>,
    pub program: Option<ProgramDoc>,
    pub cwd: Option<String>,
    pub agent: Option<String>,
    pub session: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub why: Option<String>,
    pub policy: Vec<PolicyDoc>,
    /// What the checks on the request said.
    pub checks: Vec<CheckDoc>,
}

/// `outcome`. The figures are those of the result; no output byte is recorded.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct OutcomeRecord {
    pub status: Status,
    /// What came after the decision and stopped it: `sandbox` where nothing ran; null where nothing did.
    pub stage: Option<&'static str>,
    pub exit_code: Option<u8>,
    pub exit_status: u8,
    pub signal: Option<String>,
    pub limit: Option<&'static str>,
    pub duration_ms: u64,
    pub cpu_user_ms: Option<u64>,
    pub cpu_system_ms: Option<u64>,
    pub max_rss_bytes: Option<u64>,
    pub processes: Option<u64>,
    pub stdout_bytes: Option<u64>,
    pub stderr_bytes: Option<u64>,
    pub survivors: Option<u64>,
    pub sandbox: Option<SandboxDoc>,
    pub error: Option<ErrorDoc>,
    /// What the checks on the output said.
    pub checks: Vec<CheckDoc>,
}

/// `approval`.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct ApprovalRecord {
    pub id: String,
    /// `pending`, `approved`, `declined`, `expired`, `consumed`.
    pub state: String,
    /// Who answered.
    pub by: Option<String>,
    pub reason: Option<String>,
    /// RFC 3339.
    pub expires_at: Option<String>,
}

/// `switch`.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct SwitchRecord {
    /// Whether runs are stopped from now on.
    pub on: bool,
    pub by: Option<String>,
    pub reason: Option<String>,
}

/// `session`.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct SessionRecord {
    pub session: String,
    /// `opened`, `halted`, `resumed`, `closed`.
    pub state: String,
    pub by: Option<String>,
    pub reason: Option<String>,
}

/// `error`.
#[derive(Debug, Clone, Serialize)]
pub struct ErrorRecord {
    /// Stable and machine-readable; `torn_line` and `foreign_line` are the chain's own.
    pub kind: String,
    /// One sentence.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// What stands between the record before and this one and is no record.
    pub torn: Option<Torn>,
}

/// A piece of the file that is no record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Torn {
    /// Its length without the newline that closes it.
    pub bytes: u64,
    /// Its SHA-256, lower-case hex.
    pub sha256: String,
}

impl Body {
    /// The value of `event`.
    pub fn event(&self) -> &'static str {
        match self {
            Body::Decision(_) => "decision",
            Body::Outcome(_) => "outcome",
            Body::Approval(_) => "approval",
            Body::Switch(_) => "switch",
            Body::Session(_) => "session",
            Body::Error(_) => "error",
        }
    }

    /// The value of `severity`: `info` (as usual), `notice` (worth a look), `warning` (refused, stopped),
    /// `error` (guardexec itself failed); where a check blocked or asked, the policy's own word for it.
    pub fn severity(&self) -> &'static str {
        let of_status = |status: Status| match status {
            Status::Ok => "info",
            Status::NonzeroExit | Status::NeedsApproval => "notice",
            Status::Error => "error",
            _ => "warning",
        };
        match self {
            Body::Decision(d) if worst(&d.checks).is_some() => worst(&d.checks).map_or("", Severity::as_str),
            Body::Outcome(o) if worst(&o.checks).is_some() => worst(&o.checks).map_or("", Severity::as_str),
            Body::Decision(d) => match (d.status, d.decision) {
                (Some(status), _) => of_status(status),
                (None, Some("allow")) => "info",
                (None, Some("ask")) => "notice",
                (None, _) => "warning",
            },
            Body::Outcome(o) => of_status(o.status),
            Body::Approval(_) => "notice",
            Body::Session(_) => "notice",
            Body::Switch(_) => "warning",
            Body::Error(_) => "error",
        }
    }
}

/// The highest severity of the checks that did not let pass.
fn worst(checks: &[CheckDoc]) -> Option<Severity> {
    checks.iter().filter(|c| matches!(c.verdict, "block" | "ask")).map(|c| c.severity.0).max()
}

#[derive(Serialize)]
struct Line<'a> {
    ts: String,
    run_id: &'a str,
    seq: u64,
    event: &'a str,
    severity: &'a str,
    prev: Option<&'a str>,
    #[serde(flatten)]
    body: &'a Body,
}

/// The line of a record, without its newline, and its hash.
pub(super) fn line(
    record: &Record,
    seq: u64,
    prev: Option<&str>,
) -> Result<(String, String), serde_json::Error> {
    let fields = Line {
        ts: humantime::format_rfc3339_millis(record.ts).to_string(),
        run_id: &record.run_id,
        seq,
        event: record.body.event(),
        severity: record.body.severity(),
        prev,
        body: &record.body,
    };
    let mut text = json::to_line(&fields)?;
    if text.len() > LONG {
        let mut value = serde_json::to_value(&fields)?;
        cut(&mut value);
        text = json::to_line(&value)?;
    }
    let hash = hex(&Sha256::digest(text.as_bytes()));
    text.truncate(text.len() - 1);
    text.push_str(HASH_KEY);
    text.push_str(&hash);
    text.push_str("\"}");
    Ok((text, hash))
}

/// Cuts every long text and list, and says how much is gone.
fn cut(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > KEPT => {
            let keep = boundary(text);
            let gone = text.len() - keep;
            text.truncate(keep);
            text.push_str(&format!("...[{gone} bytes omitted]"));
        }
        Value::Array(list) => {
            if list.len() > KEPT {
                let gone = list.len() - KEPT;
                list.truncate(KEPT);
                // Lists of anything but words hold few elements, so that the note is a word among words.
                list.push(Value::String(format!("...[{gone} omitted]")));
            }
            list.iter_mut().for_each(cut);
        }
        Value::Object(map) => {
            if map.len() > KEPT {
                *map = std::mem::take(map).into_iter().take(KEPT).collect();
            }
            let long: Vec<String> = map.keys().filter(|k| k.len() > KEPT).cloned().collect();
            for key in long {
                if let Some(inner) = map.remove(&key) {
                    map.insert(format!("{}...", &key[..boundary(&key)]), inner);
                }
            }
            map.values_mut().for_each(cut);
        }
        _ => {}
    }
}

/// The last character boundary within the first [`KEPT`] bytes of a longer text.
fn boundary(text: &str) -> usize {
    (0..=KEPT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

const HASH_KEY: &str = ",\"hash\":\"";

/// What the chain needs to know of a line that is a record.
#[derive(Debug)]
pub(super) struct Parsed<'a> {
    pub(super) seq: u64,
    pub(super) prev: Option<String>,
    pub(super) torn: Option<Torn>,
    pub(super) foreign: bool,
    pub(super) hash: &'a str,
    body: &'a [u8],
}

#[derive(Deserialize)]
struct Fields {
    seq: u64,
    event: String,
    prev: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    torn: Option<Torn>,
}

/// Reads a line (without its newline). `None`: it is no record.
pub(super) fn parse(line: &[u8]) -> Option<Parsed<'_>> {
    let (body, rest) = line.split_at_checked(line.len().checked_sub(HASH_KEY.len() + 66)?)?;
    let hash = rest.strip_prefix(HASH_KEY.as_bytes())?.strip_suffix(b"\"}")?;
    if !hash.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b)) {
        return None;
    }
    let fields: Fields = serde_json::from_slice(line).ok()?;
    let closes = fields.event == "error";
    Some(Parsed {
        seq: fields.seq,
        prev: fields.prev,
        torn: fields.torn.filter(|_| closes),
        foreign: fields.kind.as_deref() == Some("foreign_line"),
        hash: std::str::from_utf8(hash).ok()?,
        body,
    })
}

impl Parsed<'_> {
    /// Whether the hash is that of the line.
    pub(super) fn is_intact(&self) -> bool {
        let hash = Sha256::new().chain_update(self.body).chain_update(b"}").finalize();
        hex(&hash) == self.hash
    }
}

/// Whether bytes can be the beginning of a record's line.
pub(super) fn may_start(bytes: &[u8]) -> bool {
    let start = b"{\"ts\":\"";
    let both = bytes.len().min(start.len());
    bytes[..both] == start[..both]
}
