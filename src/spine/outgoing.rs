//! What a run wrote, before it goes to the caller: the policy's own checks on the output, and whoever they want asked.

use super::aftermath::Left;
use super::authority::{Authority, Authorized, Came};
use super::refusals::objected;
use crate::approval::bound::{Bound, Cause};
use crate::approval::queue::{self, Filed};
use crate::decision::{Decision, Denial, Grant, RuleRef, Stage, ToolCall};
use crate::guard::{self, Asked, Objection, Output, OutputJudgement, Ruling, Subject};
use crate::policy::model::{Check, CheckOn, Policy};
use crate::report::result::ResultDoc;
use crate::report::status::Status;
use crate::report::withheld::Withholding;

/// Whether some check may have a say in what goes out: then it cannot pass as it comes.
pub(super) fn is_checked(policies: &[Policy]) -> bool {
    checks(policies).next().is_some()
}

fn checks(policies: &[Policy]) -> impl Iterator<Item = &Check> {
    policies.iter().flat_map(|p| &p.oversight.checks).filter(|check| check.on == CheckOn::Output)
}

/// What is known of the run whose output is judged, kept from before its grant was consumed.
pub(super) struct Origin {
    pub rule: RuleRef,
    pub ids: Vec<String>,
    pub tool: Option<ToolCall>,
    pub cwd: std::path::PathBuf,
    /// What an approval of the output would bind to, where some check may ask for one; why nothing can be bound, else.
    pub bound: Option<Result<Bound, Box<Denial>>>,
}

/// What became of an output.
pub(super) struct Outcome {
    /// What the run itself leaves behind for sessions and alerts.
    pub left: Left,
    /// It waits under this approval.
    pub filed: Option<Filed>,
    /// A person was to be asked, and nothing about it goes out.
    pub concealed: bool,
}

impl Authority<'_> {
    /// What has to be known of a run when it is over.
    pub(super) fn origin(&self, grant: &Grant, by: &Authorized) -> Origin {
        let ids: Vec<&str> = grant.ids.iter().map(String::as_str).collect();
        // Which check will ask nobody knows; where none can, nothing is read or hashed.
        let may_ask = checks(self.policies).any(|check| check.speaks_of(&ids));
        Origin {
            rule: grant.rule.clone(),
            ids: grant.ids.clone(),
            tool: grant.tool.clone(),
            cwd: grant.cwd.clone(),
            bound: may_ask.then(|| self.bound_before(grant, by)),
        }
    }
}

/// Asks the checks on the output, and takes out of the result what they, or whoever they want asked, do not let pass.
pub(super) fn judge(
    authority: &Authority<'_>,
    origin: &mut Origin,
    by: &mut Authorized,
    doc: &mut ResultDoc,
) -> Outcome {
    let (ruling, causes) = ruled(authority, origin, by, doc);
    if let (Ruling::Pass | Ruling::Ask(_), Some(tool)) = (&ruling, &origin.tool)
        && tool.action.is_none()
    {
        doc.shaped(tool);
    }
    let mut outcome = Outcome { left: Left::by(doc), filed: None, concealed: false };
    match ruling {
        Ruling::Pass => return outcome,
        Ruling::Ask(objection) if doc.status == Status::Cancelled => ended_already(&objection, doc),
        Ruling::Ask(_) => return asked(authority, origin, causes, by, doc, outcome),
        Ruling::Block(objection) => {
            doc.withhold();
            let decision = doc.decision;
            doc.refused(&objected(&objection, Stage::Output), Status::Denied);
            // The request was allowed, and it did run.
            doc.decision = decision;
        }
        Ruling::Cancelled(signal) => {
            doc.withhold();
            doc.cancelled(signal);
        }
        Ruling::Stopped => {
            doc.withhold();
            let stopped = authority.switches.iter().find_map(|switch| switch.stops(&origin.ids));
            doc.switched_off(stopped.as_ref());
        }
    }
    outcome.left = Left::by(doc);
    outcome
}

/// The run was ended from outside: then nobody is asked any more, and what it wrote until then stays here.
fn ended_already(objection: &Objection, doc: &mut ResultDoc) {
    let head = doc.text.lines().next().unwrap_or_default().to_owned();
    doc.withhold();
    doc.text = format!("{head}\nwhat it wrote is withheld: {}", objection.sentence());
}

/// Has a person decide about the output.
fn asked(
    authority: &Authority<'_>,
    origin: &mut Origin,
    causes: Vec<Cause>,
    by: &mut Authorized,
    doc: &mut ResultDoc,
    mut outcome: Outcome,
) -> Outcome {
    let came = authority.ask_about_output(origin, causes, by, doc);
    doc.warnings.append(&mut by.warnings);
    outcome.concealed = !matches!(came, Ok(None));
    match came {
        Ok(None) => {}
        Ok(Some((filed, cause))) => {
            by.waits(&filed);
            doc.approval = by.approval.take();
            doc.withheld(&Withholding::by(&cause, filed.hint()));
            outcome.filed = Some(filed);
        }
        Err(Came::Cancelled(signal)) => {
            doc.withhold();
            doc.cancelled(signal);
        }
        Err(came) => {
            if let Came::To(decision) = came
                && let Decision::Deny(denial) = *decision
            {
                // Those of the refusals speak of something that has not run.
                let hint = "it did run, and its output stays withheld: do not run it again for it".to_owned();
                doc.barred(&Denial { hint: Some(hint), ..denial.clone() });
                // That others have filled the queue says nothing of whoever was allowed to run this.
                if denial.stage != Stage::KillSwitch && denial.code != queue::TOO_MANY {
                    outcome.left.denied();
                }
            }
        }
    }
    outcome
}

/// What the checks make of the output, in place of which may stand what they rewrote; and those that want a person to
/// decide, the one that is shown first.
fn ruled(
    authority: &Authority<'_>,
    origin: &Origin,
    by: &Authorized,
    doc: &mut ResultDoc,
) -> (Ruling, Vec<Cause>) {
    let ids: Vec<&str> = origin.ids.iter().map(String::as_str).collect();
    let checks = guard::checks_for(authority.policies, CheckOn::Output, &ids);
    // What never started wrote nothing.
    let started = doc.error.as_ref().is_none_or(|error| error.kind != "start");
    if checks.is_empty() || doc.stdout.is_none() || !started {
        return (Ruling::Pass, Vec::new());
    }
    let judgement = heard(authority, origin, by, &checks, doc);
    let causes = causes(&judgement);
    doc.checked(judgement.findings);
    doc.warnings.extend(judgement.warnings);
    if judgement.stdout.is_some() || judgement.stderr.is_some() {
        doc.rewritten(judgement.stdout, judgement.stderr);
    }
    (judgement.ruling, causes)
}

fn causes(judgement: &OutputJudgement) -> Vec<Cause> {
    let Ruling::Ask(objection) = &judgement.ruling else { return Vec::new() };
    let cause = |check: &str, at, why: &str| Cause::of(&RuleRef { id: check.to_owned(), at }, why);
    let first = cause(&objection.check, objection.at.clone(), &objection.sentence());
    let others = judgement.findings.iter().filter(|one| one.verdict == "ask" && one.check != objection.check);
    std::iter::once(first).chain(others.map(|one| cause(&one.check, one.at.clone(), &one.reason))).collect()
}

fn heard(
    authority: &Authority<'_>,
    origin: &Origin,
    by: &Authorized,
    checks: &[Asked<'_>],
    doc: &ResultDoc,
) -> OutputJudgement {
    let (stdout, stderr) = (doc.stdout_kept(), doc.stderr_kept());
    let output = Output {
        status: doc.status.as_str(),
        exit_code: doc.exit_code.map(i32::from),
        stdout: &stdout,
        stderr: &stderr,
        truncated: doc.stdout_truncated || doc.stderr_truncated,
    };
    let subject = Subject {
        run_id: authority.run_id,
        rule: Some(&origin.rule),
        tool: origin.tool.as_ref().map(|tool| tool.name.as_str()),
        arguments: origin.tool.as_ref().map(|tool| &tool.arguments),
        argv: by.argv.as_deref(),
        command: by.command.as_deref(),
        cwd: &origin.cwd,
        asker: &by.asker,
        policies: authority.policies,
    };
    let look = authority.look(&origin.ids);
    guard::judge_output(checks, &subject, &output, authority.facts, authority.stop(&look))
}
