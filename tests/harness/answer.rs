//! What came of a call, and what has to hold of every answer.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::schema;

/// What came of a call.
#[derive(Debug)]
pub struct Answer {
    pub exit: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub json: Value,
    pub audit: Vec<Value>,
    pub took: Duration,
}

impl Answer {
    /// A field of the result as text; "" when null.
    pub fn str(&self, key: &str) -> &str {
        self.json[key].as_str().unwrap_or("")
    }

    pub fn status(&self) -> &str {
        self.str("status")
    }

    /// `ok`, with this stdout, nothing on stderr.
    #[track_caller]
    pub fn ok(&self, stdout: &str) -> &Self {
        assert_eq!((self.status(), self.exit), ("ok", 0), "{}", self.show());
        assert_eq!(self.str("stdout"), stdout, "{}", self.show());
        assert_eq!(self.str("stderr"), "", "{}", self.show());
        self
    }

    /// Denied with this text; nothing ran.
    #[track_caller]
    pub fn denied(&self, text: &str) -> &Self {
        assert_eq!((self.status(), self.exit), ("denied", 126), "{}", self.show());
        assert_eq!(self.str("text"), text, "{}", self.show());
        self.nothing_ran()
    }

    /// Denied by this stage with a text that holds all these parts; nothing ran.
    #[track_caller]
    pub fn denied_by(&self, stage: &str, parts: &[&str]) -> &Self {
        assert_eq!((self.status(), self.exit, self.str("stage")), ("denied", 126, stage), "{}", self.show());
        for part in parts {
            assert!(self.str("text").contains(part), "{part:?} is not in the text\n{}", self.show());
        }
        self.nothing_ran()
    }

    /// guardexec's own error, with a text that holds all these parts; nothing ran.
    #[track_caller]
    pub fn error(&self, parts: &[&str]) -> &Self {
        assert_eq!((self.status(), self.exit), ("error", 125), "{}", self.show());
        for part in parts {
            assert!(self.str("text").contains(part), "{part:?} is not in the text\n{}", self.show());
        }
        self.nothing_ran()
    }

    /// No sign of a run: no exit code, no output, no outcome record.
    #[track_caller]
    pub fn nothing_ran(&self) -> &Self {
        assert!(self.json["exit_code"].is_null() && self.json["signal"].is_null(), "{}", self.show());
        assert_eq!((self.str("stdout"), self.str("stderr")), ("", ""), "{}", self.show());
        let ours = |r: &&Value| r["run_id"] == self.json["run_id"];
        assert!(self.audit.iter().filter(ours).all(|r| r["event"] != "outcome"), "{}", self.show());
        self
    }

    /// Everything, for a failing assertion.
    pub fn show(&self) -> String {
        format!(
            "exit {}\nresult {}\nstderr {}\naudit {:#?}\n",
            self.exit,
            serde_json::to_string_pretty(&self.json).unwrap_or_default(),
            self.stderr,
            self.audit.iter().map(ToString::to_string).collect::<Vec<_>>()
        )
    }

    /// What holds for every call whose output is JSON.
    #[track_caller]
    pub fn check_invariants(&self, audit: Option<&Path>) {
        let text = std::str::from_utf8(&self.stdout).expect("stdout is UTF-8");
        assert!(
            text.ends_with('\n') && text.matches('\n').count() == 1,
            "one JSON line on stdout: {text:?}\n{}",
            self.stderr
        );
        assert!(self.json.is_object(), "stdout is one JSON object: {text:?}");
        schema::check("result", &self.json);
        assert_eq!(self.json["exit_status"], self.exit, "{}", self.show());
        let own = self.json["exit_code"].as_i64() == Some(i64::from(self.exit))
            && matches!(self.status(), "ok" | "nonzero_exit");
        let lines: Vec<&str> = self.stderr.lines().collect();
        if own {
            assert_eq!(self.stderr, "", "the child's own status needs no line\n{}", self.show());
        } else {
            assert!(
                !lines.is_empty() && lines[0].starts_with("guardexec: "),
                "a line says why\n{}",
                self.show()
            );
        }
        let printable = |c: char| {
            c == '\n'
                || (!c.is_control()
                    && !('\u{202a}'..='\u{202e}').contains(&c)
                    && !('\u{2066}'..='\u{2069}').contains(&c))
        };
        assert!(self.stderr.chars().all(printable), "raw control characters on stderr: {:?}", self.stderr);
        for record in &self.audit {
            schema::check("audit", record);
        }
        let Some(file) = audit else { return };
        if self.json["audit"].is_null() {
            // An unusable policy or audit file: then there is nothing to record it in, and nothing may have run.
            assert_eq!((self.status(), self.exit), ("error", 125), "no audit record\n{}", self.show());
            return;
        }
        let last = self.audit.last().unwrap_or_else(|| panic!("an empty audit file\n{}", self.show()));
        assert_eq!(last["run_id"], self.json["run_id"], "{}", self.show());
        assert_eq!(self.json["audit"]["hash"], last["hash"], "{}", self.show());
        assert_eq!(self.json["audit"]["seq"], last["seq"], "{}", self.show());
        assert_eq!(self.json["audit"]["file"].as_str(), file.to_str(), "{}", self.show());
        // An `error` record has no status: guardexec failed before it could decide.
        let status = if last["event"] == "error" { "error" } else { last["status"].as_str().unwrap_or("") };
        assert_eq!(status, self.status(), "{}", self.show());
    }
}
