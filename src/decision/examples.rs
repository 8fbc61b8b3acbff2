//! Examples that rules carry: commands that must and must not be allowed, judged by their names and words alone.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use super::arguments::{self, Command};
use super::command::{self, Short};
use super::paths::Paths;
use super::shown::row;
use super::word::Word;
use super::{Decision, RuleRef};
use crate::policy::model::{Example, ExampleCommand, Policy, ProgramName, Rule, Syntax, Verdict};
use crate::request::quote::escape_text;

/// Splits a command string as `--command` does; the error is a sentence.
pub type Split<'s> = &'s dyn Fn(&str, Syntax) -> Result<Vec<OsString>, String>;

/// An example that does not come out as its rule says.
#[derive(Debug, Clone)]
pub struct ExampleFailure {
    /// The rule it stands in, with the example's own place.
    pub rule: RuleRef,
    /// The command, safe to print.
    pub command: String,
    /// What its rule says.
    pub expected: Verdict,
    /// What judging says; `Deny` also where the command cannot be split.
    pub got: Verdict,
    /// Why, where it was denied.
    pub why: Option<String>,
}

/// Judges the examples of all rules, or of those that name the program `only` (without directory). Nothing is looked
/// up: a rule for a bare name speaks of an absolute path in its search path, and `path` limits see letters.
pub fn run_examples(policy: &Policy, only: Option<&[u8]>, split: Split<'_>) -> Vec<ExampleFailure> {
    let named = |rule: &&Rule| only.is_none_or(|o| rule.programs.iter().any(|p| p.base().as_bytes() == o));
    let mut failures = Vec::new();
    for rule in policy.rules.iter().filter(named) {
        let agent = rule.agents.as_ref().and_then(|a| a.first()).map(String::as_str);
        for example in &rule.examples {
            let (got, why) = match split_words(policy, example, split) {
                Ok(words) => judge(policy, &words, agent),
                Err(error) => (Verdict::Deny, Some(error)),
            };
            if got != example.expect {
                failures.push(ExampleFailure {
                    rule: RuleRef { id: rule.id.clone(), at: example.at.clone() },
                    command: command_text(&example.command),
                    expected: example.expect,
                    got,
                    why,
                });
            }
        }
    }
    failures
}

fn split_words(policy: &Policy, example: &Example, split: Split<'_>) -> Result<Vec<OsString>, String> {
    match &example.command {
        ExampleCommand::Line(line) => split(line, policy.syntax),
        ExampleCommand::Words(words) => Ok(words.iter().map(OsString::from).collect()),
    }
}

fn judge(policy: &Policy, words: &[OsString], agent: Option<&str>) -> (Verdict, Option<String>) {
    let Some(first) = words.first().filter(|w| !w.is_empty()) else {
        return (Verdict::Deny, Some("the command is empty".into()));
    };
    let word = Word::of(first);
    let mut short = match command::shortlist(policy, std::slice::from_ref(policy), word, agent) {
        Ok(short) => short,
        Err(ended) => return (Verdict::Deny, message(*ended)),
    };
    by_letters(&mut short, word);
    let args: Vec<&[u8]> = words[1..].iter().map(|w| w.as_bytes()).collect();
    let asked = Command { word, args: &args, agent, program: None, paths: Paths::Names };
    match arguments::judge(&short, &asked) {
        Ok((verdict, _)) => (verdict, None),
        Err(denial) => (Verdict::Deny, Some(denial.message)),
    }
}

/// Without the disk an absolute path speaks of a bare name where it lies in the rule's search path, and the other
/// way round.
fn by_letters(short: &mut Short<'_>, word: Word<'_>) {
    let policy = short.policy;
    short.rules.retain(|rule| {
        let path = command::search_path(policy, rule);
        let lies_in = |full: &std::path::Path| full.parent().is_some_and(|dir| path.iter().any(|p| p == dir));
        rule.programs.iter().filter(|p| p.base() == word.base()).any(|name| match (word, name) {
            (Word::Bare(_), ProgramName::Bare(_)) => true,
            (Word::Bare(_), ProgramName::Absolute(full)) => lies_in(full),
            (Word::Absolute(full), ProgramName::Bare(_)) => lies_in(full),
            (Word::Absolute(full), ProgramName::Absolute(name)) => full == name,
            (Word::Relative(_), _) => false,
        })
    });
}

fn message(decision: Decision) -> Option<String> {
    match decision {
        Decision::Deny(d) | Decision::Invalid(d) | Decision::NotFound(d) | Decision::NotExecutable(d) => {
            Some(d.message)
        }
        Decision::Allow(_) | Decision::Ask(_) => None,
    }
}

fn command_text(command: &ExampleCommand) -> String {
    match command {
        ExampleCommand::Line(line) => escape_text(line),
        ExampleCommand::Words(words) => row(&words.iter().map(String::as_bytes).collect::<Vec<_>>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::tests::made::*;
    use crate::policy::model::ArgRules;

    fn split(line: &str, _: Syntax) -> Result<Vec<OsString>, String> {
        if line.contains(';') { Err("shell syntax".into()) } else { Ok(words(line)) }
    }

    fn example(expect: Verdict, line: &str) -> Example {
        Example { expect, command: ExampleCommand::Line(line.into()), at: place(7) }
    }

    fn git() -> Rule {
        let args =
            ArgRules { subcommand: subcommands("status log"), flags: flags("-s"), ..ArgRules::default() };
        rule(Verdict::Allow, "git", args)
    }

    #[test]
    fn examples_are_judged_by_the_whole_policy() {
        let mut git = git();
        git.examples = vec![
            example(Verdict::Allow, "git status -s"),
            example(Verdict::Allow, "/usr/bin/git status"),
            example(Verdict::Deny, "git push"),
            example(Verdict::Deny, "./git status"),
            example(Verdict::Deny, "/tmp/git status"),
            example(Verdict::Deny, "git status; rm"),
            example(Verdict::Ask, "ls"),
        ];
        let ask = rule(Verdict::Ask, "ls", ArgRules::default());
        assert!(run_examples(&policy(vec![git, ask]), None, &split).is_empty());
    }

    #[test]
    fn what_comes_out_otherwise_is_told_with_its_place() {
        let mut git = git();
        git.examples = vec![example(Verdict::Allow, "git push"), example(Verdict::Deny, "git log")];
        let policy = policy(vec![git]);
        let failures = run_examples(&policy, Some(b"git"), &split);
        let told: Vec<_> =
            failures.iter().map(|f| (f.command.as_str(), f.expected, f.got, f.rule.at.line)).collect();
        assert_eq!(
            told,
            [("git push", Verdict::Allow, Verdict::Deny, 7), ("git log", Verdict::Deny, Verdict::Allow, 7)]
        );
        assert!(failures[0].why.as_ref().expect("why").contains("'push'"));
        assert!(run_examples(&policy, Some(b"ls"), &split).is_empty());
    }

    #[test]
    fn a_rule_for_certain_agents_is_judged_for_the_first_of_them() {
        let mut git = git();
        git.agents = Some(vec!["builder".into()]);
        git.examples = vec![example(Verdict::Allow, "git status")];
        assert!(run_examples(&policy(vec![git]), None, &split).is_empty());
    }
}
