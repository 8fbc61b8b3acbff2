//! What there is to say of listed Unix sockets when a run has ended.

use super::{Ended, How};
use crate::policy::model::Layer;
use crate::sandbox::door::Refused;

/// Writes it down. `refused`: `None` where the porter could not say it.
pub fn tell(ended: &mut Ended, refused: Option<Refused>) {
    let Some(Refused { held, names }) = refused else {
        let why = "which Unix sockets the run was refused is not known: the kernel held up the thread that saw to it";
        return ended.warnings.push(why.into());
    };
    if !held && !matches!(ended.how, How::NotStarted { .. }) {
        // Then the kernel has refused every connect.
        ended.enforced.lacks(Layer::Network);
        ended.warnings.push("no Unix socket could be connected to: the run's filter was not heard of".into());
    }
    ended.sockets_refused = names;
}
