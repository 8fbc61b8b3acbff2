//! The store and the runs: a confined run neither reads nor writes it, wherever it lies, and cannot put another in its place.

use std::fs;
use std::path::Path;

use super::{asked, state, verb};
use crate::harness::{Answer, Bench, Call};

/// A policy of this profile that asks for `date`; its `sh` may run what moves files about.
fn policy<'b>(bench: &'b Bench, profile: &str, more: &str) -> Call<'b> {
    bench.policy(&format!(
        "[sandbox]\nprofile = {profile:?}\n{more}\n[[rule]]\nid = \"shell\"\nprogram = \"sh\"\ndecision = \"allow\"\nruns_arguments = true\n\
         exec = [\"mkdir\", \"ls\", \"cat\", \"mv\", \"touch\", \"rm\", \"ln\", \"chmod\"]\n[[rule]]\nid = \"asks\"\nprogram = \"date\"\ndecision = \"ask\"\n"
    ))
}

/// Everything that a run could try on a store in `dir`.
fn attack(dir: &Path) -> String {
    let d = dir.display();
    let up = dir.parent().expect("a parent").display();
    format!(
        "cat {d}/state.db; ls {d} {d}/..; touch {d}/planted; echo x > {d}/state.db; rm -rf {d}; chmod 755 {d}; mv {d} {d}.moved; mv {up} {up}.moved; \
         mkdir -p {d}; echo x > {d}/state.db; ln -s /tmp {d}; echo end"
    )
}

/// The names in a directory.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .expect("the store")
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[track_caller]
fn untouched(bench: &Bench, dir: &Path, id: &str, options: &[&str], by: &Answer) {
    assert!(by.str("stdout").ends_with("end\n") && !by.str("stdout").contains("SQLite"), "{}", by.show());
    assert_eq!(names(dir), ["state.db", "state.db-journal", "state.id", "state.lock"], "{}", by.show());
    let words = [&["approvals", "show", "--json", id], options].concat();
    assert_eq!(verb(bench, &words).json["state"], "pending", "{}", by.show());
}

as_both! {
    fn a_run_neither_reads_nor_writes_the_store(bench) {
        for profile in ["strict", "workspace"] {
            for place in ["state", "work/state", "work/deep/er/state"] {
                let dir = bench.dir.join(place);
                let _ = fs::remove_dir_all(bench.dir.join("work/deep"));
                bench.file("work/deep/er/x", "");
                bench.give(&bench.dir.join("work/deep"));
                bench.give(&bench.dir.join("work/deep/er"));
                let more = format!("[state]\ndir = {dir:?}\n[filesystem]\nread = [{:?}]\n", bench.dir);
                let id = asked(&policy(bench, profile, &more).run(["date"]));
                let a = policy(bench, profile, &more).run(["sh", "-c", &attack(&dir)]);
                untouched(bench, &dir, &id, &[], &a);
                let _ = fs::remove_dir_all(&dir);
            }
        }
    }
}

as_both! {
    fn nor_where_the_caller_says_where_it_is(bench) {
        let dir = bench.dir.join("work/state");
        for profile in ["strict", "workspace"] {
            let more = format!("[filesystem]\nwrite = [{:?}]\n", bench.work());
            let call = || policy(bench, profile, &more).opt(["--state", "state"]);
            let id = asked(&call().run(["date"]));
            let a = call().run(["sh", "-c", &attack(&dir)]);
            untouched(bench, &dir, &id, &["--state", "state"], &a);
            let xdg = || policy(bench, profile, &more).env("XDG_STATE_HOME", bench.work().to_str().expect("UTF-8"));
            asked(&xdg().run(["date"]));
            let a = xdg().run(["sh", "-c", &attack(&bench.dir.join("work/guardexec"))]);
            assert!(a.str("stdout").ends_with("end\n") && !a.str("stdout").contains("SQLite"), "{}", a.show());
            assert_eq!(names(&bench.dir.join("work/guardexec")).len(), 4);
            fs::remove_dir_all(bench.dir.join("work/guardexec")).expect("remove");
            fs::remove_dir_all(&dir).expect("remove");
        }
    }
}

as_both! {
    fn a_store_that_does_not_exist_yet_is_not_made_by_a_run(bench) {
        let dir = bench.dir.join("work/new/state");
        bench.file("work/new/x", "");
        bench.give(&bench.dir.join("work/new"));
        // Taken away again, so that nothing is left to be set aside: for a while it was the store all the same.
        let forge = format!("mkdir -m 700 {0} && echo made; echo forged > {0}/state.db && echo forged; mv {0} {0}.moved; echo end", dir.display());
        for profile in ["strict", "workspace"] {
            let more = format!("[state]\ndir = {dir:?}\n");
            let a = policy(bench, profile, &more).run(["sh", "-c", &forge]);
            assert!(a.str("stdout") == "end\n" && !dir.join("state.db").exists(), "{}", a.show());
            let a = policy(bench, profile, &more).run(["sh", "-c", &attack(&dir)]);
            assert!(a.str("stdout").ends_with("end\n"), "{}", a.show());
            asked(&policy(bench, profile, &more).run(["date"]));
            fs::remove_dir_all(&dir).expect("the true one");
        }
    }
}

as_both! {
    fn a_program_that_the_policy_names_is_not_made_by_a_run(bench) {
        let hook = bench.dir.join("work/notify");
        let owned = bench.work().join("owned");
        let more = format!("[state]\ndir = {:?}\n[approval]\nnotify = {hook:?}\n", state(bench));
        let plant = format!("printf '#!/bin/sh\\ntouch {}\\n' > {1}; chmod 755 {1}; echo end", owned.display(), hook.display());
        for profile in ["workspace", "strict"] {
            let a = policy(bench, profile, &more).run(["sh", "-c", &plant]);
            match profile {
                "workspace" => {
                    assert_eq!((a.status(), a.exit, a.str("stage")), ("error", 125, "sandbox"), "{}", a.show());
                    assert!(a.str("text").contains("work/notify, which the policy leads to, does not exist, and lies where the run may write"), "{}", a.show());
                }
                _ => assert_eq!(a.str("stdout"), "end\n", "{}", a.show()),
            }
            asked(&policy(bench, profile, &more).run(["date"]));
            assert!(!hook.exists() && !owned.exists());
        }
        // Where it is there, it is kept as it is.
        bench.script("work/notify", "#!/bin/sh\ncat > /dev/null\n");
        let a = policy(bench, "workspace", &more).run(["sh", "-c", &plant]);
        assert_eq!(a.str("stdout"), "end\n", "{}", a.show());
        asked(&policy(bench, "workspace", &more).run(["date", "-u"]));
        assert!(!owned.exists());
    }
}

as_both! {
    fn a_state_that_contradicts_the_policy_is_refused(bench) {
        let own = state(bench);
        let more = format!("[state]\ndir = {own:?}\n");
        let other = bench.dir.join("other");
        let refused = |call: Call<'_>| {
            let a = call.opt(["--state".as_ref(), other.as_os_str()]).run(["date"]);
            a.error(&["--state ", " contradicts the policy, which keeps its state in "]);
            assert_eq!(a.str("stage"), "policy");
        };
        refused(policy(bench, "strict", &more));
        for words in [&["approvals", "list"][..], &["rates"], &["session", "list"]] {
            let words = [words, &["--state", other.to_str().expect("UTF-8")]].concat();
            let a = verb(bench, &words);
            assert!(a.exit == 125 && a.stderr.contains("contradicts the policy"), "{words:?} {}", a.show());
        }
        let mut call = policy(bench, "strict", &more).opt(["--state".as_ref(), other.as_os_str(), "--".as_ref(), "date".as_ref()]);
        call.args.insert(0, "explain".into());
        assert_eq!(call.raw().exit, 125);
        // Another name of the same directory is no contradiction.
        let call = policy(bench, "strict", &more);
        asked(&call.opt(["--state".as_ref(), bench.dir.join("work/../state").as_os_str()]).run(["date"]));
        assert!(!other.exists());
    }
}

as_both! {
    fn check_warns_where_nothing_keeps_an_asker_from_answering(bench) {
        let more = format!("[state]\ndir = {:?}\n", state(bench));
        let findings = |profile: &str, more: &str| {
            let _ = policy(bench, profile, more);
            let a = bench.call().opt(["check", "--json"]).opt([bench.dir.join("policy.toml")]).raw();
            (a.exit, String::from_utf8_lossy(&a.stdout).into_owned())
        };
        let (exit, text) = findings("host", &more);
        assert!(exit == 1 && text.contains("self_approval"), "{text}");
        for profile in ["strict", "workspace"] {
            let (_, text) = findings(profile, &more);
            assert!(!text.contains("self_approval"), "{text}");
        }
        let (_, text) = findings("host", &format!("{more}[approval]\nask = \"tty\"\n"));
        assert!(!text.contains("self_approval"), "{text}");
    }
}
