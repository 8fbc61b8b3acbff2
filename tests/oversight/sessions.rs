//! Sessions: what halts one, how much it may do, and who lets it go on.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::{LEAVES, again, approve, asked, audited, leave, policy, ran, state, together, verb};
use crate::harness::outside::ready;
use crate::harness::{Answer, Bench, Call, eventually};

/// A call of this session.
fn of<'b>(bench: &'b Bench, session: &str) -> Call<'b> {
    again(bench).opt(["--session", session])
}

/// The session is halted for this reason, said by a call that would run otherwise; and another session is not.
#[track_caller]
fn halted(bench: &Bench, session: &str, by: &Answer, reason: &str) {
    let warning = format!("session '{session}' is halted now: {reason}");
    assert!(by.json["warnings"].as_array().is_some_and(|w| w.contains(&json!(warning))), "{}", by.show());
    let record: Vec<&Value> = by.audit.iter().filter(|r| r["event"] == "session").collect();
    assert_eq!(record.len(), 1, "{}", by.show());
    assert_eq!(
        (&record[0]["session"], &record[0]["state"], &record[0]["reason"]),
        (&json!(session), &json!("halted"), &json!(reason)),
        "{}",
        by.show()
    );
    let before = ran(bench);
    let refused = of(bench, session).run([leave(bench)]);
    refused.denied_by(
        "session",
        &[
            &format!("session '{session}' is halted: {reason} in run {}", by.str("run_id")),
            &format!("guardexec session resume {session}"),
        ],
    );
    assert_eq!(
        (ran(bench), refused.json["rule"]["id"].as_str()),
        (before, Some("session")),
        "{}",
        refused.show()
    );
    of(bench, "other").run([leave(bench)]).ok("");
}

#[track_caller]
fn resumed(bench: &Bench, session: &str) {
    let answer = verb(bench, &["session", "resume", session]);
    assert_eq!(answer.exit, 0, "{}", answer.show());
    of(bench, session).run([leave(bench)]).ok("");
}

const MORE: &str = "[[rule]]\nid = \"sleep\"\nprogram = \"sleep\"\ndecision = \"allow\"\n[[rule]]\nid = \"false\"\nprogram = \"false\"\ndecision = \"allow\"\n";

as_both! {
    fn a_timeout_a_failing_command_and_denials_halt(bench) {
        let _ = policy(bench, &format!("{MORE}[session]\nhalt_on = [\"timeout\", \"exit\", \"denied:2\"]\n"));
        let a = of(bench, "t").opt(["--timeout", "200ms"]).run(["sleep", "20"]);
        assert_eq!(a.status(), "timeout");
        halted(bench, "t", &a, "a run reached its wall_time");
        let a = of(bench, "e").run(["false"]);
        halted(bench, "e", &a, "a command failed");
        of(bench, "d").run(["rm"]).denied_by("command", &[]);
        of(bench, "d").run([leave(bench)]).ok("");
        let a = of(bench, "d").run(["rm"]);
        a.denied_by("command", &[]);
        halted(bench, "d", &a, "2 of its calls were denied");
        ["t", "e", "d"].iter().for_each(|session| resumed(bench, session));
        // Afterwards it begins again with nothing against it.
        of(bench, "d").run(["rm"]).denied_by("command", &[]);
        of(bench, "d").run([leave(bench)]).ok("");
        audited(bench);
    }
}

as_both! {
    fn a_check_that_blocks_or_fails_halts(bench) {
        let block = bench.script("block", "#!/bin/sh\ncat > /dev/null\necho '{\"verdict\": \"block\", \"reason\": \"no\"}'\n");
        let crash = bench.script("crash", "#!/bin/sh\nexit 3\n");
        let warn = bench.script("warn", "#!/bin/sh\ncat > /dev/null\necho '{\"verdict\": \"warn\", \"reason\": \"hm\"}'\n");
        let check = |name: &str, on: &str, run: &std::path::Path| format!("[[check]]\nname = {name:?}\non = {on:?}\nmatch = \"free\"\nrun = {run:?}\n");
        for (session, checks) in [("b", check("b", "request", &block)), ("c", check("c", "request", &crash)), ("o", check("o", "output", &block))] {
            let _ = policy(bench, &format!("{checks}[session]\nhalt_on = [\"check\"]\n"));
            let a = of(bench, session).run(["echo", "x"]);
            assert_eq!((a.status(), a.exit), ("denied", 126), "{}", a.show());
            halted(bench, session, &a, "a check blocked or failed");
        }
        let _ = policy(bench, &format!("{}[session]\nhalt_on = [\"check\"]\n", check("w", "request", &warn)));
        for _ in 0..2 {
            of(bench, "w").run(["echo", "x"]).ok("x\n");
        }
    }
}

as_both! {
    fn guardexecs_own_failure_halts(bench) {
        let _ = policy(bench, "[session]\nhalt_on = [\"error\"]\n");
        let a = of(bench, "e").command("echo 'open");
        assert_eq!(a.status(), "error", "{}", a.show());
        halted(bench, "e", &a, "a call ended in an error");
        resumed(bench, "e");
    }
}

as_both! {
    fn what_the_confinement_refuses_halts(bench) {
        if !cfg!(target_arch = "x86_64") {
            return crate::harness::skip("int 0x80 is of x86-64");
        }
        let attacker = crate::escape::scene::attacker().to_str().expect("UTF-8").to_owned();
        let call = || bench.policy(&format!(
            "[state]\ndir = {:?}\n[session]\nhalt_on = [\"sandbox\"]\n[[rule]]\nprogram = {attacker:?}\ndecision = \"allow\"\n[sandbox]\nprofile = \"strict\"\n",
            state(bench)
        )).opt(["--session", "v"]);
        let a = call().run([&attacker, "--die-by-int80"]);
        assert_eq!((a.status(), a.json["violations"][0]["layer"].as_str()), ("signaled", Some("syscalls")), "{}", a.show());
        call().run([&attacker, "--die-by-int80"]).denied_by("session", &["session 'v' is halted: a run went against its confinement, or could not be confined in run "]);
    }
}

as_both! {
    fn a_layer_that_cannot_be_had_halts(bench) {
        let call = || bench.policy(&format!(
            "allow = [\"date\"]\n[kill_switch]\nfile = {:?}\n[state]\ndir = {:?}\n[session]\nhalt_on = [\"sandbox\"]\n[sandbox]\nprofile = \"workspace\"\n",
            bench.work().join("stop"), state(bench)
        )).opt(["--session", "v"]);
        let a = call().run(["date"]);
        assert_eq!((a.status(), a.str("stage")), ("error", "sandbox"), "{}", a.show());
        call().run(["date"]).denied_by("session", &["session 'v' is halted: a run went against its confinement, or could not be confined"]);
    }
}

as_both! {
    fn what_is_planted_in_the_workspace_halts(bench) {
        let call = || bench.policy(&format!(
            "[state]\ndir = {:?}\n[session]\nhalt_on = [\"workspace\"]\n[[rule]]\nprogram = \"touch\"\ndecision = \"allow\"\n[sandbox]\nprofile = \"workspace\"\n",
            state(bench)
        )).opt(["--session", "w"]);
        call().run(["touch", "harmless"]).ok("");
        let a = call().run(["touch", ".envrc"]);
        assert_eq!(a.status(), "ok", "{}", a.show());
        assert!(!bench.work().join(".envrc").exists(), "it was set aside");
        call().run(["touch", "more"]).denied_by("session", &["session 'w' is halted: a run changed what the workspace protects"]);
    }
}

as_both! {
    fn a_session_that_is_required_has_to_be_named(bench) {
        let more = "[session]\nrequired = true\n";
        let mark = bench.work().join("mark");
        let check = bench.script("check", &format!("#!/bin/sh\ntouch {}\necho '{{\"verdict\": \"pass\"}}'\n", mark.display()));
        let more = format!("{more}[[check]]\nname = \"c\"\non = \"request\"\nrun = {check:?}\n");
        policy(bench, &more).run(["echo"]).denied_by("session", &["every request has to name its session", "--session ID"]);
        // Also where the command would be denied anyway: the session comes first.
        policy(bench, &more).run(["rm"]).denied_by("session", &[]);
        assert!(!mark.exists() && !state(bench).exists());
        policy(bench, &more).opt(["--session", "s"]).run(["echo", "x"]).ok("x\n");
    }
}

as_both! {
    fn as_many_runs_as_it_may_have_and_not_one_more(bench) {
        let _ = policy(bench, "[session]\nmax_runs = 6\n");
        let leave = leave(bench);
        let answers = together((0..20).map(|_| ready(of(bench, "s"), [&leave])).collect());
        assert_eq!((answers.iter().filter(|a| a.status() == "ok").count(), ran(bench)), (6, 6));
        for answer in answers.iter().filter(|a| a.status() != "ok") {
            answer.denied_by("session", &["session 's' has had its 6 runs (max_runs)", "guardexec session resume s"]);
        }
        // Without a session, and of another one, there is no such end.
        again(bench).run([&leave]).ok("");
        of(bench, "t").run([&leave]).ok("");
        resumed(bench, "s");
        let shown = verb(bench, &["session", "show", "s", "--json"]).json;
        assert_eq!((&shown["runs"], &shown["all_runs"]), (&json!(1), &json!(7)));
    }
}

as_both! {
    fn asking_is_no_run_and_an_approved_one_is(bench) {
        let _ = policy(bench, "[session]\nmax_runs = 1\n");
        let id = asked(&of(bench, "s").run(LEAVES));
        asked(&of(bench, "s").run(["sh", "-c", "true"]));
        approve(bench, &id);
        of(bench, "s").opt(["--approval", &id]).run(LEAVES).ok("");
        of(bench, "s").run(LEAVES).denied_by("session", &["has had its 1 run (max_runs)"]);
        // Refused by the session, an approval is not used up: it answers the asking alone.
        assert_eq!(verb(bench, &["session", "resume", "s"]).exit, 0);
        let id = asked(&of(bench, "s").run(LEAVES));
        approve(bench, &id);
        of(bench, "s").run([leave(bench)]).ok("");
        of(bench, "s").opt(["--approval", &id]).run(LEAVES).denied_by("session", &[]);
        assert_eq!(verb(bench, &["session", "resume", "s"]).exit, 0);
        of(bench, "s").opt(["--approval", &id]).run(LEAVES).ok("");
    }
}

as_both! {
    fn it_lasts_as_long_as_it_may(bench) {
        let _ = policy(bench, "[session]\nmax_wall_time = \"2s\"\n");
        of(bench, "s").run([leave(bench)]).ok("");
        let over = || of(bench, "s").run(["rm"]).str("stage") == "session";
        assert!(eventually(Duration::from_secs(20), over));
        of(bench, "s").run([leave(bench)]).denied_by("session", &["session 's' began ", " ago and may last 2s (max_wall_time)"]);
        resumed(bench, "s");
    }
}

as_both! {
    fn its_time_runs_from_the_first_call_that_is_only_asked_about(bench) {
        let _ = policy(bench, "[session]\nmax_wall_time = \"2s\"\n");
        let id = asked(&of(bench, "s").run(LEAVES));
        approve(bench, &id);
        let over = || of(bench, "s").run(["rm"]).str("stage") == "session";
        assert!(eventually(Duration::from_secs(20), over));
        of(bench, "s").opt(["--approval", &id]).run(LEAVES).denied_by("session", &["session 's' began ", " ago and may last 2s (max_wall_time)"]);
        assert_eq!(ran(bench), 0);
        let shown = verb(bench, &["session", "show", "s", "--json"]).json;
        assert_eq!((&shown["runs"], &shown["all_runs"]), (&json!(0), &json!(0)));
    }
}

as_both! {
    fn output_that_is_lost_is_no_way_around_how_the_command_ended(bench) {
        let fails = bench.script("fails", "#!/bin/sh\necho x\nexit 3\n");
        let _ = policy(bench, &format!("[session]\nhalt_on = [\"exit\"]\n[[rule]]\nid = \"f\"\nprogram = {fails:?}\ndecision = \"allow\"\n"));
        let call = ready(of(bench, "s").opt(["--output", "raw"]), [&fails]);
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let status = call.process().stdin(Stdio::null()).stdout(full).stderr(Stdio::null()).status().expect("guardexec");
        assert_eq!(status.code(), Some(125));
        of(bench, "s").run([leave(bench)]).denied_by("session", &["is halted"]);
    }
}

as_both! {
    fn only_a_person_lets_it_go_on_and_that_is_recorded(bench) {
        let _ = policy(bench, &format!("{MORE}[session]\nhalt_on = [\"exit\"]\n"));
        of(bench, "s").run(["false"]);
        let agent = bench.call().env("GUARDEXEC_AGENT", "lead").opt(["session", "resume", "s", "--policy"]).opt([bench.dir.join("policy.toml")]).raw();
        assert_eq!(agent.exit, 126, "{}", agent.show());
        of(bench, "s").run([leave(bench)]).denied_by("session", &["is halted"]);
        resumed(bench, "s");
        let records = audited(bench);
        let states: Vec<&str> = records.iter().filter(|r| r["event"] == "session").filter_map(|r| r["state"].as_str()).collect();
        assert_eq!(states, ["halted", "resumed"], "{records:#?}");
        let by = &records.iter().rfind(|r| r["event"] == "session").expect("a record")["by"];
        assert!(by.as_str().is_some_and(|by| !by.is_empty()), "{records:#?}");
    }
}

as_both! {
    fn what_cannot_be_kept_of_a_run_is_an_error_that_carries_it(bench) {
        // The run itself takes the store away, as under `host` it can.
        let state = state(bench);
        let text = format!("{MORE}[session]\nhalt_on = [\"exit\"]\n[[rule]]\nid = \"rm\"\nprogram = \"rm\"\ndecision = \"allow\"\n");
        let _ = policy(bench, &text);
        of(bench, "s").run([leave(bench)]).ok("");
        let database = state.join("state.db");
        let a = of(bench, "s").run(["rm".as_ref(), database.as_os_str(), "nothing-here".as_ref()]);
        assert_eq!((a.status(), a.exit, a.json["exit_code"].as_i64()), ("error", 125, Some(1)), "{}", a.show());
        assert!(a.str("text").contains("what this call leaves behind could not be kept"), "{}", a.show());
        of(bench, "s").run([leave(bench)]).denied_by("session", &["is gone or empty, and counters do not begin again by that"]);
        assert!(fs::metadata(&state).expect("the directory").permissions().mode() & 0o77 == 0);
    }
}
