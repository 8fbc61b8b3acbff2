//! `extends`: several files become one policy. Lists append, scalars override, tables merge, a deny stays.

mod oversight;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::error::{ErrorKind, PolicyError, Spot, printable};
use super::model::{
    AuditPolicy, EnvPolicy, Filesystem, Layer, Limits, Network, Place, Policy, Profile, ProgramName, Rule,
    SandboxPolicy, Source, Syntax, Tool, Verdict,
};
use super::schema::{Doc, File, Mark, ReadAudit, ReadNetwork, ReadRules, Span};
use oversight::{Gathered, Known};

/// One file of a policy.
#[derive(Debug)]
pub(super) struct Part {
    pub doc: Doc,
    pub file: File,
    pub source: Source,
}

/// Joins the files, parents first, the policy itself last.
pub(super) fn join(parts: Vec<Part>) -> Result<Policy, PolicyError> {
    unique_ids(&parts)?;
    unique_tools(&parts)?;
    one_namespace(&parts)?;
    short_beside_rule(&parts)?;
    let path = parts.last().map(|p| p.source.path.clone());
    let identity = parts.last().map(|p| p.source.identity).unwrap_or_default();
    let mut joined = Joined::default();
    let mut sources = Vec::with_capacity(parts.len());
    let mut docs = Vec::with_capacity(parts.len());
    let mut gathered = Gathered::default();
    for (index, mut part) in parts.into_iter().enumerate() {
        gathered.add(index, &part.doc, std::mem::take(&mut part.file.oversight));
        joined.add(index, part.file);
        sources.push(part.source);
        docs.push(part.doc);
    }
    let audit = joined.audit(&docs)?;
    let oversight = gathered.settle(&docs, &Known { rules: &joined.rules, tools: &joined.tools })?;
    let policy = Policy {
        identity,
        path: path.unwrap_or_else(|| PathBuf::new().into()),
        sources,
        rules: joined.rules,
        tools: joined.tools,
        limits: joined.limits,
        env: joined.env,
        syntax: joined.syntax.unwrap_or_default(),
        sandbox: joined.sandbox,
        filesystem: joined.filesystem,
        network: Network {
            mode: joined.network.mode,
            loopback: joined.network.loopback.unwrap_or(false),
            unix: joined.network.unix,
        },
        audit: audit.as_ref().map(|(policy, ..)| policy.clone()),
        oversight,
    };
    out_of_reach(&policy, audit.map(|(_, index, span)| docs[index].spot(&span)))?;
    Ok(policy)
}

fn all_rules(parts: &[Part]) -> impl Iterator<Item = (&Doc, &Rule, &Mark)> {
    parts.iter().flat_map(|p| p.file.rules.iter().map(|(rule, mark)| (&p.doc, rule, mark)))
}

/// An id names one rule. The same short entry in two files is one and the same.
fn unique_ids(parts: &[Part]) -> Result<(), PolicyError> {
    let mut seen: HashMap<&str, (&Rule, bool)> = HashMap::with_capacity(all_rules(parts).count());
    for (doc, rule, mark) in all_rules(parts) {
        match seen.entry(&rule.id) {
            Entry::Occupied(first) if !(first.get().1 && mark.short) => {
                let first = place(&first.get().0.at);
                let message = format!("the rule id `{}` is used twice, first at {first}", rule.id);
                return Err(doc.error(&mark.id, message).hint("give this rule another id"));
            }
            Entry::Occupied(_) => {}
            Entry::Vacant(free) => {
                free.insert((rule, mark.short));
            }
        }
    }
    Ok(())
}

fn unique_tools(parts: &[Part]) -> Result<(), PolicyError> {
    let mut seen: BTreeMap<&str, &Place> = BTreeMap::new();
    for part in parts {
        for (name, (tool, span)) in &part.file.tools {
            if let Some(first) = seen.insert(name, &tool.at) {
                let message = format!("the tool `{name}` is defined twice, first at {}", place(first));
                return Err(part.doc.error(span, message));
            }
        }
    }
    Ok(())
}

/// Rates and checks name rules and tools alike, and results name either.
fn one_namespace(parts: &[Part]) -> Result<(), PolicyError> {
    for part in parts {
        for (name, (_, span)) in &part.file.tools {
            if let Some((_, rule, _)) = all_rules(parts).find(|(_, rule, _)| rule.id == *name) {
                let message = format!("the tool `{name}` has the id of a rule, at {}", place(&rule.at));
                return Err(part
                    .doc
                    .error(span, message)
                    .hint("rules and tools share their names: rename one"));
            }
        }
    }
    Ok(())
}

/// The short `allow` accepts any arguments, so beside it every limit of a `[[rule]]` would be idle.
fn short_beside_rule(parts: &[Part]) -> Result<(), PolicyError> {
    let short = |&(_, rule, mark): &(_, &Rule, &Mark)| mark.short && rule.decision == Verdict::Allow;
    let mut names: Vec<_> = all_rules(parts).filter(short).map(|(_, rule, _)| &rule.programs[0]).collect();
    names.sort_unstable();
    let mut ruled: HashMap<&ProgramName, &Rule> = HashMap::new();
    for (_, rule, _) in all_rules(parts).filter(|(_, _, mark)| !mark.short) {
        for name in rule.programs.iter().filter(|name| names.binary_search(name).is_ok()) {
            ruled.entry(name).or_insert(rule);
        }
    }
    for (doc, rule, mark) in all_rules(parts).filter(short) {
        let name = &rule.programs[0];
        if let Some(rule) = ruled.get(name) {
            let shown = printable(&name.as_os_str().to_string_lossy());
            let message = format!("`{shown}` in `allow` also has a [[rule]], at {}", place(&rule.at));
            return Err(doc.error(&mark.id, message).hint(
                "keep one of the two: `allow` accepts any arguments, so the limits of the [[rule]] would never count",
            ));
        }
    }
    Ok(())
}

fn place(at: &Place) -> String {
    printable(&at.to_string())
}

/// What the files come to so far.
#[derive(Default)]
struct Joined {
    rules: Vec<Rule>,
    /// Ids of the short entries seen: one that several files share is one rule.
    short: HashSet<String>,
    tools: BTreeMap<String, Tool>,
    limits: Limits,
    env: EnvPolicy,
    syntax: Option<Syntax>,
    sandbox: SandboxPolicy,
    filesystem: Filesystem,
    network: ReadNetwork,
    audit: ReadAudit,
    /// Which file the audit's `file` came from, and which wrote the section at all.
    audit_from: (Option<usize>, usize),
}

impl Joined {
    fn add(&mut self, index: usize, file: File) {
        if self.rules.is_empty() {
            // In one file no short entry stands twice, so the first file's rules stay where they are.
            let short = file.rules.iter().filter(|(_, mark)| mark.short);
            self.short = short.map(|(rule, _)| rule.id.clone()).collect();
            self.rules = file.rules.rules;
        } else {
            self.more_rules(file.rules);
        }
        self.tools.extend(file.tools.into_iter().map(|(name, (tool, _))| (name, tool)));
        self.limits = file.limits.over(&self.limits);
        append(&mut self.env.pass, file.env.pass);
        append(&mut self.env.request, file.env.request);
        self.env.set.extend(file.env.set);
        self.syntax = file.syntax.or(self.syntax);
        self.sandbox(file.sandbox);
        self.filesystem(file.filesystem);
        self.network.mode = file.network.mode.or(self.network.mode);
        self.network.loopback = file.network.loopback.or(self.network.loopback);
        self.network.unix.extend(file.network.unix);
        self.audit.rotate = file.audit.rotate.or(self.audit.rotate);
        if file.audit.file.is_some() {
            self.audit.file = file.audit.file;
            self.audit_from.0 = Some(index);
        }
        if file.audit.at.is_some() {
            self.audit.at = file.audit.at;
            self.audit_from.1 = index;
        }
    }

    fn more_rules(&mut self, more: ReadRules) {
        self.rules.reserve(more.rules.len());
        for (rule, mark) in more.rules.into_iter().zip(more.marks) {
            if !mark.short || self.short.insert(rule.id.clone()) {
                self.rules.push(rule);
            }
        }
    }

    fn sandbox(&mut self, file: SandboxPolicy) {
        self.sandbox.profile = file.profile.or(self.sandbox.profile);
        append(&mut self.sandbox.require, file.require);
        if let Some(layers) = &mut self.sandbox.require {
            let mut seen: Vec<Layer> = Vec::new();
            layers.retain(|l| {
                !seen.contains(l) && {
                    seen.push(*l);
                    true
                }
            });
        }
        self.sandbox.user = file.user.or(self.sandbox.user.take());
        self.sandbox.processes = file.processes.or(self.sandbox.processes);
    }

    fn filesystem(&mut self, file: Filesystem) {
        let own = &mut self.filesystem;
        append(&mut own.cwd, file.cwd);
        append(&mut own.read, file.read);
        append(&mut own.write, file.write);
        append(&mut own.deny, file.deny);
        own.tmp = file.tmp.or(own.tmp);
        own.map.retain(|(shown, _)| !file.map.iter().any(|(new, _)| new == shown));
        own.map.extend(file.map);
    }

    /// The audit section with the file and place its `file` comes from.
    fn audit(&mut self, docs: &[Doc]) -> Result<Option<(AuditPolicy, usize, Span)>, PolicyError> {
        let Some(section) = self.audit.at.take() else { return Ok(None) };
        let (Some((file, span)), Some(index)) = (self.audit.file.take(), self.audit_from.0) else {
            return Err(docs[self.audit_from.1].error(&section, "`file` is missing in [audit]"));
        };
        let at = docs[index].place(&span);
        Ok(Some((AuditPolicy { file, rotate: self.audit.rotate, at }, index, span)))
    }
}

fn append<T>(to: &mut Option<Vec<T>>, more: Option<Vec<T>>) {
    match (to.as_mut(), more) {
        (Some(list), Some(more)) => list.extend(more),
        (None, Some(more)) => *to = Some(more),
        (_, None) => {}
    }
}

/// The run must not be able to write its own record, the store or the switch, as far as that can be known before it runs.
fn out_of_reach(policy: &Policy, audit: Option<Spot>) -> Result<(), PolicyError> {
    let over = &policy.oversight;
    let kept = [
        policy.audit.as_ref().map(|a| ("the audit file", &a.file, audit)),
        over.state.as_ref().map(|s| ("the state", &s.dir, policy.spot(&s.at))),
        over.kill_switch.as_ref().map(|s| ("the kill switch", &s.file, policy.spot(&s.at))),
    ];
    for (what, path, spot) in kept.into_iter().flatten() {
        if let Some((dir, key)) = written_by_runs(policy, path) {
            let shown = printable(&dir.to_string_lossy());
            let message = format!("{what} lies in {shown}, which {key} lets the run write");
            let error = match spot {
                Some(spot) => spot.error(ErrorKind::Invalid, message),
                None => PolicyError::file(ErrorKind::Invalid, &policy.path, message),
            };
            return Err(error.hint("keep it where no run can reach it"));
        }
    }
    Ok(())
}

/// The directory around `path`, or within it, that the policy or one of its rules lets runs write, and the key that does.
fn written_by_runs<'p>(policy: &'p Policy, path: &Path) -> Option<(&'p Path, &'static str)> {
    let profile = policy.sandbox.profile.unwrap_or_default();
    if profile == Profile::Host {
        return None;
    }
    let owns = policy.rules.iter().filter_map(|r| r.own.filesystem.as_ref());
    let mut all = std::iter::once(&policy.filesystem).chain(owns).flat_map(|filesystem| {
        let writable = filesystem.write.iter().flatten().map(|p| (p.as_path(), "`write`"));
        let cwd = filesystem.cwd.iter().flatten().filter(|_| profile == Profile::Workspace);
        writable.chain(cwd.map(|p| (p.as_path(), "`cwd`")))
    });
    all.find(|(dir, _)| path.starts_with(dir) || dir.starts_with(path))
}
