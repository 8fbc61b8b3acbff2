//! Programs that answer, and programs that do anything else. Each runs from a process of one thread, as root and as an
//! ordinary user.

use std::fs;

use super::*;
use crate::approval::bound::Bound;
use crate::approval::tests::{Scene, asking};
use crate::approval::{self, Reply};
use crate::hook::tests::{Bench, apart, facts, hook};
use crate::policy::oversight::Asked;
use crate::request::Stdin;

const LONG: Duration = Duration::from_secs(20);

fn around<'a>(scene: &'a Scene, facts: &'a Facts) -> Around<'a> {
    Around { policies: &scene.policy, facts, stop: None }
}

fn paper(bound: &Bound) -> Paper<'_> {
    Paper { bound, evidence: None, output: None, entry: None, lately: None }
}

/// `approve by ...: said`, `decline: said` or what else came.
fn answer(bench: &Bench, scene: &Scene, bound: &Bound, script: &str, timeout: Duration) -> String {
    let hook = bench.script("confirm", script);
    match ask(&hook, &paper(bound), timeout, &around(scene, &facts())) {
        Reply::Approved { by, said } => format!("approve by {by}: {}", said.unwrap_or_default()),
        Reply::Declined { denial, said, .. } => {
            assert_eq!(denial.message, "confirmation for 'sh' denied");
            assert_eq!((denial.code, denial.hint), ("approval_declined", None));
            format!("decline: {}", said.unwrap_or_default())
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn only_an_approving_document_approves() {
    apart(|bench| {
        let scene = Scene::new();
        let bound = scene.bound(asking(["sh", "-c", "true"]));
        let yes = format!("approve by the program '{}': ", bench.path("confirm"));
        let cases = [
            ("echo '{\"verdict\": \"approve\"}'", yes.as_str()),
            ("cat > /dev/null; echo '{\"verdict\": \"approve\", \"reason\": null}'", yes.as_str()),
            ("echo '{\"verdict\": \"decline\", \"reason\": \"not today\"}'", "decline: not today"),
            ("echo '{\"verdict\": \"decline\"}'", "decline: "),
            ("echo '{\"verdict\": \"APPROVE\"}'", "decline: its verdict is neither"),
            ("echo '{\"verdict\": true}'", "decline: its verdict is neither"),
            ("echo '{\"verdict\": \"approve\", \"note\": 1}'", "decline: its answer has a key 'note'"),
            (
                "echo '{\"verdict\": \"approve\", \"reason\": 1}'",
                "decline: the reason in its answer is not a text",
            ),
            (
                "echo '{\"verdict\": \"decline\", \"verdict\": \"approve\"}'",
                "decline: its answer is not one JSON document",
            ),
            ("echo '{\"verdict\": \"approve\"} {}'", "decline: its answer is not one JSON document"),
            ("echo '[\"approve\"]'", "decline: its answer is not an object"),
            ("echo approve", "decline: its answer is not one JSON document"),
            ("true", "decline: it gave no answer"),
            ("echo '{\"verdict\": \"approve\"}'; exit 1", "decline: it exited with status 1"),
            ("echo '{\"verdict\": \"approve\"}'; kill -SEGV $$", "decline: signal 11 ended it"),
        ];
        for (script, expected) in cases {
            let said = answer(bench, &scene, &bound, script, LONG);
            assert!(said.starts_with(expected), "{script}: {said}");
        }
        let late = answer(
            bench,
            &scene,
            &bound,
            "echo '{\"verdict\": \"approve\"}'; sleep 97",
            Duration::from_millis(300),
        );
        assert_eq!(late, "decline: it did not answer in time");
        let long = answer(
            bench,
            &scene,
            &bound,
            "printf '{\"verdict\": \"decline\", \"reason\": \"%03000d\"}' 7",
            LONG,
        );
        assert!(long.ends_with("...[952 bytes omitted]"), "{long}");
        let missing = ask(&hook(&["/none/such"]), &paper(&bound), LONG, &around(&scene, &facts()));
        assert!(matches!(missing, Reply::Declined { said: Some(why), .. } if why.contains("is not there")));
    });
}

#[test]
fn one_that_was_given_an_output_is_not_repeated() {
    let answer = serde_json::json!({"verdict": "approve", "s3cret": 1});
    assert!(verdict(&answer, true).unwrap_err().contains("'s3cret'"));
    assert_eq!(verdict(&answer, false).unwrap_err(), "its answer has a key that means nothing");
}

#[test]
fn it_reads_the_request_without_its_secrets() {
    apart(|bench| {
        let scene = Scene::new();
        let mut request = asking(["sh", "-c", "true"]);
        request.env = vec![("API_KEY".into(), Some("hunter2".into())), ("A".into(), Some("1".into()))];
        request.stdin = Stdin::Bytes(b"hunter2".to_vec());
        request.asker.agent = Some("lead".into());
        let bound = scene.bound(request);
        let seen = bench.path("seen");
        let script = format!("cat > {seen}; echo '{{\"verdict\": \"approve\"}}'");
        assert!(answer(bench, &scene, &bound, &script, LONG).starts_with("approve"), "{script}");
        let text = fs::read_to_string(&seen).unwrap();
        assert!(!text.contains("hunter2"), "{text}");
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["schema"], "guardexec.approval/v1");
        assert_eq!(document["argv"], serde_json::json!(["sh", "-c", "true"]));
        assert_eq!((&document["agent"], &document["stdin"]["size"]), (&"lead".into(), &7.into()));
        let env = document["env"].as_array().unwrap();
        let variable = |name: &str| env.iter().find(|variable| variable["name"] == name).unwrap();
        assert_eq!(
            variable("API_KEY"),
            &serde_json::json!({"name": "API_KEY", "value": "[masked]", "masked": true})
        );
        assert_eq!(variable("A"), &serde_json::json!({"name": "A", "value": "1", "masked": false}));
    });
}

/// The settled `[approval]` with these programs.
fn asked<'p>(programs: Vec<&'p Hook>, nobody: Option<&'p crate::policy::model::ApprovalPolicy>) -> Asked<'p> {
    Asked {
        nobody,
        programs,
        tty: false,
        queue: false,
        timeout: LONG,
        expires: LONG,
        max_pending: 1,
        notify: Vec::new(),
        escalate: Vec::new(),
    }
}

#[test]
fn all_programs_have_to_approve_and_nobody_is_nobody() {
    apart(|bench| {
        let scene = Scene::new();
        let bound = scene.bound(asking(["sh", "-c", "true"]));
        let counted = |name: &str, verdict: &str| {
            let count = bench.path("count");
            bench.script(name, &format!("echo {name} >> {count}; echo '{{\"verdict\": \"{verdict}\"}}'"))
        };
        let (yes, other, no) =
            (counted("yes", "approve"), counted("other", "approve"), counted("no", "decline"));
        let facts = facts();
        let reply =
            |hooks: Vec<&Hook>| approval::ask(&asked(hooks, None), &paper(&bound), &around(&scene, &facts));
        assert!(reply(vec![]).is_none());
        assert!(matches!(reply(vec![&yes, &other]), Some(Reply::Approved { .. })));
        fs::remove_file(bench.path("count")).unwrap();
        assert!(matches!(reply(vec![&yes, &no, &other]), Some(Reply::Declined { .. })));
        assert_eq!(fs::read_to_string(bench.path("count")).unwrap(), "yes\nno\n");
        fs::remove_file(bench.path("count")).unwrap();
        let section = crate::policy::model::ApprovalPolicy::default();
        let denied =
            approval::ask(&asked(vec![&yes], Some(&section)), &paper(&bound), &around(&scene, &facts));
        let Some(Reply::Declined { denial, by: None, .. }) = denied else { panic!("denied") };
        assert_eq!(denial.message, "command 'sh' requires confirmation but no confirm hook is set");
        assert_eq!((denial.code, denial.hint), ("approval_nobody", None));
        assert!(!fs::exists(bench.path("count")).unwrap(), "no program was run");
    });
}

#[test]
fn whoever_is_told_and_fails_is_a_warning() {
    apart(|bench| {
        let scene = Scene::new();
        let bound = scene.bound(asking(["sh", "-c", "true"]));
        let seen = bench.path("seen");
        let good = bench.script("good", &format!("echo \"$GUARDEXEC_HOOK\" >> {seen}; cat >> {seen}"));
        let bad = bench.script("bad", "printf 'no mail\\033[2K server' >&2; exit 3");
        let asked =
            Asked { notify: vec![&good, &bad], escalate: vec![(&good, LONG)], ..asked(Vec::new(), None) };
        let told = approval::tell::filed(&asked, &paper(&bound), &around(&scene, &facts()));
        let expected = format!(
            "the program '{}' (notify, policy.toml:7) was to be told of approval , and it exited with status 3: no \
             mail\\x1b[2K server",
            bench.path("bad")
        );
        assert_eq!((told.warnings, told.cancelled), (vec![expected], None));
        let told = approval::tell::unanswered(&asked, [paper(&bound)], &around(&scene, &facts()));
        assert!(told.warnings.is_empty());
        let text = fs::read_to_string(&seen).unwrap();
        assert!(text.starts_with("notify\n{\"schema\":\"guardexec.approval/v1\""), "{text}");
        assert!(text.contains("}escalate\n{"), "{text}");
    });
}
