//! As whom an action is done: as root, beneath a root that an ordinary user owns, it is done as that user.

use std::os::fd::OwnedFd;

use nix::sys::stat::fstat;
use nix::unistd::{Gid, Uid, User, getgrouplist, setgroups, setresgid, setresuid};

use super::said::{Said, Step};
use crate::sandbox::identity::may_change_user;

/// Gives root up where the root directory is not root's own; its owner's groups come along. Everybody else stays who it is,
/// and so does a root that may not change its user: it has no power to give up.
pub(super) fn assume(root: &OwnedFd) -> Step<()> {
    if !Uid::effective().is_root() || !may_change_user() {
        return Ok(());
    }
    let broken = |what: &str, why: nix::Error| Said::Broken(format!("cannot {what}: {}", why.desc()));
    let owner = fstat(root).map_err(|e| broken("examine the tool's root", e))?;
    let uid = Uid::from_raw(owner.st_uid);
    if uid.is_root() {
        return Ok(());
    }
    let account = User::from_uid(uid).ok().flatten();
    let gid = account.as_ref().map_or(Gid::from_raw(owner.st_gid), |account| account.gid);
    let name = account.and_then(|account| std::ffi::CString::new(account.name).ok());
    let groups = name.and_then(|name| getgrouplist(&name, gid).ok()).unwrap_or_else(|| vec![gid]);
    setgroups(&groups)
        .and_then(|()| setresgid(gid, gid, gid))
        .and_then(|()| setresuid(uid, uid, uid))
        .map_err(|e| broken("become the owner of the tool's root", e))?;
    // The way back has to be closed.
    if Uid::effective() != uid || setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0)).is_ok() {
        return Err(Said::Broken("cannot give root up for good".to_owned()));
    }
    Ok(())
}
