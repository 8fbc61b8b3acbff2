//! One run: how its end is told, what it reads, where it starts, and programs that cannot be started.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use crate::harness::outside::{answer, checked, ready, through_sh};
use crate::harness::{Bench, Call, NOBODY, alive, assert_gone, eventually};

/// A `host` policy under each way to hold a tree.
pub fn kinds<'b>(bench: &'b Bench, text: &str, mut each: impl FnMut(Call<'b>)) {
    for held in ["auto", "groups"] {
        each(bench.policy(&format!("{text}\n[sandbox]\nprofile = \"host\"\nprocesses = \"{held}\"\n")));
    }
}

as_both! {
    fn t2_61_a_death_by_signal_is_told_as_one(bench) {
        for (signal, name, status) in [("KILL", "SIGKILL", 137), ("SEGV", "SIGSEGV", 139), ("TERM", "SIGTERM", 143)] {
            kinds(bench, "allow = [\"sh\"]\n", |call| {
                let a = call.run(["sh", "-c", &format!("echo first; kill -{signal} $$")]);
                assert_eq!((a.status(), a.exit, a.str("signal")), ("signaled", status, name), "{}", a.show());
                assert!(a.json["exit_code"].is_null() && a.json["limit"].is_null(), "{}", a.show());
                assert_eq!(a.json["core_dumped"], false);
                assert_eq!(a.str("text"), format!("error: killed by {name} (exit={status})\nfirst\n"));
                assert_eq!(a.stderr, format!("guardexec: error: killed by {name} (exit={status}) ({}/policy.toml:2)\n", bench.dir.display()));
            });
        }
    }
}

as_both! {
    fn t2_63_standard_input_is_not_the_callers(bench) {
        let (reader, mut writer) = std::io::pipe().expect("pipe");
        std::io::Write::write_all(&mut writer, b"the caller's own").expect("write");
        let call = ready(bench.host("allow = [\"cat\"]\n"), ["cat"]);
        let a = answer(&call, call.process(), reader.try_clone().expect("dup").into());
        a.check_invariants(call.audit.as_deref());
        a.ok("");
        assert!(a.took < Duration::from_secs(5), "took {:?}", a.took);
        drop(writer);
        let left = std::io::read_to_string(reader).expect("read");
        assert_eq!(left, "the caller's own", "not a byte of it was eaten");
    }
}

as_both! {
    fn a_file_or_nothing_is_standard_input(bench) {
        bench.file("work/in.txt", "from a file\n");
        bench.host("allow = [\"cat\"]\n").opt(["--stdin", "in.txt"]).run(["cat"]).ok("from a file\n");
        bench.host("allow = [\"cat\"]\n").opt(["--stdin", "/dev/null"]).run(["cat"]).ok("");
        let a = bench.host("allow = [\"readlink\"]\n").run(["readlink", "/proc/self/fd/0"]);
        a.ok("/dev/null\n");
        let a = bench.host("allow = [\"cat\"]\n").opt(["--stdin", "missing.txt"]).run(["cat"]);
        assert_eq!((a.status(), a.exit, a.str("stage")), ("error", 125, "sandbox"), "{}", a.show());
        assert!(a.str("text").contains("missing.txt") && a.str("reason").contains("missing.txt"), "{}", a.show());
        assert!(a.json["exit_code"].is_null() && a.json["stdout"].is_null(), "{}", a.show());
    }
}

as_both! {
    fn a_missing_interpreter_is_127_under_confinement_too(bench) {
        let script = bench.script("work/lost.sh", "#!/nonexistent/interpreter\n");
        let path = script.to_str().expect("UTF-8");
        let a = bench.policy(&format!("allow = [{path:?}]\n")).run([path]);
        assert_eq!((a.status(), a.exit), ("not_found", 127), "{}", a.show());
    }
}

as_both! {
    fn a_signal_that_a_program_sends_itself_is_no_limit(bench) {
        let a = bench.host("allow = [\"sh\"]\n").run(["sh", "-c", "kill -XCPU $$"]);
        assert_eq!((a.status(), a.str("signal")), ("signaled", "SIGXCPU"), "{}", a.show());
        assert!(a.json["limit"].is_null(), "{}", a.show());
    }
}

as_both! {
    fn root_without_the_right_to_mount_is_still_somebody_else(bench) {
        let a = bench.policy("allow = [\"id\"]\n").wrap(["setpriv", "--bounding-set=-sys_admin"]).run(["id", "-u"]);
        assert_eq!(a.status(), "ok", "{}", a.show());
        assert_ne!(a.str("stdout"), "0\n", "{}", a.show());
    }
}

as_both! {
    fn a_large_input_is_relayed_whole_and_may_be_closed_early(bench) {
        let bytes: Vec<u8> = (0..8_000_000u32).map(|n| (n % 251) as u8).collect();
        let policy = "allow = [\"cksum\", \"head\", \"true\", \"readlink\"]\n";
        let plain = std::process::Command::new("cksum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().and_then(|mut c| {
            let mut pipe = c.stdin.take().expect("piped");
            std::io::Write::write_all(&mut pipe, &bytes)?;
            drop(pipe);
            c.wait_with_output()
        });
        let expected = String::from_utf8(plain.expect("cksum").stdout).expect("UTF-8");
        kinds(bench, policy, |call| { call.opt(["--stdin", "-"]).stdin(bytes.clone()).run(["cksum"]).ok(&expected); });
        bench.host(policy).opt(["--stdin", "-"]).stdin(b"abcdefgh".repeat(1 << 20)).run(["head", "-c", "8"]).ok("abcdefgh");
        let a = bench.host(policy).opt(["--stdin", "-"]).stdin(b"x".to_vec()).run(["readlink", "/proc/self/fd/0"]);
        assert!(a.str("stdout").starts_with("pipe:"), "{}", a.show());
        // A relay whose source never ends does not outlive the command.
        let (reader, writer) = std::io::pipe().expect("pipe");
        let call = ready(bench.host(policy).opt(["--stdin", "-"]), ["true"]);
        let a = answer(&call, call.process(), reader.into());
        a.ok("");
        assert!(a.took < Duration::from_secs(5), "took {:?}", a.took);
        drop(writer);
    }
}

as_both! {
    fn t2_79_a_bad_working_directory_is_named_and_not_the_program(bench) {
        let policy = "allow = [\"true\", \"pwd\"]\n";
        let a = bench.host(policy).opt(["--cwd", "/nonexistent/dir"]).run(["true"]);
        a.error(&["/nonexistent/dir", "working directory"]);
        let file = bench.file("work/file", "");
        bench.host(policy).opt(["--cwd".as_ref(), file.as_os_str()]).run(["true"]).error(&["working directory", "file"]);
        let call = ready(bench.host(policy), ["true"]);
        checked(&call, "mkdir -p gone && cd gone && rmdir ../gone && exec \"$@\"").error(&["working directory", "does not exist any more"]);
    }
}

as_both! {
    fn a_run_starts_only_where_the_policy_lets_it(bench) {
        let policy = "allow = [\"pwd\"]\n";
        let below = bench.file("work/deep/er/x", "").parent().expect("a parent").to_owned();
        bench.host(policy).opt(["-C", "deep/er"]).run(["pwd"]).ok(&format!("{}\n", below.display()));
        std::os::unix::fs::symlink("/etc", bench.work().join("out")).expect("link");
        for outside in ["/etc", "out", "..", "deep/../..", "/proc/self/root/etc", "/proc/self/cwd/out"] {
            let a = bench.host(policy).opt(["-C", outside]).run(["pwd"]);
            a.denied_by("arguments", &["working directory", "--cwd"]);
        }
        let call = ready(bench.host(policy).opt(["-C", "/proc/self/fd/9"]), ["pwd"]);
        checked(&call, "exec 9</etc; exec \"$@\"").denied_by("arguments", &["'/etc'"]);
        let written = format!("{policy}[filesystem]\ncwd = [\"/etc\"]\n");
        bench.host(&written).opt(["-C", "/etc"]).run(["pwd"]).ok("/etc\n");
        bench.host(&written).run(["pwd"]).denied_by("arguments", &["working directory"]);
    }
}

as_both! {
    fn the_root_directory_and_a_bare_home_must_be_written_out(bench) {
        let policy = "allow = [\"pwd\"]\n";
        bench.host(policy).cwd("/").run(["pwd"]).denied_by("arguments", &["'/'", "written out"]);
        bench.host(policy).cwd("/").opt(["-C", "/etc"]).run(["pwd"]).ok("/etc\n");
        bench.host(&format!("{policy}[filesystem]\ncwd = [\"/\"]\n")).cwd("/").run(["pwd"]).ok("/\n");
        if bench.who == crate::harness::As::Root {
            let home = nix::unistd::User::from_uid(nix::unistd::geteuid()).expect("users").expect("root").dir;
            let shown = format!("{}\n", home.display());
            bench.host(policy).cwd(&home).run(["pwd"]).denied_by("arguments", &["written out"]);
            bench.host(&format!("{policy}[filesystem]\ncwd = [\"~\"]\n")).cwd(&home).run(["pwd"]).ok(&shown);
        }
    }
}

as_both! {
    fn t2_80_many_runs_that_end_about_when_their_time_does(bench) {
        let policy = "allow = [\"sleep\"]\n";
        let call = bench.host(policy).opt(["--timeout", "60ms"]);
        let run = |n: usize| {
            let mut again = bench.call();
            again.args.clone_from(&call.args);
            let call = ready(again, ["sleep", ["0.050", "0.055", "0.058", "0.062"][n % 4]]);
            call.raw()
        };
        let answers: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3).map(|w| scope.spawn(move || (0..16).map(|n| run(n + w)).collect::<Vec<_>>())).collect();
            workers.into_iter().flat_map(|w| w.join().expect("a worker")).collect()
        });
        for a in &answers {
            match a.status() {
                "ok" => assert_eq!((a.exit, a.json["limit"].is_null(), a.json["exit_code"].as_i64()), (0, true, Some(0)), "{}", a.show()),
                "timeout" => assert_eq!((a.exit, a.str("limit")), (124, "wall_time"), "{}", a.show()),
                other => panic!("{other}\n{}", a.show()),
            }
        }
    }
}

as_both! {
    fn t2_90_a_quiet_command_ends_by_a_default_wall_time(bench) {
        let a = bench.host("allow = [\"true\"]\n").run(["true"]);
        assert_eq!(a.json["limits"]["wall_time"], json!({"value": 60_000, "how": "exact"}), "{}", a.show());
        for zero in ["0", "\"0s\"", "\"0ms\"", "\"0\"", "-1", "\"5\""] {
            let a = bench.host(&format!("allow = [\"true\"]\n[limits]\nwall_time = {zero}\n")).run(["true"]);
            a.error(&["policy.toml:"]);
            assert!(a.stderr.contains(&format!("wall_time = {zero}")), "{}", a.show());
        }
        let a = bench.host("allow = [\"true\"]\n[limits]\nwall_time = \"none\"\n").run(["true"]);
        assert_eq!(a.json["limits"]["wall_time"], json!({"value": null, "how": "none"}), "{}", a.show());
        let file = bench.file("work/quiet", "one line\n");
        let a = bench.host("allow = [\"tail\"]\n[limits]\nwall_time = \"400ms\"\n").run(["tail".as_ref(), "-f".as_ref(), file.as_os_str()]);
        assert_eq!((a.status(), a.exit, a.str("stdout")), ("timeout", 124, "one line\n"), "{}", a.show());
    }
}

as_both! {
    fn a_timeout_only_tightens(bench) {
        let policy = "allow = [\"sleep\", \"true\"]\n[limits]\nwall_time = \"400ms\"\n";
        let a = bench.host(policy).opt(["--timeout", "1h"]).run(["sleep", "20"]);
        assert_eq!((a.status(), a.json["limits"]["wall_time"]["value"].as_u64()), ("timeout", Some(400)), "{}", a.show());
        let a = bench.host(policy).opt(["--timeout", "200ms"]).run(["true"]);
        assert_eq!(a.json["limits"]["wall_time"]["value"], 200, "{}", a.show());
        let a = bench.host("allow = [\"true\"]\n[limits]\nwall_time = \"none\"\n").opt(["--timeout", "7s"]).run(["true"]);
        assert_eq!(a.json["limits"]["wall_time"]["value"], 7000, "{}", a.show());
    }
}

as_both! {
    fn t2_91_what_cannot_be_started_gives_a_result_and_never_a_shell(bench) {
        let marker = bench.work().join("ran");
        let touch = format!("touch {}\n", marker.display());
        let mut foreign = std::fs::read("/bin/true").expect("an ELF file");
        foreign[18] = if foreign[18] == 0xf7 { 0xf3 } else { 0xf7 }; // e_machine
        let plain = bench.file("plain.sh", format!("#!/bin/sh\n{touch}"));
        let itself = bench.script("itself.sh", "");
        std::fs::write(&itself, format!("#!{}\n{touch}", itself.display())).expect("write");
        let cases = [
            (itself, "exec_failed", 126, "itself.sh"),
            (bench.script("relative.sh", &format!("#!bin/sh\n{touch}")), "exec_failed", 126, "'bin/sh', which is another file in every directory"),
            (bench.script("directory.sh", &format!("#!/usr\n{touch}")), "exec_failed", 126, "'/usr', which is not a file"),
            (plain, "exec_failed", 126, "plain.sh"),
            (bench.script("lost.sh", &format!("#!/nonexistent/interpreter\n{touch}")), "not_found", 127, "interpreter"),
            (bench.script("text.sh", &touch), "exec_failed", 126, "no shell is tried"),
            (bench.script("empty.sh", ""), "exec_failed", 126, "empty.sh"),
            (bench.script("foreign", ""), "exec_failed", 126, "foreign"),
            (bench.work(), "exec_failed", 126, "work"),
        ];
        std::fs::write(bench.dir.join("foreign"), foreign).expect("write");
        for (path, status, exit, part) in cases {
            let path = path.to_str().expect("UTF-8");
            kinds(bench, &format!("allow = [{path:?}]\n"), |call| {
                let a = call.run([path]);
                assert_eq!((a.status(), a.exit), (status, exit), "{path}\n{}", a.show());
                assert!(a.str("text").starts_with("error: ") && a.str("text").contains(part), "{path}\n{}", a.show());
                assert!(a.json["exit_code"].is_null() && a.json["error"].is_object(), "{path}\n{}", a.show());
                assert!(!marker.exists(), "{path} ran");
            });
        }
        let a = bench.host("allow = [\"no-such-program\"]\n").run(["no-such-program"]);
        assert_eq!((a.status(), a.exit), ("not_found", 127), "{}", a.show());
    }
}

as_both! {
    fn t2_78_bytes_that_are_not_utf8_reach_the_command_unchanged(bench) {
        let odd = OsStr::from_bytes(b"\xff\xfe");
        let a = bench.host("allow = [\"printf\"]\n").run([OsStr::new("printf"), OsStr::new("%s"), odd]);
        assert_eq!((a.status(), a.str("stdout_base64")), ("ok", "//4="), "{}", a.show());
        assert_eq!(a.json["argv_base64"], json!(["cHJpbnRm", "JXM=", "//4="]), "{}", a.show());
        let text = a.audit[0].to_string();
        assert!(text.contains("\\\\xff\\\\xfe"), "the record holds the bytes escaped: {text}");
        let rule = "[[rule]]\nid = \"r\"\nprogram = \"ls\"\ndecision = \"allow\"\noperands = [{ pattern = '[a-z]+' }]\n";
        bench.host(rule).run([OsStr::new("ls"), odd]).denied_by("arguments", &["blocked: "]);
        let a = bench.host("allow = [\"ls\"]\n").run([OsStr::new("ls"), odd]);
        assert_eq!((a.status(), a.exit), ("nonzero_exit", 2), "{}", a.show());
    }
}

as_both! {
    fn a_signal_during_the_grace_ends_the_tree_at_once(bench) {
        // The two run side by side, and each looks for what the other has not ended yet.
        let who = u8::from(bench.who == crate::harness::As::User);
        let mark = format!("9531.{}{who}", std::process::id());
        kinds(bench, "allow = [\"sh\"]\n[limits]\nwall_time = \"300ms\"\nkill_grace = \"20s\"\n", |call| {
            let child = call.start(["sh", "-c", &format!("trap '' TERM; while :; do sleep {mark}; done")]);
            assert!(eventually(Duration::from_secs(10), || !alive(&format!("sleep\0{mark}")).is_empty()), "it never came up");
            std::thread::sleep(Duration::from_millis(600));
            let began = std::time::Instant::now();
            let pid = nix::unistd::Pid::from_raw(child.id() as i32);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("signal guardexec");
            let output = child.wait_with_output().expect("wait");
            let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a result");
            assert_eq!((output.status.code(), json["status"].as_str()), (Some(124), Some("timeout")), "{json:#}");
            assert!(began.elapsed() < Duration::from_secs(5), "took {:?}", began.elapsed());
            assert_gone(&mark);
        });
    }
}

as_both! {
    fn t2_71_signals_and_their_mask_are_reset(bench) {
        let perl = "use POSIX; $SIG{$_}='IGNORE' for qw(INT HUP PIPE CHLD USR1 QUIT); \
                    sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGUSR2, SIGTERM, SIGALRM)); exec @ARGV or die";
        kinds(bench, "allow = [\"cat\"]\n", |call| {
            let call = ready(call, ["cat", "/proc/self/status"]);
            let a = answer(&call, crate::harness::outside::through(&call, &["perl", "-e", perl, "--"]), Stdio::null());
            a.check_invariants(call.audit.as_deref());
            let lines: Vec<&str> = a.str("stdout").lines().filter(|l| ["SigBlk:", "SigIgn:", "SigCgt:"].iter().any(|s| l.starts_with(s))).collect();
            assert_eq!(lines, ["SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000", "SigCgt:\t0000000000000000"], "{}", a.show());
        });
    }
}

as_both! {
    fn t2_73_no_descriptor_but_the_three_reaches_the_command(bench) {
        let policy = "allow = [\"ls\"]\n";
        let result = bench.file("result.json", "");
        let check = |call: Call<'_>| {
            let call = ready(call.opt(["--result-file".as_ref(), result.as_os_str()]).opt(["--result-fd", "7"]), ["ls", "/proc/self/fd"]);
            // `ls` itself holds descriptor 3.
            checked(&call, "exec 9</ 8</etc/passwd 7>/dev/null; exec \"$@\"").ok("0\n1\n2\n3\n");
        };
        kinds(bench, policy, check);
        check(bench.policy(policy));
    }
}

as_both! {
    fn t2_67_other_processes_of_the_same_user_do_not_count(bench) {
        let mark = format!("9532.{}{:?}", std::process::id(), bench.who);
        let script = format!("$0='idle {mark}'; for (1..200) {{ my $p=fork; defined $p or last; if (!$p) {{ sleep 60; exit }} }} $|=1; print \"up\\n\"; sleep 60");
        let mut command = std::process::Command::new("setpriv");
        if bench.who == crate::harness::As::User && nix::unistd::geteuid().is_root() {
            command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".into()]);
        }
        let mut crowd = std::os::unix::process::CommandExt::process_group(&mut command, 0)
            .args(["perl", "-e", &script]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a crowd");
        let mut up = [0; 3];
        std::io::Read::read_exact(crowd.stdout.as_mut().expect("piped"), &mut up).expect("up");
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            assert_eq!(crate::harness::alive(&mark).len(), 201, "the crowd is there");
            let policy = "allow = [\"true\"]\n[limits]\npids = 64\n";
            kinds(bench, policy, |call| { call.run(["true"]).ok(""); });
            bench.policy(policy).run(["true"]).ok("");
        }));
        let group = nix::unistd::Pid::from_raw(-(crowd.id() as i32));
        let _ = nix::sys::signal::kill(group, nix::sys::signal::Signal::SIGKILL);
        let _ = crowd.wait();
        if let Err(panic) = outcome { std::panic::resume_unwind(panic) }
    }
}

as_both! {
    fn closed_standard_descriptors_confuse_nothing(bench) {
        let policy = "allow = [\"sh\"]\n";
        for closed in ["0<&-", "1>&-", "2>&-", "0<&- 1>&-", "0<&- 1>&- 2>&-"] {
            let file = bench.dir.join("closed.json");
            let _ = std::fs::remove_file(&file);
            let call = bench.host(policy).opt(["--result-file".as_ref(), file.as_os_str()]);
            let call = ready(call, ["sh", "-c", "echo out; echo err >&2; cat"]);
            let a = answer(&call, through_sh(&call, &format!("exec \"$@\" {closed}")), Stdio::null());
            let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap_or_default()).unwrap_or_default();
            assert_eq!((a.exit, json["status"].as_str(), json["stdout"].as_str(), json["stderr"].as_str()), (0, Some("ok"), Some("out\n"), Some("err\n")), "{closed}: {json:#}\n{}", a.show());
        }
        // Every line of the audit file is a record still, or reading it would have failed.
        assert_eq!(crate::harness::read_audit(&bench.dir.join("audit.jsonl")).len(), 10);
    }
}
