//! What a script's first line names: an interpreter that has to be there, and often `env`, which has to start another.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{Decision, Denial, Judged, Stage, Wanted};
use crate::decision::shown::repr;
use crate::policy::model::{Profile, Rule};
use crate::program::{Program, interpreter_line};

/// The words after `#!`, once it is known that the kernel will find the first of them.
pub(super) fn first_line(program: &Program, rule: &Rule) -> Judged<Vec<OsString>> {
    let words = interpreter_line(program);
    let Some(interpreter) = words.first().map(Path::new) else { return Ok(words) };
    let denial = |code, what: &str| {
        let (script, named) = (program.path.as_os_str(), interpreter.as_os_str());
        let message =
            format!("{} names the interpreter {}, {what}", repr(script.as_bytes()), repr(named.as_bytes()));
        Denial::new(Stage::Command, code, message).by(rule)
    };
    if !interpreter.is_absolute() {
        // The kernel looks where the run starts, so whoever writes there would choose the interpreter.
        let denial = denial("interpreter_relative", "which is another file in every directory")
            .hint("write its absolute path into the script's first line");
        return Err(Box::new(Decision::NotExecutable(denial)));
    }
    match std::fs::metadata(interpreter) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => {
            let denial = denial("interpreter_not_found", "which was not found")
                .hint("install the interpreter, or correct the script's first line");
            Err(Box::new(Decision::NotFound(denial)))
        }
        Ok(found) if !found.is_file() => {
            let denial = denial("interpreter_not_executable", "which is not a file")
                .hint("correct the script's first line");
            Err(Box::new(Decision::NotExecutable(denial)))
        }
        _ => Ok(words),
    }
}

/// `#!/usr/bin/env python3` starts `env`, and then nothing may be started any more. The kernel's refusal reaches the
/// caller as a message of `env`, which does not say what to do.
pub(super) fn warning(words: &[OsString], program: &Program, wanted: &Wanted) -> Option<String> {
    let once = wanted.profile == Profile::Strict && wanted.exec.is_none();
    let first = words.first().map(Path::new)?;
    if !once || first.file_name()? != "env" {
        return None;
    }
    let after = words[1..].iter().flat_map(|word| word.as_bytes().split(|b| *b == b' '));
    let named =
        after.filter(|word| !word.starts_with(b"-") && !word.contains(&b'=')).find(|w| !w.is_empty())?;
    Some(format!(
        "the first line of {} starts {}, which has to start {}, and this run may start nothing further: name the \
         interpreter itself in that line, or list it in the rule's exec",
        repr(program.path.as_os_str().as_bytes()),
        repr(first.as_os_str().as_bytes()),
        repr(named)
    ))
}
