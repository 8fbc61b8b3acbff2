//! `approvals approve` and `approvals decline`.

use std::ffi::OsString;
use std::time::SystemTime;

use super::{Office, Trouble, print};
use crate::Surroundings;
use crate::approval::bound::{Asking, Bound, Cause};
use crate::approval::entry::{Entry, State};
use crate::approval::kept::Kept;
use crate::approval::queue::{self, Verdict};
use crate::approval::screen::Paper;
use crate::cli::args::{ApproveArgs, DeclineArgs, IdArgs};
use crate::cli::deliver::put;
use crate::decision::{Decision, Denial, Stage};
use crate::policy::load::load;
use crate::report::audit::record::ApprovalRecord;
use crate::report::run_id;
use crate::report::trail::Trail;
use crate::request::quote::escape_text;
use crate::spine::edit;
use crate::state::Store;
use crate::sys::account::Person;

/// The longest note or reason, in bytes: it is told to the asker and stands in every list.
const MOST_SAID: usize = 4 << 10;

/// `approvals approve`.
pub(super) fn approve(args: &ApproveArgs, around: &Surroundings) -> Result<(), Trouble> {
    let office = not_the_asker(&args.which, around)?;
    let said = short(args.note.as_deref(), "--note")?;
    let entry = office.entry(&args.which.id, |_, _, entry| Ok(entry))?;
    let edit = match (&entry.kept, entry.state) {
        (Some(_), State::Pending) if args.argv.is_empty() => {
            still_so(&entry)?;
            None
        }
        (Some(kept), State::Pending) => Some((edited(&entry, kept, args.argv.clone())?, kept.clone())),
        // Whoever answers below says what was answered.
        _ => None,
    };
    answer(&office, &args.which, true, said, edit)
}

/// `approvals decline`.
pub(super) fn decline(args: &DeclineArgs, around: &Surroundings) -> Result<(), Trouble> {
    let office = not_the_asker(&args.which, around)?;
    let said = short(args.reason.as_deref(), "--reason")?;
    answer(&office, &args.which, false, said, None)
}

fn not_the_asker<'a>(args: &IdArgs, around: &'a Surroundings) -> Result<Office<'a>, Trouble> {
    // Before anything is looked at: an agent learns nothing here.
    if around.facts.agent.is_some() {
        return Err(Trouble::Agent);
    }
    Office::find(&args.policy, around)
}

fn short<'a>(said: Option<&'a str>, option: &str) -> Result<Option<&'a str>, Trouble> {
    match said {
        Some(text) if text.len() > MOST_SAID => {
            Err(Trouble::Unusable(format!("{option} is longer than {MOST_SAID} bytes"), None))
        }
        said => Ok(said),
    }
}

fn refused(code: &'static str, message: impl Into<String>, hint: &str) -> Trouble {
    let (message, hint) = (message.into(), Some(hint.to_owned()));
    Trouble::Refused(Box::new(Denial { code, stage: Stage::Approval, message, hint, rule: None }))
}

/// What was shown has to be what is there: else the answer would be to something else.
fn still_so(entry: &Entry) -> Result<(), Trouble> {
    entry.is_whole()?;
    let now = entry.bound.now()?;
    match entry.bound.difference(&now) {
        None => Ok(()),
        Some(difference) => Err(refused(
            "approval_stale",
            format!("approval {} cannot be given: {} since it was asked for", entry.id, difference.what),
            "decline it; the asker can ask again for what is there now",
        )),
    }
}

/// What the edited words come to, judged by the policies that judged what was asked.
fn edited(entry: &Entry, kept: &Kept, argv: Vec<OsString>) -> Result<Bound, Trouble> {
    if entry.bound.output.is_some() {
        let message = "an output cannot be edited: it is handed out as it is, or not at all";
        return Err(refused("approval_edit", message, "approve it without --argv, or decline it"));
    }
    if entry.bound.tool.is_some() {
        let message = "the words of a tool's call are made by the policy, and cannot be edited";
        return Err(refused(
            "approval_edit",
            message,
            "decline it, and say with which arguments it may be asked again",
        ));
    }
    let (paths, context) = kept.policies();
    let policies = paths.iter().map(|path| load(path, &context)).collect::<Result<Vec<_>, _>>()?;
    let mut request = entry.filed(kept);
    request.ask = crate::request::Ask::default();
    let (asker, evidence) = (request.asker.clone(), request.evidence.clone());
    let grant = match edit::judge(&policies, argv, request, &kept.facts(&entry.bound))? {
        Decision::Allow(grant) | Decision::Ask(grant) => grant,
        Decision::Deny(d) | Decision::NotFound(d) | Decision::NotExecutable(d) | Decision::Invalid(d) => {
            let hint =
                d.hint.clone().unwrap_or_else(|| "approve words that the policy allows or asks for".into());
            return Err(refused(
                "approval_edit",
                format!("the edited words are refused: {}", d.message),
                &hint,
            ));
        }
    };
    let cause = Cause::of_grant(&grant);
    let mut bound = Bound::of(
        &grant,
        Asking { asker: &asker, evidence: evidence.as_ref(), causes: vec![cause], policies: &policies },
    )?;
    if bound.policies != entry.bound.policies {
        let message = "the policy changed since it was asked for";
        return Err(refused("approval_stale", message, "decline it; the asker can ask again"));
    }
    // Too large an input is not kept; what was asked for says what it has to be.
    bound.stdin.clone_from(&entry.bound.stdin);
    let others: Vec<Cause> = entry
        .bound
        .causes
        .iter()
        .filter(|cause| !bound.causes.iter().any(|own| own.is(cause)))
        .cloned()
        .collect();
    bound.causes.extend(others);
    Ok(bound)
}

/// Records the answer and gives it, both or neither.
fn answer(
    office: &Office<'_>,
    args: &IdArgs,
    approved: bool,
    said: Option<&str>,
    edit: Option<(Bound, Kept)>,
) -> Result<(), Trouble> {
    let audit = |error: crate::report::audit::AuditError| {
        Trouble::Unusable(format!("{error}; nothing was answered"), Some(error.hint()))
    };
    let mut trail = Trail::open(&office.policies).map_err(audit)?;
    if office.look()?.is_none() {
        return Err(queue::unknown(&args.id).into());
    }
    let by = Person::here();
    let verdict = Verdict { approved, by: &by, said, edit };
    let run_id = run_id::new(SystemTime::now());
    let answered = Store::open(&office.dir)?.attempt(|tx, now| {
        let entry = match queue::answer(tx, now, &args.id, verdict)? {
            Ok(entry) => entry,
            Err(denial) => return Ok(Err(Trouble::from(denial))),
        };
        let recorded = trail.answered(&run_id, &record(&entry)).map_err(audit);
        let lately = queue::lately(tx, now, &entry)?;
        Ok(recorded.map(|()| (entry, lately)))
    })?;
    let (entry, lately) = answered?;
    if args.json {
        print(&Paper::of(&entry, &lately).document());
    } else {
        put(escape_text(&told(&entry)).as_bytes());
    }
    Ok(())
}

fn record(entry: &Entry) -> ApprovalRecord {
    let answered = entry.answered.as_ref();
    ApprovalRecord {
        id: entry.id.clone(),
        state: entry.state.as_str().to_owned(),
        by: answered.map(|answered| crate::approval::screen::person(&answered.by)),
        reason: answered.and_then(|answered| answered.text.clone()),
        expires_at: Some(entry.expires_at.clone()),
    }
}

/// What was answered to what.
fn told(entry: &Entry) -> String {
    let (id, name) = (&entry.id, entry.bound.subject());
    match entry.state {
        State::Approved if entry.bound.output.is_some() => {
            format!("approved {id}, {name}: it can be had once, until {}\n", entry.expires_at)
        }
        State::Approved => {
            format!("approved {id}, {name}: it can be used once, until {}\n", entry.expires_at)
        }
        state => format!("{} {id}, {name}\n", state.as_str()),
    }
}
