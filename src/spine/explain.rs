//! `explain`: the decision, stage by stage, for exactly the inputs of a run. Runs nothing, writes nothing.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::authority::{Authority, Authorized};
use super::conclude::{Settled, When, settled};
use super::{Call, Surroundings, confine, tool, unconfined};
use crate::decision::{Stage, Step};
use crate::policy::error::PolicyError;
use crate::policy::stack::{Search, Stack};
use crate::report::compose::rule_doc;
use crate::report::result::ResultDoc;
use crate::report::run_id;
use crate::report::status::Status;
use crate::report::tool::ToolDoc;
use crate::request::quote::escape_text;
use crate::switch::Switch;

/// What `explain` found.
#[derive(Debug)]
pub struct Explained {
    /// What each stage came to, in order.
    pub steps: Vec<Step>,
    /// The result that a run would begin with.
    pub doc: ResultDoc,
    /// An excerpt of an unusable policy.
    pub excerpt: Option<String>,
    /// 0 allow, 75 ask, 126 deny, 127 not found, 125 unusable.
    pub exit_status: u8,
}

/// Judges a request as a run would.
#[must_use]
pub fn explain(call: Call, around: &Surroundings) -> Explained {
    let now = SystemTime::now();
    let mut doc = ResultDoc::new(run_id::new(now), now);
    doc.asked_by(&call.request.asker);
    doc.tool = ToolDoc::of_request(&call.request);
    let mut steps = Vec::new();
    let mut excerpt = None;
    let allowed = match stages(call, around, &mut doc, &mut steps) {
        Ok(allowed) => allowed,
        Err(error) => {
            doc.stage = Some(Stage::Policy.as_str());
            doc.failed("policy", &error.one_line(), None);
            excerpt = Some(error.to_string());
            false
        }
    };
    let exit_status = if allowed { 0 } else { doc.exit_status };
    Explained { steps, doc, excerpt, exit_status }
}

fn stages(
    call: Call,
    around: &Surroundings,
    doc: &mut ResultDoc,
    steps: &mut Vec<Step>,
) -> Result<bool, PolicyError> {
    let search = Search { given: call.policies, ..around.search.clone() };
    let policies = Stack::load(&search, &around.load)?.policies;
    doc.judged_by(&policies);
    let switches = Switch::all(&policies);
    let run_id = doc.run_id.clone();
    let store = crate::state::place::resolve(&policies, &around.caller(call.state))?;
    let authority = Authority {
        policies: &policies,
        switches: &switches,
        facts: &around.facts,
        run_id: &run_id,
        store: &store,
        wait: None,
        dry: true,
    };
    let mut by = Authorized::default();
    let came = authority.authorize(call.request, &mut by, steps)?;
    let grant = match settled(came, &mut by, When::Before, doc) {
        Settled::Runs(grant) => grant,
        // Nothing would run.
        Settled::Gives(_) => return Ok(true),
        Settled::Waits | Settled::Ended => return Ok(false),
    };
    if grant.program.is_none() {
        return Ok(tool::foresee(*grant, &authority, doc, steps));
    }
    match confine(*grant, &authority).and_then(|confinement| confinement.foresee()) {
        Ok(enforced) => {
            let on: Vec<String> =
                enforced.on.iter().map(|(l, how)| format!("{}: {how}", l.as_str())).collect();
            steps.push(Step { stage: "sandbox", outcome: "ready".into(), detail: on.join("; "), rule: None });
            Ok(true)
        }
        Err(error) => {
            let detail = error.to_string();
            steps.push(Step { stage: "sandbox", outcome: "error".into(), detail, rule: None });
            unconfined(doc, &error);
            Ok(false)
        }
    }
}

impl Explained {
    /// The word for what a run would come to.
    fn outcome(&self) -> &'static str {
        match (self.exit_status, self.doc.status) {
            (0, _) => "allow",
            (_, Status::NeedsApproval) => "ask",
            (_, status) => status.as_str(),
        }
    }

    /// One JSON object.
    pub fn to_json(&self) -> Value {
        let stages: Vec<Value> = self
            .steps
            .iter()
            .map(|step| {
                json!({
                    "stage": step.stage,
                    "outcome": step.outcome,
                    "detail": step.detail,
                    "rule": step.rule.as_ref().map(rule_doc),
                })
            })
            .collect();
        let decision = if self.exit_status == 0 { Some("allow") } else { self.doc.decision };
        json!({
            "decision": decision,
            "outcome": self.outcome(),
            "stages": stages,
            "stage": self.doc.stage,
            "rule": self.doc.rule,
            "reason": self.doc.reason,
            "text": if self.exit_status == 0 { Value::Null } else { self.doc.text.clone().into() },
            "argv": self.doc.argv,
            "tool": self.doc.tool,
            "program": self.doc.program,
            "cwd": self.doc.cwd,
            "policy": self.doc.policy,
            "warnings": self.doc.warnings,
            "exit_status": self.exit_status,
        })
    }

    /// Lines for a person.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for policy in &self.doc.policy {
            text.push_str(&format!("policy     {} (sha256 {})\n", policy.path, &policy.sha256));
        }
        for step in &self.steps {
            let rule = step.rule.as_ref().map(|r| format!(" [{} at {}]", r.id, r.at)).unwrap_or_default();
            text.push_str(&format!("{:<10} {}: {}{rule}\n", step.stage, step.outcome, step.detail));
        }
        text.push_str(&format!("outcome    {} (exit status {})\n", self.outcome(), self.exit_status));
        if self.exit_status != 0 {
            text.push_str(&self.doc.text);
            text.push('\n');
        }
        for warning in &self.doc.warnings {
            text.push_str(&format!("warning: {warning}\n"));
        }
        escape_text(&text)
    }
}
