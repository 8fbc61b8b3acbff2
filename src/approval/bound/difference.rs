//! Which part of a request is not what was approved.

use std::collections::BTreeMap;

use super::{Bound, BoundFile, BoundInput, Cause, Setting, Variable};
use crate::approval::bytes::Bytes;
use crate::approval::files::Named;
use crate::request::quote;

/// The first part that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Content changed, and the request itself did not.
    pub stale: bool,
    /// `the content of './s.sh' changed`: a sentence's end, safe to print.
    pub what: String,
}

/// The request itself is another one.
fn other(what: impl Into<String>) -> Difference {
    Difference { stale: false, what: what.into() }
}

/// What the request leads to is not what it was.
fn changed(what: impl Into<String>) -> Difference {
    Difference { stale: true, what: what.into() }
}

impl Bound {
    /// What differs between what was approved and what is asked now, the request before the content it leads to. `None`
    /// means that nothing does; then the digests are the same.
    pub fn difference(&self, now: &Bound) -> Option<Difference> {
        self.asked(now).or_else(|| self.content(now)).or_else(|| {
            // Whatever the sentences above do not know: the digest is what decides.
            (self.digest() != now.digest()).then(|| other("the request is another one"))
        })
    }

    /// The same as far as it need not be said again: explanations that are not given now change nothing of what runs, and
    /// a person who was told of several reasons to ask was told of each.
    pub fn in_terms_of(&self, filed: &Bound) -> Bound {
        let mut bound = self.clone();
        bound.why = bound.why.or_else(|| filed.why.clone());
        bound.evidence = bound.evidence.or_else(|| filed.evidence.clone());
        if bound.labels.is_empty() {
            bound.labels.clone_from(&filed.labels);
        }
        if bound.causes.iter().all(|cause| filed.causes.iter().any(|known| known.is(cause))) {
            bound.causes.clone_from(&filed.causes);
        }
        bound
    }

    /// What the asker says.
    fn asked(&self, now: &Bound) -> Option<Difference> {
        let text = |what: &str, a: &Option<String>, b: &Option<String>| {
            let shown = |text: &Option<String>| {
                text.as_ref().map_or_else(|| "none".to_owned(), |text| quote::repr(text.as_bytes()))
            };
            (a != b).then(|| other(format!("the {what} is {}, and was {}", shown(b), shown(a))))
        };
        None.or_else(|| self.tool_differs(now))
            .or_else(|| words(&self.argv, &now.argv))
            .or_else(|| (self.cwd != now.cwd).then(|| moved("the working directory", &self.cwd, &now.cwd)))
            .or_else(|| environment(&self.env, &now.env))
            .or_else(|| input(&self.stdin, &now.stdin))
            .or_else(|| text("agent", &self.agent, &now.agent))
            .or_else(|| text("session", &self.session, &now.session))
            .or_else(|| (self.labels != now.labels).then(|| other("the labels are others")))
            .or_else(|| (self.why != now.why).then(|| other("the reason given with --why is another one")))
            .or_else(|| {
                let hash = |file: &Option<BoundFile>| file.as_ref().map(|file| file.content.sha256.clone());
                (hash(&self.evidence) != hash(&now.evidence)).then(|| other("the evidence is another one"))
            })
            .or_else(|| (self.output != now.output).then(|| other("the output is another one")))
    }

    /// What it leads to.
    fn content(&self, now: &Bound) -> Option<Difference> {
        policies(&self.policies, &now.policies)
            .or_else(|| self.program_differs(now))
            .or_else(|| files(&self.files, &now.files))
            .or_else(|| causes(&self.causes, &now.causes))
            .or_else(|| settings(&self.settings, &now.settings))
    }

    fn tool_differs(&self, now: &Bound) -> Option<Difference> {
        let name = |bound: &Bound| bound.tool.as_ref().map(|tool| tool.name.clone());
        if name(self) != name(now) {
            return Some(other(format!("it is {}, and was {}", now.name(), self.name())));
        }
        let (was, is) = (&self.tool.as_ref()?.arguments, &now.tool.as_ref()?.arguments);
        let names = was.keys().chain(is.keys());
        let differs = names.into_iter().find(|name| was.get(*name) != is.get(*name))?;
        Some(other(format!("the argument {} is another one", quote::repr(differs.as_bytes()))))
    }

    fn program_differs(&self, now: &Bound) -> Option<Difference> {
        match (&self.program, &now.program) {
            (Some(was), Some(is)) if was.path != is.path => Some(moved("the program", &was.path, &is.path)),
            (Some(was), Some(is)) if was.content.sha256 != is.content.sha256 => Some(rewritten(&is.path.0)),
            (Some(_), Some(_)) | (None, None) => None,
            _ => Some(other("it is no longer the same kind of action")),
        }
    }
}

/// The content of a file is not what it was.
pub(in crate::approval) fn rewritten(path: &[u8]) -> Difference {
    changed(format!("the content of {} changed", quote::repr(path)))
}

fn moved(what: &str, was: &Bytes, is: &Bytes) -> Difference {
    other(format!("{what} is {}, and was {}", quote::repr(&is.0), quote::repr(&was.0)))
}

fn words(was: &[Bytes], is: &[Bytes]) -> Option<Difference> {
    if was.len() != is.len() {
        return Some(other(format!("it has {} words, and had {}", is.len(), was.len())));
    }
    let at = was.iter().zip(is).position(|(was, is)| was != is)?;
    let (was, is) = (quote::repr(&was[at].0), quote::repr(&is[at].0));
    Some(other(if was.len() + is.len() <= 200 {
        format!("word {at} is {is}, and was {was}")
    } else {
        format!("word {at} is another one")
    }))
}

/// Says the names alone: values may be secrets.
fn environment(was: &[Variable], is: &[Variable]) -> Option<Difference> {
    let by_name = |list: &[Variable]| -> BTreeMap<Bytes, Option<Bytes>> {
        list.iter().map(|variable| (variable.name.clone(), variable.value.clone())).collect()
    };
    let (was, is) = (by_name(was), by_name(is));
    let name = was.keys().chain(is.keys()).find(|name| was.get(*name) != is.get(*name))?;
    let shown = quote::repr(&name.0);
    Some(other(match (was.get(name), is.get(name)) {
        (Some(_), None) => format!("the variable {shown} is gone"),
        (None, _) => format!("the variable {shown} was not there"),
        _ => format!("the variable {shown} has another value"),
    }))
}

fn input(was: &BoundInput, is: &BoundInput) -> Option<Difference> {
    match (was, is) {
        _ if was == is => None,
        (BoundInput::File(was), BoundInput::File(is)) if was.path == is.path => Some(rewritten(&is.path.0)),
        _ => Some(other("standard input is another one")),
    }
}

pub(in crate::approval) fn policies(was: &[(Bytes, String)], is: &[(Bytes, String)]) -> Option<Difference> {
    if was == is {
        return None;
    }
    let differs = is.iter().find(|file| !was.contains(file)).or_else(|| was.iter().find(|f| !is.contains(f)));
    let Some((path, _)) = differs else { return Some(changed("the policies stand in another order")) };
    let shown = quote::repr(&path.0);
    let held = |list: &[(Bytes, String)]| list.iter().any(|(other, _)| other == path);
    Some(match (held(was), held(is)) {
        (true, true) => changed(format!("the policy {shown} changed")),
        (true, false) => other(format!("the policy {shown} does not judge it any more")),
        _ => other(format!("the policy {shown} did not judge it")),
    })
}

fn files(was: &[Named], is: &[Named]) -> Option<Difference> {
    let find = |list: &[Named], like: &Named| {
        list.iter().find(|named| (named.word, &named.path) == (like.word, &like.path)).cloned()
    };
    for then in was {
        let shown = quote::repr(&then.path.0);
        match find(is, then) {
            None => return Some(changed(format!("{shown} is gone"))),
            Some(now) if now.content.is_some() != then.content.is_some() => {
                return Some(changed(format!("{shown} is no longer the same kind of file")));
            }
            Some(now) if now.content != then.content => return Some(rewritten(&then.path.0)),
            Some(_) => {}
        }
    }
    let new = is.iter().find(|now| find(was, now).is_none())?;
    Some(changed(format!("{} was not there", quote::repr(&new.path.0))))
}

fn causes(was: &[Cause], is: &[Cause]) -> Option<Difference> {
    let ids = |list: &[Cause]| -> String {
        let ids: Vec<String> = list.iter().map(|cause| quote::repr(cause.id.as_bytes())).collect();
        ids.join(", ")
    };
    let same = was.len() == is.len() && was.iter().zip(is).all(|(was, is)| was.is(is));
    (!same).then(|| other(format!("it is asked for by {}, and was by {}", ids(is), ids(was))))
}

fn settings(was: &[Setting], is: &[Setting]) -> Option<Difference> {
    let all = || was.iter().chain(is);
    let of = |list: &[Setting], name: &str| list.iter().find(|setting| setting.name == name).cloned();
    let name = all().map(|setting| &setting.name).find(|name| of(was, name) != of(is, name))?;
    Some(other(format!("the setting {name} of the run is another one")))
}
