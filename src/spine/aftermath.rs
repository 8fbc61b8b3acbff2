//! What a call leaves behind when it is over: a session that is halted, denials that add up, alerts.

use super::authority::{Authority, Authorized};
use crate::policy::model::HaltOn;
use crate::report::audit::AuditError;
use crate::report::result::ResultDoc;
use crate::report::status::Status;
use crate::report::trail::{self, Trail};
use crate::request::quote;
use crate::state::alerts::{self, Alarm, Event};
use crate::state::sessions::{self, Halt};
use crate::state::{StateError, Store};

/// What came of a call, as far as sessions and alerts look at it.
#[derive(Debug, Default)]
pub(super) struct Left {
    halts: Vec<HaltOn>,
    events: Vec<Event>,
    denied: bool,
}

impl Left {
    /// Reads it off the result.
    pub(super) fn by(doc: &ResultDoc) -> Left {
        let mut left = Left::refused(doc);
        let check = doc.checks.iter().any(|check| check.failed || check.verdict == "block");
        match doc.status {
            Status::Timeout => {
                left.halts.push(HaltOn::Timeout);
                left.events.push(Event::Timeout);
            }
            Status::Error => {
                left.halts.push(HaltOn::Error);
                // Its output was lost afterwards, which is no way around how it ended.
                if doc.exit_code.is_some_and(|code| code != 0) || doc.signal.is_some() {
                    left.halts.push(HaltOn::Exit);
                }
            }
            Status::NonzeroExit | Status::Signaled | Status::LimitExceeded => left.halts.push(HaltOn::Exit),
            _ => {}
        }
        if check {
            left.halts.push(HaltOn::Check);
            left.events.push(Event::Check);
        }
        if doc.planted {
            left.halts.push(HaltOn::Workspace);
        }
        if !doc.violations.is_empty() || (doc.status == Status::Error && doc.stage == Some("sandbox")) {
            left.halts.push(HaltOn::Sandbox);
        }
        left
    }

    /// Reads off the result whether the call was refused, and nothing else.
    pub(super) fn refused(doc: &ResultDoc) -> Left {
        let mut left = Left::default();
        // What the operator stopped, or halted already, says nothing more about the asker.
        let stopped = doc.stage == Some("kill_switch") || doc.stage == Some("session");
        if doc.status == Status::Denied && !stopped {
            left.denied();
        }
        left
    }

    /// The same where the output was refused besides.
    pub(super) fn denied(&mut self) {
        if !std::mem::replace(&mut self.denied, true) {
            self.events.push(Event::Denial);
        }
    }
}

/// Keeps what a call leaves behind, and records a session that it halted. What was done and cannot be kept is an error
/// that still carries the outcome; what was refused stays refused.
///
/// # Errors
/// The record could not be written.
pub(super) fn remember(
    authority: &Authority<'_>,
    by: &Authorized,
    left: &Left,
    trail: &mut Trail,
    doc: &mut ResultDoc,
) -> Result<(), AuditError> {
    match authority.remember(left, by, &mut doc.warnings) {
        Ok(None) => Ok(()),
        Ok(Some(halt)) => {
            let id = by.asker.session.as_deref().unwrap_or_default();
            let shown = quote::repr(id.as_bytes());
            doc.warnings.push(format!("session {shown} is halted now: {}", halt.reason));
            trail.session(doc, id, "halted", None, Some(halt.reason))
        }
        Err(error) => {
            let message = format!("what this call leaves behind could not be kept: {error}");
            match doc.status {
                Status::Denied => doc.warnings.push(message),
                _ => trail::unkept(doc, "state", &message, &error.hint()),
            }
            Ok(())
        }
    }
}

impl Authority<'_> {
    /// Keeps what has to be kept, and runs the programs of alerts whose figure was passed. Opens no store where no policy
    /// cares.
    ///
    /// # Errors
    /// It could not be kept.
    fn remember(
        &self,
        left: &Left,
        by: &Authorized,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Halt>, StateError> {
        let session = by.asker.session.as_deref();
        let counted = left.denied && sessions::is_halted_on(self.policies, HaltOn::Denied(0));
        let halts: Vec<HaltOn> =
            left.halts.iter().copied().filter(|on| sessions::is_halted_on(self.policies, *on)).collect();
        let events: Vec<Event> =
            left.events.iter().copied().filter(|event| alerts::counts(self.policies, *event)).collect();
        let for_session = session.filter(|_| counted || !halts.is_empty());
        if for_session.is_none() && events.is_empty() && by.begun.is_none() {
            return Ok(by.halted.clone());
        }
        let mut store = Store::open(self.store)?;
        let run = Some(self.run_id);
        let (halt, alarms) = store.transaction(|tx, now| {
            let mut halt = by.halted.clone();
            if let Some(begun) = &by.begun {
                sessions::conclude(tx, begun)?;
            }
            if let Some(id) = for_session {
                for on in &halts {
                    let one = sessions::halt_on(tx, now, self.policies, id, *on, run)?;
                    halt = halt.or(one);
                }
                if counted {
                    halt = halt.or(sessions::count_denial(tx, now, self.policies, id, run)?);
                }
            }
            let mut alarms: Vec<Alarm<'_>> = Vec::new();
            for event in &events {
                alarms.extend(alerts::note(tx, now, self.policies, *event)?);
            }
            Ok((halt, alarms))
        })?;
        drop(store);
        // The call is over: a signal that comes now ends it no sooner.
        warnings.extend(self.tell(&alarms).warnings);
        Ok(halt)
    }
}
