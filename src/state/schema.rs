//! The tables. A room that keeps something has its tables here and its statements beside its types.

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior};

use super::StateError;
use super::approvals;
use super::files::DATABASE;

mod older;

/// Tells the file apart from other SQLite databases (`PRAGMA application_id`): "gxst".
const APPLICATION: i64 = 0x6778_7374;

/// The version of [`TABLES`] (`PRAGMA user_version`). What is released is never edited: a change is a new version, and a step
/// from the one before.
const VERSION: i64 = 2;

/// Every table and index: its name and the statement that makes it, exactly as SQLite keeps it.
const TABLES: &[(&str, &str)] = &[
    (
        "store",
        "CREATE TABLE store (
            one INTEGER PRIMARY KEY CHECK (one = 1),
            id TEXT NOT NULL,
            made TEXT NOT NULL
        ) STRICT",
    ),
    (
        "clock",
        "CREATE TABLE clock (
            boot TEXT PRIMARY KEY,
            since_boot INTEGER NOT NULL,
            nanos INTEGER NOT NULL,
            wall TEXT NOT NULL
        ) STRICT, WITHOUT ROWID",
    ),
    (
        "ledgers",
        "CREATE TABLE ledgers (
            id INTEGER PRIMARY KEY,
            policy BLOB NOT NULL,
            kind TEXT NOT NULL,
            name TEXT NOT NULL,
            measure TEXT NOT NULL,
            per INTEGER NOT NULL,
            told INTEGER,
            UNIQUE (policy, kind, name, measure)
        ) STRICT",
    ),
    (
        "counters",
        "CREATE TABLE counters (
            id INTEGER PRIMARY KEY,
            ledger INTEGER NOT NULL REFERENCES ledgers (id),
            key TEXT NOT NULL,
            UNIQUE (ledger, key)
        ) STRICT",
    ),
    (
        "uses",
        "CREATE TABLE uses (
            counter INTEGER NOT NULL REFERENCES counters (id),
            at INTEGER NOT NULL,
            ledger INTEGER NOT NULL REFERENCES ledgers (id),
            amount TEXT NOT NULL,
            upto TEXT NOT NULL,
            PRIMARY KEY (counter, at)
        ) STRICT, WITHOUT ROWID",
    ),
    ("uses_by_age", "CREATE INDEX uses_by_age ON uses (ledger, at)"),
    (
        "sessions",
        "CREATE TABLE sessions (
            id TEXT PRIMARY KEY,
            first TEXT NOT NULL,
            last TEXT NOT NULL,
            since INTEGER NOT NULL,
            since_wall TEXT NOT NULL,
            runs INTEGER NOT NULL DEFAULT 0,
            denials INTEGER NOT NULL DEFAULT 0,
            all_runs INTEGER NOT NULL DEFAULT 0,
            all_denials INTEGER NOT NULL DEFAULT 0,
            halted TEXT,
            halted_wall TEXT,
            halted_run TEXT
        , last_at INTEGER NOT NULL DEFAULT 0, bounded INTEGER NOT NULL DEFAULT 1) STRICT, WITHOUT ROWID",
    ),
    (
        "session_events",
        "CREATE TABLE session_events (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session TEXT NOT NULL REFERENCES sessions (id),
            event TEXT NOT NULL,
            nanos INTEGER NOT NULL,
            wall TEXT NOT NULL,
            by TEXT,
            reason TEXT,
            run TEXT
        ) STRICT",
    ),
    ("session_events_by_session", "CREATE INDEX session_events_by_session ON session_events (session, id)"),
    SESSION_RUNS[0],
    SESSION_RUNS[1],
    approvals::TABLES[0],
    approvals::TABLES[1],
    approvals::TABLES[2],
    approvals::TABLES[3],
    approvals::TABLES[4],
    approvals::TABLES[5],
    SESSIONS_IDLE,
];

/// The runs of sessions that have begun and are not concluded.
const SESSION_RUNS: [(&str, &str); 2] = [
    (
        "session_runs",
        "CREATE TABLE session_runs (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            run TEXT NOT NULL,
            wall TEXT NOT NULL
        ) STRICT",
    ),
    ("session_runs_by_session", "CREATE INDEX session_runs_by_session ON session_runs (session)"),
];

/// Those that may be forgotten, by their last use.
const SESSIONS_IDLE: (&str, &str) = (
    "sessions_idle",
    "CREATE INDEX sessions_idle ON sessions (last_at) WHERE halted IS NULL AND bounded = 0",
);

/// What a database is to this program.
pub(super) enum Found {
    /// Nothing is in it yet.
    Empty,
    /// This program's, with this id.
    Known(String),
    /// An earlier version's of this program, with this id: [`upgrade`] makes it this one's.
    Older(String),
}

/// Looks at what the database is.
///
/// # Errors
/// It is something else, of a later version, or damaged.
pub(super) fn examine(db: &Connection) -> Result<Found, StateError> {
    let number = |name| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    let mut statement = db.prepare(
        "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )?;
    let found: Vec<(String, String)> =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    if application == 0 && version == 0 && found.is_empty() {
        return Ok(Found::Empty);
    }
    if application != APPLICATION {
        return Err(StateError::Foreign(DATABASE.into(), "another program wrote it".into()));
    }
    if version > VERSION {
        return Err(StateError::Newer(DATABASE.into(), version));
    }
    let id = || -> Result<String, StateError> {
        let id = db.query_row("SELECT id FROM store", [], |row| row.get(0)).optional()?;
        id.ok_or_else(|| StateError::Corrupt(DATABASE.into(), "it has no id".into()))
    };
    if version == older::VERSION {
        return Ok(Found::Older(id()?));
    }
    let mut expected = TABLES.to_vec();
    expected.sort_unstable();
    if version != VERSION || !found.iter().map(|(name, sql)| (name.as_str(), sql.as_str())).eq(expected) {
        let why = format!("its tables are not those of version {version}");
        return Err(StateError::Foreign(DATABASE.into(), why));
    }
    Ok(Found::Known(id()?))
}

/// Makes an earlier version's database this one's, with all that is in it, or changes nothing.
///
/// # Errors
/// Its tables are not those of that version; the disk is full.
pub(super) fn upgrade(db: &mut Connection) -> Result<(), StateError> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    older::bring_up(&tx)?;
    tx.pragma_update(None, "user_version", VERSION)?;
    // What was not as it should be before is not now.
    examine(&tx)?;
    tx.commit()?;
    // Space alone: where it cannot be written anew, what is free in it is used again and not given back.
    let _ = db.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; VACUUM");
    Ok(())
}

/// Makes all tables in an empty database.
pub(super) fn create(tx: &Transaction<'_>, id: &str, made: &str) -> Result<(), StateError> {
    for (_, sql) in TABLES {
        tx.execute_batch(sql)?;
    }
    tx.execute("INSERT INTO store (one, id, made) VALUES (1, ?1, ?2)", [id, made])?;
    tx.pragma_update(None, "application_id", APPLICATION)?;
    tx.pragma_update(None, "user_version", VERSION)?;
    Ok(())
}
