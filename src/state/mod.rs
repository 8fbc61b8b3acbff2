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
//! What a call does with it, all of it in one transaction, so that the call is counted everywhere or nowhere:
//!
//! ```text
//! let dir = place::resolve(policies, &caller)?;                      // exit 125 where it contradicts itself
//! let done = Store::open(&dir)?.attempt(|tx, now| {                  // a StateError denies: `code`, `hint`
//!     let kept = Some((&**tx, now));                                 // `explain`: a View, or None where there is nothing
//!     if let Some(refusal) = sessions::check(kept, policies, session)? { return Ok(Err(refusal)) }
//!     let weighed = rates::weigh(kept, policies, &rates::Call::of(&grant, &asker))?;
//!     // the greatest Weighed::verdict decides; Weighed::refusal says why
//!     rates::count(tx, now, &weighed)?;                              // allowed, or approved in this transaction
//!     sessions::count_run(tx, now, policies, id)?;                   // where there is a [session] and an id
//!     Ok(Ok(alerts::note_rates(tx, now, policies, &weighed)?))       // run their programs after the transaction
//! })?;
//! // Later, in other transactions: sessions::count_denial, sessions::halt_on, alerts::note.
//! ```
//!
//! Whatever is written, a little of what nobody needs any more is forgotten in the same transaction: `prune`.
//!
//! A forked child must never use its parent's connection, so a store is dropped before anything forks; a store that
//! finds itself in another process refuses.

pub mod alerts;
mod amount;
pub mod approvals;
pub mod clock;
mod error;
mod files;
mod keeping;
mod ledger;
mod lock;
pub mod place;
mod prune;
pub mod rates;
mod refusal;
mod schema;
pub mod sessions;
mod store;
#[cfg(test)]
pub(crate) mod tests;

pub use amount::{Amount, AmountError};
pub use clock::Moment;
pub use error::StateError;
pub use refusal::Refusal;
pub use store::{Store, View};
