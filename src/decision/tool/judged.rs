//! Deciding a call: its command as any other command, its action by what the policies say of the tool alone.

use std::os::unix::ffi::OsStrExt as _;

use super::{Called, ToolCall};
use crate::decision::command;
use crate::decision::judge::{self, Found, note, note_rules};
use crate::decision::shown::{repr, row};
use crate::decision::{Decision, Facts, Grant, Judged, Match, RuleRef, Step, settle, sizes};
use crate::policy::model::{Policy, Rule, Verdict};
use crate::program::Program;
use crate::request::{Request, Stdin};

/// Decides a call, noting what each stage found.
pub fn decide_called(
    policies: &[Policy],
    called: Called<'_>,
    request: Request,
    facts: &Facts,
    trace: &mut Vec<Step>,
) -> Decision {
    let judged = match called.call.action {
        None => judge_command(policies, called, request, facts, trace),
        Some(_) => judge_action(called, request, trace),
    };
    let decision = match judged {
        Ok(grant) if grant.verdict == Verdict::Ask => Decision::Ask(grant),
        Ok(grant) => Decision::Allow(grant),
        Err(ended) => *ended,
    };
    trace.push(judge::last_step(&decision));
    decision
}

fn judge_command(
    policies: &[Policy],
    called: Called<'_>,
    mut request: Request,
    facts: &Facts,
    trace: &mut Vec<Step>,
) -> Judged<Grant> {
    let Called { call, argv, input, place, sides } = called;
    let word = judge::check_request(policies, &argv)?;
    let words: Vec<&[u8]> = argv.iter().map(|word| word.as_bytes()).collect();
    note(trace, "command", "is", row(&words), None);
    let agent = request.asker.agent.as_deref();
    let shorts = sides.iter().map(|side| command::of_tool(side.policy, &side.rule, word, agent));
    let shorts = shorts.collect::<Judged<Vec<_>>>()?;
    note_rules(trace, &shorts);
    let (program, shorts) = command::identify(shorts, word, |_| Ok(()))?;
    note_program(trace, &program);
    sizes::check_words(&argv)?;
    if let Some(input) = input {
        request.stdin = Stdin::Bytes(input);
    }
    let found = Found { words: &argv, word, shorts, program, cwd: place };
    let grant = judge::judge_found(found, request, facts, trace)?;
    Ok(Grant { tool: Some(call), ..grant })
}

fn note_program(trace: &mut Vec<Step>, program: &Program) {
    note(trace, "program", "found", repr(program.path.as_os_str().as_bytes()), None);
}

/// No program, no environment: limits and denied paths are what a policy can say of it besides the tool itself.
fn judge_action(called: Called<'_>, request: Request, trace: &mut Vec<Step>) -> Judged<Grant> {
    let Called { call, place, sides, .. } = called;
    let matches: Vec<Match<'_>> = sides.iter().map(|s| Match { policy: s.policy, rule: &s.rule }).collect();
    let rules = matches.iter().map(|m| m.rule);
    // The first of the strictest.
    let Some(deciding) = rules.reduce(|a, b| if b.decision > a.decision { b } else { a }) else {
        return judge::no_policy();
    };
    note_action(trace, &call, deciding);
    let limits = settle::limits(&matches, request.timeout);
    let wanted = settle::wanted(&matches, Vec::new())?;
    Ok(Grant {
        verdict: deciding.decision,
        rule: RuleRef::of(deciding),
        ids: judge::ids(&matches),
        reason: judge::reason(deciding, deciding.decision),
        asks: judge::asks(&matches),
        tool: Some(call),
        argv: Vec::new(),
        envp: Vec::new(),
        program: None,
        cwd: place.path,
        cwd_fd: place.fd,
        stdin: Stdin::Null,
        limits,
        wanted,
        warnings: Vec::new(),
    })
}

fn note_action(trace: &mut Vec<Step>, call: &ToolCall, rule: &Rule) {
    let Some(action) = &call.action else { return };
    let path = if action.path.as_os_str().is_empty() { b"." } else { action.path.as_os_str().as_bytes() };
    note(trace, "command", "is", format!("{} {}", action.kind.as_str(), repr(path)), Some(rule));
}
