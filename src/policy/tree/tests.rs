//! What one pass reads, against what `toml` reads: chosen texts, generated ones and arbitrary ones.

use proptest::prelude::*;

use super::*;

/// What `scan` makes of a text, compared with what `toml` does: `None` if it leaves it to `toml`.
fn scanned(text: &str) -> Option<Tree<'_>> {
    let tree = scan::scan(text)?;
    reference::compare(&tree);
    Some(tree)
}

/// The tree on one line: keys, values and lists as they are meant.
fn shown(tree: &Tree<'_>, id: Id) -> String {
    let children = |key: bool| {
        let entry = |id| match key {
            true => format!("{}={}", tree.key(id), shown(tree, id)),
            false => shown(tree, id),
        };
        tree.children(id).map(entry).collect::<Vec<_>>().join(" ")
    };
    match tree.value(id) {
        Value::String(text) => format!("{text:?}"),
        Value::Integer(digits) => digits.to_owned(),
        Value::Float => "float".to_owned(),
        Value::Boolean(is) => is.to_string(),
        Value::Datetime => "date".to_owned(),
        Value::Array => format!("[{}]", children(false)),
        Value::Table => format!("{{{}}}", children(true)),
    }
}

/// A value with all places in it, but without the tables of a list `but` of the root.
fn places(tree: &Tree<'_>, id: Id, but: &str) -> String {
    let entry = |id| {
        let taken = tree.key(id) == but && tree.node(id).is(Node::OF_TABLES);
        let within = if taken { String::new() } else { places(tree, id, "") };
        format!("{:?}@{:?}={within}", tree.key(id), tree.key_span(id))
    };
    let within: Vec<String> = tree.children(id).map(entry).collect();
    format!("{:?}@{:?}({})", tree.value(id), tree.span(id), within.join(" "))
}

/// What [`Tree::parse_taking`] hands over, and what it leaves.
fn taken(text: &str, list: &str) -> Option<(Vec<String>, String)> {
    let mut each = Vec::new();
    let take = &mut |tree: &Tree<'_>, id| {
        each.push(places(tree, id, ""));
        true
    };
    let tree = Tree::parse_taking(text, list, take)?;
    let rest = places(&tree, Tree::ROOT, list);
    Some((each, rest))
}

/// Whether taking the tables of `list` one by one gives the same as reading them all.
fn same_taken(text: &str, list: &str) -> bool {
    let Some((each, rest)) = taken(text, list) else { return false };
    let tree = scanned(text).unwrap_or_else(|| panic!("taken and not read: {text:?}"));
    let found = tree.get(Tree::ROOT, list).filter(|id| tree.node(*id).is(Node::OF_TABLES));
    let all: Vec<String> =
        found.iter().flat_map(|id| tree.children(*id)).map(|id| places(&tree, id, "")).collect();
    assert_eq!(each, all, "{text:?}");
    assert_eq!(rest, places(&tree, Tree::ROOT, list), "{text:?}");
    true
}

#[test]
fn tables_are_taken_one_by_one_as_they_would_be_found_in_the_whole() {
    let texts = [
        "",
        "a = 1\n[b]",
        "x = 1\n[[a]]\nb = 'c'\n\"d\\u0041\" = \"\\n\"\n[a.e]\nf = 1\n[[a.g]]\n[[a.g]]\n[[a]]\nh.i = [1]\n[y.\"\\u007a\"]\nz = \"\\t\"",
        "[[a]]\n[[b]]\n[[a]]\nc = 1",
        "[a.b]\nc = 1",
        "[[b]]\n[[b.a]]\n[[b.a]]\nc = 1",
    ];
    for text in texts {
        assert!(same_taken(text, "a"), "{text:?}");
    }
    let (each, _) = taken(texts[2], "a").unwrap();
    assert_eq!(each.len(), 2);
    // What belongs to a table that is gone already, or is wrong, is for the others to read.
    assert!(scanned("[[a]]\n[b]\n[a.c]").is_some());
    for text in [
        "[[a]]\n[b]\n[a.c]",
        "[[a]]\n[b]\n[[a.c]]",
        "[[a]]\n[a]",
        "[[a]]\nb = 1\nb = 2",
        "[[a]]\n[a.b]\n[a.b]",
    ] {
        assert_eq!(taken(text, "a"), None, "{text:?}");
    }
    let none = Tree::parse_taking("[[a]]\n[[a]]", "a", &mut |_, _| false);
    assert!(none.is_none());
}

#[test]
fn taken_tables_take_the_memory_of_one() {
    let one = "[[a]]\n\"b\\u0063\" = \"\\n\"\n";
    let most = |text: &str| {
        let mut most = (0, 0, 0);
        let take = &mut |tree: &Tree<'_>, _| {
            let now = (tree.nodes.len(), tree.decoded.len(), tree.decoded_keys.len());
            most = (most.0.max(now.0), most.1.max(now.1), most.2.max(now.2));
            true
        };
        let tree = Tree::parse_taking(text, "a", take).unwrap();
        assert_eq!((tree.nodes.len(), tree.decoded.len(), tree.decoded_keys.len()), (2, 0, 0));
        most
    };
    assert_eq!(most(one), (4, 3, 1));
    assert_eq!(most(&one.repeat(500)), most(one));
}

#[test]
fn keys_of_any_length_are_the_same_only_if_each_byte_is() {
    for length in 0..20 {
        let key: Vec<u8> = (b'a'..).take(length).collect();
        assert!(same(&key, &key.clone()) && !same(&key, &[&key[..], b"x"].concat()));
        for at in 0..length {
            let mut other = key.clone();
            other[at] = b'-';
            assert!(!same(&key, &other), "{length} {at}");
        }
    }
}

#[test]
fn what_policies_are_made_of_is_read_in_one_pass() {
    let texts = [
        ("", "{}"),
        ("# c\r\n\t# d", "{}"),
        ("a = 1\nb = -20 # c\nc = 0", "{a=1 b=-20 c=0}"),
        ("a = 1.5\nb = -0.05", "{a=float b=float}"),
        ("a=true\r\nb=false\r\n", "{a=true b=false}"),
        (r#"a = "x ü # '" "#, r#"{a="x ü # '"}"#),
        (
            r#"a = "\b\e\f\n\r\t\"\\ \x41\u00fc\U0001f600." "#,
            "{a=\"\\u{8}\\u{1b}\\u{c}\\n\\r\\t\\\"\\\\ Aü😀.\"}",
        ),
        (r#"a = 'x\d"' "#, r#"{a="x\\d\""}"#),
        ("a = ''\nb = \"\"", r#"{a="" b=""}"#),
        ("a = '''\nx\r\n'y''\\\n'''''", r#"{a="x\r\n'y''\\\n''"}"#),
        ("a = ''''''\nb = \"\"\"\"\"\"", r#"{a="" b=""}"#),
        ("a = \"\"\"\r\nx\r\n\"y\"\" \"\"\"\"\"", r#"{a="x\r\n\"y\"\" \"\""}"#),
        ("a = \"\"\"x\\\"\"\"\\  \r\n \t\n\n y\\u0041\nz \"\"\"\"", r#"{a="x\"\"\"yA\nz \""}"#),
        ("a = \"\"\"x\\\n\"\"\"", r#"{a="x"}"#),
        ("a = []\nb = [ # c\n1,\n\n 'x' , [\n], #]\n]", r#"{a=[] b=[1 "x" []]}"#),
        ("a = { }\nb = { x = 1, 'y'.z = { w = [{}] }, y.v = 2, }", "{a={} b={x=1 y={z={w=[{}]} v=2}}}"),
        ("a = {\nx = 1, # c\ny = 2\n}", "{a={x=1 y=2}}"),
        ("a . b\t. 'c d' = 1\na.\"e\\u0041\" = 2\n\"\" = 3", "{a={b={c d=1} eA=2} =3}"),
        ("1.2-_ = 3", "{1={2-_=3}}"),
        ("[ a . b ] # c\nx = 1\n[a]\ny = 2\n[a.c.d]", "{a={b={x=1} y=2 c={d={}}}}"),
        ("[[a]]\nx = 1\n[[a]]\n[a.b]\ny = 2\n[[a.c]]\n[[ 'a' . c ]]", "{a=[{x=1} {b={y=2} c=[{} {}]}]}"),
        ("[a.b.c]\n[a.b]\n[a]\nd.e = 1\n[a.b.f]", "{a={b={c={} f={}} d={e=1}}}"),
        ("a.b = 1\n[a.c]\n[b]\na.b = 1", "{a={b=1 c={}} b={a={b=1}}}"),
    ];
    for (text, wanted) in texts {
        let tree = scanned(text).unwrap_or_else(|| panic!("left to toml: {text:?}"));
        assert_eq!(shown(&tree, Tree::ROOT), wanted, "{text:?}");
    }
}

#[test]
fn every_policy_of_the_project_is_read_in_one_pass() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for dir in ["policies", "benches/layers", "src/policy/schema"] {
        for entry in std::fs::read_dir(root.join(dir)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "toml") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(scanned(&text).is_some(), "left to toml: {}", path.display());
                count += 1;
            }
        }
    }
    assert!(count >= 8, "only {count} policies found");
}

#[test]
fn what_is_uncommon_is_left_to_toml_and_reads_the_same() {
    let many: String = (0..300).map(|i| format!("k{i} = {i}\n")).collect();
    let path = vec!["a"; 40].join(".");
    let texts = [
        ("a = 1979-05-27T07:32:00Z", "{a=date}"),
        ("a = 1_000\nb = 0x0f\nc = +5\nd = 1e3\ne = inf", "{a=1000 b=0f c=+5 d=float e=float}"),
        ("a = \"x\\\"\"\nb = +1", "{a=\"x\\\"\" b=+1}"),
        ("\u{feff}a = 1", "{a=1}"),
        ("a = { b\n=\n1 }", "{a={b=1}}"),
        ("[x.a.q]\n[x]\na.b.c = 1", "{x={a={q={} b={c=1}}}}"),
    ];
    for (text, wanted) in texts {
        assert!(scan::scan(text).is_none(), "{text:?}");
        let tree = Tree::parse(text).unwrap_or_else(|e| panic!("{text:?}: {e}"));
        assert_eq!(shown(&tree, Tree::ROOT), wanted, "{text:?}");
    }
    for text in [many, format!("{path} = 1"), format!("a = {}{}", "[".repeat(40), "]".repeat(40))] {
        assert!(scan::scan(&text).is_none(), "{text:?}");
        let tree = Tree::parse(&text).unwrap();
        reference::compare(&tree);
        assert_ne!(tree.children(Tree::ROOT).count(), 0);
    }
}

const WRONG: &[&str] = &[
    "a = 1\na = 2",
    "a = 1\n\"\\u0061\" = 2",
    "a = 1\n[a]",
    "a = 1\n[[a]]",
    "a = []\n[[a]]",
    "[a]\n[a]",
    "[a]\n[[a]]",
    "[[a]]\n[a]",
    "a.b = 1\n[a]",
    "a.b = 1\na = 2",
    "a = {}\na.b = 1",
    "a = {}\n[a.b]",
    "a = [{}]\n[a.b]",
    "[a.b]\n[a]\nb.c = 1",
    "[a.b]\n[a]\nb = 1",
    "a = { b = 1, b.c = 2 }",
    "a = { b.c = 1, b.c = 2 }",
    "a = { b = {}, b.c = 1 }",
    "a = 1 b = 2",
    "a = 1 2",
    "a = [1 2]",
    "a = [,]",
    "a = {,}",
    "a = { b = 1 c = 2 }",
    "a = ",
    "a",
    "= 1",
    "a. = 1",
    ".a = 1",
    "a = 01",
    "a = -",
    "a = 1.",
    "a = .5",
    "a = 1x",
    "a = trues",
    "a = [1x]",
    "a = [true1]",
    "a = 1#\u{1}",
    "a = tru",
    "a = 'x",
    "a = 'x\n'",
    "a = \"x\n\"",
    "a = \"\\q\"",
    "a = \"\\u12\"",
    "a = \"\\ud800\"",
    "a = \"\\U00110000\"",
    "a = \"\u{7}\"",
    "a = '\u{7f}'",
    "a = '''x''",
    "a = \"\"\"x\\\"\"\"",
    "a = \"\"\"x\\ y\"\"\"",
    "a = '''x\ry'''",
    "a = 1\rb = 2",
    "# \u{1}",
    "# c\rx",
    "\"\"\"a\"\"\" = 1",
    "a'b = 1",
    "ä = 1",
    "[a",
    "[]",
    "[a]]",
    "[[a]",
    "[[a] ]",
    "[ [a]]",
    "[a] b = 1",
    "a = [",
    "a = {",
    "a = [1",
    "a = 'x'y",
    "a = 1 # \u{7f}",
];

#[test]
fn what_is_wrong_is_left_to_toml_and_refused() {
    for text in WRONG {
        assert!(scanned(text).is_none(), "{text:?} was read");
        let error = Tree::parse(text).map(|tree| shown(&tree, Tree::ROOT)).unwrap_err();
        assert!(!error.message().is_empty());
    }
    let deep = format!("a = {}", "[".repeat(100_000));
    assert!(scanned(&deep).is_none() && Tree::parse(&deep).is_err());
}

#[test]
fn keys_are_found_however_they_are_written() {
    let tree = scanned("a = 1\n'b c' = 2\n\"d\\te\" = 3\n[f]\n\"\" = 4\n['a.b']").unwrap();
    let at = |key: &str| tree.get(Tree::ROOT, key).map(|id| (tree.value(id), tree.key_span(id)));
    assert_eq!(at("a"), Some((Value::Integer("1"), 0..1)));
    assert_eq!(at("b c"), Some((Value::Integer("2"), 6..11)));
    assert_eq!(at("d\te"), Some((Value::Integer("3"), 16..22)));
    assert_eq!((at("b"), at("'b c'"), at("d\\te"), at("")), (None, None, None, None));
    let f = tree.get(Tree::ROOT, "f").unwrap();
    assert_eq!(tree.get(f, "").map(|id| tree.value(id)), Some(Value::Integer("4")));
    assert!(tree.get(Tree::ROOT, "a.b").is_some() && tree.get(f, "a").is_none());
}

/// Few names, so that they meet.
fn key() -> impl Strategy<Value = String> {
    let part =
        prop::sample::select(vec!["a", "b", "c", "'a'", "\"b\"", "\"\\u0063\"", "\"\"", "'a.b'", "1", "-_"]);
    (prop::collection::vec(part, 1..4), prop::sample::select(vec![".", " . ", ".\t"]))
        .prop_map(|(parts, dot)| parts.join(dot))
}

fn value() -> impl Strategy<Value = String> {
    let scalar = prop::sample::select(vec![
        "1",
        "-0",
        "00",
        "1.5",
        "1_0",
        "0x1",
        "1e2",
        "nan",
        "1979-05-27",
        "true",
        "false",
        "falsy",
        "''",
        "\"\"",
        "'a'",
        "\"a\\\\\\\"b\"",
        "\"\\u00e9\"",
        "\"\\x41\"",
        "'''\nx'y''''",
        "\"\"\"\n\"x\\\n  y\\\"\"\"\"\"",
        "\"ü\"",
    ]);
    let gap = || prop::sample::select(vec!["", " ", "\n", " # c\n", "\r\n\t"]);
    scalar.prop_map(str::to_owned).prop_recursive(3, 12, 3, move |inner| {
        let list = (prop::collection::vec((gap(), inner.clone()), 0..4), gap()).prop_map(|(all, end)| {
            let all: Vec<String> = all.into_iter().map(|(gap, value)| format!("{gap}{value}")).collect();
            format!("[{}{end}]", all.join(&format!("{end},")))
        });
        let braces = (prop::collection::vec((gap(), key(), inner), 0..4), gap()).prop_map(|(all, end)| {
            let pair = |(gap, key, value)| format!("{gap}{key}= {value}");
            let all: Vec<String> = all.into_iter().map(pair).collect();
            format!("{{{}{end}}}", all.join(","))
        });
        prop_oneof![list, braces]
    })
}

fn line() -> impl Strategy<Value = String> {
    let end = || prop::sample::select(vec!["\n", "\r\n", " # c\n", "\n\n"]);
    prop_oneof![
        4 => (key(), value(), end()).prop_map(|(key, value, end)| format!("{key} = {value}{end}")),
        1 => (key(), end()).prop_map(|(key, end)| format!("[{key}]{end}")),
        1 => (key(), end()).prop_map(|(key, end)| format!("[[ {key} ]]{end}")),
    ]
}

/// Lines of TOML, and a piece of something put over a stretch of them.
fn text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "", "\"", "'", "\\", "\n", "\r", "=", ".", ",", "[", "]", "{", "}", "#", "\"\"\"", "'''", "\0", "é",
        "1", "a =",
    ]);
    let patch = (any::<prop::sample::Index>(), 0..4_usize, piece);
    (prop::collection::vec(line(), 0..6), prop::option::weighted(0.5, patch)).prop_map(|(lines, patch)| {
        let mut text = lines.concat();
        if let Some((at, length, piece)) = patch {
            let boundary = |at: usize| (at..).find(|at| *at >= text.len() || text.is_char_boundary(*at));
            let start = boundary(at.index(text.len() + 1)).unwrap_or(0);
            let end = boundary(start + length).unwrap_or(0);
            text.replace_range(start..end.min(text.len()), piece);
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn lines_of_toml_read_as_toml_reads_them(text in text()) {
        let _ = scanned(&text);
        let _ = same_taken(&text, "a");
        if let Ok(tree) = Tree::parse(&text) {
            reference::compare(&tree);
        }
    }

    #[test]
    fn arbitrary_text_is_read_as_toml_reads_it(text in "[\\[\\]{}=.,#'\"\\\\ \t\r\nab1é-]{0,40}") {
        let _ = scanned(&text);
        let _ = Tree::parse(&text);
    }
}
