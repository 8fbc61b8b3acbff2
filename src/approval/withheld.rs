//! The output of a run that is over, and waits for a person: what an answer to it binds to, and what is shown of it.
//!
//! It is kept as the one result that the caller would have got, and everything here is read off that document: so what a
//! person saw, what an approval binds to and what is handed out in the end are one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::bound::{Bound, Cause};
use super::entry::Entry;
use super::files::{self, Content};
use super::refusal::refusal;
use crate::decision::Denial;
use crate::policy::model::Policy;
use crate::request::quote;

/// The largest result that can wait, in bytes of its JSON.
pub const MOST: usize = 16 << 20;

/// What an approval of an output binds to besides the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundOutput {
    /// The run that it came of.
    pub run_id: String,
    /// The rules and tools that had decided: what the kill switch may name.
    pub ids: Vec<String>,
    /// How the run ended, as results say it.
    pub status: String,
    /// The command's own exit code.
    pub exit_code: Option<u8>,
    /// Standard output.
    pub stdout: BoundStream,
    /// Standard error.
    pub stderr: BoundStream,
    /// The whole result, as it is kept.
    pub result: Content,
}

/// One stream of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundStream {
    /// What would go out of it.
    pub kept: Content,
    /// How many bytes the command wrote, kept or not.
    pub written: Option<u64>,
}

/// The two streams exactly as they would go out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streams {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// A result that is withheld.
#[derive(Debug, Clone)]
pub struct Withheld {
    /// What is bound of it.
    pub output: BoundOutput,
    /// What is shown of it.
    pub streams: Streams,
    /// The result itself, as JSON.
    pub result: String,
}

/// What is read off a result.
#[derive(Deserialize)]
struct Said {
    run_id: String,
    status: String,
    exit_code: Option<u8>,
    stdout: Option<String>,
    stderr: Option<String>,
    stdout_base64: Option<String>,
    stderr_base64: Option<String>,
    stdout_bytes: Option<u64>,
    stderr_bytes: Option<u64>,
}

impl Said {
    fn of(result: &str) -> Result<Said, serde_json::Error> {
        serde_json::from_str(result)
    }

    fn streams(&self) -> Streams {
        let exact = |text: &Option<String>, base64: &Option<String>| {
            let exact = base64.as_ref().and_then(|base64| STANDARD.decode(base64).ok());
            exact.unwrap_or_else(|| text.clone().unwrap_or_default().into_bytes())
        };
        Streams {
            stdout: exact(&self.stdout, &self.stdout_base64),
            stderr: exact(&self.stderr, &self.stderr_base64),
        }
    }
}

impl Withheld {
    /// A result that these rules and tools had decided about, from the JSON of it; `None` where that is larger than [`MOST`].
    ///
    /// # Errors
    /// It is too large (`approval_unbindable`), or no result.
    pub fn of(result: Option<String>, ids: &[String]) -> Result<Withheld, Box<Denial>> {
        let Some(result) = result else {
            // How large it is would tell how much the command wrote.
            let message = format!(
                "the output needs an approval and is too large to wait for one: of a result {} MiB are kept at most",
                MOST >> 20
            );
            return Err(refusal("approval_unbindable", message, "ask for something that says less"));
        };
        let said = Said::of(&result).map_err(|error| {
            let message = format!("the output needs an approval and cannot be kept: {error}");
            refusal("approval_unbindable", message, "the operator has to look at it")
        })?;
        let streams = said.streams();
        let stream =
            |bytes: &[u8], written: Option<u64>| BoundStream { kept: files::content(bytes), written };
        let output = BoundOutput {
            ids: ids.to_vec(),
            stdout: stream(&streams.stdout, said.stdout_bytes),
            stderr: stream(&streams.stderr, said.stderr_bytes),
            result: files::content(result.as_bytes()),
            run_id: said.run_id,
            status: said.status,
            exit_code: said.exit_code,
        };
        Ok(Withheld { output, streams, result })
    }
}

impl Streams {
    /// Those of a kept result.
    ///
    /// # Errors
    /// It is no result.
    pub(super) fn of(result: &str) -> Result<Streams, serde_json::Error> {
        Said::of(result).map(|said| said.streams())
    }
}

impl BoundOutput {
    /// `ok, exit code 0`.
    pub fn ending(&self) -> String {
        let status = quote::line(self.status.as_bytes());
        match self.exit_code {
            Some(code) => format!("{status}, exit code {code}"),
            None => status,
        }
    }

    /// The object of documents; the bytes only where they are given.
    pub(super) fn document(&self, streams: Option<&Streams>) -> Value {
        let mut object = json!({"run_id": self.run_id, "status": self.status, "exit_code": self.exit_code});
        for (name, bound, bytes) in [
            ("stdout", &self.stdout, streams.map(|streams| &streams.stdout)),
            ("stderr", &self.stderr, streams.map(|streams| &streams.stderr)),
        ] {
            let BoundStream { kept, written } = bound;
            object[name] = json!({"size": kept.size, "sha256": kept.sha256, "written": written});
            if let Some(bytes) = bytes {
                object[name]["text"] = String::from_utf8_lossy(bytes).into();
                let exact = std::str::from_utf8(bytes).is_err().then(|| STANDARD.encode(bytes));
                object[name]["base64"] = exact.into();
            }
        }
        object
    }

    /// The same for whoever waits for it: nothing of it, and nothing about it.
    pub(super) fn untold(&self) -> Value {
        json!({"run_id": self.run_id, "status": null, "exit_code": null, "stdout": null, "stderr": null})
    }
}

impl Bound {
    /// The same for the output of the run that this was.
    pub fn of_output(mut self, output: BoundOutput, causes: Vec<Cause>, policies: &[Policy]) -> Bound {
        self.causes = causes.into_iter().map(|cause| cause.placed(policies)).collect();
        self.output = Some(output);
        self
    }

    /// What is asked about, for people.
    pub fn subject(&self) -> String {
        match &self.output {
            Some(_) => format!("the output of {}", self.name()),
            None => self.name(),
        }
    }
}

impl Entry {
    /// Whether what is kept of an output is what was withheld and shown.
    ///
    /// # Errors
    /// Something of it was changed in the store (`approval_mismatch`).
    pub fn is_whole(&self) -> Result<(), Box<Denial>> {
        let Some(output) = &self.bound.output else { return Ok(()) };
        let kept = self.kept.as_ref().and_then(|kept| kept.result.as_ref());
        let same = kept.is_some_and(|kept| files::content(kept.as_bytes()) == output.result);
        if same && self.bound.digest() == self.digest {
            return Ok(());
        }
        let message = format!("what is kept under approval {} is not the output that was withheld", self.id);
        let hint = "somebody changed it in the store: the operator has to look at that; it did run, do not run it again for \
                    its output";
        Err(refusal("approval_mismatch", message, hint))
    }
}

#[cfg(test)]
mod tests;
