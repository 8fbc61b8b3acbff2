//! `selftest`: the attacks of [`crate::sandbox::attempt`] against this host, with this very binary: once unconfined, to see
//! which are real here, and then as a run under `strict`, in both ways to hold a tree.

use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::args::SelftestArgs;
use super::deliver::{put, say};
use crate::policy::stack::Search;
use crate::report::json as safe_json;
use crate::request::quote::escape_text;
use crate::request::{Ask, Request};
use crate::sandbox::attempt::{self, Came, Target};
use crate::sandbox::probe;
use crate::{Call, Surroundings, perform};

/// The ways in which the attacks are made again: two to hold the tree, and one with a Unix socket that may be connected to.
const WAYS: [&str; 3] = ["auto", "groups", LISTED];
/// The last of them, where it can be had.
const LISTED: &str = "listed";

/// `selftest`: 0 all caught, 1 not.
pub fn selftest(args: &SelftestArgs, around: &Surroundings) -> u8 {
    if let [dir, pid] = &args.attempt[..] {
        let pid = pid.to_str().and_then(|p| p.parse().ok()).unwrap_or(0);
        attempt::make_all(&Target::new(PathBuf::from(dir), pid), |line| put(line.as_bytes()));
        return 0;
    }
    if let [dir, pid, way] = &args.leg[..] {
        let call = leg_call(Path::new(dir), pid, way);
        let search = Search { given: Vec::new(), system: PathBuf::from(dir), ..around.search.clone() };
        // Here the policies of the host have no say: nothing but the attacks is run, confined.
        let own = Surroundings { facts: around.facts.clone(), search, load: around.load.clone() };
        put(format!("{}\n", perform(call, &own).doc.to_line()).as_bytes());
        return 0;
    }
    match whole() {
        Ok(rows) => report(&rows, args.json),
        Err(error) => {
            say(&format!(
                "guardexec: error: the attacks could not be made: {}",
                escape_text(&error.to_string())
            ));
            1
        }
    }
}

fn leg_call(dir: &Path, pid: &std::ffi::OsStr, way: &std::ffi::OsStr) -> Call {
    let program = own_path();
    let words = [program.into_os_string(), "selftest".into(), "--attempt".into(), dir.into(), pid.to_owned()];
    let policy = dir.join(format!("{}.toml", way.to_string_lossy()));
    let request =
        Request { ask: Ask::Argv(words.to_vec()), cwd: Some(dir.join(attempt::CWD)), ..Request::default() };
    Call { request, policies: vec![policy], pass_through: false, state: None, wait: None }
}

fn own_path() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"))
}

/// One attack and what it came to.
struct Row {
    attempt: &'static attempt::Attempt,
    bare: Option<Came>,
    confined: Vec<Option<Came>>,
}

impl Row {
    /// `caught`, `open`, or `untried`: an attack that was not made proves nothing.
    fn result(&self) -> &'static str {
        if self.confined.contains(&Some(Came::Open)) {
            "open"
        } else if self.confined.contains(&None) {
            "untried"
        } else if self.bare != Some(Came::Open) {
            // The host refuses it by itself, so this does not show that the confinement does.
            "unproven"
        } else {
            "caught"
        }
    }
}

/// The directory of the attacks, and what listens in it; gone with this.
struct Scene {
    dir: PathBuf,
    lock: fs::File,
    _listeners: (UnixListener, UnixDatagram, UnixListener, UnixListener),
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Scene {
    fn new() -> io::Result<Scene> {
        let random = crate::sandbox::raw::secret::random_u64().map_err(io::Error::from_raw_os_error)?;
        let dir = Path::new("/tmp").canonicalize()?.join(format!("guardexec-selftest-{random:016x}"));
        fs::DirBuilder::new().mode(0o755).create(&dir)?;
        let work = dir.join(attempt::CWD);
        fs::DirBuilder::new().mode(0o755).create(&work)?;
        for name in [attempt::INSIDE, attempt::OUTSIDE] {
            fs::write(dir.join(name), "content\n")?;
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o666))?;
        }
        let name = SocketAddr::from_abstract_name(Target::abstract_name(&dir))?;
        let listeners = (
            UnixListener::bind(dir.join(attempt::STREAM))?,
            UnixDatagram::bind(dir.join(attempt::DATAGRAM))?,
            UnixListener::bind_addr(&name)?,
            UnixListener::bind(dir.join(attempt::LISTED))?,
        );
        for name in [attempt::STREAM, attempt::DATAGRAM] {
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o777))?;
        }
        for way in WAYS {
            let program = serde_json::to_string(&own_path().to_string_lossy()).unwrap_or_default();
            let (held, sockets) = if way == LISTED { ("auto", attempt::LISTED) } else { (way, "") };
            let unix = if sockets.is_empty() {
                String::new()
            } else {
                format!("[network]\nunix = [\"{sockets}\"]\n")
            };
            let text = format!(
                "version = 1\n[sandbox]\nprofile = \"strict\"\nprocesses = \"{held}\"\n{unix}[filesystem]\ncwd = [\"work\"]\n\
                 [limits]\nwall_time = \"60s\"\n[[rule]]\nid = \"selftest\"\nprogram = {program}\ndecision = \"allow\"\n"
            );
            let path = dir.join(format!("{way}.toml"));
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        }
        let lock = fs::File::open(dir.join(attempt::INSIDE))?;
        Ok(Scene { dir, lock, _listeners: listeners })
    }

    /// Whether the process that was to be left behind is still there.
    fn left_behind(&self) -> bool {
        use nix::fcntl::{Flock, FlockArg};
        match self.lock.try_clone().map(|file| Flock::lock(file, FlockArg::LockExclusiveNonblock)) {
            Ok(Ok(lock)) => {
                drop(lock);
                false
            }
            _ => true,
        }
    }

    fn words(&self, way: Option<&str>) -> Command {
        let mut command = Command::new(own_path());
        let (mode, pid) = (if way.is_some() { "--leg" } else { "--attempt" }, std::process::id().to_string());
        command.arg("selftest").arg(mode).arg(&self.dir).arg(pid).args(way);
        command.env_clear().stdin(Stdio::null()).current_dir(self.dir.join(attempt::CWD));
        command
    }
}

/// Makes all attacks on all grounds.
fn whole() -> io::Result<Vec<Row>> {
    let scene = Scene::new()?;
    let bare = String::from_utf8_lossy(&scene.words(None).output()?.stdout).into_owned();
    let daemon_bare = scene.left_behind();
    let end = Instant::now() + Duration::from_secs(5);
    while scene.left_behind() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut confined = Vec::new();
    let listable = probe::unix_sockets(Some(probe::run_identity())).ok;
    for way in WAYS.into_iter().filter(|way| listable || *way != LISTED) {
        let output = scene.words(Some(way)).output()?;
        let result: Value = serde_json::from_slice(&output.stdout).map_err(io::Error::from)?;
        if result["exit_code"] != 0 {
            return Err(io::Error::other(result["text"].as_str().unwrap_or("no result").to_owned()));
        }
        let text = result["stdout"].as_str().unwrap_or_default().to_owned();
        confined.push((text, scene.left_behind()));
    }
    let look = |name: &str, text: &str, left: bool| match attempt::came(text, name) {
        // It could always be started; whether it was ended is what counts.
        Some(Came::Open) if name == attempt::DAEMON && !left => Some(Came::Killed(libc::SIGKILL)),
        came => came,
    };
    let row = |attempt: &'static attempt::Attempt| Row {
        attempt,
        bare: look(attempt.name, &bare, daemon_bare),
        confined: confined.iter().map(|(text, left)| look(attempt.name, text, *left)).collect(),
    };
    Ok(attempt::ALL.iter().map(row).collect())
}

fn said(came: Option<Came>) -> String {
    match came {
        Some(Came::Open) => "works".to_owned(),
        Some(Came::Refused(errno)) => {
            let name = format!("{:?}", nix::errno::Errno::from_raw(errno));
            if name == "UnknownErrno" { format!("errno {errno}") } else { name }
        }
        Some(Came::Killed(signal)) => nix::sys::signal::Signal::try_from(signal)
            .map_or_else(|_| format!("signal {signal}"), |s| s.to_string()),
        None => "not tried".to_owned(),
    }
}

fn report(rows: &[Row], json_wanted: bool) -> u8 {
    let failed = rows.iter().filter(|row| matches!(row.result(), "open" | "untried")).count();
    if json_wanted {
        let row = |row: &Row| {
            json!({
                "attack": row.attempt.name,
                "layer": row.attempt.layer.as_str(),
                "what": row.attempt.what,
                "unconfined": said(row.bare),
                "confined": said(row.confined[0]),
                "confined_in_groups": said(row.confined[1]),
                "confined_with_sockets": row.confined.get(2).map(|came| said(*came)),
                "result": row.result(),
            })
        };
        let all: Value = rows.iter().map(row).collect();
        put(format!("{}\n", safe_json::to_line(&all).expect("keys are strings")).as_bytes());
        return u8::from(failed > 0);
    }
    let mut text = format!(
        "{:<14} {:<11} {:<10} {:<10} {:<10} {:<12} {:<9} {}\n",
        "ATTACK", "LAYER", "UNCONFINED", "CONFINED", "IN GROUPS", "WITH SOCKETS", "RESULT", "WHAT"
    );
    for row in rows {
        text.push_str(&format!(
            "{:<14} {:<11} {:<10} {:<10} {:<10} {:<12} {:<9} {}\n",
            row.attempt.name,
            row.attempt.layer.as_str(),
            said(row.bare),
            said(row.confined[0]),
            said(row.confined[1]),
            row.confined.get(2).map_or("-".to_owned(), |came| said(*came)),
            row.result(),
            row.attempt.what
        ));
    }
    let unproven = rows.iter().filter(|row| row.result() == "unproven").count();
    text.push_str(&match (failed, unproven) {
        (0, 0) => format!("all {} attacks were caught\n", rows.len()),
        (0, n) => {
            format!("no attack of {} got through; {n} fail on this host without guardexec too\n", rows.len())
        }
        (n, _) => format!("{n} of {} attacks were not caught\n", rows.len()),
    });
    put(text.as_bytes());
    u8::from(failed > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bare: Option<Came>, first: Option<Came>, second: Option<Came>) -> &'static str {
        Row { attempt: &attempt::ALL[0], bare, confined: vec![first, second] }.result()
    }

    #[test]
    fn only_what_worked_and_then_failed_twice_is_caught() {
        let (open, no, dead) = (Some(Came::Open), Some(Came::Refused(libc::EACCES)), Some(Came::Killed(31)));
        assert_eq!(row(open, no, dead), "caught");
        assert_eq!(row(open, open, no), "open");
        assert_eq!(row(open, no, open), "open");
        assert_eq!(row(no, open, no), "open");
        assert_eq!(row(no, no, no), "unproven");
        assert_eq!(row(open, no, None), "untried");
        assert_eq!(report(&[], true), 0);
    }
}
