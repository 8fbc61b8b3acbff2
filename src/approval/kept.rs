//! What is needed to run a filed request again without giving it again. It may hold secrets, so it is forgotten as soon as
//! nothing can come of the request any more.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bound::Bound;
use super::bytes::Bytes;
use crate::decision::Facts;
use crate::policy::load::LoadContext;
use crate::policy::model::Policy;
use crate::request::{Request, Stdin};

/// The largest standard input that is kept, in bytes.
pub const MOST_INPUT: usize = 1 << 20;

/// The private part of a filed request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The values of the environment, in the order of its names.
    pub(super) values: Vec<Bytes>,
    /// The variables asked for.
    pub(super) wishes: Vec<(Bytes, Option<Bytes>)>,
    /// Standard input.
    pub(super) input: KeptInput,
    /// The timeout asked for.
    pub(super) timeout: Option<Duration>,
    /// The evidence's name and what it says.
    pub(super) evidence_name: Option<Bytes>,
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
pub(super) enum KeptInput {
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

pub(super) fn path(bytes: &Bytes) -> PathBuf {
    OsStr::from_bytes(&bytes.0).into()
}
