//! The policy: what a TOML file says, found, trusted, checked and compiled into [`model::Policy`].
//!
//! This room knows nothing of requests. It answers one question: what do the policy's author and the
//! operator want? Several files may be stacked; each is one [`model::Policy`] and all must agree.

pub mod hooks;
pub mod model;
pub mod runners;
pub mod value;
