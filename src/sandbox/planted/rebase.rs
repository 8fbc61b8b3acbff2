//! Rebases that were not finished: `git rebase --continue` runs what their list of things to do says. A run may rebase; what
//! it leaves for the host to run is set aside.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::sandbox::repositories::Repositories;

/// What the list of each rebase would run; nothing can be said of one that is no plain file or too long.
pub(super) type Commands = BTreeMap<PathBuf, Option<BTreeSet<Vec<u8>>>>;

/// How much of a list is read.
const MAX_BYTES: u64 = 1 << 20;
/// Where it is in a git directory.
const LIST: &str = "rebase-merge/git-rebase-todo";

/// The commands of all rebases in these repositories, their submodules and linked work trees.
pub(super) fn commands(repositories: &Repositories) -> Commands {
    let Repositories { git, bare, modules, .. } = repositories;
    let mut found = Commands::new();
    for dir in git.iter().chain(bare).chain(modules) {
        let linked = std::fs::read_dir(dir.join("worktrees")).into_iter().flatten().flatten();
        for dir in linked.map(|entry| entry.path()).chain([dir.clone()]) {
            let list = dir.join(LIST);
            if list.symlink_metadata().is_ok() {
                let commands = read(&list);
                found.insert(list, commands);
            }
        }
    }
    found
}

/// The lists that would run what they would not have run before.
pub(super) fn grown(before: &Commands, repositories: &Repositories) -> Vec<PathBuf> {
    let known = |list: &PathBuf| before.get(list).and_then(Option::as_ref);
    let more = |(list, now): &(PathBuf, Option<BTreeSet<Vec<u8>>>)| match now {
        None => before.get(list) != Some(&None),
        Some(now) => !now.iter().all(|command| known(list).is_some_and(|before| before.contains(command))),
    };
    commands(repositories).into_iter().filter(more).map(|(list, _)| list).collect()
}

fn read(list: &Path) -> Option<BTreeSet<Vec<u8>>> {
    let found = list.symlink_metadata().ok().filter(|found| found.is_file() && found.len() <= MAX_BYTES)?;
    let mut text = Vec::with_capacity(usize::try_from(found.len()).unwrap_or_default());
    File::open(list).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text)).ok()?;
    Some(text.split(|byte| *byte == b'\n').filter_map(command).map(<[u8]>::to_vec).collect())
}

/// What a line of the list would run.
fn command(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    let (word, rest) = line.split_at(line.iter().position(u8::is_ascii_whitespace)?);
    matches!(word, b"exec" | b"x").then_some(rest.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::raw::attack::Scratch;
    use std::fs;

    #[test]
    fn what_a_list_would_run_besides_what_it_did_is_found_in_every_git_directory() {
        let scratch = Scratch::new("rebase");
        let at = |name: &str| scratch.0.join(name);
        let dirs = [".git", ".git/worktrees/w", ".git/modules/m"];
        let lists = dirs.map(|dir| at(dir).join(LIST));
        for list in &lists {
            fs::create_dir_all(list.parent().unwrap()).unwrap();
            fs::write(list, "# x\npick 1 exec\n\tx\tmake test\nbreak\n").unwrap();
        }
        let look = || Repositories::below(std::slice::from_ref(&scratch.0));
        let before = commands(&look());
        assert_eq!(before.len(), 3);
        fs::write(&lists[0], "exec make test\npick 2\n").unwrap();
        assert!(grown(&before, &look()).is_empty(), "it went on");
        fs::write(&lists[1], "pick 1\nexec make test\n  x rm").unwrap();
        fs::remove_file(&lists[2]).unwrap();
        std::os::unix::fs::symlink("/dev/null", &lists[2]).unwrap();
        let mut more = grown(&before, &look());
        more.sort();
        assert_eq!(more, [lists[2].clone(), lists[1].clone()]);
        assert_eq!(grown(&Commands::new(), &look()).len(), 3);
    }
}
