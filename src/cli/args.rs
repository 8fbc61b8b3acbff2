//! What can be typed: the clap definitions of the run form and of each verb.
//!
//! The program's own words stand after `--` only, so no word of theirs is ever taken for an option or a verb.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::request::parse_duration;

/// Judge one command by a policy, and run it under what the policy allows.
#[derive(Debug, Parser)]
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
    /// How the result comes back.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Options of every verb and of a run.
#[derive(Debug, Default, Args)]
pub struct PolicyArgs {
    /// A policy; repeatable, and all of them must allow
    #[arg(short, long = "policy", value_name = "FILE", value_parser = clap::value_parser!(PathBuf))]
    pub policies: Vec<PathBuf>,
    /// Where state would live, unless the policy says; nothing in this version keeps any
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

/// An option that is planned. Taken in silence it would let its user believe in something that nobody does.
#[derive(Debug, Clone, Copy)]
struct NotYet(&'static str);

impl TypedValueParser for NotYet {
    type Value = PathBuf;

    fn parse_ref(&self, _: &clap::Command, _: Option<&clap::Arg>, _: &OsStr) -> Result<PathBuf, clap::Error> {
        Err(clap::Error::raw(ErrorKind::ValueValidation, self.0))
    }
}

/// What is asked: the same for a run and for `explain`.
#[derive(Debug, Default, Args)]
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
    /// Not yet: this version takes no evidence
    #[arg(long, value_name = "FILE", value_parser = NotYet("--evidence: this version takes no evidence yet"))]
    pub evidence: Option<PathBuf>,
    /// The program and its arguments, taken as they are
    #[arg(last = true, value_name = "PROGRAM [ARG]")]
    pub argv: Vec<OsString>,
}

/// How the result comes back.
#[derive(Debug, Default, Args)]
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

/// Everything but a run.
#[derive(Debug, Parser)]
#[command(name = "guardexec", version, disable_help_subcommand = true)]
pub enum Verbs {
    /// Load policies, lint them and run every example
    Check(CheckArgs),
    /// Say how a request would be decided; run and write nothing
    Explain(Box<ExplainArgs>),
    /// Look at audit files
    #[command(disable_help_subcommand = true, arg_required_else_help = false)]
    Audit {
        /// What to do with them.
        #[command(subcommand)]
        verb: AuditVerb,
    },
    /// Say what this kernel and this user can enforce
    Doctor(DoctorArgs),
    /// Attack this host from inside a run, and see what gets through
    Selftest(SelftestArgs),
    /// Print a JSON Schema
    Schema(SchemaArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
}

/// `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Policies to check, each for itself; by default the one a run would use
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The policies a run would use.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Print an array of findings
    #[arg(long)]
    pub json: bool,
}

/// `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Which policies judge.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// What is asked.
    #[command(flatten)]
    pub ask: AskArgs,
    /// Print the stages as JSON
    #[arg(long)]
    pub json: bool,
}

/// `audit`.
#[derive(Debug, Subcommand)]
pub enum AuditVerb {
    /// Check that audit files are whole, and name the first bad line
    Verify(VerifyArgs),
}

/// `audit verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Audit files, the oldest first
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// A record that must still be there, as a result's audit field gave it
    #[arg(long, value_name = "SEQ:HASH", value_parser = parse_expect)]
    pub expect: Option<Expect>,
    /// The policies a run would use.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `--expect SEQ:HASH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expect {
    /// The record's number.
    pub seq: u64,
    /// Its SHA-256, 64 lower-case hex digits.
    pub hash: String,
}

fn parse_expect(text: &str) -> Result<Expect, String> {
    let wrong = || "it is SEQ:HASH, a whole number and 64 lower-case hex digits".to_string();
    let (seq, hash) = text.split_once(':').ok_or_else(wrong)?;
    let digits = !seq.is_empty() && seq.bytes().all(|b| b.is_ascii_digit());
    let hex = hash.len() == 64 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if !digits || !hex {
        return Err(wrong());
    }
    Ok(Expect { seq: seq.parse().map_err(|_| wrong())?, hash: hash.to_string() })
}

/// `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// The policies a run would use.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Print an array of layers
    #[arg(long)]
    pub json: bool,
}

/// `selftest`.
#[derive(Debug, Args)]
pub struct SelftestArgs {
    /// Understood by every verb.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Print an array of attacks
    #[arg(long)]
    pub json: bool,
    /// Made by the verb itself: the attacks on this directory and process, in this process.
    #[arg(long, hide = true, num_args = 2, value_names = ["DIR", "PID"])]
    pub attempt: Vec<OsString>,
    /// Made by the verb itself: a run of the attacks, with its tree held in this way.
    #[arg(long, hide = true, num_args = 3, value_names = ["DIR", "PID", "WAY"], conflicts_with = "attempt")]
    pub leg: Vec<OsString>,
}

/// `schema`.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Which one
    #[arg(value_enum, value_name = "NAME")]
    pub name: SchemaName,
    /// Understood by every verb.
    #[command(flatten)]
    pub policy: PolicyArgs,
}

/// The schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaName {
    /// A policy file, as JSON
    Policy,
    /// A JSON request
    Request,
    /// A result
    Result,
    /// An audit record
    Audit,
}

/// `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: clap_complete::Shell,
    /// Understood by every verb.
    #[command(flatten)]
    pub policy: PolicyArgs,
}

const VERBS: [&str; 7] = ["check", "explain", "audit", "doctor", "selftest", "schema", "completions"];

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
