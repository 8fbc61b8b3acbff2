//! How hooks end when they do not end by themselves, and when guardexec is ended.

use super::*;

/// The children of a process with one thread.
fn children_of(pid: Pid) -> Vec<Pid> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    text.split_whitespace().map(|n| n.parse().unwrap()).collect()
}

/// A tree that ignores whatever asks it to end, and leaves a mark in the bench when it is up.
fn stubborn(bench: &Bench, m: &str) -> Hook {
    let up = bench.path("up");
    bench.script(
        "stubborn",
        &format!("trap '' TERM INT HUP\n(setsid sh -c 'trap \"\" TERM HUP; echo up >{up}; sleep {m}; sleep {m}' &)\nsleep {m}\nsleep {m}"),
    )
}

#[test]
fn a_timeout_ends_all_of_it() {
    apart(|bench| {
        let m = marker();
        let script = stubborn(bench, &m);
        let began = Instant::now();
        assert_eq!(hear_all(&[&script], b"", Duration::from_millis(600)), [Heard::TimedOut]);
        assert_eq!(alive(&m), Vec::<String>::new());
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    });
}

#[test]
fn a_signal_to_guardexec_ends_them_and_no_answer_counts() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        for user in users() {
            let m = marker();
            let guard = Apart::start(user, |bench| {
                let script = stubborn(bench, &m);
                let quick = bench.script("quick", "echo '{}'");
                let heard = hear_all(&[&script, &quick], b"", Duration::from_secs(30));
                assert_eq!(heard, [Heard::Cancelled(signal), Heard::Cancelled(signal)]);
                assert_eq!(alive(&m), Vec::<String>::new());
            });
            // The script's sleep, and the shell in a session of its own with one.
            until(|| alive(&m).len() >= 3);
            let began = Instant::now();
            process::kill(guard.pid, signal).unwrap();
            guard.end();
            assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        }
    }
}

#[test]
fn an_interrupt_from_the_terminal_leaves_them_their_grace() {
    for user in users() {
        let m = marker();
        let done = format!("/tmp/guardexec-hook-graceful-{m}");
        let guard = Apart::start(user, |bench| {
            nix::unistd::setpgid(nix::unistd::Pid::from_raw(0), nix::unistd::Pid::from_raw(0)).unwrap();
            let script = bench
                .script("slow", &format!("trap 'sleep 0.2; echo >{done}; exit 0' TERM\nsleep {m} &\nwait"));
            let heard = hear_all(&[&script], b"", Duration::from_secs(30));
            assert_eq!(heard, [Heard::Cancelled(libc::SIGINT)]);
        });
        until(|| !alive(&m).is_empty());
        // As the terminal does it: the whole group is told, at once.
        process::kill(-guard.pid, libc::SIGINT).unwrap();
        guard.end();
        fs::remove_file(&done).expect("it had its grace");
    }
}

#[test]
fn once_it_was_signalled_guardexec_starts_no_further_ones() {
    apart(|bench| {
        let up = bench.path("up");
        let slow = bench.script("slow", &format!("echo >>{up}; exec sleep 30"));
        let hooks: Vec<&Hook> = (0..20).map(|_| &slow).collect();
        let me = process::own_pid();
        // Sixteen are up: the signal comes from one that is not theirs.
        let teller = process::fork_for_test(|| {
            until(|| {
                fs::read_to_string(&up).is_ok_and(|text| text.lines().count() >= super::super::SIDE_BY_SIDE)
            });
            process::kill(me, libc::SIGTERM).unwrap();
            0
        });
        let heard = hear_all(&hooks, b"", Duration::from_secs(30));
        assert_eq!(heard, vec![Heard::Cancelled(libc::SIGTERM); 20]);
        assert_eq!(fs::read_to_string(&up).unwrap().lines().count(), super::super::SIDE_BY_SIDE);
        while process::try_wait(teller) == Waited::NoneDead {}
    });
}

#[test]
fn when_guardexec_is_killed_nothing_survives() {
    for user in users() {
        for namespaces in [true, false] {
            let m = marker();
            let guard = Apart::start(user, |bench| {
                if !namespaces {
                    process::forbid_namespaces_for_test();
                }
                let (a, b) = (stubborn(bench, &m), stubborn(bench, &m));
                hear_all(&[&a, &b], b"", Duration::from_secs(30));
            });
            until(|| alive(&m).len() >= 6);
            let dir = format!("/tmp/guardexec-hook-{}", guard.pid);
            guard.kill();
            assert_gone(&m, Duration::from_secs(3));
            fs::remove_dir_all(dir).unwrap();
        }
    }
}

#[test]
fn when_its_runner_is_killed_it_is_lost_and_nothing_survives() {
    for user in users() {
        for namespaces in [true, false] {
            let m = marker();
            let guard = Apart::start(user, |bench| {
                if !namespaces {
                    process::forbid_namespaces_for_test();
                }
                let heard = hear_all(&[&stubborn(bench, &m)], b"", Duration::from_secs(30));
                assert!(matches!(heard[..], [Heard::Lost(_)]), "{heard:?}");
                assert_eq!(alive(&m), Vec::<String>::new(), "namespaces: {namespaces}");
            });
            until(|| alive(&m).len() >= 3);
            let runner = children_of(guard.pid)[0];
            process::pidfd_signal(process::pidfd_open(runner).unwrap(), libc::SIGKILL).unwrap();
            guard.end();
        }
    }
}

#[test]
fn a_runner_that_hangs_is_killed_in_the_end() {
    let m = marker();
    let guard = Apart::start(None, |bench| {
        let began = Instant::now();
        let heard = hear_all(&[&stubborn(bench, &m)], b"", Duration::from_millis(800));
        assert!(matches!(heard[..], [Heard::Lost(_)]), "{heard:?}");
        assert_eq!(alive(&m), Vec::<String>::new());
        assert!(began.elapsed() < Duration::from_secs(14), "{:?}", began.elapsed());
    });
    until(|| alive(&m).len() >= 3);
    let runner = children_of(guard.pid)[0];
    process::pidfd_signal(process::pidfd_open(runner).unwrap(), libc::SIGSTOP).unwrap();
    guard.end();
}

#[test]
fn they_are_stopped_when_their_caller_wants_it() {
    apart(|bench| {
        let (m, up) = (marker(), bench.path("up"));
        let script = stubborn(bench, &m);
        let stop = || Path::new(&up).exists();
        let path = search();
        let job = Job {
            name: "x",
            hook: &script,
            input: Vec::new(),
            timeout: Duration::from_secs(30),
            path: &path,
        };
        assert_eq!(run_all(vec![job], &facts(), Some(&stop)), [Heard::Stopped]);
        assert_eq!(alive(&m), Vec::<String>::new());
    });
}
