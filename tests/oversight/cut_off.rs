//! A run whose guardexec was killed: found by the next call of its session, while one that goes on is let alone.

use serde_json::json;

use super::{again, audited, leave, policy, ran, state, verb};
use crate::harness::{Bench, Call, assert_gone, eventually};
use std::time::Duration;

/// A rule for a script that leaves a line and then stays.
fn stays(bench: &Bench, section: &str) -> std::path::PathBuf {
    let text = format!("#!/bin/sh\necho stays >> {}\nsleep 300\n", bench.work().join("ran").display());
    let script = bench.script("stays", &text);
    let rule = format!("{section}\n[[rule]]\nid = \"stays\"\nprogram = {script:?}\ndecision = \"allow\"\n");
    let _ = policy(bench, &rule);
    script
}

fn of<'b>(bench: &'b Bench, session: &str) -> Call<'b> {
    again(bench).opt(["--session", session])
}

/// Starts it, and waits until it runs.
fn started(bench: &Bench, session: &str, script: &std::path::Path) -> std::process::Child {
    let before = ran(bench);
    let child = of(bench, session).start([script]);
    assert!(eventually(Duration::from_secs(20), || ran(bench) > before), "it does not run");
    child
}

as_both! {
    fn a_killed_guardexec_halts_the_session_of_its_run(bench) {
        let script = stays(bench, "[session]\nhalt_on = [\"timeout\"]");
        let (mut killed, mut lives) = (started(bench, "s", &script), started(bench, "t", &script));
        for session in ["s", "t"] {
            of(bench, session).run([leave(bench)]).ok("");
        }
        killed.kill().expect("kill");
        killed.wait().expect("wait");
        // Looking finds it, and changes nothing.
        let reason = "a call was cut off before its end";
        let explain = again(bench).opt(["explain", "--session", "s"]).opt(["--".as_ref(), leave(bench).as_os_str()]).raw();
        let text = String::from_utf8_lossy(&explain.stdout).into_owned();
        assert!(explain.exit == 126 && text.contains(&format!("session 's' is halted: {reason}")), "{text}");
        let shown = verb(bench, &["session", "show", "s", "--json"]).json;
        assert_eq!((&shown["state"], &shown["halted"]["reason"], &shown["history"]), (&json!("halted"), &json!(reason), &json!([])));
        let run = shown["halted"]["run"].as_str().expect("a run");
        let denied = of(bench, "s").run([leave(bench)]);
        denied.denied_by("session", &[&format!("session 's' is halted: {reason} in run {run} at "), "guardexec session resume s"]);
        assert_eq!(denied.json["warnings"], json!([format!("session 's' is halted now: {reason}")]), "{}", denied.show());
        let record = denied.audit.iter().find(|r| r["event"] == "session").expect("a record");
        assert_eq!((&record["state"], &record["reason"]), (&json!("halted"), &json!(reason)));
        assert_eq!(of(bench, "s").run([leave(bench)]).json["warnings"], json!([]), "it is halted once");
        assert_eq!(verb(bench, &["session", "show", "s", "--json"]).json["history"][0]["run"], run);
        // The other one is there yet, and so is its session.
        of(bench, "t").run([leave(bench)]).ok("");
        assert_eq!(verb(bench, &["session", "resume", "s"]).exit, 0);
        of(bench, "s").run([leave(bench)]).ok("");
        // Told to end, it comes to an end: that is none that halts here.
        let pid = nix::unistd::Pid::from_raw(i32::try_from(lives.id()).expect("a pid"));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("kill");
        assert_eq!(lives.wait().expect("wait").code(), Some(143));
        of(bench, "t").run([leave(bench)]).ok("");
        assert_gone(script.to_str().expect("UTF-8"));
        audited(bench);
    }
}

as_both! {
    fn forgiven_before_anybody_found_it_and_kept_only_where_it_matters(bench) {
        let script = stays(bench, "[session]\nhalt_on = [\"error\"]");
        let mut killed = started(bench, "s", &script);
        killed.kill().expect("kill");
        killed.wait().expect("wait");
        let resumed = verb(bench, &["session", "resume", "s"]);
        let said = String::from_utf8_lossy(&resumed.stdout).into_owned();
        assert_eq!(said, "session s may go on, which was halted: a call was cut off before its end\n");
        of(bench, "s").run([leave(bench)]).ok("");
        // Under a policy that counts denials and runs alone, nobody cares how runs end.
        std::fs::remove_dir_all(state(bench)).expect("remove");
        let script = stays(bench, "[session]\nhalt_on = [\"denied:3\"]\nmax_runs = 3");
        let mut killed = started(bench, "s", &script);
        killed.kill().expect("kill");
        killed.wait().expect("wait");
        of(bench, "s").run([leave(bench)]).ok("");
        assert!(!state(bench).join("state.runs").exists());
        assert_gone(script.to_str().expect("UTF-8"));
    }
}
