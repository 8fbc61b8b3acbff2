//! A request as it stands in the store, with whatever was answered.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::bound::{Bound, Variable};
use super::bytes::Bytes;
use super::kept::Kept;
use super::output::Streams;
pub use crate::state::approvals::State;
use crate::state::approvals::{Answer, Row};
use crate::state::{Moment, StateError};
use crate::sys::account::Person;

/// Who answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answerer {
    /// The person; where a program answered, whoever ran guardexec then.
    #[serde(flatten)]
    pub person: Person,
    /// The program of the policy that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

impl From<Person> for Answerer {
    fn from(person: Person) -> Answerer {
        Answerer { person, program: None }
    }
}

/// What was answered, by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Yes or no.
    pub approved: bool,
    /// By whom.
    pub by: Answerer,
    /// When, RFC 3339.
    pub at: String,
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
    /// The digest of what was asked.
    pub asked_digest: String,
    /// What the first digest is of.
    pub bound: Bound,
    /// The words that were asked for, where others were approved.
    pub asked_argv: Option<Vec<Bytes>>,
    /// Who ran guardexec when it was filed.
    pub filed_by: Person,
    /// When it was filed, RFC 3339.
    pub filed_at: String,
    /// When its time is over, RFC 3339.
    pub expires_at: String,
    /// How long until then; zero where it is over.
    pub left: Duration,
    /// What was answered.
    pub answered: Option<Answered>,
    /// When it was used, and by which run.
    pub used: Option<(String, String)>,
    /// When somebody else was told that nobody answers.
    pub escalated_at: Option<String>,
    /// What is only kept while it is open.
    pub kept: Option<Kept>,
    /// The output that is withheld, as long as it is kept.
    pub output: Option<Streams>,
}

impl Entry {
    /// Reads a row.
    ///
    /// # Errors
    /// It does not hold what this program puts there.
    pub fn of(row: Row, now: &Moment) -> Result<Entry, StateError> {
        let mut bound: Bound = decode(&row.id, "bound", &row.bound)?;
        let kept: Option<Kept> =
            row.private.as_deref().map(|text| decode(&row.id, "private", text)).transpose()?;
        if let Some(kept) = &kept {
            fill(&mut bound.env, &kept.values);
        }
        let output = kept.as_ref().and_then(Kept::result).map(Streams::of).transpose();
        let output = output.map_err(|error| corrupt(&row.id, "private", &error))?;
        let asked_argv =
            row.asked_argv.as_deref().map(|text| decode(&row.id, "asked_argv", text)).transpose()?;
        let answered = row.answer.as_ref().map(|answer| answered(&row.id, answer)).transpose()?;
        Ok(Entry {
            state: row.state,
            digest: row.digest,
            asked_digest: row.asked_digest,
            bound,
            asked_argv,
            filed_by: decode(&row.id, "filed_by", &row.filed_by)?,
            filed_at: row.filed_at,
            expires_at: row.expires_at,
            left: now.until(row.expires),
            answered,
            used: row.used_at.zip(row.run_id),
            escalated_at: row.escalated_at,
            kept,
            output,
            id: row.id,
        })
    }

    /// What the evidence says, as long as it is kept.
    pub fn evidence(&self) -> Option<&[u8]> {
        self.kept.as_ref()?.evidence.as_ref().map(|bytes| bytes.0.as_slice())
    }
}

impl Lately {
    /// Reads an answered row.
    ///
    /// # Errors
    /// As [`Entry::of`].
    pub fn of(row: &Row) -> Result<Option<Lately>, StateError> {
        let Some(answer) = &row.answer else { return Ok(None) };
        let bound: Value = decode(&row.id, "bound", &row.bound)?;
        let agent = bound["agent"].as_str().map(str::to_owned);
        Ok(Some(Lately { id: row.id.clone(), agent, answered: answered(&row.id, answer)? }))
    }
}

fn answered(id: &str, answer: &Answer) -> Result<Answered, StateError> {
    Ok(Answered {
        approved: answer.approved,
        by: decode(id, "answered_by", &answer.by)?,
        at: answer.at.clone(),
        text: answer.said.clone(),
    })
}

/// Puts the values back, which stand apart from the names so that they can be forgotten.
fn fill(env: &mut [Variable], values: &[Bytes]) {
    for (variable, value) in env.iter_mut().zip(values) {
        variable.value = Some(value.clone());
    }
}

fn decode<T: DeserializeOwned>(id: &str, column: &str, text: &str) -> Result<T, StateError> {
    serde_json::from_str(text).map_err(|error| corrupt(id, column, &error))
}

fn corrupt(id: &str, column: &str, error: &serde_json::Error) -> StateError {
    StateError::Corrupt("state.db".into(), format!("{column} of approval {id}: {error}"))
}
