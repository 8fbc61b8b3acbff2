//! The child's environment: nothing but what is listed. Built-in values first, then what may pass from the caller, then
//! what policies set, then what the request asks for.
//!
//! With several deciding rules a variable passes only where all of them let it; a value that one of them sets
//! stands only where the others set the same or would let it in.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::command::search_path;
use super::globs::permits;
use super::{Denial, Facts, Judged, Match, Stage};
use crate::decision::shown::repr;
use crate::policy::hooks::is_hook;
use crate::policy::model::EnvPolicy;

#[cfg(test)]
mod tests;

/// Variables by name.
type Variables = BTreeMap<Vec<u8>, Vec<u8>>;

/// A built environment.
#[derive(Debug)]
pub(super) struct Built {
    /// Names and values, sorted by name.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// The search path, as it stands in `PATH`.
    pub path: Vec<PathBuf>,
    /// Sentences for the result; never with a value in them.
    pub warnings: Vec<String>,
}

/// Drops what no program can rely on: entries without `=` or without a name, and every entry of a name that occurs
/// twice, since libraries disagree which of them counts.
pub fn clean_environment(raw: Vec<Vec<u8>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(raw.len());
    let mut counts: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for entry in raw {
        let Some(at) = entry.iter().position(|&b| b == b'=').filter(|&at| at > 0) else { continue };
        let (name, value) = (entry[..at].to_vec(), entry[at + 1..].to_vec());
        *counts.entry(name.clone()).or_default() += 1;
        entries.push((name, value));
    }
    entries.retain(|(name, _)| counts.get(name) == Some(&1));
    entries
}

/// Builds the environment for rules that decide together. `home` and `tmpdir` are what those variables hold unless
/// a policy says otherwise.
pub(super) fn build(
    matches: &[Match<'_>],
    wishes: &[(OsString, Option<OsString>)],
    facts: &Facts,
    home: &Path,
    tmpdir: &Path,
) -> Judged<Built> {
    let layers: Vec<EnvPolicy> = matches.iter().map(Match::env).collect();
    let path = shared_path(matches)?;
    let mut variables = defaults(facts, home, tmpdir, &path);
    let mut warnings = Vec::new();
    let passing = facts.env.iter().filter(|(name, _)| all_pass(&layers, name));
    variables.extend(passing.cloned());
    set(&layers, &mut variables, &mut warnings)?;
    for (name, value) in wishes {
        wish(&layers, name.as_bytes(), value.as_ref(), facts, &mut variables, &mut warnings)?;
    }
    Ok(Built { variables: variables.into_iter().collect(), path, warnings })
}

fn defaults(facts: &Facts, home: &Path, tmpdir: &Path, path: &[PathBuf]) -> Variables {
    let path = path.iter().map(|p| p.as_os_str().as_bytes()).collect::<Vec<_>>().join(&b':');
    [
        ("PATH", path.as_slice()),
        ("HOME", home.as_os_str().as_bytes()),
        ("TMPDIR", tmpdir.as_os_str().as_bytes()),
        ("USER", facts.user.as_bytes()),
        ("LOGNAME", facts.user.as_bytes()),
        ("LANG", b"C.UTF-8"),
        ("TERM", b"dumb"),
        ("PAGER", b"cat"),
        ("GIT_PAGER", b"cat"),
        ("GIT_TERMINAL_PROMPT", b"0"),
        ("DEBIAN_FRONTEND", b"noninteractive"),
    ]
    .map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec()))
    .into()
}

/// The directories that are in every deciding rule's search path, in the order of the first.
fn shared_path(matches: &[Match<'_>]) -> Judged<Vec<PathBuf>> {
    let mut paths = matches.iter().map(|m| search_path(m.policy, m.rule));
    let mut shared = paths.next().unwrap_or_default();
    for path in paths {
        shared.retain(|dir| path.contains(dir));
    }
    if shared.is_empty() {
        return conflict("PATH", "the search paths of the rules that allow this have no directory in common");
    }
    Ok(shared)
}

fn all_pass(layers: &[EnvPolicy], name: &[u8]) -> bool {
    layers.iter().all(|layer| permits(layer.pass.as_deref().unwrap_or_default(), name))
}

/// Whether a layer lets the request, or another policy, choose this variable.
fn may_choose(layer: &EnvPolicy, name: &[u8]) -> bool {
    permits(layer.request.as_deref().unwrap_or_default(), name)
}

fn set(layers: &[EnvPolicy], variables: &mut Variables, warnings: &mut Vec<String>) -> Judged<()> {
    let names: BTreeSet<&String> =
        layers.iter().flat_map(|l| l.set.keys()).filter(|n| *n != "PATH").collect();
    for name in names {
        let mut values = layers.iter().filter_map(|l| l.set.get(name));
        let Some(value) = values.next() else { continue };
        if values.any(|other| other != value) {
            return conflict(name, "two rules that decide together set it differently");
        }
        let lets = |l: &EnvPolicy| {
            let pass = permits(l.pass.as_deref().unwrap_or_default(), name.as_bytes());
            l.set.contains_key(name) || pass || may_choose(l, name.as_bytes())
        };
        if layers.iter().all(lets) {
            variables.insert(name.clone().into_bytes(), value.clone().into_bytes());
        } else {
            let shown = repr(name.as_bytes());
            warnings.push(format!(
                "variable {shown} is set by one policy and neither set, passed nor offered for request by another; \
                 it was not set"
            ));
        }
    }
    Ok(())
}

fn wish(
    layers: &[EnvPolicy],
    name: &[u8],
    value: Option<&OsString>,
    facts: &Facts,
    variables: &mut Variables,
    warnings: &mut Vec<String>,
) -> Judged<()> {
    let shown = repr(name);
    if name.is_empty() || name.iter().any(|&b| b == b'=' || b <= b' ' || b == 0x7f) {
        return Denial::new(Stage::Arguments, "env_name_invalid", format!("{shown} cannot name a variable"))
            .hint("use letters, digits and underscores")
            .deny();
    }
    let permitted = |layer: &EnvPolicy| {
        let pass = value.is_none() && permits(layer.pass.as_deref().unwrap_or_default(), name);
        pass || may_choose(layer, name)
    };
    if !layers.iter().all(permitted) {
        return Denial::new(
            Stage::Arguments,
            "env_denied",
            format!("variable {shown} may not be set by a request"),
        )
        .hint(hint(name))
        .deny();
    }
    let value = match value {
        Some(value) => Some(value.clone().into_vec()),
        None => facts.env.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()),
    };
    match value {
        Some(value) if value.contains(&0) => {
            let message =
                format!("the value of variable {shown} holds a NUL byte, which no program can be given");
            Denial::new(Stage::Arguments, "nul_byte", message).hint("leave the NUL byte out").invalid()
        }
        Some(value) => {
            variables.insert(name.to_vec(), value);
            Ok(())
        }
        None => {
            warnings.push(format!("variable {shown} was asked for and the caller has none of that name"));
            Ok(())
        }
    }
}

fn hint(name: &[u8]) -> &'static str {
    if name == b"PATH" {
        "the search path is the policy's: [env] set = { PATH = ... }"
    } else if is_hook(name) {
        "it can make programs load code, so the policy would have to list its full name in [env] request"
    } else {
        "leave it out; the policy's owner can list it in [env] request"
    }
}

fn conflict<T>(name: &str, why: &str) -> Judged<T> {
    let message = format!("variable {} cannot be settled: {why}", repr(name.as_bytes()));
    Denial::new(Stage::Arguments, "env_conflict", message)
        .hint("the policies have to agree on it; their owners can make them")
        .deny()
}
