//! Where the answer goes: raw output as it comes, text, result files and descriptors.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::outside::{answer, ready, through_sh};
use crate::harness::{Bench, Call, eventually, schema};
use crate::runner::kinds;

fn raw<'b>(bench: &'b Bench, policy: &str) -> Call<'b> {
    bench.host(policy).opt(["--output", "raw"])
}

as_both! {
    fn raw_passes_both_streams_and_the_status(bench) {
        kinds(bench, "allow = [\"sh\"]\n", |call| {
            let a = ready(call.opt(["--output", "raw"]), ["sh", "-c", "printf 'a\\377\\000b'; echo err >&2; exit 7"]).raw();
            assert_eq!((a.stdout.as_slice(), a.stderr.as_str(), a.exit), (&b"a\xff\0b"[..], "err\n", 7), "{}", a.show());
            assert_eq!(a.audit.last().expect("a record")["exit_code"], 7);
        });
        let a = ready(raw(bench, "allow = [\"sh\"]\n"), ["rm", "x"]).raw();
        assert_eq!((a.stdout.len(), a.exit, a.stderr.lines().count()), (0, 126, 1), "{}", a.show());
        assert!(a.stderr.starts_with("guardexec: blocked: command 'rm' "), "{}", a.show());
        let a = ready(raw(bench, "allow = [\"sh\"]\n"), ["sh", "-c", "echo out; kill -9 $$"]).raw();
        assert_eq!((a.stdout.as_slice(), a.exit, a.stderr.lines().count()), (&b"out\n"[..], 137, 1), "{}", a.show());
    }
}

as_both! {
    fn raw_bytes_come_when_they_are_written(bench) {
        // The command waits at a pipe that is only written to once its first byte has arrived.
        let fifo = bench.work().join("go");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o666)).expect("fifo");
        bench.give(&fifo);
        let mut child = raw(bench, "allow = [\"sh\"]\n").start(["sh", "-c", "printf a; read x < go; printf b"]);
        let mut out = child.stdout.take().expect("piped");
        let mut first = [0];
        out.read_exact(&mut first).expect("the first byte");
        std::fs::write(&fifo, "go\n").expect("go");
        let mut rest = Vec::new();
        out.read_to_end(&mut rest).expect("the rest");
        assert_eq!((first, rest.as_slice(), child.wait().expect("wait").code()), ([b'a'], &b"b"[..], Some(0)));
    }
}

as_both! {
    fn a_reader_that_goes_away_does_not_end_the_run(bench) {
        let result = bench.dir.join("raw.json");
        let call = raw(bench, "allow = [\"sh\"]\n").opt(["--result-file".as_ref(), result.as_os_str()]);
        let mut child = call.start(["sh", "-c", "seq 1 200000; touch finished; exit 3"]);
        let mut first = [0; 2];
        let mut out = child.stdout.take().expect("piped");
        out.read_exact(&mut first).expect("the first bytes");
        drop(out);
        assert_eq!(child.wait().expect("wait").code(), Some(3));
        assert!(bench.work().join("finished").exists());
        let json: Value = serde_json::from_slice(&std::fs::read(&result).expect("a result")).expect("JSON");
        assert_eq!((json["stdout_bytes"].as_u64(), json["exit_code"].as_i64()), (Some(1_288_895), Some(3)), "{json:#}");
        assert!(json["warnings"].to_string().contains("stdout"), "{json:#}");
    }
}

as_both! {
    fn a_slow_reader_holds_the_writer_back(bench) {
        let mut child = raw(bench, "allow = [\"sh\"]\n").start(["sh", "-c", "head -c 4000000 /dev/zero; touch finished"]);
        let mut out = child.stdout.take().expect("piped");
        let mut first = [0];
        out.read_exact(&mut first).expect("the first byte");
        std::thread::sleep(Duration::from_millis(400));
        let finished = bench.work().join("finished");
        assert!(!finished.exists(), "all was taken although nobody reads");
        let mut rest = Vec::new();
        out.read_to_end(&mut rest).expect("the rest");
        assert_eq!((rest.len(), child.wait().expect("wait").code(), finished.exists()), (3_999_999, Some(0), true));
    }
}

as_both! {
    fn much_output_may_run_ahead_of_its_reader(bench) {
        let mut child = raw(bench, "allow = [\"sh\"]\n").start(["sh", "-c", "head -c 400000 /dev/zero; touch finished"]);
        let mut out = child.stdout.take().expect("piped");
        let finished = bench.work().join("finished");
        let written = eventually(Duration::from_secs(20), || finished.exists());
        assert!(written, "400,000 bytes find no room between their writer and us");
        let mut all = Vec::new();
        out.read_to_end(&mut all).expect("the output");
        assert_eq!((all.len(), child.wait().expect("wait").code()), (400_000, Some(0)));
    }
}

as_both! {
    fn text_is_the_results_text(bench) {
        let result = bench.dir.join("text.json");
        let policy = "allow = [\"sh\"]\n";
        for (script, expected, exit) in [("echo out; echo err >&2", "out\nerr\n", 0), ("true", "(exit=0, no output)\n", 0), ("printf x; exit 3", "x\nexit=3\n", 3)] {
            let call = bench.host(policy).opt(["--output", "text", "--result-file"]).opt([&result]);
            let a = ready(call, ["sh", "-c", script]).raw();
            assert_eq!((String::from_utf8_lossy(&a.stdout).as_ref(), a.exit), (expected, exit), "{}", a.show());
            // The text has no room for warnings: here that `sh` runs its arguments.
            let warned = a.stderr.starts_with("guardexec: warning: 'sh' runs what its arguments say");
            assert!(warned && a.stderr.lines().count() == 1, "{}", a.show());
            let json: Value = serde_json::from_slice(&std::fs::read(&result).expect("a result")).expect("JSON");
            schema::check("result", &json);
            assert_eq!(json["text"].as_str().expect("text").trim_end(), expected.trim_end());
        }
        let a = ready(bench.host(policy).opt(["--output=text"]), ["rm"]).raw();
        assert_eq!((a.exit, String::from_utf8_lossy(&a.stdout).into_owned()), (126, "blocked: command 'rm' is not in the allowlist ['sh']\n".to_owned()), "{}", a.show());
    }
}

as_both! {
    fn a_result_goes_to_a_file_and_to_a_descriptor(bench) {
        let file = bench.file("twice.json", "old content that is longer than nothing");
        let call = bench.host("allow = [\"sh\"]\n").opt(["--result-fd", "9", "--result-file"]).opt([&file]);
        let call = ready(call, ["sh", "-c", "echo x >&9"]);
        let a = answer(&call, through_sh(&call, "exec 9>fd.json; exec \"$@\""), Stdio::null());
        assert_eq!((a.status(), a.exit), ("nonzero_exit", 2), "the command has no descriptor 9\n{}", a.show());
        for copy in [file, bench.work().join("fd.json")] {
            assert_eq!(std::fs::read(&copy).expect("a copy"), a.stdout, "{copy:?}");
        }
    }
}

as_both! {
    fn nothing_runs_where_the_result_cannot_be_written(bench) {
        let policy = "allow = [\"touch\"]\n";
        for place in ["/nonexistent/r.json", "."] {
            let a = bench.host(policy).opt(["--result-file", place]).run(["touch", "ran"]);
            a.error(&["--result-file", place]);
        }
        let fifo = bench.work().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o666)).expect("fifo");
        bench.host(policy).opt(["--result-file".as_ref(), fifo.as_os_str()]).run(["touch", "ran"]).error(&["--result-file"]);
        for number in ["9", "0", "1", "99999"] {
            bench.host(policy).opt(["--result-fd", number]).run(["touch", "ran"]).error(&["--result-fd"]);
        }
        let call = ready(bench.host(policy).opt(["--result-fd", "8"]), ["touch", "ran"]);
        let a = answer(&call, through_sh(&call, "exec 8</dev/null; exec \"$@\""), Stdio::null());
        assert_eq!((a.status(), a.exit), ("error", 125), "a descriptor that cannot be written\n{}", a.show());
        assert!(!bench.work().join("ran").exists());
    }
}

as_both! {
    fn the_json_goes_out_also_where_nobody_reads_it(bench) {
        let began = Instant::now();
        let mut child = bench.host("allow = [\"sh\"]\n").start(["sh", "-c", "sleep 0.2; touch done; exit 4"]);
        drop(child.stdout.take());
        drop(child.stderr.take());
        assert_eq!(child.wait().expect("wait").code(), Some(4));
        assert!(eventually(Duration::from_secs(1), || bench.work().join("done").exists()) && began.elapsed() < Duration::from_secs(10));
    }
}

as_both! {
    fn what_cannot_be_written_is_not_told_as_success(bench) {
        // `raw` has to tell in its result file that output was lost; the other forms are lost themselves.
        for (format, script, exit) in [
            ("json", "echo x", 125),
            ("json", "exit 3", 3),
            ("text", "echo x", 125),
            ("raw", "echo x", 125),
            ("raw", "echo x; exit 3", 125),
            ("raw", "true", 0),
        ] {
            let result = bench.dir.join("lost.json");
            let call = bench.host("allow = [\"sh\"]\n").opt(["--output", format, "--result-file"]).opt([&result]);
            let call = ready(call, ["sh", "-c", script]);
            let a = answer(&call, through_sh(&call, "exec \"$@\" >/dev/full"), Stdio::null());
            assert_eq!(a.exit, exit, "{format} {script}: {}", a.show());
            assert_eq!(a.stderr.contains("No space left on device"), exit != 0, "{format} {script}: {}", a.show());
            let json: Value = serde_json::from_slice(&std::fs::read(&result).expect("a result")).expect("JSON");
            schema::check("result", &json);
            let lost = format == "raw" && exit != 0;
            assert_eq!(json["status"] == "error", lost, "{format} {script}: {json}");
            if lost {
                assert_eq!((&json["error"]["kind"], &json["exit_status"]), (&"output_lost".into(), &125.into()), "{json}");
                assert!(json["text"].as_str().unwrap().contains("\nthe command did run:\nx\n"), "{json}");
            }
        }
        let call = ready(bench.host("allow = [\"sh\"]\n").opt(["--result-file", "/dev/full"]), ["sh", "-c", "echo x"]);
        let a = answer(&call, through_sh(&call, "exec \"$@\""), Stdio::null());
        assert_eq!((a.exit, a.json["stdout"].as_str()), (125, Some("x\n")), "{}", a.show());
        let listing = bench.call().opt(["schema", "policy"]);
        let a = answer(&listing, through_sh(&listing, "exec \"$@\" >/dev/full"), Stdio::null());
        assert_eq!((a.exit, a.stderr.lines().count()), (125, 1), "{}", a.show());
    }
}
