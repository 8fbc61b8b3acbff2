//! What a policy's author should look at again: it loads, and may not mean what they think.

mod confinement;
mod oversight;

use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use super::error::printable;
use super::hooks::is_hook;
use super::model::{EnvPolicy, Place, Policy, Profile, Rule, Tool, Verdict};
use super::runners::runs_arguments;
use super::template::placeholders;

/// One thing to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Stable, machine-readable: `runs_arguments`, `hook_variable`, `every_variable`, `never_matches`,
    /// `limits_without_effect`, `missing_path`, `starts_nothing`, `loader`, `starting_daemon`, `text_becomes_code`,
    /// `unused_parameter`, `no_name`, `hook_unusable`, `untrusted_file`,
    /// `switch_directory_missing`, `self_approval`, `never_told`, `state_of_the_caller`, `rate_without_parameter`, `rate_parameter_optional`,
    /// `sum_of_negatives`, `alert_never_fires`, `never_asks`.
    pub code: &'static str,
    /// One sentence; safe to print.
    pub message: String,
    /// Where it stands.
    pub at: Place,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Everything in a policy that deserves a second look, in the order of the rules. What it leads to is looked at on the
/// disk, as this user.
pub fn lint(policy: &Policy) -> Vec<Finding> {
    let mut findings = Vec::new();
    environment(policy, &policy.env, None, &mut findings);
    for rule in &policy.rules {
        no_name(rule, &mut findings);
        runner(rule, &mut findings);
        shadowed(policy, rule, &mut findings);
        idle_limits(policy, rule, &mut findings);
        if let Some(env) = &rule.own.env {
            environment(policy, env, Some(&rule.at), &mut findings);
        }
    }
    confinement::lint(policy, &mut findings);
    for tool in policy.tools.values() {
        template(tool, &mut findings);
    }
    oversight::oversight(policy, &mut findings);
    findings
}

fn names(rule: &Rule) -> impl Iterator<Item = String> + '_ {
    rule.programs.iter().map(|p| printable(&p.as_os_str().to_string_lossy()))
}

/// A rule that allows any arguments to a program that runs them.
fn runner(rule: &Rule, findings: &mut Vec<Finding>) {
    if rule.decision != Verdict::Allow || rule.args.closes() || rule.runs_arguments {
        return;
    }
    let runners = rule.programs.iter().filter(|p| runs_arguments(p.base().as_bytes()));
    for program in runners {
        let name = printable(&program.as_os_str().to_string_lossy());
        findings.push(Finding {
            code: "runs_arguments",
            message: format!("rule `{}` allows `{name}` with any arguments, and `{name}` runs its arguments", rule.id),
            at: rule.at.clone(),
            hint: Some(
                "list what it may be given (`subcommand`, `flags`, `operands`), or write `runs_arguments = true` in a [[rule]]"
                    .to_owned(),
            ),
        });
    }
}

/// What stands for a program and looks like a whole command or a pattern: no program is called so, and a deny rule for it
/// denies nothing.
fn no_name(rule: &Rule, findings: &mut Vec<Finding>) {
    for program in &rule.programs {
        let bytes = program.as_os_str().as_bytes();
        // `[` is a program; all else that these characters make is a pattern of a shell.
        let odd = bytes.iter().find(|b| b" *?[]{}|;&<>".contains(b) && bytes != b"[");
        let Some(&odd) = odd else { continue };
        let name = printable(&program.as_os_str().to_string_lossy());
        let (holds, instead) = match odd {
            b' ' => (
                "a blank",
                "name the program alone, and say what it may be given in a [[rule]] (`subcommand`, `flags`, `operands`)",
            ),
            _ => ("a character of patterns or shells", "name each program"),
        };
        findings.push(Finding {
            code: "no_name",
            message: format!(
                "rule `{}` names the program `{name}`, which holds {holds}: a name is compared as a whole",
                printable(&rule.id)
            ),
            at: rule.at.clone(),
            hint: Some(instead.to_owned()),
        });
    }
}

/// An allow or ask rule whose every program is denied with any arguments, to all askers.
fn shadowed(policy: &Policy, rule: &Rule, findings: &mut Vec<Finding>) {
    if rule.decision == Verdict::Deny {
        return;
    }
    let denies = |other: &&Rule| {
        other.decision == Verdict::Deny
            && !other.args.closes()
            && other.agents.is_none()
            && other.sha256.is_none()
    };
    let denied_by = |p| policy.rules.iter().filter(denies).find(|other| other.programs.contains(p));
    let denying: Option<Vec<&Rule>> = rule.programs.iter().map(denied_by).collect();
    let Some(by) = denying.and_then(|d| d.first().copied()) else { return };
    findings.push(Finding {
        code: "never_matches",
        message: format!(
            "rule `{}` never decides: rule `{}` ({}) denies the same program",
            rule.id, by.id, by.at
        ),
        at: rule.at.clone(),
        hint: Some("the strictest rule wins; remove one of them".to_owned()),
    });
}

/// A closed allow rule beside an open one for the same program: the open one lets everything through.
fn idle_limits(policy: &Policy, rule: &Rule, findings: &mut Vec<Finding>) {
    if rule.decision != Verdict::Allow || !rule.args.closes() {
        return;
    }
    let open = |other: &&Rule| {
        other.decision == Verdict::Allow
            && !other.args.closes()
            && other.args.max_args.is_none()
            && other.agents.is_none()
            && other.sha256.is_none()
    };
    let same =
        |other: &&Rule| other.programs.iter().any(|p| rule.programs.iter().any(|q| p.base() == q.base()));
    let Some(other) = policy.rules.iter().filter(open).find(same) else { return };
    let program = names(rule).collect::<Vec<_>>().join(", ");
    findings.push(Finding {
        code: "limits_without_effect",
        message: format!(
            "rule `{}` limits the arguments of `{program}`, but rule `{}` ({}) allows any",
            rule.id, other.id, other.at
        ),
        at: rule.at.clone(),
        hint: Some("close the other rule too, or remove it".to_owned()),
    });
}

/// Variables that make some program load or run something, and the glob that passes all others.
fn environment(policy: &Policy, env: &EnvPolicy, rule: Option<&Place>, findings: &mut Vec<Finding>) {
    let lists =
        [("pass", &env.pass, "comes from the caller"), ("request", &env.request, "can be set by the caller")];
    for (key, list, how) in lists {
        for name in list.iter().flatten() {
            let at = || rule.cloned().unwrap_or_else(|| find(policy, name));
            if name == "*" {
                findings.push(Finding {
                    code: "every_variable",
                    message: format!("`{key}` in [env] holds `*`: secrets of the caller reach the run"),
                    at: at(),
                    hint: Some("name the variables that the programs need".to_owned()),
                });
            } else if !name.contains('*') && is_hook(name.as_bytes()) {
                let name = printable(name);
                findings.push(Finding {
                    code: "hook_variable",
                    message: format!("`{name}` {how}, and makes some programs load or run what it names"),
                    at: at(),
                    hint: Some("set it to a fixed value with `set`, or leave it out".to_owned()),
                });
            }
        }
    }
    for (name, value) in &env.set {
        if is_hook(name.as_bytes()) && !harmless(value) && !git_ownership(policy, env, name) {
            findings.push(Finding {
                code: "hook_variable",
                message: format!("`set` gives `{}` a value that some programs load or run", printable(name)),
                at: rule.cloned().unwrap_or_else(|| find(policy, name)),
                hint: Some("make sure that no run can write what it names".to_owned()),
            });
        }
    }
}

/// `safe.directory` by way of git's numbered variables, under `strict`: there the repository's own settings, which it makes
/// git take from strangers, can start nothing. Root's runs need it, because their user does not own the repository.
fn git_ownership(policy: &Policy, env: &EnvPolicy, name: &str) -> bool {
    let number = name.strip_prefix("GIT_CONFIG_KEY_").or_else(|| name.strip_prefix("GIT_CONFIG_VALUE_"));
    let strict = policy.sandbox.profile.unwrap_or_default() == Profile::Strict;
    let starts = policy.rules.iter().any(|rule| rule.own.exec.is_some());
    let key = number.and_then(|n| env.set.get(&format!("GIT_CONFIG_KEY_{n}")));
    strict && !starts && key.is_some_and(|key| key == "safe.directory")
}

/// Switches and the pager that shows its input: values that name nothing to load.
fn harmless(value: &str) -> bool {
    matches!(value, "" | "cat" | "true" | "false" | "yes" | "no" | "on" | "off")
        || value.bytes().all(|b| b.is_ascii_digit())
}

/// The line on which a variable's name stands, the last file first; the compiled policy keeps no place for it.
fn find(policy: &Policy, name: &str) -> Place {
    let (quoted, literal, assigned) = (format!("\"{name}\""), format!("'{name}'"), format!("{name} ="));
    line_with(policy, &[&quoted, &literal, &assigned])
}

/// The first line that holds one of these in its code, the last file first; else the file's first.
fn line_with(policy: &Policy, any: &[&str]) -> Place {
    let holds = |line: &str| {
        let code = line.trim_start();
        !code.starts_with('#') && any.iter().any(|n| code.contains(n))
    };
    for source in policy.sources.iter().rev() {
        if let Some(index) = source.text.lines().position(holds) {
            return Place {
                file: Arc::clone(&source.shown),
                line: u32::try_from(index + 1).unwrap_or(u32::MAX),
            };
        }
    }
    first_line(policy)
}

/// Where the policy starts, for what stands nowhere in particular.
fn first_line(policy: &Policy) -> Place {
    let file = policy.sources.last().map_or(&policy.path, |source| &source.shown);
    Place { file: Arc::clone(file), line: 1 }
}

/// A tool's template: a parameter that becomes code, or that goes nowhere.
fn template(tool: &Tool, findings: &mut Vec<Finding>) {
    let base = tool.argv.first().map(|p| p.rsplit('/').next().unwrap_or(p)).unwrap_or_default();
    let code_flag =
        |word: &str| matches!(word, "-c" | "-e" | "-E" | "-r" | "--eval" | "--command" | "-exec" | "eval");
    let becomes_code = tool.argv.windows(2).any(|w| code_flag(&w[0]) && placeholders(&w[1]).next().is_some());
    if becomes_code && runs_arguments(base.as_bytes()) {
        findings.push(Finding {
            code: "text_becomes_code",
            message: format!(
                "the tool `{}` puts a parameter into code that `{}` runs",
                tool.name,
                printable(base)
            ),
            at: tool.at.clone(),
            hint: Some("pass it as an argument of its own after the code".to_owned()),
        });
    }
    // A built-in action knows its own parameters.
    for param in tool.params.iter().filter(|_| tool.action.is_none()) {
        let mut words = tool.argv.iter().chain(&tool.stdin);
        if !words.any(|word| placeholders(word).any(|name| name == param.name)) {
            findings.push(Finding {
                code: "unused_parameter",
                message: format!(
                    "the parameter `{}` of the tool `{}` is used nowhere",
                    param.name, tool.name
                ),
                at: tool.at.clone(),
                hint: Some(format!("put {{{}}} into `argv` or `stdin`, or remove it", param.name)),
            });
        }
    }
}

#[cfg(test)]
mod tests;
