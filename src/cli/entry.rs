//! From the process's start to its exit status.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::time::SystemTime;

use super::args::{Format, RunArgs};
use super::deliver::{Copies, deliver, patient, put, say, settled};
use super::meant::{self, OutputOptions};
use super::{Cli, UsageError, parse, verbs};
use crate::decision::{self, Facts};
use crate::policy::load::LoadContext;
use crate::policy::stack::Search;
use crate::report::result::ResultDoc;
use crate::report::run_id;
use crate::request::quote::repr;
use crate::run::END_SIGNALS;
use crate::sys::signal::Held;
use crate::{Answer, Call, Surroundings, perform_into, sys};

/// Exit status of a usage error.
const USAGE: u8 = 125;

/// Runs guardexec and gives its exit status.
pub fn main() -> u8 {
    // The environment is copied, then wiped where `/proc/PID/environ` would show it, root or not.
    let raw = sys::environ::take_environment();
    sys::environ::hide_initial_environment();
    let status = match (parse(std::env::args_os()), inherited(&raw)) {
        (Ok(cli), Ok(agent)) => dispatch(cli, &surroundings(raw, agent)),
        (Ok(cli), Err(message)) => nobody(cli, message),
        (Err(error), _) => usage(&error, &OutputOptions::default()),
    };
    settled(status)
}

fn dispatch(cli: Cli, around: &Surroundings) -> u8 {
    let agent = around.facts.agent.as_ref().map(OsString::from);
    match cli {
        Cli::Run(args) => run(*args, agent, around),
        Cli::Check(args) => verbs::check(&args, around),
        Cli::Explain(args) => verbs::explain_request(*args, agent, around),
        Cli::Tools(args) => super::tools::tools(&args, around),
        Cli::Rates(args) => super::rates::rates(&args, around),
        Cli::Approvals(verb) => super::approvals::approvals(&verb, around),
        Cli::Session(verb) => super::session::session(&verb, around),
        Cli::AuditVerify(args) => verbs::audit_verify(&args),
        Cli::Doctor(args) => verbs::doctor(&args),
        Cli::Selftest(args) => super::selftest::selftest(&args, around),
        Cli::Schema(args) => verbs::print_schema(&args),
        Cli::Completions(args) => {
            let mut text = Vec::new();
            clap_complete::generate(args.shell, &mut super::command(), "guardexec", &mut text);
            put(&text);
            0
        }
        Cli::Help(text) | Cli::Version(text) => {
            put(text.as_bytes());
            0
        }
    }
}

/// Nobody can tell who asks, so nothing is asked of any policy.
fn nobody(cli: Cli, message: String) -> u8 {
    match cli {
        Cli::Help(text) | Cli::Version(text) => {
            put(text.as_bytes());
            0
        }
        Cli::Run(args) => {
            let options = OutputOptions::from(&args.output);
            let json_wanted = options.format == Format::Json;
            usage(&UsageError { code: "usage", message, json_wanted }, &options)
        }
        _ => {
            say(&format!("guardexec: error: {message}"));
            USAGE
        }
    }
}

fn run(mut args: RunArgs, agent: Option<OsString>, around: &Surroundings) -> u8 {
    let policies = std::mem::take(&mut args.policy.policies);
    let wanted = OutputOptions::from(&args.output);
    let mut stdin = patient(0);
    let (request, options) = match meant::run(&mut args, meant::Surroundings { agent, stdin: &mut stdin }) {
        Ok(meant) => meant,
        Err(error) => return usage(&error, &wanted),
    };
    let copies = match Copies::open(&options) {
        Ok(copies) => copies,
        Err(message) => {
            let json_wanted = options.format == Format::Json;
            return usage(
                &UsageError { code: "usage", message, json_wanted },
                &OutputOptions { format: options.format, ..OutputOptions::default() },
            );
        }
    };
    let pass_through = options.format == Format::Raw;
    let call = Call { request, policies, pass_through, state: args.policy.state.take(), wait: args.wait };
    // From here on every call gets an answer: a signal ends what is waited for, and none the time between or the delivery.
    let held = Held::begin(&END_SIGNALS);
    let answer = perform_into(call, around, copies.outputs());
    // What came when nothing was left to end does not count against a reader who takes his time.
    let _ = held.map(|held| held.forget());
    // What the run leaves behind is waited for when the answer is dropped, after it was delivered.
    deliver(&answer, &options, copies)
}

/// One line on standard error, and a result where one is waited for.
fn usage(error: &UsageError, options: &OutputOptions) -> u8 {
    let now = SystemTime::now();
    let mut doc = ResultDoc::new(run_id::new(now), now);
    doc.failed(error.code, &error.message, None);
    if error.json_wanted {
        let copies = Copies::open(options).unwrap_or_default();
        return deliver(
            &Answer { doc, excerpt: None, policies: Vec::new(), leaving: None },
            &OutputOptions { format: Format::Json, ..OutputOptions::default() },
            copies,
        );
    }
    say(&format!("guardexec: error: {error}"));
    USAGE
}

/// The agent's name that guardexec inherits (`$GUARDEXEC_AGENT`); empty counts as unset.
///
/// # Errors
/// It binds whoever asks, so one that cannot be told is not passed over: it is no text, or there are two of them.
fn inherited(raw: &[Vec<u8>]) -> Result<Option<String>, String> {
    let mut values = raw.iter().filter_map(|entry| entry.strip_prefix(b"GUARDEXEC_AGENT="));
    let value = values.next().unwrap_or_default();
    if values.next().is_some() {
        return Err("GUARDEXEC_AGENT stands in the environment twice; set it once".to_owned());
    }
    match std::str::from_utf8(value) {
        Ok(name) => Ok(Some(name.to_owned()).filter(|name| !name.is_empty())),
        Err(_) => Err(format!(
            "GUARDEXEC_AGENT is {}, which is not UTF-8 text; set it to a name as the policy writes it",
            repr(value)
        )),
    }
}

/// What judging may know of the caller and the machine.
fn surroundings(raw: Vec<Vec<u8>>, agent: Option<String>) -> Surroundings {
    let env = decision::clean_environment(raw);
    let variable = |name: &str| -> Option<OsString> {
        env.iter()
            .find(|(n, _)| n == name.as_bytes())
            .map(|(_, v)| OsString::from_vec(v.clone()))
            .filter(|v| !v.is_empty())
    };
    let uid = nix::unistd::getuid();
    let entry = sys::account::account(uid.as_raw());
    let home = entry.as_ref().map_or_else(|| PathBuf::from("/"), |u| u.home.clone());
    let search = Search {
        given: Vec::new(),
        env_policy: variable("GUARDEXEC_POLICY"),
        xdg_config_home: variable("XDG_CONFIG_HOME"),
        system: PathBuf::from(Search::SYSTEM),
    };
    let load = LoadContext { home: home.clone(), uid: nix::unistd::geteuid().as_raw() };
    let user = entry.map_or_else(|| uid.to_string(), |u| u.name);
    Surroundings {
        facts: Facts { env, start_dir: std::env::current_dir().ok(), user, home, agent },
        search,
        load,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inherited_name_is_one_text_or_none() {
        let of = |entries: &[&[u8]]| inherited(&entries.iter().map(|e| e.to_vec()).collect::<Vec<_>>());
        assert_eq!(of(&[b"A=b", b"GUARDEXEC_AGENTS=x", b"=GUARDEXEC_AGENT=x"]), Ok(None));
        assert_eq!(of(&[b"GUARDEXEC_AGENT="]), Ok(None));
        assert_eq!(of(&[b"GUARDEXEC_AGENT=lead"]), Ok(Some("lead".to_owned())));
        for twice in [
            [&b"GUARDEXEC_AGENT=lead"[..], b"GUARDEXEC_AGENT=lead"],
            [b"GUARDEXEC_AGENT=", b"GUARDEXEC_AGENT="],
        ] {
            assert!(of(&twice).expect_err("nobody can tell").contains("twice"));
        }
        assert!(of(&[b"GUARDEXEC_AGENT=le\xffad"]).expect_err("no text").contains("not UTF-8"));
    }
}
