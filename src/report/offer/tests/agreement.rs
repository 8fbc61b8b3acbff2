//! What a tool's schema refuses is refused when it is called, and what it accepts is accepted, unless for a reason that no
//! schema can say.

use super::*;
use crate::decision::{self, Facts};
use crate::request::{Arguments, Request};

const PARAMS: &[&str] = &[
    "{ type = \"string\" }",
    "{ type = \"string\", max_length = 3 }",
    "{ type = \"string\", max_length = 0 }",
    "{ type = \"string\", pattern = '[a-z]+' }",
    "{ type = \"string\", pattern = 'a|bc' }",
    "{ type = \"string\", pattern = '\\d+' }",
    "{ type = \"string\", pattern = '(?i)[a-z]*' }",
    "{ type = \"string\", pattern = '.' }",
    "{ type = \"string\", pattern = '[\\w -]*\\s?' }",
    "{ type = \"string\", choices = [\"a\", \"\", \"7\", \"-x\"] }",
    "{ type = \"string\", default = \"abc\", max_length = 2 }",
    "{ type = \"string\", required = false }",
    "{ type = \"string\", path = { under = \"/usr\" } }",
    "{ type = \"integer\" }",
    "{ type = \"integer\", min_value = -2, max_value = 7 }",
    "{ type = \"integer\", min_value = 0.5, max_value = 6.5 }",
    "{ type = \"integer\", choices = [1, -1, \"7\"] }",
    "{ type = \"integer\", pattern = '[0-9]' }",
    "{ type = \"integer\", default = 3 }",
    "{ type = \"integer\", min_value = -9223372036854775808, max_value = 9223372036854775807 }",
    "{ type = \"number\" }",
    "{ type = \"number\", min_value = -0.1, max_value = 0.3 }",
    "{ type = \"number\", min_value = 0.30000000000000004, max_value = 100 }",
    "{ type = \"number\", choices = [1, \"0.5\", \"-0.1\"] }",
    "{ type = \"number\", default = 1.0, ask_above = 0.5 }",
    "{ type = \"boolean\" }",
    "{ type = \"boolean\", default = false }",
    "{ type = \"array\" }",
    "{ type = \"array\", max_length = 1 }",
    "{ type = \"array\", pattern = '[a-z]+', required = false }",
    "{ type = \"array of strings\", choices = [\"a\", \"\"], default = [] }",
];

const VALUES: &[&str] = &[
    "\"\"",
    "\"a\"",
    "\"abc\"",
    "\"bc\"",
    "\"ac\"",
    "\"abcd\"",
    "\"A\"",
    "\"a\\n\"",
    "\"\\n\"",
    "\"\u{e9}\"",
    "\"\u{e9}\u{e9}\"",
    "\"\u{1f600}\"",
    "\"-\"",
    "\"-x\"",
    "\"--\"",
    "\"a\\u0000b\"",
    "\"7\"",
    "\"\u{667}\"",
    "\"\u{ff17}\"",
    "\"a b\"",
    "\"a\u{a0}\"",
    "\"/usr/bin\"",
    "\"/usr/../etc\"",
    "\"\u{2028}\"",
    "\"\u{17f}\"",
    "\"\u{212a}\"",
    "0",
    "1",
    "-1",
    "-2",
    "-3",
    "7",
    "8",
    "3",
    "6",
    "0.5",
    "0.1",
    "-0.1",
    "0.3",
    "0.30000000000000004",
    "100",
    "100.0",
    "1.0",
    "7.0",
    "1e0",
    "1e2",
    "1e-7",
    "-0",
    "-0.0",
    "1e15",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "true",
    "false",
    "null",
    "[]",
    "[\"a\"]",
    "[\"\"]",
    "[\"a\", \"b\"]",
    "[\"A\"]",
    "[\"-a\"]",
    "[\"a\", 1]",
    "[[]]",
    "[[\"a\"]]",
    "[null]",
    "[\"\\u0000\"]",
    "{}",
    "{\"a\": 1}",
];

fn facts() -> Facts {
    Facts { env: Vec::new(), start_dir: Some("/".into()), user: "u".into(), home: "/".into(), agent: None }
}

/// What is wrong with a call, if anything is.
fn refusal(policies: &[Policy], arguments: &Value) -> Option<String> {
    let given = Arguments::Typed(arguments.as_object().unwrap().clone());
    let called = decision::called(policies, "t", &given, &mut Request::default(), &facts(), &mut Vec::new());
    called.err().map(|ended| match *ended {
        decision::Decision::Deny(denial) => denial.message,
        other => panic!("{other:?}"),
    })
}

/// What JSON Schema has no word for.
fn is_beyond_a_schema(param: &str, value: &Value, why: &str) -> bool {
    let texts: Vec<&str> = match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().into_iter().collect(),
    };
    let of_text = texts.iter().any(|text| {
        text.contains('\0')
            || text.starts_with('-') && why.contains("would take for a flag")
            || !text.is_ascii() && (why.contains("bytes long") || why.contains("does not match the pattern"))
    });
    // Its pattern is said in words, and so is its path.
    let in_words = ["(?i)", "path =", "integer\", pattern"].iter().any(|part| param.contains(part));
    // To JSON Schema `1.0` and `-0` are whole numbers, and here a whole number has one spelling.
    let spelled = value.is_f64() && (param.contains("integer") || value.as_f64() == Some(0.0));
    let negative = value.as_f64().is_some_and(|n| n < 0.0) && why.contains("would take for a flag");
    let large = why.contains("must lie between");
    of_text || in_words || spelled || negative || large
}

#[test]
fn a_call_is_accepted_where_the_schema_accepts_it() {
    let mut beyond = 0;
    for (n, param) in PARAMS.iter().enumerate() {
        let text = format!(
            "[tools.t]\nargv = [\"ls\", \"{{p}}\"]\ndescription = \"d\"\ndecision = \"allow\"\nparams.p = {param}\n"
        );
        let policies = [policy(&format!("agreement-{n}"), &text)];
        let schema = to_json(&offered(&policies, None)[0])["parameters"].clone();
        let checker = jsonschema::draft202012::new(&schema).unwrap();
        let given = VALUES.iter().map(|value| json!({"p": serde_json::from_str::<Value>(value).unwrap()}));
        for arguments in given.chain([json!({}), json!({"q": 1}), json!({"p": "a", "q": "b"})]) {
            let (fits, refused) = (checker.is_valid(&arguments), refusal(&policies, &arguments));
            match &refused {
                None => assert!(fits, "{param} accepts {arguments}, and its schema does not: {schema}"),
                Some(why) if fits => {
                    let known = is_beyond_a_schema(param, &arguments["p"], why)
                        // A default that does not pass refuses every call that leaves it out.
                        || arguments.get("p").is_none() && param.contains("default = \"abc\"");
                    assert!(known, "{param} refuses {arguments} ({why}), and its schema does not: {schema}");
                    beyond += 1;
                }
                Some(_) => {}
            }
        }
    }
    assert!(beyond > 10, "some cases are what no schema can say: {beyond}");
}
