//! What a run wrote, before it goes to the caller: the policy's own checks on the output.

use super::authorize::{Authority, Authorized, objected};
use crate::decision::{RuleRef, Stage, ToolCall};
use crate::guard::{self, Asked, Output, OutputJudgement, Ruling, Subject};
use crate::policy::model::{CheckOn, Policy};
use crate::report::result::ResultDoc;
use crate::report::status::Status;

/// Whether some check may have a say in what goes out: then it cannot pass as it comes.
pub(super) fn is_checked(policies: &[Policy]) -> bool {
    policies.iter().flat_map(|p| &p.oversight.checks).any(|check| check.on == CheckOn::Output)
}

/// What is known of the run whose output is judged, kept from before its grant was consumed.
pub(super) struct Origin {
    pub rule: RuleRef,
    pub ids: Vec<String>,
    pub tool: Option<ToolCall>,
    pub cwd: std::path::PathBuf,
}

/// Asks the checks on the output, and takes out of the result what they do not let pass. Whether a person has to agree
/// first, and why.
pub(super) fn judge(
    authority: &Authority<'_>,
    origin: &Origin,
    by: &Authorized,
    doc: &mut ResultDoc,
) -> Option<String> {
    let ids: Vec<&str> = origin.ids.iter().map(String::as_str).collect();
    let checks = guard::checks_for(authority.policies, CheckOn::Output, &ids);
    if checks.is_empty() || doc.stdout.is_none() {
        return None;
    }
    let judgement = heard(authority, origin, by, &checks, doc);
    doc.checked(judgement.findings);
    doc.warnings.extend(judgement.warnings);
    if judgement.stdout.is_some() || judgement.stderr.is_some() {
        doc.rewritten(judgement.stdout, judgement.stderr);
    }
    match judgement.ruling {
        Ruling::Pass => None,
        // Nothing withheld can be asked for later yet, so what has to be asked about stays withheld for good.
        Ruling::Ask(objection) | Ruling::Block(objection) => {
            doc.withhold();
            let decision = doc.decision;
            doc.refused(&objected(&objection, Stage::Output), Status::Denied);
            // The request was allowed, and it did run.
            doc.decision = decision;
            None
        }
        Ruling::Cancelled(signal) => {
            doc.withhold();
            doc.cancelled(signal);
            None
        }
        Ruling::Stopped => {
            doc.withhold();
            let stopped = authority.switches.iter().find_map(|switch| switch.stops(&origin.ids));
            doc.switched_off(stopped.as_ref());
            None
        }
    }
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
    let look: &dyn Fn() -> bool = &|| authority.switches.iter().any(|s| s.stops(&origin.ids).is_some());
    let stop = (!authority.switches.is_empty()).then_some(look);
    guard::judge_output(checks, &subject, &output, authority.facts, stop)
}
