//! Asking whoever sits at the controlling terminal. The command's own standard input is never read for an answer.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use nix::sys::termios::{FlushArg, tcflush};

use super::entry::Answerer;
use super::refusal::refusal;
use super::screen::Paper;
use super::vigil::{Vigil, Woke};
use super::{Reply, denied, shown_time};
use crate::decision::Denial;
use crate::run::Stop;
use crate::sys::account::Person;

#[cfg(test)]
mod tests;

/// A longer screen scrolls out of what a person can look through.
pub const MOST_SCREEN: usize = 64 << 10;
/// A longer line is no answer.
const MOST_LINE: usize = 64;

/// What stands below the screen.
const RUN: &str = "Run this, once? Type yes to approve; anything else declines: ";
/// The same about an output.
const HAND_OUT: &str =
    "It has run. Hand its output to the asker, once? Type yes to approve; anything else declines: ";

/// Shows the request on the terminal and waits for a line. Only `yes` approves; what was typed before the question is
/// dropped. No terminal, no answer in time and a screen that is too long are refusals of their own.
pub fn ask(paper: &Paper<'_>, timeout: Duration, stop: Stop<'_>) -> Reply {
    let screen = paper.screen();
    if screen.len() > MOST_SCREEN {
        let message = format!(
            "{} needs an approval and is too long for a terminal: its screen has {} KiB, and 64 are shown at most",
            paper.bound.subject(),
            screen.len() >> 10
        );
        let hint = "ask for something shorter, or let the policy file it: [approval] ask = \"queue\"";
        return Reply::refused(refusal("approval_undisplayable", message, hint));
    }
    let question = if paper.bound.output.is_some() { HAND_OUT } else { RUN };
    match open().and_then(|tty| said(tty, &screen, question, timeout, stop)) {
        Err(why) => Reply::refused(nobody(paper, &why)),
        Ok(Said::Line(line)) => {
            let by = Answerer::from(Person::here());
            match line == b"yes" {
                true => Reply::Approved { by, said: None },
                false => Reply::Declined { denial: denied(paper.bound), by: Some(by), said: None },
            }
        }
        Ok(Said::Nothing) => {
            let message = format!("nobody answered within {}", shown_time(timeout));
            let hint = "nothing ran; ask again when somebody is at the terminal";
            Reply::refused(refusal("approval_timeout", message, hint))
        }
        Ok(Said::Cancelled(signal)) => Reply::Cancelled(signal),
        Ok(Said::Stopped) => Reply::Stopped,
    }
}

/// The refusal where there is no terminal to ask at.
fn nobody(paper: &Paper<'_>, why: &str) -> Box<Denial> {
    let message = format!("{} needs an approval at the terminal, and {why}", paper.bound.subject());
    let hint = "start guardexec in the foreground of a terminal, or let the policy file it: [approval] ask = \"queue\"";
    refusal("approval_no_terminal", message, hint)
}

fn said(tty: File, screen: &str, question: &str, timeout: Duration, stop: Stop<'_>) -> Result<Said, String> {
    let broken = |error: io::Error| format!("the terminal cannot be used: {}", super::files::reason(&error));
    let vigil = Vigil::begin(timeout, stop).map_err(broken)?;
    converse(tty, screen, question, &vigil).map_err(broken)
}

/// What came from the terminal.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// A line; an empty one where it had no end.
    Line(Vec<u8>),
    /// Nothing in time.
    Nothing,
    /// guardexec was told to end.
    Cancelled(i32),
    /// Everything has to stop.
    Stopped,
}

/// The controlling terminal, if guardexec is in its foreground. From the background it could not be read, and what is
/// typed there is meant for somebody else.
fn open() -> Result<File, String> {
    let tty = OpenOptions::new()
        .read(true)
        .write(true)
        // The flag is this description's own: nobody else's reads change.
        .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK)
        .open("/dev/tty")
        .map_err(|_| "guardexec has no terminal".to_owned())?;
    match nix::unistd::tcgetpgrp(&tty) {
        Ok(group) if group == nix::unistd::getpgrp() => Ok(tty),
        _ => Err("guardexec does not run in the foreground of its terminal".to_owned()),
    }
}

/// Writes the screen, drops what was typed so far, asks and reads one line.
fn converse(mut tty: File, screen: &str, question: &str, vigil: &Vigil<'_>) -> io::Result<Said> {
    if let Some(ended) = write(&mut tty, screen.as_bytes(), vigil)? {
        return Ok(ended);
    }
    tcflush(&tty, FlushArg::TCIFLUSH)?;
    if let Some(ended) = write(&mut tty, question.as_bytes(), vigil)? {
        return Ok(ended);
    }
    let mut line = Vec::new();
    loop {
        match vigil.wait(Some((tty.as_fd(), libc::POLLIN)), None)? {
            Woke::Ready => {}
            Woke::Tick => continue,
            Woke::Late => {
                let _ = tty.write_all(b"\n");
                return Ok(Said::Nothing);
            }
            Woke::Cancelled(signal) => return Ok(Said::Cancelled(signal)),
            Woke::Stopped => return Ok(Said::Stopped),
        }
        let mut byte = [0];
        match tty.read(&mut byte) {
            Ok(1) if !matches!(byte[0], b'\n' | b'\r') => line.push(byte[0]),
            Ok(1) => return Ok(Said::Line(line)),
            // Cut off before its end, a line may be the beginning of another answer.
            Ok(_) => return Ok(Said::Line(Vec::new())),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // In the background by now, or hung up.
            Err(_) => return Ok(Said::Line(Vec::new())),
        }
        if line.len() > MOST_LINE {
            return Ok(Said::Line(line));
        }
    }
}

/// Writes it all, waiting for a terminal that is slow or stopped. `Some` where there is nothing more to wait for.
fn write(tty: &mut File, mut bytes: &[u8], vigil: &Vigil<'_>) -> io::Result<Option<Said>> {
    while !bytes.is_empty() {
        match tty.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match vigil.wait(Some((tty.as_fd(), libc::POLLOUT)), None)? {
                    Woke::Ready | Woke::Tick => {}
                    Woke::Late => return Ok(Some(Said::Nothing)),
                    Woke::Cancelled(signal) => return Ok(Some(Said::Cancelled(signal))),
                    Woke::Stopped => return Ok(Some(Said::Stopped)),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
