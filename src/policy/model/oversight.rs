//! What stands over single decisions: a switch, a person, counters, sessions, checks of one's own, alerts.

use std::path::PathBuf;
use std::time::Duration;

use super::{Place, Verdict};

/// A program that the policy's author runs for guardexec: a hook, a check, an alert. Trusted, and still run with limits,
/// the policy's `PATH` and no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Its words; the first is an absolute path. Every existing file that a further word names by an absolute path, as a
    /// whole or behind an option, is tested and guarded as the program is.
    pub argv: Vec<String>,
    /// Where it stands.
    pub at: Place,
}

/// `[kill_switch]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KillSwitch {
    /// While this exists, everything or what it names is denied.
    pub file: PathBuf,
    /// Where it stands.
    pub at: Place,
}

/// `[state]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatePolicy {
    /// The directory of the store.
    pub dir: PathBuf,
    /// Where it stands.
    pub at: Place,
}

/// `[approval] ask`: who is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AskBy {
    /// Filed in the store; a person answers with `guardexec approvals`.
    #[default]
    Queue,
    /// Whoever sits at the controlling terminal.
    Tty,
    /// Nobody: what would be asked is denied.
    Deny,
    /// A program that answers with a verdict.
    Program(Hook),
}

/// `[approval]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalPolicy {
    /// Who is asked.
    pub ask: AskBy,
    /// How long the terminal or the program may take; no answer in time declines.
    pub timeout: Duration,
    /// How long a filed request and its answer count.
    pub expires: Duration,
    /// How many of one agent may wait at once.
    pub max_pending: u64,
    /// Told of every request that is filed.
    pub notify: Option<Hook>,
    /// Told of a request that nobody answered for `escalate_after`.
    pub escalate: Option<Hook>,
    /// When.
    pub escalate_after: Option<Duration>,
    /// Where the section stands; `None` where none is written.
    pub at: Option<Place>,
}

impl Default for ApprovalPolicy {
    fn default() -> ApprovalPolicy {
        ApprovalPolicy {
            ask: AskBy::Queue,
            timeout: Duration::from_secs(30),
            expires: Duration::from_secs(600),
            max_pending: 16,
            notify: None,
            escalate: None,
            escalate_after: None,
            at: None,
        }
    }
}

/// By what a rate counts apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RateKey {
    /// The asker.
    Agent,
    /// The session.
    Session,
    /// A parameter of the tool.
    Param(String),
}

/// What a rate adds up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Measure {
    /// Allowed calls: each is one.
    Count,
    /// The values of this parameter.
    Sum(String),
}

/// `[[rate]]`: at most `max` in any window of `per`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rate {
    /// Unique within the policy.
    pub name: String,
    /// Where it stands.
    pub at: Place,
    /// The rules and tools it speaks of; `None` for all.
    pub matches: Option<Vec<String>>,
    /// Only for these askers (`None`: for all).
    pub agents: Option<Vec<String>>,
    /// By what it counts apart; empty: all in one.
    pub key: Vec<RateKey>,
    /// What is added up.
    pub measure: Measure,
    /// The most that a window may hold: a plain decimal number.
    pub max: String,
    /// The window.
    pub per: Duration,
    /// What comes of a call beyond it: `Deny` or `Ask`.
    pub then: Verdict,
    /// The author's reason, shown with the refusal.
    pub reason: Option<String>,
}

/// What an alert counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlertOn {
    /// Requests that were denied.
    Denials,
    /// Runs that reached `wall_time`.
    Timeouts,
    /// Checks that failed (crashed, timed out, or answered nothing usable) or blocked.
    Checks,
    /// What this rate holds.
    Rate(String),
}

/// `[[alert]]`: once in a window of `per`, when the figure passes `above`, a program is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// Unique within the policy.
    pub name: String,
    /// Where it stands.
    pub at: Place,
    /// What is counted.
    pub on: AlertOn,
    /// The figure: a plain decimal number.
    pub above: String,
    /// The window.
    pub per: Duration,
    /// What is run.
    pub run: Hook,
}

/// `[session] halt_on`: after what a session is halted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HaltOn {
    /// A violation of the confinement, or a layer that failed.
    Sandbox,
    /// A check that blocked or failed.
    Check,
    /// A change of what the workspace protects.
    Workspace,
    /// `wall_time` passed.
    Timeout,
    /// A call that ended in an error: guardexec itself failed, or what was asked makes no sense.
    Error,
    /// A command that exited with a status other than 0, or died of a signal.
    Exit,
    /// This many denials in all.
    Denied(u64),
}

/// `[session]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPolicy {
    /// After what it is halted.
    pub halt_on: Vec<HaltOn>,
    /// A request without a session is denied.
    pub required: bool,
    /// The most runs of one session.
    pub max_runs: Option<u64>,
    /// How long after its first call a session may go on.
    pub max_wall_time: Option<Duration>,
    /// Where the section stands.
    pub at: Place,
}

/// When a check is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckOn {
    /// Before anything runs.
    Request,
    /// Before the output goes to the caller.
    Output,
}

/// How bad it is when a check does not pass; goes into the audit record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// `low`.
    Low,
    /// `medium`.
    #[default]
    Medium,
    /// `high`.
    High,
    /// `critical`.
    Critical,
}

impl Severity {
    /// The word used in policies and audit records.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Low => "low",
            Severity::Medium => "medium",
            Severity::High => "high",
            Severity::Critical => "critical",
        }
    }
}

/// `[[check]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Unique within the policy.
    pub name: String,
    /// Where it stands.
    pub at: Place,
    /// When it is asked.
    pub on: CheckOn,
    /// The rules and tools it speaks of; `None` for all.
    pub matches: Option<Vec<String>>,
    /// What is run.
    pub run: Hook,
    /// How long it may take; then it has failed.
    pub timeout: Duration,
    /// How bad it is when it does not pass.
    pub severity: Severity,
    /// It may answer `rewrite`; such checks run one after the other, each on the last one's text.
    pub rewrites: bool,
}

/// All of them, of one policy.
#[derive(Debug, Clone, Default)]
pub struct Oversight {
    /// `[kill_switch]`.
    pub kill_switch: Option<KillSwitch>,
    /// `[state]`.
    pub state: Option<StatePolicy>,
    /// `[approval]`.
    pub approval: ApprovalPolicy,
    /// `[[rate]]`.
    pub rates: Vec<Rate>,
    /// `[[alert]]`.
    pub alerts: Vec<Alert>,
    /// `[session]`.
    pub session: Option<SessionPolicy>,
    /// `[[check]]`.
    pub checks: Vec<Check>,
}
