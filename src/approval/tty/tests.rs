//! A terminal of the tests' own: what is typed when, and what comes of it.

use std::io::BufRead as _;
use std::io::BufReader;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Instant;

use super::*;
use crate::sys::fd::set_nonblocking;

/// Runs a conversation against a terminal whose other side is handed to `person`, who may give it back to keep it open.
fn talk(
    screen: &str,
    most: Duration,
    person: impl FnOnce(File) -> Option<File> + Send + 'static,
) -> (Said, Duration) {
    let pair = nix::pty::openpty(None, None).expect("a terminal");
    let (master, slave): (OwnedFd, OwnedFd) = (pair.master, pair.slave);
    set_nonblocking(slave.as_fd(), true).unwrap();
    let person = thread::spawn(move || person(File::from(master)));
    let began = Instant::now();
    let vigil = Vigil::begin(most, None).unwrap();
    let said = converse(File::from(slave), screen, RUN, &vigil).unwrap();
    let took = began.elapsed();
    drop(vigil);
    drop(person.join().expect("the person"));
    (said, took)
}

/// Reads until the question stands there.
fn until_asked(master: &File) {
    let mut seen = Vec::new();
    let mut from = BufReader::with_capacity(1, master.try_clone().unwrap());
    while !seen.ends_with(b"declines: ") {
        let byte = *from.fill_buf().unwrap().first().expect("a terminal that stays");
        from.consume(1);
        seen.push(byte);
    }
}

const LONG: Duration = Duration::from_secs(20);

#[test]
fn the_line_is_what_is_typed_after_the_question() {
    for (typed, line) in [
        ("yes\n", "yes"),
        ("no\n", "no"),
        ("\n", ""),
        ("yes \n", "yes "),
        ("YES\n", "YES"),
        ("yes\rno\n", "yes"),
    ] {
        let (said, _) = talk("screen\n", LONG, move |mut master| {
            until_asked(&master);
            master.write_all(typed.as_bytes()).unwrap();
            Some(master)
        });
        assert_eq!(said, Said::Line(line.into()), "{typed:?}");
    }
}

#[test]
fn a_line_without_its_end_is_no_answer() {
    for typed in ["yes\x04", "yes\x04\x04", "\x04"] {
        let (said, _) = talk("screen\n", LONG, move |mut master| {
            until_asked(&master);
            master.write_all(typed.as_bytes()).unwrap();
            // Some kernels end the line with the first, others with the second.
            let _ = master.write_all(b"\x04");
            Some(master)
        });
        assert_eq!(said, Said::Line(Vec::new()), "{typed:?}");
    }
}

#[test]
fn what_was_typed_ahead_does_not_count() {
    let pair = nix::pty::openpty(None, None).expect("a terminal");
    set_nonblocking(pair.slave.as_fd(), true).unwrap();
    let mut master = File::from(pair.master);
    master.write_all(b"yes\nye").unwrap();
    // The line discipline takes what is written at once: the slave could read it now.
    let mut seen = [crate::sys::fd::PollFd {
        fd: std::os::fd::AsRawFd::as_raw_fd(&pair.slave),
        events: libc::POLLIN,
        revents: 0,
    }];
    let mask = crate::sys::signal::SignalSet::empty();
    assert_eq!(crate::sys::fd::ppoll(&mut seen, Some(LONG), &mask).unwrap(), 1, "typed ahead and there");
    let vigil = Vigil::begin(LONG, None).unwrap();
    let person = thread::spawn(move || {
        until_asked(&master);
        master.write_all(b"s\n").unwrap();
        master
    });
    let said = converse(File::from(pair.slave), "screen\n", RUN, &vigil).unwrap();
    drop(vigil);
    drop(person.join().unwrap());
    assert_eq!(said, Said::Line(b"s".to_vec()));
}

#[test]
fn case_142_no_answer_in_time_is_none() {
    let (said, took) = talk("screen\n", Duration::from_millis(200), |mut master| {
        until_asked(&master);
        master.write_all(b"yes").unwrap(); // and no newline
        let mut rest = Vec::new();
        let _ = master.read_to_end(&mut rest); // until the other side is closed
        None
    });
    assert_eq!(said, Said::Nothing);
    assert!(took >= Duration::from_millis(200) && took < LONG, "{took:?}");
}

#[test]
fn a_terminal_that_takes_nothing_holds_up_nobody() {
    let screen = "x".repeat(MOST_SCREEN);
    let (said, took) = talk(&screen, Duration::from_millis(200), Some);
    assert_eq!(said, Said::Nothing);
    assert!(took < LONG, "{took:?}");
}

#[test]
fn a_terminal_that_hangs_up_and_an_endless_line_are_no_yes() {
    let (said, _) = talk("screen\n", LONG, |master| {
        until_asked(&master);
        drop(master);
        None
    });
    assert_eq!(said, Said::Line(Vec::new()));
    let (said, _) = talk("screen\n", LONG, |mut master| {
        until_asked(&master);
        let _ = master.write_all(&[b'y'; 300]);
        let _ = master.write_all(b"\n");
        Some(master)
    });
    let Said::Line(line) = said else { panic!("{said:?}") };
    assert!(line.len() > MOST_LINE && line != b"yes");
}

#[test]
fn what_is_too_long_for_a_terminal_is_not_asked_there() {
    use crate::approval::tests::{Scene, asking};
    let scene = Scene::new();
    let bound = scene.bound(asking(["sh", "-c", &"x".repeat(MOST_SCREEN)]));
    let paper = Paper { bound: &bound, evidence: None, output: None, entry: None, lately: None };
    let Reply::Declined { denial, .. } = ask(&paper, LONG, None) else { panic!("not asked") };
    assert_eq!(denial.code, "approval_undisplayable");
    assert!(
        denial.message.starts_with("command 'sh' needs an approval and is too long for a terminal"),
        "{}",
        denial.message
    );
}
