//! Word splitting: what words become, the messages in full, and the shared cases by name.

use super::*;

fn words(text: &str, syntax: Syntax) -> Vec<String> {
    let words = split(text.as_bytes(), syntax).unwrap_or_else(|e| panic!("{text:?}: {e}"));
    words.into_iter().map(|w| w.into_string().expect("UTF-8")).collect()
}

/// The words, in both modes.
fn both(text: &str) -> Vec<String> {
    let refuse = words(text, Syntax::Refuse);
    assert_eq!(refuse, words(text, Syntax::Literal), "{text:?}");
    refuse
}

fn literal(text: &str) -> Vec<String> {
    words(text, Syntax::Literal)
}

/// What was refused and where, under `refuse`; the same text has to give words under `literal`.
fn refused(text: &str) -> (String, usize) {
    assert!(split(text.as_bytes(), Syntax::Literal).is_ok(), "{text:?} has to be plain bytes under literal");
    match split(text.as_bytes(), Syntax::Refuse) {
        Err(WordsError::Syntax { what, position, .. }) => (what, position),
        other => panic!("{text:?}: {other:?}"),
    }
}

fn at(what: &str, position: usize) -> (String, usize) {
    (what.to_string(), position)
}

/// Message and hint, under `refuse`.
fn said(text: &str) -> (String, String) {
    match split(text.as_bytes(), Syntax::Refuse) {
        Err(WordsError::Syntax { message, hint, .. }) => (message, hint),
        other => panic!("{text:?}: {other:?}"),
    }
}

/// The whole line, the same in both modes.
fn unparsable_line(text: &[u8]) -> String {
    let error = split(text, Syntax::Refuse).expect_err("unparsable");
    assert!(matches!(error, WordsError::Unparsable { .. }), "{error:?}");
    assert_eq!(split(text, Syntax::Literal), Err(error.clone()));
    error.to_string()
}

#[test]
fn plain_words_and_quotes() {
    assert_eq!(both("uname -sr"), ["uname", "-sr"]);
    assert_eq!(both("  a\t b  "), ["a", "b"]);
    assert_eq!(both("a'b c'\"d e\"f"), ["ab cd ef"]);
    assert_eq!(both("echo '' \"\""), ["echo", "", ""]);
    assert_eq!(both(r"a\ b \'c\' \\"), ["a b", "'c'", r"\"]);
    assert_eq!(both(r#""a\"b\\c\d""#), [r#"a"b\c\d"#]);
    assert_eq!(both("a\\\nb c\\\n d \\\n"), ["ab", "c", "d"]);
    assert_eq!(both("\"a\\\nb\""), ["ab"]);
    assert_eq!(both("'a\\\nb'"), ["a\\\nb"]);
    assert_eq!(
        both("git show HEAD~1 HEAD^ --x=~ a~ %s +1 a,b k=v"),
        ["git", "show", "HEAD~1", "HEAD^", "--x=~", "a~", "%s", "+1", "a,b", "k=v"]
    );
}

#[test]
fn quoted_syntax_is_literal() {
    assert_eq!(
        both(r"echo ';' '$(x)' '`x`' '*' '#' '~' \; \$ \* \# \~ \!"),
        ["echo", ";", "$(x)", "`x`", "*", "#", "~", ";", "$", "*", "#", "~", "!"]
    );
    assert_eq!(
        both("echo \"; & | < > ( ) * ? [ ] { } ~ ! # \n \u{a0}\""),
        ["echo", "; & | < > ( ) * ? [ ] { } ~ ! # \n \u{a0}"]
    );
    assert_eq!(both(r#"echo "\$x \`y\`""#), ["echo", "$x `y`"]);
    assert_eq!(both("echo \\\u{a0}\\\r"), ["echo", "\u{a0}\r"]);
}

#[test]
fn literal_mode_keeps_every_byte() {
    assert_eq!(literal("uname -a; whoami"), ["uname", "-a;", "whoami"]);
    assert_eq!(
        literal("a&&b || c|d > e $(f) `g` *.? [h] {i,j} ~ !k #l"),
        ["a&&b", "||", "c|d", ">", "e", "$(f)", "`g`", "*.?", "[h]", "{i,j}", "~", "!k", "#l"]
    );
    assert_eq!(literal("A=b c"), ["A=b", "c"]);
    assert_eq!(literal("a\nb\rc\u{a0}d"), ["a\nb\rc\u{a0}d"]);
    assert_eq!(literal(r#""$x `y`" "\$""#), ["$x `y`", "$"]);
    assert_eq!(literal("$'a b'"), ["$a b"]);
}

#[test]
fn unparsable_messages() {
    let line = |text: &str| unparsable_line(text.as_bytes());
    assert_eq!(line("echo \"x"), "could not parse command: unclosed double quote (opened at byte 6)");
    assert_eq!(line("echo 'x\""), "could not parse command: unclosed single quote (opened at byte 6)");
    assert_eq!(line("echo x\\"), "could not parse command: backslash at the end");
    assert_eq!(line("\"a\\"), "could not parse command: unclosed double quote (opened at byte 1)");
    for empty in ["", " \t ", "\\\n", " \\\n "] {
        assert_eq!(line(empty), "could not parse command: the command is empty");
    }
}

/// Text, message, hint; what many hints end with stands in braces.
const REFUSALS: &[(&str, &str, &str)] = &[
    (
        "a; b",
        "unquoted ';' (byte 2): no shell runs, so it cannot end a command",
        "send two requests, one for each command; {quote_it}",
    ),
    (
        "a && b",
        "unquoted '&&' (byte 3): no shell runs, so it cannot chain commands",
        "send two requests, the second only when the first result says so; {quote_it}",
    ),
    (
        "a || b",
        "unquoted '||' (byte 3): no shell runs, so it cannot chain commands",
        "send two requests, the second only when the first result says so; {quote_it}",
    ),
    (
        "a | b",
        "unquoted '|' (byte 3): no shell runs, so it cannot connect commands",
        "send two requests and give the second the first one's output with the `--stdin` option, or let a `[[rule]]` of the policy allow one program that does both; {quote_it}",
    ),
    (
        "a &",
        "unquoted '&' (byte 3): no shell runs, so it cannot put a command in the background",
        "send two requests at the same time; guardexec waits for each and leaves nothing running; {quote_it}",
    ),
    (
        "a > b",
        "unquoted '>' (byte 3): no shell runs, so it cannot redirect output",
        "the result holds the output, which the caller can write to a file; {quote_it}",
    ),
    (
        "a >> b",
        "unquoted '>>' (byte 3): no shell runs, so it cannot append output to a file",
        "the result holds the output, which the caller can write to a file; {quote_it}",
    ),
    (
        "a < b",
        "unquoted '<' (byte 3): no shell runs, so it cannot redirect input",
        "use the `--stdin` option; {quote_it}",
    ),
    (
        "a << b",
        "unquoted '<<' (byte 3): no shell runs, so it cannot start a here-document",
        "use the `--stdin` option; {quote_it}",
    ),
    ("(a)", "unquoted '(' (byte 1): no shell runs, so it cannot group commands", "{quote_it}"),
    (
        "a $b",
        "unquoted '$' (byte 3): no shell runs, so it cannot expand a variable",
        "write the value itself, or ask for a variable with `--env`; {single}",
    ),
    (
        "a \"$b\"",
        "'$' inside double quotes (byte 4): no shell runs, so it cannot expand a variable",
        "write the value itself, or ask for a variable with `--env`; {single}",
    ),
    (
        "a \"`b`\"",
        "'`' inside double quotes (byte 4): no shell runs, so it cannot substitute a command's output",
        "send two requests and put the first one's output into the second; {single}",
    ),
    (
        "a $(b)",
        "unquoted '$(' (byte 3): no shell runs, so it cannot substitute a command's output",
        "send two requests and put the first one's output into the second; {single}",
    ),
    (
        "a $'b'",
        "unquoted \"$'\" (byte 3): no shell runs, so it cannot decode escapes",
        "use plain single quotes, or pass the words after `--`",
    ),
    (
        "a *",
        "unquoted '*' (byte 3): no shell runs, so it cannot match file names",
        "write the names out; {quote_it}",
    ),
    (
        "a {b,c}",
        "unquoted '{' (byte 3): no shell runs, so it cannot expand braces or group commands",
        "write the names out; {quote_it}",
    ),
    (
        "a ~",
        "unquoted '~' (byte 3): no shell runs, so it cannot name a home directory",
        "write the directory out; {quote_it}",
    ),
    (
        "! a",
        "unquoted '!' (byte 1): no shell runs, so it cannot negate a command or recall one",
        "{quote_it}",
    ),
    (
        "a #b",
        "unquoted '#' (byte 3): no shell runs, so it cannot start a comment",
        "leave the comment out; {quote_it}",
    ),
    (
        "A=b c",
        "unquoted 'A=' at the start: no shell runs, so it cannot set a variable",
        "ask for the variable with `--env NAME=VALUE`, and start with the program",
    ),
    (
        "a\nb",
        "unquoted newline (byte 2): no shell runs, so it cannot end a command",
        "send two requests, one for each command; {quote_it}",
    ),
    (
        "a\r",
        "unquoted carriage return (byte 2): no shell runs, so it cannot end a line",
        "leave it out, or quote it",
    ),
    (
        "a\u{1b}[2K",
        "unquoted control character U+001B (byte 2): no shell runs, so it cannot mean anything",
        "leave it out, or quote it",
    ),
    (
        "a\u{3000}b",
        "unquoted blank character U+3000 (byte 2): no shell runs, so it cannot separate words",
        "use an ordinary space, or quote it",
    ),
];

#[test]
fn every_refusal_says_what_to_do() {
    for (text, message, hint) in REFUSALS {
        let hint = hint
            .replace("{quote_it}", "if it is meant literally, quote it or pass the words after `--`")
            .replace(
                "{single}",
                "if it is meant literally, put it in single quotes or pass the words after `--`",
            );
        assert_eq!(said(text), ((*message).to_string(), hint), "{text:?}");
    }
}

#[test]
fn each_character_that_is_refused() {
    for c in
        [";", "&", "|", ">", "<", "(", ")", "`", "*", "?", "[", "]", "{", "}", "!", "&&", "||", "$", "$("]
    {
        let text = format!("x y{c} z");
        assert_eq!(refused(&text), at(c, 3), "{text:?}");
    }
    for c in ('\u{1}'..='\u{8}').chain('\u{b}'..='\u{1f}').chain('\u{7f}'..='\u{9f}') {
        assert_eq!(refused(&format!("x{c}y")).1, 1, "{c:?}");
    }
    for c in [
        '\u{a0}', '\u{1680}', '\u{2000}', '\u{2003}', '\u{200a}', '\u{2028}', '\u{2029}', '\u{202f}',
        '\u{205f}', '\u{3000}',
    ] {
        assert_eq!(refused(&format!("x {c}")), at(&format!("blank character U+{:04X}", u32::from(c)), 2));
    }
}

#[test]
fn a_word_starts_where_dash_says() {
    assert_eq!(refused("a \\\n~"), at("~", 4));
    assert_eq!(refused("a \\\n#b"), at("#", 4));
    assert_eq!(both("a ''~ \"\"#b x\\\n#c"), ["a", "~", "#b", "x#c"]);
    assert_eq!(refused("A\\\nB=c"), at("AB=", 0));
    assert_eq!(both("'A'=b"), ["A=b"]);
    assert_eq!(both("\\A=b"), ["A=b"]);
    assert_eq!(both("1=b a=b"), ["1=b", "a=b"]);
    assert_eq!(both("x a=b"), ["x", "a=b"]);
    assert_eq!(both("=b"), ["=b"]);
}

#[test]
fn case_27_assignment_prefix() {
    assert_eq!(refused("NODE_OPTIONS=--require=/tmp/pre.js npm --version"), at("NODE_OPTIONS=", 0));
    assert_eq!(refused(" AWS_PROFILE=prod aws s3 ls"), at("AWS_PROFILE=", 1));
    let long = "A".repeat(5000) + "=b";
    assert_eq!(refused(&long).0, "A".repeat(64) + "...=");
}

#[test]
fn case_28_builtins_are_words_like_others() {
    assert_eq!(both("export PAGER=./p.sh"), ["export", "PAGER=./p.sh"]);
}

#[test]
fn case_29_chains_pipes_background_redirects() {
    assert_eq!(refused("git log && id"), at("&&", 8));
    assert_eq!(refused("git log;id"), at(";", 7));
    assert_eq!(refused("git log|sh"), at("|", 7));
    assert_eq!(refused("git log & id"), at("&", 8));
    assert_eq!(refused("git log > ~/.bashrc"), at(">", 8));
    assert_eq!(both("git log --grep ';'"), ["git", "log", "--grep", ";"]);
}

#[test]
fn case_30_echo_with_redirect() {
    assert_eq!(refused("echo cGF5bG9hZA== > /tmp/1"), at(">", 18));
}

#[test]
fn case_31_substitution_and_variables() {
    assert_eq!(refused("git status $(touch x)"), at("$(", 11));
    assert_eq!(refused("git status `touch x`"), at("`", 11));
    assert_eq!(refused("git status $HOME"), at("$", 11));
    assert_eq!(refused("git status \"$(touch x)\""), at("$", 12));
    assert_eq!(refused("git status \"${HOME}\""), at("$", 12));
    assert_eq!(both("git status '$(x)'"), ["git", "status", "$(x)"]);
}

#[test]
fn case_32_newline_as_separator() {
    assert_eq!(refused("git status\nid"), at("newline", 10));
    assert_eq!(both("git status 'a\nb'"), ["git", "status", "a\nb"]);
}

#[test]
fn case_34_backslash_inside_single_quotes() {
    assert_eq!(refused(r"echo 'a\' ; touch /tmp/poc"), at(";", 10));
}

#[test]
fn case_35_ansi_c_quoting() {
    assert_eq!(refused("git $'push' --force"), at("$'", 4));
    assert_eq!(refused(r"$'\x72\x6d' -rf x"), at("$'", 0));
    assert_eq!(refused("git $\"push\""), at("$\"", 4));
    // What plain quoting makes of it: the quote closes at `\'`, so `;` is outside under bash, and `$'` comes first.
    assert!(matches!(
        split(br"printf $'a\'; id #'", Syntax::Refuse),
        Err(WordsError::Syntax { what, position: 7, .. }) if what == "$'"
    ));
}

#[test]
fn case_36_comments_are_never_dropped() {
    assert_eq!(refused(r"ls tag\ #1; id"), at(";", 10));
    assert_eq!(both("echo a#b"), ["echo", "a#b"]);
    assert_eq!(refused("echo hi # there"), at("#", 8));
    assert_eq!(literal("echo hi # there"), ["echo", "hi", "#", "there"]);
}

#[test]
fn case_37_brace_ifs_tilde_glob_history() {
    assert_eq!(refused("git commit {-a,-m} x"), at("{", 11));
    assert_eq!(refused("git${IFS}commit"), at("$", 3));
    assert_eq!(refused("ls ~root"), at("~", 3));
    assert_eq!(refused("rm *"), at("*", 3));
    assert_eq!(refused("echo hi!"), at("!", 7));
}

#[test]
fn case_39_nothing_is_normalized() {
    assert_eq!(both("rm\u{200b} -rf x"), ["rm\u{200b}", "-rf", "x"]);
    assert_eq!(both("\u{ff47}\u{ff49}\u{ff54} status"), ["\u{ff47}\u{ff49}\u{ff54}", "status"]);
    assert_eq!(both("g\u{456}t status"), ["g\u{456}t", "status"]);
}

#[test]
fn case_51_quotes_of_the_other_kind() {
    assert_eq!(both("echo \"can't stop\""), ["echo", "can't stop"]);
    assert_eq!(both("echo 'say \"hi\"'"), ["echo", "say \"hi\""]);
    assert_eq!(
        unparsable_line(b"echo \"unclosed"),
        "could not parse command: unclosed double quote (opened at byte 6)"
    );
}

#[test]
fn case_77_nul_byte() {
    assert_eq!(unparsable_line(b"echo a\0b"), "could not parse command: NUL byte (byte 7)");
    assert_eq!(unparsable_line(b"echo ; 'a\0b"), "could not parse command: NUL byte (byte 10)");
}

#[test]
fn case_78_bytes_that_are_not_utf8() {
    for mode in [Syntax::Refuse, Syntax::Literal] {
        let split = split(b"ls \xff\xfe \\\xc3 '\xe2\x82'", mode).expect("words");
        let bytes: Vec<Vec<u8>> = split.into_iter().map(OsStringExt::into_vec).collect();
        assert_eq!(bytes, [b"ls".to_vec(), b"\xff\xfe".to_vec(), b"\xc3".to_vec(), b"\xe2\x82".to_vec()]);
    }
}
