//! As whom a run runs, and what it keeps of guardexec's own rights.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::scene::{self, GROUNDS, STRICT, WORKSPACE, attempt, words};
use crate::harness::{As, Bench, skip};

const STATUS: &str = "while read -r l; do case $l in Uid*|Gid*|Groups*|Cap*|NoNewPrivs*|Seccomp:*) echo \"$l\";; esac; done < /proc/self/status";

fn status(answer: &crate::harness::Answer, key: &str) -> Vec<String> {
    let line = answer
        .str("stdout")
        .lines()
        .find(|l| l.starts_with(&format!("{key}:")))
        .unwrap_or_default()
        .to_owned();
    line.split_whitespace().skip(1).map(str::to_owned).collect()
}

#[track_caller]
fn powerless(bench: &Bench, answer: &crate::harness::Answer) {
    // An ordinary user cannot empty the bounding set, and needs not: with no_new_privs nothing fills the others.
    let sets = ["CapInh", "CapPrm", "CapEff", "CapAmb"];
    for set in sets.into_iter().chain((bench.who == As::Root).then_some("CapBnd")) {
        assert_eq!(status(answer, set), ["0000000000000000"], "{set}\n{}", answer.show());
    }
    assert_eq!(status(answer, "NoNewPrivs"), ["1"], "{}", answer.show());
    assert_eq!(status(answer, "Seccomp"), ["2"], "{}", answer.show());
}

fn open_to_all(bench: &Bench) {
    for dir in [bench.dir.clone(), bench.work()] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("chmod");
    }
}

as_both! {
    fn an_unprivileged_user_without_groups_and_capabilities(bench) {
        open_to_all(bench);
        let mut users = std::collections::BTreeSet::new();
        for ground in GROUNDS {
            let answer = ground.call(bench, &format!("allow = [\"sh\"]\n{STRICT}")).run(["sh", "-c", STATUS]);
            powerless(bench, &answer);
            if bench.who == As::Root {
                let ids = status(&answer, "Uid");
                // Another one each time, so that no run can touch what another one is or left.
                assert!(users.insert(ids[0].clone()) || ids[0] == crate::harness::NOBODY.to_string(), "{users:?} {}", answer.show());
                assert!(ids.iter().all(|id| *id == ids[0] && id != "0"), "{}", answer.show());
                assert!(status(&answer, "Gid").iter().all(|id| id != "0"), "{}", answer.show());
                assert!(status(&answer, "Groups").is_empty(), "{}", answer.show());
            }
            assert!(answer.json["sandbox"]["enforced"]["identity"].is_string(), "{}", answer.show());
        }
    }
}

as_both! {
    fn a_directory_that_is_only_roots_keeps_uid_0_without_power(bench) {
        if bench.who == As::User {
            return;
        }
        fs::set_permissions(bench.work(), fs::Permissions::from_mode(0o700)).expect("chmod");
        for (profile, ground) in [(STRICT, scene::Ground::Namespaces), (WORKSPACE, scene::Ground::Namespaces), (STRICT, scene::Ground::Groups), (STRICT, scene::Ground::NoNamespaces)] {
            let answer = ground.call(bench, &format!("allow = [\"sh\"]\n{profile}")).run(["sh", "-c", STATUS]);
            powerless(bench, &answer);
            assert_eq!(status(&answer, "Uid")[0], "0", "{}", answer.show());
            assert!(status(&answer, "Groups").is_empty() || status(&answer, "Groups") == ["0"], "{}", answer.show());
            let how = answer.json["sandbox"]["enforced"]["identity"].as_str().unwrap_or("").to_owned();
            assert!(how.contains('0'), "{how}\n{}", answer.show());
            let attacks = words(&["read:/etc/shadow", "write:/etc/guardexec-planted", "openw:/proc/sys/kernel/core_pattern", "openw:/etc/passwd", "capability", "chmod:/etc/passwd"]);
            let (outcomes, answer) = attempt(bench, ground, profile, &attacks);
            let open: Vec<_> = outcomes.iter().filter(|(_, o)| *o == "open").collect();
            assert!(open.is_empty(), "{open:?} {}", answer.show());
        }
    }
}

/// A file that only root may read, where a daemon would keep its password.
struct Secret(std::path::PathBuf);

impl Secret {
    fn new(name: &str) -> Secret {
        let path = std::path::PathBuf::from(name.replace("PID", &std::process::id().to_string()));
        fs::create_dir_all(path.parent().expect("absolute")).expect("mkdir");
        fs::write(&path, "password").expect("root may write there");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("chmod");
        Secret(path)
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
        // Where it was made for this.
        let _ = self
            .0
            .parent()
            .filter(|dir| dir.to_string_lossy().contains("guardexec-test-"))
            .map(fs::remove_dir);
    }
}

as_both! {
    fn uid_0_without_power_reads_nothing_that_is_for_root_alone(bench) {
        if bench.who == As::User {
            return;
        }
        fs::set_permissions(bench.work(), fs::Permissions::from_mode(0o700)).expect("chmod");
        let secret = Secret::new("/etc/guardexec-test-PID.conf");
        let by_hand = Secret::new("/usr/local/guardexec-test-PID/conf");
        let [attack, other] = [&secret, &by_hand].map(|secret| format!("read:{}", secret.0.display()));
        for profile in [STRICT, WORKSPACE] {
            for ground in GROUNDS {
                let (outcomes, answer) = attempt(bench, ground, profile, &words(&[&attack, &other, "read:/etc/passwd"]));
                for attack in [&attack, &other] {
                    assert_ne!(outcomes[attack], "open", "{ground:?} {}", answer.show());
                }
                assert_eq!(outcomes["read:/etc/passwd"], "open", "{ground:?} {}", answer.show());
            }
        }
        // Nor what the kernel tells root alone of the whole machine.
        let script = "for f in kpagecount kpageflags slabinfo timer_list vmallocinfo; do head -c 8 /proc/$f 2>/dev/null | od -An -c; done";
        assert!(!fs::read("/proc/slabinfo").unwrap_or_default().is_empty(), "root reads it");
        for ground in GROUNDS {
            let answer = ground.call(bench, &format!("allow = [\"sh\"]\n{WORKSPACE}")).run(["sh", "-c", script]);
            assert_eq!(answer.str("stdout"), "", "{ground:?} {}", answer.show());
        }
        // What the policy itself names is meant.
        let named = format!("{STRICT}[filesystem]\nread = [{:?}]\n", secret.0);
        let (outcomes, answer) = attempt(bench, scene::Ground::Namespaces, &named, &words(&[&attack]));
        assert_eq!(outcomes[&attack], "open", "{}", answer.show());
    }
}

as_both! {
    fn a_named_user_is_used(bench) {
        open_to_all(bench);
        let toml = "allow = [\"sh\"]\n[sandbox]\nprofile = \"strict\"\nuser = \"nobody\"\n";
        for ground in GROUNDS {
            let answer = ground.call(bench, toml).run(["sh", "-c", STATUS]);
            assert_eq!(status(&answer, "Uid")[0], crate::harness::NOBODY.to_string(), "{ground:?} {}", answer.show());
            powerless(bench, &answer);
        }
        let answer = bench.policy("allow = [\"sh\"]\n[sandbox]\nuser = \"no-such-user\"\n").run(["sh", "-c", "echo x"]);
        assert!(answer.exit == 125 && answer.str("text").contains("no-such-user"), "{}", answer.show());
        if bench.who == As::User {
            let answer = bench.policy("allow = [\"sh\"]\n[sandbox]\nuser = \"root\"\n").run(["sh", "-c", "echo x"]);
            assert!(answer.exit == 125 && answer.str("text").contains("root"), "{}", answer.show());
        }
    }
}

as_both! {
    fn dev_stdout_opens_and_is_the_runs_own(bench) {
        open_to_all(bench);
        for ground in GROUNDS {
            let answer = ground.call(bench, &format!("allow = [\"sh\"]\n{STRICT}")).run(["sh", "-c", "echo one > /dev/stdout; echo two > /dev/stderr; echo three >> /proc/self/fd/1; read l < /dev/stdin; echo \"$l\""]);
            assert_eq!(answer.str("stderr"), "two\n", "{ground:?} {}", answer.show());
            assert_eq!(answer.str("stdout"), "one\nthree\n\n", "{ground:?} {}", answer.show());
        }
    }
}

as_both! {
    fn the_session_keyring_of_the_caller_is_not_the_runs(bench) {
        // Every key call is refused; under `host` the keyring is the caller's.
        let (outcomes, _) = attempt(bench, scene::Ground::Namespaces, STRICT, &words(&["keyctl"]));
        assert_eq!(outcomes["keyctl"], "refused EPERM");
        let answer = bench.policy(&format!("allow = [\"cat\"]\n{WORKSPACE}")).run(["cat", "/proc/self/sessionid"]);
        if answer.status() != "ok" {
            skip("no sessionid here");
        }
    }
}
