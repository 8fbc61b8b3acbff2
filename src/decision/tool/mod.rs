//! Typed tools: a name and arguments to a command that the caller never writes, or to a built-in action.
//!
//! Every stacked policy has to offer the tool to the asker, each judges the arguments by its own parameters, and all have
//! to come to the same command, or to the same action in the same place. A command is then judged as any other, with the
//! tool in the place of the rule that allows it: `ask` and `deny` rules still speak of the program that it starts.

mod action;
mod arguments;
mod judged;
mod offered;
#[cfg(test)]
mod tests;
mod words;

use std::ffi::OsString;

use serde_json::{Map, Value};

use super::asker;
use super::denial::said_by_tool;
use super::judge::{no_policy, note};
use super::paths::Paths;
use super::shown::{repr, row};
use super::values::list;
use super::{Denial, Facts, Judged, Stage, Step, cwd};
use crate::policy::model::{Policy, ProgramName, Rule, Tool, ToolOutput, Verdict};
use crate::request::quote::escape_text;
use crate::request::{Arguments, Request, Stdin};

pub use action::ActionCall;
pub use judged::decide_called;
pub use offered::{Offered, offered};

use arguments::Values;

/// The code of a refusal for arguments that do not fit the tool's parameters.
pub const INVALID_ARGUMENTS: &str = "invalid_arguments";

/// The most failures that one sentence tells.
const MOST_FAILURES: usize = 16;

/// What a grant says of the tool that was called.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// Its name.
    pub name: String,
    /// A value for every parameter that was given or has a default, of the parameter's own type.
    pub arguments: Map<String, Value>,
    /// The parameters whose values are content: they go to standard input or into a file.
    pub content: Vec<String>,
    /// What guardexec does itself, in place of starting a command.
    pub action: Option<ActionCall>,
    /// A failing exit makes the result an `error`.
    pub check_exit: bool,
    /// What of the output the result's text holds.
    pub output: ToolOutput,
}

/// A call whose tool every policy offers and whose arguments fit; not decided yet.
#[derive(Debug)]
pub struct Called<'p> {
    call: ToolCall,
    /// The words of the command; none for an action.
    argv: Vec<OsString>,
    /// The standard input that the tool makes.
    input: Option<Vec<u8>>,
    /// Where it is done: the working directory, or the action's root.
    place: cwd::Opened,
    sides: Vec<Side<'p>>,
}

/// One policy's part in a call.
#[derive(Debug)]
struct Side<'p> {
    policy: &'p Policy,
    /// The tool as a rule that allows or asks.
    rule: Rule,
}

impl Called<'_> {
    /// The words of the command; `None` for a built-in action.
    pub fn argv(&self) -> Option<&[OsString]> {
        self.call.action.is_none().then_some(self.argv.as_slice())
    }
}

/// What one policy makes of a call.
struct Made<'p> {
    policy: &'p Policy,
    tool: &'p Tool,
    values: Values,
    argv: Vec<OsString>,
    action: Option<ActionCall>,
}

/// Whether every policy offers the tool, and what the arguments come to.
///
/// # Errors
/// The decision that ends judging: an unknown or denied tool, arguments that do not fit, policies that disagree.
pub fn called<'p>(
    policies: &'p [Policy],
    name: &str,
    given: &Arguments,
    request: &mut Request,
    facts: &Facts,
    trace: &mut Vec<Step>,
) -> Judged<Called<'p>> {
    if policies.is_empty() {
        return no_policy();
    }
    note(trace, "request", "read", asked(name, given), None);
    asker::settle(&mut request.asker, facts.agent.as_deref())?;
    let tools = named(policies, name, request.asker.agent.as_deref())?;
    for (_, tool) in tools.iter().filter(|(_, tool)| tool.action.is_some()) {
        note(trace, "command", "named", said_by_tool(tool), None);
    }
    let place = open_place(&tools, request, facts)?;
    let made = made(&tools, given, &place)?;
    agree(&made)?;
    let shown = made.first().map(|made| settled(&made.values)).unwrap_or_default();
    note(trace, "arguments", "fit", shown, None);
    assemble(made, place)
}

/// The tool in every policy that has to offer it.
fn named<'p>(policies: &'p [Policy], name: &str, agent: Option<&str>) -> Judged<Vec<(&'p Policy, &'p Tool)>> {
    let usable = |policy: &'p Policy| {
        let tool = policy.tools.get(name).filter(|tool| asker::granted(tool.agents.as_deref(), agent))?;
        Some((policy, tool))
    };
    let Some(tools) = policies.iter().map(usable).collect::<Option<Vec<_>>>() else {
        let names: Vec<&str> = offered(policies, agent).iter().map(|offered| offered.name()).collect();
        let message = format!("tool {} is not in the allowlist {}", repr(name.as_bytes()), list(&names));
        return Denial::new(Stage::Command, "not_allowlisted", message).deny();
    };
    match tools.iter().find(|(_, tool)| tool.decision == Verdict::Deny) {
        None => Ok(tools),
        Some((_, tool)) => {
            let message = format!("{} is denied", said_by_tool(tool));
            Denial::new(Stage::Command, "denied_by_rule", message)
                .hint("do without this tool; nothing else can allow it")
                .by_tool(tool)
                .deny()
        }
    }
}

/// Opens where the call is done. A request cannot give an action what only a command has, nor a second standard input
/// to a tool that makes its own.
fn open_place(tools: &[(&Policy, &Tool)], request: &Request, facts: &Facts) -> Judged<cwd::Opened> {
    let given = !matches!(request.stdin, Stdin::Null);
    if let Some((_, tool)) = tools.iter().find(|(_, tool)| tool.stdin.is_some() && given) {
        let message = format!("tool {} makes its own standard input", repr(tool.name.as_bytes()));
        return Denial::new(Stage::Arguments, "stdin_conflict", message)
            .hint("leave stdin out; the tool's parameters say what it reads")
            .by_tool(tool)
            .deny();
    }
    if tools.iter().any(|(_, tool)| tool.action.is_some()) {
        return action::place(tools, request);
    }
    cwd::open(request.cwd.as_deref(), facts)
}

/// The arguments by each policy's own parameters; everything that is wrong with them is told together.
fn made<'p>(
    tools: &[(&'p Policy, &'p Tool)],
    given: &Arguments,
    place: &cwd::Opened,
) -> Judged<Vec<Made<'p>>> {
    let mut out = Vec::with_capacity(tools.len());
    let mut failures: Vec<String> = Vec::new();
    let mut refusing = None;
    for &(policy, tool) in tools {
        let (values, mut wrong) = arguments::settle(tool, given, &Paths::Disk(&place.path));
        let (argv, dashed) = words::words(tool, &values);
        wrong.extend(dashed);
        let action = action::call(tool, &values, &mut wrong);
        if !wrong.is_empty() {
            refusing.get_or_insert(tool);
        }
        wrong.retain(|sentence| !failures.contains(sentence));
        failures.extend(wrong);
        out.push(Made { policy, tool, values, argv, action });
    }
    match refusing {
        None => Ok(out),
        Some(tool) => invalid(tool, &failures),
    }
}

fn invalid<T>(tool: &Tool, failures: &[String]) -> Judged<T> {
    let told = failures[..failures.len().min(MOST_FAILURES)].join("; ");
    let more = match failures.len().saturating_sub(MOST_FAILURES) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Denial::new(Stage::Arguments, INVALID_ARGUMENTS, format!("{told}{more}"))
        .hint("correct what is named here and call the tool again; everything else was accepted")
        .by_tool(tool)
        .deny()
}

/// Stacked policies have to mean the same thing by a name.
fn agree(made: &[Made<'_>]) -> Judged<()> {
    let input = |made: &Made<'_>| made.tool.stdin.as_ref().map(|text| words::input(text, &made.values));
    let Some((first, rest)) = made.split_first() else { return Ok(()) };
    let differs = |other: &&Made<'_>| {
        let commands = first.argv != other.argv || input(first) != input(other);
        let actions = match (&first.action, &other.action) {
            (None, None) => false,
            (Some(a), Some(b)) => !a.is_the_same(b),
            _ => true,
        };
        commands || actions
    };
    let Some(other) = rest.iter().find(differs) else { return Ok(()) };
    let name = repr(first.tool.name.as_bytes());
    let (a, b) = (escape_text(&first.tool.at.to_string()), escape_text(&other.tool.at.to_string()));
    let message = format!("tool {name} comes to different things in two of the policies ({a} and {b})");
    Denial::new(Stage::Arguments, "tool_conflict", message)
        .hint("the policies have to agree on it; their owners can make them")
        .by_tool(other.tool)
        .deny()
}

fn assemble<'p>(made: Vec<Made<'p>>, place: cwd::Opened) -> Judged<Called<'p>> {
    let check_exit = made.iter().any(|made| made.tool.check_exit);
    let hidden = |output: ToolOutput| match output {
        ToolOutput::Both => 0,
        ToolOutput::Stdout => 1,
        ToolOutput::None => 2,
    };
    let output = made.iter().map(|made| made.tool.output).max_by_key(|output| hidden(*output));
    let max_size = made.iter().filter_map(|made| Some(made.action.as_ref()?.max_size)).min();
    let sides = made.iter().map(|made| Side { policy: made.policy, rule: as_rule(made) }).collect();
    let Some(first) = made.into_iter().next() else { return no_policy() };
    let tool = first.tool;
    let action = first.action.map(|call| ActionCall { max_size: max_size.unwrap_or(call.max_size), ..call });
    let input = tool.stdin.as_ref().map(|text| words::input(text, &first.values));
    let call = ToolCall {
        name: tool.name.clone(),
        content: words::content(tool),
        arguments: first.values,
        action,
        check_exit,
        output: output.unwrap_or_default(),
    };
    Ok(Called { call, argv: first.argv, input, place, sides })
}

/// The tool in the place of a rule for its program, with any arguments: its template has settled them.
fn as_rule(made: &Made<'_>) -> Rule {
    let tool = made.tool;
    let above = tool.params.iter().filter_map(|param| arguments::asks(param, made.values.get(&param.name)?));
    let mut asks: Vec<String> = above.collect();
    let name = repr(tool.name.as_bytes());
    if tool.decision == Verdict::Ask {
        let own = tool.reason.clone();
        asks.insert(0, own.unwrap_or_else(|| format!("tool {name} wants a person to approve it")));
    }
    let (decision, reason) = match asks.is_empty() {
        true => (tool.decision, tool.reason.clone().unwrap_or_else(|| format!("tool {name} is allowed"))),
        false => (Verdict::Ask, asks.join("; ")),
    };
    let program = tool.argv.first().map(|word| match word.starts_with('/') {
        true => ProgramName::Absolute(word.into()),
        false => ProgramName::Bare(word.into()),
    });
    Rule {
        id: tool.name.clone(),
        at: tool.at.clone(),
        programs: program.into_iter().collect(),
        decision,
        reason: Some(reason),
        agents: None,
        args: Default::default(),
        sha256: None,
        runs_arguments: true,
        own: tool.own.clone(),
        examples: Vec::new(),
    }
}

/// The call as it was asked, for a person.
fn asked(name: &str, given: &Arguments) -> String {
    let texts: Vec<String> = given.texts().into_iter().map(|(key, text)| format!("{key}={text}")).collect();
    let words: Vec<&[u8]> =
        std::iter::once(name.as_bytes()).chain(texts.iter().map(|t| t.as_bytes())).collect();
    row(&words)
}

fn settled(values: &Values) -> String {
    let shown =
        |(name, value): (&String, &Value)| format!("{name} {}", repr(arguments::text_of(value).as_bytes()));
    let all: Vec<String> = values.iter().map(shown).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}
