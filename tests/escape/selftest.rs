//! `guardexec selftest`: the attacks that the binary brings along, against this host.

use serde_json::Value;

use super::scene;
use crate::harness::{Answer, Bench};

fn selftest(bench: &Bench, taken: Option<&str>, words: &[&str]) -> Answer {
    let call = bench.call().opt(["selftest"]).opt(words);
    match taken {
        Some(what) => call.wrap(scene::without(what)).raw(),
        None => call.raw(),
    }
}

fn rows(answer: &Answer) -> Vec<Value> {
    answer.json.as_array().unwrap_or_else(|| panic!("an array: {}", answer.stderr)).clone()
}

as_both! {
    fn all_attacks_are_caught_and_real(bench) {
        for taken in [None, Some("namespaces"), Some("mounts")] {
            let answer = selftest(bench, taken, &["--json"]);
            assert_eq!((answer.exit, answer.stderr.as_str()), (0, ""), "{taken:?} {}", answer.show());
            let rows = rows(&answer);
            assert!(rows.len() > 25, "{rows:?}");
            let caught = rows.iter().filter(|row| row["result"] == "caught" && row["unconfined"] == "works").count();
            assert!(caught > 20, "{taken:?} {rows:#?}");
            for layer in ["filesystem", "execution", "network", "syscalls", "processes"] {
                assert!(rows.iter().any(|row| row["layer"] == layer && row["result"] == "caught"), "{layer} {rows:#?}");
            }
        }
    }
}

as_both! {
    fn the_table_says_what_it_comes_to(bench) {
        let answer = selftest(bench, None, &[]);
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        assert_eq!(answer.exit, 0, "{text}{}", answer.stderr);
        assert!(text.starts_with("ATTACK "), "{text}");
        let last = text.lines().last().unwrap_or_default();
        assert!(last.contains("were caught") || last.contains("got through"), "{last}");
    }
}

as_both! {
    fn where_strict_cannot_be_had_it_fails_and_says_why(bench) {
        for (what, word) in [("landlock", "Landlock"), ("filters", "filter")] {
            let answer = selftest(bench, Some(what), &[]);
            assert_eq!(answer.exit, 1, "{what} {}", answer.stderr);
            assert!(answer.stderr.starts_with("guardexec: error: ") && answer.stderr.contains(word), "{}", answer.stderr);
        }
    }
}

as_both! {
    fn nothing_is_left_behind(bench) {
        let left = || std::fs::read_dir("/tmp").expect("/tmp").flatten().filter(|e| e.file_name().to_string_lossy().starts_with("guardexec-selftest-")).count();
        // Other tests of this module may be running.
        let before = left();
        let answer = selftest(bench, None, &["--json"]);
        assert_eq!(answer.exit, 0, "{}", answer.stderr);
        assert!(crate::harness::eventually(std::time::Duration::from_secs(20), || left() <= before), "a directory was left in /tmp");
    }
}
