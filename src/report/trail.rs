//! The audit files of all stacked policies, as one: every record goes into each.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::policy::model::Policy;
use crate::policy::trust;
use crate::request::mask::{mask_command, mask_text, mask_value};

use super::audit::record::{
    ApprovalRecord, DecisionRecord, ErrorRecord, OutcomeRecord, SessionRecord, SwitchRecord, Words,
};
use super::audit::{Appended, Audit, AuditError, Body, Record};
use super::compose::shown;
use super::result::{AuditDoc, ErrorDoc, ResultDoc};
use super::status::Status;
use super::tool::ToolDoc;

/// What was asked, as far as the result does not say it.
#[derive(Debug, Default)]
pub struct Asked<'a> {
    /// The words; none where there are none to judge.
    pub words: Vec<&'a [u8]>,
    /// A command string that could not be split.
    pub command: Option<&'a [u8]>,
    /// The asker's reason.
    pub why: Option<&'a str>,
}

/// The opened audit files; none where no policy names one.
#[derive(Debug, Default)]
pub struct Trail {
    files: Vec<Audit>,
}

/// An audit file with all that belongs to it: its lock, its successor, and the old ones that were given dated names.
pub fn files_of(file: PathBuf) -> Vec<PathBuf> {
    let with = |suffix: &str| {
        let mut name = file.clone().into_os_string();
        name.push(suffix);
        PathBuf::from(name)
    };
    let mut all = vec![with(".lock"), with(".next")];
    if let (Some(dir), Some(start)) = (file.parent(), with(".").file_name()) {
        let names = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
        all.extend(
            names.filter(|name| name.as_bytes().starts_with(start.as_bytes())).map(|name| dir.join(name)),
        );
    }
    all.push(file);
    all.sort_unstable();
    all.dedup();
    all
}

impl Trail {
    /// Opens the file of every policy that names one, each once.
    ///
    /// # Errors
    /// The first file that cannot be used: then nothing may run.
    pub fn open(policies: &[Policy]) -> Result<Trail, AuditError> {
        let mut files: Vec<Audit> = Vec::new();
        for wanted in policies.iter().filter_map(|p| p.audit.as_ref()) {
            if files.iter().all(|open| open.path() != wanted.file) {
                test_way(&wanted.file)?;
                files.push(Audit::open(&wanted.file, wanted.rotate)?);
            }
        }
        Ok(Trail { files })
    }

    /// Records the decision. `ended` is false where the request may run.
    ///
    /// # Errors
    /// The record could not be written to one of the files.
    pub fn decided(&mut self, doc: &mut ResultDoc, asked: &Asked<'_>, ended: bool) -> Result<(), AuditError> {
        if self.files.is_empty() {
            return Ok(());
        }
        let called = doc.tool.as_ref().map(ToolDoc::words).unwrap_or_default();
        let words: Vec<&[u8]> =
            asked.words.iter().copied().chain(called.iter().map(|w| w.as_bytes())).collect();
        let mask = |text: &str| mask_text(text, &words);
        let named =
            |name: &str, value: &Option<String>| value.as_deref().map(|value| mask_value(name, value));
        let labels = doc.labels.iter().map(|(name, value)| (mask(name), mask_value(name, value)));
        let body = Body::Decision(Box::new(DecisionRecord {
            decision: doc.decision,
            status: ended.then_some(doc.status),
            stage: doc.stage,
            rule: doc.rule.clone(),
            reason: doc.reason.as_deref().map(mask),
            words: Words::new(&asked.words),
            command: asked.command.map(mask_command),
            tool: doc.tool.as_ref().map(ToolDoc::masked),
            program: doc.program.clone(),
            cwd: named("cwd", &doc.cwd),
            agent: named("agent", &doc.agent),
            session: named("session", &doc.session),
            labels: labels.collect(),
            why: asked.why.map(mask),
            policy: doc.policy.clone(),
            checks: std::mem::take(&mut doc.checks),
        }));
        self.append(doc, body)
    }

    /// Records that guardexec itself failed after the files were opened and before it could decide.
    ///
    /// # Errors
    /// The record could not be written to one of the files.
    pub fn failed(&mut self, doc: &mut ResultDoc, kind: &str, message: &str) -> Result<(), AuditError> {
        if self.files.is_empty() {
            return Ok(());
        }
        let (kind, message) = (kind.to_owned(), mask_text::<&[u8]>(message, &[]));
        self.append(doc, Body::Error(ErrorRecord { kind, message, hint: None, torn: None }))
    }

    /// Records that the kill switch ended the run.
    ///
    /// # Errors
    /// The record could not be written to one of the files.
    pub fn switched(&mut self, doc: &mut ResultDoc, reason: Option<String>) -> Result<(), AuditError> {
        if self.files.is_empty() {
            return Ok(());
        }
        self.append(doc, Body::Switch(SwitchRecord { on: true, by: None, reason }))
    }

    /// Records what was answered to a request, outside any run.
    ///
    /// # Errors
    /// The record could not be written to one of the files.
    pub fn answered(&mut self, run_id: &str, record: &ApprovalRecord) -> Result<(), AuditError> {
        let body = Body::Approval(record.clone());
        let record = Record { ts: SystemTime::now(), run_id: run_id.to_owned(), body };
        self.files.iter_mut().try_for_each(|file| file.append(&record).map(drop))
    }

    /// Records what happened to approvals on the way to the decision.
    ///
    /// # Errors
    /// A record could not be written to one of the files.
    pub fn asked(&mut self, doc: &mut ResultDoc, events: Vec<ApprovalRecord>) -> Result<(), AuditError> {
        if self.files.is_empty() {
            return Ok(());
        }
        events.into_iter().try_for_each(|event| {
            let reason = event.reason.as_deref().map(|reason| mask_text::<&[u8]>(reason, &[]));
            self.append(doc, Body::Approval(ApprovalRecord { reason, ..event }))
        })
    }

    /// Records that a session was halted or let go on, and by whom.
    ///
    /// # Errors
    /// The record could not be written to one of the files.
    pub fn session(
        &mut self,
        doc: &mut ResultDoc,
        session: &str,
        state: &str,
        by: Option<String>,
        reason: Option<String>,
    ) -> Result<(), AuditError> {
        if self.files.is_empty() {
            return Ok(());
        }
        self.append(
            doc,
            Body::Session(SessionRecord { session: session.to_owned(), state: state.to_owned(), by, reason }),
        )
    }

    /// Records that a person let a session go on, outside any run, and what it was halted for.
    ///
    /// # Errors
    /// The record could not be written to one of the files.
    pub fn resumed(
        &mut self,
        run_id: &str,
        session: &str,
        by: &str,
        reason: Option<&str>,
    ) -> Result<(), AuditError> {
        let (session, state) = (session.to_owned(), "resumed".to_owned());
        let (by, reason) = (Some(by.to_owned()), reason.map(str::to_owned));
        let body = Body::Session(SessionRecord { session, state, by, reason });
        let record = Record { ts: SystemTime::now(), run_id: run_id.to_owned(), body };
        self.files.iter_mut().try_for_each(|file| file.append(&record).map(drop))
    }

    /// Records how the run ended.
    ///
    /// # Errors
    /// The record could not be written to one of the files.
    pub fn ended(&mut self, doc: &mut ResultDoc) -> Result<(), AuditError> {
        if self.files.is_empty() {
            return Ok(());
        }
        let body = Body::Outcome(Box::new(OutcomeRecord {
            status: doc.status,
            stage: doc.stage,
            exit_code: doc.exit_code,
            exit_status: doc.exit_status,
            signal: doc.signal.clone(),
            limit: doc.limit,
            duration_ms: doc.duration_ms,
            cpu_user_ms: doc.cpu_user_ms,
            cpu_system_ms: doc.cpu_system_ms,
            max_rss_bytes: doc.max_rss_bytes,
            processes: doc.processes,
            stdout_bytes: doc.stdout_bytes,
            stderr_bytes: doc.stderr_bytes,
            survivors: doc.survivors,
            sandbox: doc.sandbox.clone(),
            error: doc
                .error
                .clone()
                .map(|error| ErrorDoc { message: mask_text::<&[u8]>(&error.message, &[]), ..error }),
            checks: std::mem::take(&mut doc.checks),
        }));
        self.append(doc, body)
    }

    fn append(&mut self, doc: &mut ResultDoc, body: Body) -> Result<(), AuditError> {
        let record = Record { ts: SystemTime::now(), run_id: doc.run_id.clone(), body };
        let mut first = None;
        for file in &mut self.files {
            let Appended { seq, hash } = file.append(&record)?;
            first.get_or_insert_with(|| AuditDoc { file: shown(file.path()), seq, hash });
        }
        doc.audit = first.or(doc.audit.take());
        Ok(())
    }
}

/// The same test of the way as a policy has to pass: whoever can write a directory can take the record away.
fn test_way(file: &Path) -> Result<(), AuditError> {
    let uid = nix::unistd::geteuid().as_raw();
    let directory = file.parent().unwrap_or(Path::new("/"));
    trust::check_directory(directory, uid).map_err(|e| AuditError::way(file, e))
}

/// A result whose audit record could not be written: an error that still carries the outcome.
pub fn unrecorded(doc: &mut ResultDoc, error: &AuditError) {
    unkept(doc, "audit", &error.to_string(), &error.hint());
    doc.audit = None;
}

/// A result of which something could not be kept that has to be: an error that still carries the outcome.
pub fn unkept(doc: &mut ResultDoc, kind: &str, message: &str, hint: &str) {
    let outcome = doc.text.clone();
    let ran = doc.exit_code.is_some() || doc.signal.is_some();
    doc.failed(kind, message, Some(hint));
    if ran {
        doc.text = format!("{}\nthe command did run:\n{outcome}", doc.text);
    }
    debug_assert_eq!(doc.status, Status::Error);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_audit_files_belong_to_the_audit_file() {
        let dir = std::env::temp_dir().join(format!("guardexec-trail-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for name in ["a.jsonl", "a.jsonl.20260101T000000000-7", "a.jsonl2", "other"] {
            std::fs::write(dir.join(name), "").unwrap();
        }
        let found = files_of(dir.join("a.jsonl"));
        std::fs::remove_dir_all(&dir).unwrap();
        let names = ["a.jsonl", "a.jsonl.20260101T000000000-7", "a.jsonl.lock", "a.jsonl.next"];
        assert_eq!(found, names.map(|name| dir.join(name)));
    }
}
