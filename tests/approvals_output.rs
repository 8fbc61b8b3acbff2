//! What a check on an output asks about: nothing of it goes out before a person has answered, then it is given once, and the
//! command has run once whatever comes of it.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::approvals::running::{TTY, at_terminal, until_asked, verb};
use crate::harness::{Answer, Bench, Call, eventually};

mod standing;

/// Writes this to both streams, without any of it standing among the words, and notes that it ran.
const SECRET: &str = "s3cret-of-the-run";
const RUN: [&str; 3] = [
    "sh",
    "-c",
    "echo ran >> log; printf 's3%s\\n' cret-of-the-run; printf 's3%s' cret-of-the-run >&2; exit ${1:-0}",
];

/// A policy that allows `sh` and `cat`, keeps its state, and whose check `look` answers with this about every output.
pub fn policy<'b>(bench: &'b Bench, answer: &Value, more: &str) -> Call<'b> {
    let state = bench.dir.join("state");
    let look = bench.script("look", &format!("#!/bin/sh\ncat > /dev/null\ncat <<'END'\n{answer}\nEND\n"));
    bench.policy(&format!(
        "[sandbox]\nprofile = \"host\"\n[[rule]]\nid = \"shell\"\nprogram = [\"sh\", \"cat\"]\ndecision = \"allow\"\n[state]\ndir = \
         {state:?}\n[[check]]\nname = \"look\"\non = \"output\"\nrun = {look:?}\n{more}\n"
    ))
}

/// The usual one.
pub fn asks<'b>(bench: &'b Bench, more: &str) -> Call<'b> {
    policy(bench, &json!({"verdict": "ask", "reason": "names in it"}), more)
}

/// The same policy without writing it anew, for calls that run at the same time.
fn again(bench: &Bench) -> Call<'_> {
    bench.call().opt(["--policy".into(), bench.dir.join("policy.toml")])
}

/// How often the command has run.
pub fn ran(bench: &Bench) -> usize {
    fs::read_to_string(bench.work().join("log")).unwrap_or_default().lines().count()
}

/// The output waits; gives the id.
#[track_caller]
pub fn waits(answer: &Answer) -> String {
    assert_eq!(
        (answer.status(), answer.exit, answer.str("stage"), answer.str("decision")),
        ("needs_approval", 75, "output", "allow"),
        "{}",
        answer.show()
    );
    for key in [
        "exit_code",
        "signal",
        "limit",
        "stdout",
        "stderr",
        "stdout_bytes",
        "stderr_bytes",
        "error",
        "cpu_user_ms",
        "cpu_system_ms",
        "max_rss_bytes",
        "processes",
        "survivors",
    ] {
        assert!(answer.json[key].is_null(), "{key}\n{}", answer.show());
    }
    assert_eq!(answer.json["violations"], json!([]), "{}", answer.show());
    let approval = &answer.json["approval"];
    assert_eq!(approval["state"], "pending", "{}", answer.show());
    let id = approval["id"].as_str().expect("an id").to_owned();
    for part in [
        "check 'look' wants a person to decide",
        "it did run, do not run it again",
        &format!("--approval {id}"),
    ] {
        assert!(answer.str("text").contains(part), "{part:?} is not in\n{}", answer.show());
    }
    id
}

/// It did run, and this is why nothing of it goes out.
#[track_caller]
pub fn barred(answer: &Answer, parts: &[&str]) {
    assert_eq!(
        (answer.status(), answer.exit, answer.str("stage")),
        ("denied", 126, "approval"),
        "{}",
        answer.show()
    );
    for part in parts {
        assert!(answer.str("text").contains(part), "{part:?} is not in\n{}", answer.show());
    }
    hides(answer);
}

/// Nothing of the output is anywhere in the answer.
#[track_caller]
pub fn hides(answer: &Answer) {
    let everything =
        format!("{}{}{:?}", String::from_utf8_lossy(&answer.stdout), answer.stderr, answer.audit);
    assert!(!everything.contains(SECRET) && !everything.contains("czNjcmV0"), "{}", answer.show());
}

/// Whether the store holds it.
fn kept(bench: &Bench) -> bool {
    let bytes = fs::read(bench.dir.join("state/state.db")).unwrap_or_default();
    bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
}

fn events(answer: &Answer) -> Vec<&str> {
    answer.audit.iter().map(|record| record["event"].as_str().unwrap_or_default()).collect()
}

as_both! {
    fn what_is_withheld_appears_nowhere_and_is_given_once_to_twenty(bench) {
        let file = bench.dir.join("result.json");
        let answer = asks(bench, "").opt(["--result-file".as_ref(), file.as_os_str()]).run(RUN);
        let id = waits(&answer);
        hides(&answer);
        assert!(!fs::read_to_string(&file).unwrap().contains(SECRET));
        assert_eq!(events(&answer), ["decision", "approval", "outcome"]);
        let outcome = &answer.audit[2];
        assert_eq!((&outcome["status"], &outcome["stage"], &outcome["exit_code"], &outcome["checks"][0]["verdict"]), (&json!("needs_approval"), &json!("output"), &json!(0), &json!("ask")), "{}", answer.show());
        assert_eq!((&answer.audit[1]["id"], &answer.audit[1]["state"]), (&json!(id), &json!("pending")));
        assert!(kept(bench));
        // Nobody has answered yet.
        let early = asks(bench, "").opt(["--approval", &id]).finish();
        assert_eq!(waits(&early), id);
        hides(&early);
        verb(bench, &["approve", &id, "--note", "fine"]);
        let children: Vec<_> = (0..20).map(|_| {
            let mut call = again(bench).opt(["--approval", &id]).process();
            call.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start")
        }).collect();
        let answers: Vec<Value> = children
            .into_iter()
            .map(|child| serde_json::from_slice(&child.wait_with_output().expect("guardexec").stdout).expect("a result"))
            .collect();
        answers.iter().for_each(|answer| crate::harness::schema::check("result", answer));
        let (given, refused): (Vec<&Value>, Vec<&Value>) = answers.iter().partition(|answer| answer["status"] == "ok");
        assert_eq!((given.len(), refused.len()), (1, 19), "{answers:?}");
        let given = given[0];
        assert_eq!((&given["stdout"], &given["stderr"]), (&json!(format!("{SECRET}\n")), &json!(SECRET)), "{given}");
        assert_eq!((&given["text"], &given["exit_code"], &given["exit_status"]), (&json!(format!("{SECRET}\n{SECRET}")), &json!(0), &json!(0)));
        assert_eq!((&given["approval"]["id"], &given["approval"]["state"], &given["argv"]), (&json!(id), &json!("consumed"), &answer.json["argv"]));
        assert_ne!(given["run_id"], answer.json["run_id"]);
        assert!(given["warnings"][0].as_str().unwrap().contains(answer.str("run_id")), "{given}");
        for refused in refused {
            assert_eq!((&refused["status"], &refused["exit_status"], &refused["stage"]), (&json!("denied"), &json!(126), &json!("approval")), "{refused}");
            assert!(refused["text"].as_str().unwrap().contains("was used already") && !refused.to_string().contains(SECRET), "{refused}");
        }
        assert!(!kept(bench), "what was handed out is forgotten");
        let all = crate::harness::read_audit(&bench.dir.join("audit.jsonl"));
        assert!(!format!("{all:?}").contains(SECRET));
        let of_it: Vec<&Value> = all.iter().filter(|record| record["run_id"] == given["run_id"]).collect();
        let shape: Vec<_> = of_it.iter().map(|record| (record["event"].as_str(), record["state"].as_str(), record["status"].as_str())).collect();
        assert_eq!(shape, [(Some("approval"), Some("consumed"), None), (Some("decision"), None, Some("ok"))]);
        assert_eq!(of_it[0]["reason"], "fine");
        assert_eq!(all.iter().filter(|record| record["state"] == "consumed").count(), 1);
        assert_eq!(ran(bench), 1);
    }
}

as_both! {
    fn declined_and_expired_it_never_goes_out(bench) {
        let id = waits(&asks(bench, "").run(RUN));
        verb(bench, &["decline", &id, "--reason", "not these"]);
        for _ in 0..2 {
            barred(&asks(bench, "").opt(["--approval", &id]).finish(), &[&format!("approval {id} was declined by "), ": not these", "do not run it again"]);
        }
        assert!(!kept(bench), "it is forgotten with the answer");
        let more = "[approval]\nexpires = \"2s\"\n";
        let id = waits(&asks(bench, more).run(RUN));
        verb(bench, &["approve", &id]);
        let over = || verb(bench, &["show", "--json", &id]).json["state"] == "expired";
        assert!(eventually(Duration::from_secs(20), over));
        barred(&asks(bench, more).opt(["--approval", &id]).finish(), &["is over since", "do not run it again"]);
        assert_eq!(ran(bench), 2, "once each");
    }
}

as_both! {
    fn a_command_with_such_an_approval_does_not_run(bench) {
        let id = waits(&asks(bench, "").run(RUN));
        verb(bench, &["approve", &id]);
        let answer = asks(bench, "").opt(["--approval", &id]).run(RUN);
        answer.denied_by("approval", &["is for the output of a run that is over, and runs nothing", &format!("--approval {id} and no command")]);
        for (option, value) in [("--cwd", "/"), ("--env", "A=1"), ("--stdin", "-"), ("--timeout", "1s"), ("--why", "x"), ("--label", "a=b")] {
            barred(&asks(bench, "").opt(["--approval", &id, option, value]).finish(), &[&format!("{option} cannot be given")]);
        }
        assert_eq!(ran(bench), 1);
        let answer = asks(bench, "").opt(["--approval", &id]).finish();
        assert_eq!((answer.exit, answer.str("stdout")), (0, format!("{SECRET}\n").as_str()), "{}", answer.show());
    }
}

as_both! {
    fn a_program_of_the_policy_answers_at_once(bench) {
        let seen = bench.dir.join("seen.json");
        for (verdict, said) in [("approve", "fine"), ("decline", "not these")] {
            let hook = bench.script("confirm", &format!("#!/bin/sh\ncat > {}\necho '{{\"verdict\": \"{verdict}\", \"reason\": \"{said}\"}}'\n", seen.display()));
            let answer = asks(bench, &format!("[approval]\nask = {hook:?}\n")).run(RUN);
            let document: Value = serde_json::from_slice(&fs::read(&seen).expect("it was asked")).expect("JSON");
            let output = &document["output"];
            assert_eq!((&output["stdout"]["text"], &output["stderr"]["text"], &output["exit_code"]), (&json!(format!("{SECRET}\n")), &json!(SECRET), &json!(0)), "{document}");
            assert_eq!((&document["causes"][0]["id"], &output["run_id"]), (&json!("look"), &answer.json["run_id"]), "{document}");
            if verdict == "approve" {
                assert_eq!((answer.exit, answer.str("stdout"), answer.str("stderr")), (0, format!("{SECRET}\n").as_str(), SECRET), "{}", answer.show());
                assert_eq!(events(&answer), ["decision", "approval", "outcome"]);
                assert_eq!((&answer.audit[1]["state"], &answer.audit[1]["reason"]), (&json!("approved"), &json!("fine")));
            } else {
                barred(&answer, &["blocked: confirmation for 'sh' denied\nhint: it did run, and its output stays withheld"]);
                assert_eq!((answer.str("decision"), &answer.audit[1]["reason"]), ("allow", &json!("not these")), "{}", answer.show());
            }
        }
        let hook = bench.script("crash", "#!/bin/sh\nkill -SEGV $$\n");
        barred(&asks(bench, &format!("[approval]\nask = {hook:?}\n")).run(RUN), &["blocked: confirmation for 'sh' denied"]);
        barred(&asks(bench, "[approval]\nask = \"deny\"\n").run(RUN), &["blocked: command 'sh' requires confirmation but no confirm hook is set\n"]);
        assert!(!bench.dir.join("state").exists(), "none of these needs a store");
        assert_eq!(ran(bench), 4);
    }
}

as_both! {
    fn whoever_sits_at_the_terminal_sees_it(bench) {
        for (typed, exit) in [("yes\n", 0), ("no\n", 126)] {
            let mut screen = String::new();
            let words = [RUN[0], RUN[1], "echo ran >> log; printf 's3%s\\033[2K\\n| x' cret-of-the-run"];
            let (result, status, _) = at_terminal(asks(bench, TTY), &words, b"", |master| {
                screen = until_asked(master);
                master.write_all(typed.as_bytes()).unwrap();
            });
            assert_eq!(status, exit, "{result}");
            let shown = format!("           | {SECRET}\\x1b[2K\r\n           | | x\r\n           (without a newline at its end)\r\n");
            assert!(screen.contains(&shown) && screen.contains("Hand its output to the asker, once?"), "{screen}");
            assert!(screen.contains("because    'look' ("), "{screen}");
            if exit == 0 {
                assert_eq!(result["stdout"], json!(format!("{SECRET}\u{1b}[2K\n| x")));
            } else {
                assert_eq!(result["text"].as_str().unwrap().lines().next(), Some("blocked: confirmation for 'sh' denied"));
                assert!(!result.to_string().contains(SECRET), "{result}");
            }
        }
        // Too long to be looked through on a terminal.
        let words = ["sh", "-c", "echo ran >> log; printf 's3%s' cret-of-the-run; head -c 70000 /dev/zero | tr '\\0' x"];
        let (result, status, seen) = at_terminal(asks(bench, &format!("{TTY}[limits]\noutput = \"1M\"\n")), &words, b"", |_| {});
        assert!(status == 126 && seen.is_empty() && !result.to_string().contains(SECRET), "{result}");
        assert!(result["text"].as_str().unwrap().contains("the output of command 'sh' needs an approval and is too long for a terminal"), "{result}");
        assert_eq!(ran(bench), 3);
    }
}

as_both! {
    fn whoever_waits_gets_it_or_the_reason(bench) {
        let waiting = || {
            let list = again(bench).opt(["approvals", "list", "--json"]).raw();
            Some(list.json[0]["id"].as_str()?.to_owned())
        };
        for answer in ["approve", "decline"] {
            let child = asks(bench, "").opt(["--wait", "60s"]).start(RUN);
            assert!(eventually(Duration::from_secs(20), || waiting().is_some()), "it was filed");
            let id = waiting().expect("an id");
            verb(bench, &[answer, &id]);
            let output = child.wait_with_output().expect("guardexec");
            let result: Value = serde_json::from_slice(&output.stdout).expect("a result");
            crate::harness::schema::check("result", &result);
            let records = crate::harness::read_audit(&bench.dir.join("audit.jsonl"));
            let records: Vec<_> = records.iter().filter(|record| record["run_id"] == result["run_id"]).collect();
            let shape: Vec<_> = records.iter().map(|record| (record["event"].as_str().unwrap(), record["status"].as_str())).collect();
            if answer == "approve" {
                assert_eq!((&result["status"], &result["stdout"], &result["approval"]["state"]), (&json!("ok"), &json!(format!("{SECRET}\n")), &json!("consumed")), "{result}");
                assert_eq!(shape, [("decision", None), ("approval", None), ("outcome", Some("needs_approval")), ("approval", None), ("decision", Some("ok"))]);
            } else {
                assert_eq!((&result["status"], output.status.code(), &result["decision"]), (&json!("denied"), Some(126), &json!("allow")), "{result}");
                assert!(result["text"].as_str().unwrap().contains("was declined by ") && !result.to_string().contains(SECRET), "{result}");
                assert_eq!(shape, [("decision", None), ("approval", None), ("outcome", Some("needs_approval")), ("decision", Some("denied"))]);
            }
        }
        // Nobody answers in time: it waits on, and can be had later.
        let began = Instant::now();
        let answer = asks(bench, "").opt(["--wait", "600ms"]).run(RUN);
        barred(&answer, &["nobody answered approval ", " within 600ms", "it did run, do not run it again", "it can still be answered until "]);
        assert!(began.elapsed() >= Duration::from_millis(600));
        let id = answer.json["approval"]["id"].as_str().expect("an id").to_owned();
        let child = again(bench).opt(["--approval", &id, "--wait", "60s"]).process().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("start");
        verb(bench, &["approve", &id]);
        let result: Value = serde_json::from_slice(&child.wait_with_output().expect("guardexec").stdout).expect("a result");
        assert_eq!((&result["status"], &result["stdout"]), (&json!("ok"), &json!(format!("{SECRET}\n"))), "{result}");
        assert_eq!(ran(bench), 3);
    }
}

as_both! {
    fn killed_while_it_waits_the_output_is_there_yet(bench) {
        let mut child = asks(bench, "").opt(["--wait", "60s"]).start(RUN);
        let listed = || again(bench).opt(["approvals", "list", "--json"]).raw().json[0]["id"].as_str().map(str::to_owned);
        assert!(eventually(Duration::from_secs(20), || listed().is_some()), "it was filed");
        let id = listed().expect("an id");
        child.kill().expect("killed");
        child.wait().expect("dead");
        verb(bench, &["approve", &id]);
        let answer = asks(bench, "").opt(["--approval", &id]).finish();
        assert_eq!((answer.exit, answer.str("stderr")), (0, SECRET), "{}", answer.show());
        let child = asks(bench, "").opt(["--wait", "60s"]).start(RUN);
        assert!(eventually(Duration::from_secs(20), || listed().is_some()), "it was filed");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id().cast_signed()), nix::sys::signal::Signal::SIGTERM).unwrap();
        let output = child.wait_with_output().expect("guardexec");
        let result: Value = serde_json::from_slice(&output.stdout).expect("a result");
        assert_eq!((&result["status"], output.status.code(), &result["approval"]["state"]), (&json!("cancelled"), Some(143), &json!("pending")), "{result}");
        assert!(!result.to_string().contains(SECRET), "{result}");
        assert_eq!(ran(bench), 2);
    }
}

as_both! {
    fn what_was_changed_in_the_store_is_refused(bench) {
        for (column, from, to) in [
            ("private", SECRET, "s3cret-of-the-RUN"),
            ("private", "exit_code\\\":0", "exit_code\\\":1"),
            ("bound", "\"status\":\"ok\"", "\"status\":\"OK\""),
        ] {
            let id = waits(&asks(bench, "").run(RUN));
            change(bench, column, from, to);
            let refused = again(bench).opt(["approvals", "approve", &id]).raw();
            assert!(refused.exit == 1 && refused.stderr.contains("is not the output that was withheld"), "{}", refused.stderr);
            change(bench, column, to, from);
            verb(bench, &["approve", &id]);
            change(bench, column, from, to);
            barred(&asks(bench, "").opt(["--approval", &id]).finish(), &["is not the output that was withheld"]);
            assert_eq!(verb(bench, &["show", "--json", &id]).json["state"], "approved", "it is not used up by that");
            change(bench, column, to, from);
            asks(bench, "").opt(["--approval", &id]).finish();
            assert_eq!(verb(bench, &["show", "--json", &id]).json["state"], "consumed");
        }
    }
}

/// Changes a text in the store, as whoever may write it could.
fn change(bench: &Bench, column: &str, from: &str, to: &str) {
    let database = bench.dir.join("state/state.db");
    let database = rusqlite::Connection::open(database).expect("the store");
    let sql = format!(
        "UPDATE approval SET {column} = replace({column}, ?1, ?2) WHERE instr({column}, ?1) AND state IN ('pending', 'approved')"
    );
    assert_eq!(database.execute(&sql, [from, to]).expect("an update"), 1, "{column} {from}");
}
