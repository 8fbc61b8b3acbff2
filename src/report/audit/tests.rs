//! The chain: its shape, its ends, its rotation, and what `verify` finds.

mod changes;
mod hostile;
mod processes;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use serde_json::Value;

use super::record::{DecisionRecord, Words};
use super::verify::Bad;
use super::*;
use crate::report::json::is_unsafe;
use crate::report::result::RuleDoc;

/// A directory that is gone when the test ends.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("gx-audit-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Dir(path)
    }

    fn log(&self) -> PathBuf {
        self.0.join("audit.jsonl")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn decision(argv: &[&[u8]], reason: &str) -> Record {
    let body = DecisionRecord {
        decision: Some("deny"),
        status: Some(crate::report::status::Status::Denied),
        stage: Some("command"),
        rule: Some(RuleDoc { id: reason.into(), file: reason.into(), line: 3 }),
        reason: Some(reason.into()),
        words: Words::new(argv),
        command: Some(reason.into()),
        tool: None,
        program: None,
        cwd: Some(reason.into()),
        agent: Some(reason.into()),
        session: Some(reason.into()),
        labels: [(reason.to_owned(), reason.to_owned())].into(),
        why: Some(reason.into()),
        checks: Vec::new(),
        policy: Vec::new(),
    };
    Record { ts: SystemTime::now(), run_id: "RUN".into(), body: Body::Decision(Box::new(body)) }
}

fn simple(text: &str) -> Record {
    decision(&[b"echo", text.as_bytes()], text)
}

/// A file of `count` records.
fn filled(dir: &Dir, count: usize) -> (Audit, Vec<Appended>) {
    let mut audit = Audit::open(&dir.log(), None).unwrap();
    let done = (0..count).map(|i| audit.append(&simple(&format!("r{i}"))).unwrap()).collect();
    (audit, done)
}

fn check(files: &[PathBuf]) -> Option<Bad> {
    verify(files, None).bad
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn records_form_a_chain_in_the_documented_shape() {
    let dir = Dir::new();
    let (_, done) = filled(&dir, 3);
    let read = lines(&dir.log());
    assert_eq!(done.iter().map(|a| a.seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(read[0]["prev"], Value::Null);
    assert_eq!(read[2]["prev"], read[1]["hash"]);
    assert_eq!(read[2]["hash"], done[2].hash);
    let keys: Vec<&str> = read[0].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys.join(" "),
        "ts run_id seq event severity prev decision status stage rule reason argv argv_escaped command tool program cwd \
         agent session labels why policy checks hash"
    );
    assert_eq!(fs::metadata(dir.log()).unwrap().mode() & 0o7777, 0o600);
    let report = verify(&[dir.log()], Some((3, &done[2].hash)));
    assert_eq!((report.records, report.bad), (3, None));
}

#[test]
fn the_hash_is_what_standard_tools_compute() {
    let dir = Dir::new();
    let (_, done) = filled(&dir, 2);
    let script = r#"sed -n 2p "$1" | sed 's/,"hash":"[0-9a-f]*"}$/}/' | tr -d '\n' | sha256sum"#;
    let out = Command::new("sh").args(["-c", script, "sh"]).arg(dir.log()).output().unwrap();
    assert_eq!(String::from_utf8(out.stdout).unwrap().split(' ').next(), Some(done[1].hash.as_str()));
}

#[test]
fn case_84_hostile_text_cannot_forge_a_line() {
    let dir = Dir::new();
    let hostile = "x\n{\"decision\":\"allow\"}\u{1b}[2K\u{2028}\u{2029}\u{7f}\u{9b}1m\u{202e}";
    Audit::open(&dir.log(), None).unwrap().append(&simple(hostile)).unwrap();
    let text = fs::read_to_string(dir.log()).unwrap();
    assert!(!text.trim_end_matches('\n').chars().any(is_unsafe), "{text}");
    let read = lines(&dir.log());
    assert_eq!(read.len(), 1);
    assert_eq!(read[0]["argv"][1], hostile);
    assert_eq!(read[0]["agent"], hostile);
    assert_eq!(read[0]["decision"], "deny");
}

#[test]
fn words_outside_utf8_are_listed() {
    let dir = Dir::new();
    Audit::open(&dir.log(), None).unwrap().append(&decision(&[b"a", b"\xff", b"\\xff"], "")).unwrap();
    let read = lines(&dir.log());
    assert_eq!(read[0]["argv"], serde_json::json!(["a", "\\xff", "\\xff"]));
    assert_eq!(read[0]["argv_escaped"], serde_json::json!([1]));
}

#[test]
fn a_huge_request_is_recorded_cut() {
    let dir = Dir::new();
    let word = "\u{1b}é".repeat(300 << 10);
    let argv: Vec<&[u8]> = std::iter::repeat_n(b"w".as_slice(), 5000).chain([word.as_bytes()]).collect();
    let mut audit = Audit::open(&dir.log(), None).unwrap();
    audit.append(&decision(&argv, &word)).unwrap();
    audit.append(&simple("after")).unwrap();
    let read = lines(&dir.log());
    assert!(fs::metadata(dir.log()).unwrap().len() < 200_000);
    assert!(read[0]["reason"].as_str().unwrap().ends_with("bytes omitted]"));
    assert_eq!(read[0]["argv"].as_array().unwrap().len(), 1001);
    assert_eq!(check(&[dir.log()]), None);
}

/// The files of a rotated log, oldest first.
fn rotated(dir: &Dir) -> Vec<PathBuf> {
    let mut files: Vec<(u64, PathBuf)> = fs::read_dir(&dir.0)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter_map(|path| {
            let (_, seq) = path.to_str()?.rsplit_once('-').filter(|(name, _)| name.contains("jsonl."))?;
            Some((seq.parse().ok()?, path.clone()))
        })
        .collect();
    files.sort();
    files.into_iter().map(|(_, path)| path).chain([dir.log()]).collect()
}

#[test]
fn rotation_ties_the_new_file_to_the_old_head() {
    let dir = Dir::new();
    let mut audit = Audit::open(&dir.log(), Some(1500)).unwrap();
    let done: Vec<_> = (0..9).map(|i| audit.append(&simple(&i.to_string())).unwrap()).collect();
    let files = rotated(&dir);
    assert!(files.len() >= 3);
    assert_eq!(check(&files), None);
    let tail = verify(&files[files.len() - 1..], Some((9, &done[8].hash)));
    let (seq, prev) = tail.first.unwrap();
    assert_eq!(prev.as_deref(), Some(done[seq as usize - 2].hash.as_str()));
    assert_eq!(tail.bad, None);
    let swapped: Vec<PathBuf> = files.iter().rev().cloned().collect();
    assert!(check(&swapped).unwrap().reason.contains("out of order"));
    let skipped = [files[0].clone(), files[2].clone()];
    assert!(check(&skipped).unwrap().reason.contains("missing"));
}

#[test]
fn a_failed_rotation_keeps_the_old_file() {
    let dir = Dir::new();
    // The lock and the successor have names that fit; the dated name is too long.
    let log = dir.0.join("a".repeat(245));
    let mut audit = Audit::open(&log, Some(600)).unwrap();
    audit.append(&simple("a")).unwrap();
    let before = fs::read(&log).unwrap();
    assert!(matches!(audit.append(&simple("b")), Err(AuditError::Io { doing: "rotate", .. })));
    assert_eq!(fs::read(&log).unwrap(), before);
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 2, "the file and its lock");
    Audit::open(&log, None).unwrap().append(&simple("b")).unwrap();
    assert_eq!(check(&[log]), None);
}

#[test]
fn a_directory_in_the_successors_place_is_set_aside() {
    let dir = Dir::new();
    let mut audit = Audit::open(&dir.log(), Some(600)).unwrap();
    audit.append(&simple("a")).unwrap();
    fs::create_dir_all(dir.0.join("audit.jsonl.next/x")).unwrap();
    audit.append(&simple("b")).unwrap();
    let aside = fs::read_dir(&dir.0).unwrap().flatten().map(|e| e.file_name().into_string().unwrap());
    let aside: Vec<String> = aside.filter(|name| name.contains(".next.set-aside-")).collect();
    assert_eq!(aside.len(), 1, "{aside:?}");
    fs::remove_dir_all(dir.0.join(&aside[0])).unwrap();
    assert_eq!(check(&rotated(&dir)), None);
}

fn append_raw(path: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn a_torn_tail_is_closed_and_named() {
    let dir = Dir::new();
    let (mut audit, _) = filled(&dir, 2);
    append_raw(&dir.log(), b"{\"ts\":\"2026-01-0");
    assert!(check(&[dir.log()]).unwrap().reason.contains("torn"));
    let after = audit.append(&simple("next")).unwrap();
    assert_eq!(after.seq, 4);
    let report = verify(&[dir.log()], None);
    assert_eq!((report.records, report.torn, report.bad), (4, 1, None));
    let text = fs::read_to_string(dir.log()).unwrap();
    let closing: Value = serde_json::from_str(text.lines().nth(3).unwrap()).unwrap();
    assert_eq!((&closing["event"], &closing["kind"]), (&"error".into(), &"torn_line".into()));
    assert_eq!(closing["torn"]["bytes"], 16);
    // What was torn is held by the record that closed it.
    fs::write(dir.log(), text.replace("2026-01-0\n", "2026-01-1\n")).unwrap();
    assert_eq!(check(&[dir.log()]).unwrap().line, 3);
}

#[test]
fn a_first_line_that_was_torn_is_closed_too() {
    let dir = Dir::new();
    fs::write(dir.log(), "{\"ts\"").unwrap();
    fs::set_permissions(dir.log(), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(Audit::open(&dir.log(), Some(10)).unwrap().append(&simple("x")).unwrap().seq, 2);
    let report = verify(&[dir.log()], None);
    assert_eq!((report.records, report.torn, report.bad), (2, 1, None));
}

#[test]
fn a_missing_last_newline_costs_no_record() {
    let dir = Dir::new();
    let (mut audit, _) = filled(&dir, 2);
    let len = fs::metadata(dir.log()).unwrap().len();
    OpenOptions::new().write(true).open(dir.log()).unwrap().set_len(len - 1).unwrap();
    assert!(check(&[dir.log()]).unwrap().reason.contains("no newline"));
    assert_eq!(audit.append(&simple("x")).unwrap().seq, 4);
    let report = verify(&[dir.log()], None);
    assert_eq!((report.records, report.bad), (4, None));
}

#[test]
fn foreign_lines_are_recorded_but_never_whole() {
    let dir = Dir::new();
    let (mut audit, _) = filled(&dir, 2);
    append_raw(&dir.log(), b"hello\n");
    assert_eq!(audit.append(&simple("x")).unwrap().seq, 4);
    let bad = check(&[dir.log()]).unwrap();
    assert_eq!(bad.line, 3, "{bad}");
}

#[test]
fn a_file_of_something_else_is_left_alone() {
    let dir = Dir::new();
    fs::write(dir.log(), "alias ll='ls -l'\n").unwrap();
    fs::set_permissions(dir.log(), fs::Permissions::from_mode(0o600)).unwrap();
    let result = Audit::open(&dir.log(), None).unwrap().append(&simple("x"));
    assert!(matches!(result, Err(AuditError::NotAudit { .. })), "{result:?}");
    assert_eq!(fs::read(dir.log()).unwrap(), b"alias ll='ls -l'\n");
}

#[test]
fn verify_names_the_line_and_the_reason() {
    let dir = Dir::new();
    let (_, done) = filled(&dir, 5);
    let text = fs::read_to_string(dir.log()).unwrap();
    let all: Vec<&str> = text.lines().collect();
    let with = |lines: &[&str]| {
        let path = dir.0.join("changed.jsonl");
        fs::write(&path, lines.iter().map(|l| format!("{l}\n")).collect::<String>()).unwrap();
        let bad = verify(&[path], Some((5, &done[4].hash))).bad.unwrap();
        (bad.line, bad.reason)
    };
    let edited = all[2].replace("r2", "rX");
    for (lines, line, reason) in [
        (vec![all[0], all[1], &edited, all[3], all[4]], 3, "changed"),
        (vec![all[0], all[1], all[3], all[4]], 3, "record 3 is missing"),
        (vec![all[0], all[4]], 2, "records 2 to 4 are missing"),
        (vec![all[0], all[2], all[1], all[3], all[4]], 2, "missing"),
        (vec![all[0], all[1], all[1], all[2]], 3, "repeated"),
        (vec![all[0], all[1], all[2], all[3]], 4, "tail was cut"),
        (vec![all[0], "", all[1]], 2, "not an audit record"),
        (vec![all[0], all[1], "{}"], 3, "not an audit record"),
        (vec![], 0, "no records"),
    ] {
        let (at, why) = with(&lines);
        assert_eq!(at, line, "{why}");
        assert!(why.contains(reason), "{why}");
    }
    assert!(verify(&[dir.log()], Some((5, &done[3].hash))).bad.unwrap().reason.contains("hash differs"));
    assert!(verify(&[dir.0.join("none")], None).bad.unwrap().reason.contains("cannot be opened"));
}

#[test]
fn what_is_put_behind_a_removed_file_starts_anew() {
    let dir = Dir::new();
    let (mut audit, _) = filled(&dir, 2);
    fs::remove_file(dir.log()).unwrap();
    assert_eq!(audit.append(&simple("x")).unwrap().seq, 1);
    assert_eq!(check(&[dir.log()]), None);
}
