//! The `status` words of a result, and what guardexec exits with for each: one table.

use serde::de::{Deserialize, Deserializer, Error as _, Unexpected};
use serde::{Serialize, Serializer};

/// How a request ended, as results and audit records name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// It ran and exited 0.
    Ok,
    /// It ran and exited with something else.
    NonzeroExit,
    /// It died of a signal that guardexec did not send.
    Signaled,
    /// `wall_time` passed.
    Timeout,
    /// Another limit ended it.
    LimitExceeded,
    /// The policy or a person said no.
    Denied,
    /// A person has not answered yet.
    NeedsApproval,
    /// Allowed by name, and not there.
    NotFound,
    /// Found, and not executable.
    ExecFailed,
    /// guardexec was told to stop, or the kill switch was thrown.
    Cancelled,
    /// guardexec itself failed.
    Error,
}

/// Where the exit status of a [`Status`] comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    /// The child's own.
    Child,
    /// 128 plus the signal; 137 where none is known, because guardexec kills with SIGKILL.
    Signal,
    /// Always this.
    Fixed(u8),
}

/// All statuses: the word, and where the exit status comes from.
const TABLE: [(Status, &str, Exit); 11] = [
    (Status::Ok, "ok", Exit::Child),
    (Status::NonzeroExit, "nonzero_exit", Exit::Child),
    (Status::Signaled, "signaled", Exit::Signal),
    (Status::Timeout, "timeout", Exit::Fixed(124)),
    (Status::LimitExceeded, "limit_exceeded", Exit::Signal),
    (Status::Denied, "denied", Exit::Fixed(126)),
    (Status::NeedsApproval, "needs_approval", Exit::Fixed(75)),
    (Status::NotFound, "not_found", Exit::Fixed(127)),
    (Status::ExecFailed, "exec_failed", Exit::Fixed(126)),
    (Status::Cancelled, "cancelled", Exit::Signal),
    (Status::Error, "error", Exit::Fixed(125)),
];

impl Status {
    fn row(self) -> &'static (Status, &'static str, Exit) {
        // The discriminant is the index; `table_is_in_order` holds the two together.
        &TABLE[self as usize]
    }

    /// The word used in results and audit records.
    pub fn as_str(self) -> &'static str {
        self.row().1
    }

    /// What guardexec exits with. `exit_code` is the child's own (0 to 255); `signal` is what the child died
    /// of, or what cancelled guardexec. A child's status that is claimed and not there gives 125.
    pub fn exit_status(self, exit_code: Option<u8>, signal: Option<i32>) -> u8 {
        match self.row().2 {
            Exit::Child => exit_code.unwrap_or(125),
            Exit::Signal => signal.and_then(|n| u8::try_from(128 + n).ok()).unwrap_or(137),
            Exit::Fixed(status) => status,
        }
    }

    /// Every status, in the order of the contract.
    pub fn all() -> impl Iterator<Item = Status> {
        TABLE.iter().map(|row| row.0)
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Status, D::Error> {
        let text = String::deserialize(from)?;
        let known = Status::all().find(|status| status.as_str() == text);
        known.ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), &"a status"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_order() {
        for (index, (status, _, _)) in TABLE.iter().enumerate() {
            assert_eq!(*status as usize, index);
        }
    }

    #[test]
    fn exit_statuses_are_the_contracts() {
        let cases = [
            (Status::Ok, Some(0), None, 0),
            (Status::NonzeroExit, Some(3), None, 3),
            (Status::NonzeroExit, Some(255), None, 255),
            (Status::Signaled, None, Some(11), 139),
            (Status::Timeout, None, Some(15), 124),
            (Status::Timeout, Some(0), None, 124),
            (Status::LimitExceeded, None, Some(9), 137),
            (Status::LimitExceeded, None, Some(25), 153),
            (Status::LimitExceeded, Some(1), None, 137),
            (Status::Denied, None, None, 126),
            (Status::NeedsApproval, None, None, 75),
            (Status::NotFound, None, None, 127),
            (Status::ExecFailed, None, None, 126),
            (Status::Cancelled, None, Some(2), 130),
            (Status::Cancelled, None, Some(15), 143),
            (Status::Cancelled, None, None, 137),
            (Status::Error, Some(0), Some(9), 125),
        ];
        for (status, code, signal, want) in cases {
            assert_eq!(status.exit_status(code, signal), want, "{status:?} {code:?} {signal:?}");
        }
        assert!(Status::all().all(|s| cases.iter().any(|c| c.0 == s)));
    }

    #[test]
    fn a_child_that_left_no_code_is_not_taken_for_success() {
        assert_eq!(Status::Ok.exit_status(None, None), 125);
    }
}
