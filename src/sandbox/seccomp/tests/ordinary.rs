//! Ordinary programs must not notice the filter. One that is not installed is skipped loudly.

use std::process::Command;

use super::super::super::raw::attack::Scratch;
use super::*;

fn unnoticed(name: &str, script: &str) {
    let scratch = Scratch::new(&format!("ordinary-{name}"));
    let found = Command::new("sh").args(["-c", &format!("command -v {name}")]).output().unwrap();
    if !found.status.success() {
        eprintln!("SKIPPED: {name} is not installed");
        return;
    }
    for pid_namespace in [false, true] {
        let options = Options {
            execution: Execution::List { secret: None },
            pid_namespace,
            ipc_namespace: true,
            attributes: true,
            truncate_by_path: true,
            openat2: false,
            ..strict()
        };
        let ended = in_child(Who::Same, || {
            filter(&options);
            let mut command = Command::new("sh");
            command.args(["-e", "-c", script]).current_dir(&scratch.0).env("HOME", &scratch.0);
            let out = command.output().unwrap();
            if !out.status.success() || !out.stderr.is_empty() {
                eprintln!("{name}: {}\n{}", out.status, String::from_utf8_lossy(&out.stderr));
            }
            out.status.code().unwrap_or(99)
        });
        assert_eq!(ended, Ended::Exited(0), "{name}");
        std::fs::read_dir(&scratch.0).unwrap().for_each(|entry| {
            let path = entry.unwrap().path();
            let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
        });
    }
}

#[test]
fn shells_and_their_tools() {
    unnoticed(
        "bash",
        "bash -c 'x=$(seq 3 | sort -r | head -1); sleep 0.01 & wait; timeout 5 true; [ $x = 3 ]'",
    );
    unnoticed(
        "tar",
        "mkdir d; echo x > d/f; tar -czf a.tgz d; rm -r d; tar -xpzf a.tgz; cp -a d e; test -f e/f",
    );
    unnoticed("setsid", "setsid -w true; nice -n 5 true; getent passwd root >/dev/null");
}

#[test]
fn git_commits() {
    let script = "git init -q .; git config user.email a@b; git config user.name n; echo x > f; git add f; \
                  git commit -qm one; git log --oneline | grep -q one; git gc -q";
    unnoticed("git", script);
}

#[test]
fn compilers_and_make() {
    let script = "printf 'int main(void) { return 0; }\\n' > m.c; printf 'm: m.c\\n\\tgcc -pipe -O1 -o m m.c\\n' > Makefile; \
                  make -s -j2; ./m";
    unnoticed("gcc", script);
}

#[test]
fn python() {
    let script = "import subprocess, threading, multiprocessing, tempfile, asyncio, os, shutil\n\
                  assert subprocess.check_output(['echo', 'x']) == b'x\\n'\n\
                  t = threading.Thread(target=lambda: None); t.start(); t.join()\n\
                  async def f():\n    p = await asyncio.create_subprocess_exec('true'); return await p.wait()\n\
                  assert asyncio.run(f()) == 0\n\
                  open('a', 'w').write('x'); shutil.copy2('a', 'b')\n\
                  p = subprocess.Popen(['sleep', '9'], start_new_session=True); os.killpg(p.pid, 9); p.wait()\n\
                  with multiprocessing.get_context('fork').Pool(2) as pool:\n    assert pool.map(abs, [-1, 2]) == [1, 2]\n";
    unnoticed("python3", &format!("python3 - <<'END'\n{script}END\n"));
}

#[test]
fn node() {
    let script = "const c = require('child_process'); c.execSync('true'); \
                  new (require('worker_threads').Worker)('1', { eval: true }).on('exit', () => { \
                  const k = c.spawn('cat'); k.on('close', (n) => process.exit(n)); k.stdin.end('x'); });";
    unnoticed("node", &format!("node -e \"{script}\""));
}

#[test]
fn java() {
    unnoticed("java", "java -Xmx64m -version 2>/dev/null");
}
