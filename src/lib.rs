//! guardexec stands between an agent and the machine: it judges, confines, bounds and explains one command.
//!
//! A **request** is judged by a **policy** into a **decision**; only a **grant** becomes a **confinement**; only
//! a confinement is **run**; what happened becomes a **report**. Each bold word is a room. Data goes one way:
//! a later room may import earlier ones, never the reverse.
//!
//! ```text
//! argv, env, cwd       TOML                                             JSON, exit status, audit line
//!       |                |                                                      ^
//! cli -> request      policy                                                       report
//!           \          /                                                              ^
//!            program  /          state                                               |
//!                \   /             |                                                  |
//!              decision -> approval -> (Grant) -> sandbox -> (Confinement) -> run -> (Ended) -> guard
//!              switch, hook: asked on the way     \                                  /
//!                                                  `--> action ---------------------'
//! ```
//!
//! | word | meaning |
//! |---|---|
//! | request | what the caller wants run, unjudged |
//! | policy | the TOML files that judge it |
//! | decision | `allow`, `ask` or `deny`; the strictest matching rule wins, no match is `deny` |
//! | grant | an allowed request with its program opened and everything settled |
//! | confinement | what the kernel is told to enforce on the run |
//! | run | the child, all its descendants, their limits and their output |
//! | tool | a name with typed parameters, for a command that the caller never writes or for a built-in action |
//! | action | what guardexec does itself beneath one directory: read, write, list, delete |
//! | switch | the file that stops everything, or what it names |
//! | state | the store of approvals, counters and sessions, which many processes share |
//! | approval | a person's answer to one request, bound to all of it and used once |
//! | hook | a program of the policy's own: a check, a confirmation, an alert |
//! | guard | checks of the policy's own, on a request and on an output |
//! | ended | how the run ended: what was really so, never what was asked for |
//!
//! The way through the house is [`perform`].

pub mod action;
pub mod approval;
pub mod cli;
pub mod decision;
pub mod guard;
pub mod hook;
pub mod policy;
pub mod program;
pub mod report;
pub mod request;
pub mod run;
pub mod sandbox;
mod spine;
pub mod state;
pub mod switch;
pub mod sys;

pub use spine::{
    Answer, Call, Explained, Output, Place, RESULT_TARGET, Surroundings, explain, perform, perform_into,
};
