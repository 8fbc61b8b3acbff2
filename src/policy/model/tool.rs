//! Typed tools: a fixed argv or a built-in action, with parameters.

use std::path::PathBuf;

use super::{OwnOrNone, Place, Verdict};
use crate::policy::value::ValueLimits;

/// `[tools.NAME]`.
#[derive(Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub at: Place,
    /// For the model.
    pub description: String,
    /// The argv template; empty where the tool is a built-in action.
    pub argv: Vec<String>,
    /// The built-in action it is, in place of a command.
    pub action: Option<Action>,
    /// The template of its standard input.
    pub stdin: Option<String>,
    /// A failing exit makes the result an `error`.
    pub check_exit: bool,
    /// What of the output is handed to the model.
    pub output: ToolOutput,
    /// `params.NAME`, in file order.
    pub params: Vec<Param>,
    /// What a call of it is decided as.
    pub decision: Verdict,
    /// The author's reason.
    pub reason: Option<String>,
    /// Only for these askers.
    pub agents: Option<Vec<String>>,
    /// Settings for it alone, its limits among them; a built-in action has no others.
    pub own: OwnOrNone,
}

/// One parameter of a tool.
#[derive(Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: ParamType,
    /// It may be missing.
    pub required: bool,
    /// What it is when missing.
    pub default: Option<serde_json::Value>,
    /// What its value must satisfy.
    pub value: ValueLimits,
    /// A greater value has to be approved: a plain decimal number.
    pub ask_above: Option<String>,
    /// For the model.
    pub description: Option<String>,
}

/// What guardexec does itself for a tool without an argv.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// What.
    pub kind: ActionKind,
    /// Where: everything it touches lies beneath this directory.
    pub root: PathBuf,
    /// The most bytes that are read or written.
    pub max_size: u64,
}

/// The built-in actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionKind {
    /// `read_file`.
    ReadFile,
    /// `write_file`.
    WriteFile,
    /// `list_dir`.
    ListDir,
    /// `delete_file`.
    DeleteFile,
}

impl ActionKind {
    /// The word used in policies.
    pub fn as_str(self) -> &'static str {
        match self {
            ActionKind::ReadFile => "read_file",
            ActionKind::WriteFile => "write_file",
            ActionKind::ListDir => "list_dir",
            ActionKind::DeleteFile => "delete_file",
        }
    }
}

/// `output` of a tool: what its result's text holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolOutput {
    /// Standard output, then standard error.
    #[default]
    Both,
    /// Standard output alone.
    Stdout,
    /// Neither: only how it ended.
    None,
}

/// The type of a tool's parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamType {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A decimal number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list of texts.
    Array,
}
