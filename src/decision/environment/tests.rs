//! Tests of the environment: default-deny, wishes, hooks, and what stacked policies agree on.

use super::*;
use crate::decision::tests::made::*;
use crate::decision::{Decision, decide};
use crate::policy::model::{Policy, Rule};
use crate::request::Request;

fn caller(env: &[(&str, &str)]) -> Facts {
    let env = env.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec())).collect();
    Facts { env, ..facts() }
}

fn list(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|n| (*n).to_string()).collect())
}

fn env(pass: &[&str], request: &[&str], set: &[(&str, &str)]) -> EnvPolicy {
    let set = set.iter().map(|(n, v)| ((*n).to_string(), (*v).to_string())).collect();
    EnvPolicy { pass: list(pass), request: list(request), set }
}

fn with(env: EnvPolicy) -> Policy {
    Policy { env, ..policy(vec![allow("true")]) }
}

fn asking(wishes: &[(&str, Option<&str>)]) -> Request {
    let env = wishes.iter().map(|(n, v)| (OsString::from(n), v.map(OsString::from))).collect();
    Request { env, ..Request::default() }
}

fn run(policies: &[Policy], request: Request, facts: &Facts) -> Decision {
    decide(policies, words("true"), request, facts)
}

/// The child's value of a variable.
fn value(policies: &[Policy], request: Request, facts: &Facts, name: &str) -> Option<String> {
    let grant = granted(run(policies, request, facts));
    let of = |e: &std::ffi::CString| e.to_str().ok()?.strip_prefix(name)?.strip_prefix('=').map(String::from);
    grant.envp.iter().find_map(of)
}

#[test]
fn without_a_list_there_are_only_the_built_in_variables() {
    let facts =
        caller(&[("SECRET", "s"), ("LANG", "de_DE"), ("PATH", "/evil"), ("HOME", "/evil"), ("USER", "root")]);
    let grant = granted(run(&[policy(vec![allow("true")])], Request::default(), &facts));
    let envp: Vec<&str> = grant.envp.iter().filter_map(|e| e.to_str().ok()).collect();
    assert_eq!(
        envp,
        [
            "DEBIAN_FRONTEND=noninteractive",
            "GIT_PAGER=cat",
            "GIT_TERMINAL_PROMPT=0",
            "HOME=/usr/share",
            "LANG=C.UTF-8",
            "LOGNAME=someone",
            "PAGER=cat",
            "PATH=/usr/local/bin:/usr/bin:/bin",
            "TERM=dumb",
            "TMPDIR=/tmp",
            "USER=someone",
        ]
    );
}

#[test]
fn t1_13_and_26_nothing_that_loads_code_passes_by_a_glob() {
    let facts = caller(&[
        ("GIT_CONFIG_COUNT", "1"),
        ("NODE_OPTIONS", "x"),
        ("LD_PRELOAD", "x"),
        ("FINE", "yes"),
        ("PATH", "/evil"),
    ]);
    let policy = || [with(env(&["*"], &[], &[]))];
    for name in ["GIT_CONFIG_COUNT", "NODE_OPTIONS", "LD_PRELOAD"] {
        assert_eq!(value(&policy(), Request::default(), &facts, name), None, "{name}");
    }
    assert_eq!(value(&policy(), Request::default(), &facts, "FINE").as_deref(), Some("yes"));
    assert_eq!(
        value(&policy(), Request::default(), &facts, "PATH").as_deref(),
        Some("/usr/local/bin:/usr/bin:/bin")
    );
    let named = [with(env(&["NODE_OPTIONS"], &[], &[]))];
    assert_eq!(value(&named, Request::default(), &facts, "NODE_OPTIONS").as_deref(), Some("x"));
}

#[test]
fn t1_25_wishes_are_denied_by_name_and_never_show_a_value() {
    for (name, secret) in
        [("LD_PRELOAD", "/tmp/x.so"), ("BASH_ENV", "/tmp/p"), ("BASH_FUNC_x%%", "() {"), ("PATH", "/tmp/q")]
    {
        let policy = [with(env(&["*"], &["*"], &[]))];
        let denial = refused(run(&policy, asking(&[(name, Some(secret))]), &facts()));
        assert_eq!(denial.code, "env_denied", "{name}");
        assert!(denial.message.contains(name) && !format!("{denial:?}").contains(secret), "{denial:?}");
    }
    let policy = [with(env(&[], &["PATH", "MODE"], &[]))];
    assert_eq!(outcome(&run(&policy, asking(&[("PATH", Some("/x"))]), &facts())), "deny:env_denied");
    assert_eq!(outcome(&run(&policy, asking(&[("OTHER", Some("x"))]), &facts())), "deny:env_denied");
    for name in ["", "A=B", "A\nB", "A B", "A\0B"] {
        assert_eq!(
            outcome(&run(&policy, asking(&[(name, Some("x"))]), &facts())),
            "deny:env_name_invalid",
            "{name:?}"
        );
    }
    assert_eq!(outcome(&run(&policy, asking(&[("MODE", Some("a\0b"))]), &facts())), "error:nul_byte");
}

#[test]
fn wishes_with_and_without_a_value() {
    let policy = || [with(env(&["TZ"], &["MODE"], &[("MODE", "default")]))];
    let facts = caller(&[("TZ", "UTC"), ("MODE", "callers")]);
    assert_eq!(value(&policy(), Request::default(), &facts, "MODE").as_deref(), Some("default"));
    assert_eq!(value(&policy(), asking(&[("MODE", Some("fast"))]), &facts, "MODE").as_deref(), Some("fast"));
    assert_eq!(value(&policy(), asking(&[("MODE", None)]), &facts, "MODE").as_deref(), Some("callers"));
    assert_eq!(value(&policy(), asking(&[("TZ", None)]), &facts, "TZ").as_deref(), Some("UTC"));
    assert_eq!(outcome(&run(&policy(), asking(&[("TZ", Some("x"))]), &facts)), "deny:env_denied");
    let grant = granted(run(&policy(), asking(&[("MODE", None)]), &caller(&[])));
    assert!(grant.warnings.iter().any(|w| w.contains("'MODE'")), "{:?}", grant.warnings);
}

#[test]
fn stacked_policies_pass_and_offer_only_what_all_do() {
    let facts = caller(&[("A", "1"), ("B", "2")]);
    let both = || [with(env(&["A", "B"], &["X", "Y"], &[])), with(env(&["B", "C"], &["Y"], &[]))];
    assert_eq!(value(&both(), Request::default(), &facts, "A"), None);
    assert_eq!(value(&both(), Request::default(), &facts, "B").as_deref(), Some("2"));
    assert_eq!(outcome(&run(&both(), asking(&[("X", Some("1"))]), &facts)), "deny:env_denied");
    assert_eq!(value(&both(), asking(&[("Y", Some("1"))]), &facts, "Y").as_deref(), Some("1"));
}

#[test]
fn stacked_policies_agree_on_what_they_set() {
    let two = |a: EnvPolicy, b: EnvPolicy| [with(a), with(b)];
    let set = |name, value| env(&[], &[], &[(name, value)]);
    let none = || env(&[], &[], &[]);
    let ask = Request::default;
    assert_eq!(outcome(&run(&two(set("M", "1"), set("M", "2")), ask(), &facts())), "deny:env_conflict");
    assert_eq!(value(&two(set("M", "1"), set("M", "1")), ask(), &facts(), "M").as_deref(), Some("1"));
    let alone = granted(run(&two(set("LD_PRELOAD", "/x"), none()), ask(), &facts()));
    assert!(
        alone.warnings.iter().any(|w| w.contains("'LD_PRELOAD'") && !w.contains("/x")),
        "{:?}",
        alone.warnings
    );
    assert!(!alone.envp.iter().any(|e| e.to_bytes().starts_with(b"LD_PRELOAD")));
    assert_eq!(
        value(&two(set("M", "1"), env(&["M*"], &[], &[])), ask(), &facts(), "M").as_deref(),
        Some("1")
    );
    assert_eq!(value(&two(set("PAGER", "/evil"), none()), ask(), &facts(), "PAGER").as_deref(), Some("cat"));
    let paths = two(set("PATH", "/usr/bin:/opt/x"), set("PATH", "/bin:/usr/bin"));
    assert_eq!(value(&paths, ask(), &facts(), "PATH").as_deref(), Some("/usr/bin"));
    let apart = two(set("PATH", "/bin"), set("PATH", "/usr/bin"));
    let outcome = outcome(&run(&apart, ask(), &facts()));
    assert!(["deny:env_conflict", "deny:ambiguous_program"].contains(&outcome.as_str()), "{outcome}");
}

#[test]
fn a_rules_own_environment_overrides_its_files() {
    let own = Rule {
        own: crate::policy::model::Own {
            env: Some(env(&["B"], &[], &[("M", "rule")])),
            ..Default::default()
        }
        .into(),
        ..allow("true")
    };
    let policy = || {
        [Policy { env: env(&["A"], &[], &[("M", "file"), ("N", "file")]), ..policy(vec![allow("false")]) }]
    };
    let mut policies = policy();
    policies[0].rules = vec![own];
    let grant = granted(run(&policies, Request::default(), &caller(&[("A", "1"), ("B", "2")])));
    let has = |text: &str| grant.envp.iter().any(|e| e.to_bytes() == text.as_bytes());
    assert!(has("B=2") && has("M=rule") && has("N=file") && !has("A=1"));
}

#[test]
fn malformed_and_duplicate_entries_are_dropped() {
    let raw = ["A=1", "B", "=x", "C=", "A=2", "D=a=b", ""].map(|e| e.as_bytes().to_vec()).to_vec();
    let clean = clean_environment(raw);
    assert_eq!(clean, [(b"C".to_vec(), b"".to_vec()), (b"D".to_vec(), b"a=b".to_vec())]);
}
