//! An output about which a person has to decide: whoever answers at once is asked, and what waits is put away.

use super::answered::AnsweredTo;
use super::authority::{Authority, Authorized, Passed};
use super::outgoing::Origin;
use super::refusals::{not_kept, unavailable};
use crate::approval;
use crate::approval::bound::{Bound, Cause};
use crate::approval::kept::Kept;
use crate::approval::program::Around;
use crate::approval::queue::{self, Filed, Terms};
use crate::approval::screen::Paper;
use crate::approval::withheld::{MOST, Withheld};
use crate::decision::{Denial, Stage};
use crate::policy::oversight;
use crate::report::result::ResultDoc;
use crate::state::{StateError, Store};
use crate::sys::account::Person;

impl Authority<'_> {
    /// Asks about the output as about any other thing. `Ok(None)`: whoever had to be asked lets it go out. Else it waits, for
    /// this reason.
    ///
    /// # Errors
    /// It does not go out, now or later.
    pub(super) fn ask_about_output(
        &self,
        origin: &mut Origin,
        causes: Vec<Cause>,
        by: &mut Authorized,
        doc: &ResultDoc,
    ) -> Passed<Option<(Filed, Cause)>> {
        let before = origin.bound.take().ok_or_else(not_kept)?.map_err(|denial| *denial)?;
        let Withheld { output, streams, result } =
            Withheld::of(doc.to_line_within(MOST), &origin.ids).map_err(|denial| *denial)?;
        let bound = before.of_output(output, causes, self.policies);
        let filing = by.filing.take();
        let evidence = filing.as_ref().and_then(|filing| filing.evidence.as_ref());
        let evidence = evidence.map(|evidence| evidence.bytes.as_slice());
        let asked = oversight::asked(self.policies, oversight::can_ask);
        let look = self.look(&origin.ids);
        let around = Around { policies: self.policies, facts: self.facts, stop: self.stop(&look) };
        let paper = Paper { bound: &bound, evidence, output: Some(&streams), entry: None, lately: None };
        match approval::ask(&asked, &paper, &around) {
            None => {}
            Some(reply) => {
                let used_by = (!asked.queue).then_some(self.run_id);
                self.answered(reply, AnsweredTo { bound: &bound, ids: &origin.ids, used_by }, by)?;
            }
        }
        if !asked.queue {
            return Ok(None);
        }
        let kept = filing.and_then(|filing| filing.kept).ok_or_else(not_kept)?.with_result(result);
        let filed = match self.put_away(&bound, kept, Terms::of(&asked)) {
            Ok(Ok(filed)) => filed,
            Ok(Err(denial)) => return Err((*denial).into()),
            Err(error) => return Err(unavailable(&error, Stage::Approval).into()),
        };
        // The command ran and its output is filed: the caller has to learn under which id, also where a signal ended this.
        if self.notify(&filed, by).is_ok() {
            let _ = self.escalate(by);
        }
        let cause = bound.causes.first().cloned().ok_or_else(not_kept)?;
        Ok(Some((filed, cause)))
    }

    fn put_away(
        &self,
        bound: &Bound,
        kept: Kept,
        terms: Terms,
    ) -> Result<Result<Filed, Box<Denial>>, StateError> {
        let person = Person::here();
        let filing = queue::Filing { bound, kept, terms, by: &person };
        Store::open(self.store)?.attempt(|tx, now| queue::file(tx, now, filing))
    }
}
