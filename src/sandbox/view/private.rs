//! What the system keeps for its owner: found by looking, for the one user who owns it all.
//!
//! Uid 0 without capabilities still opens every file of mode 0600 that is root's, wherever a daemon put its password. The
//! modes say what was meant for everybody: what others could not read is not for a run.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where settings and keys lie. `/usr` but for its local part is made of packages, which bring no secrets.
pub const PLACES: &[&str] = &["/etc", "/usr/local/etc", "/opt"];

/// Where programs are put by hand, each in a directory of its own, settings and all; and what lies there for all of them.
pub const BY_HAND: &str = "/usr/local";
const SHARED: [&str; 11] =
    ["bin", "etc", "games", "include", "lib", "lib64", "libexec", "man", "sbin", "share", "src"];

/// How many entries of a place are looked at, and of each directory in it with all that is below.
const MAX_ENTRIES: usize = 65_536;
const MAX_BELOW_ONE: usize = 4096;

/// What was found below one place.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Private {
    /// Not for others to read. None of them lies below another.
    pub paths: Vec<PathBuf>,
    /// Directories that were too much to look through; nothing in them is among the paths.
    pub unlooked: Vec<PathBuf>,
}

/// Everything below `top` that others may not read, but for what lies at or below one of `granted`: what the policy names
/// itself is meant.
pub fn below(top: &Path, granted: &[&Path]) -> Private {
    below_within(top, granted, MAX_ENTRIES, MAX_BELOW_ONE)
}

/// The same for what was put there by hand; a directory that is too much to look through is passed over, for it is more
/// likely a tool chain that the run needs than the place of a secret.
pub fn by_hand(top: &Path, granted: &[&Path]) -> Vec<PathBuf> {
    let shared = SHARED.map(|name| top.join(name));
    let passed: Vec<&Path> = shared.iter().map(PathBuf::as_path).chain(granted.iter().copied()).collect();
    below(top, &passed).paths
}

fn below_within(top: &Path, granted: &[&Path], mut left: usize, one: usize) -> Private {
    let walk = Walk { top, granted };
    let mut found = Private::default();
    let Some(first) = walk.list(top, false, &mut left) else {
        found.unlooked.push(top.to_owned());
        return found;
    };
    found.paths.extend(first.private);
    for (dir, closed) in first.dirs {
        let budget = one.min(left);
        let mut rest = budget;
        match walk.tree(&dir, closed, &mut rest) {
            Some(paths) => found.paths.extend(paths),
            None => found.unlooked.push(dir),
        }
        left -= budget - rest;
    }
    found
}

struct Walk<'a> {
    top: &'a Path,
    granted: &'a [&'a Path],
}

/// One directory's entries: what is private, and the directories to look into, each with whether it is private itself.
#[derive(Default)]
struct Listed {
    private: Vec<PathBuf>,
    dirs: Vec<(PathBuf, bool)>,
}

impl Walk<'_> {
    /// What is private below `dir`; `None` where that is more to look at than is `left`.
    fn tree(&self, dir: &Path, closed: bool, left: &mut usize) -> Option<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut dirs = vec![(dir.to_owned(), closed)];
        while let Some((dir, closed)) = dirs.pop() {
            let listed = self.list(&dir, closed, left)?;
            found.extend(listed.private);
            dirs.extend(listed.dirs);
        }
        Some(found)
    }

    fn list(&self, dir: &Path, closed: bool, left: &mut usize) -> Option<Listed> {
        let mut listed = Listed::default();
        // What cannot be listed here cannot be listed by the run, which may do no more than this process.
        let Ok(entries) = std::fs::read_dir(dir) else { return Some(listed) };
        for entry in entries {
            *left = left.checked_sub(1)?;
            let entry = entry.ok()?;
            let path = entry.path();
            let Ok(metadata) = entry.metadata() else { continue };
            // A link is judged where it leads to.
            let link = metadata.is_symlink();
            if link || self.granted.iter().any(|g| *g != self.top && path.starts_with(g)) {
                continue;
            }
            let leads = self.granted.iter().any(|g| g.starts_with(&path));
            let private = closed || is_private(&metadata);
            if metadata.is_dir() && (leads || !private) {
                listed.dirs.push((path, private));
            } else if private && (!metadata.is_file() || File::open(&path).is_ok()) {
                listed.private.push(path);
            }
        }
        Some(listed)
    }
}

/// Others may not read the file, or not enter the directory.
fn is_private(metadata: &Metadata) -> bool {
    let bit = if metadata.is_dir() { 0o001 } else { 0o004 };
    metadata.mode() & bit == 0
}

#[cfg(test)]
mod tests {
    use super::super::super::raw::attack::Scratch;
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn put(path: &Path, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_may_not_read_is_found_and_what_is_granted_is_not() {
        let scratch = Scratch::new("private");
        let at = |name: &str| scratch.0.join(name);
        put(&at("open"), 0o644);
        put(&at("app/deep/er/token"), 0o640);
        put(&at("closed/readable"), 0o644);
        put(&at("mine/tool"), 0o700);
        put(&at("mine/key"), 0o600);
        for dir in ["closed", "mine"] {
            fs::set_permissions(at(dir), fs::Permissions::from_mode(0o700)).unwrap();
        }
        std::os::unix::fs::symlink("app", at("link")).unwrap();
        let mut found = below(&scratch.0, &[&at("mine/tool")]);
        found.paths.sort();
        assert_eq!(found.paths, [at("app/deep/er/token"), at("closed"), at("mine/key")]);
        assert!(found.unlooked.is_empty());
    }

    #[test]
    fn what_was_put_there_by_hand_is_looked_through_and_what_is_shared_is_not() {
        let scratch = Scratch::new("private-by-hand");
        let at = |name: &str| scratch.0.join(name);
        for name in ["app/conf/key", "app/bin/tool", "share/key", "lib/deep/key"] {
            put(&at(name), 0o600);
        }
        put(&at("app/readme"), 0o644);
        assert_eq!(by_hand(&scratch.0, &[&at("app/bin/tool")]), [at("app/conf/key")]);
    }

    #[test]
    fn what_was_not_looked_through_is_named_and_costs_its_neighbours_nothing() {
        let scratch = Scratch::new("private-many");
        let at = |name: &str| scratch.0.join(name);
        put(&at("a"), 0o600);
        for n in 0..8 {
            put(&at(&format!("many/deep/{n}")), 0o600);
        }
        put(&at("few/b"), 0o600);
        let mut found = below_within(&scratch.0, &[], 100, 6);
        found.paths.sort();
        assert_eq!(found, Private { paths: vec![at("a"), at("few/b")], unlooked: vec![at("many")] });
        let none = below_within(&scratch.0, &[], 2, 6);
        assert_eq!(none, Private { paths: vec![], unlooked: vec![scratch.0.clone()] });
    }
}
