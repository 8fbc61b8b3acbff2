//! Runs the real binary and compares everything by default: exit status, stdout, stderr, the JSON result against its
//! schema, and the audit file. A test says only what is particular to it.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;

mod answer;
mod call;
pub mod outside;
mod processes;
pub mod schema;

pub use answer::Answer;
pub use call::Call;
#[allow(unused_imports, reason = "the documentation tests need none of them")]
pub use processes::{alive, assert_gone, eventually};

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

/// Every record of an audit file; each line must parse.
pub fn read_audit(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("audit line {line:?}: {e}")))
        .collect()
}
