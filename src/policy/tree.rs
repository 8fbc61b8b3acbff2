//! A TOML text as a tree that knows where each key and value stands.
//!
//! A process that lives for a millisecond and may have hundreds of rules to read cannot afford a map for each table and
//! a string for each word. So all nodes lie in one list, chained by number, and their texts stay where they are
//! written. [`scan`] reads the text once and makes the nodes; it reads what policies are made of and gives up on
//! anything else, and on everything that is wrong. Then the `toml` crate reads the text again and has the only say:
//! whether it is TOML, and what the message is. So no text is refused but by `toml`, and in builds with debug
//! assertions, which the tests are, whatever `scan` reads is compared with what `toml` reads.

mod build;
mod reference;
mod scan;
mod strings;

#[cfg(test)]
mod tests;

use std::ops::Range;

/// A node's place in the list of all nodes. The root is 0, which no other node leads to.
pub(super) type Id = u32;

/// Is given a tree and a table in it, and says whether to go on.
pub(super) type Take<'k> = &'k mut dyn FnMut(&Tree<'_>, Id) -> bool;

/// A parsed text.
#[derive(Debug)]
pub(super) struct Tree<'t> {
    text: &'t str,
    nodes: Vec<Node>,
    /// Strings that are not written as they are meant, one behind the other.
    decoded: String,
    /// The same for keys: the node and where its key lies in `decoded`. Sorted by node.
    decoded_keys: Vec<(Id, Stretch)>,
}

/// What a value is, with its text where that means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    String(&'a str),
    /// The digits with their sign, without underscores and without the prefix of another base.
    Integer(&'a str),
    Float,
    Boolean(bool),
    Datetime,
    Array,
    Table,
}

/// Byte offsets. A policy is 1 MiB at most, and small nodes touch fewer pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Stretch {
    start: u32,
    end: u32,
}

impl Stretch {
    fn new(start: usize, end: usize) -> Stretch {
        debug_assert!(start <= end && u32::try_from(end).is_ok());
        Stretch { start: start as u32, end: end as u32 }
    }

    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `inner` is where its characters stand: in `decoded` if [`Node::DECODED`] is set, else in the text.
    String,
    /// Likewise its digits.
    Integer,
    Float,
    False,
    True,
    Datetime,
    /// `inner` holds the first child and the last, 0 and 0 if there are none.
    Array,
    /// Likewise.
    Table,
}

/// A value with its key, or an entry of a list.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// Where the key stands, with its quotes; empty in a list.
    key: Stretch,
    /// Where the value stands.
    span: Stretch,
    /// By kind.
    inner: Stretch,
    /// The next entry of the table or list, 0 at the end.
    next: Id,
    kind: Kind,
    flags: u8,
    /// The key's [`tag`].
    tag: u16,
}

/// Whether two keys are the same, without a call for the few bytes that most of them have.
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    match a.len() {
        len if len != b.len() => false,
        // From both ends: the two pieces may overlap.
        8..=16 => a.first_chunk::<8>() == b.first_chunk() && a.last_chunk::<8>() == b.last_chunk(),
        4..8 => a.first_chunk::<4>() == b.first_chunk() && a.last_chunk::<4>() == b.last_chunk(),
        _ => a == b,
    }
}

/// Tells most keys apart without looking at them.
const fn tag(key: &[u8]) -> u16 {
    match key {
        [] => 0,
        [first, .., last] => u16::from_be_bytes([*first ^ key.len() as u8, *last]),
        [only] => *only as u16,
    }
}

impl Node {
    /// The string's characters are in `decoded`.
    const DECODED: u8 = 1;
    /// The key stands in quotes.
    const QUOTED: u8 = 2;
    /// The key is in `decoded_keys`.
    const DECODED_KEY: u8 = 4;
    /// A table that stands in braces, or was made by a key in them.
    const INLINE: u8 = 8;
    /// A table that only the way to another one has made.
    const IMPLICIT: u8 = 16;
    /// Such a one, made by a dotted key.
    const DOTTED: u8 = 32;
    /// A list made of `[[...]]`.
    const OF_TABLES: u8 = 64;

    fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn first(&self) -> Id {
        match self.kind {
            Kind::Array | Kind::Table => self.inner.start,
            _ => 0,
        }
    }
}

impl<'t> Tree<'t> {
    /// The root table.
    pub const ROOT: Id = 0;

    /// Reads a text of less than 4 GiB.
    ///
    /// # Errors
    /// What the `toml` crate says is wrong with it.
    pub fn parse(text: &'t str) -> Result<Tree<'t>, toml::de::Error> {
        match scan::scan(text) {
            Some(tree) => {
                #[cfg(debug_assertions)]
                reference::compare(&tree);
                Ok(tree)
            }
            None => reference::parse(text),
        }
    }

    /// Reads a text in which the tables of the list `list` (`[[list]]`) are handed to `take` as soon as they are whole, and
    /// forgotten when it is back: hundreds of them take the memory of one. All that stands before such a table in the text
    /// is in the tree by then; in the end the list is there and empty.
    ///
    /// `None` where the text is not read in one pass, or `take` says `false`. [`Tree::parse`] has to tell why.
    pub fn parse_taking(text: &'t str, list: &str, take: Take<'_>) -> Option<Tree<'t>> {
        scan::scan_taking(text, list, take)
    }

    fn node(&self, id: Id) -> &Node {
        &self.nodes[id as usize]
    }

    /// What a node is.
    pub fn value(&self, id: Id) -> Value<'_> {
        let node = self.node(id);
        let inner = || {
            let whole = if node.is(Node::DECODED) { &self.decoded } else { self.text };
            whole.get(node.inner.range()).unwrap_or_default()
        };
        match node.kind {
            Kind::String => Value::String(inner()),
            Kind::Integer => Value::Integer(inner()),
            Kind::Float => Value::Float,
            Kind::False => Value::Boolean(false),
            Kind::True => Value::Boolean(true),
            Kind::Datetime => Value::Datetime,
            Kind::Array => Value::Array,
            Kind::Table => Value::Table,
        }
    }

    /// Where a value stands.
    pub fn span(&self, id: Id) -> Range<usize> {
        self.node(id).span.range()
    }

    /// Where a value's key stands.
    pub fn key_span(&self, id: Id) -> Range<usize> {
        self.node(id).key.range()
    }

    /// The key as it is meant; empty in a list.
    pub fn key(&self, id: Id) -> &str {
        let (whole, range) = self.key_in(id, self.node(id));
        whole.get(range).unwrap_or_default()
    }

    /// The same as bytes.
    pub fn key_bytes(&self, id: Id) -> &[u8] {
        self.named(id, self.node(id))
    }

    /// The same of a node that was looked up already.
    #[inline(always)]
    fn named(&self, id: Id, node: &Node) -> &[u8] {
        let (whole, range) = self.key_in(id, node);
        &whole.as_bytes()[range]
    }

    /// The text that a node's key is a part of, and which part.
    #[inline(always)]
    fn key_in(&self, id: Id, node: &Node) -> (&str, Range<usize>) {
        let Range { start, end } = node.key.range();
        if node.is(Node::DECODED_KEY) {
            return self.key_in_decoded(id);
        }
        let quote = usize::from(node.is(Node::QUOTED));
        (self.text, start + quote..end - quote)
    }

    #[cold]
    fn key_in_decoded(&self, id: Id) -> (&str, Range<usize>) {
        match self.decoded_keys.binary_search_by_key(&id, |(node, _)| *node) {
            Ok(index) => (&self.decoded, self.decoded_keys[index].1.range()),
            Err(_) => ("", 0..0),
        }
    }

    /// Whether a string was put together from escapes: only such a one can hold a NUL.
    pub fn is_decoded(&self, id: Id) -> bool {
        self.node(id).is(Node::DECODED)
    }

    /// Whether a value is a string.
    pub fn is_string(&self, id: Id) -> bool {
        self.node(id).kind == Kind::String
    }

    /// Whether a value is a list.
    pub fn is_list(&self, id: Id) -> bool {
        self.node(id).kind == Kind::Array
    }

    /// Whether a value is a table.
    pub fn is_table(&self, id: Id) -> bool {
        self.node(id).kind == Kind::Table
    }

    /// The entries of a table or a list; none for anything else. A table's are in the order in which they were begun.
    pub fn children(&self, id: Id) -> Children<'_> {
        Children { tree: self, next: self.node(id).first() }
    }

    /// A table's value of a key.
    #[inline]
    pub fn get(&self, table: Id, key: &str) -> Option<Id> {
        self.get_tagged(table, key, tag(key.as_bytes()))
    }

    fn get_tagged(&self, table: Id, key: &str, tag: u16) -> Option<Id> {
        let mut id = self.node(table).first();
        while id != 0 {
            let node = self.node(id);
            if node.tag == tag && same(self.named(id, node), key.as_bytes()) {
                return Some(id);
            }
            id = node.next;
        }
        None
    }

    /// The first key of a table, as the text goes, that is none of `keys`.
    pub fn unknown(&self, table: Id, keys: &[&str]) -> Option<Id> {
        let mut first: Option<Id> = None;
        // Most files write the keys in the order in which the manual has them.
        let mut from = 0;
        let mut id = self.node(table).first();
        while id != 0 {
            let node = self.node(id);
            match self.position(id, node, keys, from) {
                Some(at) => from = at + 1,
                None if first.is_some_and(|f| self.node(f).key.start < node.key.start) => {}
                None => first = Some(id),
            }
            id = node.next;
        }
        first
    }

    /// Where a node's key stands in `keys`, looked for from `from` on and then from the start.
    #[inline]
    fn position(&self, id: Id, node: &Node, keys: &[&str], from: usize) -> Option<usize> {
        let key = self.named(id, node);
        let mut at = from;
        for _ in 0..keys.len() {
            if at >= keys.len() {
                at = 0;
            }
            if same(key, keys[at].as_bytes()) {
                return Some(at);
            }
            at += 1;
        }
        None
    }

    /// Which keys a table may have, as [`bit`]s: most keys that it does not have are known by it.
    pub fn present(&self, table: Id) -> u64 {
        let (mut all, mut id) = (0, self.node(table).first());
        while id != 0 {
            let node = self.node(id);
            all |= bit_of(node.tag);
            id = node.next;
        }
        all
    }
}

/// A key's bit in [`Tree::present`].
pub(super) const fn bit(key: &str) -> u64 {
    bit_of(tag(key.as_bytes()))
}

const fn bit_of(tag: u16) -> u64 {
    1 << (tag.wrapping_mul(0x9e37) >> 10)
}

/// See [`Tree::children`].
#[derive(Debug, Clone)]
pub(super) struct Children<'a> {
    tree: &'a Tree<'a>,
    next: Id,
}

impl Iterator for Children<'_> {
    type Item = Id;

    #[inline]
    fn next(&mut self) -> Option<Id> {
        let id = self.next;
        self.next = self.tree.node(id).next;
        (id != 0).then_some(id)
    }
}
