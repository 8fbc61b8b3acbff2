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
    dir: Dir,
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
        Bench { dir, store, now, policies }
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
        self.check_of(Some(id))
    }

    fn check_of(&mut self, id: Option<&str>) -> Option<Refusal> {
        let dir = self.dir.0.clone();
        self.with(|tx, now, policies| check(Some((tx, now)), &dir, policies, id))
    }

    fn begin(&mut self, id: &str, run: &str) -> Begun {
        let dir = self.dir.0.clone();
        self.run(id).with(|tx, now, _| run_begins(tx, now, &dir, id, run))
    }

    fn run(&mut self, id: &str) -> &mut Bench {
        self.with(|tx, now, _| count_run(tx, now, id));
        self
    }

    fn deny(&mut self, id: &str) -> Option<String> {
        self.with(|tx, now, policies| {
            Ok(count_denial(tx, now, policies, id, Some("run-9"))?.map(|h| h.reason))
        })
    }

    fn resume(&mut self, id: &str) -> Option<Session> {
        let dir = self.dir.0.clone();
        self.with(|tx, now, _| resume_session(tx, now, &dir, id, "operator"))
    }
}

fn code(refusal: Option<Refusal>) -> &'static str {
    refusal.map_or("", |refusal| refusal.code)
}

#[test]
fn a_required_session_is_required() {
    let mut b = Bench::new(&["max_runs = 1", "required = true"]);
    let refusal = b.check_of(None).expect("refused");
    assert_eq!(
        (refusal.code, refusal.hint.as_str(), refusal.at.line),
        ("session_required", "name it with --session ID", 2)
    );
    assert!(refusal.at.file.ends_with("p1.toml"));
    assert_eq!(b.check("s"), None);
    let unused = |policies: &[Policy], id| code(check(None, &b.dir.0, policies, id).unwrap());
    assert_eq!((unused(&b.policies, None), unused(&b.policies, Some("s"))), ("session_required", ""));
    assert_eq!(unused(&[], None), "");
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
    b.with(|tx, now, _| halt(tx, now, "new\u{1b}", "x\u{1b}y", Some("r\u{1b}")));
    let refusal = b.check("new\u{1b}").expect("refused");
    assert_eq!(
        refusal.message,
        "session 'new\\x1b' is halted: x\\x1by in run r\\x1b at 1970-01-01T00:00:04.000Z"
    );
    assert!(!refusal.hint.contains('\u{1b}'));
}

#[test]
fn a_run_whose_process_is_gone_halts_the_session_and_one_that_is_there_does_not() {
    let mut b = Bench::new(&["max_runs = 9", "halt_on = [\"denied:9\", \"timeout\"]"]);
    let (dir, first) = (b.dir.0.clone(), b.begin("s", "run-1"));
    let second = b.at(5).begin("s", "run-2");
    assert_eq!((b.check("s"), b.check("t")), (None, None));
    // One comes to its end; of the other nobody hears any more.
    b.with(|tx, _, _| conclude(tx, &first));
    drop(first);
    assert_eq!(b.check("s"), None);
    drop(second);
    let refusal = b.check("s").expect("refused");
    assert_eq!(
        (refusal.code, refusal.message.as_str()),
        (
            "session_halted",
            "session 's' is halted: a call was cut off before its end in run run-2 at 1970-01-01T00:00:05.000Z"
        )
    );
    // Reading it changes nothing; whoever may write keeps it, once.
    let found = b.with(|tx, _, _| find(tx, "s")).unwrap();
    assert_eq!(found.halted, None);
    assert!(b.with(|tx, _, policies| has_cut_off(tx, &dir, policies, "s")));
    let halted = |b: &mut Bench| b.with(|tx, now, _| halt_cut_off(tx, now, &dir, "s"));
    let halt = halted(b.at(7)).expect("halted");
    assert_eq!((halt.run.as_deref(), halted(&mut b)), (Some("run-2"), None));
    assert!(!b.with(|tx, _, policies| has_cut_off(tx, &dir, policies, "s")));
    assert!(b.check("s").expect("stays").message.ends_with("in run run-2 at 1970-01-01T00:00:07.000Z"));
    assert_eq!((b.resume("s").map(|s| s.halted), b.check("s")), (Some(Some(halt)), None));
}

#[test]
fn what_was_cut_off_matters_where_a_run_could_halt_and_until_somebody_looked() {
    for (lines, halts) in
        [("halt_on = [\"denied:1\"]", false), ("max_runs = 9", false), ("halt_on = [\"exit\"]", true)]
    {
        let mut b = Bench::new(&[lines]);
        drop(b.begin("s", "run-1"));
        assert_eq!(b.check("s").is_some(), halts, "{lines}");
        // Found by nobody yet, and forgiven with the rest; what goes on meanwhile is not.
        let alive = b.begin("s", "run-2");
        b.resume("s");
        assert_eq!(b.check("s"), None, "{lines}");
        drop(alive);
        assert_eq!(b.check("s").is_some(), halts, "{lines}");
    }
    // Without the file of the locks nobody can hold one.
    let mut b = Bench::new(&["halt_on = [\"error\"]"]);
    let alive = b.begin("s", "run-1");
    assert_eq!(b.check("s"), None);
    std::fs::remove_file(b.dir.file("state.runs")).unwrap();
    assert_eq!(code(b.check("s")), "session_halted");
    drop(alive);
}
