//! What a process in the new mounts can do, as root and in a user namespace, and that the host never sees it.

use crate::policy::model::Filesystem;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::super::identity::{self, Identity};
use super::super::raw::attack::{Ended, Scratch, Who, everyone, in_child, own_mounts, syscall};
use super::super::view::{self, Inputs};
use super::*;
use crate::policy::model::Profile;

const SIZE: u64 = 4 << 20;

/// A working directory below /tmp with a file, readable and writable by all.
struct Ground {
    cwd: Scratch,
    lists: Filesystem,
    profile: Profile,
    guarded: Vec<PathBuf>,
}

impl Ground {
    fn new(name: &str, profile: Profile) -> Ground {
        let cwd = Scratch::new(name);
        fs::write(cwd.0.join("file"), "host").unwrap();
        Ground { cwd, lists: Filesystem::default(), profile, guarded: Vec::new() }
    }

    fn open_to_all(&self) {
        let mut below = vec![self.cwd.0.clone()];
        while let Some(path) = below.pop() {
            if path.is_dir() {
                below.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
            }
            if everyone().len() == 2 {
                super::super::raw::attack::give_to_nobody(&path);
            }
        }
    }

    fn prepare(&self, kept: Option<&keep::Kept>) -> Prepared {
        let places = TmpPlaces::find();
        let tmp = places.first(&self.cwd.0, &self.lists).unwrap();
        let inputs = Inputs {
            profile: self.profile,
            cwd: &self.cwd.0,
            filesystem: &self.lists,
            program: Path::new("/bin/sh"),
            exec: None,
            tmp: &tmp,
            guarded: &self.guarded,
            mounts: true,
            own_proc: false,
            privileged_reader: true,
            owns_system: false,
            refuse_tcp: true,
        };
        let view = view::view(&inputs).unwrap();
        let spec = Spec {
            view: &view,
            cwd: &self.cwd.0,
            tmp_size: SIZE,
            kept,
            places: &places,
            map: &self.lists.map,
            own_proc: false,
        };
        let prepared = Prepared::new(&spec).unwrap();
        assert_eq!(prepared.tmp, tmp);
        prepared
    }

    /// Runs `body` within the mounts, without capabilities, as everybody.
    fn inside(&self, kept: Option<&keep::Kept>, body: impl Fn()) {
        self.open_to_all();
        for who in everyone() {
            let prepared = self.prepare(kept);
            let ended = in_child(*who, || {
                if !own_mounts() {
                    return 77;
                }
                apply(&prepared).map_err(|(n, e)| (prepared.describe(n), e)).unwrap();
                // As the owner of the files, in either case, but without any capability.
                let root = *who == Who::Same && everyone().len() == 2;
                let identity = if root { Identity::User { uid: 65534, gid: 65534 } } else { Identity::Same };
                identity::apply(&identity::Prepared::new(identity, true)).unwrap();
                body();
                0
            });
            if ended == Ended::Exited(77) {
                eprintln!("SKIPPED: no mount namespace for {who:?}");
                continue;
            }
            assert_eq!(ended, Ended::Exited(0), "{who:?}");
        }
    }
}

fn errno(result: std::io::Result<()>) -> i32 {
    result.err().and_then(|e| e.raw_os_error()).unwrap_or(0)
}

#[test]
fn everything_is_read_only_but_tmp_and_what_may_be_written() {
    let ground = Ground::new("mount-strict", Profile::Strict);
    let mine = ground.cwd.0.join("file");
    let mark = format!("guardexec-mark-{}", std::process::id());
    let outside = std::env::temp_dir().join(&mark);
    fs::write(&outside, "host").unwrap();
    ground.inside(None, || {
        assert_eq!(fs::read(&mine).unwrap(), b"host");
        assert_eq!(errno(fs::write(&mine, "x")), libc::EROFS);
        // What Landlock does not mediate: modes, times, attributes of files that the run owns.
        assert_eq!(errno(fs::set_permissions(&mine, fs::Permissions::from_mode(0o777))), libc::EROFS);
        assert!(fs::write("/etc/guardexec-new", "x").is_err());
        assert!(!outside.exists(), "the host's /tmp is not seen");
        fs::write(format!("/tmp/{mark}-in"), "x").unwrap();
        assert!(Path::new("/var/tmp").join(format!("{mark}-in")).exists(), "one tmp in all places");
        fs::remove_file(format!("/dev/shm/{mark}-in")).unwrap();
        fs::write(format!("/tmp/{mark}-left"), "x").unwrap();
    });
    assert!(!std::env::temp_dir().join(format!("{mark}-left")).exists());
    assert_eq!(fs::read(&mine).unwrap(), b"host");
    fs::remove_file(outside).unwrap();
    // The counter-proof: the owner can write and chmod without the mounts.
    for who in everyone() {
        let bare = in_child(*who, || {
            fs::set_permissions(&mine, fs::Permissions::from_mode(0o644)).unwrap();
            errno(fs::write(&mine, "host"))
        });
        assert_eq!(bare, Ended::Exited(0));
    }
}

#[test]
fn the_tmp_has_a_size() {
    let ground = Ground::new("mount-size", Profile::Strict);
    ground.inside(None, || {
        fs::write("/tmp/fits", vec![0_u8; (SIZE / 2) as usize]).unwrap();
        assert_eq!(errno(fs::write("/tmp/too-much", vec![0_u8; SIZE as usize])), libc::ENOSPC);
        let many = (0..5000).map(|n| fs::write(format!("/var/tmp/{n}"), "")).find_map(Result::err);
        assert_eq!(many.and_then(|e| e.raw_os_error()), Some(libc::ENOSPC));
    });
}

#[test]
fn mounts_cannot_be_taken_off() {
    let ground = Ground::new("mount-off", Profile::Strict);
    ground.inside(None, || {
        let tmp = c"/tmp".as_ptr() as u64;
        assert_eq!(syscall(libc::SYS_umount2, [tmp, 2, 0, 0, 0, 0]), Err(libc::EPERM));
        let remount = libc::MS_REMOUNT | libc::MS_BIND;
        let root = c"/".as_ptr() as u64;
        assert_eq!(syscall(libc::SYS_mount, [root, root, 0, remount, 0, 0]), Err(libc::EPERM));
    });
}

#[test]
fn deny_inside_a_writable_directory_is_hidden() {
    let mut ground = Ground::new("mount-deny", Profile::Workspace);
    let cwd = ground.cwd.0.clone();
    fs::create_dir(cwd.join("closed")).unwrap();
    fs::write(cwd.join("closed/key"), "key").unwrap();
    fs::write(cwd.join("secret"), "key").unwrap();
    fs::set_permissions(cwd.join("secret"), fs::Permissions::from_mode(0o666)).unwrap();
    ground.lists.deny = Some(vec![cwd.join("closed"), cwd.join("secret")]);
    ground.inside(None, || {
        fs::write(cwd.join("new"), "x").unwrap();
        fs::remove_file(cwd.join("new")).unwrap();
        for path in ["closed/key", "secret"] {
            assert!(fs::read(cwd.join(path)).is_err(), "{path}");
            assert!(fs::write(cwd.join(path), "x").is_err(), "{path}");
        }
        assert!(fs::read_dir(cwd.join("closed")).is_err());
        assert_eq!(
            errno(fs::set_permissions(cwd.join("secret"), fs::Permissions::from_mode(0o666))),
            libc::EROFS
        );
        assert_eq!(errno(fs::rename(cwd.join("secret"), cwd.join("got"))), libc::EBUSY);
        assert_eq!(errno(fs::rename(cwd.join("closed"), cwd.join("got"))), libc::EBUSY);
        assert_eq!(fs::read_dir("/tmp").unwrap().count(), 1, "the stand-ins are gone");
    });
    assert_eq!(fs::read(cwd.join("closed/key")).unwrap(), b"key");
}

#[test]
fn what_was_to_be_hidden_and_is_gone_stops_nothing() {
    let mut ground = Ground::new("mount-gone", Profile::Workspace);
    let cwd = ground.cwd.0.clone();
    for name in ["gone", "stays"] {
        fs::write(cwd.join(name), "key").unwrap();
    }
    ground.lists.deny = Some(vec![cwd.join("gone"), cwd.join("stays")]);
    let prepared = ground.prepare(None);
    fs::remove_file(cwd.join("gone")).unwrap();
    let ended = in_child(Who::Same, || {
        if !own_mounts() {
            return 77;
        }
        apply(&prepared).map_err(|(n, e)| (prepared.describe(n), e)).unwrap();
        let hidden = fs::metadata(cwd.join("stays")).unwrap().permissions().mode() & 0o777 == 0;
        i32::from(!hidden || cwd.join("gone").exists())
    });
    assert!([Ended::Exited(0), Ended::Exited(77)].contains(&ended), "{ended:?}");
}

#[test]
fn a_guarded_file_below_the_workspace_is_read_only() {
    let mut ground = Ground::new("mount-guarded", Profile::Workspace);
    let policy = ground.cwd.0.join("policy.toml");
    fs::write(&policy, "version = 1").unwrap();
    ground.guarded = vec![policy.clone()];
    ground.inside(None, || {
        assert_eq!(errno(fs::write(&policy, "x")), libc::EROFS);
        assert_eq!(errno(fs::remove_file(&policy)), libc::EBUSY);
        assert_eq!(errno(fs::rename(ground.cwd.0.join("file"), &policy)), libc::EBUSY);
    });
}

#[test]
fn a_read_only_map_shows_another_directory() {
    let mut ground = Ground::new("mount-map", Profile::Strict);
    let extract = Scratch::new("mount-map-from");
    fs::write(extract.0.join("data"), "data").unwrap();
    ground.lists.map = vec![("/srv".into(), extract.0.clone())];
    ground.inside(None, || {
        assert_eq!(fs::read("/srv/data").unwrap(), b"data");
        assert!(fs::write("/srv/data", "x").is_err());
    });
    // A mount point that does not exist is made in a root of the run's own, never on the host.
    ground.lists.map = vec![("/guardexec-data/deep".into(), extract.0.clone())];
    ground.inside(None, || {
        assert_eq!(fs::read("/guardexec-data/deep/data").unwrap(), b"data");
        assert!(fs::write("/guardexec-data/deep/data", "x").is_err());
        assert!(fs::write("/guardexec-data/new", "x").is_err() && fs::create_dir("/new").is_err());
        assert_eq!(fs::read(ground.cwd.0.join("file")).unwrap(), b"host");
        assert_eq!(errno(fs::write(ground.cwd.0.join("file"), "x")), libc::EROFS);
        fs::write("/tmp/mine", "x").unwrap();
        assert!(Path::new("/bin/sh").exists() && Path::new("/proc/self/status").exists());
        let all = fs::read_dir("/").unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
        assert!(all.contains(&"guardexec-data".into()) && all.contains(&"usr".into()), "{all:?}");
    });
    assert!(!Path::new("/guardexec-data").exists());
    ground.lists.map = vec![("/usr/nonexistent".into(), extract.0.clone())];
    let view = View::default();
    let spec = Spec {
        view: &view,
        cwd: &ground.cwd.0,
        tmp_size: SIZE,
        kept: None,
        places: &TmpPlaces::find(),
        map: &ground.lists.map,
        own_proc: false,
    };
    assert_eq!(Prepared::new(&spec).unwrap_err(), Error::MapTarget("/usr/nonexistent".into()));
}

fn found(cwd: &Path) -> keep::Kept {
    let roots = [cwd.to_owned()];
    keep::find(&roots, &super::super::repositories::Repositories::below(&roots))
}

/// Whatever a submodule is called, and however many entries the directory has.
#[test]
fn every_git_directory_of_the_workspace_is_found() {
    let cwd = Scratch::new("keep-modules");
    let git = cwd.0.join(".git");
    let modules =
        ["a", "third_party/lib", "third_party/lib/modules/inner"].map(|m| git.join("modules").join(m));
    for dir in modules.iter().chain([&git]) {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("HEAD"), "").unwrap();
        fs::write(dir.join("config"), "").unwrap();
    }
    // Planted: what looks like a git directory must not hide those below it.
    fs::write(git.join("modules/third_party/HEAD"), "").unwrap();
    fs::create_dir_all(git.join("worktrees/w")).unwrap();
    fs::write(git.join("worktrees/w/commondir"), "../..").unwrap();
    for n in 0..5000 {
        fs::write(cwd.0.join(format!("{n}")), "").unwrap();
    }
    let kept = found(&cwd.0);
    for dir in modules.iter().chain([&git]) {
        for name in ["config", "hooks", "info"] {
            assert!(kept.read_only.contains(&dir.join(name)), "{dir:?}/{name}");
        }
        assert!(kept.in_place.contains(dir), "{dir:?}");
    }
    assert!(kept.in_place.contains(&git.join("modules/third_party")));
    assert!(kept.read_only.contains(&git.join("worktrees/w/commondir")));
    assert!(kept.in_place.contains(&git.join("worktrees/w")));
}

#[test]
fn repositories_commit_but_their_hooks_and_settings_stay() {
    let ground = Ground::new("mount-git", Profile::Workspace);
    let cwd = ground.cwd.0.clone();
    let git = |words: &str, dir: &Path| {
        let mut command = Command::new("sh");
        let safe = format!("git -c safe.directory='*' -c user.name=n -c user.email=a@b {words}");
        command.args(["-c", &safe]).current_dir(dir).env("HOME", "/nonexistent");
        command.output().map(|out| out.status.success()).unwrap_or(false)
    };
    if !git("init -q .", &cwd) {
        eprintln!("SKIPPED: git is not installed");
        return;
    }
    fs::create_dir_all(cwd.join("deep/er")).unwrap();
    assert!(git("init -q deep/er", &cwd));
    fs::remove_dir_all(cwd.join(".git/hooks")).unwrap();
    fs::create_dir(cwd.join(".vscode")).unwrap();
    let kept = found(&cwd);
    assert!(!kept.incomplete && kept.absent.contains(&cwd.join(".envrc")));
    ground.inside(Some(&kept), || {
        for repository in [cwd.clone(), cwd.join("deep/er")] {
            let inside = repository.join(".git");
            fs::write(repository.join("f"), "x").unwrap();
            assert!(git("add f", &repository));
            assert!(git("commit -qm one --allow-empty", &repository));
            for path in ["hooks/pre-commit", "config", "info/attributes", "config.lock2"] {
                let refused = fs::write(inside.join(path), "x").is_err();
                assert_eq!(refused, path != "config.lock2", "{path}");
            }
            assert_eq!(errno(fs::remove_dir(inside.join("hooks"))), libc::EBUSY);
            assert_eq!(errno(fs::rename(&inside, repository.join("old"))), libc::EBUSY);
            assert!(!git("config core.fsmonitor evil", &repository));
            fs::remove_file(inside.join("config.lock2")).unwrap();
        }
        assert_eq!(errno(fs::rename(cwd.join("deep/er"), cwd.join("deep/away"))), libc::EBUSY);
        assert_eq!(errno(fs::rename(cwd.join("deep"), cwd.join("away"))), libc::EBUSY);
        assert_eq!(errno(fs::write(cwd.join(".vscode/tasks.json"), "x")), libc::EROFS);
    });
    // The counter-proof: without the mounts a hook is planted.
    let bare = in_child(Who::Same, || errno(fs::write(cwd.join(".git/hooks/pre-commit"), "x")));
    assert_eq!(bare, Ended::Exited(0));
}

#[test]
fn a_place_that_the_run_names_is_not_covered() {
    let places = TmpPlaces::find();
    let lists = Filesystem { write: Some(vec!["/var/tmp".into()]), ..Filesystem::default() };
    assert_eq!(places.first(Path::new("/tmp"), &lists), Some("/dev/shm".into()));
    assert_eq!(places.first(Path::new("/tmp/x"), &lists), Some("/tmp".into()));
    let all = Filesystem { write: Some(vec!["/var/tmp".into(), "/dev".into()]), ..Filesystem::default() };
    assert_eq!(places.first(Path::new("/tmp"), &all), None);
}
