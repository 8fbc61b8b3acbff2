//! Real documents pass, changed ones do not.

mod policy;

use std::time::{SystemTime, UNIX_EPOCH};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::*;
use crate::report::audit::record::*;
use crate::report::audit::{Audit, Record};
use crate::report::result::*;
use crate::report::status::Status;
use crate::report::{run_id, text};

fn schema(name: &str) -> Value {
    serde_json::from_str(get(name).unwrap()).unwrap()
}

fn validator(name: &str) -> Validator {
    jsonschema::draft202012::new(&schema(name)).unwrap()
}

#[track_caller]
fn pass(validator: &Validator, document: &Value) {
    let errors: Vec<String> =
        validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path)).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{document:#}");
}

/// Every change, alone, makes a good document bad. A change is a JSON pointer and the new value; `None` removes.
#[track_caller]
fn refuse_changes(validator: &Validator, good: &Value, changes: &[(&str, Option<Value>)]) {
    pass(validator, good);
    for (pointer, change) in changes {
        let mut bad = good.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = bad.pointer_mut(parent).unwrap();
        match (parent, change) {
            (Value::Object(map), Some(value)) => drop(map.insert(key.into(), value.clone())),
            (Value::Object(map), None) => drop(map.remove(key)),
            (Value::Array(list), Some(value)) => list[key.parse::<usize>().unwrap()] = value.clone(),
            _ => panic!("nothing to change at {pointer}"),
        }
        assert_ne!(&bad, good, "{pointer}");
        assert!(!validator.is_valid(&bad), "{pointer} {change:?}");
    }
}

/// Every property of every closed object is required or the object is of the policy or request kind.
#[test]
fn schemas_are_valid_themselves_and_closed() {
    fn closed(name: &str, at: &str, value: &Value) {
        if let Value::Object(map) = value {
            if map.contains_key("properties") && map.get("type").is_some() {
                let holds = map.contains_key("additionalProperties") || map.contains_key("oneOf");
                assert!(holds, "{name}{at} is open");
            }
            for (key, inner) in map {
                closed(name, &format!("{at}/{key}"), inner);
            }
        }
    }
    for (name, text) in ALL {
        let schema: Value = serde_json::from_str(text).unwrap();
        assert!(jsonschema::draft202012::meta::is_valid(&schema), "{name}");
        closed(name, "", &schema);
    }
    assert_eq!(get("nothing"), None);
}

fn full_result() -> ResultDoc {
    let mut doc = ResultDoc::new(run_id::new(SystemTime::now()), SystemTime::now());
    let (argv, argv_base64) = words(&[b"uname".as_slice(), b"\xff"]);
    let (stdout, stdout_base64) = stream(b"out\xff", b"tail", 9);
    doc.decision = Some("allow");
    doc.status = Status::NonzeroExit;
    doc.stage = Some("policy");
    doc.rule = Some(RuleDoc { id: "r".into(), file: "/p.toml".into(), line: 3 });
    doc.reason = Some("why".into());
    doc.text = text::blocked("x", None);
    doc.policy = vec![PolicyDoc { path: "/p.toml".into(), sha256: "a".repeat(64) }];
    (doc.argv, doc.argv_base64) = (Some(argv), argv_base64);
    doc.program = Some(ProgramDoc { path: "/bin/uname".into(), device: 1, inode: u64::MAX, sha256: None });
    doc.cwd = Some("/".into());
    doc.labels.insert("k".into(), "v".into());
    (doc.exit_code, doc.exit_status) = (Some(1), 1);
    doc.limits = vec![
        ("wall_time", LimitDoc { value: Some(5000), how: "exact" }),
        ("memory", LimitDoc { value: None, how: "none" }),
    ];
    (doc.stdout, doc.stdout_base64) = (Some(stdout), stdout_base64);
    (doc.stdout_bytes, doc.stdout_truncated) = (Some(17), true);
    doc.redactions = vec![RedactionDoc { stream: "stdout", rule: "aws".into(), count: 1 }];
    doc.sandbox = Some(SandboxDoc {
        profile: "strict",
        enforced: vec![("network", "seccomp".into())],
        missing: vec!["tmp"],
    });
    doc.violations = vec![ViolationDoc {
        layer: "execution",
        operation: "execve".into(),
        target: Some("/bin/sh".into()),
        hint: None,
    }];
    doc.warnings = vec!["w".into()];
    doc.approval = Some(ApprovalDoc { id: "A".into(), state: "consumed".into(), expires_at: None });
    doc.survivors = Some(0);
    doc.audit = Some(AuditDoc { file: "/a".into(), seq: 1, hash: "b".repeat(64) });
    doc
}

fn parsed(doc: &ResultDoc) -> Value {
    serde_json::from_str(&doc.to_line()).unwrap()
}

#[test]
fn results_fit_their_schema() {
    let validator = validator("result");
    let full = parsed(&full_result());
    pass(&validator, &full);
    let mut failed = ResultDoc::new(run_id::new(UNIX_EPOCH), UNIX_EPOCH);
    failed.error = Some(ErrorDoc { kind: "usage".into(), message: "m".into(), hint: Some("h".into()) });
    pass(&validator, &parsed(&failed));
    for key in full.as_object().unwrap().keys() {
        refuse_changes(&validator, &full, &[(&format!("/{key}"), None)]);
        // No field takes every type.
        let wrong = [json!([[0]]), json!({"x": {"y": 1}}), json!(-1), json!(1.5)];
        let pointer = format!("/{key}");
        refuse_changes(&validator, &full, &wrong.map(|w| (pointer.as_str(), Some(w))));
    }
    refuse_changes(
        &validator,
        &full,
        &[
            ("/extra", Some(json!(1))),
            ("/schema", Some(json!("guardexec.result/v2"))),
            ("/status", Some(json!("fine"))),
            ("/status", Some(json!("ok"))),
            ("/status", Some(json!("denied"))),
            ("/exit_status", Some(json!(256))),
            ("/stage", Some(json!("elsewhere"))),
            ("/limits/wall_time/how", Some(json!("roughly"))),
            ("/limits/walltime", Some(json!({"value": 1, "how": "exact"}))),
            ("/sandbox/enforced/magic", Some(json!("on"))),
            ("/audit/hash", Some(json!("B"))),
            ("/program/mode", Some(json!(1))),
            ("/started_at", Some(json!("yesterday"))),
            ("/run_id", Some(json!("1"))),
        ],
    );
}

#[test]
fn every_status_has_its_exit_status() {
    let validator = validator("result");
    for status in Status::all() {
        let mut doc = full_result();
        doc.status = status;
        doc.exit_code = match status {
            Status::Ok => Some(0),
            Status::NonzeroExit => Some(1),
            _ => None,
        };
        doc.signal = (status == Status::Signaled).then(|| "SIGSEGV".into());
        doc.limit = match status {
            Status::Timeout => Some("wall_time"),
            Status::LimitExceeded => Some("memory"),
            _ => None,
        };
        doc.decision = Some(if status == Status::NeedsApproval { "ask" } else { "allow" });
        doc.error = (status == Status::Error).then(|| ErrorDoc {
            kind: "internal".into(),
            message: "m".into(),
            hint: None,
        });
        if status == Status::NeedsApproval {
            doc.withhold();
            doc.conceal();
        }
        doc.exit_status = status.exit_status(doc.exit_code, doc.signal.as_ref().map(|_| 11));
        pass(&validator, &parsed(&doc));
        doc.exit_status = 42;
        if status != Status::NonzeroExit {
            assert!(!validator.is_valid(&parsed(&doc)), "{status:?}");
        }
    }
}

#[test]
fn what_waits_has_not_run_or_is_an_output_of_which_nothing_is_told() {
    let validator = validator("result");
    let mut doc = full_result();
    let cause = crate::approval::bound::Cause {
        id: "look".into(),
        file: b"/p.toml"[..].into(),
        line: 9,
        reason: "names".into(),
    };
    doc.withheld(&crate::report::withheld::Withholding::by(&cause, "wait".into()));
    assert!(!validator.is_valid(&parsed(&doc)), "its figures are for the record alone");
    doc.conceal();
    refuse_changes(
        &validator,
        &parsed(&doc),
        &[
            ("/stage", Some(json!("approval"))),
            ("/decision", Some(json!("deny"))),
            ("/approval", Some(Value::Null)),
            ("/exit_code", Some(json!(0))),
            ("/signal", Some(json!("SIGKILL"))),
            ("/stdout", Some(json!(""))),
            ("/stderr", Some(json!(""))),
            ("/stdout_bytes", Some(json!(0))),
            ("/stderr_bytes", Some(json!(0))),
        ],
    );
}

fn bodies() -> Vec<Body> {
    let full = full_result();
    vec![
        Body::Decision(Box::new(DecisionRecord {
            checks: vec![crate::report::result::CheckDoc {
                check: "owner".into(),
                on: "request",
                verdict: "block",
                failed: true,
                severity: crate::report::result::SeverityDoc(crate::policy::model::Severity::Critical),
                reason: "it crashed".into(),
                stderr: "Traceback".into(),
            }],
            decision: Some("allow"),
            status: None,
            stage: None,
            rule: full.rule,
            reason: full.reason,
            words: Words::new(&[b"a".as_slice(), b"\xff"]),
            command: None,
            tool: None,
            program: full.program,
            cwd: full.cwd,
            agent: None,
            session: None,
            labels: full.labels,
            why: Some("to see".into()),
            policy: full.policy,
        })),
        Body::Outcome(Box::new(OutcomeRecord {
            checks: Vec::new(),
            status: Status::Signaled,
            stage: None,
            exit_code: None,
            exit_status: 139,
            signal: Some("SIGSEGV".into()),
            limit: None,
            duration_ms: 3,
            cpu_user_ms: Some(1),
            cpu_system_ms: None,
            max_rss_bytes: None,
            processes: None,
            stdout_bytes: Some(0),
            stderr_bytes: Some(0),
            survivors: Some(0),
            sandbox: full.sandbox,
            error: None,
        })),
        Body::Approval(ApprovalRecord {
            id: "A".into(),
            state: "approved".into(),
            by: Some("me".into()),
            reason: None,
            expires_at: Some("2026-01-01T00:00:00Z".into()),
        }),
        Body::Switch(SwitchRecord { on: true, by: None, reason: Some("r".into()) }),
        Body::Session(SessionRecord { session: "s".into(), state: "halted".into(), by: None, reason: None }),
        Body::Error(ErrorRecord { kind: "internal".into(), message: "m".into(), hint: None, torn: None }),
    ]
}

#[test]
fn audit_records_fit_their_schema() {
    let path = std::env::temp_dir().join(format!("gx-schema-{}.jsonl", std::process::id()));
    let mut audit = Audit::open(&path, None).unwrap();
    for body in bodies() {
        let ts = SystemTime::now();
        audit.append(&Record { ts, run_id: run_id::new(ts), body }).unwrap();
    }
    // One more behind a torn line, for the record that closes it.
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "{\"ts").unwrap();
    let ts = SystemTime::now();
    audit.append(&Record { ts, run_id: run_id::new(ts), body: bodies().remove(3) }).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(path.with_extension("jsonl.lock")).unwrap();

    let validator = validator("audit");
    let records: Vec<Value> = text.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    assert_eq!(records.len(), 8);
    for record in &records {
        for key in record.as_object().unwrap().keys() {
            refuse_changes(&validator, record, &[(&format!("/{key}"), None)]);
        }
        refuse_changes(
            &validator,
            record,
            &[
                ("/extra", Some(json!(1))),
                ("/event", Some(json!("party"))),
                ("/severity", Some(json!("loud"))),
                ("/seq", Some(json!(0))),
                ("/hash", Some(json!("x"))),
                ("/prev", Some(if record["seq"] == 1 { json!("a".repeat(64)) } else { Value::Null })),
            ],
        );
    }
    assert!(records.iter().any(|r| r["torn"]["bytes"] == 4));
}

#[test]
fn requests_fit_their_schema() {
    let validator = validator("request");
    let good = json!({
        "argv": ["git", "status"], "cwd": "/w", "env": {"MODE": "x", "LANG": null}, "stdin": "text",
        "timeout": "5s", "agent": "a/b", "session": "s", "labels": {"k": "v"}, "why": "because"
    });
    refuse_changes(
        &validator,
        &good,
        &[
            ("/argv", None),
            ("/argv", Some(json!([]))),
            ("/argv/0", Some(json!("a\u{0}b"))),
            ("/command", Some(json!("ls"))),
            ("/arguments", Some(json!({}))),
            ("/env/PATH", Some(json!("/tmp"))),
            ("/env/MODE", Some(json!(1))),
            ("/env/A=B", Some(json!("x"))),
            ("/stdin_base64", Some(json!("YQ=="))),
            ("/timeout", Some(json!("5"))),
            ("/timeout", Some(json!(5))),
            ("/agent", Some(json!("a\u{1b}"))),
            ("/labels/k", Some(json!("a\nb"))),
            ("/policy", Some(json!("/p"))),
            ("/state", Some(json!("/s"))),
        ],
    );
    pass(&validator, &json!({"command": "uname -a"}));
    pass(&validator, &json!({"tool": "t", "arguments": {"name": "x", "n": 1, "list": ["a"]}}));
}
