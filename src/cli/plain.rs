//! The run form where it is plain, read without clap: building clap's command costs a run more than judging it.
//!
//! Plain is: options known here, each a word of its own with its value in the next one, given once where they may be given
//! once, nothing that two of them say of one another, then `--` and a program where one is asked for. All else is clap's,
//! and so is every error. What is read here is what clap would have read; a test compares the two.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::args::{AskArgs, Format, OutputArgs, PolicyArgs, RunArgs};
use crate::request::parse_duration;

/// Reads the words after the program's own name; `None` leaves them to clap.
pub(super) fn read(words: &[OsString]) -> Option<RunArgs> {
    let mut run = RunArgs {
        policy: PolicyArgs::default(),
        ask: AskArgs::default(),
        wait: None,
        output: OutputArgs::default(),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            run.ask.argv = words.as_slice().to_vec();
            return (!run.ask.argv.is_empty() && asks_once(&run.ask)).then_some(run);
        }
        // An empty value, and one that could be an option, means different things to different options.
        let value = words.next().filter(|value| !matches!(value.as_bytes().first(), None | Some(b'-')))?;
        option(&mut run, word, value)?;
    }
    asks_once(&run.ask).then_some(run)
}

fn option(run: &mut RunArgs, name: &OsStr, value: &OsStr) -> Option<()> {
    let RunArgs { policy, ask, wait, output } = run;
    match name.to_str()? {
        "-p" | "--policy" => policy.policies.push(value.into()),
        "--state" => once(&mut policy.state, path(value))?,
        "--wait" => once(wait, parse_duration(value.to_str()?).ok())?,
        "-c" | "--command" => once(&mut ask.command, Some(value.to_owned()))?,
        "--tool" => once(&mut ask.tool, text(value))?,
        "--arg" => ask.tool_args.push(text(value)?),
        "--request" => once(&mut ask.request, path(value))?,
        "-C" | "--cwd" => once(&mut ask.cwd, path(value))?,
        "-e" | "--env" => ask.env.push(value.to_owned()),
        "--stdin" => once(&mut ask.stdin, path(value))?,
        "--timeout" => once(&mut ask.timeout, parse_duration(value.to_str()?).ok())?,
        "--agent" => once(&mut ask.agent, text(value))?,
        "--session" => once(&mut ask.session, text(value))?,
        "--label" => ask.labels.push(text(value)?),
        "--why" => once(&mut ask.why, text(value))?,
        "--evidence" => once(&mut ask.evidence, path(value))?,
        "--approval" => once(&mut ask.approval, text(value))?,
        "--output" => output.output = format(output.output, value)?,
        "--result-file" => once(&mut output.result_file, path(value))?,
        "--result-fd" => once(&mut output.result_fd, number(value))?,
        _ => return None,
    }
    Some(())
}

/// Puts a value that was read where none stands yet.
fn once<T>(place: &mut Option<T>, value: Option<T>) -> Option<()> {
    place.replace(value?).is_none().then_some(())
}

fn path(value: &OsStr) -> Option<PathBuf> {
    Some(value.into())
}

fn text(value: &OsStr) -> Option<String> {
    value.to_str().map(str::to_owned)
}

fn number(value: &OsStr) -> Option<i32> {
    value.to_str().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}

/// `json` is what stands there without the option: said, it is left to clap, which knows whether it was.
fn format(before: Format, value: &OsStr) -> Option<Format> {
    match (before, value.to_str()?) {
        (Format::Json, "text") => Some(Format::Text),
        (Format::Json, "raw") => Some(Format::Raw),
        _ => None,
    }
}

/// Whether one thing at most is asked for, in one of the ways that exclude each other. A JSON request says everything
/// itself, so with one there is nothing else.
fn asks_once(ask: &AskArgs) -> bool {
    let ways = [!ask.argv.is_empty(), ask.command.is_some(), ask.tool.is_some(), ask.request.is_some()];
    let one = ways.into_iter().filter(|way| *way).count() == 1;
    let arguments = ask.tool_args.is_empty() || ask.tool.is_some();
    let lone = AskArgs { request: ask.request.clone(), ..AskArgs::default() };
    one && arguments && (ask.request.is_none() || *ask == lone)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use clap::{CommandFactory as _, Parser as _};
    use proptest::prelude::*;

    use super::*;

    fn by_clap(words: &[OsString]) -> Result<RunArgs, clap::Error> {
        RunArgs::try_parse_from([OsString::from("guardexec")].iter().chain(words))
    }

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn what_runs_are_made_of_is_read_here() {
        for line in [
            "-- ls",
            "-p a.toml --policy b.toml --state dir -- git -C x -- --policy",
            "--wait 5s -C dir --cwd=x -- ls",
            "-c ls",
            "--command ls --output text --timeout 5s -e A=b --env C --label k=v --label k=w",
            "--tool build --arg a=b --arg c=d --agent me --session s --why because --result-fd 3",
            "--request file --policy a.toml --output raw --result-file r",
            "--approval id --evidence e --stdin - -- ls",
        ] {
            // `=` glues, and a lone dash begins with one: both are clap's.
            let plain = !line.contains("--cwd=") && !line.contains("--stdin -");
            assert_eq!(read(&words(line)).is_some(), plain, "{line}");
        }
    }

    fn word() -> impl Strategy<Value = OsString> {
        let command = RunArgs::command();
        let mut options: Vec<OsString> = Vec::new();
        for option in command.get_arguments() {
            options.extend(option.get_long().map(|long| format!("--{long}").into()));
            options.extend(option.get_short().map(|short| format!("-{short}").into()));
        }
        let mut values =
            words("-- -- -- ls a=b a = 5s 0s 7 +7 -7 99999999999 text raw json - -x --policy=x -px é --help");
        values.extend([OsString::new(), OsString::from_vec(vec![0xff, b'=']), " ".into()]);
        prop_oneof![2 => prop::sample::select(options), 3 => prop::sample::select(values)]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_read_here_is_what_clap_reads(line in prop::collection::vec(word(), 0..9)) {
            if let Some(read) = read(&line) {
                let clap = by_clap(&line).map_err(|e| TestCaseError::fail(format!("{line:?}: {e}")))?;
                prop_assert_eq!(read, clap, "{:?}", line);
            }
        }

        /// Options each with a value, so that most lines are plain.
        #[test]
        fn and_so_are_lines_of_options_with_values(
            pairs in prop::collection::vec((word(), word()), 0..5),
            program in prop::collection::vec(word(), 0..3),
        ) {
            let mut line: Vec<OsString> = pairs.into_iter().flat_map(|(a, b)| [a, b]).collect();
            line.extend(program);
            if let Some(read) = read(&line) {
                let clap = by_clap(&line).map_err(|e| TestCaseError::fail(format!("{line:?}: {e}")))?;
                prop_assert_eq!(read, clap, "{:?}", line);
            }
        }
    }
}
