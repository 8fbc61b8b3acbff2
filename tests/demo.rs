//! The calls of the demo, word for word, under the shipped policy.

use std::fs;
use std::path::Path;

use crate::harness::Bench;

/// The shipped demo policy with an audit file of the test's own, as a call.
fn demo<'b>(bench: &'b Bench, extra: &str) -> crate::harness::Call<'b> {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/demo.toml");
    let mut text = fs::read_to_string(shipped).expect("the demo policy");
    text.push_str(extra);
    bench.policy(&text)
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
