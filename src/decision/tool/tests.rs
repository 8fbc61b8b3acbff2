//! Calls: who is offered what, what arguments are, what they become, and what stacked policies make of them.

mod actions;
mod arguments;

use std::ffi::OsString;

use serde_json::{Value, json};

use super::*;
use crate::decision::tests::made::*;
use crate::decision::{Decision, Grant};
use crate::policy::model::{Action, ActionKind, ArgRules, Bound, Limits, Param, ParamType, Profile};
use crate::policy::value::ValueLimits;

pub(super) fn param(name: &str, kind: ParamType) -> Param {
    Param {
        name: name.into(),
        kind,
        required: true,
        default: None,
        value: any(),
        ask_above: None,
        description: None,
    }
}

pub(super) fn optional(name: &str, kind: ParamType) -> Param {
    Param { required: false, ..param(name, kind) }
}

pub(super) fn limited(name: &str, kind: ParamType, value: ValueLimits) -> Param {
    Param { value, ..param(name, kind) }
}

/// A tool whose words are separated by blanks.
pub(super) fn tool(name: &str, argv: &str, params: Vec<Param>) -> Tool {
    Tool {
        name: name.into(),
        at: place(7),
        description: "A tool.".into(),
        argv: argv.split(' ').filter(|w| !w.is_empty()).map(String::from).collect(),
        action: None,
        stdin: None,
        check_exit: false,
        output: ToolOutput::Both,
        params,
        decision: Verdict::Allow,
        reason: None,
        agents: None,
        own: Default::default(),
    }
}

pub(super) fn offering(tools: Vec<Tool>) -> Policy {
    let mut made = policy(Vec::new());
    made.tools = tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect();
    made
}

pub(super) fn typed(value: Value) -> Arguments {
    match value {
        Value::Object(map) => Arguments::Typed(map),
        other => panic!("{other} is no object"),
    }
}

pub(super) fn texts(pairs: &[(&str, &str)]) -> Arguments {
    Arguments::Texts(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
}

pub(super) fn decided(policies: &[Policy], name: &str, given: &Arguments, mut request: Request) -> Decision {
    match called(policies, name, given, &mut request, &facts(), &mut Vec::new()) {
        Ok(call) => decide_called(policies, call, request, &facts(), &mut Vec::new()),
        Err(ended) => *ended,
    }
}

pub(super) fn call(policies: &[Policy], name: &str, given: &Arguments) -> Decision {
    decided(policies, name, given, Request::default())
}

fn by(agent: &str) -> Request {
    let asker = crate::request::Asker { agent: Some(agent.into()), ..Default::default() };
    Request { asker, ..Request::default() }
}

pub(super) fn words_of(grant: &Grant) -> Vec<String> {
    grant.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

#[test]
fn an_unknown_tool_is_told_what_this_asker_has_and_nothing_else() {
    let for_agents = |name: &str, agents: &[&str]| Tool {
        agents: Some(agents.iter().map(|a| (*a).to_owned()).collect()),
        ..tool(name, "echo", Vec::new())
    };
    let denied = Tool { decision: Verdict::Deny, ..tool("denied", "echo", Vec::new()) };
    let tools = || {
        vec![
            tool("shell", "echo", Vec::new()),
            tool("delete_project", "echo", Vec::new()),
            for_agents("deploy", &["ops"]),
            for_agents("child", &["ops/child"]),
        ]
    };
    let policies = [offering(tools().into_iter().chain([denied]).collect())];
    let message = |request, name| {
        let denial = refused(decided(&policies, name, &typed(json!({})), request));
        assert_eq!((denial.code, denial.stage, denial.hint), ("not_allowlisted", Stage::Command, None));
        denial.message
    };
    let sentence = "tool 'write_file' is not in the allowlist ['delete_project', 'shell']";
    assert_eq!(message(Request::default(), "write_file"), sentence);
    assert_eq!(message(by("builder"), "write_file"), sentence);
    // What another asker has does not exist for this one; a child has at most what its parent has.
    assert_eq!(
        message(by("dev"), "deploy"),
        "tool 'deploy' is not in the allowlist ['delete_project', 'shell']"
    );
    let listed = "is not in the allowlist ['delete_project', 'deploy', 'shell']";
    assert_eq!(message(by("ops/child"), "child"), format!("tool 'child' {listed}"));
    assert_eq!(message(by("ops"), "x\n\u{202e}"), format!("tool 'x\\n\\u{{202e}}' {listed}"));
    assert_eq!(outcome(&decided(&policies, "deploy", &typed(json!({})), by("ops/x"))), "allow");
    let denial = refused(decided(&policies, "denied", &typed(json!({})), Request::default()));
    assert_eq!(denial.message, "tool 'denied' (/etc/guardexec/policy.toml:7) is denied");
    assert_eq!(denial.rule.map(|rule| rule.id).as_deref(), Some("denied"));
    assert_eq!(outcome(&decided(&[], "x", &typed(json!({})), Request::default())), "deny:no_policy");
}

#[test]
fn a_tool_must_be_in_all_policies_and_come_to_the_same() {
    let ls = |argv: &str| tool("ls", argv, vec![param("dir", ParamType::String)]);
    let both =
        [offering(vec![ls("ls -- {dir}"), tool("a", "ls", vec![])]), offering(vec![ls("ls -- {dir}")])];
    let given = typed(json!({"dir": "x"}));
    let grant = granted(call(&both, "ls", &given));
    assert_eq!(words_of(&grant), ["ls", "--", "x"]);
    assert_eq!(grant.ids, ["ls"]);
    let message = refused(call(&both, "a", &typed(json!({})))).message;
    assert_eq!(message, "tool 'a' is not in the allowlist ['ls']");
    for (other, code) in [("ls -a -- {dir}", "tool_conflict"), ("ls -- {dir} {dir}", "tool_conflict")] {
        let policies = [offering(vec![ls("ls -- {dir}")]), offering(vec![ls(other)])];
        assert_eq!(outcome(&call(&policies, "ls", &given)), format!("deny:{code}"), "{other}");
    }
    let with_input = |text: &str| Tool { stdin: Some(text.into()), ..ls("ls -- {dir}") };
    let policies = [offering(vec![with_input("{dir}")]), offering(vec![with_input("{dir}\n")])];
    assert_eq!(outcome(&call(&policies, "ls", &given)), "deny:tool_conflict");
    // A default that only one of them has makes another command.
    let with = |default| Tool {
        params: vec![Param { default: Some(json!(default)), ..optional("dir", ParamType::String) }],
        ..ls("ls -- {dir}")
    };
    let policies = [offering(vec![with("a")]), offering(vec![with("b")])];
    assert_eq!(outcome(&call(&policies, "ls", &typed(json!({})))), "deny:tool_conflict");
    assert_eq!(outcome(&call(&policies, "ls", &given)), "allow");
}

#[test]
fn each_policy_judges_and_all_that_fails_is_told_together_and_once() {
    let with = |value| offering(vec![tool("t", "echo {v}", vec![limited("v", ParamType::String, value)])]);
    let policies = [with(pattern("[a-z]+")), with(choices(&["a", "b"]))];
    assert_eq!(outcome(&call(&policies, "t", &typed(json!({"v": "a"})))), "allow");
    let denial = refused(call(&policies, "t", &typed(json!({"v": "A", "w": 1}))));
    assert_eq!((denial.code, denial.stage), (INVALID_ARGUMENTS, Stage::Arguments));
    assert_eq!(
        denial.message,
        "argument 'v' 'A' does not match the pattern '[a-z]+' as a whole; argument 'w' is unknown; the tool takes \
         ['v']; argument 'v' 'A' is not one of ['a', 'b']"
    );
}

#[test]
fn rules_still_speak_of_the_program_that_a_tool_starts() {
    let with = |rules: Vec<Rule>| {
        let mut made = policy(rules);
        made.tools = offering(vec![tool("t", "/bin/echo {v}", vec![param("v", ParamType::String)])]).tools;
        made
    };
    let given = typed(json!({"v": "push"}));
    let push = || ArgRules { subcommand: subcommands("push"), ..ArgRules::default() };
    let decide = |policies: &[Policy]| call(policies, "t", &given);
    assert_eq!(outcome(&decide(&[with(vec![])])), "allow", "no allow rule is needed");
    // In any of the stacked policies, by name or by the file opened, with or without conditions.
    for rule in [
        rule(Verdict::Deny, "echo", ArgRules::default()),
        rule(Verdict::Deny, "/usr/bin/echo", ArgRules::default()),
        rule(Verdict::Deny, "echo", push()),
    ] {
        let denial = refused(decide(&[with(vec![]), with(vec![rule])]));
        assert_eq!(denial.code, "denied_by_rule", "{}", denial.message);
    }
    // What is denied is never said to be missing.
    let mut gone = policy(vec![rule(Verdict::Deny, "no-such-program", ArgRules::default())]);
    gone.tools = offering(vec![tool("t", "no-such-program", vec![])]).tools;
    assert_eq!(outcome(&call(&[gone], "t", &typed(json!({})))), "deny:denied_by_rule");
    let other = ArgRules { subcommand: subcommands("pull"), ..ArgRules::default() };
    assert_eq!(outcome(&decide(&[with(vec![rule(Verdict::Deny, "echo", other)])])), "allow");
    let asking = Rule { reason: Some("pushing publishes".into()), ..rule(Verdict::Ask, "echo", push()) };
    let grant = granted(decide(&[with(vec![]), with(vec![asking])]));
    assert_eq!((grant.verdict, grant.rule.id.as_str()), (Verdict::Ask, "ask:echo"));
    assert_eq!(grant.ids, ["t", "ask:echo"]);
    assert_eq!(grant.asks, ["pushing publishes"]);
    assert!(grant.program.expect("opened").sha256.is_some(), "what a person approves has its hash");
}

#[test]
fn a_tools_own_limits_hold_beside_an_ask_rule_and_a_floor() {
    let limits = |pids| Limits { pids: Some(Bound::At(pids)), ..Limits::default() };
    let own = Tool {
        own: crate::policy::model::Own { limits: limits(9), ..Default::default() }.into(),
        ..tool("t", "echo", vec![])
    };
    let mut asking = rule(Verdict::Ask, "echo", ArgRules::default());
    asking.own.limits = limits(50);
    let mut first = policy(vec![asking]);
    first.tools = offering(vec![own]).tools;
    first.limits = limits(20);
    let mut floor = offering(vec![tool("t", "echo", vec![])]);
    let pids = |policies: &[Policy]| granted(call(policies, "t", &typed(json!({})))).limits.pids.get();
    assert_eq!(pids(std::slice::from_ref(&first)), Some(9));
    floor.limits = limits(5);
    assert_eq!(pids(&[first, floor]), Some(5));
}

#[test]
fn a_tool_can_ask_by_itself_and_above_a_figure() {
    let pay = |decision, bound: &str| Tool {
        decision,
        params: vec![
            Param { ask_above: Some(bound.into()), ..param("amount", ParamType::Number) },
            Param {
                ask_above: Some("0".into()),
                default: Some(json!(0)),
                ..optional("fee", ParamType::Integer)
            },
        ],
        ..tool("pay", "echo {amount}", vec![])
    };
    let decide = |tool: Tool, given: Value| call(&[offering(vec![tool])], "pay", &typed(given));
    let allowed = |given| outcome(&decide(pay(Verdict::Allow, "100"), given));
    assert_eq!(allowed(json!({"amount": 100})), "allow");
    assert_eq!(allowed(json!({"amount": 100.0})), "allow");
    assert_eq!(allowed(json!({"amount": 100.01})), "ask");
    let grant = granted(decide(pay(Verdict::Allow, "100"), json!({"amount": 250.5, "fee": 3})));
    let both =
        ["argument 'amount' is 250.5, more than ask_above 100", "argument 'fee' is 3, more than ask_above 0"];
    assert_eq!((grant.asks, grant.rule.id.as_str()), (vec![both.join("; ")], "pay"));
    let asked = Tool { reason: Some("money".into()), ..pay(Verdict::Ask, "100") };
    assert_eq!(granted(decide(asked, json!({"amount": 1}))).asks, ["money"]);
    let grant = granted(decide(pay(Verdict::Ask, "0"), json!({"amount": 1})));
    assert_eq!(
        grant.asks,
        ["tool 'pay' wants a person to approve it; argument 'amount' is 1, more than ask_above 0"]
    );
    // One policy alone is enough to ask.
    let policies = [offering(vec![pay(Verdict::Allow, "100")]), offering(vec![pay(Verdict::Allow, "10")])];
    let grant = granted(call(&policies, "pay", &typed(json!({"amount": 50}))));
    assert_eq!(grant.asks, ["argument 'amount' is 50, more than ask_above 10"]);
}

#[test]
fn a_template_makes_the_standard_input_and_then_nobody_else_does() {
    let note = Tool {
        stdin: Some("# {title}\n{body}".into()),
        params: vec![param("title", ParamType::String), optional("body", ParamType::String)],
        ..tool("note", "cat", vec![])
    };
    let policies = [offering(vec![note])];
    let input = |given| granted(call(&policies, "note", &typed(given))).stdin;
    assert!(
        matches!(input(json!({"title": "a\n$(b)", "body": "c"})), Stdin::Bytes(b) if b == b"# a\n$(b)\nc")
    );
    assert!(matches!(input(json!({"title": "-"})), Stdin::Bytes(b) if b == b"# -\n"));
    let grant = granted(call(&policies, "note", &typed(json!({"title": "t"}))));
    assert_eq!(grant.tool.expect("a call").content, ["title", "body"]);
    for stdin in [Stdin::Relay, Stdin::Bytes(b"x".to_vec()), Stdin::File("/etc/passwd".into())] {
        let request = Request { stdin, ..Request::default() };
        let denial = refused(decided(&policies, "note", &typed(json!({"title": "t"})), request));
        assert_eq!(
            (denial.code, denial.message.as_str()),
            ("stdin_conflict", "tool 'note' makes its own standard input")
        );
    }
}

#[test]
fn all_else_is_judged_as_for_a_rule() {
    let policies = [offering(vec![
        tool("gone", "no-such-program", vec![]),
        tool("sh", "sh -c true", vec![]),
        tool("echo", "echo {v}", vec![param("v", ParamType::String)]),
    ])];
    assert_eq!(outcome(&call(&policies, "gone", &typed(json!({})))), "not_found");
    // Its template limits the arguments, so there is nothing to warn of under `host`.
    let grant = granted(call(&policies, "sh", &typed(json!({}))));
    assert_eq!((grant.wanted.profile, grant.warnings), (Profile::Host, vec![]));
    assert_eq!(outcome(&call(&policies, "echo", &texts(&[("v", &"a".repeat(131_072))]))), "deny:too_long");
    let wish = Request { env: vec![("X".into(), Some("1".into()))], ..Request::default() };
    assert_eq!(outcome(&decided(&policies, "sh", &typed(json!({})), wish)), "deny:env_denied");
    let elsewhere = Request { cwd: Some("/etc".into()), ..Request::default() };
    let decision = decided(&policies, "sh", &typed(json!({})), elsewhere);
    assert_eq!(refused(decision).stage, Stage::Arguments);
    let hurry = Request { timeout: Some(std::time::Duration::from_secs(1)), ..Request::default() };
    let grant = granted(decided(&policies, "sh", &typed(json!({})), hurry));
    assert_eq!(grant.limits.wall_time.get(), Some(std::time::Duration::from_secs(1)));
}

#[test]
fn what_is_offered_is_in_every_policy_for_this_asker_and_denied_in_none() {
    let of = |name: &str, decision, agents: Option<&[&str]>| Tool {
        decision,
        agents: agents.map(|a| a.iter().map(|a| (*a).to_owned()).collect()),
        ..tool(name, "echo", vec![])
    };
    let first = offering(vec![
        of("a", Verdict::Allow, None),
        of("b", Verdict::Allow, None),
        of("c", Verdict::Allow, None),
        of("d", Verdict::Allow, Some(&["x"])),
    ]);
    let second = offering(vec![
        of("a", Verdict::Ask, None),
        of("b", Verdict::Deny, None),
        of("d", Verdict::Allow, None),
        of("e", Verdict::Allow, None),
    ]);
    let policies = [first, second];
    let names = |agent| offered(&policies, agent).iter().map(|o| o.name().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(None), ["a"]);
    assert_eq!(names(Some("x/y")), ["a", "d"]);
    let offers = offered(&policies, None);
    assert_eq!((offers[0].decision(), offers[0].definitions.len()), (Verdict::Ask, 2));
    assert!(offered(&[], None).is_empty());
}

proptest::proptest! {
    #[test]
    fn a_value_is_one_word_whatever_it_holds(value in "[^\0]*", more in proptest::collection::vec("[^\0]*", 0..4)) {
        let echo = tool(
            "t",
            "echo -- {v} x={v} {more}",
            vec![param("v", ParamType::String), param("more", ParamType::Array)],
        );
        let grant = granted(call(&[offering(vec![echo])], "t", &typed(json!({"v": value, "more": more}))));
        let words: Vec<OsString> =
            ["echo".into(), "--".into(), value.clone().into(), format!("x={value}").into()].into();
        let words: Vec<OsString> = words.into_iter().chain(more.iter().map(OsString::from)).collect();
        let came: Vec<OsString> = grant
            .argv
            .iter()
            .map(|w| std::os::unix::ffi::OsStringExt::from_vec(w.as_bytes().to_vec()))
            .collect();
        proptest::prop_assert_eq!(came, words);
    }
}
