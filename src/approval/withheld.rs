//! The output of a run that is over, and waits for a person: what an answer to it binds to, and what is shown of it.
//!
//! It is kept as the one result that the caller would have got, and everything here is read off that document: so what a
//! person saw, what an approval binds to and what is handed out in the end are one.

use super::entry::Entry;
use super::files;
use super::output::{BoundOutput, BoundStream, Said, Streams};
use super::refusal::refusal;
use crate::decision::Denial;

/// The largest result that can wait, in bytes of its JSON.
pub const MOST: usize = 16 << 20;

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
