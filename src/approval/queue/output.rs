//! Outputs in the store: handed out once, to whoever had asked for the run.

use rusqlite::{Connection, Transaction};

use super::{Outcome, unknown};
use crate::approval::bound::{self, Difference};
use crate::approval::entry::Entry;
use crate::approval::refusal::refusal;
use crate::decision::Denial;
use crate::policy::model::Policy;
use crate::state::approvals;
use crate::state::{Moment, StateError};

/// The output that waits under this id, pending or approved, where these policies judge.
///
/// # Errors
/// Denied where there is none that can be had (`approval_unknown`, `approval_consumed`, `approval_declined`,
/// `approval_expired`), where what is kept was changed (`approval_mismatch`), and where the policy was (`approval_stale`).
pub fn check_output(db: &Connection, now: &Moment, id: &str, policies: &[Policy]) -> Outcome<Entry> {
    let Some(row) = approvals::find(db, now, id)? else { return Ok(Err(unknown(id))) };
    let entry = Entry::of(row, now)?;
    if !entry.state.is_open() {
        return Ok(Err(entry.closed()));
    }
    if entry.bound.output.is_none() {
        return Ok(Err(no_output(id)));
    }
    if let Err(denial) = entry.is_whole() {
        return Ok(Err(denial));
    }
    // Whoever names other policies could get past the switch and the sessions of those that judged the run.
    if let Some(Difference { what, .. }) =
        bound::policies_differ(&entry.bound.policies, &bound::policies(policies))
    {
        let message = format!("approval {id} does not cover this: {what} since the output was withheld");
        let hint = "it did run, and its output stays withheld: do not run it again for it";
        return Ok(Err(refusal("approval_stale", message, hint)));
    }
    Ok(Ok(entry))
}

/// Uses the approval of an output up, exactly once whoever tries at the same time. What was kept is forgotten.
///
/// # Errors
/// As every use of the store.
pub fn hand_out(tx: &Transaction<'_>, now: &Moment, entry: &Entry, run_id: &str) -> Result<(), StateError> {
    super::use_up(tx, now, &entry.id, run_id)
}

fn no_output(id: &str) -> Box<Denial> {
    let message = format!("approval {id} is for something that has not run");
    refusal("approval_mismatch", message, "ask for exactly what was approved")
}
