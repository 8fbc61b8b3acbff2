//! Keeps the house: import direction, no circles, file and function sizes, module docs, where `unsafe` may stand.

use std::fs;
use std::path::{Path, PathBuf};

/// Rooms from the ground up. A room may import itself and every room before it.
const ROOMS: &[&str] = &[
    "sys", "request", "program", "policy", "switch", "decision", "state", "sandbox", "run", "action", "hook",
    "approval", "guard", "report", "cli",
];

/// Files that may hold `unsafe`; everything else is held to `unsafe_code = "deny"` without exceptions.
const UNSAFE: &[&str] = &[
    "src/sys.rs",
    "src/sys/",
    "src/sandbox/raw.rs",
    "src/sandbox/raw/",
    "src/run/child.rs",
    "src/run/spawn.rs",
];

/// Files that are mostly data: their size is not a sign of a missing noun.
const TABLES: &[&str] =
    &["src/policy/hooks.rs", "src/policy/interpreters.rs", "src/sandbox/seccomp/table.rs"];

const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 60;

fn sources() -> Vec<(String, String)> {
    fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).expect("src is readable") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                walk(&path, out);
            } else if path.extension().is_some_and(|e| e == "rs") {
                out.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    walk(&root.join("src"), &mut paths);
    paths.sort();
    assert!(paths.len() > 20, "found only {} source files", paths.len());
    paths
        .into_iter()
        .map(|p| {
            let name = p.strip_prefix(root).expect("below root").to_string_lossy().into_owned();
            (name, fs::read_to_string(&p).expect("source is readable"))
        })
        .collect()
}

/// The room a file belongs to; `None` for `main.rs`, `lib.rs` and the spine, which may import everything.
fn room(file: &str) -> Option<usize> {
    let first = file.strip_prefix("src/")?.split('/').next()?.trim_end_matches(".rs");
    ROOMS.iter().position(|r| *r == first)
}

fn is_test(file: &str) -> bool {
    file.ends_with("tests.rs") || file.contains("/tests/")
}

/// The code of a file without its comments and without its trailing `mod tests { … }`.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    text.lines().map(|l| if l.trim_start().starts_with("//") { "" } else { l }).collect::<Vec<_>>().join("\n")
}

#[test]
fn imports_go_one_way() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let Some(own) = room(&file) else { continue };
        if is_test(&file) {
            continue;
        }
        for (number, line) in code(&text).lines().enumerate() {
            for part in line.split("crate::").skip(1) {
                let name: String = part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if let Some(other) = ROOMS.iter().position(|r| *r == name)
                    && other > own
                {
                    wrong.push(format!("{file}:{}: {} imports {name}", number + 1, ROOMS[own]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "imports against the direction of the house:\n{}", wrong.join("\n"));
}

#[test]
fn rooms_are_known() {
    let mut wrong = Vec::new();
    for (file, _) in sources() {
        let first =
            file["src/".len()..].split('/').next().expect("a name").trim_end_matches(".rs").to_owned();
        if room(&file).is_none() && !["main", "lib", "spine"].contains(&first.as_str()) {
            wrong.push(file);
        }
    }
    assert!(wrong.is_empty(), "files that belong to no room: {wrong:?}");
}

#[test]
fn files_stay_small() {
    let wrong: Vec<String> = sources()
        .into_iter()
        .filter(|(file, _)| !TABLES.contains(&file.as_str()))
        .filter_map(|(file, text)| {
            let lines = text.lines().count();
            (lines > FILE_LINES).then(|| format!("{file}: {lines} lines"))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "over {FILE_LINES} lines; find the noun that wants to leave:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn functions_stay_short() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        if TABLES.contains(&file.as_str()) {
            continue;
        }
        let mut open: Option<(usize, String, String)> = None;
        for (number, line) in text.lines().enumerate() {
            let indent: String = line.chars().take_while(|c| *c == ' ').collect();
            let rest = line.trim_start();
            match &open {
                None => {
                    let head = rest.split("fn ").next().unwrap_or("");
                    let starts = rest.contains("fn ")
                        && head.split_whitespace().all(|w| {
                            w.starts_with("pub")
                                || ["const", "unsafe", "extern", "\"C\"", "async"].contains(&w)
                        });
                    if starts && !rest.ends_with(';') && !rest.ends_with('}') {
                        open = Some((number, indent, rest.to_owned()));
                    }
                }
                Some((from, own, head)) if *own == indent && rest == "}" => {
                    let lines = number - from + 1;
                    if lines > FUNCTION_LINES {
                        wrong.push(format!("{file}:{}: {lines} lines: {head}", from + 1));
                    }
                    open = None;
                }
                Some(_) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "functions over {FUNCTION_LINES} lines:\n{}", wrong.join("\n"));
}

#[test]
fn every_module_says_what_it_is() {
    let wrong: Vec<String> =
        sources().into_iter().filter(|(_, text)| !text.starts_with("//! ")).map(|(file, _)| file).collect();
    assert!(wrong.is_empty(), "no module doc in: {wrong:?}");
}

#[test]
fn unsafe_stands_only_where_it_is_named() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        if UNSAFE.iter().any(|u| file.starts_with(u)) || is_test(&file) {
            continue;
        }
        for (number, line) in code(&text).lines().enumerate() {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if words.into_iter().any(|w| w == "unsafe") {
                wrong.push(format!("{file}:{}", number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "unsafe outside the named files: {wrong:?}");
}

#[test]
fn no_rooms_without_a_noun() {
    let banned = ["common", "util", "utils", "types", "helpers", "prelude", "misc"];
    let wrong: Vec<String> = sources()
        .into_iter()
        .filter(|(file, _)| file.split(['/', '.']).any(|part| banned.contains(&part)))
        .map(|(file, _)| file)
        .collect();
    assert!(wrong.is_empty(), "a helper lives beside its one user: {wrong:?}");
}

/// Where a file stands in the tree of modules: `src/a/b.rs` and `src/a/b/mod.rs` are `a::b`.
fn module(file: &str) -> Vec<String> {
    let path = file.trim_start_matches("src/").trim_end_matches(".rs");
    let path = path.trim_end_matches("/mod");
    if path == "lib" { Vec::new() } else { path.split('/').map(str::to_owned).collect() }
}

/// The paths of `a::{b, c::{d, e}}`.
fn spread(tree: &str) -> Vec<String> {
    let Some((head, rest)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    let whole = |part: &str| format!("{}{part}", head.trim());
    parts.into_iter().flat_map(|part| spread(part.trim())).map(|part| whole(&part)).collect()
}

/// The modules that a file names, by `use` or where it needs them.
fn named(own: &[String], code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let alone = code[..at].ends_with('\n') || code[..at].ends_with("pub ") || code[..at].ends_with(") ");
        if alone && let Some((tree, _)) = code[at + 4..].split_once(';') {
            paths.extend(spread(tree));
        }
    }
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let of = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            paths.push(code[at..].chars().take_while(|c| of(*c)).collect());
        }
    }
    let absolute = |path: String| {
        let mut from = own.to_vec();
        for (at, word) in path.split("::").map(str::trim).enumerate() {
            match word {
                "crate" if at == 0 => from.clear(),
                "super" => drop(from.pop()),
                "self" => {}
                word => from.push(word.to_owned()),
            }
        }
        from
    };
    paths.into_iter().map(absolute).collect()
}

#[test]
fn no_file_takes_from_one_that_takes_from_it() {
    let sources: Vec<_> =
        sources().into_iter().filter(|(file, _)| !is_test(file) && file != "src/main.rs").collect();
    let modules: Vec<Vec<String>> = sources.iter().map(|(file, _)| module(file)).collect();
    let uses: Vec<Vec<usize>> = std::iter::zip(&sources, &modules)
        .map(|((_, text), own)| {
            let named = named(own, &code(text));
            let found = |path: &Vec<String>| {
                let of = (0..modules.len()).filter(|at| path.starts_with(&modules[*at]));
                of.max_by_key(|at| modules[*at].len())
            };
            // A module and those inside it are one thing to others.
            let apart = |at: &usize| !own.starts_with(&modules[*at]) && !modules[*at].starts_with(own);
            named.iter().filter_map(found).filter(apart).collect()
        })
        .collect();
    assert!(uses.iter().map(Vec::len).sum::<usize>() > 500, "hardly any imports were found");
    let mut circles = Vec::new();
    for (from, (file, _)) in sources.iter().enumerate() {
        let mut reached = vec![false; sources.len()];
        let mut next = uses[from].clone();
        while let Some(at) = next.pop() {
            if !std::mem::replace(&mut reached[at], true) {
                next.extend(&uses[at]);
            }
        }
        if reached[from] {
            circles.push(file.as_str());
        }
    }
    assert!(circles.is_empty(), "in a circle of imports: {circles:?}");
}
