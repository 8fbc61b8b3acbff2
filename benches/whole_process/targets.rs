//! What guardexec has to reach, held against what was measured in the same run.

use crate::measure::Figures;

/// No slower than coreutils `timeout` plus a quarter.
const TIMEOUT: f64 = 1.25;
/// bwrap with everything unshared takes this many times as long.
const BWRAP: f64 = 2.5;
/// The same of strict, with the same view.
const BWRAP_STRICT: f64 = 2.3;
/// Runs a second under strict, 32 at once, in those of the bare command.
const IN_FLIGHT: f64 = 0.32;
/// Resident KiB that every run stays below.
const MEMORY: f64 = 4096.0;
/// Milliseconds that 200 rules take more than one.
const RULES: f64 = 1.0;
/// What stands over other calls costs a run at most this, in times of host.
const OVERSIGHT: f64 = 1.1;
/// "The pipe's own speed", with room for the noise of a few runs of a second each.
const PIPE: f64 = 1.15;

const HOST: &str = "guardexec, host";
const STRICT: &str = "guardexec, strict";

/// The table, line by line: target, measured, reached or not.
pub fn table(figures: &Figures) -> String {
    let ratio =
        |section: &str, row: &str, base: &str| Some(figures.get(section, row)? / figures.get(section, base)?);
    let rules = |row: &str| {
        let ms = figures.get("latency", row)? - figures.get("latency", "guardexec, one rich rule")?;
        Some((ms < RULES, format!("{ms:.2} ms")))
    };
    let rate = figures.get("in flight 32", STRICT).zip(figures.get("in flight 32", "bare"));
    let memory = figures.get("memory", HOST);
    let captured = figures.get("memory", "guardexec, 1 GiB captured");
    let passed = figures.get("memory", "guardexec, 1 GiB raw");
    let lines = [
        line(
            format!("host: at most {TIMEOUT} x `timeout 5 /bin/true`"),
            ratio("latency", HOST, "timeout").map(|r| (r <= TIMEOUT, format!("{r:.2} x"))),
        ),
        line(
            format!("bwrap, everything unshared: at least {BWRAP} x as slow as host"),
            ratio("latency", "bwrap", HOST).map(|r| (r >= BWRAP, format!("{r:.2} x"))),
        ),
        line(
            format!("strict: at most {TIMEOUT} x `timeout 5 /bin/true`"),
            ratio("latency", STRICT, "timeout").map(|r| (r <= TIMEOUT, format!("{r:.2} x"))),
        ),
        line(
            format!("bwrap, the same view: at least {BWRAP_STRICT} x as slow as strict"),
            ratio("latency", "bwrap", STRICT).map(|r| (r >= BWRAP_STRICT, format!("{r:.2} x"))),
        ),
        line(
            format!("strict, 32 in flight: at least {IN_FLIGHT} x the runs/s of bare"),
            rate.map(|(strict, bare)| (strict / bare >= IN_FLIGHT, format!("{:.2} x", strict / bare))),
        ),
        line(
            format!(
                "host, with rates, approvals and checks that it does not need: at most {OVERSIGHT} x host"
            ),
            ratio("latency", "guardexec, host, oversight not needed", HOST)
                .map(|r| (r <= OVERSIGHT, format!("{r:.2} x"))),
        ),
        line(format!("200 rules: under {RULES} ms more than one rule"), rules("guardexec, 200 rules")),
        line(
            format!("200 rules with subcommands, flags and operands: under {RULES} ms more"),
            rules("guardexec, 200 rich rules"),
        ),
        line("host: under 4 MiB resident".to_owned(), below(memory)),
        line("1 GiB captured: under 4 MiB resident".to_owned(), below(captured)),
        line("1 GiB raw: under 4 MiB resident".to_owned(), below(passed)),
        line(
            format!("1 GiB captured: the pipe's own speed (at most {PIPE} x its time)"),
            ratio("output", "guardexec, captured", "pipe").map(|r| (r <= PIPE, format!("{r:.2} x"))),
        ),
        line(
            format!("1 GiB raw: the pipe's own speed (at most {PIPE} x its time)"),
            ratio("output", "guardexec, raw", "pipe").map(|r| (r <= PIPE, format!("{r:.2} x"))),
        ),
    ];
    format!("| target | measured | |\n|---|--:|---|\n{}", lines.concat())
}

fn below(kib: Option<f64>) -> Option<(bool, String)> {
    kib.map(|k| (k < MEMORY, format!("{:.1} MiB", k / 1024.0)))
}

fn line(target: String, measured: Option<(bool, String)>) -> String {
    match measured {
        Some((true, figure)) => format!("| {target} | {figure} | reached |\n"),
        Some((false, figure)) => format!("| {target} | {figure} | **not reached** |\n"),
        None => format!("| {target} | | **not measured** |\n"),
    }
}
