//! The bytes that pass through the front process: the child's output into a bounded capture and, in raw mode, on
//! to our own descriptors; our input into the child's. Nothing here ever waits: waiting is the poll loop's work.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::output::Captured;
use crate::sys::{errno_of, fd};

/// What is read at once: as much as a pipe holds.
pub const PIECE: usize = 64 << 10;
/// A pipe that polls writable takes this much without waiting (`PIPE_BUF`, pipe(7)).
const PIPE_BUF: usize = 4096;

/// What the child may write ahead where more than a little is passed on. With the usual 64 KiB a fast writer and we wake
/// each other for every few KiB; with a reader behind us that keeps two processors busier than the bytes do. More would
/// use up what one user's pipes may take together (64 MiB) in too few runs.
const AHEAD: i32 = 512 << 10;

/// Where the child's output goes besides the capture.
#[derive(Debug, Default)]
pub struct Sinks {
    /// For the child's stdout.
    pub stdout: Option<PassThrough>,
    /// For the child's stderr.
    pub stderr: Option<PassThrough>,
}

impl Sinks {
    /// Captures only.
    pub fn keep() -> Sinks {
        Sinks::default()
    }

    /// Captures, and passes everything on to guardexec's own stdout and stderr as it comes.
    pub fn pass() -> io::Result<Sinks> {
        Ok(Sinks {
            stdout: Some(PassThrough::to(fd::standard(1))?),
            stderr: Some(PassThrough::to(fd::standard(2))?),
        })
    }
}

/// How one write is kept from waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// The descriptor is our own non-blocking one.
    NonBlocking,
    /// A socket: `MSG_DONTWAIT`.
    Socket,
    /// A shared blocking descriptor: at most `PIPE_BUF` a time, after it polled writable.
    Small,
    /// A regular file never waits for a reader.
    File,
}

/// One of our own output descriptors, written to with backpressure.
#[derive(Debug)]
pub struct PassThrough {
    fd: OwnedFd,
    manner: Manner,
    pending: Vec<u8>,
    at: usize,
    failed: Option<i32>,
}

impl PassThrough {
    /// Prepares a descriptor. A pipe or terminal is opened anew through `/proc/self/fd`, so that `O_NONBLOCK`
    /// does not change the one that others share; where that is refused, small writes have to do.
    pub fn to(target: BorrowedFd<'_>) -> io::Result<PassThrough> {
        let kind = fd::kind(target)?;
        let again = match kind {
            fd::FileKind::Pipe | fd::FileKind::Device => {
                let name = std::ffi::CString::new(format!("/proc/self/fd/{}", target.as_raw_fd()))?;
                fd::open(&name, libc::O_WRONLY | libc::O_NONBLOCK | libc::O_NOCTTY).ok()
            }
            _ => None,
        };
        let manner = match (kind, &again) {
            (_, Some(_)) => Manner::NonBlocking,
            (fd::FileKind::Socket, None) => Manner::Socket,
            (fd::FileKind::Regular, None) => Manner::File,
            _ => Manner::Small,
        };
        let fd = match again {
            Some(fd) => fd,
            None => target.try_clone_to_owned()?,
        };
        Ok(PassThrough { fd, manner, pending: Vec::new(), at: 0, failed: None })
    }

    /// The errno that ended passing on, `EPIPE` for a reader that went away. From then on all is discarded.
    pub fn failed(&self) -> Option<i32> {
        self.failed
    }

    /// Bytes that the reader has not taken yet.
    pub fn pending(&self) -> usize {
        self.pending.len() - self.at
    }

    fn offer(&mut self, bytes: &[u8]) {
        debug_assert_eq!(self.pending(), 0);
        if self.failed.is_some() {
            return;
        }
        let taken = if self.manner == Manner::Small { 0 } else { self.write(bytes) };
        self.pending.clear();
        self.at = 0;
        if self.failed.is_none() {
            self.pending.extend_from_slice(&bytes[taken..]);
        }
    }

    /// Writes what is pending, as far as the reader takes it. Whether anything moved.
    pub fn flush(&mut self) -> bool {
        let pending = std::mem::take(&mut self.pending);
        let taken = self.write(&pending[self.at..]);
        self.pending = pending;
        self.at += taken;
        if self.failed.is_some() || self.at == self.pending.len() {
            self.pending.clear();
            self.at = 0;
        }
        taken > 0 || self.failed.is_some()
    }

    fn write(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() {
            let rest = &bytes[taken..];
            let result = match self.manner {
                Manner::Socket => fd::send(self.fd.as_fd(), rest),
                Manner::Small => fd::write(self.fd.as_fd(), &rest[..rest.len().min(PIPE_BUF)]),
                Manner::NonBlocking | Manner::File => fd::write(self.fd.as_fd(), rest),
            };
            match result {
                Ok(n) => taken += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => {
                    self.failed = Some(errno_of(&e));
                    break;
                }
            }
            if self.manner == Manner::Small {
                break;
            }
        }
        taken
    }
}

/// What reading a stream once came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Took {
    /// Some bytes.
    Bytes,
    /// None are there now.
    Nothing,
    /// There will be none any more.
    End,
}

/// One output stream of the child.
#[derive(Debug)]
pub struct Stream<'s> {
    pipe: Option<OwnedFd>,
    kept: Captured,
    pass: Option<&'s mut PassThrough>,
    widened: bool,
}

impl<'s> Stream<'s> {
    /// The reading end of a pipe, made non-blocking.
    pub fn new(pipe: OwnedFd, kept: Captured, pass: Option<&'s mut PassThrough>) -> io::Result<Stream<'s>> {
        fd::set_nonblocking(pipe.as_fd(), true)?;
        Ok(Stream { pipe: Some(pipe), kept, pass, widened: false })
    }

    /// No writer is left and all was read.
    pub fn ended(&self) -> bool {
        self.pipe.is_none()
    }

    fn blocked(&self) -> bool {
        self.pass.as_ref().is_some_and(|pass| pass.pending() > 0)
    }

    /// To be polled readable: the child's pipe, unless our own reader has to take something first.
    pub fn readable(&self) -> RawFd {
        if self.blocked() { -1 } else { self.pipe.as_ref().map_or(-1, AsRawFd::as_raw_fd) }
    }

    /// To be polled writable: our own descriptor, while it has something pending.
    pub fn writable(&self) -> RawFd {
        self.pass.as_ref().filter(|p| p.pending() > 0).map_or(-1, |p| p.fd.as_raw_fd())
    }

    /// Takes one piece from the pipe.
    pub fn take(&mut self, buffer: &mut [u8]) -> Took {
        let Some(pipe) = &self.pipe else { return Took::End };
        if self.blocked() {
            return Took::Nothing;
        }
        match fd::read(pipe.as_fd(), buffer) {
            Ok(0) => {
                self.pipe = None;
                Took::End
            }
            Ok(n) => {
                self.kept.push(&buffer[..n]);
                if let Some(pass) = &mut self.pass {
                    if !self.widened && self.kept.total() >= PIECE as u64 {
                        self.widened = true;
                        // Refused to a user with many pipes, and only slower without.
                        let _ = fd::widen_pipe(pipe.as_fd(), AHEAD);
                    }
                    pass.offer(&buffer[..n]);
                }
                Took::Bytes
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Took::Nothing,
            Err(_) => {
                self.pipe = None;
                Took::End
            }
        }
    }

    /// Lets our own reader take what is pending. Whether anything moved.
    pub fn flush(&mut self) -> bool {
        self.blocked() && self.pass.as_mut().is_some_and(|pass| pass.flush())
    }

    /// The capture, and the errno that ended passing on, if any.
    pub fn finish(self) -> (Captured, Option<i32>) {
        let failed = self.pass.as_ref().and_then(|pass| pass.failed());
        (self.kept, failed)
    }
}

/// Feeds the child's standard input.
#[derive(Debug)]
pub struct Feeder {
    to: Option<OwnedFd>,
    relay: bool,
    pending: Vec<u8>,
    at: usize,
}

impl Feeder {
    /// Nothing to feed.
    pub fn none() -> Feeder {
        Feeder { to: None, relay: false, pending: Vec::new(), at: 0 }
    }

    /// Feeds `bytes` and then, with `relay`, what our own standard input gives.
    pub fn new(to: OwnedFd, bytes: &[u8], relay: bool) -> io::Result<Feeder> {
        fd::set_nonblocking(to.as_fd(), true)?;
        let mut feeder = Feeder { to: Some(to), relay, pending: bytes.to_vec(), at: 0 };
        feeder.close_if_done();
        Ok(feeder)
    }

    fn empty(&self) -> bool {
        self.at == self.pending.len()
    }

    fn close_if_done(&mut self) {
        if self.empty() && !self.relay {
            self.to = None;
        }
    }

    /// To be polled readable: our own standard input, while there is room.
    pub fn readable(&self) -> RawFd {
        if self.relay && self.to.is_some() && self.empty() { 0 } else { -1 }
    }

    /// To be polled writable (or, with nothing pending, for its reader's end only): the child's input.
    pub fn writable(&self) -> (RawFd, i16) {
        let events = if self.empty() { 0 } else { libc::POLLOUT };
        (self.to.as_ref().map_or(-1, AsRawFd::as_raw_fd), events)
    }

    /// Takes one piece from our own standard input.
    pub fn take(&mut self, buffer: &mut [u8]) {
        match fd::read(fd::standard(0), buffer) {
            Ok(n) if n > 0 => {
                self.pending.clear();
                self.pending.extend_from_slice(&buffer[..n]);
                self.at = 0;
                self.flush();
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            _ => {
                self.relay = false;
                self.close_if_done();
            }
        }
    }

    /// Writes what is pending; a child that reads no more ends the feeding and is no error.
    pub fn flush(&mut self) {
        let Some(to) = &self.to else { return };
        match fd::write(to.as_fd(), &self.pending[self.at..]) {
            Ok(n) => {
                self.at += n;
                self.close_if_done();
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.to = None,
        }
    }

    /// The child's end is closed.
    pub fn stop(&mut self) {
        self.to = None;
    }
}
