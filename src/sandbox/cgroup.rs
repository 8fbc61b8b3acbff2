//! A cgroup (v2) of the run's own: limits of the whole tree that the kernel holds exactly, its processor time to
//! the microsecond, and one write that kills all of it.
//!
//! The run's main process is born in it (`CLONE_INTO_CGROUP`); guardexec's own processes never are, so `cgroup.kill`
//! and the OOM killer end the run and not its guards. Moving a process by `cgroup.procs` is never done: after half a
//! second of idleness that waits for an RCU grace period, up to 20 ms.
//!
//! It lies beside or below the cgroup that guardexec itself is in, where that is delegated: its directory and
//! `cgroup.procs` can be written. Nothing is ever enabled there: controllers are used where `cgroup.subtree_control`
//! has them. Its name is `guardexec-PID-RANDOM` and its directory is locked (flock(2)) for as long as a guard
//! lives; one without a holder was left by guards that were killed, and the next run ends what is in it.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, Flock, FlockArg, OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use nix::unistd::{AccessFlags, UnlinkatFlags, faccessat, unlinkat};

use super::raw::secret::random_u64;
use crate::policy::model::EffectiveLimits;
use crate::sys::process;

/// Where the hierarchy is mounted: alone, or beside version 1, which then has the controllers.
const MOUNTED: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const PREFIX: &str = "guardexec-";
/// Microseconds of the period of `cpu.max`.
const PERIOD: u64 = 100_000;

/// Which controllers count and limit the children of a cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Controllers {
    /// `cpu.max`.
    pub cpu: bool,
    /// `memory.max`.
    pub memory: bool,
    /// `pids.max`.
    pub pids: bool,
}

impl Controllers {
    fn parse(text: &str) -> Controllers {
        let has = |name| text.split_ascii_whitespace().any(|word| word == name);
        Controllers { cpu: has("cpu"), memory: has("memory"), pids: has("pids") }
    }

    /// Those of them that hold one of these limits.
    fn that_hold(self, limits: &EffectiveLimits) -> Controllers {
        Controllers {
            cpu: self.cpu && limits.cpus.get().is_some(),
            memory: self.memory && limits.memory.get().is_some(),
            pids: self.pids && limits.pids.get().is_some(),
        }
    }

    fn any(self) -> bool {
        self.cpu || self.memory || self.pids
    }
}

/// A cgroup in which those of runs are made.
#[derive(Debug)]
pub struct Place {
    dir: OwnedFd,
    path: PathBuf,
    controllers: Controllers,
}

/// Why there is none, to stand in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl Unavailable {
    fn new(what: &str, errno: Errno) -> Unavailable {
        Unavailable(format!("{what}: {}", io::Error::from(errno)))
    }
}

impl Place {
    /// Looks for one: below the own cgroup or, where only its parent has controllers, beside it.
    ///
    /// # Errors
    /// There is no such hierarchy, or this process may not make cgroups in it.
    pub fn find() -> Result<Place, Unavailable> {
        let root = mounted().ok_or_else(|| Unavailable("no cgroup v2 hierarchy is mounted".into()))?;
        let own = own_path()
            .ok_or_else(|| Unavailable("this process is in no cgroup of the v2 hierarchy".into()))?;
        let own_dir = if own == "/" { root.to_path_buf() } else { root.join(own.trim_start_matches('/')) };
        let below = Place::open(own_dir.clone())?;
        if below.controllers.any() {
            return Ok(below);
        }
        if let Some(parent) = own_dir.parent().filter(|p| own != "/" && may_be_beside(&own_dir, p, root))
            && let Ok(beside) = Place::open(parent.to_path_buf())
            && beside.controllers.any()
        {
            return Ok(beside);
        }
        Ok(below)
    }

    fn open(path: PathBuf) -> Result<Place, Unavailable> {
        let shown = path.display().to_string();
        let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let dir = nix::fcntl::open(&path, flags, Mode::empty()).map_err(|e| Unavailable::new(&shown, e))?;
        for name in [".", "cgroup.procs"] {
            faccessat(&dir, name, AccessFlags::W_OK, AtFlags::empty()).map_err(|errno| {
                Unavailable::new(&format!("{shown} is not delegated to this user ({name})"), errno)
            })?;
        }
        let text = fs::read_to_string(path.join("cgroup.subtree_control")).unwrap_or_default();
        Ok(Place { dir, path, controllers: Controllers::parse(&text) })
    }

    /// Whether a cgroup here would hold one of these limits exactly.
    pub fn holds(&self, limits: &EffectiveLimits) -> bool {
        self.controllers.that_hold(limits).any()
    }

    /// Ends what killed guards have left here.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|n| n.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
            // Most often it is alive; where it is not, the lock tells, in whatever PID namespace it was.
            if pid.is_some_and(|pid: i32| !Path::new("/proc").join(pid.to_string()).exists())
                && let Ok(left) = Cgroup::lock(&self.dir, &name)
            {
                let _ = write(&left, "cgroup.kill", "1");
                remove(&self.dir, &name, &left);
            }
        }
    }
}

/// Whether there is a version 2 hierarchy with all the controllers, which is worth a look on every run.
pub fn is_unified() -> bool {
    is_version_2(MOUNTED[0])
}

fn is_version_2(path: &str) -> bool {
    statfs(path).is_ok_and(|found| found.filesystem_type() == CGROUP2_SUPER_MAGIC)
}

fn mounted() -> Option<&'static Path> {
    MOUNTED.into_iter().find(|path| is_version_2(path)).map(Path::new)
}

/// The own cgroup, from the line `0::/PATH` of `/proc/self/cgroup`.
fn own_path() -> Option<String> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    // One outside the namespace's root reads `/..`, and one that was removed ends so.
    (!path.contains("/..") && !path.ends_with(" (deleted)")).then(|| path.to_owned())
}

/// A run may be put beside our own cgroup where the parent is delegated too (it is the top of what we see, or this
/// ordinary user's own), and our own has no limits that the run would slip out of.
fn may_be_beside(own: &Path, parent: &Path, root: &Path) -> bool {
    let uid = process::ids().0;
    let ours = uid != 0 && fs::metadata(parent).is_ok_and(|meta| meta.uid() == uid);
    let unlimited = |name: &str| {
        fs::read_to_string(own.join(name)).map_or(true, |text| text.split_whitespace().next() == Some("max"))
    };
    (parent == root || ours)
        && ["memory.max", "memory.high", "memory.swap.max", "pids.max", "cpu.max"].into_iter().all(unlimited)
}

/// One run's cgroup. Dropped, it is removed with all that is in it.
#[derive(Debug)]
pub struct Cgroup {
    place: OwnedFd,
    name: std::ffi::OsString,
    dir: Flock<OwnedFd>,
    kill: File,
    cpu: File,
    /// Which limits the kernel holds the run to.
    pub holds: Controllers,
}

impl Cgroup {
    /// Makes one for these limits.
    ///
    /// # Errors
    /// It cannot be made, or not with all that is expected of it; then nothing is left of it.
    pub fn make(place: &Place, limits: &EffectiveLimits) -> io::Result<Cgroup> {
        place.sweep();
        let random = random_u64().map_err(io::Error::from_raw_os_error)?;
        let name = std::ffi::OsString::from(format!("{PREFIX}{}-{random:016x}", process::own_pid()));
        mkdirat(&place.dir, name.as_os_str(), Mode::from_bits_truncate(0o755))?;
        Cgroup::fill(place, &name, limits).inspect_err(|_| {
            let _ = unlinkat(&place.dir, name.as_os_str(), UnlinkatFlags::RemoveDir);
        })
    }

    fn fill(place: &Place, name: &std::ffi::OsStr, limits: &EffectiveLimits) -> io::Result<Cgroup> {
        let dir = Cgroup::lock(&place.dir, name)?;
        let holds = place.controllers.that_hold(limits);
        if let Some(bytes) = limits.memory.get().filter(|_| holds.memory) {
            write(&dir, "memory.max", &bytes.to_string())?;
            // All of the run or nothing: half a tree is of no use to anybody.
            write(&dir, "memory.oom.group", "1")?;
            match write(&dir, "memory.swap.max", "0") {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                // A kernel without swap accounting.
                _ => {}
            }
        }
        if let Some(number) = limits.pids.get().filter(|_| holds.pids) {
            write(&dir, "pids.max", &number.to_string())?;
        }
        if let Some(number) = limits.cpus.get().filter(|_| holds.cpu) {
            write(&dir, "cpu.max", &format!("{} {PERIOD}", number.saturating_mul(PERIOD)))?;
        }
        Ok(Cgroup {
            kill: file(&dir, "cgroup.kill", OFlag::O_WRONLY)?,
            cpu: file(&dir, "cpu.stat", OFlag::O_RDONLY)?,
            place: place.dir.try_clone()?,
            name: name.to_owned(),
            dir,
            holds,
        })
    }

    fn lock(place: &OwnedFd, name: &std::ffi::OsStr) -> io::Result<Flock<OwnedFd>> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let dir = openat(place, name, flags, Mode::empty())?;
        Flock::lock(dir, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno.into())
    }

    /// What the clone of the main process is given.
    pub fn descriptor(&self) -> RawFd {
        self.dir.as_raw_fd()
    }

    /// The descriptors that the keeper needs.
    pub fn descriptors(&self) -> [RawFd; 4] {
        [self.place.as_raw_fd(), self.dir.as_raw_fd(), self.kill.as_raw_fd(), self.cpu.as_raw_fd()]
    }

    /// Kills all that is in it, at once and without a race (Linux 5.14).
    pub fn kill(&self) {
        let _ = (&self.kill).write_all(b"1");
    }

    /// User and system time of everything that ever was in it.
    pub fn cpu(&self) -> Option<(Duration, Duration)> {
        let mut bytes = [0; 1024];
        let n = self.cpu.read_at(&mut bytes, 0).ok()?;
        let text = std::str::from_utf8(&bytes[..n]).ok()?;
        let of = |name| figure(text, name).map(Duration::from_micros);
        Some((of("user_usec")?, of("system_usec")?))
    }

    /// Whether the kernel killed for want of memory.
    pub fn out_of_memory(&self) -> bool {
        self.holds.memory && self.read("memory.events", "oom_kill").is_some_and(|n| n > 0)
    }

    /// How many new tasks were refused.
    pub fn refused_tasks(&self) -> u64 {
        if self.holds.pids { self.read("pids.events", "max").unwrap_or(0) } else { 0 }
    }

    /// The most memory that the whole run ever had, in bytes (Linux 5.19).
    pub fn peak(&self) -> Option<u64> {
        if self.holds.memory { text(&self.dir, "memory.peak").ok()?.trim().parse().ok() } else { None }
    }

    fn read(&self, name: &str, key: &str) -> Option<u64> {
        figure(&text(&self.dir, name).ok()?, key)
    }

    /// Ends what is left in it and removes it. Whether it is gone.
    pub fn remove(&self) -> bool {
        remove(&self.place, &self.name, &self.dir)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.remove();
    }
}

fn remove(place: &OwnedFd, name: &std::ffi::OsStr, dir: &Flock<OwnedFd>) -> bool {
    for pause in [1, 1, 2, 4, 8, 16, 32, 64, 128, 256] {
        match unlinkat(place, name, UnlinkatFlags::RemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => return true,
            Err(Errno::EBUSY) => {
                let _ = write(dir, "cgroup.kill", "1");
                std::thread::sleep(Duration::from_millis(pause));
            }
            Err(_) => return false,
        }
    }
    false
}

fn file(dir: &Flock<OwnedFd>, name: &str, flags: OFlag) -> io::Result<File> {
    Ok(File::from(openat(&**dir, name, flags | OFlag::O_CLOEXEC, Mode::empty())?))
}

fn write(dir: &Flock<OwnedFd>, name: &str, value: &str) -> io::Result<()> {
    file(dir, name, OFlag::O_WRONLY)?.write_all(value.as_bytes())
}

fn text(dir: &Flock<OwnedFd>, name: &str) -> io::Result<String> {
    let mut text = String::new();
    file(dir, name, OFlag::O_RDONLY)?.read_to_string(&mut text)?;
    Ok(text)
}

/// The figure in a line `NAME FIGURE`.
fn figure(text: &str, name: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests;
