//! A filed request as it is run again, or its output handed out, without being given again.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use super::bytes::Bytes;
use super::entry::Entry;
use super::kept::{Kept, KeptInput, path};
use super::refusal::refusal;
use crate::decision::{Decision, Denial};
use crate::request::{Arguments, Ask, Asker, Evidence, Request, Stdin};

impl Entry {
    /// The filed request, to be judged and run: for `--approval` without a command, given in `asked`.
    ///
    /// # Errors
    /// It is not kept any more, it is another asker's, or the call adds what a filed request already has.
    pub fn request(&self, asked: Request) -> Result<Request, Box<Decision>> {
        self.is_askers(&asked.asker).map_err(|denial| denied(*denial))?;
        let Some(kept) = &self.kept else { return Err(denied(*self.closed())) };
        let input_again = kept.input == KeptInput::Again;
        self.adds_nothing(&asked, input_again)?;
        if input_again && matches!(asked.stdin, Stdin::Null) {
            let message = format!("the standard input of approval {} was too large to be kept", self.id);
            return Err(denied(*refusal("approval_mismatch", message, "give it again with --stdin")));
        }
        let mut request = self.filed(kept);
        request.approval = asked.approval;
        if input_again {
            request.stdin = asked.stdin;
        }
        Ok(request)
    }

    /// Whether a call may have the output that was withheld, for `--approval` without a command, as far as it says who asks.
    ///
    /// # Errors
    /// It is another asker's, or the call says how it is to be run: it has run.
    pub fn is_for(&self, asked: &Request) -> Result<(), Box<Decision>> {
        self.is_askers(&asked.asker).map_err(|denial| denied(*denial))?;
        self.adds_nothing(asked, false)
    }

    /// What contradicts itself is no request, and not one that is denied.
    fn adds_nothing(&self, asked: &Request, input_again: bool) -> Result<(), Box<Decision>> {
        let input = (!matches!(asked.stdin, Stdin::Null) && !input_again).then_some("--stdin");
        let Some(option) = asked.beside_stored().or(input) else { return Ok(()) };
        let message =
            format!("{option} cannot be given with --approval {} alone: what was filed has its own", self.id);
        let hint = match self.bound.output {
            Some(_) => "leave it out: it has run, and its output is all that there is to get",
            None => "leave it out, or give the whole command after `--`",
        };
        Err(Box::new(Decision::Invalid(*refusal("usage", message, hint))))
    }

    /// Who filed it.
    pub fn asker(&self) -> Asker {
        let bound = &self.bound;
        Asker {
            agent: bound.agent.clone(),
            session: bound.session.clone(),
            labels: bound.labels.clone(),
            why: bound.why.clone(),
        }
    }

    /// The words of it.
    pub fn words(&self) -> Vec<OsString> {
        self.bound.argv.iter().map(os).collect()
    }

    /// What was filed, with the words that were approved; judged again under `kept`.
    pub fn filed(&self, kept: &Kept) -> Request {
        let bound = &self.bound;
        let ask = match &bound.tool {
            Some(tool) => {
                Ask::Tool { name: tool.name.clone(), arguments: Arguments::Typed(tool.arguments.clone()) }
            }
            None => Ask::Argv(self.words()),
        };
        let evidence = kept.evidence_name.as_ref().zip(kept.evidence.as_ref());
        Request {
            ask,
            // A built-in action has no working directory that a request could name.
            cwd: bound.program.is_some().then(|| path(&bound.cwd)),
            env: kept.wishes.iter().map(|(name, value)| (os(name), value.as_ref().map(os))).collect(),
            stdin: match &kept.input {
                KeptInput::Null | KeptInput::Again => Stdin::Null,
                KeptInput::File(file) => Stdin::File(path(file)),
                KeptInput::Bytes(bytes) => Stdin::Bytes(bytes.0.clone()),
            },
            timeout: kept.timeout,
            asker: self.asker(),
            evidence: evidence.map(|(name, bytes)| Evidence { name: path(name), bytes: bytes.0.clone() }),
            approval: None,
        }
    }
}

fn denied(denial: Denial) -> Box<Decision> {
    Box::new(Decision::Deny(denial))
}

fn os(bytes: &Bytes) -> OsString {
    OsString::from_vec(bytes.0.clone())
}
