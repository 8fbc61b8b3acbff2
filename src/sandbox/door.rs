//! The door to listed Unix sockets (`[network] unix`): a run's connect waits for the guard, which makes it or refuses it.
//!
//! The address lies in the run's memory, where another thread can change it after it was judged; so the run's own call is
//! never let through. The guard copies the address once, takes the socket itself out of the run (pidfd_getfd(2)), sees that
//! it is a Unix one, and compares the path with the list, byte by byte. Then a process made for it becomes what the
//! run is (its user, no groups, no capabilities), sees that this user can reach the path and that it still is the socket
//! that was found when the run began, and connects to *that*, by descriptor: links and renames lead nowhere else. It may
//! wait, for a listener whose queue is full, as the run's own call would, and hold up nobody but its caller.
//!
//! Beside the Internet the same process makes every other connect and bind, with the copied address, on the socket that
//! was taken: the filter cannot tell families apart there.
//!
//! A Landlock right for this (after ABI 7) would be simpler; a mount namespace hides paths, not abstract names, and not what
//! is made in a visible directory later.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::identity;
use super::raw::notify::{self, ADDRESS, Notice};
use super::raw::{self, Errno};
use crate::sys::{canonical, fd, process};

mod porter;
pub use porter::{Porter, Refused};

/// What C libraries ask for users and hosts before they look for themselves: no violation of the program's.
const NAME_SERVICES: [&[u8]; 5] =
    [b"/var/run/nscd/", b"/run/nscd/", b"/run/systemd/", b"/var/run/avahi-daemon/", b"/run/avahi-daemon/"];

/// The bytes of an address before the path.
const FAMILY: usize = std::mem::offset_of!(libc::sockaddr_un, sun_path);
/// The longest path in one.
const LONGEST: usize = size_of::<libc::sockaddr_un>() - FAMILY;

/// A socket that may be connected to.
#[derive(Debug)]
struct Listed {
    /// How a run may name it: as the policy does, and without links. Abstract names begin with a NUL byte.
    names: Vec<Vec<u8>>,
    way: Way,
}

/// How one gets there.
#[derive(Debug)]
enum Way {
    /// Through the descriptor by which it was found.
    Found {
        /// Opened without any right to its content.
        file: OwnedFd,
        /// Its path without links.
        path: CString,
        /// What lies there: device and inode.
        identity: (u64, u64),
        /// The address of the descriptor in `/proc`.
        address: Vec<u8>,
    },
    /// By this address.
    Plain(Vec<u8>),
    /// Not at all.
    Closed(Errno),
}

/// Whoever may be connected to, as whom, and where the notices will come from.
#[derive(Debug)]
pub struct Door {
    listed: Vec<Listed>,
    /// What a run becomes; `None` where it stays what guardexec is.
    identity: Option<identity::Prepared>,
    /// IPv4 and IPv6 are open, and pass here too.
    internet: bool,
    /// Where the filter's descriptor arrives.
    channel: OwnedFd,
}

fn unix_address(path: &[u8]) -> Vec<u8> {
    [&(libc::AF_UNIX as libc::sa_family_t).to_ne_bytes(), path].concat()
}

impl Listed {
    /// Finds the socket. `closed`: what the run may not reach whatever it names. The sentence says why nobody will get there.
    fn find(path: &Path, closed: impl Fn(&Path, &Path) -> Option<&'static str>) -> (Listed, Option<String>) {
        let shown = || crate::request::quote::display(path.as_os_str().as_bytes());
        let mut names = vec![path.as_os_str().as_bytes().to_owned()];
        let found = canonical(path).and_then(|real| {
            names.push(real.as_os_str().as_bytes().to_owned());
            Way::find(&real).map(|way| (closed(path, &real), way))
        });
        names.retain(|name| name.len() <= LONGEST);
        let (way, why) = match found {
            Ok((None, way)) => (way, names.is_empty().then(|| "its path is too long for an address".into())),
            Ok((Some(why), _)) => (Way::Closed(libc::EACCES), Some(why.to_owned())),
            // The kernel's own answer for what is no socket.
            Err(error) => {
                (Way::Closed(error.raw_os_error().unwrap_or(libc::ECONNREFUSED)), Some(error.to_string()))
            }
        };
        let said = why.map(|why: String| format!("[network] unix: no run can connect to {}: {why}", shown()));
        (Listed { names, way }, said)
    }
}

impl Way {
    fn find(real: &Path) -> io::Result<Way> {
        let path = CString::new(real.as_os_str().as_bytes())?;
        let file = fd::above_stdio(fd::open(&path, libc::O_PATH | libc::O_NOFOLLOW)?)?;
        if fd::kind(file.as_fd())? != fd::FileKind::Socket {
            return Err(io::Error::other("it is no socket"));
        }
        let link = crate::program::descriptor_path(&file);
        // What an earlier run can write may have changed since its links were resolved.
        if std::fs::read_link(&link)? != real {
            return Err(io::Error::other("it was moved meanwhile"));
        }
        let link = CString::new(link.into_os_string().into_encoded_bytes())?;
        let identity = raw::identity_of(&link).map_err(io::Error::from_raw_os_error)?;
        Ok(Way::Found { path, identity, address: unix_address(link.to_bytes()), file })
    }
}

/// What the guard does for a run: made while nothing of it can be changed any more.
struct Visit<'d> {
    socket: OwnedFd,
    to: To<'d>,
}

enum To<'d> {
    Socket(&'d Way),
    Internet { address: [u8; ADDRESS], length: usize, bind: bool },
}

/// Why a call is not made.
struct Turned {
    errno: Errno,
    /// The path, where it was not listed.
    unlisted: Option<Vec<u8>>,
}

impl From<Errno> for Turned {
    fn from(errno: Errno) -> Turned {
        Turned { errno, unlisted: None }
    }
}

impl Door {
    /// Finds the sockets, and gives the child's end of the channel (see [`super::seccomp::apply_listening`]) and what there
    /// is to say about them.
    ///
    /// # Errors
    /// A channel cannot be had.
    pub fn new(
        paths: &[PathBuf],
        closed: impl Fn(&Path, &Path) -> Option<&'static str>,
        identity: Option<identity::Prepared>,
        internet: bool,
    ) -> io::Result<(Door, OwnedFd, Vec<String>)> {
        let (listed, said): (Vec<_>, Vec<_>) = paths.iter().map(|path| Listed::find(path, &closed)).unzip();
        let (near, far) = fd::message_pair()?;
        let (channel, far) = (fd::above_stdio(near)?, fd::above_stdio(far)?);
        Ok((Door { listed, identity, internet, channel }, far, said.into_iter().flatten().collect()))
    }

    /// A door to one socket by this name, to try whether it holds.
    pub(super) fn to_name(name: &[u8], identity: Option<identity::Prepared>) -> io::Result<(Door, OwnedFd)> {
        let (mut door, far, _) = Door::new(&[], |_, _| None, identity, false)?;
        let way = Way::Plain(unix_address(name));
        door.listed.push(Listed { names: vec![name.to_owned()], way });
        Ok((door, far))
    }

    /// Looks at what a run wants. Whoever receives notices calls this before the next one.
    fn look(&self, listener: BorrowedFd<'_>, notice: &Notice) -> Result<Visit<'_>, Turned> {
        let Notice { task, call, args, .. } = *notice;
        let bind = call == libc::SYS_bind;
        if task <= 0 || !(bind || call == libc::SYS_connect) {
            return Err(libc::EACCES.into());
        }
        let socket = notify::take_descriptor(task, args[0] as i32).map_err(unseen)?;
        let (family, kind) = notify::socket_kind(socket.as_fd())?;
        let mut address = [0_u8; ADDRESS];
        let length = usize::try_from(args[2] as i32).map_err(|_| libc::EINVAL)?;
        let text = address.get_mut(..length).ok_or(libc::EINVAL)?;
        notify::read_memory(task, args[1], text).map_err(unseen)?;
        if !notify::still_waits(listener, notice.id) {
            return Err(libc::EINTR.into());
        }
        let stream = matches!(kind, libc::SOCK_STREAM | libc::SOCK_SEQPACKET);
        let to = match family {
            libc::AF_UNIX if stream && !bind => To::Socket(self.judge(text)?),
            libc::AF_INET | libc::AF_INET6 if self.internet => To::Internet { address, length, bind },
            _ => return Err(libc::EACCES.into()),
        };
        Ok(Visit { socket, to })
    }

    /// The way to a listed socket; the kernel's own errors for what is no name of any.
    fn judge(&self, address: &[u8]) -> Result<&Way, Turned> {
        let family = (libc::AF_UNIX as libc::sa_family_t).to_ne_bytes();
        let name = address.strip_prefix(&family[..]).filter(|name| (1..=LONGEST).contains(&name.len()));
        let name = name.ok_or(libc::EINVAL)?;
        // An abstract name is all of it; a path ends at its first NUL.
        let path = if name[0] == 0 { name } else { name.split(|byte| *byte == 0).next().unwrap_or(name) };
        match self.listed.iter().find(|listed| listed.names.iter().any(|known| known == path)) {
            Some(Listed { way: Way::Closed(errno), .. }) => Err((*errno).into()),
            Some(listed) => Ok(&listed.way),
            None => {
                let asked = !NAME_SERVICES.iter().any(|service| path.starts_with(service));
                Err(Turned { errno: libc::EACCES, unlisted: asked.then(|| path.to_owned()) })
            }
        }
    }
}

/// What may not be seen is not judged, so it is refused; the other errors are the call's own.
fn unseen(errno: Errno) -> Errno {
    if matches!(errno, libc::EBADF | libc::EFAULT) { errno } else { libc::EACCES }
}

impl Visit<'_> {
    /// In a process that was just forked: becomes what the run is and makes the call. Raw calls only, because there may be
    /// threads; the copy of the guard's memory is out of everybody's reach (it is not dumpable).
    ///
    /// # Errors
    /// What the run is told.
    fn make(&self, identity: Option<&identity::Prepared>, guard: process::Pid) -> Result<(), Errno> {
        let socket = self.socket.as_raw_fd();
        let found = match self.to {
            To::Socket(Way::Found { file, .. }) => file.as_raw_fd(),
            _ => socket,
        };
        fd::close_all_but(&mut [socket, found]);
        process::set_dumpable(false).map_err(|_| libc::EACCES)?;
        if let Some(identity) = identity {
            identity::apply(identity).map_err(|_| libc::EACCES)?;
        }
        // After the identity, which changes the first (sysctl fs.suid_dumpable) and clears the second.
        process::set_dumpable(false).map_err(|_| libc::EACCES)?;
        process::set_parent_death_signal(libc::SIGKILL).map_err(|_| libc::EACCES)?;
        if process::parent() != guard {
            return Err(libc::EACCES);
        }
        match &self.to {
            To::Socket(Way::Found { path, identity, address, .. }) => {
                if raw::identity_of(path)? != *identity {
                    return Err(libc::ECONNREFUSED);
                }
                notify::connect(socket, address)
            }
            To::Socket(Way::Plain(address)) => notify::connect(socket, address),
            To::Socket(Way::Closed(errno)) => Err(*errno),
            To::Internet { address, length, bind: false } => notify::connect(socket, &address[..*length]),
            To::Internet { address, length, bind: true } => notify::bind(socket, &address[..*length]),
        }
    }
}
