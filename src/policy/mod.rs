//! The policy: what a TOML file says, found, trusted, checked and compiled into [`model::Policy`].
//!
//! This room knows nothing of requests. It answers one question: what do the policy's author and the
//! operator want? Several files may be stacked; each is one [`model::Policy`] and all must agree.

pub mod decimal;
pub mod error;
pub mod hooks;
mod join;
pub mod lint;
pub mod load;
pub mod model;
pub mod names;
pub mod oversight;
mod patterns;
pub mod place;
pub mod runners;
mod schema;
pub mod stack;
pub mod template;
mod tree;
pub mod trust;
pub mod value;
