//! Bytes in JSON without loss: text where they are UTF-8, else base64 that says so.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Bytes of a word, a path or a value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form<'a> {
    Text(std::borrow::Cow<'a, str>),
    Base64 { base64: String },
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => Form::Text(text.into()).serialize(to),
            Err(_) => Form::Base64 { base64: STANDARD.encode(&self.0) }.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        match Form::deserialize(from)? {
            Form::Text(text) => Ok(Bytes(text.into_owned().into_bytes())),
            Form::Base64 { base64 } => STANDARD.decode(base64).map(Bytes).map_err(de::Error::custom),
        }
    }
}

impl<B: AsRef<[u8]> + ?Sized> From<&B> for Bytes {
    fn from(bytes: &B) -> Bytes {
        Bytes(bytes.as_ref().to_vec())
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_stays_text_and_other_bytes_say_what_they_are() {
        let json = |bytes: &[u8]| serde_json::to_string(&Bytes::from(bytes)).unwrap();
        assert_eq!(json(b"a\"b"), r#""a\"b""#);
        assert_eq!(json(b"\xff"), r#"{"base64":"/w=="}"#);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(bytes in any::<Vec<u8>>()) {
            let there = serde_json::to_string(&Bytes(bytes.clone())).unwrap();
            prop_assert_eq!(serde_json::from_str::<Bytes>(&there).unwrap().0, bytes);
        }
    }
}
