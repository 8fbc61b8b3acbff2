//! Making the tree's nodes, and TOML's rules of what may be defined where. `None` means: not so, or not certainly so.

use super::{Id, Kind, Node, Stretch, Tree, bit_of, tag};

/// So many entries of one table are searched one by one for a key that stands twice. What has more is left to a parser
/// with maps.
const MAX_ENTRIES: usize = 256;

/// A key where it stands, with its quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub span: Stretch,
    /// [`Node::QUOTED`], [`Node::DECODED_KEY`] or none.
    pub flags: u8,
    /// With [`Node::DECODED_KEY`]: where it lies in `decoded`.
    pub decoded: Stretch,
    pub tag: u16,
}

impl Key {
    /// Its bit in [`Tree::present`].
    pub(super) fn bit(&self) -> u64 {
        bit_of(self.tag)
    }
}

impl<'t> Tree<'t> {
    /// An empty root with room for so many nodes.
    pub(super) fn new(text: &'t str, room: usize) -> Tree<'t> {
        let mut nodes = Vec::with_capacity(room);
        nodes.push(Node::new(Kind::Table, 0, Stretch::default()));
        Tree { text, nodes, decoded: String::new(), decoded_keys: Vec::new() }
    }

    /// Puts a node behind the last one of a table or list.
    pub(super) fn append(&mut self, parent: Id, key: Option<&Key>, mut node: Node) -> Id {
        let id = self.nodes.len() as Id;
        if let Some(key) = key {
            self.name(id, &mut node, key);
        }
        self.nodes.push(node);
        let inner = &mut self.nodes[parent as usize].inner;
        let last = std::mem::replace(&mut inner.end, id);
        match last {
            0 => inner.start = id,
            last => self.nodes[last as usize].next = id,
        }
        id
    }

    #[inline(always)]
    fn name(&mut self, id: Id, node: &mut Node, key: &Key) {
        node.key = key.span;
        node.tag = key.tag;
        node.flags = node.flags & !(Node::QUOTED | Node::DECODED_KEY) | key.flags;
        if key.flags & Node::DECODED_KEY != 0 {
            self.keep_decoded(id, key.decoded);
        }
    }

    #[cold]
    fn keep_decoded(&mut self, id: Id, key: Stretch) {
        let at = self.decoded_keys.partition_point(|(other, _)| *other < id);
        match self.decoded_keys.get_mut(at).filter(|(other, _)| *other == id) {
            Some(old) => old.1 = key,
            None => self.decoded_keys.insert(at, (id, key)),
        }
    }

    /// The entry of a key in a table, if there is one.
    pub(super) fn find(&self, table: Id, key: &Key) -> Option<Option<Id>> {
        for (count, id) in self.children(table).enumerate() {
            if count == MAX_ENTRIES {
                return None;
            }
            if self.node(id).tag == key.tag && self.key_bytes(id) == self.meant(key) {
                return Some(Some(id));
            }
        }
        Some(None)
    }

    /// A key where it stands. With [`Node::DECODED_KEY`], `decoded` is where its characters are.
    #[inline(always)]
    pub(super) fn key_at(&self, span: Stretch, flags: u8, decoded: Stretch) -> Key {
        let mut key = Key { span, flags, decoded, tag: 0 };
        key.tag = tag(self.meant(&key));
        key
    }

    /// A key's characters.
    #[inline]
    pub(super) fn meant(&self, key: &Key) -> &[u8] {
        let range = key.span.range();
        match key.flags {
            0 => &self.text.as_bytes()[range],
            Node::QUOTED => &self.text.as_bytes()[range.start + 1..range.end - 1],
            _ => &self.decoded.as_bytes()[key.decoded.range()],
        }
    }

    /// A table for the keys below `[header]`, or a further one of the list for those below `[[header]]`.
    pub(super) fn header(&mut self, way: &[Key], key: &Key, list: bool, span: Stretch) -> Option<Id> {
        let mut parent = Self::ROOT;
        for step in way {
            parent = match self.find(parent, step)? {
                None => self.append(parent, Some(step), Node::new(Kind::Table, Node::IMPLICIT, step.span)),
                Some(id) => self.enter(id)?,
            };
        }
        let found = self.find(parent, key)?;
        if list {
            let id = match found {
                None => self.append(parent, Some(key), Node::new(Kind::Array, Node::OF_TABLES, span)),
                Some(id) if self.node(id).is(Node::OF_TABLES) => id,
                Some(_) => return None,
            };
            return Some(self.append(id, None, Node::new(Kind::Table, 0, span)));
        }
        let Some(id) = found else {
            return Some(self.append(parent, Some(key), Node::new(Kind::Table, 0, span)));
        };
        let mut node = *self.node(id);
        if node.kind != Kind::Table || !node.is(Node::IMPLICIT) || node.is(Node::DOTTED) {
            return None;
        }
        // From here on it is defined, and this is where.
        node.flags &= !Node::IMPLICIT;
        node.span = span;
        self.name(id, &mut node, key);
        self.nodes[id as usize] = node;
        Some(id)
    }

    /// The table that a header leads through: itself, or the last one of a list of tables.
    fn enter(&self, id: Id) -> Option<Id> {
        let node = self.node(id);
        match node.kind {
            Kind::Table if !node.is(Node::INLINE) => Some(id),
            // The last one may have been forgotten.
            Kind::Array if node.is(Node::OF_TABLES) && node.inner.end != 0 => Some(node.inner.end),
            _ => None,
        }
    }

    /// The table in which the last of a value's dotted keys has to be new. Tables on the way are made; those there
    /// already must have been made like this too. `inline` is said of a table in braces.
    pub(super) fn dotted(&mut self, table: Id, way: &[Key], inline: u8) -> Option<Id> {
        let mut parent = table;
        for step in way {
            parent = match self.find(parent, step)? {
                None => {
                    let flags = Node::IMPLICIT | Node::DOTTED | inline;
                    self.append(parent, Some(step), Node::new(Kind::Table, flags, step.span))
                }
                Some(id) if self.node(id).kind == Kind::Table && self.node(id).is(Node::DOTTED) => id,
                Some(_) => return None,
            };
        }
        Some(parent)
    }

    /// Forgets a list's only entry and all nodes made since. `decoded` is how long that was before.
    pub(super) fn forget(&mut self, list: Id, entry: Id, decoded: usize) {
        self.nodes[list as usize].inner = Stretch::default();
        self.nodes.truncate(entry as usize);
        self.decoded.truncate(decoded);
        let keys = self.decoded_keys.partition_point(|(id, _)| *id < entry);
        self.decoded_keys.truncate(keys);
    }

    /// Where a list or a table in braces ends.
    pub(super) fn close(&mut self, id: Id, end: usize) {
        self.nodes[id as usize].span.end = end as u32;
    }
}

impl Node {
    pub(super) fn new(kind: Kind, flags: u8, span: Stretch) -> Node {
        Node { key: Stretch::default(), span, inner: Stretch::default(), next: 0, kind, flags, tag: 0 }
    }
}
