//! What a newcomer gets wrong, and whether the answer says the cause, the place and what to do instead.

use crate::harness::{Answer, Call, outside};

fn explain(mut call: Call<'_>, word: &str) -> Answer {
    call.args.insert(0, "explain".into());
    outside::ready(call, [word]).raw()
}

as_both! {
    fn a_missing_interpreter_is_not_found_under_every_profile(bench) {
        for first in ["/nonexistent/python9", "/bin/sh/python9"] {
            let script = bench.script("lost.py", &format!("#!{first} -I\n")).display().to_string();
            for profile in ["strict", "workspace", "host"] {
                let policy = format!("allow = [{script:?}]\n[sandbox]\nprofile = {profile:?}\n");
                let a = bench.policy(&policy).run([&script]);
                assert_eq!((a.status(), a.exit, a.str("stage")), ("not_found", 127, "command"), "{profile}\n{}", a.show());
                assert!(a.str("text").contains(&format!("names the interpreter '{first}', which was not found\nhint: ")), "{}", a.show());
                a.nothing_ran();
                assert_eq!(explain(bench.policy(&policy), &script).exit, 127);
            }
        }
    }
}

as_both! {
    fn a_script_that_starts_env_is_told_that_env_may_start_nothing(bench) {
        let script = bench.script("hi.sh", "#!/usr/bin/env sh\necho hi\n").display().to_string();
        let rule = format!("[[rule]]\nprogram = {script:?}\ndecision = \"allow\"\n");
        let a = bench.policy(&rule).run([&script]);
        let warned = |a: &Answer| a.json["warnings"][0].as_str().unwrap_or_default().to_string();
        assert_eq!((a.status(), a.exit), ("nonzero_exit", 126), "{}", a.show());
        assert!(warned(&a).contains("starts '/usr/bin/env', which has to start 'sh'"), "{}", a.show());
        assert!(warned(&a).ends_with("list it in the rule's exec"), "{}", a.show());
        // What it says to do works, and then there is nothing left to say.
        let a = bench.policy(&format!("{rule}exec = [\"sh\"]\n")).run([&script]);
        a.ok("hi\n");
        assert_eq!(warned(&a), "");
        let a = bench.policy(&format!("{rule}[sandbox]\nprofile = \"workspace\"\n")).run([&script]);
        assert_eq!((a.exit, warned(&a)), (0, String::new()), "{}", a.show());
    }
}

as_both! {
    fn a_warning_reaches_the_person_beside_the_models_text(bench) {
        let policy = "allow = [\"sh\"]\n[sandbox]\nprofile = \"host\"\n";
        let said = |format: &str| {
            let call = bench.policy(policy).opt(["--output", format]);
            outside::ready(call, ["sh", "-c", "echo out"]).raw()
        };
        let a = said("text");
        assert_eq!((a.exit, a.stdout.as_slice()), (0, &b"out\n"[..]), "{}", a.stderr);
        assert!(a.stderr.starts_with("guardexec: warning: 'sh' runs what its arguments say"), "{}", a.stderr);
        assert_eq!(a.stderr.lines().count(), 1, "{}", a.stderr);
        // In front of a command nothing is added.
        assert_eq!(said("raw").stderr, "");
    }
}

as_both! {
    fn a_refusal_names_the_word_that_would_pass(bench) {
        let script = bench.script("do.sh", "#!/bin/sh\n").display().to_string();
        let policy = format!("allow = [{script:?}, \"true\", \"no-such-program\"]\n");
        let text = |word: &str| bench.policy(&policy).run([word]).str("text").to_string();
        assert!(text("./do.sh").ends_with(&format!("; ask for '{script}'")), "{}", text("./do.sh"));
        assert!(text("./true").ends_with("; ask for 'true' without a directory"), "{}", text("./true"));
        assert!(text("true x").contains("hint: this is one word; 'true' and each of its arguments"), "{}", text("true x"));
        assert!(text("no-such-program").contains("was not found in the policy's PATH, '/usr/local/bin:/usr/bin:/bin'"), "{}", text("no-such-program"));
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("chmod");
        assert!(text(&script).starts_with(&format!("error: '{script}' cannot be executed")), "{}", text(&script));
    }
}

as_both! {
    fn a_write_path_that_does_not_exist_is_named_with_what_to_do(bench) {
        let a = bench.policy("allow = [\"true\"]\n[filesystem]\nwrite = [\"/nonexistent/out\"]\n").run(["true"]);
        assert_eq!((a.status(), a.exit, a.json["exit_code"].is_null()), ("error", 125, true), "{}", a.show());
        let text = "error: cannot grant access to '/nonexistent/out': No such file or directory (os error 2)\nhint: create it, or take it out of the policy's lists";
        assert_eq!(a.str("text"), text, "{}", a.show());
    }
}

#[test]
fn help_and_unknown_verbs_are_answered() {
    let said = |words: &[&str]| {
        let done =
            std::process::Command::new(crate::harness::binary()).args(words).output().expect("guardexec");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.code(), text(&done.stdout), text(&done.stderr))
    };
    assert_eq!(said(&["help"]), said(&["--help"]));
    assert_eq!(said(&["help", "check"]), said(&["check", "--help"]));
    assert_eq!(said(&["help", "audit", "verify"]), said(&["audit", "verify", "--help"]));
    assert!(said(&["help", "check"]).1.contains(" check [OPTIONS] [FILE]..."));
    let (status, _, stderr) = said(&["--output", "text", "--", "help"]);
    assert!(status == Some(125) && stderr.contains("policy"), "a program called help: {stderr}");
    let (status, _, stderr) = said(&["chek", "p.toml"]);
    assert_eq!(status, Some(125));
    assert!(
        stderr.contains("the verbs are check, explain, tools, rates, approvals, session, audit"),
        "{stderr}"
    );
    let (status, _, stderr) = said(&["-p", "p.toml", "audit", "verify", "/nonexistent/audit.jsonl"]);
    assert_eq!(
        (status, stderr.as_str()),
        (
            Some(1),
            "guardexec: /nonexistent/audit.jsonl: cannot be opened: No such file or directory (os error 2)\n"
        )
    );
}
