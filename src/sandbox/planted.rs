//! What a run planted in its workspace where nothing stood before and what the host would act on: found and set aside after
//! the run, since no mount can keep a name that does not exist.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::renameat;

use self::rebase::Rebases;
use super::raw::mounts;
use super::repositories::Repositories;
use crate::request::quote;
use crate::sys::{errno_of, fd};

mod rebase;
mod settings;

/// Names that must not appear.
#[derive(Debug, Default)]
pub struct Planted {
    /// What the run may write.
    roots: Vec<PathBuf>,
    absent: Vec<PathBuf>,
    /// The same of the policy's `deny`, each with the deepest directory above it that did exist.
    denied: Vec<(PathBuf, PathBuf)>,
    /// Links that must lead where they led.
    links: Vec<(PathBuf, PathBuf)>,
    /// The repositories below the roots before the run.
    before: Repositories,
    /// What a rebase in them would have run if somebody had gone on with it then.
    rebases: Rebases,
}

impl Planted {
    /// Watches names below `roots` that do not exist yet, and for repositories besides those that are there `before`.
    pub fn watch(
        roots: Vec<PathBuf>,
        absent: &[PathBuf],
        links: &[(PathBuf, PathBuf)],
        before: Repositories,
    ) -> Planted {
        let rebases = Rebases::find(&before);
        Planted { roots, absent: absent.to_vec(), denied: Vec::new(), links: links.to_vec(), before, rebases }
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
        let one = |path: &PathBuf| aside(&culprit(self.root_of(path)?, path)?, ACTED_ON);
        let mut said: Vec<String> = self.absent.iter().filter_map(one).collect();
        said.extend(self.denied.iter().filter_map(|(dir, path)| aside(&culprit(dir, path)?, DENIED)));
        let replaced = |(link, to): &&(PathBuf, PathBuf)| {
            link.symlink_metadata().is_ok() && !std::fs::read_link(link).is_ok_and(|now| now == *to)
        };
        said.extend(self.links.iter().filter(replaced).filter_map(|(link, _)| aside(link, ACTED_ON)));
        if !self.before.incomplete {
            self.repositories(&mut said);
        }
        said
    }

    fn root_of(&self, path: &Path) -> Option<&Path> {
        self.roots.iter().map(PathBuf::as_path).filter(|root| path.starts_with(root)).max()
    }

    /// Repositories that the run made. Inside another one an entry of the outer one's index, which the run may write, is
    /// enough for `git status` there to act on them; elsewhere it is enough to go there.
    fn repositories(&self, said: &mut Vec<String>) {
        let after = Repositories::below(&self.roots);
        if after.incomplete {
            said.push(
                "the run made so much that not all of it was looked through for repositories of its own"
                    .to_owned(),
            );
        }
        for git in after.git.difference(&self.before.git).chain(after.bare.difference(&self.before.bare)) {
            if git.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                said.push(made(git));
                let mut dangerous = settings::dangerous(git);
                if !dangerous.is_empty() && self.roots.contains(git) {
                    // What is called `config` or `hooks` in a workspace need not be git's; without this it never is.
                    dangerous = vec![git.join("HEAD")];
                }
                said.extend(dangerous.iter().filter_map(|path| aside(path, ACTED_ON)));
            } else {
                said.extend(aside(git, ACTED_ON));
            }
        }
        self.modules(&after, said);
        said.extend(self.rebases.set_aside(&after));
        let closed = after.closed.difference(&self.before.closed);
        said.extend(
            closed
                .map(|dir| format!("the run closed {}: what it made in there was not looked at", shown(dir))),
        );
    }

    /// `git submodule update` takes what it finds in a known repository's `modules` for the submodule's own, whatever it is
    /// called there: so it is taken out of it.
    fn modules(&self, after: &Repositories, said: &mut Vec<String>) {
        let known = |dir: &Path| {
            self.before.git.iter().chain(&self.before.bare).find(|git| dir.starts_with(git)).cloned()
        };
        let mut last: Option<&PathBuf> = None;
        for dir in after.modules.difference(&self.before.modules) {
            if last.is_some_and(|above| dir.starts_with(above)) {
                continue;
            }
            last = Some(dir);
            if let Some(git) = known(dir) {
                said.extend(moved(dir, &git, ACTED_ON));
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

/// How much of its name it keeps, in bytes.
const MAX_NAME: usize = 200;

/// Renames it; the sentence about it.
fn aside(culprit: &Path, why: &str) -> Option<String> {
    moved(culprit, culprit.parent()?, why)
}

/// The same, into another directory of the same file system.
fn moved(culprit: &Path, into: &Path, why: &str) -> Option<String> {
    let what = format!("the run made {}, {why}", shown(culprit));
    Some(match rename(culprit.parent()?, culprit.file_name()?, into) {
        Ok(aside) => format!("{what}: it was renamed to {}", shown(&into.join(aside))),
        Err(errno) => {
            let why = std::io::Error::from_raw_os_error(errno);
            format!("{what}, and it could not be renamed: {why}")
        }
    })
}

fn made(git: &Path) -> String {
    format!(
        "the run made the repository {}: look at its settings and its history before git runs there",
        shown(git)
    )
}

fn shown(path: &Path) -> String {
    quote::display(path.as_os_str().as_bytes())
}

/// Renames from one directory into another (or the same), reached without following a link, to a name that nobody could
/// foresee.
fn rename(dir: &Path, from: &OsStr, into: &Path) -> Result<OsString, i32> {
    let reach = |dir: &Path| {
        mounts::open_canonical(&CString::new(dir.as_os_str().as_bytes()).map_err(|_| libc::EINVAL)?)
    };
    let (dir, into) = (reach(dir)?, reach(into)?);
    let drawn = getrandom::u32().map_err(|_| libc::EAGAIN)?;
    // A name as long as names can be leaves no room for more.
    let name = &from.as_bytes()[..from.len().min(MAX_NAME)];
    let to = [name, format!(".set-aside-{drawn:08x}").as_bytes()].concat();
    let to = OsStr::from_bytes(&to).to_owned();
    let c_name = |name: &OsStr| CString::new(name.as_bytes()).map_err(|_| libc::EINVAL);
    let (old, new) = (c_name(from)?, c_name(&to)?);
    let once = || match fd::rename_to_new(dir.as_fd(), &old, into.as_fd(), &new) {
        // Not every file system has the flag.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            renameat(&dir, from, &into, to.as_os_str()).map_err(|errno| errno as i32)
        }
        done => done.map_err(|error| errno_of(&error)),
    };
    match once() {
        // The run's own directories, which it may have closed to us, being the same user.
        Err(libc::EACCES) => opened(&dir, || opened(&into, once))?,
        done => done?,
    }
    Ok(to)
}

/// Does it while the owner of the directory may write to it.
fn opened(dir: &OwnedFd, once: impl Fn() -> Result<(), i32>) -> Result<(), i32> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
    let errno = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EACCES);
    let before = path.metadata().map_err(errno)?.permissions();
    let open = std::fs::Permissions::from_mode(before.mode() | 0o300);
    std::fs::set_permissions(&path, open).map_err(errno)?;
    let done = once();
    std::fs::set_permissions(&path, before).map_err(errno)?;
    done
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
        let roots = vec![cwd.clone()];
        let planted = Planted::watch(roots.clone(), &absent, &[], Repositories::below(&roots));
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
