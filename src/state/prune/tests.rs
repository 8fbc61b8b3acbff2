//! What is forgotten, when, how much at once, and what never is.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use rusqlite::params;

use super::*;
use crate::policy::model::Policy;
use crate::state::Store;
use crate::state::approvals::{Answer, Row, State};
use crate::state::clock::Reading;
use crate::state::keeping::ROWS;
use crate::state::tests::{Dir, policy, policy_named};

const DAY: i64 = 86_400;

struct Bench {
    dir: Dir,
    store: Store,
    now: Rc<Cell<i64>>,
}

impl Bench {
    fn new() -> Bench {
        let dir = Dir::new();
        let now = Rc::new(Cell::new(0));
        let clock = Rc::clone(&now);
        let reading = move || Reading { boot: "b".into(), since_boot: clock.get(), wall: UNIX_EPOCH };
        let store = Store::open(&dir.0).unwrap().with_clock(reading);
        Bench { dir, store, now }
    }

    /// A transaction at this second.
    fn at<T>(
        &mut self,
        second: i64,
        body: impl FnOnce(&Transaction<'_>, &Moment) -> Result<T, StateError>,
    ) -> T {
        self.now.set(second * 1_000_000_000);
        self.store.transaction(body).unwrap()
    }

    /// A transaction that wants nothing.
    fn pass(&mut self, second: i64) {
        self.at(second, |_, _| Ok(()));
    }

    fn file(&mut self, second: i64, id: &str, private: &str) {
        self.at(second, |tx, now| approvals::insert(tx, now, &row(now, id, private)));
    }

    fn answer(&mut self, second: i64, id: &str, approved: bool) {
        let answer = Answer { approved, at: "t".into(), by: "{}".into(), by_person: true, said: None };
        assert!(self.at(second, |tx, now| approvals::answer(tx, now, id, &answer, None)));
    }

    /// The requests that are kept, in their order.
    fn kept(&mut self) -> Vec<String> {
        self.texts("SELECT id FROM approvals ORDER BY number")
    }

    fn texts(&mut self, sql: &str) -> Vec<String> {
        let mut view = Store::look(&self.dir.0).unwrap().unwrap();
        let read = |db: &rusqlite::Connection, _: &Moment| {
            Ok(db.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
        };
        view.read(read).unwrap()
    }

    fn number(&mut self, sql: &str) -> i64 {
        let mut view = Store::look(&self.dir.0).unwrap().unwrap();
        view.read(|db, _| Ok(db.query_row(sql, [], |row| row.get(0))?)).unwrap()
    }

    fn holds(&self, text: &str) -> bool {
        let bytes = fs::read(self.dir.file("state.db")).unwrap();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    }

    fn length(&self) -> u64 {
        fs::metadata(self.dir.file("state.db")).unwrap().len()
    }
}

/// A request that waits for ten minutes.
fn row(now: &Moment, id: &str, private: &str) -> Row {
    Row {
        id: id.into(),
        state: State::Pending,
        digest: String::new(),
        asked_digest: String::new(),
        bound: "{}".into(),
        asked_argv: None,
        private: Some(private.into()),
        bucket: String::new(),
        proven: false,
        cause: "rule".into(),
        filed_at: "t".into(),
        filed_by: "{}".into(),
        expires: now.plus(Duration::from_secs(600)),
        expires_at: "t".into(),
        escalate: None,
        escalated_at: None,
        answer: None,
        used_at: None,
        run_id: None,
    }
}

#[test]
fn what_was_settled_goes_after_ninety_days_and_what_is_open_does_not() {
    let mut b = Bench::new();
    for id in ["used", "declined", "expired", "later"] {
        b.file(0, id, "secret-of-one");
    }
    b.answer(1, "used", true);
    assert!(b.at(2, |tx, now| approvals::consume(tx, now, "used", "run")));
    b.answer(3, "declined", false);
    b.answer(10, "later", true);
    assert!(b.holds("secret-of-one"), "two of them are open");
    b.pass(600);
    assert!(!b.holds("secret-of-one"), "the next call overwrites what has expired");
    let all = ["used", "declined", "expired", "later"];
    b.pass(2 + 90 * DAY - 1);
    assert_eq!(b.kept(), all);
    // An open one is older than all of them by then.
    b.at(2 + 90 * DAY - 1, |tx, now| {
        approvals::insert(tx, now, &Row { expires: i64::MAX, ..row(now, "open", "secret") })
    });
    b.pass(2 + 90 * DAY);
    assert_eq!(b.kept(), ["declined", "expired", "later", "open"]);
    b.pass(3 + 90 * DAY);
    assert_eq!(b.kept(), ["expired", "later", "open"]);
    b.pass(600 + 90 * DAY);
    assert_eq!(b.kept(), ["open"]);
    b.pass(1000 * DAY);
    assert_eq!(b.kept(), ["open"]);
    assert_eq!(b.number("SELECT count(*) FROM approvals_private"), 1);
}

#[test]
fn what_no_person_answered_makes_room_for_others_and_answers_of_people_stay() {
    let mut b = Bench::new();
    b.file(0, "person", "x");
    b.answer(1, "person", true);
    assert!(b.at(1, |tx, now| approvals::consume(tx, now, "person", "run")));
    let said =
        |by_person| Some(Answer { approved: false, at: "t".into(), by: "{}".into(), by_person, said: None });
    b.at(2, |tx, now| {
        let base = Row { state: State::Declined, private: None, ..row(now, "", "") };
        approvals::insert(tx, now, &Row { id: "program".into(), answer: said(false), ..base.clone() })?;
        approvals::insert(tx, now, &Row { id: "terminal".into(), answer: said(true), ..base.clone() })?;
        approvals::insert(tx, now, &Row { id: "nobody".into(), state: State::Expired, ..base })
    });
    let many = |b: &mut Bench, from: i64, to: i64| {
        b.at(3, |tx, _| {
            tx.execute(
                "WITH RECURSIVE n(i) AS (VALUES (?1) UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
                 INSERT INTO approvals (id, state, digest, asked_digest, bound, bucket, proven, cause, filed_at, filed_by,
                     expires, expires_at, settled)
                 SELECT 'n' || i, 'expired', '', '', '{}', '', 0, '', '', '{}', 0, '', 0 FROM n",
                params![from, to],
            )?;
            Ok(())
        })
    };
    many(&mut b, 5, 10_001);
    assert_eq!(b.kept()[..5], ["person", "program", "terminal", "nobody", "n5"]);
    many(&mut b, 10_002, 10_002);
    assert_eq!(b.kept()[..4], ["person", "terminal", "nobody", "n5"]);
    many(&mut b, 10_003, 10_100);
    assert_eq!(b.number("SELECT count(*) FROM approvals"), 10_100 - 1 - i64::from(ROWS), "a part at a time");
    for _ in 0..10 {
        b.pass(4);
    }
    assert_eq!(b.kept()[..3], ["person", "terminal", "n101"], "the last ten thousand, and what people said");
}

/// Requests that no person answered, each so long.
fn passing(b: &mut Bench, names: std::ops::Range<i64>, length: i64) {
    b.at(0, |tx, _| {
        tx.execute(
            "WITH RECURSIVE n(i) AS (VALUES (?1) UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2)
             INSERT INTO approvals (id, state, digest, asked_digest, bound, bucket, proven, cause, filed_at, filed_by,
                 expires, expires_at, settled)
             SELECT 'n' || i, 'expired', '', '', hex(zeroblob(?3 / 2)), '', 0, '', '', '{}', 0, '', 0 FROM n",
            params![names.start, names.end, length],
        )?;
        Ok(())
    });
}

#[test]
fn large_ones_that_no_person_answered_make_room_before() {
    const MIB: i64 = 1 << 20;
    let mut b = Bench::new();
    b.file(0, "person", &"x".repeat(MIB as usize));
    b.answer(0, "person", false);
    b.file(0, "open", "x");
    passing(&mut b, 0..40, MIB / 64);
    passing(&mut b, 40..72, 2 * MIB);
    assert_eq!(
        b.kept()[..3],
        ["person", "open", "n40"],
        "these have 64 MiB, and more than a few small ones go at once"
    );
    passing(&mut b, 72..74, 2 * MIB);
    assert_eq!(b.kept()[..3], ["person", "open", "n41"], "one at a time where that is much");
    b.pass(1);
    b.pass(1);
    assert_eq!(b.kept()[..3], ["person", "open", "n42"], "and no more than has to");
}

#[test]
fn large_old_ones_go_one_after_another() {
    let mut b = Bench::new();
    passing(&mut b, 0..3, 700 << 10);
    for left in [2, 1, 0] {
        b.pass(1 + 90 * DAY);
        assert_eq!(b.number("SELECT count(*) FROM approvals"), left);
    }
}

#[test]
fn a_session_goes_when_forgetting_it_lifts_nothing() {
    let mut b = Bench::new();
    let dir = Dir::new();
    let with = |name: &str, lines: &str| vec![policy_named(&dir, name, &format!("[session]\n{lines}"))];
    let free = with("a.toml", "halt_on = [\"exit\"]");
    let bounded: [Vec<Policy>; 3] = [
        with("b.toml", "max_runs = 9"),
        with("c.toml", "max_wall_time = \"1h\""),
        with("d.toml", "halt_on = [\"denied:9\"]"),
    ];
    b.at(0, |tx, now| {
        sessions::count_run(tx, now, &free, "free")?;
        sessions::count_run(tx, now, &free, "used later")?;
        sessions::halt(tx, now, &free, "halted", "a command failed", None)?;
        sessions::halt(tx, now, &free, "resumed", "a command failed", None)?;
        for (n, policies) in bounded.iter().enumerate() {
            sessions::count_run(tx, now, policies, &format!("bounded {n}"))?;
            // Also where another policy has it afterwards.
            sessions::count_run(tx, now, &free, &format!("bounded {n}"))?;
        }
        Ok(())
    });
    let sessions = "SELECT id FROM sessions ORDER BY id";
    let at = b.dir.0.clone();
    // A run whose end nobody told, which may halt its session yet.
    b.at(0, |tx, now| sessions::begin(tx, now, &free, "cut off"));
    drop(b.at(0, |tx, now| sessions::run_begins(tx, now, &at, "cut off", "r")));
    b.at(5, |tx, now| sessions::begin(tx, now, &free, "used later"));
    b.pass(90 * DAY - 1);
    assert_eq!(b.texts(sessions).len(), 8);
    b.pass(90 * DAY);
    assert_eq!(b.texts("SELECT id FROM sessions WHERE id = 'cut off'").len(), 1);
    b.at(90 * DAY, |tx, _| Ok(tx.execute("DELETE FROM session_runs", [])?));
    b.pass(90 * DAY);
    let left = ["bounded 0", "bounded 1", "bounded 2", "halted", "resumed", "used later"];
    assert_eq!(b.texts(sessions), left);
    b.at(1000 * DAY, |tx, now| {
        sessions::resume_session(tx, now, Path::new("/nonexistent"), "resumed", "amy")
    });
    assert_eq!(b.texts(sessions), ["bounded 0", "bounded 1", "bounded 2", "halted", "resumed"]);
    assert_eq!(b.texts("SELECT event FROM session_events WHERE session = 'resumed'"), ["halted", "resumed"]);
    b.pass(1090 * DAY);
    assert_eq!(b.texts(sessions), ["bounded 0", "bounded 1", "bounded 2", "halted"]);
    assert_eq!(b.texts("SELECT event FROM session_events"), ["halted"]);
}

#[test]
fn ledgers_of_policies_that_are_gone_go_with_their_windows_however_many() {
    let mut b = Bench::new();
    let dir = Dir::new();
    let text = "allow = [\"ls\"]\n[[rate]]\nname = \"r\"\ncount = 9\nper = \"1h\"\n\
                [[alert]]\nname = \"a\"\non = \"rate:r\"\nabove = 0\nper = \"1h\"\nrun = \"/bin/true\"\n";
    let call = crate::state::rates::Call { ids: vec!["allow:ls"], ..Default::default() };
    for n in 0..40 {
        let policies = [policy_named(&dir, &format!("{n}.toml"), text)];
        let told = b.at(0, |tx, now| {
            let weighed = crate::state::rates::weigh(Some((tx, now)), &policies, &call)?;
            crate::state::rates::count(tx, now, &weighed)?;
            Ok(crate::state::alerts::note_rates(tx, now, &policies, &weighed)?.len())
        });
        assert_eq!(told, 1);
    }
    // Of each policy one for its rate, and one for its alert, which tells and counts nothing; each by the three ways to name
    // the policy.
    assert_eq!(b.number("SELECT count(*) FROM ledgers"), 240);
    let mut rounds = 0;
    // Which of them have their turn is the time's to choose.
    while b.number("SELECT count(*) FROM ledgers") > 0 {
        rounds += 1;
        b.now.set(3600 * 1_000_000_000 + rounds);
        b.store.transaction(|_, _| Ok(())).unwrap();
        assert!(rounds < 600);
    }
    assert_eq!(b.number("SELECT (SELECT count(*) FROM counters) + (SELECT count(*) FROM uses)"), 0);
}

#[test]
fn large_outputs_go_a_part_at_a_time_and_their_space_is_given_back() {
    let mut b = Bench::new();
    let large = "secret-output".repeat(100_000);
    for n in 0..6 {
        b.file(0, &format!("large{n}"), &large);
    }
    let full = b.length();
    assert!(full > 7_000_000, "{full}");
    b.pass(600);
    assert_eq!(b.number("SELECT count(*) FROM approvals_private"), 5, "one at a time");
    let found = b.at(600, |tx, now| approvals::find(tx, now, "large5")).unwrap();
    assert_eq!((found.state, found.private), (State::Expired, None), "and no other is handed out");
    for _ in 0..40 {
        b.pass(601);
    }
    assert!(!b.holds("secret-output"));
    assert!(b.length() < 2_000_000, "{} of {full}", b.length());
}

#[test]
fn what_is_undone_forgets_nothing() {
    let mut b = Bench::new();
    b.file(0, "one", "secret-of-one");
    b.now.set(700 * 1_000_000_000);
    let done: Result<(), ()> = b.store.attempt(|_, _| Ok(Err(()))).unwrap();
    assert!(done.is_err() && b.holds("secret-of-one"));
    let dir = Dir::new();
    let policies = [policy(&dir, "[session]\nmax_runs = 1\n")];
    b.at(701, |tx, now| sessions::count_run(tx, now, &policies, "s"));
    assert!(!b.holds("secret-of-one"), "whatever is written takes it along");
}
