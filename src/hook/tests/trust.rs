//! What others could have written is not started.

use std::os::unix::fs::{chown, symlink};

use super::*;

/// Why it was not started. It would have left a mark.
#[track_caller]
fn refused(bench: &Bench, hook: &Hook) -> String {
    let heard = hear(hook, b"");
    let Heard::NotStarted(why) = heard else { panic!("{heard:?}") };
    assert!(!Path::new(&bench.path("ran")).exists(), "{why}");
    why
}

fn marking(bench: &Bench) -> String {
    format!("#!/bin/sh\necho >{}\necho '{{}}'\n", bench.path("ran"))
}

#[test]
fn a_program_that_others_can_change_is_not_started() {
    apart(|bench| {
        let text = marking(bench);
        for mode in [0o775, 0o757, 0o777] {
            let path = bench.file("open", &text, mode);
            let expected = format!(
                "`{path}` can be changed by its group or by others (mode {mode:04o}); chmod go-w {path}"
            );
            assert_eq!(refused(bench, &hook(&[&path])), expected);
        }
        let good = bench.file("good", &text, 0o700);
        assert_eq!(hear(&hook(&[&good]), b""), said("{}\n"));
        assert!(Path::new(&bench.path("ran")).exists(), "the mark is made");
    });
}

#[test]
fn nor_one_that_somebody_else_owns() {
    if process::ids().0 != 0 {
        return;
    }
    Apart::start(None, |bench| {
        let path = bench.file("theirs", &marking(bench), 0o755);
        chown(&path, Some(1234), Some(1234)).unwrap();
        assert!(refused(bench, &hook(&[&path])).contains("belongs to user 1234"));
    })
    .end();
}

#[test]
fn nor_one_that_lies_where_others_can_put_another() {
    apart(|bench| {
        let dir = bench.path("shared");
        fs::create_dir(&dir).unwrap();
        let path = bench.file("shared/program", &marking(bench), 0o755);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(refused(bench, &hook(&[&path])).contains("can be changed by its group or by others"));
        // Nor through a link that leads there.
        symlink(&path, bench.path("link")).unwrap();
        assert!(refused(bench, &hook(&[&bench.path("link")])).contains("can be changed"));
        // In a sticky directory nobody can put another in its place.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(hear(&hook(&[&bench.path("link")]), b""), said("{}\n"));
    });
}

#[test]
fn nor_with_a_file_among_its_words_that_others_can_change() {
    apart(|bench| {
        let program = bench.file("program", &marking(bench), 0o755);
        let open = bench.file("open.db", "", 0o664);
        let closed = bench.file("closed.db", "", 0o644);
        assert!(refused(bench, &hook(&[&program, &closed, &open])).contains("open.db"));
        // A script given to an interpreter is such a word.
        let script = bench.file("script.sh", &marking(bench), 0o666);
        assert!(refused(bench, &hook(&["/bin/sh", &script])).contains("script.sh"));
        // A path behind an option is read as one of its own is.
        for glued in ["--db=", "-f", "db="] {
            let why =
                refused(bench, &hook(&[&program, &format!("{glued}{closed}"), &format!("{glued}{open}")]));
            assert!(why.contains("open.db"), "{glued}: {why}");
        }
        // What is no regular file, what is not there, and what is no absolute path is only a word.
        let words = [&program, &closed, "/tmp", "/dev/null", "/nowhere/x", "open.db", "--x=/tmp"];
        assert_eq!(hear(&hook(&words), b""), said("{}\n"));
    });
}

#[test]
fn nor_with_an_interpreter_that_others_can_change() {
    apart(|bench| {
        let interpreter = bench.file("interpreter", &marking(bench), 0o777);
        let script = bench.file("script", &format!("#!{interpreter}\n"), 0o755);
        let why = refused(bench, &hook(&[&script]));
        assert!(why.starts_with("its interpreter: ") && why.contains("can be changed"), "{why}");
        // Two scripts deep.
        let between = bench.file("between", &format!("#!{interpreter}\n"), 0o755);
        let script = bench.file("outer", &format!("#!{between}\n"), 0o755);
        assert!(refused(bench, &hook(&[&script])).contains("interpreter: `"));
        // By env, in the policy's PATH and by its own path.
        let script = bench.file("by-env", &format!("#!/usr/bin/env {interpreter}\n"), 0o755);
        assert!(refused(bench, &hook(&[&script])).contains("can be changed"));
        let script = bench.file("by-name", "#!/usr/bin/env -S no-such-interpreter -x\n", 0o755);
        assert!(
            refused(bench, &hook(&[&script])).contains("no-such-interpreter is not in the policy's PATH")
        );
        let script = bench.file("relative", "#!bin/sh\n", 0o755);
        assert!(refused(bench, &hook(&[&script])).contains("bin/sh is no absolute path"));
        let script = bench.file("good", "#!/usr/bin/env sh\necho '{}'\n", 0o755);
        assert_eq!(hear(&hook(&[&script]), b""), said("{}\n"));
    });
}

#[test]
fn what_cannot_be_executed_is_said() {
    apart(|bench| {
        let plain = bench.file("plain", "x", 0o644);
        assert!(refused(bench, &hook(&[&plain])).ends_with("cannot be executed: Permission denied"));
        assert!(refused(bench, &hook(&["/tmp"])).contains("cannot be executed: Is a directory"));
        assert!(refused(bench, &hook(&["bin/sh"])).contains("bin/sh is not there"));
        assert!(refused(bench, &hook(&[])).contains("no words"));
        let garbage = bench.file("garbage", "\u{1}\u{2}", 0o755);
        assert!(refused(bench, &hook(&[&garbage])).contains("could not execute the program"));
        assert!(refused(bench, &hook(&["/bin/echo", "a\0b"])).contains("nul byte"));
    });
}
