//! `session`: sessions, and letting a halted one go on.

use super::args::SessionVerb;
use super::deliver::say;
use crate::Surroundings;

/// Exit status of a call that cannot be answered.
const UNUSABLE: u8 = 125;

/// `session`.
pub fn session(_args: &SessionVerb, _around: &Surroundings) -> u8 {
    say("guardexec: error: session: not part of this build");
    UNUSABLE
}
