//! The manual pages and the README are held to what the binary and the schemas really say.
//!
//! Every flag, verb and key is in a page and every one in a page exists; the policies in the pages load; the
//! commands and programs of the README are executed and their output is compared.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

#[allow(dead_code)]
mod harness;

#[path = "documentation/help.rs"]
mod help;
#[path = "documentation/markdown.rs"]
mod markdown;
#[path = "documentation/mdoc.rs"]
mod mdoc;
#[path = "documentation/place.rs"]
mod place;
#[path = "documentation/schemas.rs"]
mod schemas;
#[path = "documentation/transcript.rs"]
mod transcript;

use markdown::Block;
use mdoc::Page;
use place::Place;

type Names = BTreeSet<String>;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> Vec<Block> {
    markdown::blocks(&fs::read_to_string(repository().join("README.md")).expect("README.md"))
}

/// Fails with both differences.
#[track_caller]
fn same(what: &str, documented: &Names, real: &Names) {
    let missing: Vec<_> = real.difference(documented).collect();
    let stale: Vec<_> = documented.difference(real).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "{what}\nnot documented: {missing:?}\nno longer there: {stale:?}"
    );
}

#[test]
fn every_flag_is_in_the_manual_and_every_flag_there_exists() {
    let real = help::flags();
    assert!(real.contains("--policy") && real.contains("-p"), "the help was not understood: {real:?}");
    same("guardexec.1 and --help differ in their flags", &Page::read("guardexec.1").flags(), &real);
    let other = Page::read("guardexec-policy.5").flags();
    let unknown: Vec<_> = other.difference(&real).collect();
    assert!(unknown.is_empty(), "guardexec-policy.5 speaks of flags that do not exist: {unknown:?}");
}

#[test]
fn every_verb_is_in_the_manual_and_every_verb_there_exists() {
    let real = help::verbs();
    assert!(real.contains("check") && real.contains("audit verify"), "the help was not understood: {real:?}");
    same("guardexec.1 and --help differ in their verbs", &Page::read("guardexec.1").verbs(), &real);
}

#[test]
fn every_policy_key_is_in_the_manual_and_every_key_there_exists() {
    let real = schemas::Schema::shipped("policy").all_names();
    assert!(real.len() > 40, "the schema was not understood: {real:?}");
    same(
        "guardexec-policy.5 and the schema differ in their keys",
        &Page::read("guardexec-policy.5").keys(None),
        &real,
    );
}

#[test]
fn every_policy_key_stands_in_its_own_section() {
    let (schema, page) = (schemas::Schema::shipped("policy"), Page::read("guardexec-policy.5"));
    for section in [
        "limits",
        "env",
        "command",
        "sandbox",
        "filesystem",
        "network",
        "audit",
        "kill_switch",
        "state",
        "approval",
        "session",
    ] {
        let documented = page.keys(Some(&format!("[{section}]")));
        same(&format!("section [{section}]"), &documented, &schema.names_at(&[section]));
    }
    for (path, heading) in [
        (&["rule"][..], "[[rule]]"),
        (&["tools", "*"][..], "[tools.NAME]"),
        (&["rate"][..], "[[rate]]"),
        (&["alert"][..], "[[alert]]"),
        (&["check"][..], "[[check]]"),
    ] {
        let (documented, real) = (page.keys(Some(heading)), schema.names_at(path));
        assert!(!real.is_empty(), "the schema of {heading} was not understood");
        let missing: Vec<_> = real.difference(&documented).collect();
        assert!(missing.is_empty(), "section {heading} lacks {missing:?}");
    }
}

#[test]
fn every_result_key_is_in_the_manual_and_every_key_there_exists() {
    let page = Page::read("guardexec.1");
    let real = schemas::Schema::shipped("result").names_at(&[]);
    assert!(real.len() > 40, "the schema was not understood: {real:?}");
    same("RESULT in guardexec.1 and the schema differ", &page.variables("RESULT"), &real);
}

#[test]
fn every_stage_and_status_is_in_the_manual() {
    let result = Page::read("guardexec.1").section("RESULT");
    let schema = schemas::Schema::shipped("result");
    for key in ["status", "stage"] {
        let words = schema.words_of(key);
        assert!(words.len() > 5, "the schema of {key:?} was not understood: {words:?}");
        let missing: Vec<_> = words.iter().filter(|w| !result.contains(&format!("Ql {w}"))).collect();
        assert!(missing.is_empty(), "values of {key:?} that RESULT does not name: {missing:?}");
    }
}

#[test]
fn mandoc_finds_nothing() {
    for name in ["guardexec.1", "guardexec-policy.5", "guardexec-check.7"] {
        let page = repository().join("man").join(name);
        match Command::new("mandoc").args(["-Tlint", "-Wwarning"]).arg(&page).output() {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => harness::skip("mandoc is not installed"),
            Err(e) => panic!("mandoc: {e}"),
            Ok(done) => assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout)),
        }
    }
}

#[test]
fn the_policies_in_the_manual_load() {
    let place = Place::new();
    place.file("base.toml", "version = 1\n");
    let mut policies = Page::read("guardexec-policy.5").policies();
    assert!(policies.len() > 8, "found only {} policies", policies.len());
    policies.extend(Page::read("guardexec-check.7").policies());
    for (number, text) in policies.iter().enumerate() {
        let state = place.dir.to_str().expect("UTF-8");
        let text = text.replace("/var/log/guardexec", state).replace("~/.local/state/guardexec", state);
        let file = format!("page-{number}.toml");
        place.file(&file, &text);
        let done = place.shell(&format!("guardexec check {file}"));
        assert!(matches!(done.exit, Some(0 | 1)), "exit {:?}\n{}\n{text}", done.exit, done.output);
    }
}

#[test]
fn the_chain_can_be_verified_by_hand_as_the_manual_says() {
    let place = Place::new();
    if !place.has("jq") {
        return harness::skip("jq is not installed");
    }
    place.file("audited.toml", "version = 1\nallow = [\"true\"]\n[audit]\nfile = \"audit.jsonl\"\n");
    for _ in 0..3 {
        assert_eq!(place.shell("guardexec -p audited.toml -- true").exit, Some(0));
    }
    let script = Page::read("guardexec.1").display("Verifying by hand");
    assert_eq!(place.shell(&script).output, "");
    let whole = fs::read_to_string(place.dir.join("audit.jsonl")).expect("an audit file");
    assert!(whole.lines().count() >= 6, "{whole}");
    place.file("audit.jsonl", &whole.replacen("\"allow\"", "\"deny\"", 1));
    assert_eq!(place.shell(&script).output, "line 1: edited\nline 2: does not follow the line before\n");
    let cut: String =
        whole.lines().enumerate().filter(|(n, _)| *n != 2).map(|(_, l)| format!("{l}\n")).collect();
    place.file("audit.jsonl", &cut);
    assert_eq!(place.shell(&script).output, "line 3: does not follow the line before\n");
}

#[test]
fn the_shipped_policies_are_clean() {
    let place = Place::new();
    for name in place.policies() {
        let done = place.shell(&format!("guardexec check policies/{name}"));
        assert_eq!(done.exit, Some(0), "policies/{name}\n{}", done.output);
    }
}

#[test]
fn the_shipped_policies_with_checks_are_clean() {
    let place = Place::new();
    let shipped = repository().join("policies/checks");
    let entries = fs::read_dir(&shipped).expect("policies/checks");
    let names: Vec<String> =
        entries.map(|e| e.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    for name in &names {
        place.file(&format!("checks/{name}"), &fs::read_to_string(shipped.join(name)).expect("a file"));
        if name.ends_with(".py") {
            assert_eq!(place.shell(&format!("chmod 755 checks/{name}")).exit, Some(0));
        }
    }
    let policies: Vec<_> = names.iter().filter(|name| name.ends_with(".toml")).collect();
    assert_eq!(policies.len(), 2, "{names:?}");
    for name in policies {
        let done = place.shell(&format!("guardexec check checks/{name}"));
        assert_eq!(done.exit, Some(0), "policies/checks/{name}\n{}", done.output);
    }
}

#[test]
fn the_readme_shows_what_really_comes() {
    let (place, blocks) = (Place::with_files_of(&readme()), readme());
    let mut commands = 0;
    let mut wrong = Vec::new();
    for block in blocks.iter().filter(|b| b.marker == "run" && b.language == "console") {
        for step in transcript::steps(&block.text) {
            commands += 1;
            let done = place.shell(&step.command);
            if !transcript::matches(&step.output, &done.output, &place.dir) {
                wrong.push(format!(
                    "README.md:{}: $ {}\n-- shown\n{}-- came\n{}",
                    block.line, step.command, step.output, done.output
                ));
            }
        }
    }
    assert!(commands >= 7, "found only {commands} commands in README.md");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_readme_programs_run() {
    let (place, blocks) = (Place::with_files_of(&readme()), readme());
    for (language, interpreter, file) in [("python", "python3", "example.py"), ("js", "node", "example.js")] {
        let found: Vec<_> = blocks.iter().filter(|b| b.marker == "run" && b.language == language).collect();
        assert!(!found.is_empty(), "no {language} program in README.md");
        if !place.has(interpreter) {
            harness::skip(&format!("{interpreter} is not installed"));
            continue;
        }
        for block in found {
            let expected =
                block.output.as_deref().unwrap_or_else(|| panic!("README.md:{}: no output", block.line));
            place.file(file, &block.text);
            let done = place.shell(&format!("{interpreter} {file} 2>stderr"));
            let stderr = fs::read_to_string(place.dir.join("stderr")).unwrap_or_default();
            assert_eq!(done.exit, Some(0), "README.md:{}: {}{stderr}", block.line, done.output);
            assert_eq!(done.output, expected, "README.md:{}\n{stderr}", block.line);
        }
    }
}

#[test]
fn every_flag_that_an_example_uses_exists() {
    let real = help::flags();
    let mut lines: Vec<String> =
        readme().iter().flat_map(|b| b.text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let readme_lines = lines.len();
    lines.extend(Page::read("guardexec.1").examples());
    assert!(lines.len() > readme_lines + 4, "no examples in guardexec.1");
    let mut used = Names::new();
    for line in &lines {
        let Some(at) = line.find("guardexec ") else { continue };
        let ours = line[at..].split(" -- ").next().unwrap_or_default();
        // What stands in quotes is the command's.
        let ours: String = ours.split('\'').step_by(2).collect();
        used.extend(help::flags_in(&ours));
    }
    assert!(
        used.contains("--result-file") && used.contains("-p"),
        "the examples were not understood: {used:?}"
    );
    let unknown: Vec<_> = used.difference(&real).collect();
    assert!(unknown.is_empty(), "examples use flags that do not exist: {unknown:?}");
}
