//! What a confinement keeps from a run, asked once the run has failed: about a name that it gave, and as a fact of the policy.
//! What the run did, or why it failed, is nothing that this knows.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::identity::permits;
use super::view::{Access, PathRule, View};
use crate::sys::canonical;

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
    /// What may be read and written.
    pub(super) view: View,
    /// The policy's `deny`.
    pub(super) denied: Vec<PathBuf>,
    /// What mounts keep as it is.
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

impl Bounds {
    /// Whether the confinement keeps from the run what it may have wanted of this name: the path, and what is kept.
    pub fn refuses(&self, name: &str, failure: Failure) -> Option<(PathBuf, Refusal)> {
        let path = self.cwd.join(name);
        let real = resolved(&path);
        if failure == Failure::Missing {
            let tmp = self.tmp.as_ref().filter(|tmp| real.starts_with(tmp))?;
            return (!self.shown_in(tmp, &real)).then(|| (tmp.clone(), Refusal::Hosts));
        }
        if let (Failure::Permission, Some(listed)) = (failure, &self.exec)
            && let Some(program) = self.program(name, &real)
            && !listed.contains(&program)
        {
            return Some((program, Refusal::Starting(listed.is_empty())));
        }
        let shown = if name.split('/').any(|part| part == "..") { real.clone() } else { path };
        self.refusal(&real, failure).map(|refusal| (shown, refusal))
    }

    fn refusal(&self, real: &Path, failure: Failure) -> Option<Refusal> {
        let below = |list: &[PathBuf]| list.iter().any(|above| real.starts_with(above));
        if below(&self.denied) {
            return Some(Refusal::Denied);
        }
        if !self.grants(real, Access::READ) {
            return Some(if failure == Failure::ReadOnly { Refusal::Writing } else { Refusal::Reading });
        }
        let writes = failure == Failure::ReadOnly || self.can_read_already(real);
        if below(&self.kept) || below(&self.view.keep) {
            return writes.then_some(Refusal::Changing);
        }
        (writes && !self.grants(real, Access::WRITE.and(Access::DEVICE))).then_some(Refusal::Writing)
    }

    fn grants(&self, path: &Path, access: Access) -> bool {
        let hosts = |rule: &&PathRule| {
            !self.tmp.as_ref().is_some_and(|tmp| *tmp == rule.path && self.shown_in(tmp, path))
        };
        let rules = self.view.rules.iter().chain(&self.view.late).filter(|rule| path.starts_with(&rule.path));
        rules.filter(hosts).any(|rule| rule.access.has(access))
            && !self.view.hide.iter().any(|hidden| path.starts_with(hidden))
    }

    /// What the run may see of the host's is shown in the private tmp too, and is not a part of it.
    fn shown_in(&self, tmp: &Path, path: &Path) -> bool {
        let below = |rule: &PathRule| rule.path != tmp && rule.path.starts_with(tmp);
        self.view.rules.iter().any(|rule| below(rule) && path.starts_with(&rule.path))
    }

    /// Reading is not what failed then: the mode lets its user, or it is not there and was to be made.
    fn can_read_already(&self, path: &Path) -> bool {
        match (path.metadata(), self.user) {
            (Err(error), _) => error.kind() == std::io::ErrorKind::NotFound,
            (Ok(_), None) => access(path, AccessFlags::R_OK).is_ok(),
            (Ok(found), Some((uid, gid))) => permits(&found, uid, gid, 4),
        }
    }

    /// The program of this name, where it is one that everybody knows of.
    fn program(&self, name: &str, real: &Path) -> Option<PathBuf> {
        let is_program = |found: Metadata| found.is_file() && found.mode() & 0o111 != 0;
        if self.grants(real, Access::READ) && real.symlink_metadata().is_ok() {
            return real.metadata().is_ok_and(is_program).then(|| real.to_owned());
        }
        let found = self.path.iter().filter(|_| !name.contains('/')).map(|dir| dir.join(name));
        found.filter(|file| file.metadata().is_ok_and(is_program)).find_map(|file| canonical(&file).ok())
    }
}

/// With the links resolved as far as the path exists.
fn resolved(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|above| Some((above, canonical(above).ok()?)));
    existing.map_or_else(
        || path.to_owned(),
        |(above, real)| match path.strip_prefix(above) {
            Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
            _ => real,
        },
    )
}
