//! The attacks of `selftest`: each tries, from inside a run, what a layer is there to refuse. They run in a process that was
//! started for it, unconfined and confined; what they come to is one line of text each.

use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::loader;
use super::raw::attempts as raw;
pub use super::raw::attempts::Came;
use crate::policy::model::Layer;

/// The files and the process that the attacks are about.
#[derive(Debug)]
pub struct Target {
    dir: PathBuf,
    pid: i32,
}

/// Below the target's directory: where the run stands.
pub const CWD: &str = "work";
/// A file in it, that everybody may write to.
pub const INSIDE: &str = "work/inside";
/// One beside it.
pub const OUTSIDE: &str = "outside";
/// A stream socket in the working directory.
pub const STREAM: &str = "work/stream";
/// Another one, which a run may be allowed.
pub const LISTED: &str = "work/listed";
/// A datagram socket in it.
pub const DATAGRAM: &str = "work/datagram";

impl Target {
    /// Attacks on the files in `dir` and on process `pid`.
    pub fn new(dir: PathBuf, pid: i32) -> Target {
        Target { dir, pid }
    }

    /// The name of an abstract socket that belongs to this directory.
    pub fn abstract_name(dir: &Path) -> Vec<u8> {
        [b"guardexec-selftest", dir.as_os_str().as_bytes()].concat()
    }

    fn at(&self, name: &str) -> CString {
        c_path(self.dir.join(name).as_os_str())
    }
}

fn c_path(path: &OsStr) -> CString {
    // Paths of the kernel's own hold no NUL byte; what cannot be named cannot be attacked.
    CString::new(path.as_bytes()).unwrap_or_default()
}

/// One attack.
pub struct Attempt {
    /// Its name.
    pub name: &'static str,
    /// The layer that has to catch it.
    pub layer: Layer,
    /// What is tried, in words.
    pub what: &'static str,
    run: fn(&Target) -> Result<(), i32>,
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("name", &self.name).finish_non_exhaustive()
    }
}

macro_rules! attempts {
    ($($(#[$only:meta])* $layer:ident $name:literal $what:literal $run:expr;)*) => {
        &[$($(#[$only])* Attempt { name: $name, layer: Layer::$layer, what: $what, run: $run },)*]
    };
}

/// The last of them: only the end of the whole tree shows whether it was caught.
pub const DAEMON: &str = "daemon";

/// All attacks.
pub const ALL: &[Attempt] = attempts! {
    Filesystem "read-outside" "read a file outside the view" |t| raw::open_file(&t.at(OUTSIDE), libc::O_RDONLY);
    Filesystem "list-root" "list the root directory" |_| raw::open_file(c"/", libc::O_RDONLY | libc::O_DIRECTORY);
    Filesystem "write-outside" "write a file outside the view" |t| raw::open_file(&t.at(OUTSIDE), libc::O_WRONLY);
    Filesystem "write-cwd" "write a file in the working directory" |t| raw::open_file(&t.at(INSIDE), libc::O_WRONLY);
    Filesystem "write-by-proc" "write it by way of /proc/self/root" by_proc;
    Filesystem "truncate" "truncate a file" |t| raw::truncate(&t.at(OUTSIDE), 0);
    Filesystem "rename" "rename a file" |t| raw::rename(&t.at(OUTSIDE), &t.at("outside.away"));
    Filesystem "proc-write" "open a file of /proc for writing" |_| raw::open_file(c"/proc/self/comm", libc::O_WRONLY);
    Filesystem "environ" "read another process's environment" environ;
    Execution "exec" "execute a shell" |_| raw::exec_shell();
    Execution "loader" "execute a shell by way of the ELF loader" through_loader;
    Execution "memfd" "execute a program in memory" |_| raw::exec_memory();
    Network "inet" "make an IPv4 socket" |_| raw::socket(libc::AF_INET, libc::SOCK_STREAM).map(drop);
    Network "inet6" "make an IPv6 socket" |_| raw::socket(libc::AF_INET6, libc::SOCK_DGRAM).map(drop);
    Network "netlink" "make a netlink socket" |_| raw::socket(libc::AF_NETLINK, libc::SOCK_RAW).map(drop);
    Network "vsock" "make a socket to the hypervisor" |_| raw::socket(libc::AF_VSOCK, libc::SOCK_STREAM).map(drop);
    Network "unix" "connect to a daemon's Unix socket" |t| raw::connect_unix(t.at(STREAM).to_bytes());
    Network "abstract" "connect to an abstract Unix socket" |t| raw::connect_unix(&[b"\0".as_slice(), &Target::abstract_name(&t.dir)].concat());
    Network "pair" "send from a socket pair to a daemon" |t| raw::pair_to_unix(t.at(DATAGRAM).to_bytes());
    Network "io-uring" "set up an io_uring" |_| raw::io_uring();
    Syscalls "ptrace" "be traced" |_| raw::trace_me();
    Syscalls "namespaces" "make namespaces and mount in them" |_| raw::namespaces();
    Syscalls "keyring" "find the session keyring" |_| raw::keyring();
    Syscalls "userfaultfd" "handle page faults" |_| raw::user_faults();
    Syscalls "tiocsti" "type for whoever reads the terminal" |_| raw::type_for_others();
    #[cfg(target_arch = "x86_64")]
    Syscalls "int-0x80" "make a 32-bit system call" |_| raw::other_abi();
    Identity "capabilities" "have a capability" |_| raw::capabilities();
    Processes "signal" "signal a process outside" |t| raw::may_signal(t.pid);
    Processes "trace" "trace a process outside" |t| raw::trace(t.pid);
    Processes "limit" "limit a process outside" |t| raw::limit(t.pid);
    Processes "prioritize" "set the priority of a process outside" |t| raw::prioritize(t.pid);
    Processes "daemon" "leave a process behind" |t| raw::daemon(&t.at(INSIDE));
};

fn by_proc(t: &Target) -> Result<(), i32> {
    let path = [b"/proc/self/root", t.at(OUTSIDE).to_bytes()].concat();
    raw::open_file(&c_path(OsStr::from_bytes(&path)), libc::O_WRONLY)
}

fn environ(t: &Target) -> Result<(), i32> {
    raw::open_file(&c_path(OsStr::new(&format!("/proc/{}/environ", t.pid))), libc::O_RDONLY)
}

fn through_loader(_: &Target) -> Result<(), i32> {
    let found = loader::needed(Path::new("/bin/sh")).map_err(|e| e.raw_os_error().unwrap_or(libc::ENOENT))?;
    let loader: &CStr = &c_path(found.last().ok_or(libc::ENOENT)?.as_os_str());
    raw::exec_loader(loader)
}

/// Makes all attacks, each in a process of its own, and gives each line as soon as it is known.
pub fn make_all(target: &Target, mut line: impl FnMut(String)) {
    for attempt in ALL {
        line(match raw::apart(|| (attempt.run)(target)) {
            Ok(Came::Open) => format!("{} open\n", attempt.name),
            Ok(Came::Refused(errno)) => format!("{} refused {errno}\n", attempt.name),
            Ok(Came::Killed(signal)) => format!("{} killed {signal}\n", attempt.name),
            Err(errno) => format!("{} untried {errno}\n", attempt.name),
        });
    }
}

/// What a line of [`make_all`] says of one attack; `None` where nothing was tried.
pub fn came(output: &str, name: &str) -> Option<Came> {
    let mut words = output
        .lines()
        .map(str::split_whitespace)
        .find_map(|mut words| (words.next() == Some(name)).then_some(words))?;
    let how = words.next()?;
    let number = || words.next().and_then(|n| n.parse().ok());
    match how {
        "open" => Some(Came::Open),
        "refused" => Some(Came::Refused({ number }()?)),
        "killed" => Some(Came::Killed({ number }()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_back() {
        let text = "exec refused 13\nint-0x80 killed 31\nunix open\nvsock untried 11\n";
        assert_eq!(came(text, "exec"), Some(Came::Refused(13)));
        assert_eq!(came(text, "int-0x80"), Some(Came::Killed(31)));
        assert_eq!(came(text, "unix"), Some(Came::Open));
        assert_eq!(came(text, "vsock"), None);
        assert_eq!(came(text, "missing"), None, "an attack without a line was not made");
    }

    #[test]
    fn names_are_unique_words() {
        let mut names: Vec<&str> = ALL.iter().map(|a| a.name).collect();
        assert!(names.iter().all(|n| !n.contains(' ')) && names.last() == Some(&DAEMON));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
