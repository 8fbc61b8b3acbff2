//! What a person gets to see.

use std::collections::HashMap;
use std::ffi::OsString;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::request::Arguments;

#[test]
fn words_as_a_shell_would_take_them() {
    for (word, shown) in [
        ("uname", "uname"),
        ("--opt=a,b:c@d%e+f^g/h.i_j", "--opt=a,b:c@d%e+f^g/h.i_j"),
        ("", "''"),
        ("a b", "'a b'"),
        ("-a;", "'-a;'"),
        ("$x", "'$x'"),
        ("#a", "'#a'"),
        ("~", "'~'"),
        ("a\"b", "'a\"b'"),
        (r"a\nb", r"'a\nb'"),
        ("can't stop", "\"can't stop\""),
        ("it's $5", r"$'it\'s $5'"),
        (r"'\", r"$'\'\\'"),
        ("\u{e9}t\u{e9}", "\u{e9}t\u{e9}"),
        ("\u{65e5}\u{672c} x", "'\u{65e5}\u{672c} x'"),
    ] {
        assert_eq!(display(word.as_bytes()), shown, "{word:?}");
    }
    assert_eq!(display_words(["a", "b c", ""].map(OsString::from)), "a 'b c' ''");
}

#[test]
fn what_a_terminal_would_act_on_is_escaped() {
    for (word, shown) in [
        ("a\nb", r"$'a\nb'"),
        ("a\tb\r", r"$'a\tb\r'"),
        ("\u{1b}[2K\u{7}\u{8}", r"$'\x1b[2K\x07\x08'"),
        ("\u{7f}", r"$'\x7f'"),
        ("\u{85}\u{9b}", r"$'\u{85}\u{9b}'"),
        ("rm \u{202e}fdp.exe", r"$'rm \u{202e}fdp.exe'"),
        ("a\u{2066}\u{2069}\u{200e}\u{61c}", r"$'a\u{2066}\u{2069}\u{200e}\u{61c}'"),
        ("rm\u{200b}\u{200d}\u{feff}\u{ad}\u{2060}", r"$'rm\u{200b}\u{200d}\u{feff}\u{ad}\u{2060}'"),
        ("a\u{a0}\u{2003}\u{3000}\u{2028}\u{2029}", r"$'a\u{a0}\u{2003}\u{3000}\u{2028}\u{2029}'"),
        ("\u{e0041}\u{e0100}\u{fe0f}\u{180e}", r"$'\u{e0041}\u{e0100}\u{fe0f}\u{180e}'"),
        ("\u{115f}\u{3164}\u{ffa0}\u{34f}\u{2800}", r"$'\u{115f}\u{3164}\u{ffa0}\u{34f}\u{2800}'"),
        ("\u{e000}\u{378}\u{10ffff}", r"$'\u{e000}\u{378}\u{10ffff}'"),
        ("a\u{338}b\u{2013}", r"$'a\u{338}b\u{2013}'"),
        ("\u{1b}\\'", r"$'\x1b\\\''"),
    ] {
        assert_eq!(display(word.as_bytes()), shown, "{word:?}");
    }
}

#[test]
fn case_78_bytes_that_are_not_utf8() {
    assert_eq!(display(b"\xff\xfe"), r"$'\xff\xfe'");
    assert_eq!(display(b"a\xe2\x82b\xc3"), r"$'a\xe2\x82b\xc3'");
    assert_eq!(display(b"\xed\xa0\x80"), r"$'\xed\xa0\x80'");
    assert_eq!(repr(b"a\xff"), r"'a\xff'");
}

#[test]
fn case_39_invisible_characters_show_in_names() {
    assert_eq!(repr("rm\u{200b}".as_bytes()), r"'rm\u{200b}'");
    assert_eq!(repr(b"rm"), "'rm'");
    assert_eq!(repr(b"a'b\\c\n"), r"'a\'b\\c\n'");
    assert_eq!(repr(b""), "''");
}

#[test]
fn long_runs_are_counted() {
    let eight = " ".repeat(8);
    assert_eq!(display(format!("a{eight}b").as_bytes()), format!("'a{eight}b'"));
    assert_eq!(display(format!("a{}b  c", " ".repeat(9)).as_bytes()), r"$'a\[9 spaces]b  c'");
    assert_eq!(display("\u{2003}".repeat(400).as_bytes()), r"$'\[400 times \u{2003}]'");
    assert_eq!(display("\n".repeat(30).as_bytes()), r"$'\[30 times \n]'");
    assert_eq!(display("a".repeat(30).as_bytes()), "a".repeat(30));
    assert_eq!(repr(format!("x{}", " ".repeat(40)).as_bytes()), r"'x\[40 spaces]'");
    // A word that spells the notation itself shows its backslash doubled as soon as escapes are in use.
    assert_eq!(display(b"\\[9 spaces]\n"), r"$'\\[9 spaces]\n'");
}

#[test]
fn text_keeps_lines_and_symbols() {
    let text = "line 1\n\t  |  ^^^^ \u{2026} caf\u{e9} \\d+ e\u{301}";
    assert_eq!(escape_text(text), text);
    assert_eq!(escape_text("a\u{1b}]0;x\u{7}\r\nb\u{202e}"), "a\\x1b]0;x\\x07\\r\nb\\u{202e}");
}

#[test]
fn a_request_on_one_line() {
    let ask = |ask| Request { ask, ..Request::default() }.to_string();
    assert_eq!(ask(Ask::Argv(vec!["echo".into(), "a b\n".into()])), r"echo $'a b\n'");
    assert_eq!(ask(Ask::Command(b"uname -a; x".to_vec())), "--command 'uname -a; x'");
    let arguments = json!({"name": "x y", "n": 3}).as_object().cloned().unwrap_or_default();
    let tool = Ask::Tool { name: "delete".into(), arguments: Arguments::Typed(arguments) };
    assert_eq!(ask(tool), "--tool delete --arg 'name=x y' --arg n=3");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bytes give one line of printable ASCII and letters, and different words never look the same.
    #[test]
    fn shown_words_are_safe_and_distinct(words in prop::collection::vec(prop::collection::vec(
        prop::sample::select(&b"a\\'\" \nx1bnu{}[8s\xff\xe2\x80\xae\x1b$"[..]), 0..6), 60)) {
        let mut displayed = HashMap::new();
        let mut represented = HashMap::new();
        for word in &words {
            let (shown, named) = (display(word), repr(word));
            prop_assert!(shown.chars().all(is_plain) && named.chars().all(is_plain), "{shown} {named}");
            prop_assert_eq!(displayed.entry(shown).or_insert(word), &word);
            prop_assert_eq!(represented.entry(named).or_insert(word), &word);
        }
    }

    /// Any text is shown without anything a terminal acts on but newlines and tabs.
    #[test]
    fn escaped_text_is_safe(text in any::<String>()) {
        let shown = escape_text(&text);
        prop_assert!(shown.chars().all(|c| matches!(c, '\n' | '\t') || !is_unprintable(c)));
        prop_assert_eq!(escape_text(&shown), shown);
    }
}

#[test]
fn a_long_run_takes_no_longer_than_any_other_text() {
    // Looking ahead from each character, this took minutes.
    let began = std::time::Instant::now();
    let word = "a".repeat(4 << 20);
    assert_eq!(display(word.as_bytes()), word);
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "took {:?}", began.elapsed());
}

#[test]
fn bytes_outside_utf8_are_spelled_out() {
    assert_eq!(lossless(b"plain \\xff"), "plain \\xff");
    assert_eq!(lossless(b"\xff\\a\xc3"), "\\xff\\\\a\\xc3");
}

#[test]
fn a_line_of_foreign_text_is_safe_and_its_escapes_are_ours() {
    assert_eq!(line(b"it's \\x1b \x1b[2K\t- \xff"), "it's \\\\x1b \\x1b[2K\\t- \\xff");
    assert_eq!(line("a\u{2003}b\u{2014}\u{e9}".as_bytes()), "a\\u{2003}b\\u{2014}\u{e9}");
    assert_eq!(line(&[b' '; 30]), "\\[30 spaces]");
}

#[test]
fn letters_beyond_ascii_can_be_told_apart() {
    assert_eq!(ascii(b"plain\x1b"), None);
    assert_eq!(
        ascii("p\u{430}ypal \u{5d0}\u{202e}".as_bytes()).unwrap(),
        "$'p\\u{430}ypal \\u{5d0}\\u{202e}'"
    );
    assert_eq!(ascii(b"\xff").unwrap(), "$'\\xff'");
}
