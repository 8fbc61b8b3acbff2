//! The steps of judging, in order: the request itself, the asker, the command by name, the program on disk, the
//! arguments, the environment, the working directory, and what all that decides together comes to.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::arguments::{self, Command};
use super::command::{self, Short};
use super::denial::said_by;
use super::environment::{self, Built};
use super::paths::Paths;
use super::shown::{repr, row};
use super::word::{Word, shown};
use super::{
    Decision, Denial, Facts, Grant, Judged, Match, RuleRef, Stage, Step, asker, cwd, script, settle, sizes,
};
use crate::policy::model::{Policy, Profile, Rule, Verdict};
use crate::policy::runners::runs_arguments;
use crate::program::{self, Program};
use crate::request::quote::escape_text;
use crate::request::{Request, check_nul};

/// Where `HOME` and `TMPDIR` point until the private directory of the run is known.
pub const PRIVATE_TMP: &str = "/tmp";

/// Judges a request: `words` is what `request.ask` came to. All policies must allow it; the strictest decides.
pub fn decide(policies: &[Policy], words: Vec<OsString>, request: Request, facts: &Facts) -> Decision {
    decide_with(policies, words, request, facts, &mut Vec::new())
}

/// The same, noting what each stage found.
pub fn decide_with(
    policies: &[Policy],
    words: Vec<OsString>,
    request: Request,
    facts: &Facts,
    trace: &mut Vec<Step>,
) -> Decision {
    let decision = match judge(policies, words, request, facts, trace) {
        Ok(grant) if grant.verdict == Verdict::Ask => Decision::Ask(grant),
        Ok(grant) => Decision::Allow(grant),
        Err(ended) => *ended,
    };
    trace.push(last_step(&decision));
    decision
}

fn judge(
    policies: &[Policy],
    words: Vec<OsString>,
    mut request: Request,
    facts: &Facts,
    trace: &mut Vec<Step>,
) -> Judged<Grant> {
    let word = check_request(policies, &words)?;
    note(trace, "request", "read", row(&words.iter().map(|w| w.as_bytes()).collect::<Vec<_>>()), None);
    asker::settle(&mut request.asker, facts.agent.as_deref())?;
    let agent = request.asker.agent.as_deref();
    let shorts =
        policies.iter().map(|p| command::shortlist(p, policies, word, agent)).collect::<Judged<Vec<_>>>()?;
    note_rules(trace, &shorts);
    let args: Vec<&[u8]> = words[1..].iter().map(|w| w.as_bytes()).collect();
    let nameless = |shorts: &[Short<'_>]| {
        let asked = Command { word, args: &args, agent, program: None, paths: Paths::Names };
        judge_arguments(shorts, &asked, &mut Vec::new()).map(drop)
    };
    let (program, shorts) = command::identify(shorts, word, nameless)?;
    note(trace, "program", "found", repr(program.path.as_os_str().as_bytes()), None);
    let cwd = cwd::open(request.cwd.as_deref(), facts)?;
    sizes::check_words(&words)?;
    let found = Found { words: &words, word, shorts, program, cwd };
    judge_found(found, request, facts, trace)
}

/// A command whose program is opened, with the rules that speak of it.
pub(super) struct Found<'w, 'p> {
    pub words: &'w [OsString],
    pub word: Word<'w>,
    pub shorts: Vec<Short<'p>>,
    pub program: Program,
    pub cwd: cwd::Opened,
}

/// The arguments, the environment, the working directory, and what decides together.
pub(super) fn judge_found(
    found: Found<'_, '_>,
    request: Request,
    facts: &Facts,
    trace: &mut Vec<Step>,
) -> Judged<Grant> {
    let Found { words, word, shorts, program, cwd } = found;
    let args: Vec<&[u8]> = words[1..].iter().map(|w| w.as_bytes()).collect();
    let paths = Paths::Disk(&cwd.path);
    let agent = request.asker.agent.as_deref();
    let asked = Command { word, args: &args, agent, program: Some(&program), paths };
    let (verdict, deciding, matches) = judge_arguments(&shorts, &asked, trace)?;
    let program = pinned(program, &matches, verdict)?;
    let first_line = script::first_line(&program, deciding)?;
    let host = settle::profile(&matches) == Profile::Host;
    let home = if host { facts.home.as_path() } else { Path::new(PRIVATE_TMP) };
    let built = environment::build(&matches, &request.env, facts, home, Path::new(PRIVATE_TMP))?;
    sizes::check_all(words, &built.variables)?;
    note(trace, "environment", "built", names(&built), None);
    cwd::permit(&cwd, &matches, facts)?;
    note(trace, "cwd", "allowed", repr(cwd.path.as_os_str().as_bytes()), None);
    let limits = settle::limits(&matches, request.timeout);
    let wanted = settle::wanted(&matches, built.path.clone())?;
    note(trace, "limits", wanted.profile.as_str(), settle::shown(&limits), None);
    // What a tool gives its program, its own template says.
    let free = host && shorts.iter().all(|short| short.tool.is_none());
    let mut warnings = warnings(&built, &matches, free, word, &program);
    warnings.extend(script::warning(&first_line, &program, &wanted));
    Ok(Grant {
        verdict,
        rule: RuleRef::of(deciding),
        ids: ids(&matches),
        reason: reason(deciding, verdict),
        asks: asks(&matches),
        asked_by: Vec::new(),
        tool: None,
        envp: strings(&built)?,
        warnings,
        argv: words.iter().map(|w| c_string(w.as_bytes())).collect::<Judged<_>>()?,
        program: Some(program),
        cwd: cwd.path,
        cwd_fd: cwd.fd,
        stdin: request.stdin,
        limits,
        wanted,
    })
}

/// Every rule that takes part, each once.
pub(super) fn ids(matches: &[Match<'_>]) -> Vec<String> {
    let mut ids: Vec<String> = Vec::with_capacity(matches.len());
    for found in matches {
        if !ids.contains(&found.rule.id) {
            ids.push(found.rule.id.clone());
        }
    }
    ids
}

/// Why a person has to be asked: what each rule that asks says, once.
pub(super) fn asks(matches: &[Match<'_>]) -> Vec<String> {
    let mut asks: Vec<String> = Vec::new();
    for rule in matches.iter().map(|m| m.rule).filter(|rule| rule.decision == Verdict::Ask) {
        let why = reason(rule, Verdict::Ask);
        if !asks.contains(&why) {
            asks.push(why);
        }
    }
    asks
}

/// Without a policy nothing is allowed.
pub(super) fn no_policy<T>() -> Judged<T> {
    Denial::new(Stage::Policy, "no_policy", "there is no policy, so nothing is allowed")
        .hint("name one with --policy")
        .deny()
}

/// What makes a request impossible to judge at all.
pub(super) fn check_request<'w>(policies: &[Policy], words: &'w [OsString]) -> Judged<Word<'w>> {
    if policies.is_empty() {
        return no_policy();
    }
    let Some(first) = words.first().filter(|w| !w.is_empty()) else {
        return Denial::new(Stage::Command, "empty_command", "the command is empty")
            .hint("name a program")
            .invalid();
    };
    for (index, word) in words.iter().enumerate() {
        if let Err(error) = check_nul(&format!("argument {index}"), word.as_bytes()) {
            return Denial::new(Stage::Command, "nul_byte", error.message)
                .hint("leave the NUL byte out; trying again does not help")
                .invalid();
        }
    }
    Ok(Word::of(first))
}

/// Every policy must let the arguments pass; the strictest verdict and all rules of each policy's own deciding
/// strength remain.
fn judge_arguments<'p>(
    shorts: &[Short<'p>],
    asked: &Command<'_>,
    trace: &mut Vec<Step>,
) -> Judged<(Verdict, &'p Rule, Vec<Match<'p>>)> {
    let mut strictest: Option<(Verdict, &Rule)> = None;
    let mut matches = Vec::new();
    for short in shorts {
        let (verdict, rules) = arguments::judge(short, asked).or_else(Denial::deny)?;
        let tool = short.tool.filter(|tool| !rules.iter().any(|rule| std::ptr::eq(*rule, *tool)));
        for rule in rules.into_iter().chain(tool) {
            note(trace, "arguments", rule.decision.as_str(), short.said(rule), Some(rule));
            matches.push(Match { policy: short.policy, rule });
            if strictest.is_none_or(|(so_far, _)| verdict > so_far) {
                strictest = Some((verdict, rule));
            }
        }
    }
    match strictest {
        Some((verdict, rule)) => Ok((verdict, rule, matches)),
        None => {
            Denial::new(Stage::Arguments, "arguments_not_allowed", "no rule allows these arguments").deny()
        }
    }
}

/// Hashes the program where a deciding rule pins it or a person has to approve it, and compares.
fn pinned(mut program: Program, matches: &[Match<'_>], verdict: Verdict) -> Judged<Program> {
    let pins: Vec<(&Rule, &String)> =
        matches.iter().filter_map(|m| Some((m.rule, m.rule.sha256.as_ref()?))).collect();
    if pins.is_empty() && verdict != Verdict::Ask {
        return Ok(program);
    }
    let path = repr(program.path.as_os_str().as_bytes());
    match (program::hash(&program), pins.first()) {
        (Ok(hash), _) => program.sha256 = Some(hash),
        (Err(error), Some((rule, _))) => {
            let message = format!("{path} is pinned by {} and cannot be read: {error}", said_by(rule));
            return mismatch(message, rule);
        }
        (Err(_), None) => {} // executable and not readable: it has no hash that anyone could compare
    }
    for (rule, pin) in pins {
        if program.sha256.as_ref().is_none_or(|hash| !hash.eq_ignore_ascii_case(pin)) {
            let message = format!("{path} does not have the content that is pinned by {}", said_by(rule));
            return mismatch(message, rule);
        }
    }
    Ok(program)
}

fn mismatch<T>(message: String, rule: &Rule) -> Judged<T> {
    Denial::new(Stage::Command, "hash_mismatch", message)
        .hint("the file changed since the rule was written; its owner can check it and renew sha256")
        .by(rule)
        .deny()
}

pub(super) fn reason(rule: &Rule, verdict: Verdict) -> String {
    match (&rule.reason, verdict) {
        (Some(reason), _) => escape_text(reason),
        (None, Verdict::Ask) => format!("rule {} wants a person to approve it", repr(rule.id.as_bytes())),
        (None, _) => format!("rule {} allows it", repr(rule.id.as_bytes())),
    }
}

fn warnings(
    built: &Built,
    matches: &[Match<'_>],
    free: bool,
    word: Word<'_>,
    program: &Program,
) -> Vec<String> {
    let mut warnings = built.warnings.clone();
    let file = program.path.file_name().unwrap_or_default();
    let runs = runs_arguments(word.base().as_bytes()) || runs_arguments(file.as_bytes());
    if let Some(found) = matches.iter().find(|m| free && runs && !m.rule.args.closes()) {
        warnings.push(format!(
            "{} runs what its arguments say, rule {} does not limit them, and under the profile host nothing \
             else holds it",
            shown(word),
            repr(found.rule.id.as_bytes())
        ));
    }
    warnings
}

fn strings(built: &Built) -> Judged<Vec<CString>> {
    let entry = |(name, value): &(Vec<u8>, Vec<u8>)| c_string(&[name, &b"="[..], value].concat());
    built.variables.iter().map(entry).collect()
}

fn c_string(bytes: &[u8]) -> Judged<CString> {
    CString::new(bytes).or_else(|_| {
        let message = "a word or variable holds a NUL byte, which no program can be given";
        Denial::new(Stage::Arguments, "nul_byte", message).hint("leave the NUL byte out").invalid()
    })
}

fn names(built: &Built) -> String {
    let names: Vec<String> =
        built.variables.iter().map(|(name, _)| escape_text(&String::from_utf8_lossy(name))).collect();
    names.join(" ")
}

pub(super) fn note(
    trace: &mut Vec<Step>,
    stage: &'static str,
    outcome: &str,
    detail: String,
    rule: Option<&Rule>,
) {
    trace.push(Step { stage, outcome: outcome.to_string(), detail, rule: rule.map(RuleRef::of) });
}

pub(super) fn note_rules(trace: &mut Vec<Step>, shorts: &[Short<'_>]) {
    for short in shorts {
        for rule in &short.rules {
            note(trace, "command", "named", short.said(rule), Some(rule));
        }
    }
}

pub(super) fn last_step(decision: &Decision) -> Step {
    let (outcome, detail, rule) = match decision {
        Decision::Allow(g) => ("allow", g.reason.clone(), Some(g.rule.clone())),
        Decision::Ask(g) => ("ask", g.reason.clone(), Some(g.rule.clone())),
        Decision::Deny(d) => ("deny", d.message.clone(), d.rule.clone()),
        Decision::NotFound(d) => ("not found", d.message.clone(), d.rule.clone()),
        Decision::NotExecutable(d) => ("not executable", d.message.clone(), d.rule.clone()),
        Decision::Invalid(d) => ("error", d.message.clone(), d.rule.clone()),
    };
    Step { stage: "decision", outcome: outcome.to_string(), detail, rule }
}
