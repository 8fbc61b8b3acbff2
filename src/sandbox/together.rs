//! Tests of all layers at once, in the order in which a run applies them: mounts, identity, no-new-privileges, late rules,
//! Landlock, filter, exec.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::identity::{self, Identity};
use super::mount::{self, keep};
use super::raw::attack::{Ended, Scratch, Who, arg, c_path, everyone, exec_at, in_child, own_mounts};
use super::raw::secret::SecretPath;
use super::seccomp::{self, Execution, Network};
use super::view::{self, Inputs};
use super::{landlock, raw};
use crate::policy::model::{Filesystem, Profile};

struct Setup<'a> {
    profile: Profile,
    cwd: &'a Path,
    exec: Option<&'a [PathBuf]>,
    mounts: bool,
    own_proc: bool,
}

fn execution(setup: &Setup<'_>, secret: &SecretPath) -> Execution {
    match (setup.profile, setup.exec) {
        (Profile::Strict, None) => Execution::Once { secret: secret.address(), by_descriptor: false },
        (_, Some(_)) => Execution::List { secret: None },
        _ => Execution::Any,
    }
}

fn drop_to(root: bool, setup: &Setup<'_>) {
    let who = if root { Identity::Anonymous(1_900_000_001) } else { Identity::Same };
    identity::apply(&identity::Prepared::new(who, setup.mounts)).unwrap();
}

fn kept_in(cwd: &Path) -> keep::Kept {
    let roots = [cwd.to_owned()];
    keep::find(&roots, &super::repositories::Repositories::below(&roots))
}

/// Confines this process as `setup` says and executes `words`; returns an errno.
fn run(setup: &Setup<'_>, who: Who, words: &[&str]) -> i32 {
    let lists = Filesystem::default();
    let program = Path::new(words[0]).canonicalize().unwrap();
    let tmp = if setup.mounts {
        mount::TmpPlaces::find().first(setup.cwd, &lists).unwrap()
    } else {
        setup.cwd.join("tmp")
    };
    let root = who == Who::Same && everyone().len() == 2;
    let inputs = Inputs {
        profile: setup.profile,
        cwd: setup.cwd,
        filesystem: &lists,
        program: &program,
        exec: setup.exec,
        tmp: &tmp,
        guarded: &[],
        mounts: setup.mounts,
        own_proc: setup.own_proc,
        privileged_reader: false,
        owns_system: false,
        refuse_tcp: true,
    };
    let view = view::view(&inputs).unwrap();
    let kept = (setup.profile == Profile::Workspace).then(|| kept_in(setup.cwd));
    let spec = mount::Spec {
        view: &view,
        cwd: setup.cwd,
        tmp_size: 64 << 20,
        kept: kept.as_ref(),
        places: &mount::TmpPlaces::find(),
        map: &[],
        own_proc: setup.own_proc,
    };
    let mounts = setup.mounts.then(|| mount::Prepared::new(&spec).unwrap());
    let ruleset = landlock::Prepared::filled(&view, landlock::abi()).unwrap();
    let secret = SecretPath::new(&c_path(&program)).unwrap();
    let execution = execution(setup, &secret);
    let filter = seccomp::Prepared::new(&seccomp::Options {
        execution,
        network: Network::None,
        pid_namespace: false,
        ipc_namespace: false,
        attributes: true,
        truncate_by_path: true,
        openat2: false,
    });
    if let Some(mounts) = &mounts {
        assert!(setup.own_proc || own_mounts());
        mount::apply(mounts).unwrap();
    }
    std::env::set_current_dir(setup.cwd).unwrap();
    drop_to(root, setup);
    raw::no_new_privs().unwrap();
    landlock::add_late(ruleset.fd.as_raw_fd(), &ruleset.late).unwrap();
    landlock::apply(ruleset.fd.as_raw_fd()).unwrap();
    seccomp::apply(&filter).unwrap();
    exec_at(secret.address(), words)
}

fn runs(setup: &Setup<'_>, words: &[&str]) {
    for who in everyone() {
        assert_eq!(in_child(*who, || run(setup, *who, words)), Ended::Exited(0), "{words:?}, {who:?}");
    }
}

fn open_scratch(name: &str) -> Scratch {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new(name);
    fs::create_dir(scratch.0.join("tmp")).unwrap();
    for dir in [scratch.0.clone(), scratch.0.join("tmp")] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    }
    scratch
}

#[test]
fn strict_runs_ordinary_programs() {
    let scratch = open_scratch("together-strict");
    for mounts in [true, false] {
        let setup = Setup { profile: Profile::Strict, cwd: &scratch.0, exec: None, mounts, own_proc: false };
        runs(&setup, &["/bin/true"]);
        let tmp = if mounts { "/tmp" } else { "tmp" };
        let script = format!("echo x > /dev/null && echo y > {tmp}/y$$ && ! echo z > z && exit 0");
        runs(&setup, &["/bin/sh", "-c", &script]);
        for program in ["/usr/bin/python3", "/usr/bin/perl", "/usr/bin/git", "/usr/bin/java", "/usr/bin/node"]
        {
            if !Path::new(program).exists() {
                eprintln!("SKIPPED: {program} is not installed");
                continue;
            }
            let version = if program.ends_with("java") { "-version" } else { "--version" };
            runs(&setup, &[program, version]);
        }
    }
}

#[test]
fn workspace_builds() {
    let scratch = open_scratch("together-workspace");
    fs::write(scratch.0.join("m.c"), "int main(void) { return 0; }\n").unwrap();
    for mounts in [true, false] {
        let setup =
            Setup { profile: Profile::Workspace, cwd: &scratch.0, exec: None, mounts, own_proc: false };
        // Without a private tmp the compiler needs to be told where to put its own files.
        let script = "export TMPDIR=$PWD/tmp; gcc -o m m.c && ./m && rm m";
        runs(&setup, &["/bin/sh", "-c", script]);
    }
}

/// With an `exec` list: everything that asks execve for another file, by whatever name, is refused.
#[test]
fn a_list_holds_for_the_whole_tree() {
    let scratch = open_scratch("together-list");
    let cat: Vec<PathBuf> =
        ["/bin/sh", "/bin/cat"].iter().map(|p| Path::new(p).canonicalize().unwrap()).collect();
    let setup =
        Setup { profile: Profile::Strict, cwd: &scratch.0, exec: Some(&cat), mounts: true, own_proc: false };
    runs(&setup, &["/bin/sh", "-c", "cat /etc/passwd > /dev/null && sh -c 'cat /dev/null'"]);
    let attacks = [
        "id",
        "/usr/bin/id",
        "cat /usr/bin/id > /tmp/id; chmod 755 /tmp/id; /tmp/id",
        "ln -s /usr/bin/id /tmp/id; /tmp/id",
        "printf '#!/usr/bin/id\\n' > /tmp/s; /tmp/s",
        "printf '#!/bin/sh\\nexit 0\\n' > /tmp/s; /tmp/s",
        "exec /proc/self/root/usr/bin/id",
        "env id",
        "busybox id",
    ];
    for attack in attacks {
        for who in everyone() {
            let ended = in_child(*who, || run(&setup, *who, &["/bin/sh", "-c", attack]));
            assert!(matches!(ended, Ended::Exited(126 | 127)), "{attack}: {ended:?}, {who:?}");
        }
    }
    // The counter-proof, with the layer off.
    let bare = in_child(Who::Same, || exec_at(arg(c"/bin/sh"), &["/bin/sh", "-c", "id > /dev/null"]));
    assert_eq!(bare, Ended::Exited(0));
}

/// A run of guardexec inside a run of guardexec: the layers stack, and the inner one only tightens.
#[test]
fn layers_stack() {
    let scratch = open_scratch("together-nested");
    let workspace =
        Setup { profile: Profile::Workspace, cwd: &scratch.0, exec: None, mounts: false, own_proc: false };
    let strict = Setup { profile: Profile::Strict, ..workspace };
    for who in everyone() {
        let nested = |words: &[&str]| {
            in_child(*who, || {
                let lists = Filesystem::default();
                let tmp = scratch.0.join("tmp");
                let inputs = Inputs {
                    profile: Profile::Workspace,
                    cwd: &scratch.0,
                    filesystem: &lists,
                    program: Path::new("/bin/sh"),
                    exec: None,
                    tmp: &tmp,
                    guarded: &[],
                    mounts: false,
                    own_proc: false,
                    privileged_reader: false,
                    owns_system: false,
                    refuse_tcp: true,
                };
                let outer =
                    landlock::Prepared::filled(&view::view(&inputs).unwrap(), landlock::abi()).unwrap();
                raw::no_new_privs().unwrap();
                landlock::add_late(outer.fd.as_raw_fd(), &outer.late).unwrap();
                landlock::apply(outer.fd.as_raw_fd()).unwrap();
                let filter = seccomp::Prepared::new(&seccomp::Options {
                    execution: Execution::List { secret: None },
                    network: Network::None,
                    pid_namespace: false,
                    ipc_namespace: false,
                    attributes: true,
                    truncate_by_path: true,
                    openat2: false,
                });
                seccomp::apply(&filter).unwrap();
                run(&strict, *who, words)
            })
        };
        assert_eq!(nested(&["/bin/sh", "-c", "exit 0"]), Ended::Exited(0), "{who:?}");
        assert_eq!(
            nested(&["/bin/sh", "-c", "echo x 2> /dev/null > new && exit 0; exit 3"]),
            Ended::Exited(3)
        );
    }
    let outer_alone =
        in_child(Who::Same, || run(&workspace, Who::Nobody, &["/bin/sh", "-c", "echo x > new"]));
    assert_eq!(outer_alone, Ended::Exited(0));
}

/// In a PID namespace the run sees its own processes and no other's, not even the first one's environment.
#[test]
fn its_own_proc_shows_its_own_processes() {
    let scratch = open_scratch("together-proc");
    let setup =
        Setup { profile: Profile::Workspace, cwd: &scratch.0, exec: None, mounts: true, own_proc: true };
    let script = "set -e; cat /proc/self/status /proc/meminfo /proc/$$/environ > /dev/null; \
                  [ $$ = 2 ]; [ -d /proc/1 ]; [ ! -d /proc/4 ]; ! cat /proc/1/environ 2>/dev/null; \
                  ! echo 1 > /proc/self/oom_score_adj; ! echo 1 > /proc/sys/kernel/pid_max";
    for who in everyone() {
        let ended = in_child(*who, || {
            if !own_mounts() || raw::process::unshare(libc::CLONE_NEWPID).is_err() {
                return 77;
            }
            // The first process stands for the keeper: it starts the run and waits for it.
            let first = in_child(Who::Same, || {
                let words = ["/bin/sh", "-c", script];
                let run = in_child(Who::Same, || run(&setup, *who, &words));
                i32::from(run != Ended::Exited(0))
            });
            i32::from(first != Ended::Exited(0))
        });
        assert_eq!(ended, Ended::Exited(0), "{who:?}");
    }
}

#[test]
#[ignore = "prints what each layer costs"]
fn cost() {
    let scratch = open_scratch("together-cost");
    let setup =
        |mounts| Setup { profile: Profile::Strict, cwd: &scratch.0, exec: None, mounts, own_proc: false };
    let time = |name: &str, body: &dyn Fn()| {
        let mut times: Vec<_> = (0..200)
            .map(|_| {
                let start = Instant::now();
                body();
                start.elapsed()
            })
            .collect();
        times.sort();
        println!("{name:12} {:?}", times[50]);
    };
    time("bare", &|| {
        in_child(Who::Same, || exec_at(arg(c"/bin/true"), &["true"]));
    });
    time("no mounts", &|| {
        in_child(Who::Same, || run(&setup(false), Who::Same, &["/bin/true"]));
    });
    time("all", &|| {
        in_child(Who::Same, || run(&setup(true), Who::Same, &["/bin/true"]));
    });
}
