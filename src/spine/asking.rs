//! Asking a person, as a part of one authorization: what an approval binds to, those who answer at once, those who are told,
//! and the wait for an answer.

use std::time::Duration;

use rusqlite::Transaction;

use super::answered::AnsweredTo;
use super::authority::{Authority, Authorized, Came, Filing, Passed, Permit, step};
use super::refusals::{not_kept, unavailable};
use crate::approval::bound::{Asking, Bound, Cause};
use crate::approval::entry::Entry;
use crate::approval::kept::Kept;
use crate::approval::program::Around;
use crate::approval::queue::{self, Filed, Terms, Use};
use crate::approval::screen::{Paper, answerer};
use crate::approval::tell::Told;
use crate::approval::vigil::Vigil;
use crate::approval::wait::{self, Waited};
use crate::approval::{self, Reply, tell};
use crate::decision::{Denial, Grant, Stage, Step};
use crate::policy::oversight;
use crate::request::{Ask, Request, Stdin};
use crate::run::Stop;
use crate::state::{Moment, StateError, Store};
use crate::sys::account::Person;

/// What stands in the place of a command where only an approval is named.
pub(super) enum Stored {
    /// A request: the filed one, or the call's own.
    Request(Box<Request>),
    /// The output of a run that is over, and the call that wants it.
    Output(Box<Entry>, Box<Request>),
}

/// A request to which those said yes who answer at once.
pub(super) struct Answered {
    /// What an approval binds to.
    pub bound: Bound,
    /// What is filed with it.
    pub kept: Kept,
    /// Somebody has to answer by way of the store besides.
    pub queue: bool,
    /// Under which id the store has their answer, where it keeps such.
    pub kept_as: Option<String>,
}

impl Answered {
    /// Files it for whoever answers later.
    pub(super) fn file(
        &self,
        tx: &Transaction<'_>,
        now: &Moment,
        terms: Terms,
        by: &Person,
    ) -> Result<Result<Filed, Box<Denial>>, StateError> {
        queue::file(tx, now, queue::Filing { bound: &self.bound, kept: self.kept.clone(), terms, by })
    }

    /// Notes that what was answered at once is used now.
    pub(super) fn use_up(&self, tx: &Transaction<'_>, now: &Moment, run_id: &str) -> Result<(), StateError> {
        self.kept_as.as_ref().map_or(Ok(()), |id| queue::use_answer(tx, now, id, run_id))
    }
}

impl Authority<'_> {
    /// What has to be kept of a request before judging takes it apart.
    pub(super) fn filing(&self, request: &Request) -> Filing {
        let may = request.approval.is_some() || self.policies.iter().any(oversight::can_ask);
        Filing {
            approval: request.approval.clone(),
            evidence: request.evidence.clone(),
            kept: may.then(|| Kept::of(request, self.facts, self.policies)),
        }
    }

    /// The request that was filed under `--approval`, in place of one without a command.
    pub(super) fn stored(&self, request: Request) -> Passed<Stored> {
        let (Ask::Stored, Some(id)) = (&request.ask, &request.approval) else {
            return Ok(Stored::Request(Box::new(request)));
        };
        let found = || -> Result<Result<_, Box<Denial>>, StateError> {
            let Some(mut view) = Store::look(self.store)? else { return Ok(Err(queue::unknown(id))) };
            view.read(|db, now| queue::find(db, now, id))
        };
        match found() {
            Ok(Ok(entry)) if entry.bound.output.is_some() => {
                Ok(Stored::Output(Box::new(entry), Box::new(request)))
            }
            Ok(Ok(entry)) => match entry.request(request) {
                Ok(request) => Ok(Stored::Request(Box::new(request))),
                Err(ended) => Err(ended.into()),
            },
            Ok(Err(denial)) => Err((*denial).into()),
            Err(error) => Err(unavailable(&error, Stage::Approval).into()),
        }
    }

    pub(super) fn look<'s>(&'s self, ids: &'s [String]) -> impl Fn() -> bool + 's {
        move || self.switches.iter().any(|switch| switch.stops(ids).is_some())
    }

    pub(super) fn stop<'s>(&self, look: &'s dyn Fn() -> bool) -> Stop<'s> {
        (!self.switches.is_empty()).then_some(look)
    }

    /// Looks at what an approval would bind to, and asks all who answer at once.
    pub(super) fn ask(&self, grant: &mut Grant, filing: &Filing, by: &mut Authorized) -> Passed<Answered> {
        let ids = grant.ids.clone();
        let look = self.look(&ids);
        let stop = self.stop(&look);
        let asked = oversight::asked(self.policies, oversight::can_ask);
        let mut kept = filing.kept.clone();
        if matches!(grant.stdin, Stdin::Relay) {
            let bytes =
                wait::own_input(asked.timeout, stop).map_err(|reply| self.replied(reply, &ids, by))?;
            kept = kept.map(|kept| kept.with_input(&bytes));
            by.input = self.wait.is_some().then(|| bytes.clone());
            grant.stdin = Stdin::Bytes(bytes);
        }
        let bound = self.bound(grant, filing, by)?;
        let evidence = filing.evidence.as_ref().map(|evidence| evidence.bytes.as_slice());
        let paper = Paper { bound: &bound, evidence, output: None, entry: None, lately: None };
        let around = Around { policies: self.policies, facts: self.facts, stop };
        let mut kept_as = None;
        match approval::ask(&asked, &paper, &around) {
            None | Some(Reply::Approved { .. }) if filing.kept.is_none() => {
                // A request that no policy can ask about was not kept.
                return Err(not_kept().into());
            }
            None => {}
            Some(reply) => {
                // The refusal is one sentence that callers look for; why it was refused stands beside it.
                if let Reply::Declined { by: Some(who), said: Some(said), .. } = &reply {
                    by.warnings.push(format!("{} did not approve: {said}", answerer(who)));
                }
                let used_by = None;
                kept_as = self.answered(reply, AnsweredTo { bound: &bound, ids: &ids, used_by }, by)?;
                self.still_so(&bound, grant, filing, by)?;
            }
        }
        let kept = kept.ok_or_else(not_kept)?;
        Ok(Answered { bound, kept, queue: asked.queue || filing.approval.is_some(), kept_as })
    }

    /// Whoever answered at once took time for it: what was answered has to be what is there now.
    fn still_so(&self, asked: &Bound, grant: &Grant, filing: &Filing, by: &Authorized) -> Passed<()> {
        match asked.difference(&self.bound(grant, filing, by)?) {
            None => Ok(()),
            Some(difference) => Err(approval::changed_meanwhile(&difference.what).into()),
        }
    }

    /// What an approval of the output would bind to, as far as it is known before the run.
    pub(super) fn bound_before(&self, grant: &Grant, by: &Authorized) -> Result<Bound, Box<Denial>> {
        let evidence = by.filing.as_ref().and_then(|filing| filing.evidence.as_ref());
        let asking = Asking { asker: &by.asker, evidence, causes: Vec::new(), policies: self.policies };
        Bound::of_run(grant, asking)
    }

    fn bound(&self, grant: &Grant, filing: &Filing, by: &Authorized) -> Passed<Bound> {
        // An approval that is there answers whatever check or rate asks now; what it was given for are the rules.
        let by_rule = !grant.asks.is_empty();
        let asking = Asking {
            asker: &by.asker,
            evidence: filing.evidence.as_ref(),
            causes: (by_rule || filing.approval.is_none())
                .then(|| Cause::of_grant(grant))
                .into_iter()
                .collect(),
            policies: self.policies,
        };
        Bound::of(grant, asking).map_err(|denial| (*denial).into())
    }

    /// Tells those who are to be told of what was just filed.
    ///
    /// # Errors
    /// guardexec was told to end meanwhile.
    pub(super) fn notify(&self, filed: &Filed, by: &mut Authorized) -> Passed<()> {
        let asked = oversight::asked(self.policies, oversight::can_ask);
        if !filed.fresh || asked.notify.is_empty() {
            return Ok(());
        }
        let found = || -> Result<Option<_>, StateError> {
            let Some(mut view) = Store::look(self.store)? else { return Ok(None) };
            view.read(|db, now| match queue::find(db, now, &filed.id)? {
                Ok(entry) => Ok(Some((queue::lately(db, now, &entry)?, entry))),
                Err(_) => Ok(None),
            })
        };
        let around = Around { policies: self.policies, facts: self.facts, stop: None };
        match found() {
            Ok(Some((lately, entry))) => {
                heard(tell::filed(&asked, &Paper::of(&entry, &lately), &around), by)?;
            }
            Ok(None) => {}
            Err(error) => by.warnings.push(format!("nobody was told of what was filed: {error}")),
        }
        Ok(())
    }

    /// Tells those who are to be told of what nobody answers: there is no daemon that could.
    ///
    /// # Errors
    /// guardexec was told to end meanwhile.
    pub(super) fn escalate(&self, by: &mut Authorized) -> Passed<()> {
        let asked = oversight::asked(self.policies, oversight::can_ask);
        if asked.escalate.is_empty() {
            return Ok(());
        }
        let around = Around { policies: self.policies, facts: self.facts, stop: None };
        match tell::overdue(self.store, &asked, &around) {
            Ok(told) => heard(told, by)?,
            Err(error) => by.warnings.push(format!("nobody was told of what waits for an answer: {error}")),
        }
        Ok(())
    }

    /// Waits for the answer to what was filed. `Ok`: it was given, whatever it is, and the request is to be judged again.
    pub(super) fn await_answer(
        &self,
        filed: &Filed,
        time: Duration,
        ids: &[String],
        by: &mut Authorized,
    ) -> Passed<()> {
        let look = self.look(ids);
        let failed = |error: &StateError| Came::from(unavailable(error, Stage::Approval));
        let broken =
            |error| failed(&StateError::Io { path: "/proc".into(), doing: "wait with", source: error });
        let asked = oversight::asked(self.policies, oversight::can_ask);
        let vigil = Vigil::begin(time, self.stop(&look)).map_err(broken)?;
        loop {
            let mut view =
                Store::look(self.store).map_err(|e| failed(&e))?.ok_or_else(|| queue_gone(filed))?;
            let waited = wait::answer(&mut view, &filed.id, &vigil, !asked.escalate.is_empty());
            drop(view);
            match waited.map_err(|e| failed(&e))? {
                Waited::Settled => return Ok(()),
                Waited::Escalation => self.escalate(by)?,
                Waited::Late => return Err((*wait::unanswered(filed, time)).into()),
                Waited::Cancelled(signal) => return Err(Came::Cancelled(signal)),
                Waited::Stopped => return Err(self.stopped_meanwhile(ids)),
            }
        }
    }

    /// What using the approval would come to.
    pub(super) fn foresee_use(
        &self,
        mut grant: Grant,
        filing: &Filing,
        by: &Authorized,
        trace: &mut Vec<Step>,
    ) -> Passed<Permit> {
        let id = filing.approval.as_deref().unwrap_or_default();
        let relayed = matches!(grant.stdin, Stdin::Relay);
        if relayed {
            grant.stdin = Stdin::Null;
        }
        let mut bound = self.bound(&grant, filing, by)?;
        let mut checked = || -> Result<Result<Use, Box<Denial>>, StateError> {
            let Some(mut view) = Store::look(self.store)? else { return Ok(Err(queue::unknown(id))) };
            view.read(|db, now| {
                // What is relayed is not read here: the answer is to everything else.
                if let (true, Ok(entry)) = (relayed, queue::find(db, now, id)?) {
                    bound.stdin = entry.bound.stdin;
                }
                queue::check(db, now, id, &bound)
            })
        };
        match checked() {
            Ok(Ok(Use::Run(_))) => {
                trace.push(step("approval", "allow", format!("{id} is approved and was not used")));
                Ok(Permit::Run(grant.approved(), None))
            }
            Ok(Ok(Use::Wait(filed))) => {
                trace.push(step("approval", "ask", filed.hint()));
                Ok(Permit::Waits(grant, Box::new(filed)))
            }
            Ok(Err(denial)) => {
                trace.push(step("approval", "deny", denial.message.clone()));
                Err((*denial).into())
            }
            Err(error) => Err(unavailable(&error, Stage::Approval).into()),
        }
    }
}

/// Warns of those who could not be told.
///
/// # Errors
/// guardexec was told to end meanwhile.
pub(super) fn heard(told: Told, by: &mut Authorized) -> Passed<()> {
    by.warnings.extend(told.warnings);
    told.cancelled.map_or(Ok(()), |signal| Err(Came::Cancelled(signal)))
}

fn queue_gone(filed: &Filed) -> Came {
    (*queue::unknown(&filed.id)).into()
}
