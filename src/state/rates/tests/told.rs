//! What people and programs are told of a rate.

use super::*;

#[test]
fn a_refusal_says_what_is_used_and_how_long_to_wait() {
    let mut b =
        Bench::new(&rate("key = \"to\"\ncount = 2\nper = \"30d\"\nreason = \"two refunds are enough\""));
    let a = arguments(r#"{"amount": 4, "to": "C\u001b-1"}"#);
    b.call(&pay(&a));
    b.at(3600).call(&pay(&a));
    b.at(7200);
    let refusal = b.refusal(&pay(&a));
    assert_eq!(refusal.code, "rate_limited");
    assert_eq!(
        refusal.message,
        "two refunds are enough: rate 'r' allows 2 calls in 30d with to 'C\\x1b-1', and 2 are used"
    );
    assert_eq!(refusal.hint, "wait: the oldest leaves the window in 29d 22h");
    assert_eq!((refusal.name.as_str(), refusal.at.line), ("r", 12));
    let mut b = Bench::new(&rate("sum = \"amount\"\nmax = 1000.5\nper = \"1h\""));
    b.call(&pay(&a));
    let much = arguments(r#"{"amount": 1000, "to": "x"}"#);
    assert_eq!(
        b.refusal(&pay(&much)).message,
        "rate 'r' allows 1000.5 of 'amount' in 1h, of which 4 are used, and this call wants 1000"
    );
    let more = arguments(r#"{"amount": 1001, "to": "x"}"#);
    assert_eq!(b.refusal(&pay(&more)).hint, "ask for less: no window allows that much at once");
}

#[test]
fn a_listing_says_where_every_rate_stands() {
    let two = format!(
        "{}[[rate]]\ncount = 9\nper = \"1m\"\n",
        rate("key = [\"to\", \"session\"]\nsum = \"amount\"\nmax = 10.5\nper = \"1h\"\nthen = \"ask\"")
    );
    let mut b = Bench::new(&two);
    let a = arguments(r#"{"amount": 2.25, "to": "x"}"#);
    b.at(100).call(&Call { session: Some("s"), ..pay(&a) });
    b.at(160).call(&Call { session: Some("s"), ..pay(&a) });
    b.call(&pay(&arguments(r#"{"amount": 1, "to": "x"}"#)));
    b.at(200);
    let file = b.dir.outer().join("policy.toml");
    let of_r = |key: Value, used: Value, wait: i64, at: &str| {
        json!({
            "name": "r", "file": file, "line": 12, "key": key, "sum": "amount", "max": 10.5, "per": "1h", "then": "ask",
            "use": used, "oldest_leaves_in_ms": wait, "oldest_leaves_at": at,
        })
    };
    let second = json!({
        "name": "rate:2", "file": file, "line": 19, "key": {}, "sum": null, "max": 9, "per": "1m", "then": "deny",
        "use": 2, "oldest_leaves_in_ms": 20_000, "oldest_leaves_at": "1970-01-01T00:00:20.000Z",
    });
    assert_eq!(
        b.held(),
        [
            of_r(json!({"to": "x", "session": "s"}), json!(4.5), 3_500_000, "1970-01-01T00:58:20.000Z"),
            of_r(json!({"to": "x", "session": null}), json!(1), 3_560_000, "1970-01-01T00:59:20.000Z"),
            second,
        ]
    );
    let lines: Vec<String> = b
        .store
        .transaction(|tx, now| Ok(held(Some((tx, now)), &b.policies)?.iter().map(Held::to_line).collect()))
        .unwrap();
    let shown = file.display();
    assert_eq!(
        lines,
        [
            format!(
                "{shown}:12: rate 'r': 4.5 of amount of 10.5 in 1h with to 'x' and session 's', then ask, the oldest leaves in 58m 20s"
            ),
            format!(
                "{shown}:12: rate 'r': 1 of amount of 10.5 in 1h with to 'x' and no session, then ask, the oldest leaves in 59m 20s"
            ),
            format!("{shown}:19: rate 'rate:2': 2 of 9 in 1m, then deny, the oldest leaves in 20s"),
        ]
    );
    // Before anything was kept.
    let none = held(None, &b.policies).unwrap();
    assert_eq!(
        none.iter().map(|h| (h.to_json()["use"].clone(), h.to_json()["key"].clone())).collect::<Vec<_>>(),
        [(json!(0), Value::Null), (json!(0), Value::Null),]
    );
    assert_eq!(
        weigh(None, &b.policies, &pay(&a)).unwrap().iter().map(Weighed::verdict).collect::<Vec<_>>(),
        [Allow, Allow]
    );
}
