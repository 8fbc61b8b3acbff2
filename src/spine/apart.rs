//! What is kept apart from runs: the store, for who can read it sees what others asked for and who can write it approves
//! himself; and what guardexec is to run one day and is not there yet.

use std::path::{Path, PathBuf};

use super::authority::Authority;
use crate::decision::Grant;
use crate::policy::model::{Policy, Profile};
use crate::policy::oversight::{self, Role};
use crate::sandbox::PrepareError;
use crate::state::Store;
use crate::sys::canonical;

/// Takes the store out of the run's view, and keeps it where it is: a run may rename what lies around it.
///
/// # Errors
/// It does not exist, lies where the run could make it first, and cannot be made.
pub(super) fn keep(
    grant: &mut Grant,
    guarded: &mut Vec<PathBuf>,
    authority: &Authority<'_>,
) -> Result<(), PrepareError> {
    let Authority { policies, store, dry, .. } = authority;
    if !oversight::needs_state(policies) || grant.wanted.profile == Profile::Host {
        return Ok(());
    }
    // Nothing can be put over what does not exist, and what the run makes there would be the store.
    if !dry && store.symlink_metadata().is_err() && is_reached(grant, store) {
        Store::make(store).map_err(|error| PrepareError::Policy(error.to_string()))?;
    }
    grant.wanted.filesystem.deny.get_or_insert_default().push(store.to_path_buf());
    guarded.push(store.to_path_buf());
    Ok(())
}

/// The programs that guardexec runs for the policies, and the files among their words, that do not exist: a run that could make
/// one would have guardexec run it.
pub(super) fn unmade(policies: &[Policy]) -> Vec<PathBuf> {
    let led = oversight::files(policies).into_iter();
    let led = led.filter(|led| matches!(led.role, Role::Program | Role::Word) && !led.path.exists());
    led.map(|led| led.path.to_path_buf()).collect()
}

/// Whether it would lie in what the policy lets the run read or write.
fn is_reached(grant: &Grant, store: &Path) -> bool {
    let Some(above) = store.ancestors().skip(1).find_map(|dir| canonical(dir).ok()) else { return false };
    let lists = [&grant.wanted.filesystem.read, &grant.wanted.filesystem.write];
    let named = lists.into_iter().flatten().flatten();
    let mut roots = named.map(|root| canonical(root).unwrap_or_else(|_| root.clone()));
    above.starts_with(&grant.cwd) || roots.any(|root| above.starts_with(root))
}
