//! `[[check]]`: a judgement of one's own.

use std::time::Duration;

use super::hook::hook;
use super::rate::{Names, matches, tables};
use super::reader::{Item, Table};
use super::{Span, rule};
use crate::policy::error::PolicyError;
use crate::policy::model::{Check, CheckOn, Severity};

/// How long a check may take unless it says.
const TIMEOUT: Duration = Duration::from_secs(30);

const KEYS: &[&str] = &["name", "on", "match", "run", "timeout", "severity", "rewrite"];

/// A check and where its names stand.
#[derive(Debug)]
pub(in crate::policy) struct ReadCheck {
    pub check: Check,
    /// Where its name stands.
    pub name: Span,
    /// Where each entry of `match` stands.
    pub matches: Vec<Span>,
}

pub(super) fn checks(top: &Table<'_>) -> Result<Vec<ReadCheck>, PolicyError> {
    tables(top, "check", "[[check]]", check)
}

fn check(t: &Table<'_>) -> Result<ReadCheck, PolicyError> {
    t.only(KEYS)?;
    let severities = [
        ("low", Severity::Low),
        ("medium", Severity::Medium),
        ("high", Severity::High),
        ("critical", Severity::Critical),
    ];
    let name = t.need("name")?;
    let Names { names, spans } = t.opt("match", matches)?.unwrap_or_default();
    let check = Check {
        name: rule::safe_name(&name, "a check's name")?.to_owned(),
        at: t.doc.place(&t.span),
        on: t.need("on")?.word(&[("request", CheckOn::Request), ("output", CheckOn::Output)])?,
        matches: names,
        run: hook(&t.need("run")?)?,
        timeout: t.opt("timeout", Item::duration)?.unwrap_or(TIMEOUT),
        severity: t.opt("severity", |i| i.word(&severities))?.unwrap_or_default(),
        rewrites: t.flag("rewrite")?,
    };
    Ok(ReadCheck { check, name: name.span.clone(), matches: spans })
}
