//! What happened, told three times: a JSON result for the caller, one text for a model, one line for the operator.
//!
//! Nothing here decides anything. The room takes what the earlier rooms came to and writes it down so that
//! no byte of it can forge a line, drive a terminal or leak a secret.

mod acted;
pub mod audit;
pub mod compose;
mod guarded;
mod hints;
pub mod json;
pub mod offer;
pub mod result;
pub mod run_id;
pub mod schema;
pub mod status;
pub mod text;
pub mod tool;
pub mod trail;
pub mod withheld;
pub mod word;
