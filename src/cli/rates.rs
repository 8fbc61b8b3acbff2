//! `rates`: where the policy's counters stand.

use super::args::RatesArgs;
use super::deliver::say;
use crate::Surroundings;

/// Exit status of a call that cannot be answered.
const UNUSABLE: u8 = 125;

/// `rates`.
pub fn rates(_args: &RatesArgs, _around: &Surroundings) -> u8 {
    say("guardexec: error: rates: not part of this build");
    UNUSABLE
}
