//! `delete_file`.

use std::os::fd::AsFd as _;

use nix::unistd::{UnlinkatFlags, unlinkat};

use super::beneath::Beneath;
use super::said::{Said, Step, cannot, shown};
use super::write;

/// What deleting would find.
pub(super) fn look(place: &Beneath<'_>) -> Step<String> {
    place.file()?;
    write::may_change(place, place.dir.as_fd())?;
    Ok(format!("{} is there, and would be deleted", shown(place.call)))
}

/// Takes the name of a regular file away. Between the look and the call another file can come under the name: then that
/// one's name goes, in the same directory, and what a link leads to is never touched.
pub(super) fn delete(place: &Beneath<'_>) -> Step<Vec<u8>> {
    place.file()?;
    let Some(name) = place.name else { return Said::failed("the root is no file".to_owned()) };
    unlinkat(&place.dir, name, UnlinkatFlags::NoRemoveDir).map_err(|errno| cannot(place.call, errno))?;
    write::sync_directory(&place.dir);
    Ok(format!("deleted {}\n", shown(place.call)).into_bytes())
}
