//! As whom the run runs: root becomes somebody without rights, everybody loses capabilities.
//!
//! `user = "auto"` as root: a number of this run's own where it can reach what the run needs, so that two runs cannot
//! touch each other and `RLIMIT_NPROC` counts this run alone; else the one ordinary user to whom it all belongs; else
//! uid 0 without any capability, which still owns the system's files: then mounts and Landlock are all there is, and
//! the result says so. Numbers come from 1879048192 on, which systemd's table of uid ranges lists as unused; a
//! user namespace that does not map them (rootless containers) leaves 65534.
//!
//! The order of the steps is the order in which each is still permitted: the keyring and the bounding set need
//! capabilities, groups need `CAP_SETGID`, and setting the user takes all of them away.

use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};

use super::raw::Errno;
use super::raw::credentials as raw;
use crate::sys::fd;

/// The first number of runs' own users.
const FIRST: u32 = 1_900_000_000;
/// How many there are, up to 2034217727.
const RANGE: u32 = 0x0800_0000;
/// Where a number of its own cannot be had.
const NOBODY: u32 = 65534;

/// As whom a run will run, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// The user who runs guardexec, who is not root, with no capabilities.
    Same,
    /// A number that no account has, of this run alone (or 65534 where the namespace maps no other).
    Anonymous(u32),
    /// An account: the policy's, or the owner of what the run needs.
    User {
        /// Its uid.
        uid: u32,
        /// Its group.
        gid: u32,
    },
    /// Uid 0 without capabilities: what the run needs is only root's.
    PowerlessRoot,
}

impl Identity {
    /// The words for `enforced.identity` in results.
    pub fn describe(&self) -> String {
        match self {
            Identity::Same => "same user, no capabilities".to_owned(),
            Identity::Anonymous(uid) | Identity::User { uid, .. } => format!("uid {uid}, no capabilities"),
            Identity::PowerlessRoot => "uid 0 without capabilities".to_owned(),
        }
    }

    /// Whether it can be had in a user namespace that maps nobody but its maker and keeps its groups.
    pub fn fits_user_namespace(&self) -> bool {
        self.numbers().is_none() || (*self == Identity::PowerlessRoot && !can(CAP_SETGID))
    }

    /// Whether nothing else on the machine runs as this user.
    pub fn is_alone(&self) -> bool {
        matches!(self, Identity::Anonymous(uid) if *uid != NOBODY)
    }

    /// Its user and group numbers; `None` for [`Identity::Same`].
    pub fn numbers(&self) -> Option<(u32, u32)> {
        match *self {
            Identity::Same => None,
            Identity::Anonymous(uid) => Some((uid, uid)),
            Identity::User { uid, gid } => Some((uid, gid)),
            Identity::PowerlessRoot => Some((0, 0)),
        }
    }
}

/// What the run has to be able to do with a path.
#[derive(Debug, Clone)]
pub struct Need {
    /// Absolute and canonical.
    pub path: PathBuf,
    /// Permission bits of one class: 4 read, 2 write, 1 search or execute.
    pub bits: u32,
}

/// Why no identity could be chosen.
#[derive(Debug)]
pub enum Error {
    /// `user` names nobody.
    NoSuchUser(String),
    /// Only root may become somebody else.
    NotRoot(String),
    /// The user database cannot be read.
    Database(String, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoSuchUser(name) => {
                write!(f, "[sandbox] user: there is no user '{}'", name.escape_debug())
            }
            Error::NotRoot(name) => {
                write!(f, "[sandbox] user = \"{}\" needs guardexec to be run by root", name.escape_debug())
            }
            Error::Database(name, e) => write!(f, "cannot look up the user '{}': {e}", name.escape_debug()),
        }
    }
}

impl std::error::Error for Error {}

/// Chooses as whom to run. `user` is `None` for `auto`; `needs` are the working directory, the program, and what is written.
///
/// # Errors
/// [`Error`]: a named user that does not exist or that this caller cannot become.
pub fn choose(user: Option<&str>, needs: &[Need]) -> Result<Identity, Error> {
    let me = Uid::effective().as_raw();
    if let Some(name) = user.filter(|name| *name != "auto") {
        let found = User::from_name(name).map_err(|e| Error::Database(name.to_owned(), e.into()))?;
        let found = found.ok_or_else(|| Error::NoSuchUser(name.to_owned()))?;
        let (uid, gid) = (found.uid.as_raw(), found.gid.as_raw());
        return match (me, uid) {
            (0, 0) => Ok(Identity::PowerlessRoot),
            (0, _) => Ok(Identity::User { uid, gid }),
            (me, uid) if me == uid => Ok(Identity::Same),
            _ => Err(Error::NotRoot(name.to_owned())),
        };
    }
    if me != 0 {
        return Ok(Identity::Same);
    }
    // Root of a restricted container, or of a run of another guardexec, cannot become anybody else.
    if !may_change_user() {
        return Ok(Identity::PowerlessRoot);
    }
    let map = fd::read_whole(c"/proc/self/uid_map").unwrap_or_default();
    let map = String::from_utf8_lossy(&map);
    Ok(automatic(drawn().filter(|own| maps(&map, *own)).unwrap_or(NOBODY), needs))
}

/// A number for this run alone. Drawn, because process numbers repeat in every container, and containers may share one
/// user namespace.
fn drawn() -> Option<u32> {
    getrandom::u32().ok().map(|random| FIRST + random % RANGE)
}

fn automatic(own: u32, needs: &[Need]) -> Identity {
    if needs.iter().all(|need| reachable(need, own, own)) {
        return Identity::Anonymous(own);
    }
    let owners = needs.iter().filter(|need| !reachable(need, own, own)).map(|need| owner(&need.path));
    let mut owners: Vec<_> = owners.collect();
    owners.sort_unstable();
    owners.dedup();
    if let [Some((uid, gid))] = owners[..]
        && uid != 0
        && needs.iter().all(|need| reachable(need, uid, gid))
    {
        return Identity::User { uid, gid };
    }
    Identity::PowerlessRoot
}

/// Whether a uid_map covers `uid`.
fn maps(map: &str, uid: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|n| n.parse::<u64>().unwrap_or(0));
        let (first, _, count) = (numbers.next(), numbers.next(), numbers.next());
        matches!((first, count), (Some(first), Some(count)) if (first..first + count).contains(&u64::from(uid)))
    })
}

/// The owner of the path, with the group of its account where it has one.
fn owner(path: &Path) -> Option<(u32, u32)> {
    let metadata = path.metadata().ok()?;
    let account = User::from_uid(Uid::from_raw(metadata.uid())).ok().flatten();
    Some((metadata.uid(), account.map_or(metadata.gid(), |account| account.gid.as_raw())))
}

/// Whether mode bits let the user reach the path and do what is needed. Access control lists only narrow what is
/// found here: then the run meets the refusal itself.
fn reachable(need: &Need, uid: u32, gid: u32) -> bool {
    let on_the_way = need
        .path
        .ancestors()
        .skip(1)
        .all(|dir| dir.metadata().is_ok_and(|metadata| permits(&metadata, uid, gid, 1)));
    on_the_way && need.path.metadata().is_ok_and(|metadata| permits(&metadata, uid, gid, need.bits))
}

/// Whether the mode gives the user these bits of one class.
pub(super) fn permits(metadata: &Metadata, uid: u32, gid: u32, bits: u32) -> bool {
    let class = if metadata.uid() == uid {
        metadata.mode() >> 6
    } else if metadata.gid() == gid {
        metadata.mode() >> 3
    } else {
        metadata.mode()
    };
    class & bits == bits
}

/// The steps of changing the identity, as failures name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// keyctl(2), `KEYCTL_JOIN_SESSION_KEYRING`.
    Keyring,
    /// prctl(2), `PR_CAP_AMBIENT_CLEAR_ALL`.
    Ambient,
    /// prctl(2), `PR_CAPBSET_DROP`.
    Bounding,
    /// prctl(2), `PR_SET_SECUREBITS`.
    Securebits,
    /// setgroups(2).
    Groups,
    /// setresgid(2).
    Gid,
    /// setresuid(2).
    Uid,
    /// capset(2).
    Capabilities,
    /// What was set does not read back.
    Verify,
}

/// Capability numbers (uapi/linux/capability.h).
const CAP_SETGID: u32 = 6;
const CAP_SETUID: u32 = 7;
const CAP_SETPCAP: u32 = 8;

/// Whether this process has the capability now.
fn can(capability: u32) -> bool {
    raw::capabilities().is_ok_and(|[effective, ..]| effective >> capability & 1 == 1)
}

/// Whether this process may become another user.
pub(crate) fn may_change_user() -> bool {
    let both = 1 << CAP_SETUID | 1 << CAP_SETGID;
    raw::capabilities().is_ok_and(|[effective, ..]| effective & both == both)
}

/// What [`apply`] will do.
#[derive(Debug, Clone, Copy)]
pub struct Prepared {
    numbers: Option<(u32, u32)>,
    /// The process has `CAP_SETPCAP` (root, or in a user namespace of its own).
    privileged: bool,
}

impl Prepared {
    /// `in_user_namespace`: the child is in a new user namespace with its user mapped to itself, where it has all
    /// capabilities but may not change groups.
    pub fn new(identity: Identity, in_user_namespace: bool) -> Prepared {
        let powerless_already = identity == Identity::PowerlessRoot && !can(CAP_SETGID);
        Prepared {
            numbers: if powerless_already { None } else { identity.numbers() },
            privileged: in_user_namespace || can(CAP_SETPCAP),
        }
    }
}

impl Prepared {
    /// The user that the process becomes; `None` where it stays what it is.
    pub fn user(&self) -> Option<u32> {
        self.numbers.map(|(uid, _)| uid)
    }
}

/// Changes the identity of the calling process for ever. Raw calls only.
///
/// # Errors
/// The step that failed and its errno; nothing may be executed then.
pub fn apply(prepared: &Prepared) -> Result<(), (Step, Errno)> {
    let step = |step: Step, result: Result<(), Errno>| result.map_err(|errno| (step, errno));
    match raw::new_session_keyring() {
        // A kernel without keyrings, or a container that refuses keyctl altogether: nothing can be read either.
        Ok(()) | Err(libc::ENOSYS | libc::EPERM | libc::EACCES) => {}
        // An ordinary user may have 200 keys, so as many runs; the filter refuses the calls that read keys.
        Err(libc::EDQUOT) if prepared.numbers.is_none() => {}
        Err(errno) => return Err((Step::Keyring, errno)),
    }
    step(Step::Ambient, raw::clear_ambient())?;
    if prepared.privileged {
        step(Step::Bounding, raw::drop_bounding_set())?;
        step(Step::Securebits, raw::lock_securebits())?;
    }
    if let Some((uid, gid)) = prepared.numbers {
        step(Step::Groups, raw::no_groups())?;
        step(Step::Gid, raw::set_gid(gid))?;
        step(Step::Uid, raw::set_uid(uid))?;
        // Until its exec it may share the memory of whoever forked it.
        step(Step::Uid, raw::not_dumpable())?;
    }
    step(Step::Capabilities, raw::no_capabilities())?;
    step(Step::Verify, verify(prepared))
}

/// Reads back what was set.
fn verify(prepared: &Prepared) -> Result<(), Errno> {
    if raw::capabilities()? != [0; 3] || (prepared.privileged && raw::bounding_set_left()) {
        return Err(libc::EPERM);
    }
    let Some((uid, gid)) = prepared.numbers else { return Ok(()) };
    let is = raw::ids()? == ([uid; 3], [gid; 3]) && raw::group_count()? == 0;
    // The way back has to be closed.
    if !is || (uid != 0 && raw::set_uid(0) != Err(libc::EPERM)) {
        return Err(libc::EPERM);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
