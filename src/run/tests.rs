//! Attack tests of the engine: each is run as root and as an ordinary user (where the tests run as root), with the
//! tree held by a PID namespace and by groups, and ends with a look at the machine for anything left.

use std::ffi::CString;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Ended, How, RunError, Sinks, run};
use crate::decision::Wanted;
use crate::policy::model::{Bound, EffectiveLimits, Limits, NetworkMode, Profile, TreeKind};
use crate::program::ProgramKind;
use crate::sandbox::{Confinement, Input};
use crate::sys::process::{self, Pid, Waited};
use crate::sys::{errno_of, fd};

const NOBODY: u32 = 65_534;

fn open(path: &str) -> OwnedFd {
    fd::open(&CString::new(path).unwrap(), libc::O_PATH).unwrap()
}

fn confinement(program: &str, words: &[&str], tree: TreeKind) -> Confinement {
    let path = std::fs::canonicalize(program).unwrap();
    let meta = std::fs::metadata(&path).unwrap();
    let script = std::fs::read(&path).unwrap().starts_with(b"#!");
    let c = |s: &str| CString::new(s).unwrap();
    Confinement {
        argv: std::iter::once(program).chain(words.iter().copied()).map(c).collect(),
        envp: vec![c("PATH=/usr/bin:/bin"), c("LC_ALL=C")],
        program: open(path.to_str().unwrap()),
        path: c(path.to_str().unwrap()),
        device: meta.dev(),
        inode: meta.ino(),
        kind: if script { ProgramKind::Script } else { ProgramKind::Binary },
        cwd: open("/tmp"),
        input: Input::Null,
        limits: Limits { wall_time: Some(Bound::At(Duration::from_secs(20))), ..Limits::default() }
            .effective(),
        tree,
        steps: Vec::new(),
        wanted: Wanted {
            profile: Profile::Host,
            require: Vec::new(),
            require_written: false,
            user: None,
            processes: tree,
            filesystem: Default::default(),
            network: NetworkMode::Host,
            loopback: false,
            unix: Vec::new(),
            exec: None,
            path: Vec::new(),
        },
    }
}

/// Who runs it and how the tree is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Setting {
    user: Option<u32>,
    tree: TreeKind,
}

fn settings() -> Vec<Setting> {
    let users = if process::ids().0 == 0 { vec![None, Some(NOBODY)] } else { vec![None] };
    let with = |tree| users.iter().map(move |&user| Setting { user, tree });
    with(TreeKind::Namespace).chain(with(TreeKind::Groups)).collect()
}

fn become_user(user: Option<u32>) {
    if let Some(id) = user {
        process::become_user_for_test(id);
    }
}

fn as_json(result: Result<Ended, RunError>) -> Value {
    let e = match result {
        Ok(ended) => ended,
        Err(error) => return json!({ "error": error.to_string() }),
    };
    let (kind, value) = match e.how {
        How::Exited(n) => ("exited", n),
        How::Signaled(n, _) => ("signaled", n),
        How::NotStarted { errno, .. } => ("not_started", errno),
        How::Cancelled(n) => ("cancelled", n),
        How::Unknown => ("unknown", 0),
    };
    json!({
        "how": kind, "value": value, "limit": e.limit.map(|l| l.as_str()), "survivors": e.survivors,
        "ms": e.duration.as_millis() as u64, "cpu_ms": (e.cpu_user + e.cpu_system).as_millis() as u64,
        "max_rss": e.max_rss, "processes": e.processes, "stdout": e.stdout.text(), "stderr": e.stderr.text(),
        "stdout_bytes": e.stdout.total(), "truncated": e.stdout.truncated(), "tree": e.tree.as_str(),
        "pids_how": e.limits_how.pids.as_str(), "unreaped": e.unreaped, "warnings": e.warnings,
        "step": if let How::NotStarted { step, .. } = e.how { step.as_str() } else { "" },
    })
}

/// The engine in a process of its own.
struct Engine {
    pid: Pid,
    answer: std::fs::File,
}

impl Engine {
    fn start(setting: Setting, make: impl FnOnce() -> Confinement, sinks: impl FnOnce() -> Sinks) -> Engine {
        let (read, write) = fd::pipe().unwrap();
        let pid = process::fork_for_test(|| {
            let c = make();
            let mut sinks = sinks();
            become_user(setting.user);
            let answer = as_json(run(c, &mut sinks)).to_string();
            std::fs::File::from(write.try_clone().unwrap()).write_all(answer.as_bytes()).unwrap();
            0
        });
        drop(write);
        Engine { pid, answer: read.into() }
    }

    fn end(mut self) -> Value {
        let mut text = String::new();
        self.answer.read_to_string(&mut text).unwrap();
        while process::try_wait(self.pid) == Waited::NoneDead {
            std::thread::sleep(Duration::from_millis(1));
        }
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }
}

fn engine(setting: Setting, make: impl FnOnce() -> Confinement) -> Value {
    Engine::start(setting, make, Sinks::keep).end()
}

fn sh(setting: Setting, script: &str, tweak: impl FnOnce(&mut EffectiveLimits)) -> Value {
    engine(setting, || shell(setting, script, tweak))
}

fn shell(setting: Setting, script: &str, tweak: impl FnOnce(&mut EffectiveLimits)) -> Confinement {
    let mut c = confinement("/bin/sh", &["-c", script], setting.tree);
    tweak(&mut c.limits);
    c
}

/// A figure that no other test and no other run uses; stands in the argv of what may not survive.
fn marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("98.{}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn alive(marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        // The test process itself and its engines have the marker in memory, not in their argv.
        if line.contains(marker) {
            found.push(format!("{} {line}", entry.file_name().display()));
        }
    }
    found
}

#[track_caller]
fn assert_gone(marker: &str, within: Duration) {
    let end = Instant::now() + within;
    loop {
        let left = alive(marker);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "left alive: {left:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn wall(ms: u64) -> impl Fn(&mut EffectiveLimits) {
    move |limits| {
        limits.wall_time = Bound::At(Duration::from_millis(ms));
        limits.kill_grace = Duration::from_millis(100);
    }
}

#[test]
fn a_plain_command_runs_and_is_accounted_for() {
    for s in settings() {
        let r = sh(s, "echo out; echo err >&2; exit 3", |_| {});
        assert_eq!((&r["how"], &r["value"]), (&json!("exited"), &json!(3)), "{s:?} {r}");
        assert_eq!((&r["stdout"], &r["stderr"]), (&json!("out\n"), &json!("err\n")), "{s:?} {r}");
        assert_eq!((&r["survivors"], &r["processes"]), (&json!(0), &json!(1)), "{s:?} {r}");
        let tree = if s.tree == TreeKind::Namespace { "pid_namespace" } else { "process_groups" };
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
            assert!(limit == Some("pids"), "{s:?} {r}");
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
        let keeper = super::tree::children_of(engine.pid)[0];
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
        let keeper = super::tree::children_of(engine.pid)[0];
        process::pidfd_signal(process::pidfd_open(keeper).unwrap(), libc::SIGSTOP).unwrap();
        let r = engine.end();
        assert_gone(&m, Duration::ZERO);
        assert_eq!(r["limit"], "wall_time", "{s:?} {r}");
        assert!(r["ms"].as_u64().unwrap() < 4500, "{s:?} {r}");
    }
}

#[track_caller]
fn until(ready: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(5);
    while !ready() {
        assert!(Instant::now() < end, "did not come to be in five seconds");
        std::thread::sleep(Duration::from_millis(2));
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
        until(|| !alive(&m).is_empty());
        process::kill(engine.pid, libc::SIGTERM).unwrap();
        let r = engine.end();
        assert_gone(&m, Duration::ZERO);
        assert_eq!((&r["how"], &r["value"]), (&json!("cancelled"), &json!(libc::SIGTERM)), "{s:?} {r}");

        let engine =
            Engine::start(s, || shell(s, &format!("trap '' TERM INT; sleep {m}"), slow), Sinks::keep);
        until(|| !alive(&m).is_empty());
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

#[test]
fn a_memory_hog_is_stopped_and_named_and_a_big_reservation_is_not() {
    for s in settings() {
        let hog = "a=$(head -c 300000000 /dev/zero | tr '\\0' x); echo survived";
        let r = sh(s, hog, |limits| limits.memory = Bound::At(64 << 20));
        assert_eq!((&r["limit"], &r["stdout"]), (&json!("memory"), &json!("")), "{s:?} {r}");
        assert!(r["max_rss"].as_u64().unwrap() < 250 << 20, "{s:?} {r}");
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
    let open = |path: &str| Input::open(crate::request::Stdin::File(path.into())).map_err(|e| errno_of(&e));
    assert!(matches!(open("/nonexistent"), Err(libc::ENOENT)));
    assert!(matches!(open("/tmp"), Err(libc::EINVAL)));
}

#[test]
fn raw_output_waits_for_a_slow_reader_keeps_the_deadline_and_survives_a_closed_one() {
    let s = settings()[0];
    let pass =
        |to: &OwnedFd| Sinks { stdout: Some(super::PassThrough::to(to.as_fd()).unwrap()), stderr: None };
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
    assert!(matches!(run(c, &mut Sinks::keep()), Err(RunError::Threads(n)) if n > 1));
    assert!(std::io::stdout().as_raw_fd() == 1);
}
