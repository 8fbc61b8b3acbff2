//! Against guardexec itself: its processes, its files, and a second guardexec inside the first.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::scene::{self, GROUNDS, Ground, STRICT, WORKSPACE, attempt, words};
use crate::harness::{As, Bench, NOBODY, binary};

/// A process of the bench's user that does nothing.
struct Victim(Child);

impl Victim {
    fn new(bench: &Bench) -> Victim {
        let mut command = Command::new("sleep");
        command.arg("600").env_clear().env("SECRETX", "s3cret").stdin(Stdio::null()).stdout(Stdio::null());
        if bench.who == As::User && nix::unistd::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        Victim(command.spawn().expect("a victim"))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const ON_PROCESSES: [&str; 17] = [
    "kill",
    "stop",
    "tgkill",
    "sigqueue",
    "pidfd",
    "attach",
    "vmvictim",
    "prlimit",
    "nice",
    "nicegroup",
    "idle",
    "affinity",
    "ioprio",
    "oom",
    "procof:environ",
    "procof:mem",
    "procof:maps",
];

fn on(pid: &str) -> Vec<String> {
    let word = |name: &&str| match name.split_once(':') {
        Some((name, file)) => format!("{name}:{pid}:{file}"),
        None => format!("{name}:{pid}"),
    };
    ON_PROCESSES.iter().map(word).collect()
}

as_both! {
    fn a_process_of_the_same_user_is_out_of_reach(bench) {
        let victim = Victim::new(bench);
        let attacks = on(&victim.0.id().to_string());
        let may = ["attach", "prlimit", "oom", "procof", "ioprio", "vmvictim", "nicegroup"];
        for toml in [STRICT, WORKSPACE] {
            scene::caught(bench, toml, &attacks, &may, || {});
        }
        let (bare, _) = attempt(bench, Ground::Groups, "[sandbox]\nprofile = \"host\"\n", &attacks);
        assert!(bare.values().filter(|o| *o == "open").count() >= 12, "{bare:#?}");
    }
}

as_both! {
    fn a_signal_without_a_kill_does_not_leave_the_run(bench) {
        let killed = |toml: &str, ground: Ground| {
            let mut victim = Victim::new(bench);
            attempt(bench, ground, toml, &[format!("sigio:{}", victim.0.id())]);
            victim.0.try_wait().expect("wait").is_some()
        };
        assert!(killed("[sandbox]\nprofile = \"host\"\n", Ground::Groups), "the attack itself");
        for ground in GROUNDS {
            for toml in [STRICT, WORKSPACE] {
                assert!(!killed(toml, ground), "{ground:?} {toml}");
                // And the keeper lives: the run ends as it should.
                let (_, answer) = attempt(bench, ground, toml, &words(&["sigio:KEEPER", "groups"]));
                assert_eq!(answer.json["survivors"], 0, "{}", answer.show());
            }
        }
    }
}

as_both! {
    fn the_processes_of_guardexec_are_out_of_reach(bench) {
        for toml in [STRICT, WORKSPACE] {
            for ground in GROUNDS {
                // `0` is the attacker's parent's parent, which is guardexec's keeper (process 1 in a namespace).
                let attacks: Vec<String> = on("KEEPER");
                let (outcomes, answer) = attempt(bench, ground, toml, &attacks);
                let mut open: Vec<&String> = outcomes.iter().filter(|(_, o)| *o == "open").map(|(a, _)| a).collect();
                if ground == Ground::Namespaces {
                    // Process 1 of a PID namespace can be sent what it does not catch, and never gets it.
                    open.retain(|a| !["kill", "stop", "tgkill", "sigqueue", "pidfd"].iter().any(|s| a.starts_with(&format!("{s}:"))));
                }
                assert!(open.is_empty(), "{ground:?} {open:?}\n{}", answer.show());
                assert_eq!(answer.json["survivors"], 0, "{}", answer.show());
            }
        }
    }
}

as_both! {
    fn a_kill_of_everything_in_reach_does_not_reach_the_guard(bench) {
        for ground in GROUNDS {
            for profile in ["strict", "workspace"] {
                let toml = format!("allow = [\"sh\"]\n[sandbox]\nprofile = \"{profile}\"\n");
                let answer = ground.call(bench, &toml).run(["sh", "-c", "trap '' TERM; kill -STOP $PPID; kill -9 $PPID; kill -TERM -1; kill -9 1; echo still here"]);
                assert_eq!(answer.json["exit_code"], 0, "{ground:?} {}", answer.show());
                assert_eq!(answer.str("stdout"), "still here\n", "{ground:?} {}", answer.show());
            }
        }
    }
}

as_both! {
    fn t3_105_no_secret_of_the_caller_is_in_proc(bench) {
        let script = "for f in /proc/$PPID/environ /proc/[0-9]*/environ /proc/$PPID/mem /proc/$PPID/cmdline; do while IFS= read -r l || [ -n \"$l\" ]; do echo \"$f: $l\"; l=; done < $f; done 2>/dev/null; echo done";
        for profile in ["strict", "workspace"] {
            for ground in GROUNDS {
                let toml = format!("allow = [\"sh\"]\n[sandbox]\nprofile = \"{profile}\"\n");
                let answer = ground.call(bench, &toml).env("SECRETX", "tell-nobody").run(["sh", "-c", script]);
                assert!(answer.str("stdout").ends_with("done\n"), "{}", answer.show());
                assert!(!answer.str("stdout").contains("tell-nobody"), "{ground:?} {}", answer.show());
            }
        }
    }
}

as_both! {
    fn t3_106_no_value_stands_in_an_argument_of_guardexec(bench) {
        let toml = "allow = [\"sh\"]\n[sandbox]\nprofile = \"host\"\n[env]\nset = { SECRETX = \"tell-nobody-106\" }\n";
        let script = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done 2>/dev/null | grep -v 'sh -c' | grep -c 'tell-nobody-10[6]'; echo \"have $SECRETX\"";
        let answer = bench.policy(toml).stdin("tell-nobody-106").run(["sh", "-c", script]);
        assert_eq!(answer.str("stdout"), "0\nhave tell-nobody-106\n", "{}", answer.show());
    }
}

as_both! {
    fn the_files_of_the_policy_are_not_written(bench) {
        let work = bench.work();
        let audit = work.join("audit.jsonl");
        let attacker = scene::attacker().to_str().expect("UTF-8");
        let old = "audit.jsonl.20260101T000000000-7";
        let names = ["policy.toml", "base.toml", "audit.jsonl", "audit.jsonl.lock", old];
        bench.file(&format!("work/{old}"), "");
        for ground in GROUNDS {
            bench.file("work/base.toml", "version = 1\nallow = [\"true\"]\n");
            let text = format!(
                "version = 1\nextends = [\"base.toml\"]\n[sandbox]\nprofile = \"workspace\"\nrequire = []\n{}[audit]\nfile = {:?}\n{}",
                if ground == Ground::Groups { "processes = \"groups\"\n" } else { "" }, audit.to_str().expect("UTF-8"), scene::rule());
            let policy = bench.file("work/policy.toml", text);
            let mut call = bench.call().opt(["--policy".as_ref(), policy.as_os_str()]);
            match ground {
                Ground::NoNamespaces => call = call.wrap(scene::without("namespaces")),
                Ground::NoMounts => call = call.wrap(scene::without("mounts")),
                _ => {}
            }
            call.audit = Some(audit.clone());
            let mut attacks = Vec::new();
            for name in names {
                let path = work.join(name).display().to_string();
                attacks.extend([format!("write:{path}"), format!("truncate:{path}"), format!("rename:{path}:{path}.away"), format!("unlink:{path}")]);
            }
            if !ground.mounts() {
                // Nothing can take a file out of a writable directory there. No run may write its own record.
                let answer = call.run([attacker, "read:/etc/passwd"]);
                assert_eq!((answer.status(), answer.exit), ("error", 125), "{}", answer.show());
                assert!(answer.str("text").contains("audit.jsonl lies where"), "{}", answer.show());
                // Of the others it is said, and refused where required.
                let elsewhere = bench.dir.join("elsewhere.jsonl");
                let text = fs::read_to_string(&policy).expect("read").replace(audit.to_str().expect("UTF-8"), elsewhere.to_str().expect("UTF-8"));
                bench.file("work/policy.toml", text);
                let mut call = bench.call().opt(["--policy".as_ref(), policy.as_os_str()]);
                if ground != Ground::Groups {
                    call = call.wrap(scene::without(if ground == Ground::NoMounts { "mounts" } else { "namespaces" }));
                }
                call.audit = Some(elsewhere);
                let answer = call.run([attacker, "read:/etc/passwd"]);
                assert!(answer.json["sandbox"]["missing"].as_array().expect("a list").iter().any(|l| l == "filesystem"), "{}", answer.show());
                continue;
            }
            let (outcomes, answer) = scene::attempt_by(call, &attacks);
            let open: Vec<_> = outcomes.iter().filter(|(_, o)| *o == "open").collect();
            assert!(open.is_empty(), "{ground:?} {open:?}\n{}", answer.show());
        }
    }
}

as_both! {
    fn guardexec_inside_guardexec_only_tightens(bench) {
        let inner = bench.file("work/inner.toml", "version = 1\nallow = [\"sh\", \"echo\"]\n[sandbox]\nprofile = \"host\"\n");
        let guard = binary().display().to_string();
        let outside = bench.file("outside", "content\n");
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o666)).expect("chmod");
        for ground in GROUNDS {
            let toml = format!("{WORKSPACE}\n[[rule]]\nid = \"g\"\nprogram = {guard:?}\ndecision = \"allow\"\n");
            // Even `host` inside cannot do more than `workspace` outside.
            let script = format!("echo planted >> {} ; read line < /proc/self/status; echo done", outside.display());
            let answer = ground.call(bench, &toml).run([&guard, "--policy", inner.to_str().expect("UTF-8"), "--output", "text", "--", "sh", "-c", &script]);
            assert_eq!(fs::read_to_string(&outside).expect("read"), "content\n", "{ground:?} {}", answer.show());
            assert!(answer.str("stdout").contains("done"), "{ground:?} {}", answer.show());
            // And strict inside workspace works.
            fs::write(bench.work().join("strict.toml"), "version = 1\nallow = [\"echo\"]\n").expect("write");
            bench.give(&bench.work().join("strict.toml"));
            let answer = ground.call(bench, &toml).run([&guard, "--policy", "strict.toml", "--output", "text", "--", "echo", "hi"]);
            assert_eq!(answer.str("stdout").trim_end(), "hi", "{ground:?} {}", answer.show());
            // Inside strict it starts what the outer list has, and nothing else, whatever the inner policy says.
            let listed = format!(
                "{STRICT}[filesystem]\nread = [{:?}]\n[[rule]]\nid = \"g\"\nprogram = {guard:?}\ndecision = \"allow\"\nexec = [{guard:?}, \"sh\"]\n",
                bench.dir
            );
            let script = "(cat strict.toml); echo x > new; echo done";
            let answer = ground.call(bench, &listed).run([&guard, "--policy", inner.to_str().expect("UTF-8"), "--output", "text", "--", "sh", "-c", script]);
            assert!(answer.str("stdout").contains("done") && !answer.str("stdout").contains("version"), "{ground:?} {}", answer.show());
            assert!(!bench.work().join("new").exists(), "{ground:?} {}", answer.show());
        }
    }
}
