//! The run's own mounts: everything read-only but what the view lets it write, a private tmp, what is denied hidden, what
//! runs on the host later kept.
//!
//! Prepared as a list of steps in the parent; applied by the first process of a new mount namespace (as root, or in a new
//! user namespace). The order matters: writable trees are copied *before* everything becomes read-only, so that they keep
//! the flags they had on the host (clearing a flag could open what the host had closed); the private tmp comes next,
//! with the paths below it that the run needs attached again; then what is kept and hidden, deepest mounts last.
//!
//! A descriptor opened before belongs to the old namespace: writing through it knows no read-only mount, and
//! `fchdir` leads out of all this. So the child must enter its working directory by its path, after these steps,
//! and compare device and inode with the one that was judged.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use error::Error;

use super::raw::{self as calls, Errno, mounts as raw};
use super::view::{Access, PathRule, View};
use crate::sys::path::{is_same, is_within};

mod error;
mod everything;
pub mod keep;
mod places;
mod root;

use places::TMP_DIRS;
pub use places::TmpPlaces;

/// How many trees can be held at once.
const MAX_TREES: usize = 128;
/// The stand-in for hidden files and directories, in the private tmp until they are all hidden.
const MASK_FILE: &str = ".guardexec-file";
const MASK_DIR: &str = ".guardexec-dir";

/// From what the mounts are made.
#[derive(Debug, Clone, Copy)]
pub struct Spec<'a> {
    /// The view; its `hide`, `keep` and `writable` lists are made true here.
    pub view: &'a View,
    /// The working directory (canonical).
    pub cwd: &'a Path,
    /// Bytes that the private tmp may hold.
    pub tmp_size: u64,
    /// What may be written and yet must not change (see [`keep::find`]); none under `strict`.
    pub kept: Option<&'a keep::Kept>,
    /// Where a private tmp can be on this machine.
    pub places: &'a TmpPlaces,
    /// `map`: (where the run sees it, what it is on the host), both canonical.
    pub map: &'a [(PathBuf, PathBuf)],
    /// A `/proc` of its own: in a new PID namespace only.
    pub own_proc: bool,
}

/// One step. Paths are canonical.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Private,
    /// Copy the tree at the path into a slot; read-only if asked.
    Hold {
        path: CString,
        slot: usize,
        read_only: bool,
    },
    /// Everything read-only and without set-user-id.
    ReadOnly,
    Tmpfs {
        at: CString,
        data: CString,
    },
    MakeDir(CString, u32),
    MakeFile(CString),
    /// Attach what a slot holds.
    Attach {
        slot: usize,
        path: CString,
    },
    /// A mount of its own at the path, showing the same; read-only if asked.
    Over {
        path: CString,
        read_only: bool,
    },
    /// The first path is seen at the second.
    Show {
        from: CString,
        at: CString,
        read_only: bool,
    },
    /// The same, of what may be gone by then.
    Hide {
        from: CString,
        at: CString,
    },
    Remove {
        path: CString,
        dir: bool,
    },
    Link {
        to: CString,
        path: CString,
    },
    /// The directory, a mount point, becomes the root.
    Enter(CString),
    /// The mount at the path goes; what was shown of it elsewhere stays.
    Unmount(CString),
    Proc,
}

/// The steps, ready to be applied.
#[derive(Debug)]
pub struct Prepared {
    steps: Vec<Step>,
    /// Where the private tmp will be.
    pub tmp: PathBuf,
}

impl Prepared {
    /// What step `number` does, for the sentence about its failure.
    pub fn describe(&self, number: usize) -> String {
        let text = |path: &CString| path.to_string_lossy().escape_debug().to_string();
        match self.steps.get(number) {
            None => "no such step".to_owned(),
            Some(Step::Private) => "cut the mounts off from the host's".to_owned(),
            Some(Step::Hold { path, .. }) => format!("copy the mount at '{}'", text(path)),
            Some(Step::ReadOnly) => "make all mounts read-only".to_owned(),
            Some(Step::Tmpfs { at, .. }) => format!("mount a private tmp on '{}'", text(at)),
            Some(Step::MakeDir(path, _) | Step::MakeFile(path)) => {
                format!("make the mount point '{}'", text(path))
            }
            Some(Step::Attach { path, .. }) => format!("mount '{}'", text(path)),
            Some(Step::Over { path, .. }) => format!("keep '{}'", text(path)),
            Some(Step::Show { at, .. }) => format!("mount over '{}'", text(at)),
            Some(Step::Hide { at, .. }) => format!("hide '{}'", text(at)),
            Some(Step::Remove { path, .. }) => format!("remove '{}'", text(path)),
            Some(Step::Link { path, .. }) => format!("make the link '{}'", text(path)),
            Some(Step::Enter(path)) => format!("make '{}' the root", text(path)),
            Some(Step::Unmount(path)) => format!("unmount '{}'", text(path)),
            Some(Step::Proc) => "mount /proc".to_owned(),
        }
    }

    /// Plans the mounts.
    ///
    /// # Errors
    /// [`Error`].
    pub fn new(spec: &Spec<'_>) -> Result<Prepared, Error> {
        let all = |rule: &PathRule| rule.access.has(Access::WRITE) && is_same(&rule.path, Path::new("/"));
        if spec.view.rules.iter().any(all) {
            return Prepared::over_everything(spec);
        }
        let named = spec.view.rules.iter().map(|rule| rule.path.as_path());
        let dirs = spec.places.free(named.chain([spec.cwd]));
        let Some(tmp) = dirs.first().cloned() else { return Err(Error::NoTmp) };
        let mut plan = Plan { steps: vec![Step::Private], slots: 0 };
        let trees = plan.hold(spec, &dirs)?;
        plan.steps.push(Step::ReadOnly);
        let points = root::missing(spec.map)?;
        if !points.is_empty() {
            plan.steps.extend(root::steps(&tmp, &points)?);
        }
        plan.tmp(spec, &dirs)?;
        plan.attach(&trees, &dirs)?;
        plan.keep(spec)?;
        plan.hide(spec, &tmp)?;
        if spec.own_proc {
            plan.steps.push(Step::Proc);
            for path in &spec.view.hide_late {
                plan.steps.push(Step::Hide { from: c"/dev/null".to_owned(), at: c_path(path)? });
            }
        }
        if plan.slots > MAX_TREES {
            return Err(Error::TooMany(plan.slots));
        }
        Ok(Prepared { steps: plan.steps, tmp })
    }
}

/// A tree of the host that is attached again after everything became read-only or a tmp was put over it.
struct Tree {
    slot: usize,
    at: PathBuf,
    dir: bool,
}

struct Plan {
    steps: Vec<Step>,
    slots: usize,
}

impl Plan {
    fn hold_one(
        &mut self,
        trees: &mut Vec<Tree>,
        from: &Path,
        at: &Path,
        read_only: bool,
    ) -> Result<(), Error> {
        let slot = self.slots;
        self.slots += 1;
        self.steps.push(Step::Hold { path: c_path(from)?, slot, read_only });
        trees.push(Tree { slot, at: at.to_owned(), dir: from.is_dir() });
        Ok(())
    }

    /// Copies of what is writable, and of what lies below a directory that the tmp will cover; outermost first.
    fn hold(&mut self, spec: &Spec<'_>, dirs: &[PathBuf]) -> Result<Vec<Tree>, Error> {
        let mut wanted: Vec<(&Path, bool)> = Vec::new();
        for rule in &spec.view.rules {
            let covered = dirs.iter().any(|dir| is_within(&rule.path, dir));
            let writable = rule.access.has(Access::WRITE);
            if (covered || writable) && !is_same(&rule.path, Path::new("/")) && rule.path.exists() {
                wanted.push((&rule.path, writable));
            }
        }
        wanted.sort_by(|a, b| a.0.cmp(b.0).then(b.1.cmp(&a.1)));
        let mut trees: Vec<Tree> = Vec::new();
        let mut outer: Vec<(&Path, bool)> = Vec::new();
        for (path, writable) in wanted {
            // Inside a tree that is at least as open, nothing more is needed.
            if outer.iter().any(|(above, open)| is_within(path, above) && (*open || !writable)) {
                continue;
            }
            outer.push((path, writable));
            self.hold_one(&mut trees, path, path, !writable)?;
        }
        for (seen, from) in spec.map {
            self.hold_one(&mut trees, from, seen, true)?;
        }
        Ok(trees)
    }

    /// One tmpfs, seen at each of `dirs`.
    fn tmp(&mut self, spec: &Spec<'_>, dirs: &[PathBuf]) -> Result<(), Error> {
        let inodes = (spec.tmp_size / 4096).clamp(1024, 1 << 20);
        let size = spec.tmp_size.max(4096);
        let data = format!("size={size},nr_inodes={inodes},mode=1777");
        let data = CString::new(data).expect("digits and letters");
        let first = c_path(&dirs[0])?;
        self.steps.push(Step::Tmpfs { at: first.clone(), data });
        for dir in &dirs[1..] {
            self.steps.push(Step::Show { from: first.clone(), at: c_path(dir)?, read_only: false });
        }
        Ok(())
    }

    fn attach(&mut self, trees: &[Tree], dirs: &[PathBuf]) -> Result<(), Error> {
        for tree in trees {
            if let Some(dir) = dirs.iter().find(|dir| is_within(&tree.at, dir)) {
                let parts: Vec<&Path> = tree.at.ancestors().take_while(|part| part != dir).collect();
                for part in parts.iter().skip(1).rev() {
                    self.steps.push(Step::MakeDir(c_path(part)?, 0o755));
                }
                let point = c_path(&tree.at)?;
                self.steps.push(if tree.dir { Step::MakeDir(point, 0o755) } else { Step::MakeFile(point) });
            }
            self.steps.push(Step::Attach { slot: tree.slot, path: c_path(&tree.at)? });
        }
        Ok(())
    }

    fn keep(&mut self, spec: &Spec<'_>) -> Result<(), Error> {
        for path in spec.kept.iter().flat_map(|kept| &kept.in_place) {
            self.steps.push(Step::Over { path: c_path(path)?, read_only: false });
        }
        let kept = spec.kept.iter().flat_map(|kept| &kept.read_only);
        for path in kept.chain(&spec.view.keep) {
            if path.exists() {
                self.steps.push(Step::Over { path: c_path(path)?, read_only: true });
            }
        }
        Ok(())
    }

    /// An empty file and an empty directory, both of mode 000, are shown over what is hidden.
    fn hide(&mut self, spec: &Spec<'_>, tmp: &Path) -> Result<(), Error> {
        if spec.view.hide.is_empty() {
            return Ok(());
        }
        let (file, dir) = (c_path(&tmp.join(MASK_FILE))?, c_path(&tmp.join(MASK_DIR))?);
        self.steps.push(Step::MakeFile(file.clone()));
        self.steps.push(Step::MakeDir(dir.clone(), 0));
        for path in &spec.view.hide {
            let from = if path.is_dir() { dir.clone() } else { file.clone() };
            self.steps.push(Step::Hide { from, at: c_path(path)? });
        }
        // The mounts keep both alive.
        self.steps.push(Step::Remove { path: file, dir: false });
        self.steps.push(Step::Remove { path: dir, dir: true });
        Ok(())
    }
}

fn c_path(path: &Path) -> Result<CString, Error> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::Path(path.to_owned()))
}

/// Makes the mounts, in a new mount namespace. Raw calls only.
///
/// # Errors
/// The number of the step that failed (see [`Prepared::describe`]) and its errno; nothing may be executed then.
pub fn apply(prepared: &Prepared) -> Result<(), (usize, Errno)> {
    let mut held: [Option<OwnedFd>; MAX_TREES] = [const { None }; MAX_TREES];
    let umask = raw::set_umask(0);
    let mut result = Ok(());
    for (number, step) in prepared.steps.iter().enumerate() {
        if let Err(errno) = one(step, &mut held) {
            result = Err((number, errno));
            break;
        }
    }
    raw::set_umask(umask);
    result
}

fn one(step: &Step, held: &mut [Option<OwnedFd>; MAX_TREES]) -> Result<(), Errno> {
    match step {
        Step::Private => raw::make_private(),
        Step::Hold { path, slot, read_only } => {
            let tree = raw::clone_tree(raw::open_canonical(path)?.as_fd())?;
            if *read_only {
                raw::set_attributes(tree.as_fd(), raw::READ_ONLY)?;
            }
            *held.get_mut(*slot).ok_or(libc::EMFILE)? = Some(tree);
            Ok(())
        }
        Step::ReadOnly => {
            let root = calls::open_path(c"/")?;
            raw::set_attributes(root.as_fd(), raw::READ_ONLY | raw::NO_SUID)
        }
        Step::Tmpfs { at, data } => raw::mount_new(c"tmpfs", at, 0, data),
        Step::MakeDir(path, mode) => match raw::make_dir(path, *mode) {
            Ok(()) | Err(libc::EEXIST) => Ok(()),
            Err(errno) => Err(errno),
        },
        Step::MakeFile(path) => raw::make_file(path),
        Step::Attach { slot, path } => {
            let tree = held.get_mut(*slot).and_then(Option::take).ok_or(libc::EBADF)?;
            raw::attach(tree.as_fd(), raw::open_canonical(path)?.as_fd())
        }
        Step::Over { path, read_only } => show(path, path, *read_only),
        Step::Show { from, at, read_only } => show(from, at, *read_only),
        // Lock files and the like come and go: there is nothing left to hide.
        Step::Hide { from, at } => match show(from, at, true) {
            Err(libc::ENOENT) if calls::open_path(at).err() == Some(libc::ENOENT) => Ok(()),
            shown => shown,
        },
        Step::Remove { path, dir } => raw::remove(path, *dir),
        Step::Link { to, path } => raw::make_link(to, path),
        Step::Enter(path) => raw::enter_root(path),
        Step::Unmount(path) => raw::unmount(path),
        Step::Proc => raw::mount_new(c"proc", c"/proc", libc::MS_RDONLY | libc::MS_NOEXEC, c""),
    }
}

fn show(from: &std::ffi::CStr, at: &std::ffi::CStr, read_only: bool) -> Result<(), Errno> {
    let tree = raw::clone_tree(raw::open_canonical(from)?.as_fd())?;
    if read_only {
        raw::set_attributes(tree.as_fd(), raw::READ_ONLY)?;
    }
    raw::attach(tree.as_fd(), raw::open_canonical(at)?.as_fd())
}

#[cfg(test)]
mod tests;
