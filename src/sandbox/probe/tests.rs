//! The probes on this host, and on hosts that a filter of the test makes worse.

use super::super::raw::attack::{Ended, Who, everyone, in_child, refuse_call};
use super::*;

#[test]
fn a_probe_agrees_with_itself() {
    for probe in all() {
        println!("{:14} {} {} {:?}", probe.name, probe.ok, probe.sentence, probe.remedy);
        assert_eq!(probe.ok, probe.errno.is_none() && probe.remedy.is_none(), "{probe:?}");
    }
    // Whatever host this is, one of these is there, or the tests prove nothing.
    assert!(landlock().ok || seccomp().ok);
}

#[test]
fn the_probes_leave_nothing_behind() {
    let before = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    mount_namespace();
    pid_namespace();
    assert_eq!(std::fs::read_to_string("/proc/self/mountinfo").unwrap(), before);
    assert!(!std::path::Path::new("/guardexec-probe").exists());
}

/// Each probe says no, with the errno and a remedy, where its system call is refused.
#[test]
fn a_refused_call_is_found_out() {
    type Case = (i64, Errno, fn() -> Probe);
    let cases: [Case; 6] = [
        (444, libc::ENOSYS, landlock),
        (444, libc::EOPNOTSUPP, landlock),
        (libc::SYS_unshare, libc::EPERM, mount_namespace),
        (libc::SYS_unshare, libc::ENOSPC, pid_namespace),
        (libc::SYS_mount, libc::EPERM, pid_namespace),
        (442, libc::ENOSYS, mount_namespace),
    ];
    for (number, errno, probe) in cases {
        for who in everyone() {
            let ended = in_child(*who, || {
                refuse_call(number, errno);
                let found = probe();
                i32::from(found.ok || found.errno != Some(errno) || found.remedy.is_none())
            });
            assert_eq!(ended, Ended::Exited(0), "call {number}, {errno}, {who:?}");
        }
    }
}

/// A mechanism that reports success and does nothing is found out too: a filter that fakes success.
#[test]
fn a_faked_success_is_found_out() {
    for (number, probe) in [(446, landlock as fn() -> Probe), (libc::SYS_seccomp, seccomp)] {
        let ended = in_child(Who::Same, || {
            refuse_call(number, 0);
            let found = probe();
            i32::from(found.ok || found.errno.is_some() || !found.sentence.ends_with("had no effect"))
        });
        assert_eq!(ended, Ended::Exited(0), "call {number}");
    }
}
