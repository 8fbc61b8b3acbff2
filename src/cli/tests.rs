//! What is typed, what it means, and the one line said of what cannot be meant.

use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use super::args::{Expect, Format, SchemaName};
use super::meant::{OutputOptions, Surroundings};
use super::*;
use crate::request::{Arguments, Ask, Request, Stdin};

fn typed<W: Into<OsString> + Clone>(words: &[W]) -> Result<Cli, UsageError> {
    let own = [OsString::from("guardexec")];
    parse(own.into_iter().chain(words.iter().cloned().map(Into::into)))
}

fn run<W: Into<OsString> + Clone>(words: &[W]) -> Box<RunArgs> {
    match typed(words) {
        Ok(Cli::Run(run)) => run,
        other => panic!("{other:?}"),
    }
}

fn meant_by(
    words: &[&str],
    agent: Option<&str>,
    stdin: &[u8],
) -> Result<(Request, OutputOptions), UsageError> {
    let mut stdin = stdin;
    meant::run(&mut run(words), Surroundings { agent: agent.map(Into::into), stdin: &mut stdin })
}

fn request(words: &[&str]) -> Request {
    meant_by(words, None, b"").unwrap_or_else(|e| panic!("{words:?}: {e}")).0
}

fn argv(request: &Request) -> &[OsString] {
    match &request.ask {
        Ask::Argv(words) => words,
        other => panic!("{other:?}"),
    }
}

/// The line said of a usage error, whether parsing or meaning finds it.
fn refused(words: &[&str]) -> String {
    let error = match typed(words) {
        Err(error) => error,
        Ok(Cli::Run(mut run)) => meant::run(&mut run, Surroundings { agent: None, stdin: &mut io::empty() })
            .expect_err("a usage error"),
        Ok(other) => panic!("{other:?}"),
    };
    assert!(!error.message.chars().any(char::is_control), "{:?}", error.message);
    error.message
}

#[test]
fn the_definitions_are_sound() {
    command().debug_assert();
    Verbs::command().debug_assert();
}

#[test]
fn every_verb_defined_is_found() {
    for verb in Verbs::command().get_subcommands() {
        let name = verb.get_name();
        assert_eq!(args::verb_at(&["guardexec".into(), name.into()]), Some(1), "{name}");
        let help = typed(&[name, "--help"]);
        assert!(matches!(&help, Ok(Cli::Help(text)) if text.contains(name)), "{help:?}");
    }
}

#[test]
fn a_program_stands_after_the_dashes() {
    assert_eq!(argv(&request(&["--", "uname", "-sr"])), ["uname", "-sr"]);
    assert_eq!(argv(&request(&["--", "check", "--help"])), ["check", "--help"]);
    assert_eq!(argv(&request(&["--", "git", "--", "--policy", "-C"])), ["git", "--", "--policy", "-C"]);
    assert_eq!(argv(&request(&["--", ""])), [""]);
}

#[test]
fn case_30_argv_is_not_tokenized() {
    assert_eq!(argv(&request(&["--", "echo", "x", ">", "/tmp/1"])), ["echo", "x", ">", "/tmp/1"]);
}

#[test]
fn case_78_bytes_that_are_not_utf8_pass() {
    let bytes = OsString::from_vec(b"\xff\xfe".to_vec());
    let wish = OsString::from_vec(b"A=\xff=b".to_vec());
    let mut words = vec![OsString::from("--env"), wish, "--".into(), "ls".into(), bytes.clone()];
    let mut typed_run = run(&words);
    let around = || Surroundings { agent: None, stdin: Box::leak(Box::new(io::empty())) };
    let (request, _) = meant::run(&mut typed_run, around()).expect("a request");
    assert_eq!(argv(&request), ["ls".into(), bytes.clone()]);
    assert_eq!(request.env, [("A".into(), Some(OsString::from_vec(b"\xff=b".to_vec())))]);
    words = vec!["--command".into(), bytes];
    let (request, _) = meant::run(&mut run(&words), around()).expect("a request");
    assert!(matches!(request.ask, Ask::Command(text) if text == b"\xff\xfe"));
}

#[test]
fn every_option_of_a_run() {
    let words = [
        "-p",
        "a.toml",
        "--policy=b.toml",
        "--state",
        "st",
        "-C",
        "dir",
        "-e",
        "MODE=x=y",
        "--env",
        "TZ",
        "--stdin",
        "in",
        "--timeout",
        "5s",
        "--agent",
        "bot",
        "--session",
        "s1",
        "--label",
        "k=v=w",
        "--label",
        "e=",
        "--why",
        "-because",
        "--output",
        "text",
        "--result-file",
        "r.json",
        "--result-fd",
        "7",
        "--",
        "true",
    ];
    let args = run(&words);
    assert_eq!(args.policy.policies, [PathBuf::from("a.toml"), PathBuf::from("b.toml")]);
    assert_eq!(args.policy.state, Some(PathBuf::from("st")));
    let (request, output) = meant_by(&words, None, b"").expect("a request");
    assert_eq!(request.cwd, Some(PathBuf::from("dir")));
    assert_eq!(request.env, [("MODE".into(), Some("x=y".into())), ("TZ".into(), None)]);
    assert!(matches!(&request.stdin, Stdin::File(path) if path.as_os_str() == "in"));
    assert_eq!(request.timeout, Some(Duration::from_secs(5)));
    let asker = &request.asker;
    assert_eq!((asker.agent.as_deref(), asker.session.as_deref()), (Some("bot"), Some("s1")));
    assert_eq!(
        asker.labels.iter().collect::<Vec<_>>(),
        [(&"e".to_string(), &String::new()), (&"k".to_string(), &"v=w".to_string())]
    );
    assert_eq!(asker.why.as_deref(), Some("-because"));
    let expected =
        OutputOptions { format: Format::Text, result_file: Some("r.json".into()), result_fd: Some(7) };
    assert_eq!(output, expected);
}

#[test]
fn the_other_ways_to_ask() {
    assert!(matches!(request(&["-c", "uname -a; x"]).ask, Ask::Command(text) if text == b"uname -a; x"));
    // Whatever the string is, it is never taken for an option.
    for text in ["--policy=/tmp/p", "-p", "--output=raw", "--"] {
        let request = request(&["--command", text]);
        assert!(matches!(&request.ask, Ask::Command(c) if c == text.as_bytes()), "{request:?}");
    }
    let tool = ["--tool", "t", "--arg", "b=1", "--arg", "a=x=y", "--arg", "b=", "--arg", "b=1"];
    let Ask::Tool { name, arguments } = request(&tool).ask else { panic!("a tool") };
    // A name as often as it was given: whether that is a list is for the tool to say.
    let given = [("b", "1"), ("a", "x=y"), ("b", ""), ("b", "1")];
    assert_eq!(name, "t");
    assert_eq!(arguments, Arguments::Texts(given.map(|(k, v)| (k.into(), v.into())).into()));
    assert!(matches!(request(&["--stdin", "-", "--", "cat"]).stdin, Stdin::Relay));
    assert!(matches!(request(&["--", "cat"]).stdin, Stdin::Null));
}

#[test]
fn json_requests() {
    let (request, output) = meant_by(&["--request", "-"], None, br#"{"command": "ls"}"#).expect("a request");
    assert!(matches!(request.ask, Ask::Command(text) if text == b"ls"));
    assert_eq!(output, OutputOptions::default());

    let error = meant_by(&["--request", "-"], None, br#"{"policy": "x"}"#).expect_err("refused");
    assert_eq!(error.code, "request_key");
    assert!(error.json_wanted);
    let error = meant_by(&["--output", "text", "--request", "-"], None, b"[]").expect_err("refused");
    assert_eq!((error.message.as_str(), error.json_wanted), ("the JSON request is not an object", false));

    struct Endless;
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.fill(b' ');
            Ok(buffer.len())
        }
    }
    let mut args = run(&["--request", "-"]);
    let error =
        meant::run(&mut args, Surroundings { agent: None, stdin: &mut Endless }).expect_err("bounded");
    assert_eq!(error.message, "the JSON request is longer than 16 MiB");

    for option in [
        "--cwd=x",
        "--env=A",
        "--stdin=x",
        "--timeout=1s",
        "--agent=x",
        "--session=x",
        "--label=k=v",
        "--why=x",
        "--tool=x",
        "--command=x",
    ] {
        let line = refused(&["--request", "-", option]);
        assert!(line.contains("cannot be used with"), "{option}: {line}");
    }
}

#[test]
fn a_json_request_is_a_regular_file() {
    let scratch = std::env::temp_dir().join(format!("guardexec-cli-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a scratch directory");
    let file = scratch.join("request.json");
    std::fs::write(&file, r#"{"argv": ["true"]}"#).expect("written");
    let path = |path: &std::path::Path| path.to_str().expect("UTF-8").to_string();
    assert_eq!(argv(&request(&["--request", &path(&file)])), ["true"]);
    let fifo = scratch.join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let not_regular =
        |name: &str| format!("the JSON request {name} is not a regular file; - reads standard input");
    assert_eq!(refused(&["--request", &path(&fifo)]), not_regular(&path(&fifo)));
    assert_eq!(refused(&["--request", &path(&scratch)]), not_regular(&path(&scratch)));
    let gone = path(&scratch.join("gone"));
    assert_eq!(
        refused(&["--request", &gone]),
        format!("the JSON request {gone} cannot be read: No such file or directory")
    );
    std::fs::remove_dir_all(&scratch).expect("the scratch directory goes");
}

#[test]
fn the_inherited_agent_binds() {
    let agent = |words: &[&str], inherited, stdin: &[u8]| {
        meant_by(words, inherited, stdin).map(|(r, _)| r.asker.agent).map_err(|e| e.message)
    };
    let typed = &["--agent", "lead/x", "--", "a"];
    assert_eq!(agent(&["--", "a"], Some("lead"), b""), Ok(Some("lead".into())));
    assert_eq!(agent(typed, Some("lead"), b""), Ok(Some("lead/x".into())));
    assert_eq!(agent(typed, Some(""), b""), Ok(Some("lead/x".into())));
    let expected =
        "agent 'lead/x' is not 'other', which GUARDEXEC_AGENT says, nor a child of it (add /NAME to it)";
    assert_eq!(agent(typed, Some("other"), b""), Err(expected.into()));
    let json = br#"{"argv": ["a"], "agent": "boss"}"#;
    assert!(agent(&["--request", "-"], Some("lead"), json).is_err());
}

#[test]
fn usage_errors_are_one_line() {
    let after = "(a program and its arguments stand after `--`)";
    let verbs = "; the verbs are check, explain, tools, rates, approvals, session, audit, doctor, selftest, schema, completions and help)";
    for (words, line) in [
        (&[][..], "nothing to run: give a program after `--`, or one of --command, --tool and --request".to_string()),
        (&["--"], "nothing to run: give a program after `--`, or one of --command, --tool and --request".to_string()),
        (&["uname"], format!("unexpected argument 'uname' found {}", after.replace(')', verbs))),
        (&["-p", "x", "uname", "check"], format!("unexpected argument 'uname' found {after}")),
        (&["--polcy", "x", "--", "a"], format!("unexpected argument '--polcy' found; a similar argument exists: '--policy' {after}")),
        (&["a\u{1b}[2K\nb\u{202e}"], format!("unexpected argument 'a\\x1b[2K b\\u{{202e}}' found {}", after.replace(')', verbs))),
        (&["explain", "uname"], format!("unexpected argument 'uname' found {after}")),
        (&["--policy"], "a value is required for '--policy <FILE>' but none was supplied".into()),
        (&["--timeout", "5", "--", "a"], "invalid value '5' for '--timeout <DUR>': a duration needs a unit: ms, s, m, h or d".into()),
        (&["--output", "xml", "--", "a"], "invalid value 'xml' for '--output <FORMAT>' [possible values: json, text, raw]".into()),
        (&["--result-fd=-1", "--", "a"], "invalid value '-1' for '--result-fd <N>': -1 is not in 0..=2147483647".into()),
        (&["-c", "a", "--", "b"], "the argument '--command <STRING>' cannot be used with '[PROGRAM [ARG]]...'".into()),
        (&["--arg", "a=b", "--", "b"], "the argument '--arg <K=V>' cannot be used with '[PROGRAM [ARG]]...'".into()),
        (&["--arg", "a=b"], "the following required arguments were not provided: --tool <NAME>".into()),
        (&["--tool", "t", "--arg", "ab"], "--arg takes K=V, which 'ab' is not".into()),
        (&["--tool", "t", "--arg", "=b"], "--arg takes K=V, which '=b' is not".into()),
        (&["--label", "k", "--", "a"], "--label takes K=V, which 'k' is not".into()),
        (&["--label", "k=1", "--label", "k=1", "--", "a"], "--label 'k' is given twice".into()),
        (&["-e", "A=1", "-e", "A", "--", "a"], "--env 'A' is given twice".into()),
        (&["-e", "=1", "--", "a"], "'' in env cannot be the name of a variable".into()),
        (&["--agent", "a\nb", "--", "a"], "agent must not hold control or invisible characters (U+000A)".into()),
        (&["--agent", "", "--", "a"], "agent must not be empty".into()),
        (&["schema", "x"], "invalid value 'x' for '<NAME>' [possible values: policy, request, result, audit]".into()),
        (&["audit"], "'guardexec audit' requires a subcommand but one was not provided [subcommands: verify]".into()),
        (&["audit", "verify"], "the following required arguments were not provided: <FILE>...".into()),
        (&["audit", "verify", "f", "--expect", "1"], "invalid value '1' for '--expect <SEQ:HASH>': it is SEQ:HASH, a whole number and 64 lower-case hex digits".into()),
        (&["--evidence", "/none/e", "--", "a"], "the evidence /none/e cannot be read: No such file or directory".into()),
        (&["--evidence", "/", "--", "a"], "the evidence / is not a regular file".into()),
        (&["doctor", "x"], "unexpected argument 'x' found".into()),
    ] {
        assert_eq!(refused(words), line, "{words:?}");
    }
}

#[test]
fn who_wants_json_of_a_usage_error() {
    let wanted = |words: &[&str]| typed(words).expect_err("a usage error").json_wanted;
    assert!(wanted(&["--bad"]));
    assert!(wanted(&["--output", "json", "--bad"]));
    assert!(wanted(&["--output", "xml"]));
    assert!(!wanted(&["--output", "text", "--bad"]));
    assert!(!wanted(&["--bad", "--output=raw"]));
    assert!(wanted(&["--bad", "--", "--output=raw"]));
    assert!(!wanted(&["doctor", "--bad"]));
    assert!(wanted(&["doctor", "--bad", "--json"]));
}

#[test]
fn verbs() {
    let check = |words: &[&str]| match typed(words) {
        Ok(Cli::Check(args)) => (args.files, args.policy.policies, args.json),
        other => panic!("{other:?}"),
    };
    let path = |text: &str| PathBuf::from(text);
    assert_eq!(check(&["check"]), (vec![], vec![], false));
    let all = (vec![path("f"), path("g")], vec![path("p")], true);
    assert_eq!(check(&["check", "f", "g", "-p", "p", "--json"]), all);
    assert_eq!(check(&["-pp", "--json", "check", "f", "g"]), all);
    assert_eq!(check(&["--policy", "p", "--json", "check", "f", "g"]), all);
    // An option's value is no verb, and a verb's own files may be named like one.
    assert_eq!(argv(&request(&["-p", "check", "--", "a"])), ["a"]);
    assert_eq!(check(&["check", "check"]).0, [path("check")]);

    let Ok(Cli::Explain(explain)) = typed(&["explain", "-p", "p", "--json", "-C", "d", "--", "git", "check"])
    else {
        panic!("explain")
    };
    assert!(explain.json && explain.ask.cwd == Some(path("d")) && explain.ask.argv == ["git", "check"]);

    let hash = "0a".repeat(32);
    let Ok(Cli::AuditVerify(verify)) =
        typed(&["audit", "verify", "a", "b", "--expect", &format!("12:{hash}")])
    else {
        panic!("verify")
    };
    assert_eq!(verify.files, [path("a"), path("b")]);
    assert_eq!(verify.expect, Some(Expect { seq: 12, hash }));
    assert!(matches!(typed(&["doctor", "--json"]), Ok(Cli::Doctor(args)) if args.json));
    assert!(matches!(typed(&["schema", "result"]), Ok(Cli::Schema(args)) if args.name == SchemaName::Result));
    assert!(
        matches!(typed(&["completions", "bash"]), Ok(Cli::Completions(args)) if args.shell == clap_complete::Shell::Bash)
    );
}

#[test]
fn help_and_version() {
    let Ok(Cli::Help(text)) = typed(&["--help"]) else { panic!("help") };
    for verb in Verbs::command().get_subcommands() {
        assert!(text.contains(&format!("\n  {}", verb.get_name())), "{text}");
    }
    for argument in RunArgs::command().get_arguments().filter_map(clap::Arg::get_long) {
        assert!(text.contains(&format!("--{argument}")), "{argument}: {text}");
    }
    assert!(matches!(typed(&["-h"]), Ok(Cli::Help(_))));
    let version = concat!("guardexec ", env!("CARGO_PKG_VERSION"), "\n");
    assert!(matches!(typed(&["--version"]), Ok(Cli::Version(text)) if text == version));
    assert!(matches!(typed(&["-V"]), Ok(Cli::Version(text)) if text == version));
    // Not where they are a program's own.
    assert_eq!(argv(&request(&["--", "--help"])), ["--help"]);
}

#[test]
fn edited_words_are_taken_as_they_are() {
    let argv = |words: &[&str]| match typed(words) {
        Ok(Cli::Approvals(ApprovalsVerb::Approve(args))) => (args.which.id, args.note, args.argv),
        other => panic!("{other:?}"),
    };
    let words = ["git", "--", "-x", "--argv", "--json", "--note", "-h"];
    let (id, note, edited) =
        argv(&[&["approvals", "approve", "x1", "--note", "n", "--argv"][..], &words].concat());
    assert_eq!((id.as_str(), note.as_deref()), ("x1", Some("n")));
    assert_eq!(edited, words);
    let (_, _, edited) = argv(&["--state", "/s", "approvals", "approve", "x1", "--argv", "date"]);
    assert_eq!(edited, ["date"]);
    assert!(argv(&["approvals", "approve", "x1"]).2.is_empty());
    assert!(refused(&["approvals", "approve", "x1", "--argv"]).contains("--argv"));
}
