//! The words that results are made of. Read again, a result with a word that none has is an error.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Unexpected, Visitor};

/// One of the words that results are made of.
pub type Word = &'static str;

/// The value of `schema` in a result.
pub const SCHEMA: Word = "guardexec.result/v1";

/// All of them: names of formats, decisions, stages, limits and how they hold, streams, profiles, layers.
pub(super) const WORDS: &[Word] = &[
    SCHEMA,
    "allow",
    "ask",
    "deny",
    "kill_switch",
    "session",
    "policy",
    "command",
    "arguments",
    "input",
    "rate",
    "approval",
    "sandbox",
    "output",
    "workspace",
    "wall_time",
    "cpu_time",
    "memory",
    "pids",
    "file_size",
    "open_files",
    "cpus",
    "kill_grace",
    "exact",
    "approximate",
    "none",
    "stdout",
    "stderr",
    "strict",
    "host",
    "filesystem",
    "network",
    "syscalls",
    "execution",
    "identity",
    "tmp",
    "processes",
];

/// A word of a result as it stands in a line.
struct Known(Word);

impl<'de> Deserialize<'de> for Known {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Known, D::Error> {
        let text = String::deserialize(from)?;
        let known = WORDS.iter().find(|word| **word == text);
        known
            .map(|word| Known(word))
            .ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), &"a word of results"))
    }
}

/// Reads a word.
pub(super) fn word<'de, D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
    Known::deserialize(from).map(|known| known.0)
}

/// Reads a word or null.
pub(super) fn word_or_null<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Word>, D::Error> {
    Ok(Option::<Known>::deserialize(from)?.map(|known| known.0))
}

/// Reads a list of words.
pub(super) fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Word>, D::Error> {
    Ok(Vec::<Known>::deserialize(from)?.into_iter().map(|known| known.0).collect())
}

/// Reads an object whose keys are words, in its order.
pub(super) fn pairs<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<(Word, T)>, D::Error> {
    struct Pairs<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Pairs<T> {
        type Value = Vec<(Word, T)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Vec::new();
            while let Some((Known(key), value)) = map.next_entry()? {
                pairs.push((key, value));
            }
            Ok(pairs)
        }
    }
    from.deserialize_map(Pairs(PhantomData))
}
