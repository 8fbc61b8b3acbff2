//! Nothing survives: every way to slip out of a process tree, under both ways to hold one.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{Answer, Bench, alive, assert_gone, eventually};

/// A number of seconds that no other test sleeps: it marks this run's processes in `/proc`.
fn marker(seed: u32) -> String {
    format!("98{}.{seed:03}{:06}", seed % 7, std::process::id())
}

fn policy(held: &str, limits: &str) -> String {
    format!(
        "allow = [\"sh\", \"sleep\", \"python3\", \"perl\"]\n[sandbox]\nprofile = \"host\"\nprocesses = \"{held}\"\n[limits]\n{limits}\n"
    )
}

fn both_kinds(bench: &Bench, limits: &str, words: impl Fn(&str) -> Vec<String>, check: impl Fn(&Answer)) {
    for (number, held) in ["auto", "groups"].into_iter().enumerate() {
        let mark = marker(number as u32 + rand());
        let answer = bench.policy(&policy(held, limits)).run(words(&mark));
        check(&answer);
        assert_gone(&mark);
    }
}

fn rand() -> u32 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("clock").subsec_nanos() % 900
}

fn sh(script: String) -> Vec<String> {
    vec!["sh".into(), "-c".into(), script]
}

fn timed_out(answer: &Answer) {
    assert_eq!(
        (answer.status(), answer.exit, answer.str("limit")),
        ("timeout", 124, "wall_time"),
        "{}",
        answer.show()
    );
    assert!(answer.took < Duration::from_secs(4), "took {:?}", answer.took);
}

as_both! {
    fn t2_52_a_grandchild_that_holds_the_pipe_does_not_hang_the_caller(bench) {
        both_kinds(bench, "wall_time = \"1s\"", |m| sh(format!("echo before; sleep {m} & wait")), |a| {
            timed_out(a);
            assert_eq!(a.str("stdout"), "before\n", "what was written is kept");
            assert!(a.str("text").starts_with("error: timed out after 1s"), "{}", a.show());
        });
    }
}

as_both! {
    fn t2_53_a_background_grandchild_delays_the_result_by_a_grace_only(bench) {
        both_kinds(bench, "wall_time = \"20s\"", |m| sh(format!("sleep {m} & echo done")), |a| {
            a.ok("done\n");
            assert!(a.took < Duration::from_secs(2), "took {:?}", a.took);
            assert_eq!(a.json["survivors"], 1, "{}", a.show());
        });
    }
}

as_both! {
    fn t2_54_setsid_and_double_fork_do_not_escape(bench) {
        both_kinds(bench, "wall_time = \"1s\"", |m| sh(format!("setsid sleep {m} & (setsid sh -c 'sleep {m} & sleep {m}' &) ; sleep {m}")), timed_out);
    }
}

as_both! {
    fn a_tree_that_ignores_term_is_killed(bench) {
        both_kinds(bench, "wall_time = \"500ms\"\nkill_grace = \"300ms\"", |m| sh(format!("trap '' TERM; while :; do sleep {m}; done")), timed_out);
    }
}

as_both! {
    fn term_comes_first_and_what_it_prints_is_kept(bench) {
        both_kinds(bench, "wall_time = \"500ms\"\nkill_grace = \"2s\"", |m| sh(format!("trap 'echo cleaned; exit 3' TERM; sleep {m} & wait")), |a| {
            timed_out(a);
            assert_eq!(a.str("stdout"), "cleaned\n", "{}", a.show());
        });
    }
}

as_both! {
    fn a_pid_hopper_is_caught(bench) {
        both_kinds(
            bench,
            "wall_time = \"1s\"\npids = 64",
            |m| vec!["perl".into(), "-e".into(), format!("$0='hopper {m}'; while(1){{ my $p=fork; next unless defined $p; exit if $p; select undef,undef,undef,0.0005 }}")],
            |_| {},
        );
    }
}

as_both! {
    fn a_small_fork_bomb_is_caught(bench) {
        both_kinds(
            bench,
            "wall_time = \"2s\"\npids = 48",
            |m| vec!["perl".into(), "-e".into(), format!("use POSIX; $0='bomb {m}'; $SIG{{CHLD}}='IGNORE'; my $end=time+8; while(time<$end){{ my $p=fork; if(defined $p && !$p){{ POSIX::setsid() }} select undef,undef,undef,0.02 }}")],
            |a| assert!(["timeout", "limit_exceeded"].contains(&a.status()), "{}", a.show()),
        );
    }
}

as_both! {
    fn nothing_survives_when_guardexec_is_killed(bench) {
        for held in ["auto", "groups"] {
            let mark = marker(rand());
            let mut child = bench
                .policy(&policy(held, "wall_time = \"30s\""))
                .start(sh(format!("(setsid sleep {mark} &); setsid sleep {mark} & sleep {mark}")));
            assert!(eventually(Duration::from_secs(5), || alive(&mark).len() >= 4), "the tree never came up");
            // guardexec itself may stand behind setpriv, which execs: the pid is the same.
            kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).expect("kill guardexec");
            assert_eq!(child.wait().expect("wait").signal(), Some(9));
            assert_gone(&mark);
        }
    }
}

as_both! {
    fn the_private_tmp_is_gone_too_when_guardexec_is_killed(bench) {
        let (mark, note) = (marker(rand()), bench.work().join("note"));
        let policy = "allow = [\"sh\"]\n[sandbox]\nprofile = \"workspace\"\nprocesses = \"groups\"\n";
        let script = format!("mkdir -m 0 $TMPDIR/closed; echo x > $TMPDIR/file; echo $TMPDIR > note-; mv note- note; sleep {mark}");
        let mut child = bench.policy(policy).start(sh(script));
        assert!(eventually(Duration::from_secs(20), || note.exists()), "the run never began");
        let tmp = std::fs::read_to_string(&note).expect("a path");
        let tmp = std::path::Path::new(tmp.trim_end());
        assert!(tmp.join("file").exists());
        kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).expect("kill guardexec");
        assert_eq!(child.wait().expect("wait").signal(), Some(9));
        assert_gone(&mark);
        assert!(eventually(Duration::from_secs(20), || !tmp.exists()), "{} was left", tmp.display());
    }
}

as_both! {
    fn term_to_guardexec_ends_the_tree_and_answers(bench) {
        for (signal, status) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
            let mark = marker(rand());
            let child = bench
                .policy(&policy("auto", "wall_time = \"30s\""))
                .start(sh(format!("echo started; sleep {mark} & wait")));
            assert!(eventually(Duration::from_secs(5), || alive(&format!("sleep\0{mark}")).len() == 1), "the tree never came up");
            kill(Pid::from_raw(child.id() as i32), signal).expect("signal guardexec");
            let output = child.wait_with_output().expect("wait");
            assert_eq!(output.status.code(), Some(status));
            let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON result");
            assert_eq!((json["status"].as_str(), json["exit_status"].as_i64()), (Some("cancelled"), Some(i64::from(status))));
            assert_eq!(json["stdout"], "started\n");
            assert_gone(&mark);
        }
    }
}
