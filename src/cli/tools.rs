//! `tools`: what the policy offers to agent frameworks.

use super::args::ToolsArgs;
use super::deliver::say;
use crate::Surroundings;

/// Exit status of a call that cannot be answered.
const UNUSABLE: u8 = 125;

/// `tools`.
pub fn tools(_args: &ToolsArgs, _around: &Surroundings) -> u8 {
    say("guardexec: error: tools: not part of this build");
    UNUSABLE
}
