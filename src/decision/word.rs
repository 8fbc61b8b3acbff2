//! The first word of a command.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::shown::repr;
use crate::policy::model::ProgramName;

/// The first word in its three forms.
#[derive(Debug, Clone, Copy)]
pub(super) enum Word<'w> {
    /// Without a slash.
    Bare(&'w OsStr),
    /// An absolute path.
    Absolute(&'w Path),
    /// Anything else with a slash: no rule allows it.
    Relative(&'w Path),
}

impl<'w> Word<'w> {
    pub(super) fn of(word: &'w OsStr) -> Word<'w> {
        let path = Path::new(word);
        if !word.as_bytes().contains(&b'/') {
            Word::Bare(word)
        } else if path.is_absolute() {
            Word::Absolute(path)
        } else {
            Word::Relative(path)
        }
    }

    /// The name without its directory.
    pub(super) fn base(self) -> &'w OsStr {
        match self {
            Word::Bare(name) => name,
            Word::Absolute(path) | Word::Relative(path) => path.file_name().unwrap_or(path.as_os_str()),
        }
    }

    pub(super) fn text(self) -> &'w OsStr {
        match self {
            Word::Bare(name) => name,
            Word::Absolute(path) | Word::Relative(path) => path.as_os_str(),
        }
    }

    /// Whether the rule's name is this word by its letters alone.
    pub(super) fn is(self, name: &ProgramName) -> bool {
        match (self, name) {
            (Word::Bare(word), ProgramName::Bare(name)) => word == name,
            (Word::Absolute(word), ProgramName::Absolute(name)) => word.as_os_str() == name.as_os_str(),
            _ => false,
        }
    }
}

/// The word as sentences name it.
pub(super) fn shown(word: Word<'_>) -> String {
    repr(word.text().as_bytes())
}
