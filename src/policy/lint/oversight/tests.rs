//! Every finding about what stands over decisions, and policies that have none.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::policy::lint::lint;
use crate::policy::load::load;
use crate::policy::load::tests::{Dir, context};

/// The same of a policy that says where its state is, unless it says so itself.
fn findings(d: &Dir, text: &str) -> Vec<String> {
    let state = if text.contains("[state]") { "" } else { "\n[state]\ndir = \"state\"" };
    findings_of(d, &format!("{text}{state}"))
}

/// `LINE CODE: MESSAGE` of every finding; files of `d` are `D/...`.
fn findings_of(d: &Dir, text: &str) -> Vec<String> {
    let policy = load(&d.put("p.toml", text), &context()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let plain = |s: &str| s.replace(&d.0.display().to_string(), "D");
    lint(&policy).iter().map(|f| format!("{} {}: {}", f.at.line, f.code, plain(&f.message))).collect()
}

fn script(d: &Dir, name: &str, mode: u32) {
    let path = d.raw(name, b"#!/bin/sh\n");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn notify(words: &str) -> String {
    format!("[approval]\nnotify = {words}")
}

#[test]
fn programs_that_cannot_be_run() {
    let d = Dir::new();
    assert_eq!(
        findings(&d, &notify("\"./none\"")),
        ["3 hook_unusable: `D/none` cannot be run: No such file or directory (os error 2)"]
    );
    script(&d, "plain", 0o600);
    assert_eq!(
        findings(&d, &notify("\"./plain\"")),
        ["3 hook_unusable: `D/plain` cannot be run: it is not executable"]
    );
    assert_eq!(
        findings(&d, &notify("\"/usr\"")),
        ["3 hook_unusable: `/usr` cannot be run: it is a directory"]
    );
    script(&d, "good", 0o700);
    assert_eq!(findings(&d, &notify("[\"./good\", \"./none\", \"none\"]")), [""; 0]);
    // The same program in several places is looked at once.
    let twice = "[approval]\nnotify = \"none\"\n[[check]]\nname = \"c\"\non = \"output\"\nrun = \"none\"";
    assert_eq!(findings(&d, twice).len(), 1);
}

#[test]
fn files_that_others_can_write() {
    let d = Dir::new();
    script(&d, "open", 0o777);
    let want = "`D/open` is not trusted when it is used: `D/open` can be changed by its group or by others (mode 0777)";
    assert_eq!(findings(&d, &notify("\"./open\"")), [format!("3 untrusted_file: {want}")]);
    script(&d, "good", 0o700);
    assert_eq!(findings(&d, &notify("[\"./good\", \"./open\"]")), [format!("3 untrusted_file: {want}")]);
    fs::create_dir(d.0.join("wide")).unwrap();
    fs::set_permissions(d.0.join("wide"), fs::Permissions::from_mode(0o777)).unwrap();
    for text in ["[state]\ndir = \"wide\"", "[kill_switch]\nfile = \"wide/stop\""] {
        let found = findings(&d, text);
        assert!(found.len() == 1 && found[0].starts_with("3 untrusted_file: `D/wide"), "{found:?}");
    }
    assert_eq!(findings(&d, "[state]\ndir = \"new\"\n[kill_switch]\nfile = \"stop\""), [""; 0]);
}

#[test]
fn a_switch_without_its_directory() {
    let d = Dir::new();
    assert_eq!(
        findings(&d, "[kill_switch]\nfile = \"run/stop\""),
        [
            "3 switch_directory_missing: the directory of the kill switch `D/run/stop` does not exist, which stops everything"
        ]
    );
}

#[test]
fn an_asker_that_could_approve_itself() {
    let d = Dir::new();
    let host = "[sandbox]\nprofile = \"host\"\n";
    let rule = "[[rule]]\nid = \"r\"\nprogram = \"ls\"\ndecision = \"ask\"\n";
    let want = "self_approval: under the profile host a run of the same user can answer its own requests";
    assert_eq!(findings(&d, &format!("{host}{rule}")), [format!("4 {want}")]);
    assert_eq!(findings(&d, &format!("{host}{rule}[approval]\nexpires = \"1m\"")), [format!("8 {want}")]);
    let rate = "[[rate]]\ncount = 1\nper = \"1m\"\nthen = \"ask\"";
    assert_eq!(findings(&d, &format!("{host}{rate}")), [format!("1 {want}")]);
    for fine in [rule.to_owned(), format!("{host}{rule}[approval]\nask = \"tty\""), host.to_owned()] {
        assert_eq!(findings(&d, &fine), [""; 0], "{fine}");
    }
}

#[test]
fn programs_that_are_never_told() {
    let d = Dir::new();
    script(&d, "good", 0o700);
    let text = "[approval]\nask = \"tty\"\nescalate = \"./good\"\nescalate_after = \"1m\"";
    assert_eq!(
        findings(&d, text),
        ["4 never_told: a program is to be told of filed requests, and this `ask` files none"]
    );
    assert_eq!(findings(&d, &text.replace("tty", "queue")), [""; 0]);
}

#[test]
fn counts_that_the_caller_can_begin_afresh() {
    let d = Dir::new();
    script(&d, "good", 0o700);
    let rate = "[[rate]]\ncount = 1\nper = \"1m\"\n";
    let session = "[session]\nmax_runs = 1\n";
    let alert = "[[alert]]\non = \"denied\"\nabove = 1\nper = \"1m\"\nrun = \"./good\"\n";
    let says = "afresh wherever the caller says with --state or XDG_STATE_HOME";
    for (text, want) in [
        (format!("{session}{rate}"), format!("4 state_of_the_caller: its rates begin {says}")),
        (format!("{alert}{session}"), format!("7 state_of_the_caller: its sessions begin {says}")),
        (alert.to_owned(), format!("2 state_of_the_caller: its alerts begin {says}")),
    ] {
        assert_eq!(findings_of(&d, &text), [want]);
        assert_eq!(findings(&d, &text), [""; 0]);
    }
    assert_eq!(findings_of(&d, "[approval]\nask = \"queue\""), [""; 0]);
}

/// Two tools, of which only the first has an amount; the rate starts on line 10.
fn rate(amount: &str, lines: &str) -> String {
    format!(
        "allow = [\"ls\"]\n[tools.pay]\nargv = [\"pay\", \"{{amount}}\"]\ndecision = \"allow\"\nparams.amount = {{ type = \"integer\"{amount} }}\n\
         [tools.note]\nargv = [\"note\"]\ndecision = \"allow\"\n[[rate]]\nper = \"1m\"\n{lines}"
    )
}

#[test]
fn rates_that_miss_what_they_count_by() {
    let d = Dir::new();
    let positive = ", min_value = 0";
    assert_eq!(findings(&d, &rate(positive, "sum = \"amount\"\nmax = 5")), [""; 0]);
    assert_eq!(
        findings(
            &d,
            &rate(
                positive,
                "name = \"r\"\ncount = 5\nkey = \"amount\"\nmatch = [\"pay\", \"note\", \"allow:ls\"]"
            )
        ),
        [
            "10 rate_without_parameter: the rate `r` counts by `amount`, which `note` does not have",
            "10 rate_without_parameter: the rate `r` counts by `amount`, which `allow:ls` does not have",
        ]
    );
    let sum = "sum = \"amount\"\nmax = 5";
    assert_eq!(
        findings(&d, &rate(", min_value = 0, required = false", sum)),
        [
            "10 rate_parameter_optional: the rate `rate:1` counts by `amount`, which a call of `pay` may leave out"
        ]
    );
    assert_eq!(findings(&d, &rate(", min_value = 0, default = 1", sum)), [""; 0]);
    let negative =
        "10 sum_of_negatives: the rate `rate:1` adds up `amount` of the tool `pay`, which may be negative";
    assert_eq!(findings(&d, &rate("", sum)), [negative]);
    assert_eq!(findings(&d, &rate(", min_value = -1", sum)), [negative]);
    assert_eq!(findings(&d, &rate(", choices = [5]", sum)), [""; 0]);
    assert_eq!(findings(&d, &rate("", "count = 1\nkey = \"amount\"")), [""; 0]);
}

#[test]
fn alerts_that_never_fire() {
    let d = Dir::new();
    script(&d, "good", 0o700);
    let text = |then: &str, above: &str| {
        format!(
            "[[rate]]\ncount = 10\nper = \"1m\"\nthen = \"{then}\"\n[[alert]]\non = \"rate:1\"\nabove = {above}\nper = \"1m\"\nrun = \"./good\"\n\
             [sandbox]\nprofile = \"strict\""
        )
    };
    assert_eq!(
        findings(&d, &text("deny", "10")),
        [
            "6 alert_never_fires: the alert `alert:1` waits for more than 10, and the rate `rate:1` (D/p.toml:2) lets no more \
             than 10 pass"
        ]
    );
    assert_eq!(findings(&d, &text("deny", "9.5")), [""; 0]);
    assert_eq!(findings(&d, &text("ask", "10")), [""; 0]);
}

#[test]
fn figures_that_never_ask() {
    let d = Dir::new();
    let tool = |decision: &str, param: &str| {
        format!(
            "[tools.pay]\nargv = [\"pay\", \"{{n}}\"]\ndecision = \"{decision}\"\nparams.n = {{ type = \"number\", ask_above = 10{param} }}"
        )
    };
    let start = "2 never_asks: `ask_above = 10` of `n` in the tool `pay` changes nothing:";
    assert_eq!(
        findings(&d, &tool("ask", "")),
        [format!("{start} the tool decides ask whatever it is given")]
    );
    assert_eq!(
        findings(&d, &tool("allow", ", max_value = 10.0")),
        [format!("{start} no value above it passes `max_value = 10.0`")]
    );
    assert_eq!(findings(&d, &tool("allow", ", max_value = 10.5")), [""; 0]);
    assert_eq!(findings(&d, &tool("allow", "")), [""; 0]);
}

#[test]
fn what_a_tool_reads_on_its_input_is_used() {
    let d = Dir::new();
    let tool = "[tools.put]\nargv = [\"put\"]\ndecision = \"allow\"\nparams.text = { type = \"string\" }\n";
    assert_eq!(
        findings(&d, tool),
        ["2 unused_parameter: the parameter `text` of the tool `put` is used nowhere"]
    );
    assert_eq!(findings(&d, &format!("{tool}stdin = \"{{text}}\"")), [""; 0]);
    let action = "[tools.get]\naction = \"read_file\"\nroot = \".\"\ndecision = \"allow\"";
    assert_eq!(findings(&d, action), [""; 0]);
}
