//! One pass over the text. `None` means "not this way": the text is wrong, or holds something that policies are not made
//! of (dates, numbers in other spellings), or is nested so deeply that nobody could mean it.

use super::build::Key;
use super::{Id, Kind, Node, Stretch, Take, Tree};

/// How deep lists and tables in braces may go here.
const MAX_DEPTH: usize = 32;

/// Room for the nodes of a policy's sections and of one rule.
const TAKING_ROOM: usize = 384;

/// Reads a whole text.
pub(super) fn scan(text: &str) -> Option<Tree<'_>> {
    scan_with(text, None)
}

/// The same, where the tables of one list are taken as they come, see [`Tree::parse_taking`].
pub(super) fn scan_taking<'t>(text: &'t str, list: &str, take: Take<'_>) -> Option<Tree<'t>> {
    scan_with(text, Some(Taking { list, take, begun: None }))
}

fn scan_with<'t>(text: &'t str, taking: Option<Taking<'_>>) -> Option<Tree<'t>> {
    // Of a list that is taken, one table is there at a time. Else there is room for what a text of that length usually
    // holds: memory that is not used costs nothing.
    let room = if taking.is_some() { TAKING_ROOM } else { text.len() / 8 };
    let mut scan =
        Scan { bytes: text.as_bytes(), at: 0, tree: Tree::new(text, room), way: Vec::new(), taking };
    scan.document()?;
    Some(scan.tree)
}

pub(super) struct Scan<'t, 'k> {
    pub bytes: &'t [u8],
    pub at: usize,
    pub tree: Tree<'t>,
    /// What stands before the dots of the last key read.
    way: Vec<Key>,
    taking: Option<Taking<'k>>,
}

/// The list whose tables are taken.
struct Taking<'k> {
    list: &'k str,
    take: Take<'k>,
    /// The table being read, and what `decoded` held before it.
    begun: Option<(Id, usize)>,
}

/// The table that is being filled.
struct Open {
    id: Id,
    /// Its [`Tree::present`]: no key is looked for that cannot be there.
    present: u64,
}

/// What a byte can be; [`CLASSES`] says which of these it is.
pub(super) mod class {
    /// Part of a key without quotes.
    pub const BARE: u8 = 1;
    /// Itself in a `"string"`.
    pub const BASIC: u8 = 2;
    /// Itself in a `'string'`.
    pub const LITERAL: u8 = 4;
    /// Itself in a comment.
    pub const COMMENT: u8 = 8;
}

static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        let printed = b == b'\t' || (b >= 0x20 && b != 0x7f);
        let mut is = 0;
        if b.is_ascii_alphanumeric() || b == b'-' || b == b'_' {
            is |= class::BARE;
        }
        if printed {
            is |= class::COMMENT;
        }
        if printed && b != b'"' && b != b'\\' {
            is |= class::BASIC;
        }
        if printed && b != b'\'' {
            is |= class::LITERAL;
        }
        table[byte] = is;
        byte += 1;
    }
    table
}

impl Scan<'_, '_> {
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Steps over one byte if it is there.
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    /// Steps over all bytes of a class.
    pub(super) fn run(&mut self, class: u8) {
        let (bytes, mut at) = (self.bytes, self.at);
        while at < bytes.len() && CLASSES[usize::from(bytes[at])] & class != 0 {
            at += 1;
        }
        self.at = at;
    }

    /// Steps over space and tabs: mostly one or none, which is not worth a call.
    #[inline(always)]
    pub(super) fn blank(&mut self) {
        while let Some(b' ' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    pub(super) fn from(&self, start: usize) -> Stretch {
        Stretch::new(start, self.at)
    }

    /// A line's end, if it stands here.
    pub(super) fn newline(&mut self) -> bool {
        let length = match self.peek() {
            Some(b'\n') => 1,
            Some(b'\r') if self.bytes.get(self.at + 1) == Some(&b'\n') => 2,
            _ => return false,
        };
        self.at += length;
        true
    }

    /// The rest of a line on which nothing more may stand.
    fn end_of_line(&mut self) -> Option<()> {
        self.blank();
        if self.eat(b'#') {
            self.run(class::COMMENT);
        }
        (self.newline() || self.at == self.bytes.len()).then_some(())
    }

    /// Space, comments and line ends, as they may stand between the entries of a list.
    fn gap(&mut self) -> Option<u8> {
        loop {
            self.blank();
            match self.peek()? {
                b'\n' | b'\r' | b'#' => self.end_of_line()?,
                other => return Some(other),
            }
        }
    }

    fn document(&mut self) -> Option<()> {
        let mut table = Open { id: Tree::ROOT, present: 0 };
        loop {
            self.blank();
            match self.peek() {
                None => return self.whole().map(drop),
                Some(b'\n' | b'\r' | b'#') => {}
                Some(b'[') => table = self.header()?,
                Some(_) => self.pair(&mut table, 0, 0)?,
            }
            self.end_of_line()?;
        }
    }

    /// `[a.b]` or `[[a.b]]`.
    fn header(&mut self) -> Option<Open> {
        let start = self.at;
        self.at += 1;
        let list = self.eat(b'[');
        self.blank();
        let name = self.at;
        let mut key = self.path()?;
        let first = self.way.first().unwrap_or(&key);
        let taken = self.taking.as_ref().is_some_and(|t| self.tree.meant(first) == t.list.as_bytes());
        let below = taken && !self.way.is_empty();
        if !below && self.whole()? {
            // The key was read behind what is forgotten now.
            self.at = name;
            key = self.path()?;
        }
        if !self.eat(b']') || list && !self.eat(b']') {
            return None;
        }
        let decoded = self.tree.decoded.len();
        let span = self.from(start);
        let id = self.tree.header(&self.way, &key, list, span)?;
        if let Some(taking) = self.taking.as_mut().filter(|_| taken && !below && list) {
            taking.begun = Some((id, decoded));
        }
        Some(Open { id, present: self.tree.present(id) })
    }

    /// Where a table to be taken cannot go on: hands it over. Whether there was one.
    fn whole(&mut self) -> Option<bool> {
        let Some(taking) = &mut self.taking else { return Some(false) };
        let Some((id, decoded)) = taking.begun.take() else { return Some(false) };
        if !(taking.take)(&self.tree, id) {
            return None;
        }
        let list = self.tree.get(Tree::ROOT, taking.list)?;
        self.tree.forget(list, id, decoded);
        Some(true)
    }

    /// `a.b = value`. `inline` is said of the tables that the dots make.
    fn pair(&mut self, table: &mut Open, depth: usize, inline: u8) -> Option<()> {
        let key = self.path()?;
        if !self.eat(b'=') {
            return None;
        }
        let mut parent = table.id;
        if self.way.is_empty() {
            let bit = key.bit();
            if table.present & bit != 0 && self.tree.find(parent, &key)?.is_some() {
                return None;
            }
            table.present |= bit;
        } else {
            parent = self.tree.dotted(parent, &self.way, inline)?;
            table.present |= self.way[0].bit();
            if self.tree.find(parent, &key)?.is_some() {
                return None;
            }
        }
        self.blank();
        self.value(parent, Some(&key), depth)
    }

    /// A key and the space behind it; what stands before its dots is in `way`.
    fn path(&mut self) -> Option<Key> {
        self.way.clear();
        loop {
            let key = self.key()?;
            self.blank();
            if !self.eat(b'.') {
                return Some(key);
            }
            self.way.push(key);
            if self.way.len() > MAX_DEPTH {
                return None;
            }
            self.blank();
        }
    }

    fn key(&mut self) -> Option<Key> {
        let start = self.at;
        if let quote @ (b'"' | b'\'') = self.peek()? {
            if self.bytes[start..].starts_with(&[quote; 3]) {
                return None;
            }
            let (inner, decoded) = self.string()?;
            let flags = if decoded { Node::DECODED_KEY } else { Node::QUOTED };
            return Some(self.tree.key_at(self.from(start), flags, inner));
        }
        self.run(class::BARE);
        (self.at > start).then(|| self.tree.key_at(self.from(start), 0, Stretch::default()))
    }

    /// A value and its node. What stands behind it, and whether it may, is for the caller to see.
    fn value(&mut self, parent: Id, key: Option<&Key>, depth: usize) -> Option<()> {
        let start = self.at;
        match self.peek()? {
            b'"' | b'\'' => {
                let (inner, decoded) = self.string()?;
                let flags = if decoded { Node::DECODED } else { 0 };
                let node = Node { inner, ..Node::new(Kind::String, flags, self.from(start)) };
                self.tree.append(parent, key, node);
                Some(())
            }
            b'[' => self.list(parent, key, depth),
            b'{' => self.braces(parent, key, depth),
            b't' => self.word(parent, key, b"true", Kind::True),
            b'f' => self.word(parent, key, b"false", Kind::False),
            _ => self.number(parent, key),
        }
    }

    fn word(&mut self, parent: Id, key: Option<&Key>, word: &[u8], kind: Kind) -> Option<()> {
        let start = self.at;
        if !self.bytes[start..].starts_with(word) {
            return None;
        }
        self.at += word.len();
        self.tree.append(parent, key, Node::new(kind, 0, self.from(start)));
        Some(())
    }

    /// `-1` or `0.25`: decimal digits without anything else.
    fn number(&mut self, parent: Id, key: Option<&Key>) -> Option<()> {
        let start = self.at;
        self.eat(b'-');
        let zero = self.peek() == Some(b'0');
        match self.digits() {
            0 => return None,
            1 => {}
            _ if zero => return None,
            _ => {}
        }
        let mut kind = Kind::Integer;
        if self.eat(b'.') {
            kind = Kind::Float;
            if self.digits() == 0 {
                return None;
            }
        }
        let span = self.from(start);
        self.tree.append(parent, key, Node { inner: span, ..Node::new(kind, 0, span) });
        Some(())
    }

    fn digits(&mut self) -> usize {
        let rest = &self.bytes[self.at..];
        let count = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
        self.at += count;
        count
    }

    /// `[...]`, over any number of lines.
    fn list(&mut self, parent: Id, key: Option<&Key>, depth: usize) -> Option<()> {
        let id = self.open(parent, key, Kind::Array, 0, depth)?;
        while self.gap()? != b']' {
            self.value(id, None, depth + 1)?;
            self.next_or(b']')?;
        }
        self.at += 1;
        self.tree.close(id, self.at);
        Some(())
    }

    /// `{...}`, over any number of lines.
    fn braces(&mut self, parent: Id, key: Option<&Key>, depth: usize) -> Option<()> {
        let id = self.open(parent, key, Kind::Table, Node::INLINE, depth)?;
        let mut table = Open { id, present: 0 };
        while self.gap()? != b'}' {
            self.pair(&mut table, depth + 1, Node::INLINE)?;
            self.next_or(b'}')?;
        }
        self.at += 1;
        self.tree.close(id, self.at);
        Some(())
    }

    /// The bracket or brace, and the node that it opens.
    fn open(&mut self, parent: Id, key: Option<&Key>, kind: Kind, flags: u8, depth: usize) -> Option<Id> {
        let start = self.at;
        self.at += 1;
        let node = Node::new(kind, flags, self.from(start));
        (depth < MAX_DEPTH).then(|| self.tree.append(parent, key, node))
    }

    /// Between two entries: a comma, or else the end, which stays for the caller.
    fn next_or(&mut self, end: u8) -> Option<()> {
        let next = self.gap()?;
        if next == b',' {
            self.at += 1;
            return Some(());
        }
        (next == end).then_some(())
    }
}
