//! Tests of cgroups, where this process may make one.

use super::*;
use crate::policy::model::{Bound, Limits};

#[test]
fn controllers_are_told_by_whole_words() {
    let all = Controllers::parse("cpuset cpu io memory hugetlb pids rdma misc\n");
    assert_eq!(all, Controllers { cpu: true, memory: true, pids: true });
    assert_eq!(Controllers::parse("cpuset hugetlb\n"), Controllers::default());
}

#[test]
fn only_limits_that_are_set_are_held() {
    let all = Controllers { cpu: true, memory: true, pids: true };
    let mut limits = Limits::default().effective();
    assert_eq!(all.that_hold(&limits), Controllers { cpu: false, ..all });
    limits.memory = Bound::Lifted;
    limits.pids = Bound::Lifted;
    assert!(!all.that_hold(&limits).any());
}

#[test]
fn figures_are_read_by_their_whole_name() {
    let text = "low 1\nmax 7\noom 2\noom_kill 3\noom_group_kill 4\n";
    assert_eq!(figure(text, "oom_kill"), Some(3));
    assert_eq!(figure(text, "oom"), Some(2));
    assert_eq!(figure(text, "high"), None);
}

fn place() -> Option<Place> {
    match Place::find() {
        Ok(place) => Some(place),
        Err(Unavailable(why)) => {
            println!("SKIPPED: no cgroup can be made here: {why}");
            None
        }
    }
}

#[test]
fn one_is_made_and_leaves_nothing() {
    let Some(place) = place() else { return };
    let cgroup = Cgroup::make(&place, &Limits::default().effective()).unwrap();
    let path = place.path.join(&cgroup.name);
    assert!(path.is_dir());
    assert_eq!(cgroup.cpu(), Some((Duration::ZERO, Duration::ZERO)));
    assert!(Cgroup::lock(&place.dir, &cgroup.name).is_err(), "nobody takes it for left behind");
    drop(cgroup);
    assert!(!path.exists());
}

#[test]
fn what_killed_guards_left_is_swept_and_what_others_use_is_not() {
    let Some(place) = place() else { return };
    // Numbers of processes end at 2^22.
    let left = place.path.join("guardexec-2000000000-dead");
    let used = place.path.join("guardexec-2000000000-used");
    fs::create_dir(&left).unwrap();
    fs::create_dir(&used).unwrap();
    let lock = Cgroup::lock(&place.dir, "guardexec-2000000000-used".as_ref()).unwrap();
    place.sweep();
    let found = (left.exists(), used.exists());
    drop(lock);
    place.sweep();
    assert_eq!((found, used.exists()), ((false, true), false));
}
