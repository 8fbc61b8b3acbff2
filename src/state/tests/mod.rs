//! The store under all that can happen to it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::policy::load::{LoadContext, load};
use crate::policy::model::Policy;

mod damage;
mod older;
mod processes;
mod trust;
mod users;

/// A fresh directory's name; removed with all that is in it.
pub(crate) struct Dir(pub PathBuf);

impl Dir {
    pub(crate) fn new() -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let outer = std::env::temp_dir().join(format!("guardexec-state-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&outer);
        fs::create_dir_all(&outer).unwrap();
        fs::set_permissions(&outer, fs::Permissions::from_mode(0o700)).unwrap();
        Dir(fs::canonicalize(outer).unwrap().join("state"))
    }

    /// The directory around it, which is the test's too.
    pub(crate) fn outer(&self) -> &Path {
        self.0.parent().unwrap()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.outer());
    }
}

/// A policy with this text behind its version, read from a file beside the store.
pub(crate) fn policy(dir: &Dir, text: &str) -> Policy {
    policy_named(dir, "policy.toml", text)
}

pub(crate) fn policy_named(dir: &Dir, name: &str, text: &str) -> Policy {
    let path = dir.outer().join(name);
    fs::write(&path, format!("version = 1\n{text}")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    load_policy(&path)
}

pub(crate) fn load_policy(path: &Path) -> Policy {
    let context = LoadContext { home: "/".into(), uid: crate::sys::process::ids().0 };
    load(path, &context).unwrap_or_else(|error| panic!("{error}"))
}

/// Whether this process runs `test` and no other: else it is run again in one that does, and has to pass there. What a
/// forked process has of the database library are the locks as they stood, another test's thread's among them.
pub(crate) fn runs_alone(test: &str) -> bool {
    if std::env::var_os("GX_ALONE").is_some() {
        return true;
    }
    let done = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--test-threads=1", test])
        .env("GX_ALONE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{test}\n{said}");
    false
}

/// The exit status of a forked process.
pub(crate) fn reaped(child: crate::sys::process::Pid) -> i32 {
    use nix::sys::wait::{WaitStatus, waitpid};
    match waitpid(nix::unistd::Pid::from_raw(child), None).unwrap() {
        WaitStatus::Exited(_, status) => status,
        WaitStatus::Signaled(_, signal, _) => 128 + signal as i32,
        other => panic!("{other:?}"),
    }
}

/// Whether any transaction was committed: the first one puts this boot into the clock.
fn boots(dir: &Path) -> i64 {
    let mut view = Store::look(dir).unwrap().expect("used");
    view.read(|db, _| Ok(db.query_row("SELECT count(*) FROM clock", [], |row| row.get(0))?)).unwrap()
}

#[test]
fn what_is_committed_is_there_for_the_next() {
    let dir = Dir::new();
    assert!(Store::look(&dir.0).unwrap().is_none() && !dir.0.exists(), "looking creates nothing");
    let mut store = Store::open(&dir.0).unwrap();
    assert_eq!(store.dir(), dir.0);
    assert_eq!(boots(&dir.0), 0);
    store.transaction(|_, _| Ok(())).unwrap();
    drop(store);
    assert_eq!(boots(&dir.0), 1);
    Store::open(&dir.0).unwrap();
    assert_eq!(boots(&dir.0), 1);
}

#[test]
fn a_body_that_wants_nothing_kept_keeps_nothing() {
    let dir = Dir::new();
    let mut store = Store::open(&dir.0).unwrap();
    let done: Result<(), &str> = store.attempt(|_, _| Ok(Err("no"))).unwrap();
    assert_eq!((done, boots(&dir.0)), (Err("no"), 0));
    let failed: Result<(), StateError> = store.transaction(|tx, _| {
        tx.execute("INSERT INTO clock VALUES ('x', 1, 1, '')", [])?;
        tx.execute("INSERT INTO nothing VALUES (1)", [])?;
        Ok(())
    });
    let error = failed.expect_err("no such table");
    assert!(error.to_string().contains(&format!("{:?}", dir.file("state.db"))), "{error}");
    assert_eq!((error.code(), boots(&dir.0)), ("state_unavailable", 0));
    assert!(matches!(store.attempt(|_, _| Ok(Ok::<_, ()>(7))).unwrap(), Ok(7)));
}

#[test]
fn a_view_cannot_write() {
    let dir = Dir::new();
    drop(Store::open(&dir.0).unwrap());
    let mut view = Store::look(&dir.0).unwrap().unwrap();
    let written = view.read(|db, _| Ok(db.execute("INSERT INTO clock VALUES ('x', 1, 1, '')", [])?));
    assert!(written.is_err(), "{written:?}");
    assert_eq!(boots(&dir.0), 0);
}

#[test]
fn a_forked_process_cannot_use_its_parents_store() {
    let dir = Dir::new();
    let mut store = Store::open(&dir.0).unwrap();
    let child = crate::sys::process::fork_for_test(|| match store.transaction(|_, _| Ok(())) {
        Err(StateError::Forked) => 0,
        _ => 1,
    });
    assert_eq!(reaped(child), 0);
    store.transaction(|_, _| Ok(())).unwrap();
}
