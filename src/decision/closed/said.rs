//! What a closed rule says when it refuses: a stable code, one sentence, and what to do instead.

use super::Context;
use crate::decision::shown::repr;
use crate::decision::spelling;
use crate::decision::values::list;
use crate::policy::model::Flag;

/// The most failing values that one sentence tells.
const MOST_FAILURES: usize = 16;

/// Why a closed rule does not accept the words.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    /// Stable and machine-readable.
    pub code: &'static str,
    /// One sentence.
    pub message: String,
    /// What to do instead.
    pub hint: Option<String>,
    /// How many words were read before it, to tell the rule that was meant.
    pub progress: usize,
}

impl Refusal {
    fn new(code: &'static str, message: String, hint: impl Into<String>) -> Refusal {
        Refusal { code, message, hint: Some(hint.into()), progress: usize::MAX }
    }

    /// Notes how far reading came.
    pub(super) fn at(mut self, words: usize) -> Refusal {
        self.progress = words;
        self
    }

    /// Whether the word is simply no listed flag, so that it might be an operand.
    pub(super) fn is_unlisted(&self) -> bool {
        self.code == "flag_not_allowed"
    }
}

/// What a shell user means with an operator, and what happens here.
fn shell_hint(word: &[u8]) -> Option<String> {
    spelling::is_shell_operator(word).then(|| {
        format!(
            "no shell runs here: {} would be a plain word for the program. Send each command as a request of its \
             own, and use --stdin for input",
            repr(word)
        )
    })
}

fn names<'f>(flags: impl Iterator<Item = &'f Flag>) -> Vec<&'f str> {
    flags.map(|f| f.name.as_str()).collect()
}

pub(super) fn too_many_words(context: &Context<'_>, count: usize, most: usize) -> Refusal {
    let message = format!("{count} arguments are more than the {most} that rule {} takes", id(context));
    Refusal::new("too_many_arguments", message, format!("use at most {most}")).at(0)
}

pub(super) fn flag<'f>(
    context: &Context<'_>,
    word: &[u8],
    letter: Option<&[u8]>,
    listed: impl Iterator<Item = &'f Flag>,
) -> Refusal {
    let listed = names(listed);
    let which = match letter {
        Some(letter) if letter != word => format!("{} in {}", repr(letter), repr(word)),
        _ => repr(word),
    };
    let message =
        format!("rule {} does not allow {which} there; it allows {}", id(context), allowed(&listed));
    let hint = if word == b"-" {
        "put it after a lone -- if it is meant as an operand".to_string()
    } else if listed.is_empty() {
        "leave it out".to_string()
    } else {
        "leave it out, or spell an allowed flag in full; abbreviations are not taken".to_string()
    };
    Refusal::new("flag_not_allowed", message, hint)
}

/// The flags as a list; an empty one is said in words.
fn allowed(flags: &[&str]) -> String {
    if flags.is_empty() { "no flag there".to_string() } else { list(flags) }
}

pub(super) fn subcommand(context: &Context<'_>, word: &[u8], allowed: &[String]) -> Refusal {
    let message = format!(
        "rule {} does not allow the subcommand {}; it allows {}",
        id(context),
        repr(word),
        list(allowed)
    );
    let hint = shell_hint(word).unwrap_or_else(|| "use one of these".to_string());
    Refusal::new("subcommand_not_allowed", message, hint)
}

pub(super) fn no_subcommand(context: &Context<'_>, allowed: &[String]) -> Refusal {
    let message = format!("rule {} wants a subcommand, one of {}", id(context), list(allowed));
    Refusal::new("subcommand_missing", message, "put one of these first")
}

pub(super) fn too_many_operands(context: &Context<'_>, word: &[u8], most: usize) -> Refusal {
    let message = format!(
        "{} is operand {}, and rule {} takes {}",
        repr(word),
        most + 1,
        id(context),
        match most {
            0 => "none".to_string(),
            n => format!("at most {n}"),
        }
    );
    let hint = shell_hint(word).unwrap_or_else(|| "leave it out".to_string());
    Refusal::new("too_many_operands", message, hint)
}

pub(super) fn operand_missing(context: &Context<'_>, given: usize, required: usize) -> Refusal {
    let message = format!("rule {} needs {required} operand(s) and got {given}", id(context));
    Refusal::new("operand_missing", message, "add what is missing, after the flags")
}

pub(super) fn value_missing(context: &Context<'_>, flag: &str) -> Refusal {
    let message = format!("{} needs a value (rule {})", repr(flag.as_bytes()), id(context));
    Refusal::new("value_missing", message, "put the value behind it")
}

pub(super) fn value_not_taken(context: &Context<'_>, flag: &str) -> Refusal {
    let message = format!("{} takes no value (rule {})", repr(flag.as_bytes()), id(context));
    Refusal::new("value_not_taken", message, "leave out the = and what follows it")
}

pub(super) fn value_dashed(context: &Context<'_>, flag: &str, value: &[u8]) -> Refusal {
    let message = format!(
        "the value {} of {} starts with a dash, which rule {} does not allow",
        repr(value),
        repr(flag.as_bytes()),
        id(context)
    );
    Refusal::new("value_not_allowed", message, "give a value that cannot be taken for a flag")
}

pub(super) fn equals(context: &Context<'_>, word: &[u8], flag: &str) -> Refusal {
    let message = format!(
        "{} is ambiguous: programs disagree whether the = belongs to the value of {} (rule {})",
        repr(word),
        repr(flag.as_bytes()),
        id(context)
    );
    Refusal::new("value_not_allowed", message, "give the value as a word of its own")
}

pub(super) fn values(context: &Context<'_>, failures: &[String]) -> Refusal {
    let told = failures[..failures.len().min(MOST_FAILURES)].join("; ");
    let more = match failures.len().saturating_sub(MOST_FAILURES) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let message = format!("{told}{more} (rule {})", id(context));
    Refusal::new("value_not_allowed", message, "change the values named here; everything else was accepted")
}

fn id(context: &Context<'_>) -> String {
    repr(context.rule.as_bytes())
}
