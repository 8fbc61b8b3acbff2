//! Tests of closed rules: the shared cases of arguments by their numbers, and what their kind implies.

use super::*;
use crate::decision::tests::made::*;

/// `ok`, or the refusal's code.
fn judge(rules: &ArgRules, program: &str, args: &[&str]) -> &'static str {
    let args: Vec<&[u8]> = args.iter().map(|a| a.as_bytes()).collect();
    let context = Context { rule: "r", names: &[program.as_bytes()], paths: Paths::Names };
    accept(rules, &args, context).map_or_else(|refusal| refusal.code, |()| "ok")
}

/// `judge` of a command line split at blanks, the program's name first.
fn line(rules: &ArgRules, text: &str) -> &'static str {
    let mut words = text.split(' ');
    let program = words.next().expect("a program");
    judge(rules, program, &words.collect::<Vec<_>>())
}

fn all(rules: &ArgRules, expected: &str, lines: &[&str]) {
    for text in lines {
        assert_eq!(line(rules, text), expected, "{text}");
    }
}

fn anywhere(names: &str) -> ArgRules {
    ArgRules { flags: flags(names), operands: Some(vec![repeated(any())]), ..ArgRules::default() }
}

#[test]
fn t1_1_and_2_find_takes_listed_primaries_only() {
    let rules = ArgRules {
        flags: flags("-name: -type: -maxdepth:"),
        operands: Some(vec![repeated(pattern(r"[\w./-]+"))]),
        ..ArgRules::default()
    };
    all(&rules, "ok", &["find . -name *.rs -type f", "find . -maxdepth 0", "find . -maxdepth=0"]);
    all(
        &rules,
        "flag_not_allowed",
        &[
            "find . -maxdepth 0 -exec ./p.sh ;",
            "find . -execdir ./p.sh ;",
            "find . -okdir ./p.sh ;",
            "find . -fprintf /tmp/x %p",
            "find /tmp/w -delete",
            "find . -nam x",
            "find . --name x",
            "find . -name=x -delete",
        ],
    );
}

#[test]
fn t1_3_sort_has_no_other_spelling() {
    let rules = anywhere("-n -r -u -k:");
    all(&rules, "ok", &["sort -rn -k2 in", "sort -rnk2 in", "sort -rk 2 in", "sort in -n", "sort -n -- -x"]);
    all(
        &rules,
        "flag_not_allowed",
        &[
            "sort -S 1k --comp=./p.sh big.txt",
            "sort -uo out in",
            "sort --o out in",
            "sort -oout in",
            "sort --rev in",
        ],
    );
    all(&rules, "value_not_allowed", &["sort -k=2 in", "sort -rk=2 in", "sort -k -r in", "sort -k -- in"]);
    all(&rules, "value_missing", &["sort in -k", "sort in -rk"]);
}

#[test]
fn t1_5_and_6_scripts_are_operands_with_limits() {
    let sed = ArgRules {
        flags: flags("-n"),
        operands: Some(vec![operand(pattern("[0-9]+,[0-9]+p")), operand(any())]),
        ..ArgRules::default()
    };
    assert_eq!(judge(&sed, "sed", &["-n", "10,20p", "f"]), "ok");
    for script in ["1e ./p.sh", "s/1/.\\/p.sh/e", "w /tmp/x"] {
        assert_eq!(judge(&sed, "sed", &["-n", script, "f"]), "value_not_allowed");
    }
    assert_eq!(judge(&sed, "sed", &["-f", "s.sed", "f"]), "flag_not_allowed");
    let awk = ArgRules {
        flags: flags(""),
        operands: Some(vec![operand(choices(&["{print $1}"])), repeated(any())]),
        ..ArgRules::default()
    };
    assert_eq!(judge(&awk, "awk", &["{print $1}", "f"]), "ok");
    assert_eq!(judge(&awk, "awk", &["BEGIN{system (\"./p.sh\")}", "f"]), "value_not_allowed");
    assert_eq!(judge(&awk, "awk", &["-f", "e.awk", "f"]), "flag_not_allowed");
}

#[test]
fn t1_8_an_old_style_first_word_is_a_bundle_of_flags() {
    all(&anywhere("-c -f -v"), "ok", &["tar cf x.tar f", "tar cvf x.tar f", "tar -cf x.tar f"]);
    all(
        &anywhere("-c -f -v"),
        "flag_not_allowed",
        &[
            "tar cf /dev/null --checkpoint=1 --checkpoint-action=exec=./p.sh f",
            "tar cf x.tar -I ./p.sh f",
            "tar cf x.tar --use-compress-pro=./p.sh f",
            "tar xfC a.tar /tmp/evil",
            "bsdtar xf a.tar",
            "ps auxe",
        ],
    );
    let valued = ArgRules {
        flags: Some(vec![flag("-x"), taking("-f", pattern("[a-z.]+")), taking("-C", choices(&["out"]))]),
        ..ArgRules::default()
    };
    all(&valued, "ok", &["tar xfC a.tar out", "tar xCf out a.tar", "tar x"]);
    all(&valued, "value_not_allowed", &["tar xfC out /tmp", "tar xCf a.tar out"]);
    all(&valued, "value_missing", &["tar xfC a.tar", "tar f"]);
    all(&valued, "too_many_operands", &["tar xf a.tar x", "tar -x f"]);
}

#[test]
fn t1_9_and_12_flags_have_their_place_before_or_after_the_subcommand() {
    let rules = ArgRules {
        subcommand: subcommands("status log diff"),
        flags: Some(vec![flag("-s"), flag("-p"), flag("-1"), taking("-n", range(1, 99))]),
        global_flags: flags("--no-pager -C:"),
        ..ArgRules::default()
    };
    all(
        &rules,
        "ok",
        &[
            "git status -s",
            "git log -p -1",
            "git --no-pager log -n 3",
            "git -C d log",
            "git -Cd log",
            "git log -n3",
        ],
    );
    all(
        &rules,
        "flag_not_allowed",
        &[
            "git -c alias.z=!./p.sh z",
            "git -c core.fsmonitor=./p.sh status",
            "git --exec-path=. x",
            "git -p log",
            "git log -1 --output=/tmp/x",
            "git log --no-pager",
            "git --no-p log",
        ],
    );
    all(&rules, "subcommand_not_allowed", &["git push", "git stat", "git -C d push", "git Status"]);
    all(&rules, "subcommand_missing", &["git --no-pager", "git -- status", "git -C status"]);
    all(&rules, "too_many_operands", &["git status x", "git log -- x"]);
    all(&rules, "value_not_taken", &["git --no-pager=1 log"]);
    all(&rules, "value_not_allowed", &["git log -n 100", "git log -n 0x1", "git log -n -5"]);
    assert_eq!(judge(&rules, "git", &[]), "subcommand_missing");
}

#[test]
fn t1_10_a_dashed_word_is_an_operand_only_after_a_real_double_dash() {
    let rules = ArgRules {
        subcommand: subcommands("fetch"),
        operands: Some(vec![operand(pattern(r"[\w:/.@=-]+"))]),
        ..ArgRules::default()
    };
    all(&rules, "ok", &["git fetch /path/r", "git fetch -- --upload-pa=./p.sh", "git fetch -- --"]);
    all(
        &rules,
        "flag_not_allowed",
        &["git fetch --upload-pa=./p.sh /path/r", "git fetch -", "git fetch --upload-pack=x"],
    );
    all(&rules, "operand_missing", &["git fetch", "git fetch --"]);
    all(&rules, "too_many_operands", &["git fetch a -- -b"]);
    let dashed = ArgRules {
        flags: flags("-n"),
        operands: Some(vec![Operand { allow_dash: true, ..repeated(pattern("-[a-z]*")) }]),
        ..ArgRules::default()
    };
    all(&dashed, "ok", &["x -a -n -", "x -n -abc", "x -- -n"]);
    all(&dashed, "value_not_allowed", &["x -A", "x -a -1"]);
}

/// find reads its expression behind a `--` all the same: `find -- . -delete` deletes.
#[test]
fn a_double_dash_that_the_program_does_not_honour_opens_nothing() {
    let rules = ArgRules {
        flags: flags("-name -print"),
        operands: Some(vec![repeated(pattern(r"[\w./-]+"))]),
        ..ArgRules::default()
    };
    all(&rules, "ok", &["find -- .", "find -- . -print"]);
    all(&rules, "flag_not_allowed", &["find -- . -delete", "find . -- -delete"]);
}

#[test]
fn t1_15_and_16_curl_is_closed_in_flags_and_in_number() {
    let rules = ArgRules {
        flags: flags("-s -f"),
        operands: Some(vec![operand(pattern(r"https://allowed\.example/.*"))]),
        ..ArgRules::default()
    };
    all(&rules, "ok", &["curl -sf https://allowed.example/x"]);
    all(
        &rules,
        "flag_not_allowed",
        &["curl -K c.cfg", "curl -sKc.cfg", "curl -d @/etc/hostname https://allowed.example/"],
    );
    all(&rules, "operand_missing", &["curl -s"]);
    all(&rules, "too_many_operands", &["curl https://allowed.example/ https://allowed.example/"]);
    all(
        &rules,
        "flag_not_allowed",
        &["curl -s https://allowed.example/ --next -o /tmp/h file:///etc/hostname"],
    );
}

#[test]
fn t1_17_ssh_options_are_closed() {
    let rules = ArgRules {
        flags: Some(vec![taking("-p", range(1, 65535))]),
        operands: Some(vec![operand(choices(&["ok.example"]))]),
        ..ArgRules::default()
    };
    all(&rules, "ok", &["ssh -p 22 ok.example", "ssh -p22 ok.example"]);
    all(
        &rules,
        "flag_not_allowed",
        &["ssh -oProxyCommand=./p.sh ok.example", "ssh -W evil.example:22 ok.example"],
    );
    all(&rules, "value_not_allowed", &["ssh -p 022 ok.example", "ssh -p 1e1 ok.example", "ssh evil.example"]);
}

#[test]
fn t1_20_an_interpreter_takes_its_script_only() {
    let rules = ArgRules {
        flags: flags(""),
        operands: Some(vec![operand(choices(&["tests/run.py"]))]),
        ..ArgRules::default()
    };
    all(&rules, "ok", &["python3 tests/run.py"]);
    all(&rules, "flag_not_allowed", &["python3 -c x", "python3 -"]);
    all(&rules, "too_many_operands", &["python3 tests/run.py x"]);
}

#[test]
fn t1_47_operands_are_judged_word_by_word() {
    let rules =
        ArgRules { operands: Some(vec![operand(pattern(r"/var/log/[\w.]+"))]), ..ArgRules::default() };
    assert_eq!(judge(&rules, "cat", &["/var/log/a"]), "ok");
    assert_eq!(judge(&rules, "cat", &["/var/log/a", "/etc/shadow"]), "too_many_operands");
    assert_eq!(judge(&rules, "cat", &["/var/log/a /etc/hostname"]), "value_not_allowed");
    assert_eq!(judge(&rules, "cat", &["/var/log/../../etc/shadow"]), "value_not_allowed");
}

#[test]
fn a_cluster_that_the_program_reads_as_one_flag_is_refused() {
    // `-inkey` is a flag of openssl, `-TT` one of zip, and a rule that lists `-name` says so of any program.
    all(&anywhere("-i: -n"), "flag_not_allowed", &["openssl -inkey x", "openssl -ni"]);
    all(&anywhere("-T -r"), "flag_not_allowed", &["zip -TT cmd"]);
    all(&anywhere("-r -n -name:"), "flag_not_allowed", &["any -rn", "any -nname"]);
    all(&anywhere("-r -n -name:"), "ok", &["any -r -n -name x f", "any -name=x f"]);
    all(&anywhere("-r -n -rn"), "ok", &["any -rn f"]);
}

#[test]
fn values_of_flags() {
    let rules = ArgRules {
        flags: Some(vec![
            taking("--depth", range(-5, 5)),
            taking("--name", pattern("[a-z-]+")),
            Flag { allow_dash: true, ..taking("--raw", any()) },
            flag("--all"),
        ]),
        ..ArgRules::default()
    };
    all(
        &rules,
        "ok",
        &[
            "x --depth -2",
            "x --depth=-2",
            "x --name=-a",
            "x --raw --all",
            "x --raw --",
            "x --raw=",
            "x --all",
        ],
    );
    all(
        &rules,
        "value_not_allowed",
        &["x --depth -x", "x --depth -9", "x --name -a", "x --name --all", "x --depth -0"],
    );
    all(&rules, "value_not_taken", &["x --all=1", "x --all="]);
    all(&rules, "flag_not_allowed", &["x --nam=a", "x --nameb", "x -name=a", "x --depth5"]);
}

#[test]
fn counts_of_arguments_and_rules_that_close_nothing() {
    let open = ArgRules { max_args: Some(2), ..ArgRules::default() };
    all(&open, "ok", &["x --anything -z", "x"]);
    all(&open, "too_many_arguments", &["x a b c"]);
    let optional = ArgRules {
        operands: Some(vec![operand(any()), Operand { optional: true, ..repeated(range(1, 9)) }]),
        ..ArgRules::default()
    };
    all(&optional, "ok", &["x a", "x a 1 2 3"]);
    all(&optional, "value_not_allowed", &["x a 1 b"]);
}

#[test]
fn t1_78_words_that_are_not_text_are_judged_as_bytes() {
    let args: Vec<&[u8]> = vec![b"\xff\xfe"];
    let context = Context { rule: "r", names: &[b"ls"], paths: Paths::Names };
    let named = ArgRules { operands: Some(vec![operand(pattern("[a-z]+"))]), ..ArgRules::default() };
    assert_eq!(accept(&named, &args, context).expect_err("refused").code, "value_not_allowed");
    assert!(accept(&ArgRules::default(), &args, context).is_ok());
    let dashed: Vec<&[u8]> = vec![b"-n\xff"];
    assert_eq!(accept(&anywhere("-n"), &dashed, context).expect_err("refused").code, "flag_not_allowed");
}

#[test]
fn refusals_name_the_word_what_is_allowed_and_what_to_do() {
    let say = |args: &[&str]| {
        let rules = ArgRules {
            flags: Some(vec![flag("-a"), taking("-n", range(1, 9))]),
            operands: Some(vec![operand(choices(&["x"]))]),
            ..ArgRules::default()
        };
        let args: Vec<&[u8]> = args.iter().map(|a| a.as_bytes()).collect();
        let context = Context { rule: "r1", names: &[b"t"], paths: Paths::Names };
        let refusal = accept(&rules, &args, context).expect_err("refused");
        (refusal.message, refusal.hint.expect("a hint"))
    };
    assert_eq!(say(&["-ab"]).0, "rule 'r1' does not allow '-b' in '-ab' there; it allows ['-a', '-n']");
    assert_eq!(
        say(&["-n", "10", "y\u{202e}"]).0,
        "the value '10' of '-n' is more than max_value 9; operand 1 'y\\u{202e}' is not one of ['x'] (rule 'r1')"
    );
    assert!(say(&["x", "&&", "rm"]).1.contains("no shell runs here: '&&'"));
    assert!(say(&["x", ">", "out"]).1.contains("--stdin"));
}

/// Whether a word is made of nothing but what `-a -b -k: --long --val:` lists.
fn listed(args: &[String]) -> bool {
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let cluster = |w: &str| w.len() > 1 && w[1..].chars().all(|c| "ab".contains(c));
        let glued = |w: &str| {
            let body = w[1..].trim_start_matches(['a', 'b']);
            w.starts_with('-') && body.len() > 1 && body.starts_with('k')
        };
        let valued =
            |w: &str| w == "--val" || (w.starts_with('-') && w[1..].trim_start_matches(['a', 'b']) == "k");
        if word == "--" {
            return true;
        } else if valued(word) {
            if rest.next().is_none_or(|v| v.starts_with('-')) {
                return false;
            }
        } else if word.starts_with('-')
            && !(word == "--long" || word.starts_with("--val=") || cluster(word) || glued(word))
        {
            return false;
        }
    }
    true
}

proptest::proptest! {
    #[test]
    fn accepted_words_consist_only_of_listed_spellings(
        args in proptest::collection::vec("(-[abkx=]{0,3}|--(long|val|lo|x)?(=[ab]?)?|[ax-]{1,2})", 0..5)
    ) {
        let rules = anywhere("-a -b -k: --long --val:");
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let accepted = judge(&rules, "t", &words) == "ok" || judge(&rules, "t", &words) == "operand_missing";
        if accepted {
            proptest::prop_assert!(listed(&args), "{args:?}");
        }
    }

    #[test]
    fn judging_is_total(args: Vec<Vec<u8>>, program in "tar|find|git") {
        let rules = ArgRules { global_flags: flags("-a -b:"), ..anywhere("-c --long:") };
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let context = Context { rule: "r", names: &[program.as_bytes()], paths: Paths::Names };
        let _ = accept(&rules, &words, context);
        let _ = crate::decision::open::matches(&rules, &[program.as_bytes()], &words, &Paths::Names);
    }
}
