//! Which sockets there are, and the door to those that the policy lists.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use super::Builder;
use crate::policy::model::{NetworkMode, Profile};
use crate::sandbox::door::Door;
use crate::sandbox::probe;
use crate::sandbox::seccomp::Network;
use crate::sandbox::{PrepareError, identity};
use crate::sys::canonical;

impl Builder<'_> {
    /// What the filter lets through. Listed Unix sockets only where it was seen that a list can be held to: else there are
    /// none, and `shut` says why.
    pub(super) fn network(&mut self) -> Network {
        let unix = !self.wanted.unix.is_empty() && {
            let tried = probe::unix_sockets(self.becomes());
            if !tried.ok {
                let remedy = tried.remedy.map(|remedy| format!(" ({remedy})")).unwrap_or_default();
                self.shut = Some(format!(
                    "the run cannot be held to the Unix sockets of [network] unix, and has none: {}{remedy}",
                    tried.sentence
                ));
            }
            tried.ok
        };
        match (self.wanted.network, self.wanted.loopback && self.ground.namespaces) {
            (NetworkMode::None, false) if unix => Network::Unix,
            (NetworkMode::None, false) => Network::None,
            (NetworkMode::Host, _) | (NetworkMode::None, true) => Network::Internet { unix },
        }
    }

    /// What whoever connects for the run becomes first: what the run does, outside its namespaces.
    fn becomes(&self) -> Option<identity::Prepared> {
        let changed = self.wanted.profile != Profile::Host || self.wanted.user.is_some();
        changed.then(|| identity::Prepared::new(self.layers.identity, false))
    }

    /// Makes the door, and gives the child's end of its channel.
    pub(super) fn door(&mut self) -> Result<OwnedFd, PrepareError> {
        let internet = self.wanted.network == NetworkMode::Host || self.wanted.loopback;
        let denied: Vec<_> = self.wanted.filesystem.deny.iter().flatten().collect();
        let closed = |written: &Path, real: &Path| {
            let below = |dir: &Path| [written, real].iter().any(|path| path.starts_with(dir));
            if denied.iter().any(|dir| below(dir) || canonical(dir).is_ok_and(|dir| below(&dir))) {
                return Some("[filesystem] deny names it");
            }
            // An earlier run could have led the way elsewhere.
            let led = written != real && self.writable.iter().any(|dir| crosses(written, dir));
            led.then_some("links lead there, from where the run may write")
        };
        let (door, far, said) = Door::new(&self.wanted.unix, closed, self.becomes(), internet)
            .map_err(|error: io::Error| PrepareError::System(error))?;
        self.layers.warnings.extend(said);
        self.layers.door = Some(door);
        Ok(far)
    }
}

/// Whether a link on the way of `path` lies where the run may write.
fn crosses(path: &Path, writable: &Path) -> bool {
    let links = path.ancestors().filter(|above| above.is_symlink());
    links.filter_map(|link| canonical(link.parent()?).ok()).any(|dir| dir.starts_with(writable))
}
