//! Asking at a terminal: only one word is a yes, and whatever ends the asking is a no.

use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{LEAVES, policy, ran};
use crate::approvals::running::{at_terminal, until_asked};

const TTY: &str = "[approval]\nask = \"tty\"\ntimeout = \"30s\"\n";

as_both! {
    fn only_yes_is_a_yes(bench) {
        for said in ["YES", " yes", "yes ", "y", "yess", "no", "", "yes\u{7f}", "\u{4}"] {
            let (result, exit, _) = at_terminal(policy(bench, TTY), &LEAVES, b"", |master| {
                until_asked(master);
                master.write_all(format!("{said}\n").as_bytes()).expect("typed");
            });
            assert_eq!((&result["text"], exit), (&json!("blocked: confirmation for 'sh' denied"), 126), "{said:?}: {result}");
            assert_eq!((&result["stage"], &result["status"]), (&json!("approval"), &json!("denied")));
        }
        assert_eq!(ran(bench), 0);
        let (result, exit, _) = at_terminal(policy(bench, TTY), &LEAVES, b"", |master| {
            until_asked(master);
            master.write_all(b"yes\n").expect("typed");
        });
        assert_eq!((&result["status"], exit, ran(bench)), (&json!("ok"), 0, 1), "{result}");
    }
}

as_both! {
    fn a_line_that_is_cut_off_is_no_yes(bench) {
        // Twice the character that ends a terminal's input: once it hands over what was typed, once there is nothing more.
        let (result, exit, _) = at_terminal(policy(bench, TTY), &LEAVES, b"", |master| {
            until_asked(master);
            master.write_all(b"yes\x04\x04").expect("typed");
        });
        assert_eq!((&result["text"], exit, ran(bench)), (&json!("blocked: confirmation for 'sh' denied"), 126, 0), "{result}");
    }
}

as_both! {
    fn t5_142_no_key_within_a_second_is_a_no(bench) {
        let began = Instant::now();
        let (result, exit, _) = at_terminal(policy(bench, &TTY.replace("30s", "1s")), &LEAVES, b"yes\nyes\n", |master| drop(until_asked(master)));
        assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
        assert_eq!((exit, &result["stage"]), (126, &json!("approval")), "{result}");
        assert!(result["text"].as_str().is_some_and(|t| t.starts_with("blocked: nobody answered within 1s")), "{result}");
        assert_eq!(ran(bench), 0);
    }
}

as_both! {
    fn t5_138_what_it_shows_drives_no_terminal(bench) {
        let mut screen = String::new();
        let words = ["sh", "-c", "true", "evil\r\u{1b}[2K   command: ls\u{202e}\u{9b}2J\u{7}", &" ".repeat(300)];
        let (_, exit, _) = at_terminal(policy(bench, TTY), &words, b"", |master| {
            screen = until_asked(master);
            master.write_all(b"no\n").expect("typed");
        });
        assert_eq!(exit, 126);
        // The terminal itself makes \r\n of \n.
        let text = screen.replace("\r\n", "\n");
        let hostile = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert_eq!(text.chars().find(|c| hostile(*c)), None, "{text:?}");
        assert!(text.contains("evil\\r\\x1b[2K   command: ls"), "{text}");
    }
}

as_both! {
    fn ctrl_c_a_hang_up_and_the_kill_switch_end_it(bench) {
        let (result, exit, _) = at_terminal(policy(bench, TTY), &LEAVES, b"", |master| {
            until_asked(master);
            master.write_all(b"\x03").expect("typed");
        });
        assert_eq!((&result["status"], exit), (&json!("cancelled"), 130), "{result}");
        fs::create_dir_all(bench.dir.join("switch")).expect("mkdir");
        bench.give(&bench.dir.join("switch"));
        let more = format!("{TTY}[kill_switch]\nfile = {:?}\n", bench.dir.join("switch/stop"));
        let (result, exit, _) = at_terminal(policy(bench, &more), &LEAVES, b"", |master| {
            until_asked(master);
            bench.file("switch/stop", "# enough\n");
        });
        assert_eq!((&result["stage"], exit), (&json!("kill_switch"), 126), "{result}");
        assert_eq!(ran(bench), 0);
    }
}
