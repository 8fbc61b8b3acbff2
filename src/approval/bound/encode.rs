//! The digest: SHA-256 over an encoding that no two different requests share.
//!
//! Every piece is preceded by its length, every list by its number of elements, every part by its name. The first piece
//! names the version: another encoding would give no digest of this one.

use sha2::{Digest as _, Sha256};

use super::{Bound, BoundFile, BoundInput, BoundTool, Cause, Variable};
use crate::approval::files::Named;
use crate::approval::output::BoundOutput;
use crate::sys::hex;

const VERSION: &[u8] = b"guardexec approval 1";

impl Bound {
    /// Lower-case hex.
    pub fn digest(&self) -> String {
        // Taken apart, so that a new part is not forgotten here.
        let Bound {
            argv,
            program,
            cwd,
            env,
            stdin,
            files,
            causes,
            tool,
            policies,
            agent,
            session,
            labels,
            why,
            evidence,
            settings,
            output,
        } = self;
        let mut to = Encoder::new();
        to.list("argv", argv, |to, word| {
            to.piece(&word.0);
        });
        to.list("program", program, file);
        to.list("cwd", [cwd], |to, path| {
            to.piece(&path.0);
        });
        to.list("env", env, variable);
        to.list("stdin", [stdin], input);
        to.list("files", files, named);
        to.list("causes", causes, cause);
        to.list("tool", tool, call);
        to.list("policies", policies, |to, (path, sha256)| {
            to.piece(&path.0).piece(sha256.as_bytes());
        });
        to.list("agent", agent, |to, text| {
            to.piece(text.as_bytes());
        });
        to.list("session", session, |to, text| {
            to.piece(text.as_bytes());
        });
        to.list("labels", labels, |to, (key, value)| {
            to.piece(key.as_bytes()).piece(value.as_bytes());
        });
        to.list("why", why, |to, text| {
            to.piece(text.as_bytes());
        });
        // The name under which it was handed in means nothing.
        to.list("evidence", evidence, |to, file| {
            to.piece(file.content.sha256.as_bytes());
        });
        to.list("settings", settings, |to, setting| {
            to.piece(setting.name.as_bytes()).pieces(&setting.values);
        });
        to.list("output", output, came);
        hex(&to.0.finalize())
    }
}

struct Encoder(Sha256);

impl Encoder {
    fn new() -> Encoder {
        let mut to = Encoder(Sha256::new());
        to.piece(VERSION);
        to
    }

    fn number(&mut self, number: usize) -> &mut Encoder {
        self.0.update((number as u64).to_le_bytes());
        self
    }

    fn piece(&mut self, bytes: &[u8]) -> &mut Encoder {
        self.number(bytes.len()).0.update(bytes);
        self
    }

    fn pieces<P: AsRef<[u8]>>(&mut self, pieces: &[P]) -> &mut Encoder {
        self.number(pieces.len());
        for piece in pieces {
            self.piece(piece.as_ref());
        }
        self
    }

    /// A part: its name, the number of its elements, and the elements. What may be missing is a list of none or one.
    fn list<T>(
        &mut self,
        name: &str,
        list: impl IntoIterator<Item = T>,
        mut element: impl FnMut(&mut Encoder, T),
    ) {
        let elements: Vec<T> = list.into_iter().collect();
        self.piece(name.as_bytes()).number(elements.len());
        for one in elements {
            element(self, one);
        }
    }
}

fn file(to: &mut Encoder, file: &BoundFile) {
    to.piece(&file.path.0).piece(file.content.sha256.as_bytes());
}

fn variable(to: &mut Encoder, variable: &Variable) {
    to.piece(&variable.name.0);
    let value: Vec<&[u8]> = variable.value.iter().map(|value| value.0.as_slice()).collect();
    to.pieces(&value);
}

fn input(to: &mut Encoder, stdin: &BoundInput) {
    match stdin {
        BoundInput::Null => {
            to.piece(b"null");
        }
        BoundInput::File(from) => file(to.piece(b"file"), from),
        BoundInput::Bytes(content) => {
            to.piece(b"bytes").piece(content.sha256.as_bytes());
        }
        BoundInput::Relayed => {
            to.piece(b"relayed");
        }
    }
}

fn named(to: &mut Encoder, named: &Named) {
    to.number(named.word).piece(&named.path.0);
    let content: Vec<&[u8]> = named.content.iter().map(|content| content.sha256.as_bytes()).collect();
    to.pieces(&content);
}

/// Its reason may hold a figure that changes; what its author wrote is bound by the policy's hash.
fn cause(to: &mut Encoder, cause: &Cause) {
    to.piece(cause.id.as_bytes()).piece(&cause.file.0).number(cause.line as usize);
}

/// The result holds all of it; the streams count by themselves too, since they are what a person saw.
fn came(to: &mut Encoder, output: &BoundOutput) {
    let BoundOutput { run_id, ids, status, exit_code, stdout, stderr, result } = output;
    to.piece(run_id.as_bytes()).pieces(ids).piece(status.as_bytes());
    to.list("exit_code", exit_code, |to, code| {
        to.number((*code).into());
    });
    for stream in [stdout, stderr] {
        to.piece(stream.kept.sha256.as_bytes());
        to.list("written", stream.written, |to, written| {
            to.piece(&written.to_le_bytes());
        });
    }
    to.piece(result.sha256.as_bytes());
}

fn call(to: &mut Encoder, call: &BoundTool) {
    // Which of them are content is the policy's to say, and its hash is bound.
    to.piece(call.name.as_bytes());
    let mut arguments: Vec<_> = call.arguments.iter().collect();
    // The order in which a caller writes them means nothing.
    arguments.sort_unstable_by_key(|(name, _)| *name);
    to.list("arguments", arguments, |to, (name, value)| {
        to.piece(name.as_bytes()).piece(value.to_string().as_bytes());
    });
}
