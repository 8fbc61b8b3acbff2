//! Memory that is in no process's resident set: files in memory that are written and not mapped, or mapped and not
//! resident, and System V segments that nobody has attached.
//!
//! Looking for it costs a walk over all descriptors and mappings of the tree, so it is only done where all the shared
//! memory of the machine would carry the tree over its limit, and not at every sample.
//!
//! Where a process can hold such a file without its size being known here (it hides its descriptors, a descriptor is on
//! its way through a socket, a file is mapped that only root could look at), what shared memory the machine gained since
//! the run began counts as the tree's: nothing smaller is sure to be enough.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use super::Listing;
use crate::run::tree::Stat;
use crate::sys::machine;
use crate::sys::process::Pid;

/// Between two walks.
const PAUSE: Duration = Duration::from_millis(50);
/// Descriptors and mappings looked at in one walk.
const MAX_ENTRIES: usize = 8192;
/// How the paths of files without a name in any file system begin.
const IN_MEMORY: [&[u8]; 2] = [b"/memfd:", b"/dev/zero (deleted)"];

/// What was last found.
#[derive(Debug)]
pub struct Shared {
    bytes: u64,
    looked: Option<Instant>,
    /// Of the whole machine, when the run began.
    before: Option<u64>,
}

impl Shared {
    /// For a run that begins now.
    pub fn new() -> Shared {
        Shared { bytes: 0, looked: None, before: machine() }
    }

    /// Bytes in files in memory and in System V segments of the tree; 0 where `room` has space for all there can be.
    pub fn of(&mut self, stats: &[Stat], listing: Listing, room: u64) -> u64 {
        let all = machine();
        if all.is_some_and(|all| all <= room) {
            return 0;
        }
        if self.looked.is_none_or(|at| at.elapsed() >= PAUSE) {
            let mut files = Files { seen: BTreeSet::new(), bytes: 0, left: MAX_ENTRIES, hidden: false };
            stats.iter().for_each(|stat| files.of(stat));
            self.bytes = files.bytes.saturating_add(segments(stats, listing));
            if let (true, Some(before), Some(all)) = (files.hidden, self.before, all) {
                self.bytes = self.bytes.max(all.saturating_sub(before));
            }
            self.looked = Some(Instant::now());
        }
        self.bytes
    }
}

/// All shared memory of the machine; `None` where that is not said. The `Shmem` of `/proc/meminfo`, which takes a hundred times
/// as long to ask for, and every run asks when it begins.
fn machine() -> Option<u64> {
    machine::shared_memory().filter(|&bytes| bytes > 0)
}

/// The memory files of a tree, each counted once.
struct Files {
    seen: BTreeSet<(u64, u64)>,
    bytes: u64,
    left: usize,
    /// There may be more than was found.
    hidden: bool,
}

impl Files {
    fn of(&mut self, stat: &Stat) {
        let process = format!("/proc/{}", stat.pid);
        let task = |pid: &dyn std::fmt::Display| format!("{process}/task/{pid}");
        if stat.threads <= 1 {
            self.open(&process);
        } else if let Some(tasks) = self.list(&format!("{process}/task")) {
            // Each may have descriptors of its own (unshare(2), `CLONE_FILES`).
            tasks.iter().for_each(|pid| self.open(&task(pid)));
        }
        self.mapped(&stat.other.map_or(process.clone(), |pid| task(&pid)), &process);
    }

    /// The names in a directory of `/proc`; none where its owner is gone.
    fn list(&mut self, dir: &str) -> Option<Vec<String>> {
        let entries = self.or_hidden(std::fs::read_dir(dir))?;
        Some(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    fn open(&mut self, task: &str) {
        for number in self.list(&format!("{task}/fd")).unwrap_or_default() {
            if self.is_enough() {
                return;
            }
            let path = format!("{task}/fd/{number}");
            let Ok(to) = std::fs::read_link(&path) else { continue };
            let to = to.as_os_str().as_bytes();
            if to.starts_with(IN_MEMORY[0]) {
                self.count(std::fs::metadata(path));
            } else if to.starts_with(b"socket:") {
                let info = std::fs::read_to_string(format!("{task}/fdinfo/{number}")).unwrap_or_default();
                self.hidden |= on_their_way(&info);
            }
        }
    }

    /// What is mapped keeps its whole file, of which no page need be resident, and none but one mapped.
    fn mapped(&mut self, task: &str, process: &str) {
        let Some(maps) = self.or_hidden(std::fs::read(format!("{task}/maps"))) else { return };
        for range in maps.split(|&byte| byte == b'\n').filter_map(memory_file) {
            if self.is_enough() {
                return;
            }
            match std::fs::metadata(format!("{process}/map_files/{range}")) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => self.hidden = true,
                found => self.count(found),
            }
        }
    }

    fn is_enough(&mut self) -> bool {
        self.hidden |= self.left == 0;
        self.left = self.left.saturating_sub(1);
        self.hidden && self.left == 0
    }

    fn count(&mut self, file: io::Result<Metadata>) {
        if let Ok(file) = file
            && self.seen.insert((file.dev(), file.ino()))
        {
            self.bytes = self.bytes.saturating_add(file.blocks().saturating_mul(512));
        }
    }

    /// A process may hide all this from its own user (prctl(2), `PR_SET_DUMPABLE`).
    fn or_hidden<T>(&mut self, read: io::Result<T>) -> Option<T> {
        self.hidden |= read.as_ref().is_err_and(|e| e.kind() == ErrorKind::PermissionDenied);
        read.ok()
    }
}

/// Whether descriptors are on their way in a Unix socket, by its `fdinfo`.
fn on_their_way(info: &str) -> bool {
    let count = info.lines().find_map(|line| line.strip_prefix("scm_fds:"));
    count.is_some_and(|count| count.trim() != "0")
}

/// The addresses (`START-END`) of a line of `/proc/PID/maps` that maps a file in memory.
fn memory_file(line: &[u8]) -> Option<&str> {
    let path = &line[line.iter().position(|&byte| byte == b'/')?..];
    if !IN_MEMORY.iter().any(|start| path.starts_with(start)) {
        return None;
    }
    std::str::from_utf8(line.split(|&byte| byte == b' ').next()?).ok()
}

fn segments(stats: &[Stat], listing: Listing) -> u64 {
    let Ok(table) = std::fs::read_to_string("/proc/sysvipc/shm") else { return 0 };
    // The creator's number is 0 where it is not of the reader's PID namespace.
    segments_in(&table, |pid| match listing {
        Listing::WholeProc => pid > 0,
        Listing::Descendants => stats.iter().any(|stat| stat.pid == pid),
    })
}

/// The resident part of every segment whose creator is `ours`.
fn segments_in(table: &str, ours: impl Fn(Pid) -> bool) -> u64 {
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let column = |name: &str| head.iter().position(|title| *title == name);
    let (Some(creator), Some(resident)) = (column("cpid"), column("rss")) else { return 0 };
    let one = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let pid: Pid = words.get(creator)?.parse().ok()?;
        if ours(pid) { words.get(resident)?.parse::<u64>().ok() } else { None }
    };
    lines.filter_map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_memory_are_known_by_their_lines() {
        let line = b"7f0c1000-7f0c2000 r--s 00000000 00:01 1034                       /memfd:a (deleted)";
        assert_eq!(memory_file(line), Some("7f0c1000-7f0c2000"));
        let anonymous = b"7f0c1000-7f0c2000 rw-s 00000000 00:01 1034    /dev/zero (deleted)";
        assert!(memory_file(anonymous).is_some());
        assert!(memory_file(b"7f0c1000-7f0c2000 r--p 00000000 08:01 1034    /usr/lib/memfd:x").is_none());
        assert!(memory_file(b"7f0c1000-7f0c2000 rw-p 00000000 00:00 0").is_none());
        assert!(
            on_their_way("pos:\t0\nscm_fds: 2\n")
                && !on_their_way("pos:\t0\nscm_fds: 0\n")
                && !on_their_way("")
        );
    }

    #[test]
    fn segments_are_counted_for_their_creator() {
        let table = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n\
             0          0  1600             314572800   42    42      0     0     0     0     0  0 1 1             314572800                     0\n\
             0          1  1600                  4096    0    42      0     0     0     0     0  0 1 1                  4096                     0\n";
        assert_eq!(segments_in(table, |pid| pid > 0), 314_572_800);
        assert_eq!(segments_in(table, |_| true), 314_576_896);
        assert_eq!(segments_in("", |_| true), 0);
    }
}
