//! Built-in actions, templates and what is made where the author says nothing.

use super::{parse, refuse};
use crate::policy::model::{ActionKind, Bound, ParamType, Tool, ToolOutput};

/// The tool `t` of a good policy.
fn read(text: &str) -> Tool {
    parse(&format!("version = 1\n{text}")).unwrap().tools.remove("t").unwrap().0
}

/// A tool without argv and action, on line 2; its own lines follow from line 4 on.
fn bare_tool(lines: &str) -> String {
    format!("[tools.t]\ndecision = \"allow\"\n{lines}")
}

/// A tool that is an action beneath `notes`; its own lines follow from line 6 on.
fn act(kind: &str, lines: &str) -> String {
    bare_tool(&format!("action = \"{kind}\"\nroot = \"notes\"\n{lines}"))
}

#[test]
fn tools_that_act_by_themselves() {
    let tool = read(&act("write_file", ""));
    let action = tool.action.unwrap();
    assert_eq!(
        (action.kind, action.root.to_str(), action.max_size),
        (ActionKind::WriteFile, Some("/pol/dir/notes"), 1 << 20)
    );
    assert_eq!(tool.description, "Writes a file.");
    let params = |tool: &Tool| -> Vec<(String, bool)> {
        tool.params.iter().map(|p| (p.name.clone(), p.required)).collect()
    };
    for (kind, want) in [
        ("read_file", &[("path", true)][..]),
        ("list_dir", &[("path", false)]),
        ("delete_file", &[("path", true)]),
        ("write_file", &[("path", true), ("content", true)]),
    ] {
        let want: Vec<_> = want.iter().map(|(n, r)| ((*n).to_owned(), *r)).collect();
        assert_eq!(params(&read(&act(kind, ""))), want, "{kind}");
    }
    let narrowed = read(&act(
        "list_dir",
        "max_size = \"64M\"\nparams.path = { type = \"string\", required = true, choices = [\"a\"], description = \"D\" }",
    ));
    assert_eq!(params(&narrowed), [("path".to_owned(), true)]);
    assert_eq!(narrowed.params[0].value.choices.as_deref(), Some(&["a".to_owned()][..]));
    assert_eq!(narrowed.params[0].description.as_deref(), Some("D"));
    assert_eq!(narrowed.action.unwrap().max_size, 64 << 20);
}

#[test]
fn an_action_and_an_argv_exclude_each_other() {
    let path = "params.path = ";
    let cases = [
        (
            bare_tool("action = \"read\""),
            "4:10: `action` in [tools.t] cannot be \"read\"; there are: read_file, write_file, list_dir, delete_file",
        ),
        (bare_tool("action = \"read_file\""), "2:1: `root` is missing in [tools.t]"),
        (
            act("read_file", "argv = [\"ls\"]"),
            "6:8: `argv` has no meaning for a tool with an action; a tool is an argv or an action, not both",
        ),
        (
            act("read_file", "stdin = \"x\""),
            "6:9: `stdin` has no meaning for a tool with an action; a tool is an argv or an action, not both",
        ),
        (act("read_file", "max_size = \"65M\""), "6:12: `max_size` in [tools.t] must be at most \"64M\""),
        (
            bare_tool("argv = [\"ls\"]\nroot = \".\""),
            "5:8: `root` has no meaning for a tool with an argv; it belongs to `action`",
        ),
        (
            bare_tool("argv = [\"ls\"]\nmax_size = \"1K\""),
            "5:12: `max_size` has no meaning for a tool with an argv; it belongs to `action`",
        ),
        (
            act("read_file", "params.content = {}"),
            "6:8: the action read_file has no parameter `content`; there are: path",
        ),
        (
            act("read_file", &format!("{path}{{ type = \"integer\" }}")),
            "6:24: `path` of the action read_file is a string",
        ),
        (
            act("read_file", &format!("{path}{{ required = false }}")),
            "6:28: the action read_file cannot do without `path`",
        ),
        (
            act("read_file", &format!("{path}{{ path = {{ under = \".\" }} }}")),
            "6:24: `path` has no meaning for a parameter of a built-in action; `root` says beneath which directory it works; \
             `pattern` and `choices` narrow what it is given",
        ),
        (
            act("list_dir", &format!("{path}{{ default = \".\" }}")),
            "6:17: unknown key `default` in the parameter `path`; a built-in action's parameters can only be narrowed",
        ),
        (
            act("list_dir", &format!("{path}{{ min_value = 1 }}")),
            "6:29: `min_value` has no meaning for a parameter of type string",
        ),
    ];
    for (text, want) in cases {
        refuse(&[(&text, want)]);
    }
}

#[test]
fn templates_output_and_descriptions() {
    let run = |lines: &str| {
        bare_tool(&format!(
            "argv = [\"/bin/p\", \"-n={{n}}\", \"{{a}}\"]\nparams.n = {{ type = \"integer\", ask_above = 10 }}\nparams.a = {{ type = \"array of strings\" }}\nparams.b = {{ type = \"boolean\" }}\n{lines}"
        ))
    };
    let tool = read(&run("stdin = \"{n} {}\""));
    assert_eq!(tool.description, "Runs: p -n={n} {a}");
    assert_eq!(tool.stdin.as_deref(), Some("{n} {}"));
    assert_eq!(tool.params[0].ask_above.as_deref(), Some("10"));
    assert_eq!(tool.params[1].kind, ParamType::Array);
    assert_eq!((tool.output, tool.check_exit), (ToolOutput::Both, false));
    assert_eq!(read(&run("reason = \"why\"")).description, "why");
    assert_eq!(read(&run("output = \"none\"")).output, ToolOutput::None);
    let sized = read(&run("output = \"4K\"\nlimits = { wall_time = \"1s\" }"));
    assert_eq!((sized.output, sized.own.limits.output), (ToolOutput::Both, Some(Bound::At(4096))));
    let cases = [
        ("stdin = \"{x}\"", "8:9: `{x}` names no parameter of this tool; there are: n, a, b"),
        (
            "stdin = \"{a}\"",
            "8:9: `{a}` in `stdin` in [tools.t] is no text; a string, an integer or a number can stand there",
        ),
        (
            "stdin = \"{b}\"",
            "8:9: `{b}` in `stdin` in [tools.t] is no text; a string, an integer or a number can stand there",
        ),
        ("output = \"all\"", "8:10: `output` in [tools.t] cannot be \"all\"; there are: both, stdout, none"),
        ("output = \"65M\"", "8:10: output keeps at most 64M of each stream"),
        (
            "output = \"1K\"\nlimits = { output = \"1K\" }",
            "8:10: the size stands in `output` and in `limits` too; write it once",
        ),
        ("check_exit = 1", "8:14: `check_exit` in [tools.t] must be true or false, not a whole number"),
        (
            "params.s = { type = \"string\", ask_above = 1 }",
            "8:43: `ask_above` has no meaning for a parameter of type string",
        ),
        (
            "params.s = { type = \"boolean\", ask_above = 1 }",
            "8:44: `ask_above` has no meaning for a parameter of type boolean",
        ),
        (
            "params.s = { type = \"number\", ask_above = \"1\" }",
            "8:43: `ask_above` in the parameter `s` must be a number, not a string",
        ),
    ];
    for (lines, want) in cases {
        refuse(&[(&run(lines), want)]);
    }
    let inside = bare_tool("argv = [\"p\", \"--a={a}\"]\nparams.a = { type = \"array\" }");
    refuse(&[(
        &inside,
        "4:14: `{a}` is an array, which becomes whole words; write \"{a}\" as a word of its own",
    )]);
}

#[test]
fn a_tool_has_settings_of_its_own_as_a_rule_has() {
    let own = "limits = { pids = 9 }\nenv = { pass = [\"LANG\"] }\nfilesystem = { write = [\"./out\"] }\nnetwork = { mode = \"host\" }\nexec = [\"rm\"]\n";
    let tool = read(&bare_tool(&format!("argv = [\"./bin/t\"]\n{own}")));
    assert_eq!(tool.argv, ["/pol/dir/bin/t"]);
    assert_eq!(tool.own.limits.pids, Some(Bound::At(9)));
    let write = tool.own.filesystem.as_ref().and_then(|f| f.write.clone()).unwrap();
    assert_eq!(write[0].to_str(), Some("/pol/dir/out"));
    assert!(tool.own.env.is_some() && tool.own.network.is_some());
    assert_eq!(tool.own.exec.as_ref().map(Vec::len), Some(1));
    let refused = parse(&format!("version = 1\n{}", act("read_file", own))).unwrap_err().to_string();
    assert!(refused.contains("`env` has no meaning for a tool with an action"), "{refused}");
}

#[test]
fn choices_of_a_number_are_spelled_as_its_values_are() {
    let tool = |kind: &str, choices: &str| {
        bare_tool(&format!(
            "argv = [\"ls\", \"{{n}}\"]\nparams.n = {{ type = \"{kind}\", choices = {choices} }}"
        ))
    };
    for (kind, choices) in
        [("integer", "[1, -2, \"7\"]"), ("number", "[1, \"0.5\", \"-0.25\"]"), ("string", "[\"1.0\"]")]
    {
        read(&tool(kind, choices));
    }
    for (kind, choice) in [
        ("integer", "1.5"),
        ("number", "1.0"),
        ("number", "0.50"),
        ("number", "007"),
        ("integer", "-0"),
        ("number", "a"),
    ] {
        let error =
            parse(&format!("version = 1\n{}", tool(kind, &format!("[1, \"{choice}\"]")))).unwrap_err();
        assert!(
            error.to_string().contains(&format!("`{choice}` in `choices` is a value that no number has")),
            "{error}"
        );
    }
}
