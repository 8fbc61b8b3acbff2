//! Tests of what decides together: the tightest wins key by key, and a rule widens only its own file.

use super::*;
use crate::decision::tests::made::*;
use crate::policy::model::{Limits, Own, Policy, Rule, SandboxPolicy};

fn both<T>(a: &Policy, b: &Policy, judge: impl Fn(&[Match<'_>]) -> T) -> T {
    let of = |policy| Match { policy, rule: &policy.rules[0] };
    judge(&[of(a), of(b)])
}

fn sandboxed(sandbox: SandboxPolicy) -> Policy {
    Policy { sandbox, ..policy(vec![allow("true")]) }
}

fn with(filesystem: Filesystem, profile: Profile) -> Policy {
    let sandbox = SandboxPolicy { profile: Some(profile), ..SandboxPolicy::default() };
    Policy { filesystem, ..sandboxed(sandbox) }
}

fn reading(paths: &[&str]) -> Filesystem {
    Filesystem { read: Some(paths.iter().map(PathBuf::from).collect()), ..Filesystem::default() }
}

fn wall(seconds: u64) -> Limits {
    Limits { wall_time: Some(Bound::At(Duration::from_secs(seconds))), ..Limits::default() }
}

fn wanted_of(a: &Policy, b: &Policy) -> Wanted {
    both(a, b, |m| wanted(m, vec!["/usr/bin".into()])).expect("settled")
}

#[test]
fn a_rule_widens_its_own_file_and_never_another() {
    let own = Rule { own: Own { limits: wall(30), ..Own::default() }.into(), ..allow("true") };
    let mut a = policy(vec![own]);
    a.limits = wall(5);
    let alone = limits(&[Match { policy: &a, rule: &a.rules[0] }], None);
    assert_eq!(alone.wall_time, Bound::At(Duration::from_secs(30)));
    let mut b = policy(vec![allow("true")]);
    b.limits = wall(10);
    assert_eq!(both(&a, &b, |m| limits(m, None)).wall_time, Bound::At(Duration::from_secs(10)));
}

#[test]
fn a_timeout_only_tightens_and_missing_limits_are_defaults() {
    let a = policy(vec![allow("true")]);
    let m = [Match { policy: &a, rule: &a.rules[0] }];
    let seconds = |t| limits(&m, Some(Duration::from_secs(t))).wall_time;
    assert_eq!(seconds(5), Bound::At(Duration::from_secs(5)));
    assert_eq!(seconds(500), Bound::At(Duration::from_secs(60)));
}

#[test]
fn profile_and_require_are_the_strictest() {
    let host = sandboxed(SandboxPolicy { profile: Some(Profile::Host), ..SandboxPolicy::default() });
    let strict = sandboxed(SandboxPolicy::default());
    let w = wanted_of(&host, &strict);
    assert_eq!((w.profile, w.require_written), (Profile::Strict, false));
    assert_eq!(w.require, [Layer::Filesystem, Layer::Network, Layer::Syscalls]);
    assert!(wanted_of(&host, &host).require.is_empty());
    let tmp = sandboxed(SandboxPolicy { require: Some(vec![Layer::Tmp]), ..SandboxPolicy::default() });
    let w = wanted_of(&host, &tmp);
    assert_eq!((w.require, w.require_written), (vec![Layer::Tmp], true));
}

#[test]
fn users_agree_and_root_is_no_tightening() {
    let named = |user: Option<&str>| {
        sandboxed(SandboxPolicy { user: user.map(String::from), ..SandboxPolicy::default() })
    };
    let user_of = |a, b| both(&named(a), &named(b), user);
    assert!(user_of(Some("a"), Some("b")).is_err());
    assert_eq!(user_of(Some("a"), Some("a")).expect("agree").as_deref(), Some("a"));
    assert_eq!(user_of(Some("a"), Some("auto")).expect("agree").as_deref(), Some("a"));
    assert_eq!(user_of(Some("root"), None).expect("agree"), None);
    assert_eq!(user_of(None, None).expect("agree"), None);
}

#[test]
fn paths_intersect_and_denials_unite() {
    let strict = Profile::Strict;
    let read = |a: &[&str], b: &[&str]| {
        wanted_of(&with(reading(a), strict), &with(reading(b), strict)).filesystem.read
    };
    let paths = |list: &[&str]| Some(list.iter().map(PathBuf::from).collect::<Vec<_>>());
    assert_eq!(read(&["/usr"], &["/usr/share", "/opt"]), paths(&["/usr/share"]));
    assert_eq!(read(&["/usr/share"], &["/usr/share"]), paths(&["/usr/share"]));
    assert_eq!(read(&["/usr/share"], &["/usr/shar"]), paths(&[]));
    let none = with(Filesystem::default(), strict);
    assert_eq!(wanted_of(&with(reading(&["/usr"]), strict), &none).filesystem.read, paths(&[]));
    let host = with(Filesystem::default(), Profile::Host);
    assert_eq!(wanted_of(&host, &with(reading(&["/usr"]), strict)).filesystem.read, paths(&["/usr"]));
    assert_eq!(wanted_of(&none, &none).filesystem.read, None);
    let deny = |p: &str| with(Filesystem { deny: Some(vec![p.into()]), ..Filesystem::default() }, strict);
    assert_eq!(wanted_of(&deny("/b"), &deny("/a")).filesystem.deny, paths(&["/a", "/b"]));
}

#[test]
fn a_path_that_is_below_by_its_letters_only_does_not_pass() {
    let dir = Dir::new("intersect");
    std::fs::create_dir_all(dir.0.join("data")).expect("create");
    std::os::unix::fs::symlink("/etc", dir.0.join("data/link")).expect("link");
    let list = |tail: &str| vec![dir.0.join(tail)];
    assert!(intersect(&list("data/link"), &list("data")).is_empty());
    assert_eq!(intersect(&list("data"), &list("")), list("data"));
}

#[test]
fn network_tmp_and_views_are_the_tightest() {
    let net = |mode, loopback, unix: &[&str]| Policy {
        network: Network { mode, loopback, unix: unix.iter().map(PathBuf::from).collect() },
        ..policy(vec![allow("true")])
    };
    let w = wanted_of(
        &net(Some(NetworkMode::Host), true, &["/a", "/b"]),
        &net(Some(NetworkMode::None), false, &["/b"]),
    );
    assert_eq!((w.network, w.loopback, w.unix), (NetworkMode::None, false, vec![PathBuf::from("/b")]));
    assert_eq!(wanted_of(&net(None, true, &[]), &net(None, true, &[])).network, NetworkMode::Host);
    assert!(wanted_of(&net(None, true, &[]), &net(None, true, &[])).loopback);
    let fs = |tmp, map: &[(&str, &str)]| {
        let map = map.iter().map(|(a, b)| (a.into(), b.into())).collect();
        with(Filesystem { tmp, map, ..Filesystem::default() }, Profile::Strict)
    };
    let w = wanted_of(&fs(Some(1 << 30), &[("/d", "/x"), ("/e", "/y")]), &fs(None, &[("/d", "/x")]));
    assert_eq!((w.filesystem.tmp, w.filesystem.map), (Some(DEFAULT_TMP), vec![("/d".into(), "/x".into())]));
}

#[test]
fn exec_lists_intersect_and_strict_without_one_starts_nothing() {
    let named = |n: &str| {
        if n.starts_with('/') { ProgramName::Absolute(n.into()) } else { ProgramName::Bare(n.into()) }
    };
    let listed = |profile, names: Option<&[&str]>| {
        let exec = names.map(|list| list.iter().map(|n| named(n)).collect());
        let rule = Rule { own: Own { exec, ..Own::default() }.into(), ..allow("true") };
        let sandbox = SandboxPolicy { profile: Some(profile), ..SandboxPolicy::default() };
        Policy { sandbox, ..policy(vec![rule]) }
    };
    let (strict, host) = (Profile::Strict, Profile::Host);
    let exec = |a: &Policy, b: &Policy| wanted_of(a, b).exec;
    assert_eq!(
        exec(&listed(strict, Some(&["a", "b"])), &listed(strict, Some(&["b", "c"]))),
        Some(vec![named("b")])
    );
    assert_eq!(exec(&listed(strict, Some(&["a"])), &listed(strict, None)), None);
    assert_eq!(exec(&listed(host, None), &listed(host, Some(&["a"]))), Some(vec![named("a")]));
    assert_eq!(exec(&listed(host, Some(&["b"])), &listed(host, Some(&["a"]))), Some(vec![]));
    assert_eq!(exec(&listed(host, None), &listed(strict, Some(&["a"]))), None);
    assert_eq!(
        exec(&listed(strict, Some(&["cat"])), &listed(strict, Some(&["/usr/bin/cat", "/opt/cat"]))),
        Some(vec![named("/usr/bin/cat")])
    );
}

#[test]
fn the_tree_is_held_as_the_strictest_says() {
    let kind = |k| sandboxed(SandboxPolicy { processes: k, ..SandboxPolicy::default() });
    let of = |a, b| both(&kind(a), &kind(b), processes);
    assert_eq!(of(Some(TreeKind::Namespace), Some(TreeKind::Groups)), TreeKind::Namespace);
    assert_eq!(of(Some(TreeKind::Groups), None), TreeKind::Auto);
    assert_eq!(of(Some(TreeKind::Groups), Some(TreeKind::Groups)), TreeKind::Groups);
}

#[test]
fn limits_read_as_a_policy_writes_them() {
    let mut limits = crate::policy::model::Limits::default().effective();
    limits.memory = Bound::At(3 << 29);
    limits.output = Bound::At(1001);
    limits.pids = Bound::Lifted;
    let text = shown(&limits);
    assert!(
        text.starts_with("wall_time 60s, cpu_time 60s, memory 1536M, pids none, output 1001B, "),
        "{text}"
    );
    assert!(text.ends_with("file_size 1G, open_files 1024, cpus none"), "{text}");
}
