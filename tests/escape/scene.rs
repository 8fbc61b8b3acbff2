//! The two small programs of these tests, and the ground on which they are run.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::harness::{Answer, As, Bench, Call, skip};

/// Compiles a program of this directory, once for each state of its source. Whoever can link Rust has `cc`.
fn compiled(name: &str, source: &str) -> PathBuf {
    let mut hash = DefaultHasher::new();
    source.hash(&mut hash);
    let dir = std::env::temp_dir().join(format!("guardexec-test-attack-{}", nix::unistd::geteuid()));
    let program = dir.join(format!("{name}-{:016x}", hash.finish()));
    if program.exists() {
        return program;
    }
    fs::create_dir_all(&dir).expect("a directory for the programs");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("chmod");
    let fresh = dir.join(format!(".{name}-{}", std::process::id()));
    let source_file = dir.join(format!(".{name}-{}.c", std::process::id()));
    fs::write(&source_file, source).expect("write the source");
    let done = Command::new("cc").args(["-O1", "-o"]).args([&fresh, &source_file]).output();
    let done = done.expect("cc is needed to build the attacks (it also links these tests)");
    assert!(done.status.success(), "cc: {}", String::from_utf8_lossy(&done.stderr));
    let _ = fs::remove_file(source_file);
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).expect("chmod");
    fs::rename(&fresh, &program).expect("rename");
    program
}

/// The attacker.
pub fn attacker() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("attacker", include_str!("attacker.c")))
}

/// The program that takes something away from guardexec.
pub fn wrapper() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("wrapper", include_str!("wrapper.c")))
}

/// What guardexec can work with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// All that this machine has.
    Namespaces,
    /// `[sandbox] processes = "groups"`.
    Groups,
    /// No namespace can be made.
    NoNamespaces,
    /// Namespaces can be made and nothing can be mounted in them.
    NoMounts,
}

pub const GROUNDS: [Ground; 4] = [Ground::Namespaces, Ground::Groups, Ground::NoNamespaces, Ground::NoMounts];

impl Ground {
    /// A call under `toml` on this ground.
    pub fn call<'b>(self, bench: &'b Bench, toml: &str) -> Call<'b> {
        match self {
            Ground::Namespaces => bench.policy(toml),
            Ground::Groups => {
                assert!(toml.contains("[sandbox]\n"), "the ground is chosen there");
                bench.policy(&toml.replacen("[sandbox]\n", "[sandbox]\nprocesses = \"groups\"\n", 1))
            }
            Ground::NoNamespaces => bench.policy(toml).wrap(without("namespaces")),
            Ground::NoMounts => bench.policy(toml).wrap(without("mounts")),
        }
    }

    /// Whether a run gets mounts of its own here.
    pub fn mounts(self) -> bool {
        self == Ground::Namespaces
    }
}

/// Nothing ran, because something required cannot be had; the text names all of `parts`.
#[track_caller]
pub fn unavailable(answer: &Answer, parts: &[&str]) {
    assert_eq!(
        (answer.status(), answer.exit, answer.str("stage")),
        ("error", 125, "sandbox"),
        "{}",
        answer.show()
    );
    assert!(answer.json["exit_code"].is_null() && answer.json["stdout"].is_null(), "{}", answer.show());
    assert!(answer.json["error"]["hint"].is_string(), "{}", answer.show());
    for part in parts {
        assert!(answer.str("text").contains(part), "{part:?} is not in the text\n{}", answer.show());
    }
}

/// The words that take something away from guardexec.
pub fn without(what: &str) -> Vec<String> {
    vec![wrapper().to_str().expect("UTF-8").to_owned(), what.to_owned()]
}

/// What each attack came to.
pub type Outcomes = BTreeMap<String, String>;

/// The rule that lets the attacker run.
pub fn rule() -> String {
    format!(
        "\n[[rule]]\nid = \"attack\"\nprogram = {:?}\ndecision = \"allow\"\n",
        attacker().to_str().expect("UTF-8")
    )
}

/// Makes `attacks` under the policy `toml` (without a rule for the attacker) and returns what they came to.
#[track_caller]
pub fn attempt(bench: &Bench, ground: Ground, toml: &str, attacks: &[String]) -> (Outcomes, Answer) {
    attempt_by(ground.call(bench, &format!("{toml}{}", rule())), attacks)
}

#[track_caller]
pub fn attempt_by(call: Call<'_>, attacks: &[String]) -> (Outcomes, Answer) {
    let mut words = vec![attacker().to_str().expect("UTF-8").to_owned()];
    words.extend(attacks.iter().cloned());
    let answer = call.run(&words);
    assert_eq!(answer.status(), "ok", "{}", answer.show());
    let line = |line: &str| line.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned()));
    let outcomes: Outcomes = answer.str("stdout").lines().filter_map(line).collect();
    for attack in attacks {
        let outcome = outcomes.get(attack).map_or("no line", String::as_str);
        let known = ["open", "refused", "killed"].iter().any(|word| outcome.starts_with(word));
        assert!(known, "{attack}: {outcome}\n{}", answer.show());
    }
    (outcomes, answer)
}

/// The policy that takes the confinement off.
pub const OFF: &str = "[sandbox]\nprofile = \"host\"\n";
/// The default, said.
pub const STRICT: &str = "[sandbox]\nprofile = \"strict\"\n";
/// The other one.
pub const WORKSPACE: &str = "[sandbox]\nprofile = \"workspace\"\n";

pub fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

/// Each attack succeeds without confinement and is refused with `toml` on every ground. `set_up` is called before each
/// round. `host_refuses`: attacks that this host itself may refuse to a user (or to everyone).
#[track_caller]
pub fn caught(bench: &Bench, toml: &str, attacks: &[String], host_refuses: &[&str], set_up: impl Fn()) {
    set_up();
    let (bare, answer) = attempt(bench, Ground::Groups, OFF, attacks);
    for (attack, outcome) in &bare {
        let name = attack.split(':').next().expect("a name");
        if outcome == "open" {
            continue;
        }
        assert!(
            host_refuses.contains(&name),
            "{attack} fails without confinement: {outcome}\n{}",
            answer.show()
        );
        if bench.who == As::Root {
            skip(&format!("{attack}: this host refuses it anyway ({outcome})"));
        }
    }
    let mut open = Vec::new();
    for ground in GROUNDS {
        set_up();
        let (confined, answer) = attempt(bench, ground, toml, attacks);
        open.extend(confined.iter().filter(|(_, o)| *o == "open").map(|(a, _)| format!("{ground:?}: {a}")));
        assert_eq!(answer.json["survivors"], 0, "{}", answer.show());
    }
    assert!(open.is_empty(), "succeeded under\n{toml}\n{}", open.join("\n"));
}

/// The same with nothing to set up.
#[track_caller]
pub fn refused(bench: &Bench, toml: &str, attacks: &[&str], host_refuses: &[&str]) {
    caught(bench, toml, &words(attacks), host_refuses, || {});
}
