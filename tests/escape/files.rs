//! The file system: what may not be read, what may not be written, and the ways round by name.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::scene::{self, GROUNDS, Ground, STRICT, WORKSPACE, attempt, caught, refused, words};
use crate::harness::{As, Bench};

fn lines(list: Vec<String>) -> Vec<String> {
    list
}

/// A file outside the working directory that the run's user may change, as far as modes go.
fn outside(bench: &Bench) -> String {
    let path = bench.file("outside/file", "content\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("chmod");
    let dir = path.parent().expect("a parent");
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).expect("chmod");
    bench.give(dir);
    dir.display().to_string()
}

as_both! {
    fn t3_103_nothing_outside_is_written_by_any_name(bench) {
        let work = bench.work().display().to_string();
        let dir = outside(bench);
        let attacks = lines(vec![
            format!("write:{dir}/file"), format!("write:{dir}/new"), format!("truncate:{dir}/file"), format!("opentrunc:{dir}/file"), format!("neither:{dir}/file"),
            format!("mkdir:{dir}/newdir"), format!("symlink:/etc:{dir}/newlink"), format!("rename:{dir}/a:{dir}/b"),
            format!("unlink:{dir}/c"), format!("write:{work}/../outside/file"), format!("write:/proc/self/root{dir}/file"),
            format!("write:/proc/self/cwd/../outside/file"), format!("chmod:{dir}/file"), format!("utime:{dir}/file"),
            format!("write:{work}/link"), format!("write:{work}/linkdir/file"), format!("write:{work}/dangling"),
        ]);
        let content = format!("{dir}/file");
        for toml in [STRICT, WORKSPACE] {
            caught(bench, toml, &attacks, &["chmod", "utime"], || {
                for name in ["a", "b", "c", "file"] {
                    fs::write(format!("{dir}/{name}"), "content\n").expect("write");
                    bench.give(format!("{dir}/{name}").as_ref());
                }
                for name in ["new", "newlink", "planted"] {
                    let _ = fs::remove_file(format!("{dir}/{name}"));
                }
                let _ = fs::remove_dir(format!("{dir}/newdir"));
                for (to, name) in [(&content, "link"), (&dir, "linkdir"), (&format!("{dir}/planted"), "dangling")] {
                    let link = format!("{work}/{name}");
                    let _ = fs::remove_file(&link);
                    symlink(to, &link).expect("symlink");
                }
            });
            assert_eq!(fs::read_to_string(&content).expect("read"), "content\n", "{toml}");
            let mut names: Vec<_> = fs::read_dir(&dir).expect("list").flatten().map(|e| e.file_name()).collect();
            names.sort();
            assert_eq!(names, ["a", "b", "c", "file"], "{toml}");
        }
    }
}

as_both! {
    fn t3_104_links_lead_nowhere_else(bench) {
        let (work, dir) = (bench.work().display().to_string(), outside(bench));
        let secret = bench.file("outside/secret", "s3cret\n");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o666)).expect("chmod");
        let attacks = lines(vec![
            format!("link:{dir}/secret:{work}/hard"), format!("rename:{dir}/move:{work}/moved"),
            format!("rename:{work}/mine:{dir}/mine"), format!("exchange:{work}/x:{dir}/y"),
            format!("read:{dir}/secret"), format!("writevia:{dir}/secret:{work}/via"),
        ]);
        caught(bench, WORKSPACE, &attacks, &[], || {
            for name in [format!("{work}/hard"), format!("{work}/moved"), format!("{dir}/mine"), format!("{work}/via")] {
                let _ = fs::remove_file(name);
            }
            for name in [format!("{dir}/move"), format!("{work}/mine"), format!("{work}/x"), format!("{dir}/y")] {
                fs::write(&name, "x").expect("write");
                bench.give(name.as_ref());
            }
        });
    }
}

as_both! {
    fn strict_lets_nothing_but_the_tmp_be_written(bench) {
        let work = bench.work().display().to_string();
        let file = bench.file("work/file", "content\n");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("chmod");
        fs::set_permissions(bench.work(), fs::Permissions::from_mode(0o777)).expect("chmod");
        let attacks = lines(vec![
            format!("write:{work}/new"), format!("write:{work}/file"), format!("truncate:{work}/file"), format!("opentrunc:{work}/file"),
            format!("mkdir:{work}/newdir"), format!("unlink:{work}/file2"),
        ]);
        caught(bench, STRICT, &attacks, &[], || {
            let _ = fs::remove_file(format!("{work}/new"));
            let _ = fs::remove_dir(format!("{work}/newdir"));
            for name in ["file", "file2"] {
                fs::write(format!("{work}/{name}"), "content\n").expect("write");
                bench.give(format!("{work}/{name}").as_ref());
            }
        });
        for ground in GROUNDS {
            let (outcomes, answer) = attempt(bench, ground, STRICT, &words(&[&format!("read:{work}/file"), &format!("list:{work}")]));
            assert!(outcomes.values().all(|o| o == "open"), "{ground:?} {}", answer.show());
        }
    }
}

as_both! {
    fn proc_sys_and_devices_are_not_written(bench) {
        let attacks = [
            "openw:/proc/sys/kernel/core_pattern", "openw:/proc/sys/kernel/hostname", "openw:/proc/sysrq-trigger",
            "openw:/sys/kernel/mm/transparent_hugepage/enabled", "openw:/proc/self/oom_score_adj", "openw:/proc/self/comm",
            "openw:/proc/self/mem", "openw:/dev/kmsg", "openw:/dev/tty", "read:/dev/kmsg", "read:/dev/mem", "openw:/dev/fuse",
            "openw:/dev/ptmx", "read:/proc/kcore", "openw:/sys/fs/cgroup/cgroup.procs",
        ];
        let may: Vec<&str> = vec!["openw", "read"];
        refused(bench, STRICT, &attacks, &may);
        refused(bench, WORKSPACE, &attacks, &may);
        // The test can fail: some of them are open to everyone.
        let (bare, _) = attempt(bench, Ground::Namespaces, scene::OFF, &words(&attacks));
        assert!(bare.values().filter(|o| *o == "open").count() >= 3, "{bare:?}");
        assert_eq!(bare["openw:/proc/self/mem"], "open");
    }
}

as_both! {
    fn no_device_can_be_made(bench) {
        let work = bench.work().display().to_string();
        let attacks = words(&[&format!("mknod:{work}/device")]);
        caught(bench, WORKSPACE, &attacks, &["mknod"], || {
            let _ = fs::remove_file(format!("{work}/device"));
        });
    }
}

as_both! {
    fn secrets_of_the_system_are_not_read(bench) {
        let mut attacks = vec!["read:/etc/shadow", "read:/etc/gshadow", "list:/root", "read:/etc/sudoers", "handle:/etc/shadow"];
        attacks.retain(|a| fs::metadata(a.split(':').nth(1).expect("a path")).is_ok());
        refused(bench, STRICT, &attacks, if bench.who == As::User { &["read", "list", "handle"] } else { &["handle"] });
        refused(bench, WORKSPACE, &attacks, if bench.who == As::User { &["read", "list", "handle"] } else { &["handle"] });
    }
}

as_both! {
    fn other_peoples_homes_are_not_read(bench) {
        // A home that everyone may read, as many are; and one's own, which is not the run's business either.
        let home = bench.file("home/other/diary", "dear diary\n");
        let own = bench.file("home/me/.netrc", "password\n");
        refused(bench, STRICT, &[&format!("read:{}", home.display()), &format!("read:{}", own.display())], &[]);
        refused(bench, WORKSPACE, &[&format!("read:{}", home.display()), &format!("read:{}", own.display())], &[]);
    }
}

as_both! {
    fn a_deny_inside_an_allow_holds_or_is_missing(bench) {
        bench.file("data/open/file", "open\n");
        bench.file("data/open/deep/secret", "secret\n");
        bench.file("data/open/deep/beside", "beside\n");
        let data = bench.dir.join("data").display().to_string();
        let attacks = words(&[
            &format!("read:{data}/open/file"), &format!("read:{data}/open/deep/secret"), &format!("read:{data}/open/deep/beside"),
            &format!("read:/proc/self/root{data}/open/deep/secret"), &format!("read:{data}/open/../open/deep/secret"),
        ]);
        for ground in GROUNDS {
            let toml = format!("{STRICT}[filesystem]\nread = [{data:?}]\ndeny = [\"{data}/open/deep/secret\"]\n");
            let (outcomes, answer) = attempt(bench, ground, &toml, &attacks);
            for (attack, outcome) in &outcomes {
                let want = !attack.contains("secret");
                assert_eq!(outcome == "open", want, "{ground:?} {attack} {outcome}\n{}", answer.show());
            }
            // Inside what is writable only a mount can do it: without, the layer is missing, and required here.
            let toml = format!("{STRICT}[filesystem]\nwrite = [\"{data}/open\"]\ndeny = [\"{data}/open/deep/secret\"]\n{}", scene::rule());
            let attack = format!("read:{data}/open/deep/secret");
            // Under another name it would lie open to the next run, and what it was called would be free.
            let moved = format!("rename:{data}/open/deep:{data}/open/moved");
            for dir in ["open", "open/deep"] {
                bench.give(format!("{data}/{dir}").as_ref());
            }
            let call = ground.call(bench, &toml);
            if ground.mounts() {
                let (outcomes, answer) = scene::attempt_by(call, &words(&[&attack, &moved]));
                assert!(outcomes[&attack].starts_with("refused"), "{}", answer.show());
                assert!(outcomes[&moved].starts_with("refused"), "{}", answer.show());
                assert!(fs::exists(format!("{data}/open/deep/secret")).expect("a look"), "{}", answer.show());
            } else {
                scene::unavailable(&call.run([scene::attacker().to_str().expect("UTF-8"), &attack]), &["filesystem", "secret"]);
            }
        }
    }
}

as_both! {
    fn a_map_shows_a_directory_elsewhere_read_only(bench) {
        let from = bench.file("extract/file", "shown\n");
        let from = from.parent().expect("a parent").display().to_string();
        fs::set_permissions(&from, fs::Permissions::from_mode(0o777)).expect("chmod");
        for seen in ["/guardexec-data", "/mnt"] {
            let toml = format!("{STRICT}[filesystem]\nmap = {{ {seen:?} = {from:?} }}\n");
            let attacks = words(&[&format!("read:{seen}/file"), &format!("write:{seen}/file"), &format!("write:{seen}/new")]);
            let (outcomes, answer) = attempt(bench, Ground::Namespaces, &toml, &attacks);
            assert_eq!(outcomes[&attacks[0]], "open", "{}", answer.show());
            assert!(outcomes[&attacks[1]].starts_with("refused"), "{}", answer.show());
            assert!(outcomes[&attacks[2]].starts_with("refused"), "{}", answer.show());
        }
        assert!(!std::path::Path::new("/guardexec-data").exists(), "nothing is made on the host");
        for ground in [Ground::Groups, Ground::NoNamespaces] {
            let toml = format!("{STRICT}[filesystem]\nmap = {{ \"/mnt\" = {from:?} }}\n{}", scene::rule());
            scene::unavailable(&ground.call(bench, &toml).run([scene::attacker().to_str().expect("UTF-8")]), &["map"]);
        }
    }
}

fn tmp_of(answer: &crate::harness::Answer) -> String {
    answer.str("stdout").lines().next().unwrap_or_default().to_owned()
}

as_both! {
    fn the_private_tmp_is_bounded_and_gone_afterwards(bench) {
        for ground in GROUNDS {
            let toml = "allow = [\"sh\"]\n[sandbox]\nprofile = \"strict\"\nrequire = []\n[filesystem]\ntmp = \"1M\"\n[limits]\nfile_size = \"8M\"\n";
            let script = "echo \"$TMPDIR\"; echo x > \"$TMPDIR/mark\" && [ -s \"$TMPDIR/mark\" ] && echo made; \
                          i=0; while [ $i -lt 400 ]; do echo 0123456789012345678901234567890123456789012345678901234567890123 ; i=$((i+1)); done > \"$TMPDIR/a\"; \
                          n=0; while [ $n -lt 60 ] && while read -r line; do echo \"$line\"; done < \"$TMPDIR/a\" >> \"$TMPDIR/big\"; do n=$((n+1)); done 2>/dev/null; echo $n";
            let answer = ground.call(bench, toml).run(["sh", "-c", script]);
            assert_eq!(answer.json["exit_code"], 0, "{}", answer.show());
            let out: Vec<&str> = answer.str("stdout").lines().collect();
            assert_eq!(out[1], "made", "{}", answer.show());
            let dir = tmp_of(&answer);
            assert!(!std::path::Path::new(&dir).join("mark").exists(), "{dir} is still there");
            let missing = answer.json["sandbox"]["missing"].as_array().expect("a list").iter().any(|m| m == "tmp");
            if ground.mounts() {
                let rounds: u32 = out[2].parse().expect("a number");
                assert!((30..60).contains(&rounds), "1M was not the limit: {}", answer.show());
                assert!(!missing, "{}", answer.show());
            } else {
                assert!(!std::path::Path::new(&dir).exists(), "{dir} is still there");
                assert!(missing, "{}", answer.show());
            }
        }
    }
}

as_both! {
    fn what_is_denied_and_was_not_there_is_set_aside(bench) {
        fs::set_permissions(bench.work(), fs::Permissions::from_mode(0o777)).expect("chmod");
        let denied = bench.work().join("later");
        for ground in GROUNDS {
            let toml = format!("{WORKSPACE}[filesystem]\ndeny = [{denied:?}]\n{}", scene::rule());
            let (_, answer) = scene::attempt_by(ground.call(bench, &toml), &words(&[&format!("write:{}", denied.display())]));
            assert!(!denied.exists(), "{ground:?} {}", answer.show());
            assert!(answer.json["warnings"].to_string().contains("later"), "{ground:?} {}", answer.show());
        }
    }
}

as_both! {
    fn a_deny_under_host_holds_or_is_said_to_be_missing(bench) {
        let secret = bench.file("data/secret", "secret\n").display().to_string();
        let attack = format!("read:{secret}");
        for ground in GROUNDS {
            let toml = format!("{}[filesystem]\ndeny = [{secret:?}]\n", scene::OFF);
            // All else is as the host has it.
            let beside = format!("write:{}", bench.work().join("beside").display());
            let (outcomes, answer) = attempt(bench, ground, &toml, &words(&[&attack, &beside]));
            assert_eq!(outcomes[&beside], "open", "{}", answer.show());
            assert!(bench.work().join("beside").exists());
            fs::remove_file(bench.work().join("beside")).expect("the file");
            let sandbox = &answer.json["sandbox"];
            if ground.mounts() {
                assert!(outcomes[&attack].starts_with("refused"), "{}", answer.show());
                assert_eq!(sandbox["enforced"]["filesystem"], "mount namespace", "{}", answer.show());
            } else {
                assert_eq!(sandbox["missing"], serde_json::json!(["filesystem"]), "{}", answer.show());
                assert!(answer.json["warnings"].to_string().contains("secret"), "{}", answer.show());
            }
        }
    }
}

as_both! {
    fn a_failed_run_is_told_what_is_kept_from_it_and_no_more(bench) {
        let denied = bench.file("work/denied", "x\n");
        let closed = bench.file("work/closed", "x\n");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("chmod");
        for ground in GROUNDS {
            let mounts = ground.mounts();
            let deny = if mounts { format!("[filesystem]\ndeny = [{denied:?}]\n") } else { String::new() };
            let toml = |profile: &str| format!("allow = [\"sh\", \"cat\"]\n[sandbox]\nprofile = \"{profile}\"\n{deny}");
            let hints = |profile: &str, script: &str| {
                let answer = ground.call(bench, &toml(profile)).run(["sh", "-c", script]);
                let (_, hints) = answer.str("text").split_once("\nexit=").expect("a failing exit");
                assert!(answer.json["violations"].as_array().expect("a list").is_empty(), "{}", answer.show());
                hints.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
            };
            let one = |profile: &str, script: &str, parts: &[&str]| {
                let hints = hints(profile, script);
                assert!(hints.len() == 1 && parts.iter().all(|part| hints[0].contains(part)), "{ground:?} {script} {hints:?}");
            };
            one("workspace", "ls /root", &["hint: ", "read or write /root", "[filesystem]"]);
            one("workspace", "echo > /etc/new; exit 1", &["write /etc/new", "[filesystem]"]);
            one("strict", "echo > new; exit 1", &[&format!("write {}/new", bench.work().display())]);
            one("strict", "cat /etc/passwd; id", &["start no further program", "exec"]);
            one("workspace", "echo 'could not resolve host: x' >&2; exit 1", &["[network] mode"]);
            if mounts {
                one("workspace", "cat denied", &["denied", "[filesystem] deny"]);
                one("workspace", "cat /tmp/gone", &["/tmp is this run's own"]);
            }
            // What is not the confinement's doing, or is none of its business.
            for script in ["cat closed 2>&1 >&2; exit 1", "cat gone", "echo no; exit 1"] {
                assert_eq!(hints("workspace", script), Vec::<String>::new(), "{ground:?} {script}");
            }
            // No more than three, and none where the run ended well.
            let many = "for n in 1 2 3 4 5; do echo > /etc/new-$n; done; exit 1";
            assert_eq!(hints("workspace", many).len(), 3, "{ground:?}");
            let answer = ground.call(bench, &toml("workspace")).run(["sh", "-c", "echo > /etc/new; exit 0"]);
            assert!(!answer.str("text").contains("hint"), "{}", answer.show());
        }
        let answer = bench.host("allow = [\"sh\"]\n").run(["sh", "-c", "echo '/etc/new: Read-only file system' >&2; exit 1"]);
        assert!(!answer.str("text").contains("hint"), "{}", answer.show());
    }
}
