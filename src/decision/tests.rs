//! Tests of judging as a whole: strictness, stacking, limits of size, and what must hold for any policy.

pub(super) mod made;
mod properties;

use std::ffi::OsString;

use made::*;

use super::*;
use crate::policy::model::ArgRules;
use crate::request::Request;

fn deny(programs: &str, args: ArgRules) -> Rule {
    rule(Verdict::Deny, programs, args)
}

#[test]
fn the_strictest_rule_wins_in_any_order() {
    let rules: [fn() -> Rule; 3] = [
        || allow("echo"),
        || rule(Verdict::Ask, "echo", ArgRules { subcommand: subcommands("push"), ..ArgRules::default() }),
        || deny("echo", ArgRules { flags: flags("--force -f"), ..ArgRules::default() }),
    ];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let policy = [policy(order.map(|i| rules[i]()).into())];
        assert_eq!(outcome(&judged(&policy, "echo status")), "allow");
        assert_eq!(outcome(&judged(&policy, "echo push")), "ask");
        assert_eq!(outcome(&judged(&policy, "echo push --forc")), "deny:denied_by_rule");
    }
}

#[test]
fn an_ask_rule_alone_asks_for_what_it_speaks_of_and_allows_nothing_else() {
    let ask = rule(Verdict::Ask, "echo", ArgRules { subcommand: subcommands("push"), ..ArgRules::default() });
    let policy = [policy(vec![ask])];
    let grant = granted(judged(&policy, "echo push"));
    assert_eq!((grant.verdict, grant.rule.id.as_str()), (Verdict::Ask, "ask:echo"));
    assert!(grant.program.expect("a program").sha256.is_some(), "what a person approves has its hash");
    assert_eq!(outcome(&judged(&policy, "echo status")), "deny:arguments_not_allowed");
}

#[test]
fn all_policies_must_allow_and_the_list_is_of_what_all_allow() {
    let both = [policy(vec![allow("echo date")]), policy(vec![allow("date uname")])];
    assert_eq!(outcome(&judged(&both, "date")), "allow");
    let message = |text: &str| refused(judged(&both, text)).message;
    assert_eq!(message("uname"), "command 'uname' is not in the allowlist ['date']");
    assert_eq!(message("echo"), "command 'echo' is not in the allowlist ['date']");
    let asks = [policy(vec![allow("date")]), policy(vec![rule(Verdict::Ask, "date", ArgRules::default())])];
    assert_eq!(outcome(&judged(&asks, "date")), "ask");
    assert_eq!(outcome(&judged(&[], "date")), "deny:no_policy");
}

#[test]
fn the_rule_that_came_furthest_explains_the_denial() {
    let log = ArgRules { subcommand: subcommands("log"), flags: flags("-p"), ..ArgRules::default() };
    let add = ArgRules { subcommand: subcommands("add"), ..ArgRules::default() };
    let policy = [policy(vec![rule(Verdict::Allow, "git", add), rule(Verdict::Allow, "git", log)])];
    let denial = refused(judged(&policy, "git log -x"));
    assert_eq!((denial.code, denial.stage), ("flag_not_allowed", Stage::Arguments));
    assert_eq!(denial.message, "rule 'allow:git' does not allow '-x' there; it allows ['-p']");
    assert!(denial.hint.expect("hint").contains("1 other rule"));
}

#[test]
fn t2_77_empty_words_and_nul_bytes_are_errors() {
    let policy = [policy(vec![allow("echo")])];
    assert_eq!(outcome(&judged(&policy, "")), "error:empty_command");
    let judge = |words: Vec<OsString>| outcome(&decide(&policy, words, Request::default(), &facts()));
    assert_eq!(judge(vec!["".into()]), "error:empty_command");
    assert_eq!(judge(vec!["echo".into(), "a\0b".into()]), "error:nul_byte");
    assert_eq!(judge(vec!["ec\0ho".into()]), "error:nul_byte");
    assert_eq!(judge(vec!["echo".into(), "".into()]), "allow");
}

#[test]
fn t2_75_too_long_is_said_before_anything_starts() {
    let policy = [policy(vec![allow("echo")])];
    let judge = |n: usize| {
        outcome(&decide(&policy, vec!["echo".into(), "a".repeat(n).into()], Request::default(), &facts()))
    };
    assert_eq!((judge(131_071).as_str(), judge(131_072).as_str()), ("allow", "deny:too_long"));
}

#[test]
fn t2_78_bytes_pass_as_they_are() {
    use std::os::unix::ffi::OsStringExt;
    let policy = [policy(vec![allow("ls")])];
    let bytes = vec![0xff, 0xfe];
    let words = vec!["ls".into(), OsString::from_vec(bytes.clone())];
    let grant = granted(decide(&policy, words, Request::default(), &facts()));
    assert_eq!(grant.argv[1].as_bytes(), bytes);
}

#[test]
fn t1_30_operators_are_plain_words_where_arguments_are_free() {
    let grant = granted(judged(&[policy(vec![allow("echo")])], "echo x > 1"));
    assert_eq!(grant.argv.len(), 4);
}

#[test]
fn an_interpreter_under_host_is_warned_of() {
    let warned = |profile, args| {
        let mut policy = policy(vec![rule(Verdict::Allow, "env", args)]);
        policy.sandbox.profile = Some(profile);
        granted(judged(&[policy], "env")).warnings
    };
    assert!(warned(Profile::Host, ArgRules::default())[0].contains("'env' runs what its arguments say"));
    assert!(warned(Profile::Strict, ArgRules::default()).is_empty());
    assert!(warned(Profile::Host, ArgRules { flags: flags("-0"), ..ArgRules::default() }).is_empty());
}

#[test]
fn each_stage_leaves_a_trace() {
    let stages = |text: &str| {
        let mut trace = Vec::new();
        let _ = decide_with(
            &[policy(vec![allow("echo")])],
            words(text),
            Request::default(),
            &facts(),
            &mut trace,
        );
        trace.iter().map(|s| s.stage).collect::<Vec<_>>()
    };
    let all = ["request", "command", "program", "arguments", "environment", "cwd", "limits", "decision"];
    assert_eq!(stages("echo x"), all);
    assert_eq!(stages("rm x"), ["request", "decision"]);
}

#[test]
fn a_timeout_and_standard_input_reach_the_grant() {
    let request = Request {
        timeout: Some(std::time::Duration::from_secs(1)),
        stdin: Stdin::Bytes(b"x".to_vec()),
        ..Request::default()
    };
    let grant = granted(decide(&[policy(vec![allow("cat")])], words("cat"), request, &facts()));
    assert_eq!(grant.limits.wall_time.get(), Some(std::time::Duration::from_secs(1)));
    assert!(matches!(grant.stdin, Stdin::Bytes(_)));
}
