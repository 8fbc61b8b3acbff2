//! Windows against a plain model, keys that cannot be mistaken for each other, and what every refusal says.

mod known;
mod told;

use std::cell::Cell;
use std::rc::Rc;
use std::time::UNIX_EPOCH;

use proptest::prelude::*;

use super::*;
use crate::state::Store;
use crate::state::clock::Reading;
use crate::state::tests::{Dir, policy, policy_named};

const SECOND: i64 = 1_000_000_000;
const TOOLS: &str = "allow = [\"ls\"]\n\
    [tools.pay]\nargv = [\"pay\", \"{amount}\", \"{to}\"]\ndecision = \"allow\"\nparams.amount = { type = \"number\" }\n\
    params.to = { type = \"string\" }\nparams.level = { type = \"number\", required = false }\n\
    [tools.note]\nargv = [\"note\"]\ndecision = \"allow\"\n";

/// A store whose clock the test moves.
struct Bench {
    dir: Dir,
    store: Store,
    now: Rc<Cell<i64>>,
    policies: Vec<Policy>,
}

impl Bench {
    fn new(rates: &str) -> Bench {
        let dir = Dir::new();
        let policies = vec![policy(&dir, &format!("{TOOLS}{rates}"))];
        let now = Rc::new(Cell::new(0));
        let clock = Rc::clone(&now);
        let store = Store::open(&dir.0).unwrap().with_clock(move || Reading {
            boot: "b".into(),
            since_boot: clock.get(),
            wall: UNIX_EPOCH,
        });
        Bench { dir, store, now, policies }
    }

    fn at(&mut self, seconds: i64) -> &mut Bench {
        self.now.set(seconds * SECOND);
        self
    }

    /// Weighs, and counts what every rate allows; the verdicts.
    fn call(&mut self, call: &Call<'_>) -> Vec<Verdict> {
        let policies = &self.policies;
        self.store
            .transaction(|tx, now| {
                let weighed = weigh(Some((tx, now)), policies, call)?;
                let verdicts: Vec<Verdict> = weighed.iter().map(Weighed::verdict).collect();
                if verdicts.iter().all(|v| *v == Verdict::Allow) {
                    count(tx, now, &weighed)?;
                }
                Ok(verdicts)
            })
            .unwrap()
    }

    /// Calls of `pay` at these moments, in one transaction, as [`Bench::call`] makes them.
    fn in_one(&mut self, calls: impl Iterator<Item = (i64, Map<String, Value>)>) -> Vec<Verdict> {
        let policies = &self.policies;
        let each = |tx: &Transaction<'_>, (nanos, arguments): (i64, Map<String, Value>)| {
            let now = Moment::at(nanos);
            let weighed = weigh(Some((tx, &now)), policies, &pay(&arguments))?;
            if weighed[0].verdict() == Allow {
                count(tx, &now, &weighed)?;
            }
            Ok(weighed[0].verdict())
        };
        self.store.transaction(|tx, _| calls.map(|call| each(tx, call)).collect()).unwrap()
    }

    fn refusal(&mut self, call: &Call<'_>) -> Refusal {
        let policies = &self.policies;
        let weighed = |tx: &Transaction<'_>, now: &Moment| {
            Ok(weigh(Some((tx, now)), policies, call)?.iter().find_map(Weighed::refusal))
        };
        self.store.transaction(weighed).unwrap().expect("refused")
    }

    fn held(&mut self) -> Vec<Value> {
        let policies = &self.policies;
        self.store
            .transaction(|tx, now| Ok(held(Some((tx, now)), policies)?.iter().map(Held::to_json).collect()))
            .unwrap()
    }

    fn rows(&mut self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        self.store.transaction(|tx, _| Ok(tx.query_row(&sql, [], |row| row.get(0))?)).unwrap()
    }
}

fn rate(lines: &str) -> String {
    format!("[[rate]]\nname = \"r\"\n{lines}\n")
}

fn ls() -> Call<'static> {
    Call { ids: vec!["allow:ls"], ..Call::default() }
}

fn arguments(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap()
}

fn pay(arguments: &Map<String, Value>) -> Call<'_> {
    Call { ids: vec!["pay"], tool: Some(("pay", arguments)), ..Call::default() }
}

use Verdict::{Allow, Ask, Deny};

#[test]
fn a_window_slides_and_its_ends_are_exact() {
    let mut b = Bench::new(&rate("count = 2\nper = \"10s\""));
    let mut got = Vec::new();
    for second in [0, 1, 9, 10, 10, 11, 19, 20] {
        got.push((second, {
            b.at(second);
            b.call(&ls())[0]
        }));
    }
    let want =
        [(0, Allow), (1, Allow), (9, Deny), (10, Allow), (10, Deny), (11, Allow), (19, Deny), (20, Allow)];
    assert_eq!(got, want);
    // A nanosecond before the first of two leaves.
    let mut b = Bench::new(&rate("count = 1\nper = \"10s\""));
    b.call(&ls());
    b.now.set(10 * SECOND - 1);
    assert_eq!(b.call(&ls()), [Deny]);
    b.now.set(10 * SECOND);
    assert_eq!(b.call(&ls()), [Allow]);
}

#[test]
fn sums_are_exact_and_negative_amounts_give_nothing_back() {
    let mut b = Bench::new(&rate("sum = \"amount\"\nmax = 1\nper = \"1h\"\nthen = \"ask\""));
    for _ in 0..10 {
        assert_eq!(b.call(&pay(&arguments(r#"{"amount": 0.1, "to": "x"}"#))), [Allow]);
    }
    assert_eq!(b.call(&pay(&arguments(r#"{"amount": 0.000000001, "to": "x"}"#))), [Ask]);
    assert_eq!(b.call(&pay(&arguments(r#"{"amount": 0, "to": "x"}"#))), [Allow], "nothing more fits");
    for bad in
        ["-0.5", "-1", "1e300", "\"1e3\"", "\"NaN\"", "true", "[1]", "null", "\"+1\"", "1e-10", "\"007\""]
    {
        let arguments = arguments(&format!(r#"{{"amount": {bad}, "to": "x"}}"#));
        assert_eq!(b.call(&pay(&arguments)), [Deny], "{bad}");
        let refusal = b.refusal(&pay(&arguments));
        assert_eq!(refusal.code, "amount_invalid");
        assert!(
            refusal.message.starts_with("rate 'r' cannot count this call: argument 'amount' of 'pay' "),
            "{refusal:?}"
        );
    }
    assert_eq!(b.held()[0]["use"], 1);
}

#[test]
fn a_sum_speaks_of_the_calls_that_have_its_parameter() {
    let mut b = Bench::new(&rate("sum = \"amount\"\nmax = 100\nper = \"1h\""));
    assert_eq!(b.call(&ls()), []);
    let none = Map::new();
    assert_eq!(b.call(&Call { ids: vec!["note"], tool: Some(("note", &none)), ..Call::default() }), []);
    assert_eq!(b.call(&pay(&none)), [Deny], "an amount left out is not nothing");
    assert!(b.refusal(&pay(&none)).message.ends_with("'amount' of 'pay' is missing, and is counted"));
}

#[test]
fn it_speaks_of_its_rules_and_its_agents() {
    let mut b = Bench::new(&rate("match = \"pay\"\nagents = [\"ci\"]\ncount = 1\nper = \"1h\""));
    let a = arguments(r#"{"amount": 1, "to": "x"}"#);
    let by = |agent| Call { agent, ..pay(&a) };
    assert_eq!(b.call(&Call { agent: Some("ci"), ..ls() }), []);
    for other in [None, Some("dev"), Some("cia"), Some("dev/ci")] {
        assert_eq!(b.call(&by(other)), [], "{other:?}");
    }
    assert_eq!(b.call(&by(Some("ci/x"))), [Allow]);
    assert_eq!(b.call(&by(Some("ci"))), [Deny]);
}

#[test]
fn keys_are_apart_and_those_without_are_together() {
    let mut b = Bench::new(&rate("key = [\"agent\", \"session\", \"to\"]\ncount = 1\nper = \"1h\""));
    let to = |text: &str| arguments(&serde_json::json!({"amount": 1, "to": text}).to_string());
    // Each of them would be another's spelling under a careless encoding.
    let calls = [
        (Some("a"), Some("s"), "x"),
        (Some("s"), Some("a"), "x"),
        (Some("a"), None, "x"),
        (None, Some("a"), "x"),
        (None, None, "a"),
        (None, None, "null"),
        (None, None, ""),
        (Some("null"), None, "x"),
        (Some("a\",\"b"), None, "x"),
        (Some("a"), Some("b\",\"x"), ""),
        (None, None, "\u{0}"),
        (None, None, "\u{e9}"),
        (None, None, "e\u{301}"),
    ];
    for round in [Allow, Deny] {
        for (agent, session, text) in calls {
            let to = to(text);
            let call = Call { agent, session, ..pay(&to) };
            assert_eq!(b.call(&call), [round], "{call:?}");
        }
    }
    assert_eq!(b.call(&ls()), [Allow], "no agent, no session, no parameter");
    assert_eq!(b.call(&ls()), [Deny]);
    assert_eq!(b.held().len(), calls.len() + 1);
}

#[test]
fn an_agent_counts_with_its_children() {
    let mut b = Bench::new(&rate("key = \"agent\"\ncount = 2\nper = \"1h\""));
    let mut by = |agent| b.call(&Call { agent: Some(agent), ..ls() })[0];
    let got = ["lead/a", "lead/b/c", "lead", "lead/d", "leader", "leader/x", "leader/y"].map(&mut by);
    assert_eq!(got, [Allow, Allow, Deny, Deny, Allow, Allow, Deny]);
}

#[test]
fn one_number_is_one_key_however_it_is_spelled() {
    let mut b = Bench::new(&rate("key = \"level\"\ncount = 1\nper = \"1h\""));
    for (level, verdict) in [
        ("1", Allow),
        ("1.0", Deny),
        ("1e0", Deny),
        ("10e-1", Deny),
        ("1.5", Allow),
        ("15e-1", Deny),
        ("0", Allow),
        ("-0.0", Deny),
        ("1152921504606846976", Allow),
        ("1152921504606846976.0", Deny),
        ("10000000000000000000", Allow),
        ("1e19", Deny),
        ("\"1\"", Allow),
    ] {
        let arguments = arguments(&format!(r#"{{"amount": 1, "to": "x", "level": {level}}}"#));
        assert_eq!(b.call(&pay(&arguments)), [verdict], "{level}");
    }
}

#[test]
fn editing_keeps_the_counts_and_other_policies_have_their_own() {
    let mut b = Bench::new(&rate("count = 2\nper = \"1h\""));
    b.call(&ls());
    b.call(&ls());
    assert_eq!(b.call(&ls()), [Deny]);
    let edit = |b: &mut Bench, text: &str| b.policies = vec![policy(&b.dir, &format!("{TOOLS}{text}"))];
    edit(&mut b, &rate("count = 3\nper = \"1h\""));
    assert_eq!((b.call(&ls()), b.call(&ls())), (vec![Allow], vec![Deny]));
    edit(&mut b, &rate("count = 3\nper = \"2h\"\nthen = \"ask\""));
    assert_eq!(b.call(&ls()), [Ask]);
    edit(&mut b, &rate("count = 3\nper = \"1m\""));
    b.at(60);
    assert_eq!(b.call(&ls()), [Allow], "a shorter window holds at once");
    // The same text in another file, and another name in the same.
    let path = b.dir.outer().join("other.toml");
    std::fs::copy(b.dir.outer().join("policy.toml"), &path).unwrap();
    let other = crate::state::tests::load_policy(&path);
    b.policies = vec![other];
    assert_eq!(b.held()[0]["use"], 0);
    edit(&mut b, "[[rate]]\nname = \"q\"\ncount = 3\nper = \"1h\"\n");
    assert_eq!(b.held()[0]["use"], 0);
}

#[test]
fn a_policy_that_is_named_twice_counts_once_and_two_policies_both_hold() {
    let text = |count: u32| format!("{TOOLS}{}", rate(&format!("count = {count}\nper = \"1h\"")));
    let mut b = Bench::new(&rate("count = 3\nper = \"1h\""));
    b.policies.push(policy(&b.dir, &text(3)));
    assert_eq!([b.call(&ls()), b.call(&ls())], [[Allow], [Allow]]);
    assert_eq!(b.held().iter().map(|held| held["use"].clone()).collect::<Vec<_>>(), [2]);
    b.policies[1] = policy_named(&b.dir, "tighter.toml", &text(1));
    assert_eq!([b.call(&ls()), b.call(&ls())], [[Allow, Allow], [Deny, Deny]]);
    assert_eq!(b.held().iter().map(|held| held["use"].clone()).collect::<Vec<_>>(), [3, 1]);
}

#[test]
fn calls_are_not_added_to_amounts() {
    let mut b = Bench::new(&rate("match = \"pay\"\ncount = 5\nper = \"1h\""));
    let a = arguments(r#"{"amount": 4, "to": "x"}"#);
    for _ in 0..5 {
        b.call(&pay(&a));
    }
    b.policies = vec![policy(&b.dir, &format!("{TOOLS}{}", rate("sum = \"amount\"\nmax = 5\nper = \"1h\"")))];
    assert_eq!((b.call(&pay(&a)), b.call(&pay(&a))), (vec![Allow], vec![Deny]));
}

#[test]
fn what_has_left_its_window_is_removed_with_all_that_belonged_to_it() {
    let mut b = Bench::new(&rate("key = \"session\"\ncount = 1\nper = \"10s\""));
    let policies = &b.policies;
    let fill = |tx: &Transaction<'_>, now: &Moment| {
        (0..300).try_for_each(|n| {
            let session = format!("s{n}");
            let weighed = weigh(Some((tx, now)), policies, &Call { session: Some(&session), ..ls() })?;
            count(tx, now, &weighed)
        })
    };
    b.store.transaction(fill).unwrap();
    assert_eq!((b.rows("uses"), b.rows("counters"), b.rows("ledgers")), (900, 900, 3));
    b.at(11);
    b.call(&Call { session: Some("new"), ..ls() });
    assert_eq!((b.rows("uses"), b.rows("counters")), (135, 135), "at most so many at once");
    b.call(&Call { session: Some("newer"), ..ls() });
    assert_eq!((b.rows("uses"), b.rows("counters"), b.rows("ledgers")), (6, 6, 3));
    // Another policy's calls sweep too, and what holds nothing goes.
    b.at(30);
    b.policies =
        vec![policy(&b.dir, &format!("{TOOLS}[[rate]]\nname = \"other\"\ncount = 1\nper = \"10s\"\n"))];
    b.call(&ls());
    assert_eq!((b.rows("uses"), b.rows("counters"), b.rows("ledgers")), (3, 3, 3));
}

#[test]
fn very_many_entries_cost_no_more_than_few() {
    let mut b = Bench::new(&rate("count = 1000000\nper = \"30d\""));
    b.store
        .transaction(|tx, _| {
            tx.execute_batch(&format!(
                "INSERT INTO ledgers (id, policy, kind, name, measure, per) VALUES (1, X'{}', 'rate', 'r', 'count', 1);
                 INSERT INTO counters (id, ledger, key) VALUES (1, 1, '[]');
                 INSERT INTO uses SELECT 1, value, 1, '1', CAST(value AS TEXT) FROM generate(300000);",
                hex(b.policies[0].path.as_os_str().as_encoded_bytes())
            ).replace("generate(300000)", "(WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n LIMIT 300000) SELECT value FROM n)"))?;
            Ok(())
        })
        .unwrap();
    b.at(10);
    let started = std::time::Instant::now();
    for _ in 0..20 {
        assert_eq!(b.call(&ls()), [Allow]);
    }
    let took = started.elapsed();
    assert_eq!(b.held()[0]["use"], 300_020);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Calls at any times with any amounts, against a plain list of what was allowed.
    #[test]
    fn no_window_ever_holds_more(
        steps in proptest::collection::vec((0_i64..4000, 0_u32..60, 0_usize..2), 1..60),
        max in 20_u32..200,
    ) {
        let mut b = Bench::new(&rate(&format!("key = \"to\"\nsum = \"amount\"\nmax = {max}\nper = \"10s\"")));
        let mut allowed: [Vec<(i64, u32)>; 2] = [Vec::new(), Vec::new()];
        let mut millis = 0;
        let verdicts = b.in_one(steps.iter().map(|(step, amount, to)| {
            millis += step;
            let text = format!(r#"{{"amount": {}.{:02}, "to": "{to}"}}"#, amount / 10, amount % 10 * 10);
            (millis * 1_000_000, arguments(&text))
        }));
        let mut millis = 0;
        for ((step, amount, to), verdict) in steps.into_iter().zip(verdicts) {
            millis += step;
            let live: u32 = allowed[to].iter().filter(|(at, _)| *at > millis - 10_000).map(|(_, a)| a).sum();
            let fits = live + amount <= max * 10;
            prop_assert_eq!(verdict, if fits { Allow } else { Deny }, "{} at {}", amount, millis);
            if fits {
                allowed[to].push((millis, amount));
            }
        }
        for calls in &allowed {
            for (start, _) in calls {
                let window: u32 = calls.iter().filter(|(at, _)| (*start..start + 10_000).contains(at)).map(|(_, a)| a).sum();
                prop_assert!(window <= max * 10);
            }
        }
    }
}
