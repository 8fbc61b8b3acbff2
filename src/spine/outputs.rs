//! Where the result goes besides standard output: never over the policy that judged it or the record that is kept of it,
//! whoever named the place.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::request::quote;

/// The kind of the error for a result that was to go over such a file: then it is not written there.
pub const RESULT_TARGET: &str = "result_target";

/// An opened place for the result.
#[derive(Debug)]
pub struct Output {
    /// The file, open for writing.
    pub file: File,
    /// What stands in it is an older result: emptied before anything runs, so that it cannot be taken for this one's.
    pub replace: bool,
}

/// Refuses outputs that are one of `guarded`, by any name, and empties those to be replaced.
///
/// # Errors
/// One sentence; no output was changed then.
pub(super) fn clear(outputs: &[Output], guarded: &[PathBuf]) -> Result<(), String> {
    let identity = |m: std::fs::Metadata| (m.dev(), m.ino());
    let of = |path: &Path| path.metadata().ok().map(identity);
    for output in outputs {
        let found = output.file.metadata().map_err(|e| format!("cannot write the result: {e}"))?;
        let found = identity(found);
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
    pub fn empty(&self) -> std::io::Result<()> {
        if self.replace && self.file.metadata()?.is_file() { self.file.set_len(0) } else { Ok(()) }
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
