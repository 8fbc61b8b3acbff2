//! The kill switch: a file that stops everything, or what it names, for as long as it is there.
//!
//! It fails towards stopping: what cannot be looked at, read or understood stops everything. So whoever can make the
//! file can stop, and nobody starts anything by spoiling it.

use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::policy::model::{KillSwitch, Place, Policy};
use crate::policy::trust;
use crate::request::quote::{display, escape_text, repr};

/// The most bytes of a switch; a longer one stops everything.
const LONGEST: u64 = 64 << 10;
/// What a file that was just made gets for its text to be written.
const WRITING: Duration = Duration::from_millis(50);

/// One policy's switch and the names that it may hold.
#[derive(Debug, Clone)]
pub struct Switch {
    file: PathBuf,
    at: Place,
    /// Ids of rules and names of tools.
    known: Vec<String>,
}

/// What is stopped, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// The switch's file.
    pub file: PathBuf,
    /// Where the policy names it.
    pub at: Place,
    /// The reason that stands in it, escaped; else why it stops everything.
    pub reason: Option<String>,
}

/// What the switch says.
#[derive(Debug, PartialEq, Eq)]
enum Says {
    /// It is not there.
    Nothing,
    /// Everything stops, for this reason.
    All(Option<String>),
    /// These stop, each for its reason.
    Named(BTreeMap<String, Option<String>>),
}

impl Switch {
    /// The switches of all policies.
    pub fn all(policies: &[Policy]) -> Vec<Switch> {
        let ids = |p: &Policy| {
            let rules = p.rules.iter().map(|r| r.id.clone());
            rules.chain(p.tools.keys().cloned()).collect::<Vec<_>>()
        };
        let known: Vec<String> = policies.iter().flat_map(ids).collect();
        let made = |switch: &KillSwitch| Switch {
            file: switch.file.clone(),
            at: switch.at.clone(),
            known: known.clone(),
        };
        policies.iter().filter_map(|p| p.oversight.kill_switch.as_ref()).map(made).collect()
    }

    /// Whether a request that no rule has been found for yet is stopped.
    pub fn stops_all(&self) -> Option<Stopped> {
        match self.look() {
            Says::All(reason) => Some(self.stopped(reason)),
            Says::Nothing | Says::Named(_) => None,
        }
    }

    /// Whether what these rules and tools decided is stopped.
    pub fn stops(&self, ids: &[String]) -> Option<Stopped> {
        match self.look() {
            Says::Nothing => None,
            Says::All(reason) => Some(self.stopped(reason)),
            Says::Named(named) => {
                let id = ids.iter().find(|id| named.contains_key(*id))?;
                Some(self.stopped(named[id].clone()))
            }
        }
    }

    fn stopped(&self, reason: Option<String>) -> Stopped {
        Stopped { file: self.file.clone(), at: self.at.clone(), reason }
    }

    fn look(&self) -> Says {
        let text = match read(&self.file) {
            Ok(None) => return Says::Nothing,
            Ok(Some(text)) => text,
            Err(why) => return Says::All(Some(why)),
        };
        let mut named = BTreeMap::new();
        let mut general: Option<String> = None;
        for line in text.lines() {
            let (name, reason) = match line.split_once('#') {
                Some((name, reason)) => (name.trim(), Some(escape_text(reason.trim()))),
                None => (line.trim(), None),
            };
            let reason = reason.filter(|r| !r.is_empty());
            if name.is_empty() {
                general = general.or(reason);
                continue;
            }
            let ids = self.ids_of(name);
            if ids.is_empty() {
                let why =
                    format!("it names {}, which is no rule or tool of the policy", repr(name.as_bytes()));
                return Says::All(Some(general.map_or(why.clone(), |said| format!("{said}; {why}"))));
            }
            named.extend(ids.into_iter().map(|id| (id, reason.clone())));
        }
        if named.is_empty() {
            return Says::All(general);
        }
        for reason in named.values_mut().filter(|reason| reason.is_none()) {
            reason.clone_from(&general);
        }
        Says::Named(named)
    }

    /// The ids that a line means: an entry of a short list may be named by its program alone, which may also be the id of
    /// a rule.
    fn ids_of(&self, name: &str) -> Vec<String> {
        let meant = [name.to_owned(), format!("allow:{name}")];
        meant.into_iter().filter(|id| self.known.contains(id)).collect()
    }
}

impl Stopped {
    /// One sentence; safe to print.
    pub fn sentence(&self) -> String {
        let file = display(self.file.as_os_str().as_bytes());
        match &self.reason {
            Some(reason) => format!("the kill switch {file} is on: {reason}"),
            None => format!("the kill switch {file} is on"),
        }
    }

    /// What to do instead.
    pub fn hint(&self) -> String {
        "nothing that it stops runs until the operator takes the file away, or mends what is said of it; trying again does not help"
            .into()
    }
}

/// The switch's text; `None` where it is not there. An error stops everything.
fn read(path: &Path) -> Result<Option<String>, String> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) => return absent(path, &error),
    };
    let uid = nix::unistd::geteuid().as_raw();
    if file.metadata().is_ok_and(|meta| meta.len() == 0 && just_now(&meta)) {
        // Made by a shell's `>` or an editor, whose text is on its way: what it names, not everything, is to stop.
        std::thread::sleep(WRITING);
    }
    let meta = file.metadata().map_err(|e| format!("it cannot be looked at ({e})"))?;
    if !meta.is_file() {
        return Err(format!("it is {}, not a regular file", trust::file_kind(&meta)));
    }
    trust::check(&file, path, uid).map_err(|e| format!("what it says cannot be trusted: {e}"))?;
    text(&file)
}

fn just_now(meta: &Metadata) -> bool {
    meta.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age < WRITING * 4))
}

fn text(file: &File) -> Result<Option<String>, String> {
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|e| format!("it cannot be read ({e})"))?;
    if bytes.len() as u64 > LONGEST {
        return Err("it is larger than 64 KiB".into());
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    Ok(Some(text))
}

/// Not there counts only where its directory can be seen to lack it: a link to nothing, a directory that is gone or
/// closed, a disk that answers nothing stop everything.
fn absent(path: &Path, error: &io::Error) -> Result<Option<String>, String> {
    if error.kind() != io::ErrorKind::NotFound {
        return Err(format!("it cannot be read ({error})"));
    }
    if path.symlink_metadata().is_ok() {
        return Err("it is a link to nothing".into());
    }
    let parent = path.parent().unwrap_or(Path::new("/"));
    match parent.metadata() {
        // Whoever can write it can take the switch away as soon as it is there.
        Ok(meta) if meta.is_dir() => trust::check_directory(parent, nix::unistd::geteuid().as_raw())
            .map(|()| None)
            .map_err(|e| format!("others could take it away: {e}")),
        Ok(_) => Err("its directory is no directory".into()),
        Err(error) => Err(format!("its directory cannot be looked at ({error})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A directory of its own, gone when dropped.
    struct Dir(PathBuf);

    impl Dir {
        fn new() -> Dir {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("guardexec-switch-{}-{n}", std::process::id()));
            fs::create_dir_all(&path).expect("a directory");
            Dir(path)
        }

        fn switch(&self, text: &[u8]) -> Switch {
            let switch = self.absent();
            fs::write(&switch.file, text).expect("the switch");
            fs::set_permissions(&switch.file, fs::Permissions::from_mode(0o644)).expect("its mode");
            switch
        }

        fn absent(&self) -> Switch {
            Switch {
                file: self.0.join("stop"),
                at: Place { file: Arc::from(Path::new("p.toml")), line: 3 },
                known: ["allow:date", "git-read", "refund"].map(String::from).to_vec(),
            }
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn ids(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn without_the_file_nothing_stops() {
        let dir = Dir::new();
        assert_eq!(dir.absent().look(), Says::Nothing);
    }

    #[test]
    fn an_empty_file_stops_everything_with_its_reason() {
        let dir = Dir::new();
        assert_eq!(dir.switch(b"").stops_all().map(|s| s.reason), Some(None));
        let stopped = dir.switch(b"\n  # incident 7\x1b[2K \n# more\n").stops_all().expect("stops");
        assert_eq!(stopped.reason.as_deref(), Some("incident 7\\x1b[2K"));
        assert!(stopped.sentence().ends_with("/stop is on: incident 7\\x1b[2K"), "{}", stopped.sentence());
    }

    #[test]
    fn names_stop_what_they_name_alone() {
        let dir = Dir::new();
        let switch = dir.switch(b"refund # fraud wave\ndate\n");
        assert_eq!(switch.stops_all(), None);
        assert_eq!(switch.stops(&ids(&["git-read"])), None);
        let of = |id: &str| switch.stops(&ids(&["git-read", id])).map(|s| s.reason);
        assert_eq!(of("refund"), Some(Some("fraud wave".into())));
        assert_eq!(of("allow:date"), Some(None));
    }

    #[test]
    fn a_name_that_means_two_stops_both() {
        let dir = Dir::new();
        let mut switch = dir.switch(b"date # off\n");
        switch.known.push("date".into());
        for id in ["date", "allow:date"] {
            assert_eq!(switch.stops(&ids(&[id])).and_then(|s| s.reason).as_deref(), Some("off"), "{id}");
        }
        assert_eq!(switch.stops(&ids(&["refund"])), None);
    }

    #[test]
    fn what_cannot_be_understood_stops_everything() {
        let dir = Dir::new();
        let texts: [&[u8]; 4] = [b"refund\nrefnud\n", b"\xff\xfe", &[b'#'; 70_000], b"refund git-read"];
        for text in texts {
            let switch = dir.switch(text);
            assert!(switch.stops(&ids(&["git-read"])).is_some(), "{:?}", &text[..text.len().min(20)]);
            assert!(switch.stops_all().is_some());
        }
    }

    #[test]
    fn t5_144_what_cannot_be_looked_at_stops_everything() {
        let dir = Dir::new();
        let switch = dir.absent();
        fs::create_dir(&switch.file).unwrap();
        assert!(switch.stops_all().is_some(), "a directory");
        fs::remove_dir(&switch.file).unwrap();
        std::os::unix::fs::symlink("nowhere", &switch.file).unwrap();
        assert!(switch.stops_all().is_some(), "a link to nothing");
        fs::remove_file(&switch.file).unwrap();
        nix::unistd::mkfifo(&switch.file, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(switch.stops_all().is_some(), "a pipe, and no waiting for a writer");
        fs::remove_file(&switch.file).unwrap();
        assert_eq!(switch.stops_all(), None);
        fs::remove_dir(&dir.0).unwrap();
        assert!(switch.stops_all().is_some(), "the directory is gone");
    }

    #[test]
    fn a_directory_that_others_can_write_stops_everything() {
        let dir = Dir::new();
        let switch = dir.absent();
        fs::set_permissions(&dir.0, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(switch.stops_all().is_some());
        fs::set_permissions(&dir.0, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(switch.stops_all(), None);
    }

    #[test]
    fn a_file_that_others_can_change_stops_everything_whatever_it_names() {
        let dir = Dir::new();
        let switch = dir.switch(b"refund\n");
        fs::set_permissions(&switch.file, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(switch.stops(&ids(&["git-read"])).is_some());
    }
}
