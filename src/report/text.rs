//! The one string of a result that is handed back to a model.
//!
//! A run's text is what it wrote, stdout first. Whatever keeps that from being the whole truth is said in words
//! a model can act on: a failing exit, a death, a limit, a refusal. Where output was cut, the streams carry
//! their own mark.

use std::fmt::Write as _;

use super::status::Status;

/// A run that took place, as far as its text goes.
#[derive(Debug, Clone)]
pub struct Ran<'a> {
    /// How it ended.
    pub status: Status,
    /// What guardexec exits with.
    pub exit_status: u8,
    /// What it was killed by: `SIGKILL`, ...
    pub signal: Option<&'a str>,
    /// The limit that ended it.
    pub limit: Option<&'a str>,
    /// That limit's value as a person writes it: `5s`, `512M`.
    pub limit_value: Option<String>,
    /// The kept standard output, its mark of omitted bytes included.
    pub stdout: &'a str,
    /// The same of standard error.
    pub stderr: &'a str,
}

/// The text of a run.
pub fn ran(run: &Ran<'_>) -> String {
    let mut text = String::with_capacity(run.stdout.len() + run.stderr.len() + 64);
    let head = headline(run);
    if let Some(head) = &head {
        text.push_str(head);
    }
    for stream in [run.stdout, run.stderr] {
        if !stream.is_empty() {
            new_line(&mut text);
            text.push_str(stream);
        }
    }
    match run.status {
        _ if head.is_some() => {}
        _ if text.is_empty() => text = format!("(exit={}, no output)", run.exit_status),
        Status::Ok => {}
        _ => {
            new_line(&mut text);
            let _ = write!(text, "exit={}", run.exit_status);
        }
    }
    text
}

/// The first line of a run that did not come to its own end.
fn headline(run: &Ran<'_>) -> Option<String> {
    let value = run.limit_value.as_deref();
    let sentence = match run.status {
        Status::Timeout => format!("timed out after {}", value.unwrap_or("its wall_time")),
        Status::LimitExceeded => {
            let limit = run.limit.unwrap_or("a limit");
            let of = value.map(|v| format!(" of {v}")).unwrap_or_default();
            format!("stopped at {limit}{of} (exit={})", run.exit_status)
        }
        Status::Signaled => {
            format!("killed by {} (exit={})", run.signal.unwrap_or("a signal"), run.exit_status)
        }
        Status::Cancelled => format!("cancelled by {}", run.signal.unwrap_or("the kill switch")),
        _ => return None,
    };
    Some(format!("error: {sentence}"))
}

/// What follows starts on a line of its own.
fn new_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// The text of a refusal by the policy or by a person.
pub fn blocked(message: &str, hint: Option<&str>) -> String {
    with_hint("blocked: ", message, hint)
}

/// The text of a request whose values do not satisfy a tool's parameters.
pub fn invalid(message: &str, hint: Option<&str>) -> String {
    with_hint("validation error: ", message, hint)
}

/// The text of anything that failed before or beside the command.
pub fn failed(message: &str, hint: Option<&str>) -> String {
    with_hint("error: ", message, hint)
}

fn with_hint(prefix: &str, message: &str, hint: Option<&str>) -> String {
    match hint {
        Some(hint) => format!("{prefix}{message}\nhint: {hint}"),
        None => format!("{prefix}{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(status: Status, exit_status: u8, stdout: &'static str, stderr: &'static str) -> Ran<'static> {
        Ran { status, exit_status, signal: None, limit: None, limit_value: None, stdout, stderr }
    }

    #[test]
    fn success_is_the_output_itself() {
        assert_eq!(ran(&run(Status::Ok, 0, "Linux 6.1\n", "")), "Linux 6.1\n");
        assert_eq!(ran(&run(Status::Ok, 0, "out", "err\n")), "out\nerr\n");
        assert_eq!(ran(&run(Status::Ok, 0, "", "")), "(exit=0, no output)");
    }

    #[test]
    fn failure_adds_the_exit() {
        assert_eq!(ran(&run(Status::NonzeroExit, 2, "", "bad\n")), "bad\nexit=2");
        assert_eq!(ran(&run(Status::NonzeroExit, 2, "a", "")), "a\nexit=2");
        assert_eq!(ran(&run(Status::NonzeroExit, 1, "", "")), "(exit=1, no output)");
    }

    #[test]
    fn a_death_is_named() {
        let dead = Ran { signal: Some("SIGSEGV"), ..run(Status::Signaled, 139, "half", "") };
        assert_eq!(ran(&dead), "error: killed by SIGSEGV (exit=139)\nhalf");
        let stopped = Ran { signal: Some("SIGTERM"), ..run(Status::Cancelled, 143, "", "") };
        assert_eq!(ran(&stopped), "error: cancelled by SIGTERM");
        assert_eq!(ran(&run(Status::Cancelled, 137, "", "")), "error: cancelled by the kill switch");
    }

    #[test]
    fn limits_come_first_then_what_was_kept() {
        let late = Ran {
            limit: Some("wall_time"),
            limit_value: Some("5s".into()),
            ..run(Status::Timeout, 124, "a\n...[9 bytes omitted]...\nb", "")
        };
        assert_eq!(ran(&late), "error: timed out after 5s\na\n...[9 bytes omitted]...\nb");
        let big = Ran {
            limit: Some("memory"),
            limit_value: Some("512M".into()),
            ..run(Status::LimitExceeded, 137, "", "")
        };
        assert_eq!(ran(&big), "error: stopped at memory of 512M (exit=137)");
    }

    #[test]
    fn refusals_have_their_words() {
        assert_eq!(blocked("no", None), "blocked: no");
        assert_eq!(invalid("n is 5, at most 3", None), "validation error: n is 5, at most 3");
        assert_eq!(failed("no policy", Some("write one")), "error: no policy\nhint: write one");
    }
}
