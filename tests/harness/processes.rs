//! What is still alive, and waiting for what takes its time.

use std::fs;
use std::time::{Duration, Instant};

/// Waits until `probe` holds, at most `limit`; says whether it did.
pub fn eventually(limit: Duration, mut probe: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if probe() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The live (not zombie) processes whose command line holds `marker`, this process excepted.
pub fn alive(marker: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        if pid == std::process::id() as i32 {
            continue;
        }
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let zombie = fs::read_to_string(entry.path().join("stat"))
            .ok()
            .and_then(|s| s.rsplit(") ").next().map(|r| r.starts_with('Z')))
            .unwrap_or(true);
        if !zombie && line.windows(marker.len().max(1)).any(|w| w == marker.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

/// Fails if any process with `marker` in its command line is still there after a moment; ends it all the same.
#[track_caller]
pub fn assert_gone(marker: &str) {
    if !eventually(Duration::from_secs(2), || alive(marker).is_empty()) {
        let left = alive(marker);
        for pid in &left {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), nix::sys::signal::Signal::SIGKILL);
        }
        panic!("survivors with {marker:?}: {left:?}");
    }
}
