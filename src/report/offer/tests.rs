//! Schemas as frameworks get them: they say what the policy says, and calls that fit them are accepted.

mod agreement;

use super::*;
use crate::decision::offered;
use crate::policy::load::load;
use crate::policy::model::Policy;

fn policy(name: &str, text: &str) -> Policy {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = std::env::temp_dir().join(format!("guardexec-offer-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("p.toml");
    std::fs::write(&file, format!("version = 1\n{text}")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let context =
        crate::policy::load::LoadContext { home: "/nowhere".into(), uid: nix::unistd::geteuid().as_raw() };
    let policy = load(&file, &context).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    policy
}

const ALL: &str = r#"
[tools.pay]
description = "Pay."
argv = ["pay", "--to={to}", "--sum={amount}", "--dry={dry}", "--count={count}", "--", "{files}"]
decision = "allow"
[tools.pay.params]
to = { type = "string", max_length = 64, pattern = '[a-z][\w-]*', description = "Whom." }
amount = { type = "number", min_value = -0.5, max_value = 1000, ask_above = 100 }
count = { type = "integer", choices = [1, 2], default = 1 }
dry = { type = "boolean", required = false }
files = { type = "array", max_length = 3, choices = ["a", "b"], required = false }
"#;

#[test]
fn a_tool_is_described_as_frameworks_register_it() {
    let policies = [policy("all", ALL)];
    let offers = offered(&policies, None);
    let want = json!({
        "name": "pay",
        "description": "Pay.",
        "decision": "allow",
        "parameters": {
            "type": "object",
            "properties": {
                "to": {"type": "string", "description": "Whom.", "maxLength": 64, "pattern": "^(?:[a-z][\\w-]*)$"},
                "amount": {
                    "type": "number",
                    "description": "More than 100 has to be approved by a person.",
                    "minimum": -0.5,
                    "maximum": 1000,
                },
                "count": {"type": "integer", "default": 1, "enum": [1, 2]},
                "dry": {"type": "boolean"},
                "files": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 3},
            },
            "required": ["to", "amount"],
            "additionalProperties": false,
        },
    });
    assert_eq!(to_json(&offers[0]), want);
    let line =
        "pay(to: string, amount: number, count: integer = 1, dry?: boolean, files?: array) allow: Pay.";
    assert_eq!(to_line(&offers[0]), line);
    let schema = &to_json(&offers[0])["parameters"];
    assert!(jsonschema::draft202012::meta::is_valid(schema));
    let fits = |arguments: Value| jsonschema::draft202012::new(schema).unwrap().is_valid(&arguments);
    assert!(fits(json!({"to": "a-b", "amount": 1, "files": ["a"]})));
    for wrong in [
        json!({"to": "a"}),
        json!({"to": "A", "amount": 1}),
        json!({"to": "a\n", "amount": 1}),
        json!({"to": "a", "amount": 1001}),
        json!({"to": "a", "amount": "1"}),
        json!({"to": "a", "amount": 1, "count": 3}),
        json!({"to": "a", "amount": 1, "files": ["a", "a", "b", "b"]}),
        json!({"to": "a", "amount": 1, "files": ["c"]}),
        json!({"to": "a", "amount": 1, "more": 1}),
    ] {
        assert!(!fits(wrong.clone()), "{wrong}");
    }
}

#[test]
fn stacked_policies_are_tightened_together() {
    let second = ALL
        .replace("max_length = 64", "max_length = 8")
        .replace("dry = { type = \"boolean\", required = false }", "dry = { type = \"boolean\" }")
        .replace("decision = \"allow\"", "decision = \"ask\"");
    let policies = [policy("first", ALL), policy("second", &second)];
    let offers = offered(&policies, None);
    let offer = to_json(&offers[0]);
    assert_eq!(offer["decision"], "ask");
    assert_eq!(offer["parameters"]["required"], json!(["to", "amount", "dry"]));
    let schema = &offer["parameters"];
    let fits = |to: &str| {
        let arguments = json!({"to": to, "amount": 1, "dry": true});
        jsonschema::draft202012::new(schema).unwrap().is_valid(&arguments)
    };
    assert!(fits("abcdefgh") && !fits("abcdefghi"));
    assert!(schema["properties"]["amount"].get("allOf").is_none(), "what is the same is said once");
    // A parameter that one of them does not know cannot be given.
    let without =
        ALL.replace("dry = { type = \"boolean\", required = false }\n", "").replace("\"--dry={dry}\", ", "");
    let policies = [policy("with", ALL), policy("without", &without)];
    let offers = offered(&policies, None);
    assert!(to_json(&offers[0])["parameters"]["properties"].get("dry").is_none());
}

#[test]
fn figures_are_json_numbers_and_patterns_are_said_where_both_dialects_agree() {
    for (text, want) in
        [("0", "0"), ("007", "7"), ("-00.50", "-0.50"), ("0.5", "0.5"), ("1000", "1000"), ("-0", "-0")]
    {
        assert_eq!(number(text), serde_json::from_str::<Value>(want).ok(), "{text}");
    }
    for source in ["[a-z]+", r"[\w./ @+-]+", "(?:a|b)*", r"\d{1,3}(,\d{3})*", r"\\\.\[x\]"] {
        assert!(portable(source), "{source}");
    }
    for source in [
        "(?i)a",
        "(?P<x>a)",
        r"\Aa\z",
        "[[:alpha:]]",
        "[a-z&&[^b]]",
        r"\p{L}",
        "(?s-u:.*)",
        "é",
        "[]a]",
        r"\,",
        r"\x41",
        "a\\",
    ] {
        assert!(!portable(source), "{source}");
    }
    let text = "[tools.t]\nargv = [\"ls\", \"{p}\"]\ndescription = \"d\"\ndecision = \"ask\"\nparams.p = { type = \"string\", pattern = '(?i)[a-z]+' }\n";
    let policies = [policy("dialect", text)];
    let offer = to_json(&offered(&policies, None)[0]);
    let param = &offer["parameters"]["properties"]["p"];
    assert_eq!(param["description"], "It has to match (?i)[a-z]+ as a whole.");
    assert!(param.get("pattern").is_none());
}
