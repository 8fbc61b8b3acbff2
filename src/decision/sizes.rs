//! What execve(2) takes: single strings and all of them together. Said before anything is started, by name.

use std::os::unix::ffi::OsStrExt;

use nix::sys::resource::{Resource, getrlimit};

use super::{Denial, Judged, MAX_ARG_STRLEN, Stage};
use crate::decision::shown::repr;

/// The most that arguments and environment may take together whatever the stack limit says: three quarters of
/// the kernel's 8 MiB (execve(2), `bprm_stack_limits`).
const MOST: u64 = 6 << 20;

/// What the kernel always leaves for them (`ARG_MAX`).
const LEAST: u64 = 131_072;

/// Kept free for the program's own path and an interpreter's.
const MARGIN: u64 = 12 << 10;

/// Refuses an argument that execve(2) would refuse.
pub(super) fn check_words(words: &[std::ffi::OsString]) -> Judged<()> {
    for (index, word) in words.iter().enumerate() {
        if word.as_bytes().len() >= MAX_ARG_STRLEN {
            return too_long(format!(
                "argument {index} is {} bytes long; the kernel takes at most {}",
                word.as_bytes().len(),
                MAX_ARG_STRLEN - 1
            ));
        }
    }
    Ok(())
}

/// Refuses variables that execve(2) would refuse, and all strings together where they are too much.
pub(super) fn check_all(words: &[std::ffi::OsString], variables: &[(Vec<u8>, Vec<u8>)]) -> Judged<()> {
    let entry = |(name, value): &(Vec<u8>, Vec<u8>)| name.len() + 1 + value.len();
    for variable in variables {
        if entry(variable) >= MAX_ARG_STRLEN {
            return too_long(format!(
                "variable {} is {} bytes long with its name; the kernel takes at most {}",
                repr(&variable.0),
                entry(variable),
                MAX_ARG_STRLEN - 1
            ));
        }
    }
    let bytes: usize = words.iter().map(|w| w.as_bytes().len() + 1).sum::<usize>()
        + variables.iter().map(|v| entry(v) + 1).sum::<usize>()
        + (words.len() + variables.len()) * size_of::<usize>();
    let most = total(getrlimit(Resource::RLIMIT_STACK).map_or(u64::MAX, |(soft, _)| soft));
    if bytes as u64 > most {
        return too_long(format!(
            "arguments and environment take {bytes} bytes together; the kernel takes at most {most}"
        ));
    }
    Ok(())
}

/// What fits under a stack limit in bytes.
fn total(stack: u64) -> u64 {
    (stack / 4).clamp(LEAST, MOST) - MARGIN
}

fn too_long<T>(message: String) -> Judged<T> {
    Denial::new(Stage::Arguments, "too_long", message)
        .hint("put long content into a file, or send it with --stdin")
        .deny()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[test]
    fn t2_75_one_argument_has_the_kernels_limit() {
        let words = |n: usize| vec![OsString::from("true"), OsString::from("a".repeat(n))];
        assert!(check_words(&words(131_071)).is_ok());
        let stopped = check_words(&words(131_072)).expect_err("too long");
        let super::super::Decision::Deny(denial) = *stopped else { panic!("denied") };
        assert_eq!(denial.code, "too_long");
        assert!(denial.message.starts_with("argument 1 is 131072 bytes long"), "{}", denial.message);
    }

    #[test]
    fn t2_76_a_variable_counts_with_its_name_and_its_value_is_not_told() {
        let check = |n: usize| check_all(&[], &[(b"BIG".to_vec(), vec![b'a'; n])]);
        assert!(check(131_071 - 4).is_ok());
        let message = format!("{:?}", check(131_071 - 3).expect_err("too long"));
        assert!(message.contains("'BIG'") && !message.contains("aaaa"), "{message}");
    }

    #[test]
    fn all_together_have_a_limit_too() {
        let words = vec![OsString::from("a".repeat(100_000)); 80];
        assert!(check_words(&words).is_ok());
        assert!(check_all(&words, &[]).is_err());
        assert_eq!(total(8 << 20), (2 << 20) - MARGIN);
        assert_eq!(total(u64::MAX), MOST - MARGIN);
        assert_eq!(total(0), LEAST - MARGIN);
    }
}
