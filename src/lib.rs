//! guardexec stands between an agent and the machine: it judges, confines, bounds and explains one command.
//!
//! A **request** is judged by a **policy** into a **decision**; only a **grant** becomes a **confinement**; only
//! a confinement is **run**; what happened becomes a **report**. Each bold word is a room. Data goes one way:
//! a later room may import earlier ones, never the reverse.
//!
//! ```text
//! argv, env, cwd       TOML                                             JSON, exit status, audit line
//!       |                |                                                      ^
//! cli -> request      policy                                                 report
//!           \          /                                                        ^
//!            program  /                                                         |
//!                \   /                                                          |
//!              decision -> (Grant) -> sandbox -> (Confinement) -> run -> (Ended)
//! ```

pub mod decision;
pub mod policy;
pub mod program;
pub mod request;
pub mod sandbox;
