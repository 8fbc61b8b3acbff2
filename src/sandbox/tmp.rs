//! A private tmp where no mounts can be had: a directory of the run's own, and the environment that names it.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown,
};
use std::path::{Path, PathBuf};

use super::raw::secret::random_u64;
use crate::sys::canonical;

/// A directory of the run's own, removed with everything in it when this is dropped.
#[derive(Debug)]
pub struct TmpDir(PathBuf);

impl TmpDir {
    /// Makes one, for `owner` or for the user who runs guardexec; in `caller_tmp` where no usual place takes it.
    ///
    /// # Errors
    /// No place takes it, or it cannot be given away.
    pub fn new(owner: Option<(u32, u32)>, caller_tmp: Option<&Path>) -> io::Result<TmpDir> {
        let name = random_u64().map_err(io::Error::from_raw_os_error)?;
        let mut last = io::Error::from_raw_os_error(libc::ENOENT);
        // The caller's own comes last: a caller may not say where the runs of a free guardexec write.
        for base in [Path::new("/tmp"), Path::new("/var/tmp")].into_iter().chain(caller_tmp) {
            let made = canonical(base).and_then(|base| {
                let dir = base.join(format!("guardexec-{name:016x}"));
                fs::DirBuilder::new().mode(0o700).create(&dir).map(|()| TmpDir(dir))
            });
            match made {
                Ok(made) => {
                    made.give(owner)?;
                    return Ok(made);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn give(&self, owner: Option<(u32, u32)>) -> io::Result<()> {
        let found = self.0.metadata()?;
        match owner {
            // Also where a run of another guardexec may change no owner.
            Some((uid, gid)) if (uid, gid) != (found.uid(), found.gid()) => {
                chown(&self.0, Some(uid), Some(gid))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for TmpDir {
    fn drop(&mut self) {
        self.remove();
    }
}

impl TmpDir {
    /// Removes it with all that is in it, where it is there yet.
    pub fn remove(&self) {
        // A run may have taken its own rights away; they are given back on the way down. Links are not followed.
        if fs::remove_dir_all(&self.0).is_err() {
            open_up(&self.0);
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

fn open_up(dir: &Path) {
    // By descriptor: another process of the run's user could put a link in its place meanwhile.
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_DIRECTORY;
    let Ok(opened) = fs::OpenOptions::new().read(true).custom_flags(flags).open(dir) else { return };
    let Ok(meta) = opened.metadata() else { return };
    let mode = fs::Permissions::from_mode(meta.mode() | 0o700);
    let _ = fs::set_permissions(crate::program::descriptor_path(&opened), mode);
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        open_up(&entry.path());
    }
}

/// Replaces `NAME=/tmp`, which judging puts where the policy says nothing, by the real place.
pub fn set_default(envp: &mut [CString], name: &str, dir: &Path) {
    let placeholder = format!("{name}={}", crate::decision::PRIVATE_TMP);
    let mut value = OsStr::new(name).as_bytes().to_vec();
    value.push(b'=');
    value.extend_from_slice(dir.as_os_str().as_bytes());
    let Ok(value) = CString::new(value) else { return };
    for entry in envp.iter_mut().filter(|entry| entry.as_bytes() == placeholder.as_bytes()) {
        entry.clone_from(&value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_private_and_gone_with_its_owner() {
        let tmp = TmpDir::new(None, None).unwrap();
        let path = tmp.path().to_owned();
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o700);
        let closed = path.join("closed");
        fs::create_dir(&closed).unwrap();
        fs::write(closed.join("file"), "x").unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
        drop(tmp);
        assert!(!path.exists());
    }
}
