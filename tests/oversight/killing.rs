//! SIGKILL at every step: what is left can be explained, nothing runs twice, and nobody is held up.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use super::{LEAVES, again, all, approve, asked, audited, leave, policy, ran, used, verb};
use crate::harness::outside::{ready, signalled};
use crate::harness::{Call, eventually, skip};

/// What a call does to the disk: the store's journal, its database and the audit file are written by these.
const STEPS: &str = "fsync,ftruncate,write";

/// Kills guardexec as it enters the `n`th of these system calls. Whether it came that far; `None` without strace(1).
fn killed_at(call: &Call<'_>, calls: &str, n: u32) -> Option<bool> {
    let status = signalled(call, "SIGKILL", calls, n).status().ok()?;
    // strace ends as the one that it traces.
    Some(status.signal() == Some(libc::SIGKILL))
}

/// Does it again and again, killed one step later each time, until it is not killed any more; looks at what is left each time.
fn at_every_step<'b>(mut begin: impl FnMut(u32) -> Call<'b>, mut left: impl FnMut(u32)) {
    for (calls, first, step) in [(STEPS, 1, 1), ("pwrite64", 2, 7)] {
        let mut points = 0;
        for n in (first..).step_by(step) {
            match killed_at(&begin(n), calls, n) {
                None => return skip("strace(1) cannot be had"),
                Some(false) => break,
                Some(true) => points += 1,
            }
            left(n);
            assert!(n < 200, "it never ends");
        }
        assert!(points >= 2, "{calls}: only {points} steps, or strace cannot trace here");
    }
}

as_both! {
    fn counting(bench) {
        let leave = leave(bench);
        let _ = policy(bench, "[[rate]]\nname = \"many\"\ncount = 1000\nper = \"1h\"\n");
        at_every_step(|_| ready(again(bench), [&leave]), |n| {
            // What ran was counted before, whether its guardexec lived to see that or not.
            let (ran, used) = (ran(bench), used(bench, "many"));
            assert!(ran as u64 <= used, "step {n}: {ran} ran, {used} counted");
        });
        let before = used(bench, "many");
        again(bench).run([&leave]).ok("");
        assert_eq!(used(bench, "many"), before + 1);
        audited(bench);
    }
}

as_both! {
    fn a_run_that_would_have_halted_its_session(bench) {
        let fails = bench.script("fails", &format!("#!/bin/sh\necho x >> {}\nexit 1\n", bench.work().join("ran").display()));
        let _ = policy(bench, &format!("[session]\nhalt_on = [\"exit\"]\n[[rule]]\nid = \"f\"\nprogram = {fails:?}\ndecision = \"allow\"\n"));
        let (leave, before) = (leave(bench), std::cell::Cell::new(0));
        let begin = |n: u32| {
            before.set(ran(bench));
            ready(again(bench).opt(["--session", &format!("s{n}")]), [&fails])
        };
        at_every_step(begin, |n| {
            // Whatever ran halts the session, whether its guardexec lived to say so or not.
            let started = ran(bench) > before.get();
            let next = again(bench).opt(["--session", &format!("s{n}")]).run([&leave]);
            match next.status() {
                "denied" => drop(next.denied_by("session", &[&format!("session 's{n}' is halted: ")])),
                _ => assert!(!started, "step {n}: it ran, and nobody heard of it\n{}", next.show()),
            }
            assert_eq!(verb(bench, &["session", "resume", &format!("s{n}")]).exit, 0, "step {n}");
            again(bench).opt(["--session", &format!("s{n}")]).run([&leave]).ok("");
        });
        audited(bench);
    }
}

as_both! {
    fn filing(bench) {
        let _ = policy(bench, "[approval]\nmax_pending = 1000\n");
        let words = |n: u32| ["sh".to_owned(), "-c".into(), format!("echo {n} >> ran")];
        at_every_step(|n| ready(again(bench), words(n)), |n| {
            // Filed or not; and asked again it is one request.
            let id = asked(&again(bench).run(words(n)));
            let all = all(bench);
            let same: Vec<_> = all.iter().filter(|one| one["argv"][2] == words(n)[2]).collect();
            assert_eq!(same.len(), 1, "step {n}: {same:#?}");
            assert_eq!((&same[0]["id"], &same[0]["state"]), (&id.into(), &"pending".into()));
        });
        assert_eq!(ran(bench), 0);
        audited(bench);
    }
}

as_both! {
    fn approving(bench) {
        let _ = policy(bench, "");
        let id = std::cell::RefCell::new(String::new());
        let begin = |n: u32| {
            let asked = asked(&again(bench).run(["sh", "-c", &format!("echo {n}-{} >> ran", id.borrow())]));
            id.replace(asked.clone());
            bench.call().opt(["approvals", "approve", &asked, "--policy"]).opt([bench.dir.join("policy.toml")])
        };
        at_every_step(begin, |n| {
            let id = id.borrow();
            let shown = verb(bench, &["approvals", "show", "--json", &id]).json;
            match shown["state"].as_str() {
                Some("pending") => {
                    assert!(shown["answer"].is_null(), "step {n}: {shown}");
                    approve(bench, &id);
                }
                Some("approved") => assert!(shown["answer"]["by"].is_object(), "step {n}: {shown}"),
                _ => panic!("step {n}: {shown}"),
            }
            let before = ran(bench);
            again(bench).opt(["--approval", &id]).finish().ok("");
            assert_eq!(ran(bench), before + 1, "step {n}");
        });
        audited(bench);
    }
}

as_both! {
    fn consuming(bench) {
        let _ = policy(bench, "");
        let now = std::cell::RefCell::new((String::new(), 0));
        let begin = |n: u32| {
            let words = ["sh", "-c", &format!("echo {n}-{} >> ran", now.borrow().0)];
            let id = asked(&again(bench).run(words));
            approve(bench, &id);
            now.replace((id.clone(), ran(bench)));
            ready(again(bench).opt(["--approval", &id]), words)
        };
        at_every_step(begin, |n| {
            let (id, before) = now.borrow().clone();
            let state = verb(bench, &["approvals", "show", "--json", &id]).json["state"].clone();
            let again = again(bench).opt(["--approval", &id]).finish();
            match state.as_str() {
                Some("approved") => {
                    again.ok("");
                    assert_eq!(ran(bench), before + 1, "step {n}: it had not run, and now it has");
                }
                Some("consumed") => {
                    again.denied_by("approval", &["was used already"]);
                    assert!(ran(bench) <= before + 1, "step {n}");
                }
                _ => panic!("step {n}: {state}"),
            }
        });
        audited(bench);
    }
}

as_both! {
    fn many_at_once_at_any_moment(bench) {
        let _ = policy(bench, "[[rate]]\nname = \"twelve\"\nmatch = [\"leave\", \"asks\"]\ncount = 12\nper = \"1h\"\n");
        let leave = leave(bench);
        let id = asked(&again(bench).run(LEAVES));
        approve(bench, &id);
        let start = |n: u64| match n % 3 {
            0 => again(bench).opt(["--approval", &id]).start(LEAVES),
            _ => again(bench).start([&leave]),
        };
        let children: Vec<_> = (0..30).map(|n| (n, start(n))).collect();
        for (n, mut child) in children {
            // Each a little later than the last one: some have not begun, some are over.
            std::thread::sleep(Duration::from_millis(n % 7));
            if n % 2 == 0 {
                let _ = child.kill();
            }
            drop(child.wait_with_output());
        }
        let mut last = (0, 0);
        let rest = || {
            let now = (ran(bench), used(bench, "twelve"));
            std::mem::replace(&mut last, now) == now
        };
        assert!(eventually(Duration::from_secs(10), rest), "what was started comes to rest");
        let (ran_now, counted) = last;
        assert!(ran_now as u64 <= counted && counted <= 12, "{ran_now} ran, {counted} counted");
        let ran_approved = std::fs::read_to_string(bench.work().join("ran")).unwrap_or_default().lines().filter(|line| *line == "x").count();
        let state = verb(bench, &["approvals", "show", "--json", &id]).json["state"].clone();
        assert!(ran_approved <= 1 && (ran_approved == 0 || state == "consumed"), "{ran_approved}, {state}");
        // Nobody is held up by the dead.
        let after = ready(again(bench), [&leave]).raw();
        assert!(["ok", "denied"].contains(&after.status()), "{}", after.show());
        assert!(after.took < Duration::from_secs(20), "{:?}", after.took);
        audited(bench);
    }
}

as_both! {
    fn told_to_end_at_any_step_it_answers(bench) {
        let _ = policy(bench, "[approval]\nmax_pending = 1000\n");
        let mut cancelled = 0;
        for n in 1..=40 {
            let call = ready(again(bench).opt(["--wait", "2s"]), ["sh", "-c", &format!("echo {n} >> ran")]);
            let Ok(output) = signalled(&call, "SIGTERM", "fsync,ftruncate,pwrite64", n).stdout(Stdio::piped()).output() else {
                return skip("strace(1) cannot be had");
            };
            // Whoever waits for the answer gets one, and one that the exit status tells too.
            let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("step {n}: {e}: {:?}", output.status));
            crate::harness::schema::check("result", &result);
            match (result["status"].as_str(), output.status.code()) {
                (Some("cancelled"), Some(143)) => cancelled += 1,
                // It has fewer steps than that.
                (Some("denied"), Some(126)) if result["text"].as_str().unwrap().contains("nobody answered") => break,
                other => panic!("step {n}: {other:?} {result}"),
            }
        }
        assert!(cancelled > 5, "only {cancelled} were told to end, or strace cannot trace here");
        assert_eq!(ran(bench), 0);
        audited(bench);
    }
}
