//! The tightest of all that decides together: limits, profile, paths, network, exec, key by key.
//!
//! Within one policy a rule's own keys may widen its file's defaults. Between rules, and between stacked policies,
//! nothing widens anything.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::command::denies;
use super::word::Word;
use super::{Denial, Judged, Match, Stage, Wanted};
use crate::decision::shown::repr;
use crate::policy::model::{
    Bound, EffectiveLimits, Filesystem, Layer, Network, NetworkMode, Policy, Profile, ProgramName, Rule,
    TreeKind, Verdict,
};
use crate::program;

#[cfg(test)]
mod tests;

/// The size of the private tmp where no policy writes one, in bytes; only compared with.
const DEFAULT_TMP: u64 = 64 << 20;

/// The tightest limits; a request's timeout can only tighten them further.
pub(super) fn limits(matches: &[Match<'_>], timeout: Option<Duration>) -> EffectiveLimits {
    let each = matches.iter().map(|m| m.rule.own.limits.over(&m.policy.limits).effective());
    let mut limits = each
        .reduce(|a, b| a.tighter(&b))
        .unwrap_or_else(|| crate::policy::model::Limits::default().effective());
    if let Some(timeout) = timeout {
        limits.wall_time = limits.wall_time.tighter(Bound::At(timeout));
    }
    limits
}

/// Limits as a policy writes them, for a person.
pub(super) fn shown(limits: &EffectiveLimits) -> String {
    let time = |bound: Bound<Duration>| bound.get().map(|d| format!("{d:?}"));
    let size = |bound: Bound<u64>| {
        bound.get().map(|bytes| match bytes.trailing_zeros() {
            30.. if bytes > 0 => format!("{}G", bytes >> 30),
            20.. if bytes > 0 => format!("{}M", bytes >> 20),
            10.. if bytes > 0 => format!("{}K", bytes >> 10),
            _ => format!("{bytes}B"),
        })
    };
    let all = [
        ("wall_time", time(limits.wall_time)),
        ("cpu_time", time(limits.cpu_time)),
        ("memory", size(limits.memory)),
        ("pids", limits.pids.get().map(|n| n.to_string())),
        ("output", size(limits.output)),
        ("file_size", size(limits.file_size)),
        ("open_files", limits.open_files.get().map(|n| n.to_string())),
        ("cpus", limits.cpus.get().map(|n| n.to_string())),
    ];
    let word =
        |(name, value): (&str, Option<String>)| format!("{name} {}", value.as_deref().unwrap_or("none"));
    all.map(word).join(", ")
}

/// The strictest profile.
pub(super) fn profile(matches: &[Match<'_>]) -> Profile {
    matches.iter().map(Match::profile).max().unwrap_or_default()
}

/// What the kernel shall enforce. `path` is the child's search path.
pub(super) fn wanted(matches: &[Match<'_>], path: Vec<PathBuf>) -> Judged<Wanted> {
    let profile = profile(matches);
    let networks: Vec<Network> = matches.iter().map(Match::network).collect();
    let mode = |(m, n): (&Match<'_>, &Network)| {
        n.mode.unwrap_or(if m.profile() == Profile::Host { NetworkMode::Host } else { NetworkMode::None })
    };
    Ok(Wanted {
        profile,
        require: require(matches),
        require_written: matches.iter().any(|m| m.policy.sandbox.require.is_some()),
        user: user(matches)?,
        processes: processes(matches),
        filesystem: filesystem(matches),
        network: matches.iter().zip(&networks).map(mode).max().unwrap_or_default(),
        loopback: !networks.is_empty() && networks.iter().all(|n| n.loopback),
        unix: networks.iter().map(|n| n.unix.clone()).reduce(|a, b| intersect(&a, &b)).unwrap_or_default(),
        exec: exec(matches, profile, &path),
        path,
    })
}

/// What is written, and the profile's default where nothing is, of all policies together.
fn require(matches: &[Match<'_>]) -> Vec<Layer> {
    let of = |m: &Match<'_>| match (&m.policy.sandbox.require, m.profile()) {
        (Some(written), _) => written.clone(),
        (None, Profile::Host) => Vec::new(),
        (None, _) => vec![Layer::Filesystem, Layer::Network, Layer::Syscalls],
    };
    matches.iter().flat_map(of).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The user that is named; two different ones cannot both be meant. `root` beside `auto` is no tightening, so
/// `auto` stays.
fn user(matches: &[Match<'_>]) -> Judged<Option<String>> {
    let named = |m: &Match<'_>| m.policy.sandbox.user.clone().filter(|u| u != "auto");
    let users: BTreeSet<Option<String>> = matches.iter().map(named).collect();
    let auto = users.contains(&None);
    let mut names = users.into_iter().flatten();
    let (Some(name), second) = (names.next(), names.next()) else { return Ok(None) };
    match second {
        Some(other) => {
            let (a, b) = (repr(name.as_bytes()), repr(other.as_bytes()));
            let message = format!("stacked policies run this as different users, {a} and {b}");
            Denial::new(Stage::Sandbox, "user_conflict", message)
                .hint("the policies have to name the same [sandbox] user")
                .deny()
        }
        None if auto && (name == "root" || name.parse() == Ok(0)) => Ok(None),
        None => Ok(Some(name)),
    }
}

fn processes(matches: &[Match<'_>]) -> TreeKind {
    let of = |m: &Match<'_>| m.policy.sandbox.processes.unwrap_or_default();
    let namespace = matches.iter().any(|m| of(m).demands_namespace());
    let cgroup = matches.iter().any(|m| of(m).demands_cgroup());
    let groups = !matches.is_empty() && matches.iter().all(|m| of(m) == TreeKind::Groups);
    match (namespace, cgroup) {
        (true, true) => TreeKind::Both,
        (true, false) => TreeKind::Namespace,
        (false, true) => TreeKind::Cgroup,
        (false, false) if groups => TreeKind::Groups,
        (false, false) => TreeKind::Auto,
    }
}

fn filesystem(matches: &[Match<'_>]) -> Filesystem {
    let each: Vec<(Profile, Filesystem)> = matches.iter().map(|m| (m.profile(), m.filesystem())).collect();
    let paths = |key: fn(&Filesystem) -> &Option<Vec<PathBuf>>| {
        let mut out: Option<Vec<PathBuf>> = None;
        for (profile, filesystem) in &each {
            out = match (out, key(filesystem)) {
                // Under `host` what is not written is everything; elsewhere it is nothing beyond the profile's own.
                (out, None) if *profile == Profile::Host => out,
                (_, None) if each.len() > 1 => Some(Vec::new()),
                (out, None) => out,
                (None, Some(list)) => Some(list.clone()),
                (Some(out), Some(list)) => Some(intersect(&out, list)),
            };
        }
        out.filter(|_| each.iter().any(|(_, f)| key(f).is_some()))
    };
    let deny: Vec<PathBuf> = each.iter().flat_map(|(_, f)| f.deny.iter().flatten().cloned()).collect();
    let tmp = each.iter().any(|(_, f)| f.tmp.is_some());
    Filesystem {
        cwd: cwd(&each),
        read: paths(|f| &f.read),
        write: paths(|f| &f.write),
        deny: each.iter().any(|(_, f)| f.deny.is_some()).then(|| unique(deny)),
        tmp: each.iter().map(|(_, f)| f.tmp.unwrap_or(DEFAULT_TMP)).min().filter(|_| tmp),
        map: map(&each),
    }
}

/// Where a list is missing, the start directory is meant; it was judged before and says nothing here.
fn cwd(each: &[(Profile, Filesystem)]) -> Option<Vec<PathBuf>> {
    each.iter().filter_map(|(_, f)| f.cwd.clone()).reduce(|a, b| intersect(&a, &b))
}

/// A view that all agree on: a directory shown by one policy alone would be a right that the others do not give.
fn map(each: &[(Profile, Filesystem)]) -> Vec<(PathBuf, PathBuf)> {
    let Some(((_, first), rest)) = each.split_first() else { return Vec::new() };
    first.map.iter().filter(|entry| rest.iter().all(|(_, f)| f.map.contains(entry))).cloned().collect()
}

/// What the run may start. Without a list `strict` starts nothing and the others start what they can reach.
fn exec(matches: &[Match<'_>], profile: Profile, path: &[PathBuf]) -> Option<Vec<ProgramName>> {
    let strict = profile == Profile::Strict;
    if strict && matches.iter().any(|m| m.rule.own.exec.is_none()) {
        return None;
    }
    let lists = matches.iter().filter_map(|m| m.rule.own.exec.clone());
    let mut all = lists.reduce(|kept, list| common(&kept, &list, path))?;
    all.retain(|name| !matches.iter().any(|m| denied(m.policy, name, path)));
    (!strict || !all.is_empty()).then_some(all)
}

/// Whether a policy denies a program to everybody, whatever its arguments: then no list makes it startable.
fn denied(policy: &Policy, name: &ProgramName, path: &[PathBuf]) -> bool {
    let word = Word::of(name.as_os_str());
    let found = match name {
        ProgramName::Bare(name) => program::find(name, path),
        ProgramName::Absolute(full) => program::open_absolute(full),
    };
    let always = |r: &&Rule| r.decision == Verdict::Deny && r.agents.is_none() && !r.args.closes();
    policy.rules.iter().filter(always).any(|rule| match &found {
        Ok(opened) => denies(policy, rule, word, opened),
        Err(_) => rule.programs.iter().any(|denied| denied.base() == name.base()),
    })
}

/// Programs in both lists. A bare name and an absolute path meet where the path lies in the search path; the
/// narrower of the two, the path, stays.
fn common(a: &[ProgramName], b: &[ProgramName], path: &[PathBuf]) -> Vec<ProgramName> {
    let mut out = BTreeSet::new();
    for x in a {
        for y in b {
            match (x, y) {
                _ if x == y => {
                    out.insert(x.clone());
                }
                (ProgramName::Bare(name), ProgramName::Absolute(full))
                | (ProgramName::Absolute(full), ProgramName::Bare(name))
                    if path.iter().any(|dir| dir.join(name) == *full) =>
                {
                    out.insert(ProgramName::Absolute(full.clone()));
                }
                _ => {}
            }
        }
    }
    out.into_iter().collect()
}

/// What lies in both lists: of two paths of which one lies under the other, the deeper. Links are resolved first, so
/// that a path below another one by its letters alone does not pass for it.
fn intersect(a: &[PathBuf], b: &[PathBuf]) -> Vec<PathBuf> {
    let real = |path: &PathBuf| crate::sys::canonical(path).unwrap_or_else(|_| path.clone());
    let under = |inner: &Path, outer: &Path| inner.starts_with(outer);
    let mut out = Vec::new();
    for x in a {
        for y in b {
            if x == y {
                out.push(x.clone());
                continue;
            }
            let (rx, ry) = (real(x), real(y));
            if under(&rx, &ry) {
                out.push(rx);
            } else if under(&ry, &rx) {
                out.push(ry);
            }
        }
    }
    unique(out)
}

fn unique(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}
