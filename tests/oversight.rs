//! What stands over single decisions, through the whole house: a person who is asked, counters, sessions, checks, and the
//! order in which all of them have their say.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::harness::{Answer, Bench, Call, read_audit};

mod cases;
mod checking;
mod confined;
mod counting;
mod cut_off;
mod explaining;
mod killing;
mod order;
mod sessions;
mod terminal;
mod waiting;

/// Rules that ask for `sh` and `cat`, allow `echo`, and allow the script `leave`, which adds a line to `ran` for every run
/// that really happened.
pub fn rules(bench: &Bench, more: &str) -> String {
    let leave = leave(bench);
    format!(
        "[env]\nrequest = [\"A\"]\n[state]\ndir = {:?}\n[[rule]]\nid = \"asks\"\nprogram = [\"sh\", \"cat\"]\ndecision = \"ask\"\n\
         [[rule]]\nid = \"leave\"\nprogram = {leave:?}\ndecision = \"allow\"\n[[rule]]\nid = \"free\"\nprogram = \"echo\"\n\
         decision = \"allow\"\n{more}\n",
        state(bench),
    )
}

/// A call under these rules, as `host`.
pub fn policy<'b>(bench: &'b Bench, more: &str) -> Call<'b> {
    bench.host(&rules(bench, more))
}

/// The script that leaves a line.
pub fn leave(bench: &Bench) -> PathBuf {
    let path = bench.dir.join("leave");
    if !path.exists() {
        let ran = bench.dir.join("work/ran");
        bench.script("leave", &format!("#!/bin/sh\necho \"$*\" >> {}\n", ran.display()));
    }
    path
}

/// How often something left a line.
pub fn ran(bench: &Bench) -> usize {
    fs::read_to_string(bench.work().join("ran")).unwrap_or_default().lines().count()
}

/// The words that leave a line, where it has to be asked for.
pub const LEAVES: [&str; 3] = ["sh", "-c", "echo x >> ran"];

/// Where the store is.
pub fn state(bench: &Bench) -> PathBuf {
    bench.dir.join("state")
}

/// A call under the policy that was written last, for calls at the same time.
pub fn again(bench: &Bench) -> Call<'_> {
    let audit = Some(bench.dir.join("audit.jsonl"));
    Call { audit, ..bench.call() }.opt(["--policy".into(), bench.dir.join("policy.toml")])
}

/// A verb, with the policy that was written last.
pub fn verb(bench: &Bench, words: &[&str]) -> Answer {
    bench.call().opt(words).opt(["--policy".into(), bench.dir.join("policy.toml")]).raw()
}

/// What was asked waits for an answer; its id.
#[track_caller]
pub fn asked(answer: &Answer) -> String {
    let stage = answer.str("stage");
    assert_eq!(
        (answer.status(), answer.exit, stage),
        ("needs_approval", 75, "approval"),
        "{}",
        answer.show()
    );
    assert_eq!(answer.json["approval"]["state"], "pending", "{}", answer.show());
    answer.nothing_ran();
    answer.json["approval"]["id"].as_str().expect("an id").to_owned()
}

#[track_caller]
pub fn approve(bench: &Bench, id: &str) {
    let answer = verb(bench, &["approvals", "approve", id]);
    assert_eq!(answer.exit, 0, "{}", answer.stderr);
}

/// Every request in the store.
#[track_caller]
pub fn all(bench: &Bench) -> Vec<Value> {
    let answer = verb(bench, &["approvals", "list", "--all", "--json"]);
    assert_eq!(answer.exit, 0, "{}", answer.stderr);
    answer.json.as_array().expect("an array").clone()
}

/// What the rate of this name holds, of all its keys.
#[track_caller]
pub fn used(bench: &Bench, name: &str) -> u64 {
    let answer = verb(bench, &["rates", "--json"]);
    let rows = answer.json.as_array().unwrap_or_else(|| panic!("{}", answer.show()));
    rows.iter().filter(|row| row["name"] == name).map(|row| row["use"].as_u64().expect("a number")).sum()
}

/// The calls, all at the same time.
pub fn together<'b>(calls: Vec<Call<'b>>) -> Vec<Answer> {
    std::thread::scope(|scope| {
        // The audit file is read when all have written to it.
        let quiet = |call| Call { audit: None, ..call };
        let workers: Vec<_> = calls.into_iter().map(|call| scope.spawn(move || quiet(call).raw())).collect();
        workers.into_iter().map(|worker| worker.join().expect("a call")).collect()
    })
}

/// The audit file is whole, and every record is as the schema has it.
#[track_caller]
pub fn audited(bench: &Bench) -> Vec<Value> {
    let file = bench.dir.join("audit.jsonl");
    let verified = bench.call().opt(["audit", "verify"]).opt([&file]).raw();
    assert_eq!(verified.exit, 0, "{}", verified.stderr);
    let records = read_audit(&file);
    records.iter().for_each(|record| crate::harness::schema::check("audit", record));
    records
}
