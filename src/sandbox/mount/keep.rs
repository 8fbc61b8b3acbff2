//! What in a writable workspace would make the *host* run code later: repositories' settings and hooks, editor and shell
//! start-up files. What exists is kept by mounts; what does not exist yet cannot be, and is looked for afterwards.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat, mkdirat};

use super::raw;

mod gitconfig;

/// Start-up files and directories of shells, editors and agents, looked up in the working directory.
pub(crate) const STARTUP: &[&str] = &[
    ".envrc",
    ".vscode",
    ".idea",
    ".zed",
    ".cursor",
    ".claude",
    ".devcontainer",
    ".github/hooks",
    ".mcp.json",
    ".codex",
    ".gemini",
    ".windsurf",
    ".mise.toml",
    "mise.toml",
    ".hg/hgrc",
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
    ".tmux.conf",
    ".gitconfig",
    ".ssh",
];

/// Names in a git directory that decide what git runs. `commondir` sends it to another directory's settings.
const IN_GIT: &[&str] = &["config", "config.worktree", "hooks", "info", "commondir"];
/// Those that git itself makes empty in every repository, and that are made here so that they can be kept.
const MADE: &[&str] = &["hooks", "info"];

/// Directories of git's own in a git directory, where no submodule is looked for.
const OF_GIT: [&str; 7] = ["objects", "refs", "logs", "hooks", "info", "branches", "lfs"];
/// How many names deep submodules' git directories are looked for.
const MAX_MODULES: usize = 8;
/// How deep below the working directory repositories are looked for.
const MAX_DEPTH: usize = 4;
/// How many directory entries are looked at.
const MAX_ENTRIES: usize = 4096;

/// What has to stay as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// Directories that stay writable but cannot be renamed away: they become mount points.
    pub in_place: Vec<PathBuf>,
    /// Files and directories that cannot be changed, replaced or removed.
    pub read_only: Vec<PathBuf>,
    /// Names that did not exist and must not exist afterwards (see [`appeared`]).
    pub absent: Vec<PathBuf>,
    /// Links with what they lead to: no mount keeps a link, so that it was replaced is seen afterwards.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// The search was cut short: not every repository was found.
    pub incomplete: bool,
}

/// Finds what to keep in `cwd`, which the run may write to.
pub fn find(cwd: &Path) -> Kept {
    let mut kept = Kept::default();
    for name in STARTUP {
        kept.hold(&cwd.join(name), cwd);
    }
    // Its own repository first: however many entries there are, that one is found.
    kept.git(&cwd.join(".git"), cwd);
    let mut left = MAX_ENTRIES;
    search(cwd, cwd, 0, &mut left, &mut kept);
    // Outermost first: a mount covers what was mounted beneath it before.
    kept.in_place.sort();
    kept.in_place.dedup();
    kept
}

/// What the settings of the repository whose work tree `top` is name besides themselves, as git would find it.
pub(crate) fn named_by_git(top: &Path) -> Vec<PathBuf> {
    gitconfig::named(&top.join(".git/config"), top)
}

/// Which of the names that must not exist do now.
pub fn appeared(kept: &Kept) -> Vec<PathBuf> {
    kept.absent.iter().filter(|path| path.symlink_metadata().is_ok()).cloned().collect()
}

impl Kept {
    /// Keeps files of the guard's own that lie in writable trees: each stays as it is, and no directory above it can
    /// be renamed away and planted again.
    pub fn hold_in_place(&mut self, files: &[PathBuf], writable: &[PathBuf]) {
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

    fn git(&mut self, git: &Path, cwd: &Path) {
        match git.symlink_metadata() {
            Ok(found) if found.is_dir() => self.repository(git, cwd),
            // A linked work tree or a submodule: a file (or link) that says where its git directory is.
            Ok(_) => self.hold(git, cwd),
            Err(_) => {}
        }
    }

    fn repository(&mut self, git: &Path, cwd: &Path) {
        let above = git.ancestors().take_while(|dir| *dir != cwd);
        self.in_place.extend(above.map(Path::to_owned));
        self.git_dir(git);
        self.modules(&git.join("modules"), 0);
        let worktrees = git.join("worktrees");
        for entry in plain_dirs_in(&worktrees) {
            self.in_place.extend([worktrees.clone(), entry.clone()]);
            // `commondir` says whose settings and hooks count there.
            for name in ["config.worktree", "commondir", "gitdir"] {
                self.note(&entry.join(name));
            }
        }
        let top = git.parent().unwrap_or(git);
        for path in gitconfig::named(&git.join("config"), top).iter().filter(|p| p.starts_with(cwd)) {
            self.hold(path, cwd);
        }
    }

    /// The git directories of submodules; their names may have slashes in them.
    fn modules(&mut self, dir: &Path, depth: usize) {
        if depth > MAX_MODULES || !is_plain_dir(dir) {
            self.incomplete |= depth > MAX_MODULES;
            return;
        }
        self.in_place.push(dir.to_owned());
        for entry in plain_dirs_in(dir) {
            if entry.join("HEAD").exists() || entry.join("config").exists() {
                self.git_dir(&entry);
            }
            // Also where it looks like a git directory: a run can make any name look so.
            if !OF_GIT.iter().any(|own| entry.ends_with(own)) {
                self.modules(&entry, depth + 1);
            }
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
    entries.map(|entry| entry.path()).filter(|path| is_plain_dir(path)).take(MAX_ENTRIES).collect()
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

fn search(dir: &Path, cwd: &Path, depth: usize, left: &mut usize, kept: &mut Kept) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut below = Vec::new();
    for entry in entries.flatten() {
        if *left == 0 {
            kept.incomplete = true;
            return;
        }
        *left -= 1;
        let Ok(kind) = entry.file_type() else { continue };
        let name = entry.file_name();
        if name == ".git" {
            if depth > 0 {
                kept.git(&entry.path(), cwd);
            }
        } else if kind.is_dir() && name != "node_modules" && name != "target" {
            below.push(entry.path());
        }
    }
    if depth == MAX_DEPTH {
        kept.incomplete |= !below.is_empty();
        return;
    }
    for dir in below {
        search(&dir, cwd, depth + 1, left, kept);
    }
}
