//! The tables. A room that keeps something has its tables here and its statements beside its types.

use rusqlite::{Connection, OptionalExtension as _, Transaction};

use super::StateError;
use super::approvals;
use super::files::DATABASE;

/// Tells the file apart from other SQLite databases (`PRAGMA application_id`): "gxst".
const APPLICATION: i64 = 0x6778_7374;

/// The version of [`TABLES`] (`PRAGMA user_version`). What is released is never edited: a change is a new version, and a step
/// from the one before.
const VERSION: i64 = 1;

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
        ) STRICT, WITHOUT ROWID",
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
    approvals::TABLES[0],
    approvals::TABLES[1],
    approvals::TABLES[2],
];

/// What a database is to this program.
pub(super) enum Found {
    /// Nothing is in it yet.
    Empty,
    /// This program's, with this id.
    Known(String),
}

/// Looks at what the database is.
///
/// # Errors
/// It is something else, of a later version, or damaged.
pub(super) fn examine(db: &Connection) -> Result<Found, StateError> {
    let number = |name| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    let mut statement = db.prepare(
        "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid",
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
    let expected = TABLES.iter().map(|(name, sql)| (*name, *sql));
    if version != VERSION || !found.iter().map(|(name, sql)| (name.as_str(), sql.as_str())).eq(expected) {
        let why = format!("its tables are not those of version {version}");
        return Err(StateError::Foreign(DATABASE.into(), why));
    }
    let id = db.query_row("SELECT id FROM store", [], |row| row.get(0)).optional()?;
    let id = id.ok_or_else(|| StateError::Corrupt(DATABASE.into(), "it has no id".into()))?;
    Ok(Found::Known(id))
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
