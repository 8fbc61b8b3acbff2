//! The tools that an asker may call: in every policy, and denied in none.

use crate::decision::asker::granted;
use crate::policy::model::{Policy, Tool, Verdict};

/// One tool, as each policy has it.
#[derive(Debug)]
pub struct Offered<'p> {
    /// Its definitions, one of each policy, in their order; never empty.
    pub definitions: Vec<&'p Tool>,
}

impl<'p> Offered<'p> {
    /// Its name.
    pub fn name(&self) -> &'p str {
        self.definitions.first().map_or("", |tool| tool.name.as_str())
    }

    /// What it does: as the first policy says it.
    pub fn description(&self) -> &'p str {
        self.definitions.first().map_or("", |tool| tool.description.as_str())
    }

    /// The strictest decision.
    pub fn decision(&self) -> Verdict {
        self.definitions.iter().map(|tool| tool.decision).max().unwrap_or(Verdict::Deny)
    }
}

/// All tools that `agent` may call, by name.
pub fn offered<'p>(policies: &'p [Policy], agent: Option<&str>) -> Vec<Offered<'p>> {
    let usable = |tool: &&Tool| tool.decision != Verdict::Deny && granted(tool.agents.as_deref(), agent);
    let Some((first, rest)) = policies.split_first() else { return Vec::new() };
    let everywhere = |tool: &'p Tool| {
        let others = rest.iter().map(|policy| policy.tools.get(&tool.name).filter(usable));
        let definitions =
            std::iter::once(Some(tool).filter(usable)).chain(others).collect::<Option<Vec<_>>>()?;
        Some(Offered { definitions })
    };
    first.tools.values().filter_map(everywhere).collect()
}
