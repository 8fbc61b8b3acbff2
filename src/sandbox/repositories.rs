//! Where the repositories are below directories that a run may write: looked up before it and after it.

use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// How many entries of directories are looked at.
const MAX_ENTRIES: usize = 65_536;
/// How many names deep submodules' git directories are looked for.
const MAX_MODULES: usize = 8;
/// Directories of git's own in a git directory, where no submodule is looked for.
const OF_GIT: [&str; 7] = ["objects", "refs", "logs", "hooks", "info", "branches", "lfs"];
/// What makes any directory a repository of its own to git: the first with the second, which says where the rest is, or
/// with both others.
const OF_BARE: [&str; 4] = ["HEAD", "commondir", "objects", "refs"];

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repositories {
    /// Everything that is called `.git`: directories, files and links.
    pub git: BTreeSet<PathBuf>,
    /// Directories that git takes for a repository without a work tree.
    pub bare: BTreeSet<PathBuf>,
    /// Directories below `modules` of these, each of which is or may become the git directory of a submodule.
    pub modules: BTreeSet<PathBuf>,
    /// Directories that this process may not look into.
    pub closed: BTreeSet<PathBuf>,
    /// There was too much to look at all of it.
    pub incomplete: bool,
}

impl Repositories {
    /// Looks through `roots`, what lies near them first. Links are not followed.
    pub fn below(roots: &[PathBuf]) -> Repositories {
        Repositories::within(roots, MAX_ENTRIES)
    }

    fn within(roots: &[PathBuf], mut left: usize) -> Repositories {
        let mut found = Repositories::default();
        let mut dirs: VecDeque<PathBuf> = roots.iter().cloned().collect();
        while let Some(dir) = dirs.pop_front() {
            let Some(entries) = found.list(&dir, &mut left) else { continue };
            let mut bare = [false; OF_BARE.len()];
            for (path, is_dir) in entries {
                let name = path.file_name().unwrap_or_default();
                if name == ".git" {
                    found.modules(&path.join("modules"), 0, &mut left);
                    found.git.insert(path);
                    continue;
                }
                if let Some(part) = OF_BARE.iter().position(|part| name == *part) {
                    bare[part] = true;
                }
                if is_dir {
                    dirs.push_back(path);
                }
            }
            if let [true, true, _, _] | [true, _, true, true] = bare {
                found.modules(&dir.join("modules"), 0, &mut left);
                found.bare.insert(dir);
            }
            if found.incomplete {
                return found;
            }
        }
        found
    }

    /// The entries of a directory, each with whether it is one itself.
    fn list(&mut self, dir: &Path, left: &mut usize) -> Option<Vec<(PathBuf, bool)>> {
        let entries = match std::fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) => {
                if error.kind() == ErrorKind::PermissionDenied {
                    self.closed.insert(dir.to_owned());
                }
                return None;
            }
        };
        let mut listed = Vec::new();
        for entry in entries.flatten() {
            let Some(rest) = left.checked_sub(1) else {
                self.incomplete = true;
                break;
            };
            *left = rest;
            listed.push((entry.path(), entry.file_type().is_ok_and(|kind| kind.is_dir())));
        }
        Some(listed)
    }

    /// Submodules' names may have slashes in them.
    fn modules(&mut self, dir: &Path, depth: usize, left: &mut usize) {
        if !dir.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            return;
        }
        if depth > MAX_MODULES {
            self.incomplete = true;
            return;
        }
        for (path, is_dir) in self.list(dir, left).unwrap_or_default() {
            // Also where it looks like a git directory: a run can make any name look so.
            if is_dir && !OF_GIT.iter().any(|own| path.ends_with(own)) {
                self.modules(&path, depth + 1, left);
                self.modules.insert(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::raw::attack::Scratch;
    use super::*;
    use std::fs;

    #[test]
    fn all_kinds_are_found_however_deep() {
        let scratch = Scratch::new("repositories");
        let at = |name: &str| scratch.0.join(name);
        for dir in
            ["a/b/c/d/e/f/.git/modules/x/y/hooks", "node_modules/m", "bare/objects", "bare/refs", "half/refs"]
        {
            fs::create_dir_all(at(dir)).unwrap();
        }
        for file in ["node_modules/m/.git", "bare/HEAD", "half/HEAD"] {
            fs::write(at(file), "").unwrap();
        }
        let roots = [scratch.0.clone()];
        let found = Repositories::below(&roots);
        let set = |names: &[&str]| names.iter().map(|name| at(name)).collect::<BTreeSet<_>>();
        assert_eq!(found.git, set(&["a/b/c/d/e/f/.git", "node_modules/m/.git"]));
        assert_eq!(found.bare, set(&["bare"]));
        let modules = "a/b/c/d/e/f/.git/modules";
        assert_eq!(found.modules, set(&[&format!("{modules}/x"), &format!("{modules}/x/y")]));
        assert!(!found.incomplete && found.closed.is_empty());
        // What is near is found first where not all can be looked at.
        let few = Repositories::within(&roots, 12);
        assert!(few.incomplete && few.git == set(&["node_modules/m/.git"]), "{few:?}");
        // A root is one as well, and so is what says that the rest of it lies elsewhere.
        fs::write(at("half/commondir"), "../bare").unwrap();
        assert_eq!(Repositories::below(&roots).bare, set(&["bare", "half"]));
        assert_eq!(Repositories::below(&[at("bare")]).bare, set(&["bare"]));
    }
}
