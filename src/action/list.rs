//! `list_dir`.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstatat};

use super::beneath::{Beneath, Target};
use super::said::{Said, Step, cannot, shown};

/// The names in a directory, sorted by their bytes, one a line. A directory ends in `/`; what no action touches says after
/// a tab what it is. Within names a backslash is doubled, and control characters and bytes that are not UTF-8 are `\xHH`,
/// so that one line is one name.
pub(super) fn list(place: &Beneath<'_>) -> Step<Vec<u8>> {
    let target = directory(place)?;
    let failed = |errno: Errno| cannot(place.call, errno);
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let opened = openat(&target.file, OsStr::new("."), flags, Mode::empty()).map_err(failed)?;
    let mut dir = Dir::from_fd(opened).map_err(failed)?;
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut bytes = 0;
    for entry in dir.iter() {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let kind = entry.file_type().or_else(|| kind_of(&target.file, name));
        let line = line(name, kind);
        bytes += line.len() as u64;
        if bytes > place.call.max_size {
            let most = place.call.max_size;
            return Said::failed(format!(
                "the listing of {} is longer than max_size {most}",
                shown(place.call)
            ));
        }
        lines.push(line);
    }
    lines.sort();
    Ok(lines.concat())
}

/// What listing would find.
pub(super) fn look(place: &Beneath<'_>) -> Step<String> {
    directory(place).map(|_| format!("{} is a directory", shown(place.call)))
}

fn directory(place: &Beneath<'_>) -> Step<Target> {
    let target = match place.target()? {
        None => return Said::failed(format!("{} does not exist", shown(place.call))),
        Some(target) => target,
    };
    match target.kind() {
        SFlag::S_IFDIR => Ok(target),
        SFlag::S_IFLNK => Said::refused(
            format!("{} is a symbolic link, which no action follows", shown(place.call)),
            "name the directory itself, beneath the tool's directory",
        ),
        _ => Said::failed(format!("{} is not a directory", shown(place.call))),
    }
}

/// Where the file system does not say with the name.
fn kind_of(dir: &std::os::fd::OwnedFd, name: &[u8]) -> Option<Type> {
    let stat = fstatat(dir, OsStr::from_bytes(name), AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
    match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFREG => Some(Type::File),
        SFlag::S_IFDIR => Some(Type::Directory),
        SFlag::S_IFLNK => Some(Type::Symlink),
        SFlag::S_IFIFO => Some(Type::Fifo),
        SFlag::S_IFSOCK => Some(Type::Socket),
        _ => Some(Type::CharacterDevice),
    }
}

fn line(name: &[u8], kind: Option<Type>) -> Vec<u8> {
    let mut out = String::with_capacity(name.len() + 8);
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c if c.is_control() => {
                    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                        let _ = write!(out, "\\x{byte:02x}");
                    }
                }
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push_str(match kind {
        Some(Type::File) => "",
        Some(Type::Directory) => "/",
        Some(Type::Symlink) => "\tsymbolic link",
        Some(Type::Fifo) => "\tfifo",
        Some(Type::Socket) => "\tsocket",
        Some(Type::CharacterDevice | Type::BlockDevice) => "\tdevice",
        None => "\tunknown",
    });
    out.push('\n');
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_is_one_name() {
        let shown = |name: &[u8], kind| String::from_utf8(line(name, Some(kind))).unwrap();
        assert_eq!(shown(b"a b", Type::File), "a b\n");
        assert_eq!(shown(b"d", Type::Directory), "d/\n");
        assert_eq!(shown(b"a\nb\t\x1b", Type::File), "a\\x0ab\\x09\\x1b\n");
        assert_eq!(shown(b"a\\x0a", Type::File), "a\\\\x0a\n");
        assert_eq!(shown("é\u{85}".as_bytes(), Type::Symlink), "é\\xc2\\x85\tsymbolic link\n");
        assert_eq!(shown(b"\xff", Type::Fifo), "\\xff\tfifo\n");
    }
}
