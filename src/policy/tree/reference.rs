//! The same tree from what the `toml` crate reads: for texts that `scan` gives up on, and to compare with.

use toml::de::{DeTable, DeValue};

use super::build::Key;
use super::{Id, Kind, Node, Stretch, Tree};

/// Reads a whole text.
pub(super) fn parse(text: &str) -> Result<Tree<'_>, toml::de::Error> {
    let table = DeTable::parse(text)?;
    let mut tree = Tree::new(text, text.len() / 8);
    entries(&mut tree, Tree::ROOT, table.get_ref());
    Ok(tree)
}

/// `toml` bounds how deep this goes.
fn entries(tree: &mut Tree<'_>, id: Id, table: &DeTable<'_>) {
    let mut sorted: Vec<_> = table.iter().collect();
    sorted.sort_by_key(|(key, _)| key.span().start);
    for (key, entry) in sorted {
        let decoded = decoded(tree, key.get_ref());
        let key = tree.key_at(stretch(key.span()), Node::DECODED_KEY, decoded);
        value(tree, id, Some(&key), entry.get_ref(), stretch(entry.span()));
    }
}

fn value(tree: &mut Tree<'_>, parent: Id, key: Option<&Key>, value: &DeValue<'_>, span: Stretch) {
    let text = |tree: &mut Tree<'_>, text: &str| (Node::DECODED, decoded(tree, text));
    let nothing = (0, Stretch::default());
    let (kind, (flags, inner)) = match value {
        DeValue::String(string) => (Kind::String, text(tree, string)),
        DeValue::Integer(number) => (Kind::Integer, text(tree, number.as_str())),
        DeValue::Float(_) => (Kind::Float, nothing),
        DeValue::Boolean(false) => (Kind::False, nothing),
        DeValue::Boolean(true) => (Kind::True, nothing),
        DeValue::Datetime(_) => (Kind::Datetime, nothing),
        DeValue::Array(_) => (Kind::Array, nothing),
        DeValue::Table(_) => (Kind::Table, nothing),
    };
    let id = tree.append(parent, key, Node { inner, ..Node::new(kind, flags, span) });
    match value {
        DeValue::Array(list) => {
            for entry in list {
                self::value(tree, id, None, entry.get_ref(), stretch(entry.span()));
            }
        }
        DeValue::Table(table) => entries(tree, id, table),
        _ => {}
    }
}

fn decoded(tree: &mut Tree<'_>, text: &str) -> Stretch {
    let start = tree.decoded.len();
    tree.decoded.push_str(text);
    Stretch::new(start, tree.decoded.len())
}

fn stretch(span: std::ops::Range<usize>) -> Stretch {
    Stretch::new(span.start, span.end)
}

/// Panics unless `toml` reads from the text what stands in the tree.
#[cfg(debug_assertions)]
pub(super) fn compare(tree: &Tree<'_>) {
    let same =
        parse(tree.text).unwrap_or_else(|e| panic!("toml refuses what was read of {:?}: {e}", tree.text));
    same_entries(tree, Tree::ROOT, &same, Tree::ROOT);
}

#[cfg(debug_assertions)]
fn same_entries(a: &Tree<'_>, id: Id, b: &Tree<'_>, other: Id) {
    let sorted = |tree: &Tree<'_>, id| {
        let mut all: Vec<Id> = tree.children(id).collect();
        if tree.node(id).kind == Kind::Table {
            all.sort_by_key(|id| tree.key_span(*id).start);
        }
        all
    };
    let (ours, theirs) = (sorted(a, id), sorted(b, other));
    assert_eq!(ours.len(), theirs.len(), "entries at {:?} of {:?}", a.span(id), a.text);
    for (ours, theirs) in ours.into_iter().zip(theirs) {
        let seen = |tree: &Tree<'_>, id| (tree.key(id).to_owned(), tree.key_span(id), tree.span(id));
        assert_eq!(seen(a, ours), seen(b, theirs), "in {:?}", a.text);
        assert_eq!(a.value(ours), b.value(theirs), "at {:?} of {:?}", a.span(ours), a.text);
        same_entries(a, ours, b, theirs);
    }
}
