//! What a run leaves for the host to act on: in directories far down, in repositories of its own, and where it makes
//! setting aside hard.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::{WORKSPACE, by_the_user, content, git, made_by_the_user};
use crate::escape::scene::Ground;
use crate::harness::{Answer, As, Bench};

fn run(bench: &Bench, script: &str) -> Answer {
    let answer = bench.policy(WORKSPACE).run(["bash", "-c", script]);
    assert_eq!(answer.exit, 0, "{}", answer.show());
    answer
}

/// Runs git in a directory below the work directory, as somebody who looks around there.
fn look(bench: &Bench, dir: &str) {
    let dir = bench.work().join(dir);
    git(
        bench,
        &["-C", dir.to_str().expect("UTF-8"), "-c", "safe.directory=*", "status", "--short", "--ignored"],
    );
}

as_both! {
    fn repositories_are_kept_however_deep_and_beside_the_working_directory(bench) {
        git(bench, &["init", "-q"]);
        let kept = ["a/b/c/d/e/f/.git/config", "node_modules/m/.git/hooks/x", "target/t/.git/config", "bare.git/config"];
        kept.iter().for_each(|name| made_by_the_user(bench, name, "# kept\n"));
        for dir in ["bare.git/objects", "bare.git/refs", "../beside/r/.git"] {
            fs::create_dir_all(bench.work().join(dir)).expect("mkdir");
        }
        made_by_the_user(bench, "bare.git/HEAD", "ref: refs/heads/m\n");
        bench.file("beside/r/.git/config", "# kept\n");
        for dir in ["beside", "beside/r", "beside/r/.git"] {
            bench.give(&bench.dir.join(dir));
        }
        let policy = format!("{WORKSPACE}[filesystem]\nwrite = [{:?}]\n", bench.dir.join("beside"));
        for name in kept.iter().chain(&["../beside/r/.git/config"]) {
            let script = format!("echo evil > {name}; exit 0");
            let answer = bench.policy(&policy).run(["bash", "-c", &script]);
            assert_eq!(content(bench, name), "# kept\n", "{name} {}", answer.show());
        }
        let script = "echo x > ../beside/new && mkdir -p ../beside/n/.git && echo '[alias] s = !x' > ../beside/n/.git/config && echo x > ../beside/.envrc";
        let answer = bench.policy(&policy).run(["bash", "-c", script]);
        assert_eq!(answer.exit, 0, "{}", answer.show());
        for name in ["beside/n/.git/config", "beside/.envrc"] {
            assert!(!bench.dir.join(name).exists(), "{name} {}", answer.show());
        }
    }
}

as_both! {
    fn a_repository_of_the_runs_own_runs_nothing_wherever_it_is(bench) {
        let mark = bench.dir.join("marked");
        let evil = format!("git config core.fsmonitor 'touch {}; false'", mark.display());
        // Alone, with a work tree and without, and as any directory that git takes for one.
        let script = format!(
            "git init -q . && {evil}; git init -q --bare b && (cd b && {evil}; mkdir w; git config core.bare false; git config core.worktree w); \
             git init -q own && (cd own && {evil}); mkdir -p raw/refs raw/objects raw/w && cp own/.git/config own/.git/HEAD raw && (cd raw && git config core.worktree w)"
        );
        let answer = run(bench, &script);
        for dir in [".git", "b", "own/.git", "raw"] {
            assert!(!bench.work().join(dir).join("config").exists(), "{dir} {}", answer.show());
            assert!(answer.json["warnings"].to_string().contains(&format!("work/{dir}")), "{dir} {}", answer.show());
        }
        for dir in [".", "own"] {
            look(bench, dir);
        }
        assert!(!mark.exists(), "the host ran what the run had planted");
        // The counter-proof, and what is harmless stays: the next run goes on with it.
        git(bench, &["init", "-q", "theirs"]);
        let fsmonitor = format!("touch {}; false", mark.display());
        git(bench, &["-C", "theirs", "config", "core.fsmonitor", &fsmonitor]);
        look(bench, "theirs");
        assert!(mark.exists(), "git runs what settings name");
        run(bench, "git init -q fresh && cd fresh && git config user.email a@b && git config user.name a && git remote add o https://host/x");
        let answer = run(bench, "cd fresh && echo x > x && git add x && git commit -qm x && git log --oneline | wc -l");
        assert_eq!(answer.str("stdout"), "1\n", "{}", answer.show());
    }
}

as_both! {
    fn a_submodule_is_not_prepared_for_the_host_to_take(bench) {
        git(bench, &["init", "-q"]);
        made_by_the_user(bench, ".git/modules/known/HEAD", "ref: refs/heads/m\n");
        let answer = run(bench, "mkdir -p .git/modules/{evil,known/modules/deep}/hooks && echo x > .git/modules/evil/hooks/post-checkout");
        let left: Vec<_> = fs::read_dir(bench.work().join(".git/modules")).expect("modules").flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, ["known"], "{}", answer.show());
assert!(!bench.work().join(".git/modules/known/modules").exists(), "{}", answer.show());
    }
}

as_both! {
    fn setting_aside_cannot_be_hindered(bench) {
        for ground in [Ground::Namespaces, Ground::Groups] {
            let policy = WORKSPACE.replace("profile = \"workspace\"\n", "profile = \"workspace\"\nrequire = []\n");
            // The directory closed to its owner, and names taken that could be guessed.
            let guard = if ground == Ground::Namespaces { "$PPID" } else { "$(awk '/^PPid/ { print $2 }' /proc/$PPID/status 2>/dev/null || echo $PPID)" };
            let script = format!("mkdir .vscode; p={guard}; for i in $(seq $((p > 30 ? p - 30 : 0)) $((p + 30))); do mkdir -p .vscode.set-aside-$i/x; done; chmod a-w . || true");
            let answer = ground.call(bench, &policy).run(["bash", "-c", &script]);
            fs::set_permissions(bench.work(), fs::Permissions::from_mode(0o755)).expect("chmod");
            assert!(!bench.work().join(".vscode").exists(), "{ground:?} {}", answer.show());
            for entry in fs::read_dir(bench.work()).expect("work").flatten() {
                fs::remove_dir_all(entry.path()).expect("clean");
            }
        }
        if bench.who == As::User {
            let answer = run(bench, "git init -q closed/x; chmod 000 closed");
            assert!(answer.json["warnings"].to_string().contains("work/closed"), "{}", answer.show());
            fs::set_permissions(bench.work().join("closed"), fs::Permissions::from_mode(0o755)).expect("chmod");
        }
    }
}

as_both! {
    fn hooks_are_kept_wherever_the_settings_say_they_are(bench) {
        git(bench, &["init", "-q"]);
        git(bench, &["config", "core.hooksPath", "-"]);
        let config = content(bench, ".git/config").replace("hooksPath = -", "hooksPath = .husky ; ours");
        made_by_the_user(bench, ".git/config", &config);
        made_by_the_user(bench, ".husky/pre-commit", "# kept\n");
        run(bench, "echo evil > .husky/pre-commit; exit 0");
        assert_eq!(content(bench, ".husky/pre-commit"), "# kept\n");
    }
}

as_both! {
    fn a_directory_that_becomes_a_repository_by_the_run_runs_nothing(bench) {
        let mark = bench.dir.join("marked");
        let evil = format!("git config core.bare false; git config core.fsmonitor 'touch {}; false'", mark.display());
        made_by_the_user(bench, "hooks/theirs", "x\n");
        // The working directory itself; and one whose `commondir` says that the rest is elsewhere.
        let script = format!(
            "git init -q --bare b && (cd b && {evil}; git config core.worktree ..) && mv b/HEAD b/config b/objects b/refs . && rm -r b; \
             git init -q --bare c && (cd c && {evil}; git config core.worktree /) && mkdir d && mv c/HEAD d && echo ../c > d/commondir"
        );
        let answer = run(bench, &script);
        for gone in ["HEAD", "d/commondir"] {
            assert!(!bench.work().join(gone).exists(), "{gone} {}", answer.show());
        }
        assert_eq!(content(bench, "hooks/theirs"), "x\n", "only git's own is renamed");
        let found = by_the_user(bench, &["git", "-C", "d", "-c", "safe.directory=*", "rev-parse", "--git-dir"]);
        assert!(!found.status.success(), "{found:?}");
        by_the_user(bench, &["git", "-c", "safe.directory=*", "status"]);
        assert!(!mark.exists(), "the host ran what the run had planted");
        // What stands there stays a repository, and its settings stay.
        git(bench, &["init", "-q", "--bare", "theirs"]);
        let theirs = bench.work().join("theirs");
        let answer = bench.policy(WORKSPACE).cwd(&theirs).run(["bash", "-c", "echo evil > config; exit 0"]);
        assert!(content(bench, "theirs/config").contains("bare = true"), "{}", answer.show());
    }
}

as_both! {
    fn a_rebase_is_not_left_for_the_host_to_go_on_with(bench) {
        let mark = bench.dir.join("marked");
        git(bench, &["init", "-q"]);
        git(bench, &["commit", "-q", "--allow-empty", "-m", "x"]);
        let planted = format!(
            "d=.git/rebase-merge; mkdir $d && echo exec touch {} > $d/git-rebase-todo && git rev-parse HEAD | tee $d/onto > $d/orig-head && \
             echo refs/heads/m > $d/head-name && touch $d/interactive $d/done",
            mark.display()
        );
        let list = bench.work().join(".git/rebase-merge/git-rebase-todo");
        let go_on = || by_the_user(bench, &["git", "-c", "safe.directory=*", "rebase", "--continue"]);
        let answer = run(bench, &planted);
        assert!(!list.exists() && answer.json["warnings"].to_string().contains("git-rebase-todo"), "{}", answer.show());
        go_on();
        assert!(!mark.exists(), "the host ran what the run had planted");
        // The host's own stays, also when a run goes on with it; and it is what git runs.
        fs::remove_dir_all(bench.work().join(".git/rebase-merge")).expect("clean");
        by_the_user(bench, &["bash", "-c", &planted]);
        let answer = run(bench, "echo >> .git/rebase-merge/git-rebase-todo");
        assert!(list.exists(), "{}", answer.show());
        go_on();
        assert!(mark.exists(), "git runs what the list says");
    }
}

as_both! {
    fn a_rebase_behind_a_link_or_among_a_great_many_is_not_left_either(bench) {
        let mark = bench.dir.join("marked");
        git(bench, &["init", "-q"]);
        git(bench, &["commit", "-q", "--allow-empty", "-m", "x"]);
        let planted = format!(
            "mkdir x && ln -s ../x .git/rebase-merge && d=x && echo exec touch {} > $d/git-rebase-todo && \
             git rev-parse HEAD | tee $d/onto > $d/orig-head && echo refs/heads/m > $d/head-name && touch $d/interactive $d/done",
            mark.display()
        );
        let link = bench.work().join(".git/rebase-merge");
        let answer = run(bench, &planted);
        assert!(!link.is_symlink() && answer.json["warnings"].to_string().contains(".git/rebase-merge"), "{}", answer.show());
        assert!(bench.work().join("x/git-rebase-todo").exists(), "what the link leads to is left alone");
        by_the_user(bench, &["git", "-c", "safe.directory=*", "rebase", "--continue"]);
        assert!(!mark.exists(), "the host ran what the run had planted");
        // More lists than are read, each the same long file, and one of the host's, which stays.
        let theirs = ".git/worktrees/theirs/rebase-merge/git-rebase-todo";
        made_by_the_user(bench, theirs, "exec make\n");
        let many = "yes 'pick 1' | head -c 1000000 > l; for i in $(seq 300); do d=.git/worktrees/w$i/rebase-merge; mkdir -p $d && ln l $d/git-rebase-todo || exit 1; done";
        let answer = run(bench, many);
        let lists = fs::read_dir(bench.work().join(".git/worktrees")).expect("worktrees").flatten();
        let left = lists.filter(|tree| tree.path().join("rebase-merge/git-rebase-todo").exists()).count();
        assert_eq!(left, 1 + 4, "{}", answer.show());
        assert_eq!(content(bench, theirs), "exec make\n");
        let answer = run(bench, "true");
        assert!(!answer.json["warnings"].to_string().contains("rebase"), "{}", answer.show());
    }
}

as_both! {
    fn the_scripts_that_huskys_hooks_start_are_kept(bench) {
        git(bench, &["init", "-q"]);
        let config = format!("{}[core]\nhooksPath = .husky/_\n", content(bench, ".git/config"));
        made_by_the_user(bench, ".git/config", &config);
        made_by_the_user(bench, ".husky/_/pre-commit", ". \"$(dirname \"$0\")/h\"\n");
        made_by_the_user(bench, ".husky/pre-commit", "# kept\n");
        run(bench, "echo evil > .husky/pre-commit; echo evil > .husky/new; exit 0");
        assert_eq!(content(bench, ".husky/pre-commit"), "# kept\n");
        assert!(!bench.work().join(".husky/new").exists());
    }
}
