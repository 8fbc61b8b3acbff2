//! Ways out that were found by trying: each of these went through once.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::harness::{As, Bench, NOBODY};

mod planted;
mod record;
mod streams;

const WORKSPACE: &str =
    "allow = [\"bash\"]\n[sandbox]\nprofile = \"workspace\"\n[env]\nset = { PATH = \"/usr/bin:/bin\" }\n";

/// The caller's own git, which acts on what a run left behind.
fn git(bench: &Bench, args: &[&str]) {
    let output = by_the_user(bench, &[&["git"], args].concat());
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The same for any program, whatever comes of it.
fn by_the_user(bench: &Bench, words: &[&str]) -> Output {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(bench.work());
    command.env("HOME", &bench.dir).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_COUNT", "2");
    for (n, (key, value)) in [("user.name", "a"), ("user.email", "a@example")].into_iter().enumerate() {
        command.env(format!("GIT_CONFIG_KEY_{n}"), key).env(format!("GIT_CONFIG_VALUE_{n}"), value);
    }
    if bench.who == As::User && nix::unistd::geteuid().is_root() {
        use std::os::unix::process::CommandExt;
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output().expect("git is needed here")
}

fn made_by_the_user(bench: &Bench, name: &str, content: &str) {
    let path = bench.file(&format!("work/{name}"), content);
    let above = path.ancestors().skip(1).take_while(|dir| *dir != bench.work());
    above.for_each(|dir| bench.give(dir));
}

fn content(bench: &Bench, name: &str) -> String {
    fs::read_to_string(bench.work().join(name)).expect("still there")
}

#[test]
fn standard_input_is_read_with_the_runs_own_rights() {
    let Some(bench) = Bench::new(As::Root) else { return };
    let environ = format!("/proc/{}/environ", std::process::id());
    bench.file("work/in.txt", "mine\n");
    for held in ["auto", "groups"] {
        let policy = format!("allow = [\"cat\"]\n[sandbox]\nprocesses = \"{held}\"\n");
        for file in ["/etc/shadow", &environ] {
            assert!(!fs::read(file).expect("root can").is_empty());
            let answer = bench.policy(&policy).opt(["--stdin", file]).run(["cat"]);
            assert_eq!((answer.status(), answer.exit), ("error", 125), "{held} {file}: {}", answer.show());
            assert!(answer.json["exit_code"].is_null(), "{held} {file}: {}", answer.show());
        }
        bench.policy(&policy).opt(["--stdin", "in.txt"]).run(["cat"]).ok("mine\n");
    }
}

as_both! {
    fn an_input_that_is_not_the_runs_to_read_is_named(bench) {
        let file = bench.file("beside.txt", "mine\n");
        let path = file.to_str().expect("UTF-8");
        for held in ["auto", "groups"] {
            let sandbox = format!("[sandbox]\nprofile = \"strict\"\nprocesses = \"{held}\"\n");
            let policy = format!("allow = [\"cat\"]\n{sandbox}");
            let a = bench.policy(&policy).opt(["--stdin", path]).run(["cat"]);
            for part in ["the run itself may not read", path, "[filesystem] read", "--stdin -"] {
                assert!(a.str("text").contains(part), "{part}: {}", a.show());
            }
            assert_eq!((a.status(), a.exit, &a.json["exit_code"]), ("error", 125, &serde_json::Value::Null), "{}", a.show());
            assert_eq!((a.json["error"]["kind"].as_str(), a.str("stage")), (Some("stdin"), "sandbox"), "{}", a.show());
            assert_eq!(a.audit.last().expect("an outcome")["error"]["kind"], "stdin", "{}", a.show());
            let policy = format!("{policy}[filesystem]\nread = [{path:?}]\n");
            bench.policy(&policy).opt(["--stdin", path]).run(["cat"]).ok("mine\n");
            bench.policy(&policy).opt(["--stdin", "-"]).stdin(b"mine\n".to_vec()).run(["cat"]).ok("mine\n");
        }
    }
}

as_both! {
    fn a_result_never_goes_over_the_policy_or_the_audit_file(bench) {
        let call = bench.policy("allow = [\"true\"]\n");
        let policy = bench.dir.join("policy.toml");
        let audit = bench.dir.join("audit.jsonl");
        call.run(["true"]).ok("");
        let before = (fs::read(&policy).expect("policy"), fs::read(&audit).expect("audit"));
        let alias = bench.dir.join("alias");
        fs::hard_link(&audit, &alias).expect("a hard link");
        for target in [&policy, &audit, &alias] {
            let call = || {
                let mut call = bench.policy("allow = [\"true\"]\n").opt([Path::new("--result-file"), target]);
                call.audit = None;
                call
            };
            let answer = call().run(["true"]);
            assert_eq!((answer.status(), answer.exit), ("error", 125), "{}", answer.show());
            // Not even where the request is refused before any policy is read.
            let answer = call().finish();
            assert_eq!(answer.exit, 125, "{}", answer.show());
            let after = (fs::read(&policy).expect("policy"), fs::read(&audit).expect("audit"));
            assert!(before == after, "{} was written over", target.display());
        }
        let usual = bench.file("result.json", "stale");
        bench.policy("allow = [\"true\"]\n").opt([Path::new("--result-file"), &usual]).run(["true"]).ok("");
        let result: serde_json::Value = serde_json::from_slice(&fs::read(&usual).expect("result")).expect("JSON");
        assert_eq!(result["status"], "ok");
    }
}

as_both! {
    fn no_exec_list_starts_what_the_policy_denies(bench) {
        let policy = "deny = [\"rm\"]\n[[rule]]\nid = \"sh\"\nprogram = \"bash\"\ndecision = \"allow\"\nruns_arguments = true\nexec = [\"rm\", \"ls\"]\n";
        let answer = bench.policy(policy).run(["bash", "-c", "ls --version >/dev/null && echo listed; rm --version"]);
        assert_eq!((answer.str("stdout"), answer.exit), ("listed\n", 126), "{}", answer.show());
    }
}

as_both! {
    fn find_reads_flags_behind_a_double_dash(bench) {
        let policy = "[[rule]]\nid = \"find\"\nprogram = \"find\"\ndecision = \"allow\"\nflags = [{ name = \"-name\", value = {} }]\noperands = [{ repeat = true, optional = true }]\n";
        bench.file("work/kept", "x");
        bench.host(policy).run(["find", "--", "kept", "-delete"]).denied_by("arguments", &["-delete"]);
        assert!(bench.work().join("kept").exists());
        bench.host(policy).run(["find", "--", "kept", "-name", "k*"]).ok("kept\n");
    }
}

as_both! {
    fn deny_rules_find_a_subcommand_behind_a_toolchain_and_flags_shortened_behind_one_dash(bench) {
        bench.script("bin/cargo", "#!/bin/sh\necho ran\n");
        bench.script("bin/gdb", "#!/bin/sh\necho ran\n");
        let policy = format!("allow = [\"cargo\", \"gdb\"]\n[env]\nset = {{ PATH = \"{}:/usr/bin:/bin\" }}\n[[rule]]\nid = \"no-publish\"\nprogram = \"cargo\"\ndecision = \"deny\"\nsubcommand = [\"publish\"]\n[[rule]]\nid = \"no-eval\"\nprogram = \"gdb\"\ndecision = \"deny\"\nflags = [\"--eval-command\"]\n", bench.dir.join("bin").display());
        let policy = policy.replace("allow = [\"cargo\", \"gdb\"]\n", "") + "[[rule]]\nid = \"all\"\nprogram = [\"cargo\", \"gdb\"]\ndecision = \"allow\"\nruns_arguments = true\n";
        bench.host(&policy).run(["cargo", "+nightly", "build"]).ok("ran\n");
        bench.host(&policy).run(["cargo", "+nightly", "publish"]).denied_by("arguments", &["no-publish"]);
        bench.host(&policy).run(["gdb", "-eval-com", "shell id"]).denied_by("arguments", &["no-eval"]);
    }
}

as_both! {
    fn a_repository_planted_inside_one_does_not_run_at_the_next_git_status(bench) {
        git(bench, &["init", "-q"]);
        made_by_the_user(bench, "a", "a\n");
        git(bench, &["add", "a"]);
        git(bench, &["commit", "-qm", "a"]);
        let mark = bench.dir.join("marked");
        let script = format!(
            "git config --global --add safe.directory '*'; mkdir evil && cd evil && git init -q . && git config user.email a@b && git config user.name a && echo x > x && git add x && git commit -qm x && git config core.fsmonitor 'touch {}; false' && cd .. && git add evil",
            mark.display()
        );
        let answer = bench.policy(WORKSPACE).run(["bash", "-c", &script]);
        assert_eq!(answer.exit, 0, "{}", answer.show());
        assert!(answer.json["warnings"].to_string().contains("evil/.git"), "{}", answer.show());
        git(bench, &["-c", "safe.directory=*", "status", "--short"]);
        assert!(!mark.exists(), "the host ran what the run had planted");
    }
}

as_both! {
    fn what_leads_to_a_repositorys_settings_stays_as_it_is(bench) {
        git(bench, &["init", "-q"]);
        git(bench, &["config", "include.path", "../more.config"]);
        git(bench, &["config", "core.hooksPath", ".husky"]);
        let kept = [
            ".git/modules/libs/foo/config",
            ".git/modules/m/config",
            ".git/worktrees/w/commondir",
            "sub/.git",
            ".husky/pre-commit",
            "more.config",
        ];
        kept.iter().for_each(|name| made_by_the_user(bench, name, "# kept\n"));
        for name in kept {
            let script = format!("echo evil > {name}; exit 0");
            bench.policy(WORKSPACE).run(["bash", "-c", &script]);
            assert_eq!(content(bench, name), "# kept\n", "{name} was written");
            let top = name.rsplit_once('/').map_or(name, |(dir, _)| dir);
            let script = format!("mv {top} {top}.old && mkdir -p {top}; echo evil > {name}; exit 0");
            bench.policy(WORKSPACE).run(["bash", "-c", &script]);
            assert_eq!(content(bench, name), "# kept\n", "{name} was planted again");
        }
        let script = "mv .git/modules .git/m2 && mkdir -p .git/modules/m && echo evil > .git/modules/m/config; exit 0";
        bench.policy(WORKSPACE).run(["bash", "-c", script]);
        assert_eq!(content(bench, ".git/modules/m/config"), "# kept\n");
    }
}

as_both! {
    fn a_replaced_link_is_set_aside_and_one_that_leads_out_is_no_obstacle(bench) {
        made_by_the_user(bench, "shared/envrc", "# kept\n");
        bench.file("outside", "# kept\n");
        for (to, name) in [("shared/envrc", ".envrc"), ("../outside", ".profile")] {
            std::os::unix::fs::symlink(to, bench.work().join(name)).expect("a link");
        }
        let answer = bench.policy(WORKSPACE).run(["bash", "-c", "rm .envrc .profile; echo evil > .envrc; echo evil > .profile"]);
        assert_eq!(answer.exit, 0, "{}", answer.show());
        for name in [".envrc", ".profile"] {
            assert!(!bench.work().join(name).exists(), "{name}: {}", answer.show());
            assert!(answer.json["warnings"].to_string().contains(name), "{}", answer.show());
        }
    }
}
