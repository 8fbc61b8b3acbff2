//! Runs the real binary and compares everything by default: exit status, stdout, stderr, the JSON result against its
//! schema, and the audit file. A test says only what is particular to it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

pub mod outside;
pub mod schema;

/// The ordinary user that tests drop to when they run as root.
pub const NOBODY: u32 = 65534;

/// As whom guardexec is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum As {
    Root,
    User,
}

/// Declares a test twice: as root and as an ordinary user. A variant that cannot run here says so loudly.
#[macro_export]
macro_rules! as_both {
    ($(#[$meta:meta])* fn $name:ident($bench:ident) $body:block) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            fn body($bench: &$crate::harness::Bench) $body
            $(#[$meta])*
            #[test]
            fn as_root() {
                if let Some(bench) = $crate::harness::Bench::new($crate::harness::As::Root) { body(&bench) }
            }
            $(#[$meta])*
            #[test]
            fn as_user() {
                if let Some(bench) = $crate::harness::Bench::new($crate::harness::As::User) { body(&bench) }
            }
        }
    };
}

/// Says on the terminal, past the capture of the test runner, that something was not tested.
pub fn skip(what: &str) {
    let thread = std::thread::current();
    let line = format!("SKIPPED {}: {what}\n", thread.name().unwrap_or("?"));
    match fs::OpenOptions::new().write(true).open("/proc/self/fd/2") {
        Ok(mut stderr) => drop(stderr.write_all(line.as_bytes())),
        Err(_) => eprint!("{line}"),
    }
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The binary, copied to a place that every user can reach.
pub fn binary() -> &'static Path {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    COPY.get_or_init(|| {
        let built = Path::new(env!("CARGO_BIN_EXE_guardexec"));
        let length = fs::metadata(built).expect("the binary is built").len();
        let stamp = fs::metadata(built).and_then(|m| m.modified()).expect("mtime");
        let nanos = stamp.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos();
        let dir = std::env::temp_dir().join(format!(
            "guardexec-test-bin-{}-{:x}",
            nix::unistd::geteuid(),
            checkout()
        ));
        fs::create_dir_all(&dir).expect("a directory for the binary");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("chmod");
        let copy = dir.join(format!("guardexec-{length}-{nanos}"));
        if !copy.exists() {
            for old in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let _ = fs::remove_file(old.path());
            }
            let fresh = dir.join(format!(".new-{}", std::process::id()));
            // By another process: a writable descriptor of ours would be inherited by what other tests start meanwhile, and
            // the kernel executes no file that somebody may write (ETXTBSY).
            let copied = Command::new("cp").arg(built).arg(&fresh).status().expect("cp");
            assert!(copied.success(), "copy the binary");
            fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).expect("chmod");
            fs::rename(&fresh, &copy).expect("rename the binary");
        }
        copy
    })
}

/// A number for this checkout: another one's tests must not take this one's binary away.
fn checkout() -> u64 {
    use std::hash::{Hash, Hasher};
    let mut hasher = std::hash::DefaultHasher::new();
    env!("CARGO_MANIFEST_DIR").hash(&mut hasher);
    hasher.finish()
}

/// One test's directory, user and defaults.
pub struct Bench {
    pub who: As,
    pub dir: PathBuf,
}

impl Bench {
    /// `None` (said loudly) where this process cannot become that user.
    pub fn new(who: As) -> Option<Bench> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if who == As::Root && !is_root() {
            skip("needs root");
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("guardexec-test-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("work")).expect("a test directory");
        let bench = Bench { who, dir: fs::canonicalize(&dir).expect("canonical") };
        bench.give(&bench.dir);
        bench.give(&bench.dir.join("work"));
        Some(bench)
    }

    /// Hands a path to the user of this bench.
    pub fn give(&self, path: &Path) {
        if self.who == As::User && is_root() {
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).expect("chown");
        }
    }

    /// The working directory of the runs.
    pub fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// Writes a file below the bench's directory, owned by the bench's user, mode 0644.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("mkdir");
        fs::write(&path, content).expect("write a test file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("chmod");
        self.give(&path);
        path
    }

    /// The same, executable.
    pub fn script(&self, name: &str, content: &str) -> PathBuf {
        let path = self.file(name, content);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
        path
    }

    /// A call under this policy text. Without an `[audit]` section one is added, so that every call is audited.
    pub fn policy(&self, text: &str) -> Call<'_> {
        let audit = self.dir.join("audit.jsonl");
        let mut full = String::new();
        if !text.contains("version =") {
            full.push_str("version = 1\n");
        }
        full.push_str(text);
        let audited = if text.contains("[audit]") {
            None
        } else {
            full.push_str(&format!("\n[audit]\nfile = {:?}\n", audit.to_str().expect("UTF-8")));
            Some(audit)
        };
        let path = self.file("policy.toml", full);
        let mut call = self.call();
        call.args.extend([OsString::from("--policy"), path.into()]);
        call.audit = audited;
        call
    }

    /// A `host` policy: most of what is tested here is not the kernel's confinement.
    pub fn host(&self, text: &str) -> Call<'_> {
        let (top, rest) = match text.find("\n[") {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let sandbox = if text.contains("[sandbox]") { "" } else { "\n[sandbox]\nprofile = \"host\"\n" };
        if let Some(rest) = text.strip_prefix('[') {
            return self.policy(&format!("{sandbox}\n[{rest}"));
        }
        self.policy(&format!("{top}\n{sandbox}\n{rest}"))
    }

    /// A call without any policy of the bench.
    pub fn call(&self) -> Call<'_> {
        Call {
            bench: self,
            args: Vec::new(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            stdin: None,
            audit: None,
            wrap: Vec::new(),
            cwd: self.work(),
            limit: Duration::from_secs(60),
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// One call of the binary, being put together.
pub struct Call<'b> {
    pub bench: &'b Bench,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub stdin: Option<Vec<u8>>,
    pub audit: Option<PathBuf>,
    /// Words before guardexec: a program that takes something away from it and then executes the rest.
    pub wrap: Vec<OsString>,
    pub cwd: PathBuf,
    /// The harness itself kills a call that takes longer: a hang is a failure, not a wait.
    pub limit: Duration,
}

impl Call<'_> {
    /// Options before the program.
    pub fn opt<S: AsRef<OsStr>>(mut self, options: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(options.into_iter().map(|o| o.as_ref().to_owned()));
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    pub fn wrap<S: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.wrap.extend(words.into_iter().map(|w| w.as_ref().to_owned()));
        self
    }

    pub fn cwd(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cwd = dir.into();
        self
    }

    /// `-- WORDS`, and the checks that hold for every call.
    pub fn run<S: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = S>) -> Answer {
        self.args.push("--".into());
        self.args.extend(words.into_iter().map(|w| w.as_ref().to_owned()));
        self.finish()
    }

    /// `--command TEXT`.
    pub fn command(mut self, text: impl AsRef<OsStr>) -> Answer {
        self.args.push("--command".into());
        self.args.push(text.as_ref().to_owned());
        self.finish()
    }

    /// The process as it would be started, as the bench's user.
    pub fn process(&self) -> Command {
        let mut words: Vec<OsString> = Vec::new();
        if self.bench.who == As::User && is_root() {
            words.extend(["setpriv".into(), format!("--reuid={NOBODY}").into()]);
            words.extend([format!("--regid={NOBODY}").into(), "--clear-groups".into(), "--".into()]);
        }
        words.extend(self.wrap.iter().cloned());
        words.push(binary().into());
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().cloned())
            .current_dir(&self.cwd);
        command
    }

    /// Starts it with piped output and lets the test play with it.
    pub fn start<S: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = S>) -> Child {
        self.args.push("--".into());
        self.args.extend(words.into_iter().map(|w| w.as_ref().to_owned()));
        self.process()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("start guardexec")
    }

    /// Runs the words given so far and returns what came, unchecked.
    pub fn raw(&self) -> Answer {
        let started = Instant::now();
        let mut child = self
            .process()
            .stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start guardexec");
        if let Some(bytes) = &self.stdin {
            let mut pipe = child.stdin.take().expect("piped");
            let bytes = bytes.clone();
            std::thread::spawn(move || drop(pipe.write_all(&bytes)));
        }
        let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        let out = std::thread::spawn(move || read_all(&mut out));
        let err = std::thread::spawn(move || read_all(&mut err));
        let status = loop {
            if let Some(status) = child.try_wait().expect("wait") {
                break status;
            }
            if started.elapsed() > self.limit {
                let _ = child.kill();
                panic!("guardexec did not answer within {:?}: {:?}", self.limit, self.args);
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let stdout = out.join().expect("stdout");
        let json: Value = serde_json::from_slice(&stdout).unwrap_or(Value::Null);
        let mut audit = self.audit.as_deref().map(read_audit).unwrap_or_default();
        // A test may call several times: each answer has the records of its own run.
        audit.retain(|record| json["run_id"].is_null() || record["run_id"] == json["run_id"]);
        Answer {
            exit: status.code().unwrap_or_else(|| 1000 + status.signal().unwrap_or(0)),
            json,
            stdout,
            stderr: String::from_utf8_lossy(&err.join().expect("stderr")).into_owned(),
            audit,
            took: started.elapsed(),
        }
    }

    /// Runs it and checks what holds for every call with a JSON result.
    pub fn finish(self) -> Answer {
        let answer = self.raw();
        answer.check_invariants(self.audit.as_deref());
        answer
    }
}

fn read_all(from: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).expect("read");
    bytes
}

/// Every record of an audit file; each line must parse.
pub fn read_audit(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("audit line {line:?}: {e}")))
        .collect()
}

/// What came of a call.
#[derive(Debug)]
pub struct Answer {
    pub exit: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub json: Value,
    pub audit: Vec<Value>,
    pub took: Duration,
}

impl Answer {
    /// A field of the result as text; "" when null.
    pub fn str(&self, key: &str) -> &str {
        self.json[key].as_str().unwrap_or("")
    }

    pub fn status(&self) -> &str {
        self.str("status")
    }

    /// `ok`, with this stdout, nothing on stderr.
    #[track_caller]
    pub fn ok(&self, stdout: &str) -> &Self {
        assert_eq!((self.status(), self.exit), ("ok", 0), "{}", self.show());
        assert_eq!(self.str("stdout"), stdout, "{}", self.show());
        assert_eq!(self.str("stderr"), "", "{}", self.show());
        self
    }

    /// Denied with this text; nothing ran.
    #[track_caller]
    pub fn denied(&self, text: &str) -> &Self {
        assert_eq!((self.status(), self.exit), ("denied", 126), "{}", self.show());
        assert_eq!(self.str("text"), text, "{}", self.show());
        self.nothing_ran()
    }

    /// Denied by this stage with a text that holds all these parts; nothing ran.
    #[track_caller]
    pub fn denied_by(&self, stage: &str, parts: &[&str]) -> &Self {
        assert_eq!((self.status(), self.exit, self.str("stage")), ("denied", 126, stage), "{}", self.show());
        for part in parts {
            assert!(self.str("text").contains(part), "{part:?} is not in the text\n{}", self.show());
        }
        self.nothing_ran()
    }

    /// guardexec's own error, with a text that holds all these parts; nothing ran.
    #[track_caller]
    pub fn error(&self, parts: &[&str]) -> &Self {
        assert_eq!((self.status(), self.exit), ("error", 125), "{}", self.show());
        for part in parts {
            assert!(self.str("text").contains(part), "{part:?} is not in the text\n{}", self.show());
        }
        self.nothing_ran()
    }

    /// No sign of a run: no exit code, no output, no outcome record.
    #[track_caller]
    pub fn nothing_ran(&self) -> &Self {
        assert!(self.json["exit_code"].is_null() && self.json["signal"].is_null(), "{}", self.show());
        assert_eq!((self.str("stdout"), self.str("stderr")), ("", ""), "{}", self.show());
        let ours = |r: &&Value| r["run_id"] == self.json["run_id"];
        assert!(self.audit.iter().filter(ours).all(|r| r["event"] != "outcome"), "{}", self.show());
        self
    }

    /// Everything, for a failing assertion.
    pub fn show(&self) -> String {
        format!(
            "exit {}\nresult {}\nstderr {}\naudit {:#?}\n",
            self.exit,
            serde_json::to_string_pretty(&self.json).unwrap_or_default(),
            self.stderr,
            self.audit.iter().map(ToString::to_string).collect::<Vec<_>>()
        )
    }

    /// What holds for every call whose output is JSON.
    #[track_caller]
    pub fn check_invariants(&self, audit: Option<&Path>) {
        let text = std::str::from_utf8(&self.stdout).expect("stdout is UTF-8");
        assert!(
            text.ends_with('\n') && text.matches('\n').count() == 1,
            "one JSON line on stdout: {text:?}\n{}",
            self.stderr
        );
        assert!(self.json.is_object(), "stdout is one JSON object: {text:?}");
        schema::check("result", &self.json);
        assert_eq!(self.json["exit_status"], self.exit, "{}", self.show());
        let own = self.json["exit_code"].as_i64() == Some(i64::from(self.exit))
            && matches!(self.status(), "ok" | "nonzero_exit");
        let lines: Vec<&str> = self.stderr.lines().collect();
        if own {
            assert_eq!(self.stderr, "", "the child's own status needs no line\n{}", self.show());
        } else {
            assert!(
                !lines.is_empty() && lines[0].starts_with("guardexec: "),
                "a line says why\n{}",
                self.show()
            );
        }
        let printable = |c: char| {
            c == '\n'
                || (!c.is_control()
                    && !('\u{202a}'..='\u{202e}').contains(&c)
                    && !('\u{2066}'..='\u{2069}').contains(&c))
        };
        assert!(self.stderr.chars().all(printable), "raw control characters on stderr: {:?}", self.stderr);
        for record in &self.audit {
            schema::check("audit", record);
        }
        let Some(file) = audit else { return };
        if self.json["audit"].is_null() {
            // An unusable policy or audit file: then there is nothing to record it in, and nothing may have run.
            assert_eq!((self.status(), self.exit), ("error", 125), "no audit record\n{}", self.show());
            return;
        }
        let last = self.audit.last().unwrap_or_else(|| panic!("an empty audit file\n{}", self.show()));
        assert_eq!(last["run_id"], self.json["run_id"], "{}", self.show());
        assert_eq!(self.json["audit"]["hash"], last["hash"], "{}", self.show());
        assert_eq!(self.json["audit"]["seq"], last["seq"], "{}", self.show());
        assert_eq!(self.json["audit"]["file"].as_str(), file.to_str(), "{}", self.show());
        // An `error` record has no status: guardexec failed before it could decide.
        let status = if last["event"] == "error" { "error" } else { last["status"].as_str().unwrap_or("") };
        assert_eq!(status, self.status(), "{}", self.show());
    }
}

/// Waits until `probe` holds, at most `limit`; says whether it did.
pub fn eventually(limit: Duration, mut probe: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if probe() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The live (not zombie) processes whose command line holds `marker`, this process excepted.
pub fn alive(marker: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        if pid == std::process::id() as i32 {
            continue;
        }
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let zombie = fs::read_to_string(entry.path().join("stat"))
            .ok()
            .and_then(|s| s.rsplit(") ").next().map(|r| r.starts_with('Z')))
            .unwrap_or(true);
        if !zombie && line.windows(marker.len().max(1)).any(|w| w == marker.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

/// Fails if any process with `marker` in its command line is still there after a moment; ends it all the same.
#[track_caller]
pub fn assert_gone(marker: &str) {
    if !eventually(Duration::from_millis(500), || alive(marker).is_empty()) {
        let left = alive(marker);
        for pid in &left {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), nix::sys::signal::Signal::SIGKILL);
        }
        panic!("survivors with {marker:?}: {left:?}");
    }
}
