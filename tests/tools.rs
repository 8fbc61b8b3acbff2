//! Typed tools through the real binary: what a call is, what it becomes, what it is told.

mod actions;
mod offered;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::{Answer, Bench, Call};

/// Prints how many words it was given and each of them between marks.
const SHOW: &str = "#!/bin/sh\nprintf '%s' \"$#\"\nfor word; do printf '<%s>' \"$word\"; done\n";

/// A call of a tool from the command line.
pub(super) fn tool<'b>(call: Call<'b>, name: &str, args: &[&str]) -> Answer {
    let args = args.iter().flat_map(|arg| ["--arg", arg]);
    call.opt(["--tool", name]).opt(args).finish()
}

/// The same as a JSON request.
pub(super) fn request(call: Call<'_>, name: &str, arguments: &Value) -> Answer {
    let text = json!({ "tool": name, "arguments": arguments }).to_string();
    call.opt(["--request", "-"]).stdin(text).finish()
}

/// What is asked about is filed: in a store of the test's own.
pub(super) fn filing(call: Call<'_>) -> Call<'_> {
    let state = call.bench.dir.join("state");
    fs::create_dir_all(&state).expect("mkdir");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).expect("chmod");
    call.bench.give(&state);
    call.opt(["--state".as_ref(), state.as_os_str()])
}

fn show(bench: &Bench) -> PathBuf {
    bench.script("bin/show", SHOW)
}

/// A policy with one tool `t` that shows its words; `rest` are the words after the program and the keys after that.
fn showing<'b>(bench: &'b Bench, words: &str, rest: &str) -> Call<'b> {
    let program = show(bench);
    let argv = format!("argv = [{:?}{words}]", program.display());
    bench.host(&format!("[tools.t]\ndescription = \"Show.\"\n{argv}\n{rest}\n"))
}

const TWO: &str = "[tools.delete_project]\nargv = [\"true\"]\ndecision = \"allow\"\ndescription = \"d\"\n[tools.shell]\nargv = \
                   [\"true\"]\ndecision = \"allow\"\ndescription = \"s\"\n[tools.hidden]\nargv = [\"true\"]\ndecision = \
                   \"allow\"\ndescription = \"h\"\nagents = [\"ops\"]\n[tools.never]\nargv = [\"true\"]\ndecision = \
                   \"deny\"\nreason = \"not here\"\ndescription = \"n\"\n";

as_both! {
    fn an_unknown_tool_is_told_what_there_is(bench) {
        let sentence = "blocked: tool 'write_file' is not in the allowlist ['delete_project', 'shell']";
        for answer in [tool(bench.host(TWO), "write_file", &["path=x"]), request(bench.host(TWO), "write_file", &json!({"path": "x"}))] {
            answer.denied(sentence);
            assert_eq!(answer.str("stage"), "command");
            assert_eq!(answer.stderr, format!("guardexec: {sentence}\n"));
            assert_eq!(answer.json["tool"], json!({"name": "write_file", "arguments": {"path": "x"}}));
            assert_eq!(answer.audit[0]["tool"], answer.json["tool"], "{}", answer.show());
            assert!(answer.json["argv"].is_null());
        }
        tool(bench.host(TWO), "hidden", &[]).denied("blocked: tool 'hidden' is not in the allowlist ['delete_project', 'shell']");
        let ops = || bench.host(TWO).opt(["--agent", "ops/x"]);
        tool(ops(), "x", &[]).denied("blocked: tool 'x' is not in the allowlist ['delete_project', 'hidden', 'shell']");
        tool(ops(), "hidden", &[]).ok("");
        let answer = tool(bench.host(TWO), "never", &[]);
        answer.denied_by("command", &["blocked: tool 'never' (", "policy.toml:", "): not here is denied\nhint: "]);
        tool(bench.host("allow = [\"true\"]\n"), "true", &[]).denied("blocked: tool 'true' is not in the allowlist []");
        // A tool is no command and a command is no tool.
        bench.host(TWO).run(["shell"]).denied_by("command", &["command 'shell' is not in the allowlist []"]);
        bench.host(TWO).run(["true"]).denied_by("command", &["command 'true' is not in the allowlist []"]);
    }
}

as_both! {
    fn a_value_is_one_word_whatever_it_holds(bench) {
        let big = "x".repeat(100 << 10);
        let params = "decision = \"allow\"\nparams.v = { type = \"string\" }\nparams.l = { type = \"array\", required = false }\n";
        let call = || showing(bench, ", \"--\", \"{v}\", \"k={v}\", \"{l}\"", params);
        let values = [
            "a b", "  ", "", "'", "\"", "$(touch ran)", "`touch ran`", "; touch ran", "| touch ran", "&& touch ran", "a\nb", "\r\n\t",
            "-rf", "--", "--help", "{v}", "{l}", "*", "~", "$HOME", "\\", "%s%n", "\u{202e}\u{200b}", "é", "\u{1b}[2K", big.as_str(),
        ];
        for value in values {
            let shown = format!("3<--><{value}><k={value}>");
            for answer in [request(call(), "t", &json!({"v": value})), tool(call(), "t", &[&format!("v={value}")])] {
                let kept = answer.str("stdout").to_owned();
                if value.len() < 1000 {
                    answer.ok(&shown);
                    assert_eq!(answer.json["tool"]["arguments"], json!({"v": value}));
                } else {
                    assert_eq!((answer.status(), answer.json["stdout_bytes"].as_u64()), ("ok", Some(shown.len() as u64)), "{kept}");
                    assert_eq!(answer.json["tool"]["arguments"]["v"]["bytes"], value.len());
                }
                assert_eq!(answer.json["argv"][2], value);
            }
            if value.len() < 1000 {
                let shown = format!("5<--><x><k=x><{value}><{value}>");
                request(call(), "t", &json!({"v": "x", "l": [value, value]})).ok(&shown);
                let pair = format!("l={value}");
                tool(call(), "t", &[&pair, "v=x", &pair]).ok(&shown);
            }
        }
        request(call(), "t", &json!({"v": "x", "l": []})).ok("3<--><x><k=x>");
        assert!(!bench.work().join("ran").exists());
        let long = "x".repeat(131_072);
        request(call(), "t", &json!({"v": long})).denied_by("arguments", &["blocked: argument 2 is 131072 bytes long"]);
        request(call(), "t", &json!({"v": "a\0b"})).denied("validation error: argument 'v' holds a NUL byte, which no tool takes\nhint: correct what is named here and call the tool again; everything else was accepted");
    }
}

const TYPED: &str = "decision = \"allow\"\n[tools.t.params]\nname = { type = \"string\", max_length = 8, pattern = '[a-z0-9][a-z0-9-]*' }\n\
                     count = { type = \"integer\", min_value = 1, max_value = 9, default = 2 }\nratio = { type = \"number\", required = false }\n\
                     dry = { type = \"boolean\", default = false }\ntags = { type = \"array\", max_length = 2, choices = [\"a\", \"b\"], required = false }\n";
const WORDS: &str = ", \"{name}\", \"-n{count}\", \"--ratio={ratio}\", \"--dry={dry}\", \"{tags}\"";

as_both! {
    fn arguments_are_converted_defaulted_and_judged(bench) {
        let call = || showing(bench, WORDS, TYPED);
        tool(call(), "t", &["name=x"]).ok("3<x><-n2><--dry=false>");
        tool(call(), "t", &["name=x", "count=7", "ratio=0.50", "dry=true", "tags=a", "tags=b"]).ok("6<x><-n7><--ratio=0.5><--dry=true><a><b>");
        let answer = request(call(), "t", &json!({"name": "x", "count": 7, "ratio": 2.0, "dry": true, "tags": ["a"]}));
        answer.ok("5<x><-n7><--ratio=2><--dry=true><a>");
        assert_eq!(answer.json["tool"]["arguments"], json!({"name": "x", "count": 7, "ratio": 2, "dry": true, "tags": ["a"]}));
        assert_eq!((answer.json["rule"]["id"].as_str(), answer.str("reason")), (Some("t"), "tool 't' is allowed"));
        let hint = "\nhint: correct what is named here and call the tool again; everything else was accepted";
        let refused = |answer: Answer, sentence: &str| {
            answer.denied(&format!("validation error: {sentence}{hint}"));
            assert_eq!((answer.str("stage"), answer.str("decision")), ("arguments", "deny"));
            assert!(answer.stderr.starts_with(&format!("guardexec: validation error: {sentence} (")) && answer.stderr.contains("policy.toml:"), "{}", answer.stderr);
        };
        refused(
            tool(call(), "t", &["name=Much Too Long", "count=12", "ratio=1e3", "dry=yes", "tags=c", "colour=red", "tags=a", "tags=a"]),
            "argument 'name' 'Much Too Long' is 13 bytes long, more than max_length 8; argument 'name' 'Much Too Long' does not match the pattern \
             '[a-z0-9][a-z0-9-]*' as a whole; argument 'count' '12' is more than max_value 9; argument 'ratio' must be a number in plain digits (such as 7, \
             -2 or 0.5), not '1e3'; argument 'dry' must be true or false, not 'yes'; argument 'tags' has 3 elements, more than max_length 2; element 1 of \
             argument 'tags' 'c' is not one of ['a', 'b']; argument 'colour' is unknown; the tool takes ['name', 'count', 'ratio', 'dry', 'tags']",
        );
        refused(request(call(), "t", &json!({})), "argument 'name' is missing");
        refused(
            request(call(), "t", &json!({"name": 1, "count": "3", "ratio": null, "dry": 0, "tags": "a"})),
            "argument 'name' must be a text, not 1; argument 'count' must be a whole number, not a text; argument 'ratio' must be a number, not null; \
             argument 'dry' must be true or false, not 0; argument 'tags' must be a list of texts, not a text",
        );
        for (text, shown) in [("1.0", "1.0"), ("-0", "-0.0"), ("1e0", "1.0"), ("true", "true")] {
            let text = format!("{{\"tool\":\"t\",\"arguments\":{{\"name\":\"x\",\"count\":{text}}}}}");
            refused(call().opt(["--request", "-"]).stdin(text).finish(), &format!("argument 'count' must be a whole number, not {shown}"));
        }
        refused(tool(call(), "t", &["name=a", "name=a"]), "argument 'name' is given 2 times and takes one value");
        refused(tool(call(), "t", &["name=a", "count=+3"]), "argument 'count' must be a whole number in plain digits (such as 7 or -2), not '+3'");
        // Said on one line and escaped wherever a person reads it.
        refused(tool(call(), "t", &["name=\u{202e}\n\u{1b}"]), "argument 'name' '\\u{202e}\\n\\x1b' does not match the pattern '[a-z0-9][a-z0-9-]*' as a whole");
    }
}

as_both! {
    fn a_value_cannot_become_a_flag(bench) {
        let params = "decision = \"allow\"\nparams.v = { type = \"string\" }\n";
        let call = |words: &str| showing(bench, words, params);
        let sentence = "validation error: argument 'v' makes the word '-rf', which the program would take for a flag";
        for words in [", \"{v}\"", ", \"{v}\", \"--\"", ", \"-x\", \"{v}\""] {
            assert_eq!(tool(call(words), "t", &["v=-rf"]).denied_by("arguments", &[sentence]).exit, 126);
        }
        tool(call(", \"--\", \"{v}\""), "t", &["v=-rf"]).ok("2<--><-rf>");
        tool(call(", \"--x={v}\""), "t", &["v=-rf"]).ok("1<--x=-rf>");
        let chosen = "decision = \"allow\"\nparams.v = { type = \"string\", choices = [\"-a\", \"-b\"] }\n";
        tool(showing(bench, ", \"{v}\"", chosen), "t", &["v=-a"]).ok("1<-a>");
        let number = |min: &str| format!("decision = \"allow\"\nparams.v = {{ type = \"integer\"{min} }}\n");
        tool(showing(bench, ", \"{v}\"", &number("")), "t", &["v=-1"]).denied_by("arguments", &["'-1', which the program would take"]);
        tool(showing(bench, ", \"{v}\"", &number(", min_value = -1")), "t", &["v=-1"]).ok("1<-1>");
    }
}

as_both! {
    fn a_tool_says_what_of_its_command_comes_back(bench) {
        let script = bench.script("bin/both", "#!/bin/sh\necho out\necho err >&2\nexit ${1:-0}\n");
        let call = |keys: &str| bench.host(&format!(
            "[tools.t]\ndescription = \"d\"\nargv = [{:?}, \"{{code}}\"]\ndecision = \"allow\"\nparams.code = {{ type = \"integer\", default = 0 }}\n{keys}\n",
            script.display()
        ));
        for (keys, text) in [("", "out\nerr\n"), ("output = \"stdout\"", "out\n"), ("output = \"none\"", "(exit=0, output not shown)")] {
            let answer = tool(call(keys), "t", &[]);
            assert_eq!((answer.status(), answer.str("text")), ("ok", text), "{}", answer.show());
            assert_eq!((answer.str("stdout"), answer.str("stderr")), ("out\n", "err\n"));
        }
        for (keys, text) in [("", "out\nerr\nexit=3"), ("output = \"stdout\"", "out\nexit=3"), ("output = \"none\"", "(exit=3, output not shown)")] {
            let answer = tool(call(keys), "t", &["code=3"]);
            assert_eq!((answer.status(), answer.exit, answer.str("text")), ("nonzero_exit", 3, text), "{}", answer.show());
        }
        let answer = tool(call("check_exit = true\noutput = \"stdout\""), "t", &["code=3"]);
        assert_eq!((answer.status(), answer.exit, answer.json["exit_code"].as_u64()), ("error", 125, Some(3)), "{}", answer.show());
        assert_eq!(answer.str("text"), "error: tool 't' failed with exit status 3\nout\nexit=3");
        assert_eq!(answer.json["error"]["kind"], "tool_exit");
        assert_eq!(answer.audit.last().expect("an outcome")["status"], "error");
        tool(call("check_exit = true\noutput = \"stdout\""), "t", &[]);
        let answer = tool(call("check_exit = true"), "t", &[]);
        assert_eq!((answer.status(), answer.exit), ("ok", 0), "{}", answer.show());
    }
}

as_both! {
    fn a_tool_can_make_the_standard_input(bench) {
        let policy = "[tools.t]\ndescription = \"d\"\nargv = [\"cat\"]\nstdin = \"{content}!\"\ndecision = \"allow\"\nparams.content = { type = \"string\" }\n";
        let content = "$(touch ran)\n'\"\u{202e}";
        let answer = request(bench.host(policy), "t", &json!({ "content": content }));
        answer.ok(&format!("{content}!"));
        assert_eq!(answer.json["tool"]["arguments"]["content"]["bytes"], content.len());
        // What goes to standard input is in no record.
        assert!(!format!("{:?}", answer.audit).contains("touch"), "{}", answer.show());
        let long = "x".repeat(1 << 20);
        assert_eq!(request(bench.host(policy), "t", &json!({ "content": long })).json["stdout_bytes"], (1 << 20) + 1);
        let sentence = "blocked: tool 't' makes its own standard input\nhint: leave stdin out; the tool's parameters say what it reads";
        let with = json!({"tool": "t", "arguments": {"content": "x"}, "stdin": "y"}).to_string();
        bench.host(policy).opt(["--request", "-"]).stdin(with).finish().denied(sentence);
        tool(bench.host(policy).opt(["--stdin", "/etc/hostname"]), "t", &["content=x"]).denied(sentence);
        assert!(!bench.work().join("ran").exists());
    }
}

as_both! {
    fn stacked_policies_all_judge_a_call(bench) {
        let show = show(bench);
        let of = |words: &str, params: &str| format!("[tools.t]\ndescription = \"d\"\nargv = [{:?}, {words}]\ndecision = \"allow\"\nparams.v = {params}\n", show.display());
        let stacked = |first: &str, second: &str| {
            let other = bench.file("second.toml", format!("version = 1\n{second}\n[sandbox]\nprofile = \"host\"\n"));
            bench.host(first).opt(["--policy".as_ref(), other.as_os_str()])
        };
        let open = of("\"{v}\"", "{ type = \"string\" }");
        let tight = of("\"{v}\"", "{ type = \"string\", choices = [\"a\"] }");
        tool(stacked(&open, &tight), "t", &["v=a"]).ok("1<a>");
        tool(stacked(&open, &tight), "t", &["v=b"]).denied_by("arguments", &["validation error: argument 'v' 'b' is not one of ['a']"]);
        tool(stacked(&open, "allow = [\"true\"]"), "t", &["v=a"]).denied("blocked: tool 't' is not in the allowlist []");
        let answer = tool(stacked(&open, &of("\"x{v}\"", "{ type = \"string\" }")), "t", &["v=a"]);
        answer.denied_by("arguments", &["blocked: tool 't' comes to different things in two of the policies (", "policy.toml:", "second.toml:"]);
        tool(stacked(&open, &format!("deny = [\"show\"]\n{open}")), "t", &["v=a"]).denied_by("command", &["blocked: command '", "/bin/show' is denied by rule 'deny:show' ("]);
        let ask = "[[rule]]\nid = \"look\"\nprogram = \"SHOW\"\ndecision = \"ask\"\nreason = \"look first\"\noperands = [{ choices = [\"a\"] }]\n".replace("SHOW", &show.display().to_string());
        let answer = tool(filing(stacked(&open, &format!("{open}{ask}"))), "t", &["v=a"]);
        assert_eq!((answer.status(), answer.exit, answer.str("reason")), ("needs_approval", 75, "look first"), "{}", answer.show());
        tool(stacked(&open, &format!("{open}{ask}")), "t", &["v=b"]).ok("1<b>");
    }
}

as_both! {
    fn a_tool_asks_by_itself_and_above_a_figure(bench) {
        let call = |decision: &str| showing(bench, ", \"{amount}\"", &format!("decision = \"{decision}\"\nparams.amount = {{ type = \"number\", ask_above = 100 }}\n"));
        tool(call("allow"), "t", &["amount=100"]).ok("1<100>");
        let answer = tool(filing(call("allow")), "t", &["amount=100.5"]);
        assert_eq!((answer.status(), answer.exit, answer.str("decision")), ("needs_approval", 75, "ask"), "{}", answer.show());
        assert!(answer.str("text").contains("argument 'amount' is 100.5, more than ask_above 100"), "{}", answer.str("text"));
        answer.nothing_ran();
        let answer = tool(filing(call("ask")), "t", &["amount=1"]);
        assert_eq!((answer.status(), answer.str("reason")), ("needs_approval", "tool 't' wants a person to approve it"), "{}", answer.show());
    }
}

as_both! {
    fn all_else_is_as_for_a_rule(bench) {
        // Confined, with its own limits, from another directory, with what the environment passes.
        let policy = "[tools.here]\ndescription = \"d\"\nargv = [\"pwd\"]\ndecision = \"allow\"\n[tools.wait]\ndescription = \"d\"\nargv = [\"sleep\", \"{n}\"]\n\
                      decision = \"allow\"\nlimits = { wall_time = \"200ms\" }\nparams.n = { type = \"integer\", min_value = 0 }\n[tools.gone]\ndescription = \"d\"\n\
                      argv = [\"no-such-program\"]\ndecision = \"allow\"\n[filesystem]\ncwd = [\"./work\"]\n";
        fs::create_dir(bench.work().join("sub")).expect("mkdir");
        bench.give(&bench.work().join("sub"));
        let here = bench.work().join("sub").display().to_string();
        let answer = tool(bench.policy(policy).opt(["--cwd", "sub"]), "here", &[]);
        answer.ok(&format!("{here}\n"));
        assert_eq!(answer.json["sandbox"]["profile"], "strict");
        tool(bench.policy(policy).opt(["--cwd", "/etc"]), "here", &[]).denied_by("arguments", &["'/etc'"]);
        let answer = tool(bench.policy(policy), "wait", &["n=30"]);
        assert_eq!((answer.status(), answer.exit, answer.str("text")), ("timeout", 124, "error: timed out after 200ms"), "{}", answer.show());
        let answer = tool(bench.policy(policy), "gone", &[]);
        assert_eq!((answer.status(), answer.exit), ("not_found", 127), "{}", answer.show());
        let switch = bench.file("switch", "wait  # too slow\n");
        let policy = format!("{policy}[kill_switch]\nfile = {:?}\n", switch.display());
        tool(bench.policy(&policy), "wait", &["n=0"]).denied_by("kill_switch", &["too slow"]);
        tool(bench.policy(&policy), "here", &[]).ok(&format!("{}\n", bench.work().display()));
    }
}

as_both! {
    fn secrets_among_the_arguments_are_masked_in_the_record(bench) {
        let params = "decision = \"allow\"\nparams.password = { type = \"string\" }\nparams.n = { type = \"integer\", default = 1 }\n";
        let answer = tool(showing(bench, ", \"--password={password}\"", params), "t", &["password=hunter22"]);
        answer.ok("1<--password=hunter22>");
        let line = format!("{:?}", answer.audit);
        assert!(!line.contains("hunter22") && line.contains("[masked]"), "{line}");
        assert_eq!(answer.json["tool"]["arguments"]["password"], "hunter22", "the caller knows it");
        let answer = tool(showing(bench, ", \"--password={password}\"", params), "t", &["password=hunter22", "n=x"]);
        assert!(!format!("{:?}", answer.audit).contains("hunter22"), "{}", answer.show());
    }
}
