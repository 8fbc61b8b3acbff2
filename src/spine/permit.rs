//! The last stages of an authorization: rates and approval. What is counted, used up and begun is so in one transaction of
//! the store, which nothing that needs none of it opens.

use std::time::Duration;

use super::asking::{Answered, Filing, heard};
use super::authorize::{Authority, Authorized, Came, Passed, denial, step};
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
use crate::state::{Refusal, StateError, Store, sessions};
use crate::sys::account::Person;

/// How long an alert's program may take.
const TELLING: Duration = Duration::from_secs(10);

/// What the last stages came to.
pub(super) enum Permit {
    /// It may run; with what was used for it, where something was.
    Run(Grant, Option<Box<Entry>>),
    /// It waits for an answer.
    Waits(Grant, Box<Filed>),
}

/// What one transaction came to.
enum Kept<'p> {
    /// Counted; what was used for it, whose figure was passed, and the run where its end has to be kept.
    Counted(Option<Box<Entry>>, Vec<Alarm<'p>>, Option<Begun>),
    /// Filed, or filed before and not answered yet. Why rates ask.
    Filed(Filed, Vec<String>),
    /// Rates want a person to be asked, and what an approval would bind to was not looked at yet.
    Asks(Vec<String>),
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
            by.halted = Store::open(dir)?.transaction(|tx, now| sessions::halt_cut_off(tx, now, dir, id))?;
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
            let sentences = sorted(&weighed).map_err(|denial| *denial)?;
            sentences.into_iter().for_each(|sentence| grant.ask_for(sentence));
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
                Kept::Filed(filed, sentences) => {
                    sentences.into_iter().for_each(|sentence| grant.ask_for(sentence));
                    let told = self.notify(&filed, by).and_then(|()| self.escalate(by));
                    told.inspect_err(|_| by.waits(&filed))?;
                    return Ok(Permit::Waits(grant, Box::new(filed)));
                }
                Kept::Asks(sentences) => {
                    sentences.into_iter().for_each(|sentence| grant.ask_for(sentence));
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

    /// Weighs, uses and counts in one transaction. Opens no store where only programs or the terminal had a say.
    fn keep(
        &self,
        call: &rates::Call<'_>,
        filing: &Filing,
        answered: Option<&Answered>,
    ) -> Result<Result<Kept<'_>, Box<Denial>>, StateError> {
        let sessions_matter = call.session.is_some() && oversight::sessions(self.policies).next().is_some();
        let rated = self.rated(call);
        let queued = answered.is_some_and(|answered| answered.queue);
        if !sessions_matter && !rated && !queued {
            return Ok(Ok(Kept::Counted(None, Vec::new(), None)));
        }
        let asked = oversight::asked(self.policies, oversight::can_ask);
        let terms = Terms::of(&asked);
        let person = Person::here();
        if let Some(id) = &filing.approval
            && self.store.symlink_metadata().is_err()
        {
            return Ok(Err(queue::unknown(id)));
        }
        let mut store = Store::open(self.store)?;
        store.attempt(|tx, now| {
            if let Some(refusal) = sessions::check(Some((tx, now)), self.store, self.policies, call.session)?
            {
                return Ok(Err(Box::new(refused(refusal, Stage::Session))));
            }
            let weighed = rates::weigh(Some((tx, now)), self.policies, call)?;
            let sentences = match sorted(&weighed) {
                Ok(sentences) => sentences,
                Err(denial) => return Ok(Err(denial)),
            };
            let mut used = None;
            match answered {
                None if sentences.is_empty() => {}
                None => return Ok(Ok(Kept::Asks(sentences))),
                Some(answered) if !answered.queue => {}
                Some(answered) => {
                    let came = match &filing.approval {
                        Some(id) => queue::consume(tx, now, id, &answered.bound, self.run_id)?,
                        None => answered.file(tx, now, terms, &person)?.map(Use::Wait),
                    };
                    match came {
                        Ok(Use::Run(entry)) => used = Some(entry),
                        Ok(Use::Wait(filed)) => return Ok(Ok(Kept::Filed(filed, sentences))),
                        Err(denial) => return Ok(Err(denial)),
                    }
                }
            }
            rates::count(tx, now, &weighed)?;
            let mut begun = None;
            if let Some(id) = call.session.filter(|_| sessions_matter) {
                sessions::count_run(tx, now, id)?;
                if sessions::is_kept(self.policies) {
                    begun = Some(sessions::run_begins(tx, now, self.store, id, self.run_id)?);
                }
            }
            Ok(Ok(Kept::Counted(used, alerts::note_rates(tx, now, self.policies, &weighed)?, begun)))
        })
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
        let sentences = sorted(&weighed).map_err(|denial| *denial)?;
        sentences.into_iter().for_each(|sentence| grant.ask_for(sentence));
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

/// The sentences of those that ask.
///
/// # Errors
/// The first that denies.
fn sorted(weighed: &[Weighed<'_>]) -> Result<Vec<String>, Box<Denial>> {
    let denied = weighed.iter().find(|one| one.verdict() == Verdict::Deny).and_then(Weighed::refusal);
    if let Some(refusal) = denied {
        return Err(Box::new(refused(refusal, Stage::Rate)));
    }
    let asking = weighed.iter().filter(|one| one.verdict() == Verdict::Ask);
    Ok(asking.filter_map(Weighed::refusal).map(|refusal| refusal.message).collect())
}

/// A refusal of the store's as judging makes them.
pub(super) fn refused(refusal: Refusal, stage: Stage) -> Denial {
    Denial {
        code: refusal.code,
        stage,
        message: refusal.message,
        hint: Some(refusal.hint),
        rule: Some(RuleRef { id: refusal.name, at: refusal.at }),
    }
}

/// What cannot be counted is denied: no fresh start, and no run that nobody counted.
pub(super) fn unavailable(error: &StateError, stage: Stage) -> Denial {
    Denial {
        code: error.code(),
        stage,
        message: format!("the state that this decision needs cannot be used: {error}"),
        hint: Some(error.hint()),
        rule: None,
    }
}
