//! Whether a mechanism works here: each is tried the whole way in a child, and what it should refuse is attempted.
//!
//! A version number proves nothing: Landlock can be built in and not enabled, AppArmor lets a user namespace be made and
//! then denies every capability in it, a container's filter refuses calls that the kernel has.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

use nix::unistd::{Gid, Uid};

use super::identity::{self, Identity};
use super::landlock;
use super::raw::mounts;
use super::raw::process::{self, Trial, try_in_child};
use super::raw::{self, Errno};
use super::seccomp::{self, Execution, Network};
use super::view::{Access, PathRule, View};

mod cgroups;
mod door;
pub use cgroups::cgroups;
pub use door::unix_sockets;

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// `landlock`, `seccomp`, `mounts`, `pid_namespace`, `cgroups`, `loopback`, `unix_sockets`, `identity`.
    pub name: &'static str,
    /// It works the whole way.
    pub ok: bool,
    /// The errno of the step that failed; `None` where all worked or nothing was refused that should be.
    pub errno: Option<Errno>,
    /// What was tried and what came of it, for a person.
    pub sentence: String,
    /// What an administrator can do.
    pub remedy: Option<&'static str>,
}

impl Probe {
    fn from(name: &'static str, works: String, steps: &[&str], trial: Trial) -> Probe {
        let Err((step, errno)) = trial else {
            return Probe { name, ok: true, errno: None, sentence: works, remedy: None };
        };
        let what = steps.get(usize::from(step)).copied().unwrap_or("starting a process to try it");
        let sentence = if errno == 0 {
            format!("{what} had no effect")
        } else {
            format!("{what} failed: {}", std::io::Error::from_raw_os_error(errno))
        };
        let errno = (errno != 0).then_some(errno);
        Probe { name, ok: false, errno, sentence, remedy: remedy(name, errno.unwrap_or(0)) }
    }
}

/// All probes, in the order of `doctor`'s table. Some milliseconds in all.
pub fn all() -> Vec<Probe> {
    let sockets = unix_sockets(Some(run_identity()));
    vec![
        landlock(),
        seccomp(),
        mount_namespace(),
        pid_namespace(),
        cgroups(),
        loopback(),
        sockets,
        identity(),
    ]
}

/// A ruleset without rules is applied, and the root directory must not open any more.
pub fn landlock() -> Probe {
    let abi = landlock::abi();
    let steps =
        ["asking for Landlock", "no-new-privileges", "applying a Landlock ruleset", "a Landlock ruleset"];
    let rule = PathRule { path: PathBuf::from("/proc"), access: Access::READ, optional: true };
    let view = View { rules: vec![rule], ..View::default() };
    let trial = match landlock::Prepared::filled(&view, abi) {
        Err(
            landlock::Error::Unavailable(errno)
            | landlock::Error::Ruleset(errno)
            | landlock::Error::Path(_, errno),
        ) => Err((0, errno)),
        Ok(prepared) => try_in_child(|| {
            raw::no_new_privs().map_err(|e| (1, e))?;
            landlock::apply(prepared.fd.as_raw_fd()).map_err(|e| (2, e))?;
            must_fail(raw::open(c"/", libc::O_RDONLY | libc::O_DIRECTORY).map(|_| ()), libc::EACCES, 3)
        }),
    };
    Probe::from("landlock", format!("Landlock ABI {abi} refuses what is not granted"), &steps, trial)
}

/// A filter is installed, and a call that it refuses must fail with its errno.
pub fn seccomp() -> Probe {
    let options = seccomp::Options {
        execution: Execution::Any,
        network: Network::None,
        pid_namespace: false,
        ipc_namespace: false,
        attributes: false,
        truncate_by_path: false,
        openat2: false,
    };
    let filter = seccomp::Prepared::new(&options);
    let steps = ["no-new-privileges", "installing a system call filter", "a system call filter"];
    let trial = try_in_child(|| {
        raw::no_new_privs().map_err(|e| (0, e))?;
        seccomp::apply(&filter).map_err(|e| (1, e))?;
        must_fail(process::datagram_pair(), libc::EACCES, 2)
    });
    Probe::from("seccomp", "a system call filter refuses what it should".to_owned(), &steps, trial)
}

/// A mount namespace is made (in a user namespace, unless by root), a tmp mounted, everything made read-only, and a
/// tree of the host attached again.
pub fn mount_namespace() -> Probe {
    let maps = Maps::new();
    let steps = [
        "making a user and mount namespace",
        "writing the user and group maps",
        "making the mounts private",
        "copying a mount",
        "making all mounts read-only",
        "mounting a tmpfs",
        "attaching a mount",
        "a read-only mount",
    ];
    let trial = try_in_child(|| {
        maps.enter(libc::CLONE_NEWNS)?;
        mounts::make_private().map_err(|e| (2, e))?;
        let root = mounts::open_canonical(c"/").map_err(|e| (3, e))?;
        let tree = mounts::open_canonical(c"/proc")
            .and_then(|fd| mounts::clone_tree(fd.as_fd()))
            .map_err(|e| (3, e))?;
        mounts::set_attributes(root.as_fd(), mounts::READ_ONLY | mounts::NO_SUID).map_err(|e| (4, e))?;
        mounts::mount_new(c"tmpfs", c"/tmp", 0, c"size=4096,mode=1777").map_err(|e| (5, e))?;
        mounts::make_dir(c"/tmp/at", 0o755).map_err(|e| (6, e))?;
        let at = mounts::open_canonical(c"/tmp/at").map_err(|e| (6, e))?;
        mounts::attach(tree.as_fd(), at.as_fd()).map_err(|e| (6, e))?;
        must_fail(mounts::make_dir(c"/guardexec-probe", 0o700), libc::EROFS, 7)
    });
    let works = format!("a mount namespace can be made{}", maps.how());
    Probe::from("mounts", works, &steps, trial)
}

/// A PID namespace is made, and its first process mounts its own /proc.
pub fn pid_namespace() -> Probe {
    let maps = Maps::new();
    let steps = [
        "making a user and PID namespace",
        "writing the user and group maps",
        "starting its first process",
        "making the mounts private",
        "mounting its own /proc",
        "a PID namespace",
    ];
    let trial = try_in_child(|| {
        maps.enter(libc::CLONE_NEWNS | libc::CLONE_NEWPID)?;
        let inner = try_in_child(|| {
            if process::own_number() != 1 {
                return Err((5, 0));
            }
            mounts::make_private().map_err(|e| (3, e))?;
            mounts::mount_new(c"proc", c"/proc", libc::MS_RDONLY | libc::MS_NOEXEC, c"").map_err(|e| (4, e))
        });
        inner.map_err(|(step, errno)| if step == 255 { (2, errno) } else { (step, errno) })
    });
    let works = format!("a PID namespace with its own /proc can be made{}", maps.how());
    Probe::from("pid_namespace", works, &steps, trial)
}

/// A network namespace is made and its loopback interface set up.
pub fn loopback() -> Probe {
    let maps = Maps::new();
    let steps = [
        "making a user and network namespace",
        "writing the user and group maps",
        "setting the loopback interface up",
    ];
    let trial = try_in_child(|| {
        maps.enter(libc::CLONE_NEWNET)?;
        process::loopback_up().map_err(|e| (2, e))
    });
    let works = format!("a network namespace with a loopback can be made{}", maps.how());
    Probe::from("loopback", works, &steps, trial)
}

/// Root becomes an unprivileged user and reads that back; others give up their capabilities.
pub fn identity() -> Probe {
    let root = Uid::effective().is_root();
    let prepared = run_identity();
    let steps = [
        "joining a new session keyring",
        "clearing the ambient capabilities",
        "emptying the bounding set",
        "locking the securebits",
        "leaving all groups",
        "changing the group",
        "changing the user",
        "giving up all capabilities",
        "reading the new identity back",
    ];
    let trial = try_in_child(|| identity::apply(&prepared).map_err(|(step, errno)| (step as u8, errno)));
    let works = if root {
        "root can become an unprivileged user"
    } else {
        "an unprivileged user, without capabilities"
    };
    Probe::from("identity", works.to_owned(), &steps, trial)
}

/// What a run becomes by default, where nothing it needs is in the way.
pub fn run_identity() -> identity::Prepared {
    let root = Uid::effective().is_root();
    let chosen = if root { Identity::Anonymous(65534) } else { Identity::Same };
    identity::Prepared::new(chosen, false)
}

/// An attempt that has to be refused with `errno`; step `step` otherwise.
fn must_fail(attempt: Result<(), Errno>, errno: Errno, step: u8) -> Trial {
    match attempt {
        Err(e) if e == errno => Ok(()),
        Ok(()) => Err((step, 0)),
        Err(other) => Err((step, other)),
    }
}

/// The texts of the user and group maps, made before the fork; none for root, who needs no user namespace.
struct Maps(Option<(CString, CString)>);

impl Maps {
    fn new() -> Maps {
        let (uid, gid) = (Uid::effective(), Gid::effective());
        let line = |id: u32| CString::new(format!("{id} {id} 1")).expect("digits");
        Maps((!uid.is_root()).then(|| (line(uid.as_raw()), line(gid.as_raw()))))
    }

    fn how(&self) -> &'static str {
        if self.0.is_some() { ", in a user namespace" } else { " by root" }
    }

    /// Enters new namespaces: step 0 is making them, step 1 the maps.
    fn enter(&self, flags: i32) -> Trial {
        let Some((uid, gid)) = &self.0 else { return process::unshare(flags).map_err(|e| (0, e)) };
        process::be_dumpable().map_err(|e| (0, e))?;
        process::unshare(flags | libc::CLONE_NEWUSER).map_err(|e| (0, e))?;
        process::write_file(c"/proc/self/setgroups", c"deny").map_err(|e| (1, e))?;
        process::write_file(c"/proc/self/uid_map", uid).map_err(|e| (1, e))?;
        process::write_file(c"/proc/self/gid_map", gid).map_err(|e| (1, e))
    }
}

/// What an administrator can do where the probe of that name failed so.
pub(super) fn remedy(name: &str, errno: Errno) -> Option<&'static str> {
    Some(match (name, errno) {
        ("landlock", libc::EOPNOTSUPP) => "add landlock to the kernel's lsm= boot parameter",
        ("landlock", libc::ENOSYS) => {
            "use a kernel from 5.13 on with CONFIG_SECURITY_LANDLOCK, and a container whose filter lets \
             landlock_create_ruleset through"
        }
        ("landlock", libc::E2BIG) => "sixteen Landlock layers are the most: nest less deeply",
        ("seccomp", _) => "use a kernel with CONFIG_SECCOMP_FILTER",
        ("mounts" | "pid_namespace" | "loopback", libc::ENOSPC) => {
            "raise the limit: sysctl user.max_user_namespaces (and user.max_mnt_namespaces, max_pid_namespaces, \
             max_net_namespaces)"
        }
        ("mounts" | "pid_namespace" | "loopback", libc::EPERM | libc::EACCES) => {
            "allow user namespaces: on Ubuntu an AppArmor profile for guardexec with `userns,` or sysctl \
             kernel.apparmor_restrict_unprivileged_userns=0; on Debian sysctl kernel.unprivileged_userns_clone=1; in a \
             container run it with a seccomp profile that lets unshare and mount through, and an unmasked /proc"
        }
        ("mounts" | "pid_namespace" | "loopback", libc::ENOSYS | libc::EINVAL) => {
            "use a kernel from 5.12 on with CONFIG_USER_NS, CONFIG_PID_NS and CONFIG_NET_NS"
        }
        ("unix_sockets", libc::EBUSY) => "run guardexec outside the run whose policy lists Unix sockets",
        ("unix_sockets", libc::EINVAL | libc::ENOSYS) => {
            "use a kernel from 5.6 on with CONFIG_SECCOMP_FILTER"
        }
        ("unix_sockets", libc::EPERM | libc::EACCES) => {
            "in a container, give it CAP_SYS_PTRACE and a seccomp profile that lets pidfd_getfd and process_vm_readv through; \
             set sysctl kernel.yama.ptrace_scope to 0 or 1"
        }
        ("identity", _) => {
            "give the container CAP_SETUID, CAP_SETGID and CAP_SETPCAP, or run guardexec as a user"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
