//! Counting: exact whoever comes at the same time, and no fresh start.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use super::{
    LEAVES, again, all, approve, asked, audited, leave, policy, ran, rules, state, together, used, verb,
};
use crate::harness::outside::{answer, ready, through};
use crate::harness::{Answer, As, Bench, Call, eventually, skip};

fn by_status<'a>(answers: &'a [Answer], status: &str) -> Vec<&'a Answer> {
    answers.iter().filter(|answer| answer.status() == status).collect()
}

as_both! {
    fn t2_82_fifty_at_once_and_a_rate_of_ten_a_minute(bench) {
        let leave = leave(bench);
        let _ = policy(bench, "[[rate]]\nname = \"ten\"\ncount = 10\nper = \"1m\"\n");
        let answers = together((0..50).map(|_| ready(again(bench), [&leave])).collect());
        let (allowed, denied) = (by_status(&answers, "ok"), by_status(&answers, "denied"));
        assert_eq!((allowed.len(), denied.len(), ran(bench), used(bench, "ten")), (10, 40, 10, 10));
        for answer in denied {
            answer.denied_by("rate", &["rate 'ten' allows 10 calls in 1m, and 10 are used"]);
        }
        let records = audited(bench);
        assert_eq!(records.iter().filter(|r| r["event"] == "outcome").count(), 10);
    }
}

as_both! {
    fn t2_82_a_killed_holder_of_the_stores_lock_wedges_nobody(bench) {
        let more = "[[rate]]\nname = \"ten\"\ncount = 10\nper = \"1m\"\n";
        policy(bench, more).run([leave(bench)]).ok("");
        // Open file description locks and those of a process exclude each other.
        let hold = "import fcntl, os, sys, time\nfd = os.open(sys.argv[1], os.O_RDWR)\nfcntl.lockf(fd, fcntl.LOCK_EX)\nprint('held', flush=True)\ntime.sleep(60)";
        let mut holder = Command::new("/usr/bin/python3").args(["-c", hold]).arg(state(bench).join("state.lock"))
            .stdout(Stdio::piped()).spawn().expect("start the holder");
        std::io::Read::read_exact(holder.stdout.as_mut().expect("piped"), &mut [0; 5]).expect("it holds");
        let answers = std::thread::scope(|scope| {
            let calls = scope.spawn(|| together((0..3).map(|_| ready(again(bench), [leave(bench)])).collect()));
            std::thread::sleep(Duration::from_millis(300));
            assert!(!calls.is_finished(), "the lock is waited for");
            assert_eq!(ran(bench), 1);
            holder.kill().expect("kill the holder");
            holder.wait().expect("reap the holder");
            calls.join().expect("the calls")
        });
        assert_eq!((by_status(&answers, "ok").len(), used(bench, "ten"), ran(bench)), (3, 4, 4));
    }
}

as_both! {
    fn t5_146_ten_at_once_and_a_limit_of_three(bench) {
        let leave = leave(bench);
        let _ = policy(bench, "[[rate]]\nname = \"three\"\ncount = 3\nper = \"1h\"\n");
        let answers = together((0..10).map(|_| ready(again(bench), [&leave])).collect());
        assert_eq!((by_status(&answers, "ok").len(), by_status(&answers, "denied").len(), ran(bench)), (3, 7, 3));
    }
}

as_both! {
    fn as_many_wait_as_may_and_the_same_question_is_one(bench) {
        let told = bench.dir.join("told");
        let hook = bench.script("notify", &format!("#!/bin/sh\ncat > /dev/null; echo x >> {}\n", told.display()));
        let _ = policy(bench, &format!("[approval]\nmax_pending = 5\nnotify = {hook:?}\n"));
        let same = together((0..10).map(|_| ready(again(bench).opt(["--agent", "a"]), LEAVES)).collect());
        let ids: std::collections::BTreeSet<String> = same.iter().map(asked).collect();
        assert_eq!(ids.len(), 1, "{ids:?}");
        assert_eq!(fs::read_to_string(&told).expect("told"), "x\n", "once");
        let other = together((0..10).map(|n| ready(again(bench).opt(["--agent", "a/b"]), ["sh", "-c", &format!("echo {n}")])).collect());
        assert_eq!((by_status(&other, "needs_approval").len(), by_status(&other, "denied").len()), (4, 6));
        for answer in by_status(&other, "denied") {
            answer.denied_by("approval", &["agent 'a' cannot have more than 5 requests that wait for an answer"]);
        }
        assert_eq!(all(bench).len(), 5);
    }
}

/// A tool that pays a customer.
fn refunds(bench: &Bench, more: &str) -> String {
    format!(
        "[tools.refund]\nargv = [{:?}, \"{{customer}}\", \"{{amount}}\"]\ndecision = \"allow\"\nparams.customer = {{ type = \"string\" }}\n\
         params.amount = {{ type = \"number\" }}\n{more}",
        leave(bench)
    )
}

fn refund<'b>(bench: &'b Bench, customer: &str, amount: &str) -> Call<'b> {
    let (customer, amount) = (format!("customer={customer}"), format!("amount={amount}"));
    again(bench).opt(["--tool", "refund", "--arg", &customer, "--arg", &amount])
}

as_both! {
    fn a_fourth_refund_for_a_customer_in_thirty_days_asks(bench) {
        let _ = policy(bench, &refunds(bench, "[[rate]]\nname = \"fourth\"\nmatch = \"refund\"\nkey = \"customer\"\ncount = 3\nper = \"30d\"\nthen = \"ask\"\nreason = \"a fourth refund\"\n"));
        for _ in 0..3 {
            refund(bench, "c1", "5").finish().ok("");
        }
        let fourth = refund(bench, "c1", "5").finish();
        let id = asked(&fourth);
        assert!(fourth.str("text").contains("a fourth refund: rate 'fourth' allows 3 calls in 30d"), "{}", fourth.show());
        assert_eq!(asked(&refund(bench, "c1", "5").finish()), id, "asked again it is the same");
        refund(bench, "c2", "5").finish().ok("");
        approve(bench, &id);
        refund(bench, "c1", "5").opt(["--approval", &id]).finish().ok("");
        // What was approved counts as well, and the next one asks anew: what is said of the rate has changed, the question has not.
        assert_eq!(used(bench, "fourth"), 5);
        let fifth = asked(&refund(bench, "c1", "5").finish());
        assert_ne!(fifth, id);
        approve(bench, &fifth);
        refund(bench, "c1", "5").opt(["--approval", &fifth]).finish().ok("");
        assert_eq!(ran(bench), 6);
    }
}

as_both! {
    fn two_hundred_thousand_an_hour_in_all_then_it_asks(bench) {
        let _ = policy(bench, &refunds(bench, "[[rate]]\nname = \"breaker\"\nmatch = \"refund\"\nsum = \"amount\"\nmax = 200000\nper = \"1h\"\nthen = \"ask\"\n"));
        for (customer, amount) in [("a", "199999.9"), ("b", "0.07"), ("c", "0.03")] {
            refund(bench, customer, amount).finish().ok("");
        }
        // Exactly full: a binary fraction would have lost or won a bit on the way.
        let over = refund(bench, "d", "0.000000001").finish();
        let id = asked(&over);
        assert!(over.str("text").contains("of which 200000 are used, and this call wants 0.000000001"), "{}", over.show());
        approve(bench, &id);
        refund(bench, "d", "0.000000001").opt(["--approval", &id]).finish().ok("");
        let rows = verb(bench, &["rates", "--json"]);
        assert_eq!(rows.json[0]["use"].to_string().trim_matches('"'), "200000.000000001", "{}", rows.show());
        for amount in ["-1", "1e400", "NaN", "0x10"] {
            let answer = refund(bench, "e", amount).finish();
            assert_ne!(answer.status(), "ok", "{}", answer.show());
            answer.nothing_ran();
        }
        assert_eq!(ran(bench), 4);
    }
}

as_both! {
    fn what_is_counted_apart(bench) {
        let leave = leave(bench);
        for (key, same, other) in [("agent", ["--agent", "a/x"], ["--agent", "b"]), ("session", ["--session", "a"], ["--session", "b"])] {
            let name = format!("by-{key}");
            let _ = policy(bench, &format!("[[rate]]\nname = {name:?}\nkey = {key:?}\ncount = 1\nper = \"1h\"\n"));
            let call = |option: [&str; 2]| again(bench).opt(option).run([&leave]);
            let first = if key == "agent" { ["--agent", "a"] } else { same };
            call(first).ok("");
            call(same).denied_by("rate", &["rate 'by-", &format!(" with {key} ")]);
            call(other).ok("");
            again(bench).run([&leave]).ok("");
        }
        // Two keys together, and a rate of one agent alone.
        let _ = policy(bench, "[[rate]]\nname = \"both\"\nkey = [\"agent\", \"session\"]\nagents = [\"ci\"]\ncount = 1\nper = \"1h\"\n");
        let call = |agent: &str, session: &str| again(bench).opt(["--agent", agent, "--session", session]).run([&leave]);
        call("ci", "1").ok("");
        call("ci", "2").ok("");
        call("ci", "1").denied_by("rate", &["with agent 'ci'", "session '1'"]);
        for _ in 0..2 {
            call("other", "1").ok("");
        }
    }
}

as_both! {
    fn what_fails_to_start_or_fails_is_not_refunded(bench) {
        let broken = bench.script("broken", "neither a script nor a binary\n");
        let more = format!("[[rule]]\nid = \"broken\"\nprogram = {broken:?}\ndecision = \"allow\"\n[[rule]]\nid = \"f\"\nprogram = \"false\"\ndecision = \"allow\"\n\
                            [[rate]]\nname = \"two\"\ncount = 2\nper = \"1h\"\n");
        assert_eq!(policy(bench, &more).run([&broken]).status(), "exec_failed");
        assert_eq!(policy(bench, &more).run(["false"]).status(), "nonzero_exit");
        policy(bench, &more).run(["echo"]).denied_by("rate", &["and 2 are used"]);
        // What was denied or was not found has not been counted.
        policy(bench, &more).run(["rm"]).denied_by("command", &[]);
        assert_eq!(used(bench, "two"), 2);
    }
}

as_both! {
    fn a_window_opens_again(bench) {
        let leave = leave(bench);
        let _ = policy(bench, "[[rate]]\nname = \"one\"\ncount = 1\nper = \"2s\"\n");
        again(bench).run([&leave]).ok("");
        again(bench).run([&leave]).denied_by("rate", &["the oldest leaves the window in "]);
        assert!(eventually(Duration::from_secs(20), || again(bench).run([&leave]).status() == "ok"));
        assert_eq!(ran(bench), 2);
    }
}

/// Neither a time namespace nor another time of day opens a window early.
#[test]
fn a_clock_that_is_moved_opens_no_window() {
    let Some(bench) = Bench::new(As::Root) else { return };
    let leave = leave(&bench);
    let _ = policy(
        &bench,
        "[approval]\nexpires = \"1h\"\n[[rate]]\nname = \"one\"\nmatch = \"leave\"\ncount = 1\nper = \"1h\"\n",
    );
    again(&bench).run([&leave]).ok("");
    let id = asked(&again(&bench).run(LEAVES));
    for offset in ["864000", "-1"] {
        let shifted = |call: &Call<'_>| {
            answer(
                call,
                through(call, &["unshare", "-T", "--boottime", offset, "--fork", "--"]),
                Stdio::null(),
            )
        };
        let a = shifted(&ready(again(&bench), [&leave]));
        if a.stderr.starts_with("unshare: ") {
            return skip("no time namespace can be had here");
        }
        a.denied_by("rate", &["and 1 is used"]);
        asked(&shifted(&ready(again(&bench), LEAVES)));
    }
    assert_eq!(
        verb(&bench, &["approvals", "show", "--json", &id]).json["state"],
        "pending",
        "nor does anything expire"
    );
    assert_eq!(ran(&bench), 1);
}

as_both! {
    fn t5_146_state_that_is_damaged_or_cannot_be_written_denies(bench) {
        use std::os::unix::fs::PermissionsExt as _;
        let more = "[[rate]]\nname = \"ten\"\ncount = 10\nper = \"1h\"\n";
        let leave = leave(bench);
        policy(bench, more).run([&leave]).ok("");
        let database = state(bench).join("state.db");
        let whole = fs::read(&database).expect("the database");
        let mut torn = whole.clone();
        torn[4096..8192].fill(0x5a);
        let damages: [&dyn Fn(); 4] = [
            &|| fs::remove_file(&database).expect("remove"),
            &|| fs::write(&database, &whole[..whole.len() / 2]).expect("write"),
            &|| fs::write(&database, &torn).expect("write"),
            &|| fs::write(&database, "garbage").expect("write"),
        ];
        for (number, damage) in damages.iter().enumerate() {
            damage();
            for words in [vec![leave.as_os_str()], LEAVES.iter().map(|w| w.as_ref()).collect()] {
                let a = again(bench).run(words);
                a.denied_by("rate", &["the state that this decision needs cannot be used: "]);
            }
            assert_eq!(ran(bench), 1, "damage {number}");
            fs::write(&database, &whole).expect("write");
            fs::set_permissions(&database, fs::Permissions::from_mode(0o600)).expect("chmod");
            bench.give(&database);
        }
        again(bench).run([&leave]).ok("");
        if bench.who == As::User {
            // Its own directory that it cannot write to; to root that means nothing.
            fs::set_permissions(state(bench), fs::Permissions::from_mode(0o500)).expect("chmod");
            fs::set_permissions(&database, fs::Permissions::from_mode(0o400)).expect("chmod");
            again(bench).run([&leave]).denied_by("rate", &["the state that this decision needs cannot be used: "]);
            fs::set_permissions(state(bench), fs::Permissions::from_mode(0o700)).expect("chmod");
        }
        assert_eq!(ran(bench), 2);
    }
}

as_both! {
    fn a_file_system_without_room_denies(bench) {
        let text = rules(bench, "[[rate]]\nname = \"ten\"\ncount = 10\nper = \"1h\"\n");
        bench.host(&text).run([leave(bench)]).ok("");
        let mut call = ready(again(bench), [leave(bench)]);
        // The audit file would meet the limit as well.
        let own = fs::read_to_string(bench.dir.join("policy.toml")).expect("the policy");
        bench.file("policy.toml", own.split("\n[audit]").next().expect("a part"));
        call.audit = None;
        let a = answer(&call, through(&call, &["prlimit", "--fsize=600", "--"]), Stdio::null());
        a.denied_by("rate", &["the state that this decision needs cannot be used: "]);
        assert_eq!((ran(bench), used(bench, "ten")), (1, 1));
        assert_eq!(a.json["rule"], json!(null), "{}", a.show());
    }
}
