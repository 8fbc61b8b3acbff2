//! `write_file`: the whole file or nothing. The content is written to a file without a name in the same directory, and
//! that is given the name when everything is on the disk. What other names a replaced file has keep the old content.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat, umask};
use nix::unistd::{AccessFlags, Gid, Uid, UnlinkatFlags, faccessat, fchown, linkat, unlinkat};

use super::beneath::{Beneath, Target, regular};
use super::read::errno;
use super::said::{Said, Step, cannot, shown};
use crate::program::descriptor_path;

/// The mode of a new file, before the umask.
const NEW: u32 = 0o644;
/// Until it is whole, a file is its maker's alone.
const OWN: Mode = Mode::from_bits_truncate(0o600);
/// How often it is tried again when somebody makes a file of that name meanwhile.
const TRIES: usize = 8;

/// Makes the file hold the content.
pub(super) fn write(place: Beneath<'_>) -> Step<Vec<u8>> {
    let Some(name) = place.name else { return Said::failed("the root is no file".to_owned()) };
    let length = place.call.content.len();
    for _ in 0..TRIES {
        let old = match place.target()? {
            None => None,
            Some(target) => Some(writable(&place, regular(place.call, target)?)?),
        };
        let fresh = Fresh::make(&place.dir).map_err(|e| cannot(place.call, e))?;
        fresh.fill(&place, old.as_ref())?;
        match fresh.publish(&place.dir, name, old.is_some()) {
            Ok(()) => {
                sync_directory(&place.dir);
                let what = if old.is_some() { "replaced" } else { "created" };
                return Ok(format!("{what} {} ({length} bytes)\n", shown(place.call)).into_bytes());
            }
            Err(Errno::EEXIST) => {}
            Err(errno) => return Err(cannot(place.call, errno)),
        }
    }
    Err(cannot(place.call, Errno::EEXIST))
}

/// What writing would find.
pub(super) fn look(place: &Beneath<'_>) -> Step<String> {
    if place.name.is_none() {
        return Said::failed("the root is no file".to_owned());
    }
    let old = place.target()?.map(|target| writable(place, regular(place.call, target)?)).transpose()?;
    may_change(place, place.dir.as_fd())?;
    let what =
        if old.is_some() { "is there, and would be replaced" } else { "is not there, and would be made" };
    Ok(format!("{} {what}", shown(place.call)))
}

/// A file that may not be written may not be replaced either.
fn writable(place: &Beneath<'_>, target: Target) -> Step<FileStat> {
    may_change(place, target.file.as_fd())?;
    Ok(target.stat)
}

/// Whether this process may write to the file or the directory.
pub(super) fn may_change(place: &Beneath<'_>, what: BorrowedFd<'_>) -> Step<()> {
    let asked =
        |dir, path: &OsStr, flags| faccessat(dir, path, AccessFlags::W_OK, AtFlags::AT_EACCESS | flags);
    let answer = match asked(what, OsStr::new(""), AtFlags::AT_EMPTY_PATH) {
        answer @ (Ok(()) | Err(Errno::EACCES | Errno::EROFS)) => answer,
        // Before Linux 5.8 only a path can be asked about.
        Err(_) => asked(AT_FDCWD, descriptor_path(&what).as_os_str(), AtFlags::empty()),
    };
    answer.map_err(|errno| cannot(place.call, errno))
}

/// The new file before it has its name.
pub(super) enum Fresh<'a> {
    /// It has none, and is gone with its descriptor (`O_TMPFILE`).
    Unnamed(File),
    /// Where the file system knows no such files: a name that nobody else has.
    Named(File, Temporary<'a>),
}

/// A name for the meantime, taken away if it is still there in the end.
pub(super) struct Temporary<'a> {
    dir: &'a OwnedFd,
    name: OsString,
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        let _ = unlinkat(self.dir, self.name.as_os_str(), UnlinkatFlags::NoRemoveDir);
    }
}

impl<'a> Temporary<'a> {
    fn new(dir: &'a OwnedFd) -> Result<Temporary<'a>, Errno> {
        let random = getrandom::u64().map_err(|_| Errno::EIO)?;
        let name = OsString::from_vec(format!(".guardexec-{random:016x}").into_bytes());
        Ok(Temporary { dir, name })
    }
}

impl<'a> Fresh<'a> {
    fn make(dir: &'a OwnedFd) -> Result<Fresh<'a>, Errno> {
        match Fresh::unnamed(dir) {
            Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::ENOENT | Errno::EINVAL) => Fresh::named(dir),
            made => made,
        }
    }

    fn unnamed(dir: &'a OwnedFd) -> Result<Fresh<'a>, Errno> {
        let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_TMPFILE;
        openat(dir, OsStr::new("."), flags, OWN).map(|file| Fresh::Unnamed(file.into()))
    }

    pub(super) fn named(dir: &'a OwnedFd) -> Result<Fresh<'a>, Errno> {
        let temporary = Temporary::new(dir)?;
        let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
        let file = openat(dir, temporary.name.as_os_str(), flags, OWN)?;
        Ok(Fresh::Named(file.into(), temporary))
    }

    fn file(&self) -> &File {
        match self {
            Fresh::Unnamed(file) | Fresh::Named(file, _) => file,
        }
    }

    /// Content, owner and mode, and all of it on the disk.
    pub(super) fn fill(&self, place: &Beneath<'_>, old: Option<&FileStat>) -> Step<()> {
        let mut file = self.file();
        file.write_all(&place.call.content).map_err(|e| cannot(place.call, errno(&e)))?;
        self.belong(place, old)?;
        let mode = match old {
            // Not the bits that would lend somebody's rights to whoever executes it.
            Some(old) => old.st_mode & 0o777,
            None => NEW & !current_umask().bits(),
        };
        fchmod(file, Mode::from_bits_truncate(mode)).map_err(|e| cannot(place.call, e))?;
        file.sync_all().map_err(|e| cannot(place.call, errno(&e)))
    }

    /// Who owned it before owns it again, and a new file is its directory's owner's; an ordinary user can give nothing
    /// away, and then what belongs to somebody else is not replaced.
    fn belong(&self, place: &Beneath<'_>, old: Option<&FileStat>) -> Step<()> {
        let now = fstat(self.file()).map_err(|e| cannot(place.call, e))?;
        let wanted = match old {
            Some(old) => (old.st_uid, old.st_gid),
            None if Uid::effective().is_root() => {
                let dir = fstat(&place.dir).map_err(|e| cannot(place.call, e))?;
                (dir.st_uid, dir.st_gid)
            }
            None => return Ok(()),
        };
        if wanted == (now.st_uid, now.st_gid) {
            return Ok(());
        }
        let (uid, gid) = (Uid::from_raw(wanted.0), Gid::from_raw(wanted.1));
        // An owner that is the same already must not be asked for: that alone is a privilege.
        let uid = Some(uid).filter(|_| wanted.0 != now.st_uid);
        fchown(self.file(), uid, Some(gid)).or_else(|_| {
            Said::failed(format!("cannot write {}: its owner and group could not be kept", shown(place.call)))
        })
    }

    /// Gives it the name. `EEXIST`: there was no such file, and now there is one.
    pub(super) fn publish(self, dir: &OwnedFd, name: &OsStr, replace: bool) -> Result<(), Errno> {
        match self {
            Fresh::Unnamed(file) if !replace => link(&file, dir, name),
            Fresh::Unnamed(file) => {
                let temporary = Temporary::new(dir)?;
                link(&file, dir, &temporary.name)?;
                renameat(dir, temporary.name.as_os_str(), dir, name)
            }
            Fresh::Named(_, temporary) => renameat(dir, temporary.name.as_os_str(), dir, name),
        }
    }
}

/// Gives an open file without a name one.
fn link(file: &File, dir: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    linkat(AT_FDCWD, &descriptor_path(file), dir, name, AtFlags::AT_SYMLINK_FOLLOW)
}

/// A name counts when its directory is on the disk. A directory that may not be read cannot be told to be.
pub(super) fn sync_directory(dir: &OwnedFd) {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    if let Ok(opened) = openat(dir, OsStr::new("."), flags, Mode::empty()) {
        let _ = File::from(opened).sync_all();
    }
}

/// The umask, which can only be read by setting it; this process has one thread.
fn current_umask() -> Mode {
    let mask = umask(Mode::from_bits_truncate(0o022));
    umask(mask);
    mask
}
