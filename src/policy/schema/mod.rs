//! The shape of a policy file: TOML text to typed, checked pieces, with every complaint at its place.
//!
//! The text is parsed into a tree that knows where each key and value stands; the modules here walk that tree
//! by hand. So an unknown key, a wrong type or an impossible value is reported at its own column and in the
//! policy's words, never in a parser's. [`File`] is one file before `extends` is settled.

mod args;
mod called;
mod check;
mod hook;
mod nearest;
mod oversight;
mod param;
mod rate;
mod reader;
mod rule;
mod sections;
mod tool;
mod value;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::error::{ErrorKind, PolicyError, Shown, Spot, printable};
use super::model::{EnvPolicy, Filesystem, Limits, Place, Rule, SandboxPolicy, Syntax, Tool};
use super::tree::Tree;
pub(super) use check::ReadCheck;
pub(super) use nearest::nearest;
pub(super) use oversight::{ReadApproval, ReadOversight, ReadSession};
pub(super) use rate::{ReadAlert, ReadRate};
use reader::Table;

/// Byte offsets in a file's text.
pub(super) type Span = Range<usize>;

/// One file's text and what is needed to speak of it.
#[derive(Debug)]
pub(super) struct Doc {
    /// The name to show.
    pub shown: Arc<Path>,
    /// The directory it stands in (canonical).
    pub dir: PathBuf,
    /// The home that `~` stands for.
    pub home: PathBuf,
    /// The text.
    pub text: Arc<str>,
    /// An offset and its line, counted from 0: the last one asked for. Most questions are about places near to it.
    last: Cell<(usize, u32)>,
}

/// One file, not yet joined with what it extends.
#[derive(Debug)]
pub(super) struct File {
    /// `extends`, resolved, each with its place.
    pub extends: Vec<(PathBuf, Span)>,
    /// The short lists first, then `[[rule]]`.
    pub rules: ReadRules,
    /// `[tools.NAME]` and the name's place.
    pub tools: BTreeMap<String, (Tool, Span)>,
    pub limits: Limits,
    pub env: EnvPolicy,
    pub syntax: Option<Syntax>,
    pub sandbox: SandboxPolicy,
    pub filesystem: Filesystem,
    pub network: ReadNetwork,
    pub audit: ReadAudit,
    pub oversight: ReadOversight,
}

/// Rules as they stay, which are too large to be moved about, and a mark for each.
#[derive(Debug, Default)]
pub(super) struct ReadRules {
    pub rules: Vec<Rule>,
    pub marks: Vec<Mark>,
}

/// What joining has to know of a rule besides.
#[derive(Debug)]
pub(super) struct Mark {
    /// Where the id stands, else where the rule starts.
    pub id: Span,
    /// An entry of a short list.
    pub short: bool,
}

impl ReadRules {
    pub fn iter(&self) -> impl Iterator<Item = (&Rule, &Mark)> {
        self.rules.iter().zip(&self.marks)
    }

    /// Room for so many more.
    fn reserve(&mut self, count: usize) {
        self.rules.reserve_exact(count);
        self.marks.reserve_exact(count);
    }

    fn push(&mut self, rule: Rule, id: Span, short: bool) {
        self.rules.push(rule);
        self.marks.push(Mark { id, short });
    }
}

/// `[network]` as written.
#[derive(Debug, Default)]
pub(super) struct ReadNetwork {
    pub mode: Option<super::model::NetworkMode>,
    pub loopback: Option<bool>,
    pub unix: Vec<PathBuf>,
}

/// `[audit]` as written.
#[derive(Debug, Default)]
pub(super) struct ReadAudit {
    pub file: Option<(PathBuf, Span)>,
    pub rotate: Option<u64>,
    /// Where the section stands.
    pub at: Option<Span>,
}

impl Doc {
    pub fn new(shown: Arc<Path>, dir: PathBuf, home: PathBuf, text: Arc<str>) -> Doc {
        Doc { shown, dir, home, text, last: Cell::new((0, 0)) }
    }

    /// The line of an offset, counted from 0.
    fn line_index(&self, offset: usize) -> u32 {
        let offset = offset.min(self.text.len());
        let (last, line) = self.last.get();
        let lines = |from: usize, to: usize| line_ends(&self.text.as_bytes()[from..to]);
        let line = match last <= offset {
            true => line.saturating_add(lines(last, offset)),
            false => line.saturating_sub(lines(offset, last)),
        };
        self.last.set((offset, line));
        line
    }

    pub fn place(&self, span: &Span) -> Place {
        Place { file: Arc::clone(&self.shown), line: self.line_index(span.start).saturating_add(1) }
    }

    pub fn spot(&self, span: &Span) -> Spot {
        Spot { place: self.place(span), text: Arc::clone(&self.text), span: span.clone() }
    }

    /// The text of a span; empty if it does not fall on characters.
    pub fn source(&self, span: &Span) -> &str {
        self.text.get(span.clone()).unwrap_or("")
    }

    /// An error of kind `Invalid` at a span.
    pub fn error(&self, span: &Span, message: impl Into<String>) -> PolicyError {
        self.error_of(ErrorKind::Invalid, span, message)
    }

    pub fn error_of(&self, kind: ErrorKind, span: &Span, message: impl Into<String>) -> PolicyError {
        self.spot(span).error(kind, message)
    }

    /// A path as written, made absolute: `~` is the home, anything relative starts at this file's directory.
    /// `..` may only stand before the first name, where no link can change its meaning.
    pub fn resolve(&self, text: &str, span: &Span) -> Result<PathBuf, PolicyError> {
        let shown = Shown(text);
        if text.is_empty() {
            return Err(self.error(span, "a path cannot be empty"));
        }
        if text.contains(char::is_control) {
            return Err(self.error(span, format!("`{shown}` holds a control character")));
        }
        let (mut path, rest) = if text.starts_with('~') {
            self.at_home(text, &shown, span)?
        } else if text.starts_with('/') {
            (PathBuf::from("/"), text)
        } else {
            (self.dir.clone(), text)
        };
        let mut named = text.starts_with('~') || text.starts_with('/');
        for component in Path::new(rest).components() {
            match component {
                Component::Normal(name) => {
                    path.push(name);
                    named = true;
                }
                Component::ParentDir if named => {
                    return Err(self
                        .error(span, format!("`..` after a name in the path `{shown}`"))
                        .hint("write the path without it: a link could change what it means"));
                }
                Component::ParentDir => {
                    path.pop();
                }
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        Ok(path)
    }

    fn at_home<'t>(
        &self,
        text: &'t str,
        shown: &Shown<'_>,
        span: &Span,
    ) -> Result<(PathBuf, &'t str), PolicyError> {
        let rest = &text[1..];
        if !rest.is_empty() && !rest.starts_with('/') {
            return Err(self
                .error(span, format!("`{shown}` names another user's home"))
                .hint("write the directory itself; only `~` and `~/...` are known"));
        }
        if !self.home.is_absolute() {
            return Err(self.error(span, "`~` stands here, but this user has no home in the user database"));
        }
        Ok((self.home.clone(), rest))
    }
}

/// How many line ends there are: eight bytes at a time, since few of them hold one.
fn line_ends(bytes: &[u8]) -> u32 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    const ENDS: u64 = u64::from_ne_bytes([b'\n'; 8]);
    let (words, rest) = bytes.as_chunks::<8>();
    let mut count = rest.iter().filter(|b| **b == b'\n').count() as u32;
    for word in words {
        let other = u64::from_ne_bytes(*word) ^ ENDS;
        // The highest bit of each byte that is zero in `other`.
        let ends = !(((other & LOW) + LOW) | other | LOW);
        if ends != 0 {
            count += ends.count_ones();
        }
    }
    count
}

/// The keys at the top of a file.
const TOP: &[&str] = &[
    "version",
    "extends",
    "allow",
    "deny",
    "limits",
    "env",
    "command",
    "sandbox",
    "filesystem",
    "network",
    "audit",
    "rule",
    "tools",
    "kill_switch",
    "state",
    "approval",
    "rate",
    "alert",
    "session",
    "check",
];

/// Parses and checks one file.
pub(super) fn read(doc: &Doc) -> Result<File, PolicyError> {
    let Some(file) = read_at_once(doc) else { return read_in_order(doc) };
    #[cfg(debug_assertions)]
    {
        let same = read_in_order(doc);
        assert_eq!(format!("{:?}", Ok::<_, PolicyError>(&file)), format!("{same:?}"), "{:?}", doc.text);
    }
    Ok(file)
}

/// Reads each rule as soon as it is parsed, which takes less memory than all of the tree. `None` where anything is wrong:
/// what that is, and which complaint comes first, is for [`read_in_order`] to say.
fn read_at_once(doc: &Doc) -> Option<File> {
    let mut coming = rule::Coming::new();
    let take = &mut |tree: &Tree<'_>, id| {
        let entry = Table::taken(doc, "[[rule]]", tree, id);
        coming.take(&Table::root(doc, tree), entry).is_ok()
    };
    let tree = Tree::parse_taking(&doc.text, "rule", take)?;
    let top = Table::root(doc, &tree);
    let rules = coming.all(&top)?;
    file(&top, |_| Ok(rules)).ok()
}

fn read_in_order(doc: &Doc) -> Result<File, PolicyError> {
    let tree = Tree::parse(&doc.text).map_err(|e| syntax_error(doc, &e))?;
    file(&Table::root(doc, &tree), rule::all)
}

fn file<'a>(
    top: &Table<'a>,
    rules: impl FnOnce(&Table<'a>) -> Result<ReadRules, PolicyError>,
) -> Result<File, PolicyError> {
    top.only(TOP)?;
    sections::version(top)?;
    let rules = rules(top)?;
    Ok(File {
        extends: sections::extends(top)?,
        rules,
        tools: tool::tools(top)?,
        limits: sections::optional(top, "limits", sections::limits)?,
        env: sections::optional(top, "env", sections::env)?,
        syntax: sections::optional(top, "command", sections::command)?,
        sandbox: sections::optional(top, "sandbox", sections::sandbox)?,
        filesystem: sections::optional(top, "filesystem", sections::filesystem)?,
        network: sections::optional(top, "network", sections::network)?,
        audit: sections::optional(top, "audit", sections::audit)?,
        oversight: oversight::oversight(top)?,
    })
}

/// The parser's complaint in a policy author's words.
fn syntax_error(doc: &Doc, error: &toml::de::Error) -> PolicyError {
    let end = doc.text.len();
    let span = error.span().map_or(end..end, |s| s.start.min(end)..s.end.min(end));
    let raw = error.message();
    let message = if raw.starts_with("duplicate key") {
        format!("the key `{}` stands here a second time", printable(doc.source(&span)))
    } else if raw.contains("recurs") {
        "lists and tables are nested too deeply".to_owned()
    } else {
        format!("not valid TOML: {}", printable(raw))
    };
    doc.error_of(ErrorKind::Malformed, &span, message)
}
