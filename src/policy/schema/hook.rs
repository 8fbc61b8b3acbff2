//! Programs that a policy makes guardexec run: hooks, checks, alerts.

use std::path::Path;

use super::reader::Item;
use crate::policy::error::{PolicyError, printable};
use crate::policy::model::Hook;

/// How a further word of a hook starts when it is a path.
const PATHS: [&str; 4] = ["/", "./", "../", "~/"];

/// A program's path, or a list of it and its arguments. The path is relative to the policy file; so are further words
/// that are written as paths, since the directory a hook is started in says nothing.
pub(super) fn hook(item: &Item<'_>) -> Result<Hook, PolicyError> {
    let entries = match item.is_string() {
        true => vec![item.clone()],
        false => item.list("a program's path or a list of it and its arguments")?,
    };
    let Some((program, rest)) = entries.split_first() else {
        return Err(item.error(format!("{} is empty: it has to name a program", item.what)));
    };
    let mut argv = Vec::with_capacity(entries.len());
    argv.push(self::program(program)?);
    for entry in rest {
        argv.push(word(entry)?);
    }
    Ok(Hook { argv, at: item.doc.place(&item.span) })
}

/// A program's path, relative to the policy file.
pub(super) fn program(item: &Item<'_>) -> Result<String, PolicyError> {
    let path = item.path()?;
    if path.file_name().is_none() {
        return Err(item.error(format!("{} is no program", item.what)).hint("name a file"));
    }
    text(item, &path)
}

fn word(item: &Item<'_>) -> Result<String, PolicyError> {
    let word = item.string()?;
    if word.contains(char::is_control) {
        return Err(item.error(format!("`{}` holds a control character", printable(word))));
    }
    match PATHS.iter().any(|start| word.starts_with(start)) {
        true => text(item, &item.path()?),
        false => Ok(word.to_owned()),
    }
}

/// A policy is text, but the home and the directory it stands in need not be.
fn text(item: &Item<'_>, path: &Path) -> Result<String, PolicyError> {
    path.to_str().map(str::to_owned).ok_or_else(|| item.error("the path it leads to is not UTF-8"))
}
