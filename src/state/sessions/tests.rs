//! What halts a session, what a halted one hears, and what letting it go on forgives.

use std::cell::Cell;
use std::rc::Rc;
use std::time::UNIX_EPOCH;

use serde_json::json;

use super::*;
use crate::state::Store;
use crate::state::clock::Reading;
use crate::state::tests::{Dir, policy_named};

struct Bench {
    _dir: Dir,
    store: Store,
    now: Rc<Cell<i64>>,
    policies: Vec<Policy>,
}

impl Bench {
    fn new(lines: &[&str]) -> Bench {
        let dir = Dir::new();
        let section = |(n, lines): (usize, &&str)| {
            policy_named(&dir, &format!("p{n}.toml"), &format!("[session]\n{lines}"))
        };
        let policies = lines.iter().enumerate().map(section).collect();
        let now = Rc::new(Cell::new(0));
        let clock = Rc::clone(&now);
        let reading = move || {
            let since_boot: i64 = clock.get();
            let wall = UNIX_EPOCH + Duration::from_nanos(since_boot as u64);
            Reading { boot: "b".into(), since_boot, wall }
        };
        let store = Store::open(&dir.0).unwrap().with_clock(reading);
        Bench { _dir: dir, store, now, policies }
    }

    fn at(&mut self, seconds: i64) -> &mut Bench {
        self.now.set(seconds * 1_000_000_000);
        self
    }

    fn with<T>(
        &mut self,
        body: impl FnOnce(&Transaction<'_>, &Moment, &[Policy]) -> Result<T, StateError>,
    ) -> T {
        let policies = &self.policies;
        self.store.transaction(|tx, now| body(tx, now, policies)).unwrap()
    }

    fn check(&mut self, id: &str) -> Option<Refusal> {
        self.with(|tx, now, policies| check(Some((tx, now)), policies, Some(id)))
    }

    fn run(&mut self, id: &str) -> &mut Bench {
        self.with(|tx, now, policies| count_run(tx, now, policies, id));
        self
    }

    fn deny(&mut self, id: &str) -> Option<String> {
        self.with(|tx, now, policies| {
            Ok(count_denial(tx, now, policies, id, Some("run-9"))?.map(|h| h.reason))
        })
    }

    fn resume(&mut self, id: &str) -> Option<Session> {
        self.with(|tx, now, _| resume_session(tx, now, id, "operator"))
    }
}

fn code(refusal: Option<Refusal>) -> &'static str {
    refusal.map_or("", |refusal| refusal.code)
}

#[test]
fn a_required_session_is_required() {
    let mut b = Bench::new(&["max_runs = 1", "required = true"]);
    let refusal = b.with(|tx, now, policies| check(Some((tx, now)), policies, None)).expect("refused");
    assert_eq!(
        (refusal.code, refusal.hint.as_str(), refusal.at.line),
        ("session_required", "name it with --session ID", 2)
    );
    assert!(refusal.at.file.ends_with("p1.toml"));
    assert_eq!(b.check("s"), None);
    let unused = check(None, &b.policies, None).unwrap();
    assert_eq!((code(unused), code(check(None, &b.policies, Some("s")).unwrap())), ("session_required", ""));
    assert_eq!(code(check(None, &[], None).unwrap()), "");
}

#[test]
fn the_tightest_of_each_key_holds() {
    let mut b = Bench::new(&["max_runs = 5\nmax_wall_time = \"1m\"", "max_runs = 2\nmax_wall_time = \"1h\""]);
    b.run("s");
    assert_eq!(b.check("s"), None);
    b.run("s");
    let refusal = b.check("s").expect("refused");
    assert_eq!(refusal.code, "session_max_runs");
    assert_eq!(refusal.message, "session 's' has had its 2 runs (max_runs)");
    assert_eq!(refusal.hint, "a person can let it go on: guardexec session resume s, with the same --policy");
    assert!(refusal.at.file.ends_with("p1.toml"));
    b.run("t").at(59);
    assert_eq!(b.check("t"), None);
    let refusal = b.at(60).check("t").expect("refused");
    assert_eq!(refusal.code, "session_max_wall_time");
    assert_eq!(refusal.message, "session 't' began 1m ago and may last 1m (max_wall_time)");
    assert!(refusal.at.file.ends_with("p0.toml"));
    assert_eq!(b.check("other"), None);
}

#[test]
fn denials_halt_at_the_smallest_number_and_it_stays_halted() {
    let mut b = Bench::new(&["halt_on = [\"denied:3\"]", "halt_on = [\"denied:2\"]"]);
    assert_eq!((b.deny("s"), b.check("s")), (None, None));
    assert_eq!(b.at(5).deny("s").as_deref(), Some("2 of its calls were denied"));
    let refusal = b.at(9).check("s").expect("refused");
    assert_eq!(refusal.code, "session_halted");
    assert_eq!(
        refusal.message,
        "session 's' is halted: 2 of its calls were denied in run run-9 at 1970-01-01T00:00:05.000Z"
    );
    assert_eq!(b.deny("s"), None, "it is halted already");
    assert_eq!(b.check("s").expect("refused").message, refusal.message, "the first reason stays");
    assert_eq!(b.check("t"), None);
}

#[test]
fn only_what_the_policy_names_halts() {
    let mut b = Bench::new(&["halt_on = [\"timeout\", \"denied:9\"]", "halt_on = [\"sandbox\"]"]);
    for on in [HaltOn::Check, HaltOn::Workspace, HaltOn::Error, HaltOn::Exit, HaltOn::Denied(4)] {
        assert_eq!(b.with(|tx, now, policies| halt_on(tx, now, policies, "s", on, None)), None, "{on:?}");
    }
    assert_eq!(b.check("s"), None);
    for (id, on) in [("s", HaltOn::Timeout), ("t", HaltOn::Sandbox)] {
        let halt = b.with(|tx, now, policies| halt_on(tx, now, policies, id, on, Some("r1")));
        assert_eq!(halt.and_then(|h| h.run).as_deref(), Some("r1"));
        assert_eq!(code(b.check(id)), "session_halted");
    }
    let known = |on| is_halted_on(&b.policies, on);
    assert!(known(HaltOn::Timeout) && known(HaltOn::Denied(0)) && !known(HaltOn::Exit));
}

#[test]
fn letting_go_on_forgives_everything_and_is_remembered() {
    let mut b = Bench::new(&["halt_on = [\"denied:2\", \"exit\"]\nmax_runs = 2\nmax_wall_time = \"1m\""]);
    assert_eq!(b.resume("s"), None, "there is no such session");
    b.run("s").run("s").deny("s");
    b.deny("s");
    let before = b.at(100).resume("s").expect("it was there");
    assert_eq!((before.runs, before.denials, before.halted.is_some()), (2, 2, true));
    assert_eq!(b.check("s"), None);
    assert_eq!(b.run("s").deny("s"), None, "denials count anew");
    assert_eq!(b.check("s"), None, "and runs");
    assert_eq!(code(b.at(159).check("s")), "", "and the time");
    assert_eq!(code(b.at(160).check("s")), "session_max_wall_time");
    let session = b.with(|tx, _, _| find(tx, "s")).expect("kept");
    let counts = (session.runs, session.denials, session.all_runs, session.all_denials);
    assert_eq!((counts, session.halted.clone()), ((1, 1, 3, 3), None));
    assert_eq!(
        (session.first.as_str(), session.since_wall.as_str()),
        ("1970-01-01T00:00:00.000Z", "1970-01-01T00:01:40.000Z")
    );
    let history = b.with(|tx, _, _| history(tx, "s"));
    let told: Vec<_> = history
        .iter()
        .map(|e| (e.event.as_str(), e.by.as_deref(), e.reason.as_deref(), e.run.as_deref()))
        .collect();
    let reason = Some("2 of its calls were denied");
    assert_eq!(told, [("halted", None, reason, Some("run-9")), ("resumed", Some("operator"), reason, None)]);
    assert_eq!(
        history[1].to_json(),
        json!({"event": "resumed", "at": "1970-01-01T00:01:40.000Z", "by": "operator", "reason": reason, "run": null})
    );
}

#[test]
fn a_list_has_all_of_them_the_last_called_first() {
    let mut b = Bench::new(&["halt_on = [\"exit\"]"]);
    b.at(1)
        .run("old")
        .at(2)
        .run("new\u{1b}")
        .at(3)
        .with(|tx, now, policies| halt_on(tx, now, policies, "mid", HaltOn::Exit, None));
    b.at(4).run("old");
    let list = b.with(|tx, _, _| list(tx));
    assert_eq!(list.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(), ["old", "mid", "new\u{1b}"]);
    assert_eq!(
        list[0].to_json(),
        json!({
            "id": "old", "state": "open", "first": "1970-01-01T00:00:01.000Z", "last": "1970-01-01T00:00:04.000Z",
            "since": "1970-01-01T00:00:01.000Z", "runs": 2, "denials": 0, "all_runs": 2, "all_denials": 0, "halted": null,
        })
    );
    let halted = json!({"reason": "a command failed", "at": "1970-01-01T00:00:03.000Z", "run": null});
    assert_eq!((&list[1].to_json()["state"], &list[1].to_json()["halted"]), (&json!("halted"), &halted));
    b.with(|tx, now, policies| halt(tx, now, policies, "new\u{1b}", "x\u{1b}y", Some("r\u{1b}")));
    let refusal = b.check("new\u{1b}").expect("refused");
    assert_eq!(
        refusal.message,
        "session 'new\\x1b' is halted: x\\x1by in run r\\x1b at 1970-01-01T00:00:04.000Z"
    );
    assert!(!refusal.hint.contains('\u{1b}'));
}
