//! The system calls that no confined run needs, by what they would give it.
//!
//! Numbers from 424 on are the same on every architecture and written out, because not every C library has names
//! for them. A program that meets `ENOSYS` falls back to an older call; one that meets `EPERM` sees what an ordinary
//! user sees.

use libc::{EPERM, c_long};

/// `io_uring_setup`, `io_uring_enter`, `io_uring_register`: sockets and files that no filter sees.
pub const IO_URING: [c_long; 3] = [425, 426, 427];
/// clone3 hides its flags in memory; the C library falls back to clone.
pub const CLONE3: c_long = 435;
/// openat2 hides its flags in memory; whoever uses it falls back to openat.
pub const OPENAT2: c_long = 437;
/// `fchmodat2` (6.6).
const FCHMODAT2: c_long = 452;
/// `setxattrat`, `removexattrat` (6.13), `file_setattr` (6.17).
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
const FILE_SETATTR: c_long = 469;
/// The first number that was not assigned when this table was last read (6.18). What comes later is refused until
/// somebody has looked at it.
pub const FIRST_UNKNOWN: u32 = 470;

/// What an ordinary user may not do either, or should not be able to do to others: `EPERM`.
#[rustfmt::skip]
pub const REFUSED: &[c_long] = &[
    // Mounts, and the roots that paths start from.
    libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root, libc::SYS_chroot,
    428, /* open_tree */ 429, /* move_mount */ 430, /* fsopen */ 431, /* fsconfig */ 432, /* fsmount */
    433, /* fspick */ 442, /* mount_setattr */ 467, /* open_tree_attr */
    libc::SYS_setns,
    // Other processes' memory and descriptors.
    libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_kcmp,
    438, /* pidfd_getfd */ 440, /* process_madvise */ 448, /* process_mrelease */
    // Parts of the kernel with a history of holes, or that look at the whole machine.
    libc::SYS_bpf, libc::SYS_perf_event_open, libc::SYS_userfaultfd, libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie, libc::SYS_open_by_handle_at, libc::SYS_name_to_handle_at,
    libc::SYS_keyctl, libc::SYS_add_key, libc::SYS_request_key, libc::SYS_syslog, 460, /* lsm_set_self_attr */
    // The machine.
    libc::SYS_kexec_load, 
    libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module, libc::SYS_reboot,
    libc::SYS_swapon, libc::SYS_swapoff, libc::SYS_sethostname, libc::SYS_setdomainname, libc::SYS_acct,
    libc::SYS_quotactl, 443, /* quotactl_fd */ libc::SYS_settimeofday, libc::SYS_clock_settime,
    libc::SYS_adjtimex, libc::SYS_clock_adjtime, libc::SYS_vhangup, libc::SYS_nfsservctl,
];

/// The same, where the architecture has them.
#[cfg(target_arch = "x86_64")]
pub const REFUSED_HERE: &[c_long] = &[
    libc::SYS_kexec_file_load,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS__sysctl,
    // Gone since Linux 2.6; with them the neighbours are one range.
    174, // create_module
    177, // get_kernel_syms
    178, // query_module
];
/// The same, where the architecture has them.
#[cfg(target_arch = "aarch64")]
pub const REFUSED_HERE: &[c_long] = &[294 /* kexec_file_load */];

/// Calls that change a file's mode, owner, times or attributes by path or descriptor. Landlock does not mediate
/// them, so they reach every file that the user owns unless the mounts are read-only.
#[rustfmt::skip]
pub const ATTRIBUTES: &[c_long] = &[
    libc::SYS_fchmod, libc::SYS_fchmodat, FCHMODAT2, libc::SYS_fchown, libc::SYS_fchownat, libc::SYS_utimensat,
    libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr, libc::SYS_removexattr,
    libc::SYS_lremovexattr, libc::SYS_fremovexattr, SETXATTRAT, REMOVEXATTRAT, FILE_SETATTR,
];

/// The same, where the architecture has them.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub const ATTRIBUTES_HERE: &[c_long] = &[
    libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat,
];
/// The same, where the architecture has them.
#[cfg(target_arch = "aarch64")]
pub const ATTRIBUTES_HERE: &[c_long] = &[];

/// System V and POSIX message queues, semaphores and shared memory of the host: names without paths.
#[rustfmt::skip]
pub const IPC: &[c_long] = &[
    libc::SYS_shmget, libc::SYS_shmat, libc::SYS_shmctl, libc::SYS_msgget, libc::SYS_msgsnd, libc::SYS_msgrcv,
    libc::SYS_msgctl, libc::SYS_semget, libc::SYS_semop, libc::SYS_semtimedop, libc::SYS_semctl, libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Sockets, for network mode none. `socket`, `socketpair` and `sendto` are looked at more closely.
pub const SOCKETS: &[c_long] =
    &[libc::SYS_connect, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4];

/// The error of the calls in [`REFUSED`].
pub const REFUSED_ERRNO: i32 = EPERM;
