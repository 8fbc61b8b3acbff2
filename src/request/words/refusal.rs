//! The shell syntax that a command string must not hold outside quotes, and what to say of each.

use super::WordsError;

/// One piece of syntax: what it is, what it would do in a shell, what to do here.
struct Meaning {
    token: &'static str,
    /// Completes "no shell runs, so it cannot ...".
    effect: &'static str,
    hint: &'static str,
    /// It means something only as the first character of a word.
    only_at_start: bool,
}

const fn anywhere(token: &'static str, effect: &'static str, hint: &'static str) -> Meaning {
    Meaning { token, effect, hint, only_at_start: false }
}

const fn at_start(token: &'static str, effect: &'static str, hint: &'static str) -> Meaning {
    Meaning { token, effect, hint, only_at_start: true }
}

const TWO: &str = "send two requests, one for each command; if it is meant literally, quote it or pass the words after `--`";
const IF_OK: &str = "send two requests, the second only when the first result says so; if it is meant literally, quote it or pass the words after `--`";
const PIPE: &str = "send two requests and give the second the first one's output with the `--stdin` option, or let a `[[rule]]` of the policy allow one program that does both; if it is meant literally, quote it or pass the words after `--`";
const BACKGROUND: &str = "send two requests at the same time; guardexec waits for each and leaves nothing running; if it is meant literally, quote it or pass the words after `--`";
const INPUT: &str =
    "use the `--stdin` option; if it is meant literally, quote it or pass the words after `--`";
const OUTPUT: &str = "the result holds the output, which the caller can write to a file; if it is meant literally, quote it or pass the words after `--`";
const VALUE: &str = "write the value itself, or ask for a variable with `--env`; if it is meant literally, put it in single quotes or pass the words after `--`";
const SUBSTITUTE: &str = "send two requests and put the first one's output into the second; if it is meant literally, put it in single quotes or pass the words after `--`";
const ANSI: &str = "use plain single quotes, or pass the words after `--`";
const NAMES: &str = "write the names out; if it is meant literally, quote it or pass the words after `--`";
const LITERALLY: &str = "if it is meant literally, quote it or pass the words after `--`";
const COMMENT: &str =
    "leave the comment out; if it is meant literally, quote it or pass the words after `--`";
const HOME: &str = "write the directory out; if it is meant literally, quote it or pass the words after `--`";

/// Longer tokens before their prefixes.
const MEANINGS: &[Meaning] = &[
    anywhere("&&", "chain commands", IF_OK),
    anywhere("||", "chain commands", IF_OK),
    anywhere(";", "end a command", TWO),
    anywhere("&>", "redirect output", OUTPUT),
    anywhere("|", "connect commands", PIPE),
    anywhere("&", "put a command in the background", BACKGROUND),
    anywhere(">>", "append output to a file", OUTPUT),
    anywhere(">", "redirect output", OUTPUT),
    anywhere("<<", "start a here-document", INPUT),
    anywhere("<", "redirect input", INPUT),
    anywhere("$(", "substitute a command's output", SUBSTITUTE),
    anywhere("$'", "decode escapes", ANSI),
    anywhere("$\"", "translate text", ANSI),
    anywhere("$", "expand a variable", VALUE),
    anywhere("`", "substitute a command's output", SUBSTITUTE),
    anywhere("(", "group commands", LITERALLY),
    anywhere(")", "group commands", LITERALLY),
    anywhere("*", "match file names", NAMES),
    anywhere("?", "match file names", NAMES),
    anywhere("[", "match file names", NAMES),
    anywhere("]", "match file names", NAMES),
    anywhere("{", "expand braces or group commands", NAMES),
    anywhere("}", "expand braces or group commands", NAMES),
    anywhere("!", "negate a command or recall one", LITERALLY),
    at_start("~", "name a home directory", HOME),
    at_start("#", "start a comment", COMMENT),
];

/// What is refused at byte `at`, which stands outside quotes.
pub(super) fn unquoted(text: &[u8], at: usize, word_start: bool) -> Option<WordsError> {
    let rest = &text[at..];
    let first = *rest.first()?;
    if first.is_ascii_alphanumeric() {
        return None;
    }
    let meaning =
        MEANINGS.iter().find(|m| rest.starts_with(m.token.as_bytes()) && (word_start || !m.only_at_start));
    if let Some(m) = meaning {
        return Some(refusal(m, Stood::Unquoted, at));
    }
    let (character, _) = char_at(text, at);
    invisible(character?, at)
}

/// What is refused of an unescaped `$` or backtick between double quotes.
pub(super) fn in_double_quotes(byte: u8, at: usize) -> WordsError {
    let meaning = if byte == b'$' {
        anywhere("$", "expand a variable", VALUE)
    } else {
        anywhere("`", "substitute a command's output", SUBSTITUTE)
    };
    refusal(&meaning, Stood::InDoubleQuotes, at)
}

/// `NAME=` as the first word.
pub(super) fn assignment(name: &[u8], at: usize) -> WordsError {
    // A name is ASCII; a long one says no more than its beginning does.
    let shown = String::from_utf8_lossy(&name[..name.len().min(64)]);
    let what = if name.len() > 64 { format!("{shown}...=") } else { format!("{shown}=") };
    WordsError::Syntax {
        message: format!("unquoted '{what}' at the start: no shell runs, so it cannot set a variable"),
        hint: "ask for the variable with `--env NAME=VALUE`, and start with the program".to_string(),
        position: at,
        what,
    }
}

/// Where the syntax stood.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stood {
    Unquoted,
    InDoubleQuotes,
}

fn refusal(meaning: &Meaning, stood: Stood, at: usize) -> WordsError {
    let Meaning { token, effect, hint, .. } = meaning;
    let mark = if token.contains('\'') { '"' } else { '\'' };
    let what = match stood {
        Stood::Unquoted => format!("unquoted {mark}{token}{mark}"),
        Stood::InDoubleQuotes => format!("{mark}{token}{mark} inside double quotes"),
    };
    let message = format!("{what} (byte {}): no shell runs, so it cannot {effect}", at + 1);
    WordsError::Syntax { what: (*token).to_string(), position: at, message, hint: (*hint).to_string() }
}

/// Newlines, control characters and blanks that no shell splits at.
fn invisible(character: char, at: usize) -> Option<WordsError> {
    let (what, effect, hint) = match character {
        '\n' => ("newline".to_string(), "end a command", TWO),
        '\r' => ("carriage return".to_string(), "end a line", "leave it out, or quote it"),
        c if c.is_control() => (
            format!("control character U+{:04X}", u32::from(c)),
            "mean anything",
            "leave it out, or quote it",
        ),
        c if c.is_whitespace() => (
            format!("blank character U+{:04X}", u32::from(c)),
            "separate words",
            "use an ordinary space, or quote it",
        ),
        _ => return None,
    };
    let place = at + 1;
    let message = format!("unquoted {what} (byte {place}): no shell runs, so it cannot {effect}");
    Some(WordsError::Syntax { what, position: at, message, hint: hint.to_string() })
}

/// Whether the bytes are a variable's name.
pub(super) fn is_name(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|b| !b.is_ascii_digit())
        && bytes.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The character at `at` and its length in bytes; a byte that starts none is itself, one byte long.
pub(super) fn char_at(text: &[u8], at: usize) -> (Option<char>, usize) {
    let first = text[at];
    if first.is_ascii() {
        return (Some(char::from(first)), 1);
    }
    let window = &text[at..text.len().min(at + 4)];
    let valid = match std::str::from_utf8(window) {
        Ok(all) => all,
        Err(e) => std::str::from_utf8(&window[..e.valid_up_to()]).unwrap_or(""),
    };
    valid.chars().next().map_or((None, 1), |c| (Some(c), c.len_utf8()))
}
