//! Which words name files, and what is done with those that cannot be bound.

use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::symlink;

use super::*;
use crate::approval::tests::Scene;

/// Word, path, size.
type Name = (usize, String, Option<u64>);

fn names(scene: &Scene, words: &[&str]) -> Result<Vec<Name>, Box<Denial>> {
    let cwd = fs::File::open(&scene.dir).unwrap();
    let found = named(Ground { dir: cwd.as_fd(), cwd: &scene.dir, map: &[] }, words)?;
    let text = |bytes: &Bytes| String::from_utf8(bytes.0.clone()).unwrap();
    Ok(found.iter().map(|n| (n.word, text(&n.path), n.content.as_ref().map(|c| c.size))).collect())
}

#[test]
fn files_are_found_in_all_the_ways_words_name_them() {
    let scene = Scene::new();
    scene.file("a", "12345");
    scene.file("sub/b", "1");
    symlink("a", scene.dir.join("link")).unwrap();
    symlink("nowhere", scene.dir.join("broken")).unwrap();
    symlink("loop", scene.dir.join("loop")).unwrap();
    nix::unistd::mkfifo(&scene.dir.join("fifo"), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    let absolute = scene.dir.join("sub/b");
    let absolute = absolute.to_str().unwrap();
    let words = [
        "a",
        "a",
        "./a",
        "--file=a",
        "--file=@a",
        "if=sub/b",
        "-fa",
        "@link",
        "-I",
        "sub",
        "-Isub",
        absolute,
        "broken",
        "loop",
        "fifo",
        "none",
        "",
        "-",
        "/dev/null",
        "/proc/self/exe",
        "sub/../a",
    ];
    let file = |word, path: &str| (word, path.to_string(), Some(5));
    let expected = vec![
        file(1, "a"),
        file(2, "./a"),
        file(3, "a"),
        file(4, "a"),
        (5, "sub/b".into(), Some(1)),
        file(6, "a"),
        file(7, "link"),
        (9, "sub".into(), None),
        (10, "sub".into(), None),
        (11, absolute.into(), Some(1)),
        file(20, "sub/../a"),
    ];
    assert_eq!(names(&scene, &words).unwrap(), expected, "the program itself is bound apart");
}

#[test]
fn files_are_found_inside_of_words_too() {
    let scene = Scene::new();
    scene.file("a", "12345");
    scene.file("b", "1");
    fs::create_dir(scene.dir.join("sub")).unwrap();
    let url = format!("file://{}", scene.dir.join("a").display());
    for (word, expected) in [
        ("-xfa", &["a"][..]),
        ("-xvfa", &["a"]),
        ("-xf@a", &["a"]),
        ("-Wl,a", &["a"]),
        ("--x=y=a", &["a"]),
        ("name=@a;type=b", &["a", "b"]),
        ("@@a", &["a"]),
        ("a:b", &["a", "b"]),
        ("host:a,none", &["a"]),
        ("x:sub", &[]),
        ("--xfa", &[]),
        (&url, &[url.strip_prefix("file:").unwrap()]),
    ] {
        let found = names(&scene, &["x", word]).unwrap();
        assert_eq!(found.iter().map(|name| &name.1).collect::<Vec<_>>(), expected, "{word}");
    }
    let word = ",".repeat(MOST_LOOKS);
    assert!(names(&scene, &["x", &word]).is_ok(), "nothing to look up");
    let word = ",x".repeat(MOST_LOOKS / 2 + 1);
    assert!(names(&scene, &["x", &word]).is_ok(), "the same again");
    let words: Vec<String> = (0..=MOST_LOOKS).map(|n| n.to_string()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert!(names(&scene, &words).is_ok());
    let denial = names(&scene, &[&words[..], &["one more"]].concat()).unwrap_err();
    assert!(denial.message.contains("too many parts"), "{}", denial.message);
}

#[test]
fn what_proc_leads_to_is_what_it_is_for_the_run_or_cannot_be_bound() {
    let scene = Scene::new();
    scene.file("a", "12345");
    symlink("/proc/self/cwd", scene.dir.join("here")).unwrap();
    let absolute = format!("/proc/self/root{}", scene.dir.join("a").display());
    for word in ["/proc/self/cwd/a", "/proc/thread-self/cwd/./a", &absolute, "-f/proc/self/cwd/a"] {
        let found = names(&scene, &["x", word]).unwrap();
        assert_eq!(found.first().map(|name| name.2), Some(Some(5)), "{word}");
    }
    for word in ["/dev/stdin", "/dev/fd/3", "/proc/self/fd/0", "/proc/self/exe"] {
        assert_eq!(names(&scene, &["x", word]).unwrap(), [], "{word}");
    }
    let cargo = std::env::current_dir().unwrap().join("Cargo.toml");
    assert!(cargo.exists(), "guardexec's own working directory has it");
    let own = format!("/proc/{}/cwd/Cargo.toml", std::process::id());
    for word in ["here/Cargo.toml", &own] {
        let denial = names(&scene, &["x", word]).unwrap_err();
        assert!(denial.message.contains("a link of /proc leads to it"), "{word}: {}", denial.message);
    }
}

#[test]
fn what_is_mapped_is_found_where_the_run_sees_it() {
    let scene = Scene::new();
    scene.file("real/x", "123");
    scene.file("real/sub/y", "1234");
    scene.file("inner", "12345");
    scene.file("work/own", "1");
    symlink("/shown/x", scene.dir.join("work/link")).unwrap();
    symlink("../x", scene.dir.join("real/sub/up")).unwrap();
    symlink("loop", scene.dir.join("work/loop")).unwrap();
    let (cwd, at) = (scene.dir.join("work"), |name: &str| scene.dir.join(name));
    let map = [("/shown".into(), at("real")), ("/shown/deep".into(), at("inner"))];
    let dir = fs::File::open(&cwd).unwrap();
    let up = "../".repeat(cwd.components().count());
    let climbed = format!("{up}shown/x");
    for (word, size) in [
        ("/shown/x", Some(3)),
        ("/shown/sub/y", Some(4)),
        ("/shown/sub/../x", Some(3)),
        ("/shown/sub/up", Some(3)),
        ("/shown/deep", Some(5)),
        ("-f/shown/x", Some(3)),
        ("link", Some(3)),
        (&climbed, Some(3)),
        ("own", Some(1)),
        ("/shown/none", None),
        ("/shownx", None),
        ("loop", None),
    ] {
        let ground = Ground { dir: dir.as_fd(), cwd: &cwd, map: &map };
        let found = named(ground, &["x", word]).unwrap();
        let sizes: Vec<u64> = found.iter().filter_map(|name| Some(name.content.as_ref()?.size)).collect();
        assert_eq!(sizes.first().copied(), size, "{word}");
    }
}

#[test]
fn a_file_that_is_too_large_is_named() {
    let scene = Scene::new();
    let sparse = |name: &str, size| fs::File::create(scene.dir.join(name)).unwrap().set_len(size).unwrap();
    sparse("large", MOST_OF_ONE + 1);
    let denial = names(&scene, &["cat", "large"]).unwrap_err();
    assert_eq!(denial.code, "approval_unbindable");
    assert!(
        denial.message.ends_with("the content of 'large' cannot be bound: it is larger than 256 MiB"),
        "{}",
        denial.message
    );
    // In all, however many names the same file has.
    let mut reading = Reading { left: 6, seen: BTreeMap::new() };
    scene.file("four", "1234");
    let mut content =
        |name: &str| match look(fs::File::open(&scene.dir).unwrap().as_fd(), name.as_bytes()).unwrap() {
            Found::File(file, identity) => reading.content(name.as_bytes(), &file, identity),
            _ => panic!("{name} is no file"),
        };
    fs::hard_link(scene.dir.join("four"), scene.dir.join("same")).unwrap();
    assert_eq!(content("four").unwrap().size, 4);
    assert_eq!(content("same").unwrap().size, 4);
    scene.file("three", "123");
    let denial = content("three").unwrap_err();
    assert!(denial.message.ends_with("with the others it is more than 1 GiB"), "{}", denial.message);
}

#[test]
fn an_endless_file_is_not_read_to_its_end() {
    assert_eq!(read(fs::File::open("/dev/zero").unwrap(), 1 << 20).unwrap(), None);
}

#[test]
fn an_unreadable_file_is_named() {
    if nix::unistd::geteuid().is_root() {
        return; // root reads everything; the acceptance tests run as an ordinary user too
    }
    let scene = Scene::new();
    let file = scene.file("closed", "x");
    fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    let denial = names(&scene, &["cat", "closed"]).unwrap_err();
    assert!(
        denial.message.ends_with("the content of 'closed' cannot be bound: Permission denied"),
        "{}",
        denial.message
    );
}

#[test]
fn too_many_names_are_refused() {
    let scene = Scene::new();
    scene.file("a", "");
    let words = vec!["a"; MOST_NAMES + 1];
    assert_eq!(names(&scene, &words).unwrap().len(), MOST_NAMES);
    let words = vec!["a"; MOST_NAMES + 2];
    assert!(names(&scene, &words).unwrap_err().message.contains("more than 4096 files"));
}
