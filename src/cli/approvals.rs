//! `approvals`: what waits for a person, and the answers.

use std::path::PathBuf;

use serde_json::Value;

use super::args::{ApprovalsVerb, ExportArgs, IdArgs, ListArgs, PolicyArgs};
use super::deliver::{put, say, say_policy};
use super::store::UNUSABLE;
use crate::Surroundings;
use crate::approval::document::record;
use crate::approval::entry::Entry;
use crate::approval::program::Around;
use crate::approval::screen::Paper;
use crate::approval::{queue, tell};
use crate::decision::Denial;
use crate::policy::error::{ErrorKind, PolicyError};
use crate::policy::model::Policy;
use crate::policy::oversight;
use crate::policy::stack::{Search, Stack};
use crate::report::json::to_line;
use crate::request::quote::{escape_text, repr};
use crate::state::approvals::{self as table, PAGE};
use crate::state::place;
use crate::state::{Moment, StateError, Store, View};

mod answer;

/// Exit status where a request cannot be shown or answered.
const REFUSED: u8 = 1;
/// Exit status where an agent wants to answer, or to see what waits for an answer.
const DENIED: u8 = 126;

/// Why a verb did not do its work.
enum Trouble {
    /// The request is not there or cannot be answered.
    Refused(Box<Denial>),
    /// Whoever calls is an agent.
    Agent,
    /// The same, and it wants to see an output.
    Untold,
    /// guardexec was told to end by this signal, while it told somebody of a request.
    Ended(i32),
    /// The policy cannot be used.
    Policy(PolicyError),
    /// The store cannot be used.
    State(StateError),
    /// Anything else that makes it impossible: a sentence and what to do.
    Unusable(String, Option<String>),
}

impl From<PolicyError> for Trouble {
    fn from(error: PolicyError) -> Trouble {
        Trouble::Policy(error)
    }
}

impl From<StateError> for Trouble {
    fn from(error: StateError) -> Trouble {
        Trouble::State(error)
    }
}

impl From<Box<Denial>> for Trouble {
    fn from(denial: Box<Denial>) -> Trouble {
        Trouble::Refused(denial)
    }
}

impl Trouble {
    /// Says it on standard error, and gives the exit status.
    fn tell(self) -> u8 {
        let (status, message, hint) = match self {
            Trouble::Refused(denial) => (REFUSED, denial.message, denial.hint),
            Trouble::Agent => {
                let message = "GUARDEXEC_AGENT is set: an asker does not answer itself";
                let hint = "a person answers, from an environment without it";
                (DENIED, message.to_owned(), Some(hint.to_owned()))
            }
            Trouble::Untold => {
                let message =
                    "GUARDEXEC_AGENT is set: an asker does not see an output before it is given to it";
                let hint =
                    "once a person has approved it, it is had with --approval and no command, and only once";
                (DENIED, message.to_owned(), Some(hint.to_owned()))
            }
            Trouble::Ended(signal) => {
                (u8::try_from(128 + signal).unwrap_or(UNUSABLE), format!("ended by signal {signal}"), None)
            }
            Trouble::Policy(error) => {
                say_policy(&error);
                return UNUSABLE;
            }
            Trouble::State(error) => (UNUSABLE, error.to_string(), Some(error.hint())),
            Trouble::Unusable(message, hint) => (UNUSABLE, message, hint),
        };
        say(&escape_text(&format!("guardexec: error: {message}")));
        if let Some(hint) = hint {
            say(&escape_text(&format!("hint: {hint}")));
        }
        status
    }
}

/// `approvals`: 0 done; 1 there is no such request or it cannot be answered; 125 policy or store unusable; 126 an agent wants
/// to answer, or to see an output.
pub fn approvals(verb: &ApprovalsVerb, around: &Surroundings) -> u8 {
    let done = match verb {
        ApprovalsVerb::List(args) => list(args, around),
        ApprovalsVerb::Show(args) => show(args, around),
        ApprovalsVerb::Export(args) => export(args, around),
        ApprovalsVerb::Approve(args) => answer::approve(args, around),
        ApprovalsVerb::Decline(args) => answer::decline(args, around),
    };
    done.map_or_else(Trouble::tell, |()| 0)
}

/// The policies that a run would use, and where its store is.
struct Office<'a> {
    policies: Vec<Policy>,
    dir: PathBuf,
    around: &'a Surroundings,
}

impl<'a> Office<'a> {
    fn find(args: &PolicyArgs, around: &'a Surroundings) -> Result<Office<'a>, Trouble> {
        let search = Search { given: args.policies.clone(), ..around.search.clone() };
        let named = !search.given.is_empty() || search.env_policy.is_some();
        let policies = match Stack::load(&search, &around.load) {
            Ok(stack) => stack.policies,
            // Whoever answers need not have a policy of their own.
            Err(error) if error.kind == ErrorKind::NotFound && !named => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let dir = place::resolve(&policies, &around.caller(args.state.clone()))?;
        Ok(Office { policies, dir, around })
    }

    /// Where an agent's name is inherited, whoever calls is that agent.
    fn is_agents(&self) -> bool {
        self.around.facts.agent.is_some()
    }

    /// The store as it is now; `None` where nothing was ever kept.
    fn look(&self) -> Result<Option<View>, Trouble> {
        Ok(Store::look(&self.dir)?)
    }

    /// Tells those who are to be told of what nobody answers: there is no daemon that could.
    fn escalate(&self) -> Result<(), Trouble> {
        let asked = oversight::asked(&self.policies, oversight::can_ask);
        let around = Around { policies: &self.policies, facts: &self.around.facts, stop: None };
        match tell::overdue(&self.dir, &asked, &around) {
            Ok(told) => {
                told.warnings.iter().for_each(|w| say(&escape_text(&format!("guardexec: warning: {w}"))));
                told.cancelled.map_or(Ok(()), |signal| Err(Trouble::Ended(signal)))
            }
            Err(error) => {
                // What is wrong with the store as a whole is said once, by whoever looks at it next.
                if self.look().is_ok() {
                    say(&escape_text(&format!("guardexec: warning: {error}")));
                }
                Ok(())
            }
        }
    }

    /// One request, with what was answered lately to the same rule, or another reading of the store at the same moment.
    fn entry<T>(
        &self,
        id: &str,
        read: impl FnOnce(&rusqlite::Connection, &Moment, Entry) -> Result<T, StateError>,
    ) -> Result<T, Trouble> {
        let Some(mut view) = self.look()? else { return Err(queue::unknown(id).into()) };
        let found = view.read(|db, now| match queue::find(db, now, id)? {
            Ok(entry) => read(db, now, entry).map(Ok),
            Err(denial) => Ok(Err(denial)),
        })?;
        Ok(found?)
    }

    /// Hands out the requests in their order, without holding the store while they are dealt with.
    fn each(&self, all: bool, mut deal: impl FnMut(&Entry)) -> Result<(), Trouble> {
        let Some(mut view) = self.look()? else { return Ok(()) };
        let mut behind = 0;
        loop {
            let page = view.read(|db, now| {
                let rows = table::page(db, now, all, behind)?;
                rows.into_iter()
                    .map(|(number, row)| Ok((number, Entry::of(row, now)?)))
                    .collect::<Result<Vec<_>, _>>()
            })?;
            for (number, entry) in &page {
                behind = *number;
                deal(entry);
            }
            if page.len() < PAGE as usize {
                return Ok(());
            }
        }
    }
}

/// `approvals list`.
fn list(args: &ListArgs, around: &Surroundings) -> Result<(), Trouble> {
    let office = Office::find(&args.policy, around)?;
    office.escalate()?;
    let mut records = Vec::new();
    let mut table = vec![["ID", "STATE", "EXPIRES", "AGENT", "ASKED BY", "WHAT"].map(str::to_owned)];
    office.each(args.all, |entry| {
        if args.json {
            records.push(record(entry, office.is_agents()));
        } else {
            table.push(line(entry));
        }
    })?;
    if args.json {
        print(&Value::Array(records));
    } else if table.len() > 1 {
        put(aligned(&table).as_bytes());
    } else {
        put(b"nothing waits for an answer\n");
    }
    Ok(())
}

/// The columns of a request. Its words are not among them: a part of them would hide the rest.
fn line(entry: &Entry) -> [String; 6] {
    let bound = &entry.bound;
    let what = match bound.argv.len() {
        0 | 1 => bound.subject(),
        words => format!("{}, {words} words", bound.subject()),
    };
    let causes: Vec<String> = bound.causes.iter().map(|cause| repr(cause.id.as_bytes())).collect();
    [
        entry.id.clone(),
        entry.state.as_str().to_owned(),
        entry.expires_at.clone(),
        bound.agent.as_ref().map_or_else(|| "-".to_owned(), |agent| repr(agent.as_bytes())),
        causes.join(", "),
        what,
    ]
}

fn aligned(rows: &[[String; 6]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// `approvals show`.
fn show(args: &IdArgs, around: &Surroundings) -> Result<(), Trouble> {
    let office = Office::find(&args.policy, around)?;
    office.escalate()?;
    let (entry, lately) = office
        .entry(&args.id, |db, now, entry| Ok((queue::lately(db, now, &entry)?, entry)))
        .map(|(lately, entry)| (entry, lately))?;
    if entry.bound.output.is_some() && office.is_agents() {
        return Err(Trouble::Untold);
    }
    let paper = Paper::of(&entry, &lately);
    if args.json {
        print(&paper.document());
    } else {
        put(paper.screen().as_bytes());
    }
    Ok(())
}

/// `approvals export`.
fn export(args: &ExportArgs, around: &Surroundings) -> Result<(), Trouble> {
    let office = Office::find(&args.policy, around)?;
    office.each(true, |entry| print(&record(entry, office.is_agents())))
}

/// One line of JSON that is safe on a terminal.
fn print(value: &Value) {
    let line = to_line(value).expect("keys are strings");
    put(format!("{line}\n").as_bytes());
}
