//! What is tried inside the emulated machines: one static program with a word for each attack.
//!
//! An attack prints `OPEN` when it succeeded and `REFUSED <errno>` when the kernel said no. The runner calls each
//! without guardexec too, where it has to succeed: else it proves nothing.

use std::ffi::{CString, c_char, c_int, c_long, c_ulong, c_void};
use std::io::{Error, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn fork() -> c_int;
    fn setsid() -> c_int;
    fn signal(number: c_int, handler: usize) -> usize;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn getppid() -> c_int;
}

const TRUNCATE: c_long = 76;
const OPEN: c_long = 2;
const OPENAT: c_long = 257;
const OPENAT2: c_long = 437;
const SOCKET: c_long = 41;
const CONNECT: c_long = 42;
const KILL: c_long = 62;
const PTRACE: c_long = 101;
const SETGROUPS: c_long = 116;
const SETRESUID: c_long = 117;
const SETRESGID: c_long = 119;
const MOUNT: c_long = 165;
const UNSHARE: c_long = 272;
const PRLIMIT64: c_long = 302;
const MEMFD_CREATE: c_long = 319;
const EXECVEAT: c_long = 322;
const BPF: c_long = 321;
const IO_URING_SETUP: c_long = 425;
const O_RDONLY_TRUNC: c_int = 0o1000;

fn c(text: &str) -> CString {
    CString::new(text).expect("no NUL")
}

fn say(ok: bool) -> i32 {
    if ok {
        println!("OPEN");
        return 0;
    }
    println!("REFUSED {}", Error::last_os_error().raw_os_error().unwrap_or(0));
    1
}

fn verdict<T>(result: std::io::Result<T>) -> i32 {
    match result {
        Ok(_) => {
            println!("OPEN");
            0
        }
        Err(error) => {
            println!("REFUSED {}", error.raw_os_error().unwrap_or(0));
            1
        }
    }
}

fn files(word: &str, path: &str) -> Option<i32> {
    let name = c(path);
    let p: *const c_char = name.as_ptr();
    // SAFETY: each path is NUL-terminated and lives through its call; the others are numbers.
    Some(unsafe {
        match word {
            "read" => verdict(std::fs::read(path)),
            "list" => verdict(std::fs::read_dir(path)),
            "append" => verdict(std::fs::OpenOptions::new().append(true).open(path)),
            "create" => verdict(std::fs::File::create(path)),
            "remove" => verdict(std::fs::remove_file(path)),
            "rename" => verdict(std::fs::rename(path, format!("{path}.moved"))),
            "link" => verdict(std::fs::hard_link(path, format!("{path}.linked"))),
            "truncate" => say(syscall(TRUNCATE, p, 0 as c_long) == 0),
            "truncate_by_open" => say(syscall(OPEN, p, O_RDONLY_TRUNC, 0) >= 0),
            "truncate_by_openat" => say(syscall(OPENAT, -100, p, O_RDONLY_TRUNC, 0) >= 0),
            "truncate_by_openat2" => {
                let how = [O_RDONLY_TRUNC as u64, 0, 0];
                say(syscall(OPENAT2, -100, p, how.as_ptr(), 24 as c_long) >= 0)
            }
            "connect" => verdict(std::os::unix::net::UnixStream::connect(path)),
            "exec" => {
                println!("REFUSED {}", Command::new(path).args(["echo", "OPEN"]).exec().raw_os_error().unwrap_or(0));
                1
            }
            "memfd_exec" => memfd_exec(path),
            _ => return None,
        }
    })
}

fn memfd_exec(path: &str) -> i32 {
    let Ok(bytes) = std::fs::read(path) else { return say(false) };
    let (name, true_) = (c("x"), c("OPEN"));
    // SAFETY: the strings live through the calls, and the descriptor is a new one.
    unsafe {
        let fd = syscall(MEMFD_CREATE, name.as_ptr(), 0 as c_long);
        if fd < 0 {
            return say(false);
        }
        let mut file: std::fs::File = std::os::fd::FromRawFd::from_raw_fd(fd as c_int);
        if file.write_all(&bytes).is_err() {
            return say(false);
        }
        let echo = c("echo");
        let argv = [echo.as_ptr(), true_.as_ptr(), std::ptr::null()];
        let empty = c("");
        syscall(EXECVEAT, fd, empty.as_ptr(), argv.as_ptr(), std::ptr::null::<c_void>(), 0x1000 as c_long);
    }
    say(false)
}

fn calls(word: &str) -> Option<i32> {
    let none = std::ptr::null::<c_void>();
    // SAFETY: numbers, null pointers, and arrays that live through their call.
    Some(unsafe {
        match word {
            "socket_inet" => say(syscall(SOCKET, 2, 1, 0) >= 0),
            "socket_inet6_udp" => say(syscall(SOCKET, 10, 2, 0) >= 0),
            "socket_netlink" => say(syscall(SOCKET, 16, 3, 0) >= 0),
            "socket_vsock" => say(syscall(SOCKET, 40, 1, 0) >= 0),
            "connect_abstract" => {
                let fd = syscall(SOCKET, 1, 1, 0);
                let mut address = [0u8; 10];
                address[0] = 1;
                address[3..].copy_from_slice(b"kernels");
                say(fd >= 0 && syscall(CONNECT, fd, address.as_ptr(), address.len()) == 0)
            }
            "kill_parent" => say(syscall(KILL, getppid(), 9) == 0),
            "trace_parent" => say(syscall(PTRACE, 0x4206 as c_long, getppid(), 0 as c_long, 0 as c_long) == 0),
            "limit_parent" => {
                let limit = [1000u64, 1000];
                say(syscall(PRLIMIT64, getppid(), 7, limit.as_ptr(), none) == 0)
            }
            "user_namespace" => say(syscall(UNSHARE, 0x1000_0000 as c_long) == 0),
            "mount" => {
                let (source, target) = (c("tmpfs"), c("/mnt"));
                say(syscall(MOUNT, source.as_ptr(), target.as_ptr(), source.as_ptr(), 0 as c_ulong, none) == 0)
            }
            "io_uring" => {
                let params = [0u64; 16];
                say(syscall(IO_URING_SETUP, 1, params.as_ptr()) >= 0)
            }
            "bpf" => {
                let attr = [1u64 | (4 << 32), 4 | (1 << 32), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                say(syscall(BPF, 0, attr.as_ptr(), 72 as c_long) >= 0)
            }
            _ => return None,
        }
    })
}

fn fill(mib: usize, hold: Duration) {
    let mut memory = vec![0u8; mib << 20];
    for page in memory.chunks_mut(4096) {
        page[0] = 1;
    }
    std::thread::sleep(hold);
    std::hint::black_box(&memory);
}

fn spin(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Forks; the body runs in the child, which then leaves.
fn child(body: impl FnOnce()) -> c_int {
    // SAFETY: this program has one thread.
    let pid = unsafe { fork() };
    if pid == 0 {
        body();
        std::process::exit(0);
    }
    pid
}

fn trees(word: &str, number: u64) -> Option<i32> {
    match word {
        "fill" => fill(number as usize, Duration::ZERO),
        "hog" => fill(number as usize, Duration::from_secs(2)),
        // Each is well below the limit, together they are above it.
        "hogs" => {
            for _ in 0..4 {
                child(|| fill(number as usize / 4, Duration::from_secs(2)));
            }
            fill(1, Duration::from_secs(2));
        }
        "spin" => spin(Duration::from_secs(number)),
        // No process lives long, and nobody waits for any.
        "spinners" => {
            // SAFETY: SIG_IGN for SIGCHLD.
            unsafe { signal(17, 1) };
            let end = Instant::now() + Duration::from_secs(number);
            while Instant::now() < end {
                child(|| spin(Duration::from_millis(20)));
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        // Bounds itself: a failure must not take the machine down.
        "bomb" => {
            let mut made = 0;
            for _ in 0..number {
                let sleeper = || {
                    // SAFETY: takes nothing.
                    unsafe { setsid() };
                    std::thread::sleep(Duration::from_secs(3));
                };
                made += u64::from(child(sleeper) > 0);
            }
            println!("MADE {made}");
            // Long enough for one who counts now and then.
            std::thread::sleep(Duration::from_millis(500));
        }
        // Twice forked, in a session of its own, holding no pipe; the middle one ends.
        "daemon" => {
            let middle = child(|| {
                // SAFETY: takes nothing.
                unsafe { setsid() };
                child(|| std::thread::sleep(Duration::from_secs(number)));
            });
            // SAFETY: the status pointer may be null.
            unsafe { waitpid(middle, std::ptr::null_mut(), 0) };
            println!("LEFT");
        }
        "hang" => {
            child(|| {
                // SAFETY: takes nothing; SIG_IGN for SIGTERM.
                unsafe {
                    setsid();
                    signal(15, 1)
                };
                std::thread::sleep(Duration::from_secs(number));
            });
            std::thread::sleep(Duration::from_secs(number));
        }
        _ => return None,
    }
    Some(0)
}

fn as_user(id: &str, words: &[String]) -> i32 {
    let id: c_int = id.parse().expect("a number");
    // The cgroup that is delegated to the user, where it is there.
    let _ = std::fs::write("/sys/fs/cgroup/user/shell/cgroup.procs", "0");
    // SAFETY: numbers and a null pointer, in a process with one thread.
    let left = unsafe {
        syscall(SETGROUPS, 0 as c_long, std::ptr::null::<c_int>()) == 0
            && syscall(SETRESGID, id, id, id) == 0
            && syscall(SETRESUID, id, id, id) == 0
    };
    assert!(left, "cannot become {id}: {}", Error::last_os_error());
    eprintln!("{}: {}", words[0], Command::new(&words[0]).args(&words[1..]).exec());
    127
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = words.first().map_or("", String::as_str);
    let second = words.get(1).map_or("", String::as_str);
    let status = match word {
        "as_user" => as_user(second, &words[2..]),
        // Listens on the abstract socket and on two paths until killed.
        "listen" => {
            use std::os::linux::net::SocketAddrExt as _;
            let address = std::os::unix::net::SocketAddr::from_abstract_name("kernels").expect("a name");
            let _socket = std::os::unix::net::UnixListener::bind_addr(&address).expect("bind");
            let _paths = ["/run/listed", "/run/other"].map(|path| {
                let listener = std::os::unix::net::UnixListener::bind(path).expect("bind");
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("chmod");
                listener
            });
            std::thread::sleep(Duration::from_secs(600));
            0
        }
        _ => files(word, second)
            .or_else(|| calls(word))
            .or_else(|| trees(word, second.parse().unwrap_or(0)))
            .unwrap_or_else(|| panic!("no attack {word:?}")),
    };
    std::process::exit(status);
}
