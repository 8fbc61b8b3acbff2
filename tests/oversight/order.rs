//! The order of one authorization: each stage refuses with its own word, and none is asked once one has refused.

use std::fs;
use std::path::PathBuf;

use super::{LEAVES, again, approve, asked, audited, policy, ran, rules, state, used, verb};
use crate::harness::{Answer, Bench};

/// A policy in which every stage can refuse, and checks and the one who is asked leave a mark.
struct Gate<'b> {
    bench: &'b Bench,
}

impl<'b> Gate<'b> {
    fn new(bench: &'b Bench) -> Gate<'b> {
        fs::create_dir_all(bench.dir.join("switch")).expect("mkdir");
        bench.give(&bench.dir.join("switch"));
        let gate = Gate { bench };
        let hook = |name: &str, yes: &str, no: &str, answers: &str| {
            let (mark, refuses) = (gate.mark(name), gate.refusing(name));
            bench.script(name, &format!("#!/bin/sh\ncat > /dev/null\necho >> {}\nif [ -e {} ]; then echo '{{\"verdict\": {no:?}, \"reason\": \"r\"}}'; else echo '{{\"verdict\": {yes:?}{answers}}}'; fi\n",
                mark.display(), refuses.display()))
        };
        let check = hook("check", "pass", "block", "");
        let confirm = hook("confirm", "approve", "decline", "");
        let text = rules(
            bench,
            &format!(
                "[kill_switch]\nfile = {:?}\n[session]\nrequired = true\n[approval]\nask = {confirm:?}\n[[check]]\nname = \"c\"\non = \"request\"\nrun = {check:?}\n\
             [[rate]]\nname = \"one\"\ncount = 1\nper = \"1h\"\n[[rule]]\nid = \"closed\"\nprogram = \"date\"\nflags = [\"-u\"]\ndecision = \"ask\"\n",
                gate.switch()
            ),
        );
        let _ = bench.host(&text);
        gate
    }

    fn switch(&self) -> PathBuf {
        self.bench.dir.join("switch/stop")
    }

    fn mark(&self, name: &str) -> PathBuf {
        self.bench.dir.join(format!("work/{name}.mark"))
    }

    fn refusing(&self, name: &str) -> PathBuf {
        self.bench.dir.join(format!("work/{name}.no"))
    }

    /// Which of the programs were run since the last look.
    fn marks(&self) -> Vec<&'static str> {
        ["check", "confirm"].into_iter().filter(|name| fs::remove_file(self.mark(name)).is_ok()).collect()
    }

    fn call(&self, session: bool, words: &[&str]) -> Answer {
        let call = again(self.bench);
        let call = if session { call.opt(["--session", "s"]) } else { call };
        call.run(words)
    }
}

as_both! {
    fn each_stage_refuses_before_the_next_is_asked(bench) {
        let gate = Gate::new(bench);
        bench.file("switch/stop", "# closed\n");
        let (denied, wrong, good) = (&["rm"][..], &["date", "--set=x"][..], &["date", "-u"][..]);
        // Everything refuses at first: one after the other is taken away.
        bench.file("work/check.no", "");
        bench.file("work/confirm.no", "");
        gate.call(false, denied).denied_by("kill_switch", &["is on: closed"]);
        fs::remove_file(gate.switch()).expect("off");
        gate.call(false, denied).denied_by("session", &["name its session"]);
        gate.call(true, denied).denied_by("command", &["'rm' is not in the allowlist"]);
        gate.call(true, wrong).denied_by("arguments", &[]);
        assert!(gate.marks().is_empty() && !state(bench).exists(), "nobody else was asked");
        gate.call(true, good).denied_by("input", &["check 'c' blocks this"]);
        assert!(gate.marks() == ["check"] && !state(bench).exists());
        fs::remove_file(gate.refusing("check")).expect("it passes");
        // The rate is used up by another call.
        gate.call(true, &["echo", "x"]).ok("x\n");
        assert_eq!(gate.marks(), ["check"]);
        gate.call(true, good).denied_by("rate", &["rate 'one' allows 1 call in 1h"]);
        assert_eq!(gate.marks(), ["check"], "nobody is asked about what a rate refuses");
        let text = fs::read_to_string(bench.dir.join("policy.toml")).expect("the policy");
        bench.file("policy.toml", text.replace("count = 1\n", "count = 2\n"));
        gate.call(true, good).denied_by("approval", &["confirmation for 'date' denied"]);
        assert_eq!(gate.marks(), ["check", "confirm"]);
        assert_eq!(used(bench, "one"), 1, "what was declined is not counted");
        fs::remove_file(gate.refusing("confirm")).expect("it approves");
        assert_eq!(gate.call(true, good).status(), "ok");
        assert_eq!((gate.marks(), used(bench, "one")), (vec!["check", "confirm"], 2));
        gate.call(true, good).denied_by("rate", &["and 2 are used"]);
        audited(bench);
    }
}

as_both! {
    fn an_approval_answers_the_asking_alone(bench) {
        let switch = bench.dir.join("switch/stop");
        fs::create_dir_all(bench.dir.join("switch")).expect("mkdir");
        bench.give(&bench.dir.join("switch"));
        let more = format!("[kill_switch]\nfile = {switch:?}\n[[rate]]\nname = \"two\"\ncount = 1\nper = \"1h\"\n");
        let call = || policy(bench, &more);
        let id = asked(&call().run(LEAVES));
        approve(bench, &id);
        let using = || call().opt(["--approval", &id]).run(LEAVES);
        bench.file("switch/stop", "asks\n");
        using().denied_by("kill_switch", &[]);
        call().opt(["--approval", &id]).finish().denied_by("kill_switch", &[]);
        fs::remove_file(&switch).expect("off");
        call().run(["echo", "x"]).ok("x\n");
        using().denied_by("rate", &["and 1 is used"]);
        // It was not used up by that.
        assert_eq!(verb(bench, &["approvals", "show", "--json", &id]).json["state"], "approved");
        assert_eq!(ran(bench), 0);
    }
}

as_both! {
    fn where_nothing_needs_the_store_there_is_none(bench) {
        let unrelated = "[[rate]]\nmatch = \"asks\"\ncount = 1\nper = \"1h\"\n[[rate]]\nagents = [\"ci\"]\ncount = 1\nper = \"1h\"\n[session]\nmax_runs = 1\nhalt_on = [\"exit\"]\n\
                         [[alert]]\non = \"timeout\"\nabove = 1\nper = \"1h\"\nrun = \"/bin/true\"\n";
        for _ in 0..2 {
            policy(bench, unrelated).run(["echo", "x"]).ok("x\n");
            policy(bench, unrelated).run(["rm"]).denied_by("command", &[]);
        }
        policy(bench, "[approval]\nask = \"deny\"\n").run(["sh"]).denied_by("approval", &[]);
        policy(bench, "").opt(["--approval", "0000000000aa"]).run(LEAVES).denied_by("approval", &["there is no approval"]);
        policy(bench, "").opt(["--approval", "0000000000aa"]).finish().denied_by("approval", &["there is no approval"]);
        assert!(!state(bench).exists());
    }
}
