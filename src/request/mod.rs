//! What is asked: words, working directory, environment wishes, stdin, asker.
//!
//! [`words`] splits a command string, [`json`] reads a JSON request, [`quote`] is the one terminal-safe quoting,
//! [`mask`] takes secrets out of what is shown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

mod asker;
pub mod duration;
pub mod json;
pub mod mask;
pub mod quote;
pub mod units;
pub mod words;

pub use asker::{LONGEST_NAME, LONGEST_WHY, MOST_LABELS};
pub use duration::parse_duration;

/// One request, as the caller made it. Nothing in it has been judged.
#[derive(Debug, Default, Clone)]
pub struct Request {
    /// What to run.
    pub ask: Ask,
    /// Where; `None` means where guardexec was started.
    pub cwd: Option<PathBuf>,
    /// Variables asked for: name, and a value or (`None`) the caller's own.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// What the command reads.
    pub stdin: Stdin,
    /// May only tighten `wall_time`.
    pub timeout: Option<Duration>,
    /// Who asks.
    pub asker: Asker,
    /// `--evidence`.
    pub evidence: Option<Evidence>,
    /// `--approval`: the id under which this was approved.
    pub approval: Option<String>,
}

impl Request {
    /// The first option that says how something is to run, where nothing but an approval is named: what was filed has its own.
    /// Standard input is not among them, for it may have been too large to be kept.
    pub fn beside_stored(&self) -> Option<&'static str> {
        let given = [
            ("--cwd", self.cwd.is_some()),
            ("--env", !self.env.is_empty()),
            ("--timeout", self.timeout.is_some()),
            ("--label", !self.asker.labels.is_empty()),
            ("--why", self.asker.why.is_some()),
            ("--evidence", self.evidence.is_some()),
        ];
        given.iter().find(|(_, given)| *given).map(|(option, _)| *option)
    }
}

/// A file that the asker lays before whoever decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Its name as given.
    pub name: PathBuf,
    /// What it held when the request was made.
    pub bytes: Vec<u8>,
}

impl Evidence {
    /// The most bytes of it.
    pub const MOST: u64 = 1 << 20;
}

/// The ways to say what to run.
#[derive(Debug, Clone)]
pub enum Ask {
    /// Words, taken as they are.
    Argv(Vec<OsString>),
    /// One string, still to be split without a shell.
    Command(Vec<u8>),
    /// A typed tool of the policy and its arguments.
    Tool {
        /// Its name.
        name: String,
        /// Its arguments.
        arguments: Arguments,
    },
    /// What was filed under the approval that the request names.
    Stored,
}

/// The arguments of a tool call, by the way they came: that decides what counts as their type.
#[derive(Debug, Clone, PartialEq)]
pub enum Arguments {
    /// From a JSON request, or settled before: the types are their own.
    Typed(serde_json::Map<String, serde_json::Value>),
    /// From the command line: texts in their order, a name as often as it was given. Which type each is to have is for the
    /// tool's parameters to say.
    Texts(Vec<(String, String)>),
}

impl Arguments {
    /// Each name with its value as a text, in order.
    pub fn texts(&self) -> Vec<(&str, String)> {
        match self {
            Arguments::Typed(map) => map.iter().map(|(key, value)| (key.as_str(), text_of(value))).collect(),
            Arguments::Texts(texts) => texts.iter().map(|(key, text)| (key.as_str(), text.clone())).collect(),
        }
    }
}

/// A text as it is, anything else as JSON.
fn text_of(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Default for Ask {
    fn default() -> Self {
        Ask::Argv(Vec::new())
    }
}

/// Where the command's standard input comes from.
#[derive(Debug, Default, Clone)]
pub enum Stdin {
    /// `/dev/null`.
    #[default]
    Null,
    /// A file.
    File(PathBuf),
    /// guardexec's own standard input, relayed through a pipe.
    Relay,
    /// These bytes, through a pipe.
    Bytes(Vec<u8>),
}

/// Who asks, and why. Recorded; only `agent` takes part in judging.
#[derive(Debug, Default, Clone)]
pub struct Asker {
    /// `--agent`.
    pub agent: Option<String>,
    /// `--session`.
    pub session: Option<String>,
    /// `--label`.
    pub labels: BTreeMap<String, String>,
    /// `--why`.
    pub why: Option<String>,
}

/// Why something cannot be a request at all: the caller's mistake, never a denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestError {
    /// Stable, machine-readable: `request_too_large`, `request_not_utf8`, `request_json`, `request_key`,
    /// `request_value`, `nul_byte`.
    pub code: &'static str,
    /// One line, without a prefix; safe to print.
    pub message: String,
}

impl RequestError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> RequestError {
        RequestError { code, message: message.into() }
    }

    /// A value of the wrong kind, or an impossible one.
    pub(crate) fn value(message: impl Into<String>) -> RequestError {
        RequestError::new("request_value", message)
    }
}

impl std::fmt::Display for RequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RequestError {}

/// Refuses a NUL byte in what the kernel takes as a C string.
pub(crate) fn check_nul(what: &str, bytes: &[u8]) -> Result<(), RequestError> {
    match bytes.iter().position(|&b| b == 0) {
        None => Ok(()),
        Some(at) => Err(RequestError::new(
            "nul_byte",
            format!("{what} holds a NUL byte (byte {}), which no program can be given", at + 1),
        )),
    }
}

/// Checks a variable's name; its value may hold anything but NUL.
pub(crate) fn check_variable(name: &[u8]) -> Result<(), RequestError> {
    check_nul("a name in env", name)?;
    if name.is_empty() || name.contains(&b'=') {
        let shown = quote::repr(name);
        return Err(RequestError::value(format!("{shown} in env cannot be the name of a variable")));
    }
    Ok(())
}
