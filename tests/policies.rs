//! Which policies judge, together and apart: stacking, extending, pins, trust, and what is said of a bad one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::harness::outside::{answer, ready, through_sh};
use crate::harness::{Answer, As, Bench, Call};

const HOST: &str = "[sandbox]\nprofile = \"host\"\n";

/// A call under two files.
fn stacked<'b>(bench: &'b Bench, first: &str, second: &str) -> Call<'b> {
    let other = bench.file("second.toml", format!("version = 1\n{second}"));
    bench.host(first).opt(["--policy".as_ref(), other.as_os_str()])
}

as_both! {
    fn stacked_policies_must_all_allow_and_the_tightest_wins(bench) {
        let first = "allow = [\"env\", \"ls\", \"true\"]\n[limits]\nwall_time = \"9s\"\npids = 40\nopen_files = 50\n[env]\npass = [\"A\", \"B\"]\nrequest = [\"R\", \"S\"]\n";
        let second = format!("allow = [\"env\", \"cat\"]\n{HOST}[limits]\nwall_time = \"30s\"\npids = 20\noutput = \"1K\"\n[env]\npass = [\"B\", \"C\"]\nrequest = [\"S\"]\n[[rule]]\nid = \"ask-true\"\nprogram = \"true\"\ndecision = \"ask\"\n");
        let a = stacked(bench, first, &second).env("A", "1").env("B", "2").env("C", "3").opt(["--env", "S=4"]).run(["env"]);
        assert_eq!(a.status(), "ok", "{}", a.show());
        let has = |name: &str| a.str("stdout").lines().any(|l| l.starts_with(name));
        assert_eq!((has("A="), has("B="), has("C="), has("S=")), (false, true, false, true), "{}", a.show());
        let limits: Vec<_> = ["wall_time", "pids", "output", "open_files"].iter().map(|l| a.json["limits"][l]["value"].as_u64()).collect();
        assert_eq!(limits, [Some(9000), Some(20), Some(1024), Some(50)], "{}", a.show());
        assert_eq!(a.json["policy"].as_array().map(Vec::len), Some(2), "{}", a.show());
        stacked(bench, first, &second).opt(["--env", "R=1"]).run(["env"]).denied_by("arguments", &["'R'"]);
        stacked(bench, first, &second).run(["ls"]).denied_by("command", &["command 'ls' is not in the allowlist"]);
        // The list is of what all of them allow, whichever refuses.
        stacked(bench, first, &second).run(["cat"]).denied("blocked: command 'cat' is not in the allowlist ['env', 'true']");
        stacked(bench, first, &second).run(["nope"]).denied("blocked: command 'nope' is not in the allowlist ['env', 'true']");
        let none = stacked(bench, first, "deny = [\"rm\"]\n").run(["env"]);
        none.denied_by("command", &["command 'env' is not in the allowlist []", "second.toml allows this asker no command at all, and all stacked policies have to allow one"]);
        let apart = stacked(bench, first, "allow = [\"cat\"]\n").run(["env"]);
        apart.denied_by("command", &["command 'env' is not in the allowlist []", "the stacked policies have no command in common"]);
        let state = bench.dir.join("state");
        let a = stacked(bench, first, &second).opt(["--state".as_ref(), state.as_os_str()]).run(["true"]);
        assert_eq!((a.status(), a.exit, a.str("decision")), ("needs_approval", 75, "ask"), "{}", a.show());
        assert_eq!(a.json["rule"]["id"], "ask-true", "{}", a.show());
        let a = stacked(bench, first, &format!("{HOST}deny = [\"x\"]\n").replace(HOST, "")).run(["env"]);
        assert_eq!((a.status(), a.exit), ("denied", 126), "{}", a.show());
    }
}

as_both! {
    fn a_stacked_profile_and_network_only_tighten(bench) {
        // The second file is strict by default: its view of the files holds.
        let hidden = bench.file("hidden.txt", "hidden\n");
        let words = ["cat".to_owned(), hidden.display().to_string()];
        bench.host("allow = [\"cat\"]\n").run(&words).ok("hidden\n");
        let a = stacked(bench, "allow = [\"cat\"]\n", "allow = [\"cat\"]\n").run(&words);
        assert_eq!((a.status(), a.str("stdout"), a.json["sandbox"]["profile"].as_str()), ("nonzero_exit", "", Some("strict")), "{}", a.show());
    }
}

as_both! {
    fn extends_shares_text_and_never_loosens_a_deny(bench) {
        bench.file("base.toml", "version = 1\nallow = [\"true\", \"rm\"]\ndeny = [\"ls\"]\n[sandbox]\nprofile = \"host\"\n[limits]\nwall_time = \"9s\"\npids = 33\n[[rule]]\nid = \"echo\"\nprogram = \"echo\"\ndecision = \"allow\"\n");
        let child = "extends = [\"base.toml\"]\nallow = [\"ls\", \"pwd\"]\n[limits]\nwall_time = \"5s\"\n";
        let a = bench.policy(child).run(["true"]);
        assert_eq!((a.status(), a.json["limits"]["wall_time"]["value"].as_u64(), a.json["limits"]["pids"]["value"].as_u64()), ("ok", Some(5000), Some(33)), "{}", a.show());
        assert_eq!(a.json["policy"].as_array().map(Vec::len), Some(2), "{}", a.show());
        bench.policy(child).run(["ls"]).denied_by("command", &["ls"]);
        bench.policy(child).run(["echo", "x"]).ok("x\n");
        let twice = format!("{child}[[rule]]\nid = \"echo\"\nprogram = \"echo\"\ndecision = \"deny\"\n");
        bench.policy(&twice).run(["true"]).error(&["echo"]);
        bench.file("loop.toml", "version = 1\nextends = [\"policy.toml\"]\n");
        bench.policy("extends = [\"loop.toml\"]\n").run(["true"]).error(&["circle", "loop.toml"]);
        bench.policy("extends = [\"missing.toml\"]\n").run(["true"]).error(&["missing.toml"]);
    }
}

as_both! {
    fn a_pin_holds_the_content(bench) {
        let tool = bench.script("tool", "#!/bin/sh\necho pinned\n");
        let digest = |path: &std::path::Path| Sha256::digest(fs::read(path).expect("a file")).iter().map(|b| format!("{b:02x}")).collect::<String>();
        let good = digest(&tool);
        let rule = format!("[[rule]]\nid = \"p\"\nprogram = {:?}\ndecision = \"allow\"\nsha256 = \"{good}\"\n", tool.display());
        let words = [tool.display().to_string()];
        let a = bench.host(&rule).run(&words);
        a.ok("pinned\n");
        assert_eq!(a.json["program"]["sha256"], good, "{}", a.show());
        bench.script("tool", "#!/bin/sh\necho evil\n");
        let a = bench.host(&rule).run(&words);
        a.denied_by("command", &["pinned by rule 'p'"]);
        assert_ne!(a.json["rule"], json!(null), "{}", a.show());
        let true_hash = digest(std::path::Path::new("/usr/bin/true"));
        bench.host(&format!("[[rule]]\nid = \"t\"\nprogram = \"true\"\ndecision = \"allow\"\nsha256 = \"{}\"\n", true_hash.to_uppercase())).run(["true"]);
        bench.host("[[rule]]\nid = \"t\"\nprogram = \"true\"\ndecision = \"allow\"\nsha256 = \"abc\"\n").run(["true"]).error(&["policy.toml:"]);
    }
}

#[track_caller]
fn untrusted(a: &Answer, parts: &[&str]) {
    a.error(parts);
    assert_eq!(
        (a.str("stage"), a.json["error"]["kind"].as_str()),
        ("policy", Some("policy")),
        "{}",
        a.show()
    );
    assert!(
        a.stderr.contains("chmod go-w ") || a.stderr.contains("chown "),
        "it says what helps\n{}",
        a.stderr
    );
}

as_both! {
    fn a_policy_that_others_can_change_is_refused(bench) {
        let chmod = |name: &str, mode: u32| fs::set_permissions(bench.dir.join(name), fs::Permissions::from_mode(mode)).expect("chmod");
        let policy = "allow = [\"true\"]\n";
        for mode in [0o664, 0o646, 0o666] {
            let call = bench.host(policy);
            chmod("policy.toml", mode);
            untrusted(&call.run(["true"]), &["policy.toml", &format!("{mode:04o}")]);
        }
        for (mode, fine) in [(0o775, false), (0o757, false), (0o1777, true)] {
            let deep = bench.file("deep/er/p.toml", format!("version = 1\n{policy}{HOST}"));
            chmod("deep", mode);
            let a = bench.call().opt(["--policy".as_ref(), deep.as_os_str()]).run(["true"]);
            if fine { a.ok(""); } else { untrusted(&a, &["deep"]); }
        }
        let parent = bench.file("base.toml", format!("version = 1\n{policy}{HOST}"));
        fs::set_permissions(&parent, fs::Permissions::from_mode(0o666)).expect("chmod");
        untrusted(&bench.policy("extends = [\"base.toml\"]\n").run(["true"]), &["base.toml", "extends"]);
        if nix::unistd::geteuid().is_root() {
            let foreign = bench.file("foreign.toml", format!("version = 1\n{policy}{HOST}"));
            std::os::unix::fs::chown(&foreign, Some(12345), None).expect("chown");
            untrusted(&bench.call().opt(["--policy".as_ref(), foreign.as_os_str()]).run(["true"]), &["foreign.toml", "12345"]);
        }
    }
}

as_both! {
    fn a_bad_policy_is_shown_as_a_compiler_would(bench) {
        let cases = [
            ("alow = [\"true\"]\n", "2:1", "alow = [\"true\"]", "`allow`"),
            ("allow = \"true\"\n", "2:9", "allow = \"true\"", "list"),
            ("[limits]\nwall_tim = \"5s\"\n", "3:1", "wall_tim", "`wall_time`"),
            ("[limits]\nmemory = \"5X\"\n", "3:10", "memory = \"5X\"", "5X"),
            ("[env]\nset = { PATH = \"bin:/usr/bin\" }\n", "3:", "PATH", "bin"),
            ("allow = [\"true\"\n", "", "", ""),
            ("[[rule]]\nid = \"r\"\nprogram = \"true\"\n", "2:", "[[rule]]", "decision"),
            ("[[rule]]\nid = \"r\"\nprogram = \"true\"\ndecision = \"alow\"\n", "5:12", "alow", "allow"),
            ("[[rule]]\nid = \"r\"\nprogram = \"true\"\ndecision = \"allow\"\noperands = [{ pattern = '(' }]\n", "6:", "pattern", "("),
        ];
        for (text, place, line, part) in cases {
            let file = bench.file("policy.toml", format!("version = 1\n{text}"));
            let a = bench.call().opt(["--policy".as_ref(), file.as_os_str()]).run(["true"]);
            a.error(&[&format!("policy.toml:{place}")]);
            for part in [line, part, "|", "^"] {
                assert!(a.stderr.contains(part), "{part:?} of {text:?}\n{}", a.stderr);
            }
            assert!(a.stderr.starts_with("guardexec: error: "), "{}", a.stderr);
        }
        let file = bench.file("policy.toml", "allow = [\"true\"]\n");
        bench.call().opt(["--policy".as_ref(), file.as_os_str()]).run(["true"]).error(&["version"]);
    }
}

as_both! {
    fn no_key_makes_silence_a_yes_and_no_name_leads_nowhere(bench) {
        let cases = [
            ("[approval]\non_timeout = \"allow\"\n", "policy.toml:3:1", "no answer in time is always a denial"),
            ("[[rate]]\ncount = 1\nper = \"1m\"\nmatch = \"tru\"\n[tools.true]\nargv = [\"true\"]\ndecision = \"allow\"\n", "policy.toml:5:9", "did you mean `true`?"),
            ("[[rule]]\nid = \"x\"\nprogram = \"true\"\ndecision = \"allow\"\n[tools.x]\nargv = [\"true\"]\ndecision = \"allow\"\n", "policy.toml:6:8", "policy.toml:2"),
            ("[state]\ndir = \"out/s\"\n[filesystem]\nwrite = [\"out\"]\n", "policy.toml:3:1", "lets the run write"),
        ];
        for (text, place, part) in cases {
            let file = bench.file("policy.toml", format!("version = 1\n{text}"));
            let a = bench.call().opt(["--policy".as_ref(), file.as_os_str()]).run(["true"]);
            a.error(&[place, part]);
        }
        let state = |dir: &str| format!("allow = [\"true\"]\n[state]\ndir = \"{dir}\"\n");
        stacked(bench, &state("a"), &state("a")).run(["true"]).ok("");
        stacked(bench, &state("a"), &state("b")).run(["true"]).error(&["second.toml:4", "different places"]);
    }
}

as_both! {
    fn where_policies_are_looked_for(bench) {
        let text = format!("version = 1\nallow = [\"true\"]\n{HOST}");
        let file = bench.file("conf/guardexec/policy.toml", &text);
        let conf = bench.dir.join("conf").display().to_string();
        let path = |a: &Answer| a.json["policy"][0]["path"].as_str().unwrap_or("").to_owned();
        let a = bench.call().env("XDG_CONFIG_HOME", &conf).run(["true"]);
        assert_eq!((a.status(), path(&a)), ("ok", file.display().to_string()), "{}", a.show());
        let other = bench.file("other.toml", &text).display().to_string();
        let a = bench.call().env("XDG_CONFIG_HOME", &conf).env("GUARDEXEC_POLICY", &other).run(["true"]);
        assert_eq!((a.status(), path(&a)), ("ok", other), "{}", a.show());
        let a = bench.call().env("XDG_CONFIG_HOME", &conf).env("GUARDEXEC_POLICY", "").run(["true"]);
        assert_eq!(a.status(), "ok", "an empty variable is none\n{}", a.show());
        // Nothing is read from the working directory.
        bench.file("work/guardexec/policy.toml", &text);
        bench.file("work/policy.toml", &text);
        for (name, value) in [("XDG_CONFIG_HOME", "."), ("XDG_CONFIG_HOME", ""), ("GUARDEXEC_POLICY", "policy.toml")] {
            let a = bench.call().env(name, value).run(["true"]);
            a.error(&["policy"]);
        }
    }
}

#[test]
fn the_systems_floor_is_always_stacked() {
    let Some(bench) = Bench::new(As::Root) else { return };
    if !Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|s| s.success()) {
        return crate::harness::skip("needs a mount namespace");
    }
    let call = bench.host("allow = [\"true\", \"ls\"]\n");
    let floor = bench.file(
        "floor.toml",
        "version = 1\nallow = [\"true\"]\n[sandbox]\nprofile = \"host\"\n[limits]\nwall_time = \"3s\"\n",
    );
    let etc = bench.dir.join("etc");
    fs::create_dir(&etc).expect("mkdir");
    // An /etc of this test's own, in a mount namespace of its own.
    let script = format!(
        "unshare -m --propagation private sh -c 'mount -t tmpfs tmpfs {0} && cp /etc/passwd /etc/group {0} && mkdir {0}/guardexec && cp {1} {0}/guardexec/floor.toml && chmod -R go-w {0} && mount --move {0} /etc && exec \"$@\"' sh \"$@\"",
        etc.display(),
        floor.display()
    );
    for (word, status, exit) in [("true", "ok", 0), ("ls", "denied", 126)] {
        let mut one = bench.call();
        one.args.clone_from(&call.args);
        let one = ready(one, [word]);
        let a = answer(&one, through_sh(&one, &script), std::process::Stdio::null());
        assert_eq!((a.status(), a.exit), (status, exit), "{}", a.show());
        assert_eq!(a.json["policy"][1]["path"], "/etc/guardexec/floor.toml", "{}", a.show());
        assert!(exit != 0 || a.json["limits"]["wall_time"]["value"] == 3000, "{}", a.show());
    }
}

as_both! {
    fn a_link_to_a_multiplexer_is_judged_by_the_name_asked_for(bench) {
        let busybox = std::path::Path::new("/usr/bin/busybox");
        if !busybox.exists() {
            return crate::harness::skip("needs /usr/bin/busybox");
        }
        for applet in ["bin/echo", "bin/sh"] {
            fs::create_dir_all(bench.dir.join("bin")).expect("mkdir");
            std::os::unix::fs::symlink(busybox, bench.dir.join(applet)).expect("link");
        }
        let policy = format!("allow = [\"echo\"]\n[env]\nset = {{ PATH = \"{}\" }}\n", bench.dir.join("bin").display());
        let a = bench.host(&policy).run(["echo", "-e", "a\\tb"]);
        a.ok("a\tb\n");
        assert_eq!((a.json["program"]["path"].as_str(), &a.json["argv"][0]), (busybox.to_str(), &json!("echo")), "{}", a.show());
        assert_eq!(a.audit[0]["program"]["path"].as_str(), busybox.to_str());
        bench.host(&policy).run(["sh", "-c", "id"]).denied_by("command", &["'sh'"]);
        bench.host(&policy).run(["busybox", "sh", "-c", "id"]).denied_by("command", &["'busybox'"]);
        bench.host(&format!("{policy}[[rule]]\nid = \"no\"\nprogram = \"busybox\"\ndecision = \"deny\"\n")).run(["echo"]).denied_by("command", &["no"]);
    }
}
