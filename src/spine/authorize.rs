//! One authorization: kill switch, session, command, arguments, input checks, rates, approval, in this order, cheapest
//! first, and none is asked once one has refused. What an approval answers is the asking alone: all else is judged again.

use std::ffi::OsString;

use super::asking::Stored;
use super::authority::{Authority, Authorized, Came, Passed, Permit, step, stopped_meanwhile};
use super::ready::ready;
use super::refusals::{denial, objected, unsplit};
use super::tool;
use crate::decision::{self, Decision, Denial, Grant, RuleRef, Stage, Step};
use crate::guard::{self, Next, Rounds, Ruling, Subject};
use crate::policy::error::PolicyError;
use crate::policy::model::{CheckOn, Syntax};
use crate::report::tool::ToolDoc;
use crate::request::words;
use crate::request::{Ask, Request, Stdin};
use crate::switch::Switch;

impl Authority<'_> {
    /// Asks every stage in its order; notes what each found in `trace`, and the rest in `by`.
    ///
    /// # Errors
    /// A policy that turns out unusable for this request: a pattern that cannot be compiled, an example that does not hold.
    pub fn authorize(
        &self,
        request: Request,
        by: &mut Authorized,
        trace: &mut Vec<Step>,
    ) -> Result<Came, PolicyError> {
        by.asker = request.asker.clone();
        let mut request = match self.not_stopped(trace).and_then(|()| self.stored(request)) {
            Ok(Stored::Request(request)) => *request,
            Ok(Stored::Output(entry, asked)) => return Ok(self.release(&entry, &asked, by, trace)),
            Err(ended) => return Ok(ended),
        };
        let mut wait = self.wait;
        loop {
            by.asker = request.asker.clone();
            let again = wait.map(|_| request.clone());
            let permit = match self.once(request, by, trace)? {
                Ok(permit) => permit,
                Err(ended) => return Ok(ended),
            };
            let (grant, filed) = match permit {
                Permit::Run(grant, used) => {
                    by.used(used.as_deref());
                    return Ok(self.started(grant));
                }
                Permit::Waits(grant, filed) => (grant, filed),
            };
            by.waits(&filed);
            match (wait.take(), again) {
                (Some(time), Some(mut kept)) if !self.dry => {
                    if let Err(ended) = self.await_answer(&filed, time, &grant.ids, by) {
                        return Ok(ended);
                    }
                    kept.approval = Some(filed.id);
                    if let Some(input) = by.input.take() {
                        kept.stdin = Stdin::Bytes(input);
                    }
                    request = kept;
                }
                _ => return Ok(Came::To(Box::new(Decision::Ask(grant)))),
            }
        }
    }

    /// All stages once, from the switch to the approval.
    fn once(
        &self,
        request: Request,
        by: &mut Authorized,
        trace: &mut Vec<Step>,
    ) -> Result<Passed<Permit>, PolicyError> {
        if let Err(ended) = self.before(by, trace) {
            return Ok(Err(ended));
        }
        let request = Request { asker: by.asker.clone(), ..request };
        let filing = self.filing(&request);
        let passed = match self.judged(request, by, trace)? {
            Ok(grant) => self.permit(grant, &filing, by, trace),
            Err(ended) => Err(ended),
        };
        by.filing = Some(filing);
        Ok(passed)
    }

    /// What needs no look at the command: the switch, the asker and the session.
    fn before(&self, by: &mut Authorized, trace: &mut Vec<Step>) -> Passed<()> {
        self.not_stopped(trace)?;
        decision::settle_asker(&mut by.asker, self.facts.agent.as_deref())?;
        self.session(by, trace)
    }

    /// Command, arguments and input checks, until no check rewrites any more.
    fn judged(
        &self,
        mut request: Request,
        by: &mut Authorized,
        trace: &mut Vec<Step>,
    ) -> Result<Passed<Grant>, PolicyError> {
        let mut rounds = Rounds::default();
        loop {
            let kept = self.may_be_asked_again().then(|| request.clone());
            by.command = match &request.ask {
                Ask::Command(text) => Some(text.clone()),
                _ => None,
            };
            let (argv, decision) = self.judge(request, trace)?;
            by.argv = argv;
            let grant = match self.may_go_on(decision, trace) {
                Decision::Allow(grant) | Decision::Ask(grant) => {
                    by.tool = grant.tool.as_ref().map(ToolDoc::settled);
                    grant
                }
                refused => {
                    by.findings = rounds.findings;
                    by.warnings.append(&mut rounds.warnings);
                    return Ok(Err(Came::To(Box::new(refused))));
                }
            };
            let next = self.check(&grant, &mut rounds, by, trace);
            match (next, kept) {
                (Next::Settled(ruling), _) => {
                    by.findings = rounds.findings;
                    by.warnings.append(&mut rounds.warnings);
                    return Ok(ruled(ruling, grant, self.switches));
                }
                (Next::Again(replacement), Some(mut kept)) => {
                    trace.push(step("input", "rewrite", "a check rewrote the request; it is judged again"));
                    replacement.put_into(&mut kept);
                    request = kept;
                }
                (Next::Again(_), None) => unreachable!("without checks nothing is rewritten"),
            }
        }
    }

    /// Whether the request is needed after it was judged.
    fn may_be_asked_again(&self) -> bool {
        self.policies.iter().any(|p| !p.oversight.checks.is_empty())
    }

    /// Whether programs of the policies may be started after the run.
    pub(super) fn runs_more(&self) -> bool {
        self.policies.iter().any(|p| !p.oversight.checks.is_empty() || !p.oversight.alerts.is_empty())
    }

    /// The kill switch, before anything is looked at.
    fn not_stopped(&self, trace: &mut Vec<Step>) -> Passed<()> {
        let Some(stopped) = self.switches.iter().find_map(Switch::stops_all) else {
            // It is looked at more than once, and said once.
            if !self.switches.is_empty() && trace.iter().all(|step| step.stage != "kill_switch") {
                trace.push(step("kill_switch", "off", "no switch stops everything"));
            }
            return Ok(());
        };
        trace.push(step("kill_switch", "deny", stopped.sentence()));
        Err(denial(&stopped).into())
    }

    /// The kill switch again, once it is known which rules decide.
    fn may_go_on(&self, decision: Decision, trace: &mut Vec<Step>) -> Decision {
        let grant = match &decision {
            Decision::Allow(grant) | Decision::Ask(grant) => grant,
            _ => return decision,
        };
        match self.switches.iter().find_map(|switch| switch.stops(&grant.ids)) {
            Some(stopped) => {
                trace.push(step("kill_switch", "deny", stopped.sentence()));
                Decision::Deny(denial(&stopped))
            }
            None => decision,
        }
    }

    /// The policy's own checks on the request.
    fn check(&self, grant: &Grant, rounds: &mut Rounds, by: &Authorized, trace: &mut Vec<Step>) -> Next {
        let ids: Vec<&str> = grant.ids.iter().map(String::as_str).collect();
        let checks = guard::checks_for(self.policies, CheckOn::Request, &ids);
        if checks.is_empty() {
            return Next::Settled(Ruling::Pass);
        }
        if self.dry {
            let names: Vec<&str> = checks.iter().map(|asked| asked.check.name.as_str()).collect();
            trace.push(step("input", "not run", format!("checks that a run asks: {}", names.join(", "))));
            return Next::Settled(Ruling::Pass);
        }
        let look: &dyn Fn() -> bool =
            &|| self.switches.iter().any(|switch| switch.stops(&grant.ids).is_some());
        let stop = (!self.switches.is_empty()).then_some(look);
        rounds.judge(&checks, &self.subject(grant, by), self.facts, stop)
    }

    /// What checks are told of a request.
    pub fn subject<'s>(&'s self, grant: &'s Grant, by: &'s Authorized) -> Subject<'s> {
        let tool = grant.tool.as_ref();
        Subject {
            run_id: self.run_id,
            rule: Some(&grant.rule),
            tool: tool.map(|tool| tool.name.as_str()),
            arguments: tool.map(|tool| &tool.arguments),
            argv: by.argv.as_deref(),
            command: by.command.as_deref(),
            cwd: &grant.cwd,
            asker: &by.asker,
            policies: self.policies,
        }
    }

    /// Command and arguments: splits the words, where there are any to be had, and judges them; or a tool's call.
    fn judge(
        &self,
        mut request: Request,
        trace: &mut Vec<Step>,
    ) -> Result<(Option<Vec<OsString>>, Decision), PolicyError> {
        let argv = match std::mem::take(&mut request.ask) {
            Ask::Tool { name, arguments } => {
                return tool::judge(&name, &arguments, request, self.policies, self.facts, trace);
            }
            ask => match self.words(ask) {
                Ok(argv) => argv,
                Err(decision) => return Ok((None, *decision)),
            },
        };
        ready(self.policies, &argv)?;
        let decision = decision::decide_with(self.policies, argv.clone(), request, self.facts, trace);
        Ok((Some(argv), decision))
    }

    /// The words of a request; a command string is split by the strictest syntax of all policies.
    fn words(&self, ask: Ask) -> Result<Vec<OsString>, Box<Decision>> {
        match ask {
            Ask::Argv(argv) => Ok(argv),
            Ask::Command(text) => {
                let refuse = self.policies.iter().any(|p| p.syntax == Syntax::Refuse);
                let syntax = if refuse { Syntax::Refuse } else { Syntax::Literal };
                words::split(&text, syntax).map_err(|error| Box::new(unsplit(error)))
            }
            Ask::Stored | Ask::Tool { .. } => Err(Box::new(Decision::Invalid(Denial {
                code: "approval_unknown",
                stage: Stage::Approval,
                message: "nothing is stored under this approval".into(),
                hint: Some("give the command as well, after `--`".into()),
                rule: None,
            }))),
        }
    }
}

/// What the checks' ruling makes of a grant.
fn ruled(ruling: Ruling, mut grant: Grant, switches: &[Switch]) -> Passed<Grant> {
    match ruling {
        Ruling::Pass => Ok(grant),
        Ruling::Ask(objection) => {
            grant.ask_for(
                RuleRef { id: objection.check.clone(), at: objection.at.clone() },
                objection.sentence(),
            );
            Ok(grant)
        }
        Ruling::Block(objection) => Err(objected(&objection, Stage::Input).into()),
        Ruling::Cancelled(signal) => Err(Came::Cancelled(signal)),
        Ruling::Stopped => Err(stopped_meanwhile(switches, &grant.ids)),
    }
}
