//! What a hook gets, what it may do, and what is heard of it.

use super::*;

#[test]
fn it_reads_its_input_and_its_answer_is_heard() {
    apart(|bench| {
        let input = "{\"a\": \"b\"}\n";
        assert_eq!(hear(&hook(&["/bin/cat"]), input.as_bytes()), said(input));
        let script = bench.script("answer", "read line; echo \"got $line\"; echo late >&2; exit 3");
        let expected = Heard::Exited {
            code: 3,
            stdout: b"got {\"a\": \"b\"}\n".to_vec(),
            truncated: false,
            stderr: b"late\n".to_vec(),
        };
        assert_eq!(hear(&script, input.as_bytes()), expected);
    });
}

#[test]
fn nothing_of_the_caller_reaches_it() {
    apart(|_| {
        let Heard::Exited { stdout, .. } = hear(&hook(&["/usr/bin/env"]), b"") else { panic!() };
        let text = String::from_utf8(stdout).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "GUARDEXEC_HOOK=the check",
                "HOME=/home/somebody",
                "LANG=C.UTF-8",
                "PATH=/usr/local/bin:/usr/bin:/bin",
                "TMPDIR=/tmp",
                "USER=somebody",
            ]
        );
    });
}

#[test]
fn it_starts_in_the_root_without_descriptors_or_a_terminal_and_leaves_no_core() {
    apart(|bench| {
        // A descriptor that leaks would be seen: without close-on-exec.
        let open = fs::File::open("/dev/null").unwrap();
        nix::fcntl::fcntl(&open, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
        std::env::set_current_dir(&bench.dir).unwrap();
        // `ls` itself reads the directory through a fourth.
        assert_eq!(hear(&hook(&["/bin/ls", "/proc/self/fd"]), b""), said("0\n1\n2\n3\n"));
        let look = "pwd\n(: </dev/tty) 2>/dev/null || echo no terminal\nulimit -c\numask";
        assert_eq!(hear(&bench.script("look", look), b""), said("/\nno terminal\n0\n0022\n"));
        assert_eq!(std::env::current_dir().unwrap(), bench.dir);
    });
}

#[test]
fn input_that_it_never_reads_is_no_failure() {
    apart(|bench| {
        let long = vec![b'x'; 4 << 20];
        assert_eq!(hear(&bench.script("deaf", "echo '{}'"), &long), said("{}\n"));
        assert_eq!(hear(&bench.script("closed", "exec <&-; echo '{}'"), &long), said("{}\n"));
    });
}

#[test]
fn much_output_is_counted_and_cut_and_never_blocks_it() {
    apart(|bench| {
        let script =
            bench.script("loud", "head -c 9000000 /dev/zero; head -c 9000000 /dev/zero >&2; echo end >&2");
        let Heard::Exited { code, stdout, truncated, stderr } = hear(&script, b"") else { panic!() };
        assert_eq!((code, truncated), (0, true));
        assert!(!stdout.is_empty() && stdout.len() <= 1 << 20);
        assert!(stderr.len() == 1024 && stderr.ends_with(b"\0end\n"));
        let exact = bench.script("exact", "head -c 1048576 /dev/zero");
        let Heard::Exited { stdout, truncated, .. } = hear(&exact, b"") else { panic!() };
        assert_eq!((stdout.len(), truncated), (1 << 20, false));
    });
}

#[test]
fn a_daemon_and_what_it_forked_are_dead_when_it_has_answered() {
    apart(|bench| {
        let m = marker();
        let script = bench.script(
            "daemon",
            &format!("setsid sleep {m} >/dev/null 2>&1 </dev/null &\n(setsid sh -c 'trap \"\" TERM HUP; sleep {m}; sleep {m}' &)\necho '{{}}'"),
        );
        let began = Instant::now();
        assert_eq!(hear(&script, b""), said("{}\n"));
        assert_eq!(alive(&m), Vec::<String>::new());
        assert!(began.elapsed() < Duration::from_secs(5));
    });
}

#[test]
fn two_run_side_by_side() {
    apart(|bench| {
        let (a, b) = (bench.path("a"), bench.path("b"));
        for fifo in [&a, &b] {
            nix::unistd::mkfifo(fifo.as_str(), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        }
        // Each waits for the other's word: one after the other they would never end.
        let one = bench.script("one", &format!("echo from one >{a}; cat {b}"));
        let two = bench.script("two", &format!("read word <{a}; echo from two >{b}; echo \"$word\""));
        let heard = hear_all(&[&one, &two], b"", Duration::from_secs(20));
        assert_eq!(heard, [said("from two\n"), said("from one\n")]);
    });
}

#[test]
fn more_than_run_at_once_all_run_and_keep_their_order() {
    apart(|_| {
        let hooks: Vec<Hook> = (0..20).map(|n| hook(&["/bin/echo", &n.to_string()])).collect();
        let heard = hear_all(&hooks.iter().collect::<Vec<_>>(), b"", Duration::from_secs(20));
        let expected: Vec<Heard> = (0..20).map(|n| said(&format!("{n}\n"))).collect();
        assert_eq!(heard, expected);
    });
}

#[test]
fn one_that_fails_does_not_disturb_the_others() {
    apart(|bench| {
        let hooks = [
            bench.script("dies", "kill -SEGV $$"),
            bench.script("hangs", "sleep 30"),
            hook(&["/nowhere/at/all"]),
            bench.script("answers", "echo '{}'"),
        ];
        let heard = hear_all(&hooks.iter().collect::<Vec<_>>(), b"", Duration::from_millis(700));
        assert_eq!(heard[0], Heard::Signaled { signal: libc::SIGSEGV, stderr: Vec::new() });
        assert_eq!(heard[1], Heard::TimedOut);
        assert_eq!(heard[2], Heard::NotStarted("/nowhere/at/all is not there".into()));
        assert_eq!(heard[3], said("{}\n"));
    });
}

#[test]
fn its_limits_are_held() {
    apart(|bench| {
        let script = bench.script("fds", "ulimit -n; ulimit -f");
        // open_files 1024; file_size 1 GiB in blocks of 512 bytes.
        assert_eq!(hear(&script, b""), said("1024\n2097152\n"));
    });
}

#[test]
fn a_process_with_threads_starts_none() {
    // The test runner itself.
    let heard = hear(&hook(&["/bin/true"]), b"");
    let Heard::NotStarted(why) = heard else { panic!("{heard:?}") };
    assert!(why.contains("one thread"), "{why}");
    assert_eq!(run_all(Vec::new(), &facts(), None), []);
}

#[test]
fn after_a_run_of_guardexec_itself_they_still_run() {
    // It makes the process non-dumpable for good, which a user namespace of the hook's own must not mind.
    apart(|_| {
        process::set_dumpable(false).unwrap();
        assert_eq!(hear(&hook(&["/bin/echo", "x"]), b""), said("x\n"));
    });
}
