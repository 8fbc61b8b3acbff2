//! Who is alive in the tree, and how all of it is signalled.
//!
//! In a PID namespace the keeper is the first process: `kill(-1)` from it reaches everything at once and cannot be
//! outrun, because a fork is refused to a process with a signal pending (kill takes the same lock as fork).
//!
//! Without one the tree is what descends from us, ourselves being a subreaper (so that orphans come to us). It is
//! read from `/proc/PID/task/TID/children`, every task's, parents first, and stopped before it is killed: a
//! stopped process makes no new ones. A number is only signalled through a pidfd that was opened first and whose
//! process was then seen to have the parent it should have: numbers of strangers are never hit.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::sys::process::{self, Pid};

/// How the tree is held together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// In a PID namespace whose first process calls this.
    Namespace,
    /// As descendants of the calling process.
    Groups,
}

/// One line of `/proc/PID/stat`, the fields that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The process.
    pub pid: Pid,
    /// `R`, `S`, `T`, `Z` and so on.
    pub state: u8,
    /// Its parent.
    pub parent: Pid,
    /// Its process group.
    pub group: Pid,
    /// Ticks: own user and system time.
    pub own: u64,
    /// Ticks: of the children it waited for.
    pub waited: u64,
    /// Its tasks.
    pub threads: u64,
    /// When it started, in ticks since boot: with the number, an identity.
    pub started: u64,
    /// Resident pages.
    pub pages: u64,
    /// A living thread, where the first one has ended and the others have not.
    pub other: Option<Pid>,
}

impl Stat {
    /// Reads it; `None` when the process is gone.
    pub fn read(pid: Pid) -> Option<Stat> {
        let mut stat = Stat::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)?;
        if stat.state == b'Z' && stat.threads > 1 {
            // Looks dead and has no memory, while its other threads have all they want.
            let task = tasks_of(pid).into_iter().find(|task| task.state != b'Z');
            stat.pages = task.map_or(0, |task| task.pages);
            stat.other = task.map(|task| task.pid);
        }
        Some(stat)
    }

    /// The name in parentheses may hold anything, parentheses and newlines too: fields count from the last `)`.
    fn parse(line: &[u8]) -> Option<Stat> {
        let close = line.iter().rposition(|&b| b == b')')?;
        let open = line.iter().position(|&b| b == b'(')?;
        let pid = std::str::from_utf8(&line[..open]).ok()?.trim().parse().ok()?;
        let rest = std::str::from_utf8(&line[close + 1..]).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().take(22).collect();
        // Field 3 of proc_pid_stat(5) is the first here.
        let at = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Stat {
            pid,
            state: *fields.first()?.as_bytes().first()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            own: at(14)? + at(15)?,
            waited: at(16)? + at(17)?,
            threads: at(20)?,
            started: at(22)?,
            pages: at(24).unwrap_or(0),
            other: None,
        })
    }

    /// Neither a zombie nor dead, whatever its first thread is.
    pub fn alive(&self) -> bool {
        self.threads > 1 || !matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Dead, or stopped with every thread.
    fn at_rest(&self) -> bool {
        let rests = |state: u8| matches!(state, b'T' | b't' | b'Z' | b'X' | b'x');
        rests(self.state) && (self.threads <= 1 || tasks_of(self.pid).iter().all(|task| rests(task.state)))
    }
}

/// The same line of every thread of a process.
fn tasks_of(pid: Pid) -> Vec<Stat> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    tasks.flatten().filter_map(|t| Stat::parse(&std::fs::read(t.path().join("stat")).ok()?)).collect()
}

/// The children of every task of a process, by number as this `/proc` shows them.
pub fn children_of(pid: Pid) -> Vec<Pid> {
    let mut found = Vec::new();
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return found };
    for task in tasks.flatten() {
        if let Ok(text) = std::fs::read_to_string(task.path().join("children")) {
            found.extend(text.split_ascii_whitespace().filter_map(|n| n.parse::<Pid>().ok()));
        }
    }
    found
}

/// All that descends from `root` (not itself), parents before children.
pub fn descendants(root: Pid, except: &BTreeSet<Pid>) -> Vec<Pid> {
    let mut all: Vec<Pid> = children_of(root).into_iter().filter(|pid| !except.contains(pid)).collect();
    let mut at = 0;
    while at < all.len() {
        all.extend(children_of(all[at]));
        at += 1;
    }
    all
}

/// Sends a signal to a process if it is (still) a child of `parent`.
fn signal_child(pid: Pid, parent: Pid, signal: i32) -> Option<Stat> {
    let pidfd = process::pidfd_open(pid).ok()?;
    let stat = Stat::read(pid).filter(|stat| stat.parent == parent)?;
    let _ = process::pidfd_signal(&pidfd, signal);
    Some(stat)
}

/// One pass over the descendants, parents first. Returns how many were not yet at rest.
///
/// When stopping, the whole process group goes with its first member: one call that no fork can outrun, while a
/// walk from process to process can be. That member was verified and is stopped, so the group's number is its
/// own; and since the child began with a session of its own, no group of the tree has a stranger in it.
fn pass(signal: i32, except: &BTreeSet<Pid>) -> usize {
    let own = process::own_pid();
    let mut moving = 0;
    let mut groups = BTreeSet::new();
    let mut queue: Vec<(Pid, Pid)> =
        children_of(own).into_iter().filter(|pid| !except.contains(pid)).map(|pid| (pid, own)).collect();
    while let Some((pid, parent)) = queue.pop() {
        let Some(stat) = signal_child(pid, parent, signal) else {
            moving += 1;
            continue;
        };
        moving += usize::from(!stat.at_rest());
        if signal == libc::SIGSTOP && stat.group != process::own_group() && !groups.contains(&stat.group) {
            let now = if stat.state == b'T' { Some(stat) } else { Stat::read(pid) };
            if now.is_some_and(|now| {
                now.parent == parent && now.state == b'T' && now.group == stat.group && now.group > 1
            }) {
                groups.insert(stat.group);
                let _ = process::kill(-stat.group, signal);
            }
        }
        queue.extend(children_of(pid).into_iter().map(|child| (child, pid)));
    }
    moving
}

/// Stops all descendants until nothing moves (at most `limit`), then kills them. Nothing is reaped meanwhile: a
/// zombie keeps its number, so a process that forks and dies again and again cannot run away into new ones.
pub fn sweep(except: &BTreeSet<Pid>, limit: Duration) {
    // Among hundreds of runnable processes an ordinary share of the processor would come too late.
    let _hurry = process::Urgent::ask();
    let end = Instant::now() + limit;
    while pass(libc::SIGSTOP, except) > 0 && Instant::now() < end {
        std::thread::yield_now();
    }
    pass(libc::SIGKILL, except);
}

/// Asks the whole tree to end: `signal`, and `SIGCONT` so that stopped processes hear it.
pub fn ask_to_end(held: Held, signal: i32) {
    match held {
        Held::Namespace => {
            let _ = process::kill(-1, signal);
            let _ = process::kill(-1, libc::SIGCONT);
        }
        Held::Groups => {
            pass(signal, &BTreeSet::new());
            pass(libc::SIGCONT, &BTreeSet::new());
        }
    }
}

/// Kills the whole tree. Called again and again until nothing is left to reap.
pub fn kill_all(held: Held) {
    match held {
        Held::Namespace => {
            let _ = process::kill(-1, libc::SIGKILL);
        }
        Held::Groups => sweep(&BTreeSet::new(), Duration::from_millis(500)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_parentheses_does_not_move_the_fields() {
        let line = b"42 (a) R 1 (\n) S 7 42 42 0 -1 4194304 1 2 3 4 100 20 3 4 20 0 5 0 777 1000 33 18446744073709551615";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.pid, stat.state, stat.parent, stat.group), (42, b'S', 7, 42));
        assert_eq!((stat.own, stat.waited, stat.threads), (120, 7, 5));
        assert_eq!((stat.started, stat.pages), (777, 33));
    }

    #[test]
    fn our_own_line_is_read() {
        let own = process::own_pid();
        let stat = Stat::read(own).unwrap();
        assert_eq!(stat.pid, own);
        assert!(stat.alive() && stat.threads >= 1 && stat.pages > 0);
    }

    #[test]
    fn a_stranger_is_never_signalled() {
        // Our own process is not a child of process 1 nor of itself.
        let own = process::own_pid();
        assert_eq!(signal_child(own, own, libc::SIGKILL), None);
    }
}
