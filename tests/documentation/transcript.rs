//! Transcripts: commands with the output they show, compared with what came.
//!
//! In a shown output `...` stands for any text within its line, and a line that is only `...` for any number of lines.
//! Times, ids, hashes, device numbers and the kernel's release are the same thing on both sides.

use std::path::Path;

use regex::Regex;

/// One command and what it shows.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// A line for a shell.
    pub command: String,
    /// Ends with a newline unless empty.
    pub output: String,
}

/// The steps of a console block.
pub fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { command: command.to_owned(), output: String::new() }),
            (None, Some(step)) => step.output.extend([line, "\n"]),
            (None, None) => panic!("a console block starts with {line:?}, not with a command"),
        }
    }
    steps
}

/// Whether what came is what was shown.
pub fn matches(shown: &str, came: &str, dir: &Path) -> bool {
    let came = normal(&came.replace(dir.to_str().expect("UTF-8"), "."));
    let mut pattern = String::from(r"\A");
    for line in normal(shown).lines() {
        if line == "..." {
            pattern.push_str("(?:[^\n]*\n)*");
        } else {
            pattern.push_str(&regex::escape(line).replace(r"\.\.\.", "[^\n]*"));
            pattern.push('\n');
        }
    }
    pattern.push_str(r"\z");
    Regex::new(&pattern).expect("a pattern of literals and wildcards").is_match(&came)
}

fn normal(text: &str) -> String {
    let rules = [
        (r#""run_id":"[^"]*""#, r#""run_id":"ID""#),
        (r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)", "TIME"),
        (
            r#""(duration_ms|cpu_user_ms|cpu_system_ms|max_rss_bytes|processes|device|inode)":[0-9]+"#,
            "\"$1\":N",
        ),
        (r"[0-9a-f]{64}", "HASH"),
        (r#"Linux [0-9]+\.[0-9]+[^ "\\\n]*"#, "Linux RELEASE"),
    ];
    rules.iter().fold(text.to_owned(), |text, (from, to)| {
        Regex::new(from).expect("a fixed pattern").replace_all(&text, *to).into_owned()
    })
}

#[test]
fn steps_are_told_apart() {
    let step = |command: &str, output: &str| Step { command: command.into(), output: output.into() };
    assert_eq!(steps("$ a\nx\ny\n$ b\n"), [step("a", "x\ny\n"), step("b", "")]);
}

#[test]
fn wildcards_and_volatile_parts_match_and_nothing_else_does() {
    let dir = Path::new("/tmp/here");
    assert!(matches("a...c\n", "abbc\n", dir));
    assert!(!matches("a...c\n", "ab\nbc\n", dir));
    assert!(matches("a\n...\nz\n", "a\n1\n2\nz\n", dir));
    assert!(matches("a\n...\nz\n", "a\nz\n", dir));
    assert!(!matches("a\n", "a\nb\n", dir));
    assert!(!matches("a\n", "", dir));
    assert!(matches("Linux 1.2.3\n", "Linux 6.18.44-x\n", dir));
    assert!(matches("{\"duration_ms\":1}\n", "{\"duration_ms\":999}\n", dir));
    assert!(!matches("{\"exit_code\":1}\n", "{\"exit_code\":9}\n", dir));
    assert!(matches("./x\n", "/tmp/here/x\n", dir));
}
