//! The acceptance tests: the real binary, called as users call it.
//!
//! `harness` compares everything by default; each module here covers one part of the contract.

#[macro_use]
mod harness;

mod approvals;
mod approvals_output;
mod arguments;
mod attacks;
mod audit;
mod checks;
mod cli;
mod compatibility;
mod delivery;
mod demo;
mod environment;
mod escape;
mod explain;
mod limits;
mod messages;
mod output;
mod oversight;
mod passing;
mod policies;
mod rates;
mod runner;
mod state;
mod switch;
mod tools;
mod tree;
