//! The words of a tool's template: plain text, and `{name}` for a parameter.

/// One piece of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'t> {
    /// Stands for itself.
    Text(&'t str),
    /// Stands for the value of this parameter.
    Param(&'t str),
}

/// The pieces of a word, in order. Braces around anything but a name are plain text, as in `find ... {} +`.
pub fn pieces(word: &str) -> Vec<Piece<'_>> {
    let mut out = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(open) = word[at..].find('{').map(|n| at + n) {
        at = open + 1;
        let Some(name) = word[at..].split_once('}').map(|(name, _)| name).filter(|name| is_name(name)) else {
            continue;
        };
        if open > from {
            out.push(Piece::Text(&word[from..open]));
        }
        out.push(Piece::Param(name));
        at += name.len() + 1;
        from = at;
    }
    if from < word.len() {
        out.push(Piece::Text(&word[from..]));
    }
    out
}

/// The names of the parameters in a word, in order.
pub fn placeholders(word: &str) -> impl Iterator<Item = &str> {
    pieces(word).into_iter().filter_map(|piece| match piece {
        Piece::Param(name) => Some(name),
        Piece::Text(_) => None,
    })
}

fn is_name(text: &str) -> bool {
    text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::Piece::{Param, Text};
    use super::*;

    #[test]
    fn names_in_braces_are_parameters_and_all_else_is_text() {
        for (word, want) in [
            ("", vec![]),
            ("a", vec![Text("a")]),
            ("{a}", vec![Param("a")]),
            ("--x={a-b}", vec![Text("--x="), Param("a-b")]),
            ("{a}{b}c", vec![Param("a"), Param("b"), Text("c")]),
            ("{{a}}", vec![Text("{"), Param("a"), Text("}")]),
            ("{a{b}", vec![Text("{a"), Param("b")]),
            ("{}", vec![Text("{}")]),
            ("{1}{ a}{a ", vec![Text("{1}{ a}{a ")]),
            ("é{a}é", vec![Text("é"), Param("a"), Text("é")]),
        ] {
            assert_eq!(pieces(word), want, "{word}");
        }
    }

    proptest::proptest! {
        #[test]
        fn the_pieces_are_the_word(word in "[a{}é_ -]{0,12}") {
            let again: String = pieces(&word).iter().map(|piece| match piece {
                Text(text) => (*text).to_owned(),
                Param(name) => format!("{{{name}}}"),
            }).collect();
            proptest::prop_assert_eq!(&again, &word);
            let plain = placeholders(&word).all(|name| !name.is_empty() && !name.contains(['{', '}']));
            proptest::prop_assert!(plain);
        }
    }
}
