//! Tests of open rules: every spelling counts, and what is not text is no hiding place.

use super::*;
use crate::decision::tests::made::*;
use crate::policy::value::Pattern;

fn hits(rules: &ArgRules, text: &str) -> bool {
    let mut words = text.split(' ').map(str::as_bytes);
    let program = words.next().expect("a program");
    matches(rules, &[program], &words.collect::<Vec<_>>(), &Paths::Names)
}

fn all(rules: &ArgRules, expected: bool, lines: &[&str]) {
    for text in lines {
        assert_eq!(hits(rules, text), expected, "{text}");
    }
}

fn with(names: &str) -> ArgRules {
    ArgRules { flags: flags(names), ..ArgRules::default() }
}

#[test]
fn without_keys_everything_matches() {
    all(&ArgRules::default(), true, &["rm", "rm -rf /"]);
    let empty = ArgRules {
        flags: flags(""),
        operands: Some(vec![]),
        subcommand: Some(vec![]),
        ..ArgRules::default()
    };
    all(&empty, true, &["rm", "rm x"]);
    all(&ArgRules { max_args: Some(0), ..ArgRules::default() }, true, &["rm", "rm a b"]);
}

#[test]
fn t1_3_long_flags_in_every_abbreviation() {
    let rules = with("--compress-program:");
    all(
        &rules,
        true,
        &[
            "sort --compress-program x",
            "sort --compress-program=./p.sh f",
            "sort -S 1k --comp=./p.sh big.txt",
            "sort --c ./p.sh",
            "sort -- --comp x",
            "sort f -compress-program=x",
            "sort --zzz --compress-program=x",
        ],
    );
    all(
        &rules,
        false,
        &["sort --check f", "sort -c f", "sort compress-program", "sort --compress-programs x", "sort --"],
    );
}

#[test]
fn short_flags_anywhere_in_a_cluster() {
    let rules = with("-o:");
    all(
        &rules,
        true,
        &["sort -o out", "sort -uo out in", "sort -oout in", "sort -rno", "sort -zzo=x", "sort a -- -o"],
    );
    all(&rules, false, &["sort out", "sort --output", "sort -u", "sort --o x", "sort -"]);
}

#[test]
fn t1_2_single_dash_words() {
    let rules = with("-exec: -delete");
    all(
        &rules,
        true,
        &[
            "find . -exec x ;",
            "find . -exec=x",
            "find . --exec x",
            "find . --exec=x",
            "find . -delete",
            "find . --del",
        ],
    );
    all(&rules, false, &["find . -execdir x", "find . -e", "find exec delete", "find . -name delete"]);
    all(&with("-javaagent:"), true, &["java -javaagent:/x.jar", "java -javaagent"]);
}

#[test]
fn t1_8_old_style_bundles() {
    let rules = with("-I -C:");
    all(&rules, true, &["tar xfC a.tar /tmp", "tar xI p f", "tar -xI p", "bsdtar xC /tmp", "tar x -C /tmp"]);
    all(&rules, false, &["tar xf aIC", "sort xfC a"]);
    let to_tmp = ArgRules { flags: Some(vec![taking("-C", choices(&["/tmp"]))]), ..ArgRules::default() };
    all(
        &to_tmp,
        true,
        &["tar xfC a.tar /tmp", "tar xCf /tmp a", "tar -C/tmp x", "tar -C=/tmp x", "tar x -C", "tar xC"],
    );
    all(&to_tmp, false, &["tar xfC a.tar /var", "tar -C /var x"]);
}

#[test]
fn values_that_cannot_be_determined_count() {
    let rules = ArgRules { flags: Some(vec![taking("--mode", choices(&["evil"]))]), ..ArgRules::default() };
    all(
        &rules,
        true,
        &["x --mode evil", "x --mode=evil", "x --mo=evil", "x --mode", "x --mode=good --mode=evil"],
    );
    all(&rules, false, &["x --mode good", "x --mode=good", "x evil"]);
    let broken = ArgRules {
        flags: Some(vec![taking("-m", ValueLimits { pattern: Some(Pattern::new("[")), ..any() })]),
        ..ArgRules::default()
    };
    all(&broken, true, &["x -m good", "x -mgood"]);
}

#[test]
fn subcommands_behind_flags_and_their_values() {
    let rules = ArgRules { subcommand: subcommands("push"), ..ArgRules::default() };
    all(
        &rules,
        true,
        &[
            "git push",
            "git -C d push",
            "git -c a=b -C d push x",
            "git --no-pager push",
            "git -- push",
            "git -x a b push",
        ],
    );
    all(&rules, false, &["git log push", "git", "git pushy", "git --push", "git pus"]);
    all(
        &ArgRules { subcommand: subcommands("link"), ..ArgRules::default() },
        true,
        &["ip l", "ip li set", "ip -4 link"],
    );
}

#[test]
fn keys_are_joined_by_and() {
    let rules = ArgRules { subcommand: subcommands("push"), ..with("--force -f") };
    all(&rules, true, &["git push --force", "git push -f", "git push -qf", "git push --forc", "git -f push"]);
    all(&rules, false, &["git push", "git log --force", "git push --no-force"]);
}

#[test]
fn operands_wherever_they_stand() {
    let rules = ArgRules { operands: Some(vec![operand(choices(&["/dev/sda"]))]), ..ArgRules::default() };
    all(&rules, true, &["dd /dev/sda", "dd of=/dev/sda", "dd --of=/dev/sda", "dd -- x /dev/sda"]);
    all(&rules, true, &["dd -o/dev/sda", "dd -vo/dev/sda", "dd -9o/dev/sda", "dd -o=/dev/sda"]);
    all(&rules, false, &["dd /dev/sdb", "dd", "dd -o/dev/sdb", "dd -/dev/sda", "dd -", "dd -o", "dd -/"]);
    // Repeated letters are flags to getopt(3): too many to try each are taken for a match.
    let many = |letters: usize| format!("dd -{}/dev/sda", "v".repeat(letters));
    all(&rules, true, &[&many(64), &many(65), &many(100_000)]);
    all(&rules, false, &[&format!("dd -{}", "v".repeat(64))]);
}

#[test]
fn t1_78_what_is_not_text_makes_no_rule_miss() {
    let args: Vec<&[u8]> = vec![b"\xff\xfe", b"-\xffo", b"--force=\xff"];
    for name in ["-o", "--force"] {
        assert!(matches(&with(name), &[b"x"], &args, &Paths::Names), "{name}");
    }
    let anything = ArgRules { operands: Some(vec![operand(pattern("(?s-u:.*)"))]), ..ArgRules::default() };
    assert!(matches(&anything, &[b"x"], &args[..1], &Paths::Names));
}

proptest::proptest! {
    #[test]
    fn words_added_elsewhere_never_make_a_flag_miss(before: Vec<Vec<u8>>, after: Vec<Vec<u8>>, cut in 1_usize..6) {
        let word = &b"--force"[..2 + cut - 1];
        let mut args: Vec<&[u8]> = before.iter().map(Vec::as_slice).collect();
        args.push(word);
        args.extend(after.iter().map(Vec::as_slice));
        proptest::prop_assert!(cut == 1 || matches(&with("--force"), &[b"x"], &args, &Paths::Names));
    }
}
