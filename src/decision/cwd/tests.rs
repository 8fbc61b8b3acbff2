//! Tests of the working directory: what is missing, where it may lie, and what counts only when written out.

use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;

use super::*;
use crate::decision::decide;
use crate::decision::tests::made::*;
use crate::policy::model::Policy;
use crate::request::Request;
use crate::sys::swapping::Swapping;

fn start(roots: Option<&[&Path]>, cwd: &Path, facts: &Facts) -> String {
    let mut policy: Policy = policy(vec![allow("true")]);
    policy.filesystem.cwd = roots.map(|r| r.iter().map(|p| p.to_path_buf()).collect());
    let request = Request { cwd: Some(cwd.to_path_buf()), ..Request::default() };
    outcome(&decide(&[policy], words("true"), request, facts))
}

#[test]
fn t2_79_a_missing_or_deleted_directory_is_named_and_never_not_found() {
    let request = |cwd: &str| Request { cwd: Some(cwd.into()), ..Request::default() };
    let policy = [policy(vec![allow("true")])];
    let denial = refused(decide(&policy, words("true"), request("/nonexistent"), &facts()));
    assert_eq!(denial.code, "cwd_invalid");
    assert!(denial.message.contains("'/nonexistent'"), "{}", denial.message);
    let gone = Facts { start_dir: None, ..facts() };
    assert_eq!(outcome(&decide(&policy, words("true"), Request::default(), &gone)), "error:cwd_invalid");
    assert_eq!(outcome(&decide(&policy, words("true"), request("sub"), &gone)), "error:cwd_invalid");
    for bad in ["", "/etc/passwd", "/usr/\0"] {
        assert_eq!(
            outcome(&decide(&policy, words("true"), request(bad), &facts())),
            "error:cwd_invalid",
            "{bad:?}"
        );
    }
    let dir = Dir::new("cwd-deleted");
    let fd = std::fs::File::open(&dir.0).expect("open");
    std::fs::remove_dir(&dir.0).expect("remove");
    let held = format!("/proc/self/fd/{}", fd.as_raw_fd());
    assert_eq!(outcome(&decide(&policy, words("true"), request(&held), &facts())), "error:cwd_invalid");
}

#[test]
fn it_lies_in_the_list_by_what_it_really_is() {
    let dir = Dir::new("cwd-lies");
    for sub in ["in/deep", "out", "inner"] {
        std::fs::create_dir_all(dir.0.join(sub)).expect("create");
    }
    symlink("../out", dir.0.join("in/escape")).expect("link");
    symlink("in", dir.0.join("alias")).expect("link");
    let root = dir.0.join("in");
    let from = |tail: &str| start(Some(&[&root]), &dir.0.join(tail), &facts());
    for good in ["in", "in/deep", "in/deep/..", "alias/deep"] {
        assert_eq!(from(good), "allow", "{good}");
    }
    for bad in ["out", "inner", "in/escape", "in/..", ""] {
        assert_eq!(from(bad), "deny:cwd_denied", "{bad}");
    }
    assert_eq!(start(Some(&[&dir.0.join("alias")]), &root, &facts()), "allow");
    assert_eq!(start(Some(&[]), &root, &facts()), "deny:cwd_denied");
    let out = std::fs::File::open(dir.0.join("out")).expect("open");
    let held = PathBuf::from(format!("/proc/self/fd/{}", out.as_raw_fd()));
    assert_eq!(start(Some(&[&root]), &held, &facts()), "deny:cwd_denied");
    let grant = granted(decide(
        &[{
            let mut p = policy(vec![allow("true")]);
            p.filesystem.cwd = Some(vec![root.clone()]);
            p
        }],
        words("true"),
        Request { cwd: Some(dir.0.join("alias/deep")), ..Request::default() },
        &facts(),
    ));
    assert_eq!(grant.cwd, root.join("deep"));
}

#[test]
fn by_default_it_is_the_start_directory_and_below() {
    let dir = Dir::new("cwd-default");
    std::fs::create_dir_all(dir.0.join("a/b")).expect("create");
    let facts = Facts { start_dir: Some(dir.0.join("a")), ..facts() };
    for (cwd, expected) in
        [(".", "allow"), ("b", "allow"), ("..", "deny:cwd_denied"), ("/usr", "deny:cwd_denied")]
    {
        assert_eq!(start(None, Path::new(cwd), &facts), expected, "{cwd}");
    }
}

#[test]
fn the_root_and_a_home_count_only_where_written_out() {
    let dir = Dir::new("cwd-home");
    let home = dir.0.join("home");
    std::fs::create_dir_all(home.join("project")).expect("create");
    let root = Path::new("/");
    let mut facts = Facts { home: home.clone(), start_dir: Some(home.clone()), ..facts() };
    assert_eq!(start(None, &home, &facts), "deny:cwd_denied");
    assert_eq!(start(None, &home.join("project"), &facts), "allow");
    assert_eq!(start(Some(&[&dir.0, root]), &home, &facts), "deny:cwd_denied");
    assert_eq!(start(Some(&[&home]), &home, &facts), "allow");
    facts.start_dir = Some(root.into());
    assert_eq!(start(None, root, &facts), "deny:cwd_denied");
    assert_eq!(start(Some(&[root]), root, &facts), "allow");
}

#[test]
fn others_homes_are_bare_too() {
    let facts = facts();
    let root = Path::new("/root");
    assert_ne!(facts.home, root);
    if std::fs::read_dir(root).is_ok() {
        assert_eq!(start(Some(&[Path::new("/")]), root, &facts), "deny:cwd_denied");
        assert_eq!(start(Some(&[root]), root, &facts), "allow");
    }
    let dir = Dir::new("cwd-home");
    let below = dir.0.join("below");
    std::fs::create_dir(&below).expect("create");
    let home = |_: u32| Some(dir.0.clone());
    assert!(!is_bare_by(&dir.0, &facts, |_| None));
    if nix::unistd::geteuid().is_root() {
        for path in [&dir.0, &below] {
            std::os::unix::fs::chown(path, Some(4711), None).expect("chown");
        }
        assert!(is_bare_by(&dir.0, &facts, home) && !is_bare_by(&below, &facts, home));
    }
}

/// Whatever the name leads to at each moment, the directory that was judged is the one that is kept open.
#[test]
fn t3_103_a_directory_swapped_for_a_link_is_judged_as_what_was_opened() {
    let dir = Dir::new("cwd-swap");
    let at = |name: &str| dir.0.join(name);
    for sub in ["in/x", "out"] {
        std::fs::create_dir_all(at(sub)).expect("create");
    }
    symlink("../out", at("in/y")).expect("link");
    let inside = at("in/x").metadata().expect("inside").ino();
    let roots = [at("in")];
    let facts = facts();
    let (mut permitted, mut refused) = (0, 0);
    let swapping = Swapping::start(at("in/x"), at("in/y"));
    for _ in 0..10_000 {
        // A name that led elsewhere a moment later is an error of its own.
        let Ok(opened) = open(Some(&at("in/x")), &facts) else { continue };
        let really = nix::sys::stat::fstat(&opened.fd).expect("open").st_ino;
        if lies_in(&opened.path, Some(&roots), &facts) {
            assert_eq!(really, inside, "permitted as {}", opened.path.display());
            permitted += 1;
        } else {
            assert_ne!(really, inside, "refused as {}", opened.path.display());
            refused += 1;
        }
    }
    drop(swapping);
    assert!(permitted > 0 && refused > 0, "both were met: {permitted}, {refused}");
}
