//! A policy that uses every key, and what happens to it when it is mutilated.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;

use super::{FULL, complaint, in_rule, parse, refuse};
use crate::policy::model::{
    ActionKind, Bound, ExampleCommand, Layer, ParamType, Profile, ProgramName, Syntax, ToolOutput, Verdict,
};
use crate::policy::value::PathKind;

#[test]
fn a_policy_with_every_key_loads_as_written() {
    let f = parse(FULL).unwrap();
    assert_eq!(
        f.extends.iter().map(|(p, _)| p.as_path()).collect::<Vec<_>>(),
        [Path::new("/pol/dir/base.toml")]
    );
    assert_eq!(f.limits.wall_time, Some(Bound::At(Duration::from_secs(5))));
    assert_eq!(f.limits.cpu_time, Some(Bound::Lifted));
    assert_eq!(f.limits.memory, Some(Bound::At(512 << 20)));
    assert_eq!(f.limits.kill_grace, Some(Duration::from_millis(200)));
    assert_eq!(f.env.pass.as_deref(), Some(&["LANG".to_owned(), "LC_*".to_owned()][..]));
    assert_eq!(f.env.set["PATH"], "/usr/bin:/bin");
    assert_eq!(f.syntax, Some(Syntax::Literal));
    assert_eq!(f.sandbox.profile, Some(Profile::Workspace));
    assert_eq!(f.sandbox.require.as_deref(), Some(&[Layer::Filesystem, Layer::Network][..]));
    assert_eq!(f.filesystem.map, [(PathBuf::from("/data"), PathBuf::from("/pol/dir/extract"))]);
    assert_eq!(f.audit.file.unwrap().0, Path::new("/var/log/guardexec/audit.jsonl"));
    assert_eq!(f.audit.rotate, Some(100 << 20));
    let ids: Vec<&str> = f.rules.rules.iter().map(|r| r.id.as_str()).collect();
    assert_eq!(ids, ["allow:uname", "allow:/bin/date", "deny:rm", "git-read", "p.toml:65"]);
    let git = &f.rules.rules[3];
    assert_eq!((git.at.line, git.decision), (39, Verdict::Allow));
    assert_eq!(git.programs, [ProgramName::Bare(OsString::from("git"))]);
    assert_eq!(git.sha256.as_deref(), Some("0123456789abcdef".repeat(4).as_str()));
    let flags = git.args.flags.as_ref().unwrap();
    assert_eq!((flags[0].name.as_str(), flags[0].value.is_none()), ("-s", true));
    let n = flags[1].value.as_ref().unwrap();
    assert_eq!((n.min_value.as_deref(), n.max_value.as_deref()), (Some("-0.50"), Some("1000")));
    assert!(flags[1].allow_dash);
    let operand = &git.args.operands.as_ref().unwrap()[0];
    assert!(operand.optional && operand.repeat && operand.allow_dash);
    let path = operand.value.path.as_ref().unwrap();
    assert_eq!(
        (path.under.as_path(), path.kind, path.symlinks),
        (Path::new("/pol/dir"), Some(PathKind::Dir), true)
    );
    assert_eq!(operand.value.choices.as_deref(), Some(&["a".to_owned(), "7".to_owned()][..]));
    assert_eq!(git.examples.len(), 3);
    assert_eq!(git.examples[1].command, ExampleCommand::Words(vec!["git".into(), "log".into()]));
    assert_eq!(git.examples[2].expect, Verdict::Deny);
    assert_eq!(git.own.exec.as_ref().unwrap().len(), 2);
    let (tool, _) = &f.tools["delete_project"];
    assert_eq!(
        tool.params.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(),
        ["name", "force", "count", "a", "amount"]
    );
    assert_eq!(tool.params[2].kind, ParamType::Number);
    assert_eq!(tool.params[2].default, Some(serde_json::json!(1.5)));
    assert!(tool.params[0].required && !tool.params[1].required);
    assert_eq!(tool.params[4].ask_above.as_deref(), Some("100"));
    assert_eq!(tool.params[4].description.as_deref(), Some("How many."));
    assert_eq!(tool.stdin.as_deref(), Some("{name}\n{count}"));
    assert_eq!((tool.check_exit, tool.output), (true, ToolOutput::Stdout));
    let action = f.tools["write"].0.action.as_ref().unwrap();
    assert_eq!((action.kind, action.max_size), (ActionKind::WriteFile, 64 << 10));
    assert_eq!(action.root, Path::new("/home/u/notes"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        if let Err(e) = parse(&text) { let _ = e.to_string(); }
    }

    #[test]
    fn arbitrary_bytes_that_are_text_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        if let Err(e) = parse(&text) { let _ = e.to_string(); }
    }

    #[test]
    fn mutated_policies_never_panic_and_complain_on_printable_lines(
        from in 0..FULL.len(), cut in 0usize..30, insert in "[\\PC\n\r\t\u{0}\u{202e}\"'\\[\\]{}=,.0-9]{0,8}",
    ) {
        let mut text: Vec<char> = FULL.chars().collect();
        let start = from.min(text.len());
        let end = (start + cut).min(text.len());
        text.splice(start..end, insert.chars());
        let text: String = text.into_iter().collect();
        if let Err(e) = parse(&text) {
            let shown = e.to_string();
            prop_assert!(!shown.chars().any(|c| c != '\n' && crate::policy::error::is_unprintable(c)), "{shown:?}");
            prop_assert!(!shown.contains("invalid type") && !shown.contains("expected map"), "{shown}");
            prop_assert!(e.place.as_ref().is_some_and(|p| p.line >= 1));
        }
    }
}

/// Rules are read while the text is parsed; what is wrong is said in the order in which it always was: the text as TOML,
/// the top, the rules, the rest. So is what a rule's table gets after others.
#[test]
fn complaints_come_in_the_order_of_the_checks() {
    let bad = "[[rule]]\nid = \"r\"\n";
    let unclosed = "6:3: not valid TOML: unclosed table, expected `]`";
    assert_eq!(complaint(&format!("{bad}[limits]\npids = \"x\"\n[a")), format!("p.toml:{unclosed}"));
    let unknown = complaint(&format!("{bad}[oddity]\nx = 1"));
    assert!(unknown.starts_with("p.toml:4:2: unknown key `oddity` in the policy"), "{unknown}");
    refuse(&[
        (&format!("{bad}[limits]\npids = \"x\""), "2:1: `decision` is missing in [[rule]]"),
        (&format!("deny = [\"a\", \"a\"]\n{bad}"), "2:14: `a` stands twice in `deny`"),
        (
            &format!("{}\n[[deny]]", in_rule("allow", "")),
            "7:1: an entry of `deny` in the policy must be a string, not a table",
        ),
    ]);
    let late = format!("version = 1\n{}\n[limits]\npids = 3\n[rule.limits]\npids = 2", in_rule("allow", ""));
    let file = parse(&late).unwrap();
    assert_eq!(
        (file.limits.pids, file.rules.rules[0].own.limits.pids),
        (Some(Bound::At(3)), Some(Bound::At(2)))
    );
}
