//! Tests of the limits.

use super::*;

#[test]
fn a_fork_bomb_is_bounded_and_ends() {
    for s in settings() {
        let m = marker();
        // It bounds itself, at some 1,000 processes: a failure here must not take the machine down.
        let bomb = format!(
            "b() {{ (setsid sleep {m} &) ; [ $1 -eq 0 ] || {{ b $(($1-1)) & b $(($1-1)); }}; }}; b 8; sleep {m}"
        );
        let r = sh(s, &bomb, |limits| {
            wall(700)(limits);
            limits.pids = Bound::At(64);
        });
        assert_gone(&m, Duration::ZERO);
        assert_eq!(r["unreaped"], json!(false), "{s:?} {r}");
        let limit = r["limit"].as_str();
        // Where the kernel holds the count, forks fail and the shell may give up by itself.
        if r["pids_how"] == "exact" {
            assert_eq!(s.user, Some(NOBODY).filter(|_| process::ids().0 == 0));
        } else {
            // A plain user's forks may fail before the watch looks, and a machine that is busy may reach the wall first.
            let refused = r["stderr"].as_str().unwrap().to_lowercase().contains("fork");
            assert!(matches!(limit, Some("pids" | "wall_time")) || refused, "{s:?} {r}");
        }
    }
}

#[test]
fn pids_are_counted_for_the_run_alone() {
    for s in settings() {
        let r = sh(s, "i=0; while [ $i -lt 40 ]; do sleep 1 & i=$((i+1)); done; echo all; wait", |limits| {
            limits.pids = Bound::At(20);
        });
        if r["pids_how"] == "exact" {
            assert!(r["stderr"].as_str().unwrap().to_lowercase().contains("fork"), "{s:?} {r}");
        } else {
            assert_eq!(r["limit"], "pids", "{s:?} {r}");
        }
        let r =
            sh(s, "i=0; while [ $i -lt 15 ]; do sleep 0.1 & i=$((i+1)); done; wait; echo all", |limits| {
                limits.pids = Bound::At(20);
            });
        assert_eq!((&r["stdout"], &r["value"]), (&json!("all\n"), &json!(0)), "{s:?} {r}");
    }
}

#[test]
fn a_burner_that_forks_and_one_that_ignores_sigxcpu_are_stopped() {
    let forks = "i=0; while [ $i -lt 40 ]; do sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done'; i=$((i+1)); done; echo survived";
    let unwaited = "trap '' CHLD; i=0; while [ $i -lt 40 ]; do sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done'; i=$((i+1)); done; echo survived";
    let ignores = "trap '' XCPU; while :; do :; done";
    for s in settings() {
        for script in [forks, unwaited, ignores] {
            let r = sh(s, script, |limits| limits.cpu_time = Bound::At(Duration::from_millis(500)));
            assert_eq!((&r["limit"], &r["stdout"]), (&json!("cpu_time"), &json!("")), "{script} {s:?} {r}");
            let used = r["cpu_ms"].as_u64().unwrap();
            assert!((400..1300).contains(&used), "{script} {s:?} {r}");
        }
    }
}

/// Bytes that this process had resident at most (`VmHWM`, proc_pid_status(5)).
fn own_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn a_memory_hog_is_stopped_and_named_and_a_big_reservation_is_not() {
    for s in settings() {
        let hog = "a=$(head -c 300000000 /dev/zero | tr '\\0' x); echo survived";
        let r = sh(s, hog, |limits| limits.memory = Bound::At(64 << 20));
        assert_eq!((&r["limit"], &r["stdout"]), (&json!("memory"), &json!("")), "{s:?} {r}");
        // A child that shares its parent's memory until exec has that in its peak too, and this process may be large.
        assert!(r["max_rss"].as_u64().unwrap() < (own_peak() + (180 << 20)).max(250 << 20), "{s:?} {r}");
    }
}

#[test]
fn a_file_that_grows_too_big_ends_its_writer() {
    for s in settings() {
        let name = format!("/tmp/guardexec-test-{}", marker());
        let r = sh(s, &format!("exec head -c 3000000 /dev/zero > {name}"), |limits| {
            limits.file_size = Bound::At(1 << 20);
        });
        let size = std::fs::metadata(&name).map(|m| m.len());
        let _ = std::fs::remove_file(&name);
        assert_eq!((&r["limit"], &r["value"]), (&json!("file_size"), &json!(libc::SIGXFSZ)), "{s:?} {r}");
        assert_eq!(size.unwrap(), 1 << 20);
    }
}

#[test]
fn node_with_webassembly_runs_under_a_gibibyte() {
    let found = ["/usr/bin/node", "/usr/local/bin/node"].into_iter().find(|p| Path::new(p).exists());
    let Some(node) = found else {
        eprintln!("SKIPPED: no node on this machine");
        return;
    };
    let script = "new WebAssembly.Memory({initial:10,maximum:100}); console.log('ok')";
    for s in settings() {
        let r = engine(s, || confinement(node, &["-e", script], s.tree));
        assert_eq!((&r["stdout"], &r["value"]), (&json!("ok\n"), &json!(0)), "{s:?} {r}");
    }
}

#[test]
fn memory_shared_by_many_processes_is_counted_once() {
    // Each shell has the 12 MB of its parent, which are there once.
    let share = "a=$(head -c 12000000 /dev/zero | tr '\\0' x); i=0; \
                 while [ $i -lt 12 ]; do (sleep 0.4; :) & i=$((i+1)); done; wait; echo done";
    for s in settings() {
        let r = sh(s, share, |limits| limits.memory = Bound::At(96 << 20));
        assert_eq!((&r["stdout"], &r["limit"]), (&json!("done\n"), &Value::Null), "{s:?} {r}");
    }
}

#[test]
fn processors_are_restricted() {
    for s in settings() {
        let r = sh(s, "nproc", |limits| limits.cpus = Bound::At(1));
        assert_eq!(r["stdout"], "1\n", "{s:?} {r}");
    }
}

#[test]
fn a_process_whose_first_thread_has_ended_is_watched_and_killed_all_the_same() {
    let python = "/usr/bin/python3";
    if !Path::new(python).exists() {
        eprintln!("SKIPPED: no {python} on this machine");
        return;
    }
    // The first thread ends; another one goes on. /proc/PID then looks like a zombie without memory.
    let program = |body: &str| {
        format!(
            "import ctypes, threading, time\n\
             def go():\n time.sleep(0.1)\n {body}\n\
             threading.Thread(target=go).start()\nctypes.CDLL(None).pthread_exit(None)\n"
        )
    };
    for s in settings() {
        let m = marker();
        let text = program(&format!("import subprocess; subprocess.call(['sleep', '{m}'])"));
        let r = engine(s, || {
            let mut c = confinement(python, &["-c", &text], s.tree);
            wall(700)(&mut c.limits);
            c
        });
        assert_gone(&m, Duration::ZERO);
        assert_eq!((&r["limit"], &r["unreaped"]), (&json!("wall_time"), &json!(false)), "{s:?} {r}");
        let text = program("x = bytearray(400 << 20); time.sleep(5)");
        let r = engine(s, || {
            let mut c = confinement(python, &["-c", &text], s.tree);
            c.limits.memory = Bound::At(200 << 20);
            c
        });
        assert_eq!(r["limit"], "memory", "{s:?} {r}");
    }
}
