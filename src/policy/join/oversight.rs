//! What stands over single decisions, of all files of a policy together: names are found, and made where none is written.

use std::collections::{BTreeMap, HashMap};

use super::place;
use crate::policy::error::{PolicyError, printable};
use crate::policy::model::{
    AlertOn, ApprovalPolicy, HaltOn, Hook, KillSwitch, Measure, Oversight, ParamType, Place, RateKey, Rule,
    SessionPolicy, StatePolicy, Tool,
};
use crate::policy::schema::{
    Doc, ReadAlert, ReadApproval, ReadCheck, ReadOversight, ReadRate, ReadSession, Span, nearest,
};

/// How many names a hint lists where none is near.
const MAX_LISTED: usize = 20;

/// What the files come to so far; numbers say in which file something stands.
#[derive(Default)]
pub(super) struct Gathered {
    kill_switch: Option<KillSwitch>,
    state: Option<StatePolicy>,
    approval: ReadApproval,
    approval_at: Option<Place>,
    /// In which file `escalate` and `escalate_after` stand.
    escalate_from: (usize, usize),
    rates: Vec<(usize, ReadRate)>,
    alerts: Vec<(usize, ReadAlert)>,
    session: ReadSession,
    session_at: Option<Place>,
    checks: Vec<(usize, ReadCheck)>,
}

/// The rules and tools that names are looked up in.
pub(super) struct Known<'p> {
    pub rules: &'p [Rule],
    pub tools: &'p BTreeMap<String, Tool>,
}

impl Gathered {
    pub fn add(&mut self, index: usize, doc: &Doc, file: ReadOversight) {
        self.kill_switch = file.kill_switch.or(self.kill_switch.take());
        self.state = file.state.or(self.state.take());
        self.approval(index, doc, file.approval);
        self.rates.extend(file.rates.into_iter().map(|r| (index, r)));
        self.alerts.extend(file.alerts.into_iter().map(|a| (index, a)));
        self.session(doc, file.session);
        self.checks.extend(file.checks.into_iter().map(|c| (index, c)));
    }

    fn approval(&mut self, index: usize, doc: &Doc, file: ReadApproval) {
        let own = &mut self.approval;
        own.ask = file.ask.or(own.ask.take());
        own.timeout = file.timeout.or(own.timeout);
        own.expires = file.expires.or(own.expires);
        own.max_pending = file.max_pending.or(own.max_pending);
        own.notify = file.notify.or(own.notify.take());
        if file.escalate.is_some() {
            own.escalate = file.escalate;
            self.escalate_from.0 = index;
        }
        if file.escalate_after.is_some() {
            own.escalate_after = file.escalate_after;
            self.escalate_from.1 = index;
        }
        self.approval_at = file.at.map(|span| doc.place(&span)).or(self.approval_at.take());
    }

    fn session(&mut self, doc: &Doc, file: ReadSession) {
        let own = &mut self.session;
        own.halt_on.extend(file.halt_on);
        own.required = file.required.or(own.required);
        own.max_runs = file.max_runs.or(own.max_runs);
        own.max_wall_time = file.max_wall_time.or(own.max_wall_time);
        self.session_at = file.at.map(|span| doc.place(&span)).or(self.session_at.take());
    }

    /// # Errors
    /// A name that is used twice or names nothing, and what only all files together show.
    pub fn settle(mut self, docs: &[Doc], known: &Known<'_>) -> Result<Oversight, PolicyError> {
        self.names(docs)?;
        for (index, read) in &self.rates {
            named(&docs[*index], read.rate.matches.as_deref(), &read.matches, known)?;
            parameters(&docs[*index], read, known)?;
        }
        for (index, read) in &self.checks {
            named(&docs[*index], read.check.matches.as_deref(), &read.matches, known)?;
        }
        self.alerted(docs)?;
        let approval = self.settled_approval(docs)?;
        let session = self.session;
        Ok(Oversight {
            kill_switch: self.kill_switch,
            state: self.state,
            approval,
            rates: self.rates.into_iter().map(|(_, r)| r.rate).collect(),
            alerts: self.alerts.into_iter().map(|(_, a)| a.alert).collect(),
            session: self.session_at.map(|at| SessionPolicy {
                halt_on: halts(session.halt_on),
                required: session.required.unwrap_or(false),
                max_runs: session.max_runs,
                max_wall_time: session.max_wall_time,
                at,
            }),
            checks: self.checks.into_iter().map(|(_, c)| c.check).collect(),
        })
    }

    /// Every rate, alert and check has a name of its own among its kind: counters and records are kept under it.
    fn names(&mut self, docs: &[Doc]) -> Result<(), PolicyError> {
        for (count, (_, read)) in (1..).zip(&mut self.rates) {
            if read.rate.name.is_empty() {
                read.rate.name = format!("rate:{count}");
            }
        }
        for (count, (_, read)) in (1..).zip(&mut self.alerts) {
            if read.alert.name.is_empty() {
                read.alert.name = format!("alert:{count}");
            }
        }
        let rates = self.rates.iter().map(|(i, r)| (*i, &r.rate.name, &r.rate.at, &r.name));
        unique("rate", rates, docs)?;
        let alerts = self.alerts.iter().map(|(i, a)| (*i, &a.alert.name, &a.alert.at, &a.name));
        unique("alert", alerts, docs)?;
        let checks = self.checks.iter().map(|(i, c)| (*i, &c.check.name, &c.check.at, &c.name));
        unique("check", checks, docs)
    }

    /// Which rate an alert speaks of: `rate:NAME`, or a made name as it is.
    fn alerted(&mut self, docs: &[Doc]) -> Result<(), PolicyError> {
        let names: Vec<&str> = self.rates.iter().map(|(_, r)| r.rate.name.as_str()).collect();
        for (index, read) in &mut self.alerts {
            let AlertOn::Rate(text) = &read.alert.on else { continue };
            let name = text.strip_prefix("rate:").unwrap_or(text);
            let Some(found) = names.iter().find(|n| **n == name).or(names.iter().find(|n| *n == text)) else {
                let message = format!("no rate of this policy has the name `{}`", printable(name));
                return Err(docs[*index].error(&read.on, message).hint(hint(name, &names)));
            };
            read.alert.on = AlertOn::Rate((*found).to_owned());
        }
        Ok(())
    }

    fn settled_approval(&mut self, docs: &[Doc]) -> Result<ApprovalPolicy, PolicyError> {
        let (by, after) = (&docs[self.escalate_from.0], &docs[self.escalate_from.1]);
        let read = std::mem::take(&mut self.approval);
        let default = ApprovalPolicy::default();
        let expires = read.expires.unwrap_or(default.expires);
        match (&read.escalate, &read.escalate_after) {
            (Some((_, span)), None) => {
                return Err(by
                    .error(span, "`escalate` without `escalate_after`: it is not said when")
                    .hint("write how long a request may go without an answer"));
            }
            (None, Some((_, span))) => {
                return Err(after
                    .error(span, "`escalate_after` without `escalate`: there is nothing to run")
                    .hint("name the program that is told"));
            }
            (Some(_), Some((when, span))) if *when >= expires => {
                return Err(after
                    .error(span, "by `escalate_after` the request has expired")
                    .hint("make it shorter than `expires`, which is 10m unless written"));
            }
            _ => {}
        }
        let hook = |read: Option<(Hook, Span)>| read.map(|(hook, _)| hook);
        Ok(ApprovalPolicy {
            ask: read.ask.unwrap_or_default(),
            timeout: read.timeout.unwrap_or(default.timeout),
            expires,
            max_pending: read.max_pending.unwrap_or(default.max_pending),
            notify: read.notify,
            escalate: hook(read.escalate),
            escalate_after: read.escalate_after.map(|(when, _)| when),
            at: self.approval_at.take(),
        })
    }
}

/// Each once; of several numbers of denials the smallest.
fn halts(mut all: Vec<HaltOn>) -> Vec<HaltOn> {
    all.sort();
    all.dedup_by(|b, a| std::mem::discriminant(a) == std::mem::discriminant(b));
    all
}

fn unique<'a>(
    kind: &str,
    all: impl Iterator<Item = (usize, &'a String, &'a Place, &'a Span)>,
    docs: &[Doc],
) -> Result<(), PolicyError> {
    let mut seen: HashMap<&str, &Place> = HashMap::new();
    for (index, name, at, span) in all {
        if let Some(first) = seen.insert(name, at) {
            let message =
                format!("the {kind} `{}` is defined twice, first at {}", printable(name), place(first));
            return Err(docs[index].error(span, message).hint(format!("give this {kind} another `name`")));
        }
    }
    Ok(())
}

/// Whether every name in a `match` is that of a rule or a tool.
fn named(
    doc: &Doc,
    matches: Option<&[String]>,
    spans: &[Span],
    known: &Known<'_>,
) -> Result<(), PolicyError> {
    for (name, span) in matches.unwrap_or_default().iter().zip(spans) {
        if known.tools.contains_key(name) || known.rules.iter().any(|r| r.id == *name) {
            continue;
        }
        let rules = known.rules.iter().map(|r| r.id.as_str());
        let names: Vec<&str> = known.tools.keys().map(String::as_str).chain(rules).collect();
        let message = format!("`{}` is neither a rule nor a tool of this policy", printable(name));
        return Err(doc.error(span, message).hint(hint(name, &names)));
    }
    Ok(())
}

fn hint(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(near) => format!("did you mean `{}`?", printable(near)),
        None if known.is_empty() => "there is nothing to choose from".to_owned(),
        None if known.len() > MAX_LISTED => format!("there are {}, and none is like it", known.len()),
        None => format!("there are: {}", printable(&known.join(", "))),
    }
}

/// Whether the parameters that a rate counts by exist in what it speaks of, and can be added up.
fn parameters(doc: &Doc, read: &ReadRate, known: &Known<'_>) -> Result<(), PolicyError> {
    let spoken_of = |tool: &&Tool| read.rate.matches.as_ref().is_none_or(|names| names.contains(&tool.name));
    let tools: Vec<&Tool> = known.tools.values().filter(spoken_of).collect();
    let with = |name: &str, span: &Span| -> Result<Vec<(&Tool, ParamType)>, PolicyError> {
        let has = |t: &&'_ Tool| t.params.iter().find(|p| p.name == name).map(|p| p.kind);
        let found: Vec<_> = tools.iter().filter_map(|t| Some((*t, has(t)?))).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let all: Vec<&str> = tools.iter().flat_map(|t| &t.params).map(|p| p.name.as_str()).collect();
        let message = format!("no tool that this rate speaks of has a parameter `{}`", printable(name));
        Err(doc.error(span, message).hint(hint(name, &all)))
    };
    for (key, span) in read.rate.key.iter().zip(&read.key) {
        if let RateKey::Param(name) = key {
            with(name, span)?;
        }
    }
    let (Measure::Sum(name), Some(span)) = (&read.rate.measure, &read.sum) else { return Ok(()) };
    let unfit = |(_, kind): &&(&Tool, ParamType)| !matches!(kind, ParamType::Integer | ParamType::Number);
    match with(name, span)?.iter().find(unfit) {
        None => Ok(()),
        Some((tool, _)) => {
            let message =
                format!("`{}` of the tool `{}` is no number, so nothing can be added up", name, tool.name);
            Err(doc.error(span, message).hint("name the tools that are meant in `match`"))
        }
    }
}

#[cfg(test)]
mod tests;
