//! The built-in actions through the real binary: what they do, as whom, and what nobody gets them to do.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::stat::Mode;
use serde_json::json;

use super::{filing, request, tool};
use crate::harness::{Answer, As, Bench, Call, NOBODY};

const FOUR: &str = "[tools.read_file]\naction = \"read_file\"\nroot = \"./files\"\nmax_size = \"64K\"\ndecision = \"allow\"\n[tools.list_dir]\naction = \"list_dir\"\n\
                    root = \"./files\"\ndecision = \"allow\"\n[tools.write_file]\naction = \"write_file\"\nroot = \"./files\"\nmax_size = \"64K\"\ndecision = \"allow\"\n\
                    [tools.delete_file]\naction = \"delete_file\"\nroot = \"./files\"\ndecision = \"allow\"\n";

/// The root of the actions, the bench user's own.
fn files(bench: &Bench) -> PathBuf {
    let dir = bench.dir.join("files");
    fs::create_dir_all(dir.join("sub")).expect("mkdir");
    bench.give(&dir);
    bench.give(&dir.join("sub"));
    dir
}

fn four(bench: &Bench) -> Call<'_> {
    bench.policy(FOUR)
}

#[track_caller]
fn failed(answer: &Answer, sentence: &str) {
    assert_eq!((answer.status(), answer.exit), ("nonzero_exit", 1), "{}", answer.show());
    assert_eq!(answer.str("stderr"), format!("{sentence}\n"), "{}", answer.show());
    assert_eq!(answer.str("text"), format!("{sentence}\nexit=1"));
}

/// Refused when it was to be done: decided as allowed, and the outcome says no.
#[track_caller]
fn refused(answer: &Answer, part: &str) {
    assert_eq!(
        (answer.status(), answer.exit, answer.str("stage")),
        ("denied", 126, "sandbox"),
        "{}",
        answer.show()
    );
    assert!(
        answer.str("text").starts_with("blocked: ") && answer.str("text").contains(part),
        "{}",
        answer.show()
    );
    assert_eq!(answer.str("stdout"), "");
    let events: Vec<&str> = answer.audit.iter().filter_map(|r| r["event"].as_str()).collect();
    assert_eq!(events, ["decision", "outcome"], "{}", answer.show());
    assert_eq!(answer.audit[1]["severity"], "warning");
}

as_both! {
    fn files_are_written_listed_read_and_deleted(bench) {
        let dir = files(bench);
        let write = tool(four(bench), "write_file", &["path=sub/a b.txt", "content=hello\nworld"]);
        write.ok("created 'sub/a b.txt' (11 bytes)\n");
        assert_eq!(fs::read_to_string(dir.join("sub/a b.txt")).expect("a file"), "hello\nworld");
        assert!(write.json["program"].is_null() && write.json["argv"].is_null() && write.json["sandbox"].is_null(), "{}", write.show());
        assert_eq!((write.json["cwd"].as_str(), write.json["exit_code"].as_u64()), (dir.to_str(), Some(0)));
        assert_eq!(write.json["limits"]["wall_time"]["how"], "exact");
        let events: Vec<&str> = write.audit.iter().filter_map(|r| r["event"].as_str()).collect();
        assert_eq!(events, ["decision", "outcome"]);
        assert_eq!(write.audit[0]["tool"]["arguments"]["path"], "sub/a b.txt");
        assert!(!format!("{:?}", write.audit).contains("hello"), "content is in no record\n{}", write.show());
        tool(four(bench), "read_file", &["path=./sub/a b.txt"]).ok("hello\nworld");
        tool(four(bench), "list_dir", &[]).ok("sub/\n");
        tool(four(bench), "list_dir", &["path=sub"]).ok("a b.txt\n");
        request(four(bench), "write_file", &json!({"path": "sub/a b.txt", "content": ""})).ok("replaced 'sub/a b.txt' (0 bytes)\n");
        assert_eq!(tool(four(bench), "read_file", &["path=sub/a b.txt"]).str("text"), "(exit=0, no output)");
        tool(four(bench), "delete_file", &["path=sub/a b.txt"]).ok("deleted 'sub/a b.txt'\n");
        failed(&tool(four(bench), "read_file", &["path=sub/a b.txt"]), "'sub/a b.txt' does not exist");
        failed(&tool(four(bench), "delete_file", &["path=sub"]), "'sub' is a directory");
        failed(&tool(four(bench), "write_file", &["path=no/x", "content=x"]), "'no' does not exist");
        fs::write(dir.join("bytes"), b"a\xff\0").expect("write");
        let read = tool(four(bench), "read_file", &["path=bytes"]);
        assert_eq!((read.str("stdout"), read.str("stdout_base64"), read.json["stdout_bytes"].as_u64()), ("a\u{fffd}\0", "Yf8A", Some(3)), "{}", read.show());
        let raw = four(bench).opt(["--output", "raw", "--tool", "read_file", "--arg", "path=bytes"]).raw();
        assert_eq!((raw.exit, raw.stdout.as_slice(), raw.stderr.as_str()), (0, &b"a\xff\0"[..], ""));
        let raw = four(bench).opt(["--output", "raw", "--tool", "read_file", "--arg", "path=none"]).raw();
        assert_eq!((raw.exit, raw.stdout.as_slice(), raw.stderr.as_str()), (1, &b""[..], "'none' does not exist\n"));
    }
}

as_both! {
    fn explain_looks_at_the_disk_and_changes_nothing(bench) {
        let dir = files(bench);
        fs::write(dir.join("a"), "content").expect("write");
        fs::write(dir.join("large"), "x".repeat((64 << 10) + 1)).expect("write");
        symlink("/etc", dir.join("link")).expect("link");
        fs::create_dir(dir.join("closed")).expect("mkdir");
        for path in ["a", "large", "closed"] {
            bench.give(&dir.join(path));
        }
        fs::set_permissions(dir.join("closed"), fs::Permissions::from_mode(0o500)).expect("chmod");
        let _ = four(bench);
        let policy = bench.dir.join("policy.toml");
        let look = |name: &str, args: &[&str]| {
            let call = bench.call().opt(["explain", "--json", "--tool", name, "--policy"]).opt([&policy]);
            let answer = call.opt(args.iter().flat_map(|arg| ["--arg", *arg])).raw();
            let last = answer.json["stages"].as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
            assert_eq!(answer.exit, if last["outcome"] == "deny" { 126 } else { 0 }, "{}", answer.show());
            assert_eq!(last["stage"], "sandbox", "{}", answer.show());
            (last["outcome"].as_str().unwrap_or_default().to_owned(), last["detail"].as_str().unwrap_or_default().to_owned())
        };
        let said = |outcome: &str, detail: &str| (outcome.to_owned(), detail.to_owned());
        assert_eq!(look("read_file", &["path=a"]), said("ready", "'a' is a file of 7 bytes"));
        assert_eq!(look("read_file", &["path=none"]), said("fails", "'none' does not exist"));
        assert_eq!(look("read_file", &["path=large"]), said("fails", "'large' is 65537 bytes long, more than max_size 65536"));
        assert_eq!(look("write_file", &["path=new", "content=x"]), said("ready", "'new' is not there, and would be made"));
        assert_eq!(look("delete_file", &["path=a"]), said("ready", "'a' is there, and would be deleted"));
        assert_eq!(look("list_dir", &[]), said("ready", "'.' is a directory"));
        for (name, args) in [("read_file", &["path=link/passwd"][..]), ("write_file", &["path=link/x", "content="]), ("list_dir", &["path=link"])] {
            let (outcome, detail) = look(name, args);
            assert!(outcome == "deny" && detail.contains("is a symbolic link"), "{outcome}: {detail}");
        }
        let (outcome, detail) = look("write_file", &["path=.git/config", "content=x"]);
        assert!(outcome == "deny" && detail.contains("make the host run code"), "{outcome}: {detail}");
        // As whom a run would do it: beneath the user's own directory nobody may more than the user.
        let closed = look("write_file", &["path=closed/x", "content=x"]);
        let wanted = if bench.who == As::User { said("fails", "cannot write 'closed/x': Permission denied") } else { said("ready", "'closed/x' is not there, and would be made") };
        assert_eq!(closed, wanted);
        assert_eq!((fs::read_to_string(dir.join("a")).expect("there").as_str(), dir.join("new").exists()), ("content", false));
        // What a check has yet to let pass is nobody's to learn this way.
        let check = bench.script("check", "#!/bin/sh\ncat > /dev/null\necho '{\"verdict\": \"block\"}'\n");
        let _ = bench.policy(&format!("{FOUR}[[check]]\nname = \"c\"\non = \"request\"\nmatch = \"read_file\"\nrun = {check:?}\n"));
        let unseen = said("not run", "not looked at: a check decides first");
        assert_eq!((look("read_file", &["path=a"]), look("read_file", &["path=none"])), (unseen.clone(), unseen));
        assert_eq!(look("list_dir", &[]), said("ready", "'.' is a directory"));
        assert!(!bench.dir.join("audit.jsonl").exists());
    }
}

as_both! {
    fn a_second_name_is_no_way_into_a_denied_directory(bench) {
        let dir = files(bench);
        fs::create_dir_all(bench.dir.join("private/deep")).expect("mkdir");
        let key = bench.file("private/deep/key", "k");
        fs::hard_link(&key, dir.join("alias")).expect("link");
        tool(four(bench), "read_file", &["path=alias"]).ok("k");
        let denies = bench.policy(&format!("{FOUR}[filesystem]\ndeny = [\"./private\"]\n"));
        refused(&tool(denies, "read_file", &["path=alias"]), "has more than one name (hard links)");
    }
}

as_both! {
    fn sizes_are_bounded(bench) {
        let dir = files(bench);
        fs::write(dir.join("fits"), "x".repeat(64 << 10)).expect("write");
        fs::write(dir.join("large"), "x".repeat((64 << 10) + 1)).expect("write");
        assert_eq!(tool(four(bench), "read_file", &["path=fits"]).json["stdout_bytes"], 64 << 10);
        failed(&tool(four(bench), "read_file", &["path=large"]), "'large' is 65537 bytes long, more than max_size 65536");
        let content = "x".repeat((64 << 10) + 1);
        request(four(bench), "write_file", &json!({"path": "new", "content": content})).denied_by("arguments", &["validation error: argument 'content' is 65537 bytes long, more than max_size 65536"]);
        assert!(!dir.join("new").exists());
    }
}

as_both! {
    fn no_path_leads_out_of_the_root(bench) {
        let dir = files(bench);
        let secret = bench.file("secret", "secret");
        symlink(&secret, dir.join("link")).expect("link");
        symlink("..", dir.join("up")).expect("link");
        symlink("/proc/self/root", dir.join("proc")).expect("link");
        symlink("/proc/self/cwd", dir.join("cwd")).expect("link");
        for path in ["../secret", "sub/../../secret", "..", "/etc/passwd", "/proc/self/root/etc/passwd", secret.to_str().expect("UTF-8"), ""] {
            for (name, extra) in [("read_file", None), ("write_file", Some("content=owned")), ("delete_file", None)] {
                let path = format!("path={path}");
                let args: Vec<&str> = std::iter::once(path.as_str()).chain(extra).collect();
                tool(four(bench), name, &args).denied_by("arguments", &["validation error: argument 'path' "]);
            }
        }
        let inside = format!("path={}/sub/x", dir.display());
        tool(four(bench), "read_file", &[&inside]).denied_by("arguments", &["is absolute, and paths are relative to the tool's directory: write 'sub/x'"]);
        for path in ["link", "up/secret", "proc/etc/passwd", "cwd/x", "sub/../link"] {
            if path.contains("..") { continue; }
            let path = format!("path={path}");
            refused(&tool(four(bench), "read_file", &[&path]), "is a symbolic link, which no action follows");
            refused(&tool(four(bench), "write_file", &[&path, "content=owned"]), "is a symbolic link");
            refused(&tool(four(bench), "delete_file", &[&path]), "is a symbolic link");
        }
        refused(&tool(four(bench), "list_dir", &["path=up"]), "is a symbolic link");
        assert_eq!(fs::read_to_string(&secret).expect("there"), "secret");
        tool(four(bench), "list_dir", &[]).ok("cwd\tsymbolic link\nlink\tsymbolic link\nproc\tsymbolic link\nsub/\nup\tsymbolic link\n");
    }
}

as_both! {
    fn nothing_but_regular_files_is_touched_and_nothing_hangs(bench) {
        let dir = files(bench);
        nix::unistd::mkfifo(&dir.join("fifo"), Mode::from_bits_truncate(0o666)).expect("mkfifo");
        bench.give(&dir.join("fifo"));
        for (name, args) in [("read_file", vec!["path=fifo"]), ("write_file", vec!["path=fifo", "content=x"]), ("delete_file", vec!["path=fifo"])] {
            refused(&tool(four(bench), name, &args), "'fifo' is no regular file, and actions touch no other");
        }
        if bench.who == As::Root {
            nix::sys::stat::mknod(&dir.join("null"), nix::sys::stat::SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), nix::sys::stat::makedev(1, 3)).expect("mknod");
            refused(&tool(four(bench), "read_file", &["path=null"]), "is no regular file");
            refused(&tool(four(bench), "write_file", &["path=null", "content=x"]), "is no regular file");
        }
    }
}

as_both! {
    fn what_is_not_the_asker_s_business_is_kept(bench) {
        let dir = files(bench);
        fs::create_dir_all(dir.join(".git/hooks")).expect("mkdir");
        fs::create_dir_all(dir.join("private")).expect("mkdir");
        fs::write(dir.join("private/key"), "k").expect("write");
        for path in [".git", ".git/hooks", "private", "private/key"] {
            bench.give(&dir.join(path));
        }
        fs::hard_link(dir.join("private/key"), dir.join("alias")).expect("link");
        let policy = format!("{FOUR}[filesystem]\ndeny = [\"./files/private\", \"./files/private/key\", \"./files/later\"]\n[kill_switch]\nfile = \"./files/switch\"\n");
        let call = || bench.policy(&policy);
        for path in ["private/key", "private/new", "alias", "later"] {
            let path = format!("path={path}");
            refused(&tool(call(), "read_file", &[&path]), "lies in what [filesystem] deny keeps from everybody");
            refused(&tool(call(), "write_file", &[&path, "content=x"]), "lies in what [filesystem] deny keeps from everybody");
        }
        refused(&tool(call(), "list_dir", &["path=private"]), "[filesystem] deny");
        refused(&tool(call(), "write_file", &["path=switch", "content=stop"]), "is one of the files that guardexec's policy leads to");
        for path in [".git/config", ".git/hooks/pre-commit", ".envrc", "sub/.ENVRC", "sub/.vscode", ".bashrc"] {
            let path = format!("path={path}");
            refused(&tool(call(), "write_file", &[&path, "content=x"]), "is one of the files that make the host run code");
        }
        // The store, wherever it is said to be.
        fs::create_dir(dir.join("store")).expect("mkdir");
        fs::set_permissions(dir.join("store"), fs::Permissions::from_mode(0o700)).expect("chmod");
        bench.give(&dir.join("store"));
        let state = dir.join("store").display().to_string();
        refused(&tool(four(bench).opt(["--state", &state]), "list_dir", &["path=store"]), "guardexec's policy leads to");
        let with_state = format!("{FOUR}[state]\ndir = \"./files/store\"\n");
        refused(&tool(bench.policy(&with_state), "write_file", &["path=store/x", "content=x"]), "guardexec's policy leads to");
        // The policy and its record lie beneath the root.
        let policy = FOUR.replace("./files", ".");
        let call = || bench.policy(&policy);
        for path in ["policy.toml", "audit.jsonl", "audit.jsonl.lock"] {
            let path = format!("path={path}");
            refused(&tool(call(), "write_file", &[&path, "content=x"]), "guardexec's policy leads to");
            refused(&tool(call(), "delete_file", &[&path]), "guardexec's policy leads to");
            refused(&tool(call(), "read_file", &[&path]), "guardexec's policy leads to");
        }
        assert!(fs::read_to_string(bench.dir.join("policy.toml")).expect("the policy").starts_with("version"));
    }
}

as_both! {
    fn a_write_keeps_mode_and_owner_and_leaves_nothing_behind(bench) {
        let dir = files(bench);
        tool(four(bench), "write_file", &["path=new", "content=1"]).ok("created 'new' (1 bytes)\n");
        let found = dir.join("new").metadata().expect("there");
        let root = dir.metadata().expect("there");
        assert_eq!((found.uid(), found.gid()), (root.uid(), root.gid()), "a new file is its directory's owner's");
        assert_eq!(found.mode() & 0o777 & !0o022, 0o644);
        fs::set_permissions(dir.join("new"), fs::Permissions::from_mode(0o640)).expect("chmod");
        fs::hard_link(dir.join("new"), dir.join("other")).expect("link");
        tool(four(bench), "write_file", &["path=new", "content=22"]).ok("replaced 'new' (2 bytes)\n");
        assert_eq!(dir.join("new").metadata().expect("there").mode() & 0o7777, 0o640);
        assert_eq!(fs::read_to_string(dir.join("other")).expect("there"), "1", "another name keeps the old content");
        if bench.who == As::User {
            fs::set_permissions(dir.join("new"), fs::Permissions::from_mode(0o444)).expect("chmod");
            failed(&tool(four(bench), "write_file", &["path=new", "content=3"]), "cannot write 'new': Permission denied");
        }
        tool(four(bench), "list_dir", &[]).ok("new\nother\nsub/\n");
    }
}

/// Root does it as whoever owns the root.
#[test]
fn beneath_a_users_root_root_is_that_user() {
    let Some(bench) = Bench::new(As::Root) else { return };
    let dir = files(&bench);
    let own = |path: &Path, id| std::os::unix::fs::chown(path, Some(id), Some(id)).expect("chown");
    own(&dir, NOBODY);
    own(&dir.join("sub"), NOBODY);
    tool(four(&bench), "write_file", &["path=sub/new", "content=x"]).ok("created 'sub/new' (1 bytes)\n");
    let found = dir.join("sub/new").metadata().expect("there");
    assert_eq!((found.uid(), found.gid()), (NOBODY, NOBODY));
    tool(four(&bench), "read_file", &["path=sub/new"]).ok("x");
    // What is root's and nobody else's stays so.
    fs::write(dir.join("roots"), "secret").expect("write");
    fs::set_permissions(dir.join("roots"), fs::Permissions::from_mode(0o600)).expect("chmod");
    failed(&tool(four(&bench), "read_file", &["path=roots"]), "cannot read 'roots': Permission denied");
    failed(
        &tool(four(&bench), "write_file", &["path=roots", "content=x"]),
        "cannot write 'roots': Permission denied",
    );
    fs::set_permissions(dir.join("roots"), fs::Permissions::from_mode(0o666)).expect("chmod");
    failed(
        &tool(four(&bench), "write_file", &["path=roots", "content=x"]),
        "cannot write 'roots': its owner and group could not be kept",
    );
    assert_eq!(fs::read_to_string(dir.join("roots")).expect("there"), "secret");
    own(&dir.join("sub"), 0);
    failed(
        &tool(four(&bench), "write_file", &["path=sub/more", "content=x"]),
        "cannot write 'sub/more': Permission denied",
    );
    assert_eq!(fs::read_dir(&dir).expect("there").count(), 2, "nothing is left over");
}

as_both! {
    fn many_at_once_leave_one_whole_content(bench) {
        let dir = files(bench);
        let contents: Vec<String> = (0..8).map(|n| n.to_string().repeat(30_000)).collect();
        let calls: Vec<_> = contents.iter().map(|content| (four(bench), content)).collect();
        std::thread::scope(|scope| {
            for (call, content) in calls {
                scope.spawn(move || {
                    let answer = request(call, "write_file", &json!({"path": "one", "content": content}));
                    assert_eq!(answer.status(), "ok", "{}", answer.show());
                });
            }
        });
        assert!(contents.contains(&fs::read_to_string(dir.join("one")).expect("there")));
        tool(four(bench), "list_dir", &[]).ok("one\nsub/\n");
    }
}

as_both! {
    fn a_swapper_leads_nowhere(bench) {
        let dir = files(bench);
        let outside = bench.dir.join("outside");
        fs::create_dir(&outside).expect("mkdir");
        fs::write(outside.join("file"), "secret").expect("write");
        fs::set_permissions(outside.join("file"), fs::Permissions::from_mode(0o666)).expect("chmod");
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o777)).expect("chmod");
        fs::write(dir.join("sub/file"), "inside").expect("write");
        bench.give(&dir.join("sub/file"));
        symlink(&outside, dir.join("trap")).expect("link");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    renameat2(AT_FDCWD, &dir.join("sub"), AT_FDCWD, &dir.join("trap"), RenameFlags::RENAME_EXCHANGE).expect("swap");
                }
            });
            let (mut through, mut links) = (0, 0);
            for _ in 0..60 {
                for (name, args) in [("read_file", vec!["path=sub/file"]), ("write_file", vec!["path=sub/file", "content=inside"])] {
                    let answer = tool(four(bench), name, &args);
                    assert!(!answer.str("stdout").contains("secret"), "{}", answer.show());
                    match answer.status() {
                        "ok" => through += 1,
                        "denied" => links += 1,
                        other => panic!("{other}\n{}", answer.show()),
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
            assert!(through > 0 && links > 0, "{through} {links}");
        });
        assert_eq!(fs::read_to_string(outside.join("file")).expect("there"), "secret");
        assert_eq!(fs::read_dir(&outside).expect("there").count(), 1);
    }
}

as_both! {
    fn the_shipped_policy_offers_the_four(bench) {
        let dir = files(bench);
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/files.toml");
        let text = fs::read_to_string(shipped).expect("the policy");
        let call = || bench.policy(&text);
        tool(call(), "write_file", &["path=notes.txt", "content=A note."]).ok("created 'notes.txt' (7 bytes)\n");
        tool(call(), "list_dir", &[]).ok("notes.txt\nsub/\n");
        tool(call(), "read_file", &["path=notes.txt"]).ok("A note.");
        tool(call(), "delete_file", &["path=notes.txt"]).ok("deleted 'notes.txt'\n");
        assert!(!dir.join("notes.txt").exists());
        // With what its comments offer.
        let narrowed = text.replace("# params.path", "params.path").replace("# [filesystem]", "[filesystem]").replace("# deny = ", "deny = ").replace("decision = \"allow\"\n# A person has to approve each:\n# decision", "decision");
        assert_ne!(narrowed, text);
        let call = || bench.policy(&narrowed);
        tool(call(), "write_file", &["path=notes.sh", "content=x"]).denied_by("arguments", &["validation error: argument 'path' 'notes.sh' does not match the pattern"]);
        tool(call(), "write_file", &["path=sub/notes.md", "content=x"]).ok("created 'sub/notes.md' (1 bytes)\n");
        let answer = tool(filing(call()), "delete_file", &["path=sub/notes.md"]);
        assert_eq!((answer.status(), answer.exit), ("needs_approval", 75), "{}", answer.show());
        fs::create_dir(dir.join("private")).expect("mkdir");
        refused(&tool(call(), "write_file", &["path=private/notes.md", "content=x"]), "lies in what [filesystem] deny keeps");
    }
}
