//! The machine as a whole.
#![allow(unsafe_code)]

/// Bytes of shared memory that the machine has in use (sysinfo(2), `sharedram`): files in memory, and System V segments.
pub fn shared_memory() -> Option<u64> {
    // SAFETY: an all-zero sysinfo is valid, and the kernel writes one.
    let (done, found) = unsafe {
        let mut found: libc::sysinfo = std::mem::zeroed();
        (libc::sysinfo(&raw mut found) == 0, found)
    };
    // A word of the machine: 32 bits on some.
    #[allow(clippy::useless_conversion)]
    done.then(|| u64::from(found.sharedram).saturating_mul(found.mem_unit.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_meminfo_says() {
        let said = || -> u64 {
            let text = std::fs::read_to_string("/proc/meminfo").expect("/proc/meminfo");
            let line = text.lines().find(|line| line.starts_with("Shmem:")).expect("a line");
            let kib: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
            kib << 10
        };
        // Others use it meanwhile: it lies between what was said before and after, or near.
        let near = |a: u64, b: u64| a.abs_diff(b) <= 256 << 20;
        let (before, found, after) = (said(), shared_memory().expect("sysinfo"), said());
        assert!(near(found, before) || near(found, after), "{before} {found} {after}");
        assert!(found > 0 || before == 0);
    }
}
