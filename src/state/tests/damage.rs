//! Lost, damaged and foreign databases: each is an error that says so, and none is a fresh start.

use std::os::unix::fs::FileExt as _;

use rusqlite::Connection;

use super::*;

/// A store that was used, closed again.
fn used() -> Dir {
    let dir = Dir::new();
    Store::open(&dir.0).unwrap().transaction(|_, _| Ok(())).unwrap();
    dir
}

#[track_caller]
fn both(dir: &Dir) -> StateError {
    let (opened, looked) = (Store::open(&dir.0).expect_err("open"), Store::look(&dir.0).expect_err("look"));
    assert_eq!(opened.to_string(), looked.to_string());
    assert!(opened.to_string().contains(&format!("{:?}", dir.file("state.db"))), "{opened}");
    opened
}

#[test]
fn a_database_that_is_gone_does_not_begin_again() {
    let dir = used();
    let mut open = Store::open(&dir.0).unwrap();
    let kept = fs::read(dir.file("state.db")).unwrap();
    fs::remove_file(dir.file("state.db")).unwrap();
    assert!(matches!(both(&dir), StateError::Lost(_)));
    let error = open.transaction(|_, _| Ok(())).expect_err("nobody would see what it keeps");
    assert!(matches!(error, StateError::Lost(_)), "{error}");
    assert!(!dir.file("state.db").exists());
    fs::write(dir.file("state.db"), "").unwrap();
    fs::set_permissions(dir.file("state.db"), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(matches!(both(&dir), StateError::Lost(_)), "nor an empty one");
    fs::write(dir.file("state.db"), "x").unwrap();
    assert!(matches!(both(&dir), StateError::Lost(_)), "nor one of a byte");
    fs::write(dir.file("state.db"), kept).unwrap();
    assert_eq!(boots(&dir.0), 1, "put back it counts");
    assert!(matches!(open.transaction(|_, _| Ok(())), Err(StateError::Lost(_))), "as another file");
}

#[test]
fn a_first_use_that_was_cut_short_is_taken_up() {
    let dir = used();
    fs::remove_file(dir.file("state.id")).unwrap();
    assert_eq!(boots(&dir.0), 1);
    assert!(!dir.file("state.id").exists(), "looking marks nothing");
    drop(Store::open(&dir.0).unwrap());
    assert!(dir.file("state.id").exists());
    let empty = Dir::new();
    fs::create_dir(&empty.0).unwrap();
    fs::set_permissions(&empty.0, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(Store::look(&empty.0).unwrap().is_none());
    fs::write(empty.file("state.db"), "").unwrap();
    fs::set_permissions(empty.file("state.db"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(empty.file("state.id.new"), "torn").unwrap();
    assert!(Store::look(&empty.0).unwrap().is_none());
    drop(Store::open(&empty.0).unwrap());
    assert!(!empty.file("state.id.new").exists());
}

#[test]
fn the_lock_file_is_only_a_lock() {
    let dir = used();
    fs::remove_file(dir.file("state.lock")).unwrap();
    assert_eq!(boots(&dir.0), 1);
    assert!(!dir.file("state.lock").exists(), "looking makes nothing");
    drop(Store::open(&dir.0).unwrap());
    assert!(dir.file("state.lock").exists());
}

#[test]
fn another_directorys_database_is_foreign() {
    let (dir, other) = (used(), used());
    fs::copy(other.file("state.db"), dir.file("state.db")).unwrap();
    assert!(matches!(both(&dir), StateError::Foreign(..)));
}

#[test]
fn another_programs_database_is_foreign_and_a_later_one_too_new() {
    for (sql, wanted) in [
        ("PRAGMA application_id = 7", "is not this directory's: another program wrote it"),
        ("PRAGMA user_version = 999", "has version 999, which this guardexec does not know"),
        ("PRAGMA user_version = 0", "its tables are not those of version 0"),
        ("CREATE TABLE more (x)", "its tables are not those of version 2"),
        ("DROP INDEX uses_by_age", "its tables are not those of version 2"),
        ("ALTER TABLE sessions ADD COLUMN more TEXT", "its tables are not those of version 2"),
        (
            "CREATE TRIGGER t AFTER INSERT ON uses BEGIN DELETE FROM uses; END",
            "its tables are not those of version 2",
        ),
        ("DELETE FROM store", "is damaged: it has no id"),
    ] {
        let dir = used();
        Connection::open(dir.file("state.db")).unwrap().execute_batch(sql).unwrap();
        let error = both(&dir).to_string();
        assert!(error.contains(wanted), "{sql}: {error}");
    }
}

#[test]
fn another_journal_mode_is_set_right() {
    let dir = used();
    let other = Connection::open(dir.file("state.db")).unwrap();
    let mode: String = other.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    drop(other);
    Store::open(&dir.0).unwrap().transaction(|_, _| Ok(())).unwrap();
    assert!(!dir.file("state.db-wal").exists());
    assert_eq!(boots(&dir.0), 1);
}

#[test]
fn damage_is_found_before_anything_is_believed() {
    let dir = used();
    let whole = fs::read(dir.file("state.db")).unwrap();
    let mut zeroed = whole.clone();
    let page = 4096 * (whole.len() / 4096 / 2);
    zeroed[page..page + 4096].fill(0);
    let mut magic = whole.clone();
    magic[3] ^= 1;
    for (what, bytes) in [
        ("cut in half", &whole[..whole.len() / 2]),
        ("cut in a page", &whole[..whole.len() - 100]),
        ("a page of zeros", &zeroed),
        ("no magic", &magic),
        ("noise", &[0x5a; 20_000][..]),
    ] {
        fs::write(dir.file("state.db"), bytes).unwrap();
        let error = both(&dir);
        assert!(matches!(error, StateError::Corrupt(..)), "{what}: {error}");
        assert_eq!(error.code(), "state_unavailable");
    }
    fs::write(dir.file("state.db"), whole).unwrap();
    assert_eq!(boots(&dir.0), 1);
}

#[test]
fn a_damaged_figure_is_an_error_and_not_nothing() {
    let dir = Dir::new();
    let policies = [policy(&dir, "allow = [\"ls\"]\n[[rate]]\nname = \"r\"\ncount = 5\nper = \"1h\"\n")];
    let call = rates::Call { ids: vec!["allow:ls"], ..rates::Call::default() };
    let mut store = Store::open(&dir.0).unwrap();
    let weigh = |store: &mut Store| {
        store.transaction(|tx, now| {
            let weighed = rates::weigh(Some((tx, now)), &policies, &call)?;
            rates::count(tx, now, &weighed)
        })
    };
    for _ in 0..3 {
        weigh(&mut store).unwrap();
    }
    for sql in [
        "UPDATE uses SET amount = '-1'",
        "UPDATE uses SET upto = 'x'",
        "UPDATE uses SET upto = '1e3'",
        "UPDATE uses SET upto = '9' WHERE at = (SELECT min(at) FROM uses)",
    ] {
        let before = fs::read(dir.file("state.db")).unwrap();
        Connection::open(dir.file("state.db")).unwrap().execute_batch(sql).unwrap();
        let error = weigh(&mut store).expect_err(sql);
        assert!(matches!(error, StateError::Corrupt(..)), "{sql}: {error}");
        fs::write(dir.file("state.db"), before).unwrap();
        weigh(&mut store).unwrap();
    }
}

/// Three uses of three, a halted session, and some megabytes beside them.
fn fill(dir: &Dir, policies: &[Policy], call: &rates::Call<'_>) {
    let mut store = Store::open(&dir.0).unwrap();
    for n in 0..3 {
        store
            .transaction(|tx, now| {
                let weighed = rates::weigh(Some((tx, now)), policies, call)?;
                rates::count(tx, now, &weighed)?;
                sessions::halt(tx, now, policies, "halted", "a command failed", None)?;
                tx.execute_batch(&format!(
                    "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 600)
                     INSERT INTO sessions (id, first, last, since, since_wall) SELECT 's{n}-' || i, '', '', 0, '' FROM n;
                     WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 200)
                     INSERT INTO approvals (id, state, digest, asked_digest, bound, bucket, proven, cause, filed_at, filed_by,
                         expires, expires_at)
                     SELECT 'a{n}-' || i, 'pending', '', '', printf('%.*c', 9000, 'x'), '', 0, '', '', '{{}}',
                         9000000000000000000, '' FROM n;"
                ))?;
                Ok(())
            })
            .unwrap();
    }
}

/// Too large to be tested whole when it is opened: a page that is not what it was is an error for whoever meets it, and changes
/// no answer of the others.
#[test]
fn damage_in_a_large_one_is_met_as_damage() {
    let dir = Dir::new();
    let text = "allow = [\"ls\"]\n[[rate]]\nname = \"r\"\ncount = 3\nper = \"1h\"\n[session]\nhalt_on = [\"exit\"]\n";
    let policies = [policy(&dir, text)];
    let call = rates::Call { ids: vec!["allow:ls"], ..rates::Call::default() };
    fill(&dir, &policies, &call);
    let whole = fs::read(dir.file("state.db")).unwrap();
    let pages = whole.len() / 4096;
    assert!(pages > 1024, "{pages}");
    let file = fs::OpenOptions::new().write(true).open(dir.file("state.db")).unwrap();
    // What a call asks the store before it runs, and how many requests there are.
    let asks = || -> Result<(bool, bool, usize), StateError> {
        let asked = Store::open(&dir.0)?.attempt(|tx, now| {
            let source = Some((&**tx, now));
            let halted = sessions::check(source, &dir.0, &policies, Some("halted"))?.is_some();
            let weighed = rates::weigh(source, &policies, &call)?;
            let over = weighed[0].verdict() == crate::policy::model::Verdict::Deny;
            let (mut behind, mut found) = (0, 0);
            loop {
                let page = approvals::page(tx, now, false, behind)?;
                found += page.len();
                match page.last() {
                    Some((number, _)) => behind = *number,
                    None => return Ok(Err((halted, over, found))),
                }
            }
        })?;
        let Err::<(), _>(asked) = asked else { unreachable!("nothing is kept") };
        Ok(asked)
    };
    assert_eq!(asks().unwrap(), (true, true, 600));
    let mut met = 0;
    for page in (1..40).chain((40..pages).step_by(67)) {
        for fill in [0, 0x5a] {
            file.write_all_at(&[fill; 4096], page as u64 * 4096).unwrap();
            match asks() {
                Ok((halted, over, found)) => {
                    assert_eq!((halted, over, found), (true, true, 600), "page {page} of {fill}")
                }
                Err(error) => {
                    assert!(matches!(error, StateError::Corrupt(..)), "page {page} of {fill}: {error}");
                    met += 1;
                }
            }
            file.write_all_at(&whole[page * 4096..(page + 1) * 4096], page as u64 * 4096).unwrap();
        }
    }
    assert!(met > 20, "{met}");
    assert_eq!(asks().unwrap(), (true, true, 600));
}

/// Whatever is flipped, nothing panics, and what opens answers.
#[test]
fn flipped_bytes_never_panic() {
    let dir = used();
    let whole = fs::read(dir.file("state.db")).unwrap();
    let file = fs::OpenOptions::new().write(true).open(dir.file("state.db")).unwrap();
    let mut found = 0;
    for at in (0..whole.len()).filter(|at| whole[*at] != 0).step_by(7) {
        file.write_all_at(&[whole[at] ^ 0x55], at as u64).unwrap();
        match Store::look(&dir.0) {
            Ok(view) => drop(view.map(|mut view| view.read(|db, _| sessions::list(db)))),
            Err(_) => found += 1,
        }
        file.write_all_at(&whole[at..=at], at as u64).unwrap();
    }
    assert!(found > 100, "{found}");
    assert_eq!(boots(&dir.0), 1);
}
