//! Modes, owners, links.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use super::*;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// What both ways of opening say.
#[track_caller]
fn refused(dir: &Path) -> StateError {
    let error = Store::open(dir).expect_err("refused");
    let looked = Store::look(dir).expect_err("refused");
    assert_eq!(error.to_string(), looked.to_string());
    assert_eq!(error.code(), "state_unavailable");
    error
}

#[test]
fn everything_is_the_users_alone_whatever_the_umask() {
    if !super::runs_alone("state::tests::trust::everything_is_the_users_alone_whatever_the_umask") {
        return;
    }
    for mask in [0o000, 0o077, 0o777, 0o300] {
        let dir = Dir::new();
        let deep = dir.0.join("a/b");
        let child = crate::sys::process::fork_for_test(|| {
            nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(mask));
            Store::open(&deep).unwrap().transaction(|_, _| Ok(())).unwrap();
            let after = nix::sys::stat::umask(nix::sys::stat::Mode::empty());
            i32::from(after.bits() != mask)
        });
        assert_eq!(super::reaped(child), 0, "{mask:o}");
        for made in [&dir.0, &dir.0.join("a"), &deep] {
            assert_eq!(mode(made), 0o700, "{mask:o} {made:?}");
        }
        for made in ["state.db", "state.lock", "state.id", "state.db-journal"] {
            assert_eq!(mode(&deep.join(made)), 0o600, "{mask:o} {made}");
        }
        assert_eq!(fs::read_dir(&deep).unwrap().count(), 4);
    }
}

#[test]
fn a_looser_mode_is_an_error_and_not_mended() {
    let dir = Dir::new();
    Store::open(&dir.0).unwrap().transaction(|_, _| Ok(())).unwrap();
    for (name, good) in [
        ("", 0o700),
        ("state.db", 0o600),
        ("state.lock", 0o600),
        ("state.id", 0o600),
        ("state.db-journal", 0o600),
    ] {
        let path = if name.is_empty() { dir.0.clone() } else { dir.file(name) };
        for bad in [0o040, 0o004, 0o020, 0o002, 0o010] {
            chmod(&path, good | bad);
            let error = refused(&dir.0);
            assert!(matches!(&error, StateError::Mode(p, m, _) if *p == path && *m == good | bad), "{error}");
            assert_eq!(error.hint(), format!("chmod {good:o} {path:?}"));
            assert_eq!(mode(&path), good | bad);
        }
        chmod(&path, good);
        Store::open(&dir.0).unwrap();
    }
}

#[test]
fn links_and_other_things_are_errors() {
    let dir = Dir::new();
    drop(Store::open(&dir.0).unwrap());
    let link = dir.0.with_file_name("link");
    symlink(&dir.0, &link).unwrap();
    assert!(matches!(refused(&link), StateError::Symlink(_)));
    assert!(matches!(refused(&link.join("")), StateError::Symlink(_)), "with a slash at its end");
    assert!(matches!(refused(&dir.file("state.db")), StateError::NotDirectory(_)));
    // A link on the way is nothing bad, if nobody else can change it.
    let way = dir.0.with_file_name("way");
    symlink(dir.0.parent().unwrap(), &way).unwrap();
    assert_eq!(Store::open(&way.join("state")).unwrap().dir(), dir.0);
    for name in ["state.db", "state.lock", "state.id"] {
        let (path, aside) = (dir.file(name), dir.0.with_file_name("aside"));
        fs::hard_link(&path, &aside).unwrap();
        assert!(matches!(refused(&dir.0), StateError::Links(p) if p == path), "{name}");
        fs::remove_file(&path).unwrap();
        symlink(&aside, &path).unwrap();
        assert!(matches!(refused(&dir.0), StateError::NotRegular(p) if p == path), "{name}");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(refused(&dir.0), StateError::NotRegular(p) if p == path), "{name}");
        fs::remove_dir(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        assert!(matches!(refused(&dir.0), StateError::NotRegular(p) if p == path), "{name}");
        fs::rename(&aside, &path).unwrap();
        Store::open(&dir.0).unwrap();
    }
}

#[test]
fn a_way_that_others_can_change_is_an_error() {
    let dir = Dir::new();
    let outer = dir.0.parent().unwrap();
    chmod(outer, 0o777);
    assert!(matches!(Store::open(&dir.0), Err(StateError::Way(..))));
    assert!(!dir.0.exists(), "nothing is made there");
    chmod(outer, 0o700);
    drop(Store::open(&dir.0).unwrap());
    chmod(outer, 0o777);
    assert!(matches!(refused(&dir.0), StateError::Way(..)));
    chmod(outer, 0o1777);
    drop(Store::open(&dir.0).unwrap());
}
