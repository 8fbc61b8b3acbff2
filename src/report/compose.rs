//! Fills a result in from what the earlier rooms came to. One function a source; nothing is decided here.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use crate::decision::{Denial, Grant, INVALID_ARGUMENTS, RuleRef, Stage};
use crate::guard::Finding;
use crate::policy::model::{Bound, CheckOn, EffectiveLimits, Policy, Profile, Verdict};
use crate::program::Program;
use crate::request::Asker;
use crate::request::quote;
use crate::request::units::{show_duration, show_size};
use crate::run::{Captured, Ended, How, LimitKind};
use crate::sandbox::{Enforced, Step};

use super::json;
use super::result::{
    CheckDoc, ErrorDoc, LimitDoc, PolicyDoc, ProgramDoc, ResultDoc, RuleDoc, SandboxDoc, SeverityDoc, words,
};
use super::status::Status;
use super::text;
use super::tool::ToolDoc;

mod violation;

impl ResultDoc {
    /// Who asks.
    pub fn asked_by(&mut self, asker: &Asker) {
        self.agent.clone_from(&asker.agent);
        self.session.clone_from(&asker.session);
        self.labels.clone_from(&asker.labels);
    }

    /// Which files judge.
    pub fn judged_by(&mut self, policies: &[Policy]) {
        let mut files: Vec<PolicyDoc> = Vec::new();
        for source in policies.iter().flat_map(|p| &p.sources) {
            let doc = PolicyDoc { path: shown(&source.path), sha256: source.sha256.clone() };
            if !files.contains(&doc) {
                files.push(doc);
            }
        }
        self.policy = files;
    }

    /// The words that run or would have run.
    pub fn of_words(&mut self, argv: &[OsString]) {
        let bytes: Vec<&[u8]> = argv.iter().map(|w| w.as_bytes()).collect();
        let (text, base64) = words(&bytes);
        self.argv = Some(text);
        self.argv_base64 = base64;
    }

    /// What was granted, before it runs.
    pub fn granted(&mut self, grant: &Grant) {
        self.decision = Some(grant.verdict.as_str());
        self.rule = Some(rule_doc(&grant.rule));
        self.reason = Some(grant.reason.clone());
        self.program = grant.program.as_ref().map(program_doc);
        if let Some(call) = &grant.tool {
            self.tool = Some(ToolDoc::settled(call));
        }
        self.cwd = Some(shown(&grant.cwd));
        self.warnings.extend(grant.warnings.iter().cloned());
    }

    /// What checks said, for the next audit record.
    pub fn checked(&mut self, findings: Vec<Finding>) {
        self.checks.extend(findings.into_iter().map(|f| CheckDoc {
            check: f.check,
            on: match f.on {
                CheckOn::Request => "request",
                CheckOn::Output => "output",
            },
            verdict: f.verdict,
            failed: f.failed,
            severity: SeverityDoc(f.severity),
            reason: f.reason,
            stderr: f.stderr,
        }));
    }

    /// A refusal, or a request that cannot run for another cause.
    pub fn refused(&mut self, denial: &Denial, status: Status) {
        self.status = status;
        self.stage = Some(denial.stage.as_str());
        self.rule = denial.rule.as_ref().map(rule_doc);
        self.reason = Some(denial.message.clone());
        let hint = denial.hint.as_deref();
        self.text = match status {
            Status::Denied if denial.code == INVALID_ARGUMENTS => text::invalid(&denial.message, hint),
            Status::Denied => text::blocked(&denial.message, hint),
            _ => text::failed(&denial.message, hint),
        };
        self.decision = match status {
            Status::Denied => Some(Verdict::Deny.as_str()),
            Status::NotFound | Status::ExecFailed => Some(Verdict::Allow.as_str()),
            _ => None,
        };
        if status != Status::Denied {
            self.error = Some(ErrorDoc {
                kind: denial.code.to_owned(),
                message: denial.message.clone(),
                hint: denial.hint.clone(),
            });
        }
        self.exit_status = status.exit_status(None, None);
    }

    /// A failure of guardexec itself.
    pub fn failed(&mut self, kind: &str, message: &str, hint: Option<&str>) {
        self.status = Status::Error;
        self.exit_status = Status::Error.exit_status(None, None);
        self.text = text::failed(message, hint);
        self.reason = Some(message.to_owned());
        self.error = Some(ErrorDoc {
            kind: kind.to_owned(),
            message: message.to_owned(),
            hint: hint.map(str::to_owned),
        });
    }

    /// A person has to approve it first. `advice`: what the asker can do, where the request was filed.
    pub fn needs_approval(&mut self, grant: &Grant, advice: Option<&str>) {
        self.granted(grant);
        let why = grant.why();
        self.rule = Some(rule_doc(grant.asker()));
        self.reason = Some(why.clone());
        self.decision = Some(Verdict::Ask.as_str());
        self.status = Status::NeedsApproval;
        self.stage = Some(Stage::Approval.as_str());
        self.exit_status = Status::NeedsApproval.exit_status(None, None);
        let id = self
            .approval
            .as_ref()
            .map(|approval| format!("; approval {} is {}", approval.id, approval.state));
        self.text = text::blocked(
            &format!(
                "a person has to approve this first ({why}, {}){}",
                grant.asker().at,
                id.unwrap_or_default()
            ),
            Some(advice.unwrap_or("nothing ran; run it to have it asked")),
        );
    }

    /// How the run went, and under what.
    pub fn ran(&mut self, ended: &Ended, limits: &EffectiveLimits) {
        self.duration_ms = millis(ended.duration);
        self.limit = ended.limit.map(LimitKind::as_str);
        self.limits = limit_docs(limits, ended);
        self.cpu_user_ms = Some(millis(ended.cpu_user));
        self.cpu_system_ms = Some(millis(ended.cpu_system));
        self.max_rss_bytes = ended.max_rss;
        self.processes = ended.processes.map(u64::from);
        // Of those that have not gone yet nobody knows how many they are.
        self.survivors = (!ended.unreaped).then(|| ended.survivors.into());
        self.planted = ended.planted;
        self.warnings.extend(ended.warnings.iter().cloned());
        if ended.unreaped {
            self.warnings.push(
                "a process was killed and could not be reaped yet: it waits uninterruptibly in the kernel, or the machine is too \
                 busy to end it"
                    .into(),
            );
        }
        self.sandbox = Some(sandbox_doc(&ended.enforced));
        self.bounds.clone_from(&ended.enforced.bounds);
        self.streams(&ended.stdout, &ended.stderr);
        let signal = self.ending(ended);
        self.exit_status = match (self.status, ended.limit) {
            // A limit other than time: guardexec killed the tree, whatever the main process made of it.
            (Status::LimitExceeded, Some(LimitKind::CpuTime | LimitKind::FileSize)) => {
                self.status.exit_status(None, signal)
            }
            (status, _) => status.exit_status(self.exit_code, signal),
        };
        self.violations.extend(violation::all(ended, self.program.as_ref()));
        match ended.how {
            How::NotStarted { step, errno } => self.not_started(step, errno),
            How::Unknown if ended.limit.is_none() => {
                self.failed("run", "the process that held the run was killed, and with it the run", None);
            }
            _ => self.ran_text(ended, limits),
        }
    }

    /// The program never ran: which step failed, and what that means for the caller.
    fn not_started(&mut self, step: Step, errno: i32) {
        let why = std::io::Error::from_raw_os_error(errno);
        let program = self.program.as_ref().map_or_else(String::new, |p| quote::display(p.path.as_bytes()));
        let (status, message, hint) = match (step, errno) {
            (Step::Exec, libc::ENOENT) => (
                Status::NotFound,
                format!("{program} names an interpreter that was not found"),
                "look at its first line",
            ),
            (Step::Exec, libc::ENOEXEC) => (
                Status::ExecFailed,
                format!("{program} is no program this machine can execute, and no shell is tried: {why}"),
                "start a script with #! and its interpreter",
            ),
            (Step::Exec, _) => (
                Status::ExecFailed,
                format!("{program} could not be executed: {why}"),
                "look at its mode and its file system",
            ),
            (Step::Program, _) => (
                Status::ExecFailed,
                format!("{program} was replaced while it was being started"),
                "try again",
            ),
            (step, _) => {
                (Status::Error, format!("could not {step}: {why}; nothing ran"), "see `guardexec doctor`")
            }
        };
        self.status = status;
        self.exit_status = status.exit_status(None, None);
        self.text = text::failed(&message, Some(hint));
        self.reason = Some(message.clone());
        self.error = Some(ErrorDoc { kind: "start".into(), message, hint: Some(hint.into()) });
    }

    /// Status, exit code and signal; gives the signal's number.
    fn ending(&mut self, ended: &Ended) -> Option<i32> {
        let signal = match ended.how {
            How::Exited(code) => {
                self.exit_code = u8::try_from(code & 0xff).ok();
                None
            }
            How::Signaled(number, core) => {
                self.core_dumped = core;
                Some(number)
            }
            How::Cancelled(number) => Some(number),
            How::Stopped => Some(libc::SIGKILL),
            How::NotStarted { .. } | How::Unknown => None,
        };
        self.signal = signal.map(signal_name);
        self.status = match (ended.limit, ended.how) {
            (Some(LimitKind::WallTime), _) => Status::Timeout,
            (Some(_), _) => Status::LimitExceeded,
            (None, How::Exited(0)) => Status::Ok,
            (None, How::Exited(_)) => Status::NonzeroExit,
            (None, How::Signaled(..)) => Status::Signaled,
            (None, How::Cancelled(_) | How::Stopped) => Status::Cancelled,
            (None, How::NotStarted { .. }) => Status::ExecFailed,
            (None, How::Unknown) => Status::Error,
        };
        signal
    }

    fn streams(&mut self, stdout: &Captured, stderr: &Captured) {
        let stream = |captured: &Captured| {
            let whole = captured.is_utf8();
            (captured.text(), (!whole).then(|| encode(&captured.kept())))
        };
        (self.stdout, self.stdout_base64) = some_first(stream(stdout));
        (self.stderr, self.stderr_base64) = some_first(stream(stderr));
        self.stdout_bytes = Some(stdout.total());
        self.stderr_bytes = Some(stderr.total());
        self.stdout_truncated = stdout.truncated();
        self.stderr_truncated = stderr.truncated();
    }

    fn ran_text(&mut self, ended: &Ended, limits: &EffectiveLimits) {
        self.text = text::ran(&text::Ran {
            status: self.status,
            exit_status: self.exit_status,
            signal: self.signal.as_deref(),
            limit: self.limit,
            limit_value: ended.limit.and_then(|kind| limit_value(kind, limits)),
            stdout: self.stdout.as_deref().unwrap_or_default(),
            stderr: self.stderr.as_deref().unwrap_or_default(),
        });
        self.text.push_str(&self.hints());
        if !matches!(self.status, Status::Ok | Status::NonzeroExit) {
            self.reason =
                Some(self.text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned());
        }
    }
}

fn some_first<T>((text, base64): (String, Option<T>)) -> (Option<String>, Option<T>) {
    (Some(text), base64)
}

fn encode(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A path in a result; bytes that are not UTF-8 as lossless escapes.
pub fn shown(path: &Path) -> String {
    json::lossless(path.as_os_str().as_bytes())
}

/// A rule as results name it.
pub fn rule_doc(rule: &RuleRef) -> RuleDoc {
    RuleDoc { id: rule.id.clone(), file: shown(&rule.at.file), line: rule.at.line }
}

/// A program as results name it.
pub fn program_doc(program: &Program) -> ProgramDoc {
    ProgramDoc {
        path: shown(&program.path),
        device: program.device,
        inode: program.inode,
        sha256: program.sha256.clone(),
    }
}

fn sandbox_doc(enforced: &Enforced) -> SandboxDoc {
    SandboxDoc {
        profile: Profile::as_str(enforced.profile),
        enforced: enforced.on.iter().map(|(layer, how)| (layer.as_str(), how.clone())).collect(),
        missing: enforced.missing.iter().map(|layer| layer.as_str()).collect(),
    }
}

/// A signal's name, `SIGRTMIN+n` for the real-time ones.
pub fn signal_name(number: i32) -> String {
    match nix::sys::signal::Signal::try_from(number) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) if number >= libc::SIGRTMIN() => format!("SIGRTMIN+{}", number - libc::SIGRTMIN()),
        Err(_) => format!("SIG{number}"),
    }
}

fn limit_docs(limits: &EffectiveLimits, ended: &Ended) -> Vec<(&'static str, LimitDoc)> {
    let how = &ended.limits_how;
    let time = |bound: Bound<Duration>| bound.get().map(millis);
    let plain = |bound: Bound<u64>| bound.get();
    let mut docs = vec![
        ("wall_time", time(limits.wall_time), how.wall_time),
        ("cpu_time", time(limits.cpu_time), how.cpu_time),
        ("memory", plain(limits.memory), how.memory),
        ("pids", plain(limits.pids), how.pids),
        ("output", plain(limits.output), how.output),
        ("file_size", plain(limits.file_size), how.file_size),
        ("open_files", plain(limits.open_files), how.open_files),
    ];
    if limits.cpus.get().is_some() {
        docs.push(("cpus", plain(limits.cpus), how.cpus));
    }
    docs.into_iter().map(|(name, value, how)| (name, LimitDoc { value, how: how.as_str() })).collect()
}

fn limit_value(kind: LimitKind, limits: &EffectiveLimits) -> Option<String> {
    match kind {
        LimitKind::WallTime => limits.wall_time.get().map(show_duration),
        LimitKind::CpuTime => limits.cpu_time.get().map(show_duration),
        LimitKind::Memory => limits.memory.get().map(show_size),
        LimitKind::FileSize => limits.file_size.get().map(show_size),
        LimitKind::Pids => limits.pids.get().map(|n| n.to_string()),
    }
}

#[cfg(test)]
mod tests;
