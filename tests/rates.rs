//! Counting through the binary: exact under many runs and kills, denied where it cannot be counted, and sessions that halt.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::outside::{ready, through};
use crate::harness::{Answer, Bench, Call, alive, assert_gone, eventually, read_audit};

/// Rules and tools that leave a line in `work/ran` for every run that really happened.
fn rules(bench: &Bench, more: &str) -> String {
    let leaves = bench.script("leave", "#!/bin/sh\necho \"$*\" >>\"$(dirname \"$0\")/work/ran\"\n");
    format!(
        "{more}\n[state]\ndir = {:?}\n[[rule]]\nid = \"leave\"\nprogram = {leaves:?}\ndecision = \"allow\"\n\
         [tools.pay]\nargv = [{leaves:?}, \"--amount={{amount}}\", \"{{to}}\"]\ndecision = \"allow\"\n\
         params.amount = {{ type = \"number\" }}\nparams.to = {{ type = \"string\" }}\n",
        bench.dir.join("state"),
    )
}

fn call<'b>(bench: &'b Bench, more: &str) -> Call<'b> {
    bench.host(&rules(bench, more))
}

fn leave(call: Call<'_>) -> Answer {
    let program = call.bench.dir.join("leave");
    call.run([program])
}

fn pay(call: Call<'_>, amount: &str, to: &str) -> Answer {
    call.opt(["--tool", "pay", "--arg", &format!("amount={amount}"), "--arg", &format!("to={to}")]).finish()
}

fn ran(bench: &Bench) -> usize {
    fs::read_to_string(bench.work().join("ran")).unwrap_or_default().lines().count()
}

/// What the first rate holds, of all its keys.
fn used(bench: &Bench) -> u64 {
    let a = bench.call().opt(["rates", "--json", "-p"]).opt([bench.dir.join("policy.toml")]).raw();
    let rows = a.json.as_array().unwrap_or_else(|| panic!("{}", a.show()));
    rows.iter().map(|row| row["use"].as_u64().expect("a number")).sum()
}

fn state(bench: &Bench) -> PathBuf {
    bench.dir.join("state")
}

as_both! {
    fn t5_146_of_fifty_runs_at_once_as_many_run_as_the_rate_allows(bench) {
        let call = call(bench, "[[rate]]\nname = \"few\"\ncount = 7\nper = \"1h\"\n");
        let runs: Vec<Answer> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..50)
                .map(|_| {
                    let mut one = bench.call();
                    one.args.clone_from(&call.args);
                    scope.spawn(move || ready(one, [bench.dir.join("leave")]).raw())
                })
                .collect();
            workers.into_iter().map(|w| w.join().expect("a worker")).collect()
        });
        let of = |status: &str| runs.iter().filter(|a| a.status() == status).count();
        assert_eq!((of("ok"), of("denied"), ran(bench), used(bench)), (7, 43, 7, 7));
        let denied = runs.iter().find(|a| a.status() == "denied").expect("one");
        denied.denied_by("rate", &["blocked: ", "rate 'few' allows 7 calls in 1h, and 7 are used"]);
        assert_eq!(denied.json["rule"]["id"], "few");
        assert!(denied.str("text").contains("the oldest leaves the window in "), "{}", denied.show());
    }
}

as_both! {
    fn t5_146_state_that_cannot_be_had_denies_and_is_no_fresh_start(bench) {
        let more = "[[rate]]\ncount = 2\nper = \"1h\"\n";
        leave(call(bench, more)).ok("");
        let database = state(bench).join("state.db");
        let whole = fs::read(&database).expect("the database");
        let refused = |wanted: &str| {
            let a = leave(call(bench, more));
            a.denied_by("rate", &["the state that this decision needs cannot be used: ", wanted]);
            assert_eq!(ran(bench), 1);
        };
        fs::remove_file(&database).expect("remove");
        refused("is gone or empty");
        fs::write(&database, "").expect("write");
        fs::set_permissions(&database, fs::Permissions::from_mode(0o600)).expect("chmod");
        bench.give(&database);
        refused("is gone or empty");
        fs::write(&database, &whole[..whole.len() - 5000]).expect("write");
        refused("is damaged");
        fs::write(&database, [7; 9000]).expect("write");
        refused("is damaged");
        fs::write(&database, &whole).expect("write");
        fs::set_permissions(state(bench), fs::Permissions::from_mode(0o750)).expect("chmod");
        refused("is open to others (mode 0750)");
        fs::set_permissions(state(bench), fs::Permissions::from_mode(0o700)).expect("chmod");
        fs::write(state(bench).join("state.id"), "other\n").expect("write");
        refused("is not this directory's");
        // Put back, it goes on where it stood.
        let aside = bench.dir.join("aside");
        fs::rename(state(bench), &aside).expect("rename");
        fs::write(state(bench), "a file").expect("write");
        refused("is not a directory");
        fs::remove_file(state(bench)).expect("remove");
        leave(call(bench, more)).ok("");
        assert_eq!((used(bench), ran(bench)), (1, 2), "a directory that was moved away is a fresh start, and one's own doing");
    }
}

as_both! {
    fn t5_146_a_full_disk_denies(bench) {
        let more = "[[rate]]\ncount = 9\nper = \"1h\"\n";
        leave(call(bench, more)).ok("");
        let mut one = ready(call(bench, more), [bench.dir.join("leave")]);
        // The result goes through a pipe, which the limit does not touch; the audit file would.
        one.audit = None;
        let policy = fs::read_to_string(bench.dir.join("policy.toml")).expect("the policy");
        bench.file("policy.toml", policy.split("\n[audit]").next().expect("a part"));
        let limited = through(&one, &["prlimit", "--fsize=600", "--"]);
        let a = crate::harness::outside::answer(&one, limited, Stdio::null());
        a.denied_by("rate", &["the state that this decision needs cannot be used: ", "ulimit -f"]);
        assert_eq!((ran(bench), used(bench)), (1, 1));
        leave(one_more(bench)).ok("");
        assert_eq!((ran(bench), used(bench)), (2, 2));
    }
}

fn one_more(bench: &Bench) -> Call<'_> {
    bench.call().opt([Path::new("-p"), &bench.dir.join("policy.toml")])
}

as_both! {
    fn a_killed_run_is_counted_or_did_not_run(bench) {
        let more = "[[rate]]\ncount = 1000\nper = \"1h\"\n";
        leave(call(bench, more)).ok("");
        for n in 0..12_u64 {
            let mut child = call(bench, more).start([bench.dir.join("leave")]);
            std::thread::sleep(Duration::from_millis(n * 3));
            child.kill().expect("kill");
            child.wait().expect("reap");
        }
        // Whatever was started is over once the last call has its lock and its answer.
        leave(call(bench, more)).ok("");
        let ran = ran(bench) as u64;
        assert!((2..=14).contains(&ran) && ran <= used(bench), "{ran} ran, {} counted", used(bench));
    }
}

as_both! {
    fn the_fourth_refund_is_asked_about_and_the_sum_holds_for_all(bench) {
        let more = "[[rate]]\nname = \"customer\"\nmatch = \"pay\"\nkey = \"to\"\ncount = 3\nper = \"30d\"\nthen = \"ask\"\nreason = \"a fourth refund\"\n\
                    [[rate]]\nname = \"all\"\nmatch = \"pay\"\nsum = \"amount\"\nmax = 100.5\nper = \"1h\"\n[approval]\nask = \"deny\"\n";
        for amount in ["10", "0.5", "20.25"] {
            assert_eq!(pay(call(bench, more), amount, "c1").status(), "ok");
        }
        let fourth = pay(call(bench, more), "1", "c1");
        assert_eq!((fourth.status(), fourth.str("stage"), fourth.exit), ("denied", "approval", 126), "{}", fourth.show());
        let queued = more.replace("ask = \"deny\"", "ask = \"queue\"");
        let asked = pay(call(bench, &queued), "1", "c1");
        assert_eq!((asked.status(), asked.exit), ("needs_approval", 75), "{}", asked.show());
        assert!(asked.str("reason").contains("a fourth refund"), "{}", asked.show());
        assert_eq!(pay(call(bench, more), "69.75", "c2").status(), "ok");
        pay(call(bench, more), "0.01", "c2")
            .denied_by("rate", &["rate 'all' allows 100.5 of 'amount' in 1h, of which 100.5 are used, and this call wants 0.01"]);
        let typed = |amount: &str| {
            let request = bench.file("request.json", format!("{{\"tool\": \"pay\", \"arguments\": {{\"amount\": {amount}, \"to\": \"c3\"}}}}"));
            call(bench, more).opt([Path::new("--request"), &request]).finish()
        };
        typed("-50").denied_by("rate", &["argument 'amount' of 'pay' is negative"]);
        typed("1e30").nothing_ran();
        assert_eq!(ran(bench), 4);
        let rows = one_more(bench).opt(["--json"]);
        let rates = Call { args: [vec!["rates".into()], rows.args].concat(), ..bench.call() }.raw();
        let held: Vec<(&Value, &Value)> = rates.json.as_array().expect("an array").iter().map(|r| (&r["key"], &r["use"])).collect();
        assert_eq!(held, [(&json!({"to": "c1"}), &json!(3)), (&json!({"to": "c2"}), &json!(1)), (&json!({}), &json!(100.5))]);
    }
}

as_both! {
    fn explain_shows_rates_and_counts_nothing(bench) {
        let more = "[[rate]]\nname = \"one\"\ncount = 1\nper = \"1h\"\n";
        let explain = || {
            let mut one = call(bench, more);
            one.args.insert(0, "explain".into());
            ready(one.opt(["--json"]), [bench.dir.join("leave")]).raw()
        };
        assert_eq!(explain().exit, 0);
        assert!(!state(bench).exists(), "looking creates nothing");
        leave(call(bench, more)).ok("");
        for _ in 0..3 {
            let a = explain();
            assert_eq!(a.exit, 126, "{}", a.show());
            assert!(String::from_utf8_lossy(&a.stdout).contains("rate 'one' allows 1 calls in 1h, and 1 are used"), "{}", a.show());
        }
        assert_eq!((used(bench), ran(bench)), (1, 1));
    }
}

as_both! {
    fn a_run_that_nothing_counts_opens_no_store(bench) {
        leave(call(bench, "")).ok("");
        leave(call(bench, "[[rate]]\nmatch = \"pay\"\ncount = 1\nper = \"1h\"\n")).ok("");
        assert!(!state(bench).exists());
        assert_eq!(ran(bench), 2);
    }
}

as_both! {
    fn an_agents_children_count_with_it(bench) {
        let more = "[[rate]]\nname = \"r\"\nkey = \"agent\"\ncount = 2\nper = \"1h\"\n";
        let by = |name: &str| leave(call(bench, more).env("GUARDEXEC_AGENT", "lead").opt(["--agent", name]));
        assert_eq!([by("lead/a").status(), by("lead/b").status()], ["ok", "ok"]);
        by("lead/c").denied_by("rate", &["with agent 'lead', and 2 are used"]);
        by("lead").denied_by("rate", &[]);
        assert_eq!(leave(call(bench, more)).status(), "ok", "one without a name counts apart");
    }
}

as_both! {
    fn sessions_are_required_used_up_halted_and_let_go_on(bench) {
        let more = "[session]\nrequired = true\nmax_runs = 2\nhalt_on = [\"denied:2\", \"exit\"]\n";
        let with = |id: &str| call(bench, more).opt(["--session", id]);
        leave(call(bench, more)).denied_by("session", &["this one names none", "--session ID"]);
        for _ in 0..2 {
            leave(with("a")).ok("");
        }
        leave(with("a")).denied_by("session", &["session 'a' has had its 2 runs", "guardexec session resume a"]);
        for _ in 0..2 {
            with("b").run(["rm"]).denied_by("command", &[]);
        }
        leave(with("b")).denied_by("session", &["session 'b' is halted: 2 of its calls were denied in run "]);
        let resume = |id: &str| bench.call().opt(["session", "resume", id, "-p"]).opt([bench.dir.join("policy.toml")]).raw();
        // Letting go on is recorded, or does not happen.
        let audit = bench.dir.join("audit.jsonl");
        fs::set_permissions(&audit, fs::Permissions::from_mode(0o666)).expect("chmod");
        let unrecorded = resume("a");
        assert_eq!(unrecorded.exit, 125, "{}", unrecorded.show());
        assert!(unrecorded.stderr.contains("nothing was changed"), "{}", unrecorded.stderr);
        fs::set_permissions(&audit, fs::Permissions::from_mode(0o600)).expect("chmod");
        leave(with("a")).denied_by("session", &["has had its 2 runs"]);
        assert_eq!((resume("a").exit, resume("b").exit), (0, 0));
        let told: Vec<Value> = read_audit(&audit).into_iter().filter(|r| r["event"] == "session").collect();
        let of = |key: &str| told.iter().map(|r| r[key].clone()).collect::<Vec<_>>();
        assert_eq!(of("session"), ["b", "a", "b"]);
        assert_eq!(of("state"), ["halted", "resumed", "resumed"]);
        let reason = "2 of its calls were denied";
        assert_eq!(of("reason"), [json!(reason), Value::Null, json!(reason)]);
        assert!(told[2]["by"].as_str().is_some_and(|by| by.contains("(uid ")), "{told:?}");
        leave(with("a")).ok("");
        leave(with("b")).ok("");
        with("b").run(["rm"]).denied_by("command", &[]);
        leave(with("b")).ok("");
        assert_eq!(ran(bench), 5);
    }
}

as_both! {
    fn an_alert_is_told_once_of_many_denials(bench) {
        let teller = bench.script("teller", "#!/bin/sh\ncat >>\"$(dirname \"$0\")/told\"\n");
        let more = format!("[[alert]]\nname = \"noise\"\non = \"denied\"\nabove = 3\nper = \"1h\"\nrun = {teller:?}\n");
        let call = call(bench, &more);
        let runs: Vec<Answer> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..12)
                .map(|_| {
                    let mut one = bench.call();
                    one.args.clone_from(&call.args);
                    scope.spawn(move || ready(one, ["rm"]).raw())
                })
                .collect();
            workers.into_iter().map(|w| w.join().expect("a worker")).collect()
        });
        assert!(runs.iter().all(|a| a.status() == "denied"));
        let told = fs::read_to_string(bench.dir.join("told")).expect("it was told");
        let facts: Value = serde_json::from_str(told.trim_end()).expect("one document");
        assert_eq!((&facts["alert"], &facts["on"], &facts["figure"], &facts["above"]), (&json!("noise"), &json!("denied"), &json!(4), &json!(3)));
    }
}

as_both! {
    fn an_alert_that_cannot_be_told_is_warned_of_and_changes_nothing(bench) {
        let fails = bench.script("fails", "#!/bin/sh\necho x >>\"$(dirname \"$0\")/tried\"\nexit 3\n");
        let alert = |on: &str, run: &str| format!("[[alert]]\nname = \"a-{on}\"\non = \"{on}\"\nabove = 0\nper = \"1h\"\nrun = \"{run}\"\n");
        let fails = fails.to_str().expect("UTF-8");
        let more = format!(
            "[[rate]]\nname = \"few\"\ncount = 9\nper = \"1h\"\n{}{}{}",
            alert("denied", fails), alert("rate:few", fails), alert("timeout", "/nowhere/x")
        );
        let warned = |a: &Answer, part: &str| {
            let warnings = a.json["warnings"].as_array().expect("warnings");
            assert!(warnings.len() == 1 && warnings[0].as_str().is_some_and(|w| w.contains(part)), "{part}: {}", a.show());
        };
        let denied = call(bench, &more).run(["rm"]);
        denied.denied_by("command", &[]);
        warned(&denied, "nobody was told of the alert 'a-denied' (");
        warned(&denied, "): its program failed: it exited with status 3");
        let ran = leave(call(bench, &more));
        ran.ok("");
        warned(&ran, "nobody was told of the alert 'a-rate:few' (");
        // Once a window, told or not: no storm of calls runs a program that fails.
        for answer in [call(bench, &more).run(["rm"]), leave(call(bench, &more))] {
            assert_eq!(answer.json["warnings"], json!([]), "{}", answer.show());
        }
        assert_eq!(fs::read_to_string(bench.dir.join("tried")).expect("tried").lines().count(), 2);
    }
}

as_both! {
    fn told_to_end_while_an_alert_is_told_nothing_runs(bench) {
        let mark = format!("97{}.{:06}", bench.who as u8, std::process::id());
        let teller = bench.script("teller", &format!("#!/bin/sh\nexec sleep {mark}\n"));
        let more = format!(
            "[[rate]]\nname = \"few\"\ncount = 9\nper = \"1h\"\n[[alert]]\nname = \"busy\"\non = \"rate:few\"\nabove = 0\nper = \"1h\"\nrun = {teller:?}\n"
        );
        let child = call(bench, &more).start([bench.dir.join("leave")]);
        assert!(eventually(Duration::from_secs(10), || !alive(&format!("sleep\0{mark}")).is_empty()), "it is told");
        let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("kill");
        let output = child.wait_with_output().expect("guardexec");
        let json: Value = serde_json::from_slice(&output.stdout).expect("a result");
        assert_eq!((&json["status"], &json["exit_status"]), (&json!("cancelled"), &json!(143)), "{json}");
        assert_eq!((ran(bench), used(bench)), (0, 1), "counted, and it does not run");
        assert_gone(&mark);
    }
}

as_both! {
    fn what_a_rate_denies_is_asked_of_nobody_and_who_is_asked_hears_of_it(bench) {
        let person = bench.script("person", "#!/bin/sh\ncat >>\"$(dirname \"$0\")/asked\"\necho '{\"verdict\":\"approve\"}'\n");
        let more = |then: &str| {
            let ask = "[[rule]]\nid = \"careful\"\nprogram = \"true\"\ndecision = \"ask\"\n";
            format!("{ask}[approval]\nask = {person:?}\n[[rate]]\nname = \"few\"\ncount = 1\nper = \"1h\"\nthen = \"{then}\"\n")
        };
        let asked = || fs::read_to_string(bench.dir.join("asked")).unwrap_or_default();
        call(bench, &more("deny")).run(["true"]).ok("");
        assert_eq!(asked().matches("guardexec.approval/v1").count(), 1);
        call(bench, &more("deny")).run(["true"]).denied_by("rate", &["rate 'few' allows 1 calls in 1h, and 1 are used"]);
        assert_eq!(asked().matches("guardexec.approval/v1").count(), 1, "nobody was asked in vain");
        call(bench, &more("ask")).run(["true"]).ok("");
        assert_eq!(asked().matches("rate 'few' allows 1 calls in 1h, and 1 are used").count(), 1, "{}", asked());
        let a = leave(call(bench, &more("ask").replace(&format!("{person:?}"), "\"queue\"")));
        assert_eq!((a.status(), a.str("text").matches("rate 'few' allows").count()), ("needs_approval", 1), "{}", a.show());
    }
}

/// Neither a time namespace nor the time of day that it is started with moves a window.
#[test]
fn a_time_namespace_moves_no_window() {
    let Some(bench) = Bench::new(crate::harness::As::Root) else { return };
    let more = "[[rate]]\ncount = 1\nper = \"1h\"\n";
    leave(call(&bench, more)).ok("");
    let one = ready(call(&bench, more), [bench.dir.join("leave")]);
    let shifted = through(&one, &["unshare", "-T", "--boottime", "864000", "--fork", "--"]);
    let a = crate::harness::outside::answer(&one, shifted, Stdio::null());
    if a.stderr.starts_with("unshare: ") {
        return crate::harness::skip("no time namespace can be had here");
    }
    a.denied_by("rate", &["and 1 are used"]);
    assert_eq!(ran(&bench), 1);
}
