//! Files, locks and lengths that somebody prepared.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, Flock, FlockArg, fcntl};
use nix::libc;

use super::*;

#[test]
fn links_pipes_devices_and_directories_are_refused() {
    let dir = Dir::new();
    let at = |name: &str| dir.0.join(name);
    std::os::unix::fs::symlink(at("target"), at("link")).unwrap();
    assert!(matches!(Audit::open(&at("link"), None), Err(AuditError::Symlink { .. })));
    assert!(!at("target").exists());
    nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let start = Instant::now();
    assert!(matches!(Audit::open(&at("fifo"), None), Err(AuditError::NotRegular { .. })));
    assert!(matches!(Audit::open(&dir.0, None), Err(AuditError::NotRegular { .. })));
    assert!(matches!(Audit::open(Path::new("/dev/null"), None), Err(AuditError::NotRegular { .. })));
    assert!(start.elapsed() < Duration::from_secs(1));
    // The same for the lock.
    nix::unistd::mkfifo(&at("audit.jsonl.lock"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(Audit::open(&dir.log(), None), Err(AuditError::NotRegular { .. })));
    assert!(check(&[at("fifo")]).unwrap().reason.contains("regular"));
}

#[test]
fn files_that_others_can_change_are_refused_with_the_remedy() {
    let dir = Dir::new();
    for (name, mode, remedy) in [("audit.jsonl", 0o620, "go-w"), ("audit.jsonl.lock", 0o244, "u=w,go=")] {
        drop(filled(&dir, 0));
        let path = dir.0.join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = Audit::open(&dir.log(), None).unwrap_err();
        assert!(matches!(&error, AuditError::Mode { path: p, .. } if *p == path), "{error}");
        assert_eq!(error.hint(), format!("chmod {remedy} {path:?}"));
        fs::remove_file(path).unwrap();
    }
    if nix::unistd::geteuid().is_root() {
        drop(filled(&dir, 0));
        std::os::unix::fs::chown(dir.log(), Some(65534), None).unwrap();
        assert!(matches!(Audit::open(&dir.log(), None), Err(AuditError::Owner { owner: 65534, .. })));
    }
}

fn record_lock(file: &File, kind: libc::c_int) -> nix::Result<i32> {
    let range =
        libc::flock { l_type: kind as _, l_whence: libc::SEEK_SET as _, l_start: 0, l_len: 0, l_pid: 0 };
    fcntl(file, FcntlArg::F_OFD_SETLK(&range))
}

#[test]
fn a_reader_cannot_stall_a_writer() {
    let dir = Dir::new();
    let (mut audit, _) = filled(&dir, 1);
    let reader = File::open(dir.log()).unwrap();
    record_lock(&reader, libc::F_RDLCK).unwrap();
    let flocked = Flock::lock(File::open(dir.log()).unwrap(), FlockArg::LockExclusiveNonblock).unwrap();
    let start = Instant::now();
    audit.append(&simple("x")).unwrap();
    assert!(start.elapsed() < Duration::from_secs(1));
    drop(flocked);
    assert_eq!(fs::metadata(dir.0.join("audit.jsonl.lock")).unwrap().mode() & 0o777, 0o200);
    // An open for reading, where it can be had at all (as root), does not give a lock that writers wait for.
    if let Ok(lock) = File::open(dir.0.join("audit.jsonl.lock")) {
        let _held = Flock::lock(lock, FlockArg::LockExclusiveNonblock).unwrap();
        audit.append(&simple("y")).unwrap();
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}

#[test]
fn a_stuck_writer_is_waited_for_five_seconds_only() {
    let dir = Dir::new();
    let (mut audit, _) = filled(&dir, 1);
    let before = fs::read(dir.log()).unwrap();
    let stuck = OpenOptions::new().append(true).open(dir.0.join("audit.jsonl.lock")).unwrap();
    record_lock(&stuck, libc::F_WRLCK).unwrap();
    let start = Instant::now();
    assert!(matches!(audit.append(&simple("x")), Err(AuditError::Busy { .. })));
    assert!((4..8).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert_eq!(fs::read(dir.log()).unwrap(), before);
    drop(stuck);
    audit.append(&simple("x")).unwrap();
    assert_eq!(check(&[dir.log()]), None);
}

#[test]
fn a_line_without_end_costs_no_memory() {
    let dir = Dir::new();
    let (mut audit, _) = filled(&dir, 1);
    let len = fs::metadata(dir.log()).unwrap().len();
    // A hole of 1 GiB; read whole it would be a gigabyte of memory.
    OpenOptions::new().write(true).open(dir.log()).unwrap().write_all_at(b"x", len + (1 << 30)).unwrap();
    let bad = check(&[dir.log()]).unwrap();
    assert_eq!((bad.line, bad.reason.as_str()), (2, "longer than 8 MiB"));
    assert!(matches!(audit.append(&simple("x")), Err(AuditError::NotAudit { .. })));
}
