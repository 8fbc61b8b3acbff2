//! The kill switch: what it stops, before the start and during a run, and that it fails towards stopping.

use std::fs;
use std::time::{Duration, Instant};

use crate::harness::{Answer, Bench, Call, alive, assert_gone, eventually, outside};

/// A policy with the switch `stop` in the bench's directory; all it allows are `date`, `echo` and `sh`.
fn policy<'b>(bench: &'b Bench, held: &str) -> Call<'b> {
    let file = bench.dir.join("switch/stop");
    fs::create_dir_all(bench.dir.join("switch")).expect("its directory");
    bench.give(&bench.dir.join("switch"));
    bench.policy(&format!(
        "allow = [\"date\", \"echo\"]\n[[rule]]\nid = \"shell\"\nprogram = \"sh\"\ndecision = \"allow\"\n[sandbox]\nprofile = \
         \"host\"\nprocesses = \"{held}\"\n[kill_switch]\nfile = {file:?}\n"
    ))
}

fn throw(bench: &Bench, text: &str) {
    bench.file("switch/stop", text);
}

fn stopped(answer: &Answer, reason: &str) {
    answer.denied_by("kill_switch", &[&format!("switch/stop is on{reason}"), "\nhint: "]);
    assert_eq!(answer.json["rule"]["id"], "kill_switch", "{}", answer.show());
    answer.nothing_ran();
}

as_both! {
    fn while_it_is_off_everything_runs(bench) {
        policy(bench, "auto").run(["echo", "hi"]).ok("hi\n");
    }
}

as_both! {
    fn an_empty_file_stops_everything_also_what_no_rule_knows(bench) {
        throw(bench, "# incident 7\u{1b}[2K\n");
        stopped(&policy(bench, "auto").run(["echo", "hi"]), ": incident 7\\x1b[2K");
        stopped(&policy(bench, "auto").run(["no-such-command"]), ": incident 7\\x1b[2K");
        stopped(&policy(bench, "auto").command("echo 'unclosed"), ": incident 7\\x1b[2K");
        fs::remove_file(bench.dir.join("switch/stop")).expect("off again");
        policy(bench, "auto").run(["echo", "hi"]).ok("hi\n");
    }
}

as_both! {
    fn names_stop_the_rules_they_name(bench) {
        throw(bench, "shell # no shells today\ndate\n");
        stopped(&policy(bench, "auto").run(["sh", "-c", "true"]), ": no shells today");
        stopped(&policy(bench, "auto").run(["date"]), "");
        policy(bench, "auto").run(["echo", "hi"]).ok("hi\n");
    }
}

as_both! {
    fn t5_144_what_cannot_be_understood_or_looked_at_stops_everything(bench) {
        throw(bench, "shell\nshel\n");
        stopped(&policy(bench, "auto").run(["echo", "hi"]), ": it names 'shel', which is no rule or tool of the policy");
        let dir = bench.dir.join("switch");
        fs::remove_dir_all(&dir).expect("gone");
        let call = policy(bench, "auto");
        fs::remove_dir_all(&dir).expect("gone again");
        stopped(&call.run(["echo", "hi"]), ": its directory cannot be looked at");
    }
}

as_both! {
    fn t5_144_a_running_tree_dies_within_a_second(bench) {
        for (number, held) in ["auto", "groups"].into_iter().enumerate() {
            let mark = format!("97{number}{}.{:06}", bench.who as u8, std::process::id());
            let call = policy(bench, held);
            let script = format!("echo started; (setsid sleep {mark} &); trap '' TERM; sleep {mark}; sleep {mark}");
            let child = call.start(["sh", "-c", &script]);
            assert!(eventually(Duration::from_secs(10), || alive(&format!("sleep\0{mark}")).len() == 2), "it started");
            throw(bench, "echo\n"); // Names others: it goes on.
            std::thread::sleep(Duration::from_millis(500));
            assert_eq!(alive(&format!("sleep\0{mark}")).len(), 2, "{held}");
            let thrown = Instant::now();
            throw(bench, "shell # enough\n");
            let output = child.wait_with_output().expect("guardexec");
            assert!(thrown.elapsed() < Duration::from_secs(1), "{held}: {:?}", thrown.elapsed());
            assert_gone(&mark);
            let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a result");
            assert_eq!((&json["status"], &json["stage"], &json["exit_status"]), (&"cancelled".into(), &"kill_switch".into(), &137.into()), "{json}");
            assert_eq!(output.status.code(), Some(137));
            assert_eq!(json["stdout"], "started\n");
            assert!(json["text"].as_str().is_some_and(|t| t.contains("is on: enough; the run was killed\n")), "{json}");
            let audit = crate::harness::read_audit(&bench.dir.join("audit.jsonl"));
            let of_run: Vec<_> = audit.iter().filter(|r| r["run_id"] == json["run_id"]).map(|r| r["event"].as_str().unwrap_or("")).collect();
            assert_eq!(of_run, ["decision", "switch", "outcome"], "{held}");
            fs::remove_file(bench.dir.join("switch/stop")).expect("off");
        }
    }
}

as_both! {
    fn explain_says_it(bench) {
        throw(bench, "# closed\n");
        let mut call = policy(bench, "auto");
        call.args.insert(0, "explain".into());
        let a = outside::ready(call, ["echo", "hi"]).raw();
        assert_eq!(a.exit, 126, "{}", a.stderr);
        let text = String::from_utf8_lossy(&a.stdout).into_owned();
        assert!(text.contains("kill_switch") && text.contains("is on: closed"), "{text}");
        // A rule that is named: the stage that stops it is shown, and the look before it once.
        throw(bench, "shell # closed\n");
        let mut call = policy(bench, "auto").opt(["--json"]);
        call.args.insert(0, "explain".into());
        let a = outside::ready(call, ["sh", "-c", "true"]).raw();
        let stages = a.json["stages"].as_array().unwrap_or_else(|| panic!("{}", a.show()));
        let switch: Vec<_> = stages.iter().filter(|s| s["stage"] == "kill_switch").map(|s| s["outcome"].as_str().unwrap_or("")).collect();
        assert_eq!((a.exit, switch), (126, vec!["off", "deny"]), "{}", a.show());
    }
}

as_both! {
    fn the_run_cannot_touch_it(bench) {
        let file = bench.dir.join("work/stop");
        for profile in ["strict", "workspace"] {
            let call = bench.policy(&format!(
                "[[rule]]\nprogram = \"sh\"\ndecision = \"allow\"\n[sandbox]\nprofile = {profile:?}\n[kill_switch]\nfile = {file:?}\n\
                 [filesystem]\nwrite = [{:?}]\n", bench.work()
            ));
            let a = call.run(["sh", "-c", "echo x > stop; echo y > other; :"]);
            assert_eq!((a.status(), a.exit, a.str("stage")), ("error", 125, "policy"), "{}", a.show());
            assert!(a.str("text").contains("kill switch"), "{}", a.show());
            assert!(!file.exists(), "{profile}: {}", a.show());
        }
    }
}

as_both! {
    fn thrown_by_a_program_of_the_policy_it_stops_what_that_was_asked_about(bench) {
        let file = bench.dir.join("switch/stop");
        let throws = |verdict: &str| format!("#!/bin/sh\ncat > /dev/null\necho '# by hand' > {}\necho '{verdict}'\n", file.display());
        let pass = bench.script("check", &throws(r#"{"verdict": "pass"}"#));
        let yes = bench.script("confirm", &throws(r#"{"verdict": "approve"}"#));
        let told = bench.script("alert", &throws(""));
        let rate = "[[rate]]\nname = \"all\"\ncount = 9\nper = \"1h\"\n[[alert]]\non = \"rate:all\"\nabove = 0\nper = \"1s\"\n";
        for (decision, more) in [
            ("allow", format!("[[check]]\nname = \"c\"\non = \"request\"\nrun = {pass:?}\n")),
            ("ask", format!("[approval]\nask = {yes:?}\n")),
            ("allow", format!("{rate}run = {told:?}\n")),
        ] {
            let _ = fs::remove_dir_all(bench.dir.join("switch"));
            let _ = policy(bench, "auto");
            let state = bench.dir.join("state");
            let call = bench.policy(&format!(
                "[[rule]]\nid = \"shell\"\nprogram = \"sh\"\ndecision = \"{decision}\"\n[sandbox]\nprofile = \"host\"\n[state]\ndir = \
                 {state:?}\n[kill_switch]\nfile = {file:?}\n{more}"
            ));
            stopped(&call.run(["sh", "-c", "touch ran"]), ": by hand");
            assert!(!bench.work().join("ran").exists(), "{more}");
        }
    }
}
