//! The command line: clap types to what was meant. No policy and no judging happens here.
//!
//! [`args`] is what was typed, [`meant`] what it means; [`parse`] goes from words to the first.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use clap::{CommandFactory as _, FromArgMatches as _, error::ErrorKind};

use crate::request::quote;

mod approvals;
pub mod args;
mod deliver;
mod entry;
pub mod meant;
mod plain;
mod rates;
mod selftest;
mod session;
mod store;
#[cfg(test)]
mod tests;
mod tools;
mod verbs;

pub use entry::main;

use args::{
    ApprovalsVerb, ApproveArgs, AuditVerb, CheckArgs, CompletionsArgs, DoctorArgs, ExplainArgs, RatesArgs,
    RunArgs, SchemaArgs, SelftestArgs, SessionVerb, ToolsArgs, Verbs, VerifyArgs,
};

/// What was typed.
#[derive(Debug)]
pub enum Cli {
    /// Judge and run one command.
    Run(Box<RunArgs>),
    /// Load and lint policies.
    Check(CheckArgs),
    /// The decision for the same inputs as a run.
    Explain(Box<ExplainArgs>),
    /// What the policy offers.
    Tools(ToolsArgs),
    /// Where its counters stand.
    Rates(RatesArgs),
    /// What waits for a person.
    Approvals(ApprovalsVerb),
    /// Sessions.
    Session(SessionVerb),
    /// Whether audit files are whole.
    AuditVerify(VerifyArgs),
    /// What this host can enforce.
    Doctor(DoctorArgs),
    /// The attacks against this host.
    Selftest(SelftestArgs),
    /// A JSON Schema.
    Schema(SchemaArgs),
    /// Completions for a shell.
    Completions(CompletionsArgs),
    /// `--help`: this text, on standard output, exit 0.
    Help(String),
    /// `--version`: this text, on standard output, exit 0.
    Version(String),
}

/// What was typed cannot be meant. Exit 125.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageError {
    /// Stable, machine-readable: `usage`, or the code of a [`crate::request::RequestError`].
    pub code: &'static str,
    /// One line, without a prefix; safe to print.
    pub message: String,
    /// Whether the caller waits for a JSON result on standard output.
    pub json_wanted: bool,
}

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for UsageError {}

/// Parses what was typed, the program's own name first (as [`std::env::args_os`] gives it).
///
/// A run is the frequent case and has to start fast, so the verbs are only built where one is named, and where the line is
/// [`plain`] nothing is.
///
/// # Errors
/// [`UsageError`], which is never `--help` or `--version`.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Cli, UsageError> {
    let mut words: Vec<OsString> = args.collect();
    if words.is_empty() {
        words.push(OsString::from("guardexec"));
    }
    if words.get(1).is_some_and(|word| word == "help") {
        // `help VERB` is `VERB --help`.
        words.remove(1);
        words.push(OsString::from("--help"));
    }
    let verb = args::verb_at(&words);
    let json_wanted = json_wanted(&words, verb.is_some());
    let parsed = match verb {
        None => parse_run(&words),
        Some(at) => {
            words[1..=at].rotate_right(1);
            let nested = args::NESTED.iter().any(|verb| words[1] == *verb);
            if nested && words.get(at + 1).is_some_and(|word| !word.as_bytes().starts_with(b"-")) {
                words[2..=at + 1].rotate_right(1);
            }
            parse_verb(&words)
        }
    };
    let unknown_verb = verb.is_none() && words.get(1).is_some_and(|w| !w.as_bytes().starts_with(b"-"));
    let advice = match verb {
        None if unknown_verb => Some(NO_VERB),
        None => Some(BEHIND),
        Some(_) => words.get(1).filter(|verb| *verb == "explain").map(|_| BEHIND),
    };
    parsed.or_else(|error| settle(&error, verb.is_some(), advice, json_wanted))
}

/// Said of a word that no option takes.
const BEHIND: &str = "a program and its arguments stand after `--`";
/// The same, where the word stands in a verb's place.
const NO_VERB: &str = "a program and its arguments stand after `--`; the verbs are check, explain, tools, rates, approvals, \
                       session, audit, doctor, selftest, schema, completions and help";

fn parse_run(words: &[OsString]) -> Result<Cli, clap::Error> {
    if let Some(run) = plain::read(&words[1..]) {
        return Ok(Cli::Run(Box::new(run)));
    }
    let matches = RunArgs::command().try_get_matches_from(words)?;
    let run = RunArgs::from_arg_matches(&matches)?;
    Ok(Cli::Run(Box::new(run)))
}

fn parse_verb(words: &[OsString]) -> Result<Cli, clap::Error> {
    let (words, edited) = without_edit(words);
    let matches = Verbs::command().try_get_matches_from(words)?;
    Ok(match Verbs::from_arg_matches(&matches)? {
        Verbs::Approvals { verb: ApprovalsVerb::Approve(args) } => {
            let argv = if edited.is_empty() { args.argv } else { edited.to_vec() };
            Cli::Approvals(ApprovalsVerb::Approve(ApproveArgs { argv, ..args }))
        }
        Verbs::Check(args) => Cli::Check(args),
        Verbs::Explain(args) => Cli::Explain(args),
        Verbs::Tools(args) => Cli::Tools(args),
        Verbs::Rates(args) => Cli::Rates(args),
        Verbs::Approvals { verb } => Cli::Approvals(verb),
        Verbs::Session { verb } => Cli::Session(verb),
        Verbs::Audit { verb: AuditVerb::Verify(args) } => Cli::AuditVerify(args),
        Verbs::Doctor(args) => Cli::Doctor(args),
        Verbs::Selftest(args) => Cli::Selftest(args),
        Verbs::Schema(args) => Cli::Schema(args),
        Verbs::Completions(args) => Cli::Completions(args),
    })
}

/// What stands behind the `--argv` of `approvals approve` is somebody's command and taken as it is, `--` and words that look
/// like options included; clap sees one word in its place.
fn without_edit(words: &[OsString]) -> (Vec<OsString>, &[OsString]) {
    let approve =
        words.get(1).is_some_and(|verb| verb == "approvals") && words.get(2).is_some_and(|v| v == "approve");
    match words.iter().position(|word| word == "--argv").filter(|_| approve) {
        Some(at) if at + 1 < words.len() => {
            let mut seen = words[..=at].to_vec();
            seen.push(OsString::from("WORD"));
            (seen, &words[at + 1..])
        }
        _ => (words.to_vec(), &[]),
    }
}

/// Help and version come as clap errors; all others become one line.
fn settle(
    error: &clap::Error,
    verb: bool,
    advice: Option<&str>,
    json_wanted: bool,
) -> Result<Cli, UsageError> {
    match error.kind() {
        ErrorKind::DisplayHelp if verb => Ok(Cli::Help(error.render().to_string())),
        // The run's own command knows no verbs: show the whole.
        ErrorKind::DisplayHelp => Ok(Cli::Help(command().render_help().to_string())),
        ErrorKind::DisplayVersion => Ok(Cli::Version(error.render().to_string())),
        _ => Err(UsageError { code: "usage", message: one_line(error, advice), json_wanted }),
    }
}

/// The whole command line, run and verbs: for `--help`, completions and the manual page's test.
pub fn command() -> clap::Command {
    let mut whole = RunArgs::command();
    for verb in Verbs::command().get_subcommands() {
        whole = whole.subcommand(verb.clone());
    }
    whole
}

fn one_line(error: &clap::Error, advice: Option<&str>) -> String {
    let text = error.render().to_string();
    let said = text.split("\nUsage:").next().unwrap_or_default();
    let said = said.split("\nFor more information").next().unwrap_or_default();
    // clap's advice to put an unknown word behind `--` is given below, in our words.
    let kept = |line: &&str| !line.is_empty() && !line.starts_with("tip: to pass");
    let parts: Vec<&str> = said.split('\n').map(str::trim).filter(kept).collect();
    let line = parts.join(" ").replace(" tip: ", "; ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    let mut line = quote::escape_text(line).replace('\t', "\\t");
    if let Some(advice) = advice.filter(|_| error.kind() == ErrorKind::UnknownArgument) {
        line.push_str(" (");
        line.push_str(advice);
        line.push(')');
    }
    line
}

/// Whether a usage error has to be answered in JSON. Asked of the bare words, for nothing else is known then: the
/// run form answers in JSON unless `--output` says otherwise, a verb only with `--json`.
fn json_wanted(words: &[OsString], verb: bool) -> bool {
    let own = || words.iter().skip(1).take_while(|word| *word != "--");
    if verb {
        return own().any(|word| word == "--json");
    }
    let glued = own().filter_map(|word| word.to_str()?.strip_prefix("--output=")).map(OsStr::new);
    let apart = own()
        .zip(own().skip(1))
        .filter(|(option, _)| *option == "--output")
        .map(|(_, value)| value.as_os_str());
    !glued.chain(apart).any(|value| value == "text" || value == "raw")
}
