//! A PID namespace of the run's own, with a mount namespace for its `/proc`, and a user namespace where an
//! ordinary user needs one to be allowed the other two.
//!
//! The keeper is the first process of the namespace. When it dies the kernel kills everything in it, and one
//! `kill(-1)` from it reaches everything without a race.

use std::ffi::CString;
use std::io;

use super::layers::GroundWork;
use super::{Step, is_root};
use crate::sys::{errno_of, fd, process};

/// A namespace to be made, everything composed.
#[derive(Debug)]
pub struct Namespace {
    flags: i32,
    id_map: Option<IdMap>,
}

#[derive(Debug)]
struct IdMap {
    uid: Vec<u8>,
    gid: Vec<u8>,
    root: bool,
}

/// A fresh `/proc` could be mounted or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proc {
    /// It shows the namespace's own processes only.
    Fresh,
    /// The old one stands there still, for this errno.
    Old(i32),
}

impl Namespace {
    /// The ways to have one, the best first: root needs no user namespace, unless it is root of a container that
    /// lacks `CAP_SYS_ADMIN`.
    pub fn ways() -> Vec<Namespace> {
        let (uid, gid) = process::ids();
        let plain = Namespace { flags: libc::CLONE_NEWPID | libc::CLONE_NEWNS, id_map: None };
        let id_map = IdMap {
            uid: format!("{uid} {uid} 1\n").into_bytes(),
            gid: format!("{gid} {gid} 1\n").into_bytes(),
            root: uid == 0,
        };
        let own_user = Namespace { flags: plain.flags | libc::CLONE_NEWUSER, id_map: Some(id_map) };
        if is_root() { vec![plain, own_user] } else { vec![own_user] }
    }

    /// Flags for the clone that makes the keeper.
    pub fn flags(&self) -> i32 {
        self.flags
    }

    /// Whether this is inside a user namespace of its own.
    pub fn has_user_namespace(&self) -> bool {
        self.id_map.is_some()
    }

    /// Whether the kernel counts the tasks of this namespace's user apart from everything else (it does not hold
    /// root to any count).
    pub fn counts_tasks(&self) -> bool {
        self.id_map.as_ref().is_some_and(|map| !map.root)
    }

    /// The keeper's half, run as the first process of the namespace.
    pub fn enter(&self, ground: Option<&GroundWork>) -> Result<Proc, (Step, i32)> {
        if let Some(map) = &self.id_map {
            // Files in /proc/self of a process that cannot be dumped belong to root, and could not be written.
            let _ = process::set_dumpable(true);
            map.write().map_err(|e| (Step::IdMap, errno_of(&e)))?;
        }
        if let Some(ground) = ground {
            return ground.apply().map(|()| Proc::Fresh).map_err(|errno| (Step::Mounts, errno));
        }
        let private = libc::MS_REC | libc::MS_SLAVE;
        process::mount(None, c"/", None, private, None).map_err(|e| (Step::Mounts, errno_of(&e)))?;
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        Ok(match process::mount(Some(c"proc"), c"/proc", Some(c"proc"), flags, None) {
            Ok(()) => Proc::Fresh,
            Err(error) => Proc::Old(errno_of(&error)),
        })
    }
}

impl IdMap {
    fn write(&self) -> io::Result<()> {
        put("/proc/self/uid_map", &self.uid)?;
        // An ordinary user may only map its group after giving up setgroups(2) (user_namespaces(7)).
        put("/proc/self/setgroups", b"deny")?;
        put("/proc/self/gid_map", &self.gid)
    }
}

fn put(path: &str, text: &[u8]) -> io::Result<()> {
    use std::os::fd::AsFd;
    let file = fd::open(&CString::new(path)?, libc::O_WRONLY)?;
    fd::write(file.as_fd(), text).map(drop)
}
