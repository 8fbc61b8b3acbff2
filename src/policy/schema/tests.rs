//! Every complaint about a file's text, word for word, and what good text comes to.

mod oversight;
mod rules;
mod tools;
mod whole;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Doc, File, line_ends, read};
use crate::policy::error::PolicyError;

/// A policy that uses every key there is.
pub(in crate::policy) const FULL: &str = include_str!("full.toml");

fn parse(text: &str) -> Result<File, PolicyError> {
    let doc = Doc::new(
        Arc::from(Path::new("p.toml")),
        PathBuf::from("/pol/dir"),
        PathBuf::from("/home/u"),
        Arc::from(text),
    );
    read(&doc)
}

/// The one-line complaint about `text` behind `version = 1`.
fn complaint(text: &str) -> String {
    let text = format!("version = 1\n{text}");
    parse(&text).expect_err(&text).one_line()
}

#[track_caller]
fn refuse(cases: &[(&str, &str)]) {
    for (text, want) in cases {
        assert_eq!(complaint(text), format!("p.toml:{want}"), "{text}");
    }
}

/// A rule around one more line, which is line 6.
fn in_rule(decision: &str, line: &str) -> String {
    format!("[[rule]]\nid = \"r\"\nprogram = \"p\"\ndecision = \"{decision}\"\n{line}")
}

#[track_caller]
fn refuse_in_rule(decision: &str, cases: &[(&str, &str)]) {
    for (line, want) in cases {
        assert_eq!(complaint(&in_rule(decision, line)), format!("p.toml:{want}"), "{line}");
    }
}

#[test]
fn errors_read_like_a_compilers() {
    let text = format!("version = 1\n\n\n\n\n\n\n{}", in_rule("allow", "flag = [\"-s\"]"));
    let want = "error: unknown key `flag` in [[rule]]
  --> p.toml:12:1
   |
12 | flag = [\"-s\"]
   | ^^^^ did you mean `flags`?";
    assert_eq!(parse(&text).unwrap_err().to_string(), want);
}

#[test]
fn broken_toml() {
    refuse(&[
        ("allow = [", "2:10: not valid TOML: unclosed array, expected `]`"),
        ("x", "2:2: not valid TOML: key with no value, expected `=`"),
        ("allow = []\nallow = []", "3:1: the key `allow` stands here a second time"),
        ("[env]\n[env]", "3:2: the key `env` stands here a second time"),
        ("[env]\nset = { A = \"1\", A = \"2\" }", "3:18: the key `A` stands here a second time"),
    ]);
    let deep = format!("allow = {}", "[".repeat(200));
    assert!(complaint(&deep).contains("lists and tables are nested too deeply"), "{}", complaint(&deep));
}

#[test]
fn version_and_top_keys() {
    let line = |text: &str| parse(text).unwrap_err().one_line();
    assert_eq!(
        line("allow = []"),
        "p.toml:1:1: the policy does not say its version; write `version = 1` as its first line"
    );
    assert_eq!(
        line(""),
        "p.toml:1:1: the policy does not say its version; write `version = 1` as its first line"
    );
    assert_eq!(line("version = 2"), "p.toml:1:11: version 2 is unknown; write `version = 1`");
    assert_eq!(
        line("version = \"1\""),
        "p.toml:1:11: `version` in the policy must be a whole number, not a string"
    );
    assert_eq!(
        line("version = 0x1"),
        "p.toml:1:11: `version` in the policy must be written in plain decimal digits"
    );
    assert_eq!(line("version = -1"), "p.toml:1:11: `version` in the policy must be at least 0");
    refuse(&[
        ("alow = []", "2:1: unknown key `alow` in the policy; did you mean `allow`?"),
        (
            "zzzzzz = 1",
            "2:1: unknown key `zzzzzz` in the policy; there are: version, extends, allow, deny, limits, env, command, \
             sandbox, filesystem, network, audit, rule, tools, kill_switch, state, approval, rate, alert, \
             session, check",
        ),
        (
            "\"a\\u001b\" = 1",
            "2:1: unknown key `a\\u{1b}` in the policy; there are: version, extends, allow, deny, \
             limits, env, command, sandbox, filesystem, network, audit, rule, tools, kill_switch, state, approval, \
             rate, alert, session, check",
        ),
        ("limits = 1", "2:10: `limits` must be a table, not a whole number"),
        ("extends = \"a\"", "2:11: `extends` in the policy must be a list of files, not a string"),
        ("extends = [1]", "2:12: an entry of `extends` in the policy must be a string, not a whole number"),
    ]);
}

#[test]
fn short_lists() {
    refuse(&[
        ("allow = \"ls\"", "2:9: `allow` in the policy must be a list of programs, not a string"),
        ("allow = [true]", "2:10: an entry of `allow` in the policy must be a string, not true or false"),
        ("allow = [\"a\", \"a\"]", "2:15: `a` stands twice in `allow`"),
        ("allow = [\"a\"]\ndeny = [\"a\"]", "3:9: `a` stands in both `allow` and `deny`"),
        ("allow = [\"*\"]", "2:10: `*` does not stand for every program; name each program"),
        (
            "deny = [\"*\"]",
            "2:9: `*` in a deny rule makes every allow rule unreachable; leave it out: what no rule allows is denied already",
        ),
        ("allow = [\"\"]", "2:10: a program's name cannot be empty"),
        (
            "allow = [\"./ls\"]",
            "2:10: `./ls` is neither a bare name nor an absolute path; write its absolute path: a relative one would name another file in every directory",
        ),
        ("allow = [\"-ls\"]", "2:10: `-ls` is not a program's name"),
        ("allow = [\"..\"]", "2:10: `..` is not a program's name"),
        ("allow = [\"l\\u001bs\"]", "2:10: `l\\u{1b}s` holds a control or invisible character"),
        ("allow = [\"l\\u0000s\"]", "2:10: an entry of `allow` in the policy holds a NUL character"),
        (
            "allow = [\"/bin/../ls\"]",
            "2:10: `/bin/../ls` is not the plain path of a file; write it without `.`, `..`, `//` or a `/` at the end",
        ),
        (
            "allow = [\"/bin/\"]",
            "2:10: `/bin/` is not the plain path of a file; write it without `.`, `..`, `//` or a `/` at the end",
        ),
    ]);
}

#[test]
fn limits() {
    for (line, want) in [
        ("wall_time = 5", "`wall_time` in [limits] must be a duration such as \"5s\", not a whole number"),
        ("wall_time = \"5\"", "`wall_time` in [limits]: \"5\" needs a unit: ms, s, m, h, d"),
        (
            "wall_time = \"5w\"",
            "`wall_time` in [limits]: \"5w\" has the unknown unit `w`; there are ms, s, m, h, d",
        ),
        ("wall_time = \"0s\"", "0 is not a limit; write \"none\" to lift it"),
        ("wall_time = 0", "0 is not a limit; write \"none\" to lift it"),
        ("cpu_time = \"99999999d\"", "`cpu_time` in [limits]: \"99999999d\" is too large"),
        ("memory = \"1K\"", "`memory` in [limits] must be at least \"1M\""),
        ("memory = \"0M\"", "0 is not a limit; write \"none\" to lift it"),
        ("memory = 512", "`memory` in [limits] must be a size such as \"64K\", not a whole number"),
        (
            "memory = \"1g\"",
            "`memory` in [limits]: \"1g\" has the unknown unit `g`; there are B, K, KiB, M, MiB, G, GiB, KB, MB, GB",
        ),
        (
            "memory = \"1.5G\"",
            "`memory` in [limits]: \"1.5G\" must be a whole number and a unit, nothing else",
        ),
        ("pids = 0", "0 is not a limit; write \"none\" to lift it"),
        ("pids = -1", "`pids` in [limits] must be from 1 to 4194304"),
        ("pids = 5000000", "`pids` in [limits] must be from 1 to 4194304"),
        ("pids = \"64\"", "`pids` in [limits] must be a whole number, not a string"),
        ("pids = 6_4", "`pids` in [limits] must be written in plain decimal digits"),
        ("pids = 1.5", "`pids` in [limits] must be a whole number, not a decimal number"),
        ("output = \"0B\"", "0 is not a limit; write \"none\" to lift it"),
        ("output = \"65M\"", "output keeps at most 64M of each stream"),
        ("output = \"67108865B\"", "output keeps at most 64M of each stream"),
        ("file_size = 1979-05-27", "`file_size` in [limits] must be a size such as \"64K\", not a date"),
        ("open_files = 3", "`open_files` in [limits] must be from 8 to 9223372036854775807"),
        (
            "kill_grace = \"none\"",
            "`kill_grace` in [limits]: \"none\" must be a whole number and a unit, nothing else",
        ),
        ("kill_grace = \"0s\"", "`kill_grace` in [limits] cannot be 0"),
        ("kill_grace = \"2m\"", "`kill_grace` in [limits] must be at most \"1m\""),
        ("cpus = 9999", "`cpus` in [limits] must be from 1 to 8192"),
    ] {
        let column = line.find('=').unwrap() + 3;
        assert_eq!(complaint(&format!("[limits]\n{line}")), format!("p.toml:3:{column}: {want}"));
    }
    refuse(&[(
        "[limits]\nwalltime = \"5s\"",
        "3:1: unknown key `walltime` in [limits]; did you mean `wall_time`?",
    )]);
}

#[test]
fn environment() {
    refuse(&[
        ("[env]\npass = [\"A?\"]", "3:9: `?` in `A?`: only `*` is a wildcard in a variable's name"),
        ("[env]\npass = [\"\"]", "3:9: a variable's name cannot be empty"),
        ("[env]\npass = [\"A=B\"]", "3:9: `A=B` is not a variable's name"),
        ("[env]\npass = [\"A\", \"A\"]", "3:14: `A` stands twice in `pass` in [env]"),
        ("[env]\nrequest = [\"A B\"]", "3:12: `A B` is not a variable's name"),
        (
            "[env]\nrequest = [\"PATH\"]",
            "3:12: the caller's PATH is never used; set the search path with `set = { PATH = \"...\" }` in [env]",
        ),
        ("[env]\nset = { \"A=\" = \"x\" }", "3:9: `A=` is not a variable's name"),
        ("[env]\nset = { \"\" = \"x\" }", "3:9: a variable's name cannot be empty"),
        ("[env]\nset = { A = 1 }", "3:13: `A` in `set` of [env] must be a string, not a whole number"),
        ("[env]\nset = { A = \"\\u0000\" }", "3:13: `A` in `set` of [env] holds a NUL character"),
    ]);
    for path in
        ["bin", "", "/bin:", ":/bin", "/bin::/usr/bin", "/bin:.", "/usr/../bin", "/./bin", "~root/bin"]
    {
        let got = complaint(&format!("[env]\nset = {{ PATH = \"{path}\" }}"));
        let bad = path.split(':').find(|e| !e.starts_with('/') || e.contains('.')).unwrap();
        let want = format!(
            "p.toml:3:16: the entry `{bad}` of PATH is not an absolute directory; an empty, relative or dotted entry \
             would search where the caller stands"
        );
        assert_eq!(got, want, "{path}");
    }
}

#[test]
fn sections_with_words() {
    refuse(&[
        (
            "[command]\nsyntax = \"shell\"",
            "3:10: `syntax` in [command] cannot be \"shell\"; there are: refuse, literal",
        ),
        (
            "[sandbox]\nprofile = \"strct\"",
            "3:11: `profile` in [sandbox] cannot be \"strct\"; did you mean `strict`?",
        ),
        (
            "[sandbox]\nrequire = [\"netwrk\"]",
            "3:12: an entry of `require` in [sandbox] cannot be \"netwrk\"; did you mean `network`?",
        ),
        ("[sandbox]\nrequire = [\"tmp\", \"tmp\"]", "3:19: `tmp` stands twice in `require` in [sandbox]"),
        (
            "[sandbox]\nbackend = \"docker\"",
            "3:11: `backend` in [sandbox] cannot be \"docker\"; there are: native",
        ),
        ("[sandbox]\nprocesses = 1", "3:13: `processes` in [sandbox] must be a string, not a whole number"),
        ("[sandbox]\nuser = \"0\"", "3:8: `0` is not a user's name"),
        ("[sandbox]\nuser = \"\"", "3:8: `` is not a user's name"),
        (
            // Two letters that both have to change are no typing error, and the opposite of what was meant.
            "[network]\nmode = \"on\"",
            "3:8: `mode` in [network] cannot be \"on\"; there are: none, host",
        ),
        (
            "[network]\nmode = \"proxy\"",
            "3:8: `mode` in [network] cannot be \"proxy\"; there are: none, host",
        ),
        (
            "[network]\nloopback = 1",
            "3:12: `loopback` in [network] must be true or false, not a whole number",
        ),
        ("[audit]\nrotate = \"1B\"", "3:10: `rotate` in [audit] must be at least \"1K\""),
        ("[audit]\nrotate = \"0B\"", "3:10: `rotate` in [audit] cannot be 0"),
        ("[filesystem]\ntmp = \"1B\"", "3:7: `tmp` in [filesystem] must be at least \"4K\""),
    ]);
}

#[test]
fn paths() {
    refuse(&[
        ("[filesystem]\nread = \"/a\"", "3:8: `read` in [filesystem] must be a list of paths, not a string"),
        ("[filesystem]\nread = [\"\"]", "3:9: a path cannot be empty"),
        ("[filesystem]\nread = [\"a\\nb\"]", "3:9: `a\\u{a}b` holds a control character"),
        (
            "[filesystem]\nread = [\"~root/x\"]",
            "3:9: `~root/x` names another user's home; write the directory itself; only `~` and `~/...` are known",
        ),
        (
            "[filesystem]\nread = [\"/a/../b\"]",
            "3:9: `..` after a name in the path `/a/../b`; write the path without it: a link could change what it means",
        ),
        (
            "[filesystem]\nmap = { \"a\" = \"b\" }",
            "3:9: `a` in `map` is not an absolute path; the key is where the run sees the directory",
        ),
        ("[filesystem]\nmap = { \"/\" = \"b\" }", "3:9: `map` cannot replace the root directory"),
        ("[filesystem]\nmap = { \"/a\" = \"b\", \"/a/\" = \"c\" }", "3:21: `/a/` stands twice in `map`"),
    ]);
    let read = |p: &str| {
        let file = parse(&format!("version = 1\n[filesystem]\nread = [\"{p}\"]")).unwrap();
        file.filesystem.read.unwrap()[0].display().to_string()
    };
    for (text, want) in [
        ("x", "/pol/dir/x"),
        (".", "/pol/dir"),
        ("./a/./b/", "/pol/dir/a/b"),
        ("../x", "/pol/x"),
        ("../../../x", "/x"),
        ("~", "/home/u"),
        ("~/.ssh", "/home/u/.ssh"),
        ("/usr//share/", "/usr/share"),
    ] {
        assert_eq!(read(text), want, "{text}");
    }
    let set = |name: &str, value: &str| {
        let file = parse(&format!("version = 1\n[env]\nset = {{ {name} = \"{value}\" }}")).unwrap();
        file.env.set[name].clone()
    };
    assert_eq!(set("PATH", "~/.cargo/bin:/usr/bin"), "/home/u/.cargo/bin:/usr/bin");
    assert_eq!(set("CARGO_HOME", "~/.cargo"), "/home/u/.cargo");
    assert_eq!(set("A", "~x"), "~x");
    let homeless = Doc::new(
        Arc::from(Path::new("p.toml")),
        PathBuf::from("/d"),
        PathBuf::new(),
        Arc::from("version = 1\nextends = [\"~/x\"]"),
    );
    assert_eq!(
        read_error(&homeless),
        "p.toml:2:12: `~` stands here, but this user has no home in the user database"
    );
}

fn read_error(doc: &Doc) -> String {
    read(doc).unwrap_err().one_line()
}

#[test]
fn line_ends_are_counted_wherever_they_stand() {
    // What differs from a line end in one bit, or carries into the next byte, is none.
    let bytes: Vec<u8> = b"\n\x0b\x8a\n\0\xff\n\n\x0a\x08\x09\n\x7f\x80\n\n\n\n\n\n\n\n\n\n\n.".repeat(2);
    for start in 0..bytes.len() {
        for end in start..=bytes.len() {
            let part = &bytes[start..end];
            let count = part.iter().filter(|b| **b == b'\n').count();
            assert_eq!(line_ends(part) as usize, count, "{part:?}");
        }
    }
}
