//! Tests of starting, of input and of output.

use super::*;
use crate::sandbox::PrepareError;

#[test]
fn a_plain_command_runs_and_is_accounted_for() {
    for s in settings() {
        let r = sh(s, "echo out; echo err >&2; exit 3", |_| {});
        assert_eq!((&r["how"], &r["value"]), (&json!("exited"), &json!(3)), "{s:?} {r}");
        assert_eq!((&r["stdout"], &r["stderr"]), (&json!("out\n"), &json!("err\n")), "{s:?} {r}");
        assert_eq!((&r["survivors"], &r["processes"]), (&json!(0), &json!(1)), "{s:?} {r}");
        let tree = match s.tree {
            TreeKind::Namespace => "pid_namespace",
            TreeKind::Both => "pid_namespace + cgroup_v2",
            _ => "process_groups",
        };
        assert_eq!((&r["tree"], &r["unreaped"]), (&json!(tree), &json!(false)), "{s:?} {r}");
    }
}

#[test]
fn the_child_starts_clean() {
    for s in settings() {
        let script = "grep -E '^Sig(Ign|Blk)|NoNewPrivs' /proc/self/status; ulimit -c; umask; pwd; ls /proc/self/fd | wc -l; \
                      env | sort | tr '\\n' ' '; exec 2>&1; : < /dev/tty";
        let r = sh(s, script, |_| {});
        let out = r["stdout"].as_str().unwrap();
        for line in
            ["SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000", "NoNewPrivs:\t1", "0022", "/tmp"]
        {
            assert!(out.lines().any(|l| l == line), "{line} not in {out}");
        }
        // ls has 0, 1, 2 and the directory it lists.
        assert!(out.lines().any(|l| l == "4"), "{out}");
        assert!(out.contains("LC_ALL=C PATH=/usr/bin:/bin PWD=/tmp"), "{out}");
        assert!(out.contains("/dev/tty"), "no terminal may be had: {out}");
    }
}

#[test]
fn much_output_is_counted_exactly_in_little_memory() {
    let s = settings()[0];
    let r = sh(s, "head -c 209715200 /dev/zero; echo end", |_| {});
    assert_eq!((&r["stdout_bytes"], &r["truncated"]), (&json!(209_715_204), &json!(true)), "{s:?}");
    assert!(r["stdout"].as_str().unwrap().ends_with("\0end\n"));
}

#[test]
fn what_cannot_start_says_which_step_and_why() {
    for s in settings() {
        // The test's own source is no program; no shell takes it either.
        let dir = std::env::temp_dir().join(format!("guardexec-test-{}", marker()));
        std::fs::create_dir(&dir).unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            path.to_str().unwrap().to_owned()
        };
        std::fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let text = file("text", "echo a shell took it\n");
        let script = file("script", "#!/bin/sh\necho \"$0\" \"$@\"\n");
        let orphan = file("orphan", "#!/nonexistent/interpreter\n");
        let run = |path: &str| engine(s, || confinement(path, &["x"], s.tree));
        let (noexec, good, missing) = (run(&text), run(&script), run(&orphan));
        let changed = engine(s, || Confinement { inode: 1, ..confinement(&script, &[], s.tree) });
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(
            (&noexec["how"], &noexec["value"]),
            (&json!("not_started"), &json!(libc::ENOEXEC)),
            "{s:?} {noexec}"
        );
        assert_eq!(good["stdout"], json!(format!("{script} x\n")), "{s:?} {good}");
        assert_eq!(
            (&missing["value"], &missing["stdout"]),
            (&json!(libc::ENOENT), &json!("")),
            "{s:?} {missing}"
        );
        assert_eq!(changed["value"], json!(libc::ESTALE), "{s:?} {changed}");
        assert_eq!(changed["step"], "find the script unchanged");
    }
}

#[test]
fn input_comes_from_memory_or_a_file_and_a_child_that_does_not_read_is_no_error() {
    for s in settings() {
        let text = "x".repeat(300_000);
        let with =
            |script: &str, input: Input| engine(s, || Confinement { input, ..shell(s, script, |_| {}) });
        let r = with("wc -c", Input::Bytes(text.clone().into_bytes()));
        assert_eq!(r["stdout"].as_str().map(str::trim), Some("300000"), "{s:?} {r}");
        let r = with("exec 0<&-; echo ok; sleep 0.05", Input::Bytes(text.into_bytes()));
        assert_eq!((&r["stdout"], &r["value"]), (&json!("ok\n"), &json!(0)), "{s:?} {r}");
        let r = with("cat", Input::Null);
        assert_eq!((&r["stdout"], &r["value"]), (&json!(""), &json!(0)), "{s:?} {r}");
        let file = crate::request::Stdin::File(Path::new("/proc/sys/kernel/ostype").to_owned());
        let r = with("cat", Input::open(file).unwrap());
        assert_eq!(r["stdout"], "Linux\n", "{s:?} {r}");
    }
}

#[test]
fn a_directory_or_a_missing_file_is_no_input() {
    let open = |path: &str| match Input::open(crate::request::Stdin::File(path.into())) {
        Ok(input) => Ok(input),
        Err(PrepareError::Stdin { error, .. }) => Err(errno_of(&error)),
        Err(error) => panic!("{error}"),
    };
    assert!(matches!(open("/nonexistent"), Err(libc::ENOENT)));
    assert!(matches!(open("/tmp"), Err(libc::EINVAL)));
}

#[test]
fn raw_output_waits_for_a_slow_reader_keeps_the_deadline_and_survives_a_closed_one() {
    let s = settings()[0];
    let pass = |to: &OwnedFd| Sinks { stdout: Some(PassThrough::to(to.as_fd()).unwrap()), stderr: None };
    // A reader that takes all: everything arrives in order.
    let (read, write) = fd::pipe().unwrap();
    let engine = Engine::start(s, || shell(s, "seq 1 100000", |_| {}), || pass(&write));
    drop(write);
    let expected: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    let mut all = vec![0; expected.len()];
    std::fs::File::from(read).read_exact(&mut all).unwrap();
    assert!(all == expected.as_bytes());
    assert_eq!(engine.end()["stdout_bytes"], json!(expected.len()));
    // A reader that takes nothing: the child is held back, the deadline is not.
    let (read, write) = fd::pipe().unwrap();
    let engine = Engine::start(s, || shell(s, "exec yes", wall(300)), || pass(&write));
    let r = engine.end();
    assert_eq!(r["limit"], "wall_time", "{r}");
    assert!(r["stdout_bytes"].as_u64().unwrap() < 1 << 20, "{r}");
    drop(read);
    // A reader that has gone: the child runs on to its end.
    let engine = Engine::start(s, || shell(s, "seq 1 100000; echo end >&2", |_| {}), || pass(&write));
    let r = engine.end();
    assert_eq!((&r["how"], &r["value"], &r["stderr"]), (&json!("exited"), &json!(0), &json!("end\n")), "{r}");
    assert_eq!(r["stdout_bytes"], json!(expected.len()));
}

#[test]
fn a_process_with_more_threads_is_refused() {
    // This very test process: the harness has a thread for each test.
    let c = confinement("/bin/true", &[], TreeKind::Auto);
    assert!(matches!(run(c, &mut Sinks::keep(), None), Err(RunError::Threads(n)) if n > 1));
}

#[test]
fn without_namespaces_groups_stand_in_and_say_so_or_nothing_runs() {
    let run = |tree| {
        let (read, write) = fd::pipe().unwrap();
        let pid = process::fork_for_test(|| {
            if process::ids().0 == 0 {
                process::become_user_for_test(NOBODY);
            }
            process::forbid_namespaces_for_test();
            let c = confinement("/bin/echo", &["ran"], tree);
            let answer = as_json(run(c, &mut Sinks::keep(), None)).to_string();
            std::fs::File::from(write.try_clone().unwrap()).write_all(answer.as_bytes()).unwrap();
            0
        });
        drop(write);
        Engine { pid, answer: read.into() }.end()
    };
    let r = run(TreeKind::Auto);
    assert_eq!((&r["tree"], &r["stdout"]), (&json!("process_groups"), &json!("ran\n")), "{r}");
    assert!(r["warnings"][0].as_str().unwrap().starts_with("no PID namespace (could not make"), "{r}");
    let r = run(TreeKind::Namespace);
    assert!(r["error"].as_str().unwrap().starts_with("could not make the process that holds"), "{r}");
}

/// Not a test but a measurement: `cargo test --lib run_against_spawn -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn run_against_spawn() {
    for s in settings() {
        let pid = process::fork_for_test(|| {
            become_user(s.user);
            let (mut ours, mut plain) = (Vec::new(), Vec::new());
            for _ in 0..300 {
                let c = confinement("/bin/true", &[], s.tree);
                let began = Instant::now();
                run(c, &mut Sinks::keep(), None).unwrap();
                ours.push(began.elapsed());
                let began = Instant::now();
                std::process::Command::new("/bin/true").output().unwrap();
                plain.push(began.elapsed());
            }
            ours.sort();
            plain.sort();
            eprintln!("{s:?}: run {:?}, spawn with pipes {:?} (medians)", ours[150], plain[150]);
            0
        });
        while process::try_wait(pid) == Waited::NoneDead {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn our_own_input_is_relayed_to_its_end_and_a_silent_one_holds_nothing_up() {
    for s in settings() {
        let (read, write) = fd::pipe().unwrap();
        let relay = |script: &'static str| {
            Engine::start(
                s,
                || {
                    nix::unistd::dup2_stdin(&read).unwrap();
                    Confinement { input: Input::Relay, ..shell(s, script, |_| {}) }
                },
                Sinks::keep,
            )
        };
        // Our end stays open: only the child's own end can end this one.
        let r = relay("head -c 3; test -t 0 || test -p /dev/stdin && echo pipe");
        std::fs::File::from(write.try_clone().unwrap()).write_all(b"abcdef").unwrap();
        let r = r.end();
        assert_eq!((&r["stdout"], &r["value"]), (&json!("abcpipe\n"), &json!(0)), "{s:?} {r}");
        let (read, write) = fd::pipe().unwrap();
        let text = vec![b'x'; 50_000];
        std::fs::File::from(write).write_all(&text).unwrap();
        let r = engine(s, || {
            nix::unistd::dup2_stdin(&read).unwrap();
            Confinement { input: Input::Relay, ..shell(s, "wc -c", |_| {}) }
        });
        assert_eq!(r["stdout"].as_str().map(str::trim), Some("50000"), "{s:?} {r}");
    }
}
