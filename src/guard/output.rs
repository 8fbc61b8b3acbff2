//! Checks on the output: before it goes to the caller.

use serde_json::Value;

use super::tally::Tally;
use super::verdict::texts;
use super::{Asked, Finding, Output, Ruling, Subject, document};
use crate::decision::Facts;
use crate::run::Stop;

/// What the checks made of an output.
#[derive(Debug)]
pub struct OutputJudgement {
    /// Whether it may go out. Where it may not, or not yet, nothing of it does.
    pub ruling: Ruling,
    /// In place of what came on standard output; `None` where that stays as it is.
    pub stdout: Option<String>,
    /// In place of what came on standard error.
    pub stderr: Option<String>,
    /// What each check said, in the order in which they were asked.
    pub findings: Vec<Finding>,
    /// Sentences for the result's `warnings`.
    pub warnings: Vec<String>,
}

/// Has an output judged: rewritten in order first, then side by side by all that do not rewrite.
pub fn judge_output(
    checks: &[Asked<'_>],
    subject: &Subject<'_>,
    output: &Output<'_>,
    facts: &Facts,
    stop: Stop<'_>,
) -> OutputJudgement {
    let mut tally = Tally::default();
    let (rewriting, plain): (Vec<&Asked<'_>>, Vec<_>) = checks.iter().partition(|a| a.check.rewrites);
    let mut now: [Option<String>; 2] = [None, None];
    for asked in rewriting {
        if tally.over() {
            break;
        }
        let seen = as_rewritten(output, &now);
        let heard = tally.hear(&[asked], |check| document::output(subject, check, &seen), facts, stop);
        let Some(wanted) = heard.into_iter().next().flatten() else { continue };
        let new = replacement(wanted).map(|new| changed(new, &seen));
        match new {
            Ok([None, None]) => {}
            Ok(new) => {
                tally.rewrote(asked.check, "output");
                for (now, new) in now.iter_mut().zip(new) {
                    *now = new.or(now.take());
                }
            }
            Err(why) => tally.failed(asked.check, &why, &[]),
        }
    }
    if !tally.over() {
        let seen = as_rewritten(output, &now);
        tally.hear(&plain, |check| document::output(subject, check, &seen), facts, stop);
    }
    let ruling = tally.ruling();
    let [stdout, stderr] = now;
    OutputJudgement { ruling, stdout, stderr, findings: tally.findings, warnings: tally.warnings }
}

fn as_rewritten<'o>(output: &Output<'o>, now: &'o [Option<String>; 2]) -> Output<'o> {
    let [stdout, stderr] = now;
    Output {
        stdout: stdout.as_ref().map_or(output.stdout, |text| text.as_bytes()),
        stderr: stderr.as_ref().map_or(output.stderr, |text| text.as_bytes()),
        ..*output
    }
}

/// Without what is there already.
fn changed([stdout, stderr]: [Option<String>; 2], seen: &Output<'_>) -> [Option<String>; 2] {
    [
        stdout.filter(|text| text.as_bytes() != seen.stdout),
        stderr.filter(|text| text.as_bytes() != seen.stderr),
    ]
}

/// A text stands for standard output; an object names one stream or both. What is not named stays.
fn replacement(wanted: Value) -> Result<[Option<String>; 2], String> {
    match wanted {
        Value::String(text) => Ok([Some(text), None]),
        Value::Object(fields) => match texts(fields, ["stdout", "stderr"])? {
            [None, None] => Err("its replacement has neither stdout nor stderr".to_owned()),
            both => Ok(both),
        },
        _ => Err("its replacement is neither a text nor an object".to_owned()),
    }
}
