//! `tools` and `explain --tool`.

use serde_json::json;

use super::{TWO, showing, tool};
use crate::harness::{Answer, Bench, Call};

fn verb<'b>(call: Call<'b>, words: &[&str]) -> Answer {
    let mut call = call.opt(words);
    call.args.rotate_right(words.len());
    call.raw()
}

fn stdout(answer: &Answer) -> &str {
    std::str::from_utf8(&answer.stdout).expect("UTF-8")
}

const PROJECT: &str = "[tools.delete_project]\ndescription = \"Delete a scratch project.\"\nargv = [\"/opt/acme/bin/projectctl\", \"delete\", \"{name}\"]\n\
                       decision = \"ask\"\n[tools.delete_project.params]\nname = { type = \"string\", max_length = 64, pattern = \"[a-z0-9][a-z0-9-]*\" }\n\
                       force = { type = \"boolean\", default = false }\n";

as_both! {
    fn tools_are_listed_for_a_person_and_for_a_framework(bench) {
        let answer = verb(bench.policy(PROJECT), &["tools"]);
        assert_eq!((answer.exit, stdout(&answer)), (0, "delete_project(name: string, force: boolean = false) ask: Delete a scratch project.\n"), "{}", answer.stderr);
        let answer = verb(bench.policy(PROJECT), &["tools", "--json"]);
        assert_eq!(answer.exit, 0);
        assert_eq!(answer.json, json!([{
            "name": "delete_project",
            "description": "Delete a scratch project.",
            "decision": "ask",
            "parameters": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 64, "pattern": "^(?:[a-z0-9][a-z0-9-]*)$"},
                    "force": {"type": "boolean", "default": false},
                },
                "required": ["name"],
                "additionalProperties": false,
            },
        }]));
        assert!(answer.audit.is_empty(), "nothing is recorded");
    }
}

as_both! {
    fn tools_are_listed_as_an_asker_may_use_them(bench) {
        let names = |answer: Answer| {
            assert_eq!(answer.exit, 0, "{}", answer.stderr);
            answer.json.as_array().expect("a list").iter().map(|t| t["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
        };
        let json = ["tools", "--json"];
        assert_eq!(names(verb(bench.host(TWO), &json)), ["delete_project", "shell"]);
        let all = ["delete_project", "hidden", "shell"];
        assert_eq!(names(verb(bench.host(TWO), &["tools", "--json", "--agent", "ops/x"])), all);
        assert_eq!(names(verb(bench.host(TWO).env("GUARDEXEC_AGENT", "ops"), &json)), all);
        let answer = verb(bench.host(TWO).env("GUARDEXEC_AGENT", "dev"), &["tools", "--agent", "ops"]);
        assert_eq!((answer.exit, stdout(&answer)), (125, ""), "{}", answer.stderr);
        assert!(answer.stderr.starts_with("guardexec: error: agent 'ops' is not 'dev'"), "{}", answer.stderr);
        let other = bench.file("second.toml", format!("version = 1\n{PROJECT}").replace("ask", "allow"));
        let stacked = bench.host(TWO).opt(["--policy".as_ref(), other.as_os_str()]);
        assert_eq!(names(verb(stacked, &json)), ["delete_project"]);
        let answer = verb(bench.host("allow = [\"true\"]\n"), &["tools"]);
        assert_eq!((answer.exit, stdout(&answer)), (0, "no tools\n"));
        let answer = verb(bench.policy("tools = 1\n"), &json);
        assert_eq!((answer.exit, stdout(&answer)), (125, ""));
        assert!(answer.stderr.contains("policy.toml:"), "{}", answer.stderr);
    }
}

as_both! {
    fn explain_tells_how_a_call_would_be_decided(bench) {
        let call = || showing(bench, ", \"{v}\"", "decision = \"allow\"\nparams.v = { type = \"integer\", max_value = 9 }\n");
        let answer = verb(call(), &["explain", "--json", "--tool", "t", "--arg", "v=7"]);
        assert_eq!((answer.exit, answer.str("decision")), (0, "allow"), "{}", answer.show());
        assert_eq!((&answer.json["tool"], &answer.json["argv"][1]), (&json!({"name": "t", "arguments": {"v": 7}}), &json!("7")));
        let stages: Vec<&str> = answer.json["stages"].as_array().expect("stages").iter().filter_map(|s| s["stage"].as_str()).collect();
        for stage in ["request", "arguments", "command", "program", "environment", "cwd", "limits", "decision", "sandbox"] {
            assert!(stages.contains(&stage), "{stage} in {stages:?}");
        }
        let answer = verb(call(), &["explain", "--tool", "t", "--arg", "v=10"]);
        assert_eq!(answer.exit, 126);
        assert!(stdout(&answer).contains("validation error: argument 'v' '10' is more than max_value 9\n"), "{}", stdout(&answer));
        let answer = verb(call(), &["explain", "--tool", "x"]);
        assert!(answer.exit == 126 && stdout(&answer).contains("blocked: tool 'x' is not in the allowlist ['t']\n"), "{}", stdout(&answer));
        assert!(answer.audit.is_empty() && !bench.dir.join("audit.jsonl").exists(), "nothing is recorded");
    }
}

as_both! {
    fn explain_does_no_action(bench) {
        std::fs::create_dir(bench.dir.join("files")).expect("mkdir");
        bench.give(&bench.dir.join("files"));
        let policy = "[tools.write_file]\naction = \"write_file\"\nroot = \"./files\"\ndecision = \"allow\"\n";
        let answer = verb(bench.policy(policy), &["explain", "--tool", "write_file", "--arg", "path=a", "--arg", "content=x"]);
        assert_eq!(answer.exit, 0, "{}", stdout(&answer));
        assert!(stdout(&answer).contains("command    is: write_file 'a'"), "{}", stdout(&answer));
        assert!(!bench.dir.join("files/a").exists());
        assert_eq!(tool(bench.policy(policy), "write_file", &["path=a", "content=x"]).exit, 0);
    }
}

#[test]
fn a_verb_is_found_before_its_words() {
    if let Some(bench) = Bench::new(crate::harness::As::User) {
        let answer = verb(bench.host(TWO), &["tools", "--no-such"]);
        assert_eq!(answer.exit, 125);
    }
}
