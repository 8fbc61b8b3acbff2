//! The approvals verbs: what they show, what they answer, and what they refuse.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use guardexec::approval::bound::{Asking, Bound, Cause};
use guardexec::approval::kept::Kept;
use guardexec::approval::queue::{self, Filing, Terms};
use guardexec::decision::{Decision, Facts, decide};
use guardexec::policy::load::{LoadContext, load};
use guardexec::policy::model::Policy;
use guardexec::request::{Ask, Evidence, Request, Stdin};
use guardexec::state::Store;
use guardexec::sys::account::Person;
use serde_json::Value;

use crate::harness::{Answer, As, Bench, Call, read_audit};

mod answers;
pub mod running;

/// A bench of whoever runs the tests, with a policy that asks for `sh` and keeps its state.
struct Desk {
    bench: Bench,
    policy: PathBuf,
}

const RULES: &str = "[sandbox]\nprofile = \"host\"\n[env]\nrequest = [\"API_KEY\"]\n[[rule]]\nid = \"shell\"\nprogram = \"sh\"\n\
                     decision = \"ask\"\nreason = \"a shell can do anything\"\nsubcommand = [\"./s.sh\", \"./t.sh\"]\n\
                     [[rule]]\nid = \"date\"\nprogram = \"date\"\ndecision = \"allow\"\n";

impl Desk {
    fn new(more: &str) -> Desk {
        let who = if nix::unistd::geteuid().is_root() { As::Root } else { As::User };
        let bench = Bench::new(who).expect("a bench of one's own");
        bench.file("work/s.sh", "echo s\n");
        bench.file("work/t.sh", "echo t\n");
        let state = bench.dir.join("state");
        let text = format!("{RULES}\n[state]\ndir = {state:?}\n{more}\n");
        let _ = bench.policy(&text);
        Desk { policy: bench.dir.join("policy.toml"), bench }
    }

    fn policies(&self) -> Vec<Policy> {
        let context = LoadContext { home: "/usr/share".into(), uid: nix::unistd::geteuid().as_raw() };
        vec![load(&self.policy, &context).unwrap_or_else(|e| panic!("{e}"))]
    }

    fn facts(&self) -> Facts {
        Facts {
            env: Vec::new(),
            start_dir: Some(self.bench.work()),
            user: "someone".into(),
            home: "/usr/share".into(),
            agent: None,
        }
    }

    fn request(&self, words: &[&str]) -> Request {
        let mut request =
            Request { ask: Ask::Argv(words.iter().map(OsString::from).collect()), ..Request::default() };
        request.asker.agent = Some("lead".into());
        request.asker.session = Some("s 1".into());
        request
    }

    fn file(&self, words: &[&str]) -> String {
        self.file_with(self.request(words), None)
    }

    /// Files a request as a run does.
    fn file_with(&self, request: Request, escalate_after: Option<Duration>) -> String {
        let (policies, facts) = (self.policies(), self.facts());
        for policy in &policies {
            policy.compile_all().expect("patterns");
        }
        let kept = Kept::of(&request, &facts, &policies);
        let (asker, evidence) = (request.asker.clone(), request.evidence.clone());
        let Ask::Argv(words) = &request.ask else { panic!("words") };
        let Decision::Ask(grant) = decide(&policies, words.clone(), request, &facts) else {
            panic!("not asked")
        };
        let causes = vec![Cause::of_grant(&grant)];
        let asking = Asking { asker: &asker, evidence: evidence.as_ref(), causes, policies: &policies };
        let bound = Bound::of(&grant, asking).expect("bound");
        let terms = Terms { expires: Duration::from_secs(600), max_pending: 16, escalate_after };
        let by = Person::here();
        let mut store = Store::open(&self.bench.dir.join("state")).expect("a store");
        let filed =
            store.attempt(|tx, now| queue::file(tx, now, Filing { bound: &bound, kept, terms, by: &by }));
        filed.expect("the store").expect("filed").id
    }

    /// A verb with its words.
    fn call(&self, words: &[&str]) -> Call<'_> {
        self.bench.call().opt(["--policy".as_ref(), self.policy.as_os_str()]).opt(["approvals"]).opt(words)
    }

    #[track_caller]
    fn verb(&self, words: &[&str], exit: i32) -> Answer {
        let answer = self.call(words).raw();
        assert_eq!(answer.exit, exit, "{words:?}\n{}\n{}", text(&answer), answer.stderr);
        answer
    }

    fn audit(&self) -> Vec<Value> {
        let mut records = read_audit(&self.bench.dir.join("audit.jsonl"));
        records.retain(|record| record["event"] == "approval");
        records.iter().for_each(|record| crate::harness::schema::check("audit", record));
        records
    }
}

fn text(answer: &Answer) -> String {
    String::from_utf8(answer.stdout.clone()).expect("UTF-8")
}

fn lines(answer: &Answer) -> Vec<Value> {
    text(answer)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
        .collect()
}

#[test]
fn looking_at_nothing_makes_nothing() {
    let desk = Desk::new("");
    assert_eq!(text(&desk.verb(&["list"], 0)), "nothing waits for an answer\n");
    assert_eq!(text(&desk.verb(&["list", "--json", "--all"], 0)), "[]\n");
    assert_eq!(text(&desk.verb(&["export"], 0)), "");
    for words in [&["show", "0000000000aa"][..], &["approve", "0000000000aa"], &["decline", "0000000000aa"]] {
        let answer = desk.verb(words, 1);
        assert!(
            answer.stderr.starts_with("guardexec: error: there is no approval '0000000000aa'\nhint: "),
            "{}",
            answer.stderr
        );
    }
    assert!(!desk.bench.dir.join("state").exists());
}

#[test]
fn a_request_is_listed_shown_approved_and_exported() {
    let desk = Desk::new("");
    let mut request = desk.request(&["sh", "./s.sh", "a b"]);
    request.env = vec![("API_KEY".into(), Some("hunter2".into()))];
    request.stdin = Stdin::Bytes(b"hunter2".to_vec());
    request.asker.why = Some("because".into());
    request.evidence = Some(Evidence { name: "log".into(), bytes: b"line\n".to_vec() });
    let id = desk.file_with(request, None);
    let other = desk.file(&["sh", "./t.sh", "--token=hunter2"]);
    let table = text(&desk.verb(&["list"], 0));
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect())
        .collect();
    assert_eq!(rows[0], ["ID", "STATE", "EXPIRES", "AGENT", "ASKED BY", "WHAT"]);
    let at = rows[1][2];
    assert_eq!(
        rows[1],
        [id.as_str(), "pending", at, "'lead'", "'shell'", "command 'sh', 3 words"],
        "{table}"
    );
    assert_eq!((rows.len(), rows[2][0]), (3, other.as_str()));
    let screen = text(&desk.verb(&["show", &id], 0));
    for part in [
        format!("approval   {id}  pending, expires in "),
        "           [2] 'a b'\n".into(),
        "API_KEY='[masked]'\n".into(),
        "because    'shell' (".into(),
        "           | because\n".into(),
        "           | line\n".into(),
    ] {
        assert!(screen.contains(&part), "{part:?} is not in\n{screen}");
    }
    let shown: Value = lines(&desk.verb(&["show", "--json", &id], 0)).remove(0);
    assert_eq!(
        (&shown["state"], &shown["argv"][2], &shown["evidence"]["text"]),
        (&"pending".into(), &"a b".into(), &"line\n".into())
    );
    let answer = desk.verb(&["approve", &id, "--note", "fine\u{1b}[2K"], 0);
    assert!(
        text(&answer).starts_with(&format!("approved {id}, command 'sh': it can be used once, until 2")),
        "{}",
        text(&answer)
    );
    desk.verb(&["decline", &other, "--reason", "not today"], 0);
    assert_eq!(text(&desk.verb(&["list"], 0)), "nothing waits for an answer\n");
    let all = lines(&desk.verb(&["list", "--all", "--json"], 0)).remove(0);
    let states: Vec<&str> =
        all.as_array().unwrap().iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["approved", "declined"]);
    let exported = desk.verb(&["export"], 0);
    assert!(!exported.stdout.contains(&0x1b) && !text(&exported).contains("hunter2"), "{}", text(&exported));
    let records = lines(&exported);
    assert_eq!(records[0]["answer"]["verdict"], "approve");
    assert_eq!(
        (&records[0]["answer"]["text"], &records[1]["answer"]["text"]),
        (&"fine\u{1b}[2K".into(), &"not today".into())
    );
    assert_eq!(records[0]["answer"]["by"]["uid"], nix::unistd::getuid().as_raw());
    assert_eq!(
        (&records[1]["argv"][2], &records[1]["why"], &records[0]["why"]),
        (&"--token=[masked]".into(), &Value::Null, &"because".into())
    );
    let screen = text(&desk.verb(&["show", &other], 0));
    assert!(screen.contains(&format!("lately     {id} for 'lead': approved by ")), "{screen}");
    let audit = desk.audit();
    assert_eq!(audit.len(), 2);
    assert_eq!(
        (&audit[0]["id"], &audit[0]["state"], &audit[0]["reason"]),
        (&id.clone().into(), &"approved".into(), &"fine\u{1b}[2K".into())
    );
    assert_eq!((&audit[1]["id"], &audit[1]["state"]), (&other.into(), &"declined".into()));
}

#[test]
fn an_answer_is_given_once_and_not_by_an_asker() {
    let desk = Desk::new("");
    let id = desk.file(&["sh", "./s.sh"]);
    for verb in ["approve", "decline"] {
        let answer = desk.call(&[verb, &id]).env("GUARDEXEC_AGENT", "lead").raw();
        assert_eq!(answer.exit, 126, "{}", answer.stderr);
        assert!(
            answer
                .stderr
                .starts_with("guardexec: error: GUARDEXEC_AGENT is set: an asker does not answer itself\n"),
            "{}",
            answer.stderr
        );
    }
    desk.verb(&["decline", &id, "--reason", "no"], 0);
    for verb in ["approve", "decline"] {
        let answer = desk.verb(&[verb, &id], 1);
        assert!(
            answer.stderr.starts_with(&format!("guardexec: error: approval {id} was declined by '")),
            "{}",
            answer.stderr
        );
        assert!(
            answer.stderr.contains(": no; it cannot be answered again\nhint: an answer cannot be taken back"),
            "{}",
            answer.stderr
        );
    }
    assert_eq!(desk.audit().len(), 1, "what was not answered is not recorded");
    let long = "x".repeat(5000);
    let id = desk.file(&["sh", "./s.sh"]);
    assert!(
        desk.verb(&["approve", &id, "--note", &long], 125)
            .stderr
            .contains("--note is longer than 4096 bytes")
    );
    assert!(text(&desk.verb(&["list"], 0)).contains(&id));
}

#[test]
fn case_129_what_changed_since_it_was_asked_cannot_be_approved() {
    let desk = Desk::new("");
    let id = desk.file(&["sh", "./s.sh"]);
    desk.bench.file("work/s.sh", "rm -rf ~\n");
    let answer = desk.verb(&["approve", &id], 1);
    let expected = format!(
        "guardexec: error: approval {id} cannot be given: the content of './s.sh' changed since it was asked for\n"
    );
    assert!(answer.stderr.starts_with(&expected), "{}", answer.stderr);
    desk.bench.file("work/s.sh", "echo s\n");
    desk.verb(&["approve", &id], 0);
    let id = desk.file(&["sh", "./t.sh"]);
    fs::remove_file(desk.bench.work().join("t.sh")).unwrap();
    assert!(desk.verb(&["approve", &id], 1).stderr.contains("'./t.sh' is gone"));
    let id = desk.file(&["sh", "./t.sh", "x"]);
    let policy = fs::read_to_string(&desk.policy).unwrap();
    desk.bench.file("policy.toml", format!("{policy}# more\n"));
    assert!(desk.verb(&["approve", &id], 1).stderr.contains("policy.toml' changed since it was asked for"));
    desk.verb(&["decline", &id], 0);
}

#[test]
fn an_edit_is_judged_by_the_policy() {
    let desk = Desk::new("");
    let id = desk.file(&["sh", "./s.sh"]);
    for (argv, part) in [
        (
            &["rm", "-rf", "/"][..],
            "the edited words are refused: command 'rm' is not in the allowlist ['date', 'sh']",
        ),
        (&["sh", "-c", "id"], "the edited words are refused: "),
        (&["sh", "./none.sh"], "the edited words are refused: "),
    ] {
        let words: Vec<&str> = ["approve", &id, "--argv"].into_iter().chain(argv.iter().copied()).collect();
        let answer = desk.verb(&words, 1);
        assert!(answer.stderr.contains(part), "{}", answer.stderr);
    }
    assert!(text(&desk.verb(&["list"], 0)).contains("pending"), "nothing was answered");
    desk.verb(&["approve", &id, "--note", "safer", "--argv", "sh", "./t.sh", "--argv"], 0);
    let shown = lines(&desk.verb(&["show", "--json", &id], 0)).remove(0);
    assert_eq!(
        (&shown["argv"], &shown["asked_argv"]),
        (&serde_json::json!(["sh", "./t.sh", "--argv"]), &serde_json::json!(["sh", "./s.sh"]))
    );
    assert_eq!((&shown["files"][0]["path"], &shown["state"]), (&"./t.sh".into(), &"approved".into()));
    assert_ne!(shown["digest"], Value::Null);
    let screen = text(&desk.verb(&["show", &id], 0));
    assert!(screen.contains("asked for  2 words\n") && screen.contains("edited to  3 words\n"), "{screen}");
    // What is allowed without asking can be approved in its place as well.
    let id = desk.file(&["sh", "./s.sh", "again"]);
    desk.verb(&["approve", &id, "--argv", "date"], 0);
}

#[test]
fn somebody_is_told_once_when_nobody_answers() {
    let desk = Desk::new("");
    let told = desk.bench.dir.join("told");
    let hook = desk.bench.script("escalate", &format!("#!/bin/sh\ncat >> {}\n", told.display()));
    let policy = fs::read_to_string(&desk.policy).unwrap();
    desk.bench.file(
        "policy.toml",
        format!("{policy}\n[approval]\nescalate = {hook:?}\nescalate_after = \"1ms\"\n"),
    );
    let id = desk.file_with(desk.request(&["sh", "./s.sh"]), Some(Duration::ZERO));
    for words in [&["list"][..], &["show", &id], &["list"]] {
        let answer = desk.verb(words, 0);
        assert_eq!(answer.stderr, "");
    }
    let text = fs::read_to_string(&told).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("once: {e}: {text}"));
    assert_eq!(
        (&document["id"], &document["argv"]),
        (&id.clone().into(), &serde_json::json!(["sh", "./s.sh"]))
    );
    assert_ne!(document["escalated_at"], Value::Null);
}

#[test]
fn an_answer_that_cannot_be_recorded_is_not_given() {
    let desk = Desk::new("");
    let id = desk.file(&["sh", "./s.sh"]);
    let audit = desk.bench.dir.join("audit.jsonl");
    let _ = fs::remove_file(&audit);
    fs::create_dir(&audit).unwrap();
    let answer = desk.verb(&["approve", &id], 125);
    assert!(answer.stderr.contains("; nothing was answered\nhint: "), "{}", answer.stderr);
    fs::remove_dir(&audit).unwrap();
    assert!(text(&desk.verb(&["list"], 0)).contains(&id), "it still waits");
}

#[test]
fn the_state_has_to_be_the_policys() {
    let desk = Desk::new("");
    let answer = desk.verb(&["list", "--state", "/tmp"], 125);
    assert!(answer.stderr.contains("--state /tmp contradicts the policy"), "{}", answer.stderr);
    let answer = desk.bench.call().opt(["approvals", "list", "--policy", "/none/such.toml"]).raw();
    assert_eq!(answer.exit, 125, "{}", answer.stderr);
}
