//! Names that are looked up, made and unique; sections over `extends`.

use crate::policy::load::load;
use crate::policy::load::tests::{Dir, context};
use crate::policy::model::{AlertOn, HaltOn, Oversight};

fn complaint(d: &Dir, text: &str) -> String {
    let path = d.put("p.toml", text);
    d.plain(&load(&path, &context()).expect_err(text))
}

fn good(d: &Dir, text: &str) -> Oversight {
    load(&d.put("p.toml", text), &context()).unwrap_or_else(|e| panic!("{e}\n{text}")).oversight
}

/// One rule and two tools; the text behind them starts on line 11.
fn with_tools(text: &str) -> String {
    format!(
        "allow = [\"ls\"]\n[tools.pay]\nargv = [\"pay\", \"{{amount}}\", \"{{to}}\"]\ndecision = \"allow\"\nparams.amount = {{ type = \"integer\" }}\n\
         params.to = {{ type = \"string\" }}\n[tools.note]\nargv = [\"note\"]\ndecision = \"allow\"\n{text}"
    )
}

fn rate(lines: &str) -> String {
    with_tools(&format!("[[rate]]\nper = \"1m\"\n{lines}"))
}

#[test]
fn names_are_those_of_rules_and_tools() {
    let d = Dir::new();
    good(&d, &rate("count = 1\nmatch = [\"allow:ls\", \"pay\"]"));
    for (text, want) in [
        (
            rate("count = 1\nmatch = \"pays\""),
            "D/p.toml:14:9: `pays` is neither a rule nor a tool of this policy; did you mean `pay`?",
        ),
        (
            rate("count = 1\nmatch = [\"pay\", \"refund\"]"),
            "D/p.toml:14:17: `refund` is neither a rule nor a tool of this policy; there are: note, pay, allow:ls",
        ),
        (
            with_tools("[[check]]\nname = \"c\"\nrun = \"c\"\non = \"request\"\nmatch = [\"nota\"]"),
            "D/p.toml:15:10: `nota` is neither a rule nor a tool of this policy; did you mean `note`?",
        ),
        (
            "[[rate]]\ncount = 1\nper = \"1s\"\nmatch = \"x\"".to_owned(),
            "D/p.toml:5:9: `x` is neither a rule nor a tool of this policy; there is nothing to choose from",
        ),
    ] {
        assert_eq!(complaint(&d, &text), want, "{text}");
    }
    let many: Vec<String> = (0..30).map(|i| format!("\"prog{i}\"")).collect();
    let text = format!("allow = [{}]\n[[rate]]\ncount = 1\nper = \"1s\"\nmatch = \"zzzzzz\"", many.join(","));
    assert!(complaint(&d, &text).ends_with("of this policy; there are 30, and none is like it"));
}

#[test]
fn names_of_an_extended_file_are_known_too() {
    let d = Dir::new();
    d.put("base.toml", &with_tools("[[rate]]\nname = \"base\"\ncount = 1\nper = \"1m\"\nmatch = \"mine\""));
    let o = good(
        &d,
        "extends = [\"base.toml\"]\n[[rate]]\nsum = \"amount\"\nmax = 1\nper = \"1m\"\nmatch = \"pay\"\n[[rule]]\nid = \"mine\"\nprogram = \"x\"\n\
         decision = \"allow\"\n[[alert]]\non = \"rate:base\"\nabove = 1\nper = \"1s\"\nrun = \"a\"",
    );
    assert_eq!(o.rates.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), ["base", "rate:2"]);
    assert_eq!(o.alerts[0].on, AlertOn::Rate("base".into()));
}

#[test]
fn what_is_added_up_or_told_apart_exists() {
    let d = Dir::new();
    good(&d, &rate("sum = \"amount\"\nmax = 5\nkey = [\"to\", \"agent\"]"));
    for (text, want) in [
        (
            rate("sum = \"amont\"\nmax = 5"),
            "D/p.toml:13:7: no tool that this rate speaks of has a parameter `amont`; did you mean `amount`?",
        ),
        (
            rate("sum = \"amount\"\nmax = 5\nmatch = [\"note\", \"allow:ls\"]"),
            "D/p.toml:13:7: no tool that this rate speaks of has a parameter `amount`; there is nothing to choose from",
        ),
        (
            rate("count = 1\nkey = [\"agent\", \"who\"]"),
            "D/p.toml:14:17: no tool that this rate speaks of has a parameter `who`; there are: amount, to",
        ),
        (
            rate("sum = \"to\"\nmax = 5"),
            "D/p.toml:13:7: `to` of the tool `pay` is no number, so nothing can be added up; name the tools that are meant in \
             `match`",
        ),
    ] {
        assert_eq!(complaint(&d, &text), want, "{text}");
    }
}

#[test]
fn names_are_made_and_are_unique() {
    let d = Dir::new();
    let rate = "[[rate]]\ncount = 1\nper = \"1s\"\n";
    let alert = "[[alert]]\non = \"denied\"\nabove = 1\nper = \"1s\"\nrun = \"a\"\n";
    let check = "[[check]]\nname = \"x\"\non = \"output\"\nrun = \"a\"\n";
    let o = good(&d, &format!("{rate}name = \"x\"\n{rate}{alert}{alert}name = \"x\"\n{check}"));
    assert_eq!(o.rates.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), ["x", "rate:2"]);
    assert_eq!(o.alerts.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["alert:1", "x"]);
    for (text, want) in [
        (
            format!("{rate}name = \"x\"\n{rate}name = \"x\""),
            "D/p.toml:9:8: the rate `x` is defined twice, first at D/p.toml:2; give this rate another `name`",
        ),
        (
            format!("{rate}name = \"rate:2\"\n{rate}"),
            "D/p.toml:6:1: the rate `rate:2` is defined twice, first at D/p.toml:2; give this rate another `name`",
        ),
        (
            format!("{alert}name = \"x\"\n{alert}name = \"x\""),
            "D/p.toml:13:8: the alert `x` is defined twice, first at D/p.toml:2; give this alert another `name`",
        ),
        (
            format!("{check}{check}"),
            "D/p.toml:7:8: the check `x` is defined twice, first at D/p.toml:2; give this check another `name`",
        ),
    ] {
        assert_eq!(complaint(&d, &text), want, "{text}");
    }
}

#[test]
fn an_alert_speaks_of_a_rate_that_there_is() {
    let d = Dir::new();
    let rate = "[[rate]]\ncount = 1\nper = \"1s\"\n";
    let on = |name: &str| {
        format!(
            "{rate}{rate}name = \"big\"\n[[alert]]\nabove = 1\nper = \"1s\"\nrun = \"a\"\non = \"{name}\""
        )
    };
    for (name, want) in [("rate:big", "big"), ("rate:1", "rate:1"), ("rate:rate:1", "rate:1")] {
        assert_eq!(good(&d, &on(name)).alerts[0].on, AlertOn::Rate(want.into()), "{name}");
    }
    assert_eq!(
        complaint(&d, &on("rate:bib")),
        "D/p.toml:13:6: no rate of this policy has the name `bib`; did you mean `big`?"
    );
}

#[test]
fn rules_and_tools_share_their_names() {
    let d = Dir::new();
    let tool = "[tools.git]\nargv = [\"git\"]\ndecision = \"allow\"\n";
    let rule = "[[rule]]\nid = \"git\"\nprogram = \"git\"\ndecision = \"allow\"\n";
    let hint = "rules and tools share their names: rename one";
    assert_eq!(
        complaint(&d, &format!("{tool}{rule}")),
        format!("D/p.toml:2:8: the tool `git` has the id of a rule, at D/p.toml:5; {hint}")
    );
    d.put("base.toml", tool);
    assert_eq!(
        complaint(&d, &format!("extends = [\"base.toml\"]\n{rule}")),
        format!("D/base.toml:2:8: the tool `git` has the id of a rule, at D/p.toml:3; {hint}")
    );
    good(&d, &format!("allow = [\"git\"]\n{tool}"));
}

#[test]
fn an_escalation_needs_its_time_and_a_time_before_the_end() {
    let d = Dir::new();
    for (lines, want) in [
        (
            "escalate = \"e\"",
            "3:12: `escalate` without `escalate_after`: it is not said when; write how long a request may go without an answer",
        ),
        (
            "escalate_after = \"1m\"",
            "3:18: `escalate_after` without `escalate`: there is nothing to run; name the program that is told",
        ),
        (
            "escalate = \"e\"\nescalate_after = \"10m\"",
            "4:18: by `escalate_after` the request has expired; make it shorter than `expires`, which is 10m unless written",
        ),
    ] {
        assert_eq!(complaint(&d, &format!("[approval]\n{lines}")), format!("D/p.toml:{want}"));
    }
    d.put("base.toml", "[approval]\nescalate = \"e\"\nescalate_after = \"10m\"\nexpires = \"1h\"");
    let o = good(&d, "extends = [\"base.toml\"]\n[approval]\nescalate_after = \"20m\"");
    assert_eq!(o.approval.escalate_after, Some(std::time::Duration::from_secs(1200)));
    assert_eq!(o.approval.at.unwrap().line, 3);
    assert_eq!(
        complaint(&d, "extends = [\"base.toml\"]\n[approval]\nescalate_after = \"2h\""),
        "D/p.toml:4:18: by `escalate_after` the request has expired; make it shorter than `expires`, which is 10m unless written"
    );
    assert_eq!(
        complaint(&d, "extends = [\"base.toml\"]\n[approval]\nexpires = \"5m\""),
        "D/base.toml:4:18: by `escalate_after` the request has expired; make it shorter than `expires`, which is 10m unless written"
    );
}

#[test]
fn lists_append_and_the_last_word_counts() {
    let d = Dir::new();
    d.put(
        "base.toml",
        "[kill_switch]\nfile = \"a\"\n[state]\ndir = \"a\"\n[approval]\nask = \"tty\"\nmax_pending = 2\n[session]\nhalt_on = [\"exit\", \"denied:5\"]\n\
         required = true\nmax_runs = 4\n[[check]]\nname = \"first\"\non = \"output\"\nrun = \"a\"",
    );
    let base = "extends = [\"base.toml\"]\n";
    let kept = good(&d, base);
    assert_eq!(kept.kill_switch.unwrap().file, d.0.join("a"));
    let kept = kept.session.unwrap();
    assert!(kept.required && kept.max_runs == Some(4));
    let o = good(
        &d,
        &format!(
            "{base}[kill_switch]\nfile = \"b\"\n[state]\ndir = \"b\"\n[approval]\nask = \"deny\"\n[session]\nhalt_on = [\"denied:3\", \"exit\", \"check\"]\n\
             required = false\nmax_wall_time = \"1h\"\n[[check]]\nname = \"second\"\non = \"output\"\nrun = \"a\""
        ),
    );
    assert_eq!(o.kill_switch.unwrap().file, d.0.join("b"));
    assert_eq!(o.state.unwrap().dir, d.0.join("b"));
    assert_eq!((o.approval.ask, o.approval.max_pending), (crate::policy::model::AskBy::Deny, 2));
    let session = o.session.unwrap();
    assert_eq!(session.halt_on, [HaltOn::Check, HaltOn::Exit, HaltOn::Denied(3)]);
    assert!(!session.required && session.max_runs == Some(4) && session.max_wall_time.is_some());
    assert_eq!(o.checks.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["first", "second"]);
}

#[test]
fn no_run_can_write_the_store_or_the_switch() {
    let d = Dir::new();
    let hint = "keep it where no run can reach it";
    let write = |section: &str| format!("[filesystem]\nwrite = [\"out\"]\n{section}");
    let rule = "[[rule]]\nid = \"r\"\nprogram = \"p\"\ndecision = \"allow\"\nfilesystem = { write = [\"out/run\"] }\n";
    for (text, want) in [
        (
            write("[state]\ndir = \"out/s\""),
            "D/p.toml:5:1: the state lies in D/out, which `write` lets the run write",
        ),
        (
            write("[kill_switch]\nfile = \"out/stop\""),
            "D/p.toml:5:1: the kill switch lies in D/out, which `write` lets the run write",
        ),
        (
            format!("{rule}[state]\ndir = \"out\""),
            "D/p.toml:8:1: the state lies in D/out/run, which `write` lets the run write",
        ),
    ] {
        assert_eq!(complaint(&d, &text), format!("{want}; {hint}"), "{text}");
        good(&d, &format!("sandbox = {{ profile = \"host\" }}\n{text}"));
    }
    good(&d, &write("[state]\ndir = \"state\""));
}
