//! `rates`: where the policy's counters stand.

use serde_json::Value;

use super::args::RatesArgs;
use super::deliver::put;
use super::store::{self, Kept, unusable};
use super::verbs::print_json;
use crate::Surroundings;
use crate::state::StateError;
use crate::state::rates::{Held, held};

/// `rates`: 0, or 125 where the policies or the store cannot be used.
pub fn rates(args: &RatesArgs, around: &Surroundings) -> u8 {
    let shown = store::find(&args.policy, around, true).and_then(|kept| show(&kept, args.json));
    shown.err().unwrap_or(0)
}

fn show(kept: &Kept, json: bool) -> Result<(), u8> {
    let all = match kept.look()? {
        Some(mut view) => view.read(|db, now| told(held(Some((db, now)), &kept.policies), json)),
        None => told(held(None, &kept.policies), json),
    };
    let all = all.map_err(|error| unusable(&error))?;
    if json {
        print_json(&Value::Array(all));
        return Ok(());
    }
    for line in &all {
        put(format!("{}\n", line.as_str().unwrap_or_default()).as_bytes());
    }
    if all.is_empty() {
        put(b"no rates\n");
    }
    Ok(())
}

/// Objects for programs, lines for people.
fn told(held: Result<Vec<Held<'_>>, StateError>, json: bool) -> Result<Vec<Value>, StateError> {
    let one = |held: &Held<'_>| if json { held.to_json() } else { Value::from(held.to_line()) };
    Ok(held?.iter().map(one).collect())
}
