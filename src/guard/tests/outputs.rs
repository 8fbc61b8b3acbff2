//! Outputs: what checks are told, and that nothing goes out that they have not seen.

use super::*;

const ON: CheckOn = CheckOn::Output;

#[test]
fn a_check_is_told_how_it_ended_and_what_came_out() {
    apart(|bench| {
        let file = bench.path("read.json");
        let checks = [script(bench, "look", ON, &format!("cat >{file}\necho '{{\"verdict\": \"pass\"}}'"))];
        let (asker, argv) = (asker(), words("ls"));
        let output = Output {
            status: "nonzero_exit",
            exit_code: Some(2),
            stdout: b"a\xffb",
            stderr: b"e\n",
            truncated: true,
        };
        let judged = judge_output(&asked(&checks), &subject(&argv, &asker), &output, &facts(), None);
        assert_eq!((judged.ruling, judged.stdout, judged.stderr), (Ruling::Pass, None, None));
        let read: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let expected = json!({
            "schema": "guardexec.check/v1", "check": "look", "on": "output", "run_id": "01J",
            "rule": null, "tool": null, "arguments": null, "argv": ["ls"], "argv_base64": null,
            "command": null, "command_base64": null, "cwd": "/srv", "cwd_base64": null,
            "agent": "lead/builder", "session": "s-1", "labels": {"ticket": "4"}, "why": "to see", "policy": [],
            "status": "nonzero_exit", "exit_code": 2, "stdout": "a\u{fffd}b", "stdout_base64": "Yf9i",
            "stderr": "e\n", "stderr_base64": null, "truncated": true,
        });
        assert_eq!(read, expected);
    });
}

/// Replaces one word of standard output by another.
fn exchanges(bench: &Bench, name: &str, from: &str, to: &str) -> Check {
    let body = format!(
        "text=$(sed 's/.*\"stdout\":\"\\([^\"]*\\)\".*/\\1/' | sed 's/{from}/{to}/g')\n\
         echo \"{{\\\"verdict\\\": \\\"rewrite\\\", \\\"replacement\\\": {{\\\"stdout\\\": \\\"$text\\\"}}}}\""
    );
    rewriting(script(bench, name, ON, &body))
}

/// Blocks what holds this word.
fn forbids(bench: &Bench, name: &str, word: &str) -> Check {
    let body = format!(
        "case $(cat) in *{word}*) echo '{{\"verdict\": \"block\", \"reason\": \"{word} is in it\"}}';; *) echo '{{\"verdict\": \"pass\"}}';; esac"
    );
    script(bench, name, ON, &body)
}

#[test]
fn it_is_rewritten_in_order_first_and_judged_by_the_others_as_it_goes_out() {
    apart(|bench| {
        // What does not rewrite stands first, and still sees the final text.
        let checks = [
            forbids(bench, "first", "fox"),
            exchanges(bench, "one", "fox", "dog"),
            exchanges(bench, "two", "dog", "cow"),
        ];
        let out = judged(&checks, b"a fox", b"err");
        assert_eq!((out.ruling, out.stdout.as_deref(), out.stderr), (Ruling::Pass, Some("a cow"), None));
        assert_eq!(verdicts(&out.findings), [("one", "rewrite"), ("two", "rewrite"), ("first", "pass")]);
        assert_eq!(out.warnings.len(), 2);
        // What a rewriting one brings in is seen too.
        let checks = [forbids(bench, "no-pig", "pig"), exchanges(bench, "three", "fox", "pig")];
        assert_eq!(blocked(judged(&checks, b"a fox", b"").ruling).reason, "pig is in it");
        // The other way round the second one finds nothing to exchange.
        let checks = [exchanges(bench, "two", "dog", "cow"), exchanges(bench, "one", "fox", "dog")];
        assert_eq!(judged(&checks, b"a fox", b"").stdout.as_deref(), Some("a dog"));
    });
}

#[test]
fn a_replacement_names_what_it_replaces() {
    apart(|bench| {
        let to = |replacement: Value| {
            [rewriting(says(bench, "r", ON, &json!({"verdict": "rewrite", "replacement": replacement})))]
        };
        let came = |replacement| {
            let out = judged(&to(replacement), b"out", b"err");
            assert_eq!(out.ruling, Ruling::Pass);
            (out.stdout, out.stderr)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(came(json!("new")), (some("new"), None));
        assert_eq!(came(json!("")), (some(""), None));
        assert_eq!(came(json!({"stdout": "new"})), (some("new"), None));
        assert_eq!(came(json!({"stderr": ""})), (None, some("")));
        assert_eq!(came(json!({"stdout": "a\n", "stderr": "b"})), (some("a\n"), some("b")));
        let same = judged(&to(json!({"stdout": "out", "stderr": "err"})), b"out", b"err");
        assert_eq!(
            (same.stdout, same.stderr, same.warnings),
            (None, None, Vec::new()),
            "nothing is rewritten"
        );
        for (replacement, why) in [
            (json!({}), "neither stdout nor stderr"),
            (json!([]), "neither a text nor an object"),
            (json!({"stdout": 1}), "the stdout of its replacement is not a text"),
            (json!({"text": "x"}), "an unknown key"),
        ] {
            let objection = blocked(judged(&to(replacement), b"out", b"err").ruling);
            assert!(objection.failed && objection.reason.contains(why), "{objection:?}");
        }
    });
}

#[test]
fn ask_withholds_and_a_block_is_stronger() {
    apart(|bench| {
        let say = |name: &str| says(bench, name, ON, &json!({"verdict": name, "reason": "r"}));
        let out = judged(&[say("ask"), say("warn"), exchanges(bench, "x", "o", "a")], b"out", b"");
        assert!(matches!(&out.ruling, Ruling::Ask(objection) if objection.check == "ask"), "{out:?}");
        assert_eq!(out.stdout.as_deref(), Some("aut"), "what is withheld is the final text");
        assert_eq!(out.warnings[1], "check 'warn' warns: r");
        assert_eq!(blocked(judged(&[say("ask"), say("block")], b"", b"").ruling).check, "block");
        // One that may rewrite may block too: then the others are not asked any more.
        let out = judged(&[rewriting(say("block")), say("warn")], b"", b"");
        assert_eq!(verdicts(&out.findings), [("block", "block")]);
    });
}

#[test]
fn what_checks_leave_running_is_dead_when_they_are_done() {
    apart(|bench| {
        let m = crate::hook::tests::marker();
        let leaves = script(
            bench,
            "leaves",
            ON,
            &format!("setsid sleep {m} >/dev/null 2>&1 &\necho '{{\"verdict\": \"pass\"}}'"),
        );
        assert_eq!(judged(&[leaves.clone(), leaves], b"", b"").ruling, Ruling::Pass);
        assert_eq!(crate::hook::tests::alive(&m), Vec::<String>::new());
    });
}
