//! The directory and the files of the store: made for the user alone, and tested before anything in them is believed.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::libc::{EISDIR, ELOOP, ENXIO, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK};
use nix::sys::stat::{Mode, umask};

use super::StateError;
use crate::policy::trust;
use crate::sys;

/// The database.
pub(super) const DATABASE: &str = "state.db";
/// What undoes a transaction that was cut short; SQLite names it.
const JOURNAL: &str = "state.db-journal";
/// The lock between processes.
pub(super) const LOCK: &str = "state.lock";
/// Says that the directory was used, and by which database.
const MARKER: &str = "state.id";
/// The marker before it is whole.
const MARKER_NEW: &str = "state.id.new";

/// Everything that others may do with a file.
const OTHERS: u32 = 0o077;

/// A directory that passed every test.
#[derive(Debug)]
pub(super) struct Dir {
    path: PathBuf,
}

impl Dir {
    /// Makes what is missing of the directory, for the user alone, and tests it.
    pub(super) fn make(path: &Path) -> Result<Dir, StateError> {
        let path = whole(path)?;
        with_an_owners_umask(|| make_all(&path))?;
        Dir::test(&path)
    }

    /// The directory, where it is there.
    pub(super) fn find(path: &Path) -> Result<Option<Dir>, StateError> {
        let path = whole(path)?;
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            _ => Dir::test(&path).map(Some),
        }
    }

    fn test(path: &Path) -> Result<Dir, StateError> {
        let meta = fs::symlink_metadata(path).map_err(|e| StateError::io(path, "look at", e))?;
        if meta.is_symlink() {
            return Err(StateError::Symlink(path.to_owned()));
        }
        if !meta.is_dir() {
            return Err(StateError::NotDirectory(path.to_owned()));
        }
        test_owner(path, &meta)?;
        let mode = meta.mode() & 0o7777;
        if mode & OTHERS != 0 {
            return Err(StateError::Mode(path.to_owned(), mode, "700"));
        }
        let (uid, _) = sys::process::ids();
        let path = trust::check_way(path, uid).map_err(|e| StateError::Way(path.to_owned(), e))?;
        Ok(Dir { path })
    }

    /// Its canonical path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Device and inode of the database after testing it and its journal; `None` where there is none.
    pub(super) fn database(&self) -> Result<Option<(u64, u64)>, StateError> {
        look(&self.file(JOURNAL))?;
        Ok(look(&self.file(DATABASE))?.map(|meta| (meta.dev(), meta.ino())))
    }

    /// The length of the database in bytes.
    pub(super) fn length(&self) -> Result<i64, StateError> {
        let length = look(&self.file(DATABASE))?.map_or(0, |meta| meta.len());
        Ok(i64::try_from(length).unwrap_or(i64::MAX))
    }

    /// An empty database: SQLite would make it as the umask says.
    pub(super) fn create_database(&self) -> Result<(), StateError> {
        let path = self.file(DATABASE);
        let fail = |e| StateError::io(&path, "make", e);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(O_NOFOLLOW)
            .open(&path)
            .map_err(fail)?;
        file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(fail)?;
        self.sync()
    }

    /// What the marker says; `None` where the directory was never used.
    pub(super) fn marker(&self) -> Result<Option<String>, StateError> {
        let path = self.file(MARKER);
        if look(&path)?.is_none() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).map_err(|e| StateError::io(&path, "read", e))?;
        Ok(Some(text.trim_end().to_owned()))
    }

    /// Marks the directory as used by the database with this id. Called under the lock.
    pub(super) fn mark(&self, id: &str) -> Result<(), StateError> {
        let (new, path) = (self.file(MARKER_NEW), self.file(MARKER));
        match fs::remove_file(&new) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(StateError::io(&new, "remove", e)),
            _ => {}
        }
        let written = (|| {
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .custom_flags(O_NOFOLLOW)
                .open(&new)?;
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
            file.write_all(format!("{id}\n").as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)
        })();
        if let Err(error) = written {
            let _ = fs::remove_file(&new);
            return Err(StateError::io(&path, "write", error));
        }
        self.sync()
    }

    /// Makes the names in it survive a loss of power.
    fn sync(&self) -> Result<(), StateError> {
        sync(&self.path)
    }
}

fn sync(dir: &Path) -> Result<(), StateError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|e| StateError::io(dir, "sync", e))
}

fn whole(path: &Path) -> Result<PathBuf, StateError> {
    let whole = std::path::absolute(path).map_err(|e| StateError::io(path, "find", e))?;
    // Without a trailing slash, behind which a link would be followed.
    Ok(whole.components().collect())
}

/// mkdir -p, mode 0700, below a directory that nobody else can change.
fn make_all(path: &Path) -> Result<(), StateError> {
    let gone = |dir: &Path| fs::symlink_metadata(dir).is_err_and(|e| e.kind() == ErrorKind::NotFound);
    let missing: Vec<&Path> = path.ancestors().take_while(|dir| gone(dir)).collect();
    let Some(parent) = missing.last().and_then(|dir| dir.parent()) else { return Ok(()) };
    let (uid, _) = sys::process::ids();
    trust::check_directory(parent, uid).map_err(|e| StateError::Way(path.to_owned(), e))?;
    for dir in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(dir) {
            Ok(()) => dir.parent().map_or(Ok(()), sync)?,
            // Another process was faster.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(StateError::io(dir, "make", e)),
        }
    }
    Ok(())
}

/// Runs `body` with a umask that leaves the owner's bits, so that no other process meets a directory or a lock that
/// nobody can use yet. The umask belongs to the whole process, so it is only touched where it has such bits.
pub(super) fn with_an_owners_umask<T>(body: impl FnOnce() -> T) -> T {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let mask = mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
    if mask.is_some_and(|mask| mask & 0o700 == 0) {
        return body();
    }
    let before = umask(Mode::from_bits_truncate(OTHERS));
    let result = body();
    umask(before);
    result
}

/// Opens a file of the store without following a link and without waiting; then tests it. `None` where it does not exist and
/// is not to be made.
pub(super) fn open(path: &Path, create: bool) -> Result<Option<File>, StateError> {
    let opened = OpenOptions::new()
        .read(true)
        .write(create)
        .create(create)
        .truncate(false)
        .mode(0o600)
        .custom_flags(O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound && !create => return Ok(None),
        Err(e) if matches!(e.raw_os_error(), Some(ELOOP | EISDIR | ENXIO)) => {
            return Err(StateError::NotRegular(path.to_owned()));
        }
        Err(e) => return Err(StateError::io(path, "open", e)),
    };
    test_file(path, &file.metadata().map_err(|e| StateError::io(path, "look at", e))?)?;
    Ok(Some(file))
}

/// Tests a file without opening it: closing a descriptor of the database would drop the locks that SQLite holds on it in
/// this process (fcntl(2)).
fn look(path: &Path) -> Result<Option<Metadata>, StateError> {
    match fs::symlink_metadata(path) {
        Ok(meta) => {
            test_file(path, &meta)?;
            Ok(Some(meta))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StateError::io(path, "look at", error)),
    }
}

fn test_file(path: &Path, meta: &Metadata) -> Result<(), StateError> {
    if !meta.is_file() {
        return Err(StateError::NotRegular(path.to_owned()));
    }
    test_owner(path, meta)?;
    let mode = meta.mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(StateError::Mode(path.to_owned(), mode, "600"));
    }
    if meta.nlink() != 1 {
        return Err(StateError::Links(path.to_owned()));
    }
    Ok(())
}

fn test_owner(path: &Path, meta: &Metadata) -> Result<(), StateError> {
    let (uid, _) = sys::process::ids();
    if meta.uid() != 0 && meta.uid() != uid {
        return Err(StateError::Owner(path.to_owned(), meta.uid()));
    }
    Ok(())
}
