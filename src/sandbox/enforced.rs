//! What is really on: filled in from what was done, never from what was asked for.

use std::rc::Rc;

use super::bounds::Bounds;
use crate::policy::model::{Layer, Profile};

/// Which layers hold a run, and by which mechanism.
#[derive(Debug, Clone)]
pub struct Enforced {
    /// The profile.
    pub profile: Profile,
    /// Layer and mechanism, in the order of [`Layer::ALL`].
    pub on: Vec<(Layer, String)>,
    /// Layers that the profile wants and that are not on.
    pub missing: Vec<Layer>,
    /// What that keeps from the run; `None` under `host`.
    pub bounds: Option<Rc<Bounds>>,
}

impl Enforced {
    /// Nothing on yet: every layer that the profile wants is missing.
    pub fn nothing(profile: Profile) -> Enforced {
        let missing = match profile {
            Profile::Host => Vec::new(),
            Profile::Workspace | Profile::Strict => Layer::ALL.to_vec(),
        };
        Enforced { profile, on: Vec::new(), missing, bounds: None }
    }

    /// Records that a layer is on.
    pub fn set(&mut self, layer: Layer, how: impl Into<String>) {
        self.missing.retain(|l| *l != layer);
        self.on.retain(|(l, _)| *l != layer);
        self.on.push((layer, how.into()));
        self.on.sort_by_key(|(l, _)| *l);
    }

    /// Records that a layer is not on after all.
    pub fn unset(&mut self, layer: Layer) {
        self.on.retain(|(l, _)| *l != layer);
        if self.profile != Profile::Host && !self.missing.contains(&layer) {
            self.missing.push(layer);
            self.missing.sort();
        }
    }

    /// Records that a policy's own wish for a layer cannot be had, whatever the profile.
    pub fn lacks(&mut self, layer: Layer) {
        self.unset(layer);
        if !self.missing.contains(&layer) {
            self.missing.push(layer);
            self.missing.sort();
        }
    }

    /// Whether a layer is on.
    pub fn has(&self, layer: Layer) -> bool {
        self.on.iter().any(|(l, _)| *l == layer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_missing_until_it_is_on() {
        let mut enforced = Enforced::nothing(Profile::Strict);
        assert_eq!(enforced.missing, Layer::ALL);
        enforced.set(Layer::Processes, "pid_namespace");
        enforced.set(Layer::Filesystem, "landlock");
        assert_eq!(enforced.on[0].0, Layer::Filesystem, "in the order of results");
        assert!(enforced.has(Layer::Processes) && !enforced.missing.contains(&Layer::Processes));
        assert!(Enforced::nothing(Profile::Host).missing.is_empty());
    }
}
