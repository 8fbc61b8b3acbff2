//! The policies and the store of the verbs that look at what is kept.

use std::path::PathBuf;

use super::args::PolicyArgs;
use super::deliver::say;
use crate::Surroundings;
use crate::policy::model::Policy;
use crate::policy::stack::{Search, Stack};
use crate::request::quote::escape_text;
use crate::state::place::{self, Caller};
use crate::state::{StateError, Store, View};

/// Exit status of a call that cannot be answered.
pub(super) const UNUSABLE: u8 = 125;

/// Where what is kept is.
pub(super) struct Kept {
    /// The policies that a run would use.
    pub policies: Vec<Policy>,
    /// The directory of the store, which need not exist.
    pub dir: PathBuf,
}

/// Finds both; the error is said already, and is the exit status.
pub(super) fn find(args: &PolicyArgs, around: &Surroundings) -> Result<Kept, u8> {
    let search = Search { given: args.policies.clone(), ..around.search.clone() };
    let caller = caller(args, around);
    let found = Stack::load(&search, &around.load).and_then(|stack| {
        let dir = place::resolve(&stack.policies, &caller)?;
        Ok(Kept { policies: stack.policies, dir })
    });
    found.map_err(|error| {
        say(&error.to_string());
        UNUSABLE
    })
}

/// What the call says of where the store is.
pub(super) fn caller(args: &PolicyArgs, around: &Surroundings) -> Caller {
    Caller {
        option: args.state.clone(),
        xdg_state_home: around.facts.variable(b"XDG_STATE_HOME"),
        home: around.load.home.clone(),
        uid: around.load.uid,
    }
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
