//! Who asks: what their names may hold, and what an inherited name binds them to.

use super::{Asker, RequestError, quote};

/// The longest agent, session, label name or label value, in bytes.
pub const LONGEST_NAME: usize = 256;

/// The longest explanation, in bytes: it is read on one screen, and stands in audit records. What is longer is evidence.
pub const LONGEST_WHY: usize = 4 << 10;

/// The most labels of one request: each of them stands in every audit record.
pub const MOST_LABELS: usize = 64;

impl Asker {
    /// Refuses names that could forge or hide something where a person or a log reads them.
    ///
    /// # Errors
    /// [`RequestError`] where agent, session or a label is empty (a label's value may be), longer than
    /// [`LONGEST_NAME`], or holds control, bidirectional or invisible characters; where there are more than
    /// [`MOST_LABELS`] labels; or where the explanation is longer than [`LONGEST_WHY`].
    pub fn check(&self) -> Result<(), RequestError> {
        if let Some(agent) = &self.agent {
            check_name("agent", agent)?;
        }
        if let Some(session) = &self.session {
            check_name("session", session)?;
        }
        if self.labels.len() > MOST_LABELS {
            return Err(RequestError::value(format!("there may be at most {MOST_LABELS} labels")));
        }
        for (name, value) in &self.labels {
            check_name("a label's name", name)?;
            check_text("a label's value", value)?;
        }
        if self.why.as_ref().is_some_and(|why| why.len() > LONGEST_WHY) {
            return Err(RequestError::value(format!(
                "why must not be longer than {LONGEST_WHY} bytes; what is longer can be given as evidence"
            )));
        }
        Ok(())
    }

    /// Binds the asker to the name that guardexec inherited (`$GUARDEXEC_AGENT`): without a name of its own it
    /// takes that one, and its own may only be that one or add `/child` to it.
    ///
    /// # Errors
    /// [`RequestError`] where the inherited name itself cannot be one, or the asker claims another.
    pub fn bind(&mut self, inherited: &str) -> Result<(), RequestError> {
        check_name("GUARDEXEC_AGENT", inherited)?;
        let Some(own) = &self.agent else {
            self.agent = Some(inherited.to_string());
            return Ok(());
        };
        let child = own.strip_prefix(inherited).map(|rest| rest.strip_prefix('/'));
        let allowed = own == inherited
            || matches!(child, Some(Some(path)) if path.split('/').all(|step| !step.is_empty()));
        if allowed {
            return Ok(());
        }
        Err(RequestError::value(format!(
            "agent {} is not {}, which GUARDEXEC_AGENT says, nor a child of it (add /NAME to it)",
            quote::repr(own.as_bytes()),
            quote::repr(inherited.as_bytes()),
        )))
    }
}

fn check_name(what: &str, name: &str) -> Result<(), RequestError> {
    if name.is_empty() {
        return Err(RequestError::value(format!("{what} must not be empty")));
    }
    check_text(what, name)
}

fn check_text(what: &str, text: &str) -> Result<(), RequestError> {
    if text.len() > LONGEST_NAME {
        return Err(RequestError::value(format!("{what} must not be longer than {LONGEST_NAME} bytes")));
    }
    match text.chars().find(|&c| quote::is_unprintable(c)) {
        None => Ok(()),
        Some(c) => Err(RequestError::value(format!(
            "{what} must not hold control or invisible characters (U+{:04X})",
            u32::from(c)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str) -> Asker {
        Asker { agent: Some(name.to_string()), ..Asker::default() }
    }

    fn refusal(asker: &Asker) -> String {
        asker.check().expect_err("refused").to_string()
    }

    #[test]
    fn names_with_spaces_and_any_script_pass() {
        let mut asker = agent("build bot/\u{e9}quipe 3");
        asker.session = Some("s-1".into());
        asker.labels.insert("ticket".into(), String::new());
        assert_eq!(asker.check(), Ok(()));
    }

    #[test]
    fn control_and_invisible_characters_are_refused() {
        for (name, code) in [
            ("a\nb", "U+000A"),
            ("a\u{1b}[2K", "U+001B"),
            ("a\u{7f}", "U+007F"),
            ("a\u{85}", "U+0085"),
            ("a\u{202e}b", "U+202E"),
            ("a\u{200b}", "U+200B"),
            ("a\u{2028}", "U+2028"),
            ("a\u{e0041}", "U+E0041"),
        ] {
            let expected = format!("agent must not hold control or invisible characters ({code})");
            assert_eq!(refusal(&agent(name)), expected);
        }
    }

    #[test]
    fn lengths_and_counts_are_bounded() {
        assert_eq!(agent(&"a".repeat(256)).check(), Ok(()));
        assert_eq!(refusal(&agent(&"a".repeat(257))), "agent must not be longer than 256 bytes");
        assert_eq!(refusal(&agent("")), "agent must not be empty");
        let mut asker = Asker { session: Some("a\tb".into()), ..Asker::default() };
        assert_eq!(refusal(&asker), "session must not hold control or invisible characters (U+0009)");
        asker.session = None;
        asker.labels = (0..65).map(|n| (n.to_string(), String::new())).collect();
        assert_eq!(refusal(&asker), "there may be at most 64 labels");
        let why = |length| Asker { why: Some("\n".repeat(length)), ..Asker::default() };
        assert_eq!(why(4096).check(), Ok(()), "it may have lines");
        let expected = "why must not be longer than 4096 bytes; what is longer can be given as evidence";
        assert_eq!(refusal(&why(4097)), expected);
    }

    #[test]
    fn an_inherited_name_binds() {
        let mut nobody = Asker::default();
        assert_eq!(nobody.bind("lead"), Ok(()));
        assert_eq!(nobody.agent.as_deref(), Some("lead"));
        for own in ["lead", "lead/child", "lead/child/grandchild"] {
            assert_eq!(agent(own).bind("lead"), Ok(()), "{own}");
        }
        for own in ["leader", "lead/", "lead//x", "lead/x/", "other", "/lead", "LEAD"] {
            let expected = format!(
                "agent '{own}' is not 'lead', which GUARDEXEC_AGENT says, nor a child of it (add /NAME to it)"
            );
            assert_eq!(agent(own).bind("lead").expect_err("refused").to_string(), expected);
        }
        assert!(Asker::default().bind("a\nb").is_err());
    }
}
