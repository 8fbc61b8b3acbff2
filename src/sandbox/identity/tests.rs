//! Choosing, and what is left of root afterwards.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use super::super::raw::attack::{Ended, Scratch, Who, everyone, in_child, syscall};
use super::super::raw::no_new_privs;
use super::*;

fn need(path: &Path, bits: u32) -> Need {
    Need { path: path.to_owned(), bits }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn is_root() -> bool {
    let root = everyone().len() == 2;
    if !root {
        eprintln!("SKIPPED: becoming somebody else needs root");
    }
    root
}

#[test]
fn an_own_number_where_it_suffices_the_owner_where_it_must_and_powerless_root_else() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new("choose");
    let dir = scratch.0.join("dir");
    fs::create_dir(&dir).unwrap();
    set_mode(&dir, 0o755);
    assert_eq!(automatic(FIRST, &[need(&dir, 5)]), Identity::Anonymous(FIRST));
    assert_eq!(automatic(FIRST, &[need(&dir, 7)]), Identity::PowerlessRoot);
    set_mode(&dir, 0o777);
    assert_eq!(automatic(FIRST, &[need(&dir, 7)]), Identity::Anonymous(FIRST));
    set_mode(&dir, 0o700);
    assert_eq!(automatic(FIRST, &[need(&dir, 5)]), Identity::PowerlessRoot);
    chown(&dir, Some(4711), Some(4712)).unwrap();
    assert_eq!(automatic(FIRST, &[need(&dir, 7)]), Identity::User { uid: 4711, gid: 4712 });
    let other = scratch.0.join("other");
    fs::create_dir(&other).unwrap();
    set_mode(&other, 0o700);
    assert_eq!(automatic(FIRST, &[need(&dir, 7), need(&other, 5)]), Identity::PowerlessRoot);
    // A parent that cannot be passed counts as much as the directory itself.
    chown(&other, Some(0), Some(0)).unwrap();
    fs::create_dir(other.join("open")).unwrap();
    set_mode(&other.join("open"), 0o777);
    assert_eq!(automatic(FIRST, &[need(&other.join("open"), 5)]), Identity::PowerlessRoot);
}

#[test]
fn a_namespace_that_does_not_map_the_number_leaves_nobody() {
    assert!(maps("         0          0 4294967295\n", FIRST));
    assert!(!maps("0 100000 65536\n", FIRST));
    assert!(maps("0 1000 1\n1 100000 65536\n", NOBODY));
    assert!(!maps("", 0));
}

#[test]
fn named_users() {
    assert!(matches!(choose(Some("no-such-user-here"), &[]), Err(Error::NoSuchUser(_))));
    let root = choose(Some("root"), &[]);
    if everyone().len() == 2 {
        assert_eq!(root.unwrap(), Identity::PowerlessRoot);
        assert!(matches!(choose(Some("nobody"), &[]), Ok(Identity::User { uid: 65534, .. })));
        let ended = in_child(Who::Nobody, || {
            i32::from(!matches!(choose(Some("root"), &[]), Err(Error::NotRoot(_))))
                + i32::from(!matches!(choose(None, &[]), Ok(Identity::Same)))
        });
        assert_eq!(ended, Ended::Exited(0));
    }
}

fn status_fields() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let wanted = ["Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    status
        .lines()
        .filter(|line| wanted.iter().any(|w| line.starts_with(w)))
        .map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn nothing_of_root_is_left_in_any_set() {
    if !is_root() {
        return;
    }
    let none = "0000000000000000";
    for (identity, id) in [
        (Identity::Anonymous(FIRST + 7), FIRST + 7),
        (Identity::User { uid: 65534, gid: 65534 }, 65534),
        (Identity::PowerlessRoot, 0),
    ] {
        let ended = in_child(Who::Same, || {
            apply(&Prepared::new(identity, false)).unwrap();
            let id = [id.to_string(), id.to_string(), id.to_string(), id.to_string()].join(" ");
            let expected = [&id, &id, "", none, none, none, none, none];
            assert_eq!(status_fields(), expected);
            // The way back, every door.
            assert!(syscall(libc::SYS_chroot, [c"/".as_ptr() as u64, 0, 0, 0, 0, 0]).is_err());
            assert!(syscall(libc::SYS_setgroups, [0, 0, 0, 0, 0, 0]).is_err());
            0
        });
        assert_eq!(ended, Ended::Exited(0), "{identity:?}");
    }
}

#[test]
fn powerless_root_gains_nothing_by_executing() {
    if !is_root() {
        return;
    }
    let show = || {
        let out = std::process::Command::new("/bin/sh")
            .args(["-c", "grep CapEff /proc/$$/status"])
            .output()
            .unwrap();
        i32::from(String::from_utf8_lossy(&out.stdout).trim_end().ends_with("0000000000000000"))
    };
    assert_eq!(in_child(Who::Same, show), Ended::Exited(0));
    let ended = in_child(Who::Same, || {
        apply(&Prepared::new(Identity::PowerlessRoot, false)).unwrap();
        show()
    });
    assert_eq!(ended, Ended::Exited(1));
}

#[test]
fn the_dropped_user_cannot_read_what_root_could_and_has_another_keyring() {
    if !is_root() {
        return;
    }
    // KEYCTL_GET_KEYRING_ID of the session keyring (-3), creating it.
    let keyring = || syscall(libc::SYS_keyctl, [0, (-3_i64) as u64, 1, 0, 0, 0]);
    let ended = in_child(Who::Same, || {
        let before = keyring();
        assert!(fs::File::open("/etc/shadow").is_ok());
        apply(&Prepared::new(Identity::Anonymous(FIRST), false)).unwrap();
        assert!(fs::File::open("/etc/shadow").is_err());
        let after = syscall(libc::SYS_keyctl, [0, (-3_i64) as u64, 0, 0, 0, 0]);
        i32::from(before.is_ok() && before == after)
    });
    assert_eq!(ended, Ended::Exited(0));
}

#[test]
fn an_ordinary_user_keeps_itself() {
    let who = if everyone().len() == 2 { Who::Nobody } else { Who::Same };
    let ended = in_child(who, || {
        no_new_privs().unwrap();
        let before = raw::ids().unwrap();
        apply(&Prepared::new(Identity::Same, false)).unwrap();
        i32::from(raw::ids().unwrap() != before || raw::capabilities().unwrap() != [0; 3])
    });
    assert_eq!(ended, Ended::Exited(0));
}

/// guardexec inside guardexec: root that has nothing left to give up.
#[test]
fn powerless_root_can_be_confined_again() {
    if !is_root() {
        return;
    }
    let ended = in_child(Who::Same, || {
        apply(&Prepared::new(Identity::PowerlessRoot, false)).unwrap();
        let again = choose(None, &[]).unwrap();
        assert_eq!(again, Identity::PowerlessRoot);
        apply(&Prepared::new(again, false)).unwrap();
        // Nobody else can be reached from there, and a pretended success would not read back.
        i32::from(apply(&Prepared::new(Identity::Anonymous(FIRST), false)).is_ok())
    });
    assert_eq!(ended, Ended::Exited(0));
}

#[test]
fn the_number_is_drawn_and_the_shared_one_is_nobodys_own() {
    let numbers: std::collections::BTreeSet<u32> = (0..8).filter_map(|_| drawn()).collect();
    assert!(numbers.len() > 4, "{numbers:?}");
    assert!(numbers.iter().all(|n| (FIRST..FIRST + RANGE).contains(n)), "{numbers:?}");
    assert!(Identity::Anonymous(FIRST).is_alone());
    for shared in [Identity::Anonymous(NOBODY), Identity::User { uid: 1, gid: 1 }, Identity::Same] {
        assert!(!shared.is_alone(), "{shared:?}");
    }
}
