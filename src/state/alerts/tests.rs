//! Figures that are passed, once a window.

use std::cell::Cell;
use std::rc::Rc;
use std::time::UNIX_EPOCH;

use super::*;
use crate::state::Store;
use crate::state::clock::Reading;
use crate::state::rates::{Call, count, weigh};
use crate::state::tests::{Dir, policy};

struct Bench {
    _dir: Dir,
    store: Store,
    now: Rc<Cell<i64>>,
    policies: Vec<Policy>,
}

impl Bench {
    fn new(text: &str) -> Bench {
        let dir = Dir::new();
        let program = dir.outer().join("tell");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        let text = text.replace("TELL", program.to_str().unwrap());
        let policies = vec![policy(&dir, &format!("allow = [\"ls\"]\n{text}"))];
        let now = Rc::new(Cell::new(0));
        let clock = Rc::clone(&now);
        let reading = move || Reading { boot: "b".into(), since_boot: clock.get(), wall: UNIX_EPOCH };
        let store = Store::open(&dir.0).unwrap().with_clock(reading);
        Bench { _dir: dir, store, now, policies }
    }

    /// The names of the alerts that an event at this second sets off.
    fn note(&mut self, second: i64, event: Event) -> Vec<String> {
        self.now.set(second * 1_000_000_000);
        let policies = &self.policies;
        self.store
            .transaction(|tx, now| {
                let alarms = note(tx, now, policies, event)?;
                Ok(alarms.iter().map(|alarm| alarm.alert.name.clone()).collect())
            })
            .unwrap()
    }

    fn call(&mut self, second: i64, call: &Call<'_>) -> Vec<Value> {
        self.now.set(second * 1_000_000_000);
        let policies = &self.policies;
        self.store
            .transaction(|tx, now| {
                let weighed = weigh(Some((tx, now)), policies, call)?;
                count(tx, now, &weighed)?;
                Ok(note_rates(tx, now, policies, &weighed)?.into_iter().map(|alarm| alarm.facts).collect())
            })
            .unwrap()
    }
}

fn alert(name: &str, on: &str, above: u32) -> String {
    format!("[[alert]]\nname = \"{name}\"\non = \"{on}\"\nabove = {above}\nper = \"10s\"\nrun = \"TELL\"\n")
}

#[test]
fn it_is_told_when_the_figure_is_passed_and_then_once_a_window() {
    let mut b = Bench::new(&alert("a", "denied", 2));
    let seconds = [0, 1, 2, 3, 9, 11, 12, 13, 14, 40, 41, 42];
    let told: Vec<i64> = seconds.into_iter().filter(|s| !b.note(*s, Event::Denial).is_empty()).collect();
    // At 12 a window has passed since 2, and 3, 9, 11 and 12 lie in the one that ends there.
    assert_eq!(told, [2, 12, 42]);
}

#[test]
fn each_counts_its_own_events() {
    let mut b = Bench::new(&format!(
        "{}{}{}",
        alert("d", "denied", 0),
        alert("t", "timeout", 0),
        alert("c", "check", 1)
    ));
    assert_eq!(b.note(0, Event::Timeout), ["t"]);
    assert_eq!(b.note(0, Event::Check), Vec::<String>::new());
    assert_eq!(b.note(0, Event::Check), ["c"]);
    assert_eq!(b.note(0, Event::Denial), ["d"]);
    assert!(counts(&b.policies, Event::Check) && !counts(&[], Event::Check));
    let only = Bench::new(&alert("t", "timeout", 0));
    assert!(!counts(&only.policies, Event::Denial));
}

#[test]
fn the_use_of_a_rate_is_a_figure_too() {
    let rates = "[[rate]]\nname = \"r\"\nkey = \"session\"\ncount = 3\nper = \"1h\"\n";
    let mut b = Bench::new(&format!("{rates}{}", alert("busy", "rate:r", 1)));
    let call = |session| Call { ids: vec!["allow:ls"], session: Some(session), ..Call::default() };
    assert_eq!((b.call(0, &call("a")), b.call(0, &call("b"))), (vec![], vec![]));
    let told = b.call(1, &call("a"));
    let [facts] = &told[..] else { panic!("{told:?}") };
    let file = b.policies[0].oversight.alerts[0].at.file.to_string_lossy().into_owned();
    assert_eq!(
        *facts,
        json!({
            "alert": "busy", "file": file, "line": 8, "on": "rate", "rate": "r", "key": {"session": "a"}, "figure": 2,
            "above": 1, "per": "10s", "at": "1970-01-01T00:00:00.000Z",
        })
    );
    assert_eq!(b.call(5, &call("b")), Vec::<Value>::new(), "once a window, whichever key");
    assert_eq!(b.call(11, &call("b")).len(), 1);
}

#[test]
fn what_is_undone_was_not_told() {
    let mut b = Bench::new(&alert("a", "denied", 0));
    let policies = &b.policies;
    let undone =
        b.store.attempt(|tx, now| Ok(Err::<(), _>(note(tx, now, policies, Event::Denial)?.len()))).unwrap();
    assert_eq!(undone, Err(1));
    assert_eq!(b.note(0, Event::Denial), ["a"]);
}
