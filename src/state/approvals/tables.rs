//! The tables of approvals.

/// The tables and their indices. What is only kept while a request is open has a table of its own: it may be large, and whoever
/// lists requests never reads it. What decides stands before what may be long: on the page that is tested when it is read, and
/// not behind it.
pub(in crate::state) const TABLES: [(&str, &str); 6] = [
    (
        "approvals",
        "CREATE TABLE approvals (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            state TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'declined', 'consumed', 'expired')),
            digest TEXT NOT NULL,
            asked_digest TEXT NOT NULL,
            bucket TEXT NOT NULL,
            proven INTEGER NOT NULL CHECK (proven IN (0, 1)),
            cause TEXT NOT NULL,
            filed_at TEXT NOT NULL,
            expires INTEGER NOT NULL,
            expires_at TEXT NOT NULL,
            escalate INTEGER,
            escalated_at TEXT,
            verdict TEXT CHECK (verdict IN ('approve', 'decline')),
            answered INTEGER,
            answered_at TEXT,
            by_person INTEGER NOT NULL DEFAULT 0 CHECK (by_person IN (0, 1)),
            used_at TEXT,
            run_id TEXT,
            settled INTEGER,
            filed_by TEXT NOT NULL,
            answered_by TEXT,
            said TEXT,
            asked_argv TEXT,
            bound TEXT NOT NULL,
            CHECK ((settled IS NULL) = (state IN ('pending', 'approved')))
        ) STRICT",
    ),
    (
        "approvals_private",
        "CREATE TABLE approvals_private (
            approval INTEGER PRIMARY KEY REFERENCES approvals (number) ON DELETE CASCADE,
            content TEXT NOT NULL
        ) STRICT",
    ),
    ("approvals_open", "CREATE INDEX approvals_open ON approvals (number) WHERE settled IS NULL"),
    ("approvals_lately", "CREATE INDEX approvals_lately ON approvals (cause, answered)"),
    ("approvals_settled", "CREATE INDEX approvals_settled ON approvals (settled) WHERE settled IS NOT NULL"),
    (
        "approvals_passing",
        "CREATE INDEX approvals_passing ON approvals (number) WHERE settled IS NOT NULL AND by_person = 0",
    ),
];
