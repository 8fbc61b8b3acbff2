//! What is kept beside a request, and for how long.

use super::*;

type Change = fn(&mut Request);

#[test]
fn secrets_are_gone_when_it_is_over() {
    const SECRET: &str = "hunter2-hunter2";
    let with_secrets = |number: usize| {
        let mut request = asking(["sh".to_owned(), number.to_string()]);
        request.env = vec![("API_KEY".into(), Some(SECRET.into()))];
        request.stdin = Stdin::Bytes(SECRET.into());
        // On several pages of the database, which are given back as they are unless they are overwritten.
        request.evidence = Some(evidence("e", &SECRET.repeat(2000)));
        request
    };
    let held = |desk: &Desk| {
        let bytes = std::fs::read(desk.database()).unwrap();
        bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
    };
    for (number, end) in ["decline", "consume", "expire"].into_iter().enumerate() {
        let desk = Desk::new();
        let id = desk.file_in(&mut desk.at(0), with_secrets(number), TERMS).unwrap().id;
        assert!(held(&desk), "{end}: it can be run from what is kept");
        let by = person("amy");
        let verdict = |approved| Verdict { approved, by: &by, said: None, edit: None };
        let bound = desk.scene.bound(with_secrets(number));
        match end {
            "decline" => {
                drop(desk.at(1).attempt(|tx, now| answer(tx, now, &id, verdict(false))).unwrap().unwrap())
            }
            "consume" => {
                desk.at(1).attempt(|tx, now| answer(tx, now, &id, verdict(true))).unwrap().unwrap();
                assert!(held(&desk), "approved and not used");
                desk.at(1).attempt(|tx, now| consume(tx, now, &id, &bound, "r")).unwrap().unwrap();
            }
            _ => drop(desk.at(700).transaction(approvals::expire).unwrap()),
        }
        assert!(!held(&desk), "{end}");
        let entry = desk.at(701).transaction(|tx, now| find(tx, now, &id)).unwrap().unwrap();
        assert!(entry.kept.is_none() && entry.bound.env.iter().all(|variable| variable.value.is_none()));
        let names: Vec<_> = entry.bound.env.iter().map(|variable| variable.name.0.clone()).collect();
        assert!(names.contains(&b"API_KEY".to_vec()), "the names stay");
        assert_eq!(crate::approval::document::record(&entry, false)["argv"][0], "sh");
    }
}

#[test]
fn what_is_kept_runs_again_without_being_given_again() {
    let desk = Desk::new();
    desk.scene.file("in", "x");
    let whole = |stdin: fn() -> Stdin| {
        let mut request = asking_with_why();
        request.ask =
            Ask::Argv(vec!["sh".into(), std::os::unix::ffi::OsStringExt::from_vec(b"\xff".to_vec())]);
        request.env = vec![("A".into(), Some("1".into())), ("API_KEY".into(), None)];
        request.stdin = stdin();
        request.timeout = Some(Duration::from_millis(1500));
        request.asker.labels.insert("k".into(), "v".into());
        request.evidence = Some(evidence("e", "seen"));
        request
    };
    let stored =
        |approval: &str| Request { ask: Ask::Stored, approval: Some(approval.into()), ..Request::default() };
    for stdin in [|| Stdin::Null, || Stdin::Bytes(vec![0, 255])] as [fn() -> Stdin; 2] {
        let id = desk.file(whole(stdin)).id;
        let request = desk.entry(&id).request(stored(&id)).unwrap();
        assert_eq!(request.approval.as_deref(), Some(id.as_str()));
        assert_eq!(desk.scene.bound(request).digest(), desk.scene.bound(whole(stdin)).digest());
    }
    let mut from_file = whole(|| Stdin::Null);
    from_file.stdin = Stdin::File("in".into());
    // Named relative to where guardexec was started, which is where the scene's requests start.
    let kept = Kept::of(&from_file, &desk.scene.facts, &desk.scene.policy);
    let mut entry = desk.entry(&desk.file(whole(|| Stdin::Null)).id);
    entry.kept = Some(kept);
    let Stdin::File(path) = entry.request(stored("x")).unwrap().stdin else { panic!("a file") };
    assert_eq!(path, desk.scene.dir.join("in"));
}

#[test]
fn what_is_filed_cannot_be_changed_or_taken_by_others_when_it_is_run_again() {
    let desk = Desk::new();
    let id = desk.file(request()).id;
    let entry = desk.entry(&id);
    let stored = || Request { ask: Ask::Stored, approval: Some(id.clone()), ..Request::default() };
    assert!(entry.request(stored()).is_ok(), "who says nothing takes the filed asker's name");
    let changes: [(&str, Change); 7] = [
        ("--cwd", |r| r.cwd = Some("/".into())),
        ("--env", |r| r.env = vec![("A".into(), None)]),
        ("--stdin", |r| r.stdin = Stdin::Relay),
        ("--timeout", |r| r.timeout = Some(Duration::from_secs(1))),
        ("--why", |r| r.asker.why = Some("x".into())),
        ("--label", |r| drop(r.asker.labels.insert("a".into(), "b".into()))),
        ("--evidence", |r| r.evidence = Some(evidence("a", "b"))),
    ];
    for (option, change) in changes {
        let mut asked = stored();
        change(&mut asked);
        let denial = entry.request(asked).unwrap_err();
        assert_eq!(denial.code, "approval_mismatch");
        assert!(
            denial.message.starts_with(&format!("{option} cannot be given with --approval {id} alone")),
            "{}",
            denial.message
        );
    }
    for (agent, session) in [(Some("other"), None), (Some("lead/x"), None), (None, Some("s2"))] {
        let mut asked = stored();
        (asked.asker.agent, asked.asker.session) = (agent.map(Into::into), session.map(Into::into));
        assert_eq!(code(entry.request(asked)), "approval_mismatch");
    }
    // Too large to be kept: it has to be given again, and only that.
    let mut large = request();
    large.stdin = Stdin::Bytes(vec![b'x'; crate::approval::kept::MOST_INPUT + 1]);
    let id = desk.file(large).id;
    let entry = desk.entry(&id);
    let denial = entry.request(stored()).unwrap_err();
    assert!(denial.message.contains("was too large to be kept"), "{}", denial.message);
    let mut asked = stored();
    asked.stdin = Stdin::Relay;
    assert!(matches!(entry.request(asked).unwrap().stdin, Stdin::Relay));
    desk.answer(&id, false, None).unwrap();
    assert_eq!(code(desk.entry(&id).request(stored())), "approval_declined");
}
