//! What is asked: words, working directory, environment wishes, stdin, asker.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// One request, as the caller made it. Nothing in it has been judged.
#[derive(Debug, Default)]
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
}

/// The three ways to say what to run.
#[derive(Debug)]
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
        arguments: serde_json::Map<String, serde_json::Value>,
    },
}

impl Default for Ask {
    fn default() -> Self {
        Ask::Argv(Vec::new())
    }
}

/// Where the command's standard input comes from.
#[derive(Debug, Default)]
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
    /// `--evidence`.
    pub evidence: Option<PathBuf>,
}
