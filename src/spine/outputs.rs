//! Where the result goes besides standard output: never over the policy that judged it or the record that is kept of it,
//! whoever named the place.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::request::quote;
use crate::run::END_SIGNALS;
use crate::sys::patient::Patient;

/// The kind of the error for a result that was to go over such a file: then it is not written there.
pub const RESULT_TARGET: &str = "result_target";

/// An opened place for the result.
#[derive(Debug)]
pub struct Output {
    /// The file, open for writing.
    pub file: File,
    /// What stands in it is an older result: emptied before anything runs, so that it cannot be taken for this one's.
    pub replace: bool,
    /// Where it was opened by name.
    pub place: Option<Place>,
}

/// The name of a result file, in the directory that was there before the run: what the run may write it may rename.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    dir: OwnedFd,
    name: OsString,
}

impl Place {
    /// The place that `path` names; `None` where it has no last component, or its directory cannot be opened.
    pub fn of(path: &Path) -> Option<Place> {
        let name = path.file_name()?.to_owned();
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        let dir = OpenOptions::new().read(true).custom_flags(flags).open(dir).ok()?;
        Some(Place { path: path.to_owned(), dir: dir.into(), name })
    }

    fn leads_to(&self, file: &Metadata) -> bool {
        self.path.metadata().is_ok_and(|found| identity(&found) == identity(file))
    }

    /// Puts the result there in the place of whatever came to stand there meanwhile, which is not followed.
    fn put_back(&self, line: &[u8], like: &Metadata) -> io::Result<()> {
        // Drawn, so that the run cannot have put anything there.
        let fresh =
            format!(".guardexec-{:016x}", getrandom::u64().map_err(|e| io::Error::other(e.to_string()))?);
        let fresh = OsStr::new(&fresh);
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut file = File::from(openat(&self.dir, fresh, flags, Mode::from_bits_truncate(0o600))?);
        // The same reader as before; where that cannot be, its owner.
        let _ = fchown(&file, Some(like.uid()), Some(like.gid()));
        let put = file.set_permissions(std::fs::Permissions::from_mode(like.mode() & 0o777));
        let put = put.and_then(|()| file.write_all(line));
        let put = put.and_then(|()| Ok(renameat(&self.dir, fresh, &self.dir, self.name.as_os_str())?));
        if put.is_err() {
            let _ = unlinkat(&self.dir, fresh, UnlinkatFlags::NoRemoveDir);
        }
        put?;
        if self.leads_to(&file.metadata()?) {
            Ok(())
        } else {
            Err(io::Error::other("another file stands there"))
        }
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Refuses outputs that are one of `guarded`, by any name, and empties those to be replaced.
///
/// # Errors
/// One sentence; no output was changed then.
pub(super) fn clear(outputs: &[Output], guarded: &[PathBuf]) -> Result<(), String> {
    let of = |path: &Path| path.metadata().ok().as_ref().map(identity);
    for output in outputs {
        let found = output.file.metadata().map_err(|e| format!("cannot write the result: {e}"))?;
        let found = identity(&found);
        if let Some(path) = guarded.iter().find(|path| of(path) == Some(found)) {
            let shown = quote::display(path.as_os_str().as_bytes());
            return Err(format!("the result cannot go over {shown}, which the policy needs"));
        }
    }
    outputs.iter().try_for_each(Output::empty).map_err(|e| format!("cannot write the result: {e}"))
}

impl Output {
    /// Takes out what stood there, where it is to be replaced.
    ///
    /// # Errors
    /// What ftruncate(2) gives.
    pub fn empty(&self) -> io::Result<()> {
        if self.replace && self.file.metadata()?.is_file() { self.file.set_len(0) } else { Ok(()) }
    }

    /// Writes the result: there and nowhere else, whatever the run did with the name meanwhile.
    ///
    /// # Errors
    /// What write(2) gives, or that another file stands in the result's place and cannot be replaced.
    pub fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.empty()?;
        Patient::new(self.file.as_fd(), &END_SIGNALS).write_all(line)?;
        let file = self.file.metadata()?;
        match self.place.as_ref().filter(|_| file.is_file()) {
            Some(place) if !place.leads_to(&file) => place.put_back(line, &file),
            _ => Ok(()),
        }
    }

    /// Whether nothing but an older result stands there. Asked where no policy could be loaded, so that which files it
    /// needs is not known.
    pub fn holds_no_more_than_a_result(&self) -> bool {
        if !self.replace || !self.file.metadata().is_ok_and(|m| m.is_file()) {
            return true;
        }
        let mut start = [0; RESULT_START.len()];
        let again = File::open(crate::program::descriptor_path(&self.file));
        match again.and_then(|mut file| file.read(&mut start)) {
            Ok(length) => length == 0 || start == *RESULT_START,
            Err(_) => false,
        }
    }
}

/// How every result begins.
const RESULT_START: &[u8; 30] = b"{\"schema\":\"guardexec.result/v1";
