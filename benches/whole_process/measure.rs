//! Starting commands and timing them, from just before the spawn to just after the reap.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::plan;

/// Turns of the `in flight` rows: enough that a slow spell of the machine hits more than one row.
const TURNS: usize = 4;
/// A row this many times slower than the first is run only in every [`STRIDE`]th round.
const SLOW: f64 = 12.0;
const STRIDE: usize = 5;
/// Runs before the counting starts.
const WARM_UP: usize = 3;

/// What was measured of one row.
pub struct Row {
    pub name: String,
    /// Each run, in milliseconds, sorted once measuring is over.
    pub ms: Vec<f64>,
    /// Runs that did not exit with 0.
    pub failed: usize,
    /// Bytes read from the pipe.
    pub bytes: u64,
    /// Wall time of all runs together, where they overlap.
    pub wall_ms: f64,
}

impl Row {
    fn new(name: &str) -> Row {
        Row { name: name.to_owned(), ms: Vec::new(), failed: 0, bytes: 0, wall_ms: 0.0 }
    }

    /// The value that a share `q` of the runs stays below; not a number where nothing ran.
    pub fn quantile(&self, q: f64) -> f64 {
        let last = self.ms.len().saturating_sub(1) as f64;
        self.ms.get((last * q).round() as usize).copied().unwrap_or(f64::NAN)
    }

    fn count(&mut self, run: &Run) {
        self.ms.push(run.ms);
        self.bytes += run.bytes;
        self.failed += usize::from(!run.success);
    }
}

/// The figures that the targets are held against: (section, row) to a number.
#[derive(Default)]
pub struct Figures {
    numbers: BTreeMap<(String, String), f64>,
    pub failed: usize,
}

impl Figures {
    /// A row that comes again in a later section keeps the figure of the first: ratios are taken within one section.
    pub fn keep(&mut self, section: &str, row: &str, number: f64) {
        self.numbers.entry((section.to_owned(), row.to_owned())).or_insert(number);
    }

    pub fn get(&self, section: &str, row: &str) -> Option<f64> {
        self.numbers.get(&(section.to_owned(), row.to_owned())).copied().filter(|n| n.is_finite())
    }
}

struct Run {
    ms: f64,
    success: bool,
    bytes: u64,
}

fn command(row: &plan::Row) -> Command {
    let mut command = Command::new(&row.words[0]);
    command.args(&row.words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs a row once. The error says why it cannot be measured.
pub fn probe(row: &plan::Row) -> Result<(), String> {
    let output =
        command(row).stderr(Stdio::piped()).output().map_err(|e| format!("{}: {e}", row.words[0]))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}: {}", output.status, said.lines().next().unwrap_or("said nothing")))
}

fn run(row: &plan::Row, piped: bool) -> Run {
    let mut command = command(row);
    if piped {
        command.stdout(Stdio::piped());
    }
    let start = Instant::now();
    let mut bytes = 0;
    let status = command.spawn().and_then(|mut child| {
        if let Some(pipe) = child.stdout.take() {
            bytes = drain(pipe);
        }
        child.wait()
    });
    let ms = start.elapsed().as_secs_f64() * 1e3;
    Run { ms, success: status.is_ok_and(|s| s.success()), bytes }
}

fn drain(mut pipe: impl std::io::Read) -> u64 {
    let mut buffer = vec![0; 256 << 10];
    let mut total = 0;
    while let Ok(n @ 1..) = pipe.by_ref().read(&mut buffer) {
        total += n as u64;
    }
    total
}

/// Round by round, every row once, so that a change of the machine's speed hits all rows alike; in another order
/// each time, because what ran just before (warm caches, a namespace still being torn down) is worth up to a tenth.
pub fn interleaved(rows: Vec<plan::Row>, rounds: usize, limit: Duration, piped: bool) -> Vec<Row> {
    let mut out: Vec<Row> = rows.iter().map(|r| Row::new(&r.name)).collect();
    let warm_up = if piped { 1 } else { WARM_UP };
    let warm: Vec<f64> = rows
        .iter()
        .map(|row| (0..warm_up).map(|_| run(row, piped).ms).fold(f64::INFINITY, f64::min))
        .collect();
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15;
    let start = Instant::now();
    for round in 0..rounds {
        if round > 0 && start.elapsed() > limit {
            break;
        }
        shuffle(&mut order, &mut random);
        for &index in &order {
            if warm[index] < SLOW * warm[0] || round % STRIDE == 0 {
                out[index].count(&run(&rows[index], piped));
            }
        }
    }
    out.iter_mut().for_each(|row| row.ms.sort_by(f64::total_cmp));
    out
}

/// Fisher and Yates, with Marsaglia's xorshift.
fn shuffle(order: &mut [usize], random: &mut u64) {
    for last in (1..order.len()).rev() {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        order.swap(last, (*random >> 11) as usize % (last + 1));
    }
}

/// `runs` of each row with `at_once` in flight, in [`TURNS`] turns through all rows.
pub fn in_flight(rows: Vec<plan::Row>, at_once: usize, runs: usize, limit: Duration) -> Vec<Row> {
    let mut out: Vec<Row> = rows.iter().map(|r| Row::new(&r.name)).collect();
    for _ in 0..TURNS {
        for (row, measured) in rows.iter().zip(&mut out) {
            turn(row, measured, at_once, runs / TURNS, limit / TURNS as u32);
        }
    }
    out.iter_mut().for_each(|row| row.ms.sort_by(f64::total_cmp));
    out
}

/// One thread for each run in flight; they only spawn and wait.
fn turn(row: &plan::Row, measured: &mut Row, at_once: usize, runs: usize, limit: Duration) {
    let started = AtomicUsize::new(0);
    let start = Instant::now();
    let worker = || {
        let mut done = Vec::new();
        while start.elapsed() < limit && started.fetch_add(1, Ordering::Relaxed) < runs {
            done.push(run(row, false));
        }
        done
    };
    let done: Vec<Run> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|w| w.join().expect("a worker only spawns and waits")).collect()
    });
    measured.wall_ms += start.elapsed().as_secs_f64() * 1e3;
    done.iter().for_each(|run| measured.count(run));
}
