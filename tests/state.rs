//! The store as its verbs show it: `rates` and `session`, where it is, and whom it is refused to.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use guardexec::policy::load::{LoadContext, load};
use guardexec::policy::model::{HaltOn, Policy};
use guardexec::state::{Store, rates, sessions};
use serde_json::{Value, json};

use crate::harness::{Answer, As, Bench, NOBODY};

const POLICY: &str = "version = 1\nallow = [\"ls\"]\n\
    [session]\nhalt_on = [\"timeout\"]\nmax_runs = 2\n\
    [[rate]]\nname = \"few\"\nkey = \"session\"\ncount = 3\nper = \"1h\"\nthen = \"ask\"\n\
    [[rate]]\nname = \"others\"\nmatch = \"allow:ls\"\nagents = [\"ci\"]\ncount = 9\nper = \"30d\"\n";

/// A policy whose state is in the bench's directory.
fn policy(bench: &Bench) -> PathBuf {
    bench.file("policy.toml", format!("{POLICY}[state]\ndir = {:?}\n", dir(bench)))
}

fn dir(bench: &Bench) -> PathBuf {
    bench.dir.join("state")
}

/// A store that was used: made by this process, where the way is its own, then handed to the bench's user.
fn used(bench: &Bench) -> PathBuf {
    let path = policy(bench);
    let made = bench.dir.with_extension("made");
    let own = made.with_extension("toml");
    fs::copy(&path, &own).expect("copy");
    fs::set_permissions(&own, fs::Permissions::from_mode(0o600)).expect("chmod");
    let context = LoadContext { home: "/".into(), uid: nix::unistd::geteuid().as_raw() };
    let mut read = load(&own, &context).expect("the policy");
    // Counts are kept under the policy's own path.
    read.path = path.clone().into();
    fs::remove_file(&own).expect("remove");
    fill(&made, &[read]);
    fs::rename(&made, dir(bench)).expect("rename");
    if bench.who == As::User && nix::unistd::geteuid().is_root() {
        chown(dir(bench), Some(NOBODY), Some(NOBODY)).expect("chown");
        for file in fs::read_dir(dir(bench)).expect("the store") {
            chown(file.expect("a file").path(), Some(NOBODY), Some(NOBODY)).expect("chown");
        }
    }
    path
}

/// Two calls of one session, one of another that is halted, one without.
fn fill(made: &Path, policies: &[Policy]) {
    let mut store = Store::open(made).expect("a store");
    for session in [Some("s\u{1b}1"), Some("s\u{1b}1"), Some("s2"), None] {
        let call = rates::Call { ids: vec!["allow:ls"], session, ..rates::Call::default() };
        store
            .transaction(|tx, now| {
                let weighed = rates::weigh(Some((tx, now)), policies, &call)?;
                rates::count(tx, now, &weighed)?;
                session.map_or(Ok(()), |id| sessions::count_run(tx, now, policies, id))
            })
            .expect("counted");
    }
    let halted = store
        .transaction(|tx, now| sessions::halt_on(tx, now, policies, "s2", HaltOn::Timeout, Some("run-7")));
    assert!(halted.expect("halted").is_some());
}

fn call(bench: &Bench, words: &[&str]) -> Answer {
    bench.call().opt(words).opt([Path::new("-p"), &bench.dir.join("policy.toml")]).raw()
}

fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.stdout).into_owned()
}

#[track_caller]
fn good(answer: &Answer) -> &Answer {
    assert_eq!((answer.exit, answer.stderr.as_str()), (0, ""), "{}", answer.show());
    answer
}

as_both! {
    fn looking_at_nothing_creates_nothing(bench) {
        policy(bench);
        let few = json!({"name": "few", "file": bench.dir.join("policy.toml"), "line": 6, "key": null, "sum": null, "max": 3, "per": "1h",
            "then": "ask", "use": 0, "oldest_leaves_in_ms": null, "oldest_leaves_at": null});
        let rates = call(bench, &["rates", "--json"]);
        assert_eq!(good(&rates).json[0], few);
        assert_eq!(rates.json.as_array().expect("an array").len(), 2);
        assert_eq!(good(&call(bench, &["session", "list", "--json"])).json, json!([]));
        assert_eq!(text(good(&call(bench, &["session", "list"]))), "no sessions\n");
        for verb in ["show", "resume"] {
            let a = call(bench, &["session", verb, "s"]);
            assert_eq!((a.exit, a.stderr.as_str()), (1, "guardexec: error: there is no session s\nhint: guardexec session list shows those of this policy and --state\n"), "{}", a.show());
        }
        assert!(!dir(bench).exists());
        let none = bench.file("none.toml", "version = 1\n");
        assert_eq!(text(good(&bench.call().opt(["rates", "-p"]).opt([none]).raw())), "no rates\n");
    }
}

as_both! {
    fn rates_say_where_every_counter_stands(bench) {
        used(bench);
        let a = call(bench, &["rates", "--json"]);
        let rows = good(&a).json.as_array().expect("an array");
        let of = |key: &str| rows.iter().map(|row| row[key].clone()).collect::<Vec<Value>>();
        assert_eq!(of("name"), ["few", "few", "few", "others"]);
        assert_eq!(of("key"), [json!({"session": "s\u{1b}1"}), json!({"session": "s2"}), json!({"session": null}), json!(null)]);
        assert_eq!(of("use"), [2, 1, 1, 0]);
        assert_eq!(of("max"), [3, 3, 3, 9]);
        assert_eq!(of("line"), [6, 6, 6, 12]);
        assert_eq!(of("then"), ["ask", "ask", "ask", "deny"]);
        let wait = rows[0]["oldest_leaves_in_ms"].as_u64().expect("a number");
        assert!((3_500_000..=3_600_000).contains(&wait), "{wait}");
        assert!(rows[0]["oldest_leaves_at"].as_str().is_some_and(|at| at.ends_with('Z')));
        let lines = text(good(&call(bench, &["rates"])));
        assert!(lines.contains("policy.toml:6: rate 'few': 2 of 3 in 1h with session 's\\x1b1', then ask, the oldest leaves in "), "{lines}");
        assert!(lines.ends_with("policy.toml:12: rate 'others': 0 of 9 in 30d, then deny\n"), "{lines}");
        assert!(!lines.contains('\u{1b}'));
    }
}

as_both! {
    fn a_person_lets_a_halted_session_go_on_and_an_agent_does_not(bench) {
        used(bench);
        let list = call(bench, &["session", "list", "--json"]);
        assert_eq!(good(&list).json[0]["id"], "s2");
        assert_eq!(list.json[0]["halted"]["reason"], "a run reached its wall_time");
        assert_eq!(list.json[0]["halted"]["run"], "run-7");
        assert_eq!((&list.json[1]["id"], &list.json[1]["runs"], &list.json[1]["state"]), (&json!("s\u{1b}1"), &json!(2), &json!("open")));
        let lines = text(good(&call(bench, &["session", "list"])));
        assert!(lines.starts_with("s2: halted 2") && lines.contains(": a run reached its wall_time in run run-7; 1 run and 0 denials since"), "{lines}");
        assert!(lines.contains("\n$'s\\x1b1': open; 2 runs and 0 denials since 2"), "{lines}");

        let agent = bench.call().env("GUARDEXEC_AGENT", "a").opt(["session", "resume", "s2", "-p"]).opt([bench.dir.join("policy.toml")]).raw();
        assert_eq!(agent.exit, 126, "{}", agent.show());
        assert_eq!(agent.stderr, "guardexec: error: an agent lets no session go on, and this is a (GUARDEXEC_AGENT); ask a person\n");
        let unset = bench.call().env("GUARDEXEC_AGENT", "").opt(["session", "show", "s2", "-p"]).opt([bench.dir.join("policy.toml")]).raw();
        assert!(text(good(&unset)).contains(" halted: a run reached its wall_time in run run-7\n"), "{}", unset.show());

        let resumed = call(bench, &["session", "resume", "s2"]);
        assert_eq!(text(good(&resumed)), "session s2 may go on, which was halted: a run reached its wall_time\n");
        let shown = call(bench, &["session", "show", "s2", "--json"]);
        let s = &good(&shown).json;
        assert_eq!((&s["state"], &s["halted"], &s["runs"], &s["all_runs"]), (&json!("open"), &Value::Null, &json!(0), &json!(1)));
        let events = s["history"].as_array().expect("an array");
        assert_eq!(events.iter().map(|e| e["event"].as_str().expect("a word")).collect::<Vec<_>>(), ["halted", "resumed"]);
        let me = nix::unistd::Uid::from_raw(if bench.who == As::User && nix::unistd::geteuid().is_root() { NOBODY } else { nix::unistd::geteuid().as_raw() });
        let name = nix::unistd::User::from_uid(me).expect("the user database").map_or_else(|| me.to_string(), |user| user.name);
        let by = format!("'{name}' (uid {me}");
        assert!(events[1]["by"].as_str().is_some_and(|text| text.starts_with(&by)), "{events:?}");
        let again = call(bench, &["session", "resume", "s2", "--json"]);
        assert_eq!((&good(&again).json["halted"], &again.json["by"]), (&Value::Null, &events[1]["by"]));
        let unknown = call(bench, &["session", "resume", "s3\u{1b}"]);
        assert_eq!((unknown.exit, unknown.stderr.as_str()), (1, "guardexec: error: there is no session $'s3\\x1b'\nhint: guardexec session list shows those of this policy and --state\n"));
    }
}

as_both! {
    fn the_policy_says_where_and_the_caller_only_where_it_does_not(bench) {
        let policy = used(bench);
        let rates = |options: &[&str]| {
            let words = ["rates", "--json", "-p"].map(str::to_owned);
            bench.call().opt(words).opt([&policy]).opt(options)
        };
        let same = bench.dir.join("work/../state/");
        assert_eq!(good(&rates(&["--state", same.to_str().expect("UTF-8")]).raw()).json[0]["use"], 2);
        let other = rates(&["--state", "elsewhere"]).raw();
        assert_eq!(other.exit, 125, "{}", other.show());
        assert!(other.stderr.contains("/work/elsewhere contradicts the policy, which keeps its state in "), "{}", other.stderr);
        // Without [state]: the option, else XDG_STATE_HOME.
        let text = fs::read_to_string(&policy).expect("the policy");
        bench.file("policy.toml", text.split("[state]").next().expect("a part"));
        assert_eq!(good(&rates(&["--state", dir(bench).to_str().expect("UTF-8")]).raw()).json[0]["use"], 2);
        assert_eq!(good(&rates(&["--state", "../state"]).raw()).json[0]["use"], 2);
        let xdg = bench.work().join("xdg");
        assert_eq!(good(&rates(&[]).env("XDG_STATE_HOME", xdg.to_str().expect("UTF-8")).raw()).json[0]["use"], 0);
        fs::create_dir(&xdg).expect("mkdir");
        fs::set_permissions(&xdg, fs::Permissions::from_mode(0o700)).expect("chmod");
        bench.give(&xdg);
        fs::rename(dir(bench), xdg.join("guardexec")).expect("rename");
        assert_eq!(good(&rates(&[]).env("XDG_STATE_HOME", xdg.to_str().expect("UTF-8")).raw()).json[0]["use"], 2);
    }
}

as_both! {
    fn a_store_that_cannot_be_trusted_or_read_is_an_error_and_not_empty(bench) {
        used(bench);
        let database = dir(bench).join("state.db");
        let refused = |wanted: &str| {
            for words in [&["rates"][..], &["session", "list"], &["session", "show", "s2"], &["session", "resume", "s2"]] {
                let a = call(bench, words);
                assert_eq!((a.exit, text(&a).as_str()), (125, ""), "{words:?} {}", a.show());
                assert!(a.stderr.starts_with("guardexec: error: ") && a.stderr.contains(wanted), "{words:?} {}", a.stderr);
                assert_eq!(a.stderr.lines().count(), 1, "{}", a.stderr);
            }
        };
        fs::set_permissions(dir(bench), fs::Permissions::from_mode(0o755)).expect("chmod");
        refused("is open to others (mode 0755); chmod 700 ");
        fs::set_permissions(dir(bench), fs::Permissions::from_mode(0o700)).expect("chmod");
        let whole = fs::read(&database).expect("the database");
        fs::write(&database, "not a database, but long enough to look at").expect("write");
        refused("is damaged: it is not a database; put a good copy of ");
        fs::write(&database, &whole[..whole.len() / 2]).expect("write");
        refused("is damaged: ");
        fs::remove_file(&database).expect("remove");
        refused("is gone or empty, and counters do not begin again by that; put ");
        assert!(!database.exists());
    }
}
