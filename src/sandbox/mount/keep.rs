//! What in a writable workspace would make the *host* run code later: repositories' settings and hooks, editor and shell
//! start-up files. What exists is kept by mounts; what does not exist yet cannot be, and is looked for afterwards.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat, mkdirat};

use super::raw;
use crate::sandbox::repositories::Repositories;
use crate::sys::account::account;

pub(in crate::sandbox) mod gitconfig;

/// Start-up files and directories of shells, interpreters, editors and agents, looked up in the working directory.
pub(crate) const STARTUP: &[&str] = &[
    ".envrc",
    ".vscode",
    ".idea",
    ".zed",
    ".cursor",
    ".claude",
    ".devcontainer",
    ".devcontainer.json",
    ".github/hooks",
    ".mcp.json",
    ".codex",
    ".agents",
    ".gemini",
    ".qwen",
    ".kiro",
    ".amazonq",
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
    ".aider.conf.yml",
    ".windsurf",
    ".mise.toml",
    ".mise.local.toml",
    "mise.toml",
    "mise.local.toml",
    ".mise",
    ".config/mise.toml",
    ".hg/hgrc",
    ".jj/repo/config.toml",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".inputrc",
    ".vimrc",
    ".exrc",
    ".nvimrc",
    ".nvim.lua",
    ".emacs",
    ".dir-locals.el",
    ".gdbinit",
    ".lldbinit",
    ".pdbrc",
    ".irbrc",
    ".pryrc",
    ".Rprofile",
    ".ocamlinit",
    ".ghci",
    ".ripgreprc",
    ".tmux.conf",
    ".gitconfig",
    ".config/git",
    ".ssh",
];

/// Names in a git directory that decide what git runs. `commondir` sends it to another directory's settings.
const IN_GIT: &[&str] = &["config", "config.worktree", "hooks", "info", "commondir"];
/// Those that git itself makes empty in every repository, and that are made here so that they can be kept.
const MADE: &[&str] = &["hooks", "info"];

/// How many repositories are kept: each costs the run some mounts.
const MAX_REPOSITORIES: usize = 512;

/// What has to stay as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// Directories that stay writable but cannot be renamed away: they become mount points.
    pub in_place: Vec<PathBuf>,
    /// Files and directories that cannot be changed, replaced or removed.
    pub read_only: Vec<PathBuf>,
    /// Names that did not exist and must not exist afterwards.
    pub absent: Vec<PathBuf>,
    /// Links with what they lead to: no mount keeps a link, so that it was replaced is seen afterwards.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// The search was cut short: not every repository was found.
    pub incomplete: bool,
}

/// Finds what to keep in `roots`, which the run may write to, and where `found` are the repositories.
pub fn find(roots: &[PathBuf], found: &Repositories) -> Kept {
    let mut kept = Kept { incomplete: found.incomplete, ..Kept::default() };
    for root in roots {
        for name in STARTUP {
            kept.hold(&root.join(name), root);
        }
    }
    let all = found.git.iter().chain(&found.bare);
    // A root's own first: however many there are, that one is kept.
    let (own, below): (Vec<&PathBuf>, Vec<_>) =
        all.partition(|git| roots.iter().any(|r| git.parent() == Some(r)));
    kept.incomplete |= own.len() + below.len() > MAX_REPOSITORIES;
    for git in own.into_iter().chain(below).take(MAX_REPOSITORIES) {
        // Roots may lie in each other.
        if let Some(root) = roots.iter().filter(|root| git.starts_with(root)).min() {
            kept.git(git, root, &found.modules);
        }
    }
    // Outermost first: a mount covers what was mounted beneath it before.
    kept.in_place.sort();
    kept.in_place.dedup();
    kept
}

/// What the settings of the repository whose work tree `top` is name besides themselves, as git would find it.
pub(crate) fn named_by_git(top: &Path) -> Vec<PathBuf> {
    named_by(&top.join(".git"), top)
}

/// The same for a git directory; nothing where there is none.
fn named_by(git: &Path, top: &Path) -> Vec<PathBuf> {
    let Ok(found) = git.symlink_metadata() else { return Vec::new() };
    // Whoever uses git there.
    named_for(account(found.uid()).map(|account| account.home).as_deref(), git, top)
}

/// The same for a user with this home directory.
fn named_for(home: Option<&Path>, git: &Path, top: &Path) -> Vec<PathBuf> {
    // What every repository of its owner follows: hooks there may lie in the work tree too.
    let own = home.into_iter().flat_map(|home| [home.join(".gitconfig"), home.join(".config/git/config")]);
    let all = own.chain([PathBuf::from("/etc/gitconfig"), git.join("config")]);
    all.flat_map(|config| gitconfig::named(&config, top, home)).collect()
}

impl Kept {
    /// Keeps where they are the guard's own files and what is hidden, as far as they lie in writable trees: no directory
    /// above can be renamed away, which would show what it hides to the next run, and let this one plant another in its place.
    pub fn hold_in_place<'p>(&mut self, files: impl Iterator<Item = &'p Path>, writable: &[PathBuf]) {
        for file in files {
            let above = file.ancestors().skip(1).take_while(|dir| !writable.iter().any(|w| w == dir));
            if file.exists() && writable.iter().any(|w| file.starts_with(w)) {
                self.in_place.extend(above.map(Path::to_owned));
            }
        }
        self.in_place.sort();
        self.in_place.dedup();
    }

    fn note(&mut self, path: &Path) {
        match path.symlink_metadata() {
            // A link cannot be a mount point; what it leads to is kept where it is writable at all.
            Ok(found) if found.is_symlink() => {
                let Ok(to) = fs::read_link(path) else { return };
                match crate::sys::canonical(path) {
                    Ok(real) => self.read_only.push(real),
                    Err(_) => self.absent.extend(path.parent().map(|dir| dir.join(&to))),
                }
                self.links.push((path.to_owned(), to));
            }
            Ok(_) => self.read_only.push(path.to_owned()),
            Err(_) => self.absent.push(path.to_owned()),
        }
    }

    /// Notes a path, and that no directory on the way to it may be renamed away and planted again.
    fn hold(&mut self, path: &Path, cwd: &Path) {
        let above = path.ancestors().skip(1).take_while(|dir| dir.starts_with(cwd) && *dir != cwd);
        self.in_place.extend(above.filter(|dir| is_plain_dir(dir)).map(Path::to_owned));
        self.note(path);
    }

    fn git(&mut self, git: &Path, root: &Path, modules: &BTreeSet<PathBuf>) {
        match git.symlink_metadata() {
            Ok(found) if found.is_dir() => self.repository(git, root, modules),
            // A linked work tree or a submodule: a file (or link) that says where its git directory is.
            Ok(_) => self.hold(git, root),
            Err(_) => {}
        }
    }

    fn repository(&mut self, git: &Path, root: &Path, modules: &BTreeSet<PathBuf>) {
        let above = git.ancestors().take_while(|dir| *dir != root);
        self.in_place.extend(above.map(Path::to_owned));
        self.git_dir(git);
        self.modules(&git.join("modules"), modules);
        let worktrees = git.join("worktrees");
        for entry in plain_dirs_in(&worktrees) {
            self.in_place.extend([worktrees.clone(), entry.clone()]);
            // `commondir` says whose settings and hooks count there.
            for name in ["config.worktree", "commondir", "gitdir"] {
                self.note(&entry.join(name));
            }
        }
        let top = if git.ends_with(".git") { git.parent().unwrap_or(git) } else { git };
        for path in named_by(git, top).iter().filter(|path| path.starts_with(root)) {
            self.hold(path, root);
        }
    }

    /// The git directories of submodules.
    fn modules(&mut self, dir: &Path, all: &BTreeSet<PathBuf>) {
        if !is_plain_dir(dir) {
            return;
        }
        self.in_place.push(dir.to_owned());
        for entry in all.iter().filter(|entry| entry.starts_with(dir)) {
            if entry.join("HEAD").exists() || entry.join("config").exists() {
                self.git_dir(entry);
            }
            self.in_place.push(entry.clone());
        }
    }

    fn git_dir(&mut self, dir: &Path) {
        for name in IN_GIT {
            let path = dir.join(name);
            if MADE.contains(name) && path.symlink_metadata().is_err() {
                make_empty(&path, dir);
            }
            self.note(&path);
        }
    }
}

fn is_plain_dir(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

fn plain_dirs_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| is_plain_dir(path)).take(MAX_REPOSITORIES).collect()
}

/// An empty directory, owned like the one it is in. Where it cannot be made it stays absent. It is given away by
/// descriptor: whoever owns the workspace could put a link in its place meanwhile.
fn make_empty(path: &Path, like: &Path) {
    let (Some(name), Ok(like)) = (path.file_name(), CString::new(like.as_os_str().as_bytes())) else {
        return;
    };
    // No link is followed, in no part of the path.
    let Ok(dir) = raw::open_canonical(&like) else { return };
    if mkdirat(&dir, name, Mode::from_bits_truncate(0o755)).is_err() {
        return;
    }
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    if let (Ok(made), Ok(owner)) = (openat(&dir, name, flags, Mode::empty()), fstat(&dir)) {
        let _ = fchown(made, Some(owner.st_uid), Some(owner.st_gid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::raw::attack::Scratch;

    #[test]
    fn what_every_repository_of_a_user_follows_counts_in_each() {
        let scratch = Scratch::new("keep-home");
        let (home, top) = (scratch.0.join("home"), scratch.0.join("top"));
        fs::create_dir_all(home.join(".config/git")).unwrap();
        fs::create_dir_all(top.join(".git")).unwrap();
        fs::write(home.join(".gitconfig"), "[core]\nhooksPath = .hooks\n").unwrap();
        fs::write(home.join(".config/git/config"), "[core]\nhooksPath = ~/mine\n").unwrap();
        fs::write(top.join(".git/config"), "[core]\nhooksPath = .own\n").unwrap();
        let found = named_for(Some(&home), &top.join(".git"), &top);
        for path in [top.join(".hooks"), home.join("mine"), top.join(".own")] {
            assert!(found.contains(&path), "{path:?} in {found:?}");
        }
        assert!(named_by_git(&scratch.0).is_empty(), "no repository");
    }
}
