//! The verbs: what each reads, prints and exits with.

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::json;

use super::args::{CheckArgs, DoctorArgs, ExplainArgs, PolicyArgs, SchemaArgs, SchemaName, VerifyArgs};
use super::deliver::{patient, put, say};
use super::meant;
use crate::policy::error::PolicyError;
use crate::policy::load::load;
use crate::policy::model::Place;
use crate::policy::stack::Stack;
use crate::policy::{lint, oversight};
use crate::report::audit::verify;
use crate::report::{json as safe_json, schema};
use crate::request::quote::escape_text;
use crate::{Call, Surroundings, explain};

/// Exit status of an unusable policy or call.
const UNUSABLE: u8 = 125;

/// `check`: 0 clean, 1 findings, 125 unusable.
pub fn check(args: &CheckArgs, around: &Surroundings) -> u8 {
    let mut findings = Vec::new();
    let mut unusable = false;
    for files in targets(args) {
        match check_one(&files, around) {
            Ok(found) => findings.extend(found),
            Err(error) => {
                unusable = true;
                findings.push(finding("error", error.place.as_ref(), &error.one_line(), None));
                if !args.json {
                    say(&error.to_string());
                }
            }
        }
    }
    let status = match (unusable, findings.len()) {
        (true, _) => UNUSABLE,
        (false, 0) => 0,
        (false, _) => 1,
    };
    if args.json {
        print_json(&findings.into());
        return status;
    }
    let warnings: Vec<_> = findings.iter().filter(|f| f["code"] != "error").collect();
    for found in &warnings {
        let hint = found["hint"].as_str().map(|h| format!("\n  = help: {h}")).unwrap_or_default();
        let place = match (found["file"].as_str(), found["line"].as_u64()) {
            (Some(file), Some(line)) => format!("{file}:{line}: "),
            _ => String::new(),
        };
        put(format!(
            "{}{} [{}]{hint}\n",
            place,
            found["message"].as_str().unwrap_or_default(),
            found["code"].as_str().unwrap_or_default()
        )
        .as_bytes());
    }
    if status == 0 {
        put(b"no findings\n");
    }
    status
}

/// Each file alone; without files, the stack that a run would use.
fn targets(args: &CheckArgs) -> Vec<Vec<PathBuf>> {
    if args.files.is_empty() {
        return vec![args.policy.policies.clone()];
    }
    args.files.iter().map(|file| vec![file.clone()]).collect()
}

fn check_one(files: &[PathBuf], around: &Surroundings) -> Result<Vec<serde_json::Value>, PolicyError> {
    let policies = match files {
        [] => Stack::load(&around.search, &around.load)?.policies,
        files => files.iter().map(|file| load(file, &around.load)).collect::<Result<_, _>>()?,
    };
    oversight::state(&policies)?;
    let mut findings = Vec::new();
    for policy in &policies {
        policy.compile_all()?;
        crate::spine::hold_examples(policy, None)?;
        findings.extend(
            lint::lint(policy).iter().map(|f| finding(f.code, Some(&f.at), &f.message, f.hint.as_deref())),
        );
    }
    Ok(findings)
}

fn finding(code: &str, at: Option<&Place>, message: &str, hint: Option<&str>) -> serde_json::Value {
    json!({
        "code": code,
        "file": at.map(|p| p.file.to_string_lossy().into_owned()),
        "line": at.map(|p| p.line).filter(|line| *line > 0),
        "message": escape_text(message),
        "hint": hint.map(escape_text),
    })
}

pub(super) fn print_json(value: &serde_json::Value) {
    let line = safe_json::to_line(value).expect("keys are strings");
    put(format!("{line}\n").as_bytes());
}

/// `explain`: 0 allow, 75 ask, 126 deny, 127 not found, 125 unusable.
pub fn explain_request(args: ExplainArgs, agent: Option<OsString>, around: &Surroundings) -> u8 {
    let mut stdin = patient(0);
    let surroundings = meant::Surroundings { agent, stdin: &mut stdin };
    let request = match meant::request(args.ask, surroundings, args.json) {
        Ok(request) => request,
        Err(error) => {
            say(&format!("guardexec: error: {error}"));
            return UNUSABLE;
        }
    };
    let PolicyArgs { policies, state } = args.policy;
    let call = Call { request, policies, pass_through: false, state, wait: None };
    let explained = explain(call, around);
    if args.json {
        print_json(&explained.to_json());
    } else {
        put(explained.to_text().as_bytes());
    }
    if let Some(excerpt) = &explained.excerpt {
        say(excerpt);
    }
    explained.exit_status
}

/// `audit verify`: 0 whole, 1 not.
pub fn audit_verify(args: &VerifyArgs) -> u8 {
    let expect = args.expect.as_ref().map(|e| (e.seq, e.hash.as_str()));
    let report = verify(&args.files, expect);
    let last = report.last.as_ref();
    if args.json {
        print_json(&json!([{
            "whole": report.bad.is_none(),
            "records": report.records,
            "torn": report.torn,
            "first": report.first.as_ref().map(|(seq, _)| seq),
            "last": last.map(|(seq, hash)| format!("{seq}:{hash}")),
            "bad": report.bad.as_ref().map(|b| json!({
                "file": b.file.to_string_lossy(), "line": b.line, "reason": escape_text(&b.reason),
            })),
        }]));
    } else if let Some(bad) = &report.bad {
        // Line 0 stands for the file as a whole.
        let line = if bad.line > 0 { format!(":{}", bad.line) } else { String::new() };
        say(&escape_text(&format!("guardexec: {}{line}: {}", bad.file.display(), bad.reason)));
    } else {
        let last = last.map(|(seq, hash)| format!(", the last is {seq}:{hash}")).unwrap_or_default();
        // A file whose head was cut off looks like one that follows an older file.
        let before = match &report.first {
            Some((seq, Some(_))) => {
                format!("; they begin with record {seq}, and what came before was not given")
            }
            _ => String::new(),
        };
        put(format!("whole: {} records{last}{before}\n", report.records).as_bytes());
    }
    u8::from(report.bad.is_some())
}

/// `schema`.
pub fn print_schema(args: &SchemaArgs) -> u8 {
    let name = match args.name {
        SchemaName::Policy => "policy",
        SchemaName::Request => "request",
        SchemaName::Result => "result",
        SchemaName::Audit => "audit",
    };
    match schema::get(name) {
        Some(text) => {
            put(text.as_bytes());
            0
        }
        None => UNUSABLE,
    }
}

/// `doctor`: 0 when all that strict requires can be had, else 1.
pub fn doctor(args: &DoctorArgs) -> u8 {
    let checks = crate::sandbox::doctor::examine();
    if args.json {
        print_json(&crate::sandbox::doctor::to_json(&checks));
    } else {
        put(crate::sandbox::doctor::to_table(&checks).as_bytes());
    }
    u8::from(!crate::sandbox::doctor::strict_can_be_had(&checks))
}
