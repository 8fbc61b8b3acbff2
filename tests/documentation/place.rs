//! A temporary directory as a reader of the README has it: the repository's policies, and `guardexec` in the PATH.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::markdown::Block;
use crate::{harness, repository};

/// The directory; gone when dropped.
pub struct Place {
    pub dir: PathBuf,
}

/// What a shell line came to.
pub struct Done {
    /// `None` where a signal ended it.
    pub exit: Option<i32>,
    /// Standard output and standard error, as they came.
    pub output: String,
}

impl Place {
    /// With the repository's policies below `policies/`.
    pub fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("guardexec-docs-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a directory");
        let place = Place { dir: fs::canonicalize(&dir).expect("canonical") };
        allow(&place.dir);
        for name in place.policies() {
            let text = fs::read_to_string(repository().join("policies").join(&name)).expect("a policy");
            place.file(&format!("policies/{name}"), &text);
        }
        place.demo();
        fs::create_dir(place.dir.join("bin")).expect("bin");
        allow(&place.dir.join("bin"));
        symlink(harness::binary(), place.dir.join("bin/guardexec")).expect("guardexec in the PATH");
        place
    }

    /// The same, with the files that these blocks are.
    pub fn with_files_of(blocks: &[Block]) -> Place {
        let place = Place::new();
        for block in blocks {
            if let Some(name) = block.marker.strip_prefix("file: ") {
                place.file(name, &block.text);
            }
        }
        place
    }

    /// The names of the repository's policies.
    pub fn policies(&self) -> Vec<String> {
        let entries = fs::read_dir(repository().join("policies")).expect("policies");
        let mut names: Vec<String> =
            entries.map(|e| e.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
        names.retain(|n| n.ends_with(".toml"));
        names.sort();
        assert!(!names.is_empty(), "no policies");
        names
    }

    /// Copies the demo's project store and its confirm hook, mode and all.
    fn demo(&self) {
        let shipped = repository().join("policies/demo");
        fs::create_dir_all(self.dir.join("policies/demo/projects")).expect("mkdir");
        for name in ["confirm", "projectctl"] {
            let to = self.dir.join("policies/demo").join(name);
            fs::copy(shipped.join(name), &to).expect("copy");
            fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).expect("chmod");
        }
        for dir in ["policies/demo", "policies/demo/projects"] {
            allow(&self.dir.join(dir));
        }
    }

    /// Writes a file that only its owner may write.
    pub fn file(&self, name: &str, text: &str) {
        let path = self.dir.join(name);
        let parent = path.parent().expect("a parent");
        fs::create_dir_all(parent).expect("mkdir");
        allow(parent);
        fs::write(&path, text).expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("chmod");
    }

    /// Runs a line as a reader would type it, both streams together.
    pub fn shell(&self, line: &str) -> Done {
        let done = Command::new("sh")
            .arg("-c")
            .arg(format!("exec 2>&1\n{line}\n"))
            .current_dir(&self.dir)
            .env("PATH", self.path())
            .env_remove("GUARDEXEC_POLICY")
            .env_remove("GUARDEXEC_AGENT")
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::null())
            .output()
            .expect("start sh");
        Done { exit: done.status.code(), output: String::from_utf8_lossy(&done.stdout).into_owned() }
    }

    /// Whether a program is installed and starts.
    pub fn has(&self, program: &str) -> bool {
        self.shell(&format!("{program} --version")).exit == Some(0)
    }

    fn path(&self) -> String {
        let rest = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
        format!("{}:{rest}", self.dir.join("bin").display())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn allow(dir: &Path) {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("chmod");
}
