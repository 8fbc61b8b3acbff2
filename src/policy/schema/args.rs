//! What a rule says of the words after the program: subcommand, flags, global_flags, operands, max_args.

use super::reader::{Item, Table};
use super::value;
use crate::policy::error::{PolicyError, Shown, printable};
use crate::policy::model::{ArgRules, Flag, Operand, Verdict};
use crate::policy::value::ValueLimits;

/// No command line carries more words: each needs a pointer and a byte below the kernel's 6 MiB for argv.
const MAX_ARGS: u64 = 1 << 20;

/// The keys of an operand.
const OPERAND: [&str; 9] = value::keys_with(["optional", "repeat", "allow_dash"]);

pub(super) fn args(t: &Table<'_>, decision: Verdict) -> Result<ArgRules, PolicyError> {
    let args = ArgRules {
        subcommand: t.opt("subcommand", |i| i.names(subcommand))?,
        flags: t.opt("flags", flags)?,
        global_flags: t.opt("global_flags", flags)?,
        operands: t.opt("operands", |i| operands(i, decision))?,
        max_args: t
            .opt("max_args", |i| i.count(0, MAX_ARGS))?
            .map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
    };
    if args.global_flags.is_some() && args.subcommand.is_none() {
        let item = t.need("global_flags")?;
        return Err(item
            .error("`global_flags` stand before a subcommand, and the rule has no `subcommand`")
            .hint("use `flags`"));
    }
    if decision != Verdict::Allow {
        open_rule(t, &args, decision)?;
    }
    Ok(args)
}

/// A deny or ask rule means "contains any such": with nothing listed it would silently never decide.
fn open_rule(t: &Table<'_>, args: &ArgRules, decision: Verdict) -> Result<(), PolicyError> {
    let word = decision.as_str();
    if args.max_args.is_some() {
        let item = t.need("max_args")?;
        return Err(item
            .error(format!("`max_args` has no meaning in a rule that decides {word}"))
            .hint("only allow rules take it"));
    }
    let empty = [
        ("subcommand", args.subcommand.as_ref().is_some_and(Vec::is_empty)),
        ("flags", args.flags.as_ref().is_some_and(Vec::is_empty)),
        ("global_flags", args.global_flags.as_ref().is_some_and(Vec::is_empty)),
        ("operands", args.operands.as_ref().is_some_and(Vec::is_empty)),
    ];
    for (key, is_empty) in empty {
        if is_empty {
            return Err(t
                .need(key)?
                .error(format!("an empty `{key}` would never match in a rule that decides {word}"))
                .hint("leave the key out to match any"));
        }
    }
    Ok(())
}

fn subcommand(item: &Item<'_>, word: &str) -> Result<(), PolicyError> {
    let bad = word.is_empty() || word.starts_with('-');
    if bad || word.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(item
            .error(format!("`{}` is not a subcommand", printable(word)))
            .hint("a subcommand is one word that does not start with `-`"));
    }
    Ok(())
}

fn flags(item: &Item<'_>) -> Result<Vec<Flag>, PolicyError> {
    let mut flags: Vec<Flag> = Vec::with_capacity(item.length());
    for entry in item.each("a list of flags")? {
        let flag = flag(&entry)?;
        if flags.iter().any(|f| f.name == flag.name) {
            let named = if entry.is_string() { entry } else { entry.table("a flag")?.need("name")? };
            return Err(named.error(format!("the flag `{}` stands twice in {}", flag.name, item.what)));
        }
        flags.push(flag);
    }
    Ok(flags)
}

fn flag(entry: &Item<'_>) -> Result<Flag, PolicyError> {
    if entry.is_string() {
        return Ok(Flag { name: flag_name(entry)?, value: None, allow_dash: false });
    }
    let Ok(t) = entry.table("a flag") else {
        return Err(entry.wrong("a string such as \"-n\" or a table such as { name = \"-n\", value = {} }"));
    };
    t.only(&["name", "value", "allow_dash"])?;
    let name = flag_name(&t.need("name")?)?;
    let value = t.opt("value", |i| value_limits(i).map(Box::new))?;
    let allow_dash = t.flag("allow_dash")?;
    if allow_dash && value.is_none() {
        let message = format!("`allow_dash` of the flag `{name}`, which takes no value");
        return Err(t.need("allow_dash")?.error(message).hint("write `value = {}` too"));
    }
    Ok(Flag { name, value, allow_dash })
}

fn value_limits(item: &Item<'_>) -> Result<ValueLimits, PolicyError> {
    let t = item.table("a flag's `value`")?;
    t.only(&value::KEYS)?;
    value::limits(&t)
}

fn flag_name(item: &Item<'_>) -> Result<String, PolicyError> {
    let name = item.string()?;
    let shown = Shown(name);
    if !name.starts_with('-') {
        return Err(item.error(format!("the flag `{shown}` does not start with `-`")));
    }
    if name == "-" || name == "--" {
        return Err(item
            .error(format!("`{shown}` is not a flag"))
            .hint("a lone `--` is always allowed and ends the flags; a lone `-` is an operand"));
    }
    if let Some(c) = name.chars().find(|c| *c == '=' || c.is_control() || c.is_whitespace()) {
        let c = printable(&c.to_string());
        return Err(item
            .error(format!("`{c}` in the name of the flag `{shown}`"))
            .hint("write the value's limits as `value = { ... }`"));
    }
    Ok(name.to_owned())
}

/// Positional operands. In an allow rule only the last may repeat, and none is required after an optional one.
fn operands(item: &Item<'_>, decision: Verdict) -> Result<Vec<Operand>, PolicyError> {
    let entries = item.each("a list of tables")?.enumerate();
    let count = item.length();
    let mut operands: Vec<Operand> = Vec::with_capacity(count);
    for (index, entry) in entries {
        let t = entry.table("an operand")?;
        t.only(&OPERAND)?;
        let operand = Operand {
            value: value::limits(&t)?,
            optional: t.flag("optional")?,
            repeat: t.flag("repeat")?,
            allow_dash: t.flag("allow_dash")?,
        };
        if operand.repeat && index + 1 < count {
            return Err(t.need("repeat")?.error("only the last operand may repeat"));
        }
        let after_optional = operands.last().is_some_and(|o| o.optional);
        if after_optional && !operand.optional && decision == Verdict::Allow {
            return Err(entry
                .error("a required operand after an optional one")
                .hint("it could not be told which one is missing"));
        }
        operands.push(operand);
    }
    Ok(operands)
}
