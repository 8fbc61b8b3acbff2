//! Built-in actions up to the grant: their paths by the letters, what a request may not give them, and their root.

use super::*;

fn action(kind: ActionKind, root: &std::path::Path) -> Tool {
    let path = match kind {
        ActionKind::ListDir => optional("path", ParamType::String),
        _ => param("path", ParamType::String),
    };
    let content = param("content", ParamType::String);
    let params = if kind == ActionKind::WriteFile { vec![path, content] } else { vec![path] };
    Tool { action: Some(Action { kind, root: root.into(), max_size: 9 }), ..tool(kind.as_str(), "", params) }
}

fn offers(dir: &Dir) -> [Policy; 1] {
    let kinds = [ActionKind::ReadFile, ActionKind::WriteFile, ActionKind::ListDir, ActionKind::DeleteFile];
    [offering(kinds.map(|kind| action(kind, &dir.0)).into())]
}

fn action_of(grant: Grant) -> ActionCall {
    grant.tool.and_then(|tool| tool.action).expect("an action")
}

#[test]
fn a_path_is_plain_names_beneath_the_root() {
    let dir = Dir::new("action-paths");
    let policies = offers(&dir);
    let read = |path: &str| call(&policies, "read_file", &typed(json!({ "path": path })));
    for (path, want) in
        [("a", "a"), ("./a//b/./c", "a/b/c"), ("-a", "-a"), (" ", " "), ("a\nb", "a\nb"), ("...", "...")]
    {
        assert_eq!(action_of(granted(read(path))).path, std::path::Path::new(want), "{path:?}");
    }
    let root = dir.0.display().to_string();
    for (path, why) in [
        ("..".to_owned(), "has a '..' in it"),
        ("a/../b".into(), "has a '..' in it"),
        ("a/..".into(), "has a '..' in it"),
        ("/etc/passwd".into(), "is absolute, and paths are relative to the tool's directory"),
        (format!("{root}/a/b"), "is absolute, and paths are relative to the tool's directory: write 'a/b'"),
        ("/proc/self/root/etc/passwd".into(), "is absolute"),
        (String::new(), "names no file"),
        (".".into(), "names no file"),
        ("a/".into(), "names no file"),
        ("a/.".into(), "names no file"),
        ("a".repeat(4096), "is longer than 4095 bytes"),
    ] {
        let denial = refused(read(&path));
        assert_eq!((denial.code, denial.stage), (INVALID_ARGUMENTS, Stage::Arguments), "{path:?}");
        assert!(
            denial.message.starts_with("argument 'path' '") && denial.message.contains(why),
            "{}",
            denial.message
        );
    }
    let list = |given| action_of(granted(call(&policies, "list_dir", &typed(given)))).path;
    for given in [json!({}), json!({"path": "."}), json!({"path": ""}), json!({"path": "./"})] {
        assert_eq!(list(given), std::path::Path::new(""));
    }
    assert_eq!(list(json!({"path": "a/b/"})), std::path::Path::new("a/b"));
}

#[test]
fn content_is_bounded_and_known_for_content() {
    let dir = Dir::new("action-content");
    let policies = offers(&dir);
    let write =
        |content: &str| call(&policies, "write_file", &typed(json!({"path": "a", "content": content})));
    let grant = granted(write("123456789"));
    assert_eq!(grant.tool.as_ref().expect("a call").content, ["content"]);
    assert_eq!((grant.argv.len(), grant.program.is_none(), &grant.cwd), (0, true, &dir.0));
    assert_eq!(action_of(grant).content, b"123456789");
    assert_eq!(
        refused(write("1234567890")).message,
        "argument 'content' is 10 bytes long, more than max_size 9"
    );
    assert_eq!(
        refused(write("a\0")).message,
        "argument 'content' 'a' holds".replace("'a' ", "") + " a NUL byte, which no tool takes"
    );
}

#[test]
fn an_action_takes_nothing_that_only_a_command_has() {
    let dir = Dir::new("action-request");
    let policies = offers(&dir);
    let requests = [
        ("cwd", Request { cwd: Some("/".into()), ..Request::default() }),
        ("env", Request { env: vec![("A".into(), None)], ..Request::default() }),
        ("stdin", Request { stdin: Stdin::Relay, ..Request::default() }),
    ];
    for (what, request) in requests {
        let denial = refused(decided(&policies, "list_dir", &typed(json!({})), request));
        assert_eq!(denial.message, format!("tool 'list_dir' starts no command, so it takes no {what}"));
    }
    let hurry = Request { timeout: Some(std::time::Duration::from_secs(1)), ..Request::default() };
    let grant = granted(decided(&policies, "list_dir", &typed(json!({})), hurry));
    assert_eq!(grant.limits.wall_time.get(), Some(std::time::Duration::from_secs(1)));
}

#[test]
fn stacked_policies_mean_one_root_and_the_smaller_size() {
    let (dir, other) = (Dir::new("action-one"), Dir::new("action-two"));
    std::os::unix::fs::symlink(&dir.0, other.0.join("link")).expect("a link");
    let with = |root: &std::path::Path, max_size| {
        let mut read = action(ActionKind::ReadFile, root);
        read.action.as_mut().expect("an action").max_size = max_size;
        offering(vec![read])
    };
    let decide = |policies: &[Policy]| call(policies, "read_file", &typed(json!({"path": "a"})));
    let grant = granted(decide(&[with(&dir.0, 9), with(&other.0.join("link"), 4)]));
    assert_eq!(grant.cwd, dir.0);
    assert_eq!(action_of(grant).max_size, 4);
    assert_eq!(outcome(&decide(&[with(&dir.0, 9), with(&other.0, 9)])), "deny:tool_conflict");
    let mut list = action(ActionKind::ListDir, &dir.0);
    list.name = "read_file".into();
    assert_eq!(outcome(&decide(&[with(&dir.0, 9), offering(vec![list])])), "deny:tool_conflict");
    let echo = tool("read_file", "echo {path}", vec![param("path", ParamType::String)]);
    assert_eq!(outcome(&decide(&[with(&dir.0, 9), offering(vec![echo])])), "deny:tool_conflict");
}

#[test]
fn a_root_that_is_not_there_is_the_operators_mistake() {
    let dir = Dir::new("action-root");
    let policies = [offering(vec![action(ActionKind::ListDir, &dir.0.join("none"))])];
    let decision = call(&policies, "list_dir", &typed(json!({})));
    assert_eq!(outcome(&decision), "error:root_unusable");
    assert!(refused(decision).message.ends_with("cannot be opened: No such file or directory"));
    std::fs::write(dir.0.join("file"), "").expect("a file");
    let policies = [offering(vec![action(ActionKind::ListDir, &dir.0.join("file"))])];
    assert_eq!(outcome(&call(&policies, "list_dir", &typed(json!({})))), "error:root_unusable");
}

#[test]
fn an_action_can_be_asked_for_too() {
    let dir = Dir::new("action-ask");
    let asking = Tool { decision: Verdict::Ask, ..action(ActionKind::DeleteFile, &dir.0) };
    let decision = call(&[offering(vec![asking])], "delete_file", &typed(json!({"path": "a"})));
    let Decision::Ask(grant) = decision else { panic!("{decision:?}") };
    assert_eq!(
        (grant.ids, grant.asks),
        (vec!["delete_file".to_owned()], vec!["tool 'delete_file' wants a person to approve it".to_owned()],)
    );
}
