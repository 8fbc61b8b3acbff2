//! One call of the binary: its words, environment and input, and the ways to start it.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Answer, As, Bench, NOBODY, binary, is_root, read_audit};

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
