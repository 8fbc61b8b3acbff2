//! What can be typed: the clap definitions of the run form and of each verb.
//!
//! The program's own words stand after `--` only, so no word of theirs is ever taken for an option or a verb.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};

mod verbs;

pub use verbs::*;

use crate::request::parse_duration;

/// Judge one command by a policy, and run it under what the policy allows.
#[derive(Debug, PartialEq, Eq, Parser)]
#[command(
    name = "guardexec",
    version,
    override_usage = "guardexec [OPTIONS] -- PROGRAM [ARG]...\n       \
                      guardexec [OPTIONS] --command STRING\n       \
                      guardexec [OPTIONS] --tool NAME [--arg K=V]...\n       \
                      guardexec [OPTIONS] --request FILE\n       \
                      guardexec VERB ...",
    subcommand_value_name = "VERB",
    subcommand_help_heading = "Verbs",
    disable_help_subcommand = true
)]
pub struct RunArgs {
    /// Which policies judge.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// What is asked.
    #[command(flatten)]
    pub ask: AskArgs,
    /// Where a person has to approve it: wait this long for the answer
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub wait: Option<Duration>,
    /// How the result comes back.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Options of every verb and of a run.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub struct PolicyArgs {
    /// A policy; repeatable, and all of them must allow
    #[arg(short, long = "policy", value_name = "FILE", value_parser = clap::value_parser!(PathBuf))]
    pub policies: Vec<PathBuf>,
    /// Where approvals, counters and sessions live, unless the policy says
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

/// What is asked: the same for a run and for `explain`.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub struct AskArgs {
    /// One string, split into words without a shell
    #[arg(short, long, value_name = "STRING", allow_hyphen_values = true, conflicts_with_all = ["tool", "request", "argv"])]
    pub command: Option<OsString>,
    /// A typed tool of the policy
    #[arg(long, value_name = "NAME", conflicts_with_all = ["request", "argv"])]
    pub tool: Option<String>,
    /// An argument of the tool; repeatable
    #[arg(long = "arg", value_name = "K=V", requires = "tool", conflicts_with_all = ["command", "request", "argv"])]
    pub tool_args: Vec<String>,
    /// A JSON request; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all =
        ["argv", "cwd", "env", "stdin", "timeout", "agent", "session", "labels", "why"])]
    pub request: Option<PathBuf>,
    /// Where to run; by default here
    #[arg(short = 'C', long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Ask for a variable, with a value or with the caller's own; repeatable
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    pub env: Vec<OsString>,
    /// What the command reads, /dev/null by default; - relays standard input
    #[arg(long, value_name = "FILE")]
    pub stdin: Option<PathBuf>,
    /// Tighten wall_time, as in 500ms, 5s, 10m, 1h
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// Who asks
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The session this belongs to
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Recorded, decides nothing; repeatable
    #[arg(long = "label", value_name = "K=V")]
    pub labels: Vec<String>,
    /// Why it is asked, for a person who decides
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub why: Option<String>,
    /// A file that supports it, for a person who decides
    #[arg(long, value_name = "FILE")]
    pub evidence: Option<PathBuf>,
    /// Run what was approved under this id; without a command, the one that was filed
    #[arg(long, value_name = "ID")]
    pub approval: Option<String>,
    /// The program and its arguments, taken as they are
    #[arg(last = true, value_name = "PROGRAM [ARG]")]
    pub argv: Vec<OsString>,
}

/// How the result comes back.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub struct OutputArgs {
    /// What standard output carries
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "json")]
    pub output: Format,
    /// Write the JSON result to this file as well
    #[arg(long, value_name = "FILE")]
    pub result_file: Option<PathBuf>,
    /// Write the JSON result to this open descriptor as well
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub result_fd: Option<i32>,
}

/// `--output`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON result and nothing else
    #[default]
    Json,
    /// The result's text
    Text,
    /// The child's output as it comes
    Raw,
}

const VERBS: [&str; 11] = [
    "check",
    "explain",
    "tools",
    "rates",
    "approvals",
    "session",
    "audit",
    "doctor",
    "selftest",
    "schema",
    "completions",
];

/// Verbs that have verbs of their own.
pub(super) const NESTED: [&str; 3] = ["approvals", "session", "audit"];

/// Where the verb stands, if one is named: the first word that is neither an option every verb understands nor
/// such an option's value. Whatever follows `--` is a program, also where it looks like a verb.
pub(super) fn verb_at(words: &[OsString]) -> Option<usize> {
    let mut at = 1;
    loop {
        let word = words.get(at)?.to_str()?;
        if VERBS.contains(&word) {
            return Some(at);
        }
        at += match word {
            "-p" | "--policy" | "--state" => 2,
            "--json" => 1,
            _ if ["-p", "--policy=", "--state="].iter().any(|glued| word.starts_with(glued)) => 1,
            _ => return None,
        };
    }
}

/// Splits `K=V` at the first `=`.
pub(super) fn key_value(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(key, _)| !key.is_empty())
}

/// Splits `NAME[=VALUE]` at the first `=`; bytes that are not UTF-8 pass unchanged.
pub(super) fn variable(text: &OsStr) -> (OsString, Option<OsString>) {
    use std::os::unix::ffi::OsStrExt;
    let bytes = text.as_bytes();
    match bytes.iter().position(|&b| b == b'=') {
        None => (text.to_os_string(), None),
        Some(at) => (
            OsStr::from_bytes(&bytes[..at]).to_os_string(),
            Some(OsStr::from_bytes(&bytes[at + 1..]).to_os_string()),
        ),
    }
}
