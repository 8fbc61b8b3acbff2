//! A store of version 1 is brought up by whoever opens it first, whole or not at all.

use rusqlite::Connection;

use super::*;
use crate::state::approvals::State;

/// The tables that version 1 had and this one has not, with something in them.
const FIRST: &str = "
    DROP TABLE session_runs; DROP TABLE approvals_private; DROP TABLE approvals; DROP INDEX sessions_idle;
    DROP TABLE session_events; DROP TABLE sessions;
    CREATE TABLE sessions (
            id TEXT PRIMARY KEY,
            first TEXT NOT NULL,
            last TEXT NOT NULL,
            since INTEGER NOT NULL,
            since_wall TEXT NOT NULL,
            runs INTEGER NOT NULL DEFAULT 0,
            denials INTEGER NOT NULL DEFAULT 0,
            all_runs INTEGER NOT NULL DEFAULT 0,
            all_denials INTEGER NOT NULL DEFAULT 0,
            halted TEXT,
            halted_wall TEXT,
            halted_run TEXT
        ) STRICT, WITHOUT ROWID;
    CREATE TABLE session_events (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session TEXT NOT NULL REFERENCES sessions (id),
            event TEXT NOT NULL,
            nanos INTEGER NOT NULL,
            wall TEXT NOT NULL,
            by TEXT,
            reason TEXT,
            run TEXT
        ) STRICT;
    CREATE INDEX session_events_by_session ON session_events (session, id);
    CREATE TABLE approval (
            id TEXT PRIMARY KEY,
            state TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'declined', 'consumed', 'expired')),
            digest TEXT NOT NULL,
            asked_digest TEXT NOT NULL,
            bound TEXT NOT NULL,
            asked_argv TEXT,
            private TEXT,
            bucket TEXT NOT NULL,
            cause TEXT NOT NULL,
            filed_at TEXT NOT NULL,
            filed_by TEXT NOT NULL,
            expires INTEGER NOT NULL,
            expires_at TEXT NOT NULL,
            escalate INTEGER,
            escalated_at TEXT,
            verdict TEXT CHECK (verdict IN ('approve', 'decline')),
            answered INTEGER,
            answered_at TEXT,
            answered_by TEXT,
            said TEXT,
            used_at TEXT,
            run_id TEXT
        ) STRICT;
    CREATE INDEX approval_open ON approval (state, bucket);
    CREATE INDEX approval_lately ON approval (cause, answered);
    INSERT INTO sessions VALUES ('s', 'f', 'l', 1, 'w', 2, 3, 4, 5, 'a run timed out', 'h', 'r');
    INSERT INTO session_events (session, event, nanos, wall) VALUES ('s', 'halted', 1, 'w');
    INSERT INTO approval VALUES ('second', 'consumed', 'd', 'a', '{}', NULL, NULL, 'lead', 'rule', 'f', '{}', 9, 'e', NULL, NULL,
        'approve', 5, 'at', '{\"uid\":1}', 'fine', 'u', 'r');
    INSERT INTO approval VALUES ('first', 'pending', 'd', 'a', '{}', NULL, 'kept-of-the-first', 'lead', 'rule', 'f', '{}',
        9000000000000000000, 'e', 7, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    PRAGMA user_version = 1;
";

/// A store as version 1 left it.
fn first() -> Dir {
    let dir = Dir::new();
    Store::open(&dir.0).unwrap().transaction(|_, _| Ok(())).unwrap();
    let db = Connection::open(dir.file("state.db")).unwrap();
    db.execute_batch("PRAGMA auto_vacuum = NONE; PRAGMA foreign_keys = OFF").unwrap();
    db.execute_batch(FIRST).unwrap();
    db.execute_batch("VACUUM").unwrap();
    dir
}

#[test]
fn everything_in_it_is_there_afterwards_also_for_whoever_only_looks() {
    for looking in [false, true] {
        let dir = first();
        if !looking {
            drop(Store::open(&dir.0).unwrap());
        }
        let mut view = Store::look(&dir.0).unwrap().expect("used");
        view.read(|db, now| {
            let session = sessions::find(db, "s")?.expect("kept");
            assert_eq!((session.runs, session.all_denials, session.halted.is_some()), (2, 5, true));
            assert_eq!(sessions::history(db, "s")?.len(), 1);
            let all = approvals::page(db, now, true, 0)?;
            assert_eq!(all.iter().map(|(_, row)| row.id.as_str()).collect::<Vec<_>>(), ["second", "first"]);
            let answer = all[0].1.answer.as_ref().expect("answered");
            assert_eq!(
                (all[0].1.state, answer.by_person, answer.said.as_deref()),
                (State::Consumed, true, Some("fine"))
            );
            let open = approvals::find(db, now, "first")?.expect("kept");
            assert_eq!((open.state, open.private.as_deref()), (State::Pending, Some("kept-of-the-first")));
            assert_eq!((open.escalate, open.expires), (Some(7), 9_000_000_000_000_000_000));
            let vacuum: i64 = db.pragma_query_value(None, "auto_vacuum", |row| row.get(0))?;
            assert_eq!(vacuum, 2, "its free space can be given back");
            Ok(())
        })
        .unwrap();
        drop(view);
        Store::open(&dir.0).unwrap().transaction(|_, _| Ok(())).unwrap();
        assert_eq!(boots(&dir.0), 1);
    }
}

#[test]
fn one_that_is_not_what_it_says_is_left_as_it_is() {
    for (sql, wanted) in [
        (
            "ALTER TABLE sessions DROP COLUMN halted_run",
            "is not this directory's: its tables are not those of version 2",
        ),
        ("CREATE TABLE more (x)", "is not this directory's: its tables are not those of version 2"),
        ("DROP INDEX approval_lately; DROP TABLE approval", "cannot be used"),
        ("DELETE FROM store", "is damaged: it has no id"),
        ("UPDATE store SET id = 'another'", "it was made for another directory"),
    ] {
        let dir = first();
        Connection::open(dir.file("state.db")).unwrap().execute_batch(sql).unwrap();
        let before = fs::read(dir.file("state.db")).unwrap();
        for error in [Store::look(&dir.0).expect_err(sql), Store::open(&dir.0).expect_err(sql)] {
            assert!(error.to_string().contains(wanted), "{sql}: {error}");
        }
        assert!(fs::read(dir.file("state.db")).unwrap() == before, "{sql}");
    }
}
