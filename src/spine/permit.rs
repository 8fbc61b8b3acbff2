//! The last stages of an authorization: rates and approval. What is counted, used up and begun is so in one transaction of
//! the store, which nothing that needs none of it opens.

use std::time::Duration;

use rusqlite::Transaction;

use super::asking::{Answered, heard};
use super::authority::{Authority, Authorized, Came, Filing, Passed, Permit, step};
use super::refusals::{denial, refused, unavailable};
use crate::approval::entry::Entry;
use crate::approval::queue::{self, Filed, Terms, Use};
use crate::approval::tell::Told;
use crate::decision::{Decision, Denial, Grant, RuleRef, Stage, Step, listed};
use crate::hook::{self, Heard, Job};
use crate::policy::model::Verdict;
use crate::policy::oversight;
use crate::request::quote::{escape_text, repr};
use crate::state::alerts::{self, Alarm};
use crate::state::rates::{self, Weighed};
use crate::state::sessions::Begun;
use crate::state::{Moment, Refusal, StateError, Store, sessions};
use crate::sys::account::Person;

/// How long an alert's program may take.
const TELLING: Duration = Duration::from_secs(10);

/// What one transaction came to.
enum Kept<'p> {
    /// Counted; what was used for it, whose figure was passed, and the run where its end has to be kept.
    Counted(Option<Box<Entry>>, Vec<Alarm<'p>>, Option<Begun>),
    /// Filed, or filed before and not answered yet. The rates that ask.
    Filed(Filed, Vec<Refusal>),
    /// Rates want a person to be asked, and what an approval would bind to was not looked at yet.
    Asks(Vec<Refusal>),
}

impl Authority<'_> {
    /// The session, before the command is looked at.
    pub(super) fn session(&self, by: &mut Authorized, trace: &mut Vec<Step>) -> Passed<()> {
        if oversight::sessions(self.policies).next().is_none() {
            return Ok(());
        }
        match self.look_at_session(by) {
            Ok(None) => trace.push(step("session", "allow", "nothing stands against it")),
            Ok(Some(refusal)) => {
                trace.push(step("session", "deny", refusal.message.clone()));
                return Err(refused(refusal, Stage::Session).into());
            }
            Err(error) => return Err(unavailable(&error, Stage::Session).into()),
        }
        Ok(())
    }

    /// The first thing that stands against it. A run of it that was cut off halts it from now on.
    fn look_at_session(&self, by: &mut Authorized) -> Result<Option<Refusal>, StateError> {
        let (dir, policies) = (self.store, self.policies);
        let named = by.asker.session.as_deref();
        let view = named.map_or(Ok(None), |_| Store::look(dir))?;
        let (Some(id), Some(mut view)) = (named, view) else {
            return sessions::check(None, dir, policies, named);
        };
        let (refusal, cut_off) = view.read(|db, now| {
            let refusal = sessions::check(Some((db, now)), dir, policies, named)?;
            Ok((refusal, sessions::has_cut_off(db, dir, policies, id)?))
        })?;
        drop(view);
        if cut_off && !self.dry {
            by.halted = Store::open(dir)?
                .transaction(|tx, now| sessions::halt_cut_off(tx, now, dir, self.policies, id))?;
        }
        Ok(refusal)
    }

    /// Rates, approval, and the counting of what is allowed.
    pub(super) fn permit(
        &self,
        mut grant: Grant,
        filing: &Filing,
        by: &mut Authorized,
        trace: &mut Vec<Step>,
    ) -> Passed<Permit> {
        let (ids, called) = (grant.ids.clone(), grant.tool.clone());
        let asker = by.asker.clone();
        let (agent, session) = (asker.agent.as_deref(), asker.session.as_deref());
        let tool = called.as_ref().map(|tool| (tool.name.as_str(), &tool.arguments));
        let call = rates::Call { ids: ids.iter().map(String::as_str).collect(), agent, session, tool };
        let rated = self.rated(&call);
        let in_session = call.session.is_some() && oversight::sessions(self.policies).next().is_some();
        let asks = grant.verdict == Verdict::Ask || filing.approval.is_some();
        if !rated && !in_session && !asks {
            return Ok(Permit::Run(grant, None));
        }
        if self.dry {
            return self.foresee(grant, &call, filing, by, trace);
        }
        let mut answered = None;
        if asks {
            // Nobody is asked about what a rate refuses, and whoever is asked is told of a rate that asks as well.
            let weighed = self.weigh(&call).map_err(|error| unavailable(&error, Stage::Rate))?;
            ask_for(&mut grant, sorted(&weighed).map_err(|denial| *denial)?);
            answered = Some(self.ask(&mut grant, filing, by)?);
        }
        loop {
            let kept = match self.keep(&call, filing, answered.as_ref()) {
                Ok(Ok(kept)) => kept,
                Ok(Err(denial)) => return Err((*denial).into()),
                Err(error) => {
                    let stage = if rated || in_session { Stage::Rate } else { Stage::Approval };
                    return Err(unavailable(&error, stage).into());
                }
            };
            match kept {
                Kept::Counted(used, alarms, begun) => {
                    by.begun = begun;
                    // Told to end meanwhile: it is counted and used up, and still nothing runs.
                    let told = heard(self.tell(&alarms), by).and_then(|()| self.escalate(by));
                    told.inspect_err(|_| by.used(used.as_deref()))?;
                    return Ok(Permit::Run(grant.approved(), used));
                }
                Kept::Filed(filed, asking) => {
                    ask_for(&mut grant, asking);
                    let told = self.notify(&filed, by).and_then(|()| self.escalate(by));
                    told.inspect_err(|_| by.waits(&filed))?;
                    return Ok(Permit::Waits(grant, Box::new(filed)));
                }
                Kept::Asks(asking) => {
                    ask_for(&mut grant, asking);
                    answered = Some(self.ask(&mut grant, filing, by)?);
                }
            }
        }
    }

    /// The kill switch once more, at the very last: a check, whoever was asked or an alert may have thrown it. What was
    /// counted and used up stays so.
    pub(super) fn started(&self, grant: Grant) -> Came {
        match self.switches.iter().find_map(|switch| switch.stops(&grant.ids)) {
            Some(stopped) => denial(&stopped).into(),
            None => Came::To(Box::new(Decision::Allow(grant))),
        }
    }

    /// Weighs, uses and counts in one transaction. Opens no store where only programs or the terminal had a say, and nobody
    /// keeps what they said.
    fn keep(
        &self,
        call: &rates::Call<'_>,
        filing: &Filing,
        answered: Option<&Answered>,
    ) -> Result<Result<Kept<'_>, Box<Denial>>, StateError> {
        let sessions_matter = call.session.is_some() && oversight::sessions(self.policies).next().is_some();
        let rated = self.rated(call);
        let kept = answered.is_some_and(|answered| answered.queue || answered.kept_as.is_some());
        if !sessions_matter && !rated && !kept {
            return Ok(Ok(Kept::Counted(None, Vec::new(), None)));
        }
        if let Some(id) = &filing.approval
            && self.store.symlink_metadata().is_err()
        {
            return Ok(Err(queue::unknown(id)));
        }
        let session = call.session.filter(|_| sessions_matter);
        let mut store = Store::open(self.store)?;
        store.attempt(|tx, now| {
            if let Some(refusal) = sessions::check(Some((tx, now)), self.store, self.policies, call.session)?
            {
                return Ok(Err(Box::new(refused(refusal, Stage::Session))));
            }
            let weighed = rates::weigh(Some((tx, now)), self.policies, call)?;
            let asking = match sorted(&weighed) {
                Ok(asking) => asking,
                Err(denial) => return Ok(Err(denial)),
            };
            let used = match answered {
                None if asking.is_empty() => None,
                None => return Ok(Ok(Kept::Asks(asking))),
                Some(answered) => match self.use_or_file(tx, now, filing, answered)? {
                    Ok(Some(Use::Run(entry))) => Some(entry),
                    Ok(Some(Use::Wait(filed))) => {
                        // It is a call of the session, whose time runs from the first one.
                        session.map_or(Ok(()), |id| sessions::begin(tx, now, self.policies, id))?;
                        return Ok(Ok(Kept::Filed(filed, asking)));
                    }
                    Ok(None) => None,
                    Err(denial) => return Ok(Err(denial)),
                },
            };
            rates::count(tx, now, &weighed)?;
            let mut begun = None;
            if let Some(id) = session {
                sessions::count_run(tx, now, self.policies, id)?;
                if sessions::is_kept(self.policies) {
                    begun = Some(sessions::run_begins(tx, now, self.store, id, self.run_id)?);
                }
            }
            Ok(Ok(Kept::Counted(used, alerts::note_rates(tx, now, self.policies, &weighed)?, begun)))
        })
    }

    /// Uses the approval that the call names, or files the request for one; where neither is needed, nothing. What was
    /// answered at once is used where it lets the call go on.
    fn use_or_file(
        &self,
        tx: &Transaction<'_>,
        now: &Moment,
        filing: &Filing,
        answered: &Answered,
    ) -> Result<Result<Option<Use>, Box<Denial>>, StateError> {
        let came = match &filing.approval {
            _ if !answered.queue => None,
            Some(id) => Some(queue::consume(tx, now, id, &answered.bound, self.run_id)?),
            None => {
                let terms = Terms::of(&oversight::asked(self.policies, oversight::can_ask));
                Some(answered.file(tx, now, terms, &Person::here())?.map(Use::Wait))
            }
        };
        let came = came.transpose();
        if let Ok(None | Some(Use::Run(_))) = came {
            answered.use_up(tx, now, self.run_id)?;
        }
        Ok(came)
    }

    /// What the rates hold now. Looks at no store where none speaks of the call.
    fn weigh(&self, call: &rates::Call<'_>) -> Result<Vec<Weighed<'_>>, StateError> {
        if !self.rated(call) {
            return Ok(Vec::new());
        }
        match Store::look(self.store)? {
            None => rates::weigh(None, self.policies, call),
            Some(mut view) => view.read(|db, now| rates::weigh(Some((db, now)), self.policies, call)),
        }
    }

    /// Whether any rate speaks of the call.
    fn rated(&self, call: &rates::Call<'_>) -> bool {
        let mut rates = self.policies.iter().flat_map(|p| &p.oversight.rates);
        rates.any(|rate| rate.speaks_of(&call.ids) && listed(rate.agents.as_deref(), call.agent))
    }

    /// What the rates and an approval would say, without counting or using anything.
    fn foresee(
        &self,
        mut grant: Grant,
        call: &rates::Call<'_>,
        filing: &Filing,
        by: &Authorized,
        trace: &mut Vec<Step>,
    ) -> Passed<Permit> {
        let weighed = self.weigh(call).map_err(|error| unavailable(&error, Stage::Rate))?;
        for one in &weighed {
            trace.push(Step {
                stage: "rate",
                outcome: one.verdict().as_str().to_owned(),
                detail: one.to_json().to_string(),
                rule: Some(RuleRef { id: one.rate.name.clone(), at: one.rate.at.clone() }),
            });
        }
        ask_for(&mut grant, sorted(&weighed).map_err(|denial| *denial)?);
        if filing.approval.is_some() {
            return self.foresee_use(grant, filing, by, trace);
        }
        if grant.verdict == Verdict::Ask {
            let asked = oversight::asked(self.policies, oversight::can_ask);
            trace.push(step("approval", "ask", asked.in_words()));
            return Err(Came::To(Box::new(Decision::Ask(grant))));
        }
        Ok(Permit::Run(grant, None))
    }

    /// Runs the programs of alerts whose figure was passed. One that fails changes nothing, and is warned of: nobody was told,
    /// and nobody is for a window.
    pub(super) fn tell(&self, alarms: &[Alarm<'_>]) -> Told {
        let paths: Vec<_> = alarms.iter().map(|alarm| crate::decision::policy_path(alarm.policy)).collect();
        let job = |(alarm, path)| -> Job<'_> {
            let (alarm, path): (&Alarm<'_>, &Vec<std::path::PathBuf>) = (alarm, path);
            let mut input = alarm.facts.to_string().into_bytes();
            input.push(b'\n');
            Job { name: &alarm.alert.name, hook: &alarm.alert.run, input, timeout: TELLING, path }
        };
        let jobs: Vec<Job<'_>> = alarms.iter().zip(&paths).map(job).collect();
        let heard = hook::run_all(jobs, self.facts, None);
        let untold = |(alarm, heard): (&Alarm<'_>, &Heard)| {
            let (name, at) = (repr(alarm.alert.name.as_bytes()), escape_text(&alarm.alert.at.to_string()));
            Some(format!(
                "nobody was told of the alert {name} ({at}): its program failed: {}",
                heard.failure()?
            ))
        };
        Told {
            warnings: alarms.iter().zip(&heard).filter_map(untold).collect(),
            cancelled: heard.iter().find_map(Heard::cancelled),
        }
    }
}

/// Those that ask.
///
/// # Errors
/// The first that denies.
fn sorted(weighed: &[Weighed<'_>]) -> Result<Vec<Refusal>, Box<Denial>> {
    let denied = weighed.iter().find(|one| one.verdict() == Verdict::Deny).and_then(Weighed::refusal);
    if let Some(refusal) = denied {
        return Err(Box::new(refused(refusal, Stage::Rate)));
    }
    let asking = weighed.iter().filter(|one| one.verdict() == Verdict::Ask);
    Ok(asking.filter_map(Weighed::refusal).collect())
}

/// Has a person asked for each of these rates.
fn ask_for(grant: &mut Grant, asking: Vec<Refusal>) {
    for Refusal { name, at, message, .. } in asking {
        grant.ask_for(RuleRef { id: name, at }, message);
    }
}
