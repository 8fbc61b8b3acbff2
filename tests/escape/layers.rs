//! A layer taken away: what is required is an error before anything runs, what is not is named.

use super::scene::{self, STRICT, WORKSPACE, words};
use crate::harness::Answer;

fn missing(answer: &Answer) -> Vec<String> {
    let list = answer.json["sandbox"]["missing"].as_array().expect("a list");
    list.iter().map(|l| l.as_str().unwrap_or_default().to_owned()).collect()
}

as_both! {
    fn t3_110_without_landlock_nothing_runs(bench) {
        for what in ["landlock", "landlock,namespaces"] {
            for profile in [STRICT, WORKSPACE] {
                let call = bench.policy(&format!("allow = [\"echo\"]\n{profile}")).wrap(scene::without(what));
                let answer = call.run(["echo", "hi"]);
                scene::unavailable(&answer, &["filesystem", "Landlock"]);
            }
        }
    }
}

as_both! {
    fn t3_110_without_landlock_what_is_not_required_is_named(bench) {
        let toml = "allow = [\"echo\"]\n[sandbox]\nprofile = \"strict\"\nrequire = [\"network\", \"syscalls\"]\n";
        let answer = bench.policy(toml).wrap(scene::without("landlock,namespaces")).run(["echo", "hi"]);
        answer.ok("hi\n");
        assert!(missing(&answer).contains(&"filesystem".to_owned()), "{}", answer.show());
        let call = bench.policy(&format!("{}{}", toml, scene::rule())).wrap(scene::without("landlock,namespaces"));
        let attacks = words(&["exec:/bin/sh", "memfd:/bin/sh", "listen:0", "uring", "traceme"]);
        let (outcomes, answer) = scene::attempt_by(call, &attacks);
        assert!(outcomes.values().all(|o| o.starts_with("refused")), "{}", answer.show());
    }
}

as_both! {
    fn t3_110_without_filters_nothing_runs(bench) {
        let answer = bench.policy(&format!("allow = [\"echo\"]\n{STRICT}")).wrap(scene::without("filters")).run(["echo", "hi"]);
        scene::unavailable(&answer, &["network", "syscalls", "filter"]);
        let toml = "allow = [\"echo\"]\n[sandbox]\nprofile = \"strict\"\nrequire = [\"filesystem\"]\n";
        let answer = bench.policy(toml).wrap(scene::without("filters")).run(["echo", "hi"]);
        answer.ok("hi\n");
        for layer in ["network", "syscalls", "execution"] {
            assert!(missing(&answer).contains(&layer.to_owned()), "{layer} {}", answer.show());
        }
    }
}

as_both! {
    fn t3_111_without_namespaces_the_other_layers_hold(bench) {
        for what in ["namespaces", "mounts"] {
            let answer = bench.policy(&format!("allow = [\"echo\"]\n{STRICT}")).wrap(scene::without(what)).run(["echo", "hi"]);
            answer.ok("hi\n");
            let held = answer.json["sandbox"]["enforced"]["processes"].as_str().unwrap_or_default().to_owned();
            assert!(["process_groups", "cgroup_v2"].contains(&held.as_str()), "{what} {}", answer.show());
            assert_eq!(missing(&answer), ["tmp"], "{what} {}", answer.show());
            let toml = "allow = [\"echo\"]\n[sandbox]\nprofile = \"strict\"\nrequire = [\"tmp\"]\n";
            let answer = bench.policy(toml).wrap(scene::without(what)).run(["echo", "hi"]);
            // What was tried, how it failed, and what helps there: not just that it cannot be had.
            scene::unavailable(&answer, &["tmp", "no PID namespace (could not ", "EPERM", "without one: "]);
            assert!(answer.json["error"]["hint"].as_str().is_some_and(|h| h.contains("allow user namespaces")), "{}", answer.show());
            let explained = bench.policy(toml).wrap(scene::without(what)).opt(["explain"]);
            let explained = explained.opt(["--", "echo", "hi"]).raw();
            assert_eq!(explained.exit, 125, "{}", explained.stderr);
            let text = String::from_utf8_lossy(&explained.stdout).into_owned();
            assert!(text.contains("no PID namespace (") && text.contains("EPERM"), "{what}: {text}");
        }
    }
}

as_both! {
    fn doctor_sees_what_was_taken_away(bench) {
        for (what, mechanism, exit) in [("landlock", "landlock", 1), ("filters", "seccomp", 1), ("mounts", "mounts", 0), ("namespaces", "pid_namespace", 0)] {
            let answer = bench.call().wrap(scene::without(what)).opt(["doctor", "--json"]).raw();
            assert_eq!(answer.exit, exit, "{what} {}", answer.stderr);
            // Whatever this machine delegates: what is not exact has a remedy.
            let row = answer.json.as_array().expect("an array").iter().find(|m| m["mechanism"] == "cgroups").expect("its line").clone();
            assert!(row["works"] == true || (row["remedy"].is_string() && row["found"].is_string()), "{row}");
            let found = answer.json.as_array().expect("an array").iter().find(|m| m["mechanism"] == mechanism).expect("its line").clone();
            assert_eq!(found["works"], false, "{what} {found}");
            assert!(found["errno"].is_string() || found["errno"].is_i64(), "{found}");
            assert!(found["remedy"].is_string(), "{found}");
        }
    }
}
