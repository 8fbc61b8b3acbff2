//! A place in a policy file: the file and the line that everything said of a policy names.

use std::path::Path;
use std::sync::Arc;

/// Where something stands in a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was named or found.
    pub file: Arc<Path>,
    /// The line, counted from 1.
    pub line: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}
