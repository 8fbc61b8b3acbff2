//! Which policy files judge a request.
//!
//! Nothing is ever read from the working directory unless the caller names it there, and the system's floor is
//! always among the files, so that whoever calls can only add to it.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::error::{ErrorKind, PolicyError, printable};
use super::load::{LoadContext, load};
use super::model::Policy;
use super::oversight;

/// Where to look for policies.
#[derive(Debug, Clone)]
pub struct Search {
    /// Every `--policy`, in order.
    pub given: Vec<PathBuf>,
    /// `$GUARDEXEC_POLICY`.
    pub env_policy: Option<OsString>,
    /// `$XDG_CONFIG_HOME`.
    pub xdg_config_home: Option<OsString>,
    /// The system's directory, usually [`Search::SYSTEM`].
    pub system: PathBuf,
}

impl Search {
    /// Where the system keeps its policies.
    pub const SYSTEM: &'static str = "/etc/guardexec";

    /// A search for the given files in the environment of this process.
    pub fn from_env(given: Vec<PathBuf>) -> Search {
        Search {
            given,
            env_policy: std::env::var_os("GUARDEXEC_POLICY"),
            xdg_config_home: std::env::var_os("XDG_CONFIG_HOME"),
            system: PathBuf::from(Search::SYSTEM),
        }
    }

    /// The user's own policy, if a place for it is known.
    fn user_file(&self, home: &Path) -> Option<PathBuf> {
        let xdg = self.xdg_config_home.as_ref().map(Path::new).filter(|p| p.is_absolute());
        let config = match xdg {
            Some(dir) => dir.to_owned(),
            None if home.is_absolute() => home.join(".config"),
            None => return None,
        };
        Some(config.join("guardexec/policy.toml"))
    }
}

/// The policies that must all allow a request.
#[derive(Debug)]
pub struct Stack {
    /// Those asked for or found, in order, then the system's floor.
    pub policies: Vec<Policy>,
}

impl Stack {
    /// Finds and loads the policies.
    ///
    /// # Errors
    /// None found ([`ErrorKind::NotFound`], naming every place looked at), or the first that cannot be used. A
    /// file that exists and cannot be used is never passed over. Two that keep their state in different places.
    pub fn load(search: &Search, context: &LoadContext) -> Result<Stack, PolicyError> {
        let mut policies = if !search.given.is_empty() {
            search.given.iter().map(|path| load(path, context)).collect::<Result<Vec<_>, _>>()?
        } else if let Some(path) = search.env_policy.as_ref().filter(|p| !p.is_empty()) {
            vec![from_variable(Path::new(path), context)?]
        } else {
            vec![default(search, context)?]
        };
        let floor = if_there(&search.system.join("floor.toml"), &for_floor(context))?;
        policies.extend(floor.filter(|f| policies.iter().all(|p| p.path != f.path)));
        oversight::state(&policies)?;
        Ok(Stack { policies })
    }
}

/// Who may own the floor. In a user namespace that leaves root unmapped, as a run of another guardexec has, root's files
/// show the overflow user, and so does `/` (user_namespaces(7)). There a floor of that owner counts: its directory could
/// only be written by who owns `/`, and a floor can only add to what is asked. No other policy of that owner does, since
/// it might as well be any unmapped user's.
fn for_floor(context: &LoadContext) -> LoadContext {
    let root = std::fs::metadata("/").map_or(0, |meta| meta.uid());
    LoadContext { uid: if root == 0 { context.uid } else { root }, ..context.clone() }
}

/// A relative path in the environment would mean another file wherever the caller stands.
fn from_variable(path: &Path, context: &LoadContext) -> Result<Policy, PolicyError> {
    if path.is_absolute() {
        return load(path, context);
    }
    let shown = printable(&path.to_string_lossy());
    let message = format!("GUARDEXEC_POLICY is `{shown}`, which is not an absolute path");
    Err(PolicyError::general(ErrorKind::Invalid, message).hint("name the file from `/` on, or use --policy"))
}

fn default(search: &Search, context: &LoadContext) -> Result<Policy, PolicyError> {
    let mut looked: Vec<String> = vec!["$GUARDEXEC_POLICY (not set)".to_owned()];
    let places = search.user_file(&context.home).into_iter().chain([search.system.join("policy.toml")]);
    for path in places {
        if let Some(policy) = if_there(&path, context)? {
            return Ok(policy);
        }
        looked.push(printable(&path.to_string_lossy()));
    }
    let message = format!("no policy found; looked at {}", looked.join(", "));
    Err(PolicyError::general(ErrorKind::NotFound, message).hint("name one with --policy FILE"))
}

/// The policy at a place where there need not be one.
fn if_there(path: &Path, context: &LoadContext) -> Result<Option<Policy>, PolicyError> {
    match load(path, context) {
        Ok(policy) => Ok(Some(policy)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
