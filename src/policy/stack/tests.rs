//! Where policies are looked for, in directories of the tests' own.

use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use super::{Search, Stack};
use crate::policy::error::ErrorKind;
use crate::policy::load::LoadContext;
use crate::policy::load::tests::{Dir, context};

fn search(d: &Dir) -> Search {
    Search { given: Vec::new(), env_policy: None, xdg_config_home: None, system: d.0.join("etc") }
}

fn home(d: &Dir) -> LoadContext {
    LoadContext { home: d.0.join("home"), ..context() }
}

fn found(d: &Dir, search: &Search) -> Result<Vec<PathBuf>, String> {
    match Stack::load(search, &home(d)) {
        Ok(stack) => {
            let short = |p: &crate::policy::model::Policy| p.path.strip_prefix(&d.0).unwrap().to_owned();
            Ok(stack.policies.iter().map(short).collect())
        }
        Err(error) => Err(d.plain(&error)),
    }
}

fn paths(names: &[&str]) -> Result<Vec<PathBuf>, String> {
    Ok(names.iter().map(PathBuf::from).collect())
}

#[test]
fn the_first_place_that_has_one_is_taken_and_the_floor_always() {
    let d = Dir::new();
    d.put("etc/policy.toml", "");
    let mut s = search(&d);
    assert_eq!(found(&d, &s), paths(&["etc/policy.toml"]));
    d.put("home/.config/guardexec/policy.toml", "");
    assert_eq!(found(&d, &s), paths(&["home/.config/guardexec/policy.toml"]));
    d.put("etc/floor.toml", "");
    d.put("xdg/guardexec/policy.toml", "");
    s.xdg_config_home = Some(d.0.join("xdg").into());
    assert_eq!(found(&d, &s), paths(&["xdg/guardexec/policy.toml", "etc/floor.toml"]));
    s.env_policy = Some(d.put("env.toml", "").into());
    assert_eq!(found(&d, &s), paths(&["env.toml", "etc/floor.toml"]));
    s.given = vec![d.put("a.toml", ""), d.put("b.toml", "")];
    assert_eq!(found(&d, &s), paths(&["a.toml", "b.toml", "etc/floor.toml"]));
    s.given.push(d.0.join("etc/floor.toml"));
    assert_eq!(found(&d, &s), paths(&["a.toml", "b.toml", "etc/floor.toml"]));
}

#[test]
fn empty_and_relative_variables_count_as_unset() {
    let d = Dir::new();
    d.put("home/.config/guardexec/policy.toml", "");
    let mut s = search(&d);
    s.env_policy = Some(OsString::new());
    for xdg in ["", "relative"] {
        s.xdg_config_home = Some(xdg.into());
        assert_eq!(found(&d, &s), paths(&["home/.config/guardexec/policy.toml"]));
    }
    s.env_policy = Some("p.toml".into());
    let want = "GUARDEXEC_POLICY is `p.toml`, which is not an absolute path; name the file from `/` on, or use --policy";
    assert_eq!(found(&d, &s), Err(want.to_owned()));
}

#[test]
fn none_found_names_every_place() {
    let d = Dir::new();
    let error = Stack::load(&search(&d), &home(&d)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert_eq!(
        d.plain(&error),
        "no policy found; looked at $GUARDEXEC_POLICY (not set), D/home/.config/guardexec/policy.toml, D/etc/policy.toml; \
         name one with --policy FILE"
    );
    let homeless = LoadContext { home: PathBuf::new(), ..context() };
    assert_eq!(
        d.plain(&Stack::load(&search(&d), &homeless).unwrap_err()),
        "no policy found; looked at $GUARDEXEC_POLICY (not set), D/etc/policy.toml; name one with --policy FILE"
    );
    let mut s = search(&d);
    s.env_policy = Some(d.0.join("no.toml").into());
    assert_eq!(
        found(&d, &s),
        Err("D/no.toml: cannot open the policy: No such file or directory (os error 2)".to_owned())
    );
}

#[test]
fn what_is_there_and_unusable_is_never_passed_over() {
    let d = Dir::new();
    d.put("etc/policy.toml", "");
    let s = search(&d);
    let user = d.put("home/.config/guardexec/policy.toml", "x = 1");
    assert!(found(&d, &s).unwrap_err().contains("unknown key `x`"));
    std::fs::remove_file(user).unwrap();
    assert_eq!(found(&d, &s), paths(&["etc/policy.toml"]));
    let floor = d.0.join("etc/floor.toml");
    symlink("nowhere", &floor).unwrap();
    assert_eq!(
        found(&d, &s),
        Err("D/etc/floor.toml: cannot open the policy: a link leads to nothing".to_owned())
    );
    std::fs::remove_file(&floor).unwrap();
    d.put("etc/floor.toml", "extends = [\"gone.toml\"]");
    assert!(found(&d, &s).unwrap_err().contains("in `extends`, D/etc/gone.toml: cannot open"));
    d.put("etc/floor.toml", "");
    std::fs::set_permissions(&floor, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(found(&d, &s).unwrap_err().contains("can be changed by its group or by others"));
    std::fs::remove_file(&floor).unwrap();
    std::fs::create_dir(&floor).unwrap();
    assert_eq!(
        found(&d, &s),
        Err("D/etc/floor.toml: a policy has to be a regular file, this is a directory".to_owned())
    );
}

/// Inside a user namespace that maps nobody every file of root's shows the overflow user.
#[test]
fn the_floor_counts_where_root_is_unmapped_and_no_other_such_policy_does() {
    use crate::sandbox::raw::attack::{Ended, Who, in_child};
    use crate::sandbox::raw::process::unshare;
    let d = Dir::new();
    let floor = d.put("etc/floor.toml", "");
    let ended = in_child(Who::Same, || {
        if unshare(libc::CLONE_NEWUSER).is_err() {
            return 77;
        }
        let context = LoadContext { uid: 12345, ..context() };
        let foreign = super::if_there(&floor, &context).is_err_and(|e| e.kind == ErrorKind::Untrusted);
        let counted = super::if_there(&floor, &super::for_floor(&context)).is_ok_and(|p| p.is_some());
        i32::from(!foreign) + 2 * i32::from(!counted)
    });
    if ended == Ended::Exited(77) {
        return eprintln!("SKIPPED: no user namespace can be made here");
    }
    assert_eq!(ended, Ended::Exited(0));
}
