//! What is written down for the operator: no secret that somebody spelled out on the way.

use std::fs;

use crate::escape::scene::Ground;

const POLICY: &str = "allow = [\"true\"]\n[[rule]]\nid = \"closed\"\nprogram = \"env\"\ndecision = \"allow\"\nflags = [{ name = \"--token\", value = { pattern = \"[a-z]+\" } }]\n";

as_both! {
    fn no_secret_gets_into_the_record_by_way_of_a_sentence(bench) {
        let token = "ghp_abcdefghijklmnop1234";
        let host = |options: &[&str]| bench.host(POLICY).opt(options.iter().copied());
        host(&["--why", "as password=hunter2secret says"]).run(["true"]);
        host(&["--label", &format!("note={token}"), "--label", "password=hunter2secret", "--session", token]).run(["true"]);
        host(&[]).run(["env", "--password=hunter2secret"]);
        host(&[]).run(["env", "--token=HUNTER2SECRET"]);
        host(&[]).run(["env", "https://u:pw12345@host/"]);
        host(&[]).run([token]);
        host(&["--cwd", &format!("/tmp/{token}")]).run(["true"]);
        host(&["--stdin", &format!("/tmp/{token}")]).run(["true"]);
        let record = fs::read_to_string(bench.dir.join("audit.jsonl")).expect("a record");
        for secret in [token, "hunter2secret", "HUNTER2SECRET", "pw12345"] {
            assert!(!record.contains(secret), "{secret} in {record}");
        }
        assert!(record.matches("[masked]").count() >= 8, "{record}");
    }
}

as_both! {
    fn a_run_beside_its_record_cannot_end_the_recording(bench) {
        let audit = bench.work().join("a.jsonl");
        let policy = format!("allow = [\"sh\"]\n[sandbox]\nprofile = \"workspace\"\n[audit]\nfile = {audit:?}\nrotate = \"2K\"\n");
        for round in 0..4 {
            let answer = bench.policy(&policy).run(["sh", "-c", "mkdir -p a.jsonl.next && touch a.jsonl.next/x"]);
            if answer.status() == "error" && round == 0 {
                return crate::harness::skip("needs a mount namespace");
            }
            assert_eq!((answer.exit, answer.status()), (0, "ok"), "{round}: {}", answer.show());
        }
        let old = fs::read_dir(bench.work()).expect("work").flatten().filter(|e| e.file_name().as_encoded_bytes().starts_with(b"a.jsonl.2"));
        assert_ne!(old.count(), 0, "it was rotated meanwhile");
    }
}

as_both! {
    fn without_mounts_no_run_starts_that_could_write_its_own_record(bench) {
        let audit = bench.work().join("a.jsonl");
        for ground in [Ground::Groups, Ground::NoNamespaces, Ground::NoMounts] {
            let policy = format!("allow = [\"sh\"]\n[sandbox]\nprofile = \"workspace\"\nrequire = []\n[audit]\nfile = {audit:?}\n");
            let answer = ground.call(bench, &policy).run(["sh", "-c", "echo x > out"]);
            assert_eq!((answer.status(), answer.exit, answer.str("stage")), ("error", 125, "sandbox"), "{ground:?} {}", answer.show());
            assert!(answer.str("text").contains("a.jsonl") && !bench.work().join("out").exists(), "{ground:?} {}", answer.show());
        }
    }
}
