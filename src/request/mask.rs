//! Secrets in command lines and environments, masked before they are written to a file or shown to a person.
//!
//! This is a belt: it knows the usual spellings (`--token=X`, `--token X`, `NAME_KEY=X`, `-u user:X`,
//! `Authorization: Bearer X`, `https://user:X@host`, well-known token shapes), not every one. What is executed is
//! never changed. Masking must not hide what a command did either, or an attacker would write `token=` in front
//! of it: inside a word that is code for an interpreter (after `-c`, `-e`, ...) only the value itself is
//! masked, up to the next blank or shell operator. One pass over each word for each kind of spelling.

use super::quote::lossless;

/// What stands in place of a secret.
pub const MASKED: &str = "[masked]";

/// Names of flags, headers and JSON keys that hold a secret: alone or after a dash (`--db-password`).
const NAMES: [&str; 20] = [
    "access-key",
    "access-token",
    "account-key",
    "api-key",
    "api-secret",
    "apikey",
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "private-key",
    "pwd",
    "secret",
    "secret-key",
    "token",
];

/// Endings that make a name written in one piece a secret's (`accessToken`, `dbpassword`).
const ENDINGS: [&str; 9] =
    ["token", "password", "passwd", "passphrase", "secret", "apikey", "accesskey", "privatekey", "secretkey"];

/// What a variable's name holds when its value is a secret.
const IN_VARIABLES: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE"];

/// The same, as a whole part of its name between underscores.
const PARTS: [&[u8]; 4] = [b"PASS", b"PAT", b"CRED", b"CREDS"];

/// Token shapes: how they start, and how many token characters follow at least.
const SHAPES: [(&str, usize); 22] = [
    ("ghp_", 16),
    ("gho_", 16),
    ("ghu_", 16),
    ("ghs_", 16),
    ("ghr_", 16),
    ("github_pat_", 16),
    ("glpat-", 16),
    ("sk-", 20),
    ("sk_live_", 10),
    ("rk_live_", 10),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("xoxr-", 10),
    ("xoxs-", 10),
    ("npm_", 30),
    ("hf_", 30),
    ("pypi-", 30),
    ("eyJ", 24),
];

/// Flags whose next word is `user:password` (curl, wget, docker, ...).
const USER_FLAGS: [&[u8]; 4] = [b"-u", b"--user", b"-U", b"--proxy-user"];

/// Flags whose next word is code.
const CODE_FLAGS: [&[u8]; 9] = [b"-c", b"-e", b"-E", b"-r", b"-lc", b"-ec", b"-xc", b"--eval", b"--command"];

/// Programs that take a password glued to `-p`.
const GLUED_PASSWORD: [&[u8]; 6] =
    [b"mysql", b"mysqldump", b"mysqladmin", b"mariadb", b"mariadb-dump", b"sshpass"];

/// The words of a command as the audit shows them: secrets replaced by [`MASKED`], words that are not UTF-8 in
/// the spelling of [`lossless`].
pub fn mask_argv<W: AsRef<[u8]>>(argv: &[W]) -> Vec<String> {
    let glued = argv.first().is_some_and(|w| takes_glued_password(w.as_ref()));
    let mut before: &[u8] = b"";
    let mut shown = Vec::with_capacity(argv.len());
    for (index, word) in argv.iter().map(AsRef::as_ref).enumerate() {
        shown.push(lossless(&mask_word(word, if index == 0 { b"" } else { before }, glued && index > 0)));
        before = word;
    }
    shown
}

/// A sentence about a command (a reason, an error) without the secrets of that command's words, and without those that it
/// spells out itself. Pieces of fewer
/// than four bytes stay: they would blot out the sentence.
pub fn mask_text<W: AsRef<[u8]>>(text: &str, argv: &[W]) -> String {
    let mut text = text.to_owned();
    for (word, shown) in argv.iter().zip(mask_argv(argv)) {
        let (Ok(word), Some((before, after))) =
            (std::str::from_utf8(word.as_ref()), shown.split_once(MASKED))
        else {
            continue;
        };
        // Of a word with several secrets everything from the first to the last goes.
        let after = after.rsplit_once(MASKED).map_or(after, |(_, after)| after);
        let secret = word.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)).map(str::trim);
        if let Some(secret) = secret.filter(|s| s.len() >= 4) {
            text = text.replace(secret, MASKED);
        }
    }
    // And what it says itself, as an asker's reason may.
    lossless(&mask_word(text.as_bytes(), b"-c", false))
}

/// The value of a label or another pair, masked by its name and by its looks.
pub fn mask_value(name: &str, value: &str) -> String {
    let start = format!("{name}=");
    let masked = lossless(&mask_word(format!("{start}{value}").as_bytes(), b"", false));
    masked.strip_prefix(&start).map_or_else(|| MASKED.to_owned(), str::to_owned)
}

/// A command string that could not be split into words, as the audit shows it: blanks and quotes as they came, and
/// what stands between blanks masked as the words of a command are.
pub fn mask_command(text: &[u8]) -> String {
    // Quotes may be open: values that a quote holds together are found in the text as a whole.
    let text = mask_word(text, b"-c", false);
    let blank = |b: &u8| b.is_ascii_whitespace();
    let end_from = |at: usize| text[at..].iter().position(blank).map_or(text.len(), |n| at + n);
    let mut out = Vec::with_capacity(text.len());
    let (mut at, mut before, mut glued): (usize, &[u8], Option<bool>) = (0, b"", None);
    while at < text.len() {
        if blank(&text[at]) {
            out.push(text[at]);
            at += 1;
            continue;
        }
        let end = end_from(if awaits_secret(before) { value_end(&text, at) } else { at });
        let word = &text[at..end];
        out.extend(mask_word(word, before, glued == Some(true)));
        glued.get_or_insert_with(|| takes_glued_password(word));
        (at, before) = (end, word);
    }
    lossless(&out)
}

/// Whether a program takes a password glued to `-p`.
fn takes_glued_password(program: &[u8]) -> bool {
    let base = program.rsplit(|b| *b == b'/').next().unwrap_or_default();
    GLUED_PASSWORD.contains(&base)
}

fn mask_word(word: &[u8], before: &[u8], glued: bool) -> Vec<u8> {
    if awaits_secret(before) && !word.starts_with(b"--") {
        return MASKED.into();
    }
    if glued && word.starts_with(b"-p") && word.len() > 2 {
        return cut(word, 2);
    }
    let user_here = USER_FLAGS.contains(&before) || word.starts_with(b"-u");
    if let (true, Some(colon)) = (user_here, word.iter().position(|b| *b == b':')) {
        return cut(word, colon + 1);
    }
    let code = CODE_FLAGS.contains(&before);
    let word = mask_assignments(word, code);
    let word = mask_userinfo(&word);
    mask_shapes(&word)
}

/// The first `keep` bytes and the mask for the rest.
fn cut(word: &[u8], keep: usize) -> Vec<u8> {
    [&word[..keep], MASKED.as_bytes()].concat()
}

/// Whether a word is a flag without a value whose next word is a secret.
fn awaits_secret(word: &[u8]) -> bool {
    word.starts_with(b"-") && !word.contains(&b'=') && is_secret_name(word)
}

/// A flag's, header's or key's name, leading dashes included.
fn is_secret_name(name: &[u8]) -> bool {
    if name.len() > 128 {
        return false;
    }
    let start = name.iter().position(|b| *b != b'-').unwrap_or(name.len());
    let plain: Vec<u8> =
        name[start..].iter().map(|b| if *b == b'_' { b'-' } else { b.to_ascii_lowercase() }).collect();
    if plain.starts_with(b"no-") {
        return false;
    }
    let whole = |n: &&str| {
        plain.strip_suffix(n.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.ends_with(b"-"))
    };
    NAMES.iter().any(whole) || ENDINGS.iter().any(|e| plain.ends_with(e.as_bytes()))
}

/// The value of an environment variable as a person sees it: nothing of it where its name says that it is a secret, else
/// without the secrets that are seen in it.
pub fn mask_variable(name: &[u8], value: &[u8]) -> Vec<u8> {
    let working_directory = matches!(name, b"PWD" | b"OLDPWD");
    let parts = || name.split(|b| *b == b'_');
    let named = is_secret_variable(name) || is_secret_name(name) || parts().any(|part| PARTS.contains(&part));
    if named && !working_directory && !value.is_empty() {
        return MASKED.into();
    }
    mask_word(value, b"", false)
}

fn is_secret_variable(name: &[u8]) -> bool {
    if name.starts_with(b"-") || name.len() > 128 {
        return false;
    }
    let upper = name.to_ascii_uppercase();
    IN_VARIABLES.iter().any(|part| upper.windows(part.len()).any(|w| w == part.as_bytes()))
}

fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')
}

/// Masks what follows `NAME=` and `NAME:`. At the start of a word that is not code the value is the rest of
/// the word, line breaks included; elsewhere it ends at a blank, a quote or an operator.
fn mask_assignments(word: &[u8], code: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let (mut at, mut name) = (0, 0);
    while at < word.len() {
        let byte = word[at];
        if !matches!(byte, b'=' | b':') {
            at += 1;
            out.push(byte);
            if !is_name_byte(byte) && !matches!(byte, b'"' | b'\'' | b'\\' | b' ') {
                name = at;
            }
            continue;
        }
        let named = last_name(&word[name..at]);
        let secret = is_secret_name(named) || (byte == b'=' && is_secret_variable(named));
        let leads = name == 0 && named.len() == at;
        out.push(byte);
        at += 1;
        name = at;
        // `https:` and `a::b` are no assignments.
        if !secret || matches!(word.get(at), None | Some(b'/' | b':')) && byte == b':' {
            continue;
        }
        let end = if leads && !code { word.len() } else { value_end(word, at) };
        if end > at {
            out.extend_from_slice(MASKED.as_bytes());
        }
        at = end;
        name = end;
    }
    out
}

/// The name at the end of some bytes, closing quotes and blanks left aside.
fn last_name(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|b| is_name_byte(*b)).map_or(0, |i| i + 1);
    let start = bytes[..end].iter().rposition(|b| !is_name_byte(*b)).map_or(0, |i| i + 1);
    &bytes[start..end]
}

/// Where the value that starts at `at` ends: after blanks and an opening quote, up to the same quote or to the
/// next blank or operator. `Bearer X` and `Basic X` are one value.
fn value_end(word: &[u8], mut at: usize) -> usize {
    let blanks = |mut i: usize| {
        while matches!(word.get(i), Some(b' ' | b'\t')) {
            i += 1;
        }
        i
    };
    at = blanks(at);
    while word.get(at) == Some(&b'\\') {
        at += 1;
    }
    if let Some(quote @ (b'"' | b'\'')) = word.get(at) {
        return word[at + 1..].iter().position(|b| b == quote).map_or(word.len(), |i| at + 1 + i);
    }
    for scheme in [b"bearer ".as_slice(), b"basic ", b"token ", b"digest "] {
        if word[at..].get(..scheme.len()).is_some_and(|w| w.eq_ignore_ascii_case(scheme)) {
            at = blanks(at + scheme.len());
            break;
        }
    }
    let ends = |b: &u8| b.is_ascii_whitespace() || b"\"';|&<>()`,}".contains(b);
    word[at..].iter().position(ends).map_or(word.len(), |i| at + i)
}

/// Masks the password of `scheme://user:password@host` and of `user:password@host`.
fn mask_userinfo(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    for piece in word.split_inclusive(|b| b.is_ascii_whitespace() || b"\"'/?#,;|&()".contains(b)) {
        let at = piece.iter().rposition(|b| *b == b'@');
        let colon = piece.iter().position(|b| *b == b':');
        match (colon, at) {
            // `image:tag@sha256:...` is a digest, `git@host:path` a place.
            (Some(colon), Some(at)) if colon + 1 < at && !piece[at + 1..].starts_with(b"sha256:") => {
                out.extend_from_slice(&piece[..=colon]);
                out.extend_from_slice(MASKED.as_bytes());
                out.extend_from_slice(&piece[at..]);
            }
            // A `:` left over from `scheme:` opens nothing.
            _ => out.extend_from_slice(piece),
        }
    }
    out
}

/// Masks what looks like a well-known kind of token, and everything from the header of a private key on.
fn mask_shapes(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut at = 0;
    let mut inside = false;
    while at < word.len() {
        if word[at] == b'-' && is_private_key(&word[at..]) {
            out.extend_from_slice(MASKED.as_bytes());
            return out;
        }
        if let Some(len) = if inside { None } else { shape_at(&word[at..]) } {
            out.extend_from_slice(MASKED.as_bytes());
            at += len;
            inside = true;
            continue;
        }
        // `-` and `_` count as inside, else a word made of starts would be scanned to its end at each.
        inside = word[at].is_ascii_alphanumeric() || matches!(word[at], b'-' | b'_');
        out.push(word[at]);
        at += 1;
    }
    out
}

fn is_private_key(rest: &[u8]) -> bool {
    rest.starts_with(b"-----BEGIN ") && rest[..rest.len().min(64)].windows(11).any(|w| w == b"PRIVATE KEY")
}

/// The length of the token that starts here.
fn shape_at(rest: &[u8]) -> Option<usize> {
    let (start, least) = SHAPES.iter().find(|(start, _)| rest.starts_with(start.as_bytes()))?;
    let tail = &rest[start.len()..];
    let dots = *start == "eyJ";
    let token = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-') || (dots && *b == b'.');
    let length = tail.iter().position(|b| !token(b)).unwrap_or(tail.len());
    let tail = &tail[..length];
    let shaped = match *start {
        // Three parts make a JSON web token.
        "eyJ" => tail.iter().filter(|b| **b == b'.').count() >= 2,
        // `sk-` also starts ordinary words.
        "sk-" => tail.iter().any(u8::is_ascii_digit),
        _ => true,
    };
    (shaped && length >= *least).then_some(start.len() + length)
}

#[cfg(test)]
mod tests;
