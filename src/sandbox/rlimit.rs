//! Resource limits of one process (setrlimit(2)): what each limit of the policy becomes, and how well it holds.
//!
//! `RLIMIT_AS` is never used: node with one WebAssembly memory reserves 11 GiB of addresses. `RLIMIT_DATA` counts
//! what is really private and writable, and stands at four times the tree's limit: it is the backstop of one
//! process, while the watch over the tree, which can name the cause, acts first.

use super::cgroup::Controllers;
use crate::policy::model::{Bound, EffectiveLimits};
use crate::sys::process;

/// One resource, its soft and its hard limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rlimit {
    /// `RLIMIT_*`.
    pub resource: u32,
    /// Soft limit.
    pub soft: u64,
    /// Hard limit.
    pub hard: u64,
}

/// How well a limit is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// By the kernel, for what the limit says it is for.
    Exact,
    /// By watching, or by a kernel limit with another scope.
    Approximate,
    /// Not at all: lifted.
    None,
}

impl How {
    /// The word used in results.
    pub fn as_str(self) -> &'static str {
        match self {
            How::Exact => "exact",
            How::Approximate => "approximate",
            How::None => "none",
        }
    }
}

/// How each limit of the policy was really held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitsHow {
    /// `wall_time`.
    pub wall_time: How,
    /// `cpu_time`.
    pub cpu_time: How,
    /// `memory`.
    pub memory: How,
    /// `pids`.
    pub pids: How,
    /// `output`.
    pub output: How,
    /// `file_size` (of one file).
    pub file_size: How,
    /// `open_files` (of one process).
    pub open_files: How,
    /// `cpus`.
    pub cpus: How,
}

impl LimitsHow {
    /// What holds without a cgroup. `pids_exact`: the kernel counts the run's own tasks.
    pub fn of(limits: &EffectiveLimits, pids_exact: bool) -> LimitsHow {
        fn how<T: Copy + Ord>(bound: Bound<T>, held: How) -> How {
            match bound {
                Bound::At(_) => held,
                Bound::Lifted => How::None,
            }
        }
        LimitsHow {
            wall_time: how(limits.wall_time, How::Exact),
            cpu_time: how(limits.cpu_time, How::Approximate),
            memory: how(limits.memory, How::Approximate),
            pids: how(limits.pids, if pids_exact { How::Exact } else { How::Approximate }),
            output: how(limits.output, How::Exact),
            file_size: how(limits.file_size, How::Exact),
            open_files: how(limits.open_files, How::Exact),
            // The run may widen its own affinity again.
            cpus: how(limits.cpus, How::Approximate),
        }
    }
}

impl LimitsHow {
    /// What a cgroup changes: the kernel holds the tree to these, and its clock counts every process.
    #[must_use]
    pub fn in_cgroup(mut self, holds: Controllers) -> LimitsHow {
        let on = |how: &mut How, held: bool| {
            if held && *how == How::Approximate {
                *how = How::Exact;
            }
        };
        on(&mut self.cpu_time, true);
        on(&mut self.memory, holds.memory);
        on(&mut self.pids, holds.pids);
        on(&mut self.cpus, holds.cpu);
        self
    }
}

/// Who counts the tasks of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PidsBy {
    /// The kernel, per user namespace (`RLIMIT_NPROC` of a user that is not root).
    OwnNamespace,
    /// The kernel, for a user that nothing else runs as.
    OwnUser,
    /// The kernel per user, beside everything else this user runs, and the watch over the tree.
    User,
    /// The watch over the tree alone: `RLIMIT_NPROC` does not hold root.
    Watch,
    /// The kernel, by `pids.max` of the run's cgroup.
    Cgroup,
}

/// The resource limits of the child. None is ever above the hard limit that guardexec itself was given.
pub fn table(limits: &EffectiveLimits, pids: PidsBy) -> Vec<Rlimit> {
    let mut wanted: Vec<(Resource, u64, u64)> = Vec::with_capacity(6);
    // Not 0: that does not keep a piped `core_pattern` handler from running, 1 does (core(5)).
    wanted.push((libc::RLIMIT_CORE, 1, 1));
    if let Bound::At(time) = limits.cpu_time {
        // A second later than the limit: the watch acts first, for the whole tree. Were the kernel first, it would end
        // one burner, and that one's parent would go on.
        let soft = (time.as_secs() + u64::from(time.subsec_nanos() > 0)).saturating_add(1);
        wanted.push((libc::RLIMIT_CPU, soft, soft.saturating_add(1)));
    }
    if let Bound::At(bytes) = limits.memory {
        wanted.push((libc::RLIMIT_DATA, bytes.saturating_mul(4), bytes.saturating_mul(4)));
    }
    if let Bound::At(bytes) = limits.file_size {
        wanted.push((libc::RLIMIT_FSIZE, bytes, bytes));
    }
    if let Bound::At(number) = limits.open_files {
        wanted.push((libc::RLIMIT_NOFILE, number, number));
    }
    if let Bound::At(number) = limits.pids {
        let tasks = match pids {
            // The keeper, first process of the namespace, is one of its tasks.
            PidsBy::OwnNamespace => Some(number.saturating_add(1)),
            PidsBy::OwnUser => Some(number),
            // All tasks of the machine are surely at least those of this user.
            PidsBy::User => all_tasks().map(|all| all.saturating_add(number)),
            PidsBy::Watch | PidsBy::Cgroup => None,
        };
        wanted.extend(tasks.map(|n| (libc::RLIMIT_NPROC, n, n)));
    }
    wanted.into_iter().map(|(resource, soft, hard)| below_own(number_of(resource), soft, hard)).collect()
}

#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// The C libraries differ in the sign of `RLIMIT_*`.
#[allow(clippy::unnecessary_cast)]
fn number_of(resource: Resource) -> u32 {
    resource as u32
}

fn below_own(resource: u32, soft: u64, hard: u64) -> Rlimit {
    let own = process::rlimit(resource).map_or(u64::MAX, |(_, hard)| hard);
    Rlimit { resource, soft: soft.min(own), hard: hard.min(own) }
}

/// Where nothing keeps a crash of the run from starting a program of the host with the rights of the host's root: what to
/// do. Only a process that was itself started with a hard limit of 0 has to look.
pub fn core_handler() -> Option<String> {
    let own = process::rlimit(number_of(libc::RLIMIT_CORE)).map_or(u64::MAX, |(_, hard)| hard);
    let pattern = if own == 0 { std::fs::read("/proc/sys/kernel/core_pattern").ok()? } else { return None };
    handled(&pattern).then(|| {
        "a crash of the run starts the host's handler of core dumps (/proc/sys/kernel/core_pattern), since guardexec was started \
         with a hard limit of 0 on core files and only 1 keeps it away: start it with `ulimit -Hc 1` or LimitCORE=1"
            .to_owned()
    })
}

/// A program or a socket (core(5)).
fn handled(pattern: &[u8]) -> bool {
    matches!(pattern.first(), Some(b'|' | b'@'))
}

/// All tasks of the machine, from the fourth field of `/proc/loadavg` (`running/all`).
fn all_tasks() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_ascii_whitespace().nth(3)?.split('/').nth(1)?.parse().ok()
}

/// The first `cpus` of the processors this process may use; `None` where that is no restriction.
pub fn affinity(limits: &EffectiveLimits) -> Option<Vec<usize>> {
    let wanted = usize::try_from(limits.cpus.get()?).unwrap_or(usize::MAX).max(1);
    let mut allowed = process::allowed_cpus().ok()?;
    if allowed.len() <= wanted {
        return None;
    }
    allowed.truncate(wanted);
    Some(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::Limits;
    use std::time::Duration;

    fn find(table: &[Rlimit], resource: Resource) -> Option<(u64, u64)> {
        table.iter().find(|r| r.resource == number_of(resource)).map(|r| (r.soft, r.hard))
    }

    #[test]
    fn cpu_is_rounded_up_and_a_second_later_and_its_hard_limit_another_one() {
        let mut limits = Limits::default().effective();
        for (time, soft) in
            [(Duration::from_millis(1), 2), (Duration::from_secs(2), 3), (Duration::from_millis(2001), 4)]
        {
            limits.cpu_time = Bound::At(time);
            assert_eq!(find(&table(&limits, PidsBy::Watch), libc::RLIMIT_CPU), Some((soft, soft + 1)));
        }
    }

    #[test]
    fn an_own_namespace_counts_its_keeper_too_and_root_gets_no_nproc() {
        let mut limits = Limits::default().effective();
        limits.pids = Bound::At(20);
        assert_eq!(find(&table(&limits, PidsBy::OwnNamespace), libc::RLIMIT_NPROC), Some((21, 21)));
        assert_eq!(find(&table(&limits, PidsBy::Watch), libc::RLIMIT_NPROC), None);
        let (soft, _) = find(&table(&limits, PidsBy::User), libc::RLIMIT_NPROC).unwrap();
        assert!(soft > 20, "{soft}");
    }

    #[test]
    fn handlers_of_cores_are_known() {
        assert!(handled(b"|/usr/share/apport %p") && handled(b"@/run/core.sock"));
        assert!(!handled(b"core\n") && !handled(b"/var/cores/%p") && !handled(b""));
    }

    #[test]
    fn core_is_one_and_lifted_limits_are_left_alone() {
        let lifted = EffectiveLimits {
            wall_time: Bound::Lifted,
            cpu_time: Bound::Lifted,
            memory: Bound::Lifted,
            pids: Bound::Lifted,
            output: Bound::Lifted,
            file_size: Bound::Lifted,
            open_files: Bound::Lifted,
            kill_grace: Duration::ZERO,
            cpus: Bound::Lifted,
        };
        let rows = table(&lifted, PidsBy::User);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].resource, number_of(libc::RLIMIT_CORE));
        assert!(rows[0].soft <= 1);
        let how = LimitsHow::of(&lifted, true);
        assert_eq!((how.memory, how.pids, how.wall_time), (How::None, How::None, How::None));
    }
}
