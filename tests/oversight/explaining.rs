//! `explain`: what rates, approvals and checks would say, without counting, using or running any.

use std::fs;

use serde_json::Value;

use super::{LEAVES, again, approve, asked, leave, policy, ran, state, used, verb};
use crate::harness::{Answer, Bench};

fn explain<S: AsRef<std::ffi::OsStr>>(
    bench: &Bench,
    options: &[&str],
    words: impl IntoIterator<Item = S>,
) -> Answer {
    let mut call = crate::harness::outside::ready(again(bench).opt(options).opt(["--json"]), words);
    call.args.insert(0, "explain".into());
    call.raw()
}

fn steps<'a>(answer: &'a Answer, stage: &str) -> Vec<&'a Value> {
    answer.json["stages"]
        .as_array()
        .unwrap_or_else(|| panic!("{}", answer.show()))
        .iter()
        .filter(|s| s["stage"] == stage)
        .collect()
}

/// Every name below the bench, with what the files hold.
fn everything(bench: &Bench) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut left = vec![bench.dir.clone()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                left.push(path.clone());
            }
            found.push((path.clone(), fs::read(&path).unwrap_or_default()));
        }
    }
    found.sort();
    found
}

as_both! {
    fn rates_approvals_and_checks_are_shown_and_left_alone(bench) {
        let mark = bench.dir.join("work/mark");
        let hook = |name: &str| bench.script(name, &format!("#!/bin/sh\ntouch {}\necho '{{\"verdict\": \"pass\"}}'\n", mark.display()));
        let more = format!(
            "[approval]\nnotify = {:?}\nescalate = {:?}\nescalate_after = \"1ms\"\n[[check]]\nname = \"look\"\non = \"request\"\nrun = {:?}\n[[rate]]\nname = \"two\"\ncount = 2\nper = \"1h\"\n",
            hook("notify"), hook("escalate"), hook("check")
        );
        let leave = leave(bench);
        let _ = policy(bench, &more);
        let before = everything(bench);
        let a = explain(bench, &[], [&leave]);
        assert_eq!((a.exit, a.json["decision"].as_str()), (0, Some("allow")), "{}", a.show());
        assert!(steps(&a, "input")[0]["detail"].as_str().is_some_and(|d| d.contains("look")), "{}", a.show());
        let rate = steps(&a, "rate")[0];
        assert_eq!((&rate["rule"]["id"], &rate["outcome"]), (&"two".into(), &"allow".into()), "{}", a.show());
        let a = explain(bench, &[], LEAVES);
        assert_eq!((a.exit, a.json["decision"].as_str(), a.json["outcome"].as_str()), (75, Some("ask"), Some("ask")), "{}", a.show());
        assert!(steps(&a, "approval")[0]["detail"].as_str().is_some_and(|d| d.contains("a person, by way of the queue")), "{}", a.show());
        assert_eq!(explain(bench, &["--approval", "0000000000aa"], LEAVES).exit, 126);
        assert_eq!(explain(bench, &[], ["rm"]).exit, 126);
        assert_eq!(everything(bench), before, "no file was made or changed");

        // The hooks do run where it is no explanation.
        let id = asked(&again(bench).run(LEAVES));
        assert!(mark.exists());
        again(bench).run([&leave]).ok("");
        assert!(verb(bench, &["approvals", "list"]).exit == 0);
        fs::remove_file(&mark).expect("remove");
        let before = everything(bench);
        assert_eq!(explain(bench, &["--approval", &id], LEAVES).exit, 75);
        assert_eq!(everything(bench), before);
        approve(bench, &id);
        let _ = fs::remove_file(&mark);
        let before = everything(bench);
        for _ in 0..3 {
            let a = explain(bench, &["--approval", &id], LEAVES);
            assert_eq!((a.exit, a.json["decision"].as_str()), (0, Some("allow")), "{}", a.show());
        }
        assert_eq!(explain(bench, &["--approval", &id], ["sh", "-c", "other"]).exit, 126);
        assert_eq!(everything(bench), before);
        again(bench).opt(["--approval", &id]).run(LEAVES).ok("");
        assert_eq!((used(bench, "two"), ran(bench)), (2, 2));
        let a = explain(bench, &[], [&leave]);
        assert_eq!((a.exit, a.json["stage"].as_str()), (126, Some("rate")), "{}", a.show());
        assert_eq!(steps(&a, "rate")[0]["outcome"], "deny");
    }
}

as_both! {
    fn relayed_input_is_not_read_and_stands_for_what_was_approved(bench) {
        let relay = || policy(bench, "").stdin("one\n").opt(["--stdin", "-"]);
        let id = asked(&relay().run(["cat"]));
        let explained = || explain(bench, &["--approval", &id, "--stdin", "-"], ["cat"]).exit;
        assert_eq!(explained(), 75);
        approve(bench, &id);
        assert_eq!(explained(), 0);
        assert_eq!(explain(bench, &["--approval", &id], ["cat"]).exit, 126, "it was asked with input");
        relay().opt(["--approval", &id]).run(["cat"]).ok("one\n");
        assert_eq!(explained(), 126);
    }
}

as_both! {
    fn an_approved_request_is_explained_by_its_id_alone(bench) {
        let id = asked(&policy(bench, "").run(LEAVES));
        approve(bench, &id);
        let mut call = again(bench).opt(["--json", "--approval", &id]);
        call.args.insert(0, "explain".into());
        let a = call.raw();
        assert_eq!((a.exit, a.json["argv"][2].as_str()), (0, Some(LEAVES[2])), "{}", a.show());
        assert_eq!(ran(bench), 0);
    }
}

as_both! {
    fn sessions_and_damaged_state_are_explained_as_they_refuse(bench) {
        let more = "[session]\nmax_runs = 1\n[[rate]]\nname = \"nine\"\ncount = 9\nper = \"1h\"\n";
        let leave = leave(bench);
        policy(bench, more).opt(["--session", "s"]).run([&leave]).ok("");
        let a = explain(bench, &["--session", "s"], [&leave]);
        assert_eq!((a.exit, a.json["stage"].as_str()), (126, Some("session")), "{}", a.show());
        assert_eq!(explain(bench, &["--session", "t"], [&leave]).exit, 0);
        fs::remove_file(state(bench).join("state.db")).expect("remove");
        let a = explain(bench, &[], [&leave]);
        assert_eq!((a.exit, a.json["stage"].as_str()), (126, Some("rate")), "{}", a.show());
        assert!(!state(bench).join("state.db").exists());
    }
}
