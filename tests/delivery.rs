//! The result reaches whoever asked: past descriptors that somebody made non-blocking, and signals at any step.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::harness::outside::{ready, signalled, through_sh};
use crate::harness::{Call, eventually, schema, skip};

fn nonblocking(fd: impl AsFd, on: bool) {
    let flag = if on { OFlag::O_NONBLOCK } else { OFlag::empty() };
    fcntl(fd, FcntlArg::F_SETFL(flag)).expect("O_NONBLOCK");
}

/// A pipe that has no room left: its reader, how much stands in it, and its writer.
fn full() -> (File, usize, OwnedFd) {
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).expect("a pipe");
    nonblocking(&writer, true);
    let mut filled = 0;
    while let Ok(n) = nix::unistd::write(&writer, &[b' '; 4096]) {
        filled += n;
    }
    (File::from(reader), filled, writer)
}

/// What was written behind that which filled the pipe.
fn behind(mut reader: File, filled: usize) -> String {
    let mut all = String::new();
    reader.read_to_string(&mut all).expect("text");
    all.split_off(filled)
}

#[track_caller]
fn result(line: &str) -> Value {
    assert!(line.ends_with('\n') && line.lines().count() == 1, "{line:?}");
    let result = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
    schema::check("result", &result);
    result
}

fn policy(call: Call<'_>) -> Call<'_> {
    ready(call, ["sh", "-c", "seq 1 100000; touch finished; exit 3"])
}

const POLICY: &str = "allow = [\"sh\", \"sleep\", \"true\"]\nlimits.output = \"1M\"\n";

as_both! {
    fn a_descriptor_that_does_not_block_is_waited_for(bench) {
        for (out, err, fd) in [(true, false, false), (false, true, false), (false, false, true)] {
            let call = if fd { policy(bench.host(POLICY).opt(["--result-fd", "3"])) } else { policy(bench.host(POLICY)) };
            let call = if err { ready(bench.host(POLICY), ["rm"]) } else { call };
            let (reader, filled, writer) = full();
            let taken = || Stdio::from(writer.try_clone().expect("a copy"));
            let mut command = if fd { through_sh(&call, "exec \"$@\" 3>&1 >/dev/null") } else { call.process() };
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if out || fd {
                command.stdout(taken());
            }
            if err {
                command.stderr(taken());
            }
            let mut child = command.spawn().expect("start");
            drop((command, writer));
            let finished = bench.work().join("finished");
            assert!(err || eventually(Duration::from_secs(20), || finished.exists()), "it ran");
            let _ = std::fs::remove_file(finished);
            std::thread::sleep(Duration::from_millis(100));
            let said = behind(reader, filled);
            if err {
                assert!(said.starts_with("guardexec: blocked: command 'rm' "), "{said}");
            } else {
                assert_eq!(result(&said)["stdout"].as_str().map(str::len), Some(588_895));
            }
            assert_eq!(child.wait().expect("wait").code(), Some(if err { 126 } else { 3 }));
        }
    }
}

as_both! {
    fn a_request_may_come_late_through_such_a_descriptor(bench) {
        let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).expect("a pipe");
        nonblocking(&reader, true);
        let call = bench.host(POLICY).opt(["--request", "-"]);
        let child = call.process().stdin(reader).stdout(Stdio::piped()).spawn().expect("start");
        std::thread::sleep(Duration::from_millis(100));
        File::from(writer).write_all(b"{\"argv\": [\"true\"]}").expect("the request is waited for");
        let output = child.wait_with_output().expect("wait");
        assert_eq!(result(&String::from_utf8_lossy(&output.stdout))["status"], "ok");
    }
}

as_both! {
    fn a_signal_at_any_step_takes_no_answer_away(bench) {
        // A short run may be over before the first wait or not; a long one is waited for, and is ended at the first step there is.
        let (mut ended, mut whole) = (0, 0);
        let short = (1..=60).map(|n| (vec!["true"], n));
        for (argv, n) in std::iter::once((vec!["sleep", "600"], 1)).chain(short) {
            let call = ready(bench.host(POLICY), argv);
            let Ok(output) = signalled(&call, "SIGTERM", "ppoll,wait4,write", n).stdout(Stdio::piped()).output() else {
                return skip("strace(1) cannot be had");
            };
            let result = result(&String::from_utf8_lossy(&output.stdout));
            assert_eq!(output.status.code().map(i64::from), result["exit_status"].as_i64(), "step {n}: {:?}", output.status);
            match result["status"].as_str() {
                Some("cancelled") => ended += 1,
                Some("ok") => whole += 1,
                other => panic!("step {n}: {other:?}"),
            }
            if whole > 15 {
                break;
            }
        }
        assert!(ended > 0 && whole > 0, "{ended} were told to end, {whole} were not");
    }
}

as_both! {
    fn a_reader_that_does_not_read_holds_nobody_up(bench) {
        let (reader, _, writer) = full();
        nonblocking(&writer, false);
        let mut child = policy(bench.host(POLICY)).process().stdin(Stdio::null()).stdout(writer).stderr(Stdio::null()).spawn().expect("start");
        assert!(eventually(Duration::from_secs(20), || bench.work().join("finished").exists()), "it ran");
        let pid = Pid::from_raw(child.id().cast_signed());
        let gone = eventually(Duration::from_secs(20), || {
            kill(pid, Signal::SIGTERM).expect("signal guardexec");
            child.try_wait().expect("wait").is_some()
        });
        if !gone {
            child.kill().expect("kill");
        }
        let status = child.wait().expect("wait");
        drop(reader);
        assert!([(Some(libc::SIGTERM), None), (None, Some(143))].contains(&(status.signal(), status.code())), "{status}");
    }
}
