//! Limits and confinement as a list of names and values: bound to, and shown.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::approval::bytes::Bytes;
use crate::decision::Wanted;
use crate::policy::model::{Bound, EffectiveLimits, Filesystem, NetworkMode, TreeKind};

/// One setting of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Its name, as policies have it.
    pub name: String,
    /// Its value, or the elements of the list that it is. A list that is not written is not a setting.
    pub values: Vec<Bytes>,
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// All of them.
pub(super) fn of(limits: &EffectiveLimits, wanted: &Wanted) -> Vec<Setting> {
    let mut all = Vec::new();
    limits_of(limits, &mut all);
    wanted_of(wanted, &mut all);
    all
}

fn limits_of(limits: &EffectiveLimits, all: &mut Vec<Setting>) {
    // Taken apart, so that a new limit is not forgotten here.
    let EffectiveLimits {
        wall_time,
        cpu_time,
        memory,
        pids,
        output,
        file_size,
        open_files,
        kill_grace,
        cpus,
    } = limits;
    let mut add = |name: &str, value: Option<String>| {
        one(all, name, value.as_deref().unwrap_or("none"));
    };
    let time = |bound: &Bound<Duration>| bound.get().map(|time| format!("{time:?}"));
    let number = |bound: &Bound<u64>| bound.get().map(|number| number.to_string());
    add("wall_time", time(wall_time));
    add("cpu_time", time(cpu_time));
    add("memory", number(memory));
    add("pids", number(pids));
    add("output", number(output));
    add("file_size", number(file_size));
    add("open_files", number(open_files));
    add("kill_grace", Some(format!("{kill_grace:?}")));
    add("cpus", number(cpus));
}

fn wanted_of(wanted: &Wanted, all: &mut Vec<Setting>) {
    let Wanted {
        profile,
        require,
        require_written,
        user,
        processes,
        filesystem,
        network,
        loopback,
        unix,
        exec,
        path,
    } = wanted;
    one(all, "profile", profile.as_str());
    let layers: Vec<&[u8]> = require.iter().map(|layer| layer.as_str().as_bytes()).collect();
    list(all, if *require_written { "require" } else { "require (default)" }, Some(layers));
    one(all, "user", user.as_deref().unwrap_or("auto"));
    one(all, "processes", tree(*processes));
    filesystem_of(filesystem, all);
    one(
        all,
        "network",
        match network {
            NetworkMode::Host => "host",
            NetworkMode::None => "none",
        },
    );
    one(all, "loopback", if *loopback { "true" } else { "false" });
    list(all, "unix", Some(paths(unix)));
    let exec = exec.as_ref();
    list(all, "exec", exec.map(|names| names.iter().map(|name| name.as_os_str().as_bytes()).collect()));
    list(all, "path", Some(paths(path)));
}

fn filesystem_of(filesystem: &Filesystem, all: &mut Vec<Setting>) {
    let Filesystem { cwd, read, write, deny, tmp, map } = filesystem;
    for (name, paths_written) in [("cwd", cwd), ("read", read), ("write", write), ("deny", deny)] {
        list(all, name, paths_written.as_deref().map(paths));
    }
    if let Some(tmp) = tmp {
        one(all, "tmp", &tmp.to_string());
    }
    let both = map.iter().flat_map(|(there, here)| [there, here]);
    list(all, "map", Some(both.map(|path| path.as_os_str().as_bytes()).collect()));
}

/// `[filesystem] map`, as [`of`] wrote it.
pub(super) fn map_of(settings: &[Setting]) -> Vec<(PathBuf, PathBuf)> {
    let both = settings.iter().find(|setting| setting.name == "map").map(|setting| setting.values.as_slice());
    let path = |bytes: &Bytes| PathBuf::from(OsStr::from_bytes(&bytes.0));
    both.unwrap_or_default().chunks_exact(2).map(|pair| (path(&pair[0]), path(&pair[1]))).collect()
}

fn tree(kind: TreeKind) -> &'static str {
    match kind {
        TreeKind::Auto => "auto",
        TreeKind::Namespace => "namespace",
        TreeKind::Cgroup => "cgroup",
        TreeKind::Both => "both",
        TreeKind::Groups => "groups",
    }
}

fn paths(paths: &[PathBuf]) -> Vec<&[u8]> {
    paths.iter().map(|path| path.as_os_str().as_bytes()).collect()
}

fn one(all: &mut Vec<Setting>, name: &str, value: &str) {
    all.push(Setting { name: name.to_owned(), values: vec![value.into()] });
}

fn list(all: &mut Vec<Setting>, name: &str, values: Option<Vec<&[u8]>>) {
    if let Some(values) = values {
        all.push(Setting { name: name.to_owned(), values: values.into_iter().map(Bytes::from).collect() });
    }
}
