//! Every part counts, and is named when it differs.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, SystemTime};

use super::*;
use crate::approval::tests::{Scene, asking, calling, evidence};
use crate::request::{Ask, Request};

const TOOLS: &str = r#"
[sandbox]
profile = "host"
[[rule]]
id = "shell"
program = "sh"
decision = "ask"
[tools.refund]
description = "x"
argv = ["sh", "-c", "true", "{amount}", "{to}"]
params.amount = { type = "integer" }
params.to = { type = "string", default = "nobody" }
decision = "ask"
[tools.credit]
description = "x"
argv = ["sh", "-c", "true", "{amount}", "{to}"]
params.amount = { type = "integer" }
params.to = { type = "string" }
decision = "ask"
[tools.remove]
description = "x"
action = "delete_file"
root = "files"
params.path = { type = "string" }
decision = "ask"
"#;

type Change = Box<dyn Fn(&mut Request)>;

fn request() -> Request {
    let mut request = asking(["sh", "./s.sh", "one"]);
    request.env = vec![("A".into(), Some("1".into()))];
    request.stdin = Stdin::Bytes(b"in".to_vec());
    request.asker.agent = Some("lead".into());
    request.asker.session = Some("s1".into());
    request.asker.labels.insert("ticket".into(), "7".into());
    request.asker.why = Some("because".into());
    request.evidence = Some(evidence("log.txt", "seen"));
    request
}

fn scene() -> Scene {
    let scene = Scene::new();
    scene.file("s.sh", "echo hello\n");
    fs::create_dir(scene.dir.join("sub")).unwrap();
    fs::copy(scene.dir.join("s.sh"), scene.dir.join("sub/s.sh")).unwrap();
    scene
}

#[test]
fn any_single_field_makes_it_another_request_and_is_named() {
    let scene = scene();
    let first = scene.bound(request());
    let sub = scene.dir.join("sub");
    let cases: Vec<(&str, Change)> = vec![
        ("word 2 is 'two', and was 'one'", Box::new(|r| r.ask = asking(["sh", "./s.sh", "two"]).ask)),
        ("it has 4 words, and had 3", Box::new(|r| r.ask = asking(["sh", "./s.sh", "one", ""]).ask)),
        ("the working directory is ", Box::new(move |r| r.cwd = Some(sub.clone()))),
        ("the variable 'A' has another value", Box::new(|r| r.env[0].1 = Some("2".into()))),
        ("the variable 'A' is gone", Box::new(|r| r.env.clear())),
        (
            "the variable 'API_KEY' was not there",
            Box::new(|r| r.env.push(("API_KEY".into(), Some("".into())))),
        ),
        ("standard input is another one", Box::new(|r| r.stdin = Stdin::Bytes(b"out".to_vec()))),
        ("standard input is another one", Box::new(|r| r.stdin = Stdin::Null)),
        (
            "the agent is 'lead/child', and was 'lead'",
            Box::new(|r| r.asker.agent = Some("lead/child".into())),
        ),
        ("the agent is none, and was 'lead'", Box::new(|r| r.asker.agent = None)),
        ("the session is 's2', and was 's1'", Box::new(|r| r.asker.session = Some("s2".into()))),
        ("the labels are others", Box::new(|r| r.asker.labels.clear())),
        ("the reason given with --why is another one", Box::new(|r| r.asker.why = Some("else".into()))),
        ("the evidence is another one", Box::new(|r| r.evidence = Some(evidence("log.txt", "unseen")))),
        ("the evidence is another one", Box::new(|r| r.evidence = None)),
        (
            "the setting wall_time of the run is another one",
            Box::new(|r| r.timeout = Some(Duration::from_secs(3))),
        ),
    ];
    let mut digests = BTreeSet::from([first.digest()]);
    for (what, change) in cases {
        let mut other = request();
        change(&mut other);
        let other = scene.bound(other);
        let difference = first.difference(&other).unwrap_or_else(|| panic!("no difference: {what}"));
        assert!(difference.what.starts_with(what), "{} is not {what}", difference.what);
        assert!(!difference.stale, "{what}");
        assert!(digests.insert(other.digest()), "{what}: the digest is not a new one");
    }
    assert_eq!(first.difference(&scene.bound(request())), None);
    assert_eq!(first.digest(), scene.bound(request()).digest());
}

#[test]
fn a_tool_and_each_of_its_arguments_count_but_not_their_order() {
    let scene = Scene::under(TOOLS);
    let bound = |name: &str, arguments: serde_json::Value| scene.bound(calling(name, arguments));
    let first = bound("refund", serde_json::json!({"amount": 7, "to": "x"}));
    assert_eq!(first.digest(), bound("refund", serde_json::json!({"to": "x", "amount": 7})).digest());
    for (other, what) in [
        (
            bound("refund", serde_json::json!({"amount": 8, "to": "x"})),
            "the argument 'amount' is another one",
        ),
        (bound("refund", serde_json::json!({"amount": 7, "to": "y"})), "the argument 'to' is another one"),
        (bound("refund", serde_json::json!({"amount": 7})), "the argument 'to' is another one"),
        (
            bound("credit", serde_json::json!({"amount": 7, "to": "x"})),
            "it is tool 'credit', and was tool 'refund'",
        ),
        (scene.bound(asking(["sh", "-c", "true"])), "it is command 'sh', and was tool 'refund'"),
    ] {
        assert_eq!(first.difference(&other).unwrap(), Difference { stale: false, what: what.into() });
        assert_ne!(first.digest(), other.digest());
    }
}

#[test]
fn an_action_is_bound_to_the_file_that_it_is_about() {
    let scene = Scene::under(TOOLS);
    scene.file("files/a", "one");
    let remove = || scene.bound(calling("remove", serde_json::json!({"path": "a"})));
    let first = remove();
    assert!(first.program.is_none() && first.argv.is_empty());
    assert_eq!(first.cwd.0, scene.dir.join("files").as_os_str().as_bytes());
    scene.file("files/a", "two");
    let stale = Difference { stale: true, what: "the content of 'a' changed".into() };
    assert_eq!(first.difference(&remove()), Some(stale));
    let text = crate::approval::screen::Paper {
        bound: &first,
        evidence: None,
        output: None,
        entry: None,
        lately: None,
    }
    .screen();
    assert!(text.starts_with("tool       remove\n           path = a\ncwd "), "{text}");
    assert!(text.contains("file       a\n           3 bytes, sha256 "), "{text}");
}

#[test]
fn content_that_changed_is_stale_and_content_that_did_not_is_the_same() {
    let mut scene = scene();
    let first = scene.bound(request());
    let script = scene.dir.join("s.sh");
    // The same bytes under another inode, owner of another time.
    fs::copy(&script, scene.dir.join("new")).unwrap();
    fs::rename(scene.dir.join("new"), &script).unwrap();
    let past = SystemTime::now() - Duration::from_secs(86_400);
    fs::File::options().write(true).open(&script).unwrap().set_modified(past).unwrap();
    assert_eq!(first.difference(&scene.bound(request())), None);
    assert_eq!(first.digest(), scene.bound(request()).digest());
    let stale = |what: &str| Some(Difference { stale: true, what: what.into() });
    fs::write(&script, "echo hellO\n").unwrap();
    let now = scene.bound(request());
    assert_eq!(first.difference(&now), stale("the content of './s.sh' changed"));
    assert_ne!(first.digest(), now.digest());
    fs::remove_file(&script).unwrap();
    assert_eq!(first.difference(&scene.bound(request())), stale("'./s.sh' is gone"));
    fs::create_dir(&script).unwrap();
    assert_eq!(
        first.difference(&scene.bound(request())),
        stale("'./s.sh' is no longer the same kind of file")
    );
    fs::remove_dir(&script).unwrap();
    scene.file("s.sh", "echo hello\n");
    scene.file("one", "");
    assert_eq!(first.difference(&scene.bound(request())), stale("'one' was not there"));
    fs::remove_file(scene.dir.join("one")).unwrap();
    assert_eq!(first.difference(&scene.bound(request())), None);
    let text = fs::read_to_string(scene.dir.join("policy.toml")).unwrap();
    scene.rewrite_policy(&format!("{}# another line\n", text.trim_start_matches("version = 1\n")));
    let policy = scene.dir.join("policy.toml");
    assert_eq!(
        first.difference(&scene.bound(request())),
        stale(&format!("the policy '{}' changed", policy.display()))
    );
}

#[test]
fn the_content_of_the_program_and_of_standard_input_count() {
    let mut scene = Scene::new();
    let program = scene.file("bin/own", "#!/bin/sh\n");
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    scene.rewrite_policy(&format!(
        "[sandbox]\nprofile = \"host\"\n[[rule]]\nid = \"own\"\nprogram = {program:?}\ndecision = \"ask\"\n"
    ));
    let input = scene.file("in.txt", "one");
    let request = || {
        let mut request = asking([program.clone()]);
        request.stdin = Stdin::File(input.clone());
        request
    };
    let first = scene.bound(request());
    fs::write(&input, "two").unwrap();
    let shown = |path: &std::path::Path| quote::repr(path.as_os_str().as_bytes());
    let stale =
        |path| Some(Difference { stale: true, what: format!("the content of {} changed", shown(path)) });
    assert_eq!(first.difference(&scene.bound(request())), stale(&input));
    fs::write(&input, "one").unwrap();
    assert_eq!(first.difference(&scene.bound(request())), None);
    fs::write(&program, "#!/bin/sh\n:\n").unwrap();
    assert_eq!(first.difference(&scene.bound(request())), stale(&program));
    // What interprets it, and what `env` finds for it.
    let executable = |name: &str, text: &str| {
        let path = scene.file(name, text);
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path
    };
    let inner = executable("bin/inner", "#!/bin/sh\n");
    let env = std::path::Path::new("/usr/bin/env");
    fs::write(&program, format!("#!{} {} -u\n", env.display(), inner.display())).unwrap();
    let first = scene.bound(request());
    let named: Vec<_> = first.files.iter().map(|named| (named.word, named.path.0.clone())).collect();
    let bytes = |path: &std::path::Path| path.as_os_str().as_bytes().to_vec();
    assert_eq!(named, [(0, bytes(env)), (0, bytes(&inner))]);
    assert_eq!(first.now().unwrap(), first);
    fs::write(&inner, "#!/bin/sh\nevil\n").unwrap();
    assert_eq!(first.difference(&scene.bound(request())), stale(&inner));
    assert_eq!(first.difference(&first.now().unwrap()), stale(&inner));
}

#[test]
fn pieces_cannot_be_shifted_from_one_part_to_the_next() {
    let scene = Scene::new();
    let digest = |words: &[&str]| scene.bound(asking(words.iter().copied())).digest();
    let all =
        [&["sh", "a", "b"][..], &["sh", "ab"], &["sh", "a", "", "b"], &["sh", "", "a", "b"], &["sh", "a b"]];
    let digests: BTreeSet<String> = all.iter().map(|words| digest(words)).collect();
    assert_eq!(digests.len(), all.len());
    let with = |agent: Option<&str>, session: Option<&str>, why: Option<&str>| {
        let mut request = asking(["sh"]);
        request.asker.agent = agent.map(Into::into);
        request.asker.session = session.map(Into::into);
        request.asker.why = why.map(Into::into);
        scene.bound(request).digest()
    };
    let all = [
        with(Some("x"), None, None),
        with(None, Some("x"), None),
        with(None, None, Some("x")),
        with(None, None, Some("")),
        with(None, None, None),
    ];
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
}

#[test]
fn it_comes_back_from_where_it_is_kept() {
    let scene = scene();
    let mut asked = request();
    asked.ask = Ask::Argv(vec!["sh".into(), std::os::unix::ffi::OsStringExt::from_vec(b"\xff\xfe".to_vec())]);
    let bound = scene.bound(asked);
    let text = serde_json::to_string(&bound).unwrap();
    let back: Bound = serde_json::from_str(&text).unwrap();
    assert_eq!(back, bound);
    assert_eq!(back.digest(), bound.digest());
}

#[test]
fn what_cannot_be_read_cannot_be_approved() {
    let scene = Scene::new();
    let mut request = asking(["sh"]);
    request.stdin = Stdin::Relay;
    assert_eq!(scene.try_bound(request).unwrap_err().code, "approval_unbindable");
    let mut request = asking(["sh"]);
    request.stdin = Stdin::File(scene.dir.join("none"));
    let denial = scene.try_bound(request).unwrap_err();
    assert_eq!(denial.code, "approval_unbindable");
    assert!(denial.message.contains("there is no such regular file"), "{}", denial.message);
    if nix::unistd::geteuid().is_root() {
        return; // root reads everything
    }
    let program = scene.file("own", "x");
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o111)).unwrap();
    let denial = scene.try_bound(asking(["cat".into(), program])).unwrap_err();
    assert!(denial.message.contains("Permission denied"), "{}", denial.message);
}

#[test]
fn who_asks_for_it_counts_and_not_what_it_says_at_the_moment() {
    let scene = scene();
    let first = scene.bound(request());
    let cause =
        |id: &str, reason: &str| Cause { id: id.into(), reason: reason.into(), ..first.causes[0].clone() };
    let with = |causes: Vec<Cause>| Bound { causes, ..first.clone() };
    let said = with(vec![cause("shell", "7 of 8 are used")]);
    assert_eq!((first.difference(&said), first.digest()), (None, said.digest()));
    let other = with(vec![cause("other", "x")]);
    let what = first.difference(&other).unwrap().what;
    assert_eq!(what, "it is asked for by 'other', and was by 'shell'");
    // Whoever was told of several was told of each.
    let both = with(vec![cause("shell", "x"), cause("rate", "y")]);
    assert_ne!(first.digest(), both.digest());
    for fewer in [&first, &with(vec![cause("rate", "z")]), &with(Vec::new())] {
        assert_eq!(fewer.in_terms_of(&both).digest(), both.digest());
    }
    assert_ne!(both.in_terms_of(&first).digest(), first.digest());
}
