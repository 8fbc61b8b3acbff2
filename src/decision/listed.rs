//! What an asker may ask for at all, and the refusal of anything else.

use std::os::unix::ffi::OsStrExt;

use super::asker::grants;
use super::denial::said_by;
use super::shown::repr;
use super::values::list;
use super::word::{Word, shown};
use super::{Denial, Stage};
use crate::policy::model::{Policy, ProgramName, Rule, Verdict};
use crate::request::quote::escape_text;

/// The refusal of a word that no rule allows.
pub(super) fn not_listed(names: &[Vec<u8>], word: Word<'_>, denied: Option<&Rule>, by_base: bool) -> Denial {
    let message = format!("command {} is not in the allowlist {}", shown(word), list(names));
    let mut denial = Denial::new(Stage::Command, "not_allowlisted", message);
    if let Some(rule) = denied {
        denial = denial.by(rule).hint(format!("do without it: it is also denied by {}", said_by(rule)));
    } else if by_base {
        denial.code = "path_mismatch";
        denial = denial.hint(format!(
            "a relative path is never allowed, whatever it is called; ask for {}",
            as_listed(names, word)
        ));
    } else if let Some(name) = starts_with_listed(names, word) {
        denial = denial.hint(format!(
            "this is one word; {} and each of its arguments are words of their own (--command splits a string)",
            repr(name)
        ));
    }
    // The list itself says what to do instead.
    denial
}

/// Which policy it is that an empty list comes from: one that only denies empties the list of the whole stack.
pub(super) fn by_stack(
    policy: &Policy,
    stack: &[Policy],
    names: &[Vec<u8>],
    agent: Option<&str>,
) -> Option<String> {
    if !names.is_empty() {
        return None;
    }
    if stack.len() < 2 {
        return Some("this policy allows this asker no command at all".to_owned());
    }
    let file = policy.sources.last().map_or(&policy.path, |source| &source.shown);
    let file = escape_text(&file.display().to_string());
    Some(if allowlist(std::slice::from_ref(policy), agent).is_empty() {
        format!("{file} allows this asker no command at all, and all stacked policies have to allow one")
    } else {
        "the stacked policies have no command in common, and all have to allow one".to_owned()
    })
}

/// How the list names what a relative path was meant for.
fn as_listed(names: &[Vec<u8>], word: Word<'_>) -> String {
    let base = word.base().as_bytes();
    let absolute = names.iter().find(|n| n.contains(&b'/') && n.rsplit(|b| *b == b'/').next() == Some(base));
    match absolute.filter(|_| !names.iter().any(|n| n == base)) {
        Some(path) => repr(path),
        None => format!("{} without a directory", repr(base)),
    }
}

/// The listed name that the word starts with, where the rest looks like arguments in the same word.
fn starts_with_listed<'n>(names: &'n [Vec<u8>], word: Word<'_>) -> Option<&'n [u8]> {
    let mut parts = word.text().as_bytes().splitn(2, |b| *b == b' ');
    let (first, _rest) = (parts.next()?, parts.next()?);
    names.iter().map(Vec::as_slice).find(|name| *name == first)
}

/// What this asker may ask for in all policies, as the first names it, sorted and each once.
pub(super) fn allowlist(stack: &[Policy], agent: Option<&str>) -> Vec<Vec<u8>> {
    let granted = |policy: &'_ Policy| {
        let usable = policy.rules.iter().filter(|r| r.decision != Verdict::Deny && grants(r, agent));
        usable.flat_map(|r| r.programs.iter().cloned()).collect::<Vec<ProgramName>>()
    };
    let Some((first, others)) = stack.split_first() else { return Vec::new() };
    let others: Vec<Vec<ProgramName>> = others.iter().map(granted).collect();
    let everywhere =
        |name: &ProgramName| others.iter().all(|other| other.iter().any(|o| o.base() == name.base()));
    let all = granted(first).into_iter().filter(everywhere);
    let mut names: Vec<Vec<u8>> = all.map(|p| p.as_os_str().as_bytes().to_vec()).collect();
    names.sort();
    names.dedup();
    names
}
