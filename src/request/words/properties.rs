//! Word splitting against a real `dash`, and its totality.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;

/// What `dash` makes of each text: its words, or nothing where it finds a syntax error. In a directory with files
/// that a pattern would match and with a home that a tilde would name, so that any expansion shows.
fn dash(texts: &[Vec<u8>]) -> Vec<Option<Vec<Vec<u8>>>> {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let scratch = std::env::temp_dir().join(format!("guardexec-words-{}-{call}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a scratch directory");
    for name in ["a", "b", "ab", "A", "=", "-"] {
        std::fs::write(scratch.join(name), "").expect("a file to match");
    }
    // A new shell process for each text (the parentheses), for a syntax error in eval ends the shell it is in.
    let mut script = b"PATH=/nonexistent\n".to_vec();
    for text in texts {
        script.extend_from_slice(b"( eval \"set -- \"'");
        for &byte in text {
            if byte == b'\'' { script.extend_from_slice(b"'\\''") } else { script.push(byte) }
        }
        script.extend_from_slice(b"'; printf '%d\\0' $#; [ $# = 0 ] || printf '%s\\0' \"$@\" )");
        script.extend_from_slice(b" 2>/dev/null || printf 'error\\0'\n");
    }
    let mut child = Command::new("/bin/dash")
        .env_clear()
        .env("HOME", "/home-of-tilde")
        .current_dir(&scratch)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("dash starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let feeder = std::thread::spawn(move || stdin.write_all(&script));
    let output = child.wait_with_output().expect("dash ends");
    feeder.join().expect("no panic").expect("dash reads all");
    std::fs::remove_dir_all(&scratch).expect("the scratch directory goes");
    let mut records = output.stdout.split(|&b| b == 0).map(<[u8]>::to_vec);
    let mut next = || records.next().expect("a record for each text");
    let answers = texts.iter().map(|_| match next().as_slice() {
        b"error" => None,
        count => {
            let count: usize = std::str::from_utf8(count).expect("a count").parse().expect("a count");
            Some((0..count).map(|_| next()).collect())
        }
    });
    answers.collect()
}

fn ours(text: &[u8], syntax: Syntax) -> Option<Vec<Vec<u8>>> {
    let words = split(text, syntax).ok()?;
    Some(words.into_iter().map(OsStringExt::into_vec).collect())
}

/// Texts put together from the given pieces.
fn texts(pieces: &'static [&'static [u8]], number: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
    let text = prop::collection::vec(prop::sample::select(pieces), 0..12).prop_map(|parts| parts.concat());
    prop::collection::vec(text, number)
}

/// Blanks, quotes, backslashes and plain bytes, and among those the ones that `dash` uses inside (0x81 to 0x88).
const PLAIN: &[&[u8]] = &[
    b"a",
    b"b",
    b"-",
    b"=",
    b"A",
    b"1",
    b" ",
    b" ",
    b"\t",
    b"'",
    b"'",
    b"\"",
    b"\"",
    b"\\",
    b"\\\n",
    b"\\\\",
    b"\\\"",
    b"\\'",
    b"'a b'",
    b"\"b a\"",
    b"\"\"",
    b"\xc3\xa9",
    b"\xff",
    b"\x81",
    b"\x82",
    b"\x88",
    b"%",
    b",",
];

/// The same with everything that means something to a shell.
const SYNTAX: &[&[u8]] = &[
    b"a",
    b"b",
    b" ",
    b" ",
    b"'",
    b"\"",
    b"\\",
    b"\\",
    b"'",
    b"\"",
    b"\\\n",
    b"A=",
    b"=",
    b"~",
    b"#",
    b"$",
    b"`",
    b"*",
    b"?",
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b"!",
    b";",
    b"&",
    b"|",
    b"<",
    b">",
    b"(",
    b")",
    b"\n",
    b"\r",
    b"^",
    b"$(",
    b"${a}",
    b"'$a'",
    b"\"\\$a\"",
    b"'*'",
    b"\\;",
    b"\xc2\xa0",
    b"\x0b",
    b"\x84",
    b"%",
    b":~",
];

fn dash_is_missing() -> bool {
    let missing = !Path::new("/bin/dash").exists();
    if missing {
        eprintln!("SKIPPED: /bin/dash is missing, so word splitting was not compared with it");
    }
    missing
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() })]

    /// Without syntax, both modes and `dash` agree on every text, errors included. The two errors of our own are
    /// a backslash at the end and no word at all, both of which `dash` lets pass.
    #[test]
    fn plain_texts_split_as_in_dash(texts in texts(PLAIN, 150)) {
        if dash_is_missing() { return Ok(()); }
        for (text, theirs) in texts.iter().zip(dash(&texts)) {
            // A piece that ends a backslash pair can leave a newline unquoted: a byte to us, an end to `dash`.
            if matches!(split(text, Syntax::Refuse), Err(WordsError::Syntax { what, .. }) if what == "newline") {
                continue;
            }
            match split(text, Syntax::Literal) {
                Err(WordsError::Unparsable { message }) if message == "backslash at the end" => continue,
                Err(WordsError::Unparsable { message }) if message == "the command is empty" => {
                    prop_assert_eq!(theirs, Some(vec![]), "{:?}", text);
                    continue;
                }
                _ => prop_assert_eq!(ours(text, Syntax::Literal), theirs.clone(), "{}", text.escape_ascii()),
            }
            if !matches!(split(text, Syntax::Refuse), Err(WordsError::Syntax { .. })) {
                prop_assert_eq!(ours(text, Syntax::Refuse), theirs, "{}", text.escape_ascii());
            }
        }
    }

    /// Whatever is accepted under `refuse` gives `dash` the same words: nothing of it was to be expanded.
    #[test]
    fn accepted_texts_mean_the_same_in_dash(texts in texts(SYNTAX, 1000)) {
        if dash_is_missing() { return Ok(()); }
        let accepted: Vec<Vec<u8>> =
            texts.into_iter().filter(|text| split(text, Syntax::Refuse).is_ok()).collect();
        for (text, theirs) in accepted.iter().zip(dash(&accepted)) {
            prop_assert_eq!(ours(text, Syntax::Refuse), theirs, "{}", text.escape_ascii());
            prop_assert_eq!(ours(text, Syntax::Refuse), ours(text, Syntax::Literal));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bytes give at least one word or an error whose place lies inside, and whose message is printable.
    #[test]
    fn splitting_is_total(text in prop::collection::vec(any::<u8>(), 0..64)) {
        for mode in [Syntax::Refuse, Syntax::Literal] {
            match split(&text, mode) {
                Ok(words) => prop_assert!(!words.is_empty()),
                Err(WordsError::Unparsable { message }) => prop_assert!(!message.is_empty()),
                Err(WordsError::Syntax { what, position, message, hint }) => {
                    prop_assert_eq!(mode, Syntax::Refuse);
                    prop_assert!(position < text.len());
                    prop_assert!(message.contains(&what) && message.contains("no shell runs"));
                    prop_assert!(!hint.is_empty());
                    prop_assert!(message.bytes().all(|b| (b' '..=b'~').contains(&b)));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// A caller that joins words with the `shlex` crate gets exactly them back, whatever is in them, and is not told that
    /// it wrote shell syntax; but for `]`, which that crate leaves bare and which is refused with its `[`.
    #[test]
    fn words_joined_by_shlex_come_back(words in prop::collection::vec(prop::collection::vec(1..=255_u8, 0..12), 1..6)) {
        let joined = shlex::bytes::try_join(words.iter().map(Vec::as_slice)).expect("no NUL in them");
        for syntax in [Syntax::Refuse, Syntax::Literal] {
            // An empty first word is no program; everything else comes back.
            if words[0].is_empty() && ours(&joined, syntax).is_none() { continue; }
            let bare = words.iter().any(|word| word.contains(&b']'));
            if bare && matches!(split(&joined, syntax), Err(WordsError::Syntax { ref what, .. }) if what == "]") { continue; }
            prop_assert_eq!(ours(&joined, syntax), Some(words.clone()), "{:?}", String::from_utf8_lossy(&joined));
        }
    }
}
