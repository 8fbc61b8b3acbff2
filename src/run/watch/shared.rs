//! Memory that is in no process's resident set: files in memory that are written and not mapped, and System V segments
//! that nobody has attached.
//!
//! Looking for it costs a walk over all descriptors of the tree, so it is only done where all the shared memory of the
//! machine would carry the tree over its limit, and not at every sample.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use super::Listing;
use crate::run::tree::Stat;
use crate::sys::process::Pid;

/// Between two walks.
const PAUSE: Duration = Duration::from_millis(50);
/// Descriptors looked at in one walk.
const MAX_DESCRIPTORS: usize = 8192;

/// What was last found.
#[derive(Debug, Default)]
pub struct Shared {
    bytes: u64,
    looked: Option<Instant>,
}

impl Shared {
    /// Bytes in files in memory and in System V segments of the tree; 0 where `room` has space for all there can be.
    pub fn of(&mut self, stats: &[Stat], listing: Listing, room: u64) -> u64 {
        if machine().is_some_and(|all| all <= room) {
            return 0;
        }
        if self.looked.is_none_or(|at| at.elapsed() >= PAUSE) {
            self.bytes = memory_files(stats).saturating_add(segments(stats, listing));
            self.looked = Some(Instant::now());
        }
        self.bytes
    }
}

/// All shared memory of the machine; `None` where that is not said.
fn machine() -> Option<u64> {
    super::sum_of("/proc/meminfo", &["Shmem:"]).filter(|&bytes| bytes > 0)
}

/// What the memory files hold that the tree has open, each counted once.
fn memory_files(stats: &[Stat]) -> u64 {
    let (mut seen, mut sum, mut left) = (BTreeSet::new(), 0_u64, MAX_DESCRIPTORS);
    for stat in stats {
        let dir = format!("/proc/{}/fd", stat.other.unwrap_or(stat.pid));
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if left == 0 {
                return sum;
            }
            left -= 1;
            let path = entry.path();
            let memory =
                std::fs::read_link(&path).is_ok_and(|to| to.as_os_str().as_bytes().starts_with(b"/memfd:"));
            if let Some(file) = memory.then(|| path.metadata().ok()).flatten()
                && seen.insert((file.dev(), file.ino()))
            {
                sum = sum.saturating_add(file.blocks().saturating_mul(512));
            }
        }
    }
    sum
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
    fn segments_are_counted_for_their_creator() {
        let table = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n\
             0          0  1600             314572800   42    42      0     0     0     0     0  0 1 1             314572800                     0\n\
             0          1  1600                  4096    0    42      0     0     0     0     0  0 1 1                  4096                     0\n";
        assert_eq!(segments_in(table, |pid| pid > 0), 314_572_800);
        assert_eq!(segments_in(table, |_| true), 314_576_896);
        assert_eq!(segments_in("", |_| true), 0);
    }
}
