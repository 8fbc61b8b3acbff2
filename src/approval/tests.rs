//! What the tests of asking share: real files, a real policy, real grants.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::bound::{Asking, Bound, Cause};
use crate::decision::{Decision, Denial, Facts, Grant, called, decide, decide_called};
use crate::policy::load::{LoadContext, load};
use crate::policy::model::Policy;
use crate::request::{Arguments, Ask, Evidence, Request};

/// A directory of the test's own, removed at its end.
pub struct Scene {
    pub dir: PathBuf,
    pub policy: Vec<Policy>,
    pub facts: Facts,
}

impl Scene {
    /// Under a policy that asks for `sh`, `./` being the working directory.
    pub fn new() -> Scene {
        Scene::under(
            "[sandbox]\nprofile = \"host\"\n[env]\nrequest = [\"A\", \"API_KEY\"]\n[[rule]]\nid = \"shell\"\nprogram = [\"sh\", \"cat\"]\n\
                      decision = \"ask\"\nreason = \"a shell can do anything\"\n",
        )
    }

    /// Another process's scene. It is that one's to remove.
    pub fn again(dir: PathBuf) -> Scene {
        let facts = Scene::facts(&dir);
        let policy = Scene::load(&dir.join("policy.toml"));
        Scene { dir, policy, facts }
    }

    fn facts(dir: &Path) -> Facts {
        Facts {
            env: vec![(b"LANG".to_vec(), b"C".to_vec())],
            start_dir: Some(dir.to_path_buf()),
            user: "someone".into(),
            home: "/usr/share".into(),
            agent: None,
        }
    }

    fn load(path: &Path) -> Vec<Policy> {
        let context = LoadContext { home: "/usr/share".into(), uid: nix::unistd::geteuid().as_raw() };
        let policy = load(path, &context).unwrap_or_else(|e| panic!("{e}"));
        policy.compile_all().expect("patterns");
        vec![policy]
    }

    pub fn under(policy: &str) -> Scene {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("guardexec-approval-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a directory");
        let dir = fs::canonicalize(dir).expect("canonical");
        let facts = Scene::facts(&dir);
        let mut scene = Scene { dir, policy: Vec::new(), facts };
        scene.rewrite_policy(policy);
        scene
    }

    pub fn rewrite_policy(&mut self, text: &str) {
        let path = self.file("policy.toml", format!("version = 1\n{text}"));
        self.policy = Scene::load(&path);
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("mkdir");
        fs::write(&path, content).expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("chmod");
        path
    }

    /// The grant of a request that has to be approved.
    pub fn grant(&self, request: Request) -> Grant {
        match self.judge(request) {
            Decision::Ask(grant) => grant,
            other => panic!("not asked: {other:?}"),
        }
    }

    fn judge(&self, mut request: Request) -> Decision {
        let (policies, facts) = (&self.policy, &self.facts);
        match std::mem::take(&mut request.ask) {
            Ask::Argv(words) => decide(policies, words, request, facts),
            Ask::Tool { name, arguments } => {
                match called(policies, &name, &arguments, &mut request, facts, &mut Vec::new()) {
                    Ok(called) => decide_called(policies, called, request, facts, &mut Vec::new()),
                    Err(decision) => *decision,
                }
            }
            other => panic!("words or a tool are needed, not {other:?}"),
        }
    }

    /// What an approval of this request binds to.
    pub fn bound(&self, request: Request) -> Bound {
        self.try_bound(request).unwrap_or_else(|denial| panic!("{denial:?}"))
    }

    pub fn try_bound(&self, request: Request) -> Result<Bound, Box<Denial>> {
        let (asker, evidence) = (request.asker.clone(), request.evidence.clone());
        let grant = self.grant(request);
        let causes = vec![Cause::of_grant(&grant)];
        let evidence = evidence.as_ref();
        Bound::of(&grant, Asking { asker: &asker, evidence, causes, policies: &self.policy })
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A request for these words and nothing else.
pub fn asking<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Request {
    Request { ask: Ask::Argv(words.into_iter().map(Into::into).collect()), ..Request::default() }
}

/// Evidence of this content.
pub fn evidence(name: &str, content: &str) -> Evidence {
    Evidence { name: Path::new(name).to_path_buf(), bytes: content.into() }
}

/// A call of a tool.
pub fn calling(name: &str, arguments: serde_json::Value) -> Request {
    let serde_json::Value::Object(arguments) = arguments else { panic!("an object") };
    let ask = Ask::Tool { name: name.into(), arguments: Arguments::Typed(arguments) };
    Request { ask, ..Request::default() }
}
