//! What the child says of its action, and how that travels.

use std::os::unix::ffi::OsStrExt as _;

use nix::errno::Errno;

use crate::decision::ActionCall;
use crate::policy::model::ActionKind;
use crate::request::quote::{escape_text, repr};

/// How the action went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Done: what it gives for standard output.
    Done(Vec<u8>),
    /// It could not be done, for a reason as any program has it; one sentence.
    Failed(String),
    /// It must not be done.
    Refused(Refusal),
    /// Nothing works here, or the child died; one sentence.
    Broken(String),
}

/// Why an action must not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// One sentence.
    pub message: String,
    /// What to do instead.
    pub hint: String,
}

/// How an action ends early: with something else than having been done.
pub(super) type Step<T> = Result<T, Said>;

impl Said {
    /// A refusal as the end of an action.
    pub(super) fn refused<T>(message: impl Into<String>, hint: &str) -> Step<T> {
        Err(Said::Refused(Refusal { message: message.into(), hint: hint.to_owned() }))
    }

    /// A failure as the end of an action.
    pub(super) fn failed<T>(message: impl Into<String>) -> Step<T> {
        Err(Said::Failed(message.into()))
    }

    /// One byte that says which, then the text.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        let (which, text) = match self {
            Said::Done(content) => (b'd', content),
            Said::Failed(message) => (b'f', message.into_bytes()),
            Said::Refused(Refusal { message, hint }) => (b'r', format!("{message}\0{hint}").into_bytes()),
            Said::Broken(message) => (b'b', message.into_bytes()),
        };
        let mut bytes = vec![which];
        bytes.extend(text);
        bytes
    }

    /// What came; nothing at all is a child that died.
    pub(super) fn parse(mut bytes: Vec<u8>) -> Said {
        if bytes.is_empty() {
            return Said::Broken("the process that did it died".to_owned());
        }
        let which = bytes.remove(0);
        if which == b'd' {
            return Said::Done(bytes);
        }
        let text = escape_text(&String::from_utf8_lossy(&bytes).replace('\0', "\n"));
        let (message, hint) = text.split_once('\n').unwrap_or((&text, ""));
        match which {
            b'f' => Said::Failed(text),
            b'r' => Said::Refused(Refusal { message: message.to_owned(), hint: hint.to_owned() }),
            _ => Said::Broken(text),
        }
    }
}

/// A failure that any program could have met.
pub(super) fn cannot(call: &ActionCall, errno: Errno) -> Said {
    let what = match call.kind {
        ActionKind::ReadFile => "read",
        ActionKind::WriteFile => "write",
        ActionKind::ListDir => "list",
        ActionKind::DeleteFile => "delete",
    };
    Said::Failed(format!("cannot {what} {}: {}", shown(call), errno.desc()))
}

/// What the action is called in sentences: the path, or the root itself.
pub(super) fn shown(call: &ActionCall) -> String {
    let path = call.path.as_os_str().as_bytes();
    repr(if path.is_empty() { b"." } else { path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_arrives() {
        let refusal = Refusal { message: "m".into(), hint: "h".into() };
        for said in [
            Said::Done(Vec::new()),
            Said::Done(b"\0\xff\n".to_vec()),
            Said::Failed("f".into()),
            Said::Refused(refusal),
            Said::Broken("b".into()),
        ] {
            assert_eq!(Said::parse(said.clone().into_bytes()), said);
        }
        assert!(matches!(Said::parse(Vec::new()), Said::Broken(_)));
    }
}
