//! What a repository's `config` names besides itself: files it includes, and the directory of its hooks. Where they lie
//! in the work tree they are as good as the `config`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

/// How much of a file is read, and how deep one may include another.
const MAX_BYTES: u64 = 256 << 10;
const MAX_DEPTH: usize = 4;

/// The paths that `config` names, and those that what it includes names. `top` is the work tree.
pub(super) fn named(config: &Path, top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    read(config, top, 0, &mut found);
    found
}

fn read(config: &Path, top: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let mut text = Vec::new();
    // Not a FIFO or a device: opening one could wait for ever.
    let plain = config.metadata().is_ok_and(|m| m.is_file());
    if !plain || File::open(config).and_then(|f| f.take(MAX_BYTES).read_to_end(&mut text)).is_err() {
        return;
    }
    let mut section = String::new();
    for line in String::from_utf8_lossy(&text).lines() {
        let mut line = line.trim();
        if let Some(rest) = line.strip_prefix('[') {
            let Some((head, after)) = rest.rsplit_once(']') else { continue };
            let name = head.split(|c: char| c.is_whitespace() || c == '"').next().unwrap_or_default();
            section = name.to_ascii_lowercase();
            line = after.trim();
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let value = value.trim().replace('"', "");
        if value.is_empty() || value.starts_with('~') {
            continue;
        }
        match (section.as_str(), key.trim().to_ascii_lowercase().as_str()) {
            ("core", "hookspath") => found.push(plain_path(&top.join(value))),
            ("include" | "includeif", "path") => {
                let path = plain_path(&config.parent().unwrap_or(top).join(value));
                if depth < MAX_DEPTH {
                    read(&path, top, depth + 1, found);
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
            "[Core]\n\tbare = false\n\thooksPath = \".husky\"\n[include] path = ../more\n[includeIf \"gitdir:/x\"]\n\tpath = gone\n",
        )
        .unwrap();
        std::fs::write(
            top.join("more"),
            "[core]\nhookspath=./a/../b\n[include]\npath = ../more\n[user]\nname = x\n",
        )
        .unwrap();
        let found = named(&top.join(".git/config"), top);
        for path in [".husky", "more", ".git/gone", "b"] {
            assert!(found.contains(&top.join(path)), "{path} in {found:?}");
        }
        assert!(named(&top.join("missing"), top).is_empty());
    }
}
