//! The verbs: everything but a run.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::{AskArgs, PolicyArgs};

/// Everything but a run.
#[derive(Debug, Parser)]
#[command(name = "guardexec", version, disable_help_subcommand = true)]
pub enum Verbs {
    /// Load policies, lint them and run every example
    Check(CheckArgs),
    /// Say how a request would be decided; run and write nothing
    Explain(Box<ExplainArgs>),
    /// List the policy's tools, as agent frameworks register them
    Tools(ToolsArgs),
    /// Say where the policy's counters stand
    Rates(RatesArgs),
    /// Look at what waits for a person, and answer it
    #[command(disable_help_subcommand = true, arg_required_else_help = false)]
    Approvals {
        /// What to do with them.
        #[command(subcommand)]
        verb: ApprovalsVerb,
    },
    /// Look at sessions, and let a halted one go on
    #[command(disable_help_subcommand = true, arg_required_else_help = false)]
    Session {
        /// What to do with them.
        #[command(subcommand)]
        verb: SessionVerb,
    },
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

/// `tools` and `rates`: what the policy offers.
#[derive(Debug, Args)]
pub struct ToolsArgs {
    /// The policies a run would use.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// As this asker would see them
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Print an array of tools: name, description and parameters as a JSON Schema
    #[arg(long)]
    pub json: bool,
}

/// `rates`.
#[derive(Debug, Args)]
pub struct RatesArgs {
    /// The policies a run would use.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Print an array of counters
    #[arg(long)]
    pub json: bool,
}

/// `approvals`.
#[derive(Debug, Subcommand)]
pub enum ApprovalsVerb {
    /// What waits for an answer
    List(ListArgs),
    /// All that is needed to answer one
    Show(IdArgs),
    /// Let it run, once
    Approve(ApproveArgs),
    /// Do not let it run
    Decline(DeclineArgs),
    /// Every request and its answer, as JSON Lines
    Export(ExportArgs),
}

/// `session`.
#[derive(Debug, Subcommand)]
pub enum SessionVerb {
    /// All sessions
    List(SessionsArgs),
    /// One session
    Show(IdArgs),
    /// Let a halted session go on
    Resume(IdArgs),
}

/// A listing verb.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The policies a run would use.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Print an array of objects
    #[arg(long)]
    pub json: bool,
    /// Also those that are answered, used or expired
    #[arg(long)]
    pub all: bool,
}

/// `session list`.
#[derive(Debug, Args)]
pub struct SessionsArgs {
    /// The policies a run would use.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Print an array of objects
    #[arg(long)]
    pub json: bool,
}

/// A verb about one entry.
#[derive(Debug, Args)]
pub struct IdArgs {
    /// Which one
    #[arg(value_name = "ID")]
    pub id: String,
    /// The policies a run would use.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `approvals approve`.
#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// Which one.
    #[command(flatten)]
    pub which: IdArgs,
    /// A word for the record
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub note: Option<String>,
    /// Approve these words in place of the ones asked for; the last option
    #[arg(long, value_name = "WORD", num_args = 1.., allow_hyphen_values = true)]
    pub argv: Vec<OsString>,
}

/// `approvals decline`.
#[derive(Debug, Args)]
pub struct DeclineArgs {
    /// Which one.
    #[command(flatten)]
    pub which: IdArgs,
    /// Why; the asker is told
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub reason: Option<String>,
}

/// `approvals export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The policies a run would use.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// JSON Lines, as without it
    #[arg(long)]
    pub json: bool,
}
