//! Which sockets there are, and the door to those that the policy lists.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

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
        // As far as the filter goes.
        let loopback = self.wanted.loopback && self.ground.namespaces;
        let internet = self.wanted.network == NetworkMode::Host || loopback;
        let denied: Vec<_> = self.wanted.filesystem.deny.iter().flatten().collect();
        let closed = |written: &Path, real: &Path| {
            let below = |dir: &Path| [written, real].iter().any(|path| path.starts_with(dir));
            if denied.iter().any(|dir| below(dir) || canonical(dir).is_ok_and(|dir| below(&dir))) {
                return Some("[filesystem] deny names it");
            }
            // An earlier run could have led the way elsewhere.
            let led = self.writable.iter().any(|dir| crosses(written, real, dir));
            led.then_some("links lead there, from where the run may write")
        };
        let (door, far, said) = Door::new(&self.wanted.unix, closed, self.becomes(), internet)
            .map_err(|error: io::Error| PrepareError::System(error))?;
        self.layers.warnings.extend(said);
        self.layers.door = Some(door);
        Ok(far)
    }
}

/// Whether `real`, to which `written` leads, was reached by links below `writable`. The way to its topmost part there is
/// nobody's to change, and from there on the path has to be as it is written: a link that comes and goes is not looked for.
fn crosses(written: &Path, real: &Path, writable: &Path) -> bool {
    let mut above: Vec<&Path> = written.ancestors().collect();
    above.reverse();
    let top = above
        .into_iter()
        .find_map(|dir| canonical(dir).ok().filter(|c| c.starts_with(writable)).map(|c| (dir, c)));
    top.is_some_and(|(dir, canonical)| {
        written.strip_prefix(dir).is_ok_and(|rest| straight(&canonical, rest) != real)
    })
}

/// `rest` below `dir`; joining nothing would add a slash.
fn straight(dir: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { dir.to_owned() } else { dir.join(rest) }
}
