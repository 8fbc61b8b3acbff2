//! What is said of a request that cannot be used or answered.

use crate::approval::bound::Bound;
use crate::approval::entry::{Entry, State};
use crate::approval::refusal::refusal;
use crate::approval::screen;
use crate::decision::Denial;
use crate::request::{Asker, quote};

impl Entry {
    /// Whether the asker is the one who filed it, as far as it says who it is.
    pub(in crate::approval) fn is_askers(&self, asker: &Asker) -> Result<(), Box<Denial>> {
        let other = |given: &Option<String>, own: &Option<String>| given.is_some() && given != own;
        if other(&asker.agent, &self.bound.agent) || other(&asker.session, &self.bound.session) {
            return Err(self.another_asker());
        }
        Ok(())
    }

    pub(super) fn another_asker(&self) -> Box<Denial> {
        let shown = |name: &Option<String>| match name {
            Some(name) => quote::repr(name.as_bytes()),
            None => "none".to_owned(),
        };
        let (agent, session) = (shown(&self.bound.agent), shown(&self.bound.session));
        let message =
            format!("approval {} is for agent {agent}, session {session}, and for nobody else", self.id);
        refusal("approval_mismatch", message, "ask for yourself, without --approval")
    }

    /// The refusal of a command where the output of one waits.
    pub(super) fn has_run(&self) -> Box<Denial> {
        let id = &self.id;
        let message = format!("approval {id} is for the output of a run that is over, and runs nothing");
        refusal("approval_mismatch", message, format!("get that output with --approval {id} and no command"))
    }

    /// Why nothing can come of it any more.
    pub(in crate::approval) fn closed(&self) -> Box<Denial> {
        let id = &self.id;
        let output = self.bound.output.is_some();
        let again = match (output, self.state) {
            (false, _) => "ask again, without --approval",
            (true, State::Consumed) => "its output was handed out then, and is not kept any more",
            (true, _) => "its output is not kept any more; it did run, do not run it again for that",
        };
        match self.state {
            State::Consumed => {
                let at = self.used.as_ref().map_or("", |(at, _)| at);
                refusal("approval_consumed", format!("approval {id} was used already, at {at}"), again)
            }
            State::Declined => {
                let said = self.answered.as_ref().map(screen::answer).unwrap_or_default();
                refusal(
                    "approval_declined",
                    format!("approval {id} was {said}"),
                    if output { again } else { "do without it, or ask for something else" },
                )
            }
            _ => refusal(
                "approval_expired",
                format!("the time of approval {id} is over since {}", self.expires_at),
                again,
            ),
        }
    }

    pub(super) fn differs(&self, bound: &Bound) -> Box<Denial> {
        let id = &self.id;
        if self.digest != self.asked_digest && bound.digest() == self.asked_digest {
            let message = format!("approval {id} is for other words, which were approved in place of these");
            let hint = format!(
                "run those with --approval {id} and no command; guardexec approvals show {id} shows them"
            );
            return refusal("approval_edited", message, hint);
        }
        match self.bound.difference(bound) {
            Some(difference) if difference.stale => {
                let message =
                    format!("approval {id} does not cover this: {} since it was asked for", difference.what);
                refusal(
                    "approval_stale",
                    message,
                    "ask again, without --approval: a person has to see what it is now",
                )
            }
            difference => {
                let what = difference.map_or_else(|| "it is another request".to_owned(), |found| found.what);
                let message = format!("approval {id} does not cover this: {what}");
                refusal(
                    "approval_mismatch",
                    message,
                    "ask for exactly what was approved, or again without --approval",
                )
            }
        }
    }

    /// Why it cannot be answered.
    pub(super) fn answered_already(&self) -> Box<Denial> {
        match (&self.answered, self.state) {
            (Some(answered), State::Approved | State::Declined | State::Consumed) => {
                let message = format!(
                    "approval {} was {}; it cannot be answered again",
                    self.id,
                    screen::answer(answered)
                );
                refusal(
                    "approval_answered",
                    message,
                    "an answer cannot be taken back; what was not used expires",
                )
            }
            _ => self.closed(),
        }
    }
}
