//! Watching the tree's processor time, and its memory and tasks where no cgroup holds them.
//!
//! A sample is one line of `/proc/PID/stat` a process. The next one is due no earlier than the tree could
//! possibly pass a limit (and no later than a fixed time), so a short run is never sampled at all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::LimitKind;
use super::tree::{self, Stat};
use crate::policy::model::EffectiveLimits;
use crate::sandbox::cgroup::Cgroup;
use crate::sys::process::{self, Pid, Usage};
use shared::Shared;

mod shared;

/// Where the tree's processes are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// All of `/proc`, which shows one PID namespace of which process 1 is ours.
    WholeProc,
    /// Descendants of this process.
    Descendants,
}

/// Memory grows no faster than this, bytes a second: what filling fresh pages takes at best.
const GROWTH: u64 = 8 << 30;
/// Between two samples where tasks have to be counted: a bomb makes some hundreds in that time.
const TASKS: Duration = Duration::from_millis(25);

/// The watch over one tree.
#[derive(Debug)]
pub struct Watch<'a> {
    listing: Listing,
    cgroup: Option<&'a Cgroup>,
    cpu: Option<Duration>,
    memory: Option<u64>,
    tasks: Option<u64>,
    processors: u32,
    seen: BTreeMap<(Pid, u64), (u64, u64)>,
    reaped: Duration,
    lost: Duration,
    shared: Option<Shared>,
    next: Option<Instant>,
}

impl<'a> Watch<'a> {
    /// A watch for these limits. `count_tasks`: the kernel does not hold the run to its `pids` by itself. A `cgroup`
    /// counts the processor time, and may hold the memory.
    pub fn new(
        limits: &EffectiveLimits,
        listing: Listing,
        count_tasks: bool,
        cgroup: Option<&'a Cgroup>,
    ) -> Watch<'a> {
        let processors = process::allowed_cpus().map_or(1, |cpus| cpus.len().max(1)) as u32;
        let processors = limits.cpus.get().map_or(processors, |n| processors.min(n.clamp(1, 4096) as u32));
        let mut watch = Watch {
            listing,
            cgroup,
            cpu: limits.cpu_time.get(),
            memory: limits.memory.get().filter(|_| !cgroup.is_some_and(|group| group.holds.memory)),
            tasks: limits.pids.get().filter(|_| count_tasks),
            processors,
            seen: BTreeMap::new(),
            reaped: Duration::ZERO,
            lost: Duration::ZERO,
            shared: None,
            next: None,
        };
        watch.shared = watch.memory.map(|_| Shared::new());
        watch.plan(Duration::ZERO, 0, Duration::ZERO);
        watch
    }

    /// When the next sample is due; `None` where nothing has to be watched.
    pub fn due(&self) -> Option<Instant> {
        self.next
    }

    /// Processor time of processes that nobody waited for, as far as it was seen.
    pub fn lost(&self) -> Duration {
        self.lost
    }

    /// Looks at the tree. The limit that it has passed, if any.
    pub fn sample(&mut self) -> Option<LimitKind> {
        let began = Instant::now();
        let counted = self.cgroup.and_then(Cgroup::cpu).map(|(user, system)| user + system);
        let mut stats: Vec<Stat> = Vec::new();
        if counted.is_none() || self.memory.is_some() || self.tasks.is_some() {
            stats.extend(self.pids().into_iter().filter_map(Stat::read));
        }
        let used = counted.unwrap_or_else(|| self.account(&stats, process::usage_of_children()));
        let tasks: u64 = stats.iter().filter(|s| s.alive()).map(|s| s.threads).sum();
        let memory = self.memory.map_or(0, |limit| self.memory_of(&stats, limit));
        self.plan(used, memory, began.elapsed());
        if self.tasks.is_some_and(|limit| tasks > limit) {
            return Some(LimitKind::Pids);
        }
        if self.memory.is_some_and(|limit| memory > limit) {
            return Some(LimitKind::Memory);
        }
        self.cpu.filter(|&limit| used >= limit).map(|_| LimitKind::CpuTime)
    }

    fn pids(&self) -> Vec<Pid> {
        match self.listing {
            Listing::Descendants => tree::descendants(self_in_proc(), &BTreeSet::new()),
            Listing::WholeProc => std::fs::read_dir("/proc")
                .map(|entries| {
                    let names = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
                    names.filter(|&pid: &Pid| pid != 1).collect()
                })
                .unwrap_or_default(),
        }
    }

    /// Processor time of the tree: what living processes used and waited for, what we reaped, and what is known
    /// of those that vanished without anybody waiting (`SIGCHLD` ignored): seen before, now gone, and neither in
    /// what the survivors nor in what we waited for.
    fn account(&mut self, stats: &[Stat], reaped: Usage) -> Duration {
        let mut before = std::mem::take(&mut self.seen);
        let (mut living, mut waited_more) = (0, 0);
        for stat in stats {
            living += stat.own + stat.waited;
            if let Some((_, waited)) = before.remove(&(stat.pid, stat.started)) {
                waited_more += stat.waited.saturating_sub(waited);
            }
            self.seen.insert((stat.pid, stat.started), (stat.own, stat.waited));
        }
        let vanished: u64 = before.values().map(|(own, waited)| own + waited).sum();
        let reaped = reaped.cpu();
        let found = self.ticks(waited_more) + reaped.saturating_sub(self.reaped);
        self.lost += self.ticks(vanished).saturating_sub(found);
        self.reaped = reaped;
        self.ticks(living) + reaped + self.lost
    }

    fn ticks(&self, ticks: u64) -> Duration {
        let tick = Duration::from_secs(1) / process::ticks_per_second().min(1_000_000) as u32;
        tick.saturating_mul(ticks.min(u64::from(u32::MAX)) as u32)
    }

    /// Memory of the tree: the cheap sum first, which counts shared pages once a process; a dearer and more
    /// exact one only where the cheap one is over the limit.
    fn memory_of(&mut self, stats: &[Stat], limit: u64) -> u64 {
        let page = page_size();
        let resident: u64 = stats.iter().map(|s| s.pages.saturating_mul(page)).sum();
        let room = limit.saturating_sub(resident);
        let shared = self.shared.as_mut().map_or(0, |shared| shared.of(stats, self.listing, room));
        if resident.saturating_add(shared) <= limit {
            return resident.saturating_add(shared);
        }
        let sum = |parts: &dyn Fn(&Stat) -> (u64, u64)| {
            let (mut own, mut mapped) = (0_u64, 0_u64);
            for (anonymous, shared) in stats.iter().map(parts) {
                own = own.saturating_add(anonymous);
                mapped = mapped.saturating_add(shared);
            }
            // What is mapped may be part of what is shared: no byte is counted twice.
            own.saturating_add(mapped.max(shared))
        };
        let own = sum(&own_memory);
        if own <= limit {
            return own;
        }
        // A process may hide its page map (PR_SET_DUMPABLE), but not the sum in `status`.
        sum(&|s| {
            let rollup = format!("/proc/{}/smaps_rollup", s.pid);
            parts_of(&rollup, ["Pss_Anon:", "Pss_Shmem:"]).unwrap_or_else(|| own_memory(s))
        })
    }

    fn plan(&mut self, used: Duration, memory: u64, cost: Duration) {
        let cpu = self.cpu.map(|limit| {
            (limit.saturating_sub(used) / self.processors)
                .clamp(Duration::from_millis(10), Duration::from_millis(250))
        });
        let memory = self.memory.map(|limit| {
            let room = limit.saturating_sub(memory);
            let time = Duration::from_micros(room / (GROWTH / 1_000_000));
            time.clamp(Duration::from_millis(5), Duration::from_millis(50))
        });
        let tasks = self.tasks.map(|_| TASKS);
        let soonest = [cpu, memory, tasks].into_iter().flatten().min();
        // The watch itself never takes more than a tenth of one processor.
        self.next = soonest.map(|wait| Instant::now() + wait.max(cost * 10));
    }
}

/// Our own number as this `/proc` shows it: with an old `/proc` it is not the one getpid(2) gives.
fn self_in_proc() -> Pid {
    let link = std::fs::read_link("/proc/self").ok();
    link.and_then(|l| l.to_str()?.parse().ok()).unwrap_or_else(process::own_pid)
}

fn page_size() -> u64 {
    nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|n| u64::try_from(n).ok())
        .unwrap_or(4096)
}

/// Resident memory that belongs to no file: the process's own, and shared.
fn own_memory(s: &Stat) -> (u64, u64) {
    let status = format!("/proc/{}/task/{}/status", s.pid, s.other.unwrap_or(s.pid));
    parts_of(&status, ["RssAnon:", "RssShmem:"]).unwrap_or_default()
}

/// Two such lines of one file; `None` where it has neither.
fn parts_of(file: &str, [own, shared]: [&str; 2]) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(file).ok()?;
    match (sum_lines(&text, &[own]), sum_lines(&text, &[shared])) {
        (None, None) => None,
        (own, shared) => Some((own.unwrap_or(0), shared.unwrap_or(0))),
    }
}

/// The sum, in bytes, of lines `NAME   123 kB`; `None` where there is none.
fn sum_lines(text: &str, names: &[&str]) -> Option<u64> {
    let mut sum = None;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        if words.next().is_some_and(|word| names.contains(&word)) {
            let kib: u64 = words.next().and_then(|n| n.parse().ok()).unwrap_or(0);
            sum = Some(sum.unwrap_or(0) + (kib << 10));
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::{Bound, Limits};

    fn watch() -> Watch<'static> {
        let mut limits = Limits::default().effective();
        limits.cpu_time = Bound::At(Duration::from_secs(1));
        Watch::new(&limits, Listing::Descendants, false, None)
    }

    fn stat(pid: Pid, own: u64, waited: u64) -> Stat {
        Stat {
            pid,
            state: b'R',
            parent: 1,
            group: 2,
            own,
            waited,
            threads: 1,
            started: 5,
            pages: 10,
            other: None,
        }
    }

    fn reaped(ms: u64) -> Usage {
        Usage { user: Duration::from_millis(ms), ..Usage::default() }
    }

    #[test]
    fn time_moves_from_the_living_to_their_parents_and_to_us_without_being_counted_twice() {
        let mut w = watch();
        let ms = Duration::from_millis;
        assert_eq!(w.account(&[stat(2, 10, 0), stat(3, 20, 0)], reaped(0)), ms(300));
        // 3 ended and its parent 2 waited for it.
        assert_eq!(w.account(&[stat(2, 11, 20)], reaped(0)), ms(310));
        // 2 ended and we reaped it with all it had waited for.
        assert_eq!(w.account(&[], reaped(315)), ms(315));
        assert_eq!(w.lost(), Duration::ZERO);
    }

    #[test]
    fn time_of_children_that_nobody_waits_for_is_not_lost() {
        let mut w = watch();
        let ms = Duration::from_millis;
        assert_eq!(w.account(&[stat(2, 1, 0), stat(3, 40, 0)], reaped(0)), ms(410));
        assert_eq!(w.account(&[stat(2, 1, 0), stat(4, 40, 0)], reaped(0)), ms(810));
        assert_eq!(w.account(&[stat(2, 1, 0)], reaped(0)), ms(810));
        assert_eq!(w.lost(), ms(800));
    }

    #[test]
    fn a_reused_number_is_another_process() {
        let mut w = watch();
        w.account(&[stat(3, 40, 0)], reaped(0));
        let again = Stat { started: 99, ..stat(3, 1, 0) };
        assert_eq!(w.account(&[again], reaped(0)), Duration::from_millis(410));
    }

    #[test]
    fn sums_of_status_lines() {
        let text = "Name:\tx\nRssAnon:\t     100 kB\nRssFile:\t 7 kB\nRssShmem:\t   1 kB\n";
        assert_eq!(sum_lines(text, &["RssAnon:", "RssShmem:"]), Some(101 << 10));
        assert_eq!(sum_lines("", &["RssAnon:"]), None);
    }

    #[test]
    fn nothing_to_watch_is_never_due() {
        let mut limits = Limits::default().effective();
        limits.cpu_time = Bound::Lifted;
        limits.memory = Bound::Lifted;
        assert_eq!(Watch::new(&limits, Listing::WholeProc, false, None).due(), None);
        assert!(Watch::new(&limits, Listing::WholeProc, true, None).due().is_some());
    }
}
