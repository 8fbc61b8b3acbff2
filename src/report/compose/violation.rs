//! What the confinement refused, for results.

use crate::policy::model::Layer;
use crate::report::json;
use crate::report::result::{ProgramDoc, ViolationDoc};
use crate::run::{Ended, How};
use crate::sandbox::Step;

/// All that is known.
pub(super) fn all(ended: &Ended, program: Option<&ProgramDoc>) -> Vec<ViolationDoc> {
    let sockets = ended.sockets_refused.iter().map(|name| unlisted(name));
    told(ended, program).into_iter().chain(sockets).collect()
}

/// What the kernel said that the confinement refused. Most refusals are told to the program alone; these two end or prevent
/// it. Nothing is guessed from its output or its status.
fn told(ended: &Ended, program: Option<&ProgramDoc>) -> Option<ViolationDoc> {
    let on = |layer| ended.enforced.has(layer);
    match ended.how {
        // The filter kills for one thing only.
        How::Signaled(libc::SIGSYS, _) if on(Layer::Syscalls) => Some(ViolationDoc {
            layer: Layer::Syscalls.as_str(),
            operation: "system call of another architecture".into(),
            target: None,
            hint: Some("run a program that is built for this machine (64 bit)".into()),
        }),
        // Judging saw that it may be executed: so what refused is who executes it now, or from where.
        How::NotStarted { step: Step::Exec, errno: libc::EACCES | libc::EPERM } if on(Layer::Execution) => {
            Some(ViolationDoc {
                layer: Layer::Execution.as_str(),
                operation: "execve".into(),
                target: program.map(|p| p.path.clone()),
                hint: Some("the run's user must be able to reach and execute it; see [sandbox] user".into()),
            })
        }
        _ => None,
    }
}

/// A Unix socket that the policy does not list; an abstract name begins with a NUL byte, shown as `@`.
fn unlisted(name: &[u8]) -> ViolationDoc {
    let shown = match name.split_first() {
        Some((0, name)) => format!("@{}", json::lossless(name)),
        _ => json::lossless(name),
    };
    ViolationDoc {
        layer: Layer::Network.as_str(),
        operation: "connect".into(),
        target: Some(shown),
        hint: Some(
            "the policy lists the Unix sockets a run may connect to in [network] unix, by path".into(),
        ),
    }
}
