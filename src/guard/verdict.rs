//! A check's answer: one object with a verdict, a reason and, to rewrite, a replacement. Anything else is a failure.

use serde_json::{Map, Value};

use super::LONGEST_REASON;
use crate::hook::Heard;
use crate::policy::model::{Check, CheckOn};
use crate::request::quote::{escape_text, repr};

/// What a check said.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    Pass,
    Warn,
    Block,
    Ask,
    Rewrite(Value),
}

impl Said {
    /// The word of the protocol.
    pub fn as_str(&self) -> &'static str {
        match self {
            Said::Pass => "pass",
            Said::Warn => "warn",
            Said::Block => "block",
            Said::Ask => "ask",
            Said::Rewrite(_) => "rewrite",
        }
    }
}

/// A verdict with its reason, which is bounded and escaped.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub said: Said,
    pub reason: String,
}

/// The answer of a check.
///
/// # Errors
/// Why it gave none, to stand behind its name; safe to print. Of a check on an output it repeats nothing: that may be the
/// output.
pub fn of(heard: &Heard, check: &Check) -> Result<Answer, String> {
    let quotes = check.on == CheckOn::Request;
    let Value::Object(mut fields) = heard.document(quotes)? else {
        return Err("its answer is not an object".to_owned());
    };
    let verdict = fields.shift_remove("verdict");
    let reason = fields.shift_remove("reason");
    let replacement = fields.shift_remove("replacement").filter(|value| !value.is_null());
    if let Some(key) = fields.keys().next() {
        return Err(unknown("its answer has the unknown key", key, quotes));
    }
    let said = said(verdict, replacement, quotes)?;
    if matches!(said, Said::Rewrite(_)) && !check.rewrites {
        return Err("it may not rewrite, because the policy does not say `rewrite = true`".to_owned());
    }
    let reason = match reason {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(_) => return Err("the reason in its answer is not a text".to_owned()),
    };
    let reason = match reason.trim() {
        "" => "it gives no reason".to_owned(),
        text => escaped(text),
    };
    Ok(Answer { said, reason })
}

fn said(verdict: Option<Value>, replacement: Option<Value>, quotes: bool) -> Result<Said, String> {
    let verdict = match verdict {
        Some(Value::String(text)) => text,
        Some(_) => return Err("the verdict in its answer is not a text".to_owned()),
        None => return Err("its answer has no verdict".to_owned()),
    };
    match (verdict.as_str(), replacement) {
        ("rewrite", Some(replacement)) => Ok(Said::Rewrite(replacement)),
        ("rewrite", None) => Err("its verdict is rewrite, without a replacement".to_owned()),
        ("pass" | "warn" | "block" | "ask", Some(_)) => {
            Err(format!("its verdict is {verdict}, with a replacement"))
        }
        ("pass", None) => Ok(Said::Pass),
        ("warn", None) => Ok(Said::Warn),
        ("block", None) => Ok(Said::Block),
        ("ask", None) => Ok(Said::Ask),
        (other, _) => Err(unknown("its verdict is the unknown word", other, quotes)),
    }
}

/// What a check wrote that means nothing, behind a sentence that may repeat it.
fn unknown(sentence: &str, text: &str, quotes: bool) -> String {
    if quotes {
        format!("{sentence} {}", repr(cut(text).as_bytes()))
    } else {
        sentence.replacen(" the ", " an ", 1)
    }
}

/// An object of an output with no other keys than these two, each a text where it is there.
pub fn texts(mut fields: Map<String, Value>, keys: [&str; 2]) -> Result<[Option<String>; 2], String> {
    let mut found = [None, None];
    for (key, place) in keys.iter().zip(&mut found) {
        match fields.shift_remove(*key) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => *place = Some(text),
            Some(_) => return Err(format!("the {key} of its replacement is not a text")),
        }
    }
    nothing_else(&fields, false).map(|()| found)
}

/// Refuses what is left of a replacement.
pub fn nothing_else(fields: &Map<String, Value>, quotes: bool) -> Result<(), String> {
    match fields.keys().next() {
        None => Ok(()),
        Some(key) => Err(unknown("its replacement has the unknown key", key, quotes)),
    }
}

/// Text of a check as a person may read it: bounded, on one line, nothing in it that a terminal obeys.
pub fn escaped(text: &str) -> String {
    let text = text.trim();
    let kept = cut(text);
    let more = if kept.len() < text.len() { "..." } else { "" };
    format!("{}{more}", escape_text(kept)).replace('\n', "\\n").replace('\t', "\\t")
}

fn cut(text: &str) -> &str {
    let end = (0..=LONGEST_REASON.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::policy::model::{Hook, Place, Severity};

    fn check(rewrites: bool) -> Check {
        let at = Place { file: Arc::from(Path::new("p.toml")), line: 3 };
        Check {
            name: "c".into(),
            at: at.clone(),
            on: CheckOn::Request,
            matches: None,
            run: Hook { argv: Vec::new(), at },
            timeout: Duration::from_secs(1),
            severity: Severity::Medium,
            rewrites,
        }
    }

    fn read(answer: &str, rewrites: bool) -> Result<Answer, String> {
        let stdout = answer.as_bytes().to_vec();
        of(&Heard::Exited { code: 0, stdout, truncated: false, stderr: Vec::new() }, &check(rewrites))
    }

    #[test]
    fn every_verdict_is_read() {
        for (word, said) in
            [("pass", Said::Pass), ("warn", Said::Warn), ("block", Said::Block), ("ask", Said::Ask)]
        {
            for rest in ["", ", \"replacement\": null"] {
                let answer = format!("{{\"verdict\": \"{word}\", \"reason\": \" because \"{rest}}}");
                let expected = Answer { said: said.clone(), reason: "because".into() };
                assert_eq!(read(&answer, false), Ok(expected));
            }
        }
        let rewrite = read(r#"{"verdict": "rewrite", "replacement": {"stdout": ""}}"#, true).unwrap();
        assert_eq!(rewrite.said, Said::Rewrite(json!({"stdout": ""})));
        assert_eq!(rewrite.reason, "it gives no reason");
    }

    #[test]
    fn anything_else_is_a_failure() {
        for (answer, why) in [
            ("[]", "not an object"),
            ("\"pass\"", "not an object"),
            ("{}", "has no verdict"),
            (r#"{"verdict": null}"#, "verdict in its answer is not a text"),
            (r#"{"verdict": true}"#, "verdict in its answer is not a text"),
            (r#"{"verdict": "allow"}"#, "its verdict is the unknown word 'allow'"),
            (r#"{"verdict": "PASS"}"#, "its verdict is the unknown word 'PASS'"),
            (r#"{"verdict": "pass "}"#, "its verdict is the unknown word 'pass '"),
            (r#"{"verdict": "pass", "confidence": 1}"#, "the unknown key 'confidence'"),
            (r#"{"verdict": "pass", "verdict": "block"}"#, "key given twice"),
            (r#"{"verdict": "pass", "reason": 1}"#, "reason in its answer is not a text"),
            (r#"{"verdict": "pass", "replacement": "x"}"#, "its verdict is pass, with a replacement"),
            (r#"{"verdict": "block", "replacement": {}}"#, "its verdict is block, with a replacement"),
            (r#"{"verdict": "rewrite"}"#, "without a replacement"),
            (r#"{"verdict": "rewrite", "replacement": null}"#, "without a replacement"),
            ("{\"verdict\": \"pass\"}\n{\"verdict\": \"pass\"}", "not one JSON document"),
        ] {
            let refusal = read(answer, true).expect_err(answer);
            assert!(refusal.contains(why), "{answer}: {refusal}");
        }
        let refusal = read(r#"{"verdict": "rewrite", "replacement": "x"}"#, false).unwrap_err();
        assert!(refusal.contains("it may not rewrite"), "{refusal}");
    }

    #[test]
    fn of_an_output_a_failure_repeats_nothing() {
        let output = Check { on: CheckOn::Output, ..check(true) };
        for answer in [
            r#"{"verdict": "s3cret"}"#,
            r#"{"verdict": "pass", "s3cret": 1}"#,
            r#"{"s3cret": 1, "s3cret": 2}"#,
            r#"{"verdict": "pass", "reason": {"s3cret": 1}}"#,
            r#"{"verdict": "pass"} s3cret"#,
        ] {
            let stdout = answer.as_bytes().to_vec();
            let heard = Heard::Exited { code: 0, stdout, truncated: false, stderr: b"s3cret".to_vec() };
            let refusal = of(&heard, &output).expect_err(answer);
            assert!(!refusal.contains("s3cret"), "{refusal}");
        }
        let fields = Map::from_iter([("s3cret".to_owned(), Value::Null)]);
        assert_eq!(texts(fields, ["stdout", "stderr"]).unwrap_err(), "its replacement has an unknown key");
    }

    #[test]
    fn hostile_reasons_are_bounded_and_escaped() {
        let answer = json!({"verdict": "block", "reason": "a\n\u{1b}[2K\t\u{202e}b"}).to_string();
        assert_eq!(read(&answer, false).unwrap().reason, "a\\n\\x1b[2K\\t\\u{202e}b");
        let answer = json!({"verdict": "block", "reason": "\u{e9}".repeat(1000)}).to_string();
        let reason = read(&answer, false).unwrap().reason;
        assert_eq!(reason, format!("{}...", "\u{e9}".repeat(512)));
        let answer = json!({"verdict": "k".repeat(5000)}).to_string();
        assert!(read(&answer, false).unwrap_err().len() < 1200);
    }
}
