//! `explain`, `check` and the other verbs: what they print, what they exit with, and that they leave nothing behind.

use serde_json::{Value, json};

use crate::harness::{Answer, Bench};

fn explain(bench: &Bench, policy: &str, options: &[&str], words: &[&str]) -> Answer {
    let mut call = bench.host(policy);
    call.args.insert(0, "explain".into());
    crate::harness::outside::ready(call.opt(options), words).raw()
}

const RULES: &str = "allow = [\"true\", \"no-such-program\", \"sh\"]\ndeny = [\"rm\"]\n[[rule]]\nid = \"touching\"\nprogram = \"touch\"\ndecision = \"ask\"\n";

as_both! {
    fn explain_exits_as_a_run_would_and_runs_nothing(bench) {
        bench.file("odd", "");
        let odd = bench.dir.join("odd").display().to_string();
        let policy = format!("{}\n[[rule]]\nid = \"odd\"\nprogram = {odd:?}\ndecision = \"allow\"\n", RULES);
        let cases: [(&[&str], i32, &str); 6] = [
            (&["true", "x"], 0, "allow"), (&["touch", "ran"], 75, "ask"), (&["rm", "x"], 126, "denied"), (&["ls"], 126, "denied"),
            (&["no-such-program"], 127, "not_found"), (&[&odd], 126, "exec_failed"),
        ];
        for (words, exit, outcome) in cases {
            let a = explain(bench, &policy, &[], words);
            let text = String::from_utf8_lossy(&a.stdout).into_owned();
            assert_eq!((a.exit, a.stderr.as_str()), (exit, ""), "{words:?}\n{text}");
            assert!(text.contains(&format!("outcome    {outcome} (exit status {exit})")), "{words:?}\n{text}");
            let a = explain(bench, &policy, &["--json"], words);
            assert_eq!((a.exit, a.json["outcome"].as_str(), a.json["exit_status"].as_i64()), (exit, Some(outcome), Some(i64::from(exit))), "{}", a.show());
            // The same request run says the same.
            if exit != 0 {
                let run = bench.host(&policy).run(words);
                assert_eq!((run.exit, run.str("text"), run.str("stage")), (exit, a.str("text"), a.str("stage")), "{}", run.show());
                let _ = std::fs::remove_file(bench.dir.join("audit.jsonl"));
            }
        }
        assert!(!bench.work().join("ran").exists());
        assert!(explain(bench, "allow = [\"sh\"]\nnope = 1\n", &[], &["sh"]).exit == 125);
        assert!(explain(bench, RULES, &["--timeout", "5"], &["true"]).exit == 125, "a usage error");
    }
}

as_both! {
    fn a_layer_that_the_policy_requires_and_cannot_have_is_told_before_the_run(bench) {
        // `host` gives none of these layers, so they can be had nowhere.
        for layer in ["filesystem", "syscalls"] {
            let policy = format!("allow = [\"true\"]\n[sandbox]\nprofile = \"host\"\nrequire = [\"{layer}\"]\n");
            let run = bench.host(&policy).run(["true"]);
            assert_eq!((run.status(), run.exit, run.json["exit_code"].is_null()), ("error", 125, true), "{}", run.show());
            assert!(run.str("text").contains(&format!("requires {layer}, which cannot be had")), "{}", run.show());
            let a = explain(bench, &policy, &["--json"], &["true"]);
            assert_eq!((a.exit, a.str("stage"), a.str("text")), (125, "sandbox", run.str("text")), "{}", a.show());
        }
        let mut call = bench.policy("allow = [\"true\"]\n");
        call.args.insert(0, "explain".into());
        let a = crate::harness::outside::ready(call, ["true"]).raw();
        let (run, text) = (bench.policy("allow = [\"true\"]\n").run(["true"]), String::from_utf8_lossy(&a.stdout).into_owned());
        assert_eq!(a.exit, run.exit, "{text}\n{}", run.show());
        let enforced = run.json["sandbox"]["enforced"].as_object().cloned().unwrap_or_default();
        for (layer, how) in &enforced {
            // As root each run gets a user of its own, so that number is another one.
            let how = how.as_str().expect("text").split(|c: char| layer == "identity" && c.is_ascii_digit()).next();
            let said = format!("{layer}: {}", how.unwrap_or_default());
            assert!(text.contains(&said), "{said}\n{text}\n{}", run.show());
        }
    }
}

as_both! {
    fn explain_writes_nothing(bench) {
        let list = |bench: &Bench| {
            let names = |dir: &std::path::Path| std::fs::read_dir(dir).expect("a directory").flatten().map(|e| e.file_name().into_string().expect("UTF-8")).collect::<Vec<_>>();
            let mut all = [names(&bench.dir), names(&bench.work())].concat();
            all.sort();
            all
        };
        bench.file("in.txt", "");
        for words in [&["true"][..], &["touch", "ran"], &["rm"], &["sh", "-c", "touch ran"]] {
            explain(bench, RULES, &["--stdin", "../in.txt"], words);
        }
        assert_eq!(list(bench), ["in.txt", "policy.toml", "work"]);
    }
}

as_both! {
    fn explain_names_every_stage_and_rule(bench) {
        let a = explain(bench, RULES, &["--json"], &["touch", "x"]);
        let stages: Vec<&str> = a.json["stages"].as_array().expect("a list").iter().filter_map(|s| s["stage"].as_str()).collect();
        assert_eq!(stages.first().zip(stages.last()), Some((&"request", &"approval")), "{}", a.show());
        assert!(["command", "program", "arguments", "decision"].iter().all(|s| stages.contains(s)), "{}", a.show());
        assert_eq!(a.json["rule"]["id"], "touching", "{}", a.show());
        assert!(a.json["program"]["sha256"].is_string(), "a person has to know what was approved: {}", a.show());
        let a = explain(bench, RULES, &["--json", "--command", "true; rm"], &["x"]);
        assert_eq!((a.exit, a.json["stage"].as_str()), (125, None), "--command and -- together are a usage error\n{}", a.show());
    }
}

fn verb(bench: &Bench, words: &[&str]) -> Answer {
    bench.call().opt(words).raw()
}

as_both! {
    fn check_says_clean_findings_or_unusable(bench) {
        let clean = bench.file("clean.toml", "version = 1\n[[rule]]\nid = \"e\"\nprogram = \"echo\"\ndecision = \"allow\"\nflags = []\noperands = [{ pattern = '[a-z]+' }]\nexamples = { allow = [\"echo hi\"], deny = [\"echo HI\"] }\n");
        let bare = bench.file("bare.toml", "version = 1\nallow = [\"sh\"]\n");
        let broken = bench.file("broken.toml", "version = 1\nalow = [\"sh\"]\n");
        let wrong = bench.file("wrong.toml", "version = 1\n[[rule]]\nid = \"e\"\nprogram = \"echo\"\ndecision = \"allow\"\nexamples = { deny = [\"echo HI\"] }\n");
        let path = |p: &std::path::Path| p.to_str().expect("UTF-8").to_owned();
        let hook = bench.file("hook.toml", "version = 1\n[approval]\nnotify = \"./nobody\"\n");
        for (file, exit, part) in [(&clean, 0, "no findings"), (&bare, 1, "bare.toml:2: "), (&hook, 1, "hook.toml:3: "), (&broken, 125, ""), (&wrong, 125, "")] {
            let a = verb(bench, &["check", &path(file)]);
            assert_eq!(a.exit, exit, "{}\n{}", a.show(), String::from_utf8_lossy(&a.stdout));
            assert!(String::from_utf8_lossy(&a.stdout).contains(part), "{}", String::from_utf8_lossy(&a.stdout));
            let b = verb(bench, &["check", "--json", &path(file)]);
            assert_eq!(b.exit, exit, "with --json too\n{}", b.show());
            assert_eq!(b.json.as_array().expect("an array").is_empty(), exit == 0, "{}", b.show());
            assert_eq!(verb(bench, &["--policy", &path(file), "check"]).exit, exit);
        }
        let a = verb(bench, &["check", &path(&broken)]);
        for part in ["broken.toml:2:1", "alow = [\"sh\"]", "^^^^", "`allow`"] {
            assert!(a.stderr.contains(part), "{part}\n{}", a.stderr);
        }
        assert!(verb(bench, &["check", &path(&wrong)]).stderr.contains("echo HI"));
        assert_eq!(verb(bench, &["check", "/nonexistent.toml"]).exit, 125);
    }
}

as_both! {
    fn the_shipped_policies_are_clean(bench) {
        for entry in std::fs::read_dir(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("policies")).expect("policies").flatten() {
            let text = std::fs::read_to_string(entry.path()).expect("a policy");
            let copy = bench.file("shipped.toml", text);
            let a = verb(bench, &["check", copy.to_str().expect("UTF-8")]);
            assert_eq!((a.exit, String::from_utf8_lossy(&a.stdout).as_ref()), (0, "no findings\n"), "{:?}\n{}", entry.path(), a.show());
        }
    }
}

as_both! {
    fn schemas_completions_and_help_are_printed(bench) {
        for name in ["policy", "request", "result", "audit"] {
            let a = verb(bench, &["schema", name]);
            assert_eq!((a.exit, a.stderr.as_str()), (0, ""), "{}", a.show());
            assert!(a.json["$schema"].is_string() && jsonschema::validator_for(&a.json).is_ok(), "{name}");
        }
        for shell in ["bash", "zsh", "fish"] {
            let a = verb(bench, &["completions", shell]);
            let text = String::from_utf8_lossy(&a.stdout).into_owned();
            assert!(a.exit == 0 && text.contains("guardexec") && text.contains("result-file"), "{shell}");
        }
        let a = verb(bench, &["completions", "bash"]);
        let script = bench.file("completions.bash", &a.stdout);
        assert!(std::process::Command::new("bash").arg("-n").arg(script).status().is_ok_and(|s| s.success()));
        for help in ["--help", "-h"] {
            let a = verb(bench, &[help]);
            let text = String::from_utf8_lossy(&a.stdout).into_owned();
            assert!(a.exit == 0 && a.stderr.is_empty(), "{}", a.show());
            for part in ["--policy", "--command", "--result-fd", "check", "explain", "doctor", "completions"] {
                assert!(text.contains(part), "{part}\n{text}");
            }
        }
        for of in ["check", "explain", "audit", "doctor", "schema", "completions"] {
            let a = verb(bench, &[of, "--help"]);
            assert!(a.exit == 0 && !a.stdout.is_empty(), "{of}\n{}", a.show());
        }
        let a = verb(bench, &["--version"]);
        assert_eq!((a.exit, String::from_utf8_lossy(&a.stdout).trim()), (0, concat!("guardexec ", env!("CARGO_PKG_VERSION"))));
        for wrong in [&["schema", "x"][..], &["schema"], &["completions"], &["audit"], &["audit", "verify"], &["check", "--nope"]] {
            let a = verb(bench, wrong);
            assert_eq!((a.exit, a.stdout.len(), a.stderr.lines().count()), (125, 0, 1), "{wrong:?}\n{}", a.show());
        }
    }
}

as_both! {
    fn doctor_tells_each_layer(bench) {
        let a = verb(bench, &["doctor", "--json"]);
        let layers = a.json.as_array().expect("an array");
        assert!(!layers.is_empty() && layers.iter().all(Value::is_object), "{}", a.show());
        let b = verb(bench, &["doctor"]);
        assert!([0, 1].contains(&a.exit) && a.exit == b.exit && b.stderr.is_empty(), "{}", b.show());
        assert!(b.stdout.len() > 100 && json!(null) != a.json);
    }
}
