//! Limits: as a policy writes them, and with every default filled in.

use std::time::Duration;

/// The most that can be kept of each output stream, so that memory stays bounded: also where `output` is lifted.
pub const MAX_OUTPUT: u64 = 64 << 20;

/// A limit that was written: a figure, or the word `"none"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound<T> {
    /// At most this much.
    At(T),
    /// Lifted by the policy.
    Lifted,
}

impl<T: Ord + Copy> Bound<T> {
    /// The tighter of two.
    pub fn tighter(self, other: Bound<T>) -> Bound<T> {
        match (self, other) {
            (Bound::At(a), Bound::At(b)) => Bound::At(a.min(b)),
            (Bound::At(a), Bound::Lifted) | (Bound::Lifted, Bound::At(a)) => Bound::At(a),
            (Bound::Lifted, Bound::Lifted) => Bound::Lifted,
        }
    }

    /// The figure, unless lifted.
    pub fn get(self) -> Option<T> {
        match self {
            Bound::At(v) => Some(v),
            Bound::Lifted => None,
        }
    }
}

/// `[limits]` as written; `None` where a key is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Wall-clock time of the whole tree.
    pub wall_time: Option<Bound<Duration>>,
    /// Processor time of the whole tree.
    pub cpu_time: Option<Bound<Duration>>,
    /// Memory in bytes.
    pub memory: Option<Bound<u64>>,
    /// Tasks (processes and threads) of this run.
    pub pids: Option<Bound<u64>>,
    /// Bytes kept of each output stream.
    pub output: Option<Bound<u64>>,
    /// Bytes of one written file.
    pub file_size: Option<Bound<u64>>,
    /// Open descriptors of one process.
    pub open_files: Option<Bound<u64>>,
    /// Time between TERM and KILL at `wall_time`.
    pub kill_grace: Option<Duration>,
    /// Processors the run may use.
    pub cpus: Option<Bound<u64>>,
}

/// `[limits]` with every default filled in: what a run is held to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveLimits {
    /// Wall-clock time; default 60 s.
    pub wall_time: Bound<Duration>,
    /// Processor time; default 60 s.
    pub cpu_time: Bound<Duration>,
    /// Bytes; default 1 GiB.
    pub memory: Bound<u64>,
    /// Tasks; default 256.
    pub pids: Bound<u64>,
    /// Bytes per stream; default 64 KiB. Lifted means 64 MiB are kept (memory stays bounded).
    pub output: Bound<u64>,
    /// Bytes; default 1 GiB.
    pub file_size: Bound<u64>,
    /// Descriptors; default 1024.
    pub open_files: Bound<u64>,
    /// Default 500 ms.
    pub kill_grace: Duration,
    /// Default: lifted.
    pub cpus: Bound<u64>,
}

impl Limits {
    /// `self` where it says something, else `base` (a rule's own limits over its file's).
    pub fn over(&self, base: &Limits) -> Limits {
        Limits {
            wall_time: self.wall_time.or(base.wall_time),
            cpu_time: self.cpu_time.or(base.cpu_time),
            memory: self.memory.or(base.memory),
            pids: self.pids.or(base.pids),
            output: self.output.or(base.output),
            file_size: self.file_size.or(base.file_size),
            open_files: self.open_files.or(base.open_files),
            kill_grace: self.kill_grace.or(base.kill_grace),
            cpus: self.cpus.or(base.cpus),
        }
    }

    /// Every missing key at its default.
    pub fn effective(&self) -> EffectiveLimits {
        const GIB: u64 = 1 << 30;
        EffectiveLimits {
            wall_time: self.wall_time.unwrap_or(Bound::At(Duration::from_secs(60))),
            cpu_time: self.cpu_time.unwrap_or(Bound::At(Duration::from_secs(60))),
            memory: self.memory.unwrap_or(Bound::At(GIB)),
            pids: self.pids.unwrap_or(Bound::At(256)),
            output: self.output.unwrap_or(Bound::At(64 << 10)),
            file_size: self.file_size.unwrap_or(Bound::At(GIB)),
            open_files: self.open_files.unwrap_or(Bound::At(1024)),
            kill_grace: self.kill_grace.unwrap_or(Duration::from_millis(500)),
            cpus: self.cpus.unwrap_or(Bound::Lifted),
        }
    }
}

impl EffectiveLimits {
    /// The tighter of two, key by key.
    pub fn tighter(&self, other: &EffectiveLimits) -> EffectiveLimits {
        EffectiveLimits {
            wall_time: self.wall_time.tighter(other.wall_time),
            cpu_time: self.cpu_time.tighter(other.cpu_time),
            memory: self.memory.tighter(other.memory),
            pids: self.pids.tighter(other.pids),
            output: self.output.tighter(other.output),
            file_size: self.file_size.tighter(other.file_size),
            open_files: self.open_files.tighter(other.open_files),
            kill_grace: self.kill_grace.min(other.kill_grace),
            cpus: self.cpus.tighter(other.cpus),
        }
    }
}
