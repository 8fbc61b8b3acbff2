//! What `--help` says: the flags and the verbs that really exist.

use std::process::Command;

use crate::{Names, harness};

/// The help of a verb (no words: of guardexec itself).
fn text(words: &[&str]) -> String {
    let done = Command::new(harness::binary()).args(words).arg("--help").output().expect("start guardexec");
    let text = String::from_utf8(done.stdout).expect("UTF-8");
    assert!(
        done.status.success() && !text.is_empty(),
        "{words:?} --help: {}{text}",
        String::from_utf8_lossy(&done.stderr)
    );
    text
}

/// The verbs listed below `Verbs:` (guardexec's own) or `Commands:` (a verb with verbs); `help` is the parser's.
fn listed(text: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|l| !["Verbs:", "Commands:"].contains(&l.trim_end())).skip(1);
    lines
        .take_while(|l| !l.is_empty())
        .filter(|l| l.starts_with("  ") && !l.starts_with("   "))
        .filter_map(|l| l.split_whitespace().next())
        .filter(|v| *v != "help")
        .map(str::to_owned)
        .collect()
}

/// Every verb with its help; a verb with verbs of its own is only the way to them.
fn walk(way: &[&str], found: &mut Vec<(String, String)>, leaf: &mut Names) {
    let help = text(way);
    let verbs = listed(&help);
    if verbs.is_empty() && !way.is_empty() {
        leaf.insert(way.join(" "));
    }
    found.push((way.join(" "), help));
    for verb in &verbs {
        let mut next = way.to_vec();
        next.push(verb);
        walk(&next, found, leaf);
    }
}

/// The verbs that do something, such as `check` and `audit verify`.
pub fn verbs() -> Names {
    let mut leaf = Names::new();
    walk(&[], &mut Vec::new(), &mut leaf);
    leaf
}

/// Every flag of guardexec and of every verb, long and short.
pub fn flags() -> Names {
    let mut found = Vec::new();
    walk(&[], &mut found, &mut Names::new());
    let mut flags = Names::new();
    for (_, help) in &found {
        flags.extend(help.lines().map(str::trim_start).filter(|l| l.starts_with('-')).flat_map(declared));
    }
    flags
}

/// The flags that a line of a help declares: all before its description, which two blanks set off.
fn declared(line: &str) -> Names {
    flags_in(line.split("  ").next().unwrap_or_default())
}

/// The flags in a text, as they stand there.
pub fn flags_in(text: &str) -> Names {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .filter(|w| match w.strip_prefix("--") {
            Some(long) => long.starts_with(|c: char| c.is_ascii_alphabetic()),
            None => w.len() == 2 && w.starts_with('-') && w.ends_with(|c: char| c.is_ascii_alphabetic()),
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_help_is_read() {
    let help = "Run one command\n\nUsage: x [OPTIONS]\n\nCommands:\n  check  Load it\n  audit  See\n  help   Print\n\nOptions:\n  -p, --policy <FILE>  Like --other\n      --timeout <D>\n          Long, -x too\n";
    assert_eq!(listed(help), ["check", "audit"]);
    assert_eq!(declared("-p, --policy <FILE>  Like --other"), Names::from(["-p".into(), "--policy".into()]));
    assert_eq!(
        flags_in("guardexec --output raw -C dir - -- x"),
        Names::from(["--output".into(), "-C".into()])
    );
}
