//! Asking a program of the policy: it reads the request as JSON and answers with a verdict.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::screen::Paper;
use super::{Reply, denied};
use crate::decision::{Facts, policy_path};
use crate::hook::{self, Heard, Job};
use crate::policy::model::{Hook, Policy};
use crate::policy::oversight;
use crate::request::quote;
use crate::run::Stop;

/// The most of a reason that is handed on, in bytes.
const MOST_REASON: usize = 2 << 10;

/// Asks it. Only the one document `{"verdict": "approve", ...}` approves: anything else, a crash and the clock decline.
pub fn ask(hook: &Hook, paper: &Paper<'_>, timeout: Duration, around: &Around<'_>) -> Reply {
    let heard = tell("confirm", hook, paper, timeout, around);
    let program = hook.argv.first().map_or(&b""[..], |word| word.as_bytes());
    let by = format!("the program {}", quote::repr(program));
    // One that was given an output may repeat it.
    let quotes = paper.output.is_none();
    match heard {
        Heard::Cancelled(signal) => Reply::Cancelled(signal),
        Heard::Stopped => Reply::Stopped,
        heard => match heard.document(quotes).and_then(|answer| verdict(&answer, quotes)) {
            Ok((true, said)) => Reply::Approved { by, said },
            Ok((false, said)) => Reply::Declined { denial: denied(paper.bound), by: Some(by), said },
            Err(why) => Reply::Declined { denial: denied(paper.bound), by: Some(by), said: Some(why) },
        },
    }
}

/// What a program of the policy has to know besides the request.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// The policies, one of which names it.
    pub policies: &'a [Policy],
    /// The user's name and home.
    pub facts: &'a Facts,
    /// Whether everything has to stop.
    pub stop: Stop<'a>,
}

impl Around<'_> {
    /// The search path of the policy that names the program.
    fn path_of(&self, hook: &Hook) -> Vec<PathBuf> {
        let own = self.policies.iter().find(|policy| oversight::stands_in(policy, &hook.at));
        own.or(self.policies.first()).map(policy_path).unwrap_or_default()
    }
}

/// Runs one with the request on its standard input.
pub(super) fn tell(
    name: &str,
    hook: &Hook,
    paper: &Paper<'_>,
    timeout: Duration,
    around: &Around<'_>,
) -> Heard {
    let input = paper.document().to_string().into_bytes();
    hook::run(Job { name, hook, input, timeout, path: &around.path_of(hook) }, around.facts, around.stop)
}

/// The two keys that there are.
fn verdict(answer: &Value, quotes: bool) -> Result<(bool, Option<String>), String> {
    let Value::Object(answer) = answer else { return Err("its answer is not an object".into()) };
    if let Some(key) = answer.keys().find(|key| !matches!(key.as_str(), "verdict" | "reason")) {
        let quoted = if quotes { format!("{} ", quote::repr(key.as_bytes())) } else { String::new() };
        return Err(format!("its answer has a key {quoted}that means nothing"));
    }
    let said = match answer.get("reason") {
        None | Some(Value::Null) => None,
        Some(Value::String(reason)) => Some(cut(reason)),
        Some(_) => return Err("the reason in its answer is not a text".into()),
    };
    match answer.get("verdict").and_then(Value::as_str) {
        Some("approve") => Ok((true, said)),
        Some("decline") => Ok((false, said)),
        _ => Err("its verdict is neither \"approve\" nor \"decline\"".into()),
    }
}

/// The beginning of a text that is too long to hand on.
fn cut(text: &str) -> String {
    match (0..=MOST_REASON).rev().find(|at| text.is_char_boundary(*at)) {
        Some(end) if text.len() > MOST_REASON => {
            format!("{}...[{} bytes omitted]", &text[..end], text.len() - end)
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
