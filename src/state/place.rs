//! Which directory the store is in. What the caller chooses cannot be another one than the policy's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::StateError;
use crate::policy::model::{Policy, StatePolicy};
use crate::sys;

/// Below a directory of the user's state (XDG base directories).
const NAME: &str = "guardexec";
/// Root's own place.
const SYSTEM: &str = "/var/lib/guardexec";

/// What the caller and the user database say.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// `--state`.
    pub option: Option<PathBuf>,
    /// `$XDG_STATE_HOME`; counts where it is absolute.
    pub xdg_state_home: Option<OsString>,
    /// The user's home, from the user database.
    pub home: PathBuf,
    /// The effective user.
    pub uid: u32,
}

/// `[state]` of all policies that have one.
pub fn sections(policies: &[Policy]) -> impl Iterator<Item = &StatePolicy> {
    policies.iter().filter_map(|policy| policy.oversight.state.as_ref())
}

/// The directory: the policies', else `--state`, else `$XDG_STATE_HOME/guardexec`, else below the user's home, as root
/// below `/var/lib`. Nothing is made.
///
/// # Errors
/// [`StateError::Contradiction`] where two policies, or a policy and `--state`, name different directories;
/// [`StateError::NoPlace`] where the user has no home either.
pub fn resolve<'p>(
    sections: impl IntoIterator<Item = &'p StatePolicy>,
    caller: &Caller,
) -> Result<PathBuf, StateError> {
    let mut named: Vec<(String, PathBuf)> =
        sections.into_iter().map(|section| (section.at.to_string(), section.dir.clone())).collect();
    if let Some(option) = &caller.option {
        let whole = std::path::absolute(option).map_err(|e| StateError::io(option, "find", e))?;
        named.push(("--state".to_owned(), whole));
    }
    let Some(first) = named.first() else { return default(caller) };
    match named.iter().find(|other| settled(&other.1) != settled(&first.1)) {
        Some(other) => Err(StateError::Contradiction { first: first.clone(), second: other.clone() }),
        None => Ok(first.1.clone()),
    }
}

fn default(caller: &Caller) -> Result<PathBuf, StateError> {
    let xdg = caller.xdg_state_home.as_ref().map(Path::new).filter(|dir| dir.is_absolute());
    match xdg {
        Some(dir) => Ok(dir.join(NAME)),
        None if caller.uid == 0 => Ok(PathBuf::from(SYSTEM)),
        None if caller.home.is_absolute() => Ok(caller.home.join(".local/state").join(NAME)),
        None => Err(StateError::NoPlace),
    }
}

/// The path with every link resolved, as far as it exists; what does not exist yet stays as it is written.
fn settled(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|dir| Some((dir, sys::canonical(dir).ok()?)));
    match there {
        Some((dir, canonical)) => match path.strip_prefix(dir) {
            Ok(rest) if !rest.as_os_str().is_empty() => canonical.join(rest),
            _ => canonical,
        },
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::Place;
    use std::sync::Arc;

    fn section(dir: impl Into<PathBuf>, line: u32) -> StatePolicy {
        StatePolicy { dir: dir.into(), at: Place { file: Arc::from(Path::new("/p.toml")), line } }
    }

    fn user() -> Caller {
        Caller { home: "/home/u".into(), uid: 1000, ..Caller::default() }
    }

    #[test]
    fn the_policy_then_the_option_then_the_users_place() {
        let mut caller = user();
        let none: [&StatePolicy; 0] = [];
        assert_eq!(resolve(none, &caller).unwrap(), Path::new("/home/u/.local/state/guardexec"));
        caller.xdg_state_home = Some("/x/state".into());
        assert_eq!(resolve(none, &caller).unwrap(), Path::new("/x/state/guardexec"));
        for ignored in ["x/state", "", "./x"] {
            caller.xdg_state_home = Some(ignored.into());
            assert_eq!(resolve(none, &caller).unwrap(), Path::new("/home/u/.local/state/guardexec"));
        }
        caller.option = Some("/o/state".into());
        assert_eq!(resolve(none, &caller).unwrap(), Path::new("/o/state"));
        caller.option = None;
        assert_eq!(resolve([&section("/var/s", 3)], &caller).unwrap(), Path::new("/var/s"));
    }

    #[test]
    fn root_has_a_place_of_its_own_and_a_user_without_a_home_none() {
        let root = Caller { uid: 0, home: "/root".into(), ..Caller::default() };
        let none: [&StatePolicy; 0] = [];
        assert_eq!(resolve(none, &root).unwrap(), Path::new("/var/lib/guardexec"));
        let homeless = Caller { home: PathBuf::new(), ..user() };
        assert!(matches!(resolve(none, &homeless), Err(StateError::NoPlace)));
    }

    #[test]
    fn another_directory_than_the_policys_is_an_error() {
        let caller = Caller { option: Some("/other".into()), ..user() };
        let error = resolve([&section("/var/s", 3)], &caller).expect_err("contradicts");
        assert_eq!(error.code(), "state_contradiction");
        assert_eq!(
            error.to_string(),
            "/p.toml:3 says that the state is in \"/var/s\", and --state says \"/other\""
        );
        let two = resolve([&section("/var/s", 3), &section("/var/t", 9)], &user());
        assert!(matches!(two, Err(StateError::Contradiction { .. })));
    }

    #[test]
    fn the_same_directory_by_another_name_is_the_same() {
        let dir = std::env::temp_dir().join(format!("guardexec-place-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("real")).unwrap();
        let _ = std::fs::remove_file(dir.join("link"));
        std::os::unix::fs::symlink("real", dir.join("link")).unwrap();
        for (name, same) in [("link", true), ("link/", true), ("real/../link", true), ("link/new", false)] {
            let caller = Caller { option: Some(dir.join(name)), ..user() };
            assert_eq!(resolve([&section(dir.join("real"), 1)], &caller).is_ok(), same, "{name}");
        }
        let caller = Caller { option: Some(dir.join("link/new/er")), ..user() };
        assert!(resolve([&section(dir.join("real/new/er"), 1)], &caller).is_ok(), "not made yet");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
