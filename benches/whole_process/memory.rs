//! Peak memory of a command's own processes, by watching `/proc` while it runs.
//!
//! `ru_maxrss` would not do: it is the largest of the process and all children it waited for, and after a `vfork` it
//! starts at the caller's own peak. `VmHWM` (proc_pid_status(5)) belongs to one address space alone.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::plan;

/// How long a command that has begun to write its result is left standing with it. A long result does not fit the
/// pipe, so the writer is held at the moment when it needs most.
const HELD: Duration = Duration::from_millis(100);
const INTERVAL: Duration = Duration::from_micros(500);

/// What was seen, in KiB.
#[derive(Default)]
pub struct Seen {
    /// The peak of the largest process.
    pub largest: u64,
    /// The most processes seen at once.
    pub processes: usize,
    /// Resident memory of all of them, when last seen.
    pub together: u64,
}

/// Runs the row and watches it and all descendants that carry its name (helpers it forked, not what it ran).
pub fn peak(row: &plan::Row) -> Result<Seen, String> {
    let mut command = Command::new(&row.words[0]);
    command.args(&row.words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let mut pipe = child.stdout.take().ok_or("no pipe")?;
    let (pid, over) = (child.id(), AtomicBool::new(false));
    let (seen, status) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(pid, &over));
        let mut buffer = vec![0; 256 << 10];
        let begun = pipe.read(&mut buffer[..1]);
        std::thread::sleep(HELD);
        if let Ok(1) = begun {
            while let Ok(1..) = pipe.read(&mut buffer) {}
        }
        let status = child.wait();
        over.store(true, Ordering::Relaxed);
        (watcher.join(), status)
    });
    if !status.map_err(|e| e.to_string())?.success() {
        return Err("did not exit with 0".to_owned());
    }
    seen.map_err(|_| "the watcher failed".to_owned()).and_then(|s| match s.largest {
        0 => Err("ended before it was seen".to_owned()),
        _ => Ok(s),
    })
}

fn watch(pid: u32, over: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let own = loop {
        // Until the exec the child of the spawn still has the driver's name.
        match status(pid) {
            Some(s) if s.name != driver() => break s.name,
            Some(_) => std::thread::sleep(INTERVAL / 10),
            None => return seen,
        }
    };
    while !over.load(Ordering::Relaxed) {
        let (mut processes, mut together) = (0, 0);
        for one in tree(pid).into_iter().filter_map(status).filter(|s| s.name == own) {
            seen.largest = seen.largest.max(one.peak);
            processes += 1;
            together += one.resident;
        }
        if processes > 0 && together > 0 {
            seen.processes = seen.processes.max(processes);
            seen.together = together;
        }
        std::thread::sleep(INTERVAL);
    }
    seen
}

fn driver() -> String {
    fs::read_to_string("/proc/self/comm").unwrap_or_default().trim_end().to_owned()
}

struct Status {
    name: String,
    peak: u64,
    resident: u64,
}

/// Name, `VmHWM` and `VmRSS`; a process that has given up its memory counts 0.
fn status(pid: u32) -> Option<Status> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
    let kib = |name| field(name).and_then(|v| v.trim_end_matches(" kB").parse().ok()).unwrap_or(0);
    Some(Status { name: field("Name:")?.to_owned(), peak: kib("VmHWM:"), resident: kib("VmRSS:") })
}

/// The process and its descendants (`/proc/PID/task/TID/children`, proc_tid_children(5)).
fn tree(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(&pid) = all.get(at) {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for children in tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok()) {
            all.extend(children.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
        }
        at += 1;
    }
    all
}
