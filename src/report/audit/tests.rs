//! The chain under attack, under load and on a full disk.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use proptest::prelude::*;
use serde_json::Value;

use super::record::{DecisionRecord, ErrorRecord, Words};
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
        program: None,
        cwd: Some(reason.into()),
        agent: Some(reason.into()),
        session: Some(reason.into()),
        labels: [(reason.to_owned(), reason.to_owned())].into(),
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

use super::verify::Bad;

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
        "ts run_id seq event severity prev decision status stage rule reason argv argv_escaped program cwd agent \
         session labels policy hash"
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
    let word = "\u{1b}é".repeat(2 << 20);
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

#[test]
#[ignore = "a writer process of the tests below, not a test"]
fn writer_process() {
    let path = PathBuf::from(std::env::var_os("GX_AUDIT_FILE").expect("only started by a test"));
    let rotate = std::env::var("GX_AUDIT_ROTATE").ok().map(|size| size.parse().unwrap());
    for i in 0..4 {
        // A new Audit each time, as separate runs have, and one that is kept over rotations.
        let mut audit = Audit::open(&path, rotate).unwrap();
        audit.append(&simple(&format!("{}-{i}-a", std::process::id()))).unwrap();
        audit.append(&simple(&format!("{}-{i}-b", std::process::id()))).unwrap();
    }
}

fn writers(path: &Path, count: usize, rotate: Option<&str>) {
    let exe = std::env::current_exe().unwrap();
    let mut all: Vec<_> = (0..count)
        .map(|_| {
            let mut command = Command::new(&exe);
            command.args(["--ignored", "--exact", "report::audit::tests::writer_process"]);
            command.env("GX_AUDIT_FILE", path).stdout(Stdio::null());
            command.envs(rotate.map(|size| ("GX_AUDIT_ROTATE", size))).spawn().unwrap()
        })
        .collect();
    assert!(all.iter_mut().all(|child| child.wait().unwrap().success()));
}

#[test]
fn fifty_processes_lose_nothing() {
    let dir = Dir::new();
    writers(&dir.log(), 50, None);
    let report = verify(&[dir.log()], None);
    assert_eq!((report.records, report.bad, report.torn), (400, None, 0));
    let words: std::collections::HashSet<String> =
        lines(&dir.log()).iter().map(|r| r["argv"][1].as_str().unwrap().to_owned()).collect();
    assert_eq!(words.len(), 400);
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
fn processes_rotate_without_losing_a_record() {
    let dir = Dir::new();
    writers(&dir.log(), 12, Some("4000"));
    let files = rotated(&dir);
    assert!(files.len() > 5, "{files:?}");
    let report = verify(&files, None);
    assert_eq!((report.records, report.bad), (96, None));
    assert!(
        files.iter().all(|f| fs::metadata(f).unwrap().nlink() == 1 && fs::metadata(f).unwrap().len() <= 4000)
    );
    assert!(!dir.0.join("audit.jsonl.next").exists());
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
    let mut audit = Audit::open(&dir.log(), Some(600)).unwrap();
    audit.append(&simple("a")).unwrap();
    fs::create_dir_all(dir.0.join("audit.jsonl.next/x")).unwrap();
    let before = fs::read(dir.log()).unwrap();
    assert!(matches!(audit.append(&simple("b")), Err(AuditError::Io { doing: "rotate", .. })));
    assert_eq!(fs::read(dir.log()).unwrap(), before);
    fs::remove_dir_all(dir.0.join("audit.jsonl.next")).unwrap();
    audit.append(&simple("b")).unwrap();
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
fn links_pipes_devices_and_directories_are_refused() {
    let dir = Dir::new();
    let at = |name: &str| dir.0.join(name);
    std::os::unix::fs::symlink(at("target"), at("link")).unwrap();
    assert!(matches!(Audit::open(&at("link"), None), Err(AuditError::Symlink { .. })));
    assert!(!at("target").exists());
    nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let start = Instant::now();
    assert!(matches!(Audit::open(&at("fifo"), None), Err(AuditError::NotRegular { .. })));
    assert!(matches!(Audit::open(&dir.0, None), Err(AuditError::NotRegular { .. })));
    assert!(matches!(Audit::open(Path::new("/dev/null"), None), Err(AuditError::NotRegular { .. })));
    assert!(start.elapsed() < Duration::from_secs(1));
    // The same for the lock.
    nix::unistd::mkfifo(&at("audit.jsonl.lock"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(Audit::open(&dir.log(), None), Err(AuditError::NotRegular { .. })));
    assert!(check(&[at("fifo")]).unwrap().reason.contains("regular"));
}

#[test]
fn files_that_others_can_change_are_refused_with_the_remedy() {
    let dir = Dir::new();
    for (name, mode, remedy) in [("audit.jsonl", 0o620, "go-w"), ("audit.jsonl.lock", 0o244, "u=w,go=")] {
        drop(filled(&dir, 0));
        let path = dir.0.join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = Audit::open(&dir.log(), None).unwrap_err();
        assert!(matches!(&error, AuditError::Mode { path: p, .. } if *p == path), "{error}");
        assert_eq!(error.hint(), format!("chmod {remedy} {path:?}"));
        fs::remove_file(path).unwrap();
    }
    if nix::unistd::geteuid().is_root() {
        drop(filled(&dir, 0));
        std::os::unix::fs::chown(dir.log(), Some(65534), None).unwrap();
        assert!(matches!(Audit::open(&dir.log(), None), Err(AuditError::Owner { owner: 65534, .. })));
    }
}

fn record_lock(file: &File, kind: libc::c_int) -> nix::Result<i32> {
    let range =
        libc::flock { l_type: kind as _, l_whence: libc::SEEK_SET as _, l_start: 0, l_len: 0, l_pid: 0 };
    fcntl(file, FcntlArg::F_OFD_SETLK(&range))
}

#[test]
fn a_reader_cannot_stall_a_writer() {
    let dir = Dir::new();
    let (mut audit, _) = filled(&dir, 1);
    let reader = File::open(dir.log()).unwrap();
    record_lock(&reader, libc::F_RDLCK).unwrap();
    let flocked = File::open(dir.log()).unwrap();
    flocked.lock().unwrap();
    let start = Instant::now();
    audit.append(&simple("x")).unwrap();
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(fs::metadata(dir.0.join("audit.jsonl.lock")).unwrap().mode() & 0o777, 0o200);
    // An open for reading, where it can be had at all (as root), does not give a lock that writers wait for.
    if let Ok(lock) = File::open(dir.0.join("audit.jsonl.lock")) {
        lock.lock().unwrap();
        audit.append(&simple("y")).unwrap();
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}

#[test]
fn a_stuck_writer_is_waited_for_five_seconds_only() {
    let dir = Dir::new();
    let (mut audit, _) = filled(&dir, 1);
    let before = fs::read(dir.log()).unwrap();
    let stuck = OpenOptions::new().append(true).open(dir.0.join("audit.jsonl.lock")).unwrap();
    record_lock(&stuck, libc::F_WRLCK).unwrap();
    let start = Instant::now();
    assert!(matches!(audit.append(&simple("x")), Err(AuditError::Busy { .. })));
    assert!((4..8).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert_eq!(fs::read(dir.log()).unwrap(), before);
    drop(stuck);
    audit.append(&simple("x")).unwrap();
    assert_eq!(check(&[dir.log()]), None);
}

#[test]
#[ignore = "a process of the test below, not a test"]
fn full_disk_process() {
    use nix::sys::resource::{Resource, setrlimit};
    let path = PathBuf::from(std::env::var_os("GX_AUDIT_FILE").expect("only started by a test"));
    let mut audit = Audit::open(&path, None).unwrap();
    if std::env::var_os("GX_AUDIT_FSIZE").is_some() {
        // SIGXFSZ keeps its default action: a write past the limit would kill this process.
        setrlimit(Resource::RLIMIT_FSIZE, 3000, 3000).unwrap();
    }
    let mut good = 0;
    let error = loop {
        match audit.append(&simple(&"x".repeat(100))) {
            Ok(_) => good += 1,
            Err(e) => break e,
        }
        assert!(good < 1000, "the disk never filled up");
    };
    let AuditError::Io { doing: "write", source, .. } = &error else { panic!("{error:?}") };
    let kinds = [std::io::ErrorKind::StorageFull, std::io::ErrorKind::FileTooLarge];
    assert!(good > 0 && kinds.contains(&source.kind()), "{good} {error}");
    // Whole records, and nothing of the one that failed.
    let report = verify(&[path], None);
    assert_eq!((report.records, report.bad), (good, None));
}

const FULL: &str = "--ignored --exact report::audit::tests::full_disk_process";

#[test]
fn a_file_size_limit_is_an_error_and_leaves_whole_records() {
    let dir = Dir::new();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(FULL.split(' '))
        .env("GX_AUDIT_FILE", dir.log())
        .env("GX_AUDIT_FSIZE", "1")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn a_full_tmpfs_is_an_error_and_leaves_whole_records() {
    let dir = Dir::new();
    let script = r#"mount -t tmpfs -o size=64k none "$1" || exit 77; shift; exec "$@""#;
    let exe = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", script, "sh"])
        .arg(&dir.0)
        .arg(exe)
        .args(FULL.split(' '))
        .env("GX_AUDIT_FILE", dir.log())
        .output();
    match output {
        Ok(out) if out.status.success() => {}
        Ok(out) if out.status.code() == Some(101) => {
            panic!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
        }
        other => eprintln!("SKIPPED: no private mount namespace with a tmpfs can be had here: {other:?}"),
    }
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
fn a_line_without_end_costs_no_memory() {
    let dir = Dir::new();
    let (mut audit, _) = filled(&dir, 1);
    let len = fs::metadata(dir.log()).unwrap().len();
    // A hole of 1 GiB; read whole it would be a gigabyte of memory.
    OpenOptions::new().write(true).open(dir.log()).unwrap().write_all_at(b"x", len + (1 << 30)).unwrap();
    let bad = check(&[dir.log()]).unwrap();
    assert_eq!((bad.line, bad.reason.as_str()), (2, "longer than 8 MiB"));
    assert!(matches!(audit.append(&simple("x")), Err(AuditError::NotAudit { .. })));
}

#[test]
fn what_is_put_behind_a_removed_file_starts_anew() {
    let dir = Dir::new();
    let (mut audit, _) = filled(&dir, 2);
    fs::remove_file(dir.log()).unwrap();
    assert_eq!(audit.append(&simple("x")).unwrap().seq, 1);
    assert_eq!(check(&[dir.log()]), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_in_any_field_gives_one_good_line(
        text in ".{0,40}", argv in proptest::collection::vec(any::<Vec<u8>>(), 0..4), kind in any::<String>()
    ) {
        let dir = Dir::new();
        let mut audit = Audit::open(&dir.log(), None).unwrap();
        let argv: Vec<&[u8]> = argv.iter().map(Vec::as_slice).collect();
        audit.append(&decision(&argv, &text)).unwrap();
        let error = ErrorRecord { kind, message: text.clone(), hint: Some(text.clone()), torn: None };
        audit.append(&Record { ts: SystemTime::now(), run_id: text.clone(), body: Body::Error(error) }).unwrap();
        let read = lines(&dir.log());
        prop_assert_eq!(read.len(), 2);
        prop_assert_eq!(read[0]["reason"].as_str().unwrap(), &text);
        prop_assert_eq!(read[1]["run_id"].as_str().unwrap(), &text);
        let raw = fs::read_to_string(dir.log()).unwrap();
        prop_assert!(raw.lines().all(|line| !line.chars().any(is_unsafe)));
        prop_assert_eq!(check(&[dir.log()]), None);
    }

    #[test]
    fn any_change_of_a_byte_is_found(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), change in 0..3, torn in any::<bool>()
    ) {
        let dir = Dir::new();
        let (mut audit, _) = filled(&dir, 2);
        if torn {
            append_raw(&dir.log(), b"{\"ts\":\"20");
        }
        let last = audit.append(&simple("end")).unwrap();
        let good = fs::read(dir.log()).unwrap();
        let mut bad = good.clone();
        let at = at.index(good.len());
        match change {
            0 => bad[at] = byte,
            1 => bad.insert(at, byte),
            _ => drop(bad.remove(at)),
        }
        prop_assume!(bad != good);
        fs::write(dir.log(), &bad).unwrap();
        let report = verify(&[dir.log()], Some((last.seq, &last.hash)));
        prop_assert!(report.bad.is_some(), "{} at {}", change, at);
    }

    #[test]
    fn verify_and_append_take_any_file(bytes in any::<Vec<u8>>()) {
        let dir = Dir::new();
        drop(filled(&dir, 1));
        append_raw(&dir.log(), &bytes);
        let _ = verify(&[dir.log()], None);
        let mut audit = Audit::open(&dir.log(), None).unwrap();
        audit.append(&simple("x")).unwrap();
        prop_assert_eq!(audit.append(&simple("y")).unwrap().seq, if bytes.is_empty() { 3 } else { 4 });
    }
}
