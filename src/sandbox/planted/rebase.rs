//! Rebases that were not finished: `git rebase --continue` runs what their list of things to do says. A run may rebase; what
//! it leaves for the host to run is set aside.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{ACTED_ON, culprit, moved, shown};
use crate::sandbox::mount::keep::gitconfig;
use crate::sandbox::repositories::Repositories;

/// How much of one list is read, how much of all of them, and how many.
const MAX_BYTES: u64 = 1 << 20;
const MAX_BYTES_OF_ALL: u64 = 4 << 20;
const MAX_LISTS: usize = 256;
/// How many linked work trees of all repositories are looked at.
const MAX_TREES: usize = 4096;
/// Where a list is in a git directory, and where the git directories of linked work trees are.
const LIST: &str = "rebase-merge/git-rebase-todo";
const TREES: &str = "worktrees";

/// Why something is set aside that nothing can be said of.
const UNJUDGED: &str = "which the host would act on and which cannot be judged";

/// SHA-256 of what a line would run: the texts are the run's, and may be as long as all lists are.
type Command = [u8; 32];

/// What each rebase would run. Nothing can be said of a list that is no plain file, is reached through a link, is too long
/// or is one too many; it stands under the name of what is to blame, which may be a directory above it.
#[derive(Debug, Default)]
pub(super) struct Rebases(BTreeMap<PathBuf, Option<BTreeSet<Command>>>);

impl Rebases {
    /// The rebases in these repositories, their submodules and linked work trees. None where not all repositories are known:
    /// nothing is compared with them then.
    pub(super) fn find(repositories: &Repositories) -> Rebases {
        if repositories.incomplete {
            return Rebases::default();
        }
        let mut left = Left::default();
        let judged = |place: PathBuf| {
            let commands = left.read(&place).map(|text| commands(&text).collect());
            (place, commands)
        };
        Rebases(places(repositories).into_iter().map(judged).collect())
    }

    /// Sets aside what would run what it would not have run before, and what cannot be judged any more. One sentence each.
    pub(super) fn set_aside(&self, after: &Repositories) -> Vec<String> {
        let mut places: Vec<PathBuf> = places(after).into_iter().collect();
        // What was there is read first: however much the run made, there is room for that.
        places.sort_by_key(|place| !self.0.contains_key(place));
        let mut left = Left::default();
        let (mut said, mut never) = (Vec::new(), Vec::new());
        for place in places {
            let before = self.0.get(&place);
            if before == Some(&None) {
                never.push(place);
                continue;
            }
            let known = |command| before.and_then(Option::as_ref).is_some_and(|all| all.contains(&command));
            match left.read(&place) {
                Some(text) if commands(&text).all(known) => {}
                Some(_) => said.extend(gone(&place, ACTED_ON)),
                None => said.extend(gone(&place, UNJUDGED)),
            }
        }
        // It may be the host's own, so it stays.
        said.extend(never.first().map(|first| {
            let more = match never.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let first = shown(first);
            format!(
                "{first}{more} could not be judged before the run: look at it before `git rebase --continue`"
            )
        }));
        said
    }
}

/// Renames it. What stands for a linked work tree is taken out from among them, where it would still be one.
fn gone(place: &Path, why: &str) -> Option<String> {
    let above = place.parent()?;
    let into = if above.ends_with(TREES) { above.parent()? } else { above };
    moved(place, into, why)
}

/// Every list there is, or what is to blame that one cannot be judged.
fn places(repositories: &Repositories) -> BTreeSet<PathBuf> {
    let Repositories { git, bare, modules, .. } = repositories;
    let (mut found, mut left) = (BTreeSet::new(), MAX_TREES);
    for dir in git.iter().chain(bare).chain(modules) {
        // What a link leads to is found where it is; that the link itself is new is seen elsewhere.
        let plain = dir.symlink_metadata().is_ok_and(|found| found.is_dir());
        let Some(linked) = plain.then(|| dir.join(TREES)) else { continue };
        found.extend(culprit(dir, &dir.join(LIST)));
        if linked.symlink_metadata().is_ok() {
            match trees(&linked, &mut left) {
                Some(trees) => {
                    found.extend(trees.iter().filter_map(|tree| culprit(&linked, &tree.join(LIST))));
                }
                None => {
                    found.insert(linked);
                }
            }
        }
    }
    found
}

/// The git directories of linked work trees; `None` where it is no plain directory or not all of them can be looked at.
fn trees(linked: &Path, left: &mut usize) -> Option<Vec<PathBuf>> {
    linked.symlink_metadata().ok().filter(std::fs::Metadata::is_dir)?;
    let mut trees = Vec::new();
    for entry in std::fs::read_dir(linked).ok()? {
        *left = left.checked_sub(1)?;
        trees.push(entry.ok()?.path());
    }
    Some(trees)
}

/// What may still be read.
struct Left {
    lists: usize,
    bytes: u64,
}

impl Default for Left {
    fn default() -> Left {
        Left { lists: MAX_LISTS, bytes: MAX_BYTES_OF_ALL }
    }
}

impl Left {
    /// The text of a list.
    fn read(&mut self, list: &Path) -> Option<Vec<u8>> {
        let most = MAX_BYTES.min(self.bytes);
        let (file, _) = gitconfig::open_plain(list).filter(|(_, length)| *length <= most)?;
        self.lists = self.lists.checked_sub(1)?;
        let mut text = Vec::new();
        // One more, to see that it has grown since.
        let read = file.take(most + 1).read_to_end(&mut text).ok()? as u64;
        self.bytes = self.bytes.saturating_sub(read);
        (read <= most).then_some(text)
    }
}

fn commands(text: &[u8]) -> impl Iterator<Item = Command> {
    text.split(|byte| *byte == b'\n').filter_map(command).map(|command| Sha256::digest(command).into())
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
    use std::os::unix::fs::symlink;

    fn look(scratch: &Scratch) -> Repositories {
        Repositories::below(std::slice::from_ref(&scratch.0))
    }

    /// A list at this git directory.
    fn made(dir: &Path, text: &str) -> PathBuf {
        let list = dir.join(LIST);
        fs::create_dir_all(list.parent().unwrap()).unwrap();
        fs::write(&list, text).unwrap();
        list
    }

    #[test]
    fn what_a_list_would_run_besides_what_it_did_is_found_in_every_git_directory() {
        let scratch = Scratch::new("rebase");
        let dirs = [".git", ".git/worktrees/w", ".git/modules/m"].map(|dir| scratch.0.join(dir));
        let lists = dirs.map(|dir| made(&dir, "# x\npick 1 exec\n\tx\tmake test\nbreak\n"));
        let before = Rebases::find(&look(&scratch));
        assert_eq!(before.0.len(), 3);
        fs::write(&lists[0], "exec make test\npick 2\n").unwrap();
        assert_eq!(before.set_aside(&look(&scratch)), Vec::<String>::new(), "it went on");
        fs::write(&lists[1], "pick 1\nexec make test\n  x rm").unwrap();
        fs::remove_file(&lists[2]).unwrap();
        symlink("/dev/null", &lists[2]).unwrap();
        let said = before.set_aside(&look(&scratch));
        assert!(said.len() == 2 && said[0].contains(UNJUDGED) && said[1].contains(ACTED_ON), "{said:?}");
        let there = |list: &PathBuf| list.symlink_metadata().is_ok();
        assert_eq!([there(&lists[0]), there(&lists[1]), there(&lists[2])], [true, false, false]);
        assert_eq!(Rebases::default().set_aside(&look(&scratch)).len(), 1);
        // Where not everything was seen before, nothing is read: there is nothing to compare.
        made(&scratch.0.join(".git"), "exec x");
        let partly = Repositories { incomplete: true, ..look(&scratch) };
        assert!(Rebases::find(&partly).0.is_empty());
    }

    #[test]
    fn a_list_behind_a_link_is_set_aside_with_the_link_and_the_hosts_link_is_spoken_of() {
        let long = format!("worktrees/{}", "n".repeat(255));
        for name in ["rebase-merge", "worktrees", "worktrees/w", &long, "worktrees/w/rebase-merge", LIST] {
            let scratch = Scratch::new("rebase-link");
            let (x, link) = (scratch.0.join("x"), scratch.0.join(".git").join(name));
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            fs::create_dir(&x).unwrap();
            let none = Rebases::find(&look(&scratch));
            // Also where there is nothing behind it yet.
            symlink(&x, &link).unwrap();
            let theirs = Rebases::find(&look(&scratch));
            let list = made(&x, "exec x");
            fs::copy(&list, x.join("git-rebase-todo")).unwrap();
            made(&x.join("w"), "exec x");
            let said = theirs.set_aside(&look(&scratch));
            assert!(said.len() == 1 && said[0].contains("before the run"), "{name} {said:?}");
            assert!(link.is_symlink(), "{name}");
            let said = none.set_aside(&look(&scratch));
            assert!(said.len() == 1 && said[0].contains(UNJUDGED), "{name} {said:?}");
            assert!(!link.is_symlink() && list.exists(), "{name}: the link goes, and not what it leads to");
            assert_eq!(none.set_aside(&look(&scratch)), Vec::<String>::new(), "{name}: and that is all");
        }
    }

    #[test]
    fn what_is_read_of_all_lists_is_bounded_and_what_was_there_comes_first() {
        let scratch = Scratch::new("rebase-many");
        let git = scratch.0.join(".git");
        let tree = |n: usize| git.join(TREES).join(format!("w{n:04}"));
        let theirs = made(&tree(9999), "exec make test\n");
        let before = Rebases::find(&look(&scratch));
        let linked = |from: &Path, to: usize| {
            fs::create_dir_all(tree(to).join("rebase-merge")).unwrap();
            fs::hard_link(from, tree(to).join(LIST)).unwrap();
        };
        // By bytes: what fits runs nothing.
        let big = made(&tree(0), &"p 1\n".repeat(1 << 18));
        (1..6).for_each(|n| linked(&big, n));
        let said = before.set_aside(&look(&scratch));
        assert!(said.len() == 3 && said.iter().all(|line| line.contains(UNJUDGED)), "{said:?}");
        // By number.
        fs::write(&big, "p 1\n").unwrap();
        (6..MAX_LISTS + 4).for_each(|n| linked(&big, n));
        assert_eq!(before.set_aside(&look(&scratch)).len(), 2);
        assert!(theirs.exists());
        // More work trees than are looked at.
        let before = Rebases::find(&look(&scratch));
        (0..MAX_TREES).for_each(|n| fs::write(git.join(TREES).join(format!("x{n}")), "").unwrap());
        let crowded = Rebases::find(&look(&scratch));
        assert_eq!(crowded.0.keys().collect::<Vec<_>>(), [&git.join(TREES)]);
        assert_eq!(crowded.set_aside(&look(&scratch)).len(), 1);
        assert!(theirs.exists(), "it was as crowded before");
        let said = before.set_aside(&look(&scratch));
        assert!(said.len() == 1 && !git.join(TREES).exists(), "{said:?}");
    }
}
