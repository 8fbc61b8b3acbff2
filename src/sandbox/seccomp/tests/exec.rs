//! Ways to start something further.

use std::os::fd::AsRawFd;
use std::path::Path;

use super::super::super::raw::attack::{Scratch, arg, c_path, exec_at, exec_fd};
use super::super::super::raw::secret::SecretPath;
use super::*;

/// Runs `words` as the one exec of an exec-once filter, by path, and returns how it ended.
fn once(words: &[&str]) -> Ended {
    in_child(Who::Same, || {
        let secret = SecretPath::new(&c_path(Path::new(words[0]))).unwrap();
        let execution = Execution::Once { secret: secret.address(), by_descriptor: false };
        filter(&Options { execution, ..strict() });
        exec_at(secret.address(), words)
    })
}

fn bare(words: &[&str]) -> Ended {
    in_child(Who::Same, || exec_at(arg(&c_path(Path::new(words[0]))), words))
}

/// A marker file appears if, and only if, the attack started something.
fn starts(words: &[&str], marker: &Path) -> bool {
    let _ = std::fs::remove_file(marker);
    once(words);
    let confined = marker.exists();
    let _ = std::fs::remove_file(marker);
    bare(words);
    assert!(marker.exists(), "the attack itself: {words:?}");
    confined
}

#[test]
fn once_runs_the_program_and_nothing_further() {
    assert_eq!(once(&["/bin/sh", "-c", "exit 7"]), Ended::Exited(7));
    let scratch = Scratch::new("once");
    let marker = scratch.0.join("marker");
    let m = marker.to_str().unwrap();
    let dir = scratch.0.to_str().unwrap();
    std::fs::write(scratch.0.join("input"), "b\na\n").unwrap();
    let tar_action = format!("--checkpoint-action=exec=touch {m}");
    let awk = format!("BEGIN {{ system(\"touch {m}\") }}");
    let input = format!("{dir}/input");
    let attacks: &[&[&str]] = &[
        &["/bin/sh", "-c", &format!("touch {m}")],
        &["/usr/bin/find", &input, "-exec", "touch", m, ";"],
        &["/usr/bin/env", "touch", m],
        &["/usr/bin/nice", "touch", m],
        &["/usr/bin/awk", &awk],
        &["/bin/tar", "-cf", "/dev/null", "--checkpoint=1", &tar_action, dir],
        &["/usr/bin/perl", "-e", &format!("exec 'touch', '{m}'")],
    ];
    for attack in attacks {
        if Path::new(attack[0]).exists() {
            assert!(!starts(attack, &marker), "{attack:?}");
        }
    }
}

#[test]
fn once_stops_the_loader_and_a_changed_file() {
    let Ok(needed) = super::super::super::loader::needed(Path::new("/bin/sh")) else { return };
    let scratch = Scratch::new("once-loader");
    let marker = scratch.0.join("marker");
    let script = format!("exec {} /bin/sh -c 'touch {}'", needed[0].display(), marker.display());
    let script = script.replace("exec ", "");
    let words = ["/bin/sh", "-c", &format!(": ; {script} ; exit 0")];
    let _ = std::fs::remove_file(&marker);
    once(&words);
    assert!(!marker.exists());
    // `touch` itself would be an exec: the proof that the loader runs it unconfined is the marker.
    bare(&words);
    assert!(marker.exists());
}

#[test]
fn once_by_descriptor_takes_only_the_guards_own_call() {
    let file = std::fs::File::open("/bin/sh").unwrap();
    let with = |attack: &dyn Fn(&SecretPath) -> i32| {
        in_child(Who::Same, || {
            let secret = SecretPath::new(c"").unwrap();
            let execution = Execution::Once { secret: secret.address(), by_descriptor: true };
            filter(&Options { execution, ..strict() });
            attack(&secret)
        })
    };
    let fd = file.as_raw_fd();
    assert_eq!(with(&|s| exec_fd(fd, s.address(), &["sh", "-c", "exit 7"])), Ended::Exited(7));
    let other = with(&|_| exec_fd(fd, arg(c""), &["sh", "-c", "exit 7"]));
    assert_eq!(other, Ended::Exited(EACCES));
    assert_eq!(with(&|s| exec_at(s.address(), &["sh"])), Ended::Exited(EACCES));
    assert_eq!(with(&|_| exec_at(arg(c"/bin/sh"), &["sh", "-c", "exit 7"])), Ended::Exited(EACCES));
    let unfiltered = in_child(Who::Same, || exec_fd(fd, arg(c""), &["sh", "-c", "exit 7"]));
    assert_eq!(unfiltered, Ended::Exited(7));
}

/// memfd_create, write a program, execute it by descriptor: no file that Landlock could judge.
#[test]
fn a_program_in_memory_cannot_be_executed() {
    let program = std::fs::read("/bin/sh").unwrap();
    let attack = || {
        let Ok(fd) = syscall(libc::SYS_memfd_create, [c"x".as_ptr() as u64, 0, 0, 0, 0, 0]) else { return 1 };
        let (from, len) = (program.as_ptr() as u64, program.len() as u64);
        assert_eq!(syscall(libc::SYS_write, [fd as u64, from, len, 0, 0, 0]), Ok(len as i64));
        exec_fd(fd as i32, arg(c""), &["sh", "-c", "exit 7"]);
        let path = c_path(Path::new(&format!("/proc/self/fd/{fd}")));
        exec_at(arg(&path), &["sh", "-c", "exit 7"])
    };
    assert_eq!(in_child(Who::Same, attack), Ended::Exited(7));
    for execution in [Execution::List { secret: None }, Execution::List { secret: Some(1 << 40) }] {
        let filtered = in_child(Who::Same, || {
            filter(&Options { execution, ..strict() });
            attack()
        });
        assert_eq!(filtered, Ended::Exited(1), "{execution:?}");
    }
    let sealed = [c"x".as_ptr() as u64, u64::from(MFD_NOEXEC_SEAL), 0, 0, 0, 0];
    works(
        &Options { execution: Execution::List { secret: None }, ..strict() },
        libc::SYS_memfd_create,
        sealed,
    );
}

#[test]
fn a_list_leaves_execve_to_landlock_and_execveat_to_the_guard() {
    let ended = in_child(Who::Same, || {
        let secret = SecretPath::new(c"").unwrap();
        filter(&Options { execution: Execution::List { secret: Some(secret.address()) }, ..strict() });
        let file = std::fs::File::open("/bin/sh").unwrap();
        assert_eq!(exec_fd(file.as_raw_fd(), arg(c""), &["sh"]), ENOSYS);
        exec_fd(file.as_raw_fd(), secret.address(), &["sh", "-c", "/bin/sh -c 'exit 7'"])
    });
    assert_eq!(ended, Ended::Exited(7));
}

#[test]
fn secret_paths_differ_and_stand_where_they_say() {
    let (a, b) = (SecretPath::new(c"/x").unwrap(), SecretPath::new(c"/x").unwrap());
    assert_ne!(a.address(), b.address());
    assert_eq!(a.address(), a.as_ptr() as u64);
    let long = std::ffi::CString::new(vec![b'a'; 4095]).unwrap();
    assert!(SecretPath::new(&long).is_ok());
    let longer = std::ffi::CString::new(vec![b'a'; 4096]).unwrap();
    assert_eq!(SecretPath::new(&longer).unwrap_err(), libc::ENAMETOOLONG);
}
