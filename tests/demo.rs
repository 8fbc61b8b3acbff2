//! The calls of the demo, word for word, under the shipped policy.

use std::fs;
use std::path::Path;

use crate::harness::Bench;

/// The shipped demo policy and what belongs to it, with an audit file of the test's own, as a call.
fn demo<'b>(bench: &'b Bench, extra: &str) -> crate::harness::Call<'b> {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
    for name in ["confirm", "projectctl"] {
        let text = fs::read_to_string(shipped.join("demo").join(name)).expect("shipped with the demo");
        bench.script(&format!("demo/{name}"), &text);
    }
    fs::create_dir_all(bench.dir.join("demo/projects")).expect("the projects");
    for dir in ["demo", "demo/projects"] {
        bench.give(&bench.dir.join(dir));
    }
    let mut text = fs::read_to_string(shipped.join("demo.toml")).expect("the demo policy");
    text.push_str(extra);
    bench.policy(&text)
}

/// A project of the demo's, whose directory is given back.
fn project(bench: &Bench, name: &str) -> std::path::PathBuf {
    let dir = bench.dir.join("demo/projects").join(name);
    fs::create_dir_all(&dir).expect("a project");
    fs::write(dir.join("README"), "content").expect("its file");
    bench.give(&dir);
    bench.give(&dir.join("README"));
    dir
}

/// The event and, where there is one, the reason of every record.
fn told(answer: &crate::harness::Answer) -> Vec<(String, String)> {
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    answer.audit.iter().map(|r| (word(&r["event"]), word(&r["reason"]))).collect()
}

as_both! {
    fn a_project_that_the_person_does_not_confirm_stays(bench) {
        let call = demo(bench, "");
        let kept = project(bench, "acme-prod");
        let answer = call.opt(["--tool", "delete_project", "--arg", "name=acme-prod"]).finish();
        answer.denied("blocked: confirmation for 'delete_project' denied");
        assert_eq!(answer.str("stage"), "approval");
        assert!(kept.join("README").exists());
        let told = told(&answer);
        assert_eq!(told.iter().map(|(event, _)| event.as_str()).collect::<Vec<_>>(), ["approval", "decision"], "{}", answer.show());
        assert_eq!(told[0].1, "only scratch projects may be deleted");
        assert_eq!(answer.audit[0]["state"], "declined");
        assert!(answer.audit[0]["by"].as_str().is_some_and(|by| by.ends_with("/demo/confirm'")), "{}", answer.show());
        assert_eq!(answer.audit[1]["tool"], serde_json::json!({"name": "delete_project", "arguments": {"name": "acme-prod"}}));
    }
}

as_both! {
    fn a_scratch_project_is_deleted(bench) {
        let call = demo(bench, "");
        let gone = project(bench, "scratch-42");
        let answer = call.opt(["--tool", "delete_project", "--arg", "name=scratch-42"]).finish();
        answer.ok("deleted project scratch-42\n");
        assert!(!gone.exists());
        let told = told(&answer);
        assert_eq!(told.iter().map(|(event, _)| event.as_str()).collect::<Vec<_>>(), ["approval", "decision", "outcome"], "{}", answer.show());
        assert_eq!((&answer.audit[0]["state"], told[0].1.as_str()), (&"approved".into(), "a scratch project"));
    }
}

as_both! {
    fn a_tool_that_the_policy_lacks_and_names_that_no_tool_takes(bench) {
        let answer = demo(bench, "").opt(["--tool", "write_file", "--arg", "path=x"]).finish();
        answer.denied("blocked: tool 'write_file' is not in the allowlist ['delete_project', 'shell']");
        assert_eq!((answer.str("stage"), answer.audit.len()), ("command", 1));
        for name in ["../acme-prod", "Scratch-1", "scratch-1/..", ""] {
            let argument = format!("name={name}");
            let answer = demo(bench, "").opt(["--tool", "delete_project", "--arg", &argument]).finish();
            assert!(answer.str("text").starts_with("validation error: "), "{}", answer.show());
            assert_eq!((answer.status(), answer.exit, answer.str("stage")), ("denied", 126, "arguments"), "{}", answer.show());
        }
    }
}

as_both! {
    fn a_tool_of_that_name_is_one_exact_command(bench) {
        let answer = demo(bench, "").opt(["--tool", "shell"]).finish();
        assert!(answer.str("stdout").starts_with("Linux "), "{}", answer.show());
        let answer = demo(bench, "").opt(["--tool", "shell", "--arg", "command=rm -rf /"]).finish();
        assert!(answer.str("text").starts_with("validation error: "), "{}", answer.show());
    }
}

as_both! {
    fn a_name_the_policy_lacks(bench) {
        let answer = demo(bench, "").run(["whoami"]);
        answer.denied("blocked: command 'whoami' is not in the allowlist ['date', 'echo', 'uname']");
        assert_eq!(answer.audit.len(), 1);
        assert_eq!((answer.audit[0]["event"].as_str(), answer.audit[0]["decision"].as_str()), (Some("decision"), Some("deny")));
        assert_eq!(answer.str("stage"), "command");
    }
}

as_both! {
    fn rm_in_a_command_string(bench) {
        let answer = demo(bench, "").command("rm -rf /");
        answer.denied("blocked: command 'rm' is not in the allowlist ['date', 'echo', 'uname']");
        assert_eq!(answer.audit[0]["argv"], serde_json::json!(["rm", "-rf", "/"]));
    }
}

as_both! {
    fn a_chain_under_literal_syntax_is_one_command(bench) {
        let answer = demo(bench, "\n[command]\nsyntax = \"literal\"\n").command("uname -a; whoami");
        assert_eq!((answer.status(), answer.exit), ("nonzero_exit", 1), "{}", answer.show());
        assert_eq!(answer.json["argv"], serde_json::json!(["uname", "-a;", "whoami"]));
        assert!(answer.str("text").contains("uname: invalid option -- ';'"), "{}", answer.show());
        assert!(answer.str("text").contains("exit=1"), "{}", answer.show());
        assert_eq!(answer.audit.iter().map(|r| r["event"].as_str().unwrap_or("")).collect::<Vec<_>>(), ["decision", "outcome"]);
    }
}

as_both! {
    fn a_chain_under_the_default_syntax_is_refused(bench) {
        let answer = demo(bench, "").command("uname -a; whoami");
        answer.denied_by("command", &["blocked: ", "';'", "no shell", "two requests"]);
        assert_eq!(answer.audit.len(), 1);
    }
}

as_both! {
    fn an_unclosed_quote_cannot_be_parsed(bench) {
        let answer = demo(bench, "").command("echo \"unclosed");
        answer.error(&["error: could not parse command: "]);
        assert_eq!(answer.audit.len(), 1, "{}", answer.show());
    }
}

as_both! {
    fn uname_runs_for_real(bench) {
        let real = nix::sys::utsname::uname().expect("uname");
        let expected = format!("{} {}\n", real.sysname().to_string_lossy(), real.release().to_string_lossy());
        let answer = demo(bench, "").run(["uname", "-sr"]);
        answer.ok(&expected);
        assert_eq!(answer.str("text"), expected);
        assert_eq!(answer.json["rule"]["id"], "harmless");
        assert_eq!(answer.audit.len(), 2);
    }
}
