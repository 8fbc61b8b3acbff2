//! Asking: what an approval binds to, who is asked and how, and what they see.
//!
//! An approval answers the asking alone, once: [`bound`] is all that it binds to, content included, and whatever differs
//! when it is used makes it another request.

pub mod bound;
pub mod bytes;
pub mod document;
pub mod entry;
pub mod files;
mod refusal;
pub mod screen;
#[cfg(test)]
mod tests;
