//! The store's time: it follows the time since boot, goes on where the last boot left it, and never goes back.
//!
//! Setting the time of day changes nothing, for it is not asked. The time that the machine was off does not count, for
//! nobody can tell how long that was without the time of day: a window that spans a reboot lasts that much longer. A time
//! namespace shifts the clock of those inside; its offset is taken off again, so a caller cannot move a window by
//! starting guardexec in one.

use std::fs;
use std::io::ErrorKind;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension as _, params};

use super::StateError;
use crate::sys;

/// What the machine's clocks said at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// `/proc/sys/kernel/random/boot_id`: another one after each boot.
    pub boot: String,
    /// Nanoseconds since the boot, whatever time namespace this process is in.
    pub since_boot: i64,
    /// The time of day, which decides nothing.
    pub wall: SystemTime,
}

impl Reading {
    /// The machine's clocks now.
    ///
    /// # Errors
    /// `/proc` is not there, or this process is about to leave its time namespace, so that its own offset cannot be read.
    pub fn now() -> Result<Reading, StateError> {
        let since_boot = sys::clock::since_boot().map_err(|e| StateError::Clock(e.to_string()))?;
        let since_boot = since_boot
            .checked_sub(namespace_offset()?)
            .filter(|nanos| *nanos >= 0)
            .ok_or_else(|| StateError::Clock("the time namespace is older than the machine".into()))?;
        let boot = read(BOOT_ID)?.ok_or_else(|| StateError::Clock(format!("there is no {BOOT_ID}")))?;
        Ok(Reading { boot: boot.trim().to_owned(), since_boot, wall: SystemTime::now() })
    }
}

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const OFFSETS: &str = "/proc/self/timens_offsets";

/// A file's text; `None` where it does not exist.
fn read(path: &str) -> Result<Option<String>, StateError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StateError::Clock(format!("{path}: {error}"))),
    }
}

/// How far this process's `CLOCK_BOOTTIME` is ahead of the machine's, in nanoseconds.
fn namespace_offset() -> Result<i64, StateError> {
    // A kernel without time namespaces has none of these files.
    let Some(text) = read(OFFSETS)? else { return Ok(0) };
    let offset = boottime_offset(&text)
        .ok_or_else(|| StateError::Clock(format!("{OFFSETS} holds something unknown: {text:?}")))?;
    // The file speaks of the namespace that children will be in, which need not be the process's own yet: then it
    // would shift the clock instead of putting it right.
    let of = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).ok();
    if of("time") != of("time_for_children") {
        return Err(StateError::Clock("guardexec was started on its way into another time namespace".into()));
    }
    Ok(offset)
}

/// The `boottime` line: a clock, seconds, nanoseconds (time_namespaces(7)).
fn boottime_offset(text: &str) -> Option<i64> {
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = words.into_iter().find(|words| words.first() == Some(&"boottime"))?;
    let [_, seconds, nanos] = line[..] else { return None };
    seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos.parse().ok()?)
}

/// A moment of the store's own time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// Nanoseconds of the store's time: the only time that decides anything. Later moments of one store never have a
    /// smaller one.
    pub nanos: i64,
    /// The time of day, RFC 3339 with milliseconds in UTC, for people alone.
    pub wall: String,
    /// The same.
    pub wall_time: SystemTime,
}

impl Moment {
    fn new(nanos: i64, wall: SystemTime) -> Moment {
        Moment { nanos, wall: Moment::wall_clock(wall), wall_time: wall }
    }

    /// For tests: a moment of their own.
    #[cfg(test)]
    pub(crate) fn at(nanos: i64) -> Moment {
        Moment::new(nanos, UNIX_EPOCH)
    }

    /// A time of day as all tables keep it: RFC 3339 with milliseconds, in UTC.
    #[must_use]
    pub fn wall_clock(time: SystemTime) -> String {
        // What a broken clock says beyond these years cannot be written.
        let last = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
        humantime::format_rfc3339_millis(time.clamp(UNIX_EPOCH, last)).to_string()
    }

    /// The store's time this much later, as a table keeps it: where something expires.
    #[must_use]
    pub fn plus(&self, span: Duration) -> i64 {
        self.nanos.saturating_add(nanos_of(span))
    }

    /// The store's time this much earlier: where a window that ends now begins. What happened then is just outside.
    #[must_use]
    pub fn minus(&self, span: Duration) -> i64 {
        self.nanos.saturating_sub(nanos_of(span))
    }

    /// How long ago that was; nothing for what is yet to come.
    #[must_use]
    pub fn since(&self, earlier: i64) -> Duration {
        Duration::from_nanos(u64::try_from(self.nanos.saturating_sub(earlier)).unwrap_or(0))
    }

    /// How long until then; nothing for what has passed.
    #[must_use]
    pub fn until(&self, later: i64) -> Duration {
        Duration::from_nanos(u64::try_from(later.saturating_sub(self.nanos)).unwrap_or(0))
    }

    /// The time of day after this span, for people.
    #[must_use]
    pub fn wall_after(&self, span: Duration) -> String {
        Moment::wall_clock(self.wall_time.checked_add(span).unwrap_or(self.wall_time))
    }
}

/// As many nanoseconds as a table can keep: 292 years.
fn nanos_of(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

/// The last that was seen of one boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Anchor {
    /// Nanoseconds since that boot.
    since_boot: i64,
    /// The store's time then.
    nanos: i64,
}

/// The store's time at a reading: `latest` is the greatest that any boot has seen, `anchor` what this boot saw last.
///
/// A boot that is seen for the first time adds the time since it began. One that was seen before adds what has passed since
/// then; a reading behind that one adds nothing. Boots are told apart, and not only the last one kept, so that two machines
/// at one store cannot add their whole lives in turn.
fn advance(latest: Option<i64>, anchor: Option<Anchor>, since_boot: i64) -> i64 {
    match (latest, anchor) {
        (None, _) => 0,
        (Some(latest), None) => latest.saturating_add(since_boot.max(0)),
        (Some(latest), Some(anchor)) => {
            let passed = since_boot.saturating_sub(anchor.since_boot).max(0);
            latest.max(anchor.nanos.saturating_add(passed))
        }
    }
}

/// The moment of a reading, by what the store knows. Writes nothing.
pub(super) fn moment(db: &Connection, reading: &Reading) -> Result<Moment, StateError> {
    let latest: Option<i64> = db.query_row("SELECT max(nanos) FROM clock", [], |row| row.get(0))?;
    let nanos = advance(latest, anchor(db, reading)?, reading.since_boot);
    Ok(Moment::new(nanos, reading.wall))
}

/// The same, and keeps it as what this boot saw last.
pub(super) fn pass(db: &Connection, reading: &Reading) -> Result<Moment, StateError> {
    let now = moment(db, reading)?;
    // A reading behind the last one stays without effect: the next true one must find what it follows on.
    if anchor(db, reading)?.is_none_or(|anchor| anchor.since_boot <= reading.since_boot) {
        db.execute(
            "INSERT INTO clock (boot, since_boot, nanos, wall) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (boot) DO UPDATE SET since_boot = ?2, nanos = ?3, wall = ?4",
            params![reading.boot, reading.since_boot, now.nanos, now.wall],
        )?;
    }
    Ok(now)
}

fn anchor(db: &Connection, reading: &Reading) -> Result<Option<Anchor>, StateError> {
    let found = db
        .query_row("SELECT since_boot, nanos FROM clock WHERE boot = ?1", [&reading.boot], |row| {
            Ok(Anchor { since_boot: row.get(0)?, nanos: row.get(1)? })
        })
        .optional()?;
    Ok(found)
}

#[cfg(test)]
mod tests;
