//! What messages call tables and values.

use std::fmt;

use crate::policy::error::printable;

/// What messages call a table: two fixed texts and a name between them, put together only when it is shown.
#[derive(Clone, Copy)]
pub(super) struct Name<'a>(pub &'static str, pub &'a str, pub &'static str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.0, printable(self.1), self.2)
    }
}

/// What messages call a value, put together only when it is shown.
#[derive(Clone, Copy)]
pub(super) struct What<'a> {
    pub key: &'a str,
    /// The table it stands in; `None` where the key says enough.
    pub table: Option<Name<'a>>,
    /// How many lists deep it stands in the key's value.
    pub depth: usize,
}

impl fmt::Display for What<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for _ in 0..self.depth {
            f.write_str("an entry of ")?;
        }
        write!(f, "`{}`", printable(self.key))?;
        match &self.table {
            Some(table) => write!(f, " in {table}"),
            None => Ok(()),
        }
    }
}
