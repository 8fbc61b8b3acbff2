//! Accounts of the user database.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use nix::unistd::{Uid, User};
use serde::{Deserialize, Serialize};

/// What is known of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The name.
    pub name: String,
    /// The home directory.
    pub home: PathBuf,
}

/// Who this process acts for, as far as the kernel says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// The real user.
    pub uid: u32,
    /// The user's name; the number where the database knows none.
    pub user: String,
    /// Whoever logged in, where the kernel keeps account of it (`/proc/self/loginuid`): it stays the same through `su`
    /// and `sudo`.
    pub login_uid: Option<u32>,
}

impl Person {
    /// Whoever runs this process.
    pub fn here() -> Person {
        let uid = nix::unistd::getuid().as_raw();
        let user = account(uid).map_or_else(|| uid.to_string(), |account| account.name);
        let login = std::fs::read_to_string("/proc/self/loginuid").ok();
        let login_uid = login.and_then(|text| text.trim().parse().ok()).filter(|uid| *uid != u32::MAX);
        Person { uid, user, login_uid }
    }
}

/// The account of `uid`: its line in `/etc/passwd`, which one read finds for nearly everybody, else whatever the C
/// library finds elsewhere.
pub fn account(uid: u32) -> Option<Account> {
    let text = super::fd::read_whole(c"/etc/passwd").unwrap_or_default();
    line_of(&text, uid).or_else(|| {
        let user = User::from_uid(Uid::from_raw(uid)).ok().flatten()?;
        Some(Account { name: user.name, home: user.dir })
    })
}

/// passwd(5). Anything but a plain line is left to the C library.
fn line_of(text: &[u8], uid: u32) -> Option<Account> {
    text.split(|&b| b == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|&b| b == b':').collect();
        let [name, _, number, _, _, home, _] = fields[..] else { return None };
        let plain =
            name.first().is_some_and(|b| !b"+-#".contains(b)) && number.iter().all(u8::is_ascii_digit);
        let number: u32 = std::str::from_utf8(number).ok()?.parse().ok()?;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        (plain && number == uid).then(|| Account { name, home: PathBuf::from(OsStr::from_bytes(home)) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_plain_line_counts() {
        let text =
            b"+::0:0::/nis:\n#x:x:0:0::/c:/sh\nroot:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/toor:/bin/sh\n\
                     short:x:7:7\nu:x:7:7:a,b:/h\xff:/bin/sh\n\nv:x:+8:8::/v:";
        let root = line_of(text, 0).unwrap();
        assert_eq!((root.name.as_str(), root.home), ("root", PathBuf::from("/root")));
        assert_eq!(line_of(text, 7).unwrap().home.as_os_str().as_bytes(), b"/h\xff");
        assert_eq!(line_of(text, 8), None);
    }

    #[test]
    fn it_agrees_with_the_c_library() {
        for uid in [0, 1, 65534, 4_000_000_000] {
            let theirs = User::from_uid(Uid::from_raw(uid)).ok().flatten();
            assert_eq!(account(uid), theirs.map(|user| Account { name: user.name, home: user.dir }));
        }
    }
}
