//! A result that is withheld until a person agrees: put away as a line, handed out by another call, and what its caller
//! learns meanwhile.

use super::json;
use super::result::{ResultDoc, RuleDoc};
use super::status::Status;
use super::text;
use crate::approval::bound::Cause;
use crate::decision::{Denial, Stage};

/// What the caller of a withheld result is told in its place.
#[derive(Debug, Clone)]
pub struct Withholding {
    /// The check that wants a person to decide.
    pub rule: RuleDoc,
    /// What it says, safe to print.
    pub why: String,
    /// What the caller can do.
    pub advice: String,
}

impl Withholding {
    /// Because of this check.
    pub fn by(check: &Cause, advice: String) -> Withholding {
        let Cause { id, file, line, reason } = check;
        let rule = RuleDoc { id: id.clone(), file: json::lossless(&file.0), line: *line };
        Withholding { rule, why: reason.clone(), advice }
    }
}

impl ResultDoc {
    /// A result from the line that it was put away as.
    ///
    /// # Errors
    /// It is no line of a result of this version.
    pub fn of_line(line: &str) -> Result<ResultDoc, serde_json::Error> {
        serde_json::from_str(line)
    }

    /// The line that it is put away as; `None` where that is longer than `most` bytes.
    pub fn to_line_within(&self, most: usize) -> Option<String> {
        json::to_line_within(self, most)
    }

    /// A person has to decide whether the output goes out. Nothing of it is left; the figures of the run are, for the record
    /// of it, until [`ResultDoc::conceal`].
    pub fn withheld(&mut self, by: &Withholding) {
        self.withhold();
        self.status = Status::NeedsApproval;
        self.stage = Some(Stage::Output.as_str());
        self.exit_status = Status::NeedsApproval.exit_status(None, None);
        self.error = None;
        let Withholding { rule, why, advice } = by;
        let stands = self.approval.as_ref().map(|a| format!("; approval {} is {}", a.id, a.state));
        let sentence = format!(
            "a person has to approve the output first ({why}, {}:{}){}",
            rule.file,
            rule.line,
            stands.unwrap_or_default()
        );
        self.text = text::blocked(&sentence, Some(advice));
        self.rule = Some(rule.clone());
        self.reason = Some(why.clone());
    }

    /// The output was asked about, and does not go out. The request was allowed, and it did run.
    pub fn barred(&mut self, denial: &Denial) {
        self.withhold();
        let decision = self.decision;
        self.error = None;
        self.refused(denial, Status::Denied);
        self.decision = decision;
    }

    /// Takes out what tells something of a withheld output: how the command ended, how much it wrote, and what it took and
    /// was refused on the way. How long it took the caller could see for himself.
    pub fn conceal(&mut self) {
        (self.exit_code, self.limit, self.core_dumped) = (None, None, false);
        (self.stdout_bytes, self.stderr_bytes) = (None, None);
        (self.cpu_user_ms, self.cpu_system_ms, self.max_rss_bytes) = (None, None, None);
        (self.processes, self.survivors) = (None, None);
        self.violations.clear();
        self.redactions.clear();
        if self.status != Status::Cancelled {
            self.signal = None;
        }
    }

    /// This call hands out a result that was withheld, its own run's or an earlier one's: all of it but the output, which goes
    /// in when that is recorded.
    pub fn hands_out(&mut self, of: &ResultDoc) {
        let mut new = of.clone();
        new.withhold();
        if new.run_id != self.run_id {
            let what =
                format!("this is the result of run {}, which was withheld; nothing ran now", of.run_id);
            new.warnings.insert(0, what);
        }
        let own = std::mem::take(&mut self.warnings).into_iter().filter(|own| !of.warnings.contains(own));
        new.warnings.extend(own);
        new.run_id = std::mem::take(&mut self.run_id);
        (new.approval, new.audit) = (self.approval.take(), self.audit.take());
        *self = new;
    }

    /// The output of the result that is handed out.
    pub fn with_output(&mut self, of: &ResultDoc) {
        self.stdout.clone_from(&of.stdout);
        self.stderr.clone_from(&of.stderr);
        self.stdout_base64.clone_from(&of.stdout_base64);
        self.stderr_base64.clone_from(&of.stderr_base64);
        (self.stdout_truncated, self.stderr_truncated) = (of.stdout_truncated, of.stderr_truncated);
        self.text.clone_from(&of.text);
    }
}

#[cfg(test)]
mod tests;
