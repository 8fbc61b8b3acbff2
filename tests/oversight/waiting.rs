//! `--wait`, and those who are told: what ends a wait, and that nothing runs without a yes.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::{LEAVES, again, all, approve, asked, audited, policy, ran, verb};
use crate::harness::{Bench, Call, eventually, schema};

/// The id of the one request that waits, once it does.
#[track_caller]
fn pending(bench: &Bench) -> String {
    let mut id = None;
    let found = || {
        let list = verb(bench, &["approvals", "list", "--json"]);
        id = list.json[0]["id"].as_str().map(str::to_owned);
        id.is_some()
    };
    assert!(eventually(Duration::from_secs(20), found), "it was filed");
    id.expect("an id")
}

/// Sends it a signal once it takes signals: while it still starts, they end it as any program.
#[track_caller]
fn send(child: &Child, signal: Signal) {
    assert!(eventually(Duration::from_secs(10), || takes(child, signal)), "it takes {signal}");
    kill(Pid::from_raw(child.id().cast_signed()), signal).expect("kill");
}

/// Whether it has a handler for the signal: it waits, or runs something.
fn takes(child: &Child, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim);
    let mask = caught.and_then(|mask| u64::from_str_radix(mask, 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal as u64 - 1)) != 0)
}

/// Starts a call without a command.
fn start(call: &Call<'_>) -> Child {
    call.process().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("start")
}

/// Waits for guardexec; its result, held against the schema, and its exit status.
#[track_caller]
fn over(mut child: Child, limit: Duration) -> (Value, Option<i32>) {
    if !eventually(limit, || child.try_wait().expect("wait").is_some()) {
        let _ = child.kill();
        panic!("it still waits after {limit:?}");
    }
    let output = child.wait_with_output().expect("guardexec");
    let result: Value = serde_json::from_slice(&output.stdout).expect("a result");
    schema::check("result", &result);
    assert_eq!(result["exit_status"].as_i64().map(|s| s as i32), output.status.code(), "{result}");
    (result, output.status.code())
}

as_both! {
    fn whoever_waits_gets_the_answer_and_relayed_input_is_not_read_twice(bench) {
        let input = bench.file("work/in", "relayed\n");
        for (verdict, status) in [("approve", "ok"), ("decline", "denied")] {
            let call = policy(bench, "").opt(["--wait", "60s", "--stdin", "-"]);
            let child = {
                let call = crate::harness::outside::ready(call, ["sh", "-c", "cat; echo x >> ran", verdict]);
                let mut process = call.process();
                process.stdin(fs::File::open(&input).expect("open")).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
                process.spawn().expect("start")
            };
            let id = pending(bench);
            assert_eq!(verb(bench, &["approvals", verdict, &id]).exit, 0);
            let (result, exit) = over(child, Duration::from_secs(20));
            assert_eq!(result["status"], status, "{result}");
            if status == "ok" {
                assert_eq!((&result["stdout"], exit, &result["approval"]["state"]), (&json!("relayed\n"), Some(0), &json!("consumed")), "{result}");
            } else {
                assert_eq!((&result["stage"], exit), (&json!("approval"), Some(126)), "{result}");
                assert!(result["text"].as_str().is_some_and(|t| t.contains(" was declined by ")), "{result}");
            }
        }
        assert_eq!(ran(bench), 1);
    }
}

as_both! {
    fn nobody_in_time_is_a_no_and_the_answer_may_still_come(bench) {
        let began = Instant::now();
        let a = policy(bench, "").opt(["--wait", "600ms"]).run(LEAVES);
        a.denied_by("approval", &["nobody answered approval ", " within 600ms", "it can still be answered until "]);
        assert!(began.elapsed() >= Duration::from_millis(600));
        let id = pending(bench);
        approve(bench, &id);
        again(bench).opt(["--approval", &id, "--wait", "30s"]).run(LEAVES).ok("");
        assert_eq!(ran(bench), 1);
    }
}

as_both! {
    fn what_was_filed_can_be_waited_for_and_is_judged_again(bench) {
        let id = asked(&policy(bench, "").run(LEAVES));
        let child = start(&again(bench).opt(["--approval", &id, "--wait", "60s"]));
        assert!(eventually(Duration::from_secs(10), || takes(&child, Signal::SIGTERM)), "it waits");
        approve(bench, &id);
        let (result, exit) = over(child, Duration::from_secs(20));
        assert_eq!((&result["status"], exit), (&json!("ok"), Some(0)), "{result}");
        // The session that ended meanwhile has its say.
        let halting = "[session]\nmax_runs = 1\n";
        let child = policy(bench, halting).opt(["--session", "s", "--wait", "60s"]).start(LEAVES);
        let id = pending(bench);
        again(bench).opt(["--session", "s"]).run(["echo", "x"]).ok("x\n");
        approve(bench, &id);
        let (result, exit) = over(child, Duration::from_secs(20));
        assert_eq!((&result["stage"], exit), (&json!("session"), Some(126)), "{result}");
        assert_eq!(ran(bench), 1);
    }
}

as_both! {
    fn what_expires_while_somebody_waits_is_a_no(bench) {
        let child = policy(bench, "[approval]\nexpires = \"1s\"\n").opt(["--wait", "60s"]).start(LEAVES);
        let (result, exit) = over(child, Duration::from_secs(30));
        assert_eq!((&result["status"], exit, &result["stage"]), (&json!("denied"), Some(126), &json!("approval")), "{result}");
        assert!(result["text"].as_str().is_some_and(|t| t.contains(" is over since ")), "{result}");
        assert_eq!(all(bench)[0]["state"], "expired");
        assert_eq!(ran(bench), 0);
    }
}

as_both! {
    fn a_signal_ends_the_wait_and_the_request_stays(bench) {
        for (signal, number) in [(Signal::SIGTERM, 15), (Signal::SIGINT, 2), (Signal::SIGHUP, 1)] {
            let child = policy(bench, "").opt(["--wait", "60s"]).start(LEAVES);
            let id = pending(bench);
            send(&child, signal);
            let (result, exit) = over(child, Duration::from_secs(5));
            assert_eq!((&result["status"], exit), (&json!("cancelled"), Some(128 + number)), "{result}");
            assert_eq!(pending(bench), id);
        }
        let records = audited(bench);
        let last = records.last().expect("a record");
        assert_eq!((&last["event"], &last["status"]), (&json!("decision"), &json!("cancelled")), "{last}");
        assert_eq!(ran(bench), 0);
    }
}

as_both! {
    fn the_kill_switch_ends_the_wait(bench) {
        fs::create_dir_all(bench.dir.join("switch")).expect("mkdir");
        bench.give(&bench.dir.join("switch"));
        let more = format!("[kill_switch]\nfile = {:?}\n", bench.dir.join("switch/stop"));
        let child = policy(bench, &more).opt(["--wait", "60s"]).start(LEAVES);
        let id = pending(bench);
        let thrown = Instant::now();
        bench.file("switch/stop", "asks # enough\n");
        let (result, exit) = over(child, Duration::from_secs(5));
        assert!(thrown.elapsed() < Duration::from_secs(2), "{:?}", thrown.elapsed());
        assert_eq!((&result["stage"], &result["status"], exit), (&json!("kill_switch"), &json!("denied"), Some(126)), "{result}");
        approve(bench, &id);
        again(bench).opt(["--approval", &id]).run(LEAVES).denied_by("kill_switch", &["is on: enough"]);
        assert_eq!(ran(bench), 0);
    }
}

as_both! {
    fn those_who_are_told_get_one_document_once(bench) {
        let told = |name: &str| bench.dir.join(format!("{name}.told"));
        let hook = |name: &str| bench.script(name, &format!("#!/bin/sh\ncat >> {}\n", told(name).display()));
        let more = format!("[approval]\nnotify = {:?}\nescalate = {:?}\nescalate_after = \"300ms\"\n", hook("notify"), hook("escalate"));
        let call = || policy(bench, &more).opt(["--agent", "lead", "--why", "to see"]);
        // Two who wait for the same: one tells.
        let children: Vec<Child> = (0..2).map(|_| call().opt(["--wait", "2s"]).start(LEAVES)).collect();
        for child in children {
            let (result, _) = over(child, Duration::from_secs(30));
            assert!(result["text"].as_str().is_some_and(|t| t.contains("nobody answered approval ")), "{result}");
        }
        let id = pending(bench);
        call().run(LEAVES);
        for name in ["notify", "escalate"] {
            let text = fs::read_to_string(told(name)).expect("it was told");
            let document: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: not one document: {e}: {text}"));
            assert_eq!((&document["schema"], &document["id"], &document["argv"]), (&json!("guardexec.approval/v1"), &json!(id), &json!(LEAVES)), "{name}");
            assert_eq!((&document["agent"], &document["why"]), (&json!("lead"), &json!("to see")), "{name}");
        }
    }
}

as_both! {
    fn whoever_is_asked_may_be_ended_and_takes_nothing_along(bench) {
        // The program that is asked does not answer, and ignores what would end it.
        let mark = format!("95{}.{:06}", bench.who as u8, std::process::id());
        let hook = bench.script("confirm", &format!("#!/bin/sh\ntrap '' TERM HUP INT\nsleep {mark}\nsleep {mark}\n"));
        let child = policy(bench, &format!("[approval]\nask = {hook:?}\ntimeout = \"60s\"\n")).start(LEAVES);
        assert!(eventually(Duration::from_secs(10), || !crate::harness::alive(&format!("sleep\0{mark}")).is_empty()), "it is asked");
        send(&child, Signal::SIGTERM);
        let (result, exit) = over(child, Duration::from_secs(10));
        assert_eq!((&result["status"], exit), (&json!("cancelled"), Some(143)), "{result}");
        crate::harness::assert_gone(&mark);
        assert_eq!(ran(bench), 0);
    }
}
