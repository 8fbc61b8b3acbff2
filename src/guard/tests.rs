//! Checks that answer well, badly and not at all, run for real, as root and as an ordinary user.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::hook::tests::{Bench, apart, facts};
use crate::policy::model::Hook;

mod failing;
mod manual;
mod outputs;
mod requests;
mod shipped;

fn place(line: u32) -> Place {
    Place { file: Arc::from(Path::new("/etc/guardexec/policy.toml")), line }
}

/// A check that runs these words.
fn check(name: &str, on: CheckOn, argv: &[&str]) -> Check {
    Check {
        name: name.to_owned(),
        at: place(7),
        on,
        matches: None,
        run: Hook { argv: argv.iter().map(|word| (*word).to_owned()).collect(), at: place(8) },
        timeout: Duration::from_secs(20),
        severity: Severity::Medium,
        rewrites: false,
    }
}

/// A check that is a shell script.
fn script(bench: &Bench, name: &str, on: CheckOn, body: &str) -> Check {
    let path = bench.file(name, &format!("#!/bin/sh\n{body}\n"), 0o755);
    check(name, on, &[&path])
}

/// A check that always says the same.
fn says(bench: &Bench, name: &str, on: CheckOn, answer: &Value) -> Check {
    script(bench, name, on, &format!("cat >/dev/null\ncat <<'END'\n{answer}\nEND"))
}

fn rewriting(check: Check) -> Check {
    Check { rewrites: true, ..check }
}

fn severe(check: Check, severity: Severity) -> Check {
    Check { severity, ..check }
}

fn asked(checks: &[Check]) -> Vec<Asked<'_>> {
    let path: Vec<PathBuf> = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from).to_vec();
    checks.iter().map(|check| Asked { check, path: path.clone() }).collect()
}

fn asker() -> Asker {
    Asker {
        agent: Some("lead/builder".into()),
        session: Some("s-1".into()),
        labels: [("ticket".to_owned(), "4".to_owned())].into(),
        why: Some("to see".into()),
    }
}

fn words(text: &str) -> Vec<OsString> {
    text.split(' ').map(OsString::from).collect()
}

fn subject<'a>(argv: &'a [OsString], asker: &'a Asker) -> Subject<'a> {
    Subject {
        run_id: "01J",
        rule: None,
        tool: None,
        arguments: None,
        argv: Some(argv),
        command: None,
        cwd: Path::new("/srv"),
        asker,
        policies: &[],
    }
}

/// One round over a request of these words.
fn round(rounds: &mut Rounds, checks: &[Check], argv: &[OsString]) -> Next {
    let asker = asker();
    rounds.judge(&asked(checks), &subject(argv, &asker), &facts(), None)
}

/// The ruling of a request that nobody rewrites.
#[track_caller]
fn ruling(checks: &[Check]) -> Ruling {
    match round(&mut Rounds::default(), checks, &words("ls -l")) {
        Next::Settled(ruling) => ruling,
        Next::Again(replacement) => panic!("rewritten: {replacement:?}"),
    }
}

fn judged(checks: &[Check], stdout: &[u8], stderr: &[u8]) -> OutputJudgement {
    let (asker, argv) = (asker(), words("ls -l"));
    let output = Output { status: "ok", exit_code: Some(0), stdout, stderr, truncated: false };
    judge_output(&asked(checks), &subject(&argv, &asker), &output, &facts(), None)
}

#[track_caller]
fn blocked(ruling: Ruling) -> Objection {
    match ruling {
        Ruling::Block(objection) => objection,
        other => panic!("not blocked: {other:?}"),
    }
}

fn verdicts(findings: &[Finding]) -> Vec<(&str, &str)> {
    findings.iter().map(|f| (f.check.as_str(), f.verdict)).collect()
}

#[test]
fn a_check_speaks_of_what_it_names_when_it_is_asked() {
    let dir = PathBuf::from(format!("/tmp/guardexec-guard-{}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    let file = dir.join("policy.toml");
    fs::write(&file, "version = 1\n[env]\nset = { PATH = \"/opt/bin:/bin\" }\n").unwrap();
    let context = crate::policy::load::LoadContext { home: "/".into(), uid: crate::sys::process::ids().0 };
    let mut policy = crate::policy::load::load(&file, &context).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    let named = |name: &str, on, names: &[&str]| Check {
        matches: Some(names.iter().map(|n| (*n).to_owned()).collect()),
        ..check(name, on, &["/bin/true"])
    };
    policy.oversight.checks = vec![
        named("b", CheckOn::Request, &["x", "git-read"]),
        check("all", CheckOn::Request, &["/bin/true"]),
        named("other", CheckOn::Request, &["git"]),
        check("out", CheckOn::Output, &["/bin/true"]),
    ];
    let policies = [policy];
    let names = |on, ids: &[&str]| -> Vec<String> {
        checks_for(&policies, on, ids).iter().map(|asked| asked.check.name.clone()).collect()
    };
    assert_eq!(names(CheckOn::Request, &["git-read", "y"]), ["b", "all"]);
    assert_eq!(names(CheckOn::Request, &[]), ["all"]);
    assert_eq!(names(CheckOn::Output, &["git-read"]), ["out"]);
    let found = checks_for(&policies, CheckOn::Output, &[]);
    assert_eq!(found[0].path, [PathBuf::from("/opt/bin"), PathBuf::from("/bin")]);
}
