//! Put away and read again, and what is left of it meanwhile.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use super::*;
use crate::report::result::{
    ApprovalDoc, AuditDoc, ErrorDoc, LimitDoc, PolicyDoc, ProgramDoc, RedactionDoc, SandboxDoc, ViolationDoc,
};
use crate::report::word::WORDS;

/// A result with something in every field.
fn full() -> ResultDoc {
    let mut doc = ResultDoc::new("RUN".into(), UNIX_EPOCH + Duration::from_secs(1));
    (doc.decision, doc.status, doc.stage) = (Some("allow"), Status::Signaled, Some("workspace"));
    doc.rule = Some(RuleDoc { id: "r".into(), file: "p.toml".into(), line: 3 });
    (doc.reason, doc.text) = (Some("why\u{202e}".into()), "o\u{fffd}\ne".into());
    doc.policy = vec![PolicyDoc { path: "/p".into(), sha256: "0".repeat(64) }];
    (doc.argv, doc.argv_base64) = (Some(vec!["a".into()]), Some(vec!["YQ==".into()]));
    let tool = json!({"name": "t", "arguments": {"b": 1, "a": [null, 2.5]}});
    doc.tool = serde_json::from_value(tool).expect("a tool");
    let program = ProgramDoc { path: "/x".into(), device: 1, inode: u64::MAX, sha256: None };
    (doc.program, doc.cwd) = (Some(program), Some("/".into()));
    (doc.agent, doc.session) = (Some("a".into()), Some("s".into()));
    doc.labels.insert("k\n".into(), "v".into());
    doc.duration_ms = 7;
    (doc.exit_code, doc.exit_status, doc.signal, doc.core_dumped) =
        (Some(3), 139, Some("SIGSEGV".into()), true);
    doc.limit = Some("memory");
    let limit = |value| LimitDoc { value, how: "approximate" };
    doc.limits = vec![("pids", limit(Some(1))), ("cpus", limit(None)), ("memory", limit(Some(2)))];
    (doc.cpu_user_ms, doc.cpu_system_ms, doc.max_rss_bytes, doc.processes) =
        (Some(1), Some(2), Some(3), Some(4));
    (doc.stdout, doc.stderr) = (Some("o\u{fffd}".into()), Some("e".into()));
    (doc.stdout_base64, doc.stderr_base64) = (Some("b/8=".into()), Some("ZQ==".into()));
    (doc.stdout_bytes, doc.stderr_bytes) = (Some(2), Some(1));
    (doc.stdout_truncated, doc.stderr_truncated) = (true, true);
    doc.redactions = vec![RedactionDoc { stream: "stderr", rule: "r".into(), count: 1 }];
    doc.sandbox = Some(SandboxDoc {
        profile: "workspace",
        enforced: vec![("network", "n".into()), ("filesystem", "f".into())],
        missing: vec!["tmp"],
    });
    let (operation, target, hint) = ("execve".into(), Some("/x".into()), None);
    doc.violations = vec![ViolationDoc { layer: "execution", operation, target, hint }];
    doc.warnings = vec!["w".into()];
    doc.approval = Some(ApprovalDoc { id: "i".into(), state: "pending".into(), expires_at: None });
    doc.survivors = Some(1);
    doc.audit = Some(AuditDoc { file: "/a".into(), seq: 9, hash: "h".into() });
    doc.error = Some(ErrorDoc { kind: "tool_exit".into(), message: "m".into(), hint: None });
    doc
}

fn value(doc: &ResultDoc) -> Value {
    serde_json::from_str(&doc.to_line()).expect("JSON")
}

#[test]
fn nothing_is_lost_between_the_line_and_the_result() {
    let empty: Vec<String> = value(&full())
        .as_object()
        .expect("an object")
        .iter()
        .filter(|(_, value)| {
            value.is_null() || **value == json!([]) || **value == json!({}) || **value == json!("")
        })
        .map(|(key, _)| key.clone())
        .collect();
    assert!(empty.is_empty(), "{empty:?} would not be tested");
    for doc in [full(), ResultDoc::new("R".into(), UNIX_EPOCH)] {
        let line = doc.to_line();
        assert_eq!(ResultDoc::of_line(&line).expect("a result").to_line(), line);
    }
    for status in Status::all() {
        let doc = ResultDoc { status, ..full() };
        assert_eq!(ResultDoc::of_line(&doc.to_line()).expect("a result").status, status);
    }
}

#[test]
fn every_word_that_a_result_may_hold_is_known() {
    let schema: Value =
        serde_json::from_str(crate::report::schema::get("result").expect("a schema")).expect("JSON");
    let of = |path: &str| schema.pointer(path).unwrap_or_else(|| panic!("{path}"));
    let mut words: Vec<&str> = Vec::new();
    for path in [
        "/properties/decision/enum",
        "/properties/stage/enum",
        "/properties/limit/enum",
        "/properties/redactions/items/properties/stream/enum",
        "/$defs/limit/properties/how/enum",
        "/$defs/sandbox/properties/profile/enum",
        "/$defs/layer/enum",
    ] {
        words.extend(of(path).as_array().expect("a list").iter().filter_map(Value::as_str));
    }
    for path in ["/properties/limits/properties", "/$defs/sandbox/properties/enforced/properties"] {
        words.extend(of(path).as_object().expect("an object").keys().map(String::as_str));
    }
    words.push(of("/properties/schema/const").as_str().expect("a text"));
    assert!(words.len() > 30, "the schema was not understood: {words:?}");
    let unknown: Vec<_> = words.iter().filter(|word| !WORDS.contains(word)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn what_is_no_result_is_not_taken_for_one() {
    let line = full().to_line();
    for (from, to) in [
        ("\"workspace\"", "\"elsewhere\""),
        ("\"signaled\"", "\"fine\""),
        ("\"pids\":{", "\"lives\":{"),
        ("\"survivors\":1", "\"survivors\":-1"),
        ("\"survivors\":1", "\"more\":1"),
        ("guardexec.result/v1", "guardexec.result/v2"),
    ] {
        let other = line.replacen(from, to, 1);
        assert!(other != line && ResultDoc::of_line(&other).is_err(), "{from} to {to}");
    }
}

fn check() -> Withholding {
    let cause = Cause { id: "look".into(), file: b"/p.toml"[..].into(), line: 9, reason: "names".into() };
    Withholding::by(&cause, "wait".into())
}

#[test]
fn withheld_nothing_tells_what_came() {
    let mut doc = full();
    doc.withheld(&check());
    assert_eq!((doc.status, doc.stage, doc.exit_status), (Status::NeedsApproval, Some("output"), 75));
    assert_eq!(
        doc.text,
        "blocked: a person has to approve the output first (names, /p.toml:9); approval i is pending\nhint: wait"
    );
    assert_eq!((doc.exit_code, doc.stdout_bytes), (Some(3), Some(2)), "for the record");
    doc.conceal();
    let json = value(&doc);
    for key in [
        "exit_code",
        "signal",
        "limit",
        "stdout",
        "stderr",
        "stdout_base64",
        "stderr_base64",
        "stdout_bytes",
        "stderr_bytes",
        "error",
    ] {
        assert!(json[key].is_null(), "{key}: {json}");
    }
    for key in ["core_dumped", "stdout_truncated", "stderr_truncated"] {
        assert_eq!(json[key], false, "{key}");
    }
    assert_eq!(
        (&json["decision"], &json["rule"]["id"], &json["reason"]),
        (&json!("allow"), &json!("look"), &json!("names"))
    );
}

#[test]
fn handed_out_it_is_the_result_of_that_run_under_the_name_of_this_call() {
    let mut call = ResultDoc::new("CALL".into(), UNIX_EPOCH);
    call.warnings = vec!["own".into(), "w".into()];
    call.approval = Some(ApprovalDoc { id: "i".into(), state: "consumed".into(), expires_at: None });
    let kept = full();
    call.hands_out(&kept);
    assert!(
        (&call.stdout, &call.stderr, call.text.as_str()) == (&None, &None, ""),
        "not before it is recorded"
    );
    call.with_output(&kept);
    let (mut is, mut was) = (value(&call), value(&kept));
    assert_eq!(
        (&is["run_id"], &is["approval"]["state"], &is["audit"]),
        (&json!("CALL"), &json!("consumed"), &Value::Null)
    );
    assert_eq!(
        is["warnings"],
        json!(["this is the result of run RUN, which was withheld; nothing ran now", "w", "own"])
    );
    let mut itself = full();
    itself.conceal();
    itself.hands_out(&kept);
    assert_eq!(itself.warnings, ["w"], "a run that waited says nothing twice");
    for doc in [&mut is, &mut was] {
        for key in ["run_id", "approval", "audit", "warnings"] {
            doc[key] = Value::Null;
        }
    }
    assert_eq!(is, was);
}
