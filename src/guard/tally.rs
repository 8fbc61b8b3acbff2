//! What checks said so far, and what that comes to: the strictest wins.

use super::verdict::{self, Answer, Said, escaped};
use super::{Asked, Finding, Objection, Ruling};
use crate::decision::Facts;
use crate::hook::{self, Heard, Job};
use crate::policy::model::{Check, CheckOn};
use crate::request::quote::repr;
use crate::run::Stop;

/// Findings, warnings, and the strictest of all that was said.
#[derive(Debug, Default)]
pub struct Tally {
    pub findings: Vec<Finding>,
    pub warnings: Vec<String>,
    ended: Option<Ruling>,
    blocked: Option<Objection>,
    asked: Option<Objection>,
}

impl Tally {
    /// Runs these side by side, each with its own document. What the ones that may rewrite want instead is returned, in
    /// their order.
    pub fn hear(
        &mut self,
        checks: &[&Asked<'_>],
        document: impl Fn(&Check) -> Vec<u8>,
        facts: &Facts,
        stop: Stop<'_>,
    ) -> Vec<Option<serde_json::Value>> {
        let job = |asked: &&Asked<'_>| (document(asked.check), asked.check.timeout);
        let inputs: Vec<_> = checks.iter().map(job).collect();
        let jobs = checks.iter().zip(inputs).map(|(asked, (input, timeout))| Job {
            name: &asked.check.name,
            hook: &asked.check.run,
            input,
            timeout,
            path: &asked.path,
        });
        let heard = hook::run_all(jobs.collect(), facts, stop);
        checks.iter().zip(heard).map(|(asked, heard)| self.note(asked.check, &heard)).collect()
    }

    /// Notes what one check said. What it wants in place of what it read, where it may want that.
    fn note(&mut self, check: &Check, heard: &Heard) -> Option<serde_json::Value> {
        match heard {
            Heard::Cancelled(signal) => self.ended = Some(Ruling::Cancelled(*signal)),
            Heard::Stopped => self.ended = self.ended.take().or(Some(Ruling::Stopped)),
            _ => match verdict::of(heard, check) {
                Ok(answer) => return self.take(check, answer),
                Err(why) => self.failed(check, &why, heard.stderr()),
            },
        }
        None
    }

    fn take(&mut self, check: &Check, answer: Answer) -> Option<serde_json::Value> {
        let Answer { said, reason } = answer;
        self.find(check, said.as_str(), &reason, None);
        match said {
            Said::Pass => {}
            Said::Warn => self.warn(check, "warns", &reason),
            Said::Ask => self.object(check, reason, false, true),
            Said::Block => self.object(check, reason, false, false),
            Said::Rewrite(replacement) => return Some(replacement),
        }
        None
    }

    /// The check gave no verdict, for this reason: that blocks.
    pub fn failed(&mut self, check: &Check, why: &str, stderr: &[u8]) {
        self.find(check, "block", why, Some(stderr));
        self.object(check, why.to_owned(), true, false);
    }

    /// A replacement was taken: the caller is told that the text is not the original any more.
    pub fn rewrote(&mut self, check: &Check, what: &str) {
        let finding = self.findings.iter().rfind(|finding| finding.check == check.name);
        let reason = finding.map_or(String::new(), |finding| finding.reason.clone());
        self.warn(check, &format!("rewrote the {what}"), &reason);
    }

    fn warn(&mut self, check: &Check, does: &str, reason: &str) {
        let sentence = format!("check {} {does}: {reason}", repr(check.name.as_bytes()));
        if !self.warnings.contains(&sentence) {
            self.warnings.push(sentence);
        }
    }

    fn find(&mut self, check: &Check, verdict: &'static str, reason: &str, stderr: Option<&[u8]>) {
        self.findings.push(Finding {
            check: check.name.clone(),
            at: check.at.clone(),
            on: check.on,
            verdict,
            failed: stderr.is_some(),
            severity: check.severity,
            reason: reason.to_owned(),
            // No byte of an output is ever recorded, and this may repeat it.
            stderr: stderr.filter(|_| check.on == CheckOn::Request).map(tail).unwrap_or_default(),
        });
    }

    /// Among objections of one kind the most severe one is shown, and of those the first.
    fn object(&mut self, check: &Check, reason: String, failed: bool, asks: bool) {
        let Check { name, at, severity, .. } = check;
        let (check, at, severity) = (name.clone(), at.clone(), *severity);
        let new = Objection { check, at, reason, failed, severity, asks };
        let place = if asks { &mut self.asked } else { &mut self.blocked };
        if place.as_ref().is_none_or(|old| new.severity > old.severity) {
            *place = Some(new);
        }
    }

    /// Nothing that a further check could say would let it go on.
    pub fn over(&self) -> bool {
        self.ended.is_some() || self.blocked.is_some()
    }

    /// What it comes to.
    pub fn ruling(&self) -> Ruling {
        let blocked = || self.blocked.clone().map(Ruling::Block);
        let asked = || self.asked.clone().map(Ruling::Ask);
        self.ended.clone().or_else(blocked).or_else(asked).unwrap_or(Ruling::Pass)
    }
}

fn tail(stderr: &[u8]) -> String {
    escaped(&String::from_utf8_lossy(stderr))
}
