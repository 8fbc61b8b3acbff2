//! What a tool makes of its command's end, and how an action ends.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::Map;

use super::*;
use crate::action::Refusal;
use crate::policy::model::Limits;

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
