//! JSON requests: what they become, and the full message of each refusal.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn refused(text: &str) -> (&'static str, String) {
    let error = parse(text.as_bytes()).expect_err(text);
    (error.code, error.message)
}

fn message(text: &str) -> String {
    refused(text).1
}

fn good(text: &str) -> Request {
    parse(text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn everything_a_request_may_hold() {
    let request = good(
        r#" {"argv": ["echo", "a\u00e9", ""], "cwd": "sub", "env": {"MODE": "x=y", "TZ": null}, "stdin": "in\n",
            "timeout": "5s", "agent": "a/b", "session": "s", "labels": {"k": "v"}, "why": "because\n"} "#,
    );
    let Ask::Argv(words) = &request.ask else { panic!("{request:?}") };
    assert_eq!(words, &["echo", "a\u{e9}", ""]);
    assert_eq!(request.cwd, Some(PathBuf::from("sub")));
    assert_eq!(request.env, [("MODE".into(), Some("x=y".into())), ("TZ".into(), None)]);
    assert!(matches!(&request.stdin, Stdin::Bytes(bytes) if bytes == b"in\n"));
    assert_eq!(request.timeout, Some(Duration::from_secs(5)));
    assert_eq!(request.asker.agent.as_deref(), Some("a/b"));
    assert_eq!(request.asker.session.as_deref(), Some("s"));
    assert_eq!(request.asker.labels.get("k").map(String::as_str), Some("v"));
    assert_eq!(request.asker.why.as_deref(), Some("because\n"));
}

#[test]
fn the_other_ways_to_ask() {
    assert!(matches!(good(r#"{"command": "a;b"}"#).ask, Ask::Command(text) if text == b"a;b"));
    let Ask::Tool { name, arguments: Arguments::Typed(arguments) } = good(
        r#"{"tool": "t", "arguments": {"b": 1, "a": [1.5, "x", {"y": null}], "big": 18446744073709551615}}"#,
    )
    .ask
    else {
        panic!("a tool")
    };
    assert_eq!(name, "t");
    let shown = Value::Object(arguments).to_string();
    assert_eq!(shown, r#"{"b":1,"a":[1.5,"x",{"y":null}],"big":18446744073709551615}"#);
    assert!(
        matches!(good(r#"{"tool": "t"}"#).ask, Ask::Tool { arguments: Arguments::Typed(map), .. } if map.is_empty())
    );
    let stdin = good(r#"{"argv": ["cat"], "stdin_base64": "AP8="}"#).stdin;
    assert!(matches!(stdin, Stdin::Bytes(bytes) if bytes == [0, 0xff]));
}

#[test]
fn exactly_one_ask() {
    let one = "a JSON request has exactly one of 'argv', 'command' and 'tool' (with 'arguments')";
    for text in [
        "{}",
        r#"{"cwd": "/"}"#,
        r#"{"argv": ["a"], "command": "a"}"#,
        r#"{"command": "a", "tool": "t"}"#,
        r#"{"argv": ["a"], "command": null}"#,
        r#"{"arguments": {}}"#,
    ] {
        assert_eq!(message(text), one, "{text}");
    }
    assert_eq!(message(r#"{"argv": ["a"], "arguments": {}}"#), "'arguments' goes with 'tool' only");
}

#[test]
fn unknown_keys() {
    let elsewhere = "policy, state, audit and output are named on the command line only";
    for key in ["policy", "state", "audit", "output", "result_file", "evidence", "argv_base64"] {
        assert_eq!(
            refused(&format!(r#"{{"argv": ["a"], "{key}": "x"}}"#)),
            ("request_key", format!("unknown key '{key}' in the JSON request; {elsewhere}"))
        );
    }
    assert_eq!(message(r#"{"arg": ["a"]}"#), "unknown key 'arg' in the JSON request; did you mean 'argv'?");
    assert_eq!(
        message(r#"{"comand": "a"}"#),
        "unknown key 'comand' in the JSON request; did you mean 'command'?"
    );
    assert_eq!(
        message(r#"{"\u001b[2K\u202e": 1}"#),
        format!(r"unknown key '\x1b[2K\u{{202e}}' in the JSON request; {elsewhere}")
    );
}

#[test]
fn repeated_keys_at_every_level() {
    let twice = |text: &str, key: &str| {
        let (code, message) = refused(text);
        assert_eq!(code, "request_key", "{text}");
        let start = format!("the JSON request cannot be read: key given twice: '{key}' at line 1 column ");
        assert!(message.starts_with(&start), "{message}");
    };
    twice(r#"{"command": "ls", "command": "rm"}"#, "command");
    twice(r#"{"command": "ls", "comm\u0061nd": "rm"}"#, "command");
    twice(r#"{"argv": ["a"], "env": {"A": "1", "A": "2"}}"#, "A");
    twice(r#"{"argv": ["a"], "labels": {"k": "1", "k": "1"}}"#, "k");
    twice(r#"{"tool": "t", "arguments": {"x": [{"y": 1, "y": 2}]}}"#, "y");
}

#[test]
fn what_is_not_one_json_object() {
    for (text, why) in [
        (r#"{"argv": ["a"]} x"#, "trailing characters at line 1 column 17"),
        (r#"{"argv": ["a"]}{}"#, "trailing characters at line 1 column 16"),
        (r#"{"argv": ["a"],}"#, "trailing comma at line 1 column 16"),
        ("", "EOF while parsing a value at line 1 column 0"),
        (r#"{"argv": ["\ud800"]}"#, "unexpected end of hex escape at line 1 column 18"),
        (r#"{"argv": ["\ud800\u0041"]}"#, "lone leading surrogate in hex escape at line 1 column 23"),
        (r#"{"argv": ["\udc00"]}"#, "lone leading surrogate in hex escape at line 1 column 17"),
        (
            "{\"command\": \"a\nb\"}",
            "control character (\\u0000-\\u001F) found while parsing a string at line 2 column 0",
        ),
        (r#"{"tool": "t", "arguments": {"n": 1e999}}"#, "number out of range at line 1 column 38"),
        (r#"{"tool": "t", "arguments": {"n": NaN}}"#, "expected value at line 1 column 34"),
        (
            r#"{"tool": "t", "arguments": {"n": 18446744073709551616}}"#,
            "a number too large to be exact; send it as a text at line 1 column 53",
        ),
    ] {
        assert_eq!(
            refused(text),
            ("request_json", format!("the JSON request cannot be read: {why}")),
            "{text}"
        );
    }
    for text in ["[]", "null", "\"x\"", "3"] {
        assert_eq!(refused(text), ("request_json", "the JSON request is not an object".to_string()));
    }
    assert!(parse(b"\xef\xbb\xbf{\"argv\": [\"a\"]}").is_err());
    let error = parse(b"{\"argv\": [\"\xff\"]}").expect_err("not UTF-8");
    assert_eq!(error.message, "the JSON request is not UTF-8 (byte 12)");
    assert_eq!(error.code, "request_not_utf8");
}

#[test]
fn size_and_depth_are_bounded() {
    let at_most = |length: usize| {
        let mut text = br#"{"argv": ["a"]}"#.to_vec();
        text.resize(length, b' ');
        parse(&text)
    };
    assert!(at_most(LONGEST).is_ok());
    let error = at_most(LONGEST + 1).expect_err("too long");
    assert_eq!(error, RequestError::new("request_too_large", "the JSON request is longer than 16 MiB"));
    // The request and its arguments are two levels already.
    let nested =
        |n: usize| format!(r#"{{"tool": "t", "arguments": {{"x": {}1{}}}}}"#, "[".repeat(n), "]".repeat(n));
    assert!(parse(nested(30).as_bytes()).is_ok());
    assert_eq!(
        message(&nested(31)),
        "the JSON request cannot be read: nested deeper than 32 levels at line 1 column 64"
    );
    assert!(parse("[".repeat(1 << 20).as_bytes()).is_err());
}

#[test]
fn wrong_types_and_values() {
    let list = "'argv' must be a list of texts";
    for (rest, why) in [
        (r#""argv": "ls -l""#, list),
        (r#""argv": ["a", 1]"#, list),
        (r#""argv": null"#, list),
        (r#""argv": []"#, "'argv' must not be empty"),
        (r#""command": ["a"]"#, "'command' must be a text"),
        (r#""tool": 1"#, "'tool' must be a text"),
        (r#""tool": """#, "'tool' must not be empty"),
        (r#""tool": "t", "arguments": []"#, "'arguments' must be an object"),
        (r#""argv": ["a"], "cwd": null"#, "'cwd' must be a text"),
        (r#""argv": ["a"], "cwd": """#, "'cwd' must not be empty"),
        (r#""argv": ["a"], "env": ["A=1"]"#, "'env' must be an object"),
        (r#""argv": ["a"], "env": {"A": 1}"#, "'A' in env must be a text or null"),
        (r#""argv": ["a"], "env": {"A=B": "1"}"#, "'A=B' in env cannot be the name of a variable"),
        (r#""argv": ["a"], "env": {"": "1"}"#, "'' in env cannot be the name of a variable"),
        (
            r#""argv": ["a"], "stdin": "", "stdin_base64": """#,
            "a JSON request has at most one of 'stdin' and 'stdin_base64'",
        ),
        (r#""argv": ["a"], "stdin_base64": "A""#, "'stdin_base64' is not base64 (RFC 4648, with padding)"),
        (r#""argv": ["a"], "stdin_base64": "AP8""#, "'stdin_base64' is not base64 (RFC 4648, with padding)"),
        (r#""argv": ["a"], "timeout": 5"#, "'timeout' must be a text"),
        (r#""argv": ["a"], "timeout": "5""#, "'timeout': a duration needs a unit: ms, s, m, h or d"),
        (r#""argv": ["a"], "labels": {"k": 1}"#, "'labels' must be an object of texts"),
        (
            r#""argv": ["a"], "agent": "a\u001b""#,
            "agent must not hold control or invisible characters (U+001B)",
        ),
        (
            r#""argv": ["a"], "session": "a\u202e""#,
            "session must not hold control or invisible characters (U+202E)",
        ),
        (
            r#""argv": ["a"], "labels": {"k": "\n"}"#,
            "a label's value must not hold control or invisible characters (U+000A)",
        ),
    ] {
        assert_eq!(refused(&format!("{{{rest}}}")), ("request_value", why.to_string()), "{rest}");
    }
}

#[test]
fn case_77_nul_byte() {
    let nul = |rest: &str| {
        let (code, message) = refused(&format!("{{{rest}}}"));
        assert_eq!(code, "nul_byte");
        message
    };
    let end = "which no program can be given";
    assert_eq!(
        nul(r#""argv": ["echo", "a\u0000b"]"#),
        format!("word 1 of 'argv' holds a NUL byte (byte 2), {end}")
    );
    assert_eq!(nul(r#""command": "\u0000""#), format!("'command' holds a NUL byte (byte 1), {end}"));
    assert_eq!(
        nul(r#""argv": ["a"], "env": {"A": "x\u0000"}"#),
        format!("'A' in env holds a NUL byte (byte 2), {end}")
    );
    assert_eq!(
        nul(r#""argv": ["a"], "env": {"A\u0000": "x"}"#),
        format!("a name in env holds a NUL byte (byte 2), {end}")
    );
    assert_eq!(nul(r#""argv": ["a"], "cwd": "a\u0000""#), format!("'cwd' holds a NUL byte (byte 2), {end}"));
    assert!(parse(br#"{"argv": ["a"], "stdin": "\u0000"}"#).is_ok(), "a program may well read NUL bytes");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bytes, and any soup of JSON, give a request or one printable line.
    #[test]
    fn parsing_is_total(soup in prop::collection::vec(prop::sample::select(&[
        "{", "}", "[", "]", ":", ",", "\"argv\"", "\"command\"", "\"env\"", "\"a\"", "\"\\u0000\"", "\"\\ud800\"",
        "\"\\u001b\"", "1e400", "-0", "null", "{\"argv\":[\"a\"]", " ", "\u{202e}", "\"stdin_base64\"",
    ][..]), 0..16), noise in prop::collection::vec(any::<u8>(), 0..8)) {
        let mut bytes = soup.concat().into_bytes();
        for text in [bytes.clone(), { bytes.extend(noise); bytes }] {
            if let Err(error) = parse(&text) {
                prop_assert!(error.message.chars().all(|c| !c.is_control()), "{error}");
            }
        }
    }
}

#[test]
fn a_number_that_would_lose_digits_is_refused() {
    let asked = |number: &str| {
        parse(
            format!("{{\"tool\":\"t\",\"arguments\":{{\"a\\\"1.00000000000000000001\":[{number}]}}}}")
                .as_bytes(),
        )
    };
    for kept in [
        "0.1",
        "1.0",
        "1.50",
        "0.30",
        "1e2",
        "1E+2",
        "12.5e-1",
        "0.000",
        "0e99",
        "-0.0",
        "1e-7",
        "5e-324",
        "0.30000000000000004",
        "123456789.123456",
        "9007199254740991.0",
        "9007199254740993",
        "10, 20.5, \"0.30000000000000001\", 30",
    ] {
        assert!(asked(kept).is_ok(), "{kept}");
    }
    for lost in [
        "0.30000000000000001",
        "0.30000000000000005",
        "1.00000000000000000001",
        "1e-400",
        "1, 2.50000000000000000001",
    ] {
        let error = asked(lost).expect_err(lost);
        assert_eq!(error.code, "request_json");
        // A check's answer, too: what it puts in place of an amount is that amount.
        assert!(super::one_value(&format!("[{lost}]")).is_err(), "{lost}");
        assert!(
            error.message.ends_with("has more digits than can be kept exactly; send it as a text"),
            "{}",
            error.message
        );
    }
}
