//! The views themselves, and what a run under them can really read.

use std::fs;
use std::os::fd::AsRawFd;

use super::super::landlock;
use super::super::raw::attack::{Ended, Scratch, Who, everyone, in_child};
use super::super::raw::no_new_privs;
use super::*;

fn inputs<'a>(filesystem: &'a Filesystem, scratch: &'a Path, tmp: &'a Path) -> Inputs<'a> {
    Inputs {
        profile: Profile::Strict,
        cwd: scratch,
        filesystem,
        program: Path::new("/bin/sh"),
        exec: None,
        tmp,
        guarded: &[],
        mounts: false,
        own_proc: false,
        privileged_reader: true,
        owns_system: false,
        refuse_tcp: true,
    }
}

fn under(view: &View, who: Who, body: impl FnOnce() -> i32) -> Ended {
    in_child(who, || {
        let prepared = landlock::Prepared::filled(view, landlock::abi()).unwrap();
        landlock::add_late(prepared.fd.as_raw_fd(), &prepared.late).unwrap();
        no_new_privs().unwrap();
        landlock::apply(prepared.fd.as_raw_fd()).unwrap();
        body()
    })
}

fn run(program: &str, words: &[&str]) -> i32 {
    let status = std::process::Command::new(program).args(words).status();
    status.map_or(126, |s| s.code().unwrap_or(99))
}

#[test]
fn strict_reads_the_system_and_writes_tmp_alone() {
    let scratch = Scratch::new("strict");
    let tmp = Scratch::new("strict-tmp");
    let filesystem = Filesystem::default();
    let strict = view(&inputs(&filesystem, &scratch.0, &tmp.0)).unwrap();
    assert!(strict.holes().next().is_none());
    if everyone().len() == 2 {
        super::super::raw::attack::give_to_nobody(&tmp.0);
    }
    for who in everyone() {
        let ended = under(&strict, *who, || {
            fs::read("/etc/passwd").unwrap();
            fs::read_dir("/usr/bin").unwrap();
            fs::read_dir(&scratch.0).unwrap();
            fs::write("/dev/null", "x").unwrap();
            fs::read("/proc/self/status").unwrap();
            fs::read("/proc/meminfo").unwrap();
            fs::write(tmp.0.join("x"), "x").unwrap();
            fs::remove_file(tmp.0.join("x")).unwrap();
            for path in
                ["/etc/shadow", "/proc/1/status", "/proc/kmsg", "/root/.bashrc", "/var/log", "/etc/gshadow"]
            {
                assert!(fs::File::open(path).is_err(), "{path}");
            }
            for path in ["/etc/new", "/usr/new", "/proc/self/oom_score_adj", "/dev/shm/new", "/var/tmp/new"] {
                assert!(fs::write(path, "x").is_err(), "{path}");
            }
            assert!(fs::write(scratch.0.join("new"), "x").is_err());
            assert!(fs::read(format!("/proc/{}/environ", std::os::unix::process::parent_id())).is_err());
            // sh itself may be executed, another program not.
            assert_eq!(run("/bin/sh", &["-c", "exit 7"]), 7);
            assert_eq!(run("/usr/bin/id", &[]), 126);
            0
        });
        assert_eq!(ended, Ended::Exited(0), "{who:?}");
    }
    // The counter-proof: root can do all of it without the view.
    if everyone().len() == 2 {
        let bare = in_child(Who::Same, || {
            fs::read("/etc/shadow").unwrap();
            fs::read("/proc/1/status").unwrap();
            fs::write(scratch.0.join("new"), "x").unwrap();
            run("/usr/bin/true", &[])
        });
        assert_eq!(bare, Ended::Exited(0));
    }
}

#[test]
fn an_ordinary_reader_gets_etc_by_one_rule() {
    let scratch = Scratch::new("plain");
    let filesystem = Filesystem::default();
    let plain = Inputs { privileged_reader: false, ..inputs(&filesystem, &scratch.0, &scratch.0) };
    let view = view(&plain).unwrap();
    assert!(view.rules.iter().any(|rule| rule.path == Path::new("/etc")));
    assert!(view.rules.len() < 40, "{} rules", view.rules.len());
}

#[test]
fn workspace_executes_what_it_reads_and_a_list_takes_that_back() {
    let scratch = Scratch::new("workspace");
    fs::copy("/bin/true", scratch.0.join("tool")).unwrap();
    let tool = scratch.0.join("tool");
    let filesystem = Filesystem::default();
    let base = Inputs { profile: Profile::Workspace, ..inputs(&filesystem, &scratch.0, &scratch.0) };
    let open = view(&base).unwrap();
    let ended = under(&open, Who::Same, || {
        fs::write(scratch.0.join("new"), "x").unwrap();
        run("/usr/bin/true", &[]) + run(tool.to_str().unwrap(), &[])
    });
    assert_eq!(ended, Ended::Exited(0));
    let listed = view(&Inputs { exec: Some(&[]), ..base }).unwrap();
    let ended = under(&listed, Who::Same, || {
        fs::write(scratch.0.join("new"), "x").unwrap();
        run("/usr/bin/true", &[])
    });
    assert_eq!(ended, Ended::Exited(126));
}

#[test]
fn deny_inside_read_is_carved_and_inside_write_is_a_hole() {
    let scratch = Scratch::new("deny");
    let data = scratch.0.join("data");
    for dir in ["data/open", "data/closed/deep"] {
        fs::create_dir_all(scratch.0.join(dir)).unwrap();
        fs::write(scratch.0.join(dir).join("file"), "x").unwrap();
    }
    std::os::unix::fs::symlink(data.join("closed"), data.join("link")).unwrap();
    let closed = data.join("closed/deep");
    let filesystem = Filesystem {
        read: Some(vec![data.clone()]),
        deny: Some(vec![closed.clone()]),
        ..Filesystem::default()
    };
    let elsewhere = Scratch::new("deny-cwd");
    let base = inputs(&filesystem, &elsewhere.0, &elsewhere.0);
    let carved = view(&base).unwrap();
    assert!(carved.hide.is_empty());
    let ended = under(&carved, Who::Same, || {
        fs::read(data.join("open/file")).unwrap();
        i32::from(fs::read(closed.join("file")).is_ok() || fs::read(data.join("link/deep/file")).is_ok())
    });
    assert_eq!(ended, Ended::Exited(0));
    let without = Filesystem { deny: None, ..filesystem.clone() };
    let open = view(&inputs(&without, &elsewhere.0, &elsewhere.0)).unwrap();
    let ended = under(&open, Who::Same, || i32::from(fs::read(closed.join("file")).is_ok()));
    assert_eq!(ended, Ended::Exited(1));
    let mounted = view(&Inputs { mounts: true, privileged_reader: false, ..base }).unwrap();
    assert_eq!(mounted.hide, [closed.as_path()]);
    let written = Filesystem { write: Some(vec![data.clone()]), ..filesystem };
    let hole = view(&inputs(&written, &elsewhere.0, &elsewhere.0)).unwrap();
    assert_eq!(hole.holes().collect::<Vec<_>>(), [closed.as_path()]);
}

#[test]
fn a_guarded_file_below_a_writable_directory_has_to_be_kept_by_mounts() {
    let scratch = Scratch::new("guarded");
    let policy = scratch.0.join("policy.toml");
    fs::write(&policy, "version = 1").unwrap();
    let filesystem = Filesystem::default();
    let guarded = [policy.clone(), PathBuf::from("/etc/guardexec/policy.toml")];
    let base = Inputs { guarded: &guarded, ..inputs(&filesystem, &scratch.0, &scratch.0) };
    let workspace = view(&Inputs { profile: Profile::Workspace, ..base }).unwrap();
    assert_eq!(workspace.keep, [policy]);
    let elsewhere = Scratch::new("guarded-tmp");
    assert!(view(&Inputs { tmp: &elsewhere.0, ..base }).unwrap().keep.is_empty());
}

#[test]
fn a_relative_interpreter_is_an_error_and_a_missing_one_optional() {
    let scratch = Scratch::new("interpreter");
    let script = scratch.0.join("script");
    fs::write(&script, "#!relative\n").unwrap();
    let filesystem = Filesystem::default();
    let base = inputs(&filesystem, &scratch.0, &scratch.0);
    assert!(view(&Inputs { program: &script, ..base }).is_err());
    fs::write(&script, "#!/nonexistent\n").unwrap();
    let rules = view(&Inputs { program: &script, ..base }).unwrap().rules;
    assert!(rules.iter().any(|rule| rule.path == Path::new("/nonexistent") && rule.optional));
}

#[test]
fn deny_follows_the_policys_links() {
    let scratch = Scratch::new("deny-link");
    fs::create_dir(scratch.0.join("real")).unwrap();
    std::os::unix::fs::symlink("real", scratch.0.join("link")).unwrap();
    let filesystem = Filesystem { deny: Some(vec![scratch.0.join("link")]), ..Filesystem::default() };
    let base = inputs(&filesystem, &scratch.0, &scratch.0);
    let view = view(&Inputs { mounts: true, privileged_reader: false, ..base }).unwrap();
    assert_eq!(view.hide, [scratch.0.join("real")]);
}

#[test]
fn who_reads_secrets() {
    assert!(privileged_reader(&Identity::PowerlessRoot));
    assert!(!privileged_reader(&Identity::Anonymous(1_900_000_000)));
    let shadow = Path::new("/etc/shadow");
    if everyone().len() == 2 && shadow.exists() {
        assert_eq!(in_child(Who::Same, || i32::from(privileged_reader(&Identity::Same))), Ended::Exited(1));
        assert_eq!(in_child(Who::Nobody, || i32::from(privileged_reader(&Identity::Same))), Ended::Exited(0));
    }
}
