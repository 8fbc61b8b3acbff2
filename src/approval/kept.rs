//! What is needed to run a filed request again without giving it again. It may hold secrets, so it is forgotten as soon as
//! nothing can come of the request any more.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bound::Bound;
use super::bytes::Bytes;
use super::entry::Entry;
use super::refusal::refusal;
use crate::decision::{Decision, Denial, Facts};
use crate::policy::load::LoadContext;
use crate::policy::model::Policy;
use crate::request::{Arguments, Ask, Asker, Evidence, Request, Stdin};

/// The largest standard input that is kept, in bytes.
pub const MOST_INPUT: usize = 1 << 20;

/// The private part of a filed request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The values of the environment, in the order of its names.
    pub(super) values: Vec<Bytes>,
    /// The variables asked for.
    wishes: Vec<(Bytes, Option<Bytes>)>,
    /// Standard input.
    input: KeptInput,
    /// The timeout asked for.
    timeout: Option<Duration>,
    /// The evidence's name and what it says.
    evidence_name: Option<Bytes>,
    pub(super) evidence: Option<Bytes>,
    /// The result that is withheld, as JSON, where that is what is asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<String>,
    /// The policies that judged, without what they extend.
    policies: Vec<Bytes>,
    /// Where guardexec was started.
    start_dir: Option<Bytes>,
    /// The user's name and home, and what `$GUARDEXEC_AGENT` said.
    user: String,
    home: Bytes,
    agent: Option<String>,
    /// The effective user.
    uid: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KeptInput {
    Null,
    File(Bytes),
    Bytes(Bytes),
    /// Too large: whoever uses the approval has to give it again.
    Again,
}

impl Kept {
    /// Notes what a request asks for before it is judged, while nothing is known of its environment yet.
    pub fn of(request: &Request, facts: &Facts, policies: &[Policy]) -> Kept {
        let bytes = |text: &OsString| Bytes::from(text.as_bytes());
        let evidence = request.evidence.as_ref();
        Kept {
            values: Vec::new(),
            wishes: request
                .env
                .iter()
                .map(|(name, value)| (bytes(name), value.as_ref().map(bytes)))
                .collect(),
            input: match &request.stdin {
                Stdin::Null => KeptInput::Null,
                Stdin::Bytes(bytes) if bytes.len() <= MOST_INPUT => KeptInput::Bytes(bytes.into()),
                Stdin::Bytes(_) | Stdin::Relay => KeptInput::Again,
                Stdin::File(path) => {
                    let whole = facts.start_dir.as_ref().map_or_else(|| path.clone(), |dir| dir.join(path));
                    let whole = std::path::absolute(&whole).unwrap_or(whole);
                    KeptInput::File(whole.as_os_str().as_bytes().into())
                }
            },
            timeout: request.timeout,
            evidence_name: evidence.map(|evidence| evidence.name.as_os_str().as_bytes().into()),
            evidence: evidence.map(|evidence| Bytes::from(&evidence.bytes)),
            result: None,
            policies: policies.iter().map(|policy| policy.path.as_os_str().as_bytes().into()).collect(),
            start_dir: facts.start_dir.as_ref().map(|dir| dir.as_os_str().as_bytes().into()),
            user: facts.user.clone(),
            home: facts.home.as_os_str().as_bytes().into(),
            agent: facts.agent.clone(),
            uid: nix::unistd::geteuid().as_raw(),
        }
    }

    /// The same where guardexec's own standard input was read meanwhile.
    pub fn with_input(mut self, read: &[u8]) -> Kept {
        if read.len() <= MOST_INPUT {
            self.input = KeptInput::Bytes(read.into());
        }
        self
    }

    /// What is kept for an output: the result, and nothing that only running again would need.
    pub fn with_result(mut self, result: String) -> Kept {
        (self.wishes, self.input, self.timeout) = (Vec::new(), KeptInput::Null, None);
        self.result = Some(result);
        self
    }

    /// Whether guardexec inherited the agent's name: else nobody but the asker says it.
    pub fn is_of_proven_agent(&self) -> bool {
        self.agent.is_some()
    }

    /// The result that is withheld, as JSON.
    pub fn result(&self) -> Option<&str> {
        self.result.as_deref()
    }

    /// The same with the environment that judging came to.
    pub(super) fn with_values(mut self, bound: &Bound) -> Kept {
        self.values = bound.env.iter().map(|variable| variable.value.clone().unwrap_or_default()).collect();
        self
    }

    /// What judging knew of the asker, for judging an edit; of its environment what the command was given.
    pub fn facts(&self, bound: &Bound) -> Facts {
        let env = bound.env.iter().zip(&self.values);
        Facts {
            env: env.map(|(variable, value)| (variable.name.0.clone(), value.0.clone())).collect(),
            start_dir: self.start_dir.as_ref().map(path),
            user: self.user.clone(),
            home: path(&self.home),
            agent: self.agent.clone(),
        }
    }

    /// The policies that judged, and how they were loaded.
    pub fn policies(&self) -> (Vec<PathBuf>, LoadContext) {
        let context = LoadContext { home: path(&self.home), uid: self.uid };
        (self.policies.iter().map(path).collect(), context)
    }
}

fn denied(denial: Denial) -> Box<Decision> {
    Box::new(Decision::Deny(denial))
}

fn path(bytes: &Bytes) -> PathBuf {
    OsStr::from_bytes(&bytes.0).into()
}

fn os(bytes: &Bytes) -> OsString {
    OsString::from_vec(bytes.0.clone())
}

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
