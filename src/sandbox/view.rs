//! Which paths a run may see: the profiles' own lists, the policy's lists, and the carving of `deny` out of them.
//!
//! Landlock adds rights up and never takes one back, so `deny` inside an allowed directory needs either a mount
//! over it or, for what is only read, rules for everything beside it. What neither can do is a *hole*, and
//! reported.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::identity::Identity;
use super::loader;
use crate::policy::model::{Filesystem, Profile};
use crate::request::quote;
use crate::sys::path::{is_same, is_within};
use paths::{DEVICES, PROC, PROC_OF_ROOT, SYSTEM, SYSTEM_FILES, secrets_below};

mod paths;
mod private;

/// What may be done with a path, and beneath it if it is a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Access(u8);

impl Access {
    /// Nothing.
    pub const NONE: Access = Access(0);
    /// Files can be read, directories listed.
    pub const READ: Access = Access(1);
    /// Files can be written, truncated, made, renamed, linked and removed; never device nodes.
    pub const WRITE: Access = Access(2);
    /// Files can be executed. The kernel wants READ for that too.
    pub const EXECUTE: Access = Access(4);
    /// A device that can be written to and answers ioctls.
    pub const DEVICE: Access = Access(8);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    /// What is left without `other`.
    #[must_use]
    pub const fn without(self, other: Access) -> Access {
        Access(self.0 & !other.0)
    }

    /// Whether any of `other` is in it.
    pub const fn has(self, other: Access) -> bool {
        self.0 & other.0 != 0
    }
}

/// One path of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRule {
    /// Absolute.
    pub path: PathBuf,
    /// What may be done there.
    pub access: Access,
    /// It may be missing on this machine; a missing path that is not optional is an error.
    pub optional: bool,
}

/// All that a run may see and do in the file system.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Paths that exist before the run's own mounts are made.
    pub rules: Vec<PathRule>,
    /// Paths that exist only once the mounts are made, or only in the child (`/proc/self`): to be added there.
    pub late: Vec<PathRule>,
    /// TCP connect and bind are refused here too, besides the system call filter.
    pub refuse_tcp: bool,
    /// Paths that mounts have to hide, because an allowed directory lies above them.
    pub hide: Vec<PathBuf>,
    /// Files of the run's own `/proc` that mounts have to hide.
    pub hide_late: Vec<PathBuf>,
    /// Files and directories that mounts have to make read-only, because a writable directory lies above them.
    pub keep: Vec<PathBuf>,
    /// Writable paths, for the mounts.
    pub writable: Vec<PathBuf>,
    /// Sentences for the result.
    pub warnings: Vec<String>,
}

impl View {
    /// What of this view cannot be enforced without mounts of the run's own.
    pub fn holes(&self) -> impl Iterator<Item = &Path> {
        let kept = self.keep.iter().filter(|path| !self.hide.contains(path));
        self.hide.iter().chain(kept).map(PathBuf::as_path)
    }
}

/// From what a view is made. All paths are absolute; those of the policy's lists may go through links.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// The profile.
    pub profile: Profile,
    /// The working directory.
    pub cwd: &'a Path,
    /// The policy's lists.
    pub filesystem: &'a Filesystem,
    /// The program.
    pub program: &'a Path,
    /// The files that the run may start besides; `None` where the policy has no `exec`: nothing under `strict`, all that
    /// can be read under `workspace`.
    pub exec: Option<&'a [PathBuf]>,
    /// Where the private tmp is, or will be.
    pub tmp: &'a Path,
    /// What the policy leads to (itself, audit, state, hooks): never writable.
    pub guarded: &'a [PathBuf],
    /// The run gets a mount namespace of its own.
    pub mounts: bool,
    /// It gets a PID namespace and a `/proc` of its own.
    pub own_proc: bool,
    /// Its user may read what only root or a special group should (`/etc/shadow`).
    pub privileged_reader: bool,
    /// Its user owns the system's files: every one that root keeps for itself.
    pub owns_system: bool,
    /// No TCP.
    pub refuse_tcp: bool,
}

/// Makes the view. Under `host` it is everything but `deny`.
///
/// # Errors
/// The program or a file of `exec` cannot be read, or its interpreter is missing.
pub fn view(inputs: &Inputs<'_>) -> io::Result<View> {
    let mut view = View { refuse_tcp: inputs.refuse_tcp, ..View::default() };
    if inputs.profile == Profile::Host {
        let all = Access::READ.and(Access::WRITE).and(Access::EXECUTE).and(Access::DEVICE);
        view.rules.push(PathRule { path: "/".into(), access: all, optional: false });
    } else {
        system(inputs, &mut view);
        proc(inputs, &mut view);
        policy_paths(inputs, &mut view);
        executables(inputs, &mut view)?;
    }
    let denied = denied(inputs, &mut view.warnings);
    carve(inputs, &denied, &mut view);
    view.writable =
        view.rules.iter().filter(|r| r.access.has(Access::WRITE)).map(|r| r.path.clone()).collect();
    if inputs.profile == Profile::Host || view.writable.is_empty() {
        return Ok(view);
    }
    let writable = |path: &PathBuf| view.writable.iter().any(|w| is_within(path, w));
    let kept: Vec<PathBuf> = guarded(inputs).map(canonical).filter(writable).collect();
    view.keep.extend(kept);
    Ok(view)
}

/// What the policy leads to; and with an `exec` list its files, which would be whatever the run makes of them.
fn guarded<'a>(inputs: &Inputs<'a>) -> impl Iterator<Item = &'a Path> {
    let program = inputs.exec.map(|_| inputs.program);
    let listed = inputs.exec.unwrap_or_default().iter().chain(inputs.guarded);
    listed.map(PathBuf::as_path).chain(program)
}

/// Whether a run as `identity` could read what the system keeps from ordinary users, were it not taken out of its view.
pub fn privileged_reader(identity: &Identity) -> bool {
    match identity {
        Identity::PowerlessRoot => true,
        // Without any group but its own.
        Identity::Anonymous(_) | Identity::User { .. } => false,
        Identity::Same => {
            let readable = |path: &PathBuf| std::fs::File::open(path).is_ok();
            secrets_below(Path::new("/etc")).iter().any(readable)
        }
    }
}

/// Links resolved, where the path exists: Landlock and mounts are about what it leads to.
fn canonical(path: &Path) -> PathBuf {
    crate::sys::canonical(path).unwrap_or_else(|_| path.to_owned())
}

/// Reading, and under `workspace` without an `exec` list executing what can be read.
fn reading(inputs: &Inputs<'_>) -> Access {
    if inputs.profile == Profile::Workspace && inputs.exec.is_none() {
        Access::READ.and(Access::EXECUTE)
    } else {
        Access::READ
    }
}

fn system(inputs: &Inputs<'_>, view: &mut View) {
    for dir in SYSTEM {
        // On a merged system /bin and /lib are links into /usr, which has its rule already.
        let needless = match std::fs::read_link(dir) {
            Ok(to) => Path::new("/").join(to).starts_with("/usr"),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if !needless {
            view.rules.push(optional(dir, reading(inputs)));
        }
    }
    view.rules.extend(SYSTEM_FILES.iter().map(|path| optional(path, Access::READ)));
    let device = Access::READ.and(Access::DEVICE);
    for (path, writable) in DEVICES {
        view.rules.push(optional(path, if *writable { device } else { Access::READ }));
    }
}

fn proc(inputs: &Inputs<'_>, view: &mut View) {
    if inputs.own_proc {
        view.late.push(optional("/proc", Access::READ));
        if inputs.owns_system {
            view.hide_late.extend(PROC_OF_ROOT.iter().map(PathBuf::from));
        }
        return;
    }
    // The host's /proc: the machine's figures and the first process's own directory; nobody else's.
    view.rules.extend(PROC.iter().map(|path| optional(path, Access::READ)));
    view.late.push(optional("/proc/self", Access::READ));
}

fn policy_paths(inputs: &Inputs<'_>, view: &mut View) {
    let read = reading(inputs);
    let write = read.and(Access::WRITE);
    let workspace = inputs.profile == Profile::Workspace;
    let needed = |path: &Path, access| PathRule { path: path.to_owned(), access, optional: false };
    view.rules.push(needed(inputs.cwd, if workspace { write } else { read }));
    let lists = inputs.filesystem;
    // What is not there cannot be read: no error, but named by `landlock::Prepared::skipped`.
    view.rules.extend(lists.read.iter().flatten().map(|path| optional(canonical(path), read)));
    view.rules.extend(lists.write.iter().flatten().map(|path| needed(&canonical(path), write)));
    if inputs.mounts {
        view.late.push(needed(inputs.tmp, write));
        view.late.extend(lists.map.iter().map(|(seen, _)| needed(seen, read)));
    } else {
        view.rules.push(needed(inputs.tmp, write));
    }
}

fn executables(inputs: &Inputs<'_>, view: &mut View) -> io::Result<()> {
    let listed = inputs.exec.unwrap_or_default();
    for file in std::iter::once(inputs.program).chain(listed.iter().map(PathBuf::as_path)) {
        let mut files = loader::needed(file)?;
        files.push(file.to_owned());
        for path in files {
            let access = Access::READ.and(Access::EXECUTE);
            if !view.rules.iter().any(|r| r.access.has(Access::EXECUTE) && is_same(&r.path, &path)) {
                let optional = path != file;
                view.rules.push(PathRule { path, access, optional });
            }
        }
    }
    Ok(())
}

/// The policy's `deny`, and the system's secrets where the user could read them. None of them lies below another.
fn denied(inputs: &Inputs<'_>, warnings: &mut Vec<String>) -> Vec<PathBuf> {
    let mut denied: Vec<PathBuf> =
        inputs.filesystem.deny.iter().flatten().map(|path| canonical(path)).collect();
    if inputs.privileged_reader && inputs.profile != Profile::Host {
        // What another guardexec around this one, or a mandatory policy, keeps from it already is kept from the run too.
        let readable = |path: &PathBuf| std::fs::File::open(path).is_ok();
        denied.extend(secrets_below(Path::new("/etc")).into_iter().filter(readable));
    }
    if inputs.owns_system && inputs.profile != Profile::Host {
        let granted = granted(inputs);
        let granted: Vec<&Path> = granted.iter().map(PathBuf::as_path).collect();
        for place in private::PLACES {
            denied.extend(kept_for_root(&granted, &canonical(Path::new(place)), warnings));
        }
        denied.extend(private::by_hand(&canonical(Path::new(private::BY_HAND)), &granted));
    }
    denied.retain(|path| path.symlink_metadata().is_ok());
    denied.sort_unstable();
    // What lies below a hidden directory is gone before it could be hidden itself.
    denied.dedup_by(|path, above| path.starts_with(above));
    denied
}

/// What the policy names itself.
fn granted(inputs: &Inputs<'_>) -> Vec<PathBuf> {
    let lists = inputs.filesystem;
    let named = lists.read.iter().chain(&lists.write).flatten().map(|path| canonical(path));
    let own = [inputs.cwd, inputs.program].map(Path::to_owned);
    named.chain(inputs.exec.unwrap_or_default().iter().cloned()).chain(own).collect()
}

/// What below one place of the system is not for others to read, and what could not be looked through.
fn kept_for_root(granted: &[&Path], place: &Path, warnings: &mut Vec<String>) -> Vec<PathBuf> {
    let private::Private { mut paths, unlooked } = private::below(place, granted);
    for dir in unlooked {
        let needed = granted.iter().any(|path| path.starts_with(&dir));
        warnings.push(format!(
            "{} holds too much to look for what only root may read: {}",
            quote::display(dir.as_os_str().as_bytes()),
            if needed { "the run needs it, and can read all of it" } else { "the run cannot see it" },
        ));
        paths.extend((!needed).then_some(dir));
    }
    paths
}

/// A directory with more entries than this is not taken apart.
const MAX_CARVED: usize = 512;

/// Takes `denied` out of the rules: by not granting it at all, by granting everything beside it, or by a mount.
fn carve(inputs: &Inputs<'_>, denied: &[PathBuf], view: &mut View) {
    view.rules.retain(|rule| !denied.iter().any(|d| is_within(&rule.path, d)));
    for path in denied {
        let (above, mut rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut view.rules).into_iter().partition(|rule| is_within(path, &rule.path));
        let mut hidden = false;
        for rule in above {
            let beside =
                if inputs.mounts || rule.access.has(Access::WRITE) { None } else { beside(&rule, path) };
            match beside {
                Some(rules) => rest.extend(rules),
                None => {
                    hidden = true;
                    rest.push(rule);
                }
            }
        }
        view.rules = rest;
        if hidden {
            view.hide.push(path.clone());
        }
    }
}

/// Rules for all that lies beneath `rule`, but not for `path`; `None` where that is too much or cannot be listed.
fn beside(rule: &PathRule, path: &Path) -> Option<Vec<PathRule>> {
    let mut rules = Vec::new();
    let mut dir = rule.path.clone();
    for part in path.strip_prefix(&rule.path).ok()?.components() {
        for entry in std::fs::read_dir(&dir).ok()? {
            let entry = entry.ok()?;
            // A link is judged where it leads to; a rule through it could open what it points at.
            if entry.file_name() == part.as_os_str() || entry.file_type().ok()?.is_symlink() {
                continue;
            }
            rules.push(PathRule { path: entry.path(), access: rule.access, optional: true });
            if rules.len() > MAX_CARVED {
                return None;
            }
        }
        dir.push(part);
    }
    Some(rules)
}

fn optional(path: impl AsRef<Path>, access: Access) -> PathRule {
    PathRule { path: path.as_ref().to_owned(), access, optional: true }
}

#[cfg(test)]
mod tests;
