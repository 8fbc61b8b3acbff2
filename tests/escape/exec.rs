//! Starting something further: under `strict` without `exec` nothing is, whatever the program offers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::scene::{self, GROUNDS, Ground, OFF, STRICT, attempt, caught, refused, words};
use crate::harness::{Bench, skip};

fn loader() -> Option<&'static str> {
    ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"].into_iter().find(|p| Path::new(p).exists())
}

as_both! {
    fn t3_98_no_second_exec_by_any_call(bench) {
        let dir = bench.work();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).expect("chmod");
        let script = bench.script("work/script", "#!/bin/sh\nexit 0\n");
        let chain = bench.script("work/chain", &format!("#!{}\n", script.display()));
        let own = scene::attacker().display().to_string();
        let mut attacks = words(&[
            "exec:/bin/sh", "execat:/bin/sh", "memfd:/bin/sh", &format!("exec:{own}"), "exec:/proc/self/exe",
            &format!("execscript:{}", script.display()), &format!("execscript:{}", chain.display()),
            &format!("copyexec:/bin/sh:{}/copy", dir.display()), &format!("linkexec:{}/sh:{}/hard", dir.display(), dir.display()),
        ]);
        if let Some(ld) = loader() {
            attacks.push(format!("loader:{ld}"));
            attacks.push(format!("preload:{ld}:libc.so.6"));
        }
        let copy = dir.join("sh");
        fs::copy("/bin/sh", &copy).expect("copy");
        bench.give(&copy);
        caught(bench, STRICT, &attacks, &[], || {
            let _ = fs::remove_file(dir.join("copy"));
            let _ = fs::remove_file(dir.join("hard"));
        });
        // With a place to write to, a copy of one's own is no way either.
        let toml = format!("{STRICT}[filesystem]\nwrite = [{:?}]\n", dir.to_str().expect("UTF-8"));
        caught(bench, &toml, &attacks, &[], || {
            let _ = fs::remove_file(dir.join("copy"));
            let _ = fs::remove_file(dir.join("hard"));
        });
    }
}

/// A program that runs its arguments, and the words that make it run `touch MARKER`.
fn launchers(bench: &Bench, marker: &str) -> Vec<(&'static str, Vec<String>)> {
    let touch = format!("touch {marker}");
    let input = bench.file("work/input", "b\na\n").display().to_string();
    let helper = bench
        .script("work/helper", &format!("#!/bin/sh\n/usr/bin/touch {marker}\ncat\n"))
        .display()
        .to_string();
    let work = bench.work().display().to_string();
    let list = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    vec![
        ("find", list(&[&work, "-maxdepth", "0", "-exec", "touch", marker, ";"])),
        ("env", list(&["touch", marker])),
        ("nice", list(&["touch", marker])),
        ("xargs", list(&["-a", &input, "touch", marker])),
        ("timeout", list(&["5", "touch", marker])),
        ("awk", list(&[&format!("BEGIN {{ system(\"{touch}\") }}")])),
        ("sh", list(&["-c", &touch])),
        ("sed", list(&["-n", &format!("1e {touch}"), &input])),
        (
            "tar",
            list(&[
                "-cf",
                "/dev/null",
                "--checkpoint=1",
                &format!("--checkpoint-action=exec={touch}"),
                &input,
            ]),
        ),
        (
            "sort",
            list(&[
                &format!("--compress-program={helper}"),
                "-S",
                "1b",
                "--batch-size=2",
                &input,
                &input,
                &input,
                &input,
                &input,
                &input,
            ]),
        ),
        ("git", list(&["-c", &format!("alias.z=!{touch}"), "z"])),
        ("git", list(&["-c", &format!("core.pager={touch}"), "-p", "--help", "-a"])),
        ("perl", list(&["-e", &format!("system('touch', '{marker}')")])),
        ("python3", list(&["-c", &format!("import os; os.execv('/usr/bin/touch', ['touch', '{marker}'])")])),
        ("busybox", list(&["sh", "-c", &format!("/usr/bin/touch {marker}")])),
        ("busybox", list(&["env", "touch", marker])),
        ("ldd", list(&["/bin/true"])),
    ]
}

as_both! {
    fn programs_that_run_their_arguments_run_nothing(bench) {
        let tmp = bench.dir.join("marks");
        fs::create_dir(&tmp).expect("mkdir");
        fs::set_permissions(&tmp, fs::Permissions::from_mode(0o777)).expect("chmod");
        let marker = tmp.join("ran").display().to_string();
        let mut tried = 0;
        for (program, rest) in launchers(bench, &marker) {
            let found = ["/usr/bin", "/bin", "/usr/local/bin"].iter().any(|d| Path::new(d).join(program).exists());
            if !found || program == "ldd" {
                continue;
            }
            let path = "[env]\nset = { PATH = \"/usr/local/bin:/usr/bin:/bin\" }\n";
            let mut line = vec![program.to_owned()];
            line.extend(rest);
            let writes = format!("[filesystem]\nwrite = [{:?}]\n", tmp.to_str().expect("UTF-8"));
            let head = format!("allow = [{program:?}]\n{path}");
            bench.policy(&format!("{head}{OFF}")).run(&line);
            if !Path::new(&marker).exists() {
                // The interpreter's shim, a build without the feature: no attack, nothing shown.
                skip(&format!("{line:?} runs nothing on this host"));
                continue;
            }
            tried += 1;
            for ground in GROUNDS {
                let _ = fs::remove_file(&marker);
                let answer = ground.call(bench, &format!("{head}{STRICT}{writes}")).run(&line);
                assert!(!Path::new(&marker).exists(), "{ground:?} {line:?} ran something\n{}", answer.show());
            }
        }
        assert!(tried >= 8, "only {tried} attacks were real here");
    }
}

as_both! {
    fn a_list_names_what_may_be_started_and_nothing_in_memory(bench) {
        let dir = bench.work().display().to_string();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).expect("chmod");
        let toml = format!("{STRICT}[filesystem]\nwrite = [{dir:?}]\n");
        let attacks = words(&[
            "exec:/bin/sh", "exec:/usr/bin/perl", "execat:/bin/sh", "memfd:/bin/sh", &format!("copyexec:/bin/sh:{dir}/copy"),
        ]);
        let rule = format!("\n[[rule]]\nid = \"attack\"\nprogram = {:?}\ndecision = \"allow\"\nexec = [\"true\", \"no-such-program\"]\n", scene::attacker().to_str().expect("UTF-8"));
        for ground in GROUNDS {
            let _ = fs::remove_file(format!("{dir}/copy"));
            let (outcomes, answer) = scene::attempt_by(ground.call(bench, &format!("{toml}{rule}")), &attacks);
            assert!(outcomes.values().all(|o| o.starts_with("refused")), "{ground:?} {}", answer.show());
            let (outcomes, answer) = scene::attempt_by(ground.call(bench, &format!("{toml}{rule}")), &words(&["exec:/bin/true", "exec:/usr/bin/true"]));
            assert_eq!(outcomes["exec:/usr/bin/true"], "open", "{ground:?} {}", answer.show());
            assert_eq!(answer.json["sandbox"]["enforced"]["execution"], "list", "{}", answer.show());
            assert!(answer.json["warnings"].to_string().contains("no-such-program"), "{}", answer.show());
        }
    }
}

as_both! {
    fn an_allowed_file_is_not_rewritten(bench) {
        // A program of `exec` that lies where the run may write would be whatever the run makes of it.
        let tool = bench.script("work/tool", "#!/bin/sh\nexit 0\n");
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o777)).expect("chmod");
        let dir = bench.work().display().to_string();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).expect("chmod");
        let rule = format!("\n[[rule]]\nid = \"attack\"\nprogram = {:?}\ndecision = \"allow\"\nexec = [{:?}]\n", scene::attacker().to_str().expect("UTF-8"), tool.to_str().expect("UTF-8"));
        let toml = format!("{STRICT}[filesystem]\nwrite = [{dir:?}]\n{rule}");
        let attacks = words(&[&format!("write:{}", tool.display()), &format!("copyexec:/bin/sh:{}", tool.display())]);
        for ground in GROUNDS {
            let call = ground.call(bench, &toml);
            if ground.mounts() {
                let (outcomes, answer) = scene::attempt_by(call, &attacks);
                assert!(outcomes.values().all(|o| o.starts_with("refused")), "{}", answer.show());
            } else {
                // Landlock takes nothing back: it says so instead.
                scene::unavailable(&call.run([scene::attacker().to_str().expect("UTF-8"), &attacks[0]]), &["filesystem", "tool"]);
            }
        }
    }
}

as_both! {
    fn the_allowed_script_runs_through_its_interpreter_once(bench) {
        let script = bench.script("work/run", "#!/bin/sh\necho ran\n/bin/echo again\n");
        for ground in GROUNDS {
            let toml = format!("{STRICT}\n[[rule]]\nid = \"s\"\nprogram = {:?}\ndecision = \"allow\"\n", script.to_str().expect("UTF-8"));
            let answer = ground.call(bench, &toml).run([&script]);
            assert_eq!((answer.str("stdout"), answer.json["exit_code"].as_i64()), ("ran\n", Some(126)), "{ground:?} {}", answer.show());
        }
    }
}

as_both! {
    fn without_a_layer_the_attack_is_real(bench) {
        let (outcomes, answer) = attempt(bench, Ground::Namespaces, OFF, &words(&["exec:/bin/sh", "memfd:/bin/sh"]));
        assert!(outcomes.values().all(|o| o == "open"), "{}", answer.show());
        refused(bench, STRICT, &["exec:/bin/sh"], &[]);
    }
}
