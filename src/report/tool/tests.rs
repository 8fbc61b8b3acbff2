//! What is shown of a call.

use super::*;
use crate::policy::model::ToolOutput;

fn asked(pairs: &[(&str, &str)]) -> ToolDoc {
    let texts = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    ToolDoc::asked("t", &Arguments::Texts(texts))
}

fn call(output: ToolOutput, check_exit: bool) -> ToolCall {
    ToolCall {
        name: "t".into(),
        arguments: Map::new(),
        content: vec!["content".into()],
        action: None,
        check_exit,
        output,
    }
}

fn hash(text: &str) -> String {
    measured(text)["sha256"].as_str().expect("a hash").to_owned()
}

#[test]
fn long_texts_are_measured_and_names_are_cut() {
    assert_eq!(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let long = "x".repeat(257);
    let doc = asked(&[("a", "1"), ("l", "x"), ("l", &long), ("l", "")]);
    let want = json!({"a": "1", "l": ["x", {"bytes": 257, "sha256": hash(&long)}, ""]});
    assert_eq!(Value::Object(doc.arguments), want);
    let name = "é".repeat(1000);
    let doc = ToolDoc::asked(
        &name,
        &Arguments::Typed(json!({ &name: [1, {"k": long}] }).as_object().unwrap().clone()),
    );
    assert!(doc.name.ends_with("...[1744 bytes omitted]") && doc.name.len() < 300, "{}", doc.name);
    assert!(serde_json::to_string(&doc).unwrap().len() < 900);
}

#[test]
fn content_is_never_shown() {
    let mut call = call(ToolOutput::Both, false);
    call.arguments = json!({"path": "a", "content": "short", "n": 1}).as_object().unwrap().clone();
    let want = json!({"path": "a", "content": {"bytes": 5, "sha256": hash("short")}, "n": 1});
    assert_eq!(Value::Object(ToolDoc::settled(&call).arguments), want);
}

#[test]
fn secrets_are_masked_by_the_parameters_name_and_by_their_shape() {
    let token = format!("ghp_{}", "a".repeat(30));
    let doc = asked(&[
        ("password", "hunter22"),
        ("note", &token),
        ("name", "plain"),
        ("token", "a"),
        ("token", "b"),
    ]);
    let shown = doc.masked().arguments;
    assert_eq!((&shown["password"], &shown["name"]), (&json!("[masked]"), &json!("plain")));
    assert_eq!(shown["token"], json!(["[masked]", "[masked]"]));
    assert!(!serde_json::to_string(&shown).unwrap().contains(&token), "{shown:?}");
    let words = doc.words();
    let reason = crate::request::mask::mask_text("argument 'password' 'hunter22' is wrong", &words);
    assert_eq!(reason, "argument 'password' '[masked]' is wrong");
}
