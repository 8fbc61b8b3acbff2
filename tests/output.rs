//! Output: drained for ever, head and tail kept, exact totals, constant memory.

use std::process::Stdio;
use std::time::Duration;

use crate::harness::outside::{answer, ready, through};

as_both! {
    fn t2_58_reaching_the_cap_does_not_block_the_child(bench) {
        let answer = bench.host("allow = [\"seq\"]\n[limits]\noutput = \"64K\"\n").run(["seq", "1", "2000000"]);
        assert_eq!((answer.status(), answer.exit), ("ok", 0), "{}", answer.show());
        assert_eq!(answer.json["stdout_bytes"], 14_888_896);
        assert_eq!(answer.json["stdout_truncated"], true);
        let kept = answer.str("stdout");
        assert!(kept.starts_with("1\n2\n3\n") && kept.ends_with("\n2000000\n"));
        let shown: u64 = kept.split_once("...[").and_then(|(_, r)| r.split_once(" bytes omitted]...")).expect("a marker").0.parse().expect("N");
        let marker = format!("\n...[{shown} bytes omitted]...\n");
        assert_eq!(kept.len() - marker.len(), (14_888_896 - shown) as usize, "the omitted bytes are counted exactly");
        assert!(kept.len() - marker.len() <= 65_536);
    }
}

as_both! {
    fn t2_59_no_character_is_split(bench) {
        let script = bench.script("chars.sh", "#!/bin/sh\ni=0; while [ $i -lt 4000 ]; do printf '中中中中中中中中中中'; i=$((i+1)); done\n");
        let path = script.to_str().expect("UTF-8").to_owned();
        for cap in [25_000, 25_001, 25_002, 25_003] {
            let answer = bench.host(&format!("allow = [\"{path}\"]\n[limits]\noutput = \"{cap}B\"\n")).run([&path]);
            assert_eq!((answer.status(), answer.exit), ("ok", 0), "{}", answer.show());
            assert_eq!(answer.json["stdout_bytes"], 120_000);
            assert!(!answer.str("stdout").contains('\u{fffd}'));
            assert!(answer.json["stdout_base64"].is_null());
        }
    }
}

as_both! {
    fn bytes_that_are_not_utf8_come_as_base64_too(bench) {
        let answer = bench.host("allow = [\"printf\"]\n").run(["printf", "a\\377b"]);
        answer.ok("a\u{fffd}b");
        assert_eq!(answer.json["stdout_base64"], "Yf9i");
        assert_eq!(answer.json["stdout_bytes"], 3);
    }
}

as_both! {
    fn t2_60_the_error_at_the_end_is_kept(bench) {
        let script = bench.script("noise.sh", "#!/bin/sh\nhead -c 10000000 /dev/zero | tr '\\0' x\necho; echo FATAL: x\nexit 3\n");
        let path = script.to_str().expect("UTF-8").to_owned();
        let answer = bench.host(&format!("allow = [\"{path}\"]\n[limits]\noutput = \"64K\"\n")).run([&path]);
        assert_eq!((answer.status(), answer.exit, answer.json["exit_code"].as_i64()), ("nonzero_exit", 3, Some(3)));
        assert!(answer.str("text").contains("FATAL: x") && answer.str("text").contains("exit=3"), "{}", answer.show());
    }
}

as_both! {
    fn t2_56_a_flood_costs_constant_memory_and_time_is_kept(bench) {
        let answer = bench.host("allow = [\"yes\"]\n[limits]\nwall_time = \"1s\"\noutput = \"1M\"\n").run(["yes"]);
        assert_eq!((answer.status(), answer.exit), ("timeout", 124), "{}", answer.show());
        assert!(answer.str("stdout").len() <= (1 << 20) + 64);
        assert!(answer.json["stdout_bytes"].as_u64() > Some(1 << 20));
        assert!(answer.took < Duration::from_secs(4));
    }
}

/// Runs the words behind it with a terminal as their standard output, and passes on what they write there.
const ON_A_TERMINAL: &str = r"
import os, subprocess, sys, tty
master, slave = os.openpty()
tty.setraw(slave)
child = subprocess.Popen(sys.argv[1:], stdout=slave)
os.close(slave)
while True:
    try:
        piece = os.read(master, 65536)
    except OSError:
        break
    if not piece:
        break
    sys.stdout.buffer.write(piece)
sys.exit(child.wait())
";

as_both! {
    fn a_terminal_never_obeys_the_text(bench) {
        let call = || bench.host("allow = [\"printf\"]\n").opt(["--output", "text"]);
        let words = ["printf", "a\\tb\\033]0;owned\\007\\r\\302\\233\\342\\200\\256c\\n"];
        let piped = ready(call(), words).raw();
        assert_eq!(piped.stdout, "a\tb\u{1b}]0;owned\u{7}\r\u{9b}\u{202e}c\n".as_bytes(), "{}", piped.show());
        let call = ready(call(), words);
        let shown = answer(&call, through(&call, &["python3", "-c", ON_A_TERMINAL]), Stdio::null());
        let text = String::from_utf8(shown.stdout.clone()).expect("UTF-8");
        assert_eq!(text, "a\tb\\x1b]0;owned\\x07\\r\\u{9b}\\u{202e}c\n", "{}", shown.show());
        assert_eq!(shown.exit, 0, "{}", shown.show());
    }
}
