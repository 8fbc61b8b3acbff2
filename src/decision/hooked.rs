//! The grant of a program that the policy's author named: a hook, a check, an alert.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use nix::fcntl::OFlag;

use super::{Facts, Grant, RuleRef, Wanted};
use crate::policy::model::{Bound, EffectiveLimits, Hook, Limits, NetworkMode, Profile, TreeKind, Verdict};
use crate::program::{self, Program};
use crate::request::Stdin;

/// Kept of each stream of a hook, in bytes.
const OUTPUT: u64 = 1 << 20;

/// Where a hook starts: nothing of the caller's directory is its business.
const HOME_OF_HOOKS: &str = "/";

/// What a hook is started with.
#[derive(Debug)]
pub(crate) struct Hooked<'a> {
    /// By what name the policy knows it; it is told so in `GUARDEXEC_HOOK`.
    pub name: &'a str,
    /// The program and its words.
    pub hook: &'a Hook,
    /// The program, opened and trusted.
    pub program: Program,
    /// What it reads.
    pub input: Vec<u8>,
    /// `wall_time`.
    pub timeout: Duration,
    /// The policy's search path.
    pub path: &'a [PathBuf],
}

/// The grant of a hook. Nothing is judged here, and nothing has to be: no caller chose any of it. The author of the
/// policy, who decides what may run at all, wrote down this very program and its words; what the caller brings
/// reaches it as bytes on its standard input, and neither as a word nor as a variable. So it runs as the user who runs
/// guardexec, and still with limits, an environment of its own, and the death of its whole tree.
///
/// # Errors
/// A word or variable holds a NUL byte, or `/` cannot be opened.
pub(crate) fn for_hook(of: Hooked<'_>, facts: &Facts) -> io::Result<Grant> {
    let words = of.hook.argv.iter().map(|word| CString::new(word.as_str()));
    let (cwd_fd, _) = program::open_by_path(HOME_OF_HOOKS.as_ref(), OFlag::O_DIRECTORY)?;
    Ok(Grant {
        verdict: Verdict::Allow,
        rule: RuleRef { id: of.name.to_owned(), at: of.hook.at.clone() },
        ids: Vec::new(),
        asks: Vec::new(),
        asked_by: Vec::new(),
        tool: None,
        reason: "the policy names this program itself".to_owned(),
        argv: words.collect::<Result<_, _>>()?,
        envp: environment(&of, facts)?,
        program: Some(of.program),
        cwd: HOME_OF_HOOKS.into(),
        cwd_fd,
        stdin: Stdin::Bytes(of.input),
        limits: limits(of.timeout),
        wanted: wanted(of.path),
        warnings: Vec::new(),
    })
}

/// The defaults of every policy, but for time and output.
fn limits(timeout: Duration) -> EffectiveLimits {
    let own =
        Limits { wall_time: Some(Bound::At(timeout)), output: Some(Bound::At(OUTPUT)), ..Limits::default() };
    own.effective()
}

/// Nothing of the caller's environment.
fn environment(of: &Hooked<'_>, facts: &Facts) -> io::Result<Vec<CString>> {
    let path = of.path.iter().map(|dir| dir.as_os_str().as_bytes()).collect::<Vec<_>>().join(&b':');
    let variables: [(&str, &[u8]); 6] = [
        ("PATH", &path),
        ("HOME", facts.home.as_os_str().as_bytes()),
        ("USER", facts.user.as_bytes()),
        ("LANG", b"C.UTF-8"),
        ("TMPDIR", b"/tmp"),
        ("GUARDEXEC_HOOK", of.name.as_bytes()),
    ];
    let strings = variables.map(|(name, value)| CString::new([name.as_bytes(), b"=", value].concat()));
    Ok(strings.into_iter().collect::<Result<_, _>>()?)
}

/// `host`: what the author wants a hook to reach, a database or an endpoint, is the author's to know.
fn wanted(path: &[PathBuf]) -> Wanted {
    Wanted {
        profile: Profile::Host,
        require: Vec::new(),
        require_written: false,
        user: None,
        processes: TreeKind::Auto,
        filesystem: Default::default(),
        network: NetworkMode::Host,
        loopback: false,
        unix: Vec::new(),
        exec: None,
        path: path.to_vec(),
    }
}
