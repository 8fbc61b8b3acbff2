//! What this kernel and this user can enforce, as a table that a person can act on.

use serde_json::{Value, json};

use super::probe::{self, Probe};
use crate::policy::model::Layer;

/// One line of the table.
#[derive(Debug)]
pub struct Check {
    /// The mechanism that was tried, the whole way.
    pub probe: Probe,
    /// Which layers it serves.
    pub serves: &'static [Layer],
}

/// Tries everything; some milliseconds.
pub fn examine() -> Vec<Check> {
    probe::all().into_iter().map(|probe| Check { serves: serves(probe.name), probe }).collect()
}

fn serves(name: &str) -> &'static [Layer] {
    match name {
        "landlock" => &[Layer::Filesystem, Layer::Execution],
        "seccomp" => &[Layer::Network, Layer::Syscalls, Layer::Execution],
        "mounts" => &[Layer::Filesystem, Layer::Tmp],
        "pid_namespace" | "cgroups" => &[Layer::Processes],
        "loopback" | "unix_sockets" => &[Layer::Network],
        "identity" => &[Layer::Identity],
        _ => &[],
    }
}

/// Whether all that `strict` requires by default (files, network, system calls) can be had.
pub fn strict_can_be_had(checks: &[Check]) -> bool {
    let works = |name: &str| checks.iter().any(|c| c.probe.name == name && c.probe.ok);
    works("landlock") && works("seccomp")
}

/// An array of objects, one a mechanism.
pub fn to_json(checks: &[Check]) -> Value {
    checks
        .iter()
        .map(|c| {
            json!({
                "mechanism": c.probe.name,
                "works": c.probe.ok,
                "layers": c.serves.iter().map(|l| l.as_str()).collect::<Vec<_>>(),
                "errno": c.probe.errno,
                "found": c.probe.sentence,
                "remedy": c.probe.remedy,
            })
        })
        .collect()
}

/// The table, with a last line that says what it comes to.
pub fn to_table(checks: &[Check]) -> String {
    let mut text = format!("{:<14} {:<5} {:<32} {}\n", "MECHANISM", "WORKS", "LAYERS", "FOUND");
    for check in checks {
        let layers: Vec<&str> = check.serves.iter().map(|l| l.as_str()).collect();
        let works = if check.probe.ok { "yes" } else { "no" };
        let found = &check.probe.sentence;
        text.push_str(&format!("{:<14} {works:<5} {:<32} {found}\n", check.probe.name, layers.join(", ")));
        if let Some(remedy) = check.probe.remedy {
            text.push_str(&format!("{:<14} remedy: {remedy}\n", ""));
        }
    }
    text.push_str(if strict_can_be_had(checks) {
        "all that the strict profile requires can be had\n"
    } else {
        "the strict profile requires more than can be had here: it refuses to run anything\n"
    });
    text
}
