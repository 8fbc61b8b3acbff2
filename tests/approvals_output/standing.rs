//! What else stands around an output that waits: what it is, who may have it, what is shown of it, and what its run left behind.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::{RUN, SECRET, asks, barred, hides, policy, ran, waits};
use crate::approvals::running::verb;
use crate::harness::{As, Bench};

as_both! {
    fn it_is_shown_whole_and_exported_without_a_byte_of_it(bench) {
        let words = ["sh", "-c", "echo ran >> log; printf 's3%s\\n\\033[2Kx\\377' cret-of-the-run; seq 3000; exit 3"];
        let id = waits(&asks(bench, "").run(words));
        let list = String::from_utf8(verb(bench, &["list"]).stdout).unwrap();
        assert!(list.contains("'look'") && list.contains("the output of command 'sh', 3 words"), "{list}");
        let screen = String::from_utf8(verb(bench, &["show", &id]).stdout).unwrap();
        for part in [", which is over: nonzero_exit, exit code 3\n", "because    'look' ("] {
            assert!(screen.contains(part), "{part:?} is not in\n{}", &screen[..2000]);
        }
        let numbers: Vec<String> = (1..=3000).map(|n| format!("           | {n}\n")).collect();
        assert!(screen.contains(&format!("           | {SECRET}\n           | \\x1b[2Kx\\xff1\n{}", numbers[1..].concat())), "{}", &screen[..3000]);
        let shown = verb(bench, &["show", "--json", &id]).json;
        let output = &shown["output"];
        assert_eq!((&output["status"], &output["exit_code"], &output["stderr"]["text"], &output["stderr"]["size"]), (&json!("nonzero_exit"), &json!(3), &json!(""), &json!(0)));
        assert!(output["stdout"]["text"].as_str().unwrap().starts_with(SECRET) && output["stdout"]["base64"].is_string());
        for words in [&["list", "--json"][..], &["export"]] {
            let text = String::from_utf8(verb(bench, words).stdout).unwrap();
            assert!(!text.contains(SECRET) && !text.contains("czNjcmV0") && text.contains("\"exit_code\":3"), "{text}");
            assert!(text.contains(output["stdout"]["sha256"].as_str().unwrap()), "{text}");
        }
        let refused = bench.call().opt(["--policy".into(), bench.dir.join("policy.toml")]).opt(["approvals", "approve", &id, "--argv", "sh"]).raw();
        assert!(refused.exit == 1 && refused.stderr.contains("an output cannot be edited"), "{}", refused.stderr);
        let told = String::from_utf8(verb(bench, &["approve", &id]).stdout).unwrap();
        assert!(told.starts_with(&format!("approved {id}, the output of command 'sh': it can be had once, until ")), "{told}");
        // The very bytes, and the very end.
        let answer = asks(bench, "").opt(["--approval", &id]).finish();
        assert_eq!((answer.status(), answer.exit, &answer.json["exit_code"]), ("nonzero_exit", 3, &json!(3)), "{}", answer.show());
        assert_eq!((&answer.json["stdout"], &answer.json["stdout_base64"]), (&output["stdout"]["text"], &output["stdout"]["base64"]));
        let screen = String::from_utf8(verb(bench, &["show", &id]).stdout).unwrap();
        assert!(!screen.contains(SECRET) && screen.contains("what it says is not kept any more"), "{screen}");
        assert_eq!(ran(bench), 1);
    }
}

as_both! {
    fn an_agent_sees_nothing_of_it(bench) {
        let id = waits(&asks(bench, "").run([RUN[0], RUN[1], RUN[2], "sh", "3"]));
        let policy = bench.dir.join("policy.toml");
        let call = |words: &[&str]| {
            bench.call().opt(["--policy".as_ref(), policy.as_os_str()]).env("GUARDEXEC_AGENT", "lead").opt(["approvals"]).opt(words).raw()
        };
        for words in [&["show", &id][..], &["show", "--json", &id]] {
            let answer = call(words);
            assert_eq!((answer.exit, answer.stdout.len()), (126, 0), "{}", answer.show());
            assert!(answer.stderr.contains("an asker does not see an output before it is given to it\nhint: "), "{}", answer.stderr);
        }
        for words in [&["list"][..], &["list", "--json"], &["export"]] {
            let answer = call(words);
            let text = String::from_utf8(answer.stdout).unwrap();
            assert!(answer.exit == 0 && text.contains(&id), "{text}");
            assert!(!text.contains("nonzero_exit") && !text.contains("\"exit_code\":3") && !text.contains("\"written\""), "{text}");
        }
    }
}

as_both! {
    fn what_checks_rewrote_is_what_waits(bench) {
        let to = json!({"verdict": "rewrite", "reason": "names", "replacement": {"stdout": "of [name]\n", "stderr": ""}});
        let tidy = bench.script("tidy", &format!("#!/bin/sh\ncat > /dev/null\ncat <<'END'\n{to}\nEND\n"));
        let more = format!("[[check]]\nname = \"tidy\"\non = \"output\"\nrewrite = true\nrun = {tidy:?}\n");
        let answer = asks(bench, &more).run(RUN);
        let id = waits(&answer);
        hides(&answer);
        let store = fs::read(bench.dir.join("state/state.db")).unwrap();
        assert!(!store.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()), "the original is nowhere");
        let screen = String::from_utf8(verb(bench, &["show", &id]).stdout).unwrap();
        assert!(screen.contains("           | of [name]\n") && screen.contains(&format!("; the command wrote {}\n", SECRET.len() + 1)), "{screen}");
        verb(bench, &["approve", &id]);
        let answer = asks(bench, &more).opt(["--approval", &id]).finish();
        answer.ok("of [name]\n");
        assert_eq!(answer.str("text"), "of [name]\n");
        assert!(answer.json["warnings"].to_string().contains("check 'tidy' rewrote the output: names"), "{}", answer.show());
    }
}

as_both! {
    fn only_its_asker_gets_it_and_only_under_the_same_policy(bench) {
        let ask = || asks(bench, "").opt(["--agent", "lead", "--session", "s1"]);
        let id = waits(&ask().run(RUN));
        verb(bench, &["approve", &id]);
        for (option, value) in [("--agent", "other"), ("--agent", "lead/child"), ("--session", "s2")] {
            barred(&asks(bench, "").opt(["--approval", &id, option, value]).finish(), &["is for agent 'lead', session 's1', and for nobody else"]);
        }
        barred(&asks(bench, "").env("GUARDEXEC_AGENT", "other").opt(["--approval", &id]).finish(), &["and for nobody else"]);
        // Another policy would have another switch, other sessions, and another record.
        barred(&asks(bench, "# changed\n").opt(["--approval", &id]).finish(), &["changed since the output was withheld"]);
        let answer = asks(bench, "").opt(["--approval", &id, "--agent", "lead"]).finish();
        assert_eq!((answer.exit, answer.str("agent"), answer.str("session")), (0, "lead", "s1"), "{}", answer.show());
        assert_eq!(ran(bench), 1);
    }
}

as_both! {
    fn the_switch_and_the_session_stand_before_it(bench) {
        let switch = bench.dir.join("switch/stop");
        fs::create_dir_all(switch.parent().unwrap()).unwrap();
        bench.give(switch.parent().unwrap());
        let more = format!("[kill_switch]\nfile = {switch:?}\n[session]\nhalt_on = [\"exit\"]\n");
        let words = [RUN[0], RUN[1], RUN[2], "x", "3"];
        let answer = asks(bench, &more).opt(["--session", "s1"]).run(words);
        let id = waits(&answer);
        // The session has seen how the run really ended, when it did.
        assert!(answer.json["warnings"].to_string().contains("session 's1' is halted now"), "{}", answer.show());
        verb(bench, &["approve", &id]);
        let get = || asks(bench, &more).opt(["--approval", &id]).finish();
        let answer = get();
        assert_eq!((answer.exit, answer.str("stage")), (126, "session"), "{}", answer.show());
        hides(&answer);
        let resumed = bench.call().opt(["--policy".into(), bench.dir.join("policy.toml")]).opt(["session", "resume", "s1"]).raw();
        assert_eq!(resumed.exit, 0, "{}", resumed.stderr);
        for said in ["", "shell # the rule alone\n"] {
            bench.file("switch/stop", said);
            let answer = get();
            assert_eq!((answer.exit, answer.str("stage")), (126, "kill_switch"), "{said:?} {}", answer.show());
            hides(&answer);
        }
        fs::remove_file(&switch).unwrap();
        let answer = get();
        assert_eq!((answer.exit, answer.str("stderr")), (3, SECRET), "{}", answer.show());
        // The end of that run is not counted again.
        let answer = asks(bench, &more).opt(["--session", "s1"]).run(["sh", "-c", "true"]);
        assert_eq!(answer.str("stage"), "output", "{}", answer.show());
        assert_eq!(ran(bench), 1);
    }
}

as_both! {
    fn an_alert_hears_of_the_run_and_a_rate_counts_it_once(bench) {
        let told = bench.dir.join("told");
        let alert = bench.script("alert", &format!("#!/bin/sh\ncat > /dev/null; echo x >> {}\n", told.display()));
        let more = format!(
            "[[alert]]\nname = \"slow\"\non = \"timeout\"\nabove = 0\nper = \"1h\"\nrun = {alert:?}\n[[rate]]\nname = \"few\"\nmatch = \"shell\"\ncount = 2\nper = \"1h\"\n"
        );
        let words = ["sh", "-c", "echo ran >> log; printf 's3%s' cret-of-the-run; exec sleep 20"];
        let id = waits(&asks(bench, &more).opt(["--timeout", "500ms"]).run(words));
        assert_eq!(fs::read_to_string(&told).unwrap_or_default(), "x\n");
        verb(bench, &["approve", &id]);
        let answer = asks(bench, &more).opt(["--approval", &id]).finish();
        assert_eq!((answer.status(), answer.exit, answer.str("stdout"), answer.str("limit")), ("timeout", 124, SECRET, "wall_time"), "{}", answer.show());
        assert_eq!(answer.str("text"), format!("error: timed out after 500ms\n{SECRET}"));
        assert_eq!(fs::read_to_string(&told).unwrap(), "x\n", "told once");
        waits(&asks(bench, &more).run(RUN));
        asks(bench, &more).run(RUN).denied_by("rate", &["few"]);
    }
}

as_both! {
    fn a_tool_and_a_built_in_action_wait_as_they_would_have_answered(bench) {
        bench.file("work/files/a", format!("{SECRET}\n"));
        let more = format!(
            "[tools.fail]\ndescription = \"x\"\nargv = [\"sh\", \"-c\", \"printf 's3%s' cret-of-the-run; exit 4\"]\ndecision = \"allow\"\ncheck_exit = true\n\
             [tools.read]\ndescription = \"x\"\ndecision = \"allow\"\naction = \"read_file\"\nroot = {:?}\nparams.path = {{ type = \"string\" }}\n",
            bench.work().join("files")
        );
        let call = || asks(bench, &more);
        let answer = call().opt(["--tool", "fail"]).finish();
        let id = waits(&answer);
        hides(&answer);
        verb(bench, &["approve", &id]);
        let answer = call().opt(["--approval", &id]).finish();
        assert_eq!((answer.status(), answer.exit, answer.str("stdout")), ("error", 125, SECRET), "{}", answer.show());
        assert_eq!(answer.json["error"]["kind"], "tool_exit", "{}", answer.show());
        assert!(answer.str("text").starts_with("error: tool 'fail' failed with exit status 4\n"), "{}", answer.show());
        let answer = call().opt(["--tool", "read", "--arg", "path=a"]).finish();
        let id = waits(&answer);
        hides(&answer);
        verb(bench, &["approve", &id]);
        fs::remove_file(bench.work().join("files/a")).unwrap();
        call().opt(["--approval", &id]).finish().ok(&format!("{SECRET}\n"));
    }
}

as_both! {
    fn what_is_too_large_or_cannot_be_bound_is_blocked(bench) {
        let limits = "[limits]\noutput = \"64M\"\n";
        let words = ["sh", "-c", "echo ran >> log; printf 's3%s' cret-of-the-run; head -c 17000000 /dev/zero | tr '\\0' x"];
        let answer = asks(bench, limits).run(words);
        barred(&answer, &["too large to wait for one: of a result 16 MiB are kept at most\n"]);
        assert!(answer.json["stdout_bytes"].is_null(), "{}", answer.show());
        assert!(!bench.dir.join("state/state.db").exists() || !verb(bench, &["list"]).stdout.starts_with(b"ID"));
        // What passes is not held up by its size, or by what cannot be bound.
        let pass = json!({"verdict": "pass"});
        assert_eq!(policy(bench, &pass, limits).run(words).exit, 0);
        let large = fs::File::create(bench.work().join("large")).unwrap();
        large.set_len((256 << 20) + 1).unwrap();
        let words = ["sh", "-c", "echo ran >> log; printf 's3%s' cret-of-the-run", "large"];
        assert_eq!(policy(bench, &pass, "").run(words).exit, 0);
        barred(&asks(bench, "").run(words), &["the content of 'large' cannot be bound: it is larger than 256 MiB"]);
        assert_eq!(ran(bench), 4);
    }
}

as_both! {
    fn a_policy_whose_checks_do_not_speak_of_it_hashes_nothing(bench) {
        // What cannot be read is in nobody's way where nothing is to be bound.
        let closed = bench.file("work/closed", "x");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        let more = "[[rule]]\nid = \"free\"\nprogram = \"date\"\ndecision = \"allow\"\n";
        let policy = |matches: &str| asks(bench, &format!("match = \"{matches}\"\n{more}"));
        let answer = policy("free").run(["sh", "-c", "echo x", "closed"]);
        answer.ok("x\n");
        let answer = policy("shell").run(["sh", "-c", "echo x", "closed"]);
        match bench.who {
            As::Root => drop(waits(&answer)),
            As::User => barred(&answer, &["the content of 'closed' cannot be bound: Permission denied"]),
        }
    }
}

as_both! {
    fn relayed_input_is_not_read_before_the_run(bench) {
        let answer = asks(bench, "").stdin("relayed\n").opt(["--stdin", "-"]).run(["cat"]);
        let id = waits(&answer);
        let screen = String::from_utf8(verb(bench, &["show", &id]).stdout).unwrap();
        assert!(screen.contains("stdin      guardexec's own, which was not kept\n") && screen.contains("           | relayed\n"), "{screen}");
        verb(bench, &["approve", &id]);
        asks(bench, "").opt(["--approval", &id]).finish().ok("relayed\n");
    }
}

as_both! {
    fn what_was_approved_to_run_may_have_to_be_asked_about_again(bench) {
        let more = "[[rule]]\nid = \"asks\"\nprogram = \"date\"\ndecision = \"ask\"\n";
        let words = ["date", "-u", "-d", "@0", "+%s"];
        let id = crate::approvals::running::asked(&asks(bench, more).run(words));
        verb(bench, &["approve", &id]);
        let answer = asks(bench, more).opt(["--approval", &id]).run(words);
        let output = waits(&answer);
        assert_ne!(output, id);
        verb(bench, &["approve", &output]);
        asks(bench, more).opt(["--approval", &output]).finish().ok("0\n");
    }
}

as_both! {
    fn whoever_is_told_does_not_get_the_output(bench) {
        let told = bench.dir.join("told");
        let hook = bench.script("notify", &format!("#!/bin/sh\ncat > {}\n", told.display()));
        let more = format!("[approval]\nnotify = {hook:?}\n");
        waits(&asks(bench, &more).run(RUN));
        let text = fs::read_to_string(&told).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&document["output"]["stdout"]["size"], &document["state"]), (&json!(SECRET.len() + 1), &json!("pending")));
        assert!(!text.contains(SECRET), "{text}");
    }
}

as_both! {
    fn explaining_says_what_it_would_give(bench) {
        let id = waits(&asks(bench, "").run(RUN));
        let explain = |more: &[&str]| {
            let call = bench.call().opt(["explain"]).opt(["--policy".into(), bench.dir.join("policy.toml")]).opt(["--approval", &id]).opt(more);
            let answer = call.raw();
            let text = String::from_utf8_lossy(&answer.stdout).into_owned();
            assert!(!text.contains(SECRET), "{text}");
            (answer.exit, text)
        };
        let (exit, text) = explain(&[]);
        assert!(exit == 75 && text.contains("do not run it again"), "{exit} {text}");
        verb(bench, &["approve", &id]);
        for more in [&[][..], &["--json"]] {
            let (exit, text) = explain(more);
            assert!(exit == 0 && text.contains("is approved and was not used: it gives the result of run ") && text.contains(": ok, exit code 0, 18 bytes on standard output, 17 on standard error"), "{exit} {text}");
        }
        assert_eq!(explain(&["--", "sh", "-c", "true"]).0, 126);
        assert_eq!(asks(bench, "").opt(["--approval", &id]).finish().exit, 0);
        let (exit, text) = explain(&[]);
        assert!(exit == 126 && text.contains("was used already"), "{exit} {text}");
        assert_eq!(ran(bench), 1);
    }
}

/// A policy that names one check and another that asks besides shows both.
#[test]
fn all_that_ask_are_causes() {
    let Some(bench) = Bench::new(if nix::unistd::geteuid().is_root() { As::Root } else { As::User }) else {
        return;
    };
    let also = bench.script(
        "also",
        "#!/bin/sh\ncat > /dev/null\necho '{\"verdict\": \"ask\", \"reason\": \"numbers\"}'\n",
    );
    let more = format!("severity = \"high\"\n[[check]]\nname = \"also\"\non = \"output\"\nrun = {also:?}\n");
    let id = waits(&asks(&bench, &more).run(RUN));
    let causes = verb(&bench, &["show", "--json", &id]).json["causes"].clone();
    assert_eq!(
        (&causes[0]["id"], &causes[1]["id"], &causes[1]["reason"]),
        (&json!("look"), &json!("also"), &json!("numbers"))
    );
}

as_both! {
    fn whoever_claims_names_does_not_lose_the_outputs_of_others_for_them(bench) {
        let more = "[approval]\nmax_pending = 1\n[session]\nhalt_on = [\"denied:1\"]\n[[rule]]\nid = \"echo\"\nprogram = \"echo\"\ndecision = \"ask\"\n";
        let _ = asks(bench, more);
        let call = |agent: &str| bench.call().opt(["--policy".into(), bench.dir.join("policy.toml")]).opt(["--agent", agent]);
        for agent in ["lead", "c1", "c2", "c3"] {
            let answer = call(agent).run(["echo", agent]);
            assert_eq!(answer.exit, 75, "{}", answer.show());
        }
        let refused = call("c4").run(["echo", "c4"]);
        assert!(refused.exit == 126 && refused.str("text").contains("cannot together have more than 4 requests"), "{}", refused.show());
        waits(&call("lead").env("GUARDEXEC_AGENT", "lead").run(RUN));
        for other in 5..16 {
            waits(&call(&format!("o{other}")).run(RUN));
        }
        // Here it ends for all, and is no fault of the session: it is not halted.
        for _ in 0..2 {
            let answer = call("honest").opt(["--session", "s"]).run(RUN);
            barred(&answer, &["all agents together, whatever their names, cannot have more than 16 requests", "it did run"]);
        }
        assert_eq!(ran(bench), 14);
    }
}
