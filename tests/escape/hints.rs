//! The hints of a failed run: the run chooses their names, and learns from them nothing of what it cannot see itself.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::scene::{GROUNDS, Ground};
use crate::harness::Bench;

/// What follows the exit status where the name could not be used, `NAME` standing for the name.
fn hints(bench: &Bench, ground: Ground, toml: &str, name: &str) -> Vec<String> {
    let script = "echo \"x: $1: Permission denied\" >&2; exit 1";
    let answer =
        ground.call(bench, &format!("allow = [\"sh\"]\n{toml}")).run(["sh", "-c", script, "sh", name]);
    let (_, hints) = answer.str("text").split_once("\nexit=1").expect("a failing exit");
    hints.lines().skip(1).map(|line| line.replace(name, "NAME")).collect()
}

/// A directory that only the user of these tests may enter, so that root sees in it what its runs do not.
fn close(dir: &Path) {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).expect("chmod");
}

as_both! {
    fn a_dotted_name_tells_neither_where_a_link_leads_nor_what_there_is(bench) {
        let closed = bench.dir.join("closed");
        fs::create_dir_all(closed.join("is")).expect("mkdir");
        fs::create_dir_all(bench.dir.join("secret/v7")).expect("mkdir");
        symlink(bench.dir.join("secret/v7"), closed.join("current")).expect("a link");
        close(&closed);
        let (at, up) = (closed.display(), "../".repeat(closed.components().count()));
        for ground in GROUNDS {
            for name in [format!("{at}/current/.."), format!("{at}/is/{up}usr/bin/id"), format!("{at}/isnt/{up}usr/bin/id")] {
                assert_eq!(hints(bench, ground, "[sandbox]\nprofile = \"strict\"\n", &name), Vec::<String>::new(), "{ground:?} {name}");
            }
            // No link is followed to where the run cannot see it. (These directories lie below the host's /tmp.)
            let plain = hints(bench, ground, "[sandbox]\nprofile = \"strict\"\n", &format!("{at}/current"));
            assert_eq!(plain.len(), usize::from(!ground.mounts()), "{ground:?} {plain:?}");
            assert!(plain.iter().all(|hint| hint.contains("read or write NAME")), "{ground:?} {plain:?}");
        }
    }
}

as_both! {
    fn below_a_directory_that_is_closed_to_the_run_every_name_is_alike(bench) {
        let srv = bench.dir.join("srv");
        let private = srv.join("private");
        for (name, mode) in [("private/acme", 0o600), ("private/tool", 0o755), ("private/deep/key", 0o600), ("open", 0o644)] {
            fs::set_permissions(bench.file(&format!("srv/{name}"), "x\n"), fs::Permissions::from_mode(mode)).expect("chmod");
        }
        close(&private);
        let filesystem = format!("[filesystem]\nread = [{srv:?}]\ndeny = [{:?}]\n", private.join("deep/key"));
        let path = format!("[env]\nset = {{ PATH = \"/usr/bin:{}\" }}\n", private.display());
        for ground in GROUNDS {
            let toml = format!("[sandbox]\nprofile = \"strict\"\n{filesystem}{path}");
            let told = |name: &str| hints(bench, ground, &toml, name);
            let below = |name: &str| told(&private.join(name).display().to_string());
            for name in ["acme", "tool", "deep"] {
                assert_eq!(below(name), below("nothing"), "{ground:?} {name}");
            }
            assert_eq!(told("tool"), told("nothing"), "{ground:?}");
            // What the run can see is told as ever.
            for name in ["open", "nothing"] {
                let open = told(&srv.join(name).display().to_string());
                assert!(open.len() == 1 && open[0].contains("write NAME: write elsewhere"), "{ground:?} {name} {open:?}");
            }
            assert!(told("id")[0].contains("start no further program"), "{ground:?}");
        }
    }
}

as_both! {
    fn what_was_taken_out_of_a_listed_tree_is_not_said_to_be_unlisted(bench) {
        for ground in GROUNDS {
            for profile in ["strict", "workspace"] {
                let toml = format!("[sandbox]\nprofile = {profile:?}\n[filesystem]\nread = [\"/etc\"]\n");
                assert_eq!(hints(bench, ground, &toml, "/etc/shadow"), Vec::<String>::new(), "{ground:?} {profile}");
            }
        }
    }
}

as_both! {
    fn what_could_not_be_executed_is_no_file_that_could_not_be_written(bench) {
        for ground in GROUNDS {
            let script = "echo \"fatal: cannot exec 'remote-https': Permission denied\" >&2; exit 1";
            let answer = ground.call(bench, "allow = [\"sh\"]\n[sandbox]\nprofile = \"strict\"\n").run(["sh", "-c", script]);
            assert!(!answer.str("text").contains("[filesystem]"), "{ground:?} {}", answer.show());
        }
    }
}
