//! `[[rule]]` and the short lists `allow` and `deny`.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use super::reader::{Item, Name, Table};
use super::{ReadRules, Span, args, sections};
use crate::policy::error::{PolicyError, Shown, is_unprintable, printable};
use crate::policy::model::{
    ArgRules, Example, ExampleCommand, Network, Own, OwnOrNone, ProgramName, Rule, Verdict,
};

const KEYS: &[&str] = &[
    "id",
    "program",
    "decision",
    "reason",
    "agents",
    "subcommand",
    "flags",
    "global_flags",
    "operands",
    "max_args",
    "sha256",
    "runs_arguments",
    "limits",
    "env",
    "filesystem",
    "network",
    "exec",
    "examples",
];

/// The three decisions by name.
pub(super) const DECISIONS: [(&str, Verdict); 3] =
    [("allow", Verdict::Allow), ("ask", Verdict::Ask), ("deny", Verdict::Deny)];

/// Longest id and name of an asker, in bytes: they stand in every result and audit record.
const MAX_NAME: usize = 128;

/// The lists `allow` and `deny`, then all `[[rule]]`. Rules are large and a policy may have hundreds: they are written
/// once, where they stay.
pub(super) fn all(top: &Table<'_>) -> Result<ReadRules, PolicyError> {
    let mut rules = ReadRules::default();
    rules.reserve(shorts(top) + top.get("rule").map_or(0, |item| item.length()));
    short(top, &mut rules)?;
    long(top, &mut rules)?;
    Ok(rules)
}

/// Few rules are shorter, in bytes. Room for more rules than there are costs nothing as long as it is not used.
const LEAST_RULE: usize = 64;

/// The same rules, read one by one while the text is parsed.
pub(super) struct Coming {
    rules: ReadRules,
    /// How many of them are entries of the short lists, once those were read.
    short: Option<usize>,
}

impl Coming {
    /// None yet.
    pub fn new() -> Coming {
        Coming { rules: ReadRules::default(), short: None }
    }

    /// The next `[[rule]]`. What stands before it in the text is in the tree: so are the short lists, if there are any.
    pub fn take(&mut self, top: &Table<'_>, entry: Table<'_>) -> Result<(), PolicyError> {
        if self.short.is_none() {
            self.rules.reserve(shorts(top) + entry.doc.text.len() / LEAST_RULE);
            short(top, &mut self.rules)?;
            self.short = Some(self.rules.rules.len());
        }
        rule(&entry, &mut self.rules)
    }

    /// All of them; `None` if not every entry of the short lists is among them.
    pub fn all(self, top: &Table<'_>) -> Option<ReadRules> {
        match self.short {
            Some(count) => (count == shorts(top)).then_some(self.rules),
            None => all(top).ok(),
        }
    }
}

/// How many entries the short lists have.
fn shorts(top: &Table<'_>) -> usize {
    let length = |key| top.get(key).map_or(0, |item| item.length());
    length("allow") + length("deny")
}

fn short(top: &Table<'_>, rules: &mut ReadRules) -> Result<(), PolicyError> {
    let mut seen: HashMap<ProgramName, Verdict> = HashMap::new();
    for (key, decision) in [("allow", Verdict::Allow), ("deny", Verdict::Deny)] {
        let Some(item) = top.get(key) else { continue };
        for entry in item.list("a list of programs")? {
            let name = program(&entry, Some(decision))?;
            if let Some(other) = seen.insert(name.clone(), decision) {
                let shown = printable(&name.as_os_str().to_string_lossy());
                return Err(entry.error(match other == decision {
                    true => format!("`{shown}` stands twice in `{key}`"),
                    false => format!("`{shown}` stands in both `allow` and `deny`"),
                }));
            }
            rules.push(short_rule(&entry, name, decision), entry.span, true);
        }
    }
    Ok(())
}

fn short_rule(entry: &Item<'_>, name: ProgramName, decision: Verdict) -> Rule {
    Rule {
        id: format!("{}:{}", decision.as_str(), name.as_os_str().to_string_lossy()),
        at: entry.doc.place(&entry.span),
        programs: vec![name],
        decision,
        reason: None,
        agents: None,
        args: ArgRules::default(),
        sha256: None,
        runs_arguments: false,
        own: OwnOrNone::default(),
        examples: Vec::new(),
    }
}

fn long(top: &Table<'_>, rules: &mut ReadRules) -> Result<(), PolicyError> {
    let Some(item) = top.get("rule") else { return Ok(()) };
    if !item.is_list() {
        return Err(item.error("`rule` must be a list of tables").hint("write `[[rule]]`"));
    }
    for entry in item.each("a list of tables")? {
        rule(&entry.table("[[rule]]")?, rules)?;
    }
    Ok(())
}

fn rule(t: &Table<'_>, rules: &mut ReadRules) -> Result<(), PolicyError> {
    t.only(KEYS)?;
    let decision = t.need("decision")?.word(&DECISIONS)?;
    let program_item = t.need("program")?;
    let (id, id_span) = id(t)?;
    let rule = Rule {
        id,
        at: t.doc.place(&t.span),
        programs: programs(&program_item, decision)?,
        decision,
        reason: t.opt("reason", sentence)?,
        agents: t.opt("agents", agents)?,
        args: args::args(t, decision)?,
        sha256: t.opt("sha256", sha256)?,
        runs_arguments: t.flag("runs_arguments")?,
        own: own(t, "a rule")?,
        examples: t.opt("examples", examples)?.unwrap_or_default(),
    };
    rules.push(rule, id_span, false);
    Ok(())
}

/// The id as written, else the file and line, which point at the rule just as well.
fn id(t: &Table<'_>) -> Result<(String, Span), PolicyError> {
    let Some(item) = t.get("id") else {
        let at = t.doc.place(&t.span);
        let file = at.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok((format!("{}:{}", printable(&file), at.line), t.span.clone()));
    };
    Ok((safe_name(&item, "a rule's id")?.to_owned(), item.span.clone()))
}

/// Text that can stand in a record or on a terminal as it is.
pub(super) fn safe_name<'a>(item: &Item<'a>, what: &str) -> Result<&'a str, PolicyError> {
    let name = item.string()?;
    if name.trim().is_empty() {
        return Err(item.error(format!("{what} cannot be empty")));
    }
    if name.chars().any(is_unprintable) {
        return Err(item.error(format!("{what} cannot hold a control or invisible character")));
    }
    if name.len() > MAX_NAME {
        return Err(item.error(format!("{what} cannot be longer than {MAX_NAME} bytes")));
    }
    Ok(name)
}

/// A sentence for people, without raw control characters.
pub(super) fn sentence(item: &Item<'_>) -> Result<String, PolicyError> {
    let text = item.string()?;
    if text.chars().any(|c| is_unprintable(c) && c != '\n') {
        return Err(item.error(format!("{} holds a control or invisible character", item.what)));
    }
    Ok(text.to_owned())
}

pub(super) fn agents(item: &Item<'_>) -> Result<Vec<String>, PolicyError> {
    let names = item.names(|entry, _| safe_name(entry, "an agent's name").map(|_| ()))?;
    if names.is_empty() {
        return Err(item
            .error("an empty `agents` would match nobody")
            .hint("leave the key out to match everybody"));
    }
    Ok(names)
}

fn programs(item: &Item<'_>, decision: Verdict) -> Result<Vec<ProgramName>, PolicyError> {
    if item.is_string() {
        return Ok(vec![program(item, Some(decision))?]);
    }
    let entries = item.list("a program's name or a list of them")?;
    if entries.is_empty() {
        return Err(item.error(format!("{} is empty: the rule could never match", item.what)));
    }
    let mut names = Vec::with_capacity(entries.len());
    for entry in entries {
        let name = program(&entry, Some(decision))?;
        if names.contains(&name) {
            let shown = printable(&name.as_os_str().to_string_lossy());
            return Err(entry.error(format!("`{shown}` stands twice in {}", item.what)));
        }
        names.push(name);
    }
    Ok(names)
}

/// A bare name or an absolute path. `decision` is what a rule for it would decide; `None` for `exec` lists.
pub(super) fn program(item: &Item<'_>, decision: Option<Verdict>) -> Result<ProgramName, PolicyError> {
    let text = item.string()?;
    let shown = Shown(text);
    if text == "*" {
        return Err(every_program(item, decision));
    }
    if text.is_empty() {
        return Err(item.error("a program's name cannot be empty"));
    }
    if text.chars().any(is_unprintable) {
        return Err(item.error(format!("`{shown}` holds a control or invisible character")));
    }
    if text.starts_with('/') {
        let dotted = text.split('/').skip(1).any(|c| matches!(c, "" | "." | ".."));
        if dotted {
            return Err(item
                .error(format!("`{shown}` is not the plain path of a file"))
                .hint("write it without `.`, `..`, `//` or a `/` at the end"));
        }
        return Ok(ProgramName::Absolute(PathBuf::from(text)));
    }
    if text.contains('/') {
        return Err(item
            .error(format!("`{shown}` is neither a bare name nor an absolute path"))
            .hint("write its absolute path: a relative one would name another file in every directory"));
    }
    if text.starts_with('-') || matches!(text, "." | "..") {
        return Err(item.error(format!("`{shown}` is not a program's name")));
    }
    Ok(ProgramName::Bare(OsString::from(text)))
}

fn every_program(item: &Item<'_>, decision: Option<Verdict>) -> PolicyError {
    match decision {
        Some(Verdict::Deny) => item
            .error("`*` in a deny rule makes every allow rule unreachable")
            .hint("leave it out: what no rule allows is denied already"),
        _ => item.error("`*` does not stand for every program").hint("name each program"),
    }
}

fn sha256(item: &Item<'_>) -> Result<String, PolicyError> {
    let text = item.string()?;
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(item
            .error(format!("{} must be 64 hex digits", item.what))
            .hint("as sha256sum prints them"));
    }
    Ok(text.to_ascii_lowercase())
}

/// The rule's own settings; the sections read as they do at the top.
pub(super) fn own(t: &Table<'_>, of: &'static str) -> Result<OwnOrNone, PolicyError> {
    if ["limits", "env", "filesystem", "network", "exec"].iter().all(|key| t.get(key).is_none()) {
        return Ok(OwnOrNone::default());
    }
    let own = Own {
        limits: t
            .opt("limits", |i| sections::limits(&i.named_table(Name("`limits` of ", of, ""))?))?
            .unwrap_or_default(),
        env: t.opt("env", |i| sections::env(&i.named_table(Name("`env` of ", of, ""))?))?,
        filesystem: t.opt("filesystem", |i| {
            sections::filesystem(&i.named_table(Name("`filesystem` of ", of, ""))?)
        })?,
        network: t.opt("network", |i| {
            let read = sections::network(&i.named_table(Name("`network` of ", of, ""))?)?;
            Ok(Network { mode: read.mode, loopback: read.loopback.unwrap_or(false), unix: read.unix })
        })?,
        exec: t.opt("exec", |i| i.list("a list of programs")?.iter().map(|e| program(e, None)).collect())?,
    };
    Ok(own.into())
}

fn examples(item: &Item<'_>) -> Result<Vec<Example>, PolicyError> {
    let t = item.table("`examples`")?;
    t.only(&["allow", "ask", "deny"])?;
    let mut out = Vec::new();
    for (key, expect) in DECISIONS {
        let Some(list) = t.get(key) else { continue };
        for entry in list.list("a list of commands")? {
            out.push(Example { expect, command: example(&entry)?, at: entry.doc.place(&entry.span) });
        }
    }
    Ok(out)
}

fn example(entry: &Item<'_>) -> Result<ExampleCommand, PolicyError> {
    if entry.is_string() {
        return Ok(ExampleCommand::Line(entry.string()?.to_owned()));
    }
    if !entry.is_list() {
        return Err(entry.wrong("a command string or a list of words"));
    }
    let words = entry.strings()?;
    if words.is_empty() {
        return Err(entry.error("an example without a word"));
    }
    Ok(ExampleCommand::Words(words))
}
