//! Asking and using, through the binary: what waits, what runs, and that it runs once.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Answer, As, Bench, Call, eventually};

/// A policy that asks for `sh` and `cat`, keeps its state, and has these lines besides.
pub fn policy<'b>(bench: &'b Bench, more: &str) -> Call<'b> {
    let state = bench.dir.join("state");
    bench.policy(&format!(
        "[sandbox]\nprofile = \"host\"\n[env]\nrequest = [\"A\"]\n[[rule]]\nid = \"shell\"\nprogram = [\"sh\", \"cat\"]\ndecision = \
         \"ask\"\n[[rule]]\nid = \"free\"\nprogram = [\"date\"]\ndecision = \"allow\"\n[state]\ndir = {state:?}\n{more}\n"
    ))
}

/// The same policy without writing it anew, for calls that run at the same time.
fn again(bench: &Bench) -> Call<'_> {
    bench.call().opt(["--policy".into(), bench.dir.join("policy.toml")])
}

/// Asks, and gives the id of what waits.
#[track_caller]
pub fn asked(answer: &Answer) -> String {
    assert_eq!(
        (answer.status(), answer.exit, answer.str("stage")),
        ("needs_approval", 75, "approval"),
        "{}",
        answer.show()
    );
    answer.nothing_ran();
    let approval = &answer.json["approval"];
    assert_eq!(approval["state"], "pending", "{}", answer.show());
    let id = approval["id"].as_str().expect("an id").to_owned();
    assert!(answer.str("text").contains(&format!("--approval {id}")), "{}", answer.show());
    id
}

/// A verb of the operator's, who is the bench's user here.
#[track_caller]
pub fn verb(bench: &Bench, words: &[&str]) -> Answer {
    let answer = bench
        .call()
        .opt(["--policy".into(), bench.dir.join("policy.toml")])
        .opt(["approvals"])
        .opt(words)
        .raw();
    assert_eq!(answer.exit, 0, "{words:?}: {}", answer.stderr);
    answer
}

fn refused(answer: &Answer, parts: &[&str]) {
    answer.denied_by("approval", parts);
}

as_both! {
    fn case_133_and_135_an_approval_runs_once_and_the_same_command_asks_again(bench) {
        let call = || policy(bench, "");
        let words = ["sh", "-c", "echo ran >> log; echo out"];
        let id = asked(&call().run(words));
        assert_eq!(asked(&call().run(words)), id, "the same request shares it");
        assert_eq!(asked(&call().opt(["--approval", &id]).run(words)), id, "nobody has answered");
        verb(bench, &["approve", &id]);
        let answer = call().opt(["--approval", &id]).run(words);
        answer.ok("out\n");
        assert_eq!(answer.json["approval"]["state"], "consumed");
        refused(&call().opt(["--approval", &id]).run(words), &["was used already"]);
        refused(&call().opt(["--approval", &id]).finish(), &["was used already"]);
        assert_ne!(asked(&call().run(words)), id);
        assert_eq!(fs::read_to_string(bench.work().join("log")).unwrap(), "ran\n");
        refused(&call().opt(["--approval", "0000000000aa"]).run(words), &["there is no approval '0000000000aa'"]);
    }
}

as_both! {
    fn case_133_fifty_at_once_run_it_once(bench) {
        let words = ["sh", "-c", "echo ran >> log"];
        let id = asked(&policy(bench, "").run(words));
        verb(bench, &["approve", &id]);
        let children: Vec<_> = (0..50).map(|_| again(bench).opt(["--approval", &id]).start(words)).collect();
        let codes: Vec<i32> = children
            .into_iter()
            .map(|child| child.wait_with_output().expect("guardexec").status.code().expect("a status"))
            .collect();
        assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
        assert_eq!(codes.iter().filter(|code| **code == 126).count(), 49, "{codes:?}");
        assert_eq!(fs::read_to_string(bench.work().join("log")).unwrap(), "ran\n");
    }
}

as_both! {
    fn killed_at_any_moment_it_has_run_once_at_most(bench) {
        let words = ["sh", "-c", "echo ran >> log"];
        let ran = || fs::read_to_string(bench.work().join("log")).unwrap_or_default().lines().count();
        for round in 0..12 {
            let before = ran();
            let id = asked(&policy(bench, "").run(words));
            verb(bench, &["approve", &id]);
            let mut child = policy(bench, "").opt(["--approval", &id]).start(words);
            std::thread::sleep(Duration::from_millis(round * 6));
            let _ = child.kill();
            child.wait().expect("dead");
            // What it had started may still end by itself.
            let shown = |id: &str| verb(bench, &["show", "--json", id]).json["state"].clone();
            let state = shown(&id);
            let again = policy(bench, "").opt(["--approval", &id]).run(words);
            match state.as_str() {
                Some("approved") => drop(again.ok("")),
                Some("consumed") => refused(&again, &["was used already"]),
                other => panic!("{other:?}"),
            }
            assert!(eventually(Duration::from_secs(10), || ran() <= before + 1), "round {round}");
            if state == "approved" {
                assert_eq!(ran(), before + 1, "round {round}");
            }
        }
    }
}

as_both! {
    fn case_134_it_is_for_this_request_alone(bench) {
        bench.file("work/sub/s.sh", "echo s\n");
        bench.file("work/s.sh", "echo s\n");
        let call = |change: &[(&str, Value)]| {
            let mut request = json!({
                "argv": ["sh", "./s.sh"], "agent": "lead", "session": "s1", "env": {"A": "1"}, "stdin": "in", "timeout": "9s",
            });
            for (key, value) in change {
                request[*key] = value.clone();
            }
            policy(bench, "").stdin(request.to_string()).opt(["--request", "-"])
        };
        let id = asked(&call(&[]).finish());
        verb(bench, &["approve", &id]);
        for (key, value, part) in [
            ("argv", json!(["sh", "./s.sh", "-x"]), "it has 3 words, and had 2"),
            ("cwd", json!("sub"), "the working directory is "),
            ("env", json!({"A": "2"}), "the variable 'A' has another value"),
            ("stdin", json!("other"), "standard input is another one"),
            ("timeout", json!("8s"), "the setting wall_time of the run is another one"),
            ("agent", json!("other"), "is for agent 'lead', session 's1', and for nobody else"),
            ("session", json!("s2"), "is for agent 'lead', session 's1', and for nobody else"),
        ] {
            refused(&call(&[(key, value)]).opt(["--approval", &id]).finish(), &[part]);
        }
        bench.file("work/s.sh", "echo evil\n");
        refused(&call(&[]).opt(["--approval", &id]).finish(), &["the content of './s.sh' changed since it was asked for"]);
        bench.file("work/s.sh", "echo s\n");
        call(&[]).opt(["--approval", &id]).finish().ok("s\n");
    }
}

as_both! {
    fn what_was_filed_runs_without_being_given_again(bench) {
        let call = || policy(bench, "");
        let request = json!({"argv": ["sh", "-c", "cat; echo $A"], "agent": "lead", "env": {"A": "1"}, "stdin": "in\n", "why": "x"});
        let id = asked(&call().stdin(request.to_string()).opt(["--request", "-"]).finish());
        verb(bench, &["approve", &id]);
        refused(&call().opt(["--approval", &id, "--agent", "other"]).finish(), &["for nobody else"]);
        for (option, value) in [("--env", "A=2"), ("--stdin", "/dev/null"), ("--cwd", "."), ("--label", "a=b")] {
            let answer = call().opt(["--approval", &id, option, value]).finish();
            assert_eq!((answer.status(), answer.exit, &answer.json["error"]["kind"]), ("error", 125, &json!("usage")), "{}", answer.show());
            assert!(answer.str("text").contains(&format!("{option} cannot be given with --approval")), "{}", answer.show());
        }
        let answer = call().opt(["--approval", &id]).finish();
        answer.ok("in\n1\n");
        assert_eq!((answer.str("agent"), answer.audit[0]["state"].as_str()), ("lead", Some("consumed")));
        // Relayed input is read whole and kept; what is too large to keep has to be given again.
        let small = asked(&call().stdin("relayed\n").opt(["--stdin", "-"]).run(["cat"]));
        verb(bench, &["approve", &small]);
        call().opt(["--approval", &small]).finish().ok("relayed\n");
        let large = vec![b'x'; (1 << 20) + 1];
        let words = ["sh", "-c", "wc -c"];
        let id = asked(&call().stdin(large.clone()).opt(["--stdin", "-"]).run(words));
        verb(bench, &["approve", &id]);
        refused(&call().opt(["--approval", &id]).finish(), &["was too large to be kept"]);
        refused(&call().stdin("other").opt(["--approval", &id, "--stdin", "-"]).finish(), &["standard input is another one"]);
        call().stdin(large).opt(["--approval", &id, "--stdin", "-"]).finish().ok("1048577\n");
    }
}

as_both! {
    fn it_is_used_up_also_where_the_start_fails(bench) {
        // Neither a script nor a binary: found, executable, and nothing that the kernel starts.
        let script = bench.script("bin/own", "no program\n");
        let more = format!("[[rule]]\nid = \"own\"\nprogram = {script:?}\ndecision = \"ask\"\n");
        let words = [script.as_os_str()];
        let id = asked(&policy(bench, &more).run(words));
        verb(bench, &["approve", &id]);
        let answer = policy(bench, &more).opt(["--approval", &id]).run(words);
        assert_eq!((answer.status(), answer.exit), ("exec_failed", 126), "{}", answer.show());
        refused(&policy(bench, &more).opt(["--approval", &id]).run(words), &["was used already"]);
    }
}

as_both! {
    fn an_edit_runs_in_place_of_what_was_asked(bench) {
        let call = || policy(bench, "");
        let words = ["sh", "-c", "echo asked"];
        let id = asked(&call().run(words));
        verb(bench, &["approve", &id, "--argv", "sh", "-c", "echo edited"]);
        refused(&call().opt(["--approval", &id]).run(words), &["is for other words", &format!("--approval {id} and no command")]);
        let answer = call().run(words);
        assert_eq!((answer.exit, answer.json["approval"]["state"].as_str()), (75, Some("approved")), "{}", answer.show());
        assert!(answer.str("text").contains("other words were approved in its place"), "{}", answer.show());
        let answer = call().opt(["--approval", &id]).finish();
        answer.ok("edited\n");
        assert_eq!(answer.json["argv"], json!(["sh", "-c", "echo edited"]));
        // Words that need no approval can be approved in their place, and are used up as well.
        let id = asked(&call().run(words));
        verb(bench, &["approve", &id, "--argv", "date", "-u", "-d", "@0", "+%s"]);
        call().opt(["--approval", &id]).finish().ok("0\n");
        refused(&call().opt(["--approval", &id]).finish(), &["was used already"]);
    }
}

as_both! {
    fn whoever_waits_gets_the_answer(bench) {
        for (answer, words) in [("approve", ["sh", "-c", "echo yes"]), ("decline", ["sh", "-c", "echo no"])] {
            let child = policy(bench, "").opt(["--wait", "30s"]).start(words);
            let waiting = || {
                let list = bench.call().opt(["--policy".into(), bench.dir.join("policy.toml")]).opt(["approvals", "list", "--json"]).raw();
                Some(list.json[0]["id"].as_str()?.to_owned())
            };
            assert!(eventually(Duration::from_secs(20), || waiting().is_some()), "it was filed");
            let id = waiting().expect("an id");
            match answer {
                "approve" => verb(bench, &["approve", &id]),
                _ => verb(bench, &["decline", &id, "--reason", "not today"]),
            };
            let output = child.wait_with_output().expect("guardexec");
            let result: Value = serde_json::from_slice(&output.stdout).expect("a result");
            match answer {
                "approve" => assert_eq!((&result["status"], &result["stdout"]), (&"ok".into(), &"yes\n".into()), "{result}"),
                _ => {
                    assert_eq!((&result["status"], output.status.code()), (&"denied".into(), Some(126)), "{result}");
                    let text = result["text"].as_str().unwrap();
                    assert!(text.contains(&format!("approval {id} was declined by ")) && text.contains(": not today"), "{text}");
                }
            }
        }
    }
}

as_both! {
    fn whoever_waits_has_its_input_read_once(bench) {
        let call = policy(bench, "").stdin("relayed\n").opt(["--wait", "30s", "--stdin", "-"]);
        let waiting = || {
            let list = again(bench).opt(["approvals", "list", "--json"]).raw();
            Some(list.json[0]["id"].as_str()?.to_owned())
        };
        std::thread::scope(|scope| {
            let asker = scope.spawn(|| call.run(["cat"]));
            assert!(eventually(Duration::from_secs(20), || waiting().is_some()), "it was filed");
            verb(bench, &["approve", &waiting().expect("an id")]);
            asker.join().expect("the asker").ok("relayed\n");
        });
    }
}

as_both! {
    fn case_142_nobody_answers_in_time(bench) {
        let began = Instant::now();
        let answer = policy(bench, "").opt(["--wait", "700ms"]).run(["sh", "-c", "true"]);
        refused(&answer, &["nobody answered approval ", " within 700ms", "it can still be answered until "]);
        assert!(began.elapsed() >= Duration::from_millis(700));
        let mut child = policy(bench, "").opt(["--wait", "60s"]).start(["sh", "-c", "false"]);
        let filed = || bench.call().opt(["--policy".into(), bench.dir.join("policy.toml")]).opt(["approvals", "list", "--json"]).raw().json[1]["id"].is_string();
        assert!(eventually(Duration::from_secs(20), filed), "it was filed");
        let pid = nix::unistd::Pid::from_raw(child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        assert!(eventually(Duration::from_secs(10), || child.try_wait().unwrap().is_some()), "it ends at once");
        let output = child.wait_with_output().expect("guardexec");
        let result: Value = serde_json::from_slice(&output.stdout).expect("a result");
        assert_eq!((&result["status"], output.status.code()), (&"cancelled".into(), Some(143)), "{result}");
    }
}

as_both! {
    fn what_expires_cannot_be_used(bench) {
        let more = "[approval]\nexpires = \"2s\"\n";
        let words = ["sh", "-c", "true"];
        let id = asked(&policy(bench, more).run(words));
        verb(bench, &["approve", &id]);
        let used = || policy(bench, more).opt(["--approval", &id]).run(["sh", "-c", "false"]);
        assert!(eventually(Duration::from_secs(20), || used().str("text").contains("is over since")), "{}", used().show());
        refused(&policy(bench, more).opt(["--approval", &id]).run(words), &["the time of approval "]);
        assert_eq!(verb(bench, &["show", "--json", &id]).json["state"], "expired");
    }
}

as_both! {
    fn an_agent_has_only_so_many_waiting(bench) {
        let more = "[approval]\nmax_pending = 2\n";
        let call = |agent: &str, n: &str| policy(bench, more).opt(["--agent", agent]).run(["sh", "-c", n]);
        asked(&call("lead", "1"));
        asked(&call("lead/child", "2"));
        refused(&call("lead", "3"), &["agent 'lead' cannot have more than 2 requests that wait for an answer"]);
        asked(&call("other", "3"));
    }
}

as_both! {
    fn whoever_is_named_is_told_and_failing_is_a_warning(bench) {
        let told = bench.dir.join("told");
        let hook = bench.script("notify", &format!("#!/bin/sh\ncat >> {}\necho >> {}\nexit 3\n", told.display(), told.display()));
        let more = format!("[approval]\nnotify = {hook:?}\n");
        let answer = policy(bench, &more).run(["sh", "-c", "true"]);
        let id = asked(&answer);
        let warning = answer.json["warnings"][0].as_str().unwrap_or_default();
        assert!(warning.contains("(notify, ") && warning.contains("it exited with status 3"), "{}", answer.show());
        assert_eq!(asked(&policy(bench, &more).run(["sh", "-c", "true"])), id);
        let text = fs::read_to_string(&told).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1, "once for what was filed once: {text}");
        let document: Value = serde_json::from_str(lines[0]).unwrap();
        assert_eq!((&document["id"], &document["state"], &document["schema"]), (&id.into(), &"pending".into(), &"guardexec.approval/v1".into()));
    }
}

as_both! {
    fn whoever_waits_tells_when_nobody_answers(bench) {
        let told = bench.dir.join("told");
        let hook = bench.script("escalate", &format!("#!/bin/sh\ncat > /dev/null; echo x >> {}\n", told.display()));
        let more = format!("[approval]\nescalate = {hook:?}\nescalate_after = \"300ms\"\n");
        let answer = policy(bench, &more).opt(["--wait", "1500ms"]).run(["sh", "-c", "true"]);
        refused(&answer, &["nobody answered"]);
        verb(bench, &["list"]);
        assert_eq!(fs::read_to_string(&told).unwrap(), "x\n", "once");
    }
}

as_both! {
    fn what_changes_while_somebody_answers_at_once_was_not_approved(bench) {
        let job = bench.file("work/job.sh", "echo good\n");
        let swap = format!("#!/bin/sh\necho 'echo other' > {}\necho '{{\"verdict\": \"approve\"}}'\n", job.display());
        let hook = bench.script("swap", &swap);
        let answer = policy(bench, &format!("[approval]\nask = {hook:?}\n")).run(["sh", "job.sh"]);
        refused(&answer, &["the content of 'job.sh' changed while it was asked for"]);
        answer.nothing_ran();
        // It is there now, and stays as it is while it is asked about.
        policy(bench, &format!("[approval]\nask = {hook:?}\n")).run(["sh", "job.sh"]).ok("other\n");
    }
}

as_both! {
    fn a_program_of_the_policy_answers(bench) {
        // Any request in whose words `good` stands.
        let hook = bench.script("confirm", "#!/bin/sh\nif grep -q good; then echo '{\"verdict\": \"approve\"}'; else echo '{\"verdict\": \"decline\", \"reason\": \"no \\u001b[2K\"}'; fi\n");
        let more = format!("[approval]\nask = {hook:?}\n");
        policy(bench, &more).run(["sh", "-c", "echo good"]).ok("good\n");
        let answer = policy(bench, &more).run(["sh", "-c", "echo bad"]);
        answer.denied("blocked: confirmation for 'sh' denied");
        assert_eq!((answer.str("stage"), answer.audit[0]["state"].as_str(), answer.audit[0]["reason"].as_str()), ("approval", Some("declined"), Some("no \u{1b}[2K")));
        assert_eq!(answer.json["warnings"], json!([format!("the program '{}' did not approve: no \u{1b}[2K", hook.display())]), "{}", answer.show());
        let crash = bench.script("crash", "#!/bin/sh\nkill -SEGV $$\n");
        for (hook, why) in [(crash, "signal 11 ended it"), (bench.dir.join("missing"), "it was not started: ")] {
            let answer = policy(bench, &format!("[approval]\nask = {hook:?}\n")).run(["sh", "-c", "echo good"]);
            answer.denied("blocked: confirmation for 'sh' denied");
            let said = answer.json["warnings"][0].as_str().unwrap_or_default();
            assert!(said.contains(&format!("/{}' did not approve: {why}", hook.file_name().unwrap().display())), "{}", answer.show());
        }
        let deny = "[approval]\nask = \"deny\"\n[tools.remove]\ndescription = \"x\"\nargv = [\"sh\", \"-c\", \"true\"]\ndecision = \"ask\"\n";
        policy(bench, deny).run(["sh", "-c", "true"]).denied("blocked: command 'sh' requires confirmation but no confirm hook is set");
        policy(bench, deny).opt(["--tool", "remove"]).finish().denied("blocked: tool 'remove' requires confirmation but no confirm hook is set");
    }
}

as_both! {
    fn what_cannot_be_bound_cannot_be_approved(bench) {
        let large = fs::File::create(bench.work().join("large")).unwrap();
        large.set_len((256 << 20) + 1).unwrap();
        refused(&policy(bench, "").run(["cat", "large"]), &["the content of 'large' cannot be bound: it is larger than 256 MiB"]);
        let closed = bench.file("work/closed", "x");
        fs::set_permissions(closed, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
        let answer = policy(bench, "").run(["cat", "closed"]);
        match bench.who {
            As::Root => drop(asked(&answer)),
            As::User => refused(&answer, &["the content of 'closed' cannot be bound: Permission denied"]),
        }
    }
}

as_both! {
    fn explaining_uses_nothing(bench) {
        let words = ["sh", "-c", "echo x"];
        let id = asked(&policy(bench, "").run(words));
        let explain = |more: &[&str]| {
            let call = bench.call().opt(["explain"]).opt(["--policy".into(), bench.dir.join("policy.toml")]).opt(more).opt(["--"]).opt(words);
            let answer = call.raw();
            (answer.exit, String::from_utf8_lossy(&answer.stdout).into_owned())
        };
        assert_eq!(explain(&["--approval", &id]).0, 75);
        verb(bench, &["approve", &id]);
        for _ in 0..2 {
            let (exit, text) = explain(&["--approval", &id]);
            assert!(exit == 0 && text.contains("is approved and was not used"), "{exit} {text}");
        }
        policy(bench, "").opt(["--approval", &id]).run(words).ok("x\n");
        let (exit, text) = explain(&["--approval", &id]);
        assert!(exit == 126 && text.contains("was used already"), "{exit} {text}");
    }
}

as_both! {
    fn a_run_under_strict_cannot_reach_the_store(bench) {
        let state = bench.dir.join("state");
        let call = |profile: &str| {
            bench.policy(&format!(
                "[sandbox]\nprofile = \"{profile}\"\n[filesystem]\ncwd = [{work:?}]\nread = [{dir:?}]\nwrite = [{work:?}]\n[state]\ndir = {state:?}\n\
                 [[rule]]\nid = \"shell\"\nprogram = \"sh\"\ndecision = \"allow\"\nexec = [\"cat\", \"ls\", \"touch\"]\n[[rule]]\nid = \"asks\"\nprogram = \"date\"\n\
                 decision = \"ask\"\n",
                dir = bench.dir,
                work = bench.work(),
            ))
        };
        for profile in ["strict", "workspace"] {
            let id = asked(&call(profile).run(["date", "+%s"]));
            let answer = call(profile).run(["sh".to_owned(), "-c".into(), format!("cat {0}/state.db; ls {0}; touch {0}/x; echo x > {0}/state.db; echo end", state.display())]);
            assert_eq!(answer.str("stdout"), "end\n", "{}", answer.show());
            assert!(!state.join("x").exists());
            assert_eq!(verb(bench, &["show", "--json", &id]).json["state"], "pending");
        }
    }
}

/// guardexec with a terminal of its own, on which something was typed `ahead` and a person does something; the result, the
/// exit status and what the terminal saw.
pub fn at_terminal(
    call: Call<'_>,
    words: &[&str],
    ahead: &[u8],
    person: impl FnOnce(&mut fs::File),
) -> (Value, i32, String) {
    use std::io::Read as _;
    let pair = nix::pty::openpty(None, None).expect("a terminal");
    let mut master = fs::File::from(pair.master);
    std::io::Write::write_all(&mut master, ahead).expect("typed");
    let call =
        call.wrap(["setsid", "-c", "-w", "sh", "-c", "exec \"$@\" < /dev/null", "sh"]).opt(["--"]).opt(words);
    let child = call
        .process()
        .stdin(Stdio::from(pair.slave.try_clone().unwrap()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("start");
    drop(pair.slave);
    person(&mut master);
    let mut seen = Vec::new();
    let output = child.wait_with_output().expect("guardexec");
    // Behind the last byte a terminal without anybody on the other side is an error.
    let mut piece = [0; 4096];
    while let Ok(n @ 1..) = master.read(&mut piece) {
        seen.extend_from_slice(&piece[..n]);
    }
    let result = serde_json::from_slice(&output.stdout).expect("a result");
    (result, output.status.code().unwrap_or(-1), String::from_utf8_lossy(&seen).into_owned())
}

/// Reads from the terminal until the question stands there.
pub fn until_asked(master: &mut fs::File) -> String {
    use std::io::Read as _;
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"declines: ") {
        assert_eq!(master.read(&mut byte).expect("a terminal"), 1);
        seen.push(byte[0]);
    }
    String::from_utf8(seen).expect("UTF-8")
}

pub const TTY: &str = "[approval]\nask = \"tty\"\ntimeout = \"20s\"\n";

as_both! {
    fn whoever_sits_at_the_terminal_answers(bench) {
        use std::io::Write as _;
        let mut screen = String::new();
        let (result, exit, _) = at_terminal(policy(bench, TTY), &["sh", "-c", "echo ran"], b"", |master| {
            screen = until_asked(master);
            master.write_all(b"yes\n").unwrap();
        });
        assert_eq!((&result["status"], &result["stdout"], exit), (&"ok".into(), &"ran\n".into(), 0), "{result}");
        assert!(screen.contains("[2] 'echo ran'\r\n") && screen.contains("because    'shell'"), "{screen}");
        let (result, exit, _) = at_terminal(policy(bench, TTY), &["sh", "-c", "echo ran"], b"", |master| {
            until_asked(master);
            master.write_all(b"y\n").unwrap();
        });
        assert_eq!((&result["text"], exit), (&"blocked: confirmation for 'sh' denied".into(), 126), "{result}");
        // Typed before the question was there: dropped, and nobody answers any more.
        let more = "[approval]\nask = \"tty\"\ntimeout = \"1s\"\n";
        let (result, exit, _) = at_terminal(policy(bench, more), &["sh", "-c", "echo ran"], b"yes\nyes\n", |master| {
            until_asked(master);
        });
        assert_eq!(exit, 126, "{result}");
        assert!(result["text"].as_str().unwrap().starts_with("blocked: nobody answered within 1s"), "{result}");
    }
}

as_both! {
    fn case_141_without_a_terminal_it_is_denied_at_once(bench) {
        let began = Instant::now();
        let answer = policy(bench, TTY).wrap(["setsid", "-w"]).stdin("yes\nyes\n").run(["sh", "-c", "true"]);
        refused(&answer, &["command 'sh' needs an approval at the terminal, and guardexec has no terminal"]);
        assert!(began.elapsed() < Duration::from_secs(15));
        let (result, exit, seen) = at_terminal(policy(bench, TTY), &["sh", "-c", &"x".repeat(65 << 10)], b"", |_| {});
        assert_eq!(exit, 126, "{result}");
        assert!(result["text"].as_str().unwrap().contains("is too long for a terminal") && seen.is_empty(), "{result}");
    }
}
