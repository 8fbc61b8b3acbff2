//! A request as it stands in the store, with whatever was answered.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::bound::Bound;
use super::bytes::Bytes;
use crate::sys::account::Person;

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nobody has answered yet.
    Pending,
    /// It may run, once.
    Approved,
    /// It may not.
    Declined,
    /// It was used.
    Consumed,
    /// Its time is over.
    Expired,
}

impl State {
    /// The word used in the store, in results and in audit records.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Approved => "approved",
            State::Declined => "declined",
            State::Consumed => "consumed",
            State::Expired => "expired",
        }
    }

    /// The state of that word.
    pub fn of(word: &str) -> Option<State> {
        [State::Pending, State::Approved, State::Declined, State::Consumed, State::Expired]
            .into_iter()
            .find(|state| state.as_str() == word)
    }

    /// Whether anything can still come of it.
    pub fn is_open(self) -> bool {
        matches!(self, State::Pending | State::Approved)
    }
}

/// What was answered, by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Yes or no.
    pub approved: bool,
    /// By whom.
    pub by: Person,
    /// When.
    pub at: SystemTime,
    /// The note to a yes, the reason of a no.
    pub text: Option<String>,
}

/// An earlier answer to the same rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lately {
    /// The request.
    pub id: String,
    /// Who had asked.
    pub agent: Option<String>,
    /// The answer.
    pub answered: Answered,
}

/// A request in the store.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// Where it stands.
    pub state: State,
    /// The digest that a run must have: of the edited request, where it was edited.
    pub digest: String,
    /// What that digest is of.
    pub bound: Bound,
    /// The words that were asked for, where others were approved.
    pub asked_argv: Option<Vec<Bytes>>,
    /// Who ran guardexec when it was filed.
    pub asked_by: Person,
    /// When it was filed.
    pub filed_at: SystemTime,
    /// When its time is over.
    pub expires_at: SystemTime,
    /// How long until then; zero where it is over.
    pub left: Duration,
    /// What was answered.
    pub answered: Option<Answered>,
    /// When it was used, and by which run.
    pub used: Option<(SystemTime, String)>,
    /// When whoever stands behind was told that nobody answers.
    pub escalated_at: Option<SystemTime>,
    /// What the evidence says, as long as it is kept.
    pub evidence: Option<Vec<u8>>,
}
