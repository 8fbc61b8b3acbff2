//! Ordinary programs notice nothing.

use super::scene::{GROUNDS, STRICT};

as_both! {
    fn t3_112_ordinary_programs_run_under_the_default(bench) {
        let lines: &[&[&str]] = &[
            &["echo", "hi"], &["sh", "-c", "echo hi > /dev/null; read x < /dev/zero_ 2>/dev/null; :"], &["git", "--version"],
            &["python3", "-c", "print(1)"], &["ls", "-l", "/usr"], &["id"], &["date"], &["grep", "root", "/etc/passwd"], &["head", "-c4", "/dev/urandom"],
            &["perl", "-e", "print 1"], &["node", "-e", "console.log(1)"],
        ];
        for ground in GROUNDS {
            for line in lines {
                let found = ["/usr/bin", "/bin"].iter().any(|d| std::path::Path::new(d).join(line[0]).exists());
                if !found {
                    continue;
                }
                let toml = format!("allow = [{:?}]\n{STRICT}[limits]\nmemory = \"4G\"\n", line[0]);
                let answer = ground.call(bench, &toml).run(line.iter());
                assert_eq!(answer.status(), "ok", "{ground:?} {line:?}\n{}", answer.show());
            }
        }
    }
}
