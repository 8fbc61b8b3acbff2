//! The policy's own programs: run with limits, a clean environment and no secrets, one JSON document in and one out.
