//! The step from version 1: approvals had one table, in which the private part stood between the others, and sessions did not
//! say when they were last used by the store's own time.

use rusqlite::Transaction;

use super::{SESSION_RUNS, SESSIONS_IDLE};
use crate::state::StateError;
use crate::state::approvals::TABLES;

/// The version it is a step from.
pub(super) const VERSION: i64 = 1;

/// Nothing of it is forgotten sooner for it: what had been settled counts as settled now, and sessions as used now. Of those
/// nobody knows whether a policy bounds them, so that all are kept.
const MOVED: &str = "
    INSERT INTO approvals (id, state, digest, asked_digest, bound, asked_argv, bucket, proven, cause, filed_at, filed_by,
        expires, expires_at, escalate, escalated_at, verdict, answered, answered_at, answered_by, by_person, said, used_at,
        run_id, settled)
    SELECT id, state, digest, asked_digest, bound, asked_argv, bucket, 0, cause, filed_at, filed_by, expires, expires_at,
        escalate, escalated_at, verdict, answered, answered_at, answered_by, answered IS NOT NULL, said, used_at, run_id,
        CASE WHEN state IN ('pending', 'approved') THEN NULL ELSE (SELECT coalesce(max(nanos), 0) FROM clock) END
    FROM approval ORDER BY rowid;
    INSERT INTO approvals_private (approval, content)
    SELECT number, private FROM approvals JOIN approval USING (id) WHERE private IS NOT NULL AND settled IS NULL;
    DROP TABLE approval;
    ALTER TABLE sessions ADD COLUMN last_at INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE sessions ADD COLUMN bounded INTEGER NOT NULL DEFAULT 1;
    UPDATE sessions SET last_at = (SELECT coalesce(max(nanos), 0) FROM clock);
";

/// Makes the tables of the next version out of those of this one.
pub(super) fn bring_up(tx: &Transaction<'_>) -> Result<(), StateError> {
    for (_, sql) in TABLES {
        tx.execute_batch(sql)?;
    }
    tx.execute_batch(MOVED)?;
    for (_, sql) in [SESSIONS_IDLE, SESSION_RUNS[0], SESSION_RUNS[1]] {
        tx.execute_batch(sql)?;
    }
    Ok(())
}
