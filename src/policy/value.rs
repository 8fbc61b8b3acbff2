//! Limits on one value: a flag's value, an operand, a tool's parameter.
//!
//! Only the shape and its compilation live here; judging a value is the work of `decision`.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::error::Spot;

/// Every limit that is present must hold.
#[derive(Debug, Default)]
pub struct ValueLimits {
    /// Bytes; elements of an array.
    pub max_length: Option<u64>,
    /// The smallest number, in the policy's own decimal spelling.
    pub min_value: Option<String>,
    /// The greatest number, in the policy's own decimal spelling.
    pub max_value: Option<String>,
    /// Matches the whole value.
    pub pattern: Option<Pattern>,
    /// One of these, byte for byte.
    pub choices: Option<Vec<String>>,
    /// A path that stays under a directory.
    pub path: Option<Box<PathLimit>>,
}

/// A regular expression on bytes, compiled when it is first needed.
#[derive(Debug)]
pub struct Pattern {
    /// As written.
    pub source: String,
    /// Where it stands in a policy file, for messages.
    pub spot: Option<Box<Spot>>,
    compiled: OnceLock<Box<Result<regex::bytes::Regex, String>>>,
}

impl Pattern {
    /// An uncompiled pattern.
    pub fn new(source: impl Into<String>) -> Pattern {
        Pattern { source: source.into(), spot: None, compiled: OnceLock::new() }
    }

    /// An uncompiled pattern that stands in a policy file.
    pub fn at(source: impl Into<String>, spot: Spot) -> Pattern {
        Pattern { spot: Some(Box::new(spot)), ..Pattern::new(source) }
    }

    /// Compiles the pattern once: alone first, so that it cannot close the group it is wrapped in; then
    /// wrapped to match the whole value. ASCII classes and folding, linear time, 1 MiB of program at most.
    pub fn compile(&self) -> Result<&regex::bytes::Regex, &str> {
        let compiled = self.compiled.get_or_init(|| Box::new(compile(&self.source)));
        (**compiled).as_ref().map_err(String::as_str)
    }
}

fn compile(source: &str) -> Result<regex::bytes::Regex, String> {
    let build = |text: &str| {
        regex::bytes::RegexBuilder::new(text)
            .unicode(false)
            .size_limit(1 << 20)
            .build()
            .map_err(|e| e.to_string())
    };
    build(source)?;
    build(&format!(r"\A(?:{source})\z"))
}

/// `path = { under, kind, symlinks }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathLimit {
    /// The directory that the path must not leave (absolute).
    pub under: PathBuf,
    /// What the path must be, if it exists; `None` accepts anything, also nothing.
    pub kind: Option<PathKind>,
    /// Whether symbolic links on the way are followed (beneath `under` all the same).
    pub symlinks: bool,
}

/// What a path must name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// An existing regular file.
    File,
    /// An existing directory.
    Dir,
}
