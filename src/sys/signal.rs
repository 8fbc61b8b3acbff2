//! Signals: masks, a table of caught ones, and nothing that runs inside a handler but two atomic stores.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use super::check;

/// A set of signals, as `ppoll` and `sigprocmask` take it.
#[derive(Clone, Copy)]
pub struct SignalSet(libc::sigset_t);

impl SignalSet {
    /// No signal.
    pub fn empty() -> SignalSet {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset(3) initialises the whole set it is given.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            SignalSet(set.assume_init())
        }
    }

    /// Every signal.
    pub fn full() -> SignalSet {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigfillset(3) initialises the whole set it is given.
        unsafe {
            libc::sigfillset(set.as_mut_ptr());
            SignalSet(set.assume_init())
        }
    }

    /// The signals that this thread blocks.
    ///
    /// # Errors
    /// What sigprocmask(2) gives.
    pub fn current() -> io::Result<SignalSet> {
        SignalSet::empty().block()
    }

    /// Blocks these as well, and gives the mask from before.
    fn block(&self) -> io::Result<SignalSet> {
        let mut old = SignalSet::empty();
        // SAFETY: both pointers name initialised sets that live through the call.
        check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &self.0, &mut old.0) }.into())?;
        Ok(old)
    }

    /// The same without `signal`.
    pub fn without(mut self, signal: i32) -> SignalSet {
        // SAFETY: the set is initialised; an impossible number is only an error return.
        unsafe { libc::sigdelset(&mut self.0, signal) };
        self
    }

    /// The same with `signal`.
    pub fn with(mut self, signal: i32) -> SignalSet {
        // SAFETY: the set is initialised; an impossible number is only an error return.
        unsafe { libc::sigaddset(&mut self.0, signal) };
        self
    }

    pub(super) fn as_ptr(&self) -> *const libc::sigset_t {
        &self.0
    }
}

/// Makes `set` the mask of blocked signals and returns the one before.
pub fn set_mask(set: &SignalSet) -> io::Result<SignalSet> {
    let mut old = SignalSet::empty();
    // SAFETY: both pointers name initialised sets that live through the call.
    let ret = unsafe { libc::sigprocmask(libc::SIG_SETMASK, &set.0, &mut old.0) };
    check(ret.into())?;
    Ok(old)
}

/// Signals by number: the lowest bit is signal 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signals(pub u64);

impl Signals {
    /// These.
    pub fn of(signals: &[i32]) -> Signals {
        Signals(signals.iter().fold(0, |all, signal| all | 1 << (signal - 1)))
    }

    /// Those that this process ignores, and with it what it executes: an exec resets all other dispositions.
    pub fn ignored() -> Signals {
        // The kernel's own structure begins with the handler, and is at most 32 bytes on every architecture.
        let ignores = |signal: i32| {
            let mut found = [0_u64; 8];
            let none = std::ptr::null::<u64>();
            // SAFETY: the kernel reads nothing and writes one sigaction, which is shorter than the array. The raw call,
            // because C libraries hide signals of their own.
            let ret = unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, none, found.as_mut_ptr(), 8) };
            ret != 0 || found[0] == libc::SIG_IGN as u64
        };
        Signals((1..=64).filter(|&signal| ignores(signal)).fold(0, |all, signal| all | 1 << (signal - 1)))
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Signals) -> Signals {
        Signals(self.0 | other.0)
    }

    /// Whether this one is among them.
    pub fn has(self, signal: i32) -> bool {
        self.0 >> (signal - 1) & 1 == 1
    }
}

static FIRST: AtomicI32 = AtomicI32::new(0);
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Whether somebody looked since the last one was caught.
static SEEN: AtomicBool = AtomicBool::new(false);
/// Whether it was seen and is for whoever comes next all the same.
static HANDED_ON: AtomicBool = AtomicBool::new(false);

extern "C" fn note(signal: libc::c_int) {
    let _ = FIRST.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
    SEEN.store(false, Ordering::Relaxed);
    COUNT.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn nothing(_: libc::c_int) {}

/// The first signal caught since [`Caught::install`], and how many.
pub fn caught() -> Option<(i32, u32)> {
    match COUNT.load(Ordering::Relaxed) {
        0 => None,
        count => {
            SEEN.store(true, Ordering::Relaxed);
            Some((FIRST.load(Ordering::Relaxed), count))
        }
    }
}

/// Leaves what was caught to whoever comes next: nothing was left here that it could end.
pub fn hand_on() {
    HANDED_ON.store(true, Ordering::Relaxed);
}

/// What a signal does.
#[derive(Clone, Copy)]
enum Disposition {
    Note,
    Nothing,
    Ignore,
    Default,
}

fn act(signal: i32, what: Disposition) -> io::Result<libc::sigaction> {
    // SAFETY: an all-zero sigaction is a valid value: SIG_DFL, no flags, empty mask.
    let (mut new, mut old): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    new.sa_sigaction = match what {
        Disposition::Note => note as extern "C" fn(libc::c_int) as usize,
        Disposition::Nothing => nothing as extern "C" fn(libc::c_int) as usize,
        Disposition::Ignore => libc::SIG_IGN,
        Disposition::Default => libc::SIG_DFL,
    };
    new.sa_flags = libc::SA_NOCLDSTOP;
    // SAFETY: both structures are initialised and live through the call; the handlers are async-signal-safe.
    let ret = unsafe { libc::sigaction(signal, &new, &mut old) };
    check(ret.into())?;
    Ok(old)
}

/// A table of signals that are caught or ignored for the time of a run; dropping it puts back what was there.
pub struct Caught {
    before: Vec<(i32, libc::sigaction)>,
    mask: SignalSet,
}

impl Caught {
    /// Blocks every signal and installs the handlers: those of `end` are counted (see [`caught`]) and delivered
    /// only inside `ppoll` with [`Caught::poll_mask`]. A signal of `end` that was ignored stays ignored (`nohup`),
    /// `SIGTERM` excepted. `SIGPIPE` is ignored, `SIGCHLD` is at its default so that children can be waited for.
    pub fn install(end: &[i32]) -> io::Result<Caught> {
        let mask = set_mask(&SignalSet::full())?;
        FIRST.store(0, Ordering::Relaxed);
        SEEN.store(true, Ordering::Relaxed);
        HANDED_ON.store(false, Ordering::Relaxed);
        COUNT.store(0, Ordering::Relaxed);
        let mut table = Caught { before: Vec::with_capacity(end.len() + 2), mask };
        for &signal in end {
            let old = act(signal, Disposition::Note)?;
            table.before.push((signal, old));
            if old.sa_sigaction == libc::SIG_IGN && signal != libc::SIGTERM {
                act(signal, Disposition::Ignore)?;
            }
        }
        table.before.push((libc::SIGPIPE, act(libc::SIGPIPE, Disposition::Ignore)?));
        table.before.push((libc::SIGCHLD, act(libc::SIGCHLD, Disposition::Default)?));
        Ok(table)
    }

    /// The mask to wait under: the caller's own, with the signals of the table let through.
    pub fn poll_mask(&self) -> SignalSet {
        self.before.iter().fold(self.mask, |mask, (signal, _)| mask.without(*signal))
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        // One that came with the last thing that was waited for is for whoever comes next.
        if !SEEN.load(Ordering::Relaxed) || HANDED_ON.load(Ordering::Relaxed) {
            // SAFETY: the signal waits, blocked, until the mask from before is back; a wrong number is only an error.
            unsafe { libc::raise(FIRST.load(Ordering::Relaxed)) };
        }
        for (signal, old) in &self.before {
            // SAFETY: `old` is what sigaction(2) itself returned for this signal.
            unsafe { libc::sigaction(*signal, old, std::ptr::null_mut()) };
        }
        let _ = set_mask(&self.mask);
    }
}

/// The signals that wait because they are blocked; all, should the kernel not say.
fn pending() -> Signals {
    let mut found = 0_u64;
    // SAFETY: the kernel writes eight bytes, its own set of 64 signals.
    let ret = unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut found, size_of::<u64>()) };
    if ret == 0 { Signals(found) } else { Signals(u64::MAX) }
}

/// Signals that wait until the process ends: none ends it before it could say what came of it.
#[must_use]
pub struct Held(&'static [i32]);

impl Held {
    /// Blocks the signals of `end` in this thread. [`Caught`] lets them through where it waits, and so does
    /// [`Patient`](super::patient::Patient) for a reader that does not read.
    ///
    /// # Errors
    /// What sigprocmask(2) gives.
    pub fn begin(end: &'static [i32]) -> io::Result<Held> {
        end.iter().fold(SignalSet::empty(), |set, &signal| set.with(signal)).block()?;
        Ok(Held(end))
    }

    /// Forgets those that wait: an ignored signal is thrown away (sigaction(2)).
    pub fn forget(&self) {
        let waiting = pending();
        for &signal in self.0.iter().filter(|&&signal| waiting.has(signal)) {
            drop(Ignored::new(signal));
        }
    }
}

/// A signal that this process ignores until this is dropped, which puts back what was there.
#[must_use]
pub struct Ignored {
    signal: i32,
    before: libc::sigaction,
}

impl Ignored {
    /// Ignores `signal` in the whole process.
    pub fn new(signal: i32) -> io::Result<Ignored> {
        Ok(Ignored { signal, before: act(signal, Disposition::Ignore)? })
    }
}

impl Drop for Ignored {
    fn drop(&mut self) {
        // SAFETY: `before` is what sigaction(2) itself returned for this signal.
        unsafe { libc::sigaction(self.signal, &self.before, std::ptr::null_mut()) };
    }
}

/// For the keeper: every signal blocked, the end signals ignored, `SIGCHLD` with a handler that does nothing, so
/// that it interrupts a `ppoll` under the returned mask.
pub fn keeper_signals(end: &[i32]) -> io::Result<SignalSet> {
    set_mask(&SignalSet::full())?;
    for &signal in end {
        act(signal, Disposition::Ignore)?;
    }
    act(libc::SIGCHLD, Disposition::Nothing)?;
    Ok(SignalSet::full().without(libc::SIGCHLD))
}
