//! What is kept from the run, put by for the case that it fails.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::Builder;
use crate::policy::model::{Layer, NetworkMode, Profile};
use crate::sandbox::bounds::{Bounds, can_be_found};
use crate::sandbox::view::View;

impl Builder<'_> {
    /// The files' part. Of what was found by looking only that is kept which the run's user can find itself.
    pub(super) fn bound(
        &mut self,
        mut view: View,
        mut kept: Vec<PathBuf>,
        exec: Option<Vec<PathBuf>>,
        tmp: PathBuf,
    ) {
        let lists = &self.wanted.filesystem;
        let strict = self.wanted.profile == Profile::Strict;
        let user = self.layers.identity.numbers();
        let in_words = |list: &Option<Vec<PathBuf>>| list.iter().flatten().cloned().collect::<Vec<_>>();
        let denied = in_words(&lists.deny);
        let mut named = in_words(&lists.read);
        if !self.ground.namespaces {
            named.extend(taken_apart(&view, &denied, &named));
        }
        view.rules.retain(|rule| can_be_found(&rule.path, user));
        view.keep.retain(|path| can_be_found(path, user));
        kept.retain(|path| can_be_found(path, user));
        self.bounds = Some(Bounds {
            view,
            named,
            written: in_words(&lists.write),
            denied,
            kept,
            cwd: self.job.cwd.clone(),
            tmp: self.ground.namespaces.then_some(tmp),
            exec: exec.or(strict.then(Vec::new)),
            path: self.wanted.path.clone(),
            user,
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

/// Without mounts a tree with something to leave out has become rules for what lay beside it, and what those are tells what
/// was there: the whole directory in `/` is passed over. Files that the program needs are among the rules, and cost no more.
fn taken_apart(view: &View, denied: &[PathBuf], named: &[PathBuf]) -> Vec<PathBuf> {
    let rules = view.rules.iter().filter(|rule| rule.optional).map(|rule| &rule.path);
    let apart = rules.chain(denied).filter(|path| !named.iter().any(|above| path.starts_with(above)));
    let tops = apart.filter_map(|path| path.ancestors().filter(|above| above.parent().is_some()).last());
    tops.map(Path::to_owned).collect()
}
