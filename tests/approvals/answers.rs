//! What is kept of answers, whoever gave them, and the bounds of what askers may file.

use std::fs;
use std::io::Write as _;

use serde_json::{Value, json};

use super::running::{TTY, asked, at_terminal, policy, until_asked, verb};
use crate::harness::{Answer, Bench};

/// The lines of `export`.
fn exported(bench: &Bench) -> Vec<Value> {
    let answer = verb(bench, &["export"]);
    let text = String::from_utf8(answer.stdout).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// A usage error that says this.
#[track_caller]
fn unusable(answer: &Answer, part: &str) {
    assert_eq!((answer.status(), answer.exit), ("error", 125), "{}", answer.show());
    assert!(answer.str("text").contains(part), "{part:?} is not in\n{}", answer.show());
    answer.nothing_ran();
}

const CONFIRM: &str = "#!/bin/sh\nif grep -q good; then echo '{\"verdict\": \"approve\", \"reason\": \"fine\"}'; else echo '{\"verdict\": \
                       \"decline\", \"reason\": \"not that\"}'; fi\n";

as_both! {
    fn what_a_program_and_the_terminal_answer_is_kept_and_exported(bench) {
        let hook = bench.script("confirm", CONFIRM);
        let more = format!("[approval]\nask = {hook:?}\n[[rate]]\nname = \"one\"\nmatch = \"shell\"\ncount = 1\nper = \"1h\"\n");
        let good = policy(bench, &more).opt(["--agent", "lead"]).run(["sh", "-c", "echo good"]);
        good.ok("good\n");
        let bad = policy(bench, &more.replace("count = 1", "count = 9")).run(["sh", "-c", "echo bad"]);
        bad.denied("blocked: confirmation for 'sh' denied");
        let (result, _, _) = at_terminal(policy(bench, TTY), &["sh", "-c", "echo ran"], b"", |master| {
            until_asked(master);
            master.write_all(b"yes\n").expect("typed");
        });
        assert_eq!(result["status"], "ok", "{result}");
        let all = exported(bench);
        let told: Vec<Value> = all.iter().map(|one| {
            let by = &one["answer"]["by"];
            json!([one["state"], one["answer"]["verdict"], one["answer"]["text"], by["program"], one["run_id"], one["agent"]])
        }).collect();
        let program = hook.to_str().expect("UTF-8");
        assert_eq!(told, [
            json!(["consumed", "approve", "fine", program, good.json["run_id"], "lead"]),
            json!(["declined", "decline", "not that", program, null, null]),
            json!(["consumed", "approve", null, null, result["run_id"], null]),
        ]);
        assert_eq!(all[0]["argv"], json!(["sh", "-c", "echo good"]));
        assert!(all[2]["answer"]["by"]["uid"].is_u64() && all.iter().all(|one| one["answer"]["at"].is_string()), "{all:?}");
        // The audit records name them by the same ids, and none of them waits or can be answered or used.
        assert_eq!((&good.audit[0]["id"], &bad.audit[0]["id"]), (&all[0]["id"], &all[1]["id"]), "{}", good.show());
        assert_eq!(String::from_utf8_lossy(&verb(bench, &["list"]).stdout), "nothing waits for an answer\n");
        let shown = verb(bench, &["show", all[0]["id"].as_str().expect("an id")]);
        assert!(String::from_utf8_lossy(&shown.stdout).contains(&format!("approved by the program '{program}' at ")), "{shown:?}");
        for one in &all {
            let id = one["id"].as_str().expect("an id");
            policy(bench, TTY).opt(["--approval", id]).finish().denied_by("approval", &[id]);
        }
    }
}

as_both! {
    fn what_was_approved_at_once_and_not_used_says_so(bench) {
        let job = bench.file("work/job.sh", "echo good\n");
        let swap = format!("#!/bin/sh\necho 'echo other' > {}\necho '{{\"verdict\": \"approve\"}}'\n", job.display());
        let hook = bench.script("swap", &swap);
        policy(bench, &format!("[approval]\nask = {hook:?}\n")).run(["sh", "job.sh"]).denied_by("approval", &["changed while it was asked for"]);
        let all = exported(bench);
        assert_eq!((all.len(), &all[0]["state"], &all[0]["answer"]["verdict"], &all[0]["used_at"]), (1, &json!("expired"), &json!("approve"), &Value::Null));
    }
}

as_both! {
    fn an_answer_that_has_to_be_kept_and_cannot_be_lets_nothing_run(bench) {
        let hook = bench.script("confirm", CONFIRM);
        let more = format!("[approval]\nask = {hook:?}\n");
        policy(bench, &more).run(["sh", "-c", "echo good"]).ok("good\n");
        fs::write(bench.dir.join("state/state.db"), "noise").expect("write");
        policy(bench, &more).run(["sh", "-c", "echo good"]).denied_by("approval", &["the state that this decision needs cannot be used"]);
        let a = policy(bench, &more).run(["sh", "-c", "echo bad"]);
        a.denied("blocked: confirmation for 'sh' denied");
        let warned = |w: &Value| w.as_str().is_some_and(|w| w.starts_with("what was answered could not be kept: "));
        assert!(a.json["warnings"].as_array().is_some_and(|all| all.iter().any(warned)), "{}", a.show());
    }
}

as_both! {
    fn without_a_store_of_the_policys_nothing_needs_one(bench) {
        let hook = bench.script("confirm", CONFIRM);
        let elsewhere = bench.dir.join("elsewhere");
        let call = || bench.host(&format!("[approval]\nask = {hook:?}\n[[rule]]\nid = \"shell\"\nprogram = \"sh\"\ndecision = \"ask\"\n"))
            .opt(["--state".as_ref(), elsewhere.as_os_str()]);
        let a = call().run(["sh", "-c", "echo good"]);
        a.ok("good\n");
        assert_eq!((&a.audit[0]["state"], &a.audit[0]["id"]), (&json!("approved"), &a.json["run_id"]), "{}", a.show());
        call().run(["sh", "-c", "echo bad"]).denied("blocked: confirmation for 'sh' denied");
        assert!(!elsewhere.exists());
    }
}

as_both! {
    fn names_that_an_asker_chooses_do_not_make_room(bench) {
        let more = "[approval]\nmax_pending = 2\n";
        let call = |agent: &str| policy(bench, more).opt(["--agent", agent]).run(["sh", "-c", "true"]);
        (0..8).for_each(|n| drop(asked(&call(&format!("agent{n}")))));
        call("agent8").denied_by("approval", &["agents whose names GUARDEXEC_AGENT does not say cannot together have more than 8 requests that wait for an answer"]);
        asked(&policy(bench, more).env("GUARDEXEC_AGENT", "agent0").run(["sh", "-c", "false"]));
    }
}

as_both! {
    fn an_explanation_is_bounded(bench) {
        let long = |length: usize| "x".repeat(length);
        let words = ["sh", "-c", "true"];
        unusable(&policy(bench, "").opt(["--why", &long(4097)]).run(words), "why must not be longer than 4096 bytes");
        let request = |why: &str| policy(bench, "").stdin(json!({"argv": words, "why": why}).to_string()).opt(["--request", "-"]).finish();
        unusable(&request(&long(2_000_000)), "why must not be longer than 4096 bytes");
        unusable(&policy(bench, "").opt(["--agent", &long(257)]).run(words), "agent must not be longer than 256 bytes");
        unusable(&policy(bench, "").opt(["--session", &long(257)]).run(words), "session must not be longer than 256 bytes");
        assert!(!bench.dir.join("state").exists());
        let id = asked(&request(&long(4096)));
        assert_eq!(asked(&policy(bench, "").opt(["--why", &long(4096)]).run(words)), id);
    }
}

as_both! {
    fn what_asks_is_named_with_its_place(bench) {
        let hook = bench.script("look", "#!/bin/sh\ncat > /dev/null\necho '{\"verdict\": \"ask\", \"reason\": \"hm\"}'\n");
        let rate = "[[rate]]\nname = \"few\"\nmatch = \"free\"\ncount = 1\nper = \"1h\"\nthen = \"THEN\"\n";
        let place = |section: &str| {
            let text = fs::read_to_string(bench.dir.join("policy.toml")).expect("the policy");
            text.lines().position(|line| line == section).expect("the section") + 1
        };
        let ask = rate.replace("THEN", "ask");
        policy(bench, &ask).run(["date", "+x"]).ok("x\n");
        let a = policy(bench, &ask).run(["date", "+x"]);
        let id = asked(&a);
        let denied = policy(bench, &rate.replace("THEN", "deny")).run(["date", "+x"]);
        assert_eq!(denied.str("stage"), "rate", "{}", denied.show());
        assert_eq!((&a.json["rule"], a.json["rule"]["id"].as_str()), (&denied.json["rule"], Some("few")), "{}", a.show());
        assert_eq!(a.json["rule"]["line"], json!(place("name = \"few\"") - 1), "{}", a.show());
        let decision = a.audit.iter().find(|record| record["event"] == "decision").expect("a decision");
        assert_eq!(decision["rule"], a.json["rule"], "{}", a.show());
        assert!(a.str("text").contains(&format!("policy.toml:{})", a.json["rule"]["line"])), "{}", a.show());
        // The person sees the same, and its answer is for the call also when the rate asks no more.
        let _ = policy(bench, &ask);
        let shown = verb(bench, &["show", "--json", &id]).json;
        assert_eq!(shown["causes"][0]["id"], "few", "{shown}");
        verb(bench, &["approve", &id]);
        policy(bench, &ask).opt(["--approval", &id]).run(["date", "+x"]).ok("x\n");
        // A check that asks, with a rate that does as well; and a rule that asks comes first.
        let both = format!("{ask}[[check]]\nname = \"look\"\non = \"request\"\nrun = {hook:?}\n");
        let a = policy(bench, &both).run(["date", "+x"]);
        asked(&a);
        assert_eq!((a.json["rule"]["id"].as_str(), &a.json["rule"]["line"]), (Some("look"), &json!(place("name = \"look\"") - 1)), "{}", a.show());
        assert!(a.str("reason").contains("check 'look' wants") && a.str("reason").contains("rate 'few' allows 1 call in 1h, and 2 are used"), "{}", a.show());
        let a = policy(bench, &both).run(["sh", "-c", "true"]);
        asked(&a);
        assert_eq!(a.json["rule"]["id"], "shell", "{}", a.show());
    }
}

as_both! {
    fn what_is_wrong_is_said_once_and_by_guardexec(bench) {
        let escalate = "[approval]\nescalate = \"/bin/true\"\nescalate_after = \"1m\"\n";
        asked(&policy(bench, escalate).run(["sh", "-c", "true"]));
        let named = |words: &[&str]| bench.call().opt(words).opt(["--policy".into(), bench.dir.join("policy.toml")]).raw();
        fs::write(bench.dir.join("state/state.db"), "noise").expect("write");
        for words in [&["approvals", "list"][..], &["approvals", "show", "x"], &["approvals", "export"], &["rates"], &["session", "list"]] {
            let a = named(words);
            assert_eq!((a.exit, a.stderr.matches("is damaged").count()), (125, 1), "{words:?}: {}", a.stderr);
            assert!(a.stderr.starts_with("guardexec: error: "), "{words:?}: {}", a.stderr);
        }
        let _ = policy(bench, "[approval]\nask = 3\n");
        for words in [&["approvals", "list"][..], &["rates"], &["session", "list"], &["tools"], &["check"], &["explain", "--json"]] {
            let mut call = bench.call().opt(words).opt(["--policy".into(), bench.dir.join("policy.toml")]);
            if words[0] == "explain" {
                call = call.opt(["--", "date"]);
            }
            let a = call.raw();
            assert!(a.exit == 125 && a.stderr.starts_with("guardexec: error: "), "{words:?}: {} {}", a.exit, a.stderr);
        }
    }
}

as_both! {
    fn a_number_stays_a_number_also_where_it_is_refused(bench) {
        let more = "[tools.pay]\nargv = [\"echo\", \"{amount}\"]\ndecision = \"allow\"\nparams.amount = { type = \"number\", min_value = 0 }\n\
                    [[rate]]\nname = \"sum\"\nmatch = \"pay\"\nsum = \"amount\"\nmax = 20\nper = \"1h\"\n";
        let opts = ["--tool", "pay", "--arg", "amount=30"];
        let a = policy(bench, more).opt(opts).finish();
        a.denied_by("rate", &["allows 20 of 'amount'"]);
        assert_eq!(a.json["tool"]["arguments"], json!({"amount": 30}), "{}", a.show());
        let explained = bench.call().opt(["explain", "--json"]).opt(opts).opt(["--policy".into(), bench.dir.join("policy.toml")]).raw();
        assert_eq!((explained.exit, &explained.json["tool"]["arguments"]), (126, &json!({"amount": 30})), "{}", explained.show());
    }
}
