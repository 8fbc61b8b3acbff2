//! The store: approvals, counters and sessions, in one SQLite database that many processes share.
