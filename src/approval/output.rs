//! What an approval of an output binds to and what is shown of it, read off the one result that the caller would have got.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::files::Content;
use crate::request::quote;

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

/// What is read off a result.
#[derive(Deserialize)]
pub(super) struct Said {
    pub(super) run_id: String,
    pub(super) status: String,
    pub(super) exit_code: Option<u8>,
    pub(super) stdout: Option<String>,
    pub(super) stderr: Option<String>,
    pub(super) stdout_base64: Option<String>,
    pub(super) stderr_base64: Option<String>,
    pub(super) stdout_bytes: Option<u64>,
    pub(super) stderr_bytes: Option<u64>,
}

impl Said {
    pub(super) fn of(result: &str) -> Result<Said, serde_json::Error> {
        serde_json::from_str(result)
    }

    pub(super) fn streams(&self) -> Streams {
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
