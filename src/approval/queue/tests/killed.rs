//! Many processes at once, and processes that die at the worst moment.

use std::io::Read as _;
use std::os::fd::AsRawFd as _;

use super::*;
use crate::state::tests::reaped;
use crate::sys::fd;
use crate::sys::process::{fork_for_test, kill, own_pid};

/// Runs `body` in a process that kills itself where the body says so; gives its exit status, 137 where it did.
fn dying(body: impl FnOnce(&dyn Fn())) -> i32 {
    reaped(fork_for_test(|| {
        body(&|| kill(own_pid(), libc::SIGKILL).unwrap());
        0
    }))
}

#[test]
fn fifty_processes_use_one_approval_once() {
    let desk = Desk::new();
    let id = desk.file(request()).id;
    desk.answer(&id, true, None).unwrap();
    let bound = desk.scene.bound(request());
    // All wait at one pipe, and its closing starts them together.
    let (gate, opens) = fd::pipe().unwrap();
    let children: Vec<_> = (0..50)
        .map(|number| {
            fork_for_test(|| {
                fd::close_all_but(&mut [0, 1, 2, gate.as_raw_fd()]);
                let _ = std::fs::File::from(gate.try_clone().unwrap()).read(&mut [0]);
                let run = format!("run-{number}");
                match desk.store().attempt(|tx, now| consume(tx, now, &id, &bound, &run)).unwrap() {
                    Ok(Use::Run(_)) => 0,
                    Err(denial) if denial.code == "approval_consumed" => 1,
                    _ => 2,
                }
            })
        })
        .collect();
    drop(opens);
    let ended: Vec<i32> = children.into_iter().map(reaped).collect();
    let count = |status| ended.iter().filter(|ended| **ended == status).count();
    assert_eq!((count(0), count(1)), (1, 49), "{ended:?}");
    let winner = ended.iter().position(|ended| *ended == 0).unwrap();
    assert_eq!(desk.entry(&id).used.unwrap().1, format!("run-{winner}"));
}

#[test]
fn killed_while_filing_leaves_no_request_and_killed_after_it_a_whole_one() {
    let desk = Desk::new();
    let bound = desk.scene.bound(request());
    let by = person("bob");
    let filing = || {
        let kept = Kept::of(&request(), &desk.scene.facts, &desk.scene.policy);
        Filing { bound: &bound, kept, terms: TERMS, by: &by }
    };
    let states = || {
        let page = desk.store().transaction(|tx, now| approvals::page(tx, now, true, 0)).unwrap();
        page.into_iter().map(|(_, row)| row.state).collect::<Vec<_>>()
    };
    let status = dying(|die| {
        let _ = desk.store().attempt(|tx, now| {
            let filed = file(tx, now, filing());
            die();
            filed
        });
    });
    assert_eq!((status, states()), (137, vec![]));
    let status = dying(|die| {
        desk.store().attempt(|tx, now| file(tx, now, filing())).unwrap().unwrap();
        die();
    });
    assert_eq!((status, states()), (137, vec![State::Pending]));
    assert!(!desk.file(request()).fresh, "whoever asks again finds it");
}

#[test]
fn killed_while_answering_has_not_answered() {
    let desk = Desk::new();
    let id = desk.file(request()).id;
    for approved in [true, false] {
        let status = dying(|die| {
            let by = person("amy");
            let verdict = Verdict { approved, by: &by, said: None, edit: None };
            let _ = desk.store().attempt(|tx, now| {
                let answered = answer(tx, now, &id, verdict);
                die();
                answered
            });
        });
        let entry = desk.entry(&id);
        assert_eq!((status, entry.state, entry.answered), (137, State::Pending, None));
        assert!(entry.kept.is_some());
    }
    let status = dying(|die| {
        desk.answer(&id, true, None).unwrap();
        die();
    });
    assert_eq!((status, desk.entry(&id).state), (137, State::Approved));
}

#[test]
fn killed_while_using_has_not_used_it_and_killed_after_it_has() {
    let desk = Desk::new();
    let id = desk.file(request()).id;
    desk.answer(&id, true, None).unwrap();
    let bound = desk.scene.bound(request());
    let status = dying(|die| {
        let _ = desk.store().attempt(|tx, now| {
            let used = consume(tx, now, &id, &bound, "run-1");
            die(); // before the commit nothing may start
            used
        });
    });
    let entry = desk.entry(&id);
    assert_eq!((status, entry.state, entry.used), (137, State::Approved, None));
    let status = dying(|die| {
        desk.store().attempt(|tx, now| consume(tx, now, &id, &bound, "run-2")).unwrap().unwrap();
        die(); // before it could start anything
    });
    let entry = desk.entry(&id);
    assert_eq!((status, entry.state, entry.used.unwrap().1.as_str()), (137, State::Consumed, "run-2"));
    assert_eq!(code(desk.consume(&id, request())), "approval_consumed");
}
