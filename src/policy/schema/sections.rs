//! The sections that are not rules: version, extends, limits, env, command, sandbox, filesystem, network, audit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::reader::{Item, Name, Table};
use super::{ReadAudit, ReadNetwork, Span};
use crate::policy::error::{PolicyError, Shown, printable};
use crate::policy::model::{
    Bound, EnvPolicy, Filesystem, Layer, Limits, MAX_OUTPUT, NetworkMode, Profile, SandboxPolicy, Syntax,
    TreeKind,
};

/// The least memory in which a program starts at all.
const MIN_MEMORY: u64 = 1 << 20;
/// Standard streams, the program, its loader and libraries.
const MIN_OPEN_FILES: u64 = 8;
/// The greatest number of tasks Linux can count (`PID_MAX_LIMIT`, proc_sys_kernel(5)).
const MAX_PIDS: u64 = 1 << 22;
/// What the kernel's `rlim_t` holds without meaning "no limit".
const MAX_COUNT: u64 = i64::MAX as u64;
/// One audit record must fit.
const MIN_ROTATE: u64 = 1 << 10;
/// One page.
const MIN_TMP: u64 = 4 << 10;
/// guardexec answers within seconds, so the grace before KILL is bounded.
const MAX_KILL_GRACE_SECS: u64 = 60;
/// More processors than any kernel is built for (`NR_CPUS`).
const MAX_CPUS: u64 = 8192;

/// A section read by `read`, or its default where it is missing.
pub(super) fn optional<'a, T: Default>(
    top: &Table<'a>,
    key: &'static str,
    read: impl FnOnce(&Table<'a>) -> Result<T, PolicyError>,
) -> Result<T, PolicyError> {
    match top.get(key) {
        Some(item) => read(&item.by_key().named_table(Name("[", key, "]"))?),
        None => Ok(T::default()),
    }
}

pub(super) fn version(top: &Table<'_>) -> Result<(), PolicyError> {
    let item = top.get("version").ok_or_else(|| {
        top.error("the policy does not say its version").hint("write `version = 1` as its first line")
    })?;
    match item.count(0, u64::MAX)? {
        1 => Ok(()),
        other => Err(item.error(format!("version {other} is unknown")).hint("write `version = 1`")),
    }
}

pub(super) fn extends(top: &Table<'_>) -> Result<Vec<(PathBuf, Span)>, PolicyError> {
    let Some(item) = top.get("extends") else { return Ok(Vec::new()) };
    item.list("a list of files")?.iter().map(|e| Ok((e.path()?, e.span.clone()))).collect()
}

pub(super) fn limits(t: &Table<'_>) -> Result<Limits, PolicyError> {
    t.only(&[
        "wall_time",
        "cpu_time",
        "memory",
        "pids",
        "output",
        "file_size",
        "open_files",
        "kill_grace",
        "cpus",
    ])?;
    Ok(Limits {
        wall_time: t.opt("wall_time", Item::bound_duration)?,
        cpu_time: t.opt("cpu_time", Item::bound_duration)?,
        memory: t.opt("memory", |i| i.bound_size(MIN_MEMORY))?,
        pids: t.opt("pids", |i| i.bound_count(1, MAX_PIDS))?,
        output: t.opt("output", |i| match i.bound_size(1)? {
            Bound::At(bytes) if bytes > MAX_OUTPUT => Err(i.error("output keeps at most 64M of each stream")),
            bound => Ok(bound),
        })?,
        file_size: t.opt("file_size", |i| i.bound_size(1))?,
        open_files: t.opt("open_files", |i| i.bound_count(MIN_OPEN_FILES, MAX_COUNT))?,
        kill_grace: t.opt("kill_grace", |i| {
            let grace = i.duration()?;
            if grace.as_secs() > MAX_KILL_GRACE_SECS {
                return Err(i.error(format!("{} must be at most \"1m\"", i.what)));
            }
            Ok(grace)
        })?,
        cpus: t.opt("cpus", |i| i.bound_count(1, MAX_CPUS))?,
    })
}

pub(super) fn env(t: &Table<'_>) -> Result<EnvPolicy, PolicyError> {
    t.only(&["pass", "request", "set"])?;
    Ok(EnvPolicy {
        pass: t.opt("pass", |i| i.names(env_pattern))?,
        request: t.opt("request", |i| i.names(env_pattern))?,
        set: t.opt("set", env_set)?.unwrap_or_default(),
    })
}

/// A name that may carry `*` as a wildcard, and nothing else that looks like one.
fn env_pattern(item: &Item<'_>, name: &str) -> Result<(), PolicyError> {
    let shown = Shown(name);
    if name == "PATH" {
        return Err(item
            .error("the caller's PATH is never used")
            .hint("set the search path with `set = { PATH = \"...\" }` in [env]"));
    }
    if let Some(c) = name.chars().find(|c| "?[]{}".contains(*c)) {
        return Err(item.error(format!("`{c}` in `{shown}`: only `*` is a wildcard in a variable's name")));
    }
    env_name(item, name)
}

fn env_name(item: &Item<'_>, name: &str) -> Result<(), PolicyError> {
    if name.is_empty() {
        return Err(item.error("a variable's name cannot be empty"));
    }
    if name.chars().any(|c| c == '=' || c.is_control() || c.is_whitespace()) {
        return Err(item.error(format!("`{}` is not a variable's name", printable(name))));
    }
    Ok(())
}

fn env_set(item: &Item<'_>) -> Result<BTreeMap<String, String>, PolicyError> {
    let table = item.table("`set` of [env]")?;
    let mut set = BTreeMap::new();
    for (name, span, value) in table.entries() {
        let named = value.at(&span);
        env_name(&named, name)?;
        let text = value.string()?;
        let text = if name == "PATH" { search_path(&value, text)? } else { value.home_in(text)? };
        set.insert(name.to_owned(), text);
    }
    Ok(set)
}

/// The search path with `~` replaced. Every entry of it is absolute: an empty or relative one would mean the working
/// directory.
fn search_path(item: &Item<'_>, text: &str) -> Result<String, PolicyError> {
    let entries: Vec<String> = text.split(':').map(|e| item.home_in(e)).collect::<Result<_, _>>()?;
    for entry in &entries {
        let dotted = entry.split('/').any(|c| c == "." || c == "..");
        if !entry.starts_with('/') || dotted || entry.contains(char::is_control) {
            let shown = printable(entry);
            return Err(item
                .error(format!("the entry `{shown}` of PATH is not an absolute directory"))
                .hint("an empty, relative or dotted entry would search where the caller stands"));
        }
    }
    Ok(entries.join(":"))
}

pub(super) fn command(t: &Table<'_>) -> Result<Option<Syntax>, PolicyError> {
    t.only(&["syntax"])?;
    t.opt("syntax", |i| i.word(&[("refuse", Syntax::Refuse), ("literal", Syntax::Literal)]))
}

pub(super) fn sandbox(t: &Table<'_>) -> Result<SandboxPolicy, PolicyError> {
    t.only(&["profile", "require", "user", "backend", "processes"])?;
    t.opt("backend", |i| i.word(&[("native", ())]))?;
    let profiles = [("strict", Profile::Strict), ("workspace", Profile::Workspace), ("host", Profile::Host)];
    let kinds = [
        ("auto", TreeKind::Auto),
        ("namespace", TreeKind::Namespace),
        ("cgroup", TreeKind::Cgroup),
        ("both", TreeKind::Both),
        ("groups", TreeKind::Groups),
    ];
    Ok(SandboxPolicy {
        profile: t.opt("profile", |i| i.word(&profiles))?,
        require: t.opt("require", require)?,
        user: t.opt("user", user)?,
        processes: t.opt("processes", |i| i.word(&kinds))?,
    })
}

fn require(item: &Item<'_>) -> Result<Vec<Layer>, PolicyError> {
    let words = Layer::ALL.map(|layer| (layer.as_str(), layer));
    let mut layers = Vec::new();
    for entry in item.list("a list of layers")? {
        let layer = entry.word(&words)?;
        if layers.contains(&layer) {
            return Err(entry.error(format!("`{}` stands twice in {}", layer.as_str(), item.what)));
        }
        layers.push(layer);
    }
    Ok(layers)
}

/// A user's name as useradd(8) takes it: nothing that could be read as a number, an option or a path.
fn user(item: &Item<'_>) -> Result<String, PolicyError> {
    let name = item.string()?;
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    let rest = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    if first && rest && name.len() <= 256 {
        return Ok(name.to_owned());
    }
    Err(item.error(format!("`{}` is not a user's name", printable(name))))
}

pub(super) fn filesystem(t: &Table<'_>) -> Result<Filesystem, PolicyError> {
    t.only(&["cwd", "read", "write", "deny", "tmp", "map"])?;
    Ok(Filesystem {
        cwd: t.opt("cwd", Item::paths)?,
        read: t.opt("read", Item::paths)?,
        write: t.opt("write", Item::paths)?,
        deny: t.opt("deny", Item::paths)?,
        tmp: t.opt("tmp", |i| i.size(MIN_TMP))?,
        map: t.opt("map", map)?.unwrap_or_default(),
    })
}

fn map(item: &Item<'_>) -> Result<Vec<(PathBuf, PathBuf)>, PolicyError> {
    let mut out: Vec<(PathBuf, PathBuf)> = Vec::new();
    for (key, span, value) in item.table("`map` of [filesystem]")?.entries() {
        let named = value.at(&span);
        if !key.starts_with('/') {
            let message = format!("`{}` in `map` is not an absolute path", printable(key));
            return Err(named.error(message).hint("the key is where the run sees the directory"));
        }
        let shown = item.doc.resolve(key, &span)?;
        if shown == Path::new("/") {
            return Err(named.error("`map` cannot replace the root directory"));
        }
        if out.iter().any(|(seen, _)| *seen == shown) {
            return Err(named.error(format!("`{}` stands twice in `map`", printable(key))));
        }
        out.push((shown, value.path()?));
    }
    Ok(out)
}

pub(super) fn network(t: &Table<'_>) -> Result<ReadNetwork, PolicyError> {
    t.only(&["mode", "loopback", "unix"])?;
    Ok(ReadNetwork {
        mode: t.opt("mode", |i| i.word(&[("none", NetworkMode::None), ("host", NetworkMode::Host)]))?,
        loopback: t.opt("loopback", Item::boolean)?,
        unix: t.opt("unix", Item::paths)?.unwrap_or_default(),
    })
}

pub(super) fn audit(t: &Table<'_>) -> Result<ReadAudit, PolicyError> {
    t.only(&["file", "rotate"])?;
    Ok(ReadAudit {
        file: t.opt("file", |i| Ok((i.path()?, i.span.clone())))?,
        rotate: t.opt("rotate", |i| i.size(MIN_ROTATE))?,
        at: Some(t.span.clone()),
    })
}
