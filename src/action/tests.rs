//! Actions in this process, on real directories, with everything in them that an action must not touch.

mod kept;
mod writes;

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use nix::sys::stat::Mode;

use super::child::{Work, act, follow};
use super::*;
use crate::decision::ActionCall;
use crate::policy::model::ActionKind;
use crate::sandbox::raw::attack::Scratch;

/// A root with a sibling that nothing may reach.
struct Scene {
    scratch: Scratch,
    denied: Vec<PathBuf>,
    guarded: Vec<PathBuf>,
}

impl Scene {
    fn new(name: &str) -> Scene {
        let scratch = Scratch::new(&format!("action-{name}"));
        fs::create_dir_all(scratch.0.join("root/sub")).unwrap();
        fs::create_dir_all(scratch.0.join("outside")).unwrap();
        fs::write(scratch.0.join("outside/secret"), "secret").unwrap();
        Scene { scratch, denied: Vec::new(), guarded: Vec::new() }
    }

    fn root(&self, path: &str) -> PathBuf {
        self.scratch.0.join("root").join(path)
    }

    fn outside(&self, path: &str) -> PathBuf {
        self.scratch.0.join("outside").join(path)
    }

    fn put(&self, path: &str, content: &str) -> PathBuf {
        fs::create_dir_all(self.root(path).parent().unwrap()).unwrap();
        fs::write(self.root(path), content).unwrap();
        self.root(path)
    }

    fn work(&self, kind: ActionKind, path: &str, content: &str) -> Work {
        let root_path = self.scratch.0.join("root");
        let root = fs::File::open(&root_path).unwrap();
        let call = ActionCall::for_test(kind, path, content, 64);
        let shield = Shield::raise(&root_path, &self.denied, &self.guarded);
        Work { call, root: OwnedFd::from(root), root_path, shield, look: false }
    }

    fn act(&self, kind: ActionKind, path: &str) -> Said {
        act(&self.work(kind, path, ""))
    }

    fn read(&self, path: &str) -> Said {
        self.act(ActionKind::ReadFile, path)
    }

    fn list(&self, path: &str) -> Said {
        self.act(ActionKind::ListDir, path)
    }

    fn write(&self, path: &str, content: &str) -> Said {
        act(&self.work(ActionKind::WriteFile, path, content))
    }

    fn delete(&self, path: &str) -> Said {
        self.act(ActionKind::DeleteFile, path)
    }

    /// Every name below the root.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.root(""))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

fn done(text: &str) -> Said {
    Said::Done(text.as_bytes().to_vec())
}

fn failed(text: &str) -> Said {
    Said::Failed(text.into())
}

#[track_caller]
fn refused(said: Said, part: &str) {
    match said {
        Said::Refused(refusal) if refusal.message.contains(part) => {}
        other => panic!("{part:?} is not refused so: {other:?}"),
    }
}

#[test]
fn files_are_read_whole_or_not_at_all() {
    let scene = Scene::new("read");
    scene.put("a", "content\n");
    scene.put("sub/b", "");
    scene.put("fits", &"x".repeat(64));
    scene.put("large", &"x".repeat(65));
    assert_eq!(scene.read("a"), done("content\n"));
    assert_eq!(scene.read("sub/b"), done(""));
    assert_eq!(scene.read("fits"), done(&"x".repeat(64)));
    assert_eq!(scene.read("large"), failed("'large' is 65 bytes long, more than max_size 64"));
    assert_eq!(scene.read("none"), failed("'none' does not exist"));
    assert_eq!(scene.read("none/a"), failed("'none' does not exist"));
    assert_eq!(scene.read("a/b"), failed("'a' is not a directory"));
    assert_eq!(scene.read("sub"), failed("'sub' is a directory"));
    assert_eq!(
        scene.read(&format!("{}/x", "y".repeat(300))),
        failed(&format!("cannot read '{}/x': File name too long", "y".repeat(300)))
    );
}

#[test]
fn no_link_is_followed_anywhere() {
    let scene = Scene::new("links");
    scene.put("real", "real");
    scene.put("sub/real", "real");
    symlink("real", scene.root("file")).unwrap();
    symlink("sub", scene.root("dir")).unwrap();
    symlink("/", scene.root("slash")).unwrap();
    symlink("/proc/self/root", scene.root("proc")).unwrap();
    symlink(scene.outside("secret"), scene.root("out")).unwrap();
    symlink("../outside", scene.root("up")).unwrap();
    symlink(scene.outside("made"), scene.root("void")).unwrap();
    for path in ["file", "dir/real", "slash/etc/passwd", "proc/etc/passwd", "out", "up/secret", "void"] {
        refused(scene.read(path), "is a symbolic link");
        refused(scene.write(path, "owned"), "is a symbolic link");
        refused(scene.delete(path), "is a symbolic link");
    }
    for path in ["dir", "slash", "proc", "up"] {
        refused(scene.list(path), "is a symbolic link");
    }
    assert_eq!(fs::read_to_string(scene.outside("secret")).unwrap(), "secret");
    assert!(!scene.outside("made").exists());
    assert_eq!(fs::read_to_string(scene.root("real")).unwrap(), "real");
}

#[test]
fn magic_links_are_no_way_either() {
    // A root that holds them: every process's own directory.
    for path in ["self/root/etc/passwd", "self/cwd/Cargo.toml", "self/exe", "self/fd/0"] {
        let call = ActionCall::for_test(ActionKind::ReadFile, path, "", 1 << 20);
        let root = OwnedFd::from(fs::File::open("/proc").unwrap());
        let work = Work { call, root, root_path: "/proc".into(), shield: Shield::default(), look: false };
        refused(act(&work), "is a symbolic link");
    }
}

#[test]
fn only_regular_files_are_touched_and_nothing_waits() {
    let scene = Scene::new("special");
    nix::unistd::mkfifo(&scene.root("fifo"), Mode::from_bits_truncate(0o666)).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(scene.root("socket")).unwrap();
    for path in ["fifo", "socket"] {
        refused(scene.read(path), "is no regular file");
        refused(scene.write(path, "x"), "is no regular file");
        refused(scene.delete(path), "is no regular file");
    }
    assert_eq!(scene.write("sub", "x"), failed("'sub' is a directory"));
    assert_eq!(scene.delete("sub"), failed("'sub' is a directory"));
    assert_eq!(scene.list("fifo"), failed("'fifo' is not a directory"));
    assert_eq!(scene.names(), ["fifo", "socket", "sub"]);
}

#[test]
fn a_listing_is_sorted_marked_and_bounded() {
    let scene = Scene::new("list");
    scene.put("b", "");
    scene.put("a\nb", "");
    scene.put(".hidden", "");
    symlink("b", scene.root("link")).unwrap();
    assert_eq!(scene.list(""), done(".hidden\na\\x0ab\nb\nlink\tsymbolic link\nsub/\n"));
    assert_eq!(scene.list("sub"), done(""));
    assert_eq!(scene.list("b"), failed("'b' is not a directory"));
    assert_eq!(scene.list("none"), failed("'none' does not exist"));
    for n in 0..10 {
        scene.put(&format!("sub/file-{n}"), "");
    }
    assert_eq!(scene.list("sub"), failed("the listing of 'sub' is longer than max_size 64"));
}

/// What a child that says nothing comes to: each in a process of its own, for the signals are the process's.
#[test]
fn an_action_ends_when_its_time_is_up_or_when_it_is_told_to() {
    let waits = |deadline: Option<u64>, stop: Stop<'_>, signal: Option<i32>| {
        let caught = Caught::install(&crate::run::END_SIGNALS).unwrap();
        let (answer, _silent) = fd::pipe().unwrap();
        if let Some(signal) = signal {
            process::kill(process::own_pid(), signal).unwrap();
        }
        let deadline = deadline.map(|ms| Instant::now() + Duration::from_millis(ms));
        Waiting { answer, deadline, stop, caught: &caught }.wait().unwrap()
    };
    let told = || true;
    let inside = |body: &dyn Fn() -> bool| {
        let pid = process::fork_for_test(|| i32::from(!body()));
        loop {
            match process::try_wait(pid) {
                Waited::Reaped(_, status, _) => break assert_eq!(status, 0),
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    };
    inside(&|| matches!(waits(Some(50), None, None), How::TimedOut));
    inside(&|| matches!(waits(Some(60_000), Some(&told), None), How::Stopped));
    inside(&|| matches!(waits(None, None, Some(libc::SIGTERM)), How::Cancelled(libc::SIGTERM)));
}

/// In a process of its own: what it binds itself to, and whom it becomes, is the process's.
#[test]
fn whoever_does_it_dies_with_guardexec_whoever_that_is() {
    let scene = Scene::new("follow");
    let root = OwnedFd::from(fs::File::open(scene.root("")).unwrap());
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(scene.root(""), Some(65_534), Some(65_534)).unwrap();
    }
    let own = process::own_pid();
    let signal = || nix::sys::prctl::get_pdeathsig().ok().flatten();
    let bound = process::fork_for_test(|| {
        let ready = super::identity::assume(&root).and_then(|()| follow(own));
        i32::from(ready.is_err() || signal() != Some(nix::sys::signal::Signal::SIGKILL))
    });
    // The parent that this one asks for is not its own, as where guardexec died and another process took the child over.
    let orphan = process::fork_for_test(|| i32::from(!matches!(follow(1), Err(Said::Broken(_)))));
    for pid in [bound, orphan] {
        assert_eq!(crate::state::tests::reaped(pid), 0);
    }
}

#[test]
fn a_look_says_what_would_be_met_and_changes_nothing() {
    let mut scene = Scene::new("look");
    scene.put("a", "content");
    scene.put("large", &"x".repeat(65));
    scene.put(".bashrc", "");
    symlink(scene.outside("secret"), scene.root("link")).unwrap();
    symlink(scene.outside(""), scene.root("dir")).unwrap();
    nix::unistd::mkfifo(&scene.root("fifo"), Mode::from_bits_truncate(0o666)).unwrap();
    scene.put("kept", "");
    scene.denied = vec![scene.root("kept")];
    let look = |kind, path: &str| act(&Work { look: true, ..scene.work(kind, path, "new") });
    let before = (scene.names(), fs::metadata(scene.root("a")).unwrap().modified().unwrap());
    for (kind, says) in [
        (ActionKind::ReadFile, "'a' is a file of 7 bytes"),
        (ActionKind::WriteFile, "'a' is there, and would be replaced"),
        (ActionKind::DeleteFile, "'a' is there, and would be deleted"),
    ] {
        assert_eq!(look(kind, "a"), done(says));
        for path in ["link", "dir/secret"] {
            refused(look(kind, path), "is a symbolic link");
        }
        refused(look(kind, "fifo"), "is no regular file");
        refused(look(kind, "kept"), "lies in what [filesystem] deny keeps");
        assert_eq!(look(kind, "sub"), failed("'sub' is a directory"));
        assert_eq!(look(kind, "none/x"), failed("'none' does not exist"));
    }
    assert_eq!(look(ActionKind::WriteFile, "new"), done("'new' is not there, and would be made"));
    assert_eq!(look(ActionKind::ReadFile, "new"), failed("'new' does not exist"));
    assert_eq!(
        look(ActionKind::ReadFile, "large"),
        failed("'large' is 65 bytes long, more than max_size 64")
    );
    refused(look(ActionKind::WriteFile, ".bashrc"), "make the host run code");
    assert_eq!(look(ActionKind::ListDir, ""), done("'.' is a directory"));
    refused(look(ActionKind::ListDir, "dir"), "is a symbolic link");
    assert_eq!(look(ActionKind::ListDir, "a"), failed("'a' is not a directory"));
    assert_eq!((scene.names(), fs::metadata(scene.root("a")).unwrap().modified().unwrap()), before);
    assert_eq!(fs::read_to_string(scene.root("a")).unwrap(), "content");
}

#[test]
fn a_name_is_deleted_and_nothing_else() {
    let scene = Scene::new("delete");
    scene.put("a", "a");
    fs::hard_link(scene.root("a"), scene.outside("a")).unwrap();
    assert_eq!(scene.delete("a"), done("deleted 'a'\n"));
    assert_eq!(fs::read_to_string(scene.outside("a")).unwrap(), "a");
    assert_eq!(scene.delete("a"), failed("'a' does not exist"));
}
