//! Whole-process measurements: what a run costs beside what people would use instead.
//!
//! `whole_process PLAN` reads a plan (see `plan`), measures section by section and prints Markdown tables, the last
//! of them the targets. Only the standard library, so that `rustc -O` builds it in a second; `benches/run` makes
//! the plan. Every command of every row is started the same way (`posix_spawn` through `std::process`), so what
//! the driver itself costs is in all rows alike.

mod measure;
mod memory;
mod plan;
mod targets;

use std::process::ExitCode;

use measure::{Figures, Row};
use plan::{Kind, Section};

fn main() -> ExitCode {
    // `cargo bench` and `cargo test --benches` pass options of their own; without a plan there is nothing to do.
    let Some(path) = std::env::args_os().nth(1).filter(|a| !a.as_encoded_bytes().starts_with(b"-")) else {
        eprintln!("whole_process: no plan; `make bench` (benches/run) makes one");
        return ExitCode::SUCCESS;
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) => return fail(&format!("{}: {e}", path.to_string_lossy())),
    };
    let sections = match plan::parse(&text) {
        Ok(sections) => sections,
        Err(e) => return fail(&format!("{}: {e}", path.to_string_lossy())),
    };
    let mut figures = Figures::default();
    for section in sections {
        one_section(section, &mut figures);
    }
    println!("\n## Targets\n");
    print!("{}", targets::table(&figures));
    if figures.failed > 0 { fail(&format!("{} runs failed", figures.failed)) } else { ExitCode::SUCCESS }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("whole_process: {message}");
    ExitCode::FAILURE
}

/// Measures one section, prints its table, and keeps what the targets need.
fn one_section(section: Section, figures: &mut Figures) {
    println!("\n## {}\n", section.title);
    let rows = usable(section.rows);
    if rows.is_empty() {
        println!("No row of this section can run here.");
        return;
    }
    match section.kind {
        Kind::Latency { rounds, seconds } => {
            let rows = measure::interleaved(rows, rounds, seconds, false);
            print_latency(&rows, figures);
        }
        Kind::Output { rounds, seconds } => {
            let rows = measure::interleaved(rows, rounds, seconds, true);
            print_output(&rows, figures);
        }
        Kind::InFlight { at_once, runs, seconds } => {
            let rows = measure::in_flight(rows, at_once, runs, seconds);
            print_in_flight(&rows, at_once, figures);
        }
        Kind::Memory => print_memory(&rows, figures),
    }
}

/// Leaves out, loudly, every row that does not succeed once here.
fn usable(rows: Vec<plan::Row>) -> Vec<plan::Row> {
    rows.into_iter()
        .filter(|row| match measure::probe(row) {
            Ok(()) => true,
            Err(why) => {
                let line = format!("LEFT OUT: {}: {why}", row.name);
                eprintln!("{line}");
                println!("- {line}");
                false
            }
        })
        .collect()
}

fn print_latency(rows: &[Row], figures: &mut Figures) {
    println!("| row | runs | median ms | p25 | min | x median | x p25 | failed |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    let base = &rows[0];
    for row in rows {
        let (med, p25, min) = (row.quantile(0.5), row.quantile(0.25), row.quantile(0.0));
        println!(
            "| {} | {} | {med:.3} | {p25:.3} | {min:.3} | {:.2} | {:.2} | {} |",
            row.name,
            row.ms.len(),
            med / base.quantile(0.5),
            p25 / base.quantile(0.25),
            row.failed
        );
        figures.keep("latency", &row.name, med);
        figures.failed += row.failed;
    }
    println!("\nRatios are to `{}`.", base.name);
}

fn print_output(rows: &[Row], figures: &mut Figures) {
    println!("| row | runs | median ms | min | x median | MiB/s through the pipe | failed |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let base = rows[0].quantile(0.5);
    for row in rows {
        let med = row.quantile(0.5);
        let mib = row.bytes as f64 / f64::from(1 << 20) / row.ms.len() as f64;
        println!(
            "| {} | {} | {med:.0} | {:.0} | {:.2} | {:.0} | {} |",
            row.name,
            row.ms.len(),
            row.quantile(0.0),
            med / base,
            mib / med * 1e3,
            row.failed
        );
        figures.keep("output", &row.name, med);
        figures.failed += row.failed;
    }
    println!("\nRatios are to `{}`. A row that captures lets only its result through.", rows[0].name);
}

fn print_in_flight(rows: &[Row], at_once: usize, figures: &mut Figures) {
    println!("| row | runs | runs/s | x slower | p50 ms | p99 ms | failed |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let rate = |row: &Row| row.ms.len() as f64 / row.wall_ms * 1e3;
    for row in rows {
        println!(
            "| {} | {} | {:.0} | {:.2} | {:.1} | {:.1} | {} |",
            row.name,
            row.ms.len(),
            rate(row),
            rate(&rows[0]) / rate(row),
            row.quantile(0.5),
            row.quantile(0.99),
            row.failed
        );
        figures.keep(&format!("in flight {at_once}"), &row.name, rate(row));
        figures.failed += row.failed;
    }
}

fn print_memory(rows: &[plan::Row], figures: &mut Figures) {
    println!("| row | largest process, peak KiB | processes of its own | all of them, resident KiB |");
    println!("|---|--:|--:|--:|");
    for row in rows {
        match memory::peak(row) {
            Ok(seen) => {
                println!("| {} | {} | {} | {} |", row.name, seen.largest, seen.processes, seen.together);
                figures.keep("memory", &row.name, seen.largest as f64);
            }
            Err(e) => {
                println!("| {} | failed: {e} | | |", row.name);
                figures.failed += 1;
            }
        }
    }
    println!("\nPeak is `VmHWM`; in the last column pages that processes share are counted in each.");
}
