//! Tests: how an ending becomes a result.

use std::time::{Duration, SystemTime};

use crate::policy::model::{Bound, Limits, Profile};
use crate::report::result::ResultDoc;
use crate::report::status::Status;
use crate::run::{Captured, Ended, How, LimitKind};
use crate::sandbox::Enforced;
use crate::sandbox::rlimit::LimitsHow;

/// A run whose keeper was killed after the command had written something.
fn unknown(limit: Option<LimitKind>) -> ResultDoc {
    ended(limit, false)
}

fn ended(limit: Option<LimitKind>, unreaped: bool) -> ResultDoc {
    let limits = Limits::default().effective();
    let mut stdout = Captured::new(Bound::At(100));
    stdout.push(b"before\n");
    let ended = Ended {
        how: How::Unknown,
        limit,
        duration: Duration::from_millis(3),
        cpu_user: Duration::ZERO,
        cpu_system: Duration::ZERO,
        max_rss: None,
        processes: None,
        stdout,
        stderr: Captured::new(Bound::At(100)),
        planted: false,
        unpassed: None,
        sockets_refused: Vec::new(),
        survivors: 0,
        enforced: Enforced::nothing(Profile::Host),
        limits_how: LimitsHow::of(&limits, true),
        unreaped,
        warnings: Vec::new(),
        leaving: None,
    };
    let mut doc = ResultDoc::new("RUN".into(), SystemTime::UNIX_EPOCH);
    doc.ran(&ended, &limits);
    doc
}

#[test]
fn a_killed_keeper_is_an_error_that_says_so() {
    let doc = unknown(None);
    assert_eq!((doc.status, doc.exit_status, doc.exit_code), (Status::Error, 125, None));
    let error = doc.error.expect("an error has its object");
    assert_eq!(error.kind, "run");
    assert!(error.message.contains("the process that held the run was killed"), "{}", error.message);
    assert_eq!(doc.reason.as_deref(), Some(error.message.as_str()));
    assert!(doc.text.starts_with("error: the process that held"), "{}", doc.text);
    assert_eq!((doc.stdout.as_deref(), doc.stdout_bytes), (Some("before\n"), Some(7)), "what came is kept");
}

#[test]
fn of_what_has_not_gone_yet_no_number_is_told() {
    let doc = ended(Some(LimitKind::WallTime), true);
    assert_eq!((doc.survivors, unknown(None).survivors), (None, Some(0)));
    assert!(doc.warnings[0].contains("could not be reaped yet"), "{:?}", doc.warnings);
}

#[test]
fn a_keeper_that_was_killed_for_a_limit_is_no_error() {
    let doc = unknown(Some(LimitKind::WallTime));
    assert_eq!((doc.status, doc.exit_status, doc.limit), (Status::Timeout, 124, Some("wall_time")));
    assert!(doc.error.is_none());
}
