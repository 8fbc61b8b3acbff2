//! Checks and the rest of the house: what they say meets approvals, rates and records.

use std::fs;

use serde_json::{Value, json};

use super::{again, approve, asked, policy, ran, used, verb};
use crate::harness::{Answer, Bench};

/// A section for a check that is this shell script.
fn check(bench: &Bench, name: &str, on: &str, more: &str, body: &str) -> String {
    let path = bench.script(name, &format!("#!/bin/sh\n{body}\n"));
    format!("[[check]]\nname = {name:?}\non = {on:?}\nrun = {path:?}\n{more}\n")
}

/// A check that always says the same.
fn says(bench: &Bench, name: &str, on: &str, more: &str, answer: &Value) -> String {
    check(bench, name, on, more, &format!("cat > /dev/null\ncat <<'END'\n{answer}\nEND"))
}

fn found(answer: &Answer, event: &str) -> Vec<(String, String, String)> {
    let record =
        answer.audit.iter().find(|r| r["event"] == event).unwrap_or_else(|| panic!("{}", answer.show()));
    let of = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    record["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .map(|c| (of(c, "check"), of(c, "verdict"), of(c, "severity")))
        .collect()
}

as_both! {
    fn each_verdict_on_a_request(bench) {
        let verdict = |verdict: &str, severity: &str| {
            says(bench, verdict, "request", &format!("severity = {severity:?}"), &json!({"verdict": verdict, "reason": format!("why {verdict}")}))
        };
        let run = |checks: &str| policy(bench, checks).run(["echo", "x"]);
        let a = run(&verdict("pass", "critical"));
        a.ok("x\n");
        assert_eq!((a.json["warnings"].as_array().map(Vec::len), &a.audit[0]["severity"]), (Some(0), &json!("info")), "{}", a.show());
        assert_eq!(found(&a, "decision"), [("pass".into(), "pass".into(), "critical".into())]);
        let a = run(&verdict("warn", "low"));
        a.ok("x\n");
        assert_eq!(a.json["warnings"], json!(["check 'warn' warns: why warn"]));
        assert_eq!(found(&a, "decision"), [("warn".into(), "warn".into(), "low".into())]);
        for severity in ["low", "medium", "high", "critical"] {
            let a = run(&verdict("block", severity));
            a.denied_by("input", &["check 'block' blocks this: why block"]);
            assert_eq!(a.json["rule"]["id"], "block");
            assert_eq!((found(&a, "decision"), &a.audit[0]["severity"]), (vec![("block".into(), "block".into(), severity.into())], &json!(severity)), "{}", a.show());
        }
        let a = run(&verdict("ask", "high"));
        asked(&a);
        assert!(a.str("text").contains("check 'ask' wants a person to decide: why ask"), "{}", a.show());
        // A rewrite that was not announced is no answer.
        let a = run(&says(bench, "sly", "request", "", &json!({"verdict": "rewrite", "reason": "r", "replacement": {"argv": ["echo", "y"]}})));
        a.denied_by("input", &["check 'sly' failed, and that blocks"]);
    }
}

as_both! {
    fn the_strictest_of_those_that_run_side_by_side_wins(bench) {
        // Each waits until all have begun: one after the other none of them would answer in time.
        let all = |names: &[(&str, &str)]| -> String {
            let begun = bench.dir.join("work/begun");
            let _ = fs::remove_dir_all(&begun);
            fs::create_dir(&begun).expect("mkdir");
            bench.give(&begun);
            let one = |(name, verdict): &(&str, &str)| {
                let body = format!(
                    "cat > /dev/null; touch {0}/{name}; n=0; while [ $(ls {0} | wc -l) -lt {1} ] && [ $n -lt 400 ]; do n=$((n + 1)); sleep 0.05; done\n\
                     [ $n -lt 400 ] && echo '{{\"verdict\": \"{verdict}\", \"reason\": \"{name}\"}}'",
                    begun.display(), names.len()
                );
                check(bench, name, "request", "", &body)
            };
            names.iter().map(one).collect()
        };
        let a = policy(bench, &all(&[("p", "pass"), ("w", "warn"), ("a", "ask"), ("b", "block")])).run(["echo"]);
        a.denied_by("input", &["check 'b' blocks this: b"]);
        let said: Vec<(String, String)> = found(&a, "decision").into_iter().map(|(name, verdict, _)| (name, verdict)).collect();
        let of = |name: &str, verdict: &str| (name.to_owned(), verdict.to_owned());
        assert_eq!(said, [of("p", "pass"), of("w", "warn"), of("a", "ask"), of("b", "block")], "in the order of the policy");
        asked(&policy(bench, &all(&[("p", "pass"), ("w", "warn"), ("a", "ask")])).run(["echo"]));
    }
}

as_both! {
    fn what_was_rewritten_is_judged_counted_and_asked_about_as_it_is(bench) {
        let to = |argv: Value| says(bench, "better", "request", "rewrite = true\nmatch = [\"free\", \"asks\"]", &json!({"verdict": "rewrite", "reason": "r", "replacement": {"argv": argv}}));
        let rates = "[[rate]]\nname = \"echoes\"\nmatch = \"free\"\ncount = 5\nper = \"1h\"\n[[rate]]\nname = \"asks\"\nmatch = \"asks\"\ncount = 5\nper = \"1h\"\n";
        // To a denied command: denied, and nothing counted.
        policy(bench, &format!("{rates}{}", to(json!(["rm", "-rf", "/"])))).run(["echo", "x"]).denied_by("command", &["'rm' is not in the allowlist"]);
        // From a harmless command to one that asks: asked, about the one that would run.
        let a = policy(bench, &format!("{rates}{}", to(json!(["sh", "-c", "echo x >> ran"])))).run(["echo", "x"]);
        let id = asked(&a);
        assert_eq!(a.json["argv"], json!(["sh", "-c", "echo x >> ran"]));
        let shown = verb(bench, &["approvals", "show", "--json", &id]).json;
        assert_eq!(shown["argv"], json!(["sh", "-c", "echo x >> ran"]));
        approve(bench, &id);
        again(bench).opt(["--approval", &id]).run(["echo", "x"]).ok("");
        assert_eq!((ran(bench), used(bench, "echoes"), used(bench, "asks")), (1, 0, 1));
        // From one that asks to a harmless one: nothing to ask.
        policy(bench, &format!("{rates}{}", to(json!(["echo", "instead"])))).run(["sh", "-c", "true"]).ok("instead\n");
        // Never at rest: blocked.
        let growing = check(bench, "growing", "request", "rewrite = true", "n=$(cat | tr -cd x | wc -c)\nprintf '{\"verdict\": \"rewrite\", \"reason\": \"r\", \"replacement\": {\"argv\": [\"echo\", \"'; printf \"%0*d\" $((n + 1)) 0 | tr 0 x; printf '\"]}}'");
        policy(bench, &growing).run(["echo", "x"]).denied_by("input", &["check 'growing' failed, and that blocks: it rewrites what it has rewritten already"]);
    }
}

as_both! {
    fn a_check_whose_reason_is_never_the_same_still_meets_its_approval(bench) {
        let asks = check(bench, "clock", "request", "", "cat > /dev/null; echo \"{\\\"verdict\\\": \\\"ask\\\", \\\"reason\\\": \\\"at $(date +%s%N)\\\"}\"");
        let call = || policy(bench, &asks);
        let first = call().run(["echo", "x"]);
        let id = asked(&first);
        let second = call().run(["echo", "x"]);
        assert_eq!(asked(&second), id, "it is the same question");
        assert_ne!(first.str("reason"), second.str("reason"), "or this shows nothing");
        approve(bench, &id);
        call().opt(["--approval", &id]).run(["echo", "x"]).ok("x\n");
        call().opt(["--approval", &id]).run(["echo", "x"]).denied_by("approval", &["was used already"]);
    }
}

as_both! {
    fn an_approval_answers_no_check_that_blocks(bench) {
        let gate = bench.dir.join("closed");
        let body = format!("cat > /dev/null; if [ -e {0} ]; then echo '{{\"verdict\": \"block\", \"reason\": \"closed\"}}'; else echo '{{\"verdict\": \"ask\", \"reason\": \"open\"}}'; fi", gate.display());
        let checks = check(bench, "gate", "request", "", &body);
        let id = asked(&policy(bench, &checks).run(["echo", "x"]));
        approve(bench, &id);
        bench.file("closed", "");
        policy(bench, &checks).opt(["--approval", &id]).run(["echo", "x"]).denied_by("input", &["check 'gate' blocks this: closed"]);
        fs::remove_file(&gate).expect("open again");
        policy(bench, &checks).opt(["--approval", &id]).run(["echo", "x"]).ok("x\n");
    }
}

as_both! {
    fn an_output_that_is_not_let_pass_goes_nowhere(bench) {
        let result = bench.work().join("result.json");
        for (name, body) in [
            ("block", "cat > /dev/null; echo '{\"verdict\": \"block\", \"reason\": \"no\"}'"),
            ("crash", "cat >&2; exit 1"),
            ("slow", "sleep 20"),
            ("garbage", "cat; echo '{}'"),
            ("sly", "cat > /dev/null; echo '{\"verdict\": \"rewrite\", \"reason\": \"r\", \"replacement\": \"\"}'"),
        ] {
            let checks = check(bench, name, "output", "timeout = \"700ms\"", body);
            // The words do not hold what is printed.
            let a = policy(bench, &checks).opt(["--result-file".as_ref(), result.as_os_str()]).run(["echo", "-e", "s3\\x63ret"]);
            assert_eq!((a.status(), a.exit, a.str("stage")), ("denied", 126, "output"), "{name}: {}", a.show());
            let everything = format!("{}{}{:?}{}", String::from_utf8_lossy(&a.stdout), a.stderr, a.audit, fs::read_to_string(&result).expect("the result"));
            assert!(!everything.contains("s3cret") && !everything.contains("czNjcmV0"), "{name}: {}", a.show());
            assert!(a.str("text").contains(&format!("check '{name}' ")), "{}", a.show());
            // It ran, and that is recorded.
            assert_eq!(a.audit.iter().filter(|r| r["event"] == "outcome").count(), 1, "{}", a.show());
            assert_eq!(a.json["exit_code"], 0, "{}", a.show());
            for output in ["text", "raw"] {
                let text = policy(bench, &checks).opt(["--output", output, "--", "echo", "-e", "s3\\x63ret"]).raw();
                assert!(!String::from_utf8_lossy(&text.stdout).contains("s3cret") && !text.stderr.contains("s3cret"), "{name} {output}: {}", text.show());
            }
        }
    }
}
