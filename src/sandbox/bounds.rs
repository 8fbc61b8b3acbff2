//! What a confinement keeps from a run, asked once the run has failed: about a name that it gave, and as a fact of the policy.
//! What the run did, or why it failed, is nothing that this knows.
//!
//! The run chooses the names, and guardexec may see more than it: an answer must not tell either of them what lies where the
//! run cannot look. So names are compared as they stand, and the disk is asked only beneath what the policy lets the run
//! read, and there only as far as the run's own user gets.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, readlinkat};
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, access};

use super::identity::permits;
use super::view::{Access, PathRule, View};

/// What a system call came to, in the words of whoever reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// `EACCES` or `EPERM`.
    Permission,
    /// `EROFS`.
    ReadOnly,
    /// `ENOENT`.
    Missing,
}

/// What is kept from the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Reading it, and writing it too.
    Reading,
    /// Writing it.
    Writing,
    /// Changing it, wherever the run may write.
    Changing,
    /// All of it, by the policy's `deny`.
    Denied,
    /// Starting it; whether nothing else can be started either.
    Starting(bool),
    /// What the host has there: it is the run's own private tmp.
    Hosts,
}

/// All that is known.
#[derive(Debug)]
pub struct Bounds {
    /// What may be read and written; only rules for what the run's user can find.
    pub(super) view: View,
    /// Where a name is not said to be outside the view: what the policy lets the run read, in its words, and what was
    /// taken apart to leave something out.
    pub(super) named: Vec<PathBuf>,
    /// The policy's `write`, in its words.
    pub(super) written: Vec<PathBuf>,
    /// The policy's `deny`, in its words.
    pub(super) denied: Vec<PathBuf>,
    /// What mounts keep as it is, of what the run's user can find.
    pub(super) kept: Vec<PathBuf>,
    /// Where the run begins.
    pub(super) cwd: PathBuf,
    /// The private tmp, where it is mounted over the host's.
    pub(super) tmp: Option<PathBuf>,
    /// What may be started; `None` for all that can be read.
    pub(super) exec: Option<Vec<PathBuf>>,
    /// The search path for programs.
    pub(super) path: Vec<PathBuf>,
    /// Its user, where that is another than guardexec's own.
    pub(super) user: Option<(u32, u32)>,
    /// Internet sockets reach nobody.
    pub no_network: bool,
}

/// What a walk as the run's user comes to.
enum Seen {
    /// It is not there.
    Missing,
    /// It is there.
    There(File, Metadata),
    /// A directory on the way is not for this user to search, or the way leads through a link.
    Untold,
}

/// How many links a program's name may lead through.
const MAX_LINKS: usize = 8;

impl Bounds {
    /// Whether the confinement keeps from the run what it may have wanted of this name: the name, and what is kept.
    pub fn refuses(&self, name: &str, failure: Failure) -> Option<(PathBuf, Refusal)> {
        // What such a name stands for cannot be told without following it.
        if name.split('/').any(|part| matches!(part, "." | "..")) {
            return None;
        }
        let path = self.cwd.join(name);
        let known = below_root_link(&path);
        if failure == Failure::Missing {
            let tmp = self.tmp.as_ref().filter(|tmp| known.starts_with(tmp))?;
            return (!self.shown_in(tmp, &known)).then(|| (tmp.clone(), Refusal::Hosts));
        }
        if let (Failure::Permission, Some(listed)) = (failure, &self.exec)
            && let Some(program) = self.program(name, &known)
            && !listed.contains(&program)
        {
            return Some((name.into(), Refusal::Starting(listed.is_empty())));
        }
        self.refusal(&known, failure).map(|refusal| (path, refusal))
    }

    fn refusal(&self, path: &Path, failure: Failure) -> Option<Refusal> {
        if is_below(path, &self.denied) {
            return Some(Refusal::Denied);
        }
        if is_below(path, &self.written) || self.grants(path, Access::WRITE.and(Access::DEVICE)) {
            let kept = is_below(path, &self.kept) || is_below(path, &self.view.keep);
            return kept.then_some(Refusal::Changing);
        }
        if failure == Failure::ReadOnly {
            return Some(Refusal::Writing);
        }
        // Reading may be what failed: of what was taken out of the view nothing is said.
        if is_below(path, &self.view.hide) {
            return None;
        }
        if self.grants(path, Access::READ) {
            return self.can_read_already(path).then_some(Refusal::Writing);
        }
        if is_below(path, &self.named) {
            // It was left out, or is not there and was to be made.
            let missing = matches!(walk(path, self.user), Seen::Missing);
            return missing.then_some(Refusal::Writing);
        }
        Some(Refusal::Reading)
    }

    fn grants(&self, path: &Path, access: Access) -> bool {
        let hosts = |rule: &&PathRule| {
            !self.tmp.as_ref().is_some_and(|tmp| *tmp == rule.path && self.shown_in(tmp, path))
        };
        let rules = self.view.rules.iter().chain(&self.view.late).filter(|rule| path.starts_with(&rule.path));
        rules.filter(hosts).any(|rule| rule.access.has(access))
    }

    /// What the run may see of the host's is shown in the private tmp too, and is not a part of it.
    fn shown_in(&self, tmp: &Path, path: &Path) -> bool {
        let below = |rule: &PathRule| rule.path != tmp && rule.path.starts_with(tmp);
        self.view.rules.iter().any(|rule| below(rule) && path.starts_with(&rule.path))
    }

    /// Reading is not what failed then: the mode lets its user, or it is not there and was to be made.
    fn can_read_already(&self, path: &Path) -> bool {
        match (self.seen(path), self.user) {
            (Seen::Missing, _) => true,
            (Seen::There(_, found), _) if found.is_symlink() => false,
            (Seen::There(..), None) => access(path, AccessFlags::R_OK).is_ok(),
            (Seen::There(_, found), Some((uid, gid))) => permits(&found, uid, gid, 4),
            (Seen::Untold, _) => false,
        }
    }

    /// The program of this name, where it is one that the run can find.
    fn program(&self, name: &str, path: &Path) -> Option<PathBuf> {
        if name.contains('/') || matches!(self.seen(path), Seen::There(..)) {
            return self.program_at(path);
        }
        self.path.iter().find_map(|dir| self.program_at(&below_root_link(&dir.join(name))))
    }

    fn program_at(&self, path: &Path) -> Option<PathBuf> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let Seen::There(file, found) = self.seen(&path) else { return None };
            if !found.is_symlink() {
                return (found.is_file() && found.mode() & 0o111 != 0).then_some(path);
            }
            path = below_root_link(&path.parent()?.join(readlinkat(&file, "").ok()?));
        }
        None
    }

    /// What the run finds there, as far as it may read there and sees what the host has.
    fn seen(&self, path: &Path) -> Seen {
        let below = |rules: &[PathRule]| {
            rules.iter().any(|rule| rule.access.has(Access::READ) && path.starts_with(&rule.path))
        };
        let private = self.tmp.as_ref().is_some_and(|tmp| path.starts_with(tmp) && !self.shown_in(tmp, path));
        let own = |rule: &PathRule| self.tmp.as_ref() != Some(&rule.path) && path.starts_with(&rule.path);
        if private
            || self.view.late.iter().any(own)
            || is_below(path, &self.view.hide)
            || !below(&self.view.rules)
        {
            return Seen::Untold;
        }
        walk(path, self.user)
    }
}

fn is_below(path: &Path, list: &[PathBuf]) -> bool {
    list.iter().any(|above| path.starts_with(above))
}

/// With a link in `/` itself resolved (`/bin` is one to `/usr/bin`), which everybody can read.
fn below_root_link(path: &Path) -> PathBuf {
    let mut parts = path.components();
    let top = Path::new("/").join(parts.by_ref().nth(1).map_or("".as_ref(), Component::as_os_str));
    std::fs::read_link(top)
        .map_or_else(|_| path.to_owned(), |to| Path::new("/").join(to).join(parts.as_path()))
}

/// Whether the user can find it, or find that it is not there.
pub(super) fn can_be_found(path: &Path, user: Option<(u32, u32)>) -> bool {
    !matches!(walk(path, user), Seen::Untold)
}

/// Looks for the path as `user` would. Each step is taken from the directory that was judged, so that nobody can put
/// another in its place meanwhile.
fn walk(path: &Path, user: Option<(u32, u32)>) -> Seen {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let opened = |fd: nix::Result<std::os::fd::OwnedFd>| {
        let file = File::from(fd.ok()?);
        let found = file.metadata().ok()?;
        Some((file, found))
    };
    let Some((mut dir, mut found)) = opened(open("/", flags, Mode::empty())) else { return Seen::Untold };
    for part in path.components().skip(1) {
        let Component::Normal(name) = part else { return Seen::Untold };
        if !found.is_dir() || user.is_some_and(|(uid, gid)| !permits(&found, uid, gid, 1)) {
            return Seen::Untold;
        }
        let next = openat(&dir, name, flags, Mode::empty());
        if matches!(next, Err(Errno::ENOENT)) {
            return Seen::Missing;
        }
        let Some(next) = opened(next) else { return Seen::Untold };
        (dir, found) = next;
    }
    Seen::There(dir, found)
}
