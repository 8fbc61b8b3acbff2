//! From a path to a compiled [`Policy`]: open, trust, hash, parse, follow `extends`, join.

use std::ffi::CString;
use std::fs::File as OsFile;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::error::{ErrorKind, PolicyError, printable};
use super::join::{Part, join};
use super::model::{Policy, Source};
use super::schema::{self, Doc, Span};
use super::trust::{self, TrustError};
use crate::sys::text::{read_shared, shared_text};
use crate::sys::{fd, hex};

/// The largest policy file, in bytes.
pub const MAX_FILE: usize = 1 << 20;
/// How many files deep `extends` may go.
pub const MAX_DEPTH: usize = 16;
/// How many files one policy may be made of.
pub const MAX_FILES: usize = 256;

/// What loading has to know of the user.
#[derive(Debug, Clone)]
pub struct LoadContext {
    /// The home that `~` stands for, from the user database; empty where the user has none.
    pub home: PathBuf,
    /// The effective user: besides root the only one who may own a policy.
    pub uid: u32,
}

/// Loads the policy at `path` and everything it extends.
///
/// # Errors
/// [`ErrorKind::NotFound`] only where `path` itself does not exist; everything else says what is wrong and where.
pub fn load(path: &Path, context: &LoadContext) -> Result<Policy, PolicyError> {
    let mut loader = Loader { context, open: Vec::new(), done: Vec::new(), parts: Vec::new() };
    loader.add(path, None)?;
    join(loader.parts)
}

/// Device and inode: what a file is, whatever it is called.
type Identity = (u64, u64);

struct Loader<'c> {
    context: &'c LoadContext,
    /// The files between the first and the one being read.
    open: Vec<(Identity, Arc<Path>)>,
    /// Files that were read, so that one reached on two ways is read once.
    done: Vec<Identity>,
    /// What they say, parents first.
    parts: Vec<Part>,
}

impl Loader<'_> {
    fn add(&mut self, path: &Path, from: Option<(&Doc, &Span)>) -> Result<(), PolicyError> {
        let opened = open(path, self.context.uid).map_err(|e| extended(e, path, from))?;
        if self.done.contains(&opened.identity) {
            return Ok(());
        }
        if let Some((doc, span)) = from {
            self.bounds(opened.identity, path, doc, span)?;
        }
        let bytes = read(&opened, path).map_err(|e| extended(e, path, from))?;
        let sha256 = hex(&Sha256::digest(&bytes));
        let text = text(bytes, path)?;
        let dir = opened.canonical.parent().unwrap_or(Path::new("/")).to_owned();
        let doc = Doc::new(Arc::from(path), dir, self.context.home.clone(), Arc::clone(&text));
        let file = schema::read(&doc)?;
        self.open.push((opened.identity, Arc::from(path)));
        for (parent, span) in &file.extends {
            self.add(parent, Some((&doc, span)))?;
        }
        self.open.pop();
        self.done.push(opened.identity);
        let shown = Arc::clone(&doc.shown);
        let source =
            Source { path: Arc::from(opened.canonical), identity: opened.identity, shown, sha256, text };
        self.parts.push(Part { doc, file, source });
        Ok(())
    }

    /// Refuses circles and towers of `extends`.
    fn bounds(&self, new: Identity, path: &Path, doc: &Doc, span: &Span) -> Result<(), PolicyError> {
        if let Some(first) = self.open.iter().position(|(identity, _)| *identity == new) {
            let mut chain: Vec<String> =
                self.open[first..].iter().map(|(_, p)| printable(&p.to_string_lossy())).collect();
            chain.push(printable(&path.to_string_lossy()));
            return Err(doc.error(span, format!("`extends` goes in a circle: {}", chain.join(" -> "))));
        }
        if self.open.len() > MAX_DEPTH {
            return Err(doc.error(span, format!("`extends` goes more than {MAX_DEPTH} files deep")));
        }
        if self.done.len() + self.open.len() >= MAX_FILES {
            return Err(doc.error(span, format!("a policy cannot be made of more than {MAX_FILES} files")));
        }
        Ok(())
    }
}

/// A complaint about a file as a whole, said at the `extends` that led to it. Such a file is never "not there":
/// the policy that names it exists.
fn extended(error: PolicyError, path: &Path, from: Option<(&Doc, &Span)>) -> PolicyError {
    let Some((doc, span)) = from else { return error };
    let kind = match error.kind {
        ErrorKind::NotFound => ErrorKind::Unreadable,
        kind => kind,
    };
    let path = printable(&path.to_string_lossy());
    let mut at = doc.error_of(kind, span, format!("in `extends`, {path}: {}", error.message));
    at.hint = error.hint.clone();
    at
}

struct Opened {
    file: OsFile,
    /// Its length when it was opened.
    length: u64,
    identity: Identity,
    canonical: PathBuf,
}

/// Opens without waiting (a pipe or a device never hangs) and without gaining a terminal, then tests.
fn open(path: &Path, uid: u32) -> Result<Opened, PolicyError> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|e| cannot_open(path, &e.into()))?;
    let flags = libc::O_RDONLY | libc::O_NOCTTY | libc::O_NONBLOCK;
    let file = OsFile::from(fd::open(&name, flags).map_err(|e| cannot_open(path, &e))?);
    let meta = file.metadata().map_err(|e| unreadable(path, &e))?;
    if !meta.is_file() {
        let message = format!("a policy has to be a regular file, this is {}", trust::file_kind(&meta));
        return Err(PolicyError::file(ErrorKind::Malformed, path, message));
    }
    trust::check_found(&meta, path, uid).map_err(|e| untrusted(path, &e))?;
    let canonical = trust::check_way(path, uid).map_err(|e| untrusted(path, &e))?;
    let identity = (meta.dev(), meta.ino());
    let named = std::fs::symlink_metadata(&canonical).map_err(|e| unreadable(path, &e))?;
    if (named.dev(), named.ino()) != identity {
        return Err(PolicyError::file(ErrorKind::Untrusted, path, "the file was replaced while it was read"));
    }
    Ok(Opened { file, length: meta.len(), identity, canonical })
}

fn unreadable(path: &Path, error: &io::Error) -> PolicyError {
    PolicyError::file(ErrorKind::Unreadable, path, format!("cannot read the policy: {error}"))
}

fn untrusted(path: &Path, error: &TrustError) -> PolicyError {
    let mut out = PolicyError::file(ErrorKind::Untrusted, path, error.to_string());
    out.hint = error.remedy();
    out
}

/// "Not there" is only what has no entry at all; a link to nothing is there and cannot be read.
fn cannot_open(path: &Path, error: &io::Error) -> PolicyError {
    let message = format!("cannot open the policy: {error}");
    if error.kind() != io::ErrorKind::NotFound {
        return PolicyError::file(ErrorKind::Unreadable, path, message);
    }
    let nearest = path.ancestors().find_map(|a| std::fs::symlink_metadata(a).ok());
    if nearest.is_some_and(|m| m.is_symlink()) {
        return PolicyError::file(
            ErrorKind::Unreadable,
            path,
            "cannot open the policy: a link leads to nothing",
        );
    }
    PolicyError::file(ErrorKind::NotFound, path, message)
}

fn read(opened: &Opened, path: &Path) -> Result<Arc<[u8]>, PolicyError> {
    let expected = usize::try_from(opened.length).unwrap_or(usize::MAX);
    let bytes = read_shared(&opened.file, expected, MAX_FILE + 1).map_err(|e| unreadable(path, &e))?;
    if bytes.len() > MAX_FILE {
        let message = "a policy file cannot be larger than 1 MiB";
        return Err(PolicyError::file(ErrorKind::Malformed, path, message));
    }
    Ok(bytes)
}

fn text(bytes: Arc<[u8]>, path: &Path) -> Result<Arc<str>, PolicyError> {
    shared_text(Arc::clone(&bytes)).map_err(|e| {
        let lines = bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count();
        let mut error = PolicyError::file(ErrorKind::Malformed, path, "not UTF-8 text");
        if let Some(place) = &mut error.place {
            place.line = u32::try_from(lines + 1).unwrap_or(u32::MAX);
        }
        error
    })
}

#[cfg(test)]
pub(in crate::policy) mod tests;
