//! Whether a run can be held to a list of Unix sockets: one that may be connected to is, and another one is not, by a
//! process that is asked as a run would be.

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use super::{Probe, must_fail};
use crate::sandbox::door::{Door, Porter};
use crate::sandbox::identity;
use crate::sandbox::raw::process::{self, Trial, try_in_child};
use crate::sandbox::raw::{self, Errno, attempts, notify};
use crate::sandbox::seccomp::{self, Execution, Network};
use crate::sys::errno_of;

const STEPS: [&str; 9] = [
    "making a Unix socket to try it",
    "becoming another user",
    "no-new-privileges",
    "installing a system call filter that asks the guard (only one can be on, so not inside such a run)",
    "making a Unix socket under the filter",
    "connecting by way of the guard, which has to see the run's memory and descriptors",
    "refusing a Unix socket that is not listed",
    "connecting as the run's user",
    "being one thread again",
];

/// `identity`: what the run becomes; `None` where it stays what guardexec is.
pub fn unix_sockets(identity: Option<identity::Prepared>) -> Probe {
    let works = "a run is held to listed Unix sockets, to which the guard connects it".to_owned();
    Probe::from("unix_sockets", works, &STEPS, attempt(identity))
}

fn attempt(identity: Option<identity::Prepared>) -> Trial {
    let made = |error: std::io::Error| (0, errno_of(&error));
    let random = raw::secret::random_u64().map_err(|e| (0, e))?;
    let name = |which: &str| format!("guardexec-probe-{which}-{random:016x}");
    let listen = |which: &str| {
        let bound = SocketAddr::from_abstract_name(name(which)).and_then(|at| UnixListener::bind_addr(&at));
        bound.and_then(|listener| listener.set_nonblocking(true).map(|()| listener)).map_err(made)
    };
    let (listed, _other) = (listen("listed")?, listen("other")?);
    let address = |which: &str| [b"\0", name(which).as_bytes()].concat();
    let (right, wrong) = (address("listed"), address("other"));
    let (door, channel) = Door::to_name(&right, identity).map_err(made)?;
    let (filter, own) = (filter(), crate::sys::process::ids().0);
    let expected = identity.and_then(|identity| identity.user());
    let alone = crate::sys::process::thread_count();
    let porter = Porter::open(door).map_err(made)?;
    let tried = try_in_child(|| {
        if let Some(identity) = &identity {
            identity::apply(identity).map_err(|(_, e)| (1, e))?;
        }
        if expected.is_none_or(|user| user == own) {
            // As the run is after its exec. Its user is the guard's, so nobody gets to see more than before.
            process::be_dumpable().map_err(|e| (2, e))?;
        }
        raw::no_new_privs().map_err(|e| (2, e))?;
        seccomp::apply_listening(&filter, channel.as_raw_fd()).map_err(|e| (3, e))?;
        attempts::socket(libc::AF_UNIX, libc::SOCK_STREAM).map_err(|e| (4, e))?;
        attempts::connect_unix(&right).map_err(|e| (5, e))?;
        must_fail(attempts::connect_unix(&wrong), libc::EACCES, 6)
    });
    // What is forked next must not be forked beside it.
    if porter.close().is_none() || crate::sys::process::thread_count() > alone {
        return Err((8, libc::EBUSY));
    }
    tried?;
    let user = listed.accept().map_err(|e| (7, errno_of(&e))).and_then(|(peer, _)| user_of(&peer))?;
    if expected.is_none_or(|expected| expected == user) { Ok(()) } else { Err((7, 0)) }
}

fn user_of(peer: &std::os::unix::net::UnixStream) -> Result<u32, (u8, Errno)> {
    notify::peer_user(peer.as_fd()).map_err(|e| (7, e))
}

fn filter() -> seccomp::Prepared {
    seccomp::Prepared::new(&seccomp::Options {
        execution: Execution::Any,
        network: Network::Unix,
        pid_namespace: false,
        ipc_namespace: false,
        attributes: false,
        truncate_by_path: false,
        openat2: false,
    })
}
