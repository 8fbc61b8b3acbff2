//! Whether a run gets a cgroup.
//!
//! It costs about a tenth of a millisecond. In a PID namespace, which kills as surely, that is only paid where it
//! makes a limit exact (its controller is there) or where the policy demands it; without one, wherever it can be
//! had. `processes = "groups"` means process groups and nothing else.

use super::RunError;
use crate::policy::model::TreeKind;
use crate::sandbox::Confinement;
use crate::sandbox::cgroup::{self, Cgroup, Place, Unavailable};

/// The place for it, looked for once and only where it matters.
#[derive(Debug)]
pub struct Cgroups {
    demanded: bool,
    never: bool,
    place: Option<Result<Place, Unavailable>>,
}

impl Cgroups {
    /// For one run.
    pub fn new(c: &Confinement) -> Cgroups {
        Cgroups { demanded: c.tree.demands_cgroup(), never: c.tree == TreeKind::Groups, place: None }
    }

    /// The cgroup for one attempt, if it is to have one.
    ///
    /// # Errors
    /// The policy demands one and there can be none.
    pub fn make(&mut self, c: &Confinement, namespace: bool) -> Result<Option<Cgroup>, RunError> {
        let exactness_alone = namespace && !self.demanded;
        if self.never || (exactness_alone && !cgroup::is_unified()) {
            return Ok(None);
        }
        let made = match self.place.get_or_insert_with(Place::find) {
            Ok(place) if exactness_alone && !place.holds(&c.limits) => return Ok(None),
            Ok(place) => Cgroup::make(place, &c.limits).map_err(|error| Unavailable(error.to_string())),
            Err(why) => Err(why.clone()),
        };
        match made {
            Ok(cgroup) => Ok(Some(cgroup)),
            Err(Unavailable(why)) if self.demanded => Err(RunError::NoCgroup(why)),
            Err(_) => Ok(None),
        }
    }

    /// The child could not be born in one: no further attempt is made.
    pub fn give_up(&mut self, errno: i32) {
        let why = std::io::Error::from_raw_os_error(errno).to_string();
        self.place = Some(Err(Unavailable(why)));
    }
}
