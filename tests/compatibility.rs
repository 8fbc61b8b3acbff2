//! The shipped policies at real work: what `agent-shell.toml` and the others promise, with the tools of this machine.
//!
//! A tool that is not installed is skipped, and said. Nothing here reaches the network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Answer, As, Bench, Call, skip};

/// Where root's ordinary user gets a home of its own; `None`: the real one.
fn borrowed_home(bench: &Bench) -> Option<PathBuf> {
    let root = nix::unistd::geteuid().is_root();
    (root && bench.who == As::User).then(|| bench.dir.join("home"))
}

fn home(bench: &Bench) -> PathBuf {
    let me = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
    borrowed_home(bench).unwrap_or_else(|| me.map_or_else(|| "/nonexistent".into(), |user| user.dir))
}

/// A call under a shipped policy, with this home in the place of `~`.
fn shipped<'b>(bench: &'b Bench, name: &str, home: &Path) -> Call<'b> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies").join(name);
    let text = fs::read_to_string(path).expect("a shipped policy");
    bench.policy(
        &text.replace("\"~", &format!("\"{}", home.display())).replace(":~", &format!(":{}", home.display())),
    )
}

fn shell<'b>(bench: &'b Bench) -> Call<'b> {
    shipped(bench, "agent-shell.toml", &home(bench))
}

/// Runs a tool outside, as the bench's user, to set a test up.
fn outside(bench: &Bench, words: &[&str]) {
    let mut command = if bench.who == As::User && nix::unistd::geteuid().is_root() {
        let mut c = Command::new("setpriv");
        c.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(words[0]);
        c
    } else {
        Command::new(words[0])
    };
    command.args(&words[1..]).current_dir(bench.work()).env("HOME", bench.dir.join("home"));
    let done = command.output().unwrap_or_else(|e| panic!("{words:?}: {e}"));
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Whether the runs of the policies find the program; says so if not.
fn has(program: &str) -> bool {
    let found = ["/usr/local/bin", "/usr/bin", "/bin"].iter().any(|d| Path::new(d).join(program).exists());
    if !found {
        skip(&format!("{program} is not installed"));
    }
    found
}

#[track_caller]
fn fine(answer: &Answer) -> &str {
    assert_eq!((answer.status(), answer.exit), ("ok", 0), "{}", answer.show());
    answer.str("stdout")
}

/// A repository with one commit in the working directory.
fn repository(bench: &Bench) {
    bench.file("work/README.md", "one\n");
    bench.file("work/src/a.rs", "fn main() {}\n");
    bench.give(&bench.work().join("src"));
    for words in [
        &["git", "init", "-q"][..],
        &["git", "config", "user.email", "a@example.org"],
        &["git", "config", "user.name", "A"],
        &["git", "add", "-A"],
        &["git", "commit", "-q", "-m", "first"],
    ] {
        outside(bench, words);
    }
    bench.file("work/README.md", "two\n");
}

as_both! {
    fn readonly_tools_look_around(bench) {
        if !has("git") { return }
        repository(bench);
        let run = |words: &[&str]| shipped(bench, "readonly-tools.toml", &home(bench)).run(words);
        assert_eq!(fine(&run(&["git", "status", "-s"])), " M README.md\n");
        assert!(fine(&run(&["git", "log", "-p", "-1"])).contains("+fn main() {}"));
        assert!(fine(&run(&["git", "diff"])).contains("-one\n+two"));
        assert_eq!(fine(&run(&["git", "show", "HEAD:README.md"])), "one\n");
        assert_eq!(fine(&run(&["find", ".", "-name", "*.rs", "-type", "f"])), "./src/a.rs\n");
        assert_eq!(fine(&run(&["grep", "-rn", "fn main", "src"])), "src/a.rs:1:fn main() {}\n");
        assert_eq!(fine(&run(&["sort", "-u", "README.md"])), "two\n");
        run(&["find", ".", "-delete"]).denied_by("arguments", &["-delete"]);
        let shadow = run(&["cat", "/etc/shadow"]);
        assert_eq!(shadow.status(), "nonzero_exit", "{}", shadow.show());
    }
}

as_both! {
    fn an_agent_commits_and_leaves_the_hooks_alone(bench) {
        if !has("git") { return }
        repository(bench);
        fine(&shell(bench).run(["git", "add", "-A"]));
        fine(&shell(bench).run(["git", "commit", "-q", "-m", "second"]));
        assert_eq!(fine(&shell(bench).run(["git", "log", "--oneline"])).lines().count(), 2);
        assert_eq!(fine(&shell(bench).run(["sed", "-n", "1,1p", "README.md"])), "two\n");
        shell(bench).run(["git", "push"]).denied_by("arguments", &["push"]);
        if !has("make") { return }
        bench.file("work/Makefile", "all:\n\techo pwned > .git/hooks/pre-commit\nconfig:\n\techo >> .git/config\n");
        for target in ["all", "config"] {
            let planted = shell(bench).run(["make", target]);
            assert_eq!(planted.status(), "nonzero_exit", "{}", planted.show());
        }
        assert!(!bench.work().join(".git/hooks/pre-commit").exists());
    }
}

as_both! {
    fn without_mounts_a_workspace_with_a_repository_is_refused_and_not_called_kept(bench) {
        if !has("git") || !has("make") { return }
        repository(bench);
        bench.file("work/Makefile", "all:\n\techo pwned > .git/hooks/pre-commit\n");
        let policy = |require: &str| format!(
            "allow = [\"make\"]\n[sandbox]\nprofile = \"workspace\"\nprocesses = \"groups\"\nrequire = [{require}]\n"
        );
        let refused = |answer: &Answer, why: &str| {
            assert_eq!((answer.status(), answer.exit), ("error", 125), "{}", answer.show());
            assert!(answer.str("text").contains("requires filesystem"), "{}", answer.show());
            assert!(answer.str("text").contains(why), "{}", answer.show());
        };
        refused(&bench.policy(&policy("\"filesystem\"")).run(["make"]), "cannot be kept");
        assert!(!bench.work().join(".git/hooks/pre-commit").exists());
        let waived = bench.policy(&policy("")).run(["make"]);
        let missing = waived.json["sandbox"]["missing"].as_array().cloned().unwrap_or_default();
        assert!(missing.contains(&"filesystem".into()), "{}", waived.show());
        let mapped = "allow = [\"true\"]\n[sandbox]\nprocesses = \"groups\"\n[filesystem]\nmap = { \"/data\" = \"work\" }\n";
        refused(&bench.policy(mapped).run(["true"]), "[filesystem] map needs a mount namespace");
    }
}

as_both! {
    fn a_start_up_file_that_a_run_plants_is_set_aside(bench) {
        if !has("make") { return }
        bench.file("work/Makefile", "all:\n\techo evil > .envrc\n");
        let answer = shell(bench).run(["make"]);
        fine(&answer);
        assert!(!bench.work().join(".envrc").exists(), "{}", answer.show());
        assert!(answer.json["warnings"].to_string().contains(".envrc"), "{}", answer.show());
    }
}

as_both! {
    fn make_compiles(bench) {
        if !has("make") || !has("cc") { return }
        bench.file("work/a.c", "#include <stdio.h>\nint main(void) { puts(\"built\"); return 0; }\n");
        bench.file("work/Makefile", "run: a\n\t./a\na: a.c\n\tcc -O1 -o a a.c\n");
        assert!(fine(&shell(bench).run(["make"])).ends_with("built\n"));
    }
}

as_both! {
    fn pytest_tests(bench) {
        if !has("pytest") { return }
        bench.file("work/test_a.py", "def test_a(tmp_path):\n    (tmp_path / 'x').write_text('x')\n");
        assert!(fine(&shell(bench).run(["pytest", "-q"])).contains("1 passed"));
    }
}

/// A wheel is a ZIP archive of a module and three lists.
const WHEEL: &str = "
import zipfile
with zipfile.ZipFile('demo-1.0-py3-none-any.whl', 'w') as z:
    z.writestr('demo.py', 'print(\"installed\")\\n')
    z.writestr('demo-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n')
    z.writestr('demo-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    z.writestr('demo-1.0.dist-info/RECORD', 'demo.py,,\\ndemo-1.0.dist-info/METADATA,,\\ndemo-1.0.dist-info/WHEEL,,\\ndemo-1.0.dist-info/RECORD,,\\n')
";

as_both! {
    fn pip_installs_a_local_wheel(bench) {
        if !has("pip") || !has("python3") { return }
        bench.file("work/wheel.py", WHEEL);
        fine(&shell(bench).run(["python3", "wheel.py"]));
        fine(&shell(bench).run(["pip", "install", "--no-deps", "--target", "deps", "demo-1.0-py3-none-any.whl"]));
        let script = "import sys; sys.path.insert(0, 'deps'); import demo";
        assert_eq!(fine(&shell(bench).run(["python3", "-c", script])), "installed\n");
    }
}

as_both! {
    fn npm_installs_from_its_cache(bench) {
        if !has("npm") { return }
        // A home of the test's own, so that no real cache is written to.
        let home = bench.dir.join("home");
        bench.file("home/pkg/package.json", r#"{"name":"one","version":"1.0.0","main":"i.js"}"#);
        bench.file("home/pkg/i.js", "module.exports = 'from the cache';\n");
        for dir in [home.clone(), home.join("pkg")] {
            bench.give(&dir);
        }
        let packed = home.join("one-1.0.0.tgz");
        let (pkg, into) = (home.join("pkg"), home.to_str().expect("UTF-8"));
        outside(bench, &["npm", "pack", "--silent", pkg.to_str().expect("UTF-8"), "--pack-destination", into]);
        outside(bench, &["npm", "cache", "add", packed.to_str().expect("UTF-8")]);
        let tell = "const h = require('crypto').createHash('sha512'); \
                    process.stdout.write(h.update(require('fs').readFileSync(process.argv[1])).digest('base64'))";
        let hash = Command::new("node").arg("-e").arg(tell).arg(&packed).output().expect("node");
        let hash = String::from_utf8(hash.stdout).expect("base64");
        bench.file("work/package.json", r#"{"name":"a","version":"1.0.0","dependencies":{"one":"1.0.0"},"scripts":{"test":"node -p \"require('one')\""}}"#);
        bench.file("work/package-lock.json", format!(
            r#"{{"name":"a","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{{"":{{"name":"a","version":"1.0.0","dependencies":{{"one":"1.0.0"}}}},"node_modules/one":{{"version":"1.0.0","resolved":"https://packages.invalid/one/-/one-1.0.0.tgz","integrity":"sha512-{hash}"}}}}}}"#
        ));
        let shell = || shipped(bench, "agent-shell.toml", &home);
        fine(&shell().run(["npm", "ci"]));
        assert!(fine(&shell().run(["npm", "test"])).ends_with("from the cache\n"));
        shell().run(["npm", "publish"]).denied_by("arguments", &["publish"]);
    }
}

as_both! {
    fn cargo_builds(bench) {
        let home = home(bench);
        if !toolchain(bench, &home) { return }
        bench.file("work/Cargo.toml", "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nb = { path = \"b\" }\n");
        bench.file("work/b/Cargo.toml", "[package]\nname = \"b\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
        bench.file("work/b/src/lib.rs", "pub fn b() -> u8 { 7 }\n");
        bench.file("work/src/main.rs", "fn main() { println!(\"{}\", b::b()); }\n#[test]\nfn t() { assert_eq!(b::b(), 7); }\n");
        for dir in ["src", "b", "b/src"] {
            bench.give(&bench.work().join(dir));
        }
        fine(&shell(bench).run(["cargo", "build", "--offline"]));
        assert_eq!(fine(&shell(bench).run(["cargo", "run", "-q"])), "7\n");
        assert!(fine(&shell(bench).run(["cargo", "test"])).contains("1 passed"));
    }
}

/// Whether this home has a Rust toolchain; a borrowed home gets root's by hard links.
fn toolchain(bench: &Bench, home: &Path) -> bool {
    if borrowed_home(bench).is_none() {
        let there = home.join(".cargo/bin/cargo").exists() || Path::new("/usr/bin/cargo").exists();
        if !there {
            skip("cargo is not installed");
        }
        return there;
    }
    let Ok(sysroot) = Command::new("rustc").args(["--print", "sysroot"]).output() else {
        skip("rustc is not installed");
        return false;
    };
    let sysroot = PathBuf::from(String::from_utf8(sysroot.stdout).expect("UTF-8").trim());
    let (bin, lib) = (home.join(".cargo/bin"), home.join(".cargo/lib"));
    fs::create_dir_all(&bin).expect("mkdir");
    let linked =
        ["cargo", "rustc"].iter().all(|p| fs::hard_link(sysroot.join("bin").join(p), bin.join(p)).is_ok());
    let copied = Command::new("cp").arg("-al").arg(sysroot.join("lib")).arg(&lib).output();
    if !linked || !copied.is_ok_and(|done| done.status.success()) {
        skip("the Rust toolchain cannot be linked to where an ordinary user reaches it");
        return false;
    }
    true
}

const STRANGER: &str = "
import os, socket, sys
def tried(name, attempt):
    try:
        attempt()
        print(name, 'done')
    except OSError as error:
        print(name, 'refused')
tried('compute', lambda: sum(range(10)))
tried('tmp', lambda: open('/tmp/x', 'w').write('x'))
tried('exec', lambda: os.execv('/bin/sh', ['sh', '-c', 'echo owned']))
tried('itself', lambda: os.execv(sys.executable, [sys.executable, '-V']))
tried('socket', lambda: socket.socket())
tried('shadow', lambda: open('/etc/shadow').read())
tried('home', lambda: os.listdir(sys.argv[1]))
tried('cwd', lambda: open('out', 'w'))
tried('environ', lambda: open('/proc/1/environ').read(1))
tried('kill', lambda: os.kill(1, 9) or os.kill(1, 0) and print('?'))
";

as_both! {
    fn untrusted_python_computes_and_nothing_else(bench) {
        if !has("python3") { return }
        bench.file("work/stranger.py", STRANGER);
        bench.file("home/.ssh/id", "secret\n");
        for dir in ["home", "home/.ssh"] {
            bench.give(&bench.dir.join(dir));
        }
        let keys = bench.dir.join("home/.ssh");
        let run = |words: &[&str]| shipped(bench, "untrusted-python.toml", &home(bench)).run(words);
        let answer = run(&["python3", "-I", "stranger.py", keys.to_str().expect("UTF-8")]);
        let expected = "compute done\ntmp done\nexec refused\nitself refused\nsocket refused\nshadow refused\nhome refused\n\
                        cwd refused\nenviron refused\n";
        assert!(fine(&answer).starts_with(expected), "{}", answer.show());
        assert_eq!(answer.json["sandbox"]["enforced"]["execution"], "once", "{}", answer.show());
        run(&["python3", "-c", "1"]).denied_by("arguments", &["-c"]);
        assert!(!Path::new("/tmp/x").exists(), "the private tmp is not the host's");
    }
}

as_both! {
    fn python_runs_a_script_of_the_checkout(bench) {
        if !has("python3") { return }
        bench.file("work/tools/x.py", "import sys\nprint(sys.argv[1:])\n");
        let run = |words: &[&str]| shipped(bench, "python.toml", &home(bench)).run(words);
        assert_eq!(fine(&run(&["python3", "-I", "tools/x.py", "a"])), "['a']\n");
        run(&["python3", "../x.py"]).denied_by("arguments", &["../x.py"]);
    }
}

as_both! {
    fn ci_makes_and_does_not_publish(bench) {
        if !has("make") || !has("npm") { return }
        bench.file("work/Makefile", "test:\n\t@echo tested\n");
        assert_eq!(fine(&shipped(bench, "ci.toml", &home(bench)).run(["make", "test"])), "tested\n");
        shipped(bench, "ci.toml", &home(bench)).run(["npm", "--silent", "publish"]).denied_by("arguments", &["publish"]);
    }
}
