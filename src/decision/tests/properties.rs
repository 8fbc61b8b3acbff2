//! What holds for any policy and any request: adding never widens, and judging always ends in a decision.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use proptest::prelude::*;

use super::made::{facts, flags, pattern, policy, repeated, rule, subcommands};
use crate::decision::{Decision, Grant, decide};
use crate::policy::model::*;
use crate::request::Request;

/// A rule as plain data, so that the same policy can be built twice.
#[derive(Debug, Clone)]
struct Sketch {
    verdict: Verdict,
    program: &'static str,
    flags: Option<&'static str>,
    subcommand: Option<&'static str>,
    operand: Option<&'static str>,
    wall: Option<u64>,
}

impl Sketch {
    fn rule(&self) -> Rule {
        let args = ArgRules {
            subcommand: self.subcommand.and_then(subcommands),
            flags: self.flags.and_then(flags),
            operands: self.operand.map(|p| vec![repeated(pattern(p))]),
            ..ArgRules::default()
        };
        let mut rule = rule(self.verdict, self.program, args);
        rule.own.limits.wall_time = self.wall.map(|s| Bound::At(Duration::from_secs(s)));
        rule
    }
}

fn sketch() -> impl Strategy<Value = Sketch> {
    (
        prop::sample::select(vec![Verdict::Allow, Verdict::Allow, Verdict::Ask, Verdict::Deny]),
        prop::sample::select(vec!["echo", "true", "/usr/bin/echo", "echo true"]),
        prop::option::of(prop::sample::select(vec!["", "-a", "-a -b: --long", "--val:"])),
        prop::option::of(prop::sample::select(vec!["x", "x y"])),
        prop::option::of(prop::sample::select(vec!["[a-z]*", "x", "["])),
        prop::option::of(1_u64..100),
    )
        .prop_map(|(verdict, program, flags, subcommand, operand, wall)| Sketch {
            verdict,
            program,
            flags,
            subcommand,
            operand,
            wall,
        })
}

/// A policy as plain data.
#[derive(Debug, Clone)]
struct Draft {
    rules: Vec<Sketch>,
    profile: Profile,
    pass: Vec<String>,
    set: Option<&'static str>,
    memory: Option<u64>,
}

impl Draft {
    fn policy(&self) -> Policy {
        let mut policy = policy(self.rules.iter().map(Sketch::rule).collect());
        policy.sandbox.profile = Some(self.profile);
        policy.env.pass = Some(self.pass.clone());
        policy.env.set.extend(self.set.map(|v| ("SET".to_string(), v.to_string())));
        policy.limits.memory = self.memory.map(Bound::At);
        policy
    }
}

fn draft() -> impl Strategy<Value = Draft> {
    (
        prop::collection::vec(sketch(), 0..4),
        prop::sample::select(vec![Profile::Host, Profile::Workspace, Profile::Strict]),
        prop::collection::vec("A|B|[AB]\\*|LD_PRELOAD", 0..3),
        prop::option::of(prop::sample::select(vec!["1", "2"])),
        prop::option::of(1_u64..1 << 40),
    )
        .prop_map(|(rules, profile, pass, set, memory)| Draft { rules, profile, pass, set, memory })
}

fn command() -> impl Strategy<Value = Vec<OsString>> {
    let word =
        prop::sample::select(vec!["x", "y", "-a", "-b", "-ab1", "--long", "--lo", "--val=x", "--", "-", ""]);
    let program = prop::sample::select(vec!["echo", "true", "/usr/bin/echo", "./echo"]);
    (program, prop::collection::vec(word, 0..4))
        .prop_map(|(program, args)| std::iter::once(program).chain(args).map(OsString::from).collect())
}

fn judge(drafts: &[&Draft], words: &[OsString]) -> Decision {
    let policies: Vec<Policy> = drafts.iter().map(|d| d.policy()).collect();
    let env = ["A", "B", "AX", "LD_PRELOAD"].map(|n| (n.as_bytes().to_vec(), b"v".to_vec())).to_vec();
    let facts = crate::decision::Facts { env, ..facts() };
    decide(&policies, words.to_vec(), Request::default(), &facts)
}

/// `0` allow, `1` ask, `2` anything else.
fn strictness(decision: &Decision) -> u8 {
    match decision {
        Decision::Allow(_) => 0,
        Decision::Ask(_) => 1,
        _ => 2,
    }
}

/// Whether everything that `a` gives, `b` gives as well.
fn within(a: &Grant, b: &Grant) -> bool {
    // Names that both have may differ in their value only where HOME and TMPDIR follow the profile.
    a.limits == a.limits.tighter(&b.limits)
        && a.wanted.profile >= b.wanted.profile
        && a.wanted.network >= b.wanted.network
        && b.wanted.require.iter().all(|layer| a.wanted.require.contains(layer))
        && a.envp.iter().all(|e| b.envp.contains(e) || e.as_bytes().starts_with(b"HOME="))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn adding_a_deny_rule_never_widens(draft in draft(), mut extra in sketch(), words in command()) {
        extra.verdict = Verdict::Deny;
        let mut more = draft.clone();
        more.rules.push(extra);
        prop_assert!(strictness(&judge(&[&more], &words)) >= strictness(&judge(&[&draft], &words)));
    }

    #[test]
    fn adding_an_ask_rule_never_makes_an_allow_of_anything(draft in draft(), mut extra in sketch(), words in command()) {
        extra.verdict = Verdict::Ask;
        let mut more = draft.clone();
        more.rules.push(extra);
        if !matches!(judge(&[&draft], &words), Decision::Allow(_)) {
            prop_assert!(!matches!(judge(&[&more], &words), Decision::Allow(_)));
        }
    }

    #[test]
    fn stacking_a_policy_never_widens(a in draft(), b in draft(), words in command()) {
        let (alone, stacked) = (judge(&[&a], &words), judge(&[&a, &b], &words));
        prop_assert!(strictness(&stacked) >= strictness(&alone));
        if let (Decision::Allow(both) | Decision::Ask(both), Decision::Allow(one) | Decision::Ask(one)) = (stacked, alone) {
            prop_assert!(within(&both, &one), "{both:?}\n{one:?}");
        }
    }

    #[test]
    fn judging_is_total(
        draft in draft(),
        words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..5),
        agent: Option<String>,
        names: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    ) {
        let words: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
        let mut request = Request::default();
        request.asker.agent = agent;
        request.env = names.into_iter().map(|(n, v)| (OsString::from_vec(n), v.map(OsString::from_vec))).collect();
        let _ = decide(&[draft.policy()], words.clone(), request, &facts());
        let _ = judge(&[&draft, &draft], &words);
    }
}
