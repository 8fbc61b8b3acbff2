//! The shipped checks, run as a policy would run them.
