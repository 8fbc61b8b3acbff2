//! `approvals`: what waits for a person, and the answers.

use super::args::ApprovalsVerb;
use super::deliver::say;
use crate::Surroundings;

/// Exit status of a call that cannot be answered.
const UNUSABLE: u8 = 125;

/// `approvals`.
pub fn approvals(_args: &ApprovalsVerb, _around: &Surroundings) -> u8 {
    say("guardexec: error: approvals: not part of this build");
    UNUSABLE
}
