//! Injected readings; nothing here sets a clock.

use super::*;
use crate::state::tests::Dir;
use crate::state::{StateError, Store};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;

fn reading(boot: &str, seconds: i64, wall: u64) -> Reading {
    Reading { boot: boot.into(), since_boot: seconds * SECOND, wall: UNIX_EPOCH + Duration::from_secs(wall) }
}

/// The store's seconds after each of these readings, by separate runs.
fn pass_all(dir: &Dir, readings: &[Reading]) -> Vec<i64> {
    let at = |reading: &Reading| {
        let reading = reading.clone();
        let mut store = Store::open(&dir.0).unwrap().with_clock(move || reading.clone());
        store.transaction(|_, now| Ok(now.nanos / SECOND)).unwrap()
    };
    readings.iter().map(at).collect()
}

#[test]
fn it_follows_the_time_since_boot_whatever_the_time_of_day_says() {
    let dir = Dir::new();
    let readings = [
        reading("a", 100, 1_000_000),
        reading("a", 130, 5),
        reading("a", 131, 4_000_000_000),
        reading("a", 190, 0),
    ];
    assert_eq!(pass_all(&dir, &readings), [0, 30, 31, 90]);
}

#[test]
fn after_a_boot_only_the_time_since_counts() {
    let dir = Dir::new();
    let readings =
        [reading("a", 100, 0), reading("a", 160, 0), reading("b", 7, 90_000), reading("b", 9, 90_000)];
    assert_eq!(pass_all(&dir, &readings), [0, 60, 67, 69]);
}

#[test]
fn a_reading_that_goes_back_stops_the_time_and_wins_nothing() {
    let dir = Dir::new();
    let readings = [100, 160, 110, 130, 159, 161, 20, 162].map(|s| reading("a", s, 0));
    assert_eq!(pass_all(&dir, &readings), [0, 60, 60, 60, 60, 61, 61, 62]);
}

#[test]
fn two_machines_in_turn_add_their_lives_once() {
    let dir = Dir::new();
    let readings = [
        reading("a", 100, 0),
        reading("b", 500, 0),
        reading("a", 101, 0),
        reading("b", 501, 0),
        reading("a", 103, 0),
        reading("b", 504, 0),
    ];
    assert_eq!(pass_all(&dir, &readings), [0, 500, 500, 501, 502, 504]);
}

#[test]
fn what_is_undone_does_not_move_the_clock() {
    let dir = Dir::new();
    let mut store = Store::open(&dir.0).unwrap().with_clock(|| reading("a", 100, 0));
    store.transaction(|_, _| Ok(())).unwrap();
    let mut store = Store::open(&dir.0).unwrap().with_clock(|| reading("a", 150, 0));
    let undone: Result<(), StateError> = store.transaction(|_, _| Err(StateError::Forked));
    assert!(undone.is_err());
    let kept = |db: &Connection| db.query_row("SELECT since_boot FROM clock", [], |r| r.get::<_, i64>(0));
    let mut view = Store::look(&dir.0).unwrap().unwrap().with_clock(|| reading("a", 170, 0));
    assert_eq!(view.read(|tx, now| Ok((kept(tx)?, now.nanos))).unwrap(), (100 * SECOND, 70 * SECOND));
}

#[test]
fn moments_reckon_with_spans() {
    let now = Moment::new(1000 * SECOND, UNIX_EPOCH + Duration::from_secs(60));
    let minute = Duration::from_secs(60);
    assert_eq!((now.plus(minute), now.minus(minute)), (1060 * SECOND, 940 * SECOND));
    assert_eq!(
        (now.since(990 * SECOND), now.since(2000 * SECOND)),
        (Duration::from_secs(10), Duration::ZERO)
    );
    assert_eq!((now.until(1010 * SECOND), now.until(0)), (Duration::from_secs(10), Duration::ZERO));
    assert_eq!(
        (now.wall.as_str(), now.wall_after(minute).as_str()),
        ("1970-01-01T00:01:00.000Z", "1970-01-01T00:02:00.000Z")
    );
    assert_eq!((now.plus(Duration::MAX), now.minus(Duration::MAX)), (i64::MAX, 1000 * SECOND - i64::MAX));
    let _ = (now.wall_after(Duration::MAX), Moment::new(0, UNIX_EPOCH - minute));
}

#[test]
fn the_offset_of_a_time_namespace_is_read_from_its_line() {
    let text = "monotonic           0         0\nboottime        86400       500\n";
    assert_eq!(boottime_offset(text), Some(86_400 * SECOND + 500));
    assert_eq!(boottime_offset("monotonic 0 0\nboottime -7 250\n"), Some(-7 * SECOND + 250));
    for bad in ["", "monotonic 0 0\n", "boottime 1\n", "boottime x 0\n", "boottime 9999999999999 0\n"] {
        assert_eq!(boottime_offset(bad), None, "{bad:?}");
    }
}

proptest! {
    #[test]
    fn it_never_goes_back_nor_faster_than_all_boots_together(
        steps in proptest::collection::vec((0_usize..3, -50_i64..100), 1..60)
    ) {
        let mut anchors: [Option<Anchor>; 3] = [None; 3];
        let mut readings = [10_i64, 2000, 300];
        let (mut before, mut greatest) = (None, readings);
        for (boot, step) in steps {
            readings[boot] = (readings[boot] + step).max(0);
            greatest[boot] = greatest[boot].max(readings[boot]);
            let latest = anchors.iter().flatten().map(|a| a.nanos).max();
            let now = advance(latest, anchors[boot], readings[boot]);
            prop_assert!(before.is_none_or(|before| before <= now));
            prop_assert!(now <= greatest.iter().sum());
            if anchors[boot].is_none_or(|a| a.since_boot <= readings[boot]) {
                anchors[boot] = Some(Anchor { since_boot: readings[boot], nanos: now });
            }
            before = Some(now);
        }
    }
}

/// In a time namespace of its own the clock shows the machine's time all the same.
#[test]
fn a_time_namespace_does_not_shift_it() {
    let exe = std::env::current_exe().unwrap();
    let before = Reading::now().unwrap();
    let output = std::process::Command::new("unshare")
        .args(["-U", "-r", "-T", "--boottime", "8640000", "--monotonic", "8640000", "--fork"])
        .arg(exe)
        .args(["--ignored", "--exact", "state::clock::tests::reading_process", "--nocapture"])
        .output();
    let text = match &output {
        Ok(done) if done.status.success() => String::from_utf8_lossy(&done.stdout).into_owned(),
        other => return eprintln!("SKIPPED: no time namespace can be had here: {other:?}"),
    };
    let numbers = text.split("READING ").nth(1).expect("it ran").lines().next().unwrap();
    let (raw, since_boot) = numbers.split_once(' ').unwrap();
    let (raw, since_boot): (i64, i64) = (raw.parse().unwrap(), since_boot.parse().unwrap());
    assert!(raw > before.since_boot + 8_000_000 * SECOND, "the namespace shifts nothing: {numbers}");
    assert!((0..60 * SECOND).contains(&(since_boot - before.since_boot)), "{numbers} after {before:?}");
}

/// Between asking for another time namespace and being in it the file speaks of the other one: believing it would shift the
/// clock. Kernels that enter it with execve(2) are there already.
#[test]
fn on_the_way_into_a_time_namespace_it_is_right_or_an_error() {
    let before = Reading::now().unwrap();
    let child = crate::sys::process::fork_for_test(|| {
        let asked = crate::sys::process::unshare_for_test(nix::libc::CLONE_NEWTIME);
        if !asked || fs::write(OFFSETS, "boottime 864000 0\n").is_err() {
            return 77;
        }
        match Reading::now() {
            Err(StateError::Clock(why)) => i32::from(!why.contains("on its way into another time namespace")),
            Ok(now) => i32::from(
                now.since_boot < before.since_boot || now.since_boot > before.since_boot + 60 * SECOND,
            ),
            Err(_) => 2,
        }
    });
    match crate::state::tests::reaped(child) {
        77 => eprintln!("SKIPPED: no time namespace can be had here"),
        status => assert_eq!(status, 0),
    }
}

#[test]
#[ignore = "a process of the test above, not a test"]
fn reading_process() {
    println!("READING {} {}", crate::sys::clock::since_boot().unwrap(), Reading::now().unwrap().since_boot);
}
