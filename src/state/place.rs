//! Which directory the store is in. What the caller chooses cannot be another one than the policy's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::policy::error::{ErrorKind, PolicyError};
use crate::policy::model::Policy;
use crate::policy::oversight;

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

/// The directory: the policies', else `--state`, else `$XDG_STATE_HOME/guardexec`, else below the user's home, as root
/// below `/var/lib`. Nothing is made.
///
/// # Errors
/// Two policies, or a policy and `--state`, name different directories; or nobody names one and the user has no home. Exit
/// status 125.
pub fn resolve(policies: &[Policy], caller: &Caller) -> Result<PathBuf, PolicyError> {
    // Where guardexec was started decides what a relative name means, once.
    let whole = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let option = caller.option.as_ref().map(whole);
    match oversight::state_dir(policies, option.as_deref())? {
        Some(dir) => Ok(dir),
        None => default(caller),
    }
}

fn default(caller: &Caller) -> Result<PathBuf, PolicyError> {
    let xdg = caller.xdg_state_home.as_ref().map(Path::new).filter(|dir| dir.is_absolute());
    match xdg {
        Some(dir) => Ok(dir.join(NAME)),
        None if caller.uid == 0 => Ok(PathBuf::from(SYSTEM)),
        None if caller.home.is_absolute() => Ok(caller.home.join(".local/state").join(NAME)),
        None => {
            let message = "there is no place for the state: the user has no home directory";
            Err(PolicyError::general(ErrorKind::Invalid, message)
                .hint("name a directory in [state] dir, or with --state"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::{Dir, policy};

    fn user() -> Caller {
        Caller { home: "/home/u".into(), uid: 1000, ..Caller::default() }
    }

    #[test]
    fn the_policy_then_the_option_then_the_users_place() {
        let mut caller = user();
        assert_eq!(resolve(&[], &caller).unwrap(), Path::new("/home/u/.local/state/guardexec"));
        caller.xdg_state_home = Some("/x/state".into());
        assert_eq!(resolve(&[], &caller).unwrap(), Path::new("/x/state/guardexec"));
        for ignored in ["x/state", "", "./x"] {
            caller.xdg_state_home = Some(ignored.into());
            assert_eq!(resolve(&[], &caller).unwrap(), Path::new("/home/u/.local/state/guardexec"));
        }
        caller.option = Some("/o/state".into());
        assert_eq!(resolve(&[], &caller).unwrap(), Path::new("/o/state"));
        caller.option = Some("o".into());
        assert_eq!(resolve(&[], &caller).unwrap(), std::env::current_dir().unwrap().join("o"));
        caller.option = None;
        let dir = Dir::new();
        let with = |text: &str| [policy(&dir, text)];
        assert_eq!(resolve(&with("[state]\ndir = \"/var/s\""), &caller).unwrap(), Path::new("/var/s"));
        assert_eq!(resolve(&with(""), &user()).unwrap(), Path::new("/home/u/.local/state/guardexec"));
    }

    #[test]
    fn root_has_a_place_of_its_own_and_a_user_without_a_home_none() {
        let mut root = Caller { uid: 0, home: "/root".into(), ..Caller::default() };
        assert_eq!(resolve(&[], &root).unwrap(), Path::new("/var/lib/guardexec"));
        root.xdg_state_home = Some("/x".into());
        assert_eq!(resolve(&[], &root).unwrap(), Path::new("/x/guardexec"));
        let homeless = Caller { home: PathBuf::new(), ..user() };
        assert!(resolve(&[], &homeless).expect_err("nowhere").to_string().contains("no home directory"));
    }

    #[test]
    fn another_directory_than_the_policys_is_an_error_and_the_same_by_another_name_is_not() {
        let dir = Dir::new();
        let real = dir.outer().join("real");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink("real", dir.outer().join("link")).unwrap();
        let policies = [policy(&dir, &format!("[state]\ndir = {real:?}"))];
        for (name, same) in [("link", true), ("link/", true), ("real/../link", true), ("link/new", false)] {
            let caller = Caller { option: Some(dir.outer().join(name)), ..user() };
            assert_eq!(resolve(&policies, &caller).is_ok(), same, "{name}");
        }
        let policies = [policy(&dir, &format!("[state]\ndir = {:?}", real.join("new/er")))];
        let caller = Caller { option: Some(dir.outer().join("link/new/er")), ..user() };
        assert!(resolve(&policies, &caller).is_ok(), "not made yet");
        let caller = Caller { option: Some("/other".into()), ..user() };
        let error = resolve(&policies, &caller).expect_err("contradicts").to_string();
        assert!(error.contains("--state /other contradicts the policy"), "{error}");
    }
}
