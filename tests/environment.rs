//! The child's environment, what it can learn of guardexec's own, the terminal, and what execve(2) cannot take.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::outside::{answer, ready, through};
use crate::harness::{As, Bench, NOBODY};
use crate::runner::kinds;

/// What `env` prints when nothing is configured; `home` is where `HOME` points.
fn defaults(bench: &Bench, private: bool) -> String {
    let uid = if bench.who == As::User && nix::unistd::geteuid().is_root() {
        nix::unistd::Uid::from_raw(NOBODY)
    } else {
        nix::unistd::geteuid()
    };
    let user = nix::unistd::User::from_uid(uid).expect("users").expect("an entry");
    let home = if private { "/tmp".into() } else { user.dir.display().to_string() };
    let mut lines = vec![
        "DEBIAN_FRONTEND=noninteractive".to_owned(),
        "GIT_PAGER=cat".into(),
        "GIT_TERMINAL_PROMPT=0".into(),
        format!("HOME={home}"),
        "LANG=C.UTF-8".into(),
        format!("LOGNAME={}", user.name),
        "PAGER=cat".into(),
        "PATH=/usr/local/bin:/usr/bin:/bin".into(),
        "TERM=dumb".into(),
        "TMPDIR=/tmp".into(),
        format!("USER={}", user.name),
    ];
    lines.sort();
    lines.join("\n")
}

fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

as_both! {
    fn t2_88_the_default_environment_is_exactly_this(bench) {
        let policy = "allow = [\"env\"]\n";
        for private in [false, true] {
            let call = if private { bench.policy(policy) } else { bench.host(policy) };
            let a = call.env("OPENAI_API_KEY", "sk-1").env("FOO", "y").env("LC_ALL", "C").env("HOME", "/evil").env("TERM", "xterm")
                .env("LD_PRELOAD", "").env("GIT_SSH_COMMAND", "x").env("PATH", "/evil:/usr/bin:/bin").run(["env"]);
            assert_eq!(a.status(), "ok", "{}", a.show());
            assert_eq!(sorted(a.str("stdout")), defaults(bench, private), "{}", a.show());
            assert!(!a.audit.iter().any(|r| r.to_string().contains("sk-1")));
        }
    }
}

as_both! {
    fn what_the_policy_passes_sets_and_offers(bench) {
        let policy = "allow = [\"env\"]\n[env]\npass = [\"LC_*\", \"FOO\"]\nrequest = [\"MODE\", \"TOLD\"]\nset = { PATH = \"/usr/bin:/bin\", GIT_TERMINAL_PROMPT = \"1\", CI = \"1\" }\n";
        let call = bench.host(policy).env("FOO", "foo").env("LC_TIME", "C").env("BAR", "bar").env("TOLD", "told").env("GIT_DIR", "/x");
        let a = call.opt(["--env", "MODE=fast lane", "-e", "TOLD", "-e", "FOO"]).run(["env"]);
        assert_eq!(a.status(), "ok", "{}", a.show());
        let lines: Vec<&str> = a.str("stdout").lines().collect();
        for wanted in ["FOO=foo", "LC_TIME=C", "MODE=fast lane", "TOLD=told", "PATH=/usr/bin:/bin", "GIT_TERMINAL_PROMPT=1", "CI=1"] {
            assert!(lines.contains(&wanted), "{wanted}\n{}", a.show());
        }
        assert!(!lines.iter().any(|l| l.starts_with("BAR=") || l.starts_with("GIT_DIR=")), "{}", a.show());
        for refused in ["PATH=/evil", "BAR=1", "LC_TIME=x", "FOO=other", "LD_PRELOAD=/x.so", "mode=1"] {
            let a = bench.host(policy).opt(["--env", refused]).run(["env"]);
            a.denied_by("arguments", &["variable '", "may not be set by a request"]);
            let value = refused.split_once('=').expect("a value").1;
            assert!(value.len() < 2 || !a.str("text").contains(value), "no value is told: {}", a.show());
        }
    }
}

as_both! {
    fn doubled_and_broken_entries_are_dropped(bench) {
        let perl = "exec 'env', '-i', @ARGV or die";
        let policy = "allow = [\"env\"]\n[env]\npass = [\"A\", \"B\", \"ODD\"]\n";
        let call = ready(bench.host(policy), ["env"]);
        // `env` keeps one of a doubled name, so the doubles are made by the system call itself.
        let python = "import ctypes,os,sys\nc=ctypes.CDLL(None)\na=(ctypes.c_char_p*(len(sys.argv)))(*[os.fsencode(x) for x in sys.argv[1:]],None)\n\
                      e=(ctypes.c_char_p*6)(b'A=1',b'A=2',b'ODD',b'=x',b'B=kept',None)\nc.execve(os.fsencode(sys.argv[1]),a,e)\nsys.exit(9)";
        let mut command = Command::new("/usr/bin/python3");
        if bench.who == As::User && nix::unistd::geteuid().is_root() {
            command = Command::new("setpriv");
            command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".into(), "/usr/bin/python3".into()]);
        }
        command.args(["-c", python]).arg(crate::harness::binary()).args(&call.args).current_dir(bench.work());
        let a = answer(&call, command, Stdio::null());
        assert_eq!(a.status(), "ok", "{perl} {}", a.show());
        let lines: Vec<&str> = a.str("stdout").lines().filter(|l| ["A", "B", "O", "="].iter().any(|s| l.starts_with(s))).collect();
        assert_eq!(lines, ["B=kept"], "{}", a.show());
    }
}

as_both! {
    fn guardexecs_own_environment_is_not_in_proc(bench) {
        // Of this bench alone: whatever starts the other one shows its secret for a moment.
        let secret = format!("hunter2-{}-{:?}", std::process::id(), bench.who);
        // The pattern is put together by the shell, so that no command line holds it.
        let (head, tail) = secret.split_at(3);
        let script = format!("n=0; for f in /proc/[0-9]*/environ; do n=$((n+1)); done; [ $n -gt 1 ] || echo none; cat /proc/[0-9]*/environ /proc/$PPID/environ 2>/dev/null | grep -c \"{head}\"\"{tail}\"");
        kinds(bench, "allow = [\"sh\"]\n", |call| {
            let a = call.env("SECRETX", &secret).run(["sh", "-c", &script]);
            assert_eq!((a.status(), a.exit), ("nonzero_exit", 1), "{}", a.show());
            let lines: Vec<&str> = a.str("stdout").lines().filter(|l| *l != "none").collect();
            assert_eq!(lines, ["0"], "{}", a.show());
        });
    }
}

as_both! {
    fn t2_75_a_word_that_execve_cannot_take_is_denied_by_its_index(bench) {
        let ask = |argv: Value, name: &str| bench.file(name, json!({ "argv": argv }).to_string());
        let policy = "allow = [\"true\", \"no-such\"]\n";
        let long = ask(json!(["true", "b", "a".repeat(131_072)]), "long.json");
        let a = bench.host(policy).opt(["--request".as_ref(), long.as_os_str()]).finish();
        a.denied_by("arguments", &["argument 2 ", "131071"]);
        let fits = ask(json!(["true", "a".repeat(131_071)]), "fits.json");
        bench.host(policy).opt(["--request".as_ref(), fits.as_os_str()]).finish().ok("");
        bench.host(policy).run(["true", &"a".repeat(131_071)]).ok("");
        let total = ask(json!(std::iter::once("true".to_owned()).chain(std::iter::repeat_n("a".repeat(130_000), 60)).collect::<Vec<_>>()), "total.json");
        let a = bench.host(policy).opt(["--request".as_ref(), total.as_os_str()]).finish();
        a.denied_by("arguments", &["together"]);
    }
}

as_both! {
    fn t2_76_a_variable_that_execve_cannot_take_is_denied_by_its_name(bench) {
        let policy = |n: usize| format!("allow = [\"true\"]\n[env]\nrequest = [\"WISH\"]\nset = {{ BIG = \"{}\" }}\n", "a".repeat(n));
        let a = bench.host(&policy(131_071)).run(["true"]);
        a.denied_by("arguments", &["'BIG'", "131071"]);
        assert!(!a.str("text").contains("aaaa") && !a.stderr.contains("aaaa"), "{}", a.show());
        bench.host(&policy(131_067)).run(["true"]).ok("");
        let ask = bench.file("wish.json", json!({"argv": ["true"], "env": {"WISH": "v".repeat(200_000)}}).to_string());
        let a = bench.host(&policy(1)).opt(["--request".as_ref(), ask.as_os_str()]).finish();
        a.denied_by("arguments", &["'WISH'"]);
        assert!(!a.str("text").contains("vvvv") && !a.audit.iter().any(|r| r.to_string().contains("vvvv")), "{}", a.show());
    }
}

as_both! {
    fn t2_77_nul_bytes_are_errors_that_trying_again_does_not_mend(bench) {
        let policy = "allow = [\"echo\"]\n[env]\nrequest = [\"A\"]\n";
        let asks = [
            json!({"argv": ["echo", "a\u{0}b"]}), json!({"argv": ["ec\u{0}ho"]}), json!({"command": "echo a\u{0}b"}),
            json!({"argv": ["echo"], "env": {"A": "x\u{0}y"}}), json!({"argv": ["echo"], "env": {"A\u{0}": "x"}}),
            json!({"argv": ["echo"], "cwd": "/\u{0}"}),
        ];
        for ask in asks {
            let a = bench.host(policy).opt(["--request", "-"]).stdin(ask.to_string()).finish();
            a.error(&["error: "]);
            let text = a.str("text").to_ascii_uppercase();
            assert!(text.contains("NUL") || text.contains("CANNOT NAME"), "{ask}\n{}", a.show());
            assert!(!a.stdout.contains(&0) && !a.stderr.contains('\0'));
        }
    }
}

/// Runs a call with a pseudo-terminal as its controlling terminal and as its descriptors 0, 1 and 2. Gives what the
/// terminal showed and what was left to be read from it, as a `repr`.
const ON_A_TERMINAL: &str = r#"
import fcntl, os, select, struct, sys, termios, time
master, slave = os.openpty()
pid = os.fork()
if pid == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in (0, 1, 2): os.dup2(slave, fd)
    os.closerange(3, 64)
    os.execvp(sys.argv[1], sys.argv[1:])
shown = b""
end = time.time() + 20
status = None
while time.time() < end:
    if select.select([master], [], [], 0.05)[0]: shown += os.read(master, 65536)
    elif status is not None: break
    if status is None:
        done, code = os.waitpid(pid, os.WNOHANG)
        if done: status = os.waitstatus_to_exitcode(code)
if status is None: os.kill(pid, 9)
waiting = struct.unpack("i", fcntl.ioctl(slave, termios.FIONREAD, b"\0\0\0\0"))[0]
os.set_blocking(slave, False)
mode = termios.tcgetattr(slave); mode[3] &= ~termios.ICANON; termios.tcsetattr(slave, termios.TCSANOW, mode)
try: left = os.read(slave, 4096)
except BlockingIOError: left = b""
print(repr((status, waiting, left, shown)))
"#;

fn on_a_terminal(bench: &Bench, policy: &str, options: &[&str], words: &[&str]) -> (String, Value) {
    let file = bench.dir.join("terminal.json");
    let _ = std::fs::remove_file(&file);
    let call =
        ready(bench.host(policy).opt(["--result-file".as_ref(), file.as_os_str()]).opt(options), words);
    let a = answer(&call, through(&call, &["/usr/bin/python3", "-c", ON_A_TERMINAL]), Stdio::null());
    let json = serde_json::from_slice(&std::fs::read(&file).unwrap_or_default()).unwrap_or_default();
    (String::from_utf8_lossy(&a.stdout).into_owned() + &a.stderr, json)
}

as_both! {
    fn t2_64_there_is_no_terminal_to_prompt_on(bench) {
        let policy = "allow = [\"perl\"]\n";
        let script = "print open(my $t, '+<', '/dev/tty') ? 'open' : $!+0; print -t STDIN ? ' tty' : ' none'";
        for options in [&[][..], &["--stdin", "-"], &["--output", "raw"]] {
            let (shown, json) = on_a_terminal(bench, policy, options, &["perl", "-e", script]);
            assert_eq!(json["stdout"], format!("{} none", nix::libc::ENXIO), "{shown}\n{json:#}");
        }
    }
}

as_both! {
    fn t2_65_nothing_can_be_typed_into_the_callers_terminal(bench) {
        let inject = "for my $fd (0..9) { open(my $f, '+<&=', $fd) or open($f, '<&=', $fd) or next; for my $c (split //, \"ev\".\"il\\n\") { my $b = $c; $n++ if ioctl($f, 0x5412, $b) } } \
                      if (open(my $t, '+<', '/dev/tty')) { for my $c (split //, \"ev\".\"il\\n\") { my $b = $c; $n++ if ioctl($t, 0x5412, $b) } } print 'typed ', $n+0; exit 7";
        // The control: without guardexec the same program types, where this kernel lets anybody.
        let mut plain = Command::new("/usr/bin/python3");
        plain.args(["-c", ON_A_TERMINAL, "perl", "-e", inject]);
        let plain = plain.stdin(Stdio::null()).output().expect("python3");
        if !String::from_utf8_lossy(&plain.stdout).contains("evil") {
            crate::harness::skip("the control: this kernel lets nobody use TIOCSTI; the run is tested all the same");
        }
        for options in [&[][..], &["--stdin", "-"], &["--output", "raw"]] {
            let (shown, json) = on_a_terminal(bench, "allow = [\"perl\"]\n", options, &["perl", "-e", inject]);
            assert_eq!((json["exit_code"].as_i64(), json["stdout"].as_str()), (Some(7), Some("typed 0")), "{shown}\n{json:#}");
            assert!(shown.starts_with("(7, 0, b'', ") && !shown.contains("evil"), "{shown}");
        }
    }
}
