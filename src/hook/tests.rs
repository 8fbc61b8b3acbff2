//! Hooks that misbehave in every way, run by a process of one thread as root and as an ordinary user. Each test looks
//! for what is left of its processes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use super::{Heard, Job, run_all};
use crate::decision::Facts;
use crate::policy::model::{Hook, Place};
use crate::sys::process::{self, Pid, Waited};
use crate::sys::{fd, signal::SignalSet};

mod ending;
mod running;
mod trust;

pub(crate) const NOBODY: u32 = 65_534;

/// Root (where the tests run as root) and an ordinary user.
pub(crate) fn users() -> Vec<Option<u32>> {
    if process::ids().0 == 0 { vec![None, Some(NOBODY)] } else { vec![None] }
}

/// Where a forked process writes its panics; 0 in the test runner itself.
static PANICS: AtomicI32 = AtomicI32::new(0);

/// Installed before any fork: in a child the lock of the hook may be held by a thread that is not there.
fn tell_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| match PANICS.load(Ordering::Relaxed) {
            0 => before(info),
            number => {
                let told = fd::duplicate(number).map(fs::File::from);
                let _ = told.and_then(|mut told| told.write_all(info.to_string().as_bytes()));
            }
        }));
    });
}

/// A process of its own, of one thread, that ends with its body.
pub(crate) struct Apart {
    pub pid: Pid,
    said: fs::File,
}

impl Apart {
    /// Runs `body` there, as this user, in a directory of its own.
    pub fn start(user: Option<u32>, body: impl FnOnce(&Bench)) -> Apart {
        tell_panics();
        let (read, write) = fd::pipe().unwrap();
        let pid = process::fork_for_test(|| {
            // Else a script that another test is just writing could not be executed there.
            fd::close_all_but(&mut [0, 1, 2, write.as_raw_fd()]);
            PANICS.store(write.as_raw_fd(), Ordering::Relaxed);
            if let Some(id) = user {
                process::become_user_for_test(id);
            }
            body(&Bench::new());
            0
        });
        drop(write);
        Apart { pid, said: read.into() }
    }

    /// Waits for its end; its panic is ours.
    #[track_caller]
    pub fn end(mut self) {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            match process::try_wait(self.pid) {
                Waited::NoneDead if Instant::now() > end => {
                    process::kill(self.pid, libc::SIGKILL).unwrap();
                    panic!("did not end in a minute");
                }
                Waited::NoneDead => std::thread::sleep(Duration::from_millis(2)),
                Waited::Reaped(_, 0, _) => return,
                Waited::Reaped(_, status, _) => {
                    let mut text = String::new();
                    // Whoever is left of its processes may hold the other end.
                    fd::set_nonblocking(std::os::fd::AsFd::as_fd(&self.said), true).unwrap();
                    let _ = self.said.read_to_string(&mut text);
                    panic!("ended with {status:#x}: {text}");
                }
                Waited::NoChildren => panic!("reaped by somebody else"),
            }
        }
    }

    /// Kills it and waits for its end.
    pub fn kill(self) {
        process::kill(self.pid, libc::SIGKILL).unwrap();
        while process::try_wait(self.pid) == Waited::NoneDead {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Runs `body` as root and as an ordinary user, each in a process of its own.
#[track_caller]
pub(crate) fn apart(body: impl Fn(&Bench)) {
    for user in users() {
        Apart::start(user, &body).end();
    }
}

/// A directory of this process's user, gone with it.
pub(crate) struct Bench {
    pub dir: PathBuf,
}

impl Bench {
    fn new() -> Bench {
        let dir = PathBuf::from(format!("/tmp/guardexec-hook-{}", process::own_pid()));
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        Bench { dir }
    }

    /// A file with these permission bits.
    pub fn file(&self, name: &str, text: &str, mode: u32) -> String {
        let path = self.dir.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A shell script.
    pub fn script(&self, name: &str, body: &str) -> Hook {
        hook(&[&self.file(name, &format!("#!/bin/sh\n{body}\n"), 0o755)])
    }

    pub fn path(&self, name: &str) -> String {
        self.dir.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

pub(crate) fn hook(words: &[&str]) -> Hook {
    let argv = words.iter().map(|word| (*word).to_owned()).collect();
    Hook { argv, at: Place { file: Arc::from(Path::new("policy.toml")), line: 7 } }
}

pub(crate) fn facts() -> Facts {
    let env =
        [("SECRET", "s3cret"), ("GUARDEXEC_AGENT", "lead"), ("PATH", "/evil"), ("LD_PRELOAD", "/evil.so")];
    Facts {
        env: env.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect(),
        start_dir: Some("/tmp".into()),
        user: "somebody".into(),
        home: "/home/somebody".into(),
        agent: None,
    }
}

fn search() -> Vec<PathBuf> {
    ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from).to_vec()
}

/// Runs these side by side, each with this input.
fn hear_all(hooks: &[&Hook], input: &[u8], timeout: Duration) -> Vec<Heard> {
    let path = search();
    let job = |hook| Job { name: "the check", hook, input: input.to_vec(), timeout, path: &path };
    run_all(hooks.iter().copied().map(job).collect(), &facts(), None)
}

fn hear(hook: &Hook, input: &[u8]) -> Heard {
    hear_all(&[hook], input, Duration::from_secs(20)).pop().unwrap()
}

fn said(stdout: &str) -> Heard {
    Heard::Exited { code: 0, stdout: stdout.as_bytes().to_vec(), truncated: false, stderr: Vec::new() }
}

/// A figure that no other test and no other run uses; stands in the argv of what may not survive.
pub(crate) fn marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("97.{}{:03}", process::own_pid(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn alive(marker: &str) -> Vec<String> {
    let line = |entry: fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(marker).then(|| format!("{} {line}", entry.file_name().display()))
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(line).collect()
}

#[track_caller]
pub(crate) fn assert_gone(marker: &str, within: Duration) {
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

#[track_caller]
pub(crate) fn until(ready: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !ready() {
        assert!(Instant::now() < end, "did not come to be in ten seconds");
        let _ = fd::ppoll(&mut [], Some(Duration::from_millis(2)), &SignalSet::full());
    }
}
