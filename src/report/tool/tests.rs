//! What is shown of a call, and what a tool makes of its command's end.

use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::action::Refusal;
use crate::policy::model::Limits;

fn asked(pairs: &[(&str, &str)]) -> ToolDoc {
    let texts = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    ToolDoc::asked("t", &Arguments::Texts(texts))
}

fn call(output: ToolOutput, check_exit: bool) -> ToolCall {
    ToolCall {
        name: "t".into(),
        arguments: Map::new(),
        content: vec!["content".into()],
        action: None,
        check_exit,
        output,
    }
}

fn hash(text: &str) -> String {
    measured(text)["sha256"].as_str().expect("a hash").to_owned()
}

#[test]
fn long_texts_are_measured_and_names_are_cut() {
    assert_eq!(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let long = "x".repeat(257);
    let doc = asked(&[("a", "1"), ("l", "x"), ("l", &long), ("l", "")]);
    let want = json!({"a": "1", "l": ["x", {"bytes": 257, "sha256": hash(&long)}, ""]});
    assert_eq!(Value::Object(doc.arguments), want);
    let name = "é".repeat(1000);
    let doc = ToolDoc::asked(
        &name,
        &Arguments::Typed(json!({ &name: [1, {"k": long}] }).as_object().unwrap().clone()),
    );
    assert!(doc.name.ends_with("...[1744 bytes omitted]") && doc.name.len() < 300, "{}", doc.name);
    assert!(serde_json::to_string(&doc).unwrap().len() < 900);
}

#[test]
fn content_is_never_shown() {
    let mut call = call(ToolOutput::Both, false);
    call.arguments = json!({"path": "a", "content": "short", "n": 1}).as_object().unwrap().clone();
    let want = json!({"path": "a", "content": {"bytes": 5, "sha256": hash("short")}, "n": 1});
    assert_eq!(Value::Object(ToolDoc::settled(&call).arguments), want);
}

#[test]
fn secrets_are_masked_by_the_parameters_name_and_by_their_shape() {
    let token = format!("ghp_{}", "a".repeat(30));
    let doc = asked(&[
        ("password", "hunter22"),
        ("note", &token),
        ("name", "plain"),
        ("token", "a"),
        ("token", "b"),
    ]);
    let shown = doc.masked().arguments;
    assert_eq!((&shown["password"], &shown["name"]), (&json!("[masked]"), &json!("plain")));
    assert_eq!(shown["token"], json!(["[masked]", "[masked]"]));
    assert!(!serde_json::to_string(&shown).unwrap().contains(&token), "{shown:?}");
    let words = doc.words();
    let reason = crate::request::mask::mask_text("argument 'password' 'hunter22' is wrong", &words);
    assert_eq!(reason, "argument 'password' '[masked]' is wrong");
}

fn ran(status: Status, code: Option<u8>, stdout: &str, stderr: &str, text: &str) -> ResultDoc {
    let mut doc = ResultDoc::new("R".into(), UNIX_EPOCH);
    (doc.status, doc.exit_code) = (status, code);
    doc.exit_status = status.exit_status(code, Some(9));
    (doc.stdout, doc.stderr) = (Some(stdout.into()), Some(stderr.into()));
    doc.text = text.into();
    doc
}

fn shaped(mut doc: ResultDoc, output: ToolOutput, check_exit: bool) -> ResultDoc {
    doc.shaped(&call(output, check_exit));
    doc
}

#[test]
fn output_says_what_the_text_holds_and_takes_nothing_from_the_result() {
    let ok = || ran(Status::Ok, Some(0), "out\n", "err\n", "out\nerr\n");
    for (output, text) in [
        (ToolOutput::Both, "out\nerr\n"),
        (ToolOutput::Stdout, "out\n"),
        (ToolOutput::None, "(exit=0, output not shown)"),
    ] {
        let doc = shaped(ok(), output, false);
        assert_eq!(doc.text, text);
        assert_eq!((doc.stdout.as_deref(), doc.stderr.as_deref()), (Some("out\n"), Some("err\n")));
    }
    let failed = || ran(Status::NonzeroExit, Some(3), "", "err\n", "err\nexit=3");
    assert_eq!(shaped(failed(), ToolOutput::Stdout, false).text, "(exit=3, nothing on standard output)");
    assert_eq!(shaped(failed(), ToolOutput::None, false).text, "(exit=3, output not shown)");
    let with_out = ran(Status::NonzeroExit, Some(3), "out", "err\n", "out\nerr\nexit=3");
    assert_eq!(shaped(with_out, ToolOutput::Stdout, false).text, "out\nexit=3");
    assert_eq!(
        shaped(ran(Status::Ok, Some(0), "", "", "x"), ToolOutput::Stdout, false).text,
        "(exit=0, no output)"
    );
    let late = || ran(Status::Timeout, None, "out", "err", "error: timed out after 5s\nout\nerr");
    assert_eq!(shaped(late(), ToolOutput::Stdout, false).text, "error: timed out after 5s\nout");
    assert_eq!(shaped(late(), ToolOutput::None, false).text, "error: timed out after 5s");
    let denied = ran(Status::Denied, None, "", "", "blocked: x");
    assert_eq!(shaped(denied, ToolOutput::None, false).text, "blocked: x");
}

#[test]
fn a_failing_exit_is_an_error_where_the_tool_says_so() {
    let failed = || ran(Status::NonzeroExit, Some(3), "out\n", "", "out\nexit=3");
    let doc = shaped(failed(), ToolOutput::Both, true);
    assert_eq!((doc.status, doc.exit_status, doc.exit_code), (Status::Error, 125, Some(3)));
    assert_eq!(doc.text, "error: tool 't' failed with exit status 3\nout\nexit=3");
    let error = doc.error.expect("an error has its object");
    assert_eq!(
        (error.kind.as_str(), error.message.as_str()),
        ("tool_exit", "tool 't' failed with exit status 3")
    );
    assert_eq!(
        shaped(failed(), ToolOutput::None, true).text,
        "error: tool 't' failed with exit status 3\n(exit=3, output not shown)"
    );
    assert_eq!(shaped(ran(Status::Ok, Some(0), "a", "", "a"), ToolOutput::Both, true).status, Status::Ok);
    let killed = ran(Status::Signaled, None, "", "", "error: killed by SIGKILL (exit=137)");
    assert_eq!(shaped(killed, ToolOutput::Both, true).status, Status::Signaled);
}

fn acted(how: How) -> ResultDoc {
    let mut doc = ResultDoc::new("R".into(), UNIX_EPOCH);
    let rule = RuleRef {
        id: "t".into(),
        at: crate::policy::model::Place { file: std::path::Path::new("/p").into(), line: 3 },
    };
    let limits = Limits::default().effective();
    doc.acted(Done { how, duration: Duration::from_millis(5), unreaped: false }, &limits, &rule);
    doc
}

#[test]
fn an_action_ends_as_a_small_program_would() {
    let doc = acted(How::Said(Said::Done(b"a\n".to_vec())));
    assert_eq!(
        (doc.status, doc.exit_code, doc.exit_status, doc.text.as_str()),
        (Status::Ok, Some(0), 0, "a\n")
    );
    assert_eq!((doc.stdout_bytes, doc.duration_ms, doc.limits.len()), (Some(2), 5, 1));
    let doc = acted(How::Said(Said::Done(b"a\xff".to_vec())));
    assert_eq!((doc.stdout.as_deref(), doc.stdout_kept()), (Some("a\u{fffd}"), b"a\xff".to_vec()));
    let doc = acted(How::Said(Said::Failed("no".into())));
    assert_eq!((doc.status, doc.exit_code, doc.text.as_str()), (Status::NonzeroExit, Some(1), "no\nexit=1"));
    let refusal = Refusal { message: "m".into(), hint: "h".into() };
    let doc = acted(How::Said(Said::Refused(refusal)));
    assert_eq!((doc.status, doc.exit_status, doc.exit_code), (Status::Denied, 126, None));
    assert_eq!((doc.stage, doc.text.as_str()), (Some("sandbox"), "blocked: m\nhint: h"));
    assert_eq!(doc.rule.map(|rule| rule.line), Some(3));
    let doc = acted(How::Said(Said::Broken("b".into())));
    assert_eq!((doc.status, doc.exit_status, doc.text.as_str()), (Status::Error, 125, "error: b"));
    let doc = acted(How::TimedOut);
    assert_eq!(
        (doc.status, doc.limit, doc.text.as_str()),
        (Status::Timeout, Some("wall_time"), "error: timed out after 1m")
    );
    let doc = acted(How::Cancelled(15));
    assert_eq!(
        (doc.status, doc.exit_status, doc.signal.as_deref()),
        (Status::Cancelled, 143, Some("SIGTERM"))
    );
    assert_eq!(acted(How::Stopped).exit_status, 137);
}
