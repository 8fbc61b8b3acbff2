//! What a run could have of its caller without a path to it: a terminal that makes programs start others, and keys.

use std::process::Stdio;

use super::scene::{OFF, STRICT, without};
use crate::harness::{Bench, outside, skip};

/// Runs the rest of its words on a terminal of their own, and passes on what they write there.
const TERMINAL: &str = r#"
import os, pty, sys
try:
    pid, fd = pty.fork()
except OSError as error:
    print("no terminal:", error)
    sys.exit(0)
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
out = b""
try:
    while True:
        some = os.read(fd, 4096)
        if not some: break
        out += some
except OSError:
    pass
os.waitpid(pid, 0)
sys.stdout.write(out.decode(errors="replace"))
"#;

/// Puts a key into a session keyring that it starts, and then is the rest of its words.
const HOLDER: &str = r#"
import ctypes, os, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
add_key, keyctl = (248, 250) if platform.machine() == "x86_64" else (217, 219)
assert libc.syscall(keyctl, 1, None) > 0, "join a session keyring"
assert libc.syscall(add_key, b"user", b"guardexec-test", b"secret", 6, -3) > 0, "add a key"
os.execv(sys.argv[1], sys.argv[1:])
"#;

/// Looks for that key in the session keyring.
const SEEKER: &str = r#"
import ctypes, platform
libc = ctypes.CDLL(None, use_errno=True)
keyctl = 250 if platform.machine() == "x86_64" else 219
found = libc.syscall(keyctl, 10, -3, b"user", b"guardexec-test", 0)
print("found" if found > 0 else "errno %d" % ctypes.get_errno())
"#;

fn python(bench: &Bench) -> bool {
    for (name, text) in [("terminal.py", TERMINAL), ("holder.py", HOLDER), ("seeker.py", SEEKER)] {
        bench.file(&format!("work/{name}"), text);
    }
    let there = std::path::Path::new("/usr/bin/python3").exists();
    if !there {
        skip("needs /usr/bin/python3");
    }
    there
}

as_both! {
    fn a_pager_on_a_terminal_starts_nothing(bench) {
        if !python(bench) { return }
        let work = bench.work().display().to_string();
        let mark = bench.work().join("mark");
        let pager = bench.script("pager", "#!/bin/sh\necho paged > mark\ncat\n");
        let rest = |profile: &str| format!(
            "[sandbox]\nprofile = {profile:?}\n[env]\nset = {{ PATH = \"/usr/bin:/bin\", GIT_PAGER = {pager:?} }}\n[filesystem]\nread = [{pager:?}]\nwrite = [{work:?}]\n\
             [[rule]]\nid = \"py\"\nprogram = \"python3\"\ndecision = \"allow\"\nruns_arguments = true\nexec = [\"git\"]\n[[rule]]\nid = \"git\"\nprogram = \"git\"\ndecision = \"allow\"\nruns_arguments = true\n"
        );
        // A terminal that the run makes for itself, and one that guardexec is started on.
        for profile in ["strict", "host"] {
            let answer = bench.policy(&rest(profile)).run(["python3", "terminal.py", "git", "-p", "version"]);
            assert_eq!(answer.exit, 0, "{}", answer.show());
            assert_eq!(mark.exists(), profile == "host", "{profile} {}", answer.show());
            let _ = std::fs::remove_file(&mark);
        }
        let call = outside::ready(bench.policy(&rest("strict")).opt(["--output", "raw"]), ["git", "-p", "version"]);
        let answer = outside::answer(&call, outside::through(&call, &["python3", "terminal.py"]), Stdio::null());
        assert!(String::from_utf8_lossy(&answer.stdout).contains("git version"), "{}", answer.show());
        assert!(!mark.exists(), "{}", answer.show());
    }
}

as_both! {
    fn the_callers_session_keyring_is_not_the_runs(bench) {
        if !python(bench) { return }
        // The filter refuses every call about keys; without it there is still another keyring.
        let policy = |profile: &str| {
            let require = if profile == OFF { "" } else { "require = [\"filesystem\"]\n" };
            format!("allow = [\"python3\"]\n{profile}{require}")
        };
        let holder = ["/usr/bin/python3".to_owned(), bench.work().join("holder.py").display().to_string()];
        let run = |profile: &str, wrap: &[String]| {
            let call = bench.policy(&policy(profile)).wrap(holder.iter()).wrap(wrap);
            let answer = call.run(["python3", "seeker.py"]);
            answer.str("stdout").trim().to_owned()
        };
        let host = run(OFF, &[]);
        if host == "errno 38" || host == "errno 1" {
            return skip("this kernel has no keys");
        }
        assert_eq!(host, "found", "the caller's keyring is found where nothing is confined");
        let refused = run(STRICT, &[]);
        assert_eq!(refused, "errno 1");
        let other = run(STRICT, &without("filters"));
        assert!(other.starts_with("errno") && other != "errno 1", "{other}");
    }
}
