//! What a policy's confinement leaves of its own rules: paths that are not there, and programs that can do nothing.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::{Finding, line_with, printable};
use crate::policy::model::{Filesystem, Place, Policy, Profile, Rule, Verdict};
use crate::policy::runners::runs_arguments;

/// Programs that are there to start others: shells, and what starts the rest of its arguments. Sorted.
const STARTERS: &[&str] = &[
    "ash", "bash", "busybox", "csh", "dash", "doas", "fish", "ionice", "ksh", "make", "mksh", "nice",
    "ninja", "nohup", "parallel", "script", "setsid", "sh", "stdbuf", "sudo", "taskset", "tcsh", "timeout",
    "watch", "xargs", "zsh",
];

/// Ends of paths where daemons listen that start programs for whoever asks, as nobody confines.
const STARTING_DAEMONS: &[&str] = &[
    "docker.sock",
    "podman.sock",
    "containerd.sock",
    "crio.sock",
    "buildkitd.sock",
    "lxd/unix.socket",
    "incus/unix.socket",
    "libvirt-sock",
    "snapd.socket",
    "system_bus_socket",
    "/bus",
    "systemd/private",
    "io.systemd.Manager",
];

/// All of it.
pub(super) fn lint(policy: &Policy, findings: &mut Vec<Finding>) {
    missing(policy, &policy.filesystem, None, findings);
    daemons(policy, &policy.network.unix, None, findings);
    for rule in &policy.rules {
        if let Some(filesystem) = &rule.own.filesystem {
            missing(policy, filesystem, Some(&rule.at), findings);
        }
        if let Some(network) = &rule.own.network {
            daemons(policy, &network.unix, Some(&rule.at), findings);
        }
        idle(policy, rule, findings);
        loader(policy, rule, findings);
    }
}

/// Paths of `read` and `write` that do not exist. Where a name on the way starts with a dot it is a person's own setting or
/// cache, which one machine has and the next has not.
fn missing(policy: &Policy, lists: &Filesystem, rule: Option<&Place>, findings: &mut Vec<Finding>) {
    let kinds = [
        ("read", &lists.read, "no run can read it"),
        ("write", &lists.write, "no run that may write it starts"),
    ];
    let personal = |path: &Path| path.iter().any(|name| name.as_bytes().starts_with(b"."));
    for (key, list, so) in kinds {
        for path in list.iter().flatten().filter(|path| !personal(path) && path.metadata().is_err()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let ends = [format!("{name}\""), format!("{name}'")];
            findings.push(Finding {
                code: "missing_path",
                message: format!(
                    "`{key}` names `{}`, which is not there or cannot be looked at: {so}",
                    printable(&path.to_string_lossy())
                ),
                at: rule.cloned().unwrap_or_else(|| line_with(policy, &[&ends[0], &ends[1]])),
                hint: Some("make it before the run, or correct the path".to_owned()),
            });
        }
    }
}

/// Sockets of `unix` behind which there is no confinement.
fn daemons(policy: &Policy, unix: &[PathBuf], rule: Option<&Place>, findings: &mut Vec<Finding>) {
    let starts =
        |path: &&PathBuf| path.to_str().is_some_and(|p| STARTING_DAEMONS.iter().any(|end| p.ends_with(end)));
    for path in unix.iter().filter(starts) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        findings.push(Finding {
            code: "starting_daemon",
            message: format!(
                "`unix` lists `{}`: who may talk to it has programs started outside the confinement",
                printable(&path.to_string_lossy())
            ),
            at: rule
                .cloned()
                .unwrap_or_else(|| line_with(policy, &[&format!("{name}\""), &format!("{name}'")])),
            hint: Some("leave it out, or offer what is needed of it as a typed tool".to_owned()),
        });
    }
}

/// A shell or its like without `exec`, under `strict`.
fn idle(policy: &Policy, rule: &Rule, findings: &mut Vec<Finding>) {
    let strict = policy.sandbox.profile.unwrap_or_default() == Profile::Strict;
    if !strict || rule.decision == Verdict::Deny || rule.own.exec.is_some() {
        return;
    }
    let starter = |base: &&str| STARTERS.binary_search(base).is_ok();
    for base in rule.programs.iter().filter_map(|program| program.base().to_str()).filter(starter) {
        findings.push(Finding {
            code: "starts_nothing",
            message: format!(
                "rule `{}` has no `exec`, so under `strict` `{base}` can start no other program",
                rule.id
            ),
            at: rule.at.clone(),
            hint: Some("list what it may start in `exec` (`exec = []` if that is meant)".to_owned()),
        });
    }
}

/// A list of programs for one that runs what it is told: the list is about what execve(2) names, and the dynamic loader,
/// which has to be in it, starts whatever it is given.
fn loader(policy: &Policy, rule: &Rule, findings: &mut Vec<Finding>) {
    let confined = policy.sandbox.profile.unwrap_or_default() != Profile::Host;
    let Some(listed) = rule.own.exec.as_ref().filter(|listed| confined && !listed.is_empty()) else { return };
    if rule.decision != Verdict::Allow || rule.runs_arguments {
        return;
    }
    let bases = rule.programs.iter().chain(listed).filter_map(|program| program.base().to_str());
    let Some(base) = bases.into_iter().find(|base| runs_arguments(base.as_bytes())) else { return };
    findings.push(Finding {
        code: "loader",
        message: format!(
            "`exec` of rule `{}` is no boundary: `{base}` runs what it is told, and the dynamic loader starts any program that \
             can be read",
            rule.id
        ),
        at: rule.at.clone(),
        hint: Some("write `runs_arguments = true` where that is meant, or leave `exec` out".to_owned()),
    });
}

#[cfg(test)]
mod tests {
    use super::super::lint;
    use super::*;
    use crate::policy::load::load;
    use crate::policy::load::tests::{Dir, context};

    /// `LINE CODE: MESSAGE` of every finding with this code.
    fn findings(code: &str, text: &str) -> Vec<String> {
        let d = Dir::new();
        std::fs::create_dir(d.0.join("there")).unwrap();
        let policy = load(&d.put("p.toml", text), &context()).unwrap();
        let plain = |s: &str| s.replace(&d.0.display().to_string(), "D");
        let all = lint(&policy);
        let wanted = all.iter().filter(|f| f.code == code);
        wanted.map(|f| format!("{}: {}", f.at.line, plain(&f.message))).collect()
    }

    #[test]
    fn paths_that_are_not_there() {
        let text = "[filesystem]\nread = [\"./there\", \"./typo\",\n\"~/.nothing\"]\nwrite = [\"./out\", \"./there\"]\ndeny = [\"./none\"]\n[[rule]]\nid = \"r\"\nprogram = \"ls\"\ndecision = \"allow\"\nfilesystem = { read = [\"/usr/no-such\"] }";
        assert_eq!(
            findings("missing_path", text),
            [
                "3: `read` names `D/typo`, which is not there or cannot be looked at: no run can read it",
                "5: `write` names `D/out`, which is not there or cannot be looked at: no run that may write it starts",
                "7: `read` names `/usr/no-such`, which is not there or cannot be looked at: no run can read it",
            ]
        );
    }

    #[test]
    fn sockets_of_daemons_that_start_programs() {
        let text = "[network]\nunix = [\"/run/x.sock\",\n\"/var/run/docker.sock\"]\n[[rule]]\nid = \"r\"\nprogram = \"ls\"\ndecision = \"allow\"\nnetwork = { unix = [\"/run/user/1000/bus\"] }";
        let said = |line: u32, path: &str| {
            format!(
                "{line}: `unix` lists `{path}`: who may talk to it has programs started outside the confinement"
            )
        };
        assert_eq!(
            findings("starting_daemon", text),
            [said(4, "/var/run/docker.sock"), said(5, "/run/user/1000/bus")]
        );
    }

    #[test]
    fn lists_that_are_no_boundary() {
        let rule = |program: &str, rest: &str| {
            format!(
                "[[rule]]\nid = \"r\"\nprogram = \"{program}\"\ndecision = \"allow\"\nsubcommand = [\"x\"]\n{rest}\n"
            )
        };
        let said = |base: &str| {
            [format!(
                "2: `exec` of rule `r` is no boundary: `{base}` runs what it is told, and the dynamic loader starts any program \
                 that can be read"
            )]
        };
        assert_eq!(findings("loader", &rule("git", "exec = [\"less\"]")), said("git"));
        assert_eq!(
            findings("loader", &rule("ls", "exec = [\"cat\", \"/usr/bin/python3\"]")),
            said("python3")
        );
        for (program, rest) in [
            ("git", ""),
            ("git", "exec = []"),
            ("git", "exec = [\"less\"]\nruns_arguments = true"),
            ("git", "exec = [\"less\"]\n[sandbox]\nprofile = \"host\""),
            ("ls", "exec = [\"cat\"]"),
        ] {
            assert_eq!(findings("loader", &rule(program, rest)), [""; 0], "{program} {rest}");
        }
    }

    #[test]
    fn shells_that_can_start_nothing() {
        assert!(STARTERS.is_sorted());
        let rule = |program: &str, rest: &str| {
            format!(
                "[[rule]]\nid = \"r\"\nprogram = \"{program}\"\ndecision = \"allow\"\nruns_arguments = true\n{rest}\n"
            )
        };
        let said = ["2: rule `r` has no `exec`, so under `strict` `bash` can start no other program"];
        assert_eq!(findings("starts_nothing", &rule("/bin/bash", "")), said);
        assert_eq!(findings("starts_nothing", "allow = [\"ls\", \"timeout\"]").len(), 1);
        for (program, rest) in [
            ("bash", "exec = [\"ls\"]"),
            ("bash", "exec = []"),
            ("python3", ""),
            ("bash", "[sandbox]\nprofile = \"workspace\""),
        ] {
            assert_eq!(findings("starts_nothing", &rule(program, rest)), [""; 0], "{program} {rest}");
        }
        assert_eq!(findings("starts_nothing", "deny = [\"sh\"]"), [""; 0]);
    }
}
