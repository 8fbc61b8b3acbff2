//! Who stands at the door: a thread of the front process, so that it is an ancestor of the run (which Yama wants from whoever
//! looks into it), and so that nothing which holds it up (a page of the run's that comes from a slow file system)
//! holds up the front's own loop, its deadlines and its end.
//!
//! It never waits for one caller: each visit is a process of its own, which it ends when the caller is gone.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Door, Turned};
use crate::sandbox::raw::notify;
use crate::sys::fd::{self, PollFd};
use crate::sys::process::{self, Forked, Pid, Waited};
use crate::sys::signal::{self, SignalSet};

/// Visits at a time; further callers wait. A caller is a task of the run, of which there are at most its `pids`.
const VISITS: usize = 64;
/// How often it is seen whether callers are still there.
const LOOK: Duration = Duration::from_millis(100);
/// Of this many different paths it is said that they are not listed.
const SAID: usize = 8;
/// How long its own end is awaited.
const END: Duration = Duration::from_secs(5);

/// What there is to say at the end.
#[derive(Debug, Default)]
pub struct Refused {
    /// The filter's descriptor arrived.
    pub held: bool,
    /// Paths (or abstract names) that were tried and are not listed, the first few.
    pub names: Vec<Vec<u8>>,
}

/// The thread.
pub struct Porter {
    stop: OwnedFd,
    said: Receiver<Refused>,
    thread: JoinHandle<()>,
    /// How many threads there were without this one.
    before: Option<u64>,
}

impl Porter {
    /// Begins to wait for the filter's descriptor, then for callers.
    ///
    /// # Errors
    /// There can be no pipe or no thread.
    pub fn open(door: Door) -> io::Result<Porter> {
        let before = process::thread_count();
        let (stopped, stop) = fd::pipe()?;
        let (say, said) = mpsc::channel();
        let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
            // Signals are the main thread's.
            let _ = signal::set_mask(&SignalSet::full());
            let _ = say.send(attend(&door, stopped.as_fd()));
        })?;
        Ok(Porter { stop, said, thread, before })
    }

    /// Ends every visit and the thread. `None` where it does not answer: it is held up in the kernel and goes with the process.
    pub fn close(self) -> Option<Refused> {
        drop(self.stop);
        let refused = self.said.recv_timeout(END).ok()?;
        let _ = self.thread.join();
        // It may be counted for a moment longer, and who starts a process wants to be alone.
        let end = Instant::now() + END / 10;
        while process::thread_count() > self.before && Instant::now() < end {
            std::thread::sleep(Duration::from_micros(50));
        }
        Some(refused)
    }
}

fn entry(fd: RawFd) -> PollFd {
    PollFd { fd, events: libc::POLLIN, revents: 0 }
}

fn wait(fds: &mut [PollFd], timeout: Option<Duration>) {
    if fd::ppoll(fds, timeout, &SignalSet::full()).is_err() {
        fds.iter_mut().for_each(|fd| fd.revents = 0);
    }
}

/// Waits for the filter's descriptor. `None` where it never comes: the child was not made, or its filter was not installed.
fn listener(door: &Door, stop: BorrowedFd<'_>) -> Option<OwnedFd> {
    let mut fds = [entry(stop.as_raw_fd()), entry(door.channel.as_raw_fd())];
    while fds[1].revents == 0 {
        wait(&mut fds, None);
        if fds[0].revents != 0 {
            return None;
        }
    }
    notify::take_over(door.channel.as_fd()).ok().filter(|fd| notify::is_listener(fd.as_fd()))
}

/// Everything the thread does.
fn attend(door: &Door, stop: BorrowedFd<'_>) -> Refused {
    let Some(listener) = listener(door, stop) else { return Refused::default() };
    let refused = Refused { held: true, names: Vec::new() };
    let mut room = Room {
        door,
        listener: listener.as_fd(),
        visits: Vec::new(),
        refused,
        over: false,
        looked: Instant::now(),
    };
    while room.turn(stop) {}
    room.visits.iter().for_each(Caller::kill);
    room.visits.iter().for_each(Caller::await_end);
    room.refused
}

/// A visit on the way.
struct Caller {
    id: u64,
    pid: Pid,
    pidfd: OwnedFd,
}

impl Caller {
    fn kill(&self) {
        let _ = process::pidfd_signal(&self.pidfd, libc::SIGKILL);
    }

    /// When it was killed. It can wait for nothing that a signal does not end but a disk.
    fn await_end(&self) {
        wait(&mut [entry(self.pidfd.as_raw_fd())], Some(END / 4));
        let _ = process::try_wait(self.pid);
    }
}

struct Room<'d> {
    door: &'d Door,
    listener: BorrowedFd<'d>,
    visits: Vec<Caller>,
    refused: Refused,
    /// Nothing of the run is left that could call.
    over: bool,
    looked: Instant,
}

impl Room<'_> {
    /// One turn; whether there is to be another one.
    fn turn(&mut self, stop: BorrowedFd<'_>) -> bool {
        let open = !self.over && self.visits.len() < VISITS;
        let listener = if open { self.listener.as_raw_fd() } else { -1 };
        let mut fds = vec![entry(stop.as_raw_fd()), entry(listener)];
        fds.extend(self.visits.iter().map(|visit| entry(visit.pidfd.as_raw_fd())));
        wait(&mut fds, (!self.visits.is_empty()).then_some(LOOK));
        if fds[0].revents != 0 {
            return false;
        }
        let ended = |at: usize| fds[2 + at].revents != 0;
        for at in (0..self.visits.len()).rev().filter(|at| ended(*at)) {
            let visit = self.visits.swap_remove(at);
            notify::answer(self.listener, visit.id, outcome(visit.pid));
        }
        if fds[1].revents & libc::POLLIN != 0 {
            self.receive();
        }
        self.over |= fds[1].revents & libc::POLLHUP != 0;
        self.look_after();
        true
    }

    /// Ends the visits whose callers are gone.
    fn look_after(&mut self) {
        if self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = Instant::now();
        let listener = self.listener;
        self.visits.retain(|visit| {
            let waits = notify::still_waits(listener, visit.id);
            if !waits {
                visit.kill();
                visit.await_end();
            }
            waits
        });
    }

    fn receive(&mut self) {
        let Ok(notice) = notify::receive(self.listener) else { return };
        let began = self.door.look(self.listener, &notice).and_then(|visit| {
            let guard = process::own_pid();
            match process::fork(0).map_err(|_| libc::EAGAIN)? {
                Forked::Child => {
                    let made = visit.make(self.door.identity.as_ref(), guard);
                    process::exit_now(made.err().unwrap_or(0))
                }
                Forked::Parent(pid, Some(pidfd)) => Ok(Caller { id: notice.id, pid, pidfd }),
                Forked::Parent(_, None) => Err(libc::ENOSYS.into()),
            }
        });
        match began {
            Ok(caller) => self.visits.push(caller),
            Err(Turned { errno, unlisted }) => {
                let names = &mut self.refused.names;
                names.extend(unlisted.filter(|name| names.len() < SAID && !names.contains(name)));
                notify::answer(self.listener, notice.id, Err(errno));
            }
        }
    }
}

/// What a visit that has ended came to. One that did not end by itself did not connect.
fn outcome(pid: Pid) -> Result<(), i32> {
    match process::try_wait(pid) {
        Waited::Reaped(_, status, _) if libc::WIFEXITED(status) => match libc::WEXITSTATUS(status) {
            0 => Ok(()),
            errno => Err(errno),
        },
        _ => Err(libc::EACCES),
    }
}
