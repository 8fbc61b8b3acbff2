//! Tests of the `path` limit on a real tree.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

struct Tree(PathBuf);

impl Tree {
    /// `root/data/{file, sub/inner, out -> ../secret, in -> sub, dangling, abs}`, `root/secret/key`.
    fn new(name: &str) -> Tree {
        let root = std::env::temp_dir().join(format!("guardexec-paths-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("data/sub")).expect("create");
        let root = fs::canonicalize(root).expect("canonical");
        fs::create_dir_all(root.join("secret")).expect("create");
        for file in ["data/file", "data/sub/inner", "secret/key"] {
            fs::write(root.join(file), "x").expect("write");
        }
        symlink("../secret", root.join("data/out")).expect("link");
        symlink("sub", root.join("data/in")).expect("link");
        symlink("../secret/new", root.join("data/dangling")).expect("link");
        symlink(root.join("secret/key"), root.join("data/abs")).expect("link");
        Tree(root)
    }

    fn fails(&self, kind: Option<PathKind>, symlinks: bool, cwd: &str, word: &str) -> Option<String> {
        let limit = PathLimit { under: self.0.join("data"), kind, symlinks };
        failure(&limit, word.as_bytes(), &Paths::Disk(&self.0.join(cwd)))
    }

    fn passes(&self, cwd: &str, word: &str) -> bool {
        self.fails(None, true, cwd, word).is_none()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_word_is_resolved_from_the_working_directory_and_stays_beneath() {
    let t = Tree::new("beneath");
    for (cwd, word) in [
        ("data", "file"),
        ("data", "./sub/inner"),
        ("data/sub", "../file"),
        ("data", "sub/../file"),
        ("data", "in/inner"),
        ("data", "new"),
        ("data", "."),
        ("", "data/file"),
        ("secret", "../data/file"),
    ] {
        assert!(t.passes(cwd, word), "{cwd} {word}");
    }
    for (cwd, word) in [
        ("data", ".."),
        ("data", "../secret/key"),
        ("data", "sub/../../secret/key"),
        ("data", "out/key"),
        ("data", "out/new"),
        ("data", "abs"),
        ("data", "dangling"),
        ("data", "none/new"),
        ("data", ""),
        ("secret", "key"),
        ("data", "/etc/passwd"),
        ("data", "/proc/self/root/etc/passwd"),
    ] {
        assert!(!t.passes(cwd, word), "{cwd} {word}");
    }
}

#[test]
fn t1_47_an_absolute_word_lies_under_it_by_its_letters_and_really() {
    let t = Tree::new("absolute");
    let root = t.0.to_str().expect("UTF-8");
    assert!(t.passes("", &format!("{root}/data/file")));
    for word in
        ["data/../secret/key", "data/out/key", "data2/file", "secret/key", "data/sub/../../secret/key"]
    {
        assert!(!t.passes("", &format!("{root}/{word}")), "{word}");
    }
}

#[test]
fn links_kinds_and_what_is_missing() {
    let t = Tree::new("kinds");
    assert_eq!(t.fails(None, false, "data", "in/inner").as_deref(), Some("leads over a symbolic link"));
    assert_eq!(t.fails(Some(PathKind::File), true, "data", "sub").as_deref(), Some("is not a regular file"));
    assert_eq!(t.fails(Some(PathKind::Dir), true, "data", "file").as_deref(), Some("is not a directory"));
    assert_eq!(t.fails(Some(PathKind::File), true, "data", "new").as_deref(), Some("does not exist"));
    assert_eq!(t.fails(Some(PathKind::Dir), true, "data", "in"), None);
    symlink("none", t.0.join("data/sub/void")).expect("link");
    assert_eq!(
        t.fails(None, true, "data", "sub/void").as_deref(),
        Some("is a symbolic link that leads nowhere")
    );
    fs::remove_dir_all(t.0.join("data")).expect("remove");
    assert!(t.fails(None, true, "", "data/file").expect("fails").starts_with("cannot be judged"));
}

#[test]
fn a_link_as_the_root_itself_counts_by_both_names() {
    let t = Tree::new("root");
    symlink("data", t.0.join("alias")).expect("link");
    let limit = PathLimit { under: t.0.join("alias"), kind: None, symlinks: false };
    for word in ["alias/file", "data/file"] {
        let full = t.0.join(word);
        assert_eq!(failure(&limit, full.as_os_str().as_bytes(), &Paths::Disk(&t.0)), None, "{word}");
    }
}

#[test]
fn an_open_rule_sees_through_links_and_names() {
    let t = Tree::new("open");
    let secret = PathLimit { under: t.0.join("secret"), kind: None, symlinks: false };
    let hits = |word: &str| may_lie_under(&secret, word.as_bytes(), &Paths::Disk(&t.0.join("data")));
    for word in ["../secret/key", "out/key", "out", "abs", "dangling", "sub/../../secret", "out/none/deep"] {
        assert!(hits(word), "{word}");
    }
    for word in ["file", "sub/inner", "-x", "../data/out2"] {
        assert!(!hits(word), "{word}");
    }
    let names = |word: &str| may_lie_under(&secret, word.as_bytes(), &Paths::Names);
    assert!(names(&format!("{}/secret/x", t.0.display())) && !names("file"));
}

#[test]
fn names_alone_decide_in_examples() {
    let limit = PathLimit { under: "/data".into(), kind: Some(PathKind::File), symlinks: false };
    let passes = |word: &str| failure(&limit, word.as_bytes(), &Paths::Names).is_none();
    assert!(passes("x/y") && passes("/data/x") && passes("a/../b"));
    assert!(!passes("../x") && !passes("/data/../etc") && !passes("/etc/x") && !passes("/database"));
}

#[test]
fn lexical_steps() {
    for (from, to) in
        [("/a/../b", "/b"), ("/../a", "/a"), ("a/./b/..", "a"), ("../a", "../a"), ("/a/b/../../..", "/")]
    {
        assert_eq!(lexical(Path::new(from)), PathBuf::from(to), "{from}");
    }
}
