//! Tests of runs in a cgroup of their own, by root where a hierarchy of version 2 is mounted.

use super::*;
use crate::policy::model::TreeKind::{Both, Cgroup};

fn can() -> bool {
    let place = Place::find();
    if let Err(why) = &place {
        println!("SKIPPED: no cgroup can be made here: {}", why.0);
    }
    place.is_ok()
}

const HERE: Setting = Setting { user: None, tree: Both };

/// The cgroups of runs of this engine that are there.
fn cgroups_of(engine: Pid) -> Vec<String> {
    let base = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
        .into_iter()
        .find(|d| std::fs::metadata(format!("{d}/cgroup.procs")).is_ok());
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own.lines().find_map(|l| l.strip_prefix("0::")).unwrap().trim_end_matches('/').to_owned();
    let name = format!("guardexec-{engine}-");
    let below = std::fs::read_dir(format!("{}{own}", base.unwrap())).unwrap();
    let names = below.flatten().map(|e| e.file_name().to_string_lossy().into_owned());
    names.filter(|n| n.starts_with(&name)).collect()
}

/// Runs in a process that can make no namespaces.
fn without_namespaces(script: &str, tree: TreeKind) -> Value {
    let (read, write) = fd::pipe().unwrap();
    let pid = process::fork_for_test(|| {
        process::forbid_namespaces_for_test();
        // The first process of a user namespace may still make the others.
        std::fs::write("/proc/sys/user/max_pid_namespaces", "0").unwrap();
        let c = shell(Setting { user: None, tree }, script, wall(1_000));
        let answer = as_json(run(c, &mut Sinks::keep(), None)).to_string();
        std::fs::File::from(write.try_clone().unwrap()).write_all(answer.as_bytes()).unwrap();
        0
    });
    drop(write);
    Engine { pid, answer: read.into() }.end()
}

#[test]
fn the_run_is_born_in_it_and_the_guards_are_not() {
    if !can() {
        return;
    }
    let r = sh(HERE, "cat /proc/self/cgroup; echo $(cat /proc/1/cgroup)", |_| {});
    let text = r["stdout"].as_str().unwrap();
    let of_run = text.lines().find_map(|l| l.strip_prefix("0::")).unwrap();
    assert!(of_run.contains("guardexec-"), "{r}");
    let of_keeper = text.lines().last().unwrap();
    assert!(!of_keeper.contains("guardexec-"), "the keeper is process 1: {r}");
}

#[test]
fn it_is_gone_afterwards_and_after_the_front_was_killed() {
    if !can() {
        return;
    }
    let m = marker();
    let script = format!("setsid sleep {m} & (setsid sleep {m} &); sleep {m}");
    let engine = Engine::start(HERE, || shell(HERE, &script, wall(20_000)), Sinks::keep);
    until(|| alive(&m).len() >= 3);
    assert_eq!(cgroups_of(engine.pid).len(), 1);
    process::kill(engine.pid, libc::SIGKILL).unwrap();
    let pid = engine.pid;
    engine.end();
    assert_gone(&m, Duration::from_secs(3));
    until(|| cgroups_of(pid).is_empty());
    let engine = Engine::start(HERE, || shell(HERE, "true", wall(20_000)), Sinks::keep);
    let pid = engine.pid;
    assert_eq!(engine.end()["value"], 0);
    assert_eq!(cgroups_of(pid), Vec::<String>::new());
}

#[test]
fn it_holds_the_tree_without_a_namespace() {
    if !can() {
        return;
    }
    let m = marker();
    let script = format!("(setsid sh -c 'setsid sleep {m} & sleep {m}' &); echo x; sleep {m}");
    for tree in [TreeKind::Auto, Cgroup] {
        let r = without_namespaces(&script, tree);
        assert_eq!((&r["tree"], &r["limit"]), (&json!("cgroup_v2"), &json!("wall_time")), "{r}");
        assert_gone(&m, Duration::ZERO);
        assert_eq!(r["warnings"].as_array().unwrap().len(), 1, "{r}");
    }
    let r = without_namespaces("true", Both);
    assert!(r["error"].as_str().unwrap().starts_with("could not make the process that holds"), "{r}");
}

#[test]
fn processor_time_of_processes_that_nobody_waits_for_counts() {
    if !can() {
        return;
    }
    // Each burns less than a sample lasts, with SIGCHLD ignored: no rusage ever has it.
    let burn = "trap '' CHLD; i=0; while [ $i -lt 30 ]; do (j=0; while [ $j -lt 20000 ]; do j=$((j+1)); done); i=$((i+1)); done";
    let timed = "j=0; while [ $j -lt 600000 ]; do j=$((j+1)); done";
    let whole = sh(HERE, timed, |_| {})["cpu_ms"].as_u64().unwrap();
    let r = sh(HERE, burn, |_| {});
    let counted = r["cpu_ms"].as_u64().unwrap();
    assert!(counted * 2 > whole, "{counted} ms counted of some {whole}: {r}");
}

#[test]
fn who_may_not_make_one_is_told_or_does_without() {
    if process::ids().0 != 0 || !can() {
        return;
    }
    let user = Some(NOBODY);
    let r = sh(Setting { user, tree: Cgroup }, "true", |_| {});
    assert!(r["error"].as_str().unwrap().contains("not delegated to this user"), "{r}");
    let r = sh(Setting { user, tree: TreeKind::Auto }, "true", |_| {});
    assert_eq!((&r["tree"], &r["value"]), (&json!("pid_namespace"), &json!(0)), "{r}");
}
