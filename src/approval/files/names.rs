//! Which parts of a word may name a file, and where on the host the run will find it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// Links that are followed for one name, as the kernel does.
const LINKS: usize = 40;
/// Where a value may begin or end inside a word: `-Wl,FILE`, `name=@FILE;type=x`, `HOST:DIR`.
const SEPARATORS: &[u8] = b"=,:;@";

/// Where the run will look for what words name.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// Its working directory, opened.
    pub dir: BorrowedFd<'a>,
    /// The same by its path.
    pub cwd: &'a Path,
    /// `[filesystem] map`: what it sees, and what that is on the host.
    pub map: &'a [(PathBuf, PathBuf)],
}

/// The parts of a word that can be a path of their own, the longest first.
pub(super) fn spellings(word: &[u8]) -> Vec<&[u8]> {
    let behind = word.iter().position(|b| *b == b'=').map(|at| &word[at + 1..]);
    let glued = word.strip_prefix(b"-").filter(|rest| !rest.starts_with(b"-")).and_then(|rest| rest.get(1..));
    let mut all: Vec<&[u8]> = Vec::new();
    for part in [Some(word), glued, behind].into_iter().flatten() {
        for part in [Some(part), part.strip_prefix(b"@")].into_iter().flatten() {
            if !part.is_empty() && !all.contains(&part) {
                all.push(part);
            }
        }
    }
    all
}

/// Further parts that a program may take for a file's name: behind every flag of a cluster (`-xfFILE`), and what stands
/// between separators or behind one.
pub(super) fn inner(word: &[u8]) -> impl Iterator<Item = &[u8]> {
    let cluster = word.starts_with(b"-") && !word.starts_with(b"--");
    let behind_flags = (3..word.len()).filter(move |_| cluster).map(|at| &word[at..]);
    let separators = word.iter().enumerate().filter(|(_, b)| SEPARATORS.contains(b)).map(|(at, _)| at);
    let first = word.split(|b| SEPARATORS.contains(b)).next().filter(|first| first.len() < word.len());
    let behind = separators.flat_map(|at| {
        let rest = &word[at + 1..];
        let end = rest.iter().position(|b| SEPARATORS.contains(b));
        [Some(rest), end.map(|end| &rest[..end])].into_iter().flatten()
    });
    let possible = |part: &&[u8]| !part.is_empty() && part.len() < libc::PATH_MAX as usize;
    first.into_iter().chain(behind_flags).chain(behind).filter(possible)
}

impl Ground<'_> {
    /// The path under which guardexec itself finds what the run will find under `path`.
    pub(super) fn on_host(&self, path: &[u8]) -> PathBuf {
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        let path = of_the_run(path);
        if self.map.is_empty() {
            return path;
        }
        self.walk(&self.cwd.join(path))
    }

    /// Step by step, since a link may lead into what is mapped, and out of it.
    fn walk(&self, whole: &Path) -> PathBuf {
        let mut left: VecDeque<OsString> = whole.iter().map(OsString::from).collect();
        let (mut seen, mut links) = (PathBuf::from("/"), 0);
        while let Some(part) = left.pop_front() {
            match Path::new(&part).components().next() {
                Some(Component::RootDir) => seen = "/".into(),
                Some(Component::ParentDir) => drop(seen.pop()),
                Some(Component::Normal(name)) => {
                    let next = seen.join(name);
                    let there = self.translate(&next);
                    match there.read_link() {
                        Ok(target) if links < LINKS && !there.starts_with("/proc") => {
                            links += 1;
                            target.iter().rev().for_each(|part| left.push_front(part.into()));
                        }
                        _ => seen = next,
                    }
                }
                _ => {}
            }
        }
        self.translate(&seen)
    }

    fn translate(&self, seen: &Path) -> PathBuf {
        let above =
            self.map.iter().filter_map(|(shown, here)| Some((shown, here, seen.strip_prefix(shown).ok()?)));
        match above.max_by_key(|(shown, ..)| shown.as_os_str().len()) {
            Some((_, here, rest)) if rest.as_os_str().is_empty() => here.clone(),
            Some((_, here, rest)) => here.join(rest),
            None => seen.to_owned(),
        }
    }
}

/// What `/proc` says of the process that looks: the run's working directory, and its root.
fn of_the_run(path: &Path) -> PathBuf {
    for own in ["/proc/self", "/proc/thread-self"] {
        let Ok(rest) = path.strip_prefix(own) else { continue };
        if let Ok(rest) = rest.strip_prefix("cwd") {
            return if rest.as_os_str().is_empty() { ".".into() } else { rest.to_owned() };
        }
        if let Ok(rest) = rest.strip_prefix("root") {
            return of_the_run(&Path::new("/").join(rest));
        }
    }
    path.to_owned()
}

/// What differs from process to process and needs no content bound: the program itself, and its descriptors, of which only
/// standard input is anything that was asked for.
pub(super) fn is_the_runs_own(path: &[u8]) -> bool {
    let number = |rest: &[u8]| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit);
    matches!(path, b"/proc/self/exe" | b"/dev/stdin" | b"/dev/stdout" | b"/dev/stderr")
        || [&b"/dev/fd/"[..], b"/proc/self/fd/"].iter().any(|dir| path.strip_prefix(*dir).is_some_and(number))
}
