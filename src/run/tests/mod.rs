//! Attack tests of the engine: each is run as root and as an ordinary user (where the tests run as root), with the
//! tree held by a PID namespace and by groups, and ends with a look at the machine for anything left.

use std::ffi::CString;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Ended, How, PassThrough, RunError, Sinks, run, tree};
use crate::decision::Wanted;
use crate::policy::model::{Bound, EffectiveLimits, Layer, Limits, NetworkMode, Profile, TreeKind};
use crate::program::ProgramKind;
use crate::sandbox::cgroup::Place;
use crate::sandbox::{Confinement, Input};
use crate::sys::process::{self, Pid, Waited};
use crate::sys::{errno_of, fd};

mod cgroup;
mod ending;
mod limits;
mod start;

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
        program_path: path.clone(),
        cwd: "/tmp".into(),
        cwd_fd: open("/tmp"),
        input: Input::Null,
        recorded: Vec::new(),
        switches: Vec::new(),
        unmade: Vec::new(),
        caller_tmp: None,
        limits: Limits { wall_time: Some(Bound::At(Duration::from_secs(20))), ..Limits::default() }
            .effective(),
        tree,
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
        guarded: Vec::new(),
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
    let mut all: Vec<Setting> = with(TreeKind::Namespace).chain(with(TreeKind::Groups)).collect();
    if Place::find().is_ok() {
        all.push(Setting { user: None, tree: TreeKind::Both });
    }
    all
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
        How::Stopped => ("stopped", 0),
        How::Unknown => ("unknown", 0),
    };
    json!({
        "how": kind, "value": value, "limit": e.limit.map(|l| l.as_str()), "survivors": e.survivors,
        "ms": e.duration.as_millis() as u64, "cpu_ms": (e.cpu_user + e.cpu_system).as_millis() as u64,
        "max_rss": e.max_rss, "processes": e.processes, "stdout": e.stdout.text(), "stderr": e.stderr.text(),
        "stdout_bytes": e.stdout.total(), "truncated": e.stdout.truncated(), "tree": e.enforced.on.iter().find(|(l, _)| *l == Layer::Processes).map(|(_, how)| how.clone()),
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
            let answer = as_json(run(c, &mut sinks, None)).to_string();
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

#[track_caller]
fn until(ready: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(5);
    while !ready() {
        assert!(Instant::now() < end, "did not come to be in five seconds");
        std::thread::sleep(Duration::from_millis(2));
    }
}
