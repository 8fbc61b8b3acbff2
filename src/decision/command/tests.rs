//! Tests of the first word: names, paths, links, and what is asked before the disk.

use std::fs;
use std::os::unix::fs::symlink;

use crate::decision::Decision;
use crate::decision::tests::made::*;
use crate::policy::model::{ArgRules, Rule, Verdict};

fn deny(programs: &str) -> Rule {
    rule(Verdict::Deny, programs, ArgRules::default())
}

#[test]
fn the_denial_names_the_sorted_allowlist() {
    let policy = [policy(vec![allow("uname date"), deny("rm"), allow("echo date")])];
    let denial = refused(judged(&policy, "rm -rf /"));
    assert_eq!(denial.message, "command 'rm' is not in the allowlist ['date', 'echo', 'uname']");
    assert_eq!(
        (denial.code, denial.rule.expect("the deny rule").id.as_str()),
        ("not_allowlisted", "deny:rm")
    );
    let denial = refused(judged(&policy, "whoami"));
    assert_eq!(denial.message, "command 'whoami' is not in the allowlist ['date', 'echo', 'uname']");
    assert!(denial.rule.is_none() && denial.hint.is_none(), "the list itself says what to do instead");
}

#[test]
fn t1_22_a_path_that_ends_in_an_allowed_name_is_not_it() {
    let dir = Dir::new("t1-22");
    dir.program("bin/cat", "real");
    dir.program("evil/cat", "evil");
    let policy = [dir.policy(vec![allow("cat")])];
    let at = |tail: &str| outcome(&judged(&policy, &format!("{}/{tail}", dir.0.display())));
    assert_eq!(outcome(&judged(&policy, "cat x")), "allow");
    assert_eq!(at("bin/cat x"), "allow");
    for (word, code) in [
        ("evil/cat x", "deny:path_mismatch"),
        ("none/cat", "deny:path_mismatch"),
        ("bin/cat/", "deny:path_mismatch"),
    ] {
        assert_eq!(at(word), code, "{word}");
    }
    for word in ["./cat x", "a/../cat x", "../bin/cat", "cat/"] {
        assert_eq!(outcome(&judged(&policy, word)), "deny:path_mismatch", "{word}");
    }
    assert_eq!(outcome(&judged(&policy, "./dog")), "deny:not_allowlisted");
}

#[test]
fn the_allowlist_is_asked_before_the_disk() {
    let dir = Dir::new("before");
    let plain = dir.0.join("bin/plain");
    dir.program("bin/there", "x");
    fs::write(&plain, "not executable").expect("write");
    let policy = [dir.policy(vec![allow("gone plain"), allow("denied"), deny("denied")])];
    assert!(matches!(judged(&policy, "gone"), Decision::NotFound(_)));
    assert!(matches!(judged(&policy, "plain"), Decision::NotExecutable(_)));
    assert_eq!(outcome(&judged(&policy, "there")), "deny:not_allowlisted");
    assert_eq!(outcome(&judged(&policy, "denied")), "deny:denied_by_rule");
    assert_eq!(outcome(&judged(&policy, &format!("{}/bin/gone", dir.0.display()))), "deny:path_mismatch");
    let path = dir.0.join("bin/gone").display().to_string();
    assert!(matches!(judged(&[dir.policy(vec![allow(&path)])], &path), Decision::NotFound(_)));
}

#[test]
fn what_its_arguments_are_refused_is_refused_whether_it_is_there_or_not() {
    let dir = Dir::new("refused-anyway");
    dir.program("bin/there", "x");
    let only_build = || ArgRules { max_args: Some(1), ..ArgRules::default() };
    let policy = [dir.policy(vec![rule(Verdict::Allow, "gone there", only_build())])];
    for program in ["gone", "there"] {
        assert_eq!(
            outcome(&judged(&policy, &format!("{program} a b"))),
            "deny:too_many_arguments",
            "{program}"
        );
    }
    assert!(matches!(judged(&policy, "gone a"), Decision::NotFound(_)));
    // Another path than the one that is allowed by its letters says nothing of what lies there.
    assert_eq!(outcome(&judged(&policy, &format!("{}/bin/gone a b", dir.0.display()))), "deny:path_mismatch");
}

#[test]
fn rules_for_absolute_paths() {
    let dir = Dir::new("absolute");
    let tool = dir.program("bin/tool", "x").display().to_string();
    dir.program("other/tool", "y");
    symlink("tool", dir.0.join("bin/link")).expect("link");
    let policy = [dir.policy(vec![allow(&tool)])];
    assert_eq!(outcome(&judged(&policy, &tool)), "allow");
    assert_eq!(outcome(&judged(&policy, "tool")), "allow");
    assert_eq!(outcome(&judged(&policy, "link")), "deny:not_allowlisted");
    let elsewhere = [dir.policy_in("other", vec![allow(&tool)])];
    assert_eq!(outcome(&judged(&elsewhere, "tool")), "deny:path_mismatch");
    let grant = granted(judged(&policy, "tool"));
    assert_eq!(
        (grant.program.expect("opened").path.display().to_string(), grant.argv[0].to_str()),
        (tool, Ok("tool"))
    );
}

#[test]
fn deny_sees_names_basenames_and_the_file_opened() {
    let dir = Dir::new("deny");
    let rm = dir.program("bin/rm", "rm");
    fs::hard_link(&rm, dir.0.join("bin/cleanup")).expect("link");
    symlink("rm", dir.0.join("bin/tidy")).expect("link");
    dir.program("bin/other", "other");
    let names = "rm cleanup tidy other";
    let denied = |word: &str| outcome(&judged(&[dir.policy(vec![allow(names), deny("rm")])], word));
    for word in ["rm", "cleanup", "tidy"] {
        assert_eq!(denied(word), "deny:denied_by_rule", "{word}");
        let path = dir.0.join("bin").join(word).display().to_string();
        assert_eq!(denied(&path), "deny:denied_by_rule", "{path}");
    }
    assert_eq!(denied("other"), "allow");
    let by_path = deny(&rm.display().to_string());
    assert_eq!(
        outcome(&judged(&[dir.policy(vec![allow(names), by_path])], "cleanup")),
        "deny:denied_by_rule"
    );
}

#[test]
fn a_multi_call_program_is_judged_by_the_name_asked_for() {
    let dir = Dir::new("multi");
    let busybox = dir.program("bin/busybox", "x");
    for name in ["cat", "rm"] {
        symlink("busybox", dir.0.join("bin").join(name)).expect("link");
    }
    let policy = [dir.policy(vec![allow("cat rm busybox"), deny("rm")])];
    let grant = granted(judged(&policy, "cat"));
    assert_eq!((grant.program.expect("opened").path, grant.argv[0].to_str()), (busybox, Ok("cat")));
    assert_eq!(outcome(&judged(&policy, "rm")), "deny:denied_by_rule");
    assert_eq!(outcome(&judged(&policy, "busybox rm")), "deny:denied_by_rule");
}

#[test]
fn a_name_that_opens_different_files_in_two_policies_is_denied() {
    let dir = Dir::new("two");
    dir.program("a/tool", "a");
    dir.program("b/tool", "b");
    let both = [dir.policy_in("a", vec![allow("tool")]), dir.policy_in("b", vec![allow("tool")])];
    assert_eq!(outcome(&judged(&both, "tool")), "deny:ambiguous_program");
    let path = dir.0.join("a/tool").display().to_string();
    assert_eq!(outcome(&judged(&both, &path)), "deny:path_mismatch");
    let same = [dir.policy_in("a", vec![allow("tool")]), dir.policy_in("a", vec![allow("tool")])];
    assert_eq!(outcome(&judged(&same, "tool")), "allow");
}

#[test]
fn t1_39_names_are_bytes_and_shown_escaped() {
    let policy = [policy(vec![allow("git rm")])];
    for name in ["rm\u{200b}", "\u{ff47}it", "g\u{456}t", "GIT", "git\n"] {
        let denial = refused(crate::decision::decide(
            &policy,
            vec![name.into(), "status".into()],
            Default::default(),
            &facts(),
        ));
        assert_eq!(denial.code, "not_allowlisted", "{name:?}");
        assert!(!denial.message.contains(['\u{200b}', '\n']), "{}", denial.message);
    }
}

#[test]
fn agents_see_their_own_rules() {
    let mut for_builder = allow("true");
    for_builder.agents = Some(vec!["builder".into()]);
    let mut child_only = allow("false");
    child_only.agents = Some(vec!["builder/x".into()]);
    let mut never = deny("echo");
    never.agents = Some(vec!["builder".into()]);
    let policy = [policy(vec![for_builder, child_only, allow("echo"), never])];
    let ask = |agent: Option<&str>, text: &str| {
        let mut request = crate::request::Request::default();
        request.asker.agent = agent.map(String::from);
        outcome(&crate::decision::decide(&policy, words(text), request, &facts()))
    };
    assert_eq!(ask(Some("builder"), "true"), "allow");
    assert_eq!(ask(Some("builder/x"), "true"), "allow");
    assert_eq!(ask(Some("builder/x"), "false"), "deny:not_allowlisted");
    assert_eq!(ask(None, "true"), "deny:not_allowlisted");
    assert_eq!(ask(Some("other"), "true"), "deny:not_allowlisted");
    assert_eq!(ask(Some("builder/x"), "echo"), "deny:denied_by_rule");
    assert_eq!(ask(None, "echo"), "allow");
}

#[test]
fn a_pin_binds_the_content() {
    let dir = Dir::new("pin");
    dir.program("bin/tool", "abc");
    let pinned = |hash: &str| {
        let pin = Rule { sha256: Some(hash.into()), ..allow("tool") };
        judged(&[dir.policy(vec![pin])], "tool")
    };
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(granted(pinned(hash)).program.expect("opened").sha256.as_deref(), Some(hash));
    assert_eq!(outcome(&pinned(&hash.replace('b', "c"))), "deny:hash_mismatch");
    assert_eq!(
        granted(judged(&[dir.policy(vec![allow("tool")])], "tool")).program.expect("opened").sha256,
        None
    );
}
