//! What the front process and the keeper tell each other: small messages of fixed size over a socket that keeps
//! their borders.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::sys::fd;
use crate::sys::process::Usage;
use crate::sys::signal::Signals;

const WORDS: usize = 12;
const BYTES: usize = WORDS * 8;

/// From the front process to the keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All is prepared: start the child. Before it there is none. What the front ignores, the child may not.
    Start(Signals),
    /// Send this signal (TERM) to the whole tree.
    Signal(i32),
    /// Kill the whole tree now.
    Kill,
    /// The main process has ended and its output is in: kill what is left, account for it, leave.
    Finish,
}

/// The whole tree's account, when nothing of it is left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// Of all that was reaped, with what was seen of processes that nobody waited for.
    pub usage: Usage,
    /// Processes reaped by the keeper.
    pub processes: u32,
    /// Of these, alive after the main process had ended, and killed.
    pub survivors: u32,
    /// Some could not be reaped (uninterruptible).
    pub unreaped: bool,
    /// New tasks that the run's cgroup refused.
    pub refused: u64,
}

/// From the keeper to the front process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The tree cannot be held this way; nothing ran. Step number and errno.
    Unable(i32, i32),
    /// The child did not become the program. Step number and errno.
    NotStarted(i32, i32),
    /// The old `/proc` is still in place, for this errno.
    OldProc(i32),
    /// A limit was passed (number of a `LimitKind`) and the tree is being killed for it.
    Limit(i32),
    /// The main process ended with this raw wait status; what it used.
    MainEnded(i32, Usage),
    /// Nothing of the tree is left.
    Done(Account),
    /// The last two at once, where the main process was the last: the front wakes up once.
    Over(i32, Usage, Account),
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn pack(words: &[u64]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

fn unpack(bytes: &[u8; BYTES]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        let mut eight = [0; 8];
        eight.copy_from_slice(from);
        *word = u64::from_ne_bytes(eight);
    }
    words
}

fn number(word: u64) -> i32 {
    word as u32 as i32
}

fn word(number: i32) -> u64 {
    u64::from(number as u32)
}

/// What [`receive`] came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<M> {
    /// A message.
    Message(M),
    /// None is waiting.
    Nothing,
    /// The other process is gone.
    Gone,
}

/// A kind of message.
pub trait Message: Sized {
    /// As words.
    fn encode(&self) -> [u64; WORDS];
    /// From words; `None` for an unknown one.
    fn decode(words: &[u64; WORDS]) -> Option<Self>;
}

impl Account {
    fn words(&self) -> [u64; 7] {
        let Usage { user, system, max_rss } = self.usage;
        let (processes, survivors) = (self.processes.into(), self.survivors.into());
        [us(user), us(system), max_rss, processes, survivors, self.unreaped.into(), self.refused]
    }
}

/// `first`, then `then`, then zeros.
fn after<const N: usize, const M: usize>(first: [u64; N], then: [u64; M]) -> [u64; WORDS] {
    let mut all = words(first);
    all[N..N + M].copy_from_slice(&then);
    all
}

fn words<const N: usize>(some: [u64; N]) -> [u64; WORDS] {
    let mut all = [0; WORDS];
    all[..N].copy_from_slice(&some);
    all
}

impl Message for Order {
    fn encode(&self) -> [u64; WORDS] {
        match *self {
            Order::Signal(signal) => words([1, word(signal)]),
            Order::Kill => words([2]),
            Order::Finish => words([3]),
            Order::Start(ignored) => words([4, ignored.0]),
        }
    }

    fn decode(w: &[u64; WORDS]) -> Option<Order> {
        Some(match w[0] {
            1 => Order::Signal(number(w[1])),
            2 => Order::Kill,
            3 => Order::Finish,
            4 => Order::Start(Signals(w[1])),
            _ => return None,
        })
    }
}

impl Message for Report {
    fn encode(&self) -> [u64; WORDS] {
        match *self {
            Report::Unable(step, errno) => words([1, word(step), word(errno)]),
            Report::NotStarted(step, errno) => words([2, word(step), word(errno)]),
            Report::OldProc(errno) => words([3, word(errno)]),
            Report::Limit(kind) => words([4, word(kind)]),
            Report::MainEnded(status, u) => words([5, word(status), us(u.user), us(u.system), u.max_rss]),
            Report::Done(a) => after([6], a.words()),
            Report::Over(status, u, a) => {
                after([7, word(status), us(u.user), us(u.system), u.max_rss], a.words())
            }
        }
    }

    fn decode(w: &[u64; WORDS]) -> Option<Report> {
        let usage = |at: usize| Usage {
            user: Duration::from_micros(w[at]),
            system: Duration::from_micros(w[at + 1]),
            max_rss: w[at + 2],
        };
        let account = |at: usize| Account {
            usage: usage(at),
            processes: w[at + 3] as u32,
            survivors: w[at + 4] as u32,
            unreaped: w[at + 5] != 0,
            refused: w[at + 6],
        };
        Some(match w[0] {
            1 => Report::Unable(number(w[1]), number(w[2])),
            2 => Report::NotStarted(number(w[1]), number(w[2])),
            3 => Report::OldProc(number(w[1])),
            4 => Report::Limit(number(w[1])),
            5 => Report::MainEnded(number(w[1]), usage(2)),
            6 => Report::Done(account(1)),
            7 => Report::Over(number(w[1]), usage(2), account(5)),
            _ => return None,
        })
    }
}

/// Sends one message, never waiting: the queue holds far more than a run ever sends.
pub fn send(socket: BorrowedFd<'_>, message: &impl Message) -> io::Result<()> {
    fd::send(socket, &pack(&message.encode())).map(drop)
}

/// Takes one message, never waiting. Anything malformed counts as the other side's end: the keeper shares its
/// user with the run, so nothing but the exact format is believed.
pub fn receive<M: Message>(socket: BorrowedFd<'_>) -> Received<M> {
    let mut bytes = [0; BYTES];
    let mut result = fd::recv(socket, &mut bytes);
    // The other side left without reading our last message. That is said once, before what it wrote itself.
    if matches!(&result, Err(e) if e.kind() == io::ErrorKind::ConnectionReset) {
        result = fd::recv(socket, &mut bytes);
    }
    match result {
        Ok(BYTES) => M::decode(&unpack(&bytes)).map_or(Received::Gone, Received::Message),
        Ok(_) => Received::Gone,
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Received::Nothing
        }
        Err(_) => Received::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn last_words_are_heard_though_ours_were_not_read() {
        let (a, b) = fd::message_pair().unwrap();
        send(a.as_fd(), &Order::Finish).unwrap();
        send(b.as_fd(), &Report::Done(Account::default())).unwrap();
        drop(b);
        assert_eq!(receive::<Report>(a.as_fd()), Received::Message(Report::Done(Account::default())));
        assert_eq!(receive::<Report>(a.as_fd()), Received::Gone);
    }

    #[test]
    fn messages_arrive_whole_and_in_order_and_an_end_is_seen() {
        let (a, b) = fd::message_pair().unwrap();
        let account = Account {
            usage: Usage {
                user: Duration::from_micros(7),
                system: Duration::from_millis(9),
                max_rss: 1 << 40,
            },
            processes: 3,
            survivors: 2,
            unreaped: true,
            refused: 41,
        };
        for report in [
            Report::Unable(3, libc::EPERM),
            Report::MainEnded(-1, account.usage),
            Report::Limit(2),
            Report::Done(account),
            Report::Over(256, Usage { max_rss: 3, ..account.usage }, account),
        ] {
            send(a.as_fd(), &report).unwrap();
            assert_eq!(receive::<Report>(b.as_fd()), Received::Message(report));
        }
        assert_eq!(receive::<Report>(b.as_fd()), Received::Nothing);
        fd::send(a.as_fd(), b"short").unwrap();
        assert_eq!(receive::<Report>(b.as_fd()), Received::Gone);
        drop(a);
        assert_eq!(receive::<Report>(b.as_fd()), Received::Gone);
    }
}
