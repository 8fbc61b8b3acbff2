//! The audit file: nothing lost, nothing forged, and nothing run where it cannot be written.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::outside::{answer, ready, through, through_sh};
use crate::harness::{Answer, As, Bench, NOBODY, read_audit};

fn verify(bench: &Bench, more: &[&str], file: &Path) -> Answer {
    bench.call().opt(["audit", "verify"]).opt(more).opt([file]).raw()
}

as_both! {
    fn t2_82_fifty_runs_at_once_lose_nothing(bench) {
        let call = bench.host("allow = [\"true\"]\n");
        let runs: Vec<Answer> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..50)
                .map(|n| {
                    let mut one = bench.call();
                    one.args.clone_from(&call.args);
                    let words = if n % 5 == 4 { ["rm"] } else { ["true"] };
                    scope.spawn(move || ready(one.opt(["--session", &format!("s{n}")]), words).raw())
                })
                .collect();
            workers.into_iter().map(|w| w.join().expect("a worker")).collect()
        });
        let file = bench.dir.join("audit.jsonl");
        let records = read_audit(&file);
        // 40 that ran have two records, 10 that were denied have one.
        assert_eq!(records.len(), 90);
        for (n, run) in runs.iter().enumerate() {
            assert_eq!(run.status(), if n % 5 == 4 { "denied" } else { "ok" }, "{}", run.show());
            let own: Vec<&Value> = records.iter().filter(|r| r["run_id"] == run.json["run_id"]).collect();
            assert_eq!(own.len(), if n % 5 == 4 { 1 } else { 2 });
            let last = own.last().expect("a record");
            assert_eq!((&run.json["audit"]["seq"], &run.json["audit"]["hash"]), (&last["seq"], &last["hash"]));
        }
        let a = verify(bench, &[], &file);
        assert_eq!(a.exit, 0, "{}", a.show());
        let said = String::from_utf8_lossy(&a.stdout);
        assert!(said.starts_with("whole: 90 records, the last is 90:") && !said.contains(';'), "{}", a.show());
        let text = fs::read_to_string(&file).expect("the file");
        let beheaded = bench.file("beheaded.jsonl", text.split_once('\n').expect("lines").1);
        let a = verify(bench, &[], &beheaded);
        assert_eq!(a.exit, 0, "{}", a.show());
        let said = String::from_utf8_lossy(&a.stdout);
        assert!(said.ends_with("; they begin with record 2, and what came before was not given\n"), "{}", a.show());
        let a = verify(bench, &["--json"], &beheaded);
        assert_eq!((a.json[0]["first"].as_u64(), a.json[0]["records"].as_u64()), (Some(2), Some(89)), "{}", a.show());
        assert_eq!(fs::metadata(&file).expect("the file").permissions().mode() & 0o777, 0o600);
    }
}

as_both! {
    fn t2_82_a_killed_lock_holder_does_not_wedge_the_others(bench) {
        bench.host("allow = [\"true\"]\n").run(["true"]);
        let lock = bench.dir.join("audit.jsonl.lock");
        let hold = "import fcntl, os, sys, time\nfd = os.open(sys.argv[1], os.O_WRONLY)\nfcntl.lockf(fd, fcntl.LOCK_EX)\nprint('held', flush=True)\ntime.sleep(30)";
        let mut holder = Command::new("/usr/bin/python3")
            .args(["-c", hold])
            .arg(&lock)
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the holder");
        let mut said = [0; 5];
        std::io::Read::read_exact(holder.stdout.as_mut().expect("piped"), &mut said).expect("the holder holds");
        let waiting = std::thread::scope(|scope| {
            let run = scope.spawn(|| bench.host("allow = [\"true\"]\n").run(["true"]));
            std::thread::sleep(std::time::Duration::from_millis(400));
            assert!(!run.is_finished(), "the lock is waited for");
            holder.kill().expect("kill the holder");
            holder.wait().expect("reap the holder");
            run.join().expect("the run")
        });
        waiting.ok("");
        assert_eq!(verify(bench, &[], &bench.dir.join("audit.jsonl")).exit, 0);
    }
}

as_both! {
    fn verify_names_the_first_bad_line_and_sees_a_cut_tail(bench) {
        let mut last = Value::Null;
        for _ in 0..3 {
            last = bench.host("allow = [\"true\"]\n").run(["true"]).json;
        }
        let file = bench.dir.join("audit.jsonl");
        let whole = fs::read_to_string(&file).expect("the file");
        let lines: Vec<&str> = whole.lines().collect();
        assert_eq!(lines.len(), 6);
        let expect = format!("{}:{}", last["audit"]["seq"], last["audit"]["hash"].as_str().expect("a hash"));
        assert_eq!(verify(bench, &["--expect", &expect], &file).exit, 0);
        let swapped = [lines[0], lines[2], lines[1], lines[3]].join("\n") + "\n";
        let cut = [lines[0], lines[1], lines[3]].join("\n") + "\n";
        let edited = whole.replacen("\"argv\":[\"true\"]", "\"argv\":[\"tru3\"]", 2).replacen("tru3", "true", 1);
        for (text, line) in [(swapped, 2), (cut, 3), (edited, 3)] {
            let bad = bench.file("bad.jsonl", text);
            let a = verify(bench, &[], &bad);
            assert_eq!(a.exit, 1, "{}", a.show());
            assert!(a.stderr.contains(&format!("bad.jsonl:{line}: ")), "line {line}: {}", a.show());
        }
        let short = bench.file("short.jsonl", lines[..4].join("\n") + "\n");
        assert_eq!(verify(bench, &[], &short).exit, 0, "a cut tail alone cannot be seen");
        assert_eq!(verify(bench, &["--expect", &expect], &short).exit, 1, "with the last record of a result it can");
        assert_eq!(verify(bench, &[], &bench.dir.join("missing.jsonl")).exit, 1);
    }
}

as_both! {
    fn a_torn_last_line_is_closed(bench) {
        bench.host("allow = [\"true\"]\n").run(["true"]);
        let file = bench.dir.join("audit.jsonl");
        let mut torn = fs::read_to_string(&file).expect("the file");
        torn.push_str("{\"ts\":\"2026-");
        fs::write(&file, torn).expect("write");
        let call = ready(bench.host("allow = [\"true\"]\n"), ["true"]);
        let a = answer(&crate::harness::Call { audit: None, ..call }, ready(bench.host("allow = [\"true\"]\n"), ["true"]).process(), Stdio::null());
        assert_eq!(a.status(), "ok", "{}", a.show());
        let text = fs::read_to_string(&file).expect("the file");
        let events: Vec<String> = text.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok()).map(|r| r["event"].as_str().unwrap_or("").to_owned()).collect();
        assert_eq!(events, ["decision", "outcome", "error", "decision", "outcome"], "{text}");
        assert_eq!(verify(bench, &[], &file).exit, 0, "{text}");
    }
}

as_both! {
    fn t2_84_a_record_cannot_be_forged_through_its_words(bench) {
        let word = "x\n{\"decision\":\"allow\"}\u{1b}[2K\r\u{7f}\u{85}\u{9b}\u{2028}\u{2029}\u{202e}";
        let a = bench.host("allow = [\"echo\"]\n").opt(["--label", "k=v\u{e9}"]).run(["echo", word]);
        assert_eq!((a.status(), a.str("stdout")), ("ok", format!("{word}\n").as_str()), "{}", a.show());
        let text = fs::read_to_string(bench.dir.join("audit.jsonl")).expect("the file");
        assert_eq!(text.matches('\n').count(), 2);
        let raw = |c: char| c != '\n' && (c.is_control() || ['\u{2028}', '\u{2029}', '\u{202e}'].contains(&c));
        assert_eq!(text.chars().find(|&c| raw(c)), None);
        assert_eq!(String::from_utf8_lossy(&a.stdout).chars().find(|&c| raw(c)), None);
        assert_eq!(a.audit[0]["argv"][1], word, "it round-trips");
        let a = bench.host("allow = [\"echo\"]\n").run([&format!("no-such{word}")]);
        assert_eq!((a.status(), a.stderr.lines().count()), ("denied", 1), "{}", a.show());
        for option in ["--agent", "--session"] {
            bench.host("allow = [\"echo\"]\n").opt([option, word]).run(["echo"]).error(&["control or invisible"]);
        }
        bench.host("allow = [\"echo\"]\n").opt(["--label", &format!("k={word}")]).run(["echo"]).error(&["control or invisible"]);
    }
}

as_both! {
    fn no_value_input_or_output_is_recorded(bench) {
        let policy = "allow = [\"sh\"]\n[env]\nrequest = [\"TOKEN\"]\nset = { SETTING = \"set-4711\" }\n";
        let a = bench.host(policy).opt(["--stdin", "-", "--env", "TOKEN=env-4711", "--why", "a reason"]).stdin(b"in-4711\n".to_vec())
            .run(["sh", "-c", "cat; echo $TOKEN $SETTING; echo err-$((4700+11)) >&2"]);
        assert_eq!((a.status(), a.str("stdout"), a.str("stderr")), ("ok", "in-4711\nenv-4711 set-4711\n", "err-4711\n"), "{}", a.show());
        assert!(!fs::read_to_string(bench.dir.join("audit.jsonl")).expect("the file").contains("4711"));
    }
}

as_both! {
    fn a_command_string_without_words_is_recorded_as_asked(bench) {
        let policy = "allow = [\"echo\", \"curl\"]\n";
        for (text, recorded) in [
            ("echo a; rm  -rf /", "echo a; rm  -rf /"),
            ("echo \"open\u{1b}[2J", "echo \"open\u{1b}[2J"),
            ("curl --token 's3cret w0rd' | sh", "curl --token [masked] | sh"),
            ("curl -u me:s3cret http://h/ > x", "curl -u me:[masked] http://h/ > x"),
            ("PASSWORD='s3cret w0rd' curl", "PASSWORD=[masked] curl"),
            ("mysql -ps3cret < x", "mysql -p[masked] < x"),
        ] {
            let a = bench.host(policy).command(text);
            let record = a.audit.last().expect("a record");
            assert_eq!((&record["command"], &record["argv"]), (&recorded.into(), &json!([])), "{}", a.show());
            assert!(a.json["argv"].is_null() && a.json["argv_base64"].is_null(), "{}", a.show());
            assert_eq!(record["decision"], a.json["decision"], "{}", a.show());
        }
        let a = bench.host(policy).command("echo 'a b'");
        assert!(a.audit.iter().rev().nth(1).expect("a decision")["command"].is_null(), "{}", a.show());
        assert!(!fs::read_to_string(bench.dir.join("audit.jsonl")).expect("the file").contains("s3cret"));
    }
}

as_both! {
    fn the_reason_given_is_recorded(bench) {
        let why = "the build\u{202e}\n broke; token hunter2hunter2";
        let a = bench.host("allow = [\"echo\"]\n").opt(["--why", why]).run(["echo", "--token", "hunter2hunter2"]);
        assert_eq!(a.audit[0]["why"], why.replace("hunter2hunter2", "[masked]"), "{}", a.show());
        let a = bench.host("allow = [\"echo\"]\n").run(["rm"]);
        assert!(a.audit.last().expect("a record")["why"].is_null(), "{}", a.show());
        assert!(!fs::read_to_string(bench.dir.join("audit.jsonl")).expect("the file").contains('\u{202e}'));
    }
}

as_both! {
    fn a_policy_that_fails_while_judging_is_recorded(bench) {
        let rule = "[[rule]]\nid = \"r\"\nprogram = \"touch\"\ndecision = \"allow\"\n";
        for (extra, part) in [("examples.deny = [\"touch ran\"]\n", "example `touch ran`"), ("operands = [{ pattern = '(' }]\n", "pattern")] {
            let a = bench.host(&format!("{rule}{extra}")).run(["touch", "ran"]);
            a.error(&[part]);
            let record = a.audit.last().expect("a record");
            assert_eq!((record["event"].as_str(), record["kind"].as_str()), (Some("error"), Some("policy")), "{}", a.show());
            assert_eq!((&record["message"], &record["run_id"]), (&a.json["reason"], &a.json["run_id"]), "{}", a.show());
            assert_eq!(record["hash"], a.json["audit"]["hash"], "{}", a.show());
            assert!(!bench.work().join("ran").exists(), "{}", a.show());
        }
    }
}

fn with_audit(file: &str) -> String {
    format!("allow = [\"touch\"]\n[sandbox]\nprofile = \"host\"\n[audit]\nfile = {file:?}\n")
}

as_both! {
    fn t2_86_nothing_runs_where_the_audit_cannot_be_written(bench) {
        let (dir, work) = (bench.dir.display().to_string(), bench.work());
        let target = bench.file("target", "");
        std::os::unix::fs::symlink(&target, bench.dir.join("link")).expect("link");
        nix::unistd::mkfifo(&bench.dir.join("fifo"), nix::sys::stat::Mode::from_bits_truncate(0o600)).expect("fifo");
        bench.give(&bench.dir.join("fifo"));
        let open = bench.file("open.jsonl", "");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o666)).expect("chmod");
        bench.file("other.txt", "no audit record\n");
        for name in ["missing/audit.jsonl", "link", "fifo", "work", "open.jsonl", "other.txt"] {
            let a = bench.policy(&with_audit(&format!("{dir}/{name}"))).run(["touch", "ran"]);
            a.error(&["audit", name.split('/').next().expect("a name"), "hint: "]);
            assert!(!work.join("ran").exists(), "{name}");
            assert_eq!(a.json["error"]["kind"], "audit", "{}", a.show());
            // What is denied is not run either, and says that it could not be recorded.
            let a = bench.policy(&with_audit(&format!("{dir}/{name}"))).run(["rm"]);
            assert_eq!((a.status(), a.exit), ("error", 125), "{}", a.show());
        }
        for device in ["/dev/full", "/dev/null"] {
            let a = bench.policy(&with_audit(device)).run(["touch", "ran"]);
            a.error(&["audit", device]);
        }
        assert_eq!((fs::read_to_string(target).expect("target"), work.join("ran").exists()), (String::new(), false));
    }
}

as_both! {
    fn an_audit_file_that_others_can_exchange_is_refused(bench) {
        let refused = |way: &str, part: &str, remedy: &str| {
            let file = bench.dir.join(way).join("audit.jsonl");
            let a = bench.policy(&with_audit(&file.display().to_string())).run(["touch", "ran"]);
            a.error(&["the way to the audit file", part, &format!("hint: {remedy} ")]);
            assert_eq!(a.json["error"]["kind"], "audit", "{}", a.show());
            assert!(!bench.work().join("ran").exists() && !file.exists(), "{}", a.show());
        };
        for dir in ["open", "open/below"] {
            fs::create_dir(bench.dir.join(dir)).expect("mkdir");
            bench.give(&bench.dir.join(dir));
        }
        fs::set_permissions(bench.dir.join("open"), fs::Permissions::from_mode(0o777)).expect("chmod");
        refused("open", "/open` can be changed by its group or by others (mode 0777)", "chmod go-w");
        refused("open/below", "/open` can be changed", "chmod go-w");
        if bench.who == As::Root {
            fs::create_dir(bench.dir.join("theirs")).expect("mkdir");
            let chown = |name: &str| std::os::unix::fs::lchown(bench.dir.join(name), Some(NOBODY), None).expect("chown");
            chown("theirs");
            refused("theirs", "/theirs` belongs to user 65534", "chown root");
            std::os::unix::fs::symlink(bench.work(), bench.dir.join("way")).expect("link");
            chown("way");
            refused("way", "/way` belongs to user 65534", "chown root");
        }
        // A sticky directory protects its entries, as /tmp does.
        fs::set_permissions(bench.dir.join("open"), fs::Permissions::from_mode(0o1777)).expect("chmod");
        let file = bench.dir.join("open/audit.jsonl");
        let a = bench.policy(&with_audit(&file.display().to_string())).run(["touch", "ran"]);
        assert_eq!((a.status(), file.exists()), ("ok", true), "{}", a.show());
    }
}

as_both! {
    fn t2_86_a_full_file_before_and_after_the_run(bench) {
        let policy = "allow = [\"touch\"]\n";
        let first = bench.host(policy).run(["touch", "first"]);
        assert_eq!(first.status(), "ok", "{}", first.show());
        let file = bench.dir.join("audit.jsonl");
        let text = fs::read_to_string(&file).expect("the file");
        let lengths: Vec<u64> = text.lines().map(|l| l.len() as u64 + 1).collect();
        let size = fs::metadata(&file).expect("the file").size();
        // Room for nothing, then for the decision alone.
        for (room, ran) in [(20, false), (lengths[0] + lengths[1] / 2, true)] {
            let call = ready(bench.host(policy), ["touch", "second"]);
            let a = answer(&call, through(&call, &["prlimit", &format!("--fsize={}", size + room)]), Stdio::null());
            assert_eq!((a.status(), a.exit, a.json["error"]["kind"].as_str()), ("error", 125, Some("audit")), "{}", a.show());
            assert_eq!(bench.work().join("second").exists(), ran, "{}", a.show());
            assert_eq!(a.json["exit_code"].as_i64(), ran.then_some(0), "the outcome is kept\n{}", a.show());
            assert_eq!(a.str("text").contains("the command did run"), ran, "{}", a.show());
            assert!(a.json["audit"].is_null() && a.stderr.starts_with("guardexec: error: "), "{}", a.show());
        }
        assert_eq!(verify(bench, &[], &file).exit, 0);
    }
}

#[test]
fn t2_86_a_full_and_a_read_only_file_system() {
    let Some(bench) = Bench::new(As::Root) else { return };
    let probe = Command::new("unshare").args(["-m", "true"]).status();
    if !probe.is_ok_and(|s| s.success()) {
        return crate::harness::skip("needs a mount namespace");
    }
    let place = bench.dir.join("place");
    fs::create_dir(&place).expect("mkdir");
    let policy = bench
        .file("fs.toml", format!("version = 1\n{}", with_audit(&format!("{}/a.jsonl", place.display()))));
    let call = ready(bench.call().opt(["--policy"]).opt([&policy]), ["touch", "ran"]);
    for (options, fill) in
        [("size=16k", "head -c 100000 /dev/zero > fill 2>/dev/null"), ("size=16k,ro", "true")]
    {
        let script = format!(
            "unshare -m --propagation private sh -c 'mount -t tmpfs -o {options} tmpfs {0} && (cd {0} && {fill}; true) && exec \"$@\"' sh \"$@\"",
            place.display()
        );
        let a = answer(&call, through_sh(&call, &script), Stdio::null());
        a.check_invariants(None);
        a.error(&["audit", "a.jsonl"]);
        assert!(!bench.work().join("ran").exists());
    }
}

as_both! {
    fn t2_87_the_run_cannot_write_its_own_history(bench) {
        let file = bench.work().join(".guardexec/audit.jsonl");
        fs::create_dir(bench.work().join(".guardexec")).expect("mkdir");
        bench.give(&bench.work().join(".guardexec"));
        for profile in ["strict", "workspace"] {
            let text = format!(
                "[sandbox]\nprofile = {profile:?}\n[filesystem]\ncwd = [{0:?}]\nwrite = [{0:?}]\n[audit]\nfile = {file:?}\n[[rule]]\nid = \"r\"\nprogram = \"sh\"\ndecision = \"allow\"\nexec = [\"rm\", \"mv\", \"sh\"]\n",
                bench.work()
            );
            let a = bench.policy(&text).run(["sh", "-c", "echo forged >> .guardexec/audit.jsonl; : > .guardexec/audit.jsonl; rm -f .guardexec/audit.jsonl; mv .guardexec gone; echo x > .guardexec/audit.jsonl.lock; exit 0"]);
            let text = fs::read_to_string(&file).unwrap_or_default();
            assert!(!text.contains("forged") && !bench.work().join("gone").exists(), "{text}\n{}", a.show());
            if a.status() != "error" {
                assert_eq!(verify(bench, &[], &file).exit, 0, "{text}");
                assert!(text.lines().count() >= 2, "{text}\n{}", a.show());
            }
        }
    }
}
