//! The way through the house: one request to one result, step by step.

mod aftermath;
mod answered;
mod apart;
mod asking;
mod authority;
mod authorize;
mod conclude;
pub(crate) mod edit;
mod explain;
mod outgoing;
mod outputs;
mod permit;
mod ready;
mod refusals;
mod release;
mod tool;
mod withhold;

use std::path::PathBuf;
use std::time::SystemTime;

use authority::{Authority, Authorized};
use conclude::{Settled, When, concluded};
pub use explain::{Explained, explain};
pub use outputs::{Output, Place, RESULT_TARGET};
use release::Wants;

use crate::decision::{self, Facts, Grant, Stage};
use crate::policy::error::{ErrorKind, PolicyError, Spot};
use crate::policy::load::LoadContext;
use crate::policy::model::{Policy, Syntax};
use crate::policy::oversight::{self, Led, Role};
use crate::policy::stack::{Search, Stack};
use crate::report::result::ResultDoc;
use crate::report::run_id;
use crate::report::status::Status;
use crate::report::tool::ToolDoc;
use crate::report::trail::{self, Trail};
use crate::request::words;
use crate::request::{Request, Stdin};
use crate::run::{self, How, Leaving, RunError, Sinks};
use crate::sandbox::{Confinement, PrepareError, Step};
use crate::state;
use crate::switch::Switch;
use crate::sys;

/// One call: a request and the policies that the caller names.
#[derive(Debug)]
pub struct Call {
    /// What is asked.
    pub request: Request,
    /// `--policy`; empty means the default places.
    pub policies: Vec<PathBuf>,
    /// Whether the child's output also passes through as it comes (`--output raw`).
    pub pass_through: bool,
    /// `--state`: where the store is, unless a policy says.
    pub state: Option<PathBuf>,
    /// `--wait`: how long an answer may take.
    pub wait: Option<std::time::Duration>,
}

/// What the process was started with, read once.
#[derive(Debug)]
pub struct Surroundings {
    /// What judging may know.
    pub facts: Facts,
    /// Where policies are looked for; the call's own are put in.
    pub search: Search,
    /// What loading them has to know.
    pub load: LoadContext,
}

impl Surroundings {
    /// What decides where the store is, besides the policies.
    pub(crate) fn caller(&self, option: Option<PathBuf>) -> state::place::Caller {
        state::place::Caller {
            option,
            xdg_state_home: self.facts.variable(b"XDG_STATE_HOME"),
            home: self.facts.home.clone(),
            uid: self.load.uid,
        }
    }
}

/// What came of a call.
#[derive(Debug)]
pub struct Answer {
    /// The result.
    pub doc: ResultDoc,
    /// More for a person: an excerpt of the policy, safe to print.
    pub excerpt: Option<String>,
    /// What judged the call. Hundreds of rules take a while to give back: that waits until the result is told, and then
    /// passes while what held the run goes away.
    pub policies: Vec<Policy>,
    /// What held the run, on its way out; waited for when this is dropped.
    pub leaving: Option<Leaving>,
}

/// Judges and runs one request. Whatever happens, the caller gets a result.
#[must_use]
pub fn perform(call: Call, around: &Surroundings) -> Answer {
    perform_into(call, around, &[])
}

/// The same, where the result goes to `outputs` too: none of them may be a file that a policy leads to.
#[must_use]
pub fn perform_into(call: Call, around: &Surroundings, outputs: &[Output]) -> Answer {
    let started = SystemTime::now();
    let mut doc = ResultDoc::new(run_id::new(started), started);
    doc.asked_by(&call.request.asker);
    doc.tool = ToolDoc::of_request(&call.request);
    let (mut policies, mut leaving) = (Vec::new(), None);
    let excerpt = match through(call, around, outputs, &mut doc, &mut policies, &mut leaving) {
        Ok(()) => None,
        Err(error) => {
            doc.stage = Some(Stage::Policy.as_str());
            doc.failed("policy", &error.one_line(), None);
            Some(error.to_string())
        }
    };
    if doc.duration_ms == 0 {
        let took = started.elapsed().unwrap_or_default();
        doc.duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    }
    Answer { doc, excerpt, policies, leaving }
}

/// The steps. An unusable policy ends them before anything else is looked at.
fn through(
    call: Call,
    around: &Surroundings,
    outputs: &[Output],
    doc: &mut ResultDoc,
    policies: &mut Vec<Policy>,
    leaving: &mut Option<Leaving>,
) -> Result<(), PolicyError> {
    let search = Search { given: call.policies, ..around.search.clone() };
    *policies = Stack::load(&search, &around.load)?.policies;
    let policies: &[Policy] = policies;
    doc.judged_by(policies);
    if let Err(message) = outputs::clear(outputs, &guarded(policies)) {
        doc.failed(RESULT_TARGET, &message, Some("name another file for the result"));
        return Ok(());
    }
    let mut trail = match Trail::open(policies) {
        Ok(trail) => trail,
        Err(error) => {
            trail::unrecorded(doc, &error);
            return Ok(());
        }
    };
    if call.pass_through && outgoing::is_checked(policies) {
        doc.failed(
            "output_checked",
            "the policy checks the output before it goes out, so it cannot be passed through as it comes",
            Some("use --output json or --output text"),
        );
        return unusable(&mut trail, doc);
    }
    let switches = Switch::all(policies);
    let run_id = doc.run_id.clone();
    let store = state::place::resolve(policies, &around.caller(call.state))?;
    let authority = Authority {
        policies,
        switches: &switches,
        facts: &around.facts,
        run_id: &run_id,
        store: &store,
        wait: call.wait,
        dry: false,
    };
    under(&authority, call.request, call.pass_through, &mut trail, doc, leaving)
}

/// The call itself: authorized, recorded, carried out, judged once more before it goes out, remembered, recorded.
fn under(
    authority: &Authority<'_>,
    request: Request,
    pass_through: bool,
    trail: &mut Trail,
    doc: &mut ResultDoc,
    leaving: &mut Option<Leaving>,
) -> Result<(), PolicyError> {
    let why = request.asker.why.clone();
    doc.tool = ToolDoc::of_request(&request);
    let mut by = Authorized::default();
    let came = match authority.authorize(request, &mut by, &mut Vec::new()) {
        Ok(came) => came,
        Err(error) => {
            let Err(unwritten) = trail.failed(doc, "policy", &error.one_line()) else { return Err(error) };
            trail::unrecorded(doc, &unwritten);
            return Ok(());
        }
    };
    let Settled::Runs(grant) = concluded(authority, came, &mut by, why.as_deref(), When::Before, trail, doc)
    else {
        return Ok(());
    };
    let mut origin = authority.origin(&grant, &by);
    *leaving = carry_out(*grant, authority, pass_through, doc);
    if authority.runs_more() {
        // Programs of the policy's are started yet: none of them is to meet a child that is not its own.
        drop(leaving.take());
    }
    let outcome = outgoing::judge(authority, &mut origin, &mut by, doc);
    let recorded = trail.asked(doc, std::mem::take(&mut by.events)).and_then(|()| match doc.stage {
        Some(stage) if stage == Stage::KillSwitch.as_str() => trail.switched(doc, doc.reason.clone()),
        _ => Ok(()),
    });
    let remembered = aftermath::remember(authority, &by, &outcome.left, trail, doc);
    by.begun = None;
    if let Err(error) = recorded.and(remembered).and_then(|()| trail.ended(doc)) {
        trail::unrecorded(doc, &error);
    }
    if outcome.concealed {
        doc.conceal();
    }
    if let (Some(filed), Some(_), Status::NeedsApproval) = (outcome.filed, authority.wait, doc.status) {
        let came = authority.hand_out(&filed.id, &origin.ids, Wants::Itself, &mut by, &mut Vec::new());
        concluded(authority, came, &mut by, why.as_deref(), When::After, trail, doc);
    }
    Ok(())
}

/// Records that guardexec itself ended the call before it was judged.
fn unusable(trail: &mut Trail, doc: &mut ResultDoc) -> Result<(), PolicyError> {
    let kind = doc.error.as_ref().map_or("error", |e| &e.kind).to_owned();
    let message = doc.reason.clone().unwrap_or_default();
    if let Err(error) = trail.failed(doc, &kind, &message) {
        trail::unrecorded(doc, &error);
    }
    Ok(())
}

/// A policy whose own examples do not come out as it says is unusable.
///
/// # Errors
/// The first example that fails, at its place.
pub(crate) fn hold_examples(policy: &Policy, only: Option<&[u8]>) -> Result<(), PolicyError> {
    let split = |line: &str, syntax: Syntax| words::split(line.as_bytes(), syntax).map_err(|e| e.to_string());
    match decision::run_examples(policy, only, &split).into_iter().next() {
        None => Ok(()),
        Some(failure) => {
            let why = failure.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            let sentence = format!(
                "example `{}` of rule `{}` should be {} and is {}{why}",
                failure.command,
                failure.rule.id,
                failure.expected.as_str(),
                failure.got.as_str(),
            );
            let invalid = |spot: Spot| spot.error(ErrorKind::Invalid, sentence.clone());
            let general = || PolicyError::general(ErrorKind::Invalid, sentence.clone());
            Err(policy.spot(&failure.rule.at).map_or_else(general, invalid))
        }
    }
}

/// Confines and runs what was granted. What held the run may be leaving yet.
fn carry_out(
    grant: Grant,
    authority: &Authority<'_>,
    pass_through: bool,
    doc: &mut ResultDoc,
) -> Option<Leaving> {
    let switches = authority.switches;
    let ids = grant.ids.clone();
    let stopped = || switches.iter().find_map(|switch| switch.stops(&ids));
    let look: &dyn Fn() -> bool = &|| stopped().is_some();
    let stop = (!switches.is_empty()).then_some(look);
    if grant.tool.as_ref().is_some_and(|tool| tool.action.is_some()) {
        if tool::act(grant, authority, pass_through, stop, doc) {
            doc.switched_off(stopped().as_ref());
        }
        return None;
    }
    let limits = grant.limits.clone();
    let input = match &grant.stdin {
        Stdin::File(path) => Some(path.clone()),
        _ => None,
    };
    let sinks = if pass_through { Sinks::pass() } else { Ok(Sinks::keep()) };
    let ended = match (confine(grant, authority), sinks) {
        (Ok(confinement), Ok(mut sinks)) => run::run(confinement, &mut sinks, stop),
        (Err(error), _) => Err(error.into()),
        (_, Err(error)) => Err(error.into()),
    };
    match ended {
        Ok(ended) => {
            doc.ran(&ended, &limits);
            unpassed(ended.unpassed.as_deref(), doc);
            if ended.how == How::Stopped {
                doc.switched_off(stopped().as_ref());
            }
            if let (How::NotStarted { step: Step::Input, errno }, Some(path)) = (ended.how, input) {
                let error = std::io::Error::from_raw_os_error(errno);
                unconfined(doc, &PrepareError::Withheld { path, error });
            }
            return ended.leaving;
        }
        Err(RunError::Prepare(error)) => unconfined(doc, &error),
        Err(error) => doc.failed("run", &error.to_string(), None),
    }
    None
}

/// Output that its reader still waits for and cannot have must not look like output that there was not.
fn unpassed(what: Option<&str>, doc: &mut ResultDoc) {
    let Some(what) = what.filter(|_| matches!(doc.status, Status::Ok | Status::NonzeroExit)) else { return };
    trail::unkept(doc, "output_lost", what, "the rest of it is lost: make room where the output goes");
}

/// The grant as what the kernel is to enforce.
fn confine(mut grant: Grant, authority: &Authority<'_>) -> Result<Confinement, PrepareError> {
    let Authority { policies, facts, .. } = authority;
    let mut guarded = guarded(policies);
    apart::keep(&mut grant, &mut guarded, authority)?;
    let tmp = facts.variable(b"TMPDIR").map(PathBuf::from);
    Ok(Confinement::prepare(grant, guarded)?
        .with_caller_tmp(tmp)
        .without(apart::unmade(policies))
        .stopped_by(
            policies.iter().filter_map(|p| Some(p.oversight.kill_switch.as_ref()?.file.clone())).collect(),
        )
        .recorded_in(audits(policies).collect()))
}

/// A grant that cannot be confined as the policy asks: nothing runs.
fn unconfined(doc: &mut ResultDoc, error: &PrepareError) {
    doc.stage = Some(Stage::Sandbox.as_str());
    doc.failed(error.kind(), &error.to_string(), error.hint());
}

/// The files that policies lead to: themselves, what they extend, and the audit files with what belongs to them.
fn guarded(policies: &[Policy]) -> Vec<PathBuf> {
    let sources = policies.iter().flat_map(|p| &p.sources).map(|s| s.path.to_path_buf());
    // The store is a directory, and kept out of sight besides: see `apart`. A further word of a hook may name anything,
    // and what is no file is not the policy's own.
    let file = |led: &Led<'_>| match led.role {
        Role::State => false,
        Role::Word => led.path.is_file(),
        Role::Switch | Role::Program => true,
    };
    let led = oversight::files(policies).into_iter().filter(file);
    sources
        .chain(led.map(|led| led.path.to_path_buf()))
        .chain(audits(policies).flat_map(trail::files_of))
        .collect()
}

fn audits(policies: &[Policy]) -> impl Iterator<Item = PathBuf> {
    policies.iter().filter_map(|p| p.audit.as_ref()).filter_map(|a| sys::canonical(&a.file).ok())
}
