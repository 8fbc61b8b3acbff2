//! Who authorizes, what an authorization comes by, and how it ends: what its stages hand one another.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::refusals::denial;
use crate::approval::entry::Entry;
use crate::approval::kept::Kept;
use crate::approval::queue::Filed;
use crate::approval::screen::answerer;
use crate::decision::{Decision, Denial, Facts, Grant, Step};
use crate::guard::Finding;
use crate::policy::model::Policy;
use crate::report::audit::record::ApprovalRecord;
use crate::report::result::{ApprovalDoc, ResultDoc};
use crate::report::tool::ToolDoc;
use crate::report::withheld::Withholding;
use crate::request::{Asker, Evidence};
use crate::state::sessions::{Begun, Halt};
use crate::switch::Switch;

/// Who authorizes: what every stage may know.
pub(super) struct Authority<'a> {
    /// The policies that must all allow.
    pub policies: &'a [Policy],
    /// Their switches.
    pub switches: &'a [Switch],
    /// What judging may know of the caller and the machine.
    pub facts: &'a Facts,
    /// The id of this run.
    pub run_id: &'a str,
    /// The directory of the store.
    pub store: &'a Path,
    /// How long an answer may take.
    pub wait: Option<Duration>,
    /// Only says what would come of it: nothing is counted, consumed or asked, and no check is run.
    pub dry: bool,
}

/// What an authorization came to, and what it came by. Nothing has run.
#[derive(Default)]
pub(super) struct Authorized {
    /// The words, where there are any to be had.
    pub argv: Option<Vec<OsString>>,
    /// The command string they were split from.
    pub command: Option<Vec<u8>>,
    /// Who asks.
    pub asker: Asker,
    /// What the checks said.
    pub findings: Vec<Finding>,
    /// guardexec's own standard input, where it was read to ask for an approval: it cannot be read once more.
    pub input: Option<Vec<u8>>,
    /// Sentences for the result's `warnings`.
    pub warnings: Vec<String>,
    /// The call of a tool, once its arguments have the types that its parameters say.
    pub tool: Option<ToolDoc>,
    /// What happened to approvals.
    pub events: Vec<ApprovalRecord>,
    /// The approval that it waits for or used.
    pub approval: Option<ApprovalDoc>,
    /// What the asker can do about it.
    pub advice: Option<String>,
    /// What is needed of the request where its output has to be asked about.
    pub filing: Option<Filing>,
    /// The session's run, where its end has to be kept.
    pub begun: Option<Begun>,
    /// What was found of an earlier run halted the session.
    pub halted: Option<Halt>,
}

/// How an authorization ends.
pub(super) enum Came {
    /// To a decision.
    To(Box<Decision>),
    /// guardexec got this signal meanwhile.
    Cancelled(i32),
    /// To the result of a run that is over: a person has let it go out, and this call is the one that gets it.
    Gives(Box<ResultDoc>),
    /// To such a result that waits for an answer yet.
    Withholds(Box<ResultDoc>, Withholding),
}

/// A stage lets pass with a value, or ends the authorization.
pub(super) type Passed<T> = Result<T, Came>;

impl From<Box<Decision>> for Came {
    fn from(decision: Box<Decision>) -> Came {
        Came::To(decision)
    }
}

impl From<Denial> for Came {
    fn from(denial: Denial) -> Came {
        Came::To(Box::new(Decision::Deny(denial)))
    }
}

/// What of a request is needed after it was judged, where a person may have to be asked.
pub(super) struct Filing {
    /// `--approval`.
    pub approval: Option<String>,
    /// `--evidence`.
    pub evidence: Option<Evidence>,
    /// What is filed.
    pub kept: Option<Kept>,
}

/// What the last stages came to.
pub(super) enum Permit {
    /// It may run; with what was used for it, where something was.
    Run(Grant, Option<Box<Entry>>),
    /// It waits for an answer.
    Waits(Grant, Box<Filed>),
}

impl Authority<'_> {
    /// See [`stopped_meanwhile`].
    pub(super) fn stopped_meanwhile(&self, ids: &[String]) -> Came {
        stopped_meanwhile(self.switches, ids)
    }
}

impl Authorized {
    /// The approval that the run has used.
    pub(super) fn used(&mut self, entry: Option<&Entry>) {
        let Some(entry) = entry else { return };
        self.approval = Some(ApprovalDoc {
            id: entry.id.clone(),
            state: "consumed".into(),
            expires_at: Some(entry.expires_at.clone()),
        });
        self.advice = None;
        self.events.push(ApprovalRecord {
            id: entry.id.clone(),
            state: "consumed".into(),
            by: entry.answered.as_ref().map(|answered| answerer(&answered.by)),
            reason: entry.answered.as_ref().and_then(|answered| answered.text.clone()),
            expires_at: Some(entry.expires_at.clone()),
        });
    }

    /// The approval that it waits for.
    pub(super) fn waits(&mut self, filed: &Filed) {
        self.approval = Some(ApprovalDoc {
            id: filed.id.clone(),
            state: filed.state.as_str().to_owned(),
            expires_at: Some(filed.expires_at.clone()),
        });
        self.advice = Some(filed.hint());
        if filed.fresh {
            self.events.push(ApprovalRecord {
                id: filed.id.clone(),
                state: "pending".into(),
                by: None,
                reason: None,
                expires_at: Some(filed.expires_at.clone()),
            });
        }
    }
}

/// Everything had to stop while guardexec waited for somebody.
pub(super) fn stopped_meanwhile(switches: &[Switch], ids: &[String]) -> Came {
    match switches.iter().find_map(|switch| switch.stops(ids)) {
        Some(stopped) => denial(&stopped).into(),
        // It is off again already; what it stopped stays stopped.
        None => Came::Cancelled(libc::SIGKILL),
    }
}

pub(super) fn step(stage: &'static str, outcome: &str, detail: impl Into<String>) -> Step {
    Step { stage, outcome: outcome.into(), detail: detail.into(), rule: None }
}
