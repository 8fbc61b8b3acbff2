//! Tests of how a run is ended, and that nothing of it is left.

use super::*;

#[test]
fn nothing_outlives_the_wall_time() {
    let attacks = [
        ("a plain child", "sleep M"),
        ("TERM ignored", "trap '' TERM; sleep M; sleep M"),
        ("a daemon", "(setsid sh -c 'sleep M & sleep M' & ) ; sleep M"),
        (
            "a double-forked daemon",
            "(setsid sh -c '(sleep M &) ; exit' &) ; (setsid setsid sleep M &) ; sleep M",
        ),
        (
            "children nobody waits for",
            "trap '' CHLD; sleep M & sleep M & (trap '' CHLD; setsid sleep M &) ; sleep M",
        ),
        ("a stopped child", "sleep M & kill -STOP $!; trap '' TERM; sleep M"),
        ("stopped by itself", ": M; kill -STOP $$"),
        ("a pid-hopper", "h() { : M; h & exit 0; }; (h &) ; sleep M"),
    ];
    for s in settings() {
        for (name, script) in attacks {
            let m = marker();
            let r = sh(s, &script.replace('M', &m), |limits| {
                wall(300)(limits);
                limits.pids = Bound::At(100);
            });
            assert_gone(&m, Duration::ZERO);
            assert_eq!(r["unreaped"], json!(false), "{name} {s:?} {r}");
            assert!(r["limit"] == "wall_time", "{name} {s:?} {r}");
            assert!(r["ms"].as_u64().unwrap() < 2500, "{name} {s:?} {r}");
        }
    }
}

#[test]
fn a_background_child_that_holds_the_pipe_delays_by_the_grace_only() {
    for s in settings() {
        let m = marker();
        let r = sh(s, &format!("(sleep 0.03; echo late; exec sleep {m}) & echo done"), |_| {});
        assert_gone(&m, Duration::ZERO);
        assert_eq!((&r["stdout"], &r["value"]), (&json!("done\nlate\n"), &json!(0)), "{s:?} {r}");
        assert_eq!(r["survivors"], json!(1), "{s:?} {r}");
        assert!(r["ms"].as_u64().unwrap() < 1000, "{s:?} {r}");
    }
}

#[test]
fn a_silent_background_child_is_killed_at_once() {
    for s in settings() {
        let m = marker();
        let r = sh(s, &format!("setsid sleep {m} >/dev/null 2>&1 & echo done"), |_| {});
        assert_gone(&m, Duration::ZERO);
        assert_eq!((&r["how"], &r["survivors"]), (&json!("exited"), &json!(1)), "{s:?} {r}");
    }
}

#[test]
fn when_the_front_is_killed_nothing_survives() {
    for s in settings() {
        let m = marker();
        let script = format!("(setsid sh -c 'sleep {m} & trap \"\" TERM HUP; sleep {m}' &) ; sleep {m}");
        let engine = Engine::start(s, || shell(s, &script, |_| {}), Sinks::keep);
        until(|| alive(&m).len() >= 3);
        process::kill(engine.pid, libc::SIGKILL).unwrap();
        assert_eq!(engine.end(), Value::Null);
        assert_gone(&m, Duration::from_secs(2));
    }
}

#[test]
fn when_the_keeper_is_killed_nothing_survives() {
    for s in settings() {
        let m = marker();
        let script = format!("(setsid sh -c 'sleep {m} & sleep {m}' &) ; sleep {m}");
        let engine = Engine::start(s, || shell(s, &script, |_| {}), Sinks::keep);
        until(|| alive(&m).len() >= 3);
        let keeper = tree::children_of(engine.pid)[0];
        process::pidfd_signal(process::pidfd_open(keeper).unwrap(), libc::SIGKILL).unwrap();
        let r = engine.end();
        assert_gone(&m, Duration::ZERO);
        assert_eq!((&r["how"], &r["unreaped"]), (&json!("unknown"), &json!(false)), "{s:?} {r}");
    }
}

#[test]
fn a_stopped_keeper_only_delays_the_end() {
    for s in settings() {
        let m = marker();
        let script = format!("(setsid sleep {m} &) ; sleep {m}");
        let engine = Engine::start(s, || shell(s, &script, wall(300)), Sinks::keep);
        until(|| alive(&m).len() >= 2);
        let keeper = tree::children_of(engine.pid)[0];
        process::pidfd_signal(process::pidfd_open(keeper).unwrap(), libc::SIGSTOP).unwrap();
        let r = engine.end();
        assert_gone(&m, Duration::ZERO);
        assert_eq!(r["limit"], "wall_time", "{s:?} {r}");
        assert!(r["ms"].as_u64().unwrap() < 4500, "{s:?} {r}");
    }
}

#[test]
fn a_signal_to_the_front_cancels_and_a_second_one_kills_at_once() {
    for s in settings() {
        let m = marker();
        let slow = |limits: &mut EffectiveLimits| limits.kill_grace = Duration::from_secs(10);
        let engine = Engine::start(
            s,
            || shell(s, &format!("trap 'exit 7' TERM; sleep {m} & wait"), slow),
            Sinks::keep,
        );
        until(|| alive(&m).len() >= 2);
        process::kill(engine.pid, libc::SIGTERM).unwrap();
        let r = engine.end();
        assert_gone(&m, Duration::ZERO);
        assert_eq!((&r["how"], &r["value"]), (&json!("cancelled"), &json!(libc::SIGTERM)), "{s:?} {r}");

        let engine = Engine::start(
            s,
            || shell(s, &format!("trap '' TERM INT; sleep {m}; sleep {m}"), slow),
            Sinks::keep,
        );
        until(|| alive(&m).len() >= 2);
        process::kill(engine.pid, libc::SIGINT).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(!alive(&m).is_empty(), "the grace holds");
        process::kill(engine.pid, libc::SIGTERM).unwrap();
        let r = engine.end();
        assert_gone(&m, Duration::ZERO);
        assert_eq!((&r["how"], &r["value"]), (&json!("cancelled"), &json!(libc::SIGINT)), "{s:?} {r}");
        assert!(r["ms"].as_u64().unwrap() < 5000, "{s:?} {r}");
    }
}
