//! Tests of finding and opening programs, on real files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::sys::swapping::Swapping;

/// A directory of the test's own, removed at its end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("guardexec-program-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("create");
        Dir(fs::canonicalize(dir).expect("canonical"))
    }

    fn file(&self, name: &str, mode: u32, content: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("create");
        fs::write(&path, content).expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("mode");
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_name_is_found_in_the_first_directory_that_can_execute_it() {
    let dir = Dir::new("order");
    fs::create_dir_all(dir.0.join("a/tool")).expect("a directory of that name");
    dir.file("b/tool", 0o644, "not executable");
    let wanted = dir.file("c/tool", 0o755, "#!/bin/sh\n");
    dir.file("d/tool", 0o755, "later");
    let path: Vec<PathBuf> = ["a", "b", "missing", "c", "d"].iter().map(|d| dir.0.join(d)).collect();
    let program = find("tool".as_ref(), &path).expect("found");
    assert_eq!((program.path, program.kind), (wanted, ProgramKind::Script));
}

#[test]
fn found_and_not_executable_is_told_from_not_found() {
    let dir = Dir::new("refused");
    let plain = dir.file("tool", 0o644, "x");
    fs::create_dir_all(dir.0.join("sub")).expect("dir");
    let path = [dir.0.clone()];
    assert_eq!(
        find("tool".as_ref(), &path).unwrap_err(),
        FindError::NotExecutable { path: plain, errno: Errno::EACCES }
    );
    for name in ["none", "sub", "", "sub/tool", "./tool"] {
        assert_eq!(find(name.as_ref(), &path).unwrap_err(), FindError::NotFound, "{name}");
    }
    assert_eq!(
        find("sh".as_ref(), &[PathBuf::from("bin"), PathBuf::new()]).unwrap_err(),
        FindError::NotFound
    );
    assert!(matches!(open_absolute(&dir.0), Err(FindError::NotExecutable { errno: Errno::EISDIR, .. })));
    assert_eq!(open_absolute("tool".as_ref()).unwrap_err(), FindError::NotFound);
}

#[test]
fn links_lead_to_one_identity_and_canonical_path() {
    let dir = Dir::new("links");
    let real = dir.file("real", 0o755, "binary");
    symlink(&real, dir.0.join("soft")).expect("symlink");
    fs::hard_link(&real, dir.0.join("hard")).expect("link");
    let other = open_absolute(&dir.file("other", 0o755, "binary")).expect("opens");
    let [real, soft, hard] = ["real", "soft", "hard"].map(|n| open_absolute(&dir.0.join(n)).expect("opens"));
    assert!(same_file(&real, &soft) && same_file(&real, &hard) && !same_file(&real, &other));
    assert_eq!(soft.path, real.path);
    assert_eq!(hard.path, dir.0.join("hard"));
    assert_eq!(real.kind, ProgramKind::Binary);
}

#[test]
fn a_name_that_says_deleted_is_not_taken_for_a_deleted_file() {
    let dir = Dir::new("deleted");
    let path = dir.file("tool (deleted)", 0o755, "x");
    assert_eq!(open_absolute(&path).expect("opens").path, path);
    let gone = dir.file("gone", 0o755, "x");
    let file = nix::fcntl::open(&gone, OFlag::O_PATH, Mode::empty()).expect("open");
    let stat = nix::sys::stat::fstat(&file).expect("stat");
    fs::remove_file(&gone).expect("remove");
    assert_eq!(canonical_path(&file, &stat), Err(Errno::ENOENT));
}

#[test]
fn the_hash_is_of_the_content() {
    let dir = Dir::new("hash");
    let program = open_absolute(&dir.file("t", 0o755, "abc")).expect("opens");
    assert_eq!(
        hash(&program).expect("readable"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
}

#[test]
fn only_a_plain_path_without_links_is_taken_as_canonical() {
    let here = std::fs::canonicalize(std::env::temp_dir()).unwrap();
    let dir = here.join(format!("guardexec-plain-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("file"), "x").unwrap();
    std::os::unix::fs::symlink("file", dir.join("link")).unwrap();
    std::os::unix::fs::symlink(&dir, dir.join("up")).unwrap();
    for (path, direct) in
        [("file", true), ("link", false), ("up/file", false), ("./file", false), ("none/../file", false)]
    {
        match open_by_path(&dir.join(path), OFlag::empty()) {
            Ok((file, found)) => {
                let stat = nix::sys::stat::fstat(&file).unwrap();
                let canonical = canonical_path(&file, &stat).unwrap();
                assert_eq!(canonical, dir.join("file"), "{path}");
                // Without openat2(2) everything goes the long way.
                assert!(!found || direct, "{path}");
            }
            Err(errno) => assert_eq!((path, errno), ("none/../file", Errno::ENOENT)),
        }
    }
    assert_eq!(open_by_path(&dir.join("none"), OFlag::empty()).unwrap_err(), Errno::ENOENT);
    assert_eq!(open_by_path(&dir.join("file/x"), OFlag::empty()).unwrap_err(), Errno::ENOTDIR);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn t3_103_a_program_swapped_for_a_link_is_the_one_whose_path_is_told() {
    let dir = Dir::new("swap");
    let (inside, outside) = (dir.file("in/x", 0o755, "#!in"), dir.file("out/x", 0o755, "#!out"));
    symlink(&outside, dir.0.join("in/y")).expect("link");
    let identity = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).expect("there"));
    let (of_inside, of_outside) = (identity(&inside), identity(&outside));
    let mut met = [0; 2];
    let swapping = Swapping::start(inside.clone(), dir.0.join("in/y"));
    for _ in 0..10_000 {
        let Ok(program) = find("x".as_ref(), &[dir.0.join("in")]) else { continue };
        let open = nix::sys::stat::fstat(&program.file).expect("open").st_ino;
        let told = if program.path.starts_with(dir.0.join("in")) { of_inside } else { of_outside };
        assert_eq!((program.inode, open), (told, told), "{}", program.path.display());
        met[usize::from(told == of_outside)] += 1;
    }
    drop(swapping);
    assert!(met.iter().all(|n| *n > 0), "both were met: {met:?}");
}
