//! The store: approvals, counters and sessions, in one SQLite database that many processes share.
//!
//! ```text
//! place -> files (directory, modes, owners) -> lock -> Store::transaction(|tx, now| ...)
//!                                                        |        \
//!                                                      schema     clock
//! ```
//!
//! [`place::resolve`] says which directory; [`Store::open`] makes or opens it, [`Store::look`] only looks and creates
//! nothing. All reading and writing happens inside [`Store::transaction`] (or [`Store::attempt`], or [`View::read`]): one
//! `BEGIN IMMEDIATE` under the store's own lock, together with the [`Moment`] it happens at. Anything that goes wrong is a
//! [`StateError`], whose callers deny: counters that cannot be read are not counters that stand at zero.
//!
//! A forked child must never use its parent's connection, so a store is dropped before anything forks; a store that
//! finds itself in another process refuses.

pub mod clock;
mod error;
mod files;
mod lock;
pub mod place;
mod schema;
mod store;
#[cfg(test)]
mod tests;

pub use clock::Moment;
pub use error::StateError;
pub use store::{Store, View};
