//! Limits of the whole tree, under both ways to hold one, and what a command may never do whatever it is allowed.

use crate::harness::{Answer, Bench};
use crate::runner::kinds;

#[track_caller]
fn exceeded(a: &Answer, limit: &str, exit: i32) {
    assert_eq!((a.status(), a.str("limit"), a.exit), ("limit_exceeded", limit, exit), "{}", a.show());
    assert!(a.str("text").starts_with(&format!("error: stopped at {limit} of ")), "{}", a.show());
}

fn cpu(a: &Answer) -> u64 {
    a.json["cpu_user_ms"].as_u64().expect("known") + a.json["cpu_system_ms"].as_u64().expect("known")
}

as_both! {
    fn t2_68_webassembly_runs_under_a_gigabyte(bench) {
        if !std::path::Path::new("/usr/bin/node").exists() {
            return crate::harness::skip("needs /usr/bin/node");
        }
        let script = "new WebAssembly.Memory({initial:10,maximum:100});console.log('ok')";
        kinds(bench, "allow = [\"node\"]\n[limits]\nmemory = \"1G\"\n", |call| { call.run(["node", "-e", script]).ok("ok\n"); });
    }
}

as_both! {
    fn t2_68_a_hog_is_killed_for_its_memory(bench) {
        let hog = "my @a; for (1..128) { push @a, 'x' x (16<<20) } print 'survived'; sleep 20";
        kinds(bench, "allow = [\"perl\"]\n[limits]\nmemory = \"256M\"\nwall_time = \"20s\"\n", |call| {
            let a = call.run(["perl", "-e", hog]);
            exceeded(&a, "memory", 137);
            assert_eq!(a.str("stdout"), "", "{}", a.show());
        });
    }
}

as_both! {
    fn memory_is_counted_over_the_tree(bench) {
        // Four of 100 MiB each: none alone is over the limit.
        let hogs = "for (1..4) { next if fork; my $a = 'x' x (100<<20); sleep 20; exit } sleep 20";
        kinds(bench, "allow = [\"perl\"]\n[limits]\nmemory = \"256M\"\nwall_time = \"20s\"\n", |call| {
            exceeded(&call.run(["perl", "-e", hogs]), "memory", 137);
        });
    }
}

#[cfg(target_arch = "x86_64")]
const MEMFD_CREATE: u32 = 319;
#[cfg(target_arch = "aarch64")]
const MEMFD_CREATE: u32 = 279;

as_both! {
    fn memory_that_nobody_has_mapped_counts(bench) {
        let file = format!("my $n = 'x'; my $fd = syscall({MEMFD_CREATE}, $n, 0); die if $fd < 0; open(my $f, '>&=', $fd) or die; my $m = 'y' x (1<<20); for (1..300) {{ syswrite($f, $m) or die }} select(undef, undef, undef, 3); print 'survived'");
        kinds(bench, "allow = [\"perl\"]\n[limits]\nmemory = \"64M\"\nwall_time = \"20s\"\n", |call| {
            exceeded(&call.run(["perl", "-e", &file]), "memory", 137);
        });
        // System V segments, in a namespace of the run's own: written and detached.
        let segments = "for (1..30) { my $id = shmget(0, 10<<20, 0600); defined $id or exit 3; shmwrite($id, 'y' x (10<<20), 0, 10<<20) or exit 4 } select(undef, undef, undef, 3); print 'survived'";
        let call = bench.policy("allow = [\"perl\"]\n[sandbox]\nprofile = \"workspace\"\n[limits]\nmemory = \"64M\"\nwall_time = \"20s\"\n");
        let a = call.run(["perl", "-e", segments]);
        if a.exit == 3 {
            return crate::harness::skip("needs an IPC namespace");
        }
        exceeded(&a, "memory", 137);
    }
}

/// Keeps files in memory of 10 MiB each, so that no one look at what is open or mapped meets much of them.
const HIDDEN: &str = r#"
import array, ctypes, os, socket, sys, threading, time
libc, how, size, kept = ctypes.CDLL(None), sys.argv[1], 10 << 20, []
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def one():
    if how == "unmapped":
        at = libc.mmap(None, size, 3, 0x21, -1, 0)
        libc.memset(at, 1, size), libc.madvise(at, size, 4), libc.munmap(at + 4096, size - 4096)
        return
    file = os.memfd_create("x", 8 if how == "sent" else 1)
    for _ in range(size >> 20): os.write(file, b"x" * (1 << 20))
    if how == "sent":
        pair = socket.socketpair()
        kept.append(pair)
        pair[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))])
    elif how == "closed": libc.mmap(None, 4096, 1, 1, file, 0)
    if how in ("sent", "closed"): os.close(file)
def all():
    if how == "thread": assert libc.unshare(0x400) == 0
    if how == "private": assert libc.prctl(4, 0, 0, 0, 0) == 0
    for _ in range(30): one()
thread = threading.Thread(target=all)
thread.start(); thread.join() if how != "thread" else time.sleep(3)
time.sleep(3); print("survived")
"#;

as_both! {
    fn memory_that_a_process_keeps_out_of_sight_counts(bench) {
        bench.file("work/hidden.py", HIDDEN);
        for how in ["unmapped", "closed", "sent", "private", "thread"] {
            kinds(bench, "allow = [\"python3\"]\n[limits]\nmemory = \"64M\"\nwall_time = \"20s\"\n", |call| {
                exceeded(&call.run(["python3", "hidden.py", how]), "memory", 137);
            });
        }
    }
}

as_both! {
    fn t2_69_forks_do_not_multiply_processor_time(bench) {
        let burn = "perl -e '1 while (times)[0] < 0.8'";
        let line = format!("{burn}; {burn}; {burn}; echo survived");
        kinds(bench, "allow = [\"sh\"]\n[limits]\ncpu_time = \"1s\"\nwall_time = \"20s\"\n", |call| {
            let a = call.run(["sh", "-c", &line]);
            exceeded(&a, "cpu_time", 137);
            assert_eq!(a.str("stdout"), "", "{}", a.show());
            assert!((900..1500).contains(&cpu(&a)), "of the tree: {} ms\n{}", cpu(&a), a.show());
        });
        let forking = "perl -e '$SIG{CHLD}=\"IGNORE\"; $end=time+8; while (time<$end) { if (!fork) { 1 while (times)[0] < 0.05; exit } select undef,undef,undef,0.03 }'; echo survived";
        kinds(bench, "allow = [\"sh\"]\n[limits]\ncpu_time = \"1s\"\nwall_time = \"20s\"\n", |call| {
            exceeded(&call.run(["sh", "-c", forking]), "cpu_time", 137);
        });
    }
}

as_both! {
    fn t2_70_ignoring_the_warning_buys_no_time(bench) {
        kinds(bench, "allow = [\"perl\"]\n[limits]\ncpu_time = \"500ms\"\nwall_time = \"20s\"\n", |call| {
            let a = call.run(["perl", "-e", "$SIG{XCPU}='IGNORE'; 1 while 1"]);
            exceeded(&a, "cpu_time", 137);
            assert!((400..=1000).contains(&cpu(&a)), "{} ms\n{}", cpu(&a), a.show());
        });
    }
}

as_both! {
    fn a_burner_that_its_parent_outlives_is_the_trees_burner(bench) {
        // The kernel's own limit may end the burner first: its parent must not get to say that all is well.
        for _ in 0..3 {
            let a = bench.host("allow = [\"sh\"]\n[limits]\ncpu_time = \"1s\"\nwall_time = \"20s\"\n").run(["sh", "-c", "perl -e '1 while 1'; echo survived"]);
            exceeded(&a, "cpu_time", 137);
            assert_eq!(a.str("stdout"), "", "{}", a.show());
        }
    }
}

as_both! {
    fn a_file_that_grows_too_big_ends_its_writer(bench) {
        kinds(bench, "allow = [\"dd\"]\n[limits]\nfile_size = \"1M\"\n", |call| {
            let big = bench.work().join("big");
            let _ = std::fs::remove_file(&big);
            let a = call.run(["dd", "if=/dev/zero", "of=big", "bs=64k", "count=40", "status=none"]);
            exceeded(&a, "file_size", 153);
            assert_eq!(a.str("signal"), "SIGXFSZ");
            assert_eq!(std::fs::metadata(&big).expect("big").len(), 1 << 20);
        });
    }
}

as_both! {
    fn the_command_sees_its_own_limits(bench) {
        let policy = "allow = [\"sh\"]\n[limits]\nopen_files = 77\nfile_size = \"3M\"\n";
        kinds(bench, policy, |call| {
            let a = call.run(["sh", "-c", "umask; ulimit -n; ulimit -Hn; ulimit -f; ulimit -Hc; ulimit -v"]);
            // Sizes in blocks of 512 bytes: a core file of one byte is none.
            a.ok("0022\n77\n77\n6144\n0\nunlimited\n");
        });
        let a = bench.host("allow = [\"perl\"]\n[limits]\nopen_files = 20\n").run(["perl", "-e", "my @f; for (1..50) { open(my $f, '<', '/dev/null') or last; push @f, $f } print scalar @f"]);
        a.ok("17");
    }
}

as_both! {
    fn a_run_keeps_its_core_limit_whatever_it_sets(bench) {
        // 1 keeps a handler of the host away; 0, which every user may set, would not.
        let script = "ulimit -Sc 0; ulimit -c 0; exec grep 'core file' /proc/self/limits";
        for profile in ["strict", "workspace"] {
            for held in ["auto", "groups"] {
                let policy = format!("[[rule]]\nid = \"sh\"\nprogram = \"sh\"\ndecision = \"allow\"\nexec = [\"grep\"]\n[sandbox]\nprofile = {profile:?}\nprocesses = {held:?}\n");
                let a = bench.policy(&policy).run(["sh", "-c", script]);
                let words: Vec<&str> = a.str("stdout").split_whitespace().collect();
                assert_eq!(words, ["Max", "core", "file", "size", "1", "1", "bytes"], "{}", a.show());
            }
        }
    }
}

as_both! {
    fn a_crash_leaves_no_core(bench) {
        let call = crate::harness::outside::ready(bench.host("allow = [\"sh\"]\n"), ["sh", "-c", "kill -ABRT $$"]);
        let a = crate::harness::outside::checked(&call, "umask 077; ulimit -c unlimited 2>/dev/null; exec \"$@\"");
        assert_eq!((a.str("signal"), a.json["core_dumped"].as_bool()), ("SIGABRT", Some(false)), "{}", a.show());
        let left: Vec<_> = std::fs::read_dir(bench.work()).expect("work").flatten().map(|e| e.file_name()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

as_both! {
    fn processes_are_counted_for_this_run_alone(bench) {
        let forks = "my $n=0; for (1..60) { my $p=fork; defined $p or last; if (!$p) { sleep 3; exit } $n++ } $|=1; print $n; sleep 1";
        let run = |bench: &Bench, held: &str| {
            bench.policy(&format!("allow = [\"perl\"]\n[limits]\npids = 20\n[sandbox]\nprofile = \"host\"\nprocesses = \"{held}\"\n")).run(["perl", "-e", forks])
        };
        for held in ["auto", "groups"] {
            let a = run(bench, held);
            if a.status() == "limit_exceeded" {
                exceeded(&a, "pids", 137);
                assert_eq!(a.json["limits"]["pids"]["how"], "approximate", "{}", a.show());
            } else {
                assert_eq!(a.str("stdout"), "19", "{}", a.show());
            }
        }
    }
}
