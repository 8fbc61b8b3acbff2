//! `[tools.NAME]`: a fixed argv or a built-in action, with typed parameters.

use std::collections::BTreeMap;

use super::nearest::nearest_hint;
use super::reader::{Item, Name, Table};
use super::{Span, hook, param, rule};
use crate::policy::error::{PolicyError, printable};
use crate::policy::model::{
    Action, ActionKind, Bound, MAX_OUTPUT, OwnOrNone, Param, ParamType, Tool, ToolOutput,
};
use crate::policy::template::placeholders;

const KEYS: &[&str] = &[
    "description",
    "argv",
    "action",
    "root",
    "max_size",
    "stdin",
    "check_exit",
    "output",
    "params",
    "decision",
    "reason",
    "agents",
    "limits",
    "env",
    "filesystem",
    "network",
    "exec",
];

/// What a built-in action reads or writes at most, unless the tool says.
const MAX_SIZE: u64 = 1 << 20;
/// The most that it may say: content is held in memory.
const GREATEST_MAX_SIZE: u64 = 64 << 20;

const ACTIONS: [(&str, ActionKind); 4] = [
    ("read_file", ActionKind::ReadFile),
    ("write_file", ActionKind::WriteFile),
    ("list_dir", ActionKind::ListDir),
    ("delete_file", ActionKind::DeleteFile),
];

/// All tools, each with the place of its name.
pub(super) fn tools(top: &Table<'_>) -> Result<BTreeMap<String, (Tool, Span)>, PolicyError> {
    let Some(item) = top.get("tools") else { return Ok(BTreeMap::new()) };
    let mut out = BTreeMap::new();
    for (name, span, entry) in item.by_key().table("[tools]")?.entries() {
        param::identifier(&entry.at(&span), name, "a tool")?;
        let t = entry.named_table(Name("[tools.", name, "]"))?;
        out.insert(name.to_owned(), (tool(&t, name, &span)?, span));
    }
    Ok(out)
}

fn tool(t: &Table<'_>, name: &str, span: &Span) -> Result<Tool, PolicyError> {
    t.only(KEYS)?;
    let action = action(t)?;
    let params = match &action {
        Some(action) => param::of_action(action.kind, t.get("params").as_ref())?,
        None => t.opt("params", param::params)?.unwrap_or_default(),
    };
    let argv = match &action {
        Some(_) => Vec::new(),
        None => argv(&t.need("argv")?, &params)?,
    };
    let reason = t.opt("reason", rule::sentence)?;
    let description = match t.opt("description", rule::sentence)?.or_else(|| reason.clone()) {
        Some(text) => text,
        None => made(&argv, action.as_ref()),
    };
    let (output, own) = output(t)?;
    Ok(Tool {
        name: name.to_owned(),
        at: t.doc.place(span),
        description,
        argv,
        action,
        stdin: t.opt("stdin", |i| stdin(i, &params))?,
        check_exit: t.flag("check_exit")?,
        output,
        params,
        decision: t.need("decision")?.word(&rule::DECISIONS)?,
        reason,
        agents: t.opt("agents", rule::agents)?,
        own,
    })
}

/// The built-in action, where the tool is one. What belongs to the one kind of tool alone is refused in the other.
fn action(t: &Table<'_>) -> Result<Option<Action>, PolicyError> {
    let Some(item) = t.get("action") else {
        if t.get("argv").is_none() {
            return Err(t
                .error(format!("`argv` is missing in {}", t.name))
                .hint("or `action`, for what guardexec does itself"));
        }
        return match ["root", "max_size"].into_iter().find_map(|key| t.get(key).map(|i| (key, i))) {
            Some((key, item)) => Err(item
                .error(format!("`{key}` has no meaning for a tool with an argv"))
                .hint("it belongs to `action`")),
            None => Ok(None),
        };
    };
    let kind = item.word(&ACTIONS)?;
    let commands = ["argv", "stdin", "check_exit", "env", "filesystem", "network", "exec"];
    if let Some((key, item)) = commands.into_iter().find_map(|key| t.get(key).map(|i| (key, i))) {
        return Err(item
            .error(format!("`{key}` has no meaning for a tool with an action"))
            .hint("a tool is an argv or an action, not both"));
    }
    let max_size = t.opt("max_size", |i| match i.size(1)? {
        size if size > GREATEST_MAX_SIZE => Err(i.error(format!("{} must be at most \"64M\"", i.what))),
        size => Ok(size),
    })?;
    let root = t.need("root")?.path()?;
    Ok(Some(Action { kind, root, max_size: max_size.unwrap_or(MAX_SIZE) }))
}

/// What a model is told where the author says nothing.
fn made(argv: &[String], action: Option<&Action>) -> String {
    match action.map(|a| a.kind) {
        Some(ActionKind::ReadFile) => "Reads a file.".to_owned(),
        Some(ActionKind::WriteFile) => "Writes a file.".to_owned(),
        Some(ActionKind::ListDir) => "Lists a directory.".to_owned(),
        Some(ActionKind::DeleteFile) => "Deletes a file.".to_owned(),
        None => {
            let program = argv.first().map_or("", |p| p.rsplit('/').next().unwrap_or(p));
            let words: Vec<&str> =
                std::iter::once(program).chain(argv.iter().skip(1).map(String::as_str)).collect();
            format!("Runs: {}", printable(&words.join(" ")))
        }
    }
}

/// What the model gets, and the tool's own limits: a size in `output` is `limits.output`.
fn output(t: &Table<'_>) -> Result<(ToolOutput, OwnOrNone), PolicyError> {
    let mut own = rule::own(t, "a tool")?;
    let Some(item) = t.get("output") else { return Ok((ToolOutput::default(), own)) };
    if !item.string()?.starts_with(|c: char| c.is_ascii_digit()) {
        let words = [("both", ToolOutput::Both), ("stdout", ToolOutput::Stdout), ("none", ToolOutput::None)];
        return Ok((item.word(&words)?, own));
    }
    let size = item.size(1)?;
    if size > MAX_OUTPUT {
        return Err(item.error("output keeps at most 64M of each stream"));
    }
    if own.limits.output.replace(Bound::At(size)).is_some() {
        return Err(item.error("the size stands in `output` and in `limits` too").hint("write it once"));
    }
    Ok((ToolOutput::default(), own))
}

/// The program of a template: a bare name or an absolute path as in a rule, or a path relative to the policy file, since
/// no caller ever writes this word.
fn program(item: &Item<'_>) -> Result<String, PolicyError> {
    let word = item.string()?;
    if ["./", "../", "~/"].iter().any(|start| word.starts_with(start)) {
        return hook::program(item);
    }
    rule::program(item, None)?;
    Ok(word.to_owned())
}

/// The template: a fixed program, then words in which `{name}` stands for a parameter.
fn argv(item: &Item<'_>, params: &[Param]) -> Result<Vec<String>, PolicyError> {
    let entries = item.list("a list of strings")?;
    let Some(first) = entries.first() else {
        return Err(item.error(format!("{} is empty: it has to name a program", item.what)));
    };
    if placeholders(first.string()?).next().is_some() {
        return Err(first.error("the program of a tool cannot come from a parameter"));
    }
    let program = program(first)?;
    let mut argv = Vec::with_capacity(entries.len());
    argv.push(program);
    for entry in &entries[1..] {
        let word = entry.string()?;
        for name in placeholders(word) {
            let whole = word.len() == name.len() + 2;
            if parameter(entry, name, params)?.kind == ParamType::Array && !whole {
                return Err(entry
                    .error(format!("`{{{name}}}` is an array, which becomes whole words"))
                    .hint(format!("write \"{{{name}}}\" as a word of its own")));
            }
        }
        argv.push(word.to_owned());
    }
    Ok(argv)
}

/// The template of standard input: one text, so no parameter that is not one.
fn stdin(item: &Item<'_>, params: &[Param]) -> Result<String, PolicyError> {
    let text = item.string()?;
    for name in placeholders(text) {
        let kind = parameter(item, name, params)?.kind;
        if matches!(kind, ParamType::Array | ParamType::Boolean) {
            return Err(item
                .error(format!("`{{{name}}}` in {} is no text", item.what))
                .hint("a string, an integer or a number can stand there"));
        }
    }
    Ok(text.to_owned())
}

fn parameter<'p>(item: &Item<'_>, name: &str, params: &'p [Param]) -> Result<&'p Param, PolicyError> {
    params.iter().find(|p| p.name == name).ok_or_else(|| {
        let known: Vec<&str> = params.iter().map(|p| p.name.as_str()).collect();
        let hint = match known[..] {
            [] => format!("declare it, as in `params.{name} = {{ type = \"string\" }}`"),
            _ => nearest_hint(name, &known),
        };
        item.error(format!("`{{{name}}}` names no parameter of this tool")).hint(hint)
    })
}
