//! What is read off a result, bound and shown.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;
use crate::approval::bound::{Bound, Cause};
use crate::approval::screen::Paper;
use crate::approval::tests::{Scene, asking};

type Change = fn(&mut BoundOutput);

/// A result of these streams.
fn result(stdout: &[u8], stderr: &str) -> String {
    let exact = std::str::from_utf8(stdout).is_err().then(|| STANDARD.encode(stdout));
    json!({
        "run_id": "R", "status": "nonzero_exit", "exit_code": 3, "stdout": String::from_utf8_lossy(stdout), "stderr": stderr,
        "stdout_base64": exact, "stderr_base64": null, "stdout_bytes": stdout.len() + 1, "stderr_bytes": stderr.len(),
        "text": "whatever", "more": [1, 2],
    })
    .to_string()
}

fn withheld(stdout: &[u8], stderr: &str) -> Withheld {
    Withheld::of(Some(result(stdout, stderr)), &["shell".into(), "other".into()]).expect("small enough")
}

/// What an answer to the output of this command binds to.
fn bound(scene: &Scene, withheld: &Withheld) -> Bound {
    let cause =
        Cause { id: "look".into(), file: b"p.toml"[..].into(), line: 9, reason: "names in it".into() };
    scene.bound(asking(["sh", "-c", "true"])).of_output(withheld.output.clone(), vec![cause], &scene.policy)
}

#[test]
fn the_exact_bytes_are_read_off_the_result() {
    let Withheld { output, streams, result } = withheld(b"a\xff\n", "e");
    assert_eq!((streams.stdout.as_slice(), streams.stderr.as_slice()), (&b"a\xff\n"[..], &b"e"[..]));
    assert_eq!((output.run_id.as_str(), output.ending().as_str()), ("R", "nonzero_exit, exit code 3"));
    assert_eq!(output.stdout, BoundStream { kept: files::content(b"a\xff\n"), written: Some(4) });
    assert_eq!(output.stderr, BoundStream { kept: files::content(b"e"), written: Some(1) });
    assert_eq!(output.result, files::content(result.as_bytes()));
    assert_eq!(output.ids, ["shell", "other"]);
    assert_eq!(Streams::of(&result).expect("a result"), streams);
    let none = Withheld::of(Some(result.replace("\"e\"", "null")), &[]).expect("a result");
    assert_eq!(none.streams.stderr, b"");
}

#[test]
fn what_is_too_large_does_not_say_how_large_it_is() {
    let denial = Withheld::of(None, &[]).expect_err("too large");
    assert_eq!(denial.code, "approval_unbindable");
    assert!(denial.message.ends_with("of a result 16 MiB are kept at most"), "{}", denial.message);
    assert_eq!(Withheld::of(Some("{}".into()), &[]).expect_err("no result").code, "approval_unbindable");
}

#[test]
fn every_part_of_an_output_counts() {
    let scene = Scene::new();
    let whole = bound(&scene, &withheld(b"out", "err"));
    let request = scene.bound(asking(["sh", "-c", "true"]));
    let mut digests = BTreeSet::from([whole.digest(), request.digest()]);
    let changes: [(&str, Change); 12] = [
        ("run", |o| o.run_id.push('x')),
        ("ids", |o| drop(o.ids.pop())),
        ("ids together", |o| o.ids = vec!["shellother".into()]),
        ("status", |o| o.status = "ok".into()),
        ("exit code", |o| o.exit_code = Some(4)),
        ("no exit code", |o| o.exit_code = None),
        ("stdout", |o| o.stdout.kept = files::content(b"Out")),
        ("stderr", |o| o.stderr.kept = files::content(b"Err")),
        ("exchanged", |o| std::mem::swap(&mut o.stdout, &mut o.stderr)),
        ("written", |o| o.stdout.written = Some(9)),
        ("not written", |o| o.stdout.written = None),
        ("result", |o| o.result = files::content(b"{}")),
    ];
    for (what, change) in changes {
        let mut other = whole.clone();
        change(other.output.as_mut().expect("an output"));
        assert!(digests.insert(other.digest()), "{what}: the digest is not a new one");
        let difference = whole.difference(&other).unwrap_or_else(|| panic!("no difference: {what}"));
        assert_eq!(
            (difference.what.as_str(), difference.stale),
            ("the output is another one", false),
            "{what}"
        );
    }
    assert_eq!(whole.digest(), bound(&scene, &withheld(b"out", "err")).digest());
}

#[test]
fn what_the_command_left_changed_does_not_change_what_came_of_it() {
    let mut scene = Scene::new();
    scene.file("true", "before");
    let bound = bound(&scene, &withheld(b"out", ""));
    assert!(!bound.files.is_empty(), "the word names a file");
    scene.file("true", "after");
    assert_eq!(bound.difference(&bound.now().expect("the policies are there")), None);
    let policy = std::fs::read_to_string(scene.dir.join("policy.toml")).expect("a policy");
    scene.rewrite_policy(&format!("{}# more\n", policy.trim_start_matches("version = 1\n")));
    let difference = bound.difference(&bound.now().expect("the policies are there")).expect("another policy");
    assert!(difference.what.ends_with("policy.toml' changed"), "{}", difference.what);
}

#[test]
fn the_screen_shows_all_of_it_behind_bars_and_nothing_when_it_is_gone() {
    let scene = Scene::new();
    let withheld = withheld(b"one\x1b[2K\nrun        none\n\xff\r\nlast", "e\n");
    let bound = bound(&scene, &withheld);
    let mut paper =
        Paper { bound: &bound, evidence: None, output: Some(&withheld.streams), entry: None, lately: None };
    let screen = paper.screen();
    assert!(
        screen.starts_with(
            "output     of run R, which is over: nonzero_exit, exit code 3\ncommand    3 words\n"
        ),
        "{screen}"
    );
    let stream = |size: usize, bytes: &[u8]| format!("{size} bytes, sha256 {}", files::content(bytes).sha256);
    let end = format!(
        "stdout     {}; the command wrote 32\n           | one\\x1b[2K\n           | run        none\n           | \\xff\\r\n           \
         | last\n           (without a newline at its end)\nstderr     {}\n           | e\n",
        stream(31, &withheld.streams.stdout),
        stream(2, b"e\n")
    );
    assert!(screen.ends_with(&end), "{screen}\nshould end with\n{end}");
    assert_eq!(paper.document()["output"]["stdout"]["base64"], STANDARD.encode(&withheld.streams.stdout));
    paper.output = None;
    assert!(
        paper.screen().ends_with("\n           what it says is not kept any more\n"),
        "{}",
        paper.screen()
    );
    let output = &paper.document()["output"];
    assert_eq!(
        (&output["stdout"]["size"], &output["stdout"]["text"], &output["exit_code"]),
        (&json!(31), &Value::Null, &json!(3))
    );
    assert_eq!(bound.subject(), "the output of command 'sh'");
}

#[test]
fn a_request_has_no_output() {
    let scene = Scene::new();
    let bound = scene.bound(asking(["sh"]));
    let paper = Paper { bound: &bound, evidence: None, output: None, entry: None, lately: None };
    assert!(!paper.screen().starts_with("output "), "{}", paper.screen());
    assert!(
        paper.document()["output"].is_null() && !paper.screen().contains("\noutput "),
        "{}",
        paper.screen()
    );
    assert_eq!(bound.subject(), "command 'sh'");
}
