//! `read_file`.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

use nix::errno::Errno;

use super::beneath::{Beneath, Target};
use super::said::{Said, Step, cannot, shown};
use crate::program::descriptor_path;

/// The content of a regular file, if it is not too large.
pub(super) fn read(place: &Beneath<'_>) -> Step<Vec<u8>> {
    let most = place.call.max_size;
    let failed = |error: std::io::Error| cannot(place.call, errno(&error));
    let mut content = Vec::new();
    // One byte more than may be read tells a file that grows, or one that has no size, from one that fits.
    found(place)?.0.take(most.saturating_add(1)).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > most {
        return Said::failed(format!("{} is longer than max_size {most}", shown(place.call)));
    }
    Ok(content)
}

/// What reading would find.
pub(super) fn look(place: &Beneath<'_>) -> Step<String> {
    let (_, size) = found(place)?;
    Ok(format!("{} is a file of {size} bytes", shown(place.call)))
}

/// The file, opened, and its size, if that is not too large.
fn found(place: &Beneath<'_>) -> Step<(File, u64)> {
    let target = place.file()?;
    let most = place.call.max_size;
    let size = u64::try_from(target.stat.st_size).unwrap_or(0);
    if size > most {
        return Said::failed(format!(
            "{} is {size} bytes long, more than max_size {most}",
            shown(place.call)
        ));
    }
    let file = opened(&target).map_err(|error| cannot(place.call, errno(&error)))?;
    Ok((file, size))
}

/// The very file that was examined, opened for reading.
fn opened(target: &Target) -> std::io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let file = File::options().read(true).custom_flags(flags).open(descriptor_path(&target.file))?;
    let found = file.metadata()?;
    if (found.dev(), found.ino()) != (target.stat.st_dev, target.stat.st_ino) {
        return Err(Errno::ESTALE.into());
    }
    Ok(file)
}

pub(super) fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
