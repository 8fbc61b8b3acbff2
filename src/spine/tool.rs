//! A built-in action on its way: done, and put into the result.

use std::io::Write as _;
use std::path::PathBuf;

use super::authorize::Authority;
use super::guarded;
use crate::action::{self, How};
use crate::decision::Grant;
use crate::policy::model::Policy;
use crate::policy::oversight::{self, Led, Role};
use crate::report::result::ResultDoc;
use crate::report::status::Status;

/// Does a granted action.
pub(super) fn act(grant: Grant, authority: &Authority<'_>, pass_through: bool, doc: &mut ResultDoc) {
    let Authority { policies, switches, .. } = authority;
    let (limits, rule, ids) = (grant.limits.clone(), grant.rule.clone(), grant.ids.clone());
    let stopped = || switches.iter().find_map(|switch| switch.stops(&ids));
    let look: &dyn Fn() -> bool = &|| stopped().is_some();
    let stop = (!switches.is_empty()).then_some(look);
    match action::perform(grant, &kept(policies), stop) {
        Ok(done) => {
            let by_switch = matches!(done.how, How::Stopped);
            doc.acted(done, &limits, &rule);
            if by_switch {
                doc.stopped(stopped().as_ref());
            }
        }
        Err(error) => doc.failed("action", &format!("cannot do it: {error}"), None),
    }
    if pass_through && matches!(doc.status, Status::Ok | Status::NonzeroExit) {
        // As a command's output would have come. A reader that has gone away changes nothing.
        let _ = std::io::stdout().write_all(&doc.stdout_kept());
        let _ = std::io::stderr().write_all(doc.stderr.as_deref().unwrap_or_default().as_bytes());
    }
}

/// What no action touches: all that policies lead to, the switch and the store included.
fn kept(policies: &[Policy]) -> Vec<PathBuf> {
    // A further word of a hook may name anything; only a file is the policy's own.
    let own = |led: &Led<'_>| led.role != Role::Word || led.path.is_file();
    let led = oversight::files(policies).into_iter().filter(own).map(|led| led.path.to_path_buf());
    guarded(policies).into_iter().chain(led).collect()
}
