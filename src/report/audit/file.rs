//! The file itself: opened without trust, written whole or not at all, replaced without a gap.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::sys::resource::{Resource, getrlimit};

use super::AuditError;

/// An open log file.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    device: u64,
    inode: u64,
}

impl Log {
    /// Opens or creates the file and tests what was opened.
    pub(super) fn open(path: &Path) -> Result<Log, AuditError> {
        let file = open_trusted(path, true, 0o600, (0o022, "go-w"))?;
        Log::from_file(path, file)
    }

    fn from_file(path: &Path, file: File) -> Result<Log, AuditError> {
        let meta = file.metadata().map_err(|e| AuditError::io(path, "inspect", e))?;
        Ok(Log { device: meta.dev(), inode: meta.ino(), file })
    }

    /// Whether the path still names this file.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == (self.device, self.inode))
    }

    /// Its length in bytes.
    pub(super) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Reads exactly these bytes.
    pub(super) fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, at)
    }

    /// Writes all of `lines` at the end in one call, or cuts the file back to `old_len`.
    pub(super) fn append(&mut self, path: &Path, lines: &[u8], old_len: u64) -> Result<(), AuditError> {
        write_whole(&mut self.file, lines, old_len).map_err(|e| AuditError::io(path, "write", e))
    }
}

fn write_whole(file: &mut File, lines: &[u8], old_len: u64) -> io::Result<()> {
    // Past RLIMIT_FSIZE the kernel would send SIGXFSZ, which ends the process (setrlimit(2)).
    let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
    if limit != nix::libc::RLIM_INFINITY && old_len.saturating_add(lines.len() as u64) > limit {
        return Err(io::Error::from_raw_os_error(nix::libc::EFBIG));
    }
    let result = loop {
        match file.write(lines) {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            other => break other,
        }
    };
    match result {
        Ok(n) if n == lines.len() => Ok(()),
        Ok(_) => {
            // A torn line that cannot be taken back is closed by the next writer.
            let _ = file.set_len(old_len);
            Err(ErrorKind::StorageFull.into())
        }
        Err(e) => Err(e),
    }
}

/// Opens for writing (and reading, where asked) without following a link in the last component and without
/// waiting for the other end of a pipe; then tests the descriptor. `closed` holds the permission bits that must
/// not be set, and what `chmod` takes to clear them.
pub(super) fn open_trusted(
    path: &Path,
    read: bool,
    mode: u32,
    closed: (u32, &'static str),
) -> Result<File, AuditError> {
    use nix::libc::{EISDIR, ELOOP, ENXIO, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK};
    let file = OpenOptions::new()
        .read(read)
        .append(true)
        .create(true)
        .mode(mode)
        .custom_flags(O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
        .open(path)
        .map_err(|e| match e.raw_os_error() {
            Some(ELOOP) if fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink()) => {
                AuditError::Symlink { path: path.to_owned() }
            }
            Some(EISDIR | ENXIO) => AuditError::NotRegular { path: path.to_owned() },
            _ => AuditError::io(path, "open", e),
        })?;
    let meta = file.metadata().map_err(|e| AuditError::io(path, "inspect", e))?;
    test_trust(path, &meta, closed)?;
    Ok(file)
}

fn test_trust(path: &Path, meta: &Metadata, closed: (u32, &'static str)) -> Result<(), AuditError> {
    if !meta.is_file() {
        return Err(AuditError::NotRegular { path: path.to_owned() });
    }
    if meta.uid() != 0 && meta.uid() != nix::unistd::geteuid().as_raw() {
        return Err(AuditError::Owner { path: path.to_owned(), owner: meta.uid() });
    }
    let mode = meta.mode() & 0o7777;
    if mode & closed.0 != 0 {
        return Err(AuditError::Mode { path: path.to_owned(), mode, remedy: closed.1 });
    }
    Ok(())
}

/// Starts a new file with `lines` and gives the old one its dated name. Called under the lock. The name never
/// points to nothing: the successor is complete before it is renamed over the old file.
pub(super) fn rotate(
    path: &Path,
    old: &Log,
    lines: &[u8],
    last_seq: u64,
    now: SystemTime,
) -> Result<Log, AuditError> {
    let fail = |doing| move |e| AuditError::io(path, doing, e);
    let next = with_suffix(path, ".next");
    let dated = with_suffix(path, &format!(".{}-{last_seq}", stamp(now)));
    clear(&next).map_err(fail("rotate"))?;
    let meta = old.file.metadata().map_err(fail("inspect"))?;
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create_new(true)
        .mode(meta.mode() & 0o777)
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(&next)
        .map_err(fail("rotate"))?;
    // Whoever ships the log may read it by its group; not ours to fail for.
    let _ = fchown(&file, None, Some(meta.gid()));
    let moved = write_whole(&mut file, lines, 0).and_then(|()| {
        // File systems without hard links leave a moment in which the name is missing.
        fs::hard_link(path, &dated).or_else(|_| rename_new(path, &dated))?;
        fs::rename(&next, path)
    });
    if let Err(e) = moved {
        let _ = fs::remove_file(&next);
        undo(path, &dated, old);
        return Err(fail("rotate")(e));
    }
    Log::from_file(path, file)
}

/// Takes away what stands in the successor's place: what a rotation left that was cut off, or what somebody put there who
/// may write the directory, as a run may. A directory is no reason to stop recording; it is renamed.
fn clear(next: &Path) -> io::Result<()> {
    match fs::remove_file(next) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(_) if fs::symlink_metadata(next).is_ok_and(|found| found.is_dir()) => {
            let drawn = getrandom::u64().map_err(|e| io::Error::other(e.to_string()))?;
            fs::rename(next, with_suffix(next, &format!(".set-aside-{drawn:016x}")))
        }
        other => other,
    }
}

/// Takes back the dated name of a rotation that failed half-way.
fn undo(path: &Path, dated: &Path, old: &Log) {
    if old.is_at(dated) {
        let _ = if old.is_at(path) { fs::remove_file(dated) } else { fs::rename(dated, path) };
    }
}

/// A rename that replaces nothing.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    if to.symlink_metadata().is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    fs::rename(from, to)
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// `YYYYMMDDTHHMMSSmmm` in UTC.
fn stamp(now: SystemTime) -> String {
    let text = humantime::format_rfc3339_millis(now).to_string();
    text.chars().filter(|c| c.is_ascii_digit() || *c == 'T').collect()
}
