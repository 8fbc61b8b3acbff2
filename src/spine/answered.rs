//! What a program or the terminal answered at once: kept in the store where one is kept, noted for the audit, and made an end of
//! where it is no yes.

use super::authority::{Authority, Authorized, Came, Passed};
use super::refusals::{not_kept, unavailable};
use crate::approval::Reply;
use crate::approval::bound::Bound;
use crate::approval::entry::Answerer;
use crate::approval::queue::{self, AtOnce};
use crate::approval::screen::answerer;
use crate::decision::Stage;
use crate::policy::oversight;
use crate::report::audit::record::ApprovalRecord;
use crate::state::{StateError, Store};
use crate::sys::account::Person;

/// What was answered.
pub(super) struct AnsweredTo<'a> {
    /// What was asked about.
    pub bound: &'a Bound,
    /// The rules and tools that had decided.
    pub ids: &'a [String],
    /// The run that a yes lets go on at once; `None` where it is counted before it does.
    pub used_by: Option<&'a str>,
}

impl Authority<'_> {
    /// Keeps and notes what was answered at once. Gives the id of a yes in the store, where it is kept.
    ///
    /// # Errors
    /// It is no yes, or one that has to be kept and cannot be.
    pub(super) fn answered(
        &self,
        reply: Reply,
        to: AnsweredTo<'_>,
        by: &mut Authorized,
    ) -> Passed<Option<String>> {
        let (approved, who, said) = match &reply {
            Reply::Approved { by: who, said } => (true, who, said),
            Reply::Declined { by: Some(who), said, .. } => (false, who, said),
            _ => return Err(self.replied(reply, to.ids, by)),
        };
        let kept = self.keep_answer(approved, who, said.as_deref(), &to);
        let id = match kept {
            Ok(id) => id,
            Err(error) if approved => return Err(unavailable(&error, Stage::Approval).into()),
            Err(error) => {
                by.warnings.push(format!("what was answered could not be kept: {error}"));
                None
            }
        };
        by.events.push(ApprovalRecord {
            id: id.clone().unwrap_or_else(|| self.run_id.to_owned()),
            state: if approved { "approved" } else { "declined" }.to_owned(),
            by: Some(answerer(who)),
            reason: said.clone(),
            expires_at: None,
        });
        match reply {
            Reply::Declined { denial, .. } => Err((*denial).into()),
            _ => Ok(id),
        }
    }

    fn keep_answer(
        &self,
        approved: bool,
        who: &Answerer,
        said: Option<&str>,
        to: &AnsweredTo<'_>,
    ) -> Result<Option<String>, StateError> {
        if !oversight::keeps_answers(self.policies) {
            return Ok(None);
        }
        let here = Person::here();
        let answer = AtOnce {
            bound: to.bound,
            approved,
            by: who,
            said,
            used_by: to.used_by,
            asked_by: &here,
            proven: self.facts.agent.is_some(),
        };
        Store::open(self.store)?.transaction(|tx, now| queue::keep_answer(tx, now, &answer)).map(Some)
    }

    /// What a reply that is nobody's answer makes of it.
    pub(super) fn replied(&self, reply: Reply, ids: &[String], by: &mut Authorized) -> Came {
        match reply {
            Reply::Declined { denial, said, .. } => {
                if said.is_some() {
                    by.events.push(ApprovalRecord {
                        id: self.run_id.to_owned(),
                        state: "declined".into(),
                        by: None,
                        reason: said,
                        expires_at: None,
                    });
                }
                (*denial).into()
            }
            Reply::Cancelled(signal) => Came::Cancelled(signal),
            Reply::Stopped => self.stopped_meanwhile(ids),
            Reply::Approved { .. } => not_kept().into(),
        }
    }
}
