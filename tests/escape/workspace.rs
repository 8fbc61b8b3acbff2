//! A writable workspace: git works, and what the host would run later stays as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::scene::{self, Ground, WORKSPACE, words};
use crate::harness::{As, Bench, NOBODY};

const GIT: &str = "allow = [\"git\", \"sh\", \"mv\", \"rm\", \"mkdir\", \"ln\"]\n[env]\nset = { PATH = \"/usr/local/bin:/usr/bin:/bin\", GIT_AUTHOR_NAME = \"a\", GIT_AUTHOR_EMAIL = \"a@example\", GIT_COMMITTER_NAME = \"a\", GIT_COMMITTER_EMAIL = \"a@example\" }\n";

fn git(bench: &Bench, dir: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command
        .args(["-c", "user.name=a", "-c", "user.email=a@example", "-c", "init.defaultBranch=main"])
        .args(args)
        .current_dir(dir);
    command.env("HOME", &bench.dir).env("GIT_CONFIG_NOSYSTEM", "1");
    if bench.who == As::User && nix::unistd::geteuid().is_root() {
        use std::os::unix::process::CommandExt;
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().expect("git is needed here");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn repository(bench: &Bench) -> PathBuf {
    let work = bench.work();
    git(bench, &work, &["init", "-q"]);
    bench.file("work/f", "one\n");
    git(bench, &work, &["add", "f"]);
    git(bench, &work, &["commit", "-q", "-m", "first"]);
    work
}

as_both! {
    fn t3_100_git_add_and_commit_work(bench) {
        repository(bench);
        let toml = format!("{GIT}{WORKSPACE}");
        bench.file("work/g", "two\n");
        for line in [&["add", "g"][..], &["commit", "-q", "-m", "second"], &["status", "--short"], &["log", "--oneline"], &["branch", "b"], &["checkout", "-q", "b"], &["stash", "list"], &["tag", "t"]] {
            let mut all = vec!["git"];
            all.extend(line);
            let answer = bench.policy(&toml).run(all);
            assert_eq!(answer.json["exit_code"], 0, "{line:?} {}", answer.show());
        }
        let answer = bench.policy(&toml).run(["sh", "-c", "echo x > .git/hooks/pre-commit"]);
        assert_ne!(answer.json["exit_code"], 0, "{}", answer.show());
        assert!(!bench.work().join(".git/hooks/pre-commit").exists());
        git(bench, &bench.work(), &["fsck", "--strict"]);
    }
}

as_both! {
    fn t3_99_what_the_host_would_run_is_not_planted(bench) {
        let work = repository(bench).display().to_string();
        let nested = bench.work().join("vendor/lib");
        fs::create_dir_all(&nested).expect("mkdir");
        bench.give(&bench.work().join("vendor"));
        bench.give(&nested);
        git(bench, &nested, &["init", "-q"]);
        for name in [".envrc", ".vscode/tasks.json", ".bashrc", ".github/hooks/x.json", ".mcp.json"] {
            bench.file(&format!("work/{name}"), "{}\n");
            bench.give(bench.work().join(name).parent().expect("a parent"));
        }
        let n = nested.display().to_string();
        let attacks: Vec<String> = [
            format!("write:{work}/.git/config"), format!("write:{work}/.git/hooks/pre-commit"), format!("write:{work}/.git/info/attributes"),
            format!("truncate:{work}/.git/config"), format!("unlink:{work}/.git/config"), format!("rename:{work}/f:{work}/.git/config"),
            format!("rename:{work}/.git:{work}/.gitold"), format!("exchange:{work}/.git:{work}/vendor"), format!("rename:{work}/.git/hooks:{work}/.git/hooks2"),
            format!("write:{n}/.git/config"), format!("write:{n}/.git/hooks/x"), format!("rename:{n}/.git:{n}/.g"), format!("rename:{work}/vendor:{work}/v"),
            format!("write:{work}/.envrc"), format!("write:{work}/.vscode/tasks.json"), format!("write:{work}/.bashrc"), format!("rename:{work}/.vscode:{work}/.v"),
            format!("unlink:{work}/.envrc"), format!("write:{work}/.github/hooks/x.json"), format!("write:{work}/.mcp.json"), format!("chmod:{work}/.git/config"),
            format!("link:{work}/.git/config:{work}/c"), format!("writevia:{work}/.git/config:{work}/l"),
        ].to_vec();
        let before = fs::read_to_string(format!("{work}/.git/config")).expect("config");
        let (outcomes, answer) = scene::attempt(bench, Ground::Namespaces, WORKSPACE, &attacks);
        let open: Vec<_> = outcomes.iter().filter(|(_, o)| *o == "open").map(|(a, _)| a).collect();
        assert!(open.is_empty(), "{open:#?} {}", answer.show());
        assert_eq!(fs::read_to_string(format!("{work}/.git/config")).expect("config"), before);
        // And ordinary work goes on.
        let (outcomes, answer) = scene::attempt(bench, Ground::Namespaces, WORKSPACE, &words(&[&format!("write:{work}/new"), &format!("mkdir:{work}/dir"), &format!("write:{n}/new"), &format!("rename:{work}/new:{work}/newer")]));
        assert!(outcomes.values().all(|o| o == "open"), "{}", answer.show());
        // Without confinement all of it works.
        let (bare, _) = scene::attempt(bench, Ground::Namespaces, scene::OFF, &attacks[..2]);
        assert!(bare.values().all(|o| o == "open"), "{bare:?}");
    }
}

as_both! {
    fn t3_99_what_did_not_exist_is_set_aside(bench) {
        let work = bench.work();
        fs::create_dir_all(work.join("sub")).expect("mkdir");
        bench.give(&work.join("sub"));
        let toml = format!("{GIT}{WORKSPACE}");
        let script = "mkdir -p .git/hooks .vscode sub/.git; echo x > .git/config; echo x > .envrc; echo x > .vscode/tasks.json; echo x > sub/.git/config; echo ok";
        for ground in [Ground::Namespaces, Ground::Groups, Ground::NoNamespaces] {
            let toml = toml.replace("profile = \"workspace\"\n", "profile = \"workspace\"\nrequire = []\n");
            let answer = ground.call(bench, &toml).run(["sh", "-c", script]);
            for name in [".envrc", ".vscode"] {
                assert!(!work.join(name).exists(), "{ground:?}: {name} is there\n{}", answer.show());
            }
            let warnings = answer.json["warnings"].to_string();
            assert!(warnings.contains(".envrc"), "{ground:?} {}", answer.show());
            // Making a repository is ordinary work; that its settings are the run's is said.
            assert!(warnings.contains("work/.git"), "{ground:?} {}", answer.show());
            fs::remove_dir_all(work.join(".git")).expect("the repository");
        }
    }
}

as_both! {
    fn without_mounts_an_existing_repository_is_missing_protection(bench) {
        let work = repository(bench).display().to_string();
        for ground in [Ground::Groups, Ground::NoNamespaces] {
            let call = ground.call(bench, &format!("{WORKSPACE}{}", scene::rule()));
            let answer = call.run([scene::attacker().to_str().expect("UTF-8"), &format!("write:{work}/.git/hooks/pre-commit")]);
            scene::unavailable(&answer, &["filesystem", ".git"]);
        }
    }
}

as_both! {
    fn a_linked_work_tree_is_protected(bench) {
        let main = bench.dir.join("main");
        fs::create_dir(&main).expect("mkdir");
        bench.give(&main);
        git(bench, &main, &["init", "-q"]);
        git(bench, &main, &["commit", "-q", "--allow-empty", "-m", "first"]);
        let tree = bench.work().join("tree");
        git(bench, &main, &["worktree", "add", "-q", tree.to_str().expect("UTF-8")]);
        let attacks = words(&[&format!("write:{}/.git", tree.display()), &format!("rename:{0}/.git:{0}/.g", tree.display()), &format!("unlink:{}/.git", tree.display())]);
        let (outcomes, answer) = scene::attempt(bench, Ground::Namespaces, WORKSPACE, &attacks);
        let open: Vec<_> = outcomes.iter().filter(|(_, o)| *o == "open").collect();
        assert!(open.is_empty(), "{open:?} {}", answer.show());
    }
}
