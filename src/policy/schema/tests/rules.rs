//! Rules, their arguments and values, and tools.

use super::{complaint, in_rule, refuse, refuse_in_rule};

#[test]
fn rules() {
    refuse(&[
        ("[rule]\nid = \"a\"", "2:1: `rule` must be a list of tables; write `[[rule]]`"),
        ("rule = [1]", "2:9: an entry of `rule` in the policy must be a table, not a whole number"),
        ("[[rule]]\nid = \"a\"\nprogram = \"p\"", "2:1: `decision` is missing in [[rule]]"),
        ("[[rule]]\nid = \"a\"\ndecision = \"deny\"", "2:1: `program` is missing in [[rule]]"),
        (
            "[[rule]]\nprogram = \"p\"\ndecision = \"alow\"",
            "4:12: `decision` in [[rule]] cannot be \"alow\"; did you mean `allow`?",
        ),
        (
            "[[rule]]\nprogram = []\ndecision = \"deny\"",
            "3:11: `program` in [[rule]] is empty: the rule could never match",
        ),
        (
            "[[rule]]\nprogram = [\"a\", \"a\"]\ndecision = \"deny\"",
            "3:17: `a` stands twice in `program` in [[rule]]",
        ),
        (
            "[[rule]]\nprogram = 1\ndecision = \"deny\"",
            "3:11: `program` in [[rule]] must be a program's name or a list of them, not a whole number",
        ),
        (
            "[[rule]]\nprogram = \"*\"\ndecision = \"ask\"",
            "3:11: `*` does not stand for every program; name each program",
        ),
        ("[[rule]]\nid = \" \"\nprogram = \"p\"\ndecision = \"deny\"", "3:6: a rule's id cannot be empty"),
        (
            "[[rule]]\nid = \"a\\u202eb\"\nprogram = \"p\"\ndecision = \"deny\"",
            "3:6: a rule's id cannot hold a control or invisible character",
        ),
    ]);
}

#[test]
fn the_rest_of_a_rule() {
    let long = format!("[[rule]]\nid = \"{}\"\nprogram = \"p\"\ndecision = \"deny\"", "x".repeat(129));
    assert_eq!(complaint(&long), "p.toml:3:6: a rule's id cannot be longer than 128 bytes");
    refuse_in_rule(
        "deny",
        &[
            (
                "agents = []",
                "6:10: an empty `agents` would match nobody; leave the key out to match everybody",
            ),
            ("agents = [\"a\\nb\"]", "6:11: an agent's name cannot hold a control or invisible character"),
            ("agents = [\"a\", \"a\"]", "6:16: `a` stands twice in `agents` in [[rule]]"),
            ("reason = \"a\\u001b\"", "6:10: `reason` in [[rule]] holds a control or invisible character"),
            (
                "sha256 = \"abc\"",
                "6:10: `sha256` in [[rule]] must be 64 hex digits; as sha256sum prints them",
            ),
            (
                "exec = [\"a/b\"]",
                "6:9: `a/b` is neither a bare name nor an absolute path; write its absolute path: a relative one would name another file in every directory",
            ),
            ("limits = { pid = 1 }", "6:12: unknown key `pid` in `limits` of a rule; did you mean `pids`?"),
            ("env = { pas = [] }", "6:9: unknown key `pas` in `env` of a rule; did you mean `pass`?"),
            (
                "filesystem = { writ = [] }",
                "6:16: unknown key `writ` in `filesystem` of a rule; did you mean `write`?",
            ),
            (
                "network = { mod = \"host\" }",
                "6:13: unknown key `mod` in `network` of a rule; did you mean `mode`?",
            ),
            ("examples = { alow = [] }", "6:14: unknown key `alow` in `examples`; did you mean `allow`?"),
            (
                "examples = { deny = [1] }",
                "6:22: an entry of `deny` in `examples` must be a command string or a list of words, not a whole number",
            ),
            ("examples = { deny = [[]] }", "6:22: an example without a word"),
            (
                "examples = { deny = [[1]] }",
                "6:23: an entry of an entry of `deny` in `examples` must be a string, not a whole number",
            ),
        ],
    );
}

#[test]
fn flags_and_subcommands() {
    refuse_in_rule(
        "allow",
        &[
            ("flags = [\"n\"]", "6:10: the flag `n` does not start with `-`"),
            ("flags = [\"\"]", "6:10: the flag `` does not start with `-`"),
            (
                "flags = [\"-\"]",
                "6:10: `-` is not a flag; a lone `--` is always allowed and ends the flags; a lone `-` is an operand",
            ),
            (
                "flags = [\"--\"]",
                "6:10: `--` is not a flag; a lone `--` is always allowed and ends the flags; a lone `-` is an operand",
            ),
            (
                "flags = [\"--a=b\"]",
                "6:10: `=` in the name of the flag `--a=b`; write the value's limits as `value = { ... }`",
            ),
            (
                "flags = [\"-n 1\"]",
                "6:10: ` ` in the name of the flag `-n 1`; write the value's limits as `value = { ... }`",
            ),
            (
                "flags = [\"-a\", { name = \"-a\" }]",
                "6:25: the flag `-a` stands twice in `flags` in [[rule]]",
            ),
            ("flags = [{ nam = \"-a\" }]", "6:12: unknown key `nam` in a flag; did you mean `name`?"),
            ("flags = [{ value = {} }]", "6:10: `name` is missing in a flag"),
            (
                "flags = [1]",
                "6:10: an entry of `flags` in [[rule]] must be a string such as \"-n\" or a table such as { name = \"-n\", value = {} }, not a whole number",
            ),
            (
                "flags = [{ name = \"-a\", allow_dash = true }]",
                "6:38: `allow_dash` of the flag `-a`, which takes no value; write `value = {}` too",
            ),
            (
                "flags = [{ name = \"-a\", value = true }]",
                "6:33: `value` in a flag must be a table, not true or false",
            ),
            (
                "flags = [{ name = \"-a\", value = { max = 1 } }]",
                "6:35: unknown key `max` in a flag's `value`; there are: max_length, min_value, max_value, pattern, choices, path",
            ),
            (
                "global_flags = [\"-C\"]",
                "6:16: `global_flags` stand before a subcommand, and the rule has no `subcommand`; use `flags`",
            ),
            (
                "subcommand = [\"remote add\"]",
                "6:15: `remote add` is not a subcommand; a subcommand is one word that does not start with `-`",
            ),
            (
                "subcommand = [\"-x\"]",
                "6:15: `-x` is not a subcommand; a subcommand is one word that does not start with `-`",
            ),
            ("max_args = -1", "6:12: `max_args` in [[rule]] must be from 0 to 1048576"),
        ],
    );
}

#[test]
fn deny_rules_with_nothing_to_match() {
    refuse_in_rule(
        "deny",
        &[
            (
                "max_args = 1",
                "6:12: `max_args` has no meaning in a rule that decides deny; only allow rules take it",
            ),
            (
                "flags = []",
                "6:9: an empty `flags` would never match in a rule that decides deny; leave the key out to match any",
            ),
            (
                "operands = []",
                "6:12: an empty `operands` would never match in a rule that decides deny; leave the key out to match any",
            ),
            (
                "subcommand = []",
                "6:14: an empty `subcommand` would never match in a rule that decides deny; leave the key out to match any",
            ),
            (
                "subcommand = [\"a\"]\nglobal_flags = []",
                "7:16: an empty `global_flags` would never match in a rule that decides deny; leave the key out to match any",
            ),
        ],
    );
}

#[test]
fn operands_and_values() {
    refuse_in_rule(
        "allow",
        &[
            ("operands = [\"x\"]", "6:13: an entry of `operands` in [[rule]] must be a table, not a string"),
            ("operands = [{ repeat = true }, {}]", "6:24: only the last operand may repeat"),
            (
                "operands = [{ optional = true }, {}]",
                "6:34: a required operand after an optional one; it could not be told which one is missing",
            ),
            (
                "operands = [{ maxlength = 1 }]",
                "6:15: unknown key `maxlength` in an operand; did you mean `max_length`?",
            ),
            ("operands = [{ min_value = nan }]", "6:27: `min_value` in an operand must be a finite number"),
            ("operands = [{ max_value = -inf }]", "6:27: `max_value` in an operand must be a finite number"),
            (
                "operands = [{ max_value = \"1\" }]",
                "6:27: `max_value` in an operand must be a number, not a string",
            ),
            (
                "operands = [{ min_value = 2, max_value = 1 }]",
                "6:27: min_value 2 is greater than max_value 1",
            ),
            (
                "operands = [{ min_value = -1.5, max_value = -1.50001 }]",
                "6:27: min_value -1.5 is greater than max_value -1.50001",
            ),
        ],
    );
}

#[test]
fn choices_patterns_and_paths() {
    refuse_in_rule(
        "allow",
        &[
            (
                "operands = [{ choices = [] }]",
                "6:25: `choices` in an operand is empty: no value could ever pass",
            ),
            (
                "operands = [{ choices = [\"a\", \"a\"] }]",
                "6:31: `a` stands twice in `choices` in an operand",
            ),
            (
                "operands = [{ choices = [true] }]",
                "6:26: an entry of `choices` in an operand must be a string, not true or false",
            ),
            (
                "operands = [{ pattern = 1 }]",
                "6:25: `pattern` in an operand must be a string, not a whole number",
            ),
            ("operands = [{ path = \"/a\" }]", "6:22: `path` in an operand must be a table, not a string"),
            ("operands = [{ path = {} }]", "6:22: `under` is missing in `path`"),
            (
                "operands = [{ path = { under = \".\", kind = \"link\" } }]",
                "6:44: `kind` in `path` cannot be \"link\"; there are: file, dir",
            ),
            (
                "operands = [{ max_length = 1e3 }]",
                "6:28: `max_length` in an operand must be a whole number, not a decimal number",
            ),
        ],
    );
}

#[test]
fn numbers_are_plain_decimals() {
    let number = "write it without exponent, underscore, plus sign or base, such as 1000 or 0.5";
    for bad in ["0x10", "0o17", "0b1", "1_000", "+5", "1e309", "1e3", "1.5e2", "1_0.5"] {
        let got = complaint(&in_rule("allow", &format!("operands = [{{ max_value = {bad} }}]")));
        let want = format!("p.toml:6:27: `max_value` in an operand must be a plain decimal number; {number}");
        assert_eq!(got, want, "{bad}");
    }
}

fn tool(lines: &str) -> String {
    format!("[tools.t]\ndescription = \"d\"\ndecision = \"allow\"\n{lines}")
}

#[test]
fn tools() {
    let cases: &[(&str, &str)] = &[
        ("argv = []", "5:8: `argv` in [tools.t] is empty: it has to name a program"),
        ("argv = \"ls\"", "5:8: `argv` in [tools.t] must be a list of strings, not a string"),
        ("argv = [\"{p}\"]", "5:9: the program of a tool cannot come from a parameter"),
        (
            "argv = [\"a/b\"]",
            "5:9: `a/b` is neither a bare name nor an absolute path; write its absolute path: a relative one would name another file in every directory",
        ),
        (
            "argv = [\"ls\", \"{p}\"]",
            "5:15: `{p}` names no parameter of this tool; declare it, as in `params.p = { type = \"string\" }`",
        ),
        (
            "argv = [\"ls\", \"{nme}\"]\nparams.name = { type = \"string\" }",
            "5:15: `{nme}` names no parameter of this tool; did you mean `name`?",
        ),
        ("argv = [\"ls\"]\nparams.a = { }", "6:12: `type` is missing in the parameter `a`"),
        (
            "argv = [\"ls\"]\nparams.a = { type = \"int\" }",
            "6:21: `type` in the parameter `a` cannot be \"int\"; there are: string, integer, number, boolean, array, \
             array of strings",
        ),
        (
            "argv = [\"ls\"]\nparams.a = { type = \"string\", mx = 1 }",
            "6:31: unknown key `mx` in the parameter `a`; there are: max_length, min_value, max_value, pattern, choices, path, type, required, default, \
             ask_above, description",
        ),
        (
            "argv = [\"ls\"]\nparams.\"a b\" = { type = \"string\" }",
            "6:8: `a b` cannot be the name of a parameter; letters, digits, `_` and `-`, not more than 64",
        ),
        (
            "argv = [\"ls\"]\nparams.a = { type = \"string\", min_value = 1 }",
            "6:43: `min_value` has no meaning for a parameter of type string",
        ),
        (
            "argv = [\"ls\"]\nparams.a = { type = \"boolean\", choices = [\"x\"] }",
            "6:42: `choices` has no meaning for a parameter of type boolean",
        ),
    ];
    for (lines, want) in cases {
        assert_eq!(complaint(&tool(lines)), format!("p.toml:{want}"), "{lines}");
    }
}

#[test]
fn defaults_of_parameters() {
    let cases: &[(&str, &str)] = &[
        (
            "argv = [\"ls\"]\nparams.a = { type = \"integer\", default = \"1\" }",
            "6:42: `default` in the parameter `a` must be a whole number, not a string",
        ),
        (
            "argv = [\"ls\"]\nparams.a = { type = \"integer\", default = 0x1 }",
            "6:42: `default` in the parameter `a` must be a whole number in plain decimal digits",
        ),
        (
            "argv = [\"ls\"]\nparams.a = { type = \"number\", default = 1e9 }",
            "6:41: `default` in the parameter `a` must be a plain decimal number",
        ),
        (
            "argv = [\"ls\"]\nparams.a = { type = \"number\", default = \"x\" }",
            "6:41: `default` in the parameter `a` must be a number, not a string",
        ),
        (
            "argv = [\"ls\"]\nparams.a = { type = \"array\", default = 1 }",
            "6:40: `default` in the parameter `a` must be a list of strings, not a whole number",
        ),
        (
            "argv = [\"ls\"]\nparams.a = { type = \"boolean\", default = 1 }",
            "6:42: `default` in the parameter `a` must be true or false, not a whole number",
        ),
        (
            "argv = [\"ls\"]\nparams.a = { type = \"string\", default = 1 }",
            "6:41: `default` in the parameter `a` must be a string, not a whole number",
        ),
        (
            "argv = [\"ls\"]\nparams.a = { type = \"string\", default = \"x\", choices = [\"y\"] }",
            "6:41: the default `x` is not one of `choices`",
        ),
        (
            "argv = [\"ls\"]\nparams.a = { type = \"string\", default = \"x\", required = true }",
            "6:41: a required parameter is never missing, so it takes no default",
        ),
    ];
    for (lines, want) in cases {
        assert_eq!(complaint(&tool(lines)), format!("p.toml:{want}"), "{lines}");
    }
    refuse(&[
        (
            "[tools.t]\ndecision = \"ask\"",
            "2:1: `argv` is missing in [tools.t]; or `action`, for what guardexec does itself",
        ),
        ("[tools.t]\nargv = [\"ls\"]\ndescription = \"d\"", "2:1: `decision` is missing in [tools.t]"),
        (
            "[tools.\"1t\"]\nargv = []",
            "2:8: `1t` cannot be the name of a tool; letters, digits, `_` and `-`, not more than 64",
        ),
        ("tools = 1", "2:9: `tools` must be a table, not a whole number"),
    ]);
}
