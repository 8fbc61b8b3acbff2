//! Calls of tools on their way: judged, and a built-in action done.

use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use super::authorize::{Authority, ready};
use super::guarded;
use crate::action::{self, How};
use crate::decision::{self, Decision, Facts, Grant, Step};
use crate::policy::error::PolicyError;
use crate::policy::model::Policy;
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

/// What no action touches: all that policies lead to, the switch and the store included.
fn kept(authority: &Authority<'_>) -> Vec<PathBuf> {
    guarded(authority.policies).into_iter().chain([authority.store.to_path_buf()]).collect()
}
