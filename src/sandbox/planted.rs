//! What a run planted in its workspace where nothing stood before and what the host would act on: found and set aside after
//! the run, since no mount can keep a name that does not exist.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::raw::mounts;
use crate::request::quote;

/// Names that must not appear.
#[derive(Debug, Default)]
pub struct Planted {
    cwd: PathBuf,
    absent: Vec<PathBuf>,
    /// The same of the policy's `deny`, each with the deepest directory above it that did exist.
    denied: Vec<(PathBuf, PathBuf)>,
    /// A repository that did not exist: making one is ordinary work, but its settings are the run's.
    repository: Option<PathBuf>,
    /// Links that must lead where they led.
    links: Vec<(PathBuf, PathBuf)>,
    /// Every `.git` below `cwd` before the run; `None` where there was too much to look through.
    repositories: Option<BTreeSet<PathBuf>>,
}

/// How many entries of directories are looked through for repositories.
const MAX_ENTRIES: usize = 65_536;

/// Every `.git` below a directory, at any depth; `None` where there is too much to look through.
fn repositories(top: &Path) -> Option<BTreeSet<PathBuf>> {
    let (mut found, mut left, mut dirs) = (BTreeSet::new(), MAX_ENTRIES, vec![top.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            left = left.checked_sub(1)?;
            if entry.file_name() == ".git" {
                found.insert(entry.path());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(entry.path());
            }
        }
    }
    Some(found)
}

impl Planted {
    /// Watches names below `cwd` that do not exist yet.
    pub fn watch(cwd: &Path, absent: &[PathBuf], links: &[(PathBuf, PathBuf)]) -> Planted {
        let git = cwd.join(".git");
        let fresh = git.symlink_metadata().is_err();
        Planted {
            cwd: cwd.to_owned(),
            absent: absent.to_vec(),
            denied: Vec::new(),
            repository: fresh.then_some(git),
            links: links.to_vec(),
            repositories: repositories(cwd),
        }
    }

    /// Watches a path of `deny`, where it does not exist yet and lies where the run may write: nothing can be put over it.
    pub fn refuse(&mut self, path: &Path, writable: &[PathBuf]) {
        if path.symlink_metadata().is_ok() {
            return;
        }
        // Links on the way are the host's, and none of them is to be renamed.
        let existing = path.ancestors().skip(1).find_map(|dir| Some((crate::sys::canonical(dir).ok()?, dir)));
        let Some((dir, rest)) = existing.and_then(|(real, dir)| Some((real, path.strip_prefix(dir).ok()?)))
        else {
            return;
        };
        if writable.iter().any(|above| dir.starts_with(above)) {
            let path = dir.join(rest);
            self.denied.push((dir, path));
        }
    }

    /// Renames what appeared, so that nothing runs it. One sentence each.
    pub fn set_aside(&self) -> Vec<String> {
        let one = |path: &PathBuf| aside(&culprit(&self.cwd, path)?, ACTED_ON);
        let mut said: Vec<String> = self.absent.iter().filter_map(one).collect();
        said.extend(self.denied.iter().filter_map(|(dir, path)| aside(&culprit(dir, path)?, DENIED)));
        let replaced = |(link, to): &&(PathBuf, PathBuf)| {
            link.symlink_metadata().is_ok() && !std::fs::read_link(link).is_ok_and(|now| now == *to)
        };
        said.extend(self.links.iter().filter(replaced).filter_map(|(link, _)| aside(link, ACTED_ON)));
        self.nested(&mut said);
        if let Some(git) = self.repository.as_ref().filter(|git| git.symlink_metadata().is_ok()) {
            said.push(made(git));
        }
        said
    }

    /// A repository inside another one: the outer one's index, which the run may write, can make it a submodule, and
    /// then `git status` of the outer one runs what the inner one's settings say.
    fn nested(&self, said: &mut Vec<String>) {
        let Some(before) = &self.repositories else { return };
        let Some(after) = repositories(&self.cwd) else {
            said.push(
                "the working directory is large: whether the run made repositories in it was not looked at"
                    .to_owned(),
            );
            return;
        };
        let inside = |git: &Path| git.ancestors().skip(2).any(|dir| before.contains(&dir.join(".git")));
        for git in after.difference(before).filter(|git| Some(*git) != self.repository.as_ref()) {
            if inside(git) {
                said.extend(aside(git, ACTED_ON));
            } else {
                said.push(made(git));
            }
        }
    }
}

/// What has to go so that `path` below `top` is no more: itself, or a link on the way to it, which may lead anywhere and is
/// not followed.
fn culprit(top: &Path, path: &Path) -> Option<PathBuf> {
    let mut steps: Vec<&Path> = path.ancestors().take_while(|step| *step != top).collect();
    steps.reverse();
    for step in steps {
        let found = step.symlink_metadata().ok()?;
        if step == path || found.is_symlink() {
            return Some(step.to_owned());
        }
    }
    None
}

/// Why something is set aside.
const ACTED_ON: &str = "which the host would act on";
const DENIED: &str = "which the policy denies and which did not exist before";

/// Renames it; the sentence about it.
fn aside(culprit: &Path, why: &str) -> Option<String> {
    let name = culprit.file_name()?;
    let aside = [name.as_bytes(), format!(".set-aside-{}", std::process::id()).as_bytes()].concat();
    let aside = OsStr::from_bytes(&aside);
    let what = format!("the run made {}, {why}", shown(culprit));
    Some(match rename(culprit.parent()?, name, aside) {
        Ok(()) => format!("{what}: it was renamed to {}", shown(&culprit.with_file_name(aside))),
        Err(errno) => {
            let why = std::io::Error::from_raw_os_error(errno);
            format!("{what}, and it could not be renamed: {why}")
        }
    })
}

fn made(git: &Path) -> String {
    format!(
        "the run made the repository {}: its settings and hooks are the run's own, look at them before git runs there",
        shown(git)
    )
}

fn shown(path: &Path) -> String {
    quote::display(path.as_os_str().as_bytes())
}

/// Renames inside one directory, reached without following a link.
fn rename(dir: &Path, from: &OsStr, to: &OsStr) -> Result<(), i32> {
    let c = |bytes: &[u8]| CString::new(bytes).map_err(|_| libc::EINVAL);
    let dir = mounts::open_canonical(&c(dir.as_os_str().as_bytes())?)?;
    nix::fcntl::renameat(&dir, from, &dir, to).map_err(|errno| errno as i32)
}

#[cfg(test)]
mod tests {
    use super::super::raw::attack::Scratch;
    use super::*;
    use std::fs;

    #[test]
    fn a_planted_file_is_renamed_and_a_link_is_not_followed() {
        let scratch = Scratch::new("planted");
        let (cwd, outside) = (scratch.0.join("cwd"), scratch.0.join("outside"));
        fs::create_dir_all(&cwd).unwrap();
        fs::create_dir_all(outside.join("hooks")).unwrap();
        let absent = [cwd.join(".envrc"), cwd.join(".github/hooks"), cwd.join(".vscode")];
        let planted = Planted::watch(&cwd, &absent, &[]);
        assert_eq!(planted.set_aside(), Vec::<String>::new());
        fs::write(cwd.join(".envrc"), "x").unwrap();
        std::os::unix::fs::symlink(&outside, cwd.join(".github")).unwrap();
        fs::create_dir(cwd.join(".git")).unwrap();
        let said = planted.set_aside();
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(!cwd.join(".envrc").exists() && !cwd.join(".github").exists());
        assert!(outside.join("hooks").exists(), "what the link leads to is not the run's");
        assert!(cwd.join(".git").exists() && said[2].contains(".git"), "{said:?}");
    }

    #[test]
    fn what_is_denied_and_was_not_there_is_renamed_and_links_of_the_host_are_not() {
        let scratch = Scratch::new("planted-deny");
        let at = |name: &str| scratch.0.join(name);
        fs::create_dir_all(at("cwd/real")).unwrap();
        fs::write(at("cwd/there"), "x").unwrap();
        std::os::unix::fs::symlink("real", at("cwd/link")).unwrap();
        let mut planted = Planted::default();
        for name in ["cwd/link/secret", "cwd/new/deep", "cwd/there", "outside"] {
            planted.refuse(&at(name), &[at("cwd")]);
        }
        fs::write(at("cwd/real/secret"), "x").unwrap();
        fs::create_dir_all(at("cwd/new/deep")).unwrap();
        fs::write(at("outside"), "x").unwrap();
        let said = planted.set_aside();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said.iter().all(|line| line.contains(DENIED)), "{said:?}");
        assert!(!at("cwd/real/secret").exists() && !at("cwd/new/deep").exists());
        assert!(at("cwd/link").exists() && at("cwd/there").exists() && at("outside").exists());
    }
}
