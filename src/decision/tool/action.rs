//! The built-in actions: what is asked of guardexec itself, and where.
//!
//! A path is relative to the tool's root and is read by its letters here: no `..`, nothing absolute. What it leads to
//! on the disk is looked at when the action is done, by descriptor, so that nothing can be exchanged in between.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use nix::fcntl::OFlag;

use super::arguments::Values;
use crate::decision::shown::repr;
use crate::decision::{Denial, Judged, Stage, cwd};
use crate::policy::model::{Action, ActionKind, Policy, Tool};
use crate::program::{canonical_path, open_by_path};
use crate::request::{Request, Stdin};

/// The parameter that says where.
const PATH: &str = "path";
/// The parameter that says what is written.
pub(super) const CONTENT: &str = "content";

/// The longest path, as the kernel's own calls have it (`PATH_MAX`).
const LONGEST: usize = 4095;

/// One action, settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionCall {
    /// What is done.
    pub kind: ActionKind,
    /// Where, beneath the root: plain names only. Empty means the root itself.
    pub path: PathBuf,
    /// What is written.
    pub content: Vec<u8>,
    /// The most bytes that are read, written or listed.
    pub max_size: u64,
    /// The root as the policy writes it.
    pub(super) root: PathBuf,
}

impl ActionCall {
    /// For the tests of those who do it.
    #[cfg(test)]
    pub(crate) fn for_test(kind: ActionKind, path: &str, content: &str, max_size: u64) -> ActionCall {
        ActionCall { kind, path: path.into(), content: content.into(), max_size, root: PathBuf::new() }
    }

    /// Whether two policies mean the same by it; each may have its own `max_size`.
    pub(super) fn is_the_same(&self, other: &ActionCall) -> bool {
        let real = |path: &Path| crate::sys::canonical(path).unwrap_or_else(|_| path.to_path_buf());
        let what = (self.kind, &self.path, &self.content) == (other.kind, &other.path, &other.content);
        what && (self.root == other.root || real(&self.root) == real(&other.root))
    }
}

/// The action that a tool is, with these values; what is wrong with them is added to `wrong`.
pub(super) fn call(tool: &Tool, values: &Values, wrong: &mut Vec<String>) -> Option<ActionCall> {
    let action = tool.action.as_ref()?;
    let text = |name: &str| values.get(name).and_then(|value| value.as_str());
    let path = text(PATH).map_or_else(|| Ok(PathBuf::new()), |path| relative(path, action));
    let content = text(CONTENT).unwrap_or_default().as_bytes().to_vec();
    if content.len() as u64 > action.max_size {
        let (length, most) = (content.len(), action.max_size);
        wrong.push(format!("argument 'content' is {length} bytes long, more than max_size {most}"));
    }
    let path = path.unwrap_or_else(|why| {
        wrong.push(format!("argument 'path' {} {why}", repr(text(PATH).unwrap_or_default().as_bytes())));
        PathBuf::new()
    });
    Some(ActionCall {
        kind: action.kind,
        path,
        content,
        max_size: action.max_size,
        root: action.root.clone(),
    })
}

/// Plain names beneath the root, or how the path fails, as the end of a sentence that starts with it.
fn relative(text: &str, action: &Action) -> Result<PathBuf, String> {
    let dir = action.kind == ActionKind::ListDir;
    if text.len() > LONGEST {
        return Err(format!("is longer than {LONGEST} bytes"));
    }
    if text.starts_with('/') {
        let inside =
            Path::new(text).strip_prefix(&action.root).ok().filter(|rest| !rest.as_os_str().is_empty());
        let instead = inside.map(|rest| format!(": write {}", repr(rest.as_os_str().as_bytes())));
        return Err(format!(
            "is absolute, and paths are relative to the tool's directory{}",
            instead.unwrap_or_default()
        ));
    }
    let mut path = PathBuf::new();
    for part in Path::new(OsStr::from_bytes(text.as_bytes())).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            _ => return Err("has a '..' in it, which no action follows".to_owned()),
        }
    }
    if !dir && (path.as_os_str().is_empty() || text.ends_with('/') || text.ends_with("/.")) {
        return Err("names no file".to_owned());
    }
    Ok(path)
}

/// Opens the root. A request cannot say where an action works, nor give it what only a command has.
pub(super) fn place(tools: &[(&Policy, &Tool)], request: &Request) -> Judged<cwd::Opened> {
    let Some((tool, action)) = tools.iter().find_map(|(_, tool)| Some((tool, tool.action.as_ref()?))) else {
        return Denial::new(Stage::Arguments, "tool_conflict", "this tool is no action").deny();
    };
    let stdin = !matches!(request.stdin, Stdin::Null);
    let asked = [("cwd", request.cwd.is_some()), ("env", !request.env.is_empty()), ("stdin", stdin)];
    if let Some((what, _)) = asked.iter().find(|(_, given)| *given) {
        let name = repr(tool.name.as_bytes());
        let message = format!("tool {name} starts no command, so it takes no {what}");
        return Denial::new(Stage::Arguments, "action_takes_no_run", message)
            .hint(format!("leave {what} out; the tool's parameters are all that it takes"))
            .by_tool(tool)
            .deny();
    }
    let opened = open_by_path(&action.root, OFlag::O_DIRECTORY).and_then(|(fd, direct)| {
        if direct {
            return Ok(cwd::Opened { path: action.root.clone(), fd });
        }
        let stat = nix::sys::stat::fstat(&fd)?;
        Ok(cwd::Opened { path: canonical_path(&fd, &stat)?, fd })
    });
    opened.or_else(|errno| {
        let (name, root) = (repr(tool.name.as_bytes()), repr(action.root.as_os_str().as_bytes()));
        let message = format!("the directory {root} of the tool {name} cannot be opened: {}", errno.desc());
        Denial::new(Stage::Sandbox, "root_unusable", message)
            .hint("the policy's owner has to make it, or to correct the tool's root")
            .by_tool(tool)
            .invalid()
    })
}
