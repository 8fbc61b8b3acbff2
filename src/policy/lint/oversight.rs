//! What stands over single decisions: programs that could not be run, askers that could say yes to themselves, counters that
//! do not count what they seem to.

use std::cmp::Ordering;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::Finding;
use crate::policy::decimal::compare;
use crate::policy::error::printable;
use crate::policy::model::{
    Alert, AlertOn, AskBy, Measure, Param, Policy, Profile, Rate, RateKey, Tool, Verdict,
};
use crate::policy::oversight::{self, Led, Role};
use crate::policy::trust;

/// All of it, of one policy.
pub(super) fn oversight(policy: &Policy, findings: &mut Vec<Finding>) {
    let uid = nix::unistd::geteuid().as_raw();
    let mut seen: Vec<&Path> = Vec::new();
    for led in oversight::files(std::slice::from_ref(policy)) {
        if !seen.contains(&led.path) {
            seen.push(led.path);
            findings.extend(file(&led, uid));
        }
    }
    findings.extend(self_approval(policy));
    findings.extend(never_told(policy));
    findings.extend(state_of_the_caller(policy));
    for rate in &policy.oversight.rates {
        counted(policy, rate, findings);
    }
    findings.extend(policy.oversight.alerts.iter().filter_map(|alert| never_fires(policy, alert)));
    for tool in policy.tools.values() {
        findings.extend(tool.params.iter().filter_map(|param| never_asks(tool, param)));
    }
}

/// A file that would make every call fail when it is used.
fn file(led: &Led<'_>, uid: u32) -> Option<Finding> {
    let shown = printable(&led.path.to_string_lossy());
    let found = |code, message: String, hint: Option<String>| {
        Some(Finding { code, message, at: led.at.clone(), hint })
    };
    let parent = led.path.parent().unwrap_or(Path::new("/"));
    let tested = match led.role {
        Role::Program => {
            if let Err(why) = runnable(led.path) {
                let hint = "a program is named by its path, relative to the policy file".to_owned();
                return found("hook_unusable", format!("`{shown}` cannot be run: {why}"), Some(hint));
            }
            content(led.path, uid)
        }
        Role::Word if led.path.is_file() => content(led.path, uid),
        Role::Word => Ok(()),
        Role::Switch if !parent.is_dir() => {
            let message =
                format!("the directory of the kill switch `{shown}` does not exist, which stops everything");
            let hint = format!("make the directory {}", printable(&parent.to_string_lossy()));
            return found("switch_directory_missing", message, Some(hint));
        }
        Role::Switch => trust::check_directory(parent, uid),
        Role::State if led.path.exists() => trust::check_directory(led.path, uid),
        Role::State => Ok(()),
    };
    match tested {
        Ok(()) => None,
        Err(error) => {
            let message = format!("`{shown}` is not trusted when it is used: {error}");
            found("untrusted_file", message, error.remedy())
        }
    }
}

fn runnable(path: &Path) -> Result<(), String> {
    let meta = fs::metadata(path).map_err(|error| error.to_string())?;
    if !meta.is_file() {
        return Err(format!("it is {}", trust::file_kind(&meta)));
    }
    if meta.permissions().mode() & 0o111 == 0 {
        return Err("it is not executable".to_owned());
    }
    Ok(())
}

/// The trust test as it is made on use: of the file, and of the way to it.
fn content(path: &Path, uid: u32) -> Result<(), trust::TrustError> {
    trust::check_way(path, uid)?;
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(path);
    let io = |error| trust::TrustError { path: path.to_owned(), problem: trust::Problem::Io(error) };
    trust::check_installed(opened.map_err(io)?, path, uid)
}

/// Under `host` nothing keeps a run from the store, nor from `guardexec approvals`.
fn self_approval(policy: &Policy) -> Option<Finding> {
    let host = policy.sandbox.profile.unwrap_or_default() == Profile::Host;
    let approval = &policy.oversight.approval;
    if !host || approval.ask != AskBy::Queue || !oversight::can_ask(policy) {
        return None;
    }
    let rule = policy.rules.iter().find(|r| r.decision == Verdict::Ask).map(|r| &r.at);
    let tool = policy.tools.values().find(|t| t.decision == Verdict::Ask).map(|t| &t.at);
    let place = approval.at.as_ref().or(rule).or(tool);
    Some(Finding {
        code: "self_approval",
        message: "under the profile host a run of the same user can answer its own requests".to_owned(),
        at: place.cloned().unwrap_or_else(|| super::first_line(policy)),
        hint: Some("use the profile strict or workspace, or `ask` a program or the terminal".to_owned()),
    })
}

/// `notify` and `escalate` are told of filed requests, and only the queue files any.
fn never_told(policy: &Policy) -> Option<Finding> {
    let approval = &policy.oversight.approval;
    let hook = approval.notify.as_ref().or(approval.escalate.as_ref())?;
    (approval.ask != AskBy::Queue).then(|| Finding {
        code: "never_told",
        message: "a program is to be told of filed requests, and this `ask` files none".to_owned(),
        at: hook.at.clone(),
        hint: Some("write `ask = \"queue\"`, or leave `notify` and `escalate` out".to_owned()),
    })
}

/// What counts calls holds for one store, and without `[state] dir` the caller says which (`--state`, `XDG_STATE_HOME`).
fn state_of_the_caller(policy: &Policy) -> Option<Finding> {
    let o = &policy.oversight;
    let rate = o.rates.first().map(|rate| ("rates begin", &rate.at));
    let session = o.session.as_ref().map(|session| ("sessions begin", &session.at));
    let alert = o.alerts.first().map(|alert| ("alerts begin", &alert.at));
    let (what, at) = rate.or(session).or(alert).filter(|_| o.state.is_none())?;
    Some(Finding {
        code: "state_of_the_caller",
        message: format!("its {what} afresh wherever the caller says with --state or XDG_STATE_HOME"),
        at: at.clone(),
        hint: Some("name the directory: [state] dir = \"...\"".to_owned()),
    })
}

/// A rate that sums or keys by a parameter that some of what it speaks of does not have, may leave out, or may fill with
/// less than nothing.
fn counted(policy: &Policy, rate: &Rate, findings: &mut Vec<Finding>) {
    let sum = match &rate.measure {
        Measure::Sum(name) => Some(name),
        Measure::Count => None,
    };
    let keys = rate.key.iter().filter_map(|key| match key {
        RateKey::Param(name) => Some(name),
        _ => None,
    });
    let mut add = |code, message: String, hint: String| {
        findings.push(Finding { code, message, at: rate.at.clone(), hint: Some(hint) });
    };
    let what = printable(&rate.name);
    for name in sum.into_iter().chain(keys) {
        let named = rate.matches.iter().flatten();
        let without = named.filter(|id| policy.tools.get(*id).is_none_or(|t| param(t, name).is_none()));
        for id in without {
            add(
                "rate_without_parameter",
                format!("the rate `{what}` counts by `{name}`, which `{}` does not have", printable(id)),
                "give it a rate of its own".to_owned(),
            );
        }
        for tool in spoken_of(policy, rate) {
            if param(tool, name).is_some_and(|p| !p.required && p.default.is_none()) {
                add(
                    "rate_parameter_optional",
                    format!(
                        "the rate `{what}` counts by `{name}`, which a call of `{}` may leave out",
                        tool.name
                    ),
                    format!("make `{name}` required, or give it a default"),
                );
            }
        }
    }
    let Some(name) = sum else { return };
    for tool in spoken_of(policy, rate) {
        let Some(param) = param(tool, name) else { continue };
        let least = param.value.min_value.as_deref();
        if param.value.choices.is_none() && least.is_none_or(|least| compare(least, "0") == Ordering::Less) {
            add(
                "sum_of_negatives",
                format!(
                    "the rate `{what}` adds up `{name}` of the tool `{}`, which may be negative",
                    tool.name
                ),
                format!("give `{name}` a `min_value` of 0 or more"),
            );
        }
    }
}

fn param<'t>(tool: &'t Tool, name: &str) -> Option<&'t Param> {
    tool.params.iter().find(|p| p.name == name)
}

fn spoken_of<'p>(policy: &'p Policy, rate: &'p Rate) -> impl Iterator<Item = &'p Tool> {
    policy.tools.values().filter(|tool| rate.speaks_of(&[&tool.name]))
}

/// A rate that denies never holds more than its own most.
fn never_fires(policy: &Policy, alert: &Alert) -> Option<Finding> {
    let AlertOn::Rate(name) = &alert.on else { return None };
    let rate = policy.oversight.rates.iter().find(|r| r.name == *name)?;
    let within = rate.then == Verdict::Deny && compare(&alert.above, &rate.max) != Ordering::Less;
    within.then(|| Finding {
        code: "alert_never_fires",
        message: format!(
            "the alert `{}` waits for more than {}, and the rate `{}` ({}) lets no more than {} pass",
            printable(&alert.name),
            alert.above,
            printable(name),
            rate.at,
            rate.max
        ),
        at: alert.at.clone(),
        hint: Some("make `above` smaller than the most of the rate".to_owned()),
    })
}

/// An `ask_above` that is asked already, never allowed, or never passed.
fn never_asks(tool: &Tool, param: &Param) -> Option<Finding> {
    let above = param.ask_above.as_ref()?;
    let why = match (tool.decision, param.value.max_value.as_deref()) {
        (Verdict::Allow, None) => return None,
        (Verdict::Allow, Some(max)) if compare(max, above) == Ordering::Greater => return None,
        (Verdict::Allow, Some(max)) => format!("no value above it passes `max_value = {max}`"),
        (decision, _) => format!("the tool decides {} whatever it is given", decision.as_str()),
    };
    Some(Finding {
        code: "never_asks",
        message: format!(
            "`ask_above = {above}` of `{}` in the tool `{}` changes nothing: {why}",
            param.name, tool.name
        ),
        at: tool.at.clone(),
        hint: Some("remove it, or change the other".to_owned()),
    })
}

#[cfg(test)]
mod tests;
