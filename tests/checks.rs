//! Checks of one's own, through the whole house: what they block does not run, what they rewrite is judged again, what they
//! withhold does not go out.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Bench, Call, alive, assert_gone, eventually, skip};

const PASS: &str = "{\"verdict\": \"pass\"}";

/// A policy with checks; all it allows are `echo`, `ls` and `sh`.
fn policy<'b>(bench: &'b Bench, checks: &str) -> Call<'b> {
    bench.host(&format!("allow = [\"echo\", \"ls\"]\n[[rule]]\nid = \"shell\"\nprogram = \"sh\"\ndecision = \"allow\"\n{checks}"))
}

/// A section for a check that is this shell script.
fn check(bench: &Bench, name: &str, on: &str, more: &str, body: &str) -> String {
    let path = bench.script(name, &format!("#!/bin/sh\n{body}\n"));
    format!("[[check]]\nname = {name:?}\non = {on:?}\nrun = {path:?}\n{more}\n")
}

/// A check that always says the same.
fn says(bench: &Bench, name: &str, on: &str, more: &str, answer: &Value) -> String {
    check(bench, name, on, more, &format!("cat >/dev/null\ncat <<'END'\n{answer}\nEND"))
}

fn records<'a>(answer: &'a Answer, event: &str) -> Vec<&'a Value> {
    answer.audit.iter().filter(|record| record["event"] == event).collect()
}

as_both! {
    fn a_request_that_a_check_blocks_does_not_run(bench) {
        let checks = says(bench, "no", "request", "match = \"shell\"\nseverity = \"high\"", &json!({"verdict": "block", "reason": "not\u{1b}[2K today"}));
        let a = policy(bench, &checks).run(["sh", "-c", "echo ran > ran"]);
        a.denied_by("input", &["check 'no' blocks this: not\\x1b[2K today"]);
        assert!(!bench.work().join("ran").exists());
        let [decision] = records(&a, "decision")[..] else { panic!("{}", a.show()) };
        assert_eq!((&decision["severity"], &decision["checks"][0]["check"], &decision["checks"][0]["verdict"]), (&json!("high"), &json!("no"), &json!("block")), "{}", a.show());
        // It speaks of the rule that it names alone.
        policy(bench, &checks).run(["echo", "hi"]).ok("hi\n");
    }
}

as_both! {
    fn a_check_that_fails_blocks(bench) {
        for (name, body) in [("crashes", "echo '{\"verdict\": \"pass\"}'; exit 1"), ("babbles", "echo yes"), ("slow", "sleep 20")] {
            let a = policy(bench, &check(bench, name, "request", "timeout = \"600ms\"", body)).run(["echo", "hi"]);
            a.denied_by("input", &[&format!("check '{name}' failed, and that blocks: it")]);
            let a = policy(bench, &check(bench, name, "output", "timeout = \"600ms\"", body)).run(["echo", "s3cret"]);
            assert_eq!((a.status(), a.exit, a.str("stage")), ("denied", 126, "output"), "{}", a.show());
            assert!(!String::from_utf8_lossy(&a.stdout).replace("\"argv\":[\"echo\",\"s3cret\"]", "").contains("s3cret"), "{}", a.show());
        }
        let missing = "[[check]]\nname = \"gone\"\non = \"request\"\nrun = \"/nowhere/check\"\n";
        policy(bench, missing).run(["echo", "hi"]).denied_by("input", &["it was not started: /nowhere/check is not there"]);
    }
}

as_both! {
    fn a_check_sees_who_asks_and_nothing_of_the_callers_environment(bench) {
        let kept = bench.work().join("document.json");
        let env = bench.work().join("environment");
        let checks = check(bench, "look", "request", "", &format!("cat >{kept:?}\nenv >{env:?}\necho '{PASS}'"));
        policy(bench, &checks)
            .env("API_KEY", "s3cret")
            .env("GUARDEXEC_AGENT", "lead")
            .opt(["--agent", "lead/child", "--session", "s-1", "--why", "to see"])
            .run(["echo", "hi"])
            .ok("hi\n");
        let document: Value = serde_json::from_slice(&fs::read(&kept).expect("a document")).expect("JSON");
        let of = |key: &str| document[key].as_str().unwrap_or("null").to_owned();
        assert_eq!(["schema", "on", "agent", "session", "why"].map(of), ["guardexec.check/v1", "request", "lead/child", "s-1", "to see"]);
        assert_eq!((&document["argv"], &document["rule"]["id"]), (&json!(["echo", "hi"]), &json!("allow:echo")));
        let environment = fs::read_to_string(&env).expect("an environment");
        let mut names: Vec<&str> = environment.lines().filter_map(|line| line.split('=').next()).collect();
        names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name)); // the shell's own
        names.sort_unstable();
        assert_eq!(names, ["GUARDEXEC_HOOK", "HOME", "LANG", "PATH", "TMPDIR", "USER"], "{environment}");
    }
}

as_both! {
    fn what_a_check_rewrites_is_judged_again(bench) {
        let to = |argv: &[&str]| json!({"verdict": "rewrite", "reason": "better", "replacement": {"argv": argv}});
        let rewrites = |argv: &[&str]| says(bench, "better", "request", "rewrite = true", &to(argv));
        let a = policy(bench, &rewrites(&["echo", "other"])).command("echo this");
        a.ok("other\n");
        assert_eq!(a.json["argv"], json!(["echo", "other"]), "{}", a.show());
        assert_eq!(a.json["warnings"], json!(["check 'better' rewrote the request: better"]), "{}", a.show());
        // What the rules deny stays denied, whoever wants it.
        policy(bench, &rewrites(&["rm", "-r", "/"])).run(["echo", "this"]).denied_by("command", &["'rm' is not in the allowlist"]);
        // So does what another check does not let pass.
        let other = check(bench, "no-other", "request", "", &format!("case $(cat) in *'\"other\"'*) echo '{{\"verdict\": \"block\", \"reason\": \"other\"}}';; *) echo '{PASS}';; esac"));
        let both = format!("{other}{}", rewrites(&["echo", "other"]));
        policy(bench, &both).run(["echo", "this"]).denied_by("input", &["check 'no-other' blocks this: other"]);
    }
}

as_both! {
    fn an_output_goes_out_as_the_checks_leave_it(bench) {
        let to = json!({"verdict": "rewrite", "reason": "names", "replacement": {"stdout": "of [name]\n", "stderr": ""}});
        let exchange = says(bench, "tidy", "output", "rewrite = true", &to);
        let a = policy(bench, &exchange).run(["sh", "-c", "echo of alice; echo bob >&2"]);
        a.ok("of [name]\n");
        let whole = String::from_utf8_lossy(&a.stdout).replace("echo of alice; echo bob >&2", "");
        assert!(!whole.contains("alice") && !whole.contains("bob"), "{}", a.show());
        assert_eq!(a.str("text"), "of [name]\n", "{}", a.show());
        let block = says(bench, "no", "output", "", &json!({"verdict": "block", "reason": "r"}));
        let a = policy(bench, &block).run(["sh", "-c", "printf 's3%s' cret; printf 's3%s' cret >&2"]);
        assert_eq!((a.status(), a.exit, a.str("stage")), ("denied", 126, "output"), "{}", a.show());
        let everything = format!("{}{}{:?}", String::from_utf8_lossy(&a.stdout), a.stderr, a.audit);
        assert!(!everything.contains("s3cret") && !everything.contains("czNjcmV0"), "{}", a.show());
        assert!(a.str("text").contains("check 'no' blocks this: r"), "{}", a.show());
    }
}

as_both! {
    fn when_guardexec_is_ended_while_a_check_runs_nothing_is_left(bench) {
        for (number, signal) in [libc::SIGTERM, libc::SIGKILL].into_iter().enumerate() {
            let mark = format!("96{number}{}.{:06}", bench.who as u8, std::process::id());
            let body = format!("(setsid sh -c 'trap \"\" TERM HUP; sleep {mark}; :' &)\ntrap '' TERM\nsleep {mark}\nsleep {mark}");
            let child = policy(bench, &check(bench, "slow", "request", "", &body)).start(["sh", "-c", "echo ran > ran"]);
            assert!(eventually(Duration::from_secs(10), || alive(&format!("sleep\0{mark}")).len() == 2), "it runs");
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id().cast_signed()), nix::sys::signal::Signal::try_from(signal).expect("a signal")).expect("kill");
            let output = child.wait_with_output().expect("guardexec");
            if signal == libc::SIGTERM {
                let json: Value = serde_json::from_slice(&output.stdout).expect("a result");
                assert_eq!((&json["status"], &json["exit_status"]), (&json!("cancelled"), &json!(143)), "{json}");
                assert!(alive(&mark).is_empty(), "nothing is left when it answers");
            } else {
                assert_eq!(output.status.signal(), Some(libc::SIGKILL));
                assert!(eventually(Duration::from_secs(3), || alive(&mark).is_empty()));
            }
            assert_gone(&mark);
            assert!(!bench.work().join("ran").exists());
        }
    }
}

as_both! {
    fn explain_names_them_and_runs_none(bench) {
        let mark = bench.work().join("mark");
        let checks = check(bench, "look", "request", "", &format!("echo >{mark:?}\necho '{PASS}'"));
        let mut call = policy(bench, &checks);
        call.args.insert(0, "explain".into());
        call.args.extend(["--".into(), "echo".into(), "hi".into()]);
        let a = call.raw();
        assert_eq!(a.exit, 0, "{}", a.stderr);
        assert!(String::from_utf8_lossy(&a.stdout).contains("look"), "{}", a.show());
        assert!(!mark.exists());
    }
}

as_both! {
    fn the_shipped_ownership_policy_does_what_it_says(bench) {
        if !Path::new("/usr/bin/python3").exists() {
            return skip("/usr/bin/python3 is not installed");
        }
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/checks");
        for name in ["ownership.toml", "ownership.sql"] {
            bench.file(&format!("checks/{name}"), fs::read(shipped.join(name)).expect("a file"));
        }
        let script = bench.script("checks/ownership.py", &fs::read_to_string(shipped.join("ownership.py")).expect("a script"));
        bench.give(&bench.dir.join("checks"));
        let database = bench.dir.join("checks/owners.db");
        assert!(Command::new(&script).arg("--init").arg(&database).status().expect("python").success());
        bench.give(&database);
        let close = |agent: &str, customer: &str| {
            let mut call = bench.call();
            call.args.extend(["--policy".into(), bench.dir.join("checks/ownership.toml").into()]);
            let customer = format!("customer={customer}");
            call.opt(["--agent", agent, "--tool", "close_ticket", "--arg", &customer, "--arg", "ticket=7"]).finish()
        };
        close("support", "c-1001").ok("closed ticket 7 of c-1001\n");
        close("support/night", "c-1002").ok("closed ticket 7 of c-1002\n");
        close("sales", "c-1001").denied_by("input", &["check 'ownership' blocks this: customer 'c-1001' does not belong to agent 'sales'"]);
        fs::remove_file(&database).expect("gone");
        close("support", "c-1001").denied_by("input", &["check 'ownership' failed, and that blocks: it exited with status 1"]);
    }
}
