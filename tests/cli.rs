//! The command line and the JSON request: what is taken, what is refused, and how a refusal is said.

use std::ffi::OsStr;

use serde_json::{Value, json};

use crate::harness::{Answer, Bench};

fn ask(bench: &Bench, policy: &str, request: impl ToString) -> Answer {
    bench.host(policy).opt(["--request", "-"]).stdin(request.to_string()).finish()
}

as_both! {
    fn every_key_of_a_json_request_counts(bench) {
        bench.file("work/sub/x", "");
        let policy = "allow = [\"sh\"]\n[env]\nrequest = [\"A\"]\npass = [\"B\"]\n";
        let request = json!({
            "argv": ["sh", "-c", "cat; echo $A; pwd"], "cwd": "sub", "env": {"A": "va", "B": null}, "stdin": "in\u{e9}\n", "timeout": "7s",
            "agent": "lead/child", "session": "s 1", "labels": {"k": "v", "empty": ""}, "why": "because",
        });
        let a = ask(bench, policy, &request);
        a.ok(&format!("in\u{e9}\nva\n{}/sub\n", bench.work().display()));
        assert_eq!((a.str("agent"), a.str("session"), &a.json["labels"]), ("lead/child", "s 1", &json!({"k": "v", "empty": ""})), "{}", a.show());
        assert_eq!(a.json["limits"]["wall_time"]["value"], 7000);
        assert_eq!((&a.audit[0]["agent"], &a.audit[0]["session"], &a.audit[0]["labels"]["k"]), (&json!("lead/child"), &json!("s 1"), &json!("v")));
        let a = ask(bench, policy, json!({"command": "sh -c 'cat'", "stdin_base64": "/wD+"}));
        assert_eq!((a.status(), a.str("stdout_base64")), ("ok", "/wD+"), "{}", a.show());
        // From a file as well.
        let file = bench.file("ask.json", json!({"argv": ["sh", "-c", "echo f"]}).to_string());
        bench.host(policy).opt(["--request".as_ref(), file.as_os_str()]).finish().ok("f\n");
        crate::harness::schema::check("request", &request);
    }
}

as_both! {
    fn a_large_standard_input_in_a_request_arrives_whole(bench) {
        let text = "0123456789abcdef".repeat(1 << 16);
        ask(bench, "allow = [\"wc\"]\n", json!({"argv": ["wc", "-c"], "stdin": text})).ok("1048576\n");
        ask(bench, "allow = [\"true\"]\n", json!({"argv": ["true"], "stdin": text})).ok("");
    }
}

as_both! {
    fn a_json_request_is_taken_strictly(bench) {
        let wrong = [
            ("{\"argv\":[\"true\"],\"polcy\":\"x\"}", "'polcy'"), ("{\"argv\":[\"true\"],\"policy\":\"x\"}", "command line"),
            ("{\"argv\":[\"true\"],\"audit\":\"x\"}", "'audit'"), ("{\"argv\":[\"true\"],\"state\":\"x\"}", "'state'"),
            ("{\"argv\":[\"true\"],\"output\":\"x\"}", "'output'"), ("{\"argv\":[\"true\"],\"timout\":\"5s\"}", "'timeout'"),
            ("{\"argv\":[\"rm\"],\"argv\":[\"true\"]}", "twice"), ("{\"argv\":[\"true\"],\"env\":{\"A\":\"1\",\"A\":\"2\"}}", "twice"),
            ("{\"argv\":[\"true\"]} x", "cannot be read"), ("{\"argv\":[\"true\"]}{}", "cannot be read"), ("[\"true\"]", "not an object"), ("", "cannot be read"),
            ("{\"argv\":[\"true\"],\"command\":\"true\"}", "exactly one"), ("{}", "exactly one"), ("{\"argv\":[]}", "empty"), ("{\"argv\":\"true\"}", "list"),
            ("{\"argv\":[1]}", "list"), ("{\"argv\":[\"true\"],\"stdin\":\"a\",\"stdin_base64\":\"YQ==\"}", "at most one"),
            ("{\"argv\":[\"true\"],\"stdin_base64\":\"?\"}", "base64"), ("{\"argv\":[\"true\"],\"timeout\":5}", "'timeout'"), ("{\"argv\":[\"true\"],\"timeout\":\"5\"}", "unit"),
            ("{\"argv\":[\"true\"],\"labels\":{\"a\":1}}", "labels"), ("{\"argv\":[\"true\"],\"agent\":\"a\\nb\"}", "control"), ("{\"argv\":[\"true\"],\"arguments\":{}}", "'tool'"),
        ];
        for (text, part) in wrong {
            let a = ask(bench, "allow = [\"true\"]\n", text);
            a.error(&["error: ", part]);
            assert_eq!(a.stderr.lines().count(), 1, "{}", a.show());
        }
        let a = bench.host("allow = [\"true\"]\n").opt(["--request", "-"]).stdin(b"{\"argv\":[\"\xff\"]}".to_vec()).finish();
        a.error(&["UTF-8"]);
        bench.host("allow = [\"true\"]\n").opt(["--request", "/nonexistent.json"]).finish().error(&["/nonexistent.json"]);
    }
}

as_both! {
    fn usage_errors_are_one_line_and_a_result(bench) {
        let wrong: [(&[&str], &str); 17] = [
            (&[], "nothing to run"), (&["--nope", "--", "true"], "--nope"), (&["--polcy", "x", "--", "true"], "--policy"), (&["true"], "`--`"),
            (&["--timeout", "5", "--", "true"], "unit"), (&["--timeout", "0s", "--", "true"], "zero"), (&["--command", "true", "--", "true"], "--command"),
            (&["--output", "xml", "--", "true"], "xml"), (&["--label", "x", "--", "true"], "K=V"), (&["--label", "a=1", "--label", "a=2", "--", "true"], "twice"),
            (&["--env", "A=1", "--env", "A=2", "--", "true"], "twice"), (&["--env", "=x", "--", "true"], "name"), (&["--agent", "", "--", "true"], "empty"),
            (&["--agent", "a\u{1b}[2K", "--", "true"], "control"), (&["--request", "-", "--agent", "x"], "--agent"), (&["--result-fd", "x", "--", "true"], "--result-fd"),
            (&["--arg", "a=b", "--", "true"], "--arg"),
        ];
        for (words, part) in wrong {
            let a = bench.call().opt(words).finish();
            a.error(&["error: ", part]);
            assert_eq!(a.stderr.lines().count(), 1, "{words:?}\n{}", a.stderr);
            let mut text = vec!["--output", "text"];
            text.extend(words.iter().filter(|w| !["--output", "xml"].contains(w)));
            if words.contains(&"xml") { continue }
            let a = bench.call().opt(text).raw();
            assert_eq!((a.exit, a.stderr.lines().count(), a.json.is_null()), (125, 1, true), "{words:?}\n{}", a.show());
        }
        // Whatever follows `--` is the command's own.
        let a = bench.host("allow = [\"echo\"]\n").run(["echo", "--output", "raw", "check", "--", "-p"]);
        a.ok("--output raw check -- -p\n");
        bench.host("allow = [\"echo\"]\n").run(["check"]).denied_by("command", &["'check'"]);
    }
}

as_both! {
    fn an_inherited_agent_binds(bench) {
        let policy = "allow = [\"true\"]\n[[rule]]\nid = \"b\"\nprogram = \"echo\"\ndecision = \"allow\"\nagents = [\"builder\"]\n";
        let agent = |a: &Answer| a.str("agent").to_owned();
        let a = bench.host(policy).run(["true"]);
        assert_eq!(a.json["agent"], Value::Null);
        let a = bench.host(policy).opt(["--agent", "builder", "--session", "s", "--label", "x=y=z"]).run(["echo", "hi"]);
        a.ok("hi\n");
        assert_eq!((agent(&a).as_str(), a.str("session"), a.json["labels"]["x"].as_str()), ("builder", "s", Some("y=z")));
        for other in [&["--agent", "tester"][..], &[]] {
            bench.host(policy).opt(other).run(["echo", "hi"]).denied_by("command", &["blocked: "]);
        }
        let a = bench.host(policy).env("GUARDEXEC_AGENT", "lead").run(["true"]);
        assert_eq!((a.status(), agent(&a).as_str()), ("ok", "lead"));
        let a = bench.host(policy).env("GUARDEXEC_AGENT", "lead").opt(["--agent", "lead/kid"]).run(["true"]);
        assert_eq!((a.status(), agent(&a).as_str()), ("ok", "lead/kid"));
        let a = bench.host(policy).env("GUARDEXEC_AGENT", "").opt(["--agent", "free"]).run(["true"]);
        assert_eq!((a.status(), agent(&a).as_str()), ("ok", "free"));
        for claimed in ["builder", "leader", "lead/", "lead//x", ""] {
            let a = bench.host(policy).env("GUARDEXEC_AGENT", "lead").opt(["--agent", claimed]).run(["true"]);
            a.error(&["agent"]);
            if !claimed.is_empty() {
                let a = { bench.host(policy).env("GUARDEXEC_AGENT", "lead").opt(["--request", "-"]).stdin(json!({"argv": ["true"], "agent": claimed}).to_string()).finish() };
                a.error(&["agent"]);
            }
        }
    }
}

as_both! {
    fn an_inherited_agent_that_is_no_text_ends_the_call(bench) {
        use std::os::unix::ffi::OsStrExt as _;
        // What a lossy conversion would make of it is a name that the policy knows.
        let policy = "[[rule]]\nid = \"r\"\nprogram = \"true\"\ndecision = \"allow\"\nagents = [\"le\u{fffd}ad\"]\n";
        let environment = [OsStr::new("env"), OsStr::from_bytes(b"GUARDEXEC_AGENT=le\xffad")];
        let says = r"GUARDEXEC_AGENT is 'le\xffad', which is not UTF-8 text";
        let a = bench.host(policy).wrap(environment).run(["true"]);
        a.error(&[says]).nothing_ran();
        assert_eq!((a.exit, a.str("status")), (125, "error"), "{}", a.show());
        for verb in [&["explain", "--", "true"][..], &["tools"], &["approvals", "list"], &["session", "list"]] {
            let a = bench.call().wrap(environment).opt(verb).raw();
            assert!(a.exit == 125 && a.stdout.is_empty() && a.stderr.contains(says), "{verb:?}\n{}", a.show());
        }
        assert_eq!(bench.call().wrap(environment).opt(["--help"]).raw().exit, 0);
    }
}

as_both! {
    fn results_and_records_tell_the_same_story(bench) {
        let a = bench.host("allow = [\"sh\"]\n").opt(["--agent", "a"]).run(["sh", "-c", "echo out; echo err >&2; exit 3"]);
        assert_eq!((a.status(), a.exit, a.str("text")), ("nonzero_exit", 3, "out\nerr\nexit=3"), "{}", a.show());
        let (decision, outcome) = (&a.audit[0], &a.audit[1]);
        for key in ["run_id", "decision", "rule", "reason", "argv", "program", "cwd", "agent", "session", "labels", "policy"] {
            assert_eq!(decision[key], a.json[key], "{key}\n{}", a.show());
        }
        for key in ["run_id", "status", "exit_code", "exit_status", "signal", "limit", "duration_ms", "stdout_bytes", "stderr_bytes", "processes"] {
            assert_eq!(outcome[key], a.json[key], "{key}\n{}", a.show());
        }
        assert_eq!((decision["prev"].is_null(), &outcome["prev"]), (true, &decision["hash"]));
        let b = bench.host("allow = [\"sh\"]\n").run(["sh", "-c", "exit 0"]);
        assert!(b.str("run_id") > a.str("run_id"), "they sort by time");
        let all = crate::harness::read_audit(&bench.dir.join("audit.jsonl"));
        assert_eq!((all.len(), &all[2]["prev"]), (4, &outcome["hash"]));
    }
}
