//! System calls that no confined run needs.

use super::scene::{self, Ground, STRICT, WORKSPACE, attempt, refused, words};
use crate::harness::As;

/// What the kernel itself keeps from ordinary users.
const ROOTS: &[&str] = &["bpf", "mount", "setns", "opentree", "fsopen", "chroot", "syslog", "capability"];

as_both! {
    fn t3_96_io_uring_does_not_exist(bench) {
        refused(bench, STRICT, &["uring"], &["uring"]);
        refused(bench, WORKSPACE, &["uring"], &["uring"]);
    }
}

as_both! {
    fn t3_97_other_abis_are_dead_ends(bench) {
        if !cfg!(target_arch = "x86_64") {
            return crate::harness::skip("int 0x80 and x32 are of x86-64");
        }
        let attacks = ["int80", "int80socket", "x32", "x32socket"];
        refused(bench, STRICT, &attacks, &["int80", "int80socket", "x32", "x32socket"]);
        refused(bench, WORKSPACE, &attacks, &["int80", "int80socket", "x32", "x32socket"]);
        let (outcomes, _) = attempt(bench, Ground::Namespaces, STRICT, &words(&attacks));
        assert_eq!(outcomes["int80"], "killed SIGSYS");
        assert_eq!(outcomes["x32socket"], "refused ENOSYS");
    }
}

as_both! {
    fn t3_97_a_run_that_the_filter_kills_says_so(bench) {
        if !cfg!(target_arch = "x86_64") {
            return crate::harness::skip("int 0x80 is of x86-64");
        }
        for ground in scene::GROUNDS {
            let call = ground.call(bench, &format!("{STRICT}{}", scene::rule()));
            let answer = call.run([scene::attacker().to_str().expect("UTF-8"), "--die-by-int80"]);
            assert_eq!((answer.status(), answer.str("signal"), answer.exit), ("signaled", "SIGSYS", 128 + 31), "{}", answer.show());
            assert_eq!(answer.json["violations"][0]["layer"], "syscalls", "{}", answer.show());
        }
        let call = Ground::Groups.call(bench, &format!("{}{}", scene::OFF, scene::rule()));
        let answer = call.run([scene::attacker().to_str().expect("UTF-8"), "--die-by-int80"]);
        assert_eq!((answer.status(), &answer.json["violations"]), ("ok", &serde_json::json!([])), "{}", answer.show());
    }
}

as_both! {
    fn t3_98_ptrace_bpf_keys_userfaultfd_and_perf_are_refused(bench) {
        let attacks =
            ["traceme", "vmread", "bpf", "perf", "keyctl", "addkey", "userfault", "fanotify", "pidfdgetfd", "syslog", "personality"];
        let may = [ROOTS, &["perf", "userfault", "fanotify"]].concat();
        refused(bench, STRICT, &attacks, &may);
        refused(bench, WORKSPACE, &attacks, &may);
    }
}

as_both! {
    fn t3_98_namespaces_and_mounts_are_refused_in_every_spelling(bench) {
        let attacks = [
            "unshareuser", "unsharenet", "cloneuser", "clone3user", "usermount", "mount", "setns", "opentree", "fsopen", "chroot",
        ];
        let may = [ROOTS, &["unshareuser", "unsharenet", "cloneuser", "clone3user", "usermount"]].concat();
        refused(bench, STRICT, &attacks, &may);
        refused(bench, WORKSPACE, &attacks, &may);
    }
}

as_both! {
    fn typing_for_others_is_refused(bench) {
        refused(bench, STRICT, &["tiocsti", "tioclinux"], &[]);
        refused(bench, WORKSPACE, &["tiocsti", "tioclinux"], &[]);
    }
}

as_both! {
    fn names_of_the_hosts_ipc_are_out_of_reach(bench) {
        // In an IPC namespace of its own a run may have as many as it likes.
        for ground in [Ground::Groups, Ground::NoNamespaces] {
            let (outcomes, _) = attempt(bench, ground, STRICT, &words(&["shm"]));
            assert_eq!(outcomes["shm"], "refused EACCES", "{ground:?}");
        }
        let (outcomes, _) = attempt(bench, Ground::Namespaces, scene::OFF, &words(&["shm"]));
        assert_eq!(outcomes["shm"], "open");
    }
}

as_both! {
    fn no_capability_and_no_group_is_left(bench) {
        let may = if bench.who == As::User { &["capability", "groups", "setuid0"][..] } else { &["groups"] };
        refused(bench, STRICT, &["capability", "groups", "setuid0"], may);
        // Where only root may write to the working directory, root it stays, without any power.
        refused(bench, WORKSPACE, &["capability", "groups"], may);
    }
}
