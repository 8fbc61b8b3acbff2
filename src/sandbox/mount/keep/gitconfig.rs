//! What a repository's `config` says (git-config(1)): the files it includes and the directory of its hooks, which are as
//! good as the `config` itself where they lie in the work tree.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

/// How much of a file is read, and how deep one may include another.
const MAX_BYTES: u64 = 256 << 10;
const MAX_DEPTH: usize = 4;

/// One line `key = value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The section and the key with a dot between them, in lower case.
    pub name: String,
    /// In quotes behind the section's name.
    pub subsection: Option<String>,
    /// `None` where there is only a key.
    pub value: Option<String>,
}

/// Opens a plain file, itself and not what a link leads to, and never waits for one that is none: a run may have put a FIFO or
/// a device there. With its length.
pub(in crate::sandbox) fn open_plain(path: &Path) -> Option<(File, u64)> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY | libc::O_CLOEXEC;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let found = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((file, found.len()))
}

/// The settings of a file, and whether those are all; `None` where it is no plain file or cannot be read.
pub fn read(config: &Path) -> Option<(Vec<Setting>, bool)> {
    let (file, length) = open_plain(config)?;
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    let (settings, whole) = settings(&String::from_utf8_lossy(&text));
    Some((settings, whole && length <= MAX_BYTES))
}

/// The settings of a text, and whether all of it was understood: git stops with an error where it is not.
fn settings(text: &str) -> (Vec<Setting>, bool) {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut found, mut section) = (Vec::new(), (String::new(), None));
    loop {
        rest = rest.trim_start();
        match rest.chars().next() {
            None => return (found, true),
            Some('#' | ';') => rest = rest.split_once('\n').map_or("", |(_, after)| after),
            Some('[') => match head(&rest[1..]) {
                Some((name, after)) => (section, rest) = (name, after),
                None => return (found, false),
            },
            Some(_) => match line(rest) {
                Some((key, value, after)) => {
                    let (name, subsection) = section.clone();
                    found.push(Setting { name: format!("{name}.{key}"), subsection, value });
                    rest = after;
                }
                None => return (found, false),
            },
        }
    }
}

type Section = (String, Option<String>);

/// What stands between `[` and `]`, and what follows.
fn head(text: &str) -> Option<(Section, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.')?;
    let (name, rest) = (text[..end].to_ascii_lowercase(), text[end..].trim_start_matches([' ', '\t']));
    if let Some(after) = rest.strip_prefix(']') {
        return Some(match name.split_once('.') {
            Some((section, subsection)) => ((section.to_owned(), Some(subsection.to_owned())), after),
            None => ((name, None), after),
        });
    }
    let quoted = rest.strip_prefix('"')?;
    let (mut subsection, mut chars) = (String::new(), quoted.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some(((name, Some(subsection)), quoted[at + 1..].strip_prefix(']')?)),
            '\n' => return None,
            '\\' => subsection.push(chars.next()?.1),
            c => subsection.push(c),
        }
    }
    None
}

/// The key, the value, and what follows the line.
fn line(text: &str) -> Option<(String, Option<String>, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(text.len());
    let (key, rest) = (text[..end].to_ascii_lowercase(), text[end..].trim_start_matches([' ', '\t', '\r']));
    if key.is_empty() {
        return None;
    }
    match rest.strip_prefix('=') {
        Some(rest) => value(rest).map(|(value, after)| (key, Some(value), after)),
        None if rest.is_empty() => Some((key, None, "")),
        None => rest.strip_prefix('\n').map(|after| (key, None, after)),
    }
}

/// The value behind `=`, over continued lines, and what follows it.
fn value(text: &str) -> Option<(String, &str)> {
    let (mut value, mut kept, mut quoted) = (String::new(), 0, false);
    let mut chars = text.char_indices();
    let mut after = "";
    while let Some((at, c)) = chars.next() {
        match c {
            '\n' if quoted => return None,
            '\n' => {
                after = &text[at + 1..];
                break;
            }
            '#' | ';' if !quoted => {
                after = text[at..].split_once('\n').map_or("", |(_, after)| after);
                break;
            }
            '"' => quoted = !quoted,
            '\\' => match chars.next()?.1 {
                '\n' => {}
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'b' => value.push('\u{8}'),
                c @ ('"' | '\\') => value.push(c),
                _ => return None,
            },
            c if c.is_ascii_whitespace() && !quoted => {
                if !value.is_empty() {
                    value.push(c);
                }
                continue;
            }
            c => value.push(c),
        }
        kept = value.len();
    }
    value.truncate(kept);
    Some((value, after))
}

/// The paths that `config` names, and those that what it includes names. `top` is the work tree, `home` what `~` means.
pub(super) fn named(config: &Path, top: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    follow(config, top, home, 0, &mut found);
    found
}

fn follow(config: &Path, top: &Path, home: Option<&Path>, depth: usize, found: &mut Vec<PathBuf>) {
    // As git does, through links: many a user's settings are one.
    let real = crate::sys::canonical(config).ok();
    for setting in real.and_then(|real| read(&real)).map(|(settings, _)| settings).unwrap_or_default() {
        let Some(value) = setting.value.filter(|value| !value.is_empty()) else { continue };
        let from = |dir: &Path| match (value.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => plain_path(&home.join(rest)),
            _ => plain_path(&dir.join(&value)),
        };
        match setting.name.as_str() {
            "core.hookspath" => {
                let hooks = from(top);
                // husky's: each of the hooks in there starts the script of its name beside the directory.
                if hooks.ends_with("_") {
                    found.extend(hooks.parent().filter(|dir| *dir != top).map(Path::to_owned));
                }
                found.push(hooks);
            }
            "include.path" | "includeif.path" => {
                let path = from(config.parent().unwrap_or(top));
                if depth < MAX_DEPTH {
                    follow(&path, top, home, depth + 1, found);
                }
                found.push(path);
            }
            _ => {}
        }
    }
}

/// Without `.` and `..`, by its letters.
fn plain_path(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::raw::attack::Scratch;

    #[test]
    fn hooks_and_included_files_are_found_and_what_they_include_too() {
        let scratch = Scratch::new("gitconfig");
        let top = &scratch.0;
        std::fs::create_dir(top.join(".git")).unwrap();
        std::fs::write(
            top.join(".git/config"),
            "[Core]\n\tbare = false\n\thooksPath = \".husky\" ; mine\n[include] path = ../more\n[includeIf \"gitdir:/x\"]\n\tpath = gone\n",
        )
        .unwrap();
        std::fs::write(
            top.join("more"),
            "[core]\nhookspath=./a/../b # theirs\n[include]\npath = ../more\n[core]\nhooksPath = c\\\nd\n[core] hooksPath = ~/e\n[core] hooksPath = husky/_\n[user]\nname = x\n",
        )
        .unwrap();
        let found = named(&top.join(".git/config"), top, Some(&top.join("home")));
        for path in [".husky", "more", ".git/gone", "b", "cd", "home/e", "husky", "husky/_"] {
            assert!(found.contains(&top.join(path)), "{path} in {found:?}");
        }
        assert!(named(&top.join("missing"), top, None).is_empty());
    }

    #[test]
    fn a_link_is_followed_to_the_users_settings_only_and_nothing_is_waited_for() {
        let scratch = Scratch::new("gitconfig-link");
        let at = |name: &str| scratch.0.join(name);
        std::fs::write(at("real"), "[core]\nhooksPath = h\n").unwrap();
        std::os::unix::fs::symlink("real", at("link")).unwrap();
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(named(&at("link"), &scratch.0, None), [at("h")]);
        assert!(read(&at("real")).is_some_and(|(settings, whole)| settings.len() == 1 && whole));
        for name in ["link", "fifo", ""] {
            assert!(open_plain(&at(name)).is_none(), "{name}");
        }
        assert!(named(&at("fifo"), &scratch.0, None).is_empty());
    }

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let text = "\u{feff}# c\n[a]b\n[A \"x\\\"]y\"] C-d = \" e;f \"  g ; h\n[k.Sub]\nl=m\\\n  n\\t\"\n";
        let (found, whole) = settings(text);
        let shown: Vec<_> =
            found.iter().map(|s| (s.name.as_str(), s.subsection.as_deref(), s.value.as_deref())).collect();
        assert_eq!(shown, [("a.b", None, None), ("a.c-d", Some("x\"]y"), Some(" e;f   g"))]);
        assert!(!whole, "an open quote");
        assert!(settings("[a]\nb = c\\\nd\n").1 && settings("").1);
        for wrong in ["[a", "[a b]", "[a]\n=x", "[a]\nb c", "[a]\nb = \\x", "x[a]"] {
            assert!(!settings(wrong).1, "{wrong}");
        }
    }
}
