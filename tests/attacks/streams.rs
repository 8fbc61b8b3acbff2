//! What goes in and comes out of a run by way of guardexec, which may be root: standard input and results.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::harness::{As, Bench, eventually, outside};

#[test]
fn standard_input_is_no_way_into_another_process_or_past_the_runs_user() {
    let Some(bench) = Bench::new(As::Root) else { return };
    let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).expect("a pipe");
    nix::unistd::write(&write, b"theirs\n").expect("write");
    let number = std::os::fd::AsRawFd::as_raw_fd(&read);
    let pipe = format!("/proc/{}/fd/{number}", std::process::id());
    for profile in ["strict", "workspace", "host"] {
        let policy = format!("allow = [\"head\"]\n[sandbox]\nprofile = {profile:?}\n");
        for file in [&pipe, "/proc/self/ns/mnt"] {
            let answer = bench.policy(&policy).opt(["--stdin", file]).run(["head", "-c", "1"]);
            assert_eq!((answer.status(), answer.exit), ("error", 125), "{profile} {file}: {}", answer.show());
            assert_eq!(answer.json["error"]["kind"], "stdin", "{}", answer.show());
        }
        // What the caller holds itself it may pass on, whatever it has opened besides.
        let call =
            outside::ready(bench.policy(&policy).opt(["--stdin", "/proc/self/fd/7"]), ["head", "-c", "5"]);
        let answer = outside::checked(&call, "echo mine | { exec 7<&0 0</dev/null; \"$@\"; }");
        answer.ok("mine\n");
        let call = outside::ready(
            bench.policy(&policy).opt(["--stdin", &pipe, "--result-file", &pipe]),
            ["head", "-c", "1"],
        );
        let answer = outside::checked(&call, "\"$@\"");
        assert_eq!((answer.status(), answer.exit), ("error", 125), "{profile}: {}", answer.show());
    }
    // `host` confines nothing, but the run may still be somebody else than root.
    let file = bench.file("work/root-only", "secret\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("chmod");
    let policy = "allow = [\"cat\"]\n[sandbox]\nprofile = \"host\"\nuser = \"nobody\"\n";
    let answer = bench.policy(policy).opt(["--stdin", "root-only"]).run(["cat"]);
    assert_eq!((answer.status(), answer.exit), ("error", 125), "{}", answer.show());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("chmod");
    bench.policy(policy).opt(["--stdin", "root-only"]).run(["cat"]).ok("secret\n");
}

as_both! {
    fn a_result_stands_where_it_was_asked_for_whatever_the_run_puts_there(bench) {
        let policy = "allow = [\"sh\"]\n[sandbox]\nprofile = \"workspace\"\n";
        let elsewhere = bench.file("elsewhere", "untouched");
        for script in ["true", "echo forged > out.json", "mv out.json x; echo forged > out.json", "rm out.json", "rm out.json; ln -s ../elsewhere out.json", "mv out.json x; ln x out.json; rm x"] {
            let answer = bench.policy(policy).opt(["--result-file", "out.json"]).run(["sh", "-c", script]);
            assert_eq!((answer.exit, answer.stderr.as_str()), (0, ""), "{script}: {}", answer.show());
            let path = bench.work().join("out.json");
            let result: serde_json::Value = serde_json::from_slice(&fs::read(&path).expect("a result")).expect("JSON");
            assert_eq!(result, answer.json, "{script}");
            assert!(path.symlink_metadata().expect("a file").is_file(), "{script}");
            assert_eq!(path.metadata().expect("a file").permissions().mode() & 0o777, 0o600, "{script}");
            assert_eq!(fs::read_to_string(&elsewhere).expect("still there"), "untouched", "{script}");
            let left: Vec<_> = fs::read_dir(bench.work()).expect("work").flatten().map(|e| e.file_name()).filter(|n| n.as_encoded_bytes().starts_with(b".")).collect();
            assert!(left.is_empty(), "{script}: {left:?}");
        }
        // What cannot be replaced is at least said.
        let script = "rm out.json; mkdir out.json; touch out.json/x";
        let call = bench.policy(policy).opt(["--result-file", "out.json"]);
        let answer = outside::ready(call, ["sh", "-c", script]).raw();
        assert!(answer.stderr.contains("cannot write the result"), "{}", answer.show());
    }
}

as_both! {
    fn a_named_pipe_is_waited_for(bench) {
        let pipe = bench.work().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o600)).expect("mkfifo");
        bench.give(&pipe);
        // Without a writer it would read as empty.
        let mark = bench.work().join("mark");
        let call = || bench.policy("allow = [\"sh\"]\n[sandbox]\nprofile = \"workspace\"\n").opt(["--stdin", "pipe"]);
        let answer = call().run(["sh", "-c", "cat; echo > mark"]);
        assert!(answer.exit == 125 && answer.str("text").contains("no program has it open for writing"), "{}", answer.show());
        assert!(!mark.exists());
        // A writer is there before the run, and writes once the run has started.
        let mut writer = fs::OpenOptions::new().read(true).write(true).open(&pipe).expect("open");
        let child = call().start(["sh", "-c", "echo > mark; head -c 5"]);
        let started = eventually(std::time::Duration::from_secs(20), || mark.exists());
        std::io::Write::write_all(&mut writer, b"later\n").expect("write");
        let output = child.wait_with_output().expect("wait");
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(started, "{result}");
        assert_eq!((result["stdout"].as_str(), result["stderr"].as_str()), (Some("later"), Some("")), "{result}");
    }
}
