//! Calls of tools on their way: judged, and a built-in action done.

use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use super::authority::Authority;
use super::guarded;
use super::ready::ready;
use crate::action::{self, Done, How, Said};
use crate::decision::{self, Decision, Facts, Grant, Stage, Step};
use crate::guard;
use crate::policy::error::PolicyError;
use crate::policy::model::{CheckOn, Policy};
use crate::report::result::ResultDoc;
use crate::report::status::Status;
use crate::request::{Arguments, Request};
use crate::run::Stop;

/// Judges a call; the words are those of its command, where it comes to one.
pub(super) fn judge(
    name: &str,
    arguments: &Arguments,
    mut request: Request,
    policies: &[Policy],
    facts: &Facts,
    trace: &mut Vec<Step>,
) -> Result<(Option<Vec<OsString>>, Decision), PolicyError> {
    policies.iter().try_for_each(|policy| policy.compile_patterns_of_tool(name))?;
    let called = match decision::called(policies, name, arguments, &mut request, facts, trace) {
        Ok(called) => called,
        Err(decision) => return Ok((None, *decision)),
    };
    let argv = called.argv().map(<[OsString]>::to_vec);
    if let Some(argv) = &argv {
        ready(policies, argv)?;
    }
    let decision = decision::decide_called(policies, called, request, facts, trace);
    Ok((argv, decision))
}

/// Does a granted action. Whether `stop` ended it.
pub(super) fn act(
    grant: Grant,
    authority: &Authority<'_>,
    pass_through: bool,
    stop: Stop<'_>,
    doc: &mut ResultDoc,
) -> bool {
    let (limits, rule) = (grant.limits.clone(), grant.rule.clone());
    let mut stopped = false;
    match action::perform(grant, &kept(authority), stop) {
        Ok(done) => {
            stopped = matches!(done.how, How::Stopped);
            doc.acted(done, &limits, &rule);
        }
        Err(error) => doc.failed("action", &format!("cannot do it: {error}"), None),
    }
    if pass_through && matches!(doc.status, Status::Ok | Status::NonzeroExit) {
        // As a command's output would have come. A reader that has gone away changes nothing.
        let mut out = std::io::stdout();
        let written = out.write_all(&doc.stdout_kept()).and_then(|()| out.flush());
        let _ = std::io::stderr().write_all(doc.stderr.as_deref().unwrap_or_default().as_bytes());
        let lost = written.err().filter(|error| error.kind() != ErrorKind::BrokenPipe);
        super::unpassed(
            lost.map(|error| format!("could not pass on all of the output: {error}")).as_deref(),
            doc,
        );
    }
    stopped
}

/// What a granted action would meet on the disk now. Whether it would be done, or at least tried.
pub(super) fn foresee(
    grant: Grant,
    authority: &Authority<'_>,
    doc: &mut ResultDoc,
    steps: &mut Vec<Step>,
) -> bool {
    let ids: Vec<&str> = grant.ids.iter().map(String::as_str).collect();
    if !guard::checks_for(authority.policies, CheckOn::Request, &ids).is_empty() {
        // What is there is for somebody whom the check has let pass.
        let detail = "not looked at: a check decides first".to_owned();
        steps.push(Step { stage: Stage::Sandbox.as_str(), outcome: "not run".into(), detail, rule: None });
        return true;
    }
    let (limits, rule) = (grant.limits.clone(), grant.rule.clone());
    let looked = action::foresee(grant, &kept(authority));
    let (outcome, detail) = match &looked {
        Ok(Done { how: How::Said(Said::Done(found)), .. }) => {
            ("ready", String::from_utf8_lossy(found).into_owned())
        }
        Ok(Done { how: How::Said(Said::Failed(why)), .. }) => ("fails", why.clone()),
        Ok(Done { how: How::Said(Said::Refused(refusal)), .. }) => ("deny", refusal.message.clone()),
        Ok(Done { how: How::Said(Said::Broken(why)), .. }) => ("error", why.clone()),
        Ok(Done { how: How::Cancelled(_), .. }) => ("error", "it was ended".to_owned()),
        Ok(Done { how: How::TimedOut | How::Stopped, .. }) => {
            ("error", "a look at it took longer than wall_time".to_owned())
        }
        Err(error) => ("error", format!("cannot look at it: {error}")),
    };
    steps.push(Step {
        stage: Stage::Sandbox.as_str(),
        outcome: outcome.into(),
        detail: detail.clone(),
        rule: None,
    });
    match (outcome, looked) {
        ("ready" | "fails", _) => return true,
        ("deny", Ok(done)) => doc.acted(done, &limits, &rule),
        (_, Ok(Done { how: How::Cancelled(signal), .. })) => doc.cancelled(signal),
        _ => doc.failed("action", &detail, None),
    }
    false
}

/// What no action touches: all that policies lead to, the switch and the store included.
fn kept(authority: &Authority<'_>) -> Vec<PathBuf> {
    guarded(authority.policies).into_iter().chain([authority.store.to_path_buf()]).collect()
}
