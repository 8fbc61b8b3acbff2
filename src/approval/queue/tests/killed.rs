//! Many processes at once, and processes that die at the worst moment. The processes are this test binary, started again: a
//! forked one would have the database library's locks as another test's thread held them.

use std::mem::ManuallyDrop;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::*;
use crate::sys::fd;
use crate::sys::process::{kill, own_pid};

/// Starts one of the processes below at this desk.
pub(in crate::approval) fn start(desk: &Desk, process: &str, id: &str, step: &str, stdin: Stdio) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", &format!("approval::{process}")])
        .env("GX_SCENE", &desk.scene.dir)
        .env("GX_STATE", &desk.state.0)
        .env("GX_ID", id)
        .env("GX_STEP", step)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// In such a process: the desk, whose directories are the test's.
pub(in crate::approval) fn given() -> (ManuallyDrop<Desk>, String, String) {
    let path = |name: &str| PathBuf::from(std::env::var_os(name).expect("only started by a test"));
    let text = |name: &str| std::env::var(name).unwrap_or_default();
    let desk = Desk { scene: Scene::again(path("GX_SCENE")), state: Dir(path("GX_STATE")) };
    (ManuallyDrop::new(desk), text("GX_ID"), text("GX_STEP"))
}

/// Runs one of the processes to its death; whether it killed itself.
fn dies(desk: &Desk, process: &str, id: &str, step: &str) -> bool {
    let mut child = start(desk, &format!("queue::tests::killed::{process}"), id, step, Stdio::null());
    child.wait().unwrap().signal() == Some(libc::SIGKILL)
}

fn die() {
    kill(own_pid(), libc::SIGKILL).unwrap();
}

/// Kills itself inside of the transaction or right after it, as the test says.
fn dying<T: std::fmt::Debug>(
    desk: &Desk,
    step: &str,
    body: impl FnOnce(&Transaction<'_>, &Moment) -> Outcome<T>,
) {
    let done = desk.store().attempt(|tx, now| {
        let done = body(tx, now);
        if step == "inside" {
            die();
        }
        done
    });
    done.unwrap().unwrap();
    die();
}

#[test]
#[ignore = "a process that another test starts"]
fn filing() {
    let (desk, _, step) = given();
    let bound = desk.scene.bound(request());
    let by = person("bob");
    let kept = Kept::of(&request(), &desk.scene.facts, &desk.scene.policy);
    dying(&desk, &step, |tx, now| file(tx, now, Filing { bound: &bound, kept, terms: TERMS, by: &by }));
}

#[test]
#[ignore = "a process that another test starts"]
fn answering() {
    let (desk, id, step) = given();
    let by = person("amy");
    dying(&desk, &step, |tx, now| {
        answer(tx, now, &id, Verdict { approved: true, by: &by, said: None, edit: None })
    });
}

#[test]
#[ignore = "a process that another test starts"]
fn using() {
    let (desk, id, step) = given();
    let bound = desk.scene.bound(request());
    dying(&desk, &step, |tx, now| consume(tx, now, &id, &bound, &format!("run-{step}")));
}

/// Waits until its standard input ends, and then uses the approval: a failing test where it cannot.
#[test]
#[ignore = "a process that another test starts"]
fn racing() {
    let (desk, id, step) = given();
    let bound = desk.scene.bound(request());
    std::io::read_to_string(std::io::stdin()).unwrap();
    let used = desk.store().attempt(|tx, now| consume(tx, now, &id, &bound, &step)).unwrap();
    match used {
        Ok(Use::Run(_)) => {}
        Err(denial) if denial.code == "approval_consumed" => std::process::exit(7),
        other => panic!("{other:?}"),
    }
}

#[test]
fn fifty_processes_use_one_approval_once() {
    let desk = Desk::new();
    let id = desk.file(request()).id;
    desk.answer(&id, true, None).unwrap();
    // All wait at one pipe, and its closing starts them together.
    let (gate, opens) = fd::pipe().unwrap();
    let process = "queue::tests::killed::racing";
    let start = |n: usize| start(&desk, process, &id, &format!("run-{n}"), gate.try_clone().unwrap().into());
    let children: Vec<Child> = (0..50).map(start).collect();
    drop(opens);
    let ended: Vec<ExitStatus> = children.into_iter().map(|mut child| child.wait().unwrap()).collect();
    let count = |status| ended.iter().filter(|ended| ended.code() == Some(status)).count();
    assert_eq!((count(0), count(7)), (1, 49), "{ended:?}");
    let winner = ended.iter().position(ExitStatus::success).unwrap();
    assert_eq!(desk.entry(&id).used.unwrap().1, format!("run-{winner}"));
}

#[test]
fn killed_while_filing_leaves_no_request_and_killed_after_it_a_whole_one() {
    let desk = Desk::new();
    let states = || {
        let page = desk.store().transaction(|tx, now| approvals::page(tx, now, true, 0)).unwrap();
        page.into_iter().map(|(_, row)| row.state).collect::<Vec<_>>()
    };
    assert!(dies(&desk, "filing", "", "inside"));
    assert_eq!(states(), []);
    assert!(dies(&desk, "filing", "", "after"));
    assert_eq!(states(), [State::Pending]);
    assert!(!desk.file(request()).fresh, "whoever asks again finds it");
}

#[test]
fn killed_while_answering_has_not_answered() {
    let desk = Desk::new();
    let id = desk.file(request()).id;
    assert!(dies(&desk, "answering", &id, "inside"));
    let entry = desk.entry(&id);
    assert_eq!((entry.state, entry.answered), (State::Pending, None));
    assert!(entry.kept.is_some());
    assert!(dies(&desk, "answering", &id, "after"));
    assert_eq!(desk.entry(&id).state, State::Approved);
}

#[test]
fn killed_while_using_has_not_used_it_and_killed_after_it_has() {
    let desk = Desk::new();
    let id = desk.file(request()).id;
    desk.answer(&id, true, None).unwrap();
    // Before the commit nothing may start.
    assert!(dies(&desk, "using", &id, "inside"));
    let entry = desk.entry(&id);
    assert_eq!((entry.state, entry.used), (State::Approved, None));
    // Before it could start anything.
    assert!(dies(&desk, "using", &id, "after"));
    let entry = desk.entry(&id);
    assert_eq!((entry.state, entry.used.unwrap().1.as_str()), (State::Consumed, "run-after"));
    assert_eq!(code(desk.consume(&id, request())), "approval_consumed");
}
