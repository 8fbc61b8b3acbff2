//! For tests: a forked child that tries something, with the kernel as oracle.

use std::ffi::CString;
use std::path::Path;

use super::{Errno, check};

/// As whom an attack is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// As the tests run (root in the full run).
    Same,
    /// As uid and gid 65534 without groups.
    Nobody,
}

/// Root tries everything twice, a user once.
pub fn everyone() -> &'static [Who] {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } == 0 { &[Who::Same, Who::Nobody] } else { &[Who::Same] }
}

/// How a forked child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Exited with this status.
    Exited(i32),
    /// Died of this signal.
    Signaled(i32),
}

/// Runs `body` in a forked child, as `who`, for at most 20 seconds, and waits for it. A panic exits with 101.
pub fn in_child(who: Who, body: impl FnOnce() -> i32) -> Ended {
    // SAFETY: the child runs `body` and leaves through _exit; glibc and musl make malloc usable after fork.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork failed");
    if pid == 0 {
        // SAFETY: numbers only.
        unsafe { libc::alarm(20) };
        if who == Who::Nobody {
            become_nobody();
        }
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(101);
        // SAFETY: leaves without running the harness's exit handlers.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call; `pid` is our own child.
        let got = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        if got == pid {
            break;
        }
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINTR));
    }
    if libc::WIFEXITED(status) {
        Ended::Exited(libc::WEXITSTATUS(status))
    } else {
        Ended::Signaled(libc::WTERMSIG(status))
    }
}

fn become_nobody() {
    // SAFETY: raw calls with numbers; this process has one thread.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_setgroups, 0, 0), 0);
        assert_eq!(libc::syscall(libc::SYS_setresgid, 65534, 65534, 65534), 0);
        assert_eq!(libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534), 0);
    }
}

/// Any system call. Pointers are passed as numbers; the caller keeps what they name alive.
pub fn syscall(number: i64, args: [u64; 6]) -> Result<i64, Errno> {
    // SAFETY: tests only: each caller passes what the call expects.
    check(unsafe { libc::syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]) })
}

/// The address of a C string, as a system call argument.
pub fn arg(text: &std::ffi::CStr) -> u64 {
    text.as_ptr() as u64
}

/// A path as a C string.
pub fn c_path(path: &Path) -> CString {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// 0 where the call failed with `errno`, 1 where it succeeded, else the errno + 2: an exit code for a child.
pub fn refused_with(result: Result<i64, Errno>, errno: Errno) -> i32 {
    match result {
        Err(e) if e == errno => 0,
        Ok(_) => 1,
        Err(e) => 2 + e,
    }
}

/// A fresh directory below the target directory, mode 0755, removed when dropped.
#[derive(Debug)]
pub struct Scratch(pub std::path::PathBuf);

impl Scratch {
    /// Makes it. `name` is unique within the tests.
    pub fn new(name: &str) -> Scratch {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("guardexec-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Scratch(path.canonicalize().unwrap())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Replaces this process; returns only the errno. The path is given as an address.
pub fn exec_at(path: u64, words: &[&str]) -> Errno {
    let words: Vec<CString> = words.iter().map(|w| CString::new(*w).unwrap()).collect();
    let mut argv: Vec<*const libc::c_char> = words.iter().map(|w| w.as_ptr()).collect();
    argv.push(std::ptr::null());
    let env = c"PATH=/usr/bin:/bin";
    let envp = [env.as_ptr(), std::ptr::null()];
    // SAFETY: tests only: `path` is a C string or refused before it is read.
    unsafe { check(libc::syscall(libc::SYS_execve, path, argv.as_ptr(), envp.as_ptr())).unwrap_err() }
}

/// The same through a descriptor, with the empty path at an address.
pub fn exec_fd(fd: i32, empty: u64, words: &[&str]) -> Errno {
    let words: Vec<CString> = words.iter().map(|w| CString::new(*w).unwrap()).collect();
    let mut argv: Vec<*const libc::c_char> = words.iter().map(|w| w.as_ptr()).collect();
    argv.push(std::ptr::null());
    let env = c"PATH=/usr/bin:/bin";
    let envp = [env.as_ptr(), std::ptr::null()];
    let flags = libc::AT_EMPTY_PATH;
    // SAFETY: tests only, as above.
    unsafe {
        check(libc::syscall(libc::SYS_execveat, fd, empty, argv.as_ptr(), envp.as_ptr(), flags)).unwrap_err()
    }
}

/// sendmsg with a named Unix socket as its destination: the way round filters on connect and sendto.
pub fn send_to_unix_path(fd: i32, path: &Path) -> Result<i64, Errno> {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: all-zero structures are valid; every pointer lives through the call.
    unsafe {
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as u16;
        for (to, from) in address.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
            *to = *from as libc::c_char;
        }
        let mut part = libc::iovec { iov_base: c"attack".as_ptr().cast_mut().cast(), iov_len: 6 };
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_name = (&raw mut address).cast();
        message.msg_namelen = size_of_val(&address) as u32;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        check(libc::syscall(libc::SYS_sendmsg, fd, &raw const message, 0))
    }
}

/// getpid of the 32-bit ABI: number 20.
#[cfg(target_arch = "x86_64")]
pub fn int80_getpid() -> i32 {
    let ret: i32;
    // SAFETY: getpid changes nothing; the instruction clobbers only rax (and r8 to r11 on old kernels).
    unsafe {
        std::arch::asm!("int 0x80", inlateout("eax") 20 => ret, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    ret
}

/// Gives a file to uid 65534, so that both kinds of attacker own what they need: root may anyway.
pub fn give_to_nobody(path: &Path) {
    std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
}

/// Gives this process a mount namespace of its own, as root directly, else in a user namespace that maps its user
/// and group to themselves. False where the kernel refuses.
pub fn own_mounts() -> bool {
    // SAFETY: numbers only.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    if uid == 0 {
        // SAFETY: numbers only.
        return unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0;
    }
    // A dropped user is not dumpable, and its own /proc files belong to root.
    // SAFETY: numbers only.
    let ok = unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 1) == 0
            && libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) == 0
    };
    ok && std::fs::write("/proc/self/setgroups", "deny").is_ok()
        && std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")).is_ok()
        && std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")).is_ok()
}

/// Makes one system call fail with `errno` (0: seem to succeed and do nothing) from now on: a worse host.
pub fn refuse_call(number: i64, errno: Errno) {
    let insn = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let program = [
        insn(0x20, 0, 0, 0),
        insn(0x15, 0, 1, number as u32),
        insn(0x06, 0, 0, 0x0005_0000 | errno as u32),
        insn(0x06, 0, 0, 0x7fff_0000),
    ];
    super::no_new_privs().unwrap();
    super::seccomp_install(&program).unwrap();
}
