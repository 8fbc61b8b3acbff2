//! What was meant: typed flags to a [`Request`], checked, and to where the result goes.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::UsageError;
use super::args::{AskArgs, Format, OutputArgs, RunArgs, key_value, variable};
use crate::request::{
    Arguments, Ask, Asker, Evidence, Request, RequestError, Stdin, check_variable, json, quote,
};

/// Where the result goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputOptions {
    /// What standard output carries.
    pub format: Format,
    /// A file that gets the JSON result as well; not opened yet.
    pub result_file: Option<PathBuf>,
    /// A descriptor that gets the JSON result as well; not looked at yet.
    pub result_fd: Option<i32>,
}

impl From<&OutputArgs> for OutputOptions {
    fn from(typed: &OutputArgs) -> OutputOptions {
        OutputOptions {
            format: typed.output,
            result_file: typed.result_file.clone(),
            result_fd: typed.result_fd,
        }
    }
}

/// What the request depends on besides the typed words.
pub struct Surroundings<'a> {
    /// `$GUARDEXEC_AGENT`; empty counts as unset.
    pub agent: Option<OsString>,
    /// guardexec's own standard input, read only for `--request -`.
    pub stdin: &'a mut dyn Read,
}

/// What a run was meant to be. Leaves the policies of `typed` to the caller.
///
/// # Errors
/// [`UsageError`], with `json_wanted` as `--output` has it.
pub fn run(typed: &mut RunArgs, around: Surroundings<'_>) -> Result<(Request, OutputOptions), UsageError> {
    let output = OutputOptions::from(&typed.output);
    let json_wanted = output.format == Format::Json;
    let request = request(std::mem::take(&mut typed.ask), around, json_wanted)?;
    Ok((request, output))
}

/// The request of a run or of `explain`: from a JSON request, or from the options.
///
/// # Errors
/// [`UsageError`] with the given `json_wanted`, where nothing is asked, the JSON request cannot be had or read, an
/// option's value is impossible, or the asker is not who `$GUARDEXEC_AGENT` lets it be.
pub fn request(typed: AskArgs, around: Surroundings<'_>, json_wanted: bool) -> Result<Request, UsageError> {
    build(typed, around).map_err(|e| UsageError { code: e.code, message: e.message, json_wanted })
}

fn usage(message: impl Into<String>) -> RequestError {
    RequestError::new("usage", message)
}

fn build(mut typed: AskArgs, around: Surroundings<'_>) -> Result<Request, RequestError> {
    let evidence = typed.evidence.take().map(evidence).transpose()?;
    let approval = typed.approval.take();
    let mut request = match typed.request.take() {
        Some(path) => json::parse(&read_request(&path, around.stdin)?)?,
        None => from_options(typed, approval.is_some())?,
    };
    request.evidence = evidence;
    request.approval = approval;
    if let Some(inherited) = around.agent.filter(|name| !name.is_empty()) {
        let inherited =
            inherited.to_str().ok_or_else(|| RequestError::value("GUARDEXEC_AGENT is not UTF-8"))?;
        request.asker.bind(inherited)?;
    }
    request.asker.check()?;
    if let (Ask::Stored, Some(option)) = (&request.ask, request.beside_stored()) {
        return Err(usage(format!(
            "{option} cannot be given with --approval alone, for what was filed has its own: leave it out, or give the whole \
             command after `--`"
        )));
    }
    Ok(request)
}

fn from_options(typed: AskArgs, approved: bool) -> Result<Request, RequestError> {
    let ask = match (typed.command, typed.tool) {
        (Some(command), _) => Ask::Command(command.into_vec()),
        (None, Some(name)) => Ask::Tool { name, arguments: tool_arguments(&typed.tool_args)? },
        (None, None) if typed.argv.is_empty() && approved => Ask::Stored,
        (None, None) if typed.argv.is_empty() => {
            return Err(usage(
                "nothing to run: give a program after `--`, or one of --command, --tool and --request",
            ));
        }
        (None, None) => Ask::Argv(typed.argv),
    };
    let mut labels = std::collections::BTreeMap::new();
    for label in &typed.labels {
        let (key, value) = split_pair("--label", label)?;
        if labels.insert(key.to_string(), value.to_string()).is_some() {
            return Err(given_twice("--label", key));
        }
    }
    Ok(Request {
        ask,
        cwd: typed.cwd,
        env: wishes(&typed.env)?,
        stdin: match typed.stdin {
            None => Stdin::Null,
            Some(path) if path.as_os_str() == "-" => Stdin::Relay,
            Some(path) => Stdin::File(path),
        },
        timeout: typed.timeout,
        asker: Asker { agent: typed.agent, session: typed.session, labels, why: typed.why },
        evidence: None,
        approval: None,
    })
}

/// `--arg` values are texts: which type they have, and whether one may be given several times, is for the tool's
/// parameters to say.
fn tool_arguments(typed: &[String]) -> Result<Arguments, RequestError> {
    let pair = |argument: &String| {
        split_pair("--arg", argument).map(|(key, value)| (key.to_string(), value.to_string()))
    };
    typed.iter().map(pair).collect::<Result<_, _>>().map(Arguments::Texts)
}

fn wishes(typed: &[OsString]) -> Result<Vec<(OsString, Option<OsString>)>, RequestError> {
    let mut wishes: Vec<(OsString, Option<OsString>)> = Vec::with_capacity(typed.len());
    for wish in typed {
        let (name, value) = variable(wish);
        check_variable(name.as_bytes())?;
        if wishes.iter().any(|(earlier, _)| *earlier == name) {
            return Err(usage(format!("--env {} is given twice", quote::repr(name.as_bytes()))));
        }
        wishes.push((name, value));
    }
    Ok(wishes)
}

fn split_pair<'a>(option: &str, text: &'a str) -> Result<(&'a str, &'a str), RequestError> {
    key_value(text)
        .ok_or_else(|| usage(format!("{option} takes K=V, which {} is not", quote::repr(text.as_bytes()))))
}

fn given_twice(option: &str, key: &str) -> RequestError {
    usage(format!("{option} {} is given twice", quote::repr(key.as_bytes())))
}

/// Reads one byte more than a request may have, so that a longer one is told from the longest.
fn read_request(path: &Path, stdin: &mut dyn Read) -> Result<Vec<u8>, RequestError> {
    let most = json::LONGEST as u64 + 1;
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        let shown = quote::display(path.as_os_str().as_bytes());
        let read = stdin.take(most).read_to_end(&mut bytes);
        read.map_err(|e| usage(format!("the JSON request {shown} cannot be read: {}", reason(&e))))?;
        return Ok(bytes);
    }
    read_file("the JSON request", path, most, "; - reads standard input")
}

fn evidence(name: PathBuf) -> Result<Evidence, RequestError> {
    let bytes = read_file("the evidence", &name, Evidence::MOST + 1, "")?;
    if bytes.len() as u64 > Evidence::MOST {
        let shown = quote::display(name.as_os_str().as_bytes());
        return Err(usage(format!("the evidence {shown} is larger than 1 MiB")));
    }
    Ok(Evidence { name, bytes })
}

fn read_file(what: &str, path: &Path, most: u64, instead: &str) -> Result<Vec<u8>, RequestError> {
    let shown = quote::display(path.as_os_str().as_bytes());
    let failed = |error: &io::Error| usage(format!("{what} {shown} cannot be read: {}", reason(error)));
    let mut bytes = Vec::new();
    // Non-blocking, so that a pipe without a writer cannot hold the open; the type is asked of what was opened.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(|e| failed(&e))?;
    if !file.metadata().map_err(|e| failed(&e))?.is_file() {
        return Err(usage(format!("{what} {shown} is not a regular file{instead}")));
    }
    file.take(most).read_to_end(&mut bytes).map_err(|e| failed(&e))?;
    Ok(bytes)
}

/// The system's sentence without Rust's `(os error N)`.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}
