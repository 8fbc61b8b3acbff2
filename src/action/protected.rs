//! What makes the *host* run code later, which no action writes or deletes: repositories' own files, and the start-up files
//! of shells, editors and agents. The same names that a run under `workspace` cannot change, here at any depth below the
//! root, and in every spelling that a file system without regard to case would take for them.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;

use super::said::{Said, Step, shown};
use crate::decision::ActionCall;
use crate::request::quote::is_plain;
use crate::sandbox::mount::keep::{STARTUP, named_by_git};

/// Whether the path has such a name in it.
pub(super) fn by_name(names: &[&OsStr]) -> bool {
    let folded: Vec<String> = names.iter().map(|name| fold(name)).collect();
    let repository = |name: &String| name == ".git" || short_git(name);
    let startup = |entry: &&str| {
        let parts: Vec<&str> = entry.split('/').collect();
        folded.windows(parts.len()).any(|window| window.iter().zip(&parts).all(|(name, part)| name == part))
    };
    folded.iter().any(repository) || STARTUP.iter().any(startup)
}

/// Whether the directory is a repository's own, without a work tree around it or apart from it, or would be with one more
/// name in it.
pub(super) fn is_repository(dir: &OwnedFd, more: Option<&OsStr>) -> bool {
    let there = |name: &&str| {
        more.is_some_and(|more| more == *name)
            || fstatat(dir, OsStr::new(*name), AtFlags::AT_SYMLINK_NOFOLLOW).is_ok()
    };
    there(&"HEAD") && (there(&"commondir") || ["objects", "refs"].iter().all(there))
}

/// Whether a repository around `dir` names the file in its settings: as a directory of hooks, or as more settings.
pub(super) fn by_settings(dir: &Path, names: &[&OsStr]) -> bool {
    let path = names.last().map_or_else(|| dir.to_path_buf(), |name| dir.join(name));
    dir.ancestors().flat_map(named_by_git).any(|named| {
        let real = crate::sys::canonical(&named).unwrap_or_else(|_| named.clone());
        path.starts_with(&named) || path.starts_with(real)
    })
}

pub(super) fn refused<T>(call: &ActionCall) -> Step<T> {
    Said::refused(
        format!("{} is one of the files that make the host run code, which no action changes", shown(call)),
        "put it somewhere else, or ask a person to change it",
    )
}

/// A name as a file system may see it that has no regard to case, to characters without a shape, or to dots at the end.
fn fold(name: &OsStr) -> String {
    let text = String::from_utf8_lossy(name.as_bytes());
    let seen: String = text.chars().filter(|c| is_plain(*c)).flat_map(char::to_lowercase).collect();
    seen.trim_end_matches(['.', ' ']).to_owned()
}

/// The short name that `.git` has on some file systems: `GIT~1`.
fn short_git(name: &str) -> bool {
    name.strip_prefix("git~").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protected(path: &str) -> bool {
        by_name(&Path::new(path).iter().collect::<Vec<_>>())
    }

    #[test]
    fn names_are_known_at_any_depth_and_in_any_spelling() {
        for path in [
            ".git",
            ".git/config",
            "a/b/.git/hooks/pre-commit",
            ".GIT/config",
            "GIT~1/config",
            "a/git~12",
            ".git\u{200c}/x",
            ".git./x",
            ".git /x",
            ".envrc",
            "sub/.envrc",
            ".vscode/settings.json",
            ".VSCode/tasks.json",
            ".github/hooks/x",
            "a/.hg/hgrc",
            ".bashrc",
            ".ssh/authorized_keys",
        ] {
            assert!(protected(path), "{path}");
        }
        for path in [
            "a",
            ".gitignore",
            "git",
            "git~",
            "git~x",
            ".github/workflows/ci.yml",
            "hooks",
            ".hg/store",
            "a.git",
            "bashrc",
            ".envrc.example",
            "",
        ] {
            assert!(!protected(path), "{path}");
        }
    }
}
