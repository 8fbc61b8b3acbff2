//! One authorization: kill switch, session, command, arguments, input checks, rates, approval, in this order, cheapest
//! first, and none is asked once one has refused. What an approval answers is the asking alone: all else is judged again.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use super::{hold_examples, tool};
use crate::decision::{self, Decision, Denial, Facts, RuleRef, Stage, Step};
use crate::policy::error::PolicyError;
use crate::policy::model::{Policy, Syntax};
use crate::request::words::{self, WordsError};
use crate::request::{Ask, Request};
use crate::switch::{Stopped, Switch};

/// Who authorizes: what every stage may know.
pub(super) struct Authority<'a> {
    /// The policies that must all allow.
    pub policies: &'a [Policy],
    /// Their switches.
    pub switches: &'a [Switch],
    /// What judging may know of the caller and the machine.
    pub facts: &'a Facts,
}

/// What came of it. Nothing has run.
pub(super) struct Authorized {
    /// The words, where there are any to be had.
    pub argv: Option<Vec<OsString>>,
    /// What it came to.
    pub decision: Decision,
}

/// A stage lets pass with a value, or ends the authorization.
type Passed<T> = Result<T, Box<Decision>>;

impl Authority<'_> {
    /// Asks every stage in its order; notes what each found.
    ///
    /// # Errors
    /// A policy that turns out unusable for this request: a pattern that cannot be compiled, an example that does not hold.
    pub fn authorize(&self, request: Request, trace: &mut Vec<Step>) -> Result<Authorized, PolicyError> {
        if let Err(refused) = self.not_stopped(trace) {
            return Ok(Authorized { argv: None, decision: *refused });
        }
        let (argv, decision) = self.judge(request, trace)?;
        let decision = self.may_go_on(decision);
        Ok(Authorized { argv, decision })
    }

    /// The kill switch, before anything is looked at.
    fn not_stopped(&self, trace: &mut Vec<Step>) -> Passed<()> {
        let Some(stopped) = self.switches.iter().find_map(Switch::stops_all) else {
            if !self.switches.is_empty() {
                trace.push(step("kill_switch", "off", "no switch stops everything"));
            }
            return Ok(());
        };
        trace.push(step("kill_switch", "deny", stopped.sentence()));
        Err(Box::new(Decision::Deny(denial(&stopped))))
    }

    /// The kill switch again, once it is known which rules decide.
    fn may_go_on(&self, decision: Decision) -> Decision {
        let grant = match &decision {
            Decision::Allow(grant) | Decision::Ask(grant) => grant,
            _ => return decision,
        };
        match self.switches.iter().find_map(|switch| switch.stops(&grant.ids)) {
            Some(stopped) => Decision::Deny(denial(&stopped)),
            None => decision,
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
    fn words(&self, ask: Ask) -> Passed<Vec<OsString>> {
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

/// Makes the rules that name the program ready to judge: patterns compiled, examples held.
pub(super) fn ready(policies: &[Policy], argv: &[OsString]) -> Result<(), PolicyError> {
    let Some(first) = argv.first() else { return Ok(()) };
    let base = first.as_bytes().rsplit(|b| *b == b'/').next().unwrap_or_default();
    for policy in policies {
        policy.compile_patterns_for(base)?;
        hold_examples(policy, Some(base))?;
    }
    Ok(())
}

fn step(stage: &'static str, outcome: &str, detail: impl Into<String>) -> Step {
    Step { stage, outcome: outcome.into(), detail: detail.into(), rule: None }
}

/// The refusal by a kill switch.
fn denial(stopped: &Stopped) -> Denial {
    Denial {
        code: "kill_switch",
        stage: Stage::KillSwitch,
        message: stopped.sentence(),
        hint: Some(stopped.hint()),
        rule: Some(RuleRef { id: "kill_switch".into(), at: stopped.at.clone() }),
    }
}

fn unsplit(error: WordsError) -> Decision {
    let denial = |code, message, hint| Denial { code, stage: Stage::Command, message, hint, rule: None };
    match error {
        WordsError::Unparsable { .. } => Decision::Invalid(denial("parse_error", error.to_string(), None)),
        WordsError::Syntax { message, hint, .. } => {
            Decision::Deny(denial("shell_syntax", message, Some(hint)))
        }
    }
}
