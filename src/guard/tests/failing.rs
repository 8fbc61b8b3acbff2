//! A check that gives no verdict has failed, and that blocks.

use super::*;
use crate::hook::tests::{Apart, alive, marker, until, users};
use crate::sys::process;

const PASS: &str = "echo '{\"verdict\": \"pass\"}'";

#[test]
fn whatever_else_it_does_it_has_failed() {
    apart(|bench| {
        for (name, body, why) in [
            ("crash", "kill -SEGV $$".to_owned(), "signal 11 ended it"),
            ("exit", format!("{PASS}; exit 1"), "it exited with status 1"),
            ("silent", "cat >/dev/null".to_owned(), "it gave no answer"),
            ("garbage", "echo pass".to_owned(), "its answer is not one JSON document: expected value"),
            ("two", format!("{PASS}; {PASS}"), "its answer is not one JSON document: trailing characters"),
            (
                "behind",
                format!("{PASS}; echo done"),
                "its answer is not one JSON document: trailing characters",
            ),
            ("list", format!("echo '['; {PASS}; echo ']'"), "its answer is not an object"),
            ("binary", "printf '\\377'".to_owned(), "its answer is not UTF-8"),
            (
                "huge",
                format!("{PASS}; head -c 3000000 /dev/zero | tr '\\0' ' '"),
                "its answer is longer than 1 MiB",
            ),
            (
                "rewrites",
                "echo '{\"verdict\": \"rewrite\", \"replacement\": \"x\"}'".to_owned(),
                "it may not rewrite",
            ),
        ] {
            for on in [CheckOn::Request, CheckOn::Output] {
                let checks = [severe(script(bench, name, on, &body), Severity::Critical)];
                let objection = blocked(match on {
                    CheckOn::Request => ruling(&checks),
                    CheckOn::Output => judged(&checks, b"", b"").ruling,
                });
                // What one that was given an output wrote is not repeated.
                let why = why.split(": ").next().filter(|_| on == CheckOn::Output).unwrap_or(why);
                assert!(objection.failed && objection.reason.starts_with(why), "{name}: {objection:?}");
                assert_eq!(
                    (objection.check.as_str(), objection.severity, objection.at),
                    (name, Severity::Critical, place(7))
                );
            }
        }
    });
}

#[test]
fn so_it_has_when_it_takes_too_long_or_is_not_started() {
    apart(|bench| {
        let m = marker();
        let slow = Check {
            timeout: Duration::from_millis(400),
            ..script(bench, "slow", CheckOn::Request, &format!("{PASS}; sleep {m}"))
        };
        let objection = blocked(ruling(&[slow]));
        assert_eq!(objection.sentence(), "check 'slow' failed, and that blocks: it did not answer in time");
        assert_eq!(alive(&m), Vec::<String>::new());
        let missing = check("missing", CheckOn::Request, &["/nowhere/check"]);
        assert_eq!(blocked(ruling(&[missing])).reason, "it was not started: /nowhere/check is not there");
        let open = bench.file("open", &format!("#!/bin/sh\n{PASS}\n"), 0o777);
        let objection = blocked(ruling(&[check("open", CheckOn::Request, &[&open])]));
        assert!(objection.failed && objection.reason.contains("can be changed by its group or by others"));
    });
}

#[test]
fn a_check_that_never_reads_has_not_failed() {
    apart(|bench| {
        let deaf = script(bench, "deaf", CheckOn::Output, &format!("exec <&-\n{PASS}"));
        assert_eq!(judged(&[deaf], &vec![b'x'; 2 << 20], b"").ruling, Ruling::Pass);
    });
}

#[test]
fn what_went_wrong_is_kept_for_the_operator_and_not_told_to_the_caller() {
    apart(|bench| {
        let body = "echo 'Traceback: key=s3cret \u{1b}[2K' >&2; exit 7";
        let mut rounds = Rounds::default();
        let checks = [script(bench, "noisy", CheckOn::Request, body)];
        let Next::Settled(ruling) = round(&mut rounds, &checks, &words("ls")) else { panic!() };
        assert!(!blocked(ruling).sentence().contains("s3cret"));
        let [finding] = &rounds.findings[..] else { panic!() };
        assert_eq!((finding.verdict, finding.failed), ("block", true));
        assert_eq!(finding.stderr, "Traceback: key=s3cret \\x1b[2K");
        // It may repeat the output, of which no byte is ever recorded.
        let out = judged(&[script(bench, "noisy-out", CheckOn::Output, body)], b"out", b"");
        assert_eq!((out.findings[0].failed, out.findings[0].stderr.as_str()), (true, ""));
    });
}

#[test]
fn a_failure_beside_good_ones_blocks() {
    apart(|bench| {
        let checks =
            [script(bench, "good", CheckOn::Request, PASS), script(bench, "bad", CheckOn::Request, "exit 1")];
        assert_eq!(blocked(ruling(&checks)).check, "bad");
    });
}

#[test]
fn when_guardexec_is_to_end_nothing_passes() {
    for user in users() {
        let m = marker();
        let guard = Apart::start(user, |bench| {
            let checks = [
                script(bench, "slow", CheckOn::Request, &format!("sleep {m}; {PASS}")),
                script(bench, "quick", CheckOn::Request, PASS),
            ];
            assert_eq!(ruling(&checks), Ruling::Cancelled(libc::SIGTERM));
            assert_eq!(alive(&m), Vec::<String>::new());
        });
        until(|| !alive(&m).is_empty());
        process::kill(guard.pid, libc::SIGTERM).unwrap();
        guard.end();
    }
}

#[test]
fn nor_when_it_is_stopped() {
    apart(|bench| {
        let slow = [script(bench, "slow", CheckOn::Request, "sleep 30")];
        let (asker, argv) = (asker(), words("ls"));
        let stop = || true;
        let next = Rounds::default().judge(&asked(&slow), &subject(&argv, &asker), &facts(), Some(&stop));
        assert_eq!(next, Next::Settled(Ruling::Stopped));
    });
}
