//! What ends a wait, and what is read of standard input.

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::fd::OwnedFd;
use std::time::Instant;

use super::*;
use crate::approval::queue::tests::killed::{given, start};
use crate::approval::queue::tests::{Desk, TERMS, request};
use crate::approval::queue::{Terms, escalations};
use crate::state::Store;
use crate::state::tests::reaped;
use crate::sys::process::fork_for_test;

const LONG: Duration = Duration::from_secs(20);

/// Waits as an asker would.
fn wait(desk: &Desk, id: &str, most: Duration, stop: Stop<'_>, escalates: bool) -> Waited {
    let mut view = Store::look(&desk.state.0).unwrap().unwrap();
    let vigil = Vigil::begin(most, stop).unwrap();
    answer(&mut view, id, &vigil, escalates).unwrap()
}

#[test]
fn an_answer_ends_it_whatever_it_is() {
    let desk = Desk::new();
    for (number, approved) in [true, false].into_iter().enumerate() {
        let mut request = request();
        request.asker.why = Some(number.to_string());
        let id = desk.file(request).id;
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                // The store of this thread: nothing of it is shared.
                wait(&desk, &id, LONG, None, false)
            });
            desk.answer(&id, approved, None).unwrap();
            assert_eq!(waiting.join().unwrap(), Waited::Settled);
        });
        let began = Instant::now();
        assert_eq!(wait(&desk, &id, LONG, None, false), Waited::Settled);
        assert!(began.elapsed() < LONG);
    }
    assert_eq!(
        wait(&desk, "0000000000aa", LONG, None, false),
        Waited::Settled,
        "there is nothing to wait for"
    );
}

#[test]
fn time_a_signal_and_the_switch_end_it() {
    let desk = Desk::new();
    let filed = desk.file(request());
    let began = Instant::now();
    assert_eq!(wait(&desk, &filed.id, Duration::from_millis(300), None, false), Waited::Late);
    assert!(began.elapsed() >= Duration::from_millis(300));
    let denial = unanswered(&filed, Duration::from_secs(90));
    assert_eq!(
        (denial.code, denial.message),
        ("approval_timeout", format!("nobody answered approval {} within 1m 30s", filed.id))
    );
    assert_eq!(wait(&desk, &filed.id, LONG, Some(&|| true), false), Waited::Stopped);
    let mut child =
        start(&desk, "wait::tests::waiting_until_a_signal", &filed.id, "", std::process::Stdio::null());
    assert!(child.wait().unwrap().success());
}

#[test]
#[ignore = "a process that another test starts"]
fn waiting_until_a_signal() {
    let (desk, id, _) = given();
    let mut view = Store::look(&desk.state.0).unwrap().unwrap();
    let vigil = Vigil::begin(LONG, None).unwrap();
    // This thread blocks it until the wait lets it through.
    nix::sys::signal::raise(nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(answer(&mut view, &id, &vigil, false).unwrap(), Waited::Cancelled(libc::SIGTERM));
}

#[test]
fn whoever_waits_is_told_that_an_escalation_is_due() {
    let desk = Desk::new();
    let terms = Terms { escalate_after: Some(Duration::ZERO), ..TERMS };
    let id = desk.file_in(&mut desk.store(), request(), terms).unwrap().id;
    assert_eq!(
        wait(&desk, &id, Duration::from_millis(300), None, false),
        Waited::Late,
        "it could tell nobody"
    );
    assert_eq!(wait(&desk, &id, LONG, None, true), Waited::Escalation);
    assert_eq!(desk.store().transaction(escalations).unwrap().len(), 1);
    assert_eq!(wait(&desk, &id, Duration::from_millis(300), None, true), Waited::Late, "once");
}

/// In a process whose standard input is this pipe's end: what reading it came to.
fn reading(from: OwnedFd, most: Duration, expected: impl Fn(Result<Vec<u8>, Reply>) -> bool) -> bool {
    let status = reaped(fork_for_test(|| {
        // The other end must not stay open here, or the input would have no end.
        fd::close_all_but(&mut [0, 1, 2, from.as_raw_fd()]);
        nix::unistd::dup2_stdin(&from).unwrap();
        i32::from(!expected(own_input(most, None)))
    }));
    status == 0
}

#[test]
fn standard_input_is_read_whole_or_not_at_all() {
    let piped = |bytes: Vec<u8>| {
        let (read, write) = fd::pipe().unwrap();
        std::thread::spawn(move || {
            let _ = std::fs::File::from(write).write_all(&bytes);
        });
        read
    };
    let all = vec![7; 300_000];
    assert!(reading(piped(all.clone()), LONG, |read| read.is_ok_and(|read| read == all)));
    let code = |read: Result<Vec<u8>, Reply>, part: &str| match read {
        Err(Reply::Declined { denial, .. }) => {
            denial.code == "approval_unbindable" && denial.message.ends_with(part)
        }
        _ => false,
    };
    assert!(reading(piped(vec![7; MOST_INPUT + 1]), LONG, |read| code(
        read,
        "standard input is larger than 16 MiB"
    )));
    let (read, write) = fd::pipe().unwrap();
    let status = reading(read, Duration::from_millis(200), |read| code(read, "did not end within 200ms"));
    drop(write);
    assert!(status);
}
