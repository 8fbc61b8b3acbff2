//! Policies and their schema: what the loader takes passes, and every change that it refuses does not.

use serde_json::{Value, json};

use super::{pass, refuse_changes, schema, validator};

const POLICY: &str = r#"
version = 1
extends = ["base.toml"]
allow = ["uname", "/bin/date"]
deny = ["rm"]
limits = { wall_time = "5s", cpu_time = "none", memory = "512M", pids = 64, output = "64KiB", file_size = "1GB", open_files = "none", kill_grace = "500ms", cpus = 1 }
env = { pass = ["LC_*"], request = ["MODE"], set = { PATH = "/usr/bin" } }
command.syntax = "literal"
sandbox = { profile = "strict", require = ["filesystem"], user = "auto", processes = "namespace", backend = "native" }
filesystem = { cwd = ["."], read = ["/usr"], write = ["./out"], deny = ["~/.ssh"], tmp = "64M", map = { "/data" = "./x" } }
network = { mode = "none", loopback = true, unix = ["/run/x.sock"] }
audit = { file = "/var/log/a.jsonl", rotate = "100M" }

[[rule]]
id = "git-read"
program = ["git", "/usr/bin/git"]
decision = "allow"
reason = "read-only"
agents = ["builder"]
subcommand = ["log"]
flags = ["-s", { name = "-n", value = { min_value = 1, max_value = 1000.5 }, allow_dash = true }]
global_flags = []
operands = [{ pattern = '[\w./-]+', max_length = 200, choices = ["a", 7], optional = true, repeat = true, allow_dash = false, path = { under = ".", kind = "file", symlinks = false } }]
max_args = 8
sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
runs_arguments = true
limits = { wall_time = "30s" }
env = { pass = ["A"] }
filesystem = { read = ["/x"] }
network = { mode = "host" }
exec = ["cat"]
examples = { allow = ["git log", ["git", "log"]], deny = ["git push"] }

[tools.delete_project]
description = "Delete."
argv = ["/opt/x", "{name}"]
params.name = { type = "string", max_length = 64, pattern = "[a-z]+" }
params.count = { type = "integer", required = false, default = 1, ask_above = 5, description = "How many." }
params.files = { type = "array of strings" }
stdin = "{name}"
check_exit = true
output = "64K"
decision = "ask"

[tools.list]
action = "list_dir"
root = "."
max_size = "1M"
params.path = { max_length = 10 }
decision = "allow"
output = "stdout"
"#;

const OVERSIGHT: &str = r#"
version = 1
kill_switch.file = "stop"
state.dir = "~/state"
approval = { ask = "tty", timeout = "5s", expires = "2m", max_pending = 3, notify = "./n", escalate = ["./e", "x"], escalate_after = "1m" }
session = { halt_on = ["sandbox", "denied:3"], required = true, max_runs = 20, max_wall_time = "2h" }

[[rate]]
name = "refunds"
match = ["refund", "pay"]
agents = ["builder"]
key = ["agent", "customer"]
sum = "amount"
max = 200000.50
per = "1h"
then = "ask"
reason = "a lot"

[[rate]]
match = "refund"
key = "none"
count = 3
per = "1s"

[[rate]]
count = true
max = 3
per = "1s"

[[alert]]
name = "many"
on = "rate:refunds"
above = 10.5
per = "1h"
run = "./a"

[[check]]
name = "owner"
on = "request"
match = "refund"
run = ["./owner", "db"]
timeout = "2s"
severity = "high"
rewrite = true
"#;

#[test]
fn policies_fit_their_schema() {
    let validator = validator("policy");
    let good: Value = toml::from_str(POLICY).unwrap();
    let bad = |value: Value| Some(value);
    refuse_changes(
        &validator,
        &good,
        &[
            ("/version", None),
            ("/version", bad(json!(2))),
            ("/wall_time", bad(json!("5s"))),
            ("/allow", bad(json!("uname"))),
            ("/allow/0", bad(json!("bin/uname"))),
            ("/limits/wall_time", bad(json!(5))),
            ("/limits/wall_time", bad(json!("5"))),
            ("/limits/memory", bad(json!("512T"))),
            ("/limits/pids", bad(json!(0))),
            ("/limits/kill_grace", bad(json!("none"))),
            ("/limits/cpus", bad(json!("1"))),
            ("/command/syntax", bad(json!("shell"))),
            ("/sandbox/profile", bad(json!("loose"))),
            ("/sandbox/processes", bad(json!("all"))),
            ("/sandbox/require/0", bad(json!("files"))),
            ("/filesystem/map/data", bad(json!("./x"))),
            ("/network/mode", bad(json!("proxy"))),
            ("/network/loopback", bad(json!("yes"))),
            ("/audit/file", None),
            ("/audit/rotate", bad(json!(100))),
            ("/rule/0/decision", None),
            ("/rule/0/program", None),
            ("/rule/0/decision", bad(json!("permit"))),
            ("/rule/0/flag", bad(json!([]))),
            ("/rule/0/flags/0", bad(json!("s"))),
            ("/rule/0/operands/0/min", bad(json!(1))),
            ("/rule/0/operands/0/path/kind", bad(json!("pipe"))),
            ("/rule/0/sha256", bad(json!("abc"))),
            ("/rule/0/examples/maybe", bad(json!([]))),
            ("/tools/delete_project/argv", None),
            ("/tools/delete_project/params/name/type", None),
            ("/tools/delete_project/params/name/type", bad(json!("text"))),
            ("/tools/delete_project/params/name/ask_above", bad(json!(1))),
            ("/tools/delete_project/params/count/ask_above", bad(json!("5"))),
            ("/tools/delete_project/decision", None),
            ("/tools/delete_project/action", bad(json!("read_file"))),
            ("/tools/delete_project/root", bad(json!("."))),
            ("/tools/delete_project/output", bad(json!("all"))),
            ("/tools/delete_project/stdin", bad(json!(["a"]))),
            ("/tools/list/action", bad(json!("exec"))),
            ("/tools/list/root", None),
            ("/tools/list/stdin", bad(json!("x"))),
            ("/tools/list/check_exit", bad(json!(true))),
            ("/tools/list/params/path/default", bad(json!("x"))),
            ("/tools/list/params/path/type", bad(json!("integer"))),
            ("/tools/list/params/mode", bad(json!({}))),
        ],
    );
}

#[test]
fn what_stands_over_decisions_fits_the_schema() {
    let validator = validator("policy");
    let good: Value = toml::from_str(OVERSIGHT).unwrap();
    let bad = |value: Value| Some(value);
    for ask in
        [json!("queue"), json!("deny"), json!("./confirm"), json!("~/confirm"), json!(["/confirm", "-x"])]
    {
        let mut other = good.clone();
        other["approval"]["ask"] = ask;
        pass(&validator, &other);
    }
    refuse_changes(
        &validator,
        &good,
        &[
            ("/kill_switch/file", None),
            ("/kill_switch/path", bad(json!("x"))),
            ("/state/dir", None),
            ("/approval/ask", bad(json!("confirm"))),
            ("/approval/ask", bad(json!([]))),
            ("/approval/on_timeout", bad(json!("allow"))),
            ("/approval/timeout", bad(json!(5))),
            ("/approval/max_pending", bad(json!(0))),
            ("/approval/notify", bad(json!([]))),
            ("/session/halt_on/0", bad(json!("anything"))),
            ("/session/halt_on/1", bad(json!("denied:0"))),
            ("/session/required", bad(json!("yes"))),
            ("/session/max_runs", bad(json!(0))),
            ("/rate/0/per", None),
            ("/rate/0/max", None),
            ("/rate/0/max", bad(json!(-1))),
            ("/rate/0/count", bad(json!(1))),
            ("/rate/0/match", bad(json!([]))),
            ("/rate/0/then", bad(json!("allow"))),
            ("/rate/1/count", None),
            ("/rate/1/count", bad(json!(0))),
            ("/rate/1/max", bad(json!(3))),
            ("/rate/2/max", None),
            ("/rate/2/count", bad(json!(false))),
            ("/alert/0/on", bad(json!("denials"))),
            ("/alert/0/on", bad(json!("rate:"))),
            ("/alert/0/above", None),
            ("/alert/0/per", None),
            ("/alert/0/run", None),
            ("/check/0/name", None),
            ("/check/0/on", bad(json!("input"))),
            ("/check/0/run", None),
            ("/check/0/severity", bad(json!("fatal"))),
            ("/check/0/rewrite", bad(json!(1))),
        ],
    );
}

/// What the loader's own tests take for a policy with every key is one for the schema, and the schema names no key more.
#[test]
fn the_schema_knows_the_keys_that_the_loader_knows() {
    fn names(value: &toml::Value, out: &mut std::collections::BTreeSet<String>) {
        match value {
            toml::Value::Table(table) => table.iter().for_each(|(key, inner)| {
                out.insert(key.clone());
                names(inner, out);
            }),
            toml::Value::Array(list) => list.iter().for_each(|inner| names(inner, out)),
            _ => {}
        }
    }
    fn properties(value: &Value, out: &mut std::collections::BTreeSet<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, inner)| {
                if let (true, Some(inner)) = (key == "properties", inner.as_object()) {
                    out.extend(inner.keys().cloned());
                }
                properties(inner, out);
            }),
            Value::Array(list) => list.iter().for_each(|inner| properties(inner, out)),
            _ => {}
        }
    }
    let text = include_str!("../../../policy/schema/full.toml");
    pass(&validator("policy"), &toml::from_str(text).unwrap());
    let mut written = std::collections::BTreeSet::new();
    names(&toml::from_str(text).unwrap(), &mut written);
    let mut known = std::collections::BTreeSet::new();
    properties(&schema("policy"), &mut known);
    let missing: Vec<_> = known.difference(&written).collect();
    assert!(missing.is_empty(), "the loader's tests write no {missing:?}");
}
