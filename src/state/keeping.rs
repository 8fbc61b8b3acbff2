//! How long the store keeps what is over, and how much of it one transaction deals with.

use std::time::Duration;

/// How long what was settled, and a session that nobody uses, are kept, in the store's time.
pub(super) const KEPT: Duration = Duration::from_secs(90 * 86_400);

/// So many rows of each kind are dealt with at most: more than a call adds.
pub(super) const ROWS: u32 = 16;
