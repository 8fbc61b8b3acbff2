//! Requests: what checks are told, which verdict wins, and how rewriting comes to rest.

use super::*;
use crate::request::{Ask, Request};

const ON: CheckOn = CheckOn::Request;

/// Keeps what it read beside itself, and passes.
fn recording(bench: &Bench, name: &str) -> Check {
    let file = bench.path(&format!("{name}.json"));
    script(bench, name, ON, &format!("cat >{file}\necho '{{\"verdict\": \"pass\"}}'"))
}

fn recorded(bench: &Bench, name: &str) -> Value {
    serde_json::from_slice(&fs::read(bench.path(&format!("{name}.json"))).unwrap()).unwrap()
}

#[test]
fn a_check_is_told_all_of_the_request_and_no_secret() {
    apart(|bench| {
        let checks = [recording(bench, "first")];
        let argv = [OsString::from("ls"), OsStr::from_bytes(b"\xff\0".split_at(1).0).to_owned()];
        let rule = RuleRef { id: "ls".into(), at: place(12) };
        let asker = asker();
        let subject = Subject { rule: Some(&rule), command: Some(b"ls \xff"), ..subject(&argv, &asker) };
        let next = Rounds::default().judge(&asked(&checks), &subject, &facts(), None);
        assert_eq!(next, Next::Settled(Ruling::Pass));
        let expected = json!({
            "schema": "guardexec.check/v1", "check": "first", "on": "request", "run_id": "01J",
            "rule": {"id": "ls", "file": "/etc/guardexec/policy.toml", "line": 12},
            "tool": null, "arguments": null,
            "argv": ["ls", "\u{fffd}"], "argv_base64": ["bHM=", "/w=="],
            "command": "ls \u{fffd}", "command_base64": "bHMg/w==", "cwd": "/srv", "cwd_base64": null,
            "agent": "lead/builder", "session": "s-1", "labels": {"ticket": "4"}, "why": "to see", "policy": [],
        });
        assert_eq!(recorded(bench, "first"), expected);
    });
}

#[test]
fn of_a_tool_it_is_told_the_name_and_the_arguments() {
    apart(|bench| {
        let checks = [recording(bench, "tool")];
        let (asker, argv) = (Asker::default(), words("/opt/ctl delete x"));
        let arguments = json!({"name": "x", "n": 3}).as_object().cloned().unwrap();
        let subject = Subject { tool: Some("delete"), arguments: Some(&arguments), ..subject(&argv, &asker) };
        Rounds::default().judge(&asked(&checks), &subject, &facts(), None);
        let read = recorded(bench, "tool");
        assert_eq!((&read["tool"], &read["arguments"]), (&json!("delete"), &json!({"name": "x", "n": 3})));
        assert_eq!(
            (&read["argv"], &read["argv_base64"]),
            (&json!(["/opt/ctl", "delete", "x"]), &Value::Null)
        );
        assert_eq!(
            (&read["agent"], &read["why"], &read["command"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
    });
}

#[test]
fn the_strictest_verdict_wins() {
    apart(|bench| {
        let say =
            |name: &str| says(bench, name, ON, &json!({"verdict": name, "reason": format!("{name} it")}));
        let (pass, warn, ask, block) = (say("pass"), say("warn"), say("ask"), say("block"));
        assert_eq!(ruling(&[]), Ruling::Pass);
        let mut rounds = Rounds::default();
        let checks = [warn.clone(), pass.clone()];
        assert_eq!(round(&mut rounds, &checks, &words("ls")), Next::Settled(Ruling::Pass));
        assert_eq!(rounds.warnings, ["check 'warn' warns: warn it"]);
        assert_eq!(verdicts(&rounds.findings), [("warn", "warn"), ("pass", "pass")]);
        let Ruling::Ask(objection) = ruling(&[warn, ask.clone(), pass]) else { panic!() };
        assert_eq!(objection.sentence(), "check 'ask' wants a person to decide: ask it");
        let objection = blocked(ruling(&[ask, block]));
        assert_eq!(objection.sentence(), "check 'block' blocks this: block it");
        assert!(!objection.failed);
    });
}

#[test]
fn of_several_objections_the_most_severe_is_shown() {
    apart(|bench| {
        let block = |name: &str| says(bench, name, ON, &json!({"verdict": "block", "reason": name}));
        let checks = [
            severe(block("low"), Severity::Low),
            severe(block("high"), Severity::High),
            severe(block("also-high"), Severity::High),
        ];
        let objection = blocked(ruling(&checks));
        assert_eq!((objection.check.as_str(), objection.severity), ("high", Severity::High));
    });
}

#[test]
fn those_that_do_not_rewrite_run_side_by_side() {
    apart(|bench| {
        let (a, b) = (bench.path("a"), bench.path("b"));
        for fifo in [&a, &b] {
            nix::unistd::mkfifo(fifo.as_str(), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        }
        let checks = [
            script(bench, "one", ON, &format!("echo >{a}; read x <{b}; echo '{{\"verdict\": \"pass\"}}'")),
            script(bench, "two", ON, &format!("read x <{a}; echo >{b}; echo '{{\"verdict\": \"pass\"}}'")),
        ];
        assert_eq!(ruling(&checks), Ruling::Pass);
    });
}

/// Adds a word to `argv`, unless it is there.
fn adds(bench: &Bench, word: &str) -> Check {
    let file = bench.path(&format!("{word}.json"));
    let body = format!(
        "cat >{file}\nargv=$(sed 's/.*\"argv\":\\(\\[[^]]*\\)\\].*/\\1/' {file})\n\
         case $argv in *'\"{word}\"'*) echo '{{\"verdict\": \"pass\"}}';;\n\
         *) echo \"{{\\\"verdict\\\": \\\"rewrite\\\", \\\"reason\\\": \\\"adds {word}\\\", \\\"replacement\\\": {{\\\"argv\\\": $argv, \\\"{word}\\\"]}}}}\";;\nesac"
    );
    rewriting(script(bench, word, ON, &body))
}

#[test]
fn those_that_rewrite_run_in_order_each_on_what_the_last_one_made_and_all_is_judged_again() {
    apart(|bench| {
        // The last one to stand is the first to be asked: it does not rewrite.
        let checks = [adds(bench, "-a"), adds(bench, "-b"), recording(bench, "plain")];
        let mut rounds = Rounds::default();
        let Next::Again(replacement) = round(&mut rounds, &checks, &words("ls")) else { panic!() };
        assert_eq!(replacement, Replacement::Argv(words("ls -a -b")));
        assert_eq!(recorded(bench, "plain")["argv"], json!(["ls"]));
        assert_eq!(recorded(bench, "-b")["argv"], json!(["ls", "-a"]));
        assert_eq!(
            rounds.warnings,
            ["check '-a' rewrote the request: adds -a", "check '-b' rewrote the request: adds -b"]
        );
        // Judged again, all of them see what will run.
        assert_eq!(round(&mut rounds, &checks, &words("ls -a -b")), Next::Settled(Ruling::Pass));
        for name in ["plain", "-a", "-b"] {
            assert_eq!(recorded(bench, name)["argv"], json!(["ls", "-a", "-b"]), "{name}");
        }
        assert_eq!(
            verdicts(&rounds.findings),
            [
                ("plain", "pass"),
                ("-a", "rewrite"),
                ("-b", "rewrite"),
                ("plain", "pass"),
                ("-a", "pass"),
                ("-b", "pass")
            ]
        );
    });
}

#[test]
fn a_block_ends_it_before_anything_is_rewritten() {
    apart(|bench| {
        let block = |name: &str| says(bench, name, ON, &json!({"verdict": "block", "reason": "no"}));
        let checks = [adds(bench, "-a"), block("plain")];
        assert_eq!(blocked(ruling(&checks)).check, "plain");
        assert!(!Path::new(&bench.path("-a.json")).exists(), "the one that rewrites was not asked");
        // The same among those that rewrite: what came before is dropped, what comes after is not asked.
        let checks = [adds(bench, "-b"), rewriting(block("second")), adds(bench, "-c")];
        assert_eq!(blocked(ruling(&checks)).check, "second");
        assert!(Path::new(&bench.path("-b.json")).exists() && !Path::new(&bench.path("-c.json")).exists());
    });
}

#[test]
fn a_rewritten_request_is_asked_about_when_it_has_come_to_rest() {
    apart(|bench| {
        let checks = [
            script(
                bench,
                "asks-once",
                ON,
                "case $(cat) in *-a*) echo '{\"verdict\": \"pass\"}';; *) echo '{\"verdict\": \"ask\", \"reason\": \"hm\"}';; esac",
            ),
            adds(bench, "-a"),
        ];
        let mut rounds = Rounds::default();
        assert!(matches!(round(&mut rounds, &checks, &words("ls")), Next::Again(_)));
        let Next::Settled(Ruling::Ask(objection)) = round(&mut rounds, &checks, &words("ls -a")) else {
            panic!()
        };
        assert_eq!((objection.check.as_str(), objection.reason.as_str()), ("asks-once", "hm"));
    });
}

#[test]
fn rewriting_without_end_blocks() {
    apart(|bench| {
        let again = |argv: &[&str]| json!({"verdict": "rewrite", "replacement": {"argv": argv}});
        let checks = [
            rewriting(says(bench, "back", ON, &again(&["ls"]))),
            rewriting(says(bench, "forth", ON, &again(&["ls", "-l"]))),
        ];
        let mut rounds = Rounds::default();
        for _ in 0..MOST_REWRITES {
            assert_eq!(
                round(&mut rounds, &checks, &words("ls -l")),
                Next::Again(Replacement::Argv(words("ls -l")))
            );
        }
        let Next::Settled(ruling) = round(&mut rounds, &checks, &words("ls -l")) else { panic!() };
        let objection = blocked(ruling);
        assert!(
            objection.failed && objection.reason.contains("rewrites what it has rewritten"),
            "{objection:?}"
        );
        assert_eq!(objection.check, "forth");
        // One that always wants the same comes to rest.
        let mut rounds = Rounds::default();
        assert!(matches!(round(&mut rounds, &checks[..1], &words("ls -l")), Next::Again(_)));
        assert_eq!(round(&mut rounds, &checks[..1], &words("ls")), Next::Settled(Ruling::Pass));
    });
}

#[test]
fn of_a_tool_only_the_arguments_are_rewritten() {
    apart(|bench| {
        let to = |replacement: Value| json!({"verdict": "rewrite", "replacement": replacement});
        let (asker, argv) = (asker(), words("/opt/ctl x"));
        let arguments = json!({"name": "x"}).as_object().cloned().unwrap();
        let subject = Subject {
            tool: Some("ctl"),
            arguments: Some(&arguments),
            command: None,
            ..subject(&argv, &asker)
        };
        let judge = |checks: &[Check]| Rounds::default().judge(&asked(checks), &subject, &facts(), None);
        let file = bench.path("second.json");
        let second =
            rewriting(script(bench, "second", ON, &format!("cat >{file}\necho '{{\"verdict\": \"pass\"}}'")));
        let checks = [rewriting(says(bench, "first", ON, &to(json!({"arguments": {"name": "y"}})))), second];
        let expected = json!({"name": "y"}).as_object().cloned().unwrap();
        assert_eq!(judge(&checks), Next::Again(Replacement::Arguments(expected)));
        let read = recorded(bench, "second");
        assert_eq!(
            (&read["arguments"], &read["argv"]),
            (&json!({"name": "y"}), &Value::Null),
            "the words are not known yet"
        );
        let same = [rewriting(says(bench, "same", ON, &to(json!({"arguments": {"name": "x"}}))))];
        assert_eq!(judge(&same), Next::Settled(Ruling::Pass));
        let words = [rewriting(says(bench, "words", ON, &to(json!({"argv": ["rm"]}))))];
        let Next::Settled(ruling) = judge(&words) else { panic!() };
        assert!(blocked(ruling).reason.contains("unknown key 'argv'"));
    });
}

#[test]
fn an_impossible_replacement_is_a_failure() {
    apart(|bench| {
        for (replacement, why) in [
            (json!("ls"), "not an object"),
            (json!({}), "no list argv"),
            (json!({"argv": "ls"}), "no list argv"),
            (json!({"argv": []}), "no words"),
            (json!({"argv": ["ls", 1]}), "not a text"),
            (json!({"argv": ["l\0s"]}), "NUL byte"),
            (json!({"argv": ["ls"], "cwd": "/"}), "unknown key 'cwd'"),
            (json!({"arguments": {}}), "unknown key 'arguments'"),
        ] {
            let checks =
                [rewriting(says(bench, "r", ON, &json!({"verdict": "rewrite", "replacement": replacement})))];
            let objection = blocked(ruling(&checks));
            assert!(objection.failed && objection.reason.contains(why), "{objection:?}");
        }
    });
}

#[test]
fn a_replacement_takes_the_place_of_what_was_asked() {
    let mut request = Request { ask: Ask::Command(b"ls; rm".to_vec()), ..Request::default() };
    Replacement::Argv(words("ls -l")).put_into(&mut request);
    assert!(matches!(&request.ask, Ask::Argv(argv) if *argv == words("ls -l")));
    let new = json!({"a": 2}).as_object().cloned().unwrap();
    let old = json!({"a": 1}).as_object().cloned().unwrap();
    let mut request = Request {
        ask: Ask::Tool { name: "t".into(), arguments: crate::request::Arguments::Typed(old) },
        ..Request::default()
    };
    Replacement::Arguments(new.clone()).put_into(&mut request);
    assert!(
        matches!(&request.ask, Ask::Tool { name, arguments } if name == "t" && *arguments == crate::request::Arguments::Typed(new))
    );
}
