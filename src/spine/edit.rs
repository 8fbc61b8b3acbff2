//! Judging words that a person wants to approve in place of those that were asked for.

use std::ffi::OsString;

use super::ready::ready;
use crate::decision::{self, Decision, Facts};
use crate::policy::error::PolicyError;
use crate::policy::model::Policy;
use crate::request::Request;

/// What command and arguments come to; all other stages are asked when it runs.
///
/// # Errors
/// A policy that turns out unusable for these words.
pub(crate) fn judge(
    policies: &[Policy],
    argv: Vec<OsString>,
    request: Request,
    facts: &Facts,
) -> Result<Decision, PolicyError> {
    ready(policies, &argv)?;
    Ok(decision::decide(policies, argv, request, facts))
}
