//! Every finding, and policies that have none.

use super::lint;
use crate::policy::load::load;
use crate::policy::load::tests::{Dir, context};

/// `LINE CODE: MESSAGE` of every finding.
fn findings(text: &str) -> Vec<String> {
    let d = Dir::new();
    let policy = load(&d.put("p.toml", text), &context()).unwrap();
    let plain = |s: &str| s.replace(&d.0.display().to_string(), "D");
    lint(&policy).iter().map(|f| format!("{} {}: {}", f.at.line, f.code, plain(&f.message))).collect()
}

fn rule(id: &str, program: &str, rest: &str) -> String {
    format!("[[rule]]\nid = \"{id}\"\nprogram = \"{program}\"\n{rest}\n")
}

#[test]
fn runners_with_any_arguments() {
    assert_eq!(
        findings("allow = [\n\"ls\",\n\"/usr/bin/python3.11\"]"),
        [
            "4 runs_arguments: rule `allow:/usr/bin/python3.11` allows `/usr/bin/python3.11` with any arguments, and \
          `/usr/bin/python3.11` runs its arguments"
        ]
    );
    assert_eq!(findings(&rule("a", "git", "decision = \"allow\"\nmax_args = 2")).len(), 1);
    for fine in [
        "decision = \"allow\"\nruns_arguments = true",
        "decision = \"allow\"\nflags = []",
        "decision = \"ask\"",
        "decision = \"deny\"",
    ] {
        assert_eq!(findings(&rule("a", "git", fine)), [""; 0], "{fine}");
    }
}

#[test]
fn commands_and_patterns_are_no_names() {
    let named = |program: &str, holds: &str| {
        format!(
            "3 no_name: rule `deny:{program}` names the program `{program}`, which holds {holds}: a name is compared as a whole"
        )
    };
    let pattern = "a character of patterns or shells";
    assert_eq!(
        findings("deny = [\n\"rm -rf\", \"mkfs.*\", \"/opt/x/*\", \"a;b\"]")
            .iter()
            .map(|f| &f[..])
            .collect::<Vec<_>>(),
        [
            named("rm -rf", "a blank"),
            named("mkfs.*", pattern),
            named("/opt/x/*", pattern),
            named("a;b", pattern)
        ]
    );
    assert_eq!(findings(&rule("a", "git status", "decision = \"allow\"")).len(), 1);
    assert_eq!(findings("allow = [\"[\", \"x86_64-linux-gnu-objdump\", \"a.b_c@d,e~f\"]"), [""; 0]);
}

#[test]
fn variables() {
    assert_eq!(
        findings(
            "[env]\npass = [\"LANG\",\n\"LD_PRELOAD\", \"LC_*\", \"GIT_*\"]\nrequest = [\"PYTHONPATH\"]\n[env.set]\nEDITOR = \"/x\"\nPAGER = \"cat\"\nPYTHONUNBUFFERED = \"1\""
        ),
        [
            "4 hook_variable: `LD_PRELOAD` comes from the caller, and makes some programs load or run what it names",
            "5 hook_variable: `PYTHONPATH` can be set by the caller, and makes some programs load or run what it names",
            "7 hook_variable: `set` gives `EDITOR` a value that some programs load or run",
        ]
    );
    assert_eq!(
        findings("[env]\npass = [\"*\"]"),
        ["3 every_variable: `pass` in [env] holds `*`: secrets of the caller reach the run"]
    );
    let own = rule("a", "ls", "decision = \"allow\"\nenv = { pass = [\"BASH_ENV\"] }");
    assert_eq!(
        findings(&own),
        [
            "2 hook_variable: `BASH_ENV` comes from the caller, and makes some programs load or run what it names"
        ]
    );
}

#[test]
fn gits_ownership_test_may_be_lifted_where_a_run_starts_nothing() {
    let set = |key: &str| {
        format!(
            "[env.set]\nGIT_CONFIG_COUNT = \"1\"\nGIT_CONFIG_KEY_0 = \"{key}\"\nGIT_CONFIG_VALUE_0 = \"*\"\n"
        )
    };
    assert_eq!(findings(&set("safe.directory")), [""; 0]);
    assert_eq!(findings(&set("core.fsmonitor")).len(), 2);
    let host = format!("[sandbox]\nprofile = \"host\"\n{}", set("safe.directory"));
    assert_eq!(findings(&host).len(), 2);
    let listed = rule(
        "a",
        "git",
        "decision = \"allow\"\nruns_arguments = true\nsubcommand = [\"log\"]\nexec = [\"sh\"]",
    );
    assert_eq!(findings(&format!("{}{listed}", set("safe.directory"))).len(), 2);
}

#[test]
fn rules_that_decide_nothing() {
    let text = format!("deny = [\"ls\"]\n{}", rule("a", "ls", "decision = \"allow\""));
    assert_eq!(
        findings(&text),
        ["3 never_matches: rule `a` never decides: rule `deny:ls` (D/p.toml:2) denies the same program"]
    );
    let partly = "deny = [\"ls\"]\n[[rule]]\nid = \"a\"\nprogram = [\"ls\", \"cat\"]\ndecision = \"allow\"";
    assert_eq!(findings(partly), [""; 0]);
    let some =
        rule("d", "ls", "decision = \"deny\"\nagents = [\"x\"]") + &rule("a", "ls", "decision = \"allow\"");
    assert_eq!(findings(&some), [""; 0]);
    let both = rule("open", "/bin/ls", "decision = \"allow\"")
        + &rule("closed", "ls", "decision = \"allow\"\nflags = []");
    assert_eq!(
        findings(&both),
        [
            "6 limits_without_effect: rule `closed` limits the arguments of `ls`, but rule `open` (D/p.toml:2) allows any"
        ]
    );
}

#[test]
fn tools() {
    let tool = |argv: &str| {
        format!(
            "[tools.t]\ndescription = \"d\"\ndecision = \"ask\"\nargv = {argv}\nparams.p = {{ type = \"string\" }}"
        )
    };
    assert_eq!(
        findings(&tool("[\"/bin/sh\", \"-c\", \"echo {p}\"]")),
        ["2 text_becomes_code: the tool `t` puts a parameter into code that `sh` runs"]
    );
    assert_eq!(findings(&tool("[\"sh\", \"-c\", \"echo $1\", \"sh\", \"{p}\"]")), [""; 0]);
    assert_eq!(
        findings(&tool("[\"ls\", \"{}\"]")),
        ["2 unused_parameter: the parameter `p` of the tool `t` is used nowhere"]
    );
}
