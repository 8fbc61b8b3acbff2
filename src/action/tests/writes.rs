//! Writing: whole contents, modes and owners; and everybody who comes between.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::stat::Mode;

use super::super::beneath::Beneath;
use super::super::write::Fresh;
use super::*;

#[test]
fn a_write_is_the_whole_file_and_keeps_mode_and_other_names() {
    let scene = Scene::new("write");
    assert_eq!(scene.write("new", "one"), done("created 'new' (3 bytes)\n"));
    let mask = nix::sys::stat::umask(Mode::from_bits_truncate(0o022));
    nix::sys::stat::umask(mask);
    let mode = |path: &str| scene.root(path).metadata().unwrap().mode() & 0o7777;
    assert_eq!(mode("new"), 0o644 & !mask.bits());
    fs::hard_link(scene.root("new"), scene.root("other")).unwrap();
    fs::set_permissions(scene.root("new"), fs::Permissions::from_mode(0o4750)).unwrap();
    assert_eq!(scene.write("new", "two"), done("replaced 'new' (3 bytes)\n"));
    assert_eq!(mode("new"), 0o750, "no set-user-ID bit for another content");
    let content = |path: &str| fs::read_to_string(scene.root(path)).unwrap();
    assert_eq!((content("new"), content("other")), ("two".into(), "one".into()));
    assert_eq!(scene.write("sub/x", ""), done("created 'sub/x' (0 bytes)\n"));
    assert_eq!(scene.write("none/x", "y"), failed("'none' does not exist"));
    assert_eq!(scene.names(), ["new", "other", "sub"], "nothing is left over");
}

/// On a file system without files that have no name.
#[test]
fn a_write_by_way_of_another_name_leaves_nothing_behind_either() {
    let scene = Scene::new("named");
    scene.put("old", "old");
    for (path, replace) in [("old", true), ("new", false)] {
        let work = scene.work(ActionKind::WriteFile, path, "content");
        let place = Beneath::new(&work.root, &work.root_path, &work.call, &work.shield).unwrap();
        let fresh = Fresh::named(&place.dir).unwrap();
        fresh.fill(&place, None).unwrap();
        assert_eq!(scene.names().iter().filter(|name| name.starts_with(".guardexec-")).count(), 1);
        fresh.publish(&place.dir, place.name.unwrap(), replace).unwrap();
        assert_eq!(fs::read_to_string(scene.root(path)).unwrap(), "content");
        // One that is given up goes too.
        drop(Fresh::named(&place.dir).unwrap());
    }
    assert_eq!(scene.names(), ["new", "old", "sub"]);
}

#[test]
fn as_root_owners_stay_and_new_files_are_their_directorys() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let scene = Scene::new("owners");
    let own =
        |path: &str, uid, gid| std::os::unix::fs::chown(scene.root(path), Some(uid), Some(gid)).unwrap();
    let owner = |path: &str| {
        let found = scene.root(path).metadata().unwrap();
        (found.uid(), found.gid())
    };
    scene.put("a", "a");
    own("a", 12345, 12346);
    own("sub", 12347, 12348);
    assert_eq!(scene.write("a", "b"), done("replaced 'a' (1 bytes)\n"));
    assert_eq!(scene.write("sub/new", "b"), done("created 'sub/new' (1 bytes)\n"));
    assert_eq!((owner("a"), owner("sub/new")), ((12345, 12346), (12347, 12348)));
}

/// Somebody exchanges a directory on the way for a link out, and a file for a link out, as fast as can be.
#[test]
fn a_swapper_leads_nowhere() {
    let scene = Scene::new("swapper");
    fs::create_dir(scene.outside("dir")).unwrap();
    fs::write(scene.outside("dir/file"), "secret").unwrap();
    scene.put("way/file", "inside");
    symlink(scene.outside("dir"), scene.root("trap")).unwrap();
    scene.put("last", "inside");
    symlink(scene.outside("secret"), scene.root("bait")).unwrap();
    let stop = AtomicBool::new(false);
    let (mut inside, mut links) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let swap = |a: &Path, b: &Path| renameat2(AT_FDCWD, a, AT_FDCWD, b, RenameFlags::RENAME_EXCHANGE);
            while !stop.load(Ordering::Relaxed) {
                swap(&scene.root("way"), &scene.root("trap")).unwrap();
                let _ = swap(&scene.root("last"), &scene.root("bait"));
            }
        });
        for round in 0..5000 {
            let mut said = vec![scene.read("way/file"), scene.read("last")];
            // A write waits for the disk.
            if round % 20 == 0 {
                said.extend([scene.write("way/file", "inside"), scene.write("last", "inside")]);
            }
            for said in said {
                match said {
                    Said::Done(content) => {
                        let text = String::from_utf8(content).unwrap();
                        assert!(
                            text == "inside" || text.starts_with("replaced") || text.starts_with("created"),
                            "{text}"
                        );
                        inside += 1;
                    }
                    Said::Refused(refusal) => {
                        assert!(refusal.message.contains("is a symbolic link"), "{}", refusal.message);
                        links += 1;
                    }
                    // What was looked at is not there any more.
                    Said::Failed(_) => {}
                    Said::Broken(why) => panic!("{why}"),
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(inside > 100 && links > 100, "the swapper never came between: {inside} {links}");
    assert_eq!(fs::read_to_string(scene.outside("secret")).unwrap(), "secret");
    assert_eq!(fs::read_to_string(scene.outside("dir/file")).unwrap(), "secret");
    let left: Vec<String> = scene.names().into_iter().filter(|name| name.starts_with(".guardexec")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Many writers of one file: each reader sees one content whole.
#[test]
fn writers_at_once_leave_one_whole_content() {
    let scene = Scene::new("writers");
    scene.put("file", &"0".repeat(60));
    std::thread::scope(|scope| {
        for n in 1..=4 {
            let scene = &scene;
            scope.spawn(move || {
                for _ in 0..50 {
                    let content = n.to_string().repeat(60);
                    assert!(matches!(scene.write("file", &content), Said::Done(_)));
                    let Said::Done(read) = scene.read("file") else { panic!("no file") };
                    assert!(read.len() == 60 && read.iter().all(|b| *b == read[0]), "{read:?}");
                }
            });
        }
    });
    assert_eq!(scene.names(), ["file", "sub"]);
}
