//! Filing, answering, using: every state, every refusal, many at once, and killed in between.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::*;
use crate::approval::tests::{Scene, asking, evidence};
use crate::request::{Ask, Request, Stdin};
use crate::state::Store;
use crate::state::clock::Reading;
use crate::state::tests::Dir;

mod filing;
mod kept;
pub(in crate::approval) mod killed;
mod output;

pub(in crate::approval) const TERMS: Terms =
    Terms { expires: Duration::from_secs(600), max_pending: 3, escalate_after: None };

/// A store, and requests to put into it.
pub(in crate::approval) struct Desk {
    scene: Scene,
    pub state: Dir,
}

fn person(user: &str) -> Person {
    Person { uid: 1000, user: user.into(), login_uid: None }
}

impl Desk {
    pub fn new() -> Desk {
        Desk { scene: Scene::new(), state: Dir::new() }
    }

    pub fn store(&self) -> Store {
        Store::open(&self.state.0).unwrap()
    }

    /// At a store's time of so many seconds.
    fn at(&self, seconds: i64) -> Store {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_750_000_000);
        let clock = move || Reading { boot: "one".into(), since_boot: seconds * 1_000_000_000, wall };
        self.store().with_clock(clock)
    }

    pub fn file_in(&self, store: &mut Store, request: Request, terms: Terms) -> Result<Filed, Box<Denial>> {
        let kept = Kept::of(&request, &self.scene.facts, &self.scene.policy);
        let bound = self.scene.bound(request);
        let by = person("bob");
        store.attempt(|tx, now| file(tx, now, Filing { bound: &bound, kept, terms, by: &by })).unwrap()
    }

    pub fn file(&self, request: Request) -> Filed {
        self.file_in(&mut self.store(), request, TERMS).unwrap()
    }

    pub fn answer(&self, id: &str, approved: bool, said: Option<&str>) -> Result<Entry, Box<Denial>> {
        let by = person("amy");
        let verdict = Verdict { approved, by: &by, said, edit: None };
        self.store().attempt(|tx, now| answer(tx, now, id, verdict)).unwrap()
    }

    fn consume(&self, id: &str, request: Request) -> Result<Use, Box<Denial>> {
        let bound = self.scene.bound(request);
        self.store().attempt(|tx, now| consume(tx, now, id, &bound, "run-1")).unwrap()
    }

    fn entry(&self, id: &str) -> Entry {
        self.store().transaction(|tx, now| find(tx, now, id)).unwrap().unwrap()
    }

    fn database(&self) -> PathBuf {
        self.state.file("state.db")
    }
}

pub(in crate::approval) fn request() -> Request {
    let mut request = asking(["sh", "./s.sh"]);
    request.asker.agent = Some("lead".into());
    request.asker.session = Some("s1".into());
    request
}

fn code<T: std::fmt::Debug>(outcome: Result<T, Box<Denial>>) -> &'static str {
    outcome.expect_err("refused").code
}

#[test]
fn it_is_filed_answered_and_used_once() {
    let desk = Desk::new();
    desk.scene.file("s.sh", "echo\n");
    let filed = desk.file(request());
    assert!(filed.fresh && filed.state == State::Pending && !filed.edited, "{filed:?}");
    assert_eq!(filed.id.len(), ID_LENGTH);
    assert!(filed.id.bytes().all(|b| DIGITS.contains(&b)), "{}", filed.id);
    assert!(filed.hint().contains(&format!("--approval {}", filed.id)), "{}", filed.hint());
    let Ok(Use::Wait(waiting)) = desk.consume(&filed.id, request()) else { panic!("nobody has answered") };
    assert_eq!((waiting.id.as_str(), waiting.fresh), (filed.id.as_str(), false));
    let entry = desk.answer(&filed.id, true, Some("fine")).unwrap();
    assert_eq!(
        (entry.state, entry.answered.as_ref().unwrap().text.as_deref()),
        (State::Approved, Some("fine"))
    );
    assert_eq!(entry.bound, desk.scene.bound(request()), "the whole of it is kept");
    let Ok(Use::Run(used)) = desk.consume(&filed.id, request()) else { panic!("approved") };
    assert_eq!(used.answered.unwrap().by, person("amy").into());
    let denial = desk.consume(&filed.id, request()).unwrap_err();
    assert_eq!(denial.code, "approval_consumed");
    assert!(
        denial.message.starts_with(&format!("approval {} was used already, at 20", filed.id)),
        "{}",
        denial.message
    );
    let entry = desk.entry(&filed.id);
    assert_eq!((entry.state, entry.used.unwrap().1.as_str()), (State::Consumed, "run-1"));
    // The same command asks again.
    let again = desk.file(request());
    assert!(again.fresh && again.id != filed.id);
}

#[test]
fn the_same_request_shares_the_id_and_does_not_last_longer() {
    let desk = Desk::new();
    let file = |seconds, request| desk.file_in(&mut desk.at(seconds), request, TERMS).unwrap();
    let first = file(0, request());
    let again = file(599, request());
    assert_eq!((&again.id, again.fresh, &again.expires_at), (&first.id, false, &first.expires_at));
    let mut other = request();
    other.asker.why = Some("x".into());
    assert_ne!(file(599, other).id, first.id);
    assert_ne!(file(600, request()).id, first.id, "over at exactly that time");
    // Approved and not used yet: the id once more, and what to do.
    let id = file(700, request()).id;
    desk.at(700)
        .transaction(|tx, now| {
            answer(tx, now, &id, Verdict { approved: true, by: &person("amy"), said: None, edit: None })
        })
        .unwrap()
        .unwrap();
    let approved = file(701, request());
    assert_eq!((approved.id.as_str(), approved.state), (id.as_str(), State::Approved));
    assert!(approved.hint().starts_with("it is approved; run it with --approval"), "{}", approved.hint());
}

#[test]
fn time_ends_what_waits_and_what_was_approved() {
    let desk = Desk::new();
    let bound = desk.scene.bound(request());
    let (mut early, mut late) = (desk.at(10), desk.at(610));
    let waiting = desk.file_in(&mut early, request(), TERMS).unwrap().id;
    let mut other = request();
    other.asker.why = Some("x".into());
    let other_bound = desk.scene.bound(asking_with_why());
    let approved = desk.file_in(&mut early, other, TERMS).unwrap().id;
    let yes = |store: &mut Store, id: &str| {
        store
            .attempt(|tx, now| {
                answer(tx, now, id, Verdict { approved: true, by: &person("amy"), said: None, edit: None })
            })
            .unwrap()
    };
    yes(&mut early, &approved).unwrap();
    for (id, bound) in [(&waiting, &bound), (&approved, &other_bound)] {
        let denial = late.attempt(|tx, now| consume(tx, now, id, bound, "r")).unwrap().unwrap_err();
        assert_eq!(denial.code, "approval_expired", "{}", denial.message);
        assert!(denial.message.contains("is over since 2025-06-15T15:16:40.000Z"), "{}", denial.message);
    }
    assert_eq!(code(yes(&mut late, &waiting)), "approval_expired");
    let denial = yes(&mut late, &approved).unwrap_err();
    assert_eq!(denial.code, "approval_expired", "{}", denial.message);
    // Written down by whoever comes next, and nothing private is left.
    late.transaction(|_, _| Ok(())).unwrap();
    let entry = late.transaction(|tx, now| find(tx, now, &approved)).unwrap().unwrap();
    assert!(entry.state == State::Expired && entry.kept.is_none() && entry.answered.is_some());
}

fn asking_with_why() -> Request {
    let mut request = request();
    request.asker.why = Some("x".into());
    request
}

#[test]
fn every_refusal_has_its_own_code_and_says_why() {
    let desk = Desk::new();
    desk.scene.file("s.sh", "echo\n");
    assert_eq!(code(desk.consume("0000000000aa", request())), "approval_unknown");
    assert_eq!(code(desk.answer("0000000000aa", true, None)), "approval_unknown");
    let id = desk.file(request()).id;
    let declined = desk.answer(&id, false, Some("not on a\nFriday")).unwrap();
    assert_eq!(declined.state, State::Declined);
    let denial = desk.consume(&id, request()).unwrap_err();
    assert_eq!(denial.code, "approval_declined");
    assert!(denial.message.contains("was declined by 'amy' (uid 1000) at 20"), "{}", denial.message);
    assert!(denial.message.ends_with(": not on a\\nFriday"), "{}", denial.message);
    for approved in [true, false] {
        let denial = desk.answer(&id, approved, None).unwrap_err();
        assert_eq!(denial.code, "approval_answered");
        assert!(
            denial.message.contains("was declined by 'amy'")
                && denial.message.ends_with("; it cannot be answered again"),
            "{}",
            denial.message
        );
    }
    let id = desk.file(request()).id;
    desk.answer(&id, true, None).unwrap();
    assert_eq!(code(desk.answer(&id, false, None)), "approval_answered");
    let mut other = request();
    other.ask = asking(["sh", "./s.sh", "-x"]).ask;
    assert_eq!(code(desk.consume(&id, other)), "approval_mismatch");
    for (agent, session) in [
        (Some("other"), Some("s1")),
        (Some("lead/child"), Some("s1")),
        (None, Some("s1")),
        (Some("lead"), Some("s2")),
        (Some("lead"), None),
    ] {
        let mut other = request();
        (other.asker.agent, other.asker.session) = (agent.map(Into::into), session.map(Into::into));
        let denial = desk.consume(&id, other).unwrap_err();
        assert_eq!(denial.code, "approval_mismatch");
        assert!(
            denial.message.ends_with("is for agent 'lead', session 's1', and for nobody else"),
            "{}",
            denial.message
        );
    }
    desk.scene.file("s.sh", "rm -rf /\n");
    let denial = desk.consume(&id, request()).unwrap_err();
    assert_eq!(denial.code, "approval_stale");
    assert!(
        denial.message.ends_with("the content of './s.sh' changed since it was asked for"),
        "{}",
        denial.message
    );
    // None of these tries used it up.
    desk.scene.file("s.sh", "echo\n");
    assert!(matches!(desk.consume(&id, request()), Ok(Use::Run(_))));
}

#[test]
fn explanations_may_be_left_out_when_it_is_used_but_not_be_others() {
    let desk = Desk::new();
    let explained = || {
        let mut request = asking_with_why();
        request.asker.labels.insert("k".into(), "v".into());
        request.evidence = Some(evidence("e", "seen"));
        request
    };
    let id = desk.file(explained()).id;
    desk.answer(&id, true, None).unwrap();
    let mut other = explained();
    other.asker.why = Some("else".into());
    assert_eq!(code(desk.consume(&id, other)), "approval_mismatch");
    let mut other = explained();
    other.evidence = Some(evidence("e", "not seen"));
    assert_eq!(code(desk.consume(&id, other)), "approval_mismatch");
    assert!(matches!(desk.consume(&id, request()), Ok(Use::Run(_))));
}

#[test]
fn an_edit_is_what_runs_and_the_original_is_told_so() {
    let desk = Desk::new();
    let id = desk.file(request()).id;
    let entry = desk.entry(&id);
    let kept = entry.kept.clone().unwrap();
    let mut edited = entry.filed(&kept);
    edited.ask = asking(["sh", "-c", "true"]).ask;
    let bound = desk.scene.bound(edited);
    let by = person("amy");
    let verdict = Verdict { approved: true, by: &by, said: None, edit: Some((bound, kept)) };
    let entry = desk.store().attempt(|tx, now| answer(tx, now, &id, verdict)).unwrap().unwrap();
    assert_eq!(entry.bound.argv[1].0, b"-c");
    assert_eq!(entry.asked_argv.as_ref().unwrap()[1].0, b"./s.sh");
    let denial = desk.consume(&id, request()).unwrap_err();
    assert_eq!(denial.code, "approval_edited");
    assert!(denial.hint.unwrap().starts_with(&format!("run those with --approval {id} and no command")));
    let again = desk.file(request());
    assert!(
        again.id == id && again.edited && again.hint().starts_with("other words were approved"),
        "{}",
        again.hint()
    );
    let stored = Request { ask: Ask::Stored, approval: Some(id.clone()), ..Request::default() };
    let stored = desk.entry(&id).request(stored).unwrap();
    assert!(matches!(desk.consume(&id, stored), Ok(Use::Run(_))));
}

#[test]
fn what_was_decided_lately_is_told_latest_first() {
    let desk = Desk::new();
    let mut store = desk.at(0);
    let mut ids = Vec::new();
    for number in 0..7 {
        let mut request = asking(["sh".to_owned(), number.to_string()]);
        request.asker.agent = Some(format!("agent{number}"));
        let id = desk.file_in(&mut store, request, TERMS).unwrap().id;
        let by = person("amy");
        let verdict = Verdict { approved: number % 2 == 0, by: &by, said: Some("so"), edit: None };
        store.attempt(|tx, now| answer(tx, now, &id, verdict)).unwrap().unwrap();
        ids.push(id);
    }
    let entry = desk.entry(&desk.file(asking(["sh", "next"])).id);
    let told = store.transaction(|tx, now| lately(tx, now, &entry)).unwrap();
    let told: Vec<_> =
        told.iter().map(|one| (one.id.clone(), one.answered.approved, one.agent.clone().unwrap())).collect();
    let expected: Vec<_> = (2..7).rev().map(|n| (ids[n].clone(), n % 2 == 0, format!("agent{n}"))).collect();
    assert_eq!(told, expected);
}

#[test]
fn an_escalation_is_given_to_one_and_once() {
    let desk = Desk::new();
    let terms = Terms { escalate_after: Some(Duration::from_secs(60)), ..TERMS };
    let id = desk.file_in(&mut desk.at(0), request(), terms).unwrap().id;
    let due = |seconds| {
        let entries = desk.at(seconds).transaction(escalations).unwrap();
        entries.into_iter().map(|entry| entry.id).collect::<Vec<_>>()
    };
    assert!(due(59).is_empty());
    assert_eq!(due(60), std::slice::from_ref(&id));
    assert!(due(61).is_empty());
    assert!(desk.at(61).transaction(|tx, now| find(tx, now, &id)).unwrap().unwrap().escalated_at.is_some());
    // What was answered, and what has expired, escalates no more.
    let other = desk.file_in(&mut desk.at(100), asking(["sh", "x"]), terms).unwrap().id;
    let by = person("amy");
    let verdict = Verdict { approved: false, by: &by, said: None, edit: None };
    desk.at(101).attempt(|tx, now| answer(tx, now, &other, verdict)).unwrap().unwrap();
    desk.file_in(&mut desk.at(102), asking(["sh", "y"]), Terms { expires: Duration::from_secs(10), ..terms })
        .unwrap();
    assert!(due(1000).is_empty());
}

#[test]
fn many_escalations_are_given_a_few_at_a_time() {
    let desk = Desk::new();
    let terms = Terms { escalate_after: Some(Duration::from_secs(60)), max_pending: 10, ..TERMS };
    let mut store = desk.at(0);
    let ids: Vec<_> = (0..10)
        .map(|n| desk.file_in(&mut store, asking(["sh".to_owned(), n.to_string()]), terms).unwrap().id)
        .collect();
    let due = || {
        let entries = desk.at(60).transaction(escalations).unwrap();
        entries.into_iter().map(|entry| entry.id).collect::<Vec<_>>()
    };
    assert_eq!(due(), ids[..8]);
    assert_eq!(due(), ids[8..]);
    assert!(due().is_empty());
}
