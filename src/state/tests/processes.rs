//! Many processes, killed ones, and disks that end. The processes are this test binary, started again.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Transaction;

use super::*;

const POLICY: &str = "allow = [\"ls\"]\n\
    [[rate]]\nname = \"r\"\ncount = 20\nper = \"1h\"\n\
    [[rate]]\nname = \"all\"\ncount = 1000000\nper = \"1h\"\n\
    [[alert]]\nname = \"a\"\non = \"denied\"\nabove = 10\nper = \"1h\"\nrun = \"/bin/true\"\n\
    [session]\nhalt_on = [\"denied:25\"]\n";

/// Starts one of the processes below on this store.
fn start(dir: &Dir, process: &str, detail: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", &format!("state::tests::processes::{process}")])
        .env("GX_STATE", &dir.0)
        .env("GX_DETAIL", detail)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// In such a process: the store's directory and the policies beside it.
fn given() -> (PathBuf, Vec<Policy>) {
    let dir = PathBuf::from(std::env::var_os("GX_STATE").expect("only started by a test"));
    let policy = load_policy(&dir.with_file_name("policy.toml"));
    (dir, vec![policy])
}

fn detail() -> String {
    std::env::var("GX_DETAIL").unwrap_or_default()
}

/// One line to the test, at once.
fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "SAID {line}").unwrap();
    out.flush().unwrap();
}

/// What a process said, until it ends.
fn said(child: Child) -> Vec<String> {
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{out:?}");
    let text = String::from_utf8(out.stdout).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("SAID ")).map(str::to_owned).collect()
}

/// The next thing that a process says.
fn hear(out: &mut impl BufRead) -> Option<String> {
    loop {
        let mut line = String::new();
        if out.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        if let Some(said) = line.trim_end().split_once("SAID ") {
            return Some(said.1.to_owned());
        }
    }
}

fn count(tx: &Transaction<'_>, now: &Moment, policies: &[Policy]) -> Result<bool, StateError> {
    let call = rates::Call { ids: vec!["allow:ls"], ..rates::Call::default() };
    let weighed = rates::weigh(Some((tx, now)), policies, &call)?;
    let fits = weighed.iter().all(|one| one.refusal().is_none());
    let which = if fits { &weighed[..] } else { &weighed[1..] };
    rates::count(tx, now, which)?;
    Ok(fits)
}

/// The uses of `r` and of `all`.
fn held(dir: &Dir) -> (u64, u64) {
    let policies = vec![load_policy(&dir.outer().join("policy.toml"))];
    let mut view = Store::look(&dir.0).unwrap().expect("used");
    let held = view.read(|db, now| {
        let held = rates::held(Some((db, now)), &policies)?;
        Ok((held[0].to_json()["use"].as_u64(), held[1].to_json()["use"].as_u64()))
    });
    let (r, all) = held.unwrap();
    (r.unwrap(), all.unwrap())
}

#[test]
#[ignore = "a process of the test below, not a test"]
fn one_of_many() {
    let (dir, policies) = given();
    // A new store each time, as separate runs have.
    let mut store = Store::open(&dir).unwrap();
    let fits = store.transaction(|tx, now| count(tx, now, &policies)).unwrap();
    drop(store);
    let mut store = Store::open(&dir).unwrap();
    let (told, halted) = store
        .transaction(|tx, now| {
            sessions::count_run(tx, now, &policies, "s")?;
            let halted = sessions::count_denial(tx, now, &policies, "s", None)?;
            Ok((alerts::note(tx, now, &policies, alerts::Event::Denial)?.len(), halted))
        })
        .unwrap();
    say(&format!("{} {told} {}", u8::from(fits), u8::from(halted.is_some())));
}

#[test]
fn fifty_processes_count_exactly_and_tell_once() {
    let dir = Dir::new();
    policy(&dir, POLICY);
    let started = Instant::now();
    let all: Vec<Child> = (0..50).map(|_| start(&dir, "one_of_many", "")).collect();
    let said: Vec<String> = all.into_iter().flat_map(said).collect();
    let sum =
        |n: usize| said.iter().map(|s| s.split(' ').nth(n).unwrap().parse::<u32>().unwrap()).sum::<u32>();
    assert_eq!((said.len(), sum(0), sum(1), sum(2)), (50, 20, 1, 1), "{said:?}");
    assert_eq!(held(&dir), (20, 50));
    let mut view = Store::look(&dir.0).unwrap().unwrap();
    let session = view.read(|db, _| sessions::find(db, "s")).unwrap().expect("kept");
    assert_eq!((session.runs, session.denials, session.halted.is_some()), (50, 50, true));
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

#[test]
#[ignore = "a process of the test below, not a test"]
fn stays_in_its_transaction() {
    let (dir, policies) = given();
    let mut store = Store::open(&dir).unwrap();
    let _ = store.transaction(|tx, now| {
        count(tx, now, &policies)?;
        say("counted");
        loop {
            std::thread::park();
        }
        #[allow(unreachable_code)]
        Ok(())
    });
}

#[test]
fn one_killed_in_its_transaction_counted_nothing_and_wedges_nobody() {
    let dir = Dir::new();
    policy(&dir, POLICY);
    said(start(&dir, "counts", "1"));
    let mut stuck = start(&dir, "stays_in_its_transaction", "");
    let mut out = BufReader::new(stuck.stdout.take().unwrap());
    assert_eq!(hear(&mut out).as_deref(), Some("counted"));
    let waiting = start(&dir, "counts", "1");
    stuck.kill().unwrap();
    stuck.wait().unwrap();
    assert_eq!(said(waiting), ["1"]);
    assert_eq!(held(&dir), (2, 2));
}

#[test]
#[ignore = "a process of the tests around, not a test"]
fn counts() {
    let (dir, policies) = given();
    let times: u32 = detail().parse().unwrap();
    for n in 1..=times {
        Store::open(&dir).unwrap().transaction(|tx, now| count(tx, now, &policies)).unwrap();
        say(&n.to_string());
    }
}

/// Killed at any time, also while the database is being written, a process has counted what it said it had, and at most
/// the one that it was at.
#[test]
fn kills_at_any_time_leave_whole_transactions() {
    let dir = Dir::new();
    policy(&dir, POLICY);
    let mut known = 0;
    for round in 0..25_u64 {
        let mut child = start(&dir, "counts", "1000000");
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut said = 0;
        for _ in 0..3 {
            said = hear(&mut out).expect("it goes on").parse().unwrap();
        }
        // A different point of the next transaction each time.
        std::thread::sleep(Duration::from_micros(round * 700));
        child.kill().unwrap();
        child.wait().unwrap();
        while let Some(line) = hear(&mut out) {
            said = line.parse().unwrap();
        }
        let (_, all) = held(&dir);
        let counted = all - known;
        assert!(counted == said || counted == said + 1, "{counted} of {said}, round {round}");
        known = all;
        Store::open(&dir.0).unwrap();
    }
    assert!(known >= 75);
}

#[test]
#[ignore = "a process of the tests below, not a test"]
fn on_a_full_disk() {
    let (dir, policies) = given();
    let filler = dir.with_file_name("filler");
    let mut store = Store::open(&dir).unwrap();
    let mut once = || store.transaction(|tx, now| count(tx, now, &policies));
    once().unwrap();
    if detail() == "limit" {
        // SIGXFSZ keeps its default action: a write past the limit would kill this process.
        use nix::sys::resource::{Resource, setrlimit};
        setrlimit(Resource::RLIMIT_FSIZE, 512, nix::libc::RLIM_INFINITY).unwrap();
        let error = once().expect_err("a full disk");
        assert!(error.hint().contains("ulimit -f"), "{error}: {}", error.hint());
        assert!(Store::open(&dir.with_file_name("fresh")).is_err());
        setrlimit(Resource::RLIMIT_FSIZE, nix::libc::RLIM_INFINITY, nix::libc::RLIM_INFINITY).unwrap();
    } else {
        let mut file = fs::File::create(&filler).unwrap();
        while file.write_all(&[b'x'; 512]).is_ok() {}
        let error = once().expect_err("a full disk");
        assert!(error.hint().contains("make room"), "{error}: {}", error.hint());
        assert!(Store::open(&dir.with_file_name("fresh")).is_err());
        fs::remove_file(&filler).unwrap();
    }
    once().unwrap();
    Store::open(&dir.with_file_name("fresh")).unwrap();
    let policies = given().1;
    let held = Store::look(&dir)
        .unwrap()
        .unwrap()
        .read(|db, now| Ok(rates::held(Some((db, now)), &policies)?[1].to_json()["use"].clone()));
    say(&format!("held {}", held.unwrap()));
}

#[test]
fn a_file_size_limit_is_an_error_and_counts_nothing() {
    let dir = Dir::new();
    policy(&dir, POLICY);
    assert_eq!(said(start(&dir, "on_a_full_disk", "limit")), ["held 2"]);
}

#[test]
fn a_full_tmpfs_is_an_error_and_counts_nothing() {
    let dir = Dir::new();
    let text = fs::read_to_string({
        policy(&dir, POLICY);
        dir.outer().join("policy.toml")
    })
    .unwrap();
    let script = r#"mount -t tmpfs -o size=256k,mode=700 none "$1" || exit 77; printf %s "$2" >"$1/policy.toml"; chmod 600 "$1/policy.toml"; shift 2; exec "$@""#;
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", script, "sh"])
        .arg(dir.outer())
        .arg(&text)
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "state::tests::processes::on_a_full_disk"])
        .env("GX_STATE", &dir.0)
        .output();
    match output {
        Ok(out) if out.status.success() => {
            assert!(String::from_utf8_lossy(&out.stdout).contains("SAID held 2"), "{out:?}");
        }
        Ok(out) if out.status.code() == Some(101) => {
            panic!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
        }
        other => eprintln!("SKIPPED: no private mount namespace with a tmpfs can be had here: {other:?}"),
    }
}
