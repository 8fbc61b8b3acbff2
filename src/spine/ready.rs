//! Rules made ready to judge: only those that name the program, so that a large policy costs a run little.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use super::hold_examples;
use crate::policy::error::PolicyError;
use crate::policy::model::Policy;

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
