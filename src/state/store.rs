//! The database: opened, tested, and used in transactions that all happen one after the other.

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::libc;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::StateError;
use super::clock::{self, Moment, Reading};
use super::files::{DATABASE, Dir, LOCK};
use super::lock::Lock;
use super::prune;
use super::schema::{self, Found};
use crate::sys::process::own_pid;
use crate::sys::signal::Ignored;

/// How long SQLite waits for one who does not use the store's lock, a person with `sqlite3` say.
const STRANGERS: Duration = Duration::from_secs(3);

/// A database of up to this many pages (4 MiB) is tested whole whenever it is opened, which takes some milliseconds at
/// most. Of a larger one only what is read is tested.
const TESTED_PAGES: i64 = 1024;

/// A store that can be written. Dropped before anything forks.
#[derive(Debug)]
pub struct Store {
    opened: Opened,
    lock: Lock,
}

/// A store that is only looked at.
#[derive(Debug)]
pub struct View {
    opened: Opened,
    /// `None` where somebody removed the lock file: SQLite's own locks are left.
    lock: Option<Lock>,
}

impl Store {
    /// Opens the store in this directory, which is made where it is missing.
    ///
    /// # Errors
    /// The directory or a file in it is not the user's alone; the database is gone, damaged, not this directory's or of a
    /// later version; the disk is full; another process holds the lock.
    pub fn open(dir: &Path) -> Result<Store, StateError> {
        let dir = Dir::make(dir)?;
        let lock = Lock::make(&dir.file(LOCK))?;
        let _alive = alive()?;
        let held = lock.take()?;
        let db = prepare(&dir).map_err(|e| e.within(dir.path()))?;
        drop(held);
        Ok(Store { opened: Opened::new(dir, db)?, lock })
    }

    /// Makes the directory where it is missing, so that nobody else makes it first; nothing is kept in it yet.
    ///
    /// # Errors
    /// As for the directory in [`Store::open`].
    pub fn make(dir: &Path) -> Result<(), StateError> {
        Dir::make(dir).map(drop)
    }

    /// The store of a directory that was used; `None` where there is nothing yet. Creates nothing. Only one that an earlier
    /// version made is changed, to be this one's.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn look(path: &Path) -> Result<Option<View>, StateError> {
        let Some(dir) = Dir::find(path)? else { return Ok(None) };
        let lock = Lock::find(&dir.file(LOCK))?;
        let held = lock.as_ref().map(Lock::share).transpose()?;
        let found = find(&dir).map_err(|e| e.within(dir.path()))?;
        drop(held);
        match found {
            Looked::Nothing => Ok(None),
            Looked::There(db) => Ok(Some(View { opened: Opened::new(dir, db)?, lock })),
            Looked::Older => {
                drop(Store::open(path)?);
                Store::look(path)
            }
        }
    }

    /// Everything that `body` does happens or nothing of it, and nothing of any other process comes between: committed
    /// where it gives `Ok`, undone where it gives an error. When this returns `Ok`, the disk has it.
    ///
    /// # Errors
    /// `body`'s own, and all that can go wrong with the store; then nothing was kept.
    pub fn transaction<T>(
        &mut self,
        body: impl FnOnce(&Transaction<'_>, &Moment) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        let Ok(value) = self.attempt(|tx, now| Ok(Ok::<T, Infallible>(body(tx, now)?)))?;
        Ok(value)
    }

    /// The same, where `body` may find that nothing is to be kept without anything being wrong: `Ok(Err(why))` undoes what
    /// it did and hands `why` on.
    ///
    /// # Errors
    /// As [`Store::transaction`].
    pub fn attempt<T, D>(
        &mut self,
        body: impl FnOnce(&Transaction<'_>, &Moment) -> Result<Result<T, D>, StateError>,
    ) -> Result<Result<T, D>, StateError> {
        let reading = self.opened.reading()?;
        let _alive = alive()?;
        let _held = self.lock.take()?;
        self.opened.still_there()?;
        self.opened.write(&reading, body).map_err(|e| e.within(self.opened.dir.path()))
    }

    /// The directory it is in, canonical.
    pub fn dir(&self) -> &Path {
        self.opened.dir.path()
    }

    /// For tests: another clock.
    #[cfg(test)]
    pub(crate) fn with_clock(mut self, clock: impl Fn() -> Reading + 'static) -> Store {
        self.opened.clock = Box::new(move || Ok(clock()));
        self
    }
}

impl View {
    /// Reads in one transaction: nothing changes meanwhile, and nothing is written.
    ///
    /// # Errors
    /// `body`'s own, and all that can go wrong with the store.
    pub fn read<T>(
        &mut self,
        body: impl FnOnce(&Connection, &Moment) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        let reading = self.opened.reading()?;
        let _held = self.lock.as_ref().map(Lock::share).transpose()?;
        self.opened.still_there()?;
        self.opened.read(&reading, body).map_err(|e| e.within(self.opened.dir.path()))
    }

    /// The directory it is in, canonical.
    pub fn dir(&self) -> &Path {
        self.opened.dir.path()
    }

    /// For tests: another clock.
    #[cfg(test)]
    pub(crate) fn with_clock(mut self, clock: impl Fn() -> Reading + 'static) -> View {
        self.opened.clock = Box::new(move || Ok(clock()));
        self
    }
}

/// What both have.
struct Opened {
    dir: Dir,
    db: Connection,
    /// Device and inode of the database.
    identity: (u64, u64),
    pid: i32,
    clock: Box<dyn Fn() -> Result<Reading, StateError>>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Opened {
    fn new(dir: Dir, db: Connection) -> Result<Opened, StateError> {
        let identity = dir.database()?.ok_or_else(|| StateError::Lost(dir.file(DATABASE)))?;
        Ok(Opened { dir, db, identity, pid: own_pid(), clock: Box::new(Reading::now) })
    }

    /// The clocks, for a process that may use this connection.
    fn reading(&self) -> Result<Reading, StateError> {
        if own_pid() != self.pid {
            return Err(StateError::Forked);
        }
        (self.clock)()
    }

    /// SQLite would go on in a file that was removed or replaced meanwhile, and nobody would ever see what it kept.
    fn still_there(&self) -> Result<(), StateError> {
        match self.dir.database()? {
            Some(identity) if identity == self.identity => Ok(()),
            _ => Err(StateError::Lost(self.dir.file(DATABASE))),
        }
    }

    fn write<T, D>(
        &mut self,
        reading: &Reading,
        body: impl FnOnce(&Transaction<'_>, &Moment) -> Result<Result<T, D>, StateError>,
    ) -> Result<Result<T, D>, StateError> {
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let now = clock::pass(&tx, reading)?;
        let done = body(&tx, &now)?;
        match &done {
            Ok(_) => {
                prune::some(&tx, &now)?;
                tx.commit()?;
            }
            Err(_) => tx.rollback()?,
        }
        Ok(done)
    }

    fn read<T>(
        &mut self,
        reading: &Reading,
        body: impl FnOnce(&Connection, &Moment) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Deferred)?;
        let now = clock::moment(&tx, reading)?;
        let value = body(&tx, &now)?;
        tx.rollback()?;
        Ok(value)
    }
}

/// Beyond the file size limit the kernel sends `SIGXFSZ`, which would end guardexec without an answer (setrlimit(2)).
/// Ignored, it is an error of the write.
fn alive() -> Result<Ignored, StateError> {
    Ignored::new(libc::SIGXFSZ).map_err(|e| StateError::io(Path::new(DATABASE), "prepare", e))
}

/// Under the lock: the database, made where the directory was never used.
fn prepare(dir: &Dir) -> Result<Connection, StateError> {
    let marker = dir.marker()?;
    if dir.database()?.is_none() {
        if marker.is_some() {
            return Err(StateError::Lost(DATABASE.into()));
        }
        dir.create_database()?;
    }
    let mut db = connect(dir)?;
    // Truncated and synced, a journal cannot come back after a loss of power and undo what was committed, which one that
    // is removed can (SQLite's `synchronous` pragma on EXTRA).
    let mode: String = db.query_row("PRAGMA journal_mode = TRUNCATE", [], |row| row.get(0))?;
    if mode != "truncate" {
        return Err(StateError::Foreign(DATABASE.into(), format!("its journal mode is {mode}")));
    }
    let found = schema::examine(&db)?;
    let older = matches!(found, Found::Older(_));
    let id = match found {
        Found::Empty if marker.is_some() => return Err(StateError::Lost(DATABASE.into())),
        Found::Empty => {
            let made = Moment::wall_clock(SystemTime::now());
            let id = new_id()?;
            // Before there is any table; afterwards only all could be written anew.
            db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
            let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            schema::create(&tx, &id, &made)?;
            tx.commit()?;
            id
        }
        Found::Known(id) | Found::Older(id) => id,
    };
    match marker {
        Some(marker) => same_id(&marker, &id)?,
        // New, or the first one to use the directory was killed before it could say so.
        None => dir.mark(&id)?,
    }
    test_whole(dir, &db)?;
    if older {
        schema::upgrade(&mut db)?;
    }
    Ok(db)
}

/// What looking finds.
enum Looked {
    /// Nothing was kept yet.
    Nothing,
    /// A database of an earlier version.
    Older,
    /// The database.
    There(Connection),
}

/// Under the lock: the database of a directory that was used. Nothing is written, but what a killed process left half-done
/// is undone, as the next writer would do it.
fn find(dir: &Dir) -> Result<Looked, StateError> {
    let marker = dir.marker()?;
    match (dir.database()?, &marker) {
        (None, None) => return Ok(Looked::Nothing),
        (None, Some(_)) => return Err(StateError::Lost(DATABASE.into())),
        (Some(_), _) => {}
    }
    let db = connect(dir)?;
    db.pragma_update(None, "query_only", true)?;
    match (schema::examine(&db)?, marker) {
        (Found::Empty, Some(_)) => return Err(StateError::Lost(DATABASE.into())),
        (Found::Empty, None) => return Ok(Looked::Nothing),
        (Found::Older(_), _) => return Ok(Looked::Older),
        (Found::Known(id), Some(marker)) => same_id(&marker, &id)?,
        (Found::Known(_), None) => {}
    }
    test_whole(dir, &db)?;
    Ok(Looked::There(db))
}

fn connect(dir: &Dir) -> Result<Connection, StateError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(dir.file(DATABASE), flags)?;
    db.busy_timeout(STRANGERS)?;
    // FULL: what was committed is on the disk. No temporary files anywhere else. Nothing that stands in the file may call
    // functions with side effects, and a cell that does not fit its page is damage. What is removed is overwritten: it may
    // be a secret.
    db.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0; PRAGMA trusted_schema = OFF;
         PRAGMA foreign_keys = ON; PRAGMA cell_size_check = ON; PRAGMA secure_delete = ON;",
    )?;
    Ok(db)
}

fn same_id(marker: &str, id: &str) -> Result<(), StateError> {
    if marker == id {
        return Ok(());
    }
    Err(StateError::Foreign(DATABASE.into(), "it was made for another directory".into()))
}

fn new_id() -> Result<String, StateError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| {
        let source = std::io::Error::other(e.to_string());
        StateError::io(Path::new(DATABASE), "name", source)
    })?;
    Ok(crate::sys::hex(&bytes))
}

/// After what was cut short has been undone: pages that are whole, and hold together.
fn test_whole(dir: &Dir, db: &Connection) -> Result<(), StateError> {
    let number = |name| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (pages, size) = (number("page_count")?, number("page_size")?);
    // SQLite takes the missing end of a page for zeros.
    if dir.length()? != pages.saturating_mul(size) {
        return Err(StateError::Corrupt(DATABASE.into(), "its end is missing".into()));
    }
    if pages > TESTED_PAGES {
        return Ok(());
    }
    let found: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" { Ok(()) } else { Err(StateError::Corrupt(DATABASE.into(), found)) }
}
