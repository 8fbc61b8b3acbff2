//! What must hold for any input: one body a target, used by the fuzz targets and by `tests/fuzz.rs` alike.
//!
//! A body panics where a promise is broken and says otherwise whether the input was accepted, so that a test can see
//! that it was not all refused at the door.

use std::ffi::{OsStr, OsString};
use std::fmt::{Debug, Display};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use guardexec::policy::error::PolicyError;
use guardexec::policy::lint::lint;
use guardexec::policy::load::{LoadContext, load};
use guardexec::policy::model::Policy;
use guardexec::request::json::{self, KEYS};
use guardexec::request::words::{Syntax, WordsError, split};
use guardexec::request::{Arguments, Ask, Request, Stdin};
use serde_json::{Map, Value, json};

/// A command string: words or an error, never anything in between.
pub fn command_string(data: &[u8]) -> bool {
    let strict = split(data, Syntax::Refuse);
    let literal = split(data, Syntax::Literal);
    match (&strict, &literal) {
        (Ok(words), Ok(same)) => assert_eq!(words, same, "accepted in both modes and split differently"),
        (Ok(_), Err(e)) => panic!("refuse mode accepts what literal mode does not: {e}"),
        (Err(e @ WordsError::Unparsable { .. }), other) => {
            assert_eq!(other.as_ref().err(), Some(e), "unparsable in one mode only");
        }
        (Err(WordsError::Syntax { what, position, hint, .. }), _) => {
            assert!(*position < data.len(), "syntax at {position}, behind the end");
            one_safe_line(what);
            one_safe_line(hint);
        }
    }
    assert!(!matches!(literal, Err(WordsError::Syntax { .. })), "literal mode knows no syntax");
    for error in [&strict, &literal].into_iter().filter_map(|result| result.as_ref().err()) {
        one_safe_line(error);
    }
    if let Ok(words) = &literal {
        check_words(data, words);
    }
    strict.is_ok()
}

fn check_words(data: &[u8], words: &[OsString]) {
    assert!(!words.is_empty(), "accepted and empty");
    let length: usize = words.iter().map(|w| w.len()).sum();
    assert!(length <= data.len(), "the words are longer than the string");
    assert!(words.iter().all(|w| !w.as_bytes().contains(&0)), "a word holds a NUL byte");
    let quoted = words.iter().map(|w| quote(w)).collect::<Vec<_>>().join(&b' ');
    for syntax in [Syntax::Refuse, Syntax::Literal] {
        let again = split(&quoted, syntax).unwrap_or_else(|e| panic!("quoted words are refused: {e}"));
        assert_eq!(again, words, "quoted words are split differently");
    }
}

/// Quoting on its own, so that a flaw of the library's cannot hide one of the splitter.
fn quote(word: &OsStr) -> Vec<u8> {
    let mut out = vec![b'\''];
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => out.extend_from_slice(b"'\\''"),
            _ => out.push(byte),
        }
    }
    out.push(b'\'');
    out
}

/// A JSON request: what is accepted is plain JSON with known keys, and says the same when written out again.
pub fn json_request(data: &[u8]) -> bool {
    let request = match json::parse(data) {
        Ok(request) => request,
        Err(error) => {
            one_safe_line(&error);
            assert!(!error.code.is_empty());
            return false;
        }
    };
    let plain: Value = serde_json::from_slice(data).expect("accepted, so it is JSON");
    let object = plain.as_object().expect("accepted, so it is an object");
    assert!(object.keys().all(|key| KEYS.contains(&key.as_str())), "an unknown key was accepted");
    let ways = ["argv", "command", "tool"].iter().filter(|way| object.contains_key(**way)).count();
    assert_eq!(ways, 1, "exactly one way to say what to run");
    if let (Ask::Argv(words), Some(said)) = (&request.ask, object.get("argv").and_then(Value::as_array)) {
        let said: Vec<&OsStr> = said.iter().filter_map(Value::as_str).map(OsStr::new).collect();
        assert_eq!(words, &said, "argv was changed");
        assert!(!words.is_empty() && words.iter().all(|w| !w.as_bytes().contains(&0)));
    }
    let written = write_out(&request);
    let again = json::parse(written.as_bytes()).unwrap_or_else(|e| panic!("{written} is refused: {e}"));
    same(&request, &again);
    one_safe_line(&request);
    true
}

/// The request as JSON, from what was understood of it.
fn write_out(request: &Request) -> String {
    let text = |os: &OsStr| Value::from(os.to_str().expect("JSON holds only Unicode"));
    let mut out = Map::new();
    match &request.ask {
        Ask::Argv(words) => out.insert("argv".into(), words.iter().map(|w| text(w)).collect()),
        Ask::Stored => unreachable!("JSON cannot say it"),
        Ask::Command(line) => out.insert("command".into(), text(OsStr::from_bytes(line))),
        Ask::Tool { name, arguments } => {
            let Arguments::Typed(arguments) = arguments else { unreachable!("JSON has types") };
            out.insert("arguments".into(), arguments.clone().into());
            out.insert("tool".into(), name.clone().into())
        }
    };
    let value = |v: &Option<OsString>| v.as_deref().map_or(Value::Null, text);
    let env: Map<_, _> = request
        .env
        .iter()
        .map(|(n, v)| (text(n).as_str().unwrap_or_default().to_owned(), value(v)))
        .collect();
    out.insert("env".into(), env.into());
    out.insert("labels".into(), json!(request.asker.labels));
    match &request.stdin {
        Stdin::Null => None,
        Stdin::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => out.insert("stdin".into(), text.into()),
            Err(_) => out.insert("stdin_base64".into(), base64(bytes).into()),
        },
        other => panic!("a JSON request cannot lead to {other:?}"),
    };
    let optional = [
        ("cwd", request.cwd.as_ref().map(|p| text(p.as_os_str()))),
        ("timeout", request.timeout.map(|t| format!("{}ms", t.as_millis()).into())),
        ("agent", request.asker.agent.clone().map(Value::from)),
        ("session", request.asker.session.clone().map(Value::from)),
        ("why", request.asker.why.clone().map(Value::from)),
    ];
    out.extend(optional.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    Value::from(out).to_string()
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let encode = |chunk: &[u8]| {
        let three = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let bits = three.iter().fold(0usize, |all, byte| all << 8 | usize::from(*byte));
        let letter = move |n: usize| char::from(LETTERS[bits >> (18 - 6 * n) & 63]);
        let given = chunk.len();
        (0..4).map(move |n| if n <= given { letter(n) } else { '=' }).collect::<String>()
    };
    bytes.chunks(3).map(encode).collect()
}

/// Where policy texts become files: policies are only ever read from files.
pub struct Shelf {
    file: PathBuf,
    context: LoadContext,
}

impl Shelf {
    /// A shelf in a directory of its own, which is made where it is missing.
    ///
    /// # Panics
    /// Where a policy in `dir` would be refused whatever it says, because others can write to the directory.
    pub fn new(dir: &Path) -> Shelf {
        fs::create_dir_all(dir).expect("the directory can be made");
        let uid = std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").expect("/proc is mounted"));
        let context = LoadContext { home: PathBuf::from("/nonexistent"), uid };
        let shelf = Shelf { file: dir.join("policy.toml"), context };
        shelf.put(b"version = 1\n").unwrap_or_else(|e| panic!("no policy can be loaded here: {e}"));
        shelf
    }

    fn put(&self, text: &[u8]) -> Result<Policy, PolicyError> {
        fs::write(&self.file, text).expect("the file can be written");
        load(&self.file, &self.context)
    }
}

/// A policy text: loads identically twice, or is refused identically twice with a message that is safe to print.
pub fn policy_text(data: &[u8], shelf: &Shelf) -> bool {
    let first = shelf.put(data);
    let second = load(&shelf.file, &shelf.context);
    same(&first, &second);
    match first {
        Ok(policy) => {
            check_policy(data, &policy);
            true
        }
        Err(error) => {
            one_safe_line(&error.one_line());
            error.to_string().lines().for_each(|line| one_safe_line(&line));
            let lines = data.iter().filter(|b| **b == b'\n').count() + 1;
            let place = error.place.as_ref().filter(|place| *place.file == *shelf.file);
            assert!(place.is_none_or(|p| p.line as usize <= lines), "an error behind the end of the file");
            false
        }
    }
}

fn check_policy(data: &[u8], policy: &Policy) {
    let text = std::str::from_utf8(data).expect("accepted, so it is UTF-8");
    let table: toml::Table = text.parse().expect("accepted, so it is TOML");
    assert_eq!(
        table.get("version").and_then(toml::Value::as_integer),
        Some(1),
        "accepted without `version = 1`"
    );
    let mut ids: Vec<&str> = policy.rules.iter().map(|rule| rule.id.as_str()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "two rules have the same id");
    for rule in &policy.rules {
        assert!(!rule.programs.is_empty(), "a rule without a program");
        let values = rule.args.flags.iter().flatten().filter_map(|flag| flag.value.as_ref());
        let operands = rule.args.operands.iter().flatten().map(|operand| &operand.value);
        for pattern in values.chain(operands).filter_map(|limits| limits.pattern.as_ref()) {
            // Whether it compiles is the pattern's own matter; that it ends is ours.
            let _ = pattern.compile();
        }
    }
    for finding in lint(policy) {
        one_safe_line(&finding.message);
    }
}

fn same(one: &impl Debug, other: &impl Debug) {
    assert_eq!(format!("{one:?}"), format!("{other:?}"), "the same input means two things");
}

/// What a person reads on a terminal may neither move the cursor nor begin another line.
fn one_safe_line(text: &impl Display) {
    let text = text.to_string();
    let turns =
        |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}');
    assert!(!text.contains(|c: char| c.is_control() || turns(c)), "not safe to print: {text:?}");
}
