//! Many writers, and a disk that ends. The processes are this test binary, started again.

use std::process::Stdio;

use super::*;

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
            command.args(["--ignored", "--exact", "report::audit::tests::processes::writer_process"]);
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

const FULL: &str = "--ignored --exact report::audit::tests::processes::full_disk_process";

/// Whether the process really ran its part.
fn ran_one(stdout: &[u8]) -> bool {
    String::from_utf8_lossy(stdout).contains("1 passed")
}

#[test]
fn a_file_size_limit_is_an_error_and_leaves_whole_records() {
    let dir = Dir::new();
    let out = Command::new(std::env::current_exe().unwrap())
        .args(FULL.split(' '))
        .env("GX_AUDIT_FILE", dir.log())
        .env("GX_AUDIT_FSIZE", "1")
        .output()
        .unwrap();
    assert!(out.status.success() && ran_one(&out.stdout), "{out:?}");
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
        Ok(out) if out.status.success() => assert!(ran_one(&out.stdout), "{out:?}"),
        Ok(out) if out.status.code() == Some(101) => {
            panic!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
        }
        other => eprintln!("SKIPPED: no private mount namespace with a tmpfs can be had here: {other:?}"),
    }
}
