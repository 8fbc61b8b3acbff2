//! What a run would be held by here, found out without running anything: for `explain`.

use super::layers::{self, Ground};
use super::namespace::Namespace;
use super::probe::{self, Probe};
use super::{Confinement, Enforced, PrepareError};
use crate::policy::model::TreeKind;

impl Confinement {
    /// Prepares every layer as a run would, and lets go of it again.
    ///
    /// # Errors
    /// What would keep the run from starting: a required layer, a path of the policy, the demanded namespace.
    pub fn foresee(&self) -> Result<Enforced, PrepareError> {
        let tried = (self.tree != TreeKind::Groups).then(probe::pid_namespace);
        if let (TreeKind::Namespace, Some(probe)) = (self.tree, tried.as_ref().filter(|probe| !probe.ok)) {
            return Err(PrepareError::Policy(format!(
                "the tree cannot be held in a namespace: {}",
                probe.sentence
            )));
        }
        let works = tried.as_ref().is_some_and(|probe| probe.ok);
        let way = Namespace::ways().into_iter().next().filter(|_| works);
        let ground = Ground {
            namespaces: way.is_some(),
            user_namespace: way.as_ref().is_some_and(Namespace::has_user_namespace),
        };
        let prepared = layers::prepare(self, ground).and_then(|layers| layers.complete().map(|()| layers));
        match (prepared, tried) {
            (Ok(layers), _) => Ok(layers.enforced),
            (Err(error), Some(Probe { errno: Some(errno), sentence, .. })) => {
                let what = sentence.split(" failed: ").next().unwrap_or(&sentence);
                Err(error.for_want_of_namespace(&format!("{what} failed"), errno))
            }
            (Err(error), _) => Err(error),
        }
    }
}
