//! Descriptors of somebody else's, read and written whole. Whoever shares them may have made them non-blocking: that is no
//! reason to lose a part, and it is not ours to undo.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use super::fd::{self, FileKind, PollFd};
use super::signal::SignalSet;

/// As much as a pipe that is ready takes without making its writer wait (`PIPE_BUF`).
const PIECE: usize = 4096;
/// A reader that takes nothing for so long does not read.
const READER: Duration = Duration::from_secs(1);

/// A descriptor that is waited for, and never inside a call that no signal could end.
#[derive(Debug)]
pub struct Patient<'f> {
    fd: BorrowedFd<'f>,
    end: &'static [i32],
    way: Option<Way>,
}

/// How more than one piece is written at once: so that others who write there find no room between the pieces.
#[derive(Debug)]
enum Way {
    /// By a description of our own, which does not block.
    Own(File),
    /// By send(2), which need not block.
    Send,
    /// It never blocks.
    Whole,
    /// Not at all.
    Pieces,
}

impl Way {
    fn of(fd: BorrowedFd<'_>) -> Way {
        match fd::kind(fd) {
            Ok(FileKind::Regular) => Way::Whole,
            Ok(FileKind::Socket) => Way::Send,
            Ok(FileKind::Pipe) => OpenOptions::new()
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(format!("/proc/self/fd/{}", fd.as_raw_fd()))
                .map_or(Way::Pieces, Way::Own),
            _ => Way::Pieces,
        }
    }
}

impl<'f> Patient<'f> {
    /// This one. The signals of `end`, where they are blocked, are let through when the other side has done nothing for a
    /// second, and not before.
    pub fn new(fd: BorrowedFd<'f>, end: &'static [i32]) -> Patient<'f> {
        Patient { fd, end, way: None }
    }

    fn wait(&self, events: i16) -> io::Result<()> {
        let mut fds = [PollFd { fd: self.fd.as_raw_fd(), events, revents: 0 }];
        let mask = SignalSet::current()?;
        if fd::ppoll(&mut fds, Some(READER), &mask)? == 0 {
            let through = self.end.iter().fold(mask, |mask, &signal| mask.without(signal));
            fd::ppoll(&mut fds, None, &through)?;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() <= PIECE {
            return fd::write(self.fd, bytes);
        }
        match self.way.get_or_insert_with(|| Way::of(self.fd)) {
            Way::Own(file) => fd::write(file.as_fd(), bytes),
            Way::Send => fd::send(self.fd, bytes),
            Way::Whole => fd::write(self.fd, bytes),
            Way::Pieces => fd::write(self.fd, &bytes[..PIECE]),
        }
    }
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.wait(libc::POLLOUT)?;
            match self.put(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match fd::read(self.fd, into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(libc::POLLIN)?,
                read => return read,
            }
        }
    }
}
