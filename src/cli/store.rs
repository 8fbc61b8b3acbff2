//! The policies and the store of the verbs that look at what is kept.

use std::path::PathBuf;

use super::args::PolicyArgs;
use super::deliver::{say, say_policy};
use crate::Surroundings;
use crate::policy::error::ErrorKind;
use crate::policy::model::Policy;
use crate::policy::stack::{Search, Stack};
use crate::request::quote::escape_text;
use crate::state::{StateError, Store, View, place};

/// Exit status of a call that cannot be answered.
pub(super) const UNUSABLE: u8 = 125;

/// Where what is kept is.
pub(super) struct Kept {
    /// The policies that a run would use.
    pub policies: Vec<Policy>,
    /// The directory of the store, which need not exist.
    pub dir: PathBuf,
}

/// Finds both; the error is said already, and is the exit status. Where `needed` is false, no policy anywhere is no policy: a
/// person who looks after sessions need not have one.
pub(super) fn find(args: &PolicyArgs, around: &Surroundings, needed: bool) -> Result<Kept, u8> {
    let search = Search { given: args.policies.clone(), ..around.search.clone() };
    let named = !search.given.is_empty() || search.env_policy.is_some();
    let found = match Stack::load(&search, &around.load) {
        Ok(stack) => Ok(stack.policies),
        Err(error) if error.kind == ErrorKind::NotFound && !named && !needed => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    let found = found.and_then(|policies| {
        let dir = place::resolve(&policies, &around.caller(args.state.clone()))?;
        Ok(Kept { policies, dir })
    });
    found.map_err(|error| {
        say_policy(&error);
        UNUSABLE
    })
}

impl Kept {
    /// The store, where there is one: looking creates nothing.
    pub(super) fn look(&self) -> Result<Option<View>, u8> {
        Store::look(&self.dir).map_err(|error| unusable(&error))
    }
}

/// Says what is wrong with the store; gives the exit status.
pub(super) fn unusable(error: &StateError) -> u8 {
    say(&escape_text(&format!("guardexec: error: {error}; {}", error.hint())));
    UNUSABLE
}
