//! For tests of what is judged and then used: two names that lead elsewhere at every moment.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

/// Exchanges two names for as long as this lives.
pub struct Swapping(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Swapping {
    /// Begins, in a thread of its own.
    pub fn start(a: PathBuf, b: PathBuf) -> Swapping {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                renameat2(AT_FDCWD, &a, AT_FDCWD, &b, RenameFlags::RENAME_EXCHANGE).expect("exchange");
            }
        });
        Swapping(stop, Some(thread))
    }
}

impl Drop for Swapping {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.take().map(JoinHandle::join);
    }
}
