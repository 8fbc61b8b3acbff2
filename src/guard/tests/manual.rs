//! The manual page is held to what checks really read, and its example runs.

use std::collections::BTreeSet;

use super::*;
use crate::guard::document;

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("man/guardexec-check.7")).unwrap()
}

fn section(title: &str) -> String {
    let page = page();
    let below = page.split_once(&format!("\n.Sh {title}\n")).unwrap_or_else(|| panic!("no {title}")).1;
    below.split("\n.Sh ").next().unwrap().to_owned()
}

/// The keys that a section explains, in its order.
fn keys(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_prefix(".It Va ")).map(str::to_owned).collect()
}

#[test]
fn every_key_of_the_document_is_in_the_manual_in_its_order() {
    let (argv, asker) = (words("ls"), asker());
    let about = subject(&argv, &asker);
    let names = |bytes: Vec<u8>| -> Vec<String> {
        let document: Value = serde_json::from_slice(&bytes).unwrap();
        document.as_object().unwrap().keys().cloned().collect()
    };
    let section = section("THE DOCUMENT");
    let (request, output) = section.split_once("A check on an output").expect("two lists");
    let on = |on| check("c", on, &[]);
    let of_request = names(document::request(&about, &on(CheckOn::Request)));
    assert_eq!(keys(request), of_request);
    let out = Output { status: "ok", exit_code: None, stdout: b"", stderr: b"", truncated: false };
    let of_output = names(document::output(&about, &on(CheckOn::Output), &out));
    assert_eq!(keys(output), of_output[of_request.len()..]);
    assert_eq!(of_output[..of_request.len()], of_request);
}

#[test]
fn every_verdict_and_key_of_the_answer_is_in_the_manual() {
    let text = section("THE ANSWER");
    assert_eq!(keys(&text), ["verdict", "reason", "replacement"]);
    let verdicts: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix(".It Ql \\(dq")?.strip_suffix("\\(dq")).collect();
    assert_eq!(verdicts, ["pass", "warn", "rewrite", "ask", "block"].into());
}

#[test]
fn every_variable_of_its_environment_is_in_the_manual() {
    let section = section("HOW IT IS RUN");
    let documented: BTreeSet<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix(".It Ev "))
        .flat_map(|line| line.split(" , "))
        .collect();
    assert_eq!(documented, ["PATH", "HOME", "USER", "LANG", "TMPDIR", "GUARDEXEC_HOOK"].into());
}

#[test]
fn its_example_works() {
    if !Path::new("/usr/bin/python3").exists() {
        eprintln!("SKIPPED: /usr/bin/python3 is not installed");
        return;
    }
    let page = page();
    let example =
        page.split_once("\n.Bd -literal -offset indent\n").unwrap().1.split("\n.Ed\n").next().unwrap();
    apart(|bench| {
        let path = bench.file("secret-names", example, 0o755);
        let checks = [check("secret-names", CheckOn::Output, &[&path])];
        assert_eq!(judged(&checks, b"nothing", b"of it").ruling, Ruling::Pass);
        let objection = blocked(judged(&checks, b"", b"about BlueBird").ruling);
        assert_eq!((objection.reason.as_str(), objection.failed), ("it names a secret project", false));
    });
}
