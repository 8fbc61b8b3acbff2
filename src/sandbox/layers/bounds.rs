//! What is kept from the run, put by for the case that it fails.

use std::path::PathBuf;
use std::rc::Rc;

use super::Builder;
use crate::policy::model::{Layer, NetworkMode, Profile};
use crate::sandbox::bounds::Bounds;
use crate::sandbox::view::View;
use crate::sys::canonical;

impl Builder<'_> {
    /// The files' part.
    pub(super) fn bound(&mut self, view: View, kept: Vec<PathBuf>, exec: Option<Vec<PathBuf>>, tmp: PathBuf) {
        let strict = self.wanted.profile == Profile::Strict;
        let denied = self.wanted.filesystem.deny.iter().flatten();
        self.bounds = Some(Bounds {
            view,
            denied: denied.map(|path| canonical(path).unwrap_or_else(|_| path.clone())).collect(),
            kept,
            cwd: self.job.cwd.clone(),
            tmp: self.ground.namespaces.then_some(tmp),
            exec: exec.or(strict.then(Vec::new)),
            path: self.wanted.path.clone(),
            user: self.layers.identity.numbers(),
            no_network: self.wanted.network == NetworkMode::None && !self.wanted.loopback,
        });
    }

    /// Takes out what is not on after all: what is not enforced is no fact.
    pub(super) fn bounded(&mut self) {
        let on = |layer| self.layers.enforced.has(layer);
        let (files, execution, network) = (on(Layer::Filesystem), on(Layer::Execution), on(Layer::Network));
        let Some(mut bounds) = self.bounds.take().filter(|_| files && self.wanted.profile != Profile::Host)
        else {
            return;
        };
        bounds.exec = bounds.exec.filter(|_| execution);
        bounds.no_network &= network;
        self.layers.enforced.bounds = Some(Rc::new(bounds));
    }
}
