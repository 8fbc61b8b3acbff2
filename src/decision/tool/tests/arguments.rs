//! Types from JSON and from the command line, limits, and the words that values become.

use super::*;

fn integer_number_boolean() -> Vec<Param> {
    vec![
        optional("i", ParamType::Integer),
        optional("n", ParamType::Number),
        optional("b", ParamType::Boolean),
        optional("s", ParamType::String),
        optional("l", ParamType::Array),
    ]
}

/// The settled value of a parameter, or the one sentence that refuses it.
fn settled(given: &Arguments, name: &str) -> Result<Value, String> {
    let echo = tool("t", "echo", integer_number_boolean());
    let (values, failures) = super::super::arguments::settle(&echo, given, &Paths::Names);
    match failures.as_slice() {
        [] => Ok(values.get(name).cloned().unwrap_or(Value::Null)),
        all => Err(all.join("; ")),
    }
}

#[test]
fn json_types_are_what_they_are() {
    let json = |text: &str| typed(serde_json::from_str(text).expect("JSON"));
    for (given, name, want) in [
        (r#"{"i": 7}"#, "i", json!(7)),
        (r#"{"i": -9223372036854775808}"#, "i", json!(i64::MIN)),
        (r#"{"i": 9007199254740993}"#, "i", json!(9_007_199_254_740_993_i64)),
        (r#"{"n": 7}"#, "n", json!(7)),
        (r#"{"n": 0.1}"#, "n", json!(0.1)),
        // One number is one value, however it is spelled.
        (r#"{"n": 7.0}"#, "n", json!(7)),
        (r#"{"n": 1e2}"#, "n", json!(100)),
        (r#"{"b": true}"#, "b", json!(true)),
        (r#"{"s": ""}"#, "s", json!("")),
        (r#"{"l": []}"#, "l", json!([])),
        (r#"{"l": ["a", ""]}"#, "l", json!(["a", ""])),
    ] {
        assert_eq!(settled(&json(given), name), Ok(want), "{given}");
    }
    for (given, name, kind, not) in [
        (r#"{"i": 1.0}"#, "i", "a whole number", "1.0"),
        (r#"{"i": 1e2}"#, "i", "a whole number", "100.0"),
        (r#"{"i": -0}"#, "i", "a whole number", "-0.0"),
        (r#"{"i": "7"}"#, "i", "a whole number", "a text"),
        (r#"{"i": null}"#, "i", "a whole number", "null"),
        (r#"{"n": -0.0}"#, "n", "a number", "-0.0"),
        (r#"{"n": 1e300}"#, "n", "a number", "1e+300"),
        (r#"{"n": "1"}"#, "n", "a number", "a text"),
        (r#"{"b": "true"}"#, "b", "true or false", "a text"),
        (r#"{"b": 1}"#, "b", "true or false", "1"),
        (r#"{"s": 1}"#, "s", "a text", "1"),
        (r#"{"s": ["a"]}"#, "s", "a text", "a list"),
        (r#"{"s": {"a": 1}}"#, "s", "a text", "an object"),
        (r#"{"l": "a"}"#, "l", "a list of texts", "a text"),
        (r#"{"l": ["a", 1]}"#, "l", "a list of texts", "a list"),
    ] {
        let want = format!("argument '{name}' must be {kind}, not {not}");
        assert_eq!(settled(&json(given), name), Err(want), "{given}");
    }
    for name in ["i", "n"] {
        let given = json(&format!("{{\"{name}\": 18446744073709551615}}"));
        let want = format!(
            "argument '{name}' must lie between -9223372036854775808 and 9223372036854775807, and is \
             18446744073709551615"
        );
        assert_eq!(settled(&given, name), Err(want));
    }
}

#[test]
fn texts_are_read_by_the_parameters_type() {
    for (name, text, want) in [
        ("i", "0", json!(0)),
        ("i", "-7", json!(-7)),
        ("i", "9223372036854775807", json!(i64::MAX)),
        ("n", "0.10", json!(0.1)),
        ("n", "7.00", json!(7)),
        ("n", "-2", json!(-2)),
        ("b", "true", json!(true)),
        ("b", "false", json!(false)),
        ("s", "-x=y\n", json!("-x=y\n")),
        ("l", "[\"a\"]", json!(["[\"a\"]"])),
    ] {
        assert_eq!(settled(&texts(&[(name, text)]), name), Ok(want), "{name}={text}");
    }
    for text in [
        "+5", "1e3", "0x10", "007", "-0", " 5", "5 ", "5\n", "NaN", "inf", "5.", ".5", "", "1_0", "\u{663}",
        "\u{ff11}",
    ] {
        let want = |kind: &str, such: &str| {
            let shown = repr(text.as_bytes());
            Err(format!("must be {kind} in plain digits (such as 7{such}), not {shown}"))
        };
        let said = |name: &str| {
            settled(&texts(&[(name, text)]), name)
                .map_err(|why| why.trim_start_matches(&format!("argument '{name}' ")).to_owned())
        };
        assert_eq!(said("i"), want("a whole number", " or -2"), "{text:?}");
        assert_eq!(said("n"), want("a number", ", -2 or 0.5"), "{text:?}");
    }
    assert!(settled(&texts(&[("i", "0.5")]), "i").expect_err("a fraction").contains("a whole number"));
    assert!(
        settled(&texts(&[("i", "9223372036854775808")]), "i")
            .expect_err("too large")
            .contains("must lie between")
    );
    let many = settled(&texts(&[("n", "0.12345678901234567890123")]), "n").expect_err("too exact");
    assert_eq!(many, "argument 'n' has more digits than can be kept exactly: '0.12345678901234567890123'");
    for text in ["TRUE", "1", "yes", "True", ""] {
        let want = format!("argument 'b' must be true or false, not '{text}'");
        assert_eq!(settled(&texts(&[("b", text)]), "b"), Err(want));
    }
}

#[test]
fn a_name_may_be_repeated_where_it_is_a_list_and_nowhere_else() {
    let given = texts(&[("l", "a"), ("l", ""), ("l", "b")]);
    assert_eq!(settled(&given, "l"), Ok(json!(["a", "", "b"])));
    let twice = settled(&texts(&[("s", "a"), ("s", "a")]), "s");
    assert_eq!(twice, Err("argument 's' is given 2 times and takes one value".into()));
}

#[test]
fn everything_that_is_wrong_is_told_together() {
    let echo = tool(
        "t",
        "echo {name} {n}",
        vec![
            limited("name", ParamType::String, ValueLimits { max_length: Some(3), ..pattern("[a-z]*") }),
            limited("n", ParamType::Integer, range(1, 5)),
            param("must", ParamType::Boolean),
        ],
    );
    let policies = [offering(vec![echo])];
    let message = |given: &Arguments| refused(call(&policies, "t", given)).message;
    assert_eq!(
        message(&typed(json!({"naem": 1, "name": "ABCD", "n": 9, "x": 2}))),
        "argument 'name' 'ABCD' is 4 bytes long, more than max_length 3; argument 'name' 'ABCD' does not match the \
         pattern '[a-z]*' as a whole; argument 'n' '9' is more than max_value 5; argument 'must' is missing; argument \
         'naem' is unknown; the tool takes ['name', 'n', 'must']; argument 'x' is unknown; the tool takes ['name', \
         'n', 'must']"
    );
    assert_eq!(
        message(&texts(&[("name", "a"), ("n", "x"), ("must", "true"), ("y", ""), ("y", "")])),
        "argument 'n' must be a whole number in plain digits (such as 7 or -2), not 'x'; argument 'y' is unknown; the \
         tool takes ['name', 'n', 'must']"
    );
    let none = [offering(vec![tool("t", "echo", vec![])])];
    let many: Vec<(String, String)> = (0..40).map(|n| (format!("a{n}"), String::new())).collect();
    let message = refused(call(&none, "t", &Arguments::Texts(many))).message;
    assert!(message.ends_with("argument 'a15' is unknown; the tool takes none; and 24 more"), "{message}");
    let long = refused(call(&none, "t", &typed(json!({"k".repeat(9_000_000): 1})))).message;
    assert!(long.len() < 400, "{} bytes", long.len());
}

#[test]
fn limits_of_a_list_are_its_elements_and_max_length_counts_them() {
    let list = |value| {
        let echo = tool("t", "echo {l}", vec![limited("l", ParamType::Array, value)]);
        [offering(vec![echo])]
    };
    let policies = list(ValueLimits { max_length: Some(2), ..pattern("[a-z]*") });
    let decide = |given: Value| call(&policies, "t", &typed(json!({ "l": given })));
    assert_eq!(outcome(&decide(json!(["averylongelement", ""]))), "allow");
    assert_eq!(
        refused(decide(json!(["a", "B", "c\n"]))).message,
        "argument 'l' has 3 elements, more than max_length 2; element 2 of argument 'l' 'B' does not match the \
         pattern '[a-z]*' as a whole; element 3 of argument 'l' 'c\\n' does not match the pattern '[a-z]*' as a whole"
    );
    let policies = list(choices(&["a", "b"]));
    assert_eq!(outcome(&call(&policies, "t", &texts(&[("l", "a"), ("l", "b"), ("l", "a")]))), "allow");
    assert_eq!(
        refused(call(&policies, "t", &texts(&[("l", "a"), ("l", "c")]))).message,
        "element 2 of argument 'l' 'c' is not one of ['a', 'b']"
    );
}

#[test]
fn a_nul_byte_is_refused_wherever_it_stands() {
    let echo =
        tool("t", "echo {s} {l}", vec![optional("s", ParamType::String), optional("l", ParamType::Array)]);
    let policies = [offering(vec![echo])];
    for (given, what) in
        [(json!({"s": "a\0b"}), "argument 's'"), (json!({"l": ["a", "\0"]}), "element 2 of argument 'l'")]
    {
        let denial = refused(call(&policies, "t", &typed(given)));
        assert_eq!(denial.message, format!("{what} holds a NUL byte, which no tool takes"));
    }
}

#[test]
fn what_is_missing_leaves_its_whole_word_out() {
    let params = || {
        vec![
            optional("a", ParamType::String),
            optional("b", ParamType::String),
            optional("l", ParamType::Array),
            Param { default: Some(json!(3)), ..optional("n", ParamType::Integer) },
        ]
    };
    let words = |argv: &str, given: Value| {
        words_of(&granted(call(&[offering(vec![tool("t", argv, params())])], "t", &typed(given))))
    };
    let argv = "echo {a} --b={b} {a}-{b} {l} n={n} {}";
    assert_eq!(words(argv, json!({})), ["echo", "n=3", "{}"]);
    assert_eq!(words(argv, json!({"a": "", "l": []})), ["echo", "", "n=3", "{}"]);
    assert_eq!(
        words(argv, json!({"a": "x", "b": "-y", "l": ["1", "2"], "n": 4})),
        ["echo", "x", "--b=-y", "x--y", "1", "2", "n=4", "{}"]
    );
}

#[test]
fn a_value_that_a_program_could_take_for_a_flag_is_refused() {
    let decide = |argv: &str, param: Param, given: Value| {
        let name = param.name.clone();
        call(&[offering(vec![tool("t", argv, vec![param])])], "t", &typed(json!({ name: given })))
    };
    let text = || param("v", ParamType::String);
    let refusal = "argument 'v' makes the word '-rf', which the program would take for a flag";
    assert_eq!(refused(decide("echo {v}", text(), json!("-rf"))).message, refusal);
    assert_eq!(
        refused(decide("echo {v}", param("v", ParamType::Array), json!(["a", "-rf"]))).message,
        refusal
    );
    assert_eq!(outcome(&decide("echo {v}x", text(), json!("-rf"))), "deny:invalid_arguments");
    assert_eq!(
        outcome(&decide("echo {v} --", text(), json!("-rf"))),
        "deny:invalid_arguments",
        "a -- after it"
    );
    assert_eq!(
        outcome(&decide("echo {v}", limited("v", ParamType::String, pattern("-?[a-z]+")), json!("-rf"))),
        "deny:invalid_arguments"
    );
    for (argv, param) in [
        ("echo -- {v}", text()),
        ("echo x{v}", text()),
        ("echo --name={v}", text()),
        ("echo {v}", limited("v", ParamType::String, choices(&["-rf", "-r"]))),
    ] {
        assert_eq!(outcome(&decide(argv, param, json!("-rf"))), "allow", "{argv}");
    }
    // `kill {pid}` with -1 is every process: a negative number has to be meant.
    let pid = |value| limited("v", ParamType::Integer, value);
    assert_eq!(outcome(&decide("echo {v}", pid(any()), json!(-1))), "deny:invalid_arguments");
    assert_eq!(outcome(&decide("echo {v}", pid(range(-5, 5)), json!(-1))), "allow");
    assert_eq!(outcome(&decide("echo {v}", pid(range(0, 5)), json!(-1))), "deny:invalid_arguments");
    assert_eq!(outcome(&decide("echo {v}", pid(choices(&["-1"])), json!(-1))), "allow");
    // Two values that only together begin with a dash.
    let two = tool("t", "echo {a}{b}", vec![param("a", ParamType::String), param("b", ParamType::String)]);
    let policies = [offering(vec![two])];
    assert_eq!(outcome(&call(&policies, "t", &typed(json!({"a": "", "b": "-x"})))), "deny:invalid_arguments");
}
