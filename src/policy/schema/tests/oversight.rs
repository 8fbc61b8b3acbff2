//! The switch, approvals, rates, alerts, sessions, checks: complaints, and what good text comes to.

use std::path::Path;
use std::time::Duration;

use super::{FULL, parse, refuse};
use crate::policy::model::{AlertOn, AskBy, CheckOn, HaltOn, Measure, RateKey, Severity, Verdict};
use crate::policy::schema::File;

fn good(text: &str) -> File {
    parse(&format!("version = 1\n{text}")).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn every_key_comes_out_as_written() {
    let o = parse(FULL).unwrap().oversight;
    assert_eq!(o.kill_switch.unwrap().file, Path::new("/pol/dir/stop"));
    assert_eq!(o.state.unwrap().dir, Path::new("/pol/dir/state"));
    let AskBy::Program(ask) = o.approval.ask.unwrap() else { panic!("no program") };
    assert_eq!(ask.argv, ["/pol/dir/hooks/confirm", "--rules", "/pol/dir/hooks/rules", "plain"]);
    assert_eq!(o.approval.timeout, Some(Duration::from_secs(5)));
    assert_eq!(o.approval.expires, Some(Duration::from_secs(120)));
    assert_eq!(o.approval.max_pending, Some(3));
    assert_eq!(o.approval.notify.unwrap().argv, ["/home/u/bin/notify"]);
    assert_eq!(o.approval.escalate.unwrap().0.argv, ["/opt/acme/page"]);
    assert_eq!(o.approval.escalate_after.unwrap().0, Duration::from_secs(60));
    let rate = &o.rates[0].rate;
    assert_eq!(rate.name, "refunds");
    assert_eq!(rate.matches.as_deref(), Some(&["delete_project".to_owned(), "git-read".to_owned()][..]));
    assert_eq!(rate.key, [RateKey::Agent, RateKey::Session, RateKey::Param("name".into())]);
    assert_eq!((&rate.measure, rate.max.as_str()), (&Measure::Sum("amount".into()), "200000.50"));
    assert_eq!((rate.per, rate.then), (Duration::from_secs(3600), Verdict::Ask));
    assert_eq!(rate.agents.as_deref(), Some(&["builder".to_owned()][..]));
    assert_eq!(rate.reason.as_deref(), Some("a lot"));
    let rate = &o.rates[1].rate;
    assert_eq!((&rate.measure, rate.max.as_str(), rate.then), (&Measure::Count, "5", Verdict::Deny));
    assert!(rate.matches.is_none() && rate.key.is_empty() && rate.agents.is_none());
    let alert = &o.alerts[0].alert;
    assert_eq!((alert.name.as_str(), alert.above.as_str()), ("many", "0.5"));
    assert_eq!(alert.run.argv, ["/pol/dir/hooks/alert", "many"]);
    assert_eq!(o.session.halt_on.len(), 7);
    assert_eq!(o.session.halt_on[6], HaltOn::Denied(3));
    assert_eq!(o.session.required, Some(true));
    assert_eq!(o.session.max_runs, Some(20));
    assert_eq!(o.session.max_wall_time, Some(Duration::from_secs(7200)));
    let check = &o.checks[0].check;
    assert_eq!((check.name.as_str(), check.on), ("owner", CheckOn::Request));
    assert_eq!(check.matches.as_deref(), Some(&["delete_project".to_owned()][..]));
    assert_eq!(check.run.argv, ["/pol/dir/checks/owner", "/home/u/owners.db"]);
    assert_eq!((check.timeout, check.severity), (Duration::from_secs(2), Severity::Critical));
    assert!(check.rewrites);
}

#[test]
fn what_is_not_written_takes_its_default() {
    let check =
        good("[[check]]\nname = \"c\"\non = \"output\"\nrun = \"c\"").oversight.checks.remove(0).check;
    assert_eq!((check.on, check.timeout), (CheckOn::Output, Duration::from_secs(30)));
    assert_eq!((check.severity, check.rewrites, check.matches), (Severity::Medium, false, None));
    assert_eq!(check.run.argv, ["/pol/dir/c"]);
    for (text, same) in [("key = \"none\"", true), ("key = \"agent\"", false)] {
        let rate = good(&format!("[[rate]]\ncount = 1\nper = \"1s\"\n{text}")).oversight.rates.remove(0).rate;
        assert_eq!(rate.key.is_empty(), same, "{text}");
    }
    let o = good("[[rate]]\ncount = 1\nper = \"1s\"\nmatch = \"x\"").oversight;
    assert_eq!(o.rates[0].rate.matches, Some(vec!["x".to_owned()]));
    let o = good("[[alert]]\non = \"rate:x\"\nabove = 1\nper = \"1s\"\nrun = \"a\"").oversight;
    assert_eq!(o.alerts[0].alert.on, AlertOn::Rate("rate:x".into()));
}

#[test]
fn who_is_asked() {
    let ask = |text: &str| good(&format!("[approval]\nask = {text}")).oversight.approval.ask.unwrap();
    assert_eq!(ask("\"queue\""), AskBy::Queue);
    assert_eq!(ask("\"tty\""), AskBy::Tty);
    assert_eq!(ask("\"deny\""), AskBy::Deny);
    for (text, path) in [
        ("\"./confirm\"", "/pol/dir/confirm"),
        ("\"../confirm\"", "/pol/confirm"),
        ("\"hooks/confirm\"", "/pol/dir/hooks/confirm"),
        ("\"~/confirm\"", "/home/u/confirm"),
        ("\"/confirm\"", "/confirm"),
        ("[\"confirm\"]", "/pol/dir/confirm"),
    ] {
        let AskBy::Program(hook) = ask(text) else { panic!("{text}") };
        assert_eq!(hook.argv, [path], "{text}");
        assert_eq!(hook.at.line, 3);
    }
}

#[test]
fn hooks() {
    let words = "[\"a\", \"../b\", \"./c/d\", \"/e/\", \"~/f\", \"g/h\", \"--i=./j\", \"\"]";
    let hook = good(&format!("[approval]\nnotify = {words}")).oversight.approval.notify.unwrap();
    let paths = ["/pol/dir/a", "/pol/b", "/pol/dir/c/d", "/e", "/home/u/f", "g/h", "--i=./j", ""];
    assert_eq!(hook.argv, paths);
    refuse(&[
        ("[approval]\nnotify = []", "3:10: `notify` in [approval] is empty: it has to name a program"),
        (
            "[approval]\nnotify = 1",
            "3:10: `notify` in [approval] must be a program's path or a list of it and its arguments, not a whole number",
        ),
        ("[approval]\nnotify = \"\"", "3:10: a path cannot be empty"),
        ("[approval]\nnotify = \"/\"", "3:10: `notify` in [approval] is no program; name a file"),
        ("[approval]\nnotify = \"./a\\tb\"", "3:10: `./a b` holds a control character"),
        ("[approval]\nnotify = [\"./a\", \"b\\u001b\"]", "3:18: `b\\u{1b}` holds a control character"),
        (
            "[approval]\nnotify = [\"./a\", 1]",
            "3:18: an entry of `notify` in [approval] must be a string, not a whole number",
        ),
        (
            "[approval]\nnotify = [\"./a\", \"/b/../c\"]",
            "3:18: `..` after a name in the path `/b/../c`; write the path without it: a link could change what it means",
        ),
    ]);
}

#[test]
fn the_switch_and_the_store() {
    refuse(&[
        ("kill_switch = \"stop\"", "2:15: `kill_switch` must be a table, not a string"),
        ("[kill_switch]", "2:1: `file` is missing in [kill_switch]"),
        ("[kill_switch]\npath = \"x\"", "3:1: unknown key `path` in [kill_switch]; there are: file"),
        ("[kill_switch]\nfile = \"/\"", "3:8: `file` in [kill_switch] cannot be the root directory"),
        ("[state]", "2:1: `dir` is missing in [state]"),
        ("[state]\ndir = 1", "3:7: `dir` in [state] must be a string, not a whole number"),
    ]);
}

#[test]
fn approvals() {
    let never = "no answer in time is always a denial; no key changes that";
    for key in ["on_timeout", "default", "timeout_action"] {
        let want = format!("3:1: unknown key `{key}` in [approval]; {never}");
        refuse(&[(&format!("[approval]\n{key} = \"allow\""), &want)]);
    }
    refuse(&[
        ("[approval]\nexpire = \"1m\"", "3:1: unknown key `expire` in [approval]; did you mean `expires`?"),
        (
            "[approval]\nask = \"confirm\"",
            "3:7: `ask` in [approval] cannot be \"confirm\"; there are: queue, tty, deny; a program is written as a path, \
             such as `./confirm`",
        ),
        (
            "[approval]\nask = true",
            "3:7: `ask` in [approval] must be a program's path or a list of it and its arguments, not true or false",
        ),
        ("[approval]\ntimeout = \"0s\"", "3:11: `timeout` in [approval] cannot be 0"),
        (
            "[approval]\nexpires = \"none\"",
            "3:11: `expires` in [approval]: \"none\" must be a whole number and a unit, nothing else",
        ),
        ("[approval]\nmax_pending = 0", "3:15: `max_pending` in [approval] must be from 1 to 10000"),
    ]);
}

#[test]
fn sessions() {
    refuse(&[
        (
            "[session]\nhalt_on = [\"exits\"]",
            "3:12: an entry of `halt_on` in [session] cannot be \"exits\"; did you mean `exit`?",
        ),
        (
            "[session]\nhalt_on = [\"anything\"]",
            "3:12: an entry of `halt_on` in [session] cannot be \"anything\"; there are: sandbox, check, workspace, timeout, \
             error, exit, denied:N",
        ),
        (
            "[session]\nhalt_on = [\"exit\", \"exit\"]",
            "3:20: the same stands twice in `halt_on` in [session]",
        ),
        (
            "[session]\nhalt_on = [\"denied:1\", \"denied:2\"]",
            "3:24: the same stands twice in `halt_on` in [session]",
        ),
        ("[session]\nmax_runs = 0", "3:12: `max_runs` in [session] must be from 1 to 1000000000000"),
        (
            "[session]\nrequired = 1",
            "3:12: `required` in [session] must be true or false, not a whole number",
        ),
    ]);
    for bad in
        ["denied", "denied:", "denied:0", "denied:-1", "denied:+1", "denied:x", "denied:99999999999999999999"]
    {
        refuse(&[(
            &format!("[session]\nhalt_on = [\"{bad}\"]"),
            "3:12: `denied` needs the number of denials that halts; such as \"denied:3\"; at least 1",
        )]);
    }
}

/// A rate without what it counts, on line 2; the next lines are its own.
fn rate(lines: &str) -> String {
    format!("[[rate]]\nper = \"1m\"\n{lines}")
}

#[test]
fn rates() {
    refuse(&[
        ("rate = 1", "2:8: `rate` must be a list of tables; write `[[rate]]`"),
        ("[rate]", "2:1: `rate` must be a list of tables; write `[[rate]]`"),
        ("[[rate]]\ncount = 1", "2:1: `per` is missing in [[rate]]"),
        ("[[rate]]\ncount = 1\nper = \"500ms\"", "4:7: `per` in [[rate]] must be at least \"1s\""),
    ]);
    let cases = [
        (
            "",
            "2:1: a rate needs `count` or `sum`; `count = N` for at most N calls, or `sum = \"PARAM\"` with `max`",
        ),
        ("count = 1\nsum = \"a\"", "5:7: a rate has `count` or `sum`, not both"),
        ("count = 0", "4:9: `count` in [[rate]] must be from 1 to 1000000000000"),
        ("count = \"1\"", "4:9: `count` in [[rate]] must be a whole number, not a string"),
        ("count = false", "4:9: `count = false` counts nothing; write the most as `count = N`"),
        ("count = true", "2:1: `max` is missing in [[rate]]"),
        ("count = true\nmax = 0", "5:7: `max` in [[rate]] must be from 1 to 1000000000000"),
        (
            "count = 1\nmax = 1",
            "5:7: `max` beside `count = N`, which is the most already; leave one of the two out, or write `count = true`",
        ),
        ("sum = \"a\"", "2:1: `max` is missing in [[rate]]"),
        ("sum = 1\nmax = 1", "4:7: `sum` in [[rate]] must be a string, not a whole number"),
        ("sum = \"a\"\nmax = -0.5", "5:7: `max` in [[rate]] cannot be negative"),
        (
            "sum = \"a\"\nmax = 0.1234567891",
            "5:7: `max` in [[rate]] has more than 18 digits before the point or 9 behind it; nothing is added up more exactly \
             than that",
        ),
        ("sum = \"a\"\nmax = inf", "5:7: `max` in [[rate]] must be a finite number"),
        (
            "count = 1\nmatch = []",
            "5:9: `match` in [[rate]] is empty: it would speak of nothing; leave the key out to speak of all",
        ),
        ("count = 1\nmatch = [\"a\", \"a\"]", "5:15: `a` stands twice in `match` in [[rate]]"),
        ("count = 1\nkey = [\"agent\", \"agent\"]", "5:17: the same stands twice in `key` in [[rate]]"),
        ("count = 1\nkey = [\"none\"]", "5:8: `none` stands alone; leave it out, or write `key = \"none\"`"),
        ("count = 1\nthen = \"allow\"", "5:8: `then` in [[rate]] cannot be \"allow\"; there are: deny, ask"),
        ("count = 1\nname = \"a\\n\"", "5:8: a rate's name cannot hold a control or invisible character"),
        (
            "count = 1\nwindow = \"1m\"",
            "5:1: unknown key `window` in [[rate]]; there are: name, match, agents, key, count, sum, max, per, then, reason",
        ),
    ];
    for (lines, want) in cases {
        refuse(&[(&rate(lines), want)]);
    }
}

#[test]
fn alerts_and_checks() {
    let alert = |lines: &str| format!("[[alert]]\nper = \"1m\"\nrun = \"a\"\n{lines}");
    let check = |lines: &str| format!("[[check]]\nname = \"c\"\nrun = \"a\"\n{lines}");
    let cases = [
        (alert("above = 1"), "2:1: `on` is missing in [[alert]]"),
        (alert("on = \"denied\""), "2:1: `above` is missing in [[alert]]"),
        (
            alert("on = \"denial\"\nabove = 1"),
            "5:6: `on` in [[alert]] cannot be \"denial\"; did you mean `denied`?",
        ),
        (
            alert("on = \"check\"\nabove = 0.5"),
            "6:9: `above` in [[alert]] must be a whole number, not a decimal number",
        ),
        (alert("on = \"rate:x\"\nabove = -1"), "6:9: `above` in [[alert]] cannot be negative"),
        (check(""), "2:1: `on` is missing in [[check]]"),
        (check("on = \"input\""), "5:6: `on` in [[check]] cannot be \"input\"; there are: request, output"),
        (
            check("on = \"output\"\nseverity = \"fatal\""),
            "6:12: `severity` in [[check]] cannot be \"fatal\"; there are: low, medium, high, critical",
        ),
        (
            check("on = \"output\"\ntimeout = 5"),
            "6:11: `timeout` in [[check]] must be a duration such as \"5s\", not a whole number",
        ),
        ("[[check]]\non = \"output\"\nrun = \"a\"".into(), "2:1: `name` is missing in [[check]]"),
        ("[[check]]\non = \"output\"\nname = \"a\"".into(), "2:1: `run` is missing in [[check]]"),
    ];
    for (text, want) in cases {
        refuse(&[(&text, want)]);
    }
}
