//! The arguments of `deny` and `ask` rules: open. Their keys mean "contains any such", in any spelling that some program
//! would accept. Where a reading is possible it counts: such a rule may catch too much, never too little.
//!
//! Keys are joined by "and", the entries of one key by "or". Words after a lone `--` are looked at as well, for not
//! every program honours it. `max_args` speaks of a count, not of something contained, and narrows nothing here.

use super::paths::Paths;
use super::spelling;
use super::values;
use crate::policy::model::{ArgRules, Flag, Operand};
use crate::policy::value::ValueLimits;

#[cfg(test)]
mod tests;

/// Whether the words after the program may contain what the rule speaks of. `names` are all names the program goes
/// by.
pub(super) fn matches(rules: &ArgRules, names: &[&[u8]], args: &[&[u8]], paths: &Paths<'_>) -> bool {
    // An empty list says nothing: it must not make the rule miss everything.
    let flags = |list: &Option<Vec<Flag>>| match list.as_deref() {
        None | Some([]) => true,
        Some(list) => list.iter().any(|f| has_flag(f, names, args, paths)),
    };
    let subcommands = rules.subcommand.as_deref().unwrap_or_default();
    let operands = rules.operands.as_deref().unwrap_or_default();
    flags(&rules.flags)
        && flags(&rules.global_flags)
        && (subcommands.is_empty() || has_subcommand(subcommands, names, args))
        && (operands.is_empty() || operands.iter().any(|o| has_operand(o, args, paths)))
}

fn has_flag(flag: &Flag, names: &[&[u8]], args: &[&[u8]], paths: &Paths<'_>) -> bool {
    let name = flag.name.as_bytes();
    let satisfied = |readings: Vec<&[u8]>| match &flag.value {
        None => true,
        Some(limits) => readings.is_empty() || readings.iter().any(|v| values::may_satisfy(limits, v, paths)),
    };
    let bundled = args.first().is_some_and(|first| {
        spelling::is_old_style(names)
            && !first.starts_with(b"-")
            && spelling::letter(name).is_some_and(|c| first.contains(&c))
            // Which of the words that follow is its value depends on the other letters.
            && satisfied(args[1..].to_vec())
    });
    bundled
        || args.iter().enumerate().any(|(at, word)| {
            spellings(name, names, word).into_iter().any(|value| match value {
                Spelled::Attached(value) => satisfied(readings(value)),
                Spelled::Alone => satisfied(args.get(at + 1).copied().into_iter().collect()),
            })
        })
}

/// One way to read a word as a flag.
enum Spelled<'w> {
    /// With its value in the same word.
    Attached(&'w [u8]),
    /// With its value, if it takes one, in the next word.
    Alone,
}

/// An attached value, with and without the `=` that some programs take for a part of it.
fn readings(value: &[u8]) -> Vec<&[u8]> {
    let mut out = vec![value];
    out.extend(value.strip_prefix(b"="));
    out
}

/// All ways to read `word` as the flag `name`.
fn spellings<'w>(name: &[u8], names: &[&[u8]], word: &'w [u8]) -> Vec<Spelled<'w>> {
    let mut out = Vec::new();
    if let Some(letter) = spelling::letter(name) {
        if word.first() == Some(&b'-') && word.get(1) != Some(&b'-') {
            for (at, _) in word.iter().enumerate().skip(1).filter(|&(_, &b)| b == letter) {
                out.push(attached_or_alone(&word[at + 1..]));
            }
        }
        return out;
    }
    let bare = name.strip_prefix(b"--").or(name.strip_prefix(b"-")).unwrap_or(name);
    let dashes = word.iter().take_while(|&&b| b == b'-').count();
    if word == name {
        out.push(Spelled::Alone);
    } else if dashes == 1 || dashes == 2 {
        let rest = &word[dashes..];
        let end = rest.iter().position(|b| !is_name_byte(*b)).unwrap_or(rest.len());
        let (given, value) = rest.split_at(end);
        // With two dashes an abbreviation counts; with one it would be a cluster of other flags, but for a long flag
        // of a program that knows no clusters (getopt_long_only(3)).
        let shortened = dashes == 2 || (name.starts_with(b"--") && spelling::single_dash(names));
        let same = given == bare || (shortened && !given.is_empty() && bare.starts_with(given));
        if same {
            out.push(attached_or_alone(value));
        }
    }
    out
}

fn attached_or_alone(value: &[u8]) -> Spelled<'_> {
    if value.is_empty() { Spelled::Alone } else { Spelled::Attached(value) }
}

/// What a flag's name is made of: anything else (`=`, `:`, ...) separates it from a value.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+') || !byte.is_ascii()
}

/// The first word that is no flag. Where a flag stands before it, it may be that flag's value (and the next one its
/// second), so all words after it count as well.
fn has_subcommand(listed: &[String], names: &[&[u8]], args: &[&[u8]]) -> bool {
    let short = spelling::shortens_subcommands(names);
    let is_listed = |word: &[u8]| {
        let begins = |s: &[u8]| short && !word.is_empty() && s.starts_with(word);
        listed.iter().any(|s| s.as_bytes() == word || begins(s.as_bytes()))
    };
    // `cargo +nightly publish`: the toolchain stands before the subcommand and is none.
    let dashed = |word: &[u8]| matches!(word.first(), Some(b'-' | b'+'));
    match args.first() {
        Some(first) if !dashed(first) => is_listed(first),
        _ => args.iter().any(|word| !dashed(word) && is_listed(word)),
    }
}

fn has_operand(operand: &Operand, args: &[&[u8]], paths: &Paths<'_>) -> bool {
    let may = |value: &[u8], limits: &ValueLimits| values::may_satisfy(limits, value, paths);
    args.iter().any(|word| {
        may(word, &operand.value)
            || spelling::split_value(word).is_some_and(|(_, value)| may(value, &operand.value))
            || glued(word).is_none_or(|values| values.iter().any(|value| may(value, &operand.value)))
    })
}

/// What may be a value behind letters of flags: `/x` of `-f/x` and of `-rf/x`. `None` where there are more letters than
/// anyone writes, and so more readings than are worth trying.
fn glued(word: &[u8]) -> Option<Vec<&[u8]>> {
    const MOST: usize = 64;
    let letters = match word.strip_prefix(b"-") {
        Some(rest) => rest.iter().take_while(|b| b.is_ascii_alphanumeric()).count(),
        None => 0,
    };
    let last = (letters + 1).min(word.len().saturating_sub(1));
    (letters <= MOST).then(|| (2..=last).map(|at| &word[at..]).collect())
}
