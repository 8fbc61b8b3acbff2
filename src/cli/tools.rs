//! `tools`: what the policy offers to agent frameworks.

use serde_json::Value;

use super::args::ToolsArgs;
use super::deliver::{put, say, say_policy};
use super::verbs::print_json;
use crate::Surroundings;
use crate::decision;
use crate::policy::stack::{Search, Stack};
use crate::report::offer;
use crate::request::quote::escape_text;

/// Exit status of a call that cannot be answered.
const UNUSABLE: u8 = 125;

/// `tools`: the tools that this asker may call, in every stacked policy.
pub fn tools(args: &ToolsArgs, around: &Surroundings) -> u8 {
    let agent = match decision::asker_of(args.agent.as_deref(), &around.facts) {
        Ok(agent) => agent,
        Err(message) => {
            say(&format!("guardexec: error: {message}"));
            return UNUSABLE;
        }
    };
    let search = Search { given: args.policy.policies.clone(), ..around.search.clone() };
    let policies = match Stack::load(&search, &around.load) {
        Ok(stack) => stack.policies,
        Err(error) => {
            say_policy(&error);
            return UNUSABLE;
        }
    };
    let offered = decision::offered(&policies, agent.as_deref());
    if args.json {
        print_json(&offered.iter().map(offer::to_json).collect::<Value>());
    } else if offered.is_empty() {
        put(b"no tools\n");
    } else {
        let lines: Vec<String> =
            offered.iter().map(|o| escape_text(&offer::to_line(o)).replace('\n', "\\n")).collect();
        put(format!("{}\n", lines.join("\n")).as_bytes());
    }
    0
}
