//! The fuzz targets on any compiler: every seed as it is, then a fixed number of mutations of the seeds.
//!
//! The same inputs on every run, so a failure is found again by running it again; it shows the input. What is
//! found by real fuzzing belongs into `fuzz/seeds`, named `ok-...` or `no-...` by what has to become of it.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

#[path = "../fuzz/bodies.rs"]
mod bodies;

/// Marsaglia's xorshift (64 bits, 13/7/17).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Below `bound`; 0 where that is 0.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 11) as usize % bound.max(1)
    }

    fn one_of<'a>(&mut self, list: &[&'a [u8]]) -> &'a [u8] {
        list[self.below(list.len())]
    }

    fn range(&mut self, length: usize, longest: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        start..(start + self.below(longest) + 1).min(length)
    }
}

/// Pieces that mean something to one of the three languages, or to the terminal of whoever reads a message.
const TOKENS: &[&[u8]] = &[
    b"'",
    b"\"",
    b"\\",
    b"\\\n",
    b" ",
    b"\t",
    b"\n",
    b"\r\n",
    b"\0",
    b";",
    b"&&",
    b"||",
    b"|",
    b"$(",
    b"`",
    b"#",
    b"=",
    b"~",
    b"*",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[[",
    b"]]",
    b",",
    b":",
    b".",
    b"-",
    b"--",
    b"\"\"\"",
    b"'''",
    b"null",
    b"true",
    b"1e999",
    b"-0",
    b"nan",
    b"0x10",
    b"9223372036854775808",
    b"18446744073709551616",
    b"\\u0000",
    b"\\ud800",
    b"\\u001b",
    b"\x1b[2J",
    b"\x7f",
    b"\x80",
    b"\xff\xfe",
    b"\xc2\x85",
    b"\xe2\x80\xae",
    b"\xe2\x80\xa8",
    b"\xc2\xa0",
    b"\xef\xbb\xbf",
    b"\xf4\x8f\xbf\xbf",
    b"\xed\xa0\x80",
    b"version",
    b"version = 1\n",
    b"[[rule]]\n",
    b"[limits]\n",
    b"allow",
    b"deny",
    b"extends",
    b"none",
    b"5s",
    b"64K",
    b"\"argv\":",
    b"\"command\":",
    b"\"tool\":",
    b"\"env\":",
    b"\"stdin\":",
    b"A=b",
    b"(?",
    b"(((((",
    b"{1000}",
    b"[\\w",
    b"../",
    b"/dev/zero",
];

fn mutated(seeds: &[(String, Vec<u8>)], random: &mut Random) -> Vec<u8> {
    // Sorted, so those that are accepted stand behind: most mutations start near the border, not far outside.
    let good = seeds.iter().take_while(|(name, _)| name.starts_with("no-")).count();
    let first = if random.below(4) == 0 { 0 } else { good };
    let mut data = seeds[first + random.below(seeds.len() - first)].1.clone();
    // Mostly one change: many at once are all refused for the first of them.
    for _ in 0..=random.below(6).saturating_sub(2) {
        let at = random.below(data.len() + 1);
        match random.below(10) {
            0 if !data.is_empty() => {
                let index = at.min(data.len() - 1);
                data[index] ^= 1 << random.below(8);
            }
            1 => data.insert(at, random.next() as u8),
            2 => drop(data.drain(random.range(data.len(), 8))),
            3 => {
                let copy = data[random.range(data.len(), 32)].to_vec();
                data.splice(at..at, copy);
            }
            4 => {
                let other = &seeds[random.below(seeds.len())].1;
                let piece = other[random.range(other.len(), 64)].to_vec();
                data.splice(at..at, piece);
            }
            5 => {
                let range = random.range(data.len(), 4);
                data.splice(range, random.one_of(TOKENS).iter().copied());
            }
            6 => {
                let mut lines: Vec<&[u8]> = data.split_inclusive(|b| *b == b'\n').collect();
                if !lines.is_empty() {
                    lines.swap_remove(random.below(lines.len()));
                }
                data = lines.concat();
            }
            7 => {
                // Another letter or digit, which is more often still a word of the language.
                if let Some(byte) = data.iter_mut().skip(at).find(|b| b.is_ascii_alphanumeric()) {
                    *byte = if byte.is_ascii_digit() {
                        b'0' + random.below(10) as u8
                    } else {
                        b'a' + random.below(26) as u8
                    };
                }
            }
            8 => data.truncate(data.len() - random.below(data.len() / 4 + 1)),
            _ => drop(data.splice(at..at, random.one_of(TOKENS).iter().copied())),
        }
    }
    data
}

fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut seeds: Vec<(String, Vec<u8>)> = fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .map(|entry| entry.expect("a seed").path())
        .map(|path| {
            (
                path.file_name().expect("a name").to_string_lossy().into_owned(),
                fs::read(&path).expect("a seed"),
            )
        })
        .collect();
    seeds.sort();
    seeds
}

/// Runs a body on every seed and on `rounds` mutations, and shows the input that it panics on.
fn exercise(target: &str, rounds: usize, body: impl Fn(&[u8]) -> bool) {
    let run = |data: &[u8]| {
        catch_unwind(AssertUnwindSafe(|| body(data))).unwrap_or_else(|panic| {
            eprintln!("{target}: this input breaks a promise:\n{}", data.escape_ascii());
            resume_unwind(panic)
        })
    };
    let seeds = seeds(target);
    for (name, data) in &seeds {
        let accepted = name.strip_prefix("ok-").is_some();
        assert!(accepted || name.starts_with("no-"), "{target}/{name}: a seed is called ok-... or no-...");
        assert_eq!(run(data), accepted, "{target}/{name} was not judged by its name");
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let accepted = (0..rounds).filter(|_| run(&mutated(&seeds, &mut random))).count();
    // Mutations that are all refused at the door, or none, would test little.
    assert!(
        accepted * 20 > rounds && accepted * 20 < rounds * 19,
        "{target}: {accepted} of {rounds} accepted"
    );
}

#[test]
fn command_string() {
    exercise("command_string", 10_000, bodies::command_string);
}

#[test]
fn json_request() {
    exercise("json_request", 5_000, bodies::json_request);
}

#[test]
fn policy_text() {
    let dir = std::env::temp_dir().join(format!("guardexec-fuzz-{}", std::process::id()));
    let shelf = bodies::Shelf::new(&dir);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        exercise("policy_text", 1_000, |data| bodies::policy_text(data, &shelf))
    }));
    fs::remove_dir_all(&dir).expect("the directory can be removed");
    outcome.unwrap_or_else(|panic| resume_unwind(panic));
}
