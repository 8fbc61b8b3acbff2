//! The one JSON document that a program answers with.

use serde_json::Value;

use super::Heard;
use crate::request::json;

impl Heard {
    /// The document that it wrote: exactly one, with nothing but blanks around it, no key twice and no depth beyond that
    /// of a request. With `quotes` the reason may repeat what the program wrote; one that was given an output may have
    /// written that.
    ///
    /// # Errors
    /// Why there is none, to stand behind the program's name; safe to print.
    pub fn document(&self, quotes: bool) -> Result<Value, String> {
        if let Some(why) = self.failure() {
            return Err(why);
        }
        let Heard::Exited { stdout, truncated, .. } = self else {
            return Err("it gave no answer".to_owned());
        };
        if *truncated {
            return Err("its answer is longer than 1 MiB".to_owned());
        }
        let text = std::str::from_utf8(stdout).map_err(|_| "its answer is not UTF-8".to_owned())?;
        if text.trim().is_empty() {
            return Err("it gave no answer".to_owned());
        }
        let quoted = |why| if quotes { format!(": {why}") } else { String::new() };
        json::one_value(text).map_err(|why| format!("its answer is not one JSON document{}", quoted(why)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrote(stdout: &[u8]) -> Heard {
        Heard::Exited { code: 0, stdout: stdout.to_vec(), truncated: false, stderr: Vec::new() }
    }

    #[test]
    fn one_document_with_blanks_around_it() {
        assert_eq!(wrote(b"{\"a\": [1, null]}\n\t \n").document(true), Ok(json!({"a": [1, null]})));
    }

    #[test]
    fn anything_else_is_refused_with_the_reason() {
        let deep = format!("{}{}", "[".repeat(40), "]".repeat(40));
        for (stdout, why) in [
            (&b""[..], "no answer"),
            (b" \n", "no answer"),
            (b"{} {}", "trailing characters"),
            (b"{}\n{}\n", "trailing characters"),
            (b"{\"a\":1,\"a\":1}", "key given twice: 'a'"),
            (b"{\"a\":", "EOF"),
            (b"ok", "expected"),
            (b"\xff{}", "not UTF-8"),
            (b"\xef\xbb\xbf{}", "expected value"),
            (deep.as_bytes(), "nested deeper"),
            (b"[9007199254740993.0]", "too large to be exact"),
        ] {
            let refusal = wrote(stdout).document(true).expect_err(why);
            assert!(refusal.contains(why), "{refusal}");
            let refusal = wrote(stdout).document(false).expect_err(why);
            assert!(!refusal.contains(':'), "{refusal}");
        }
    }

    #[test]
    fn a_failing_end_is_never_an_answer() {
        let good = b"{\"verdict\":\"pass\"}".to_vec();
        let exited =
            |code, truncated| Heard::Exited { code, stdout: good.clone(), truncated, stderr: Vec::new() };
        assert!(exited(0, false).document(true).is_ok());
        for heard in
            [exited(1, false), exited(0, true), Heard::TimedOut, Heard::Cancelled(15), Heard::Stopped]
        {
            assert!(heard.document(true).is_err(), "{heard:?}");
        }
    }
}
