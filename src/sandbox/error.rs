//! Why a grant cannot become a confinement. Then nothing runs.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::probe;
use crate::policy::model::Layer;
use crate::request::quote;

/// What stands in the way.
#[derive(Debug)]
pub enum PrepareError {
    /// The file for standard input cannot be read.
    Stdin {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file for standard input is not the run's to read, by its user or by its confinement.
    Withheld {
        /// The file.
        path: PathBuf,
        /// What opening it came to inside.
        error: io::Error,
    },
    /// The policy requires layers that cannot be had here.
    Required {
        /// Which.
        layers: Vec<Layer>,
        /// What was tried and what the kernel said.
        why: String,
        /// What to do about it.
        remedy: String,
    },
    /// The policy asks for something impossible here: a path, a user.
    Policy(String),
    /// A path that the policy grants cannot be opened.
    Missing(String),
    /// A descriptor, an allocation or a path.
    System(io::Error),
}

impl PrepareError {
    /// The same, where a namespace would have made the layers possible and `what` was refused with `errno`.
    #[must_use]
    pub fn for_want_of_namespace(self, what: &str, errno: i32) -> PrepareError {
        let PrepareError::Required { layers, why, remedy } = self else { return self };
        PrepareError::Required {
            layers,
            why: format!(
                "no PID namespace ({what}: {:?}, {}); without one: {why}",
                nix::errno::Errno::from_raw(errno),
                io::Error::from_raw_os_error(errno),
            ),
            remedy: probe::remedy("pid_namespace", errno).map_or(remedy, str::to_owned),
        }
    }

    /// Stable, machine-readable.
    pub fn kind(&self) -> &'static str {
        match self {
            PrepareError::Stdin { .. } | PrepareError::Withheld { .. } => "stdin",
            PrepareError::Required { .. } => "sandbox_unavailable",
            PrepareError::Policy(_) | PrepareError::Missing(_) => "sandbox_policy",
            PrepareError::System(_) => "system",
        }
    }

    /// What to do instead.
    pub fn hint(&self) -> Option<&str> {
        match self {
            PrepareError::Stdin { .. } => {
                Some("--stdin takes a readable regular file, pipe or device, or - to relay")
            }
            PrepareError::Withheld { .. } => {
                Some("add it to [filesystem] read in the policy, or relay it with --stdin -")
            }
            PrepareError::Required { remedy, .. } => Some(remedy),
            PrepareError::Missing(_) => Some("create it, or take it out of the policy's lists"),
            PrepareError::Policy(_) | PrepareError::System(_) => None,
        }
    }
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrepareError::Stdin { path, error } => {
                write!(
                    f,
                    "cannot read {} for standard input: {error}",
                    quote::display(path.as_os_str().as_encoded_bytes())
                )
            }
            PrepareError::Withheld { path, error } => write!(
                f,
                "the run itself may not read {}, which was to be its standard input: {error}",
                quote::display(path.as_os_str().as_encoded_bytes())
            ),
            PrepareError::Required { layers, why, .. } => {
                let names: Vec<&str> = layers.iter().map(|l| l.as_str()).collect();
                write!(f, "the policy requires {}, which cannot be had here: {why}", names.join(", "))
            }
            PrepareError::Policy(message) | PrepareError::Missing(message) => f.write_str(message),
            PrepareError::System(error) => write!(f, "cannot prepare the run: {error}"),
        }
    }
}

impl std::error::Error for PrepareError {}

impl From<io::Error> for PrepareError {
    fn from(error: io::Error) -> PrepareError {
        PrepareError::System(error)
    }
}
