//! What a repository that the run made says of itself. To make one is ordinary work, and the next run wants to find it
//! there; what would make the host's git run something is not.

use std::path::{Path, PathBuf};

use crate::sandbox::mount::keep::gitconfig::{self, Setting};

/// What `git init`, `git clone` and their like write, and what makes git run nothing, read nothing elsewhere and write
/// nowhere else.
const HARMLESS: &[&str] = &[
    "branch.merge",
    "branch.rebase",
    "branch.remote",
    "core.autocrlf",
    "core.bare",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.logallrefupdates",
    "core.precomposeunicode",
    "core.quotepath",
    "core.repositoryformatversion",
    "core.symlinks",
    "extensions.objectformat",
    "extensions.refstorage",
    "init.defaultbranch",
    "pull.rebase",
    "push.default",
    "remote.fetch",
    "remote.tagopt",
    "remote.url",
    "submodule.active",
    "submodule.url",
    "user.email",
    "user.name",
];

/// What in the git directory decides what git runs, and does not say harmless things only.
pub(super) fn dangerous(git: &Path) -> Vec<PathBuf> {
    let there = |name: &str| Some(git.join(name)).filter(|path| path.symlink_metadata().is_ok());
    let mut found = Vec::new();
    found.extend(there("config").filter(|path| !says_harmless_things(path)));
    found.extend(["config.worktree", "commondir"].into_iter().filter_map(there));
    found.extend(there("hooks").filter(|path| !holds_only(path, is_sample)));
    found.extend(there("modules").filter(|path| !holds_only(path, |_| false)));
    found
}

fn says_harmless_things(config: &Path) -> bool {
    // A link leads to what may change later.
    config.symlink_metadata().is_ok_and(|found| found.is_file())
        && gitconfig::read(config).is_some_and(|(settings, whole)| whole && settings.iter().all(is_harmless))
}

fn is_harmless(setting: &Setting) -> bool {
    let value = setting.value.as_deref().unwrap_or_default();
    // `ext::sh -c ...` and the helpers of other transports.
    let helper = setting.name.ends_with(".url") && value.contains("::");
    HARMLESS.contains(&setting.name.as_str()) && !helper && !value.starts_with('-')
}

/// A directory with no other entries than such.
fn holds_only(dir: &Path, wanted: fn(&Path) -> bool) -> bool {
    let plain = dir.symlink_metadata().is_ok_and(|found| found.is_dir());
    plain
        && std::fs::read_dir(dir).is_ok_and(|mut all| all.all(|entry| entry.is_ok_and(|e| wanted(&e.path()))))
}

/// What git itself puts there, and never runs.
fn is_sample(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sample")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::raw::attack::Scratch;
    use std::fs;

    #[test]
    fn what_git_makes_is_harmless_and_what_it_would_run_is_not() {
        let scratch = Scratch::new("settings");
        let git = scratch.0.join(".git");
        fs::create_dir_all(git.join("hooks")).unwrap();
        fs::create_dir(git.join("modules")).unwrap();
        fs::write(git.join("hooks/pre-commit.sample"), "x").unwrap();
        let made = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n[remote \"origin\"]\n\turl = https://host/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[user]\n\tname = a\n";
        fs::write(git.join("config"), made).unwrap();
        assert_eq!(dangerous(&git), Vec::<PathBuf>::new());
        for setting in [
            "[core]\nfsmonitor = x",
            "[core]\nhooksPath = x",
            "[core]\nworktree = /",
            "[include]\npath = x",
            "[alias]\ns = !x",
            "[remote \"o\"]\nurl = ext::sh -c x",
            "[remote \"o\"]\nuploadpack = x",
            "[core]\nfilemode = \"",
            "[filter \"l\"]\nclean = x",
        ] {
            fs::write(git.join("config"), format!("{made}{setting}\n")).unwrap();
            assert_eq!(dangerous(&git), [git.join("config")], "{setting}");
        }
        fs::remove_file(git.join("config")).unwrap();
        std::os::unix::fs::symlink("/dev/null", git.join("config")).unwrap();
        fs::write(git.join("commondir"), "x").unwrap();
        fs::write(git.join("hooks/pre-commit"), "x").unwrap();
        fs::create_dir(git.join("modules/m")).unwrap();
        assert_eq!(dangerous(&git), ["config", "commondir", "hooks", "modules"].map(|name| git.join(name)));
    }
}
