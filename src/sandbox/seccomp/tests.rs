//! Each attack is tried by a forked child without the filter, where the kernel must not give the filter's answer, and
//! with it.

use super::super::raw::attack::{Ended, Who, everyone, in_child, refused_with, syscall};
use super::*;

mod exec;
mod ordinary;
mod sockets;

const MAX: u64 = u64::MAX;

/// The strictest filter but for execution.
pub(super) fn strict() -> Options {
    Options {
        execution: Execution::Any,
        network: Network::None,
        pid_namespace: false,
        ipc_namespace: false,
        attributes: false,
        truncate_by_path: false,
        openat2: false,
    }
}

pub(super) fn filter(options: &Options) {
    let prepared = Prepared::new(options);
    raw::no_new_privs().unwrap();
    apply(&prepared).unwrap();
}

/// With the filter the call fails with `errno`, without it it does anything else.
pub(super) fn refused(options: &Options, number: i64, args: [u64; 6], errno: i32) {
    for who in everyone() {
        let bare = in_child(*who, || refused_with(syscall(number, args), errno).min(2));
        assert_ne!(bare, Ended::Exited(0), "call {number} {args:?} fails alike without the filter, {who:?}");
        let filtered = in_child(*who, || {
            filter(options);
            refused_with(syscall(number, args), errno)
        });
        assert_eq!(filtered, Ended::Exited(0), "call {number} {args:?}, {who:?}");
    }
}

/// The call works with the filter.
pub(super) fn works(options: &Options, number: i64, args: [u64; 6]) {
    let ended = in_child(Who::Same, || {
        filter(options);
        syscall(number, args).err().unwrap_or(0)
    });
    assert_eq!(ended, Ended::Exited(0), "call {number} {args:?}");
}

/// A kernel in miniature: what the program returns for a call.
fn run(program: &[sock_filter], arch: u32, number: u32, args: [u64; 6]) -> u32 {
    let mut data = Vec::new();
    data.extend(number.to_ne_bytes());
    data.extend(arch.to_ne_bytes());
    data.extend(0_u64.to_ne_bytes());
    args.iter().for_each(|a| data.extend(a.to_ne_bytes()));
    let (mut at, mut acc) = (0, 0_u32);
    loop {
        let i = program[at];
        at += 1;
        let mut jump = |yes: bool| at += usize::from(if yes { i.jt } else { i.jf });
        match i.code {
            0x20 => acc = u32::from_ne_bytes(data[i.k as usize..][..4].try_into().unwrap()),
            0x54 => acc &= i.k,
            0x06 => return i.k,
            0x05 => at += i.k as usize,
            0x15 => jump(acc == i.k),
            0x35 => jump(acc >= i.k),
            0x45 => jump(acc & i.k != 0),
            other => panic!("instruction {other:#x}"),
        }
    }
}

fn all_options() -> Vec<Options> {
    let executions = [
        Execution::Any,
        Execution::List { secret: None },
        Execution::List { secret: Some(0x1234_5678_9abc) },
        Execution::Once { secret: 0x1234_5678_9abc, by_descriptor: true },
        Execution::Once { secret: 0x1234_5678_9abc, by_descriptor: false },
    ];
    let networks =
        [Network::None, Network::Unix, Network::Internet { unix: false }, Network::Internet { unix: true }];
    let mut all = Vec::new();
    for execution in executions {
        for network in networks {
            for bits in 0..32_u32 {
                let bit = |n: u32| bits >> n & 1 == 1;
                all.push(Options {
                    execution,
                    network,
                    pid_namespace: bit(0),
                    ipc_namespace: bit(1),
                    attributes: bit(2),
                    truncate_by_path: bit(3),
                    openat2: bit(4),
                });
            }
        }
    }
    all
}

#[test]
fn every_filter_is_a_tree_that_agrees_with_its_tables() {
    for options in all_options() {
        let program = Prepared::new(&options).program;
        assert!(program.len() < 200, "{} instructions", program.len());
        for number in table::REFUSED.iter().chain(table::REFUSED_HERE) {
            assert_eq!(run(&program, AUDIT_ARCH, *number as u32, [MAX; 6]), fail(EPERM), "{number}");
        }
        for number in [libc::SYS_read, libc::SYS_write, libc::SYS_futex, libc::SYS_exit_group, libc::SYS_kill]
        {
            assert_eq!(run(&program, AUDIT_ARCH, number as u32, [MAX; 6]), bpf::ALLOW, "{number}");
        }
        for number in [470, 471, 1000, 0x3fff_ffff, 0x4000_0000, 0x4000_0001, u32::MAX, 425, 426, 427, 435] {
            assert_eq!(run(&program, AUDIT_ARCH, number, [0; 6]), fail(ENOSYS), "{number}");
        }
        assert_eq!(run(&program, 0x4000_0003, 3, [0; 6]), bpf::KILL_PROCESS);
        assert_eq!(run(&program, AUDIT_ARCH ^ 1, 0, [0; 6]), bpf::KILL_PROCESS);
    }
}

/// A verdict on one number: `None` looks at the first argument.
fn verdict(action: Option<u32>) -> bpf::Verdict {
    let looks = || Checks::new().one_of(0, ALL, &[1, 2], fail(EACCES)).no_bits(1, 4, fail(EPERM));
    action.map_or_else(|| bpf::Verdict::If(looks()), bpf::Verdict::Always)
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_program_says_of_every_number_what_its_table_says(
        table in proptest::collection::btree_map(
            0..60_u32,
            proptest::sample::select(vec![None, Some(bpf::ALLOW), Some(fail(EPERM)), Some(fail(EACCES))]),
            0..60,
        ),
        unknown in 60..90_u32,
    ) {
        let verdicts = table.iter().map(|(number, action)| (*number, verdict(*action))).collect();
        let program = bpf::assemble(AUDIT_ARCH, verdicts, unknown);
        for number in (0..100).chain([u32::MAX]) {
            for args in [[1, 4], [2, 3], [3, 0], [3, 4]] {
                let looked = match args {
                    [3, _] => fail(EACCES),
                    [_, 4] => fail(EPERM),
                    _ => bpf::ALLOW,
                };
                let other = if number < unknown { bpf::ALLOW } else { fail(ENOSYS) };
                let expected = table.get(&number).map_or(other, |action| action.unwrap_or(looked));
                let [a, b] = args;
                proptest::prop_assert_eq!(run(&program, AUDIT_ARCH, number, [a, b, 0, 0, 0, 0]), expected, "{}", number);
            }
        }
    }
}

#[test]
fn every_filter_is_accepted_by_the_kernel() {
    for options in all_options().iter().step_by(7) {
        let ended = in_child(Who::Same, || {
            let prepared = Prepared::new(options);
            raw::no_new_privs().unwrap();
            apply(&prepared).unwrap();
            0
        });
        assert_eq!(ended, Ended::Exited(0), "{options:?}");
    }
}

#[test]
fn what_the_tables_refuse_is_refused() {
    let (mut seen, mut proven) = (0, 0);
    for number in table::REFUSED.iter().chain(table::REFUSED_HERE) {
        for who in everyone() {
            let filtered = in_child(*who, || {
                filter(&strict());
                refused_with(syscall(*number, [MAX; 6]), EPERM)
            });
            assert_eq!(filtered, Ended::Exited(0), "call {number}, {who:?}");
        }
        // vhangup takes no argument that could be wrong; without the filter it would be done.
        if *number == libc::SYS_vhangup {
            continue;
        }
        seen += 1;
        let bare = in_child(Who::Same, || refused_with(syscall(*number, [MAX; 6]), EPERM).min(2));
        proven += i32::from(bare != Ended::Exited(0));
    }
    // Most fail for another reason (EFAULT, EBADF) without the filter; some need capabilities that root may lack.
    assert!(proven * 3 > seen, "only {proven} of {seen} calls tell the filter from the kernel");
}

#[test]
fn namespaces_are_refused_in_every_spelling() {
    let (user, net) = (libc::CLONE_NEWUSER as u64, libc::CLONE_NEWNET as u64);
    refused(&strict(), libc::SYS_unshare, [user, 0, 0, 0, 0, 0], EPERM);
    refused(&strict(), libc::SYS_unshare, [user | net, 0, 0, 0, 0, 0], EPERM);
    // An impossible combination (CLONE_THREAD without CLONE_SIGHAND) is EINVAL to the kernel: nothing is made.
    let thread = libc::CLONE_THREAD as u64;
    refused(&strict(), libc::SYS_clone, [user | thread, 0, 0, 0, 0, 0], EPERM);
    refused(&strict(), table::CLONE3, [0, 0, 0, 0, 0, 0], ENOSYS);
    works(&strict(), libc::SYS_unshare, [libc::CLONE_FILES as u64, 0, 0, 0, 0, 0]);
}

#[test]
fn other_tasks_limits_and_priorities_are_out_of_reach() {
    let parent = u64::from(std::process::id());
    let limits = [u64::MAX; 2];
    let new = limits.as_ptr() as u64;
    let core = u64::from(libc::RLIMIT_RTTIME);
    refused(&strict(), libc::SYS_prlimit64, [MAX >> 33, core, new, 0, 0, 0], EPERM);
    let mut old = [0_u64; 2];
    works(&strict(), libc::SYS_prlimit64, [0, core, 0, old.as_mut_ptr() as u64, 0, 0]);
    works(&strict(), libc::SYS_prlimit64, [parent, core, 0, old.as_mut_ptr() as u64, 0, 0]);
    // The limit on core files stays, wherever the new one is said to be: the kernel would find nothing there.
    let files = u64::from(libc::RLIMIT_CORE);
    for nowhere in [1, 1 << 32] {
        works(&strict(), libc::SYS_prlimit64, [0, files, nowhere, 0, 0, 0]);
        works(&strict(), libc::SYS_setrlimit, [files, nowhere, 0, 0, 0, 0]);
        refused(&strict(), libc::SYS_prlimit64, [MAX >> 33, core, nowhere, 0, 0, 0], EPERM);
    }
    // To raise nice is everybody's right: this would work on the guard. Here a process that does not exist.
    let nobody = MAX >> 33;
    refused(&strict(), libc::SYS_setpriority, [0, nobody, 19, 0, 0, 0], EPERM);
    refused(&strict(), libc::SYS_setpriority, [2, nobody, 19, 0, 0, 0], EPERM);
    refused(&strict(), libc::SYS_ioprio_set, [1, nobody, 0, 0, 0, 0], EPERM);
    works(&strict(), libc::SYS_setpriority, [0, 0, 19, 0, 0, 0]);
    let mask = [u64::MAX; 16];
    let affinity = |pid| [pid, 128, mask.as_ptr() as u64, 0, 0, 0];
    refused(&strict(), libc::SYS_sched_setaffinity, affinity(nobody), EPERM);
    works(&strict(), libc::SYS_sched_setaffinity, affinity(0));
    let inside = Options { pid_namespace: true, ..strict() };
    refused(&inside, libc::SYS_sched_setscheduler, [1, 99, mask.as_ptr() as u64, 0, 0, 0], EPERM);
}

#[test]
fn the_death_signal_cannot_be_taken_back() {
    let args = |signal: i32| [libc::PR_SET_PDEATHSIG as u64, signal as u64, 0, 0, 0, 0];
    refused(&strict(), libc::SYS_prctl, args(0), EPERM);
    refused(&strict(), libc::SYS_prctl, args(libc::SIGTERM), EPERM);
    works(&strict(), libc::SYS_prctl, args(libc::SIGKILL));
    works(&strict(), libc::SYS_prctl, [libc::PR_SET_NAME as u64, c"name".as_ptr() as u64, 0, 0, 0, 0]);
}

#[test]
fn terminals_and_personalities() {
    for request in TTY_IOCTLS {
        // On a descriptor that is none the kernel says EBADF. The upper half of the number is ignored by it.
        refused(&strict(), libc::SYS_ioctl, [MAX, u64::from(request), 0, 0, 0, 0], EPERM);
        refused(&strict(), libc::SYS_ioctl, [MAX, u64::from(request) | 1 << 32, 0, 0, 0, 0], EPERM);
    }
    refused(&strict(), libc::SYS_personality, [0x0040_0000, 0, 0, 0, 0, 0], EPERM);
    works(&strict(), libc::SYS_personality, [0xffff_ffff, 0, 0, 0, 0, 0]);
    works(&strict(), libc::SYS_personality, [0x0004_0000, 0, 0, 0, 0, 0]);
}

#[test]
fn io_uring_does_not_exist() {
    for number in table::IO_URING {
        refused(&strict(), number, [MAX, MAX, MAX, MAX, MAX, MAX], ENOSYS);
    }
}

#[test]
fn attributes_queues_and_truncation_are_refused_where_nothing_else_refuses_them() {
    let scratch = super::super::raw::attack::Scratch::new("attributes");
    let file = scratch.0.join("file");
    std::fs::write(&file, "x").unwrap();
    let path = super::super::raw::attack::c_path(&file);
    let at = libc::AT_FDCWD as u64;
    let path = path.as_ptr() as u64;
    if everyone() == [Who::Same, Who::Nobody] {
        super::super::raw::attack::give_to_nobody(&file);
    }
    refused(&strict(), libc::SYS_fchmodat, [at, path, 0o644, 0, 0, 0], EPERM);
    refused(&strict(), libc::SYS_utimensat, [at, path, 0, 0, 0, 0], EPERM);
    refused(&strict(), libc::SYS_truncate, [path, 0, 0, 0, 0, 0], EACCES);
    refused(&strict(), libc::SYS_openat, [at, path, libc::O_TRUNC as u64, 0, 0, 0], EACCES);
    let for_ioctl = libc::O_ACCMODE | libc::O_TRUNC;
    refused(&strict(), libc::SYS_openat, [at, path, for_ioctl as u64, 0, 0, 0], EACCES);
    works(&strict(), libc::SYS_openat, [at, path, libc::O_RDONLY as u64, 0, 0, 0]);
    // For neither reading nor writing, whatever Landlock mediates.
    let mediated = Options { truncate_by_path: true, ..strict() };
    for options in [strict(), mediated] {
        refused(&options, libc::SYS_openat, [at, path, libc::O_ACCMODE as u64, 0, 0, 0], EACCES);
        #[cfg(target_arch = "x86_64")]
        refused(&options, libc::SYS_open, [path, libc::O_ACCMODE as u64, 0, 0, 0, 0], EACCES);
    }
    let openat2 = [MAX, MAX, MAX, MAX, MAX, MAX];
    refused(&mediated, table::OPENAT2, openat2, ENOSYS);
    refused(&strict(), libc::SYS_shmget, [0x7070, 0, 0, 0, 0, 0], EACCES);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn other_abis_are_dead_ends() {
    let int80 = || i32::from(super::super::raw::attack::int80_getpid() <= 0);
    if in_child(Who::Same, int80) != Ended::Exited(0) {
        eprintln!("SKIPPED: this kernel has no 32-bit system calls to refuse");
    }
    let filtered = in_child(Who::Same, || {
        filter(&strict());
        int80()
    });
    assert_eq!(filtered, Ended::Signaled(libc::SIGSYS));
    let x32 = in_child(Who::Same, || {
        filter(&strict());
        refused_with(syscall(libc::SYS_getpid | 0x4000_0000, [0; 6]), ENOSYS)
    });
    assert_eq!(x32, Ended::Exited(0));
}

#[test]
#[ignore = "prints the cost of building and of installing a filter"]
fn cost() {
    let options = Options { execution: Execution::Once { secret: 1 << 40, by_descriptor: true }, ..strict() };
    in_child(Who::Same, || {
        let mut build = Vec::new();
        for _ in 0..200 {
            let start = std::time::Instant::now();
            std::hint::black_box(Prepared::new(&options));
            build.push(start.elapsed());
        }
        let prepared = Prepared::new(&options);
        raw::no_new_privs().unwrap();
        let mut install: Vec<_> = (0..20)
            .map(|_| {
                let start = std::time::Instant::now();
                apply(&prepared).unwrap();
                start.elapsed()
            })
            .collect();
        let first = (build[0], install[0]);
        build.sort();
        install.sort();
        println!(
            "{} instructions; first {first:?}; median {:?}, {:?}",
            prepared.instructions(),
            build[100],
            install[10]
        );
        0
    });
}
