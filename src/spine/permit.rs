//! The last stages of an authorization: rates and approval. What is counted, used up and begun is so in one transaction of
//! the store, which nothing that needs none of it opens.

use super::authorize::{Authority, Authorized, Passed, step};
use crate::decision::{Decision, Denial, Grant, RuleRef, Stage, Step};
use crate::hook::{self, Job};
use crate::policy::model::Verdict;
use crate::policy::oversight;
use crate::state::alerts::{self, Alarm};
use crate::state::rates::{self, Weighed};
use crate::state::{Refusal, StateError, Store, sessions};

/// How long an alert's program may take.
const TELLING: std::time::Duration = std::time::Duration::from_secs(10);

impl Authority<'_> {
    /// The session, before the command is looked at.
    pub(super) fn session(&self, by: &Authorized, trace: &mut Vec<Step>) -> Passed<()> {
        if oversight::sessions(self.policies).next().is_none() {
            return Ok(());
        }
        let id = by.asker.session.as_deref();
        let look = || -> Result<Option<Refusal>, StateError> {
            if id.is_none() {
                return sessions::check(None, self.policies, id);
            }
            match Store::look(self.store)? {
                None => sessions::check(None, self.policies, id),
                Some(mut view) => view.read(|db, now| sessions::check(Some((db, now)), self.policies, id)),
            }
        };
        match look() {
            Ok(None) => trace.push(step("session", "allow", "nothing stands against it")),
            Ok(Some(refusal)) => {
                trace.push(step("session", "deny", refusal.message.clone()));
                return Err(refused(refusal, Stage::Session).into());
            }
            Err(error) => return Err(unavailable(&error, Stage::Session).into()),
        }
        Ok(())
    }

    /// Rates, and the counting of what is allowed.
    pub(super) fn permit(&self, grant: Grant, by: &Authorized, trace: &mut Vec<Step>) -> Passed<Decision> {
        let (ids, called) = (grant.ids.clone(), grant.tool.clone());
        let call = rates::Call {
            ids: ids.iter().map(String::as_str).collect(),
            agent: by.asker.agent.as_deref(),
            session: by.asker.session.as_deref(),
            tool: called.as_ref().map(|tool| (tool.name.as_str(), &tool.arguments)),
        };
        let rated = self.policies.iter().any(|p| p.oversight.rates.iter().any(|r| r.speaks_of(&call.ids)));
        let session =
            by.asker.session.as_deref().filter(|_| oversight::sessions(self.policies).next().is_some());
        if !rated && session.is_none() {
            return Ok(decided(grant));
        }
        if self.dry {
            return self.foresee(grant, &call, trace);
        }
        let counted = self.count(&call, session, grant.verdict);
        let (asks, alarms) = match counted {
            Ok(Ok(counted)) => counted,
            Ok(Err(denial)) => return Err((*denial).into()),
            Err(error) => return Err(unavailable(&error, Stage::Rate).into()),
        };
        self.tell(alarms);
        let mut grant = grant;
        asks.into_iter().for_each(|sentence| grant.ask_for(sentence));
        Ok(decided(grant))
    }

    /// Weighs and counts in one transaction. The sentences of rates that want a person to be asked: then nothing is
    /// counted.
    #[allow(clippy::type_complexity)]
    fn count(
        &self,
        call: &rates::Call<'_>,
        session: Option<&str>,
        verdict: Verdict,
    ) -> Result<Result<(Vec<String>, Vec<Alarm<'_>>), Box<Denial>>, StateError> {
        let mut store = Store::open(self.store)?;
        store.attempt(|tx, now| {
            if let Some(refusal) = sessions::check(Some((tx, now)), self.policies, call.session)? {
                return Ok(Err(Box::new(refused(refusal, Stage::Session))));
            }
            let weighed = rates::weigh(Some((tx, now)), self.policies, call)?;
            let asks = match sorted(&weighed) {
                Ok(asks) => asks,
                Err(denial) => return Ok(Err(denial)),
            };
            if verdict == Verdict::Ask || !asks.is_empty() {
                return Ok(Ok((asks, Vec::new())));
            }
            rates::count(tx, now, &weighed)?;
            if let Some(id) = session {
                sessions::count_run(tx, now, id)?;
            }
            Ok(Ok((Vec::new(), alerts::note_rates(tx, now, self.policies, &weighed)?)))
        })
    }

    /// What the rates would say, without counting.
    fn foresee(&self, mut grant: Grant, call: &rates::Call<'_>, trace: &mut Vec<Step>) -> Passed<Decision> {
        let look = || -> Result<Vec<Weighed<'_>>, StateError> {
            match Store::look(self.store)? {
                None => rates::weigh(None, self.policies, call),
                Some(mut view) => view.read(|db, now| rates::weigh(Some((db, now)), self.policies, call)),
            }
        };
        let weighed = look().map_err(|error| unavailable(&error, Stage::Rate))?;
        for one in &weighed {
            trace.push(Step {
                stage: "rate",
                outcome: one.verdict().as_str().to_owned(),
                detail: one.to_json().to_string(),
                rule: Some(RuleRef { id: one.rate.name.clone(), at: one.rate.at.clone() }),
            });
        }
        let asks = sorted(&weighed).map_err(|denial| *denial)?;
        asks.into_iter().for_each(|sentence| grant.ask_for(sentence));
        Ok(decided(grant))
    }

    /// Runs the programs of alerts whose figure was passed. One that fails changes nothing.
    pub(super) fn tell(&self, alarms: Vec<Alarm<'_>>) {
        let paths: Vec<_> = alarms.iter().map(|alarm| crate::decision::policy_path(alarm.policy)).collect();
        let job = |(alarm, path)| -> Job<'_> {
            let (alarm, path): (&Alarm<'_>, &Vec<std::path::PathBuf>) = (alarm, path);
            let mut input = alarm.facts.to_string().into_bytes();
            input.push(b'\n');
            Job { name: &alarm.alert.name, hook: &alarm.alert.run, input, timeout: TELLING, path }
        };
        let jobs: Vec<Job<'_>> = alarms.iter().zip(&paths).map(job).collect();
        if !jobs.is_empty() {
            hook::run_all(jobs, self.facts, None);
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

fn decided(grant: Grant) -> Decision {
    if grant.verdict == Verdict::Ask { Decision::Ask(grant) } else { Decision::Allow(grant) }
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
