//! What a built-in action came to, and how much of a command's output a tool's text holds.

use crate::action::{Done, How, Said};
use crate::decision::{Denial, RuleRef, Stage, ToolCall};
use crate::policy::model::{EffectiveLimits, ToolOutput};
use crate::request::quote;
use crate::request::units::show_duration;

use super::compose::signal_name;
use super::result::{ErrorDoc, LimitDoc, ResultDoc};
use super::status::Status;
use super::text;

impl ResultDoc {
    /// How a built-in action went.
    pub fn acted(&mut self, done: Done, limits: &EffectiveLimits, rule: &RuleRef) {
        self.duration_ms = u64::try_from(done.duration.as_millis()).unwrap_or(u64::MAX);
        let wall_time = limits.wall_time.get();
        let value = wall_time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let how = if value.is_some() { "exact" } else { "none" };
        self.limits = vec![("wall_time", LimitDoc { value, how })];
        if done.unreaped {
            self.warnings.push("the process that did it was killed and could not be reaped yet".to_owned());
        }
        match done.how {
            How::Said(Said::Done(content)) => self.ended(0, content, String::new()),
            How::Said(Said::Failed(message)) => self.ended(1, Vec::new(), format!("{message}\n")),
            How::Said(Said::Refused(refusal)) => self.refused(
                &Denial {
                    code: "action_refused",
                    stage: Stage::Sandbox,
                    message: refusal.message,
                    hint: Some(refusal.hint).filter(|hint| !hint.is_empty()),
                    rule: Some(rule.clone()),
                },
                Status::Denied,
            ),
            How::Said(Said::Broken(message)) => self.failed("action", &message, None),
            How::TimedOut => {
                self.limit = Some("wall_time");
                self.cut_short(Status::Timeout, None, wall_time.map(show_duration));
            }
            How::Cancelled(signal) => self.cut_short(Status::Cancelled, Some(signal), None),
            How::Stopped => self.cut_short(Status::Cancelled, None, None),
        }
    }

    /// An action ends as a small program would: 0 and its output, or 1 and a sentence on standard error.
    fn ended(&mut self, code: u8, stdout: Vec<u8>, stderr: String) {
        self.status = if code == 0 { Status::Ok } else { Status::NonzeroExit };
        (self.exit_code, self.exit_status) = (Some(code), code);
        (self.stdout_bytes, self.stderr_bytes) = (Some(stdout.len() as u64), Some(stderr.len() as u64));
        let (text, base64) = super::result::stream(&stdout, b"", 0);
        (self.stdout, self.stdout_base64, self.stderr) = (Some(text), base64, Some(stderr));
        self.text = self.ran_text_of(self.stdout.as_deref().unwrap_or_default());
    }

    fn cut_short(&mut self, status: Status, signal: Option<i32>, limit_value: Option<String>) {
        self.status = status;
        self.exit_status = status.exit_status(None, signal);
        self.signal = signal.map(signal_name);
        self.text = text::ran(&text::Ran {
            status,
            exit_status: self.exit_status,
            signal: self.signal.as_deref(),
            limit: self.limit,
            limit_value,
            stdout: "",
            stderr: "",
        });
        self.reason = Some(self.text.trim_start_matches("error: ").to_owned());
    }

    /// The text of a run that came to its own end, with this in the place of its standard output.
    pub(super) fn ran_text_of(&self, stdout: &str) -> String {
        let text = text::ran(&text::Ran {
            status: self.status,
            exit_status: self.exit_status,
            signal: None,
            limit: None,
            limit_value: None,
            stdout,
            stderr: self.stderr.as_deref().unwrap_or_default(),
        });
        text + &self.hints()
    }

    /// What a tool says of its command's end: how much of the output the text holds, and whether a failing exit is a
    /// failure of the tool.
    pub fn shaped(&mut self, call: &ToolCall) {
        let own_end = matches!(self.status, Status::Ok | Status::NonzeroExit);
        let cut = matches!(
            self.status,
            Status::Signaled | Status::Timeout | Status::LimitExceeded | Status::Cancelled
        );
        // What the kill switch ended says that first of all.
        let switched = self.stage == Some(Stage::KillSwitch.as_str());
        if switched || (!own_end && !cut) {
            return;
        }
        let stdout = self.stdout.clone().unwrap_or_default();
        let quiet = stdout.is_empty() && !self.stderr.as_deref().unwrap_or_default().is_empty();
        let exit = self.exit_status;
        let head = self.text.lines().next().unwrap_or_default().to_owned();
        self.text = match call.output {
            ToolOutput::Both => std::mem::take(&mut self.text),
            ToolOutput::None if own_end => format!("(exit={exit}, output not shown)"),
            ToolOutput::None => head,
            ToolOutput::Stdout if cut && stdout.is_empty() => head,
            ToolOutput::Stdout if cut => format!("{head}\n{stdout}"),
            ToolOutput::Stdout if quiet => format!("(exit={exit}, nothing on standard output)"),
            ToolOutput::Stdout => {
                let stderr = self.stderr.take();
                let text = self.ran_text_of(&stdout);
                self.stderr = stderr;
                text
            }
        };
        if call.check_exit && self.status == Status::NonzeroExit {
            self.failing_exit(&call.name);
        }
    }

    fn failing_exit(&mut self, name: &str) {
        let code = self.exit_code.unwrap_or_default();
        let message = format!("tool {} failed with exit status {code}", quote::repr(name.as_bytes()));
        self.status = Status::Error;
        self.exit_status = Status::Error.exit_status(None, None);
        self.text = format!("error: {message}\n{}", self.text);
        self.reason = Some(message.clone());
        self.error = Some(ErrorDoc { kind: "tool_exit".to_owned(), message, hint: None });
    }
}

#[cfg(test)]
mod tests;
