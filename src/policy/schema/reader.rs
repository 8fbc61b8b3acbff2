//! Tables and values of the parsed tree, read with complaints in plain words.

use std::path::PathBuf;
use std::time::Duration;

pub(super) use super::called::Name;
use super::called::What;
use super::nearest::nearest_hint;
use super::{Doc, Span};
use crate::policy::error::{PolicyError, printable};
use crate::policy::model::Bound;
use crate::policy::tree::{Id, Tree, Value, bit};
use crate::request::units::{UnitError, parse_duration, parse_size};

/// A table and the name by which messages call it, such as `[limits]`.
#[derive(Clone)]
pub(super) struct Table<'a> {
    pub doc: &'a Doc,
    pub name: Name<'a>,
    pub span: Span,
    tree: &'a Tree<'a>,
    id: Id,
    /// See [`Tree::present`].
    present: u64,
}

/// A value and what messages call it, such as `` `pids` in [limits] ``.
#[derive(Clone)]
pub(super) struct Item<'a> {
    pub doc: &'a Doc,
    pub what: What<'a>,
    pub span: Span,
    tree: &'a Tree<'a>,
    id: Id,
}

impl<'a> Table<'a> {
    /// The file itself.
    pub fn root(doc: &'a Doc, tree: &'a Tree<'a>) -> Table<'a> {
        Table::of(doc, Name("the policy", "", ""), 0..0, tree, Tree::ROOT)
    }

    /// A table of a list that is being taken, see [`Tree::parse_taking`].
    pub fn taken(doc: &'a Doc, name: &'static str, tree: &'a Tree<'a>, id: Id) -> Table<'a> {
        Table::of(doc, Name(name, "", ""), tree.span(id), tree, id)
    }

    fn of(doc: &'a Doc, name: Name<'a>, span: Span, tree: &'a Tree<'a>, id: Id) -> Table<'a> {
        Table { doc, name, span, tree, id, present: tree.present(id) }
    }

    /// Refuses every key that is not in `keys`, naming the nearest.
    pub fn only(&self, keys: &[&str]) -> Result<(), PolicyError> {
        let Some(first) = self.tree.unknown(self.id, keys) else { return Ok(()) };
        let name = self.tree.key(first);
        let message = format!("unknown key `{}` in {}", printable(name), self.name);
        Err(self.doc.error(&self.tree.key_span(first), message).hint(nearest_hint(name, keys)))
    }

    fn item(&self, key: &'a str, id: Id) -> Item<'a> {
        let what = What { key, table: Some(self.name), depth: 0 };
        Item { doc: self.doc, what, span: self.tree.span(id), tree: self.tree, id }
    }

    /// The value of a key, if it was written.
    #[inline(always)]
    pub fn get(&self, key: &'static str) -> Option<Item<'a>> {
        if self.present & bit(key) == 0 {
            return None;
        }
        self.tree.get(self.id, key).map(|id| self.item(key, id))
    }

    /// The value of a key that has to be written.
    pub fn need(&self, key: &'static str) -> Result<Item<'a>, PolicyError> {
        self.get(key)
            .ok_or_else(|| self.doc.error(&self.span, format!("`{key}` is missing in {}", self.name)))
    }

    /// All keys with their places and values, in the order of the file.
    pub fn entries(&self) -> Vec<(&'a str, Span, Item<'a>)> {
        let entry = |id| {
            let name = self.tree.key(id);
            (name, self.tree.key_span(id), self.item(name, id))
        };
        let mut all: Vec<_> = self.tree.children(self.id).map(entry).collect();
        // A table is chained where the first header that leads through it stands; its own may come later.
        all.sort_by_key(|(_, span, _)| span.start);
        all
    }

    pub fn error(&self, message: impl Into<String>) -> PolicyError {
        self.doc.error(&self.span, message)
    }

    /// `key`, read by `read` if it was written.
    #[inline(always)]
    pub fn opt<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&Item<'a>) -> Result<T, PolicyError>,
    ) -> Result<Option<T>, PolicyError> {
        self.get(key).map(|item| read(&item)).transpose()
    }

    /// A boolean that is `false` unless written.
    pub fn flag(&self, key: &'static str) -> Result<bool, PolicyError> {
        Ok(self.opt(key, Item::boolean)?.unwrap_or(false))
    }
}

impl<'a> Item<'a> {
    /// The same, called by its key alone.
    pub fn by_key(self) -> Item<'a> {
        Item { what: What { table: None, ..self.what }, ..self }
    }

    /// The same, complaining at another place: a key instead of its value.
    pub fn at(&self, span: &Span) -> Item<'a> {
        Item { span: span.clone(), ..self.clone() }
    }

    pub fn error(&self, message: impl Into<String>) -> PolicyError {
        self.doc.error(&self.span, message)
    }

    /// `WHAT must be WANTED, not a list`.
    pub fn wrong(&self, wanted: &str) -> PolicyError {
        self.error(format!("{} must be {wanted}, not {}", self.what, kind(self.value())))
    }

    /// A string without NUL (no word, name or path can carry one).
    pub fn string(&self) -> Result<&'a str, PolicyError> {
        self.string_as("a string")
    }

    fn string_as(&self, wanted: &str) -> Result<&'a str, PolicyError> {
        let Value::String(text) = self.value() else { return Err(self.wrong(wanted)) };
        if self.tree.is_decoded(self.id) && text.contains('\0') {
            return Err(self.error(format!("{} holds a NUL character", self.what)));
        }
        Ok(text)
    }

    pub fn boolean(&self) -> Result<bool, PolicyError> {
        match self.value() {
            Value::Boolean(b) => Ok(b),
            _ => Err(self.wrong("true or false")),
        }
    }

    pub fn is_string(&self) -> bool {
        self.tree.is_string(self.id)
    }

    pub fn is_list(&self) -> bool {
        self.tree.is_list(self.id)
    }

    /// How many entries a list has; 0 for anything else.
    pub fn length(&self) -> usize {
        if self.is_list() { self.tree.children(self.id).count() } else { 0 }
    }

    pub fn is_number(&self) -> bool {
        matches!(self.value(), Value::Integer(_) | Value::Float)
    }

    pub fn value(&self) -> Value<'a> {
        self.tree.value(self.id)
    }

    /// A whole number in plain decimal digits, from `min` to `max`.
    pub fn count(&self, min: u64, max: u64) -> Result<u64, PolicyError> {
        let Value::Integer(_) = self.value() else { return Err(self.wrong("a whole number")) };
        let text = self.doc.source(&self.span);
        let outside = || match max {
            u64::MAX => self.error(format!("{} must be at least {min}", self.what)),
            _ => self.error(format!("{} must be from {min} to {max}", self.what)),
        };
        if text.strip_prefix('-').unwrap_or(text).bytes().any(|b| !b.is_ascii_digit()) {
            return Err(self.error(format!("{} must be written in plain decimal digits", self.what)));
        }
        text.parse::<u64>().ok().filter(|n| (min..=max).contains(n)).ok_or_else(outside)
    }

    /// A list's entries one by one; they are called like the list itself.
    pub fn each(&self, wanted: &str) -> Result<impl Iterator<Item = Item<'a>> + use<'a>, PolicyError> {
        if !self.is_list() {
            return Err(self.wrong(wanted));
        }
        let (doc, tree) = (self.doc, self.tree);
        let what = What { depth: self.what.depth + 1, ..self.what };
        Ok(tree.children(self.id).map(move |id| Item { doc, what, span: tree.span(id), tree, id }))
    }

    /// All of them.
    pub fn list(&self, wanted: &str) -> Result<Vec<Item<'a>>, PolicyError> {
        let mut entries = Vec::with_capacity(self.length());
        entries.extend(self.each(wanted)?);
        Ok(entries)
    }

    pub fn strings(&self) -> Result<Vec<String>, PolicyError> {
        let mut strings = Vec::with_capacity(self.length());
        for entry in self.each("a list of strings")? {
            strings.push(entry.string()?.to_owned());
        }
        Ok(strings)
    }

    /// A list of strings, none of them twice, each passing `check`.
    pub fn names(
        &self,
        check: impl Fn(&Item<'a>, &str) -> Result<(), PolicyError>,
    ) -> Result<Vec<String>, PolicyError> {
        let mut names: Vec<String> = Vec::with_capacity(self.length());
        for entry in self.each("a list of strings")? {
            let name = entry.string()?;
            check(&entry, name)?;
            if names.iter().any(|n| n == name) {
                return Err(entry.error(format!("`{}` stands twice in {}", printable(name), self.what)));
            }
            names.push(name.to_owned());
        }
        Ok(names)
    }

    /// A table that messages call `name`.
    pub fn table(&self, name: &'static str) -> Result<Table<'a>, PolicyError> {
        self.named_table(Name(name, "", ""))
    }

    pub fn named_table(&self, name: Name<'a>) -> Result<Table<'a>, PolicyError> {
        if !self.tree.is_table(self.id) {
            return Err(self.wrong("a table"));
        }
        Ok(Table::of(self.doc, name, self.span.clone(), self.tree, self.id))
    }

    /// One of a few words.
    pub fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, PolicyError> {
        let text = self.string()?;
        if let Some((_, value)) = words.iter().find(|(w, _)| *w == text) {
            return Ok(*value);
        }
        let names: Vec<&str> = words.iter().map(|(w, _)| *w).collect();
        let message = format!("{} cannot be \"{}\"", self.what, printable(text));
        Err(self.error(message).hint(nearest_hint(text, &names)))
    }

    /// `~` and `~/...` with the home in its place, as in a path; any other text as it is.
    pub fn home_in(&self, text: &str) -> Result<String, PolicyError> {
        if text != "~" && !text.starts_with("~/") {
            return Ok(text.to_owned());
        }
        let path = self.doc.resolve(text, &self.span)?;
        path.into_os_string().into_string().map_err(|_| self.error("the home's path is not UTF-8"))
    }

    pub fn path(&self) -> Result<PathBuf, PolicyError> {
        self.doc.resolve(self.string()?, &self.span)
    }

    pub fn paths(&self) -> Result<Vec<PathBuf>, PolicyError> {
        self.list("a list of paths")?.iter().map(Item::path).collect()
    }

    pub fn duration(&self) -> Result<Duration, PolicyError> {
        let text = self.string_as("a duration such as \"5s\"")?;
        parse_duration(text).map_err(|e| self.unit_error(text, &e, false))
    }

    pub fn size(&self, min: u64) -> Result<u64, PolicyError> {
        self.size_or(min, false)
    }

    fn size_or(&self, min: u64, liftable: bool) -> Result<u64, PolicyError> {
        let text = self.string_as("a size such as \"64K\"")?;
        let bytes = parse_size(text).map_err(|e| self.unit_error(text, &e, liftable))?;
        if bytes < min {
            let least = crate::request::units::show_size(min);
            return Err(self.error(format!("{} must be at least \"{least}\"", self.what)));
        }
        Ok(bytes)
    }

    fn unit_error(&self, text: &str, error: &UnitError, liftable: bool) -> PolicyError {
        match error {
            UnitError::Zero if liftable => self.error("0 is not a limit; write \"none\" to lift it"),
            UnitError::Zero => self.error(format!("{} cannot be 0", self.what)),
            e => self.error(format!("{}: \"{}\" {e}", self.what, printable(text))),
        }
    }

    fn is_none(&self) -> bool {
        matches!(self.value(), Value::String("none"))
    }

    /// Whether a plain number zero stands here: worth a message of its own wherever a limit is meant.
    fn refuse_zero(&self) -> Result<(), PolicyError> {
        let Value::Integer(number) = self.value() else { return Ok(()) };
        if number.bytes().all(|b| b == b'0') {
            return Err(self.error("0 is not a limit; write \"none\" to lift it"));
        }
        Ok(())
    }

    pub fn bound_duration(&self) -> Result<Bound<Duration>, PolicyError> {
        if self.is_none() {
            return Ok(Bound::Lifted);
        }
        self.refuse_zero()?;
        let text = self.string_as("a duration such as \"5s\"")?;
        parse_duration(text).map(Bound::At).map_err(|e| self.unit_error(text, &e, true))
    }

    pub fn bound_size(&self, min: u64) -> Result<Bound<u64>, PolicyError> {
        if self.is_none() {
            return Ok(Bound::Lifted);
        }
        self.refuse_zero()?;
        self.size_or(min, true).map(Bound::At)
    }

    pub fn bound_count(&self, min: u64, max: u64) -> Result<Bound<u64>, PolicyError> {
        if self.is_none() {
            return Ok(Bound::Lifted);
        }
        self.refuse_zero()?;
        self.count(min, max).map(Bound::At)
    }
}

/// What a value is, for people.
pub(super) fn kind(value: Value<'_>) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) => "a whole number",
        Value::Float => "a decimal number",
        Value::Boolean(_) => "true or false",
        Value::Datetime => "a date",
        Value::Array => "a list",
        Value::Table => "a table",
    }
}
