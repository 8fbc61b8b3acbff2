//! Handing out an output that was withheld: to one call, once, and only where nothing else stands against it. Nothing runs,
//! nothing is counted, and no check is asked again.

use super::authority::{Authority, Authorized, Came, Passed, step};
use super::refusals::denial;
use super::refusals::{refused, unavailable};
use crate::approval::entry::{Entry, State};
use crate::approval::queue::{self, Filed};
use crate::decision::{self, Denial, Stage, Step};
use crate::report::result::ResultDoc;
use crate::report::withheld::Withholding;
use crate::request::Request;
use crate::state::{StateError, Store, sessions};

/// Which call wants an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    /// One that names the approval and nothing else.
    Later,
    /// The one whose run it was, which waits for the answer. What its own run halted stops later calls alone.
    Itself,
}

/// What came of a look at it.
enum Found {
    /// It goes out: the approval is used up, unless this was only a look.
    Out(Box<Entry>, Box<ResultDoc>),
    /// Nobody has answered yet.
    Waits(Box<Entry>, Box<ResultDoc>),
}

impl Authority<'_> {
    /// Hands out what waits under an approval to a call that names it and nothing else.
    pub(super) fn release(
        &self,
        entry: &Entry,
        asked: &Request,
        by: &mut Authorized,
        trace: &mut Vec<Step>,
    ) -> Came {
        let mut asks = || -> Passed<Vec<String>> {
            entry.is_for(asked)?;
            by.asker = entry.asker();
            by.argv = Some(entry.words()).filter(|words| !words.is_empty());
            decision::settle_asker(&mut by.asker, self.facts.agent.as_deref())?;
            self.session(by, trace)?;
            Ok(entry.bound.output.as_ref().map(|output| output.ids.clone()).unwrap_or_default())
        };
        match asks() {
            Ok(ids) => self.hand_out(&entry.id, &ids, Wants::Later, by, trace),
            Err(ended) => ended,
        }
    }

    /// Hands it out, or waits for an answer as long as the call does.
    pub(super) fn hand_out(
        &self,
        id: &str,
        ids: &[String],
        wants: Wants,
        by: &mut Authorized,
        trace: &mut Vec<Step>,
    ) -> Came {
        let mut wait = self.wait.filter(|_| !self.dry);
        loop {
            if let Some(stopped) = self.switches.iter().find_map(|switch| switch.stops(ids)) {
                return denial(&stopped).into();
            }
            let found = match self.take(id, wants, by) {
                Ok(Ok(found)) => found,
                Ok(Err(denial)) => {
                    trace.push(step("approval", "deny", denial.message.clone()));
                    return (*denial).into();
                }
                Err(error) => return unavailable(&error, Stage::Approval).into(),
            };
            let told = self.escalate(by);
            let (entry, result) = match found {
                // Used up by now: it goes out, whatever ended the telling.
                Found::Out(entry, result) => {
                    trace.push(step("approval", "allow", would(&entry)));
                    by.used(Some(&entry));
                    return Came::Gives(result);
                }
                Found::Waits(entry, result) => (entry, result),
            };
            if let Err(ended) = told {
                return ended;
            }
            let filed = Filed::of(&entry);
            by.waits(&filed);
            trace.push(step("approval", "ask", filed.hint()));
            let Some(time) = wait.take() else {
                let Some(cause) = entry.bound.causes.first() else { return (*queue::unknown(id)).into() };
                return Came::Withholds(result, Withholding::by(cause, filed.hint()));
            };
            if let Err(ended) = self.await_answer(&filed, time, ids, by) {
                return ended;
            }
        }
    }

    /// Looks at it and uses the approval up, in one transaction.
    fn take(
        &self,
        id: &str,
        wants: Wants,
        by: &Authorized,
    ) -> Result<Result<Found, Box<Denial>>, StateError> {
        if self.dry {
            let Some(mut view) = Store::look(self.store)? else { return Ok(Err(queue::unknown(id))) };
            return view.read(|db, now| match queue::check_output(db, now, id, self.policies)? {
                Ok(entry) => found(entry).map(Ok),
                Err(denial) => Ok(Err(denial)),
            });
        }
        Store::open(self.store)?.attempt(|tx, now| {
            if wants == Wants::Later
                && let Some(refusal) =
                    sessions::check(Some((tx, now)), self.store, self.policies, by.asker.session.as_deref())?
            {
                return Ok(Err(Box::new(refused(refusal, Stage::Session))));
            }
            let used = match queue::check_output(tx, now, id, self.policies)? {
                Ok(entry) => found(entry)?,
                Err(denial) => return Ok(Err(denial)),
            };
            if let Found::Out(entry, _) = &used {
                queue::hand_out(tx, now, entry, self.run_id)?;
            }
            Ok(Ok(used))
        })
    }
}

/// The result that is kept.
fn found(entry: Entry) -> Result<Found, StateError> {
    let line = entry.kept.as_ref().and_then(|kept| kept.result()).unwrap_or_default();
    let result = ResultDoc::of_line(line).map(Box::new).map_err(|error| {
        StateError::Corrupt("state.db".into(), format!("private of approval {}: {error}", entry.id))
    })?;
    Ok(match entry.state {
        State::Approved => Found::Out(Box::new(entry), result),
        _ => Found::Waits(Box::new(entry), result),
    })
}

/// What handing it out gives, in one sentence without any of it.
fn would(entry: &Entry) -> String {
    let Some(output) = &entry.bound.output else { return String::new() };
    format!(
        "{} is approved and was not used: it gives the result of run {}, which is over: {}, {} bytes on standard output, {} on \
         standard error",
        entry.id,
        output.run_id,
        output.ending(),
        output.stdout.kept.size,
        output.stderr.kept.size
    )
}
