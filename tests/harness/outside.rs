//! Calls that begin in an odd way: with other descriptors, signals, limits or directories than a plain start has.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Answer, Call, read_audit};

/// The call with these words after `--`, not started yet.
pub fn ready<'b, S: AsRef<OsStr>>(mut call: Call<'b>, words: impl IntoIterator<Item = S>) -> Call<'b> {
    call.args.push("--".into());
    call.args.extend(words.into_iter().map(|w| w.as_ref().to_owned()));
    call
}

/// A process that runs `prefix` with the call's own words behind it.
pub fn through(call: &Call<'_>, prefix: &[&str]) -> Command {
    let inner = call.process();
    let (first, rest) = prefix.split_first().expect("a program");
    let mut command = Command::new(first);
    command.args(rest).arg(inner.get_program()).args(inner.get_args());
    command.env_clear().envs(call.env.iter().cloned()).current_dir(&call.cwd);
    command
}

/// The same through a shell, in which `"$@"` is the call.
pub fn through_sh(call: &Call<'_>, script: &str) -> Command {
    through(call, &["sh", "-c", script, "sh"])
}

/// guardexec, sent this signal as it enters the `n`th of these system calls.
pub fn signalled(call: &Call<'_>, signal: &str, calls: &str, n: u32) -> Command {
    let inner = call.process();
    let mut command = Command::new("strace");
    command.args(["-qq", "-o", "/dev/null", "-e"]).arg(format!("trace={calls}"));
    command.arg("-e").arg(format!("inject={calls}:signal={signal}:when={n}"));
    command.arg("--").arg(inner.get_program()).args(inner.get_args());
    command.env_clear().envs(call.env.iter().cloned()).current_dir(&call.cwd);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs a process that ends in a call; its standard input is `/dev/null` unless `command` says otherwise.
pub fn answer(call: &Call<'_>, mut command: Command, stdin: Stdio) -> Answer {
    let began = Instant::now();
    let mut child =
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let out = std::thread::spawn(move || all(&mut out));
    let err = std::thread::spawn(move || all(&mut err));
    let status = loop {
        if let Some(status) = child.try_wait().expect("wait") {
            break status;
        }
        if began.elapsed() > Duration::from_secs(30) {
            let _ = child.kill();
            panic!("no answer within 30s: {:?}", call.args);
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let stdout = out.join().expect("stdout");
    Answer {
        exit: status.code().unwrap_or_else(|| 1000 + status.signal().unwrap_or(0)),
        json: serde_json::from_slice(&stdout).unwrap_or(Value::Null),
        stdout,
        stderr: String::from_utf8_lossy(&err.join().expect("stderr")).into_owned(),
        audit: call.audit.as_deref().map(read_audit).unwrap_or_default(),
        took: began.elapsed(),
    }
}

fn all(from: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).expect("read");
    bytes
}

/// The same call through a shell script, with the checks that hold for every call.
pub fn checked(call: &Call<'_>, script: &str) -> Answer {
    let answer = answer(call, through_sh(call, script), Stdio::null());
    answer.check_invariants(call.audit.as_deref());
    answer
}
