//! Whether a run can have a cgroup of its own here, and which limits that would make exact.

use std::ffi::CString;
use std::os::fd::AsRawFd as _;

use super::Probe;
use crate::policy::model::{Bound, Limits};
use crate::sandbox::cgroup::{Cgroup, Controllers, Place, Unavailable};
use crate::sandbox::raw::process::{self, try_in_child};

const DELEGATE: &str = "delegate a cgroup to this user: `systemd-run --user --scope -p Delegate=yes guardexec ...`, Delegate=yes in \
                        the unit, or in a container a cgroup namespace with /sys/fs/cgroup writable; under a hybrid or \
                        version 1 hierarchy boot with systemd.unified_cgroup_hierarchy=1";
const ENABLE: &str = "enable them where the runs' cgroups are made: `echo '+cpu +memory +pids' > cgroup.subtree_control` in that \
                      directory, which has to be empty of processes (or in its parent); under a hybrid hierarchy, which gives \
                      them to version 1, boot with systemd.unified_cgroup_hierarchy=1";

/// A cgroup is made with all limits, and a process enters it.
pub fn cgroups() -> Probe {
    let name = "cgroups";
    let failed = |sentence: String, errno| Probe { name, ok: false, errno, sentence, remedy: Some(DELEGATE) };
    let place = match Place::find() {
        Ok(place) => place,
        Err(Unavailable(why)) => {
            return failed(format!("no cgroup of a run's own can be made: {why}"), None);
        }
    };
    let mut limits = Limits::default().effective();
    limits.cpus = Bound::At(1);
    let group = match Cgroup::make(&place, &limits) {
        Ok(group) => group,
        Err(error) => return failed(format!("making a cgroup failed: {error}"), error.raw_os_error()),
    };
    let procs = CString::new(format!("/proc/self/fd/{}/cgroup.procs", group.descriptor().as_raw_fd()));
    let procs = procs.expect("digits and letters");
    // 0 stands for the writer itself (cgroups(7)).
    if let Err((_, errno)) = try_in_child(|| process::write_file(&procs, c"0").map_err(|e| (0, e))) {
        let why = std::io::Error::from_raw_os_error(errno);
        return failed(format!("entering a new cgroup failed: {why}"), Some(errno));
    }
    found(name, group.holds)
}

fn found(name: &'static str, holds: Controllers) -> Probe {
    let made = "a run can have a cgroup of its own, so that its end and its processor time are exact";
    let all = [(holds.memory, "memory"), (holds.pids, "pids"), (holds.cpu, "cpus")];
    let named = |held: bool| {
        let names: Vec<&str> = all.iter().filter(|(is, _)| *is == held).map(|(_, name)| *name).collect();
        names.join(", ")
    };
    let (exact, lacking) = (named(true), named(false));
    let sentence = match (exact.is_empty(), lacking.is_empty()) {
        (_, true) => format!("{made}, and so are {exact}"),
        (true, false) => format!("{made}; no controller there holds {lacking}, which stay approximate"),
        (false, false) => format!("{made}, and so is {exact}; no controller there holds {lacking}"),
    };
    let ok = lacking.is_empty();
    Probe { name, ok, errno: None, sentence, remedy: (!ok).then_some(ENABLE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_exact_and_what_is_not_is_named() {
        let all = Controllers { cpu: true, memory: true, pids: true };
        let probe = found("cgroups", all);
        assert!(
            probe.ok && probe.remedy.is_none() && probe.sentence.ends_with("and so are memory, pids, cpus")
        );
        let probe = found("cgroups", Controllers { cpu: false, ..all });
        assert!(!probe.ok && probe.sentence.contains("memory, pids; no controller there holds cpus"));
        let probe = found("cgroups", Controllers::default());
        assert!(
            !probe.ok && probe.remedy.is_some() && probe.sentence.contains("memory, pids, cpus, which stay")
        );
    }

    #[test]
    fn it_leaves_no_cgroup_behind() {
        let left = || {
            let dirs = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
            let own = format!("guardexec-{}-", std::process::id());
            let entries = dirs.iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten();
            entries.filter(|e| e.file_name().to_string_lossy().starts_with(&own)).count()
        };
        let before = left();
        cgroups();
        // Other tests of this process make some of their own meanwhile.
        assert!((0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            left() <= before
        }));
    }
}
