//! Stacked policies: what each of them says counts.

use super::*;
use crate::policy::load::load;
use crate::policy::load::tests::{Dir, context};

/// One policy for each text, in one directory.
fn stack(d: &Dir, texts: &[&str]) -> Vec<Policy> {
    let load = |(i, text): (usize, &&str)| load(&d.put(&format!("{i}.toml"), text), &context()).unwrap();
    texts.iter().enumerate().map(load).collect()
}

const ASK: &str = "[[rule]]\nid = \"r\"\nprogram = \"p\"\ndecision = \"ask\"\n";
const TOOL: &str = "[tools.t]\nargv = [\"ls\", \"{n}\"]\ndecision = \"allow\"\n";
const CHECK: &str = "[[check]]\nname = \"c\"\non = \"output\"\nrun = \"c\"\n";

#[test]
fn one_state_of_all() {
    let d = Dir::new();
    let none = stack(&d, &["", ""]);
    assert_eq!(state_dir(&none, None), Ok(None));
    assert_eq!(state_dir(&none, Some(Path::new("/s"))), Ok(Some("/s".into())));
    let one = stack(&d, &["", "[state]\ndir = \"s\"", "[state]\ndir = \"./s\""]);
    let dir = d.0.join("s");
    assert_eq!(state(&one).unwrap().unwrap().dir, dir);
    assert_eq!(state_dir(&one, Some(&dir)), Ok(Some(dir.clone())));
    std::fs::create_dir(&dir).unwrap();
    std::os::unix::fs::symlink(&dir, d.0.join("link")).unwrap();
    assert_eq!(state_dir(&one, Some(&d.0.join("link"))), Ok(Some(dir)));
    assert_eq!(
        d.plain(&state_dir(&one, Some(Path::new("/other"))).unwrap_err()),
        "--state /other contradicts the policy, which keeps its state in D/s (D/1.toml:3); leave --state out"
    );
    let two = stack(&d, &["[state]\ndir = \"a\"", "\n[state]\ndir = \"b\""]);
    let want = "D/1.toml:4:1: two policies keep their state in different places: D/b here, D/a at D/0.toml:3; name one \
                directory in all of them";
    assert_eq!(d.plain(&state(&two).unwrap_err()), want);
    assert_eq!(d.plain(&state_dir(&two, None).unwrap_err()), want);
}

#[test]
fn every_switch_counts() {
    let d = Dir::new();
    let switch = "[kill_switch]\nfile = \"stop\"";
    let policies = stack(&d, &[switch, "", switch]);
    let found: Vec<&Path> = kill_switches(&policies)
        .map(|(p, s)| {
            assert_eq!(s.file, d.0.join("stop"));
            &*p.path
        })
        .collect();
    assert_eq!(found, [d.0.join("0.toml"), d.0.join("2.toml")]);
}

#[test]
fn names_of_all_policies_are_known() {
    let d = Dir::new();
    let tool = format!("{TOOL}params.n = {{ type = \"integer\" }}");
    let policies = stack(&d, &["allow = [\"ls\"]", &tool]);
    assert!(is_known(&policies, "allow:ls") && is_known(&policies, "t"));
    assert!(!is_known(&policies, "ls") && !is_known(&policies, "u"));
}

#[test]
fn the_store_is_needed_by_what_asks_or_counts() {
    let d = Dir::new();
    let above = format!("{TOOL}params.n = {{ type = \"integer\", ask_above = 1 }}");
    let asking_tool = format!("{TOOL}params.n = {{ type = \"integer\" }}").replace("allow", "ask");
    let cases: [(&str, bool, bool); 10] = [
        ("allow = [\"ls\"]", false, false),
        ("[kill_switch]\nfile = \"stop\"", false, false),
        ("[state]\ndir = \"s\"", false, false),
        (ASK, true, false),
        (&asking_tool, true, false),
        (&above, true, false),
        (CHECK, true, false),
        ("[[rate]]\ncount = 1\nper = \"1s\"", true, true),
        ("[[alert]]\non = \"denied\"\nabove = 1\nper = \"1s\"\nrun = \"a\"", true, true),
        ("[session]", true, true),
    ];
    for (text, needs, counted) in cases {
        let policies = stack(&d, &["", text]);
        assert_eq!((needs_state(&policies), counts(&policies)), (needs, counted), "{text}");
    }
    for ask in ["deny", "tty", "./confirm"] {
        let text = format!("{ASK}[approval]\nask = \"{ask}\"");
        assert!(!needs_state(&stack(&d, &[&text])), "{ask}");
        assert!(needs_state(&stack(&d, &[&text, ASK])), "{ask}");
    }
    let asking_rate = "[[rate]]\ncount = 1\nper = \"1s\"\nthen = \"ask\"";
    assert!(can_ask(&stack(&d, &[asking_rate])[0]));
}

#[test]
fn each_policy_has_its_say_in_who_is_asked() {
    let d = Dir::new();
    let first = format!(
        "{ASK}[approval]\nask = \"./confirm\"\ntimeout = \"9s\"\nexpires = \"1h\"\nmax_pending = 2\nnotify = \"./n\"\nescalate = \"./e\"\nescalate_after = \"5m\""
    );
    let written = "[approval]\nask = \"tty\"\ntimeout = \"20s\"";
    let policies = stack(&d, &[&first, ASK, "", written]);
    let of = |names: &[usize]| {
        let chosen: Vec<&Path> = names.iter().map(|i| &*policies[*i].path).collect();
        asked(&policies, move |p| chosen.contains(&&*p.path))
    };
    let all = of(&[0, 1]);
    assert_eq!(
        all.programs.iter().map(|h| h.argv[0].clone()).collect::<Vec<_>>(),
        [d.0.join("confirm").display().to_string()]
    );
    assert!(all.tty && all.queue && all.nobody.is_none());
    assert_eq!(
        (all.timeout, all.expires, all.max_pending),
        (Duration::from_secs(9), Duration::from_secs(600), 2)
    );
    assert_eq!(all.notify[0].argv, [d.0.join("n").display().to_string()]);
    assert_eq!(all.escalate[0].1, Duration::from_secs(300));
    // What does not ask and says nothing of asking has no say.
    let one = of(&[0]);
    assert!(!one.queue && one.tty);
    assert_eq!(asked(&policies[..1], can_ask).expires, Duration::from_secs(3600));
    let deny = stack(&d, &[ASK, "[approval]\nask = \"deny\""]);
    assert_eq!(asked(&deny, can_ask).nobody.unwrap().at.as_ref().unwrap().line, 2);
    let twice = stack(&d, &[&first, &first]);
    assert_eq!(asked(&twice, can_ask).programs.len(), 1);
}

#[test]
fn a_rate_or_check_speaks_of_what_it_names() {
    let d = Dir::new();
    let text = format!("{ASK}{CHECK}[[rate]]\ncount = 1\nper = \"1s\"\nmatch = \"r\"");
    let policy = stack(&d, &[&text]).remove(0);
    let rate = &policy.oversight.rates[0];
    assert!(rate.speaks_of(&["x", "r"]) && !rate.speaks_of(&["x"]) && !rate.speaks_of(&[]));
    assert!(policy.oversight.checks[0].speaks_of(&["x"]));
    assert!(stands_in(&policy, &rate.at));
    let elsewhere = Place { file: Path::new("/other.toml").into(), line: 1 };
    assert!(!stands_in(&policy, &elsewhere));
}

#[test]
fn every_file_it_leads_to() {
    let d = Dir::new();
    let text = format!(
        "[kill_switch]\nfile = \"stop\"\n[state]\ndir = \"s\"\n[approval]\nask = [\"./a\", \"./a.conf\", \"--x\", \"--db={0}/a=b\", \"-f{0}/g\", \"--no=x\"]\nnotify = \"./n\"\nescalate = \"./e\"\n\
         escalate_after = \"1m\"\n[[alert]]\non = \"denied\"\nabove = 1\nper = \"1s\"\nrun = \"./al\"\n{CHECK}[session]\nrequired = true",
        d.0.display()
    );
    let policies = stack(&d, &["", &text]);
    let found: Vec<(String, Role, u32)> = files(&policies)
        .iter()
        .map(|l| (l.path.strip_prefix(&d.0).unwrap().display().to_string(), l.role, l.at.line))
        .collect();
    let want = [
        ("stop", Role::Switch, 3),
        ("s", Role::State, 5),
        ("a", Role::Program, 7),
        ("a.conf", Role::Word, 7),
        ("a=b", Role::Word, 7),
        ("g", Role::Word, 7),
        ("n", Role::Program, 8),
        ("e", Role::Program, 9),
        ("al", Role::Program, 15),
        ("c", Role::Program, 19),
    ];
    assert_eq!(found, want.map(|(p, r, l)| (p.to_owned(), r, l)));
    assert_eq!(sessions(&policies).count(), 1);
}
