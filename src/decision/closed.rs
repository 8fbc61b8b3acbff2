//! The arguments of `allow` rules: closed. A command passes only if every word of it is one that the rule lists, in a
//! spelling that the program cannot read otherwise.
//!
//! Words are read left to right as getopt(3) does, without what it guesses: no abbreviation of a long flag, no
//! letter in a cluster that is not listed, no value glued to a flag that takes none.

use super::paths::Paths;
use super::spelling;
use super::values;
use crate::decision::shown::repr;
use crate::policy::model::{ArgRules, Flag, Operand};
use crate::policy::value::ValueLimits;

mod said;

pub(super) use said::Refusal;

#[cfg(test)]
mod tests;

/// What an `allow` rule is judged with besides the words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    /// The rule's id, for messages.
    pub rule: &'a str,
    /// The program's names without directory: as it was asked for, and of the file opened.
    pub names: &'a [&'a [u8]],
    /// How `path` limits are judged.
    pub paths: Paths<'a>,
}

/// Whether the words after the program satisfy the rule.
///
/// # Errors
/// The first word that cannot stand where it stands, or all values that fail their limits together.
pub(super) fn accept(rules: &ArgRules, args: &[&[u8]], context: Context<'_>) -> Result<(), Refusal> {
    if let Some(most) = rules.max_args.filter(|&most| args.len() > most) {
        return Err(said::too_many_words(&context, args.len(), most));
    }
    if !rules.closes() {
        return Ok(());
    }
    let mut reader = Reader::new(rules, args, context);
    reader.read().map_err(|refusal| refusal.at(reader.next))?;
    if reader.failures.is_empty() { Ok(()) } else { Err(said::values(&context, &reader.failures)) }
}

struct Reader<'a> {
    rules: &'a ArgRules,
    args: &'a [&'a [u8]],
    context: Context<'a>,
    /// The word to be read next.
    next: usize,
    /// Still before the subcommand.
    before_subcommand: bool,
    /// A lone `--` was read.
    ended: bool,
    clusters: bool,
    operands: usize,
    /// Values that fail, told together at the end.
    failures: Vec<String>,
}

impl<'a> Reader<'a> {
    fn new(rules: &'a ArgRules, args: &'a [&'a [u8]], context: Context<'a>) -> Reader<'a> {
        let all = rules.flags.iter().chain(&rules.global_flags).flatten();
        Reader {
            rules,
            args,
            context,
            next: 0,
            before_subcommand: rules.subcommand.is_some(),
            ended: false,
            clusters: spelling::clusters(context.names, all),
            operands: 0,
            failures: Vec::new(),
        }
    }

    fn read(&mut self) -> Result<(), Refusal> {
        while let Some(&word) = self.args.get(self.next) {
            self.next += 1;
            self.word(word)?;
        }
        if self.before_subcommand {
            return Err(said::no_subcommand(&self.context, self.subcommands()));
        }
        let required = self.operand_rules().iter().filter(|o| !o.optional).count();
        if self.operands < required {
            return Err(said::operand_missing(&self.context, self.operands, required));
        }
        Ok(())
    }

    fn word(&mut self, word: &'a [u8]) -> Result<(), Refusal> {
        if self.ended {
            return self.operand(word);
        }
        if word == b"--" {
            if self.before_subcommand {
                return Err(said::no_subcommand(&self.context, self.subcommands()));
            }
            self.ended = spelling::dashes_end_flags(self.context.names);
            return Ok(());
        }
        if self.is_bundle(word) {
            return self.bundle(word);
        }
        if word.first() == Some(&b'-') {
            return self.dashed(word);
        }
        if self.before_subcommand { self.subcommand(word) } else { self.operand(word) }
    }

    fn subcommand(&mut self, word: &[u8]) -> Result<(), Refusal> {
        if !self.subcommands().iter().any(|s| s.as_bytes() == word) {
            return Err(said::subcommand(&self.context, word, self.subcommands()));
        }
        self.before_subcommand = false;
        Ok(())
    }

    fn subcommands(&self) -> &'a [String] {
        self.rules.subcommand.as_deref().unwrap_or_default()
    }

    fn operand_rules(&self) -> &'a [Operand] {
        self.rules.operands.as_deref().unwrap_or_default()
    }

    /// The rule for the operand that comes next; the last one may repeat.
    fn operand_rule(&self) -> Option<&'a Operand> {
        let rules = self.operand_rules();
        rules.get(self.operands).or_else(|| rules.last().filter(|last| last.repeat))
    }

    fn operand(&mut self, word: &'a [u8]) -> Result<(), Refusal> {
        let Some(rule) = self.operand_rule() else {
            return Err(said::too_many_operands(&self.context, word, self.operand_rules().len()));
        };
        self.operands += 1;
        self.value(&format!("operand {} {}", self.operands, repr(word)), word, &rule.value);
        Ok(())
    }

    /// A word that starts with `-`: a listed flag, else an operand where the rule says that one may look so.
    fn dashed(&mut self, word: &'a [u8]) -> Result<(), Refusal> {
        match self.flag(word) {
            Err(refusal) if refusal.is_unlisted() && !self.before_subcommand => {
                if self.operand_rule().is_some_and(|o| o.allow_dash) {
                    self.operand(word)
                } else {
                    Err(refusal)
                }
            }
            answer => answer,
        }
    }

    /// Listed flags at this place: `global_flags` before the subcommand, `flags` after it, both without one.
    fn listed(&self) -> impl Iterator<Item = &'a Flag> + use<'a> {
        let any = self.rules.subcommand.is_none();
        let flags = self.rules.flags.iter().filter(move |_| any || !self.before_subcommand).flatten();
        let global = self.rules.global_flags.iter().filter(move |_| any || self.before_subcommand).flatten();
        flags.chain(global).collect::<Vec<_>>().into_iter()
    }

    fn lookup(&self, name: &[u8]) -> Option<&'a Flag> {
        self.listed().find(|f| f.name.as_bytes() == name)
    }

    fn flag(&mut self, word: &'a [u8]) -> Result<(), Refusal> {
        if let Some(flag) = self.lookup(word) {
            return self.separate(flag);
        }
        if let Some((name, value)) = spelling::split_value(word)
            && let Some(flag) = self.lookup(name).filter(|_| spelling::letter(name).is_none())
        {
            return self.attached(flag, value);
        }
        if self.clusters && spelling::is_dashed(word) && word[1] != b'-' {
            return self.cluster(word);
        }
        Err(said::flag(&self.context, word, None, self.listed()))
    }

    /// `-rn`, `-rk2`, `-k2`, `-rk 2`: listed letters, one that takes a value last.
    fn cluster(&mut self, word: &'a [u8]) -> Result<(), Refusal> {
        for at in 1..word.len() {
            let name = [b'-', word[at]];
            let Some(flag) = self.lookup(&name) else {
                return Err(said::flag(&self.context, word, Some(&name), self.listed()));
            };
            let rest = &word[at + 1..];
            if flag.value.is_none() {
                continue;
            }
            return match rest {
                [] => self.separate(flag),
                // Programs disagree whether the `=` belongs to the value.
                [b'=', ..] => Err(said::equals(&self.context, word, &flag.name)),
                _ => self.attached(flag, rest),
            };
        }
        Ok(())
    }

    /// An old-style first word (`tar xf`): every letter a listed flag, values in the words that follow, in order.
    fn bundle(&mut self, word: &'a [u8]) -> Result<(), Refusal> {
        for &byte in word {
            let name = [b'-', byte];
            match self.lookup(&name) {
                None => return Err(said::flag(&self.context, word, Some(&name), self.listed())),
                Some(flag) => self.separate(flag)?,
            }
        }
        Ok(())
    }

    fn is_bundle(&self, word: &[u8]) -> bool {
        self.next == 1
            && self.rules.subcommand.is_none()
            && spelling::is_old_style(self.context.names)
            && !word.is_empty()
            && word[0] != b'-'
    }

    /// A flag whose value, if it takes one, is the next word.
    fn separate(&mut self, flag: &'a Flag) -> Result<(), Refusal> {
        let Some(limits) = &flag.value else { return Ok(()) };
        let Some(&value) = self.args.get(self.next) else {
            return Err(said::value_missing(&self.context, &flag.name));
        };
        let negative = values::is_numeric(limits) && crate::policy::decimal::Decimal::parse(value).is_some();
        if value.first() == Some(&b'-') && !flag.allow_dash && !negative {
            return Err(said::value_dashed(&self.context, &flag.name, value));
        }
        self.next += 1;
        self.flag_value(flag, value, limits);
        Ok(())
    }

    fn attached(&mut self, flag: &'a Flag, value: &'a [u8]) -> Result<(), Refusal> {
        let Some(limits) = &flag.value else {
            return Err(said::value_not_taken(&self.context, &flag.name));
        };
        self.flag_value(flag, value, limits);
        Ok(())
    }

    fn flag_value(&mut self, flag: &Flag, value: &[u8], limits: &ValueLimits) {
        self.value(&format!("the value {} of {}", repr(value), repr(flag.name.as_bytes())), value, limits);
    }

    fn value(&mut self, what: &str, value: &[u8], limits: &ValueLimits) {
        let failed = values::failures(limits, value, &self.context.paths);
        if !failed.is_empty() {
            self.failures.push(format!("{what} {}", failed.join(" and ")));
        }
    }
}
