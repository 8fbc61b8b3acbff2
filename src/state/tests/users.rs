//! Owners, and an ordinary user.

use std::os::unix::fs::chown;

use super::*;
use crate::sys::process::{become_user_for_test, fork_for_test, ids};

const NOBODY: u32 = 65534;

/// Runs `body` as an ordinary user, in a directory that is this user's.
fn as_user(body: impl FnOnce(&Dir) -> i32) {
    let dir = Dir::new();
    let root = ids().0 == 0;
    if root {
        chown(dir.outer(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let child = fork_for_test(|| {
        if root {
            become_user_for_test(NOBODY);
        }
        body(&dir)
    });
    assert_eq!(reaped(child), 0);
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_ordinary_user_has_a_store() {
    if !runs_alone("state::tests::users::an_ordinary_user_has_a_store") {
        return;
    }
    as_user(|dir| {
        assert!(Store::look(&dir.0).unwrap().is_none());
        Store::open(&dir.0).unwrap().transaction(|_, _| Ok(())).unwrap();
        i32::from(boots(&dir.0) != 1)
    });
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error() {
    if !runs_alone("state::tests::users::a_directory_that_cannot_be_written_is_an_error") {
        return;
    }
    as_user(|dir| {
        chmod(dir.outer(), 0o500);
        let error = Store::open(&dir.0).expect_err("it cannot be made");
        assert!(matches!(error, StateError::Io { doing: "make", .. }), "{error}");
        assert!(Store::look(&dir.0).unwrap().is_none());
        chmod(dir.outer(), 0o700);
        fs::create_dir(&dir.0).unwrap();
        chmod(&dir.0, 0o500);
        let error = Store::open(&dir.0).expect_err("nothing can be made in it");
        assert!(error.to_string().contains("state.lock") && error.hint().contains("accessible"), "{error}");
        chmod(&dir.0, 0o700);
        drop(Store::open(&dir.0).unwrap());
        fs::remove_file(dir.file("state.db-journal")).unwrap();
        chmod(&dir.0, 0o500);
        let error = Store::open(&dir.0)
            .and_then(|mut store| store.transaction(|_, _| Ok(())))
            .expect_err("no journal");
        assert!(error.hint().contains("writable"), "{error}: {}", error.hint());
        assert_eq!(boots(&dir.0), 0);
        chmod(&dir.0, 0o700);
        chmod(&dir.file("state.db"), 0o400);
        let error = Store::open(&dir.0)
            .and_then(|mut store| store.transaction(|_, _| Ok(())))
            .expect_err("read-only");
        assert!(error.hint().contains("writable"), "{error}: {}", error.hint());
        chmod(&dir.file("state.db"), 0o000);
        assert!(Store::open(&dir.0).is_err() && Store::look(&dir.0).is_err());
        chmod(&dir.0, 0o000);
        assert!(Store::open(&dir.0).is_err() && Store::look(&dir.0).is_err());
        chmod(&dir.0, 0o700);
        0
    });
}

#[test]
fn another_users_directory_or_file_is_an_error() {
    if ids().0 != 0 {
        return eprintln!("SKIPPED: needs root");
    }
    let dir = Dir::new();
    drop(Store::open(&dir.0).unwrap());
    for path in [dir.0.clone(), dir.file("state.db"), dir.file("state.lock"), dir.file("state.id")] {
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        for error in [Store::open(&dir.0).expect_err("open"), Store::look(&dir.0).expect_err("look")] {
            assert!(matches!(&error, StateError::Owner(p, NOBODY) if *p == path), "{error}");
            assert!(error.to_string().contains("belongs to user 65534"), "{error}");
        }
        chown(&path, Some(0), Some(0)).unwrap();
        Store::open(&dir.0).unwrap();
    }
}
