//! Hands a result out: standard output, the result file or descriptor, one line on standard error.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd as _, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use super::args::Format;
use super::meant::OutputOptions;
use crate::report::json;
use crate::report::result::ResultDoc;
use crate::request::quote::escape_text;
use crate::run::END_SIGNALS;
use crate::sys::fd;
use crate::sys::patient::Patient;
use crate::{Answer, Output, Place, RESULT_TARGET};

/// Where the JSON result goes besides standard output; opened before anything runs.
#[derive(Debug, Default)]
pub struct Copies {
    outputs: Vec<Output>,
}

impl Copies {
    /// Opens the file and takes the descriptor. Neither is ever inherited by the command.
    ///
    /// # Errors
    /// One sentence on what cannot be opened.
    pub fn open(options: &OutputOptions) -> Result<Copies, String> {
        let mut outputs = Vec::new();
        if let Some(path) = &options.result_file {
            let shown = crate::request::quote::display(path.as_os_str().as_bytes());
            // Non-blocking for the opening alone: a pipe nobody reads must not hang the start.
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                // What stood there goes once it is known to be no file that the policy needs.
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
                .open(path)
                .map_err(|e| format!("cannot write --result-file {shown}: {e}"))?;
            fd::set_nonblocking(file.as_fd(), false)
                .map_err(|e| format!("cannot write --result-file {shown}: {e}"))?;
            outputs.push(Output { file, replace: true, place: Place::of(path) });
        }
        if let Some(number) = options.result_fd {
            if number == 0 || (number == 1 && options.format == Format::Json) {
                return Err(format!(
                    "--result-fd {number}: standard output already carries the JSON result, and input is no output"
                ));
            }
            let copy =
                fd::duplicate(number).map_err(|e| format!("cannot write --result-fd {number}: {e}"))?;
            if !fd::is_writable(copy.as_fd()).unwrap_or(false) {
                return Err(format!("cannot write --result-fd {number}: it is not open for writing"));
            }
            outputs.push(Output { file: File::from(copy), replace: false, place: None });
        }
        Ok(Copies { outputs })
    }

    /// Where they go.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }
}

/// Delivers and gives the exit status. A reader that has gone away changes nothing: the status still tells. One that waits
/// and cannot be given the result is not told of success.
pub fn deliver(answer: &Answer, options: &OutputOptions, copies: Copies) -> u8 {
    let doc = &answer.doc;
    let refused = doc.error.as_ref().is_some_and(|error| error.kind == RESULT_TARGET);
    let spared =
        |output: &Output| refused || (doc.policy.is_empty() && !output.holds_no_more_than_a_result());
    let copies: Vec<Output> = copies.outputs.into_iter().filter(|output| !spared(output)).collect();
    let line = if copies.is_empty() { String::new() } else { doc.to_line() + "\n" };
    for mut output in copies {
        written(output.write(line.as_bytes()));
    }
    match options.format {
        Format::Json => written(json::write_line(doc, patient(1))),
        Format::Text => {
            let mut text = doc.text.clone();
            if !text.ends_with('\n') {
                text.push('\n');
            }
            // A program gets what the command wrote; a terminal would act on it.
            if fd::is_terminal(io::stdout().as_fd()) {
                text = escape_text(&text);
            }
            put(text.as_bytes());
            // The text is for a model; what a person has to know would otherwise be seen by nobody.
            for warning in &doc.warnings {
                say(&format!("guardexec: warning: {}", escape_text(warning)));
            }
        }
        Format::Raw => {}
    }
    if let Some(cause) = cause(doc) {
        say(&format!("guardexec: {cause}"));
        if let Some(excerpt) = &answer.excerpt {
            say(excerpt);
        }
    }
    doc.exit_status
}

/// Why the exit status is not the child's own, as one line; `None` where it is.
fn cause(doc: &ResultDoc) -> Option<String> {
    use crate::report::status::Status;
    if matches!(doc.status, Status::Ok | Status::NonzeroExit) {
        return None;
    }
    let head = doc.text.lines().next().unwrap_or_default();
    let rule = doc.rule.as_ref().map(|r| format!(" ({}:{})", r.file, r.line));
    let rule = rule.filter(|at| !head.contains(at.trim_matches([' ', '(', ')']))).unwrap_or_default();
    Some(escape_text(&format!("{head}{rule}")).replace('\t', "\\t"))
}

/// Standard input, output or error, which somebody may have made non-blocking.
pub fn patient(number: RawFd) -> Patient<'static> {
    Patient::new(fd::standard(number), &END_SIGNALS)
}

/// One line, or several, on standard error; a closed one is no reason to fail.
pub fn say(text: &str) {
    let _ = patient(2).write_all(format!("{text}\n").as_bytes());
}

/// Bytes on standard output; a reader that has gone away is no reason to fail.
pub fn put(bytes: &[u8]) {
    written(patient(1).write_all(bytes));
}

/// Something that is waited for could not be written.
static LOST: AtomicBool = AtomicBool::new(false);

fn written(result: io::Result<()>) {
    if let Some(error) = result.err().filter(|error| error.kind() != ErrorKind::BrokenPipe) {
        say(&format!("guardexec: error: cannot write the result: {error}"));
        LOST.store(true, Ordering::Relaxed);
    }
}

/// The exit status of a process that was to end with `status`: success only where all was written.
pub fn settled(status: u8) -> u8 {
    if status == 0 && LOST.load(Ordering::Relaxed) { 125 } else { status }
}
