//! The clock that nobody can set.
#![allow(unsafe_code)]

use std::io;

use super::check;

/// `CLOCK_BOOTTIME` in nanoseconds: time since the boot, suspension included, as this process's time namespace shows it
/// (clock_gettime(2), time_namespaces(7)). Setting the time of day does not move it.
///
/// # Errors
/// The kernel has no such clock (before Linux 2.6.39).
#[allow(clippy::useless_conversion)] // Only where the C library's fields are narrower.
pub fn since_boot() -> io::Result<i64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime(2) writes one timespec.
    check(unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) }.into())?;
    let nanos = i64::from(now.tv_sec).checked_mul(1_000_000_000);
    let nanos = nanos.and_then(|s| s.checked_add(i64::from(now.tv_nsec)));
    nanos.ok_or_else(|| io::Error::from_raw_os_error(libc::EOVERFLOW))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_and_agrees_with_the_kernels_own_figure() {
        let (first, second) = (since_boot().unwrap(), since_boot().unwrap());
        assert!(0 < first && first <= second);
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let seconds: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        assert!((second as f64 / 1e9 - seconds).abs() < 5.0, "{second} and {uptime}");
    }
}
