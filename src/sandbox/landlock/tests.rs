//! Each attack is tried by a forked child, confined and not: a test whose attack fails anyway proves nothing.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::super::raw::attack::{Ended, Scratch, Who, arg, c_path, everyone, in_child, syscall};
use super::*;

fn rule(path: impl Into<PathBuf>, access: Access) -> PathRule {
    PathRule { path: path.into(), access, optional: false }
}

fn view(rules: Vec<PathRule>) -> View {
    View { rules, refuse_tcp: true, ..View::default() }
}

fn confine(view: &View) {
    let prepared = Prepared::filled(view, abi()).unwrap();
    raw::no_new_privs().unwrap();
    apply(prepared.fd.as_raw_fd()).unwrap();
}

/// Runs `attack` (true: it worked) unconfined, where it must work, and confined, where it must not.
fn refused(view: &View, reset: impl Fn(), attack: impl Fn() -> bool + Copy) {
    for who in everyone() {
        reset();
        assert_eq!(in_child(*who, || i32::from(attack())), Ended::Exited(1), "the attack itself, {who:?}");
        reset();
        let confined = in_child(*who, || {
            confine(view);
            i32::from(attack())
        });
        assert_eq!(confined, Ended::Exited(0), "confined, {who:?}");
    }
}

/// A directory with `in` (readable, writable) and `out` (neither), open to all by their modes.
struct Ground {
    root: Scratch,
    inside: PathBuf,
    outside: PathBuf,
}

impl Ground {
    fn new(name: &str) -> Ground {
        let root = Scratch::new(name);
        let (inside, outside) = (root.0.join("in"), root.0.join("out"));
        let ground = Ground { root, inside, outside };
        ground.reset();
        ground
    }

    fn reset(&self) {
        for dir in [&self.inside, &self.outside] {
            let _ = fs::remove_dir_all(dir);
            fs::create_dir(dir).unwrap();
            fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
            fs::write(dir.join("file"), "content").unwrap();
            fs::set_permissions(dir.join("file"), fs::Permissions::from_mode(0o666)).unwrap();
        }
    }

    fn view(&self) -> View {
        view(vec![rule(&self.inside, Access::READ.and(Access::WRITE))])
    }

    fn refused(&self, attack: impl Fn() -> bool + Copy) {
        refused(&self.view(), || self.reset(), attack);
    }
}

#[test]
fn what_is_granted_works() {
    let g = Ground::new("granted");
    for who in everyone() {
        g.reset();
        let ended = in_child(*who, || {
            confine(&g.view());
            fs::write(g.inside.join("new"), "x").unwrap();
            fs::rename(g.inside.join("new"), g.inside.join("newer")).unwrap();
            fs::create_dir(g.inside.join("d")).unwrap();
            fs::rename(g.inside.join("newer"), g.inside.join("d/newer")).unwrap();
            symlink("x", g.inside.join("l")).unwrap();
            assert_eq!(fs::read(g.inside.join("d/newer")).unwrap(), b"x");
            assert_eq!(fs::read_dir(&g.inside).unwrap().count(), 3);
            fs::remove_dir_all(g.inside.join("d")).unwrap();
            0
        });
        assert_eq!(ended, Ended::Exited(0), "{who:?}");
    }
}

#[test]
fn reading_and_listing_outside_is_refused() {
    let g = Ground::new("read");
    g.refused(|| fs::read(g.outside.join("file")).is_ok());
    g.refused(|| fs::read_dir(&g.outside).is_ok());
    g.refused(|| fs::read(g.inside.join("../out/file")).is_ok());
}

#[test]
fn a_link_or_proc_self_root_is_no_way_round() {
    let g = Ground::new("links");
    g.refused(|| {
        symlink(g.outside.join("file"), g.inside.join("l")).unwrap();
        fs::read(g.inside.join("l")).is_ok()
    });
    let through_root = PathBuf::from(format!("/proc/self/root{}/file", g.outside.display()));
    g.refused(|| fs::read(&through_root).is_ok());
    let through_cwd = g.root.0.clone();
    g.refused(|| {
        std::env::set_current_dir(&through_cwd).is_ok() && fs::read("/proc/self/cwd/out/file").is_ok()
    });
}

#[test]
fn hard_links_and_renames_across_the_border_are_refused() {
    let g = Ground::new("refer");
    g.refused(|| fs::rename(g.outside.join("file"), g.inside.join("stolen")).is_ok());
    g.refused(|| fs::rename(g.inside.join("file"), g.outside.join("planted")).is_ok());
    // Only root, or the file's owner, may link at all where fs.protected_hardlinks is 1.
    let view = g.view();
    g.reset();
    let link = || i32::from(fs::hard_link(g.outside.join("file"), g.inside.join("stolen")).is_ok());
    assert_eq!(in_child(Who::Same, link), Ended::Exited(1));
    g.reset();
    let confined = in_child(Who::Same, || {
        confine(&view);
        link()
    });
    assert_eq!(confined, Ended::Exited(0));
}

#[test]
fn writing_making_and_removing_outside_is_refused() {
    let g = Ground::new("write");
    g.refused(|| fs::write(g.outside.join("file"), "x").is_ok());
    g.refused(|| fs::write(g.outside.join("new"), "x").is_ok());
    g.refused(|| fs::remove_file(g.outside.join("file")).is_ok());
    g.refused(|| fs::create_dir(g.outside.join("d")).is_ok());
    g.refused(|| symlink("x", g.outside.join("l")).is_ok());
    let fifo = c_path(&g.outside.join("fifo"));
    g.refused(|| {
        let at = libc::AT_FDCWD as u64;
        syscall(libc::SYS_mknodat, [at, arg(&fifo), u64::from(libc::S_IFIFO | 0o600), 0, 0, 0]).is_ok()
    });
}

#[test]
fn truncation_by_path_is_refused_from_abi_3() {
    if abi() < 3 {
        eprintln!("SKIPPED: this kernel's Landlock ABI {} does not mediate truncation", abi());
        return;
    }
    let g = Ground::new("truncate");
    let path = c_path(&g.outside.join("file"));
    g.refused(|| syscall(libc::SYS_truncate, [arg(&path), 0, 0, 0, 0, 0]).is_ok());
    g.refused(|| {
        let flags = (libc::O_RDONLY | libc::O_TRUNC) as u64;
        syscall(libc::SYS_openat, [libc::AT_FDCWD as u64, arg(&path), flags, 0, 0, 0]).is_ok()
    });
}

#[test]
fn a_read_only_rule_gives_no_write_and_a_file_rule_gives_no_neighbour() {
    let g = Ground::new("modes");
    fs::write(g.inside.join("other"), "x").unwrap();
    let reset = || {
        g.reset();
        fs::write(g.inside.join("other"), "x").unwrap();
        fs::set_permissions(g.inside.join("other"), fs::Permissions::from_mode(0o666)).unwrap();
    };
    reset();
    let only_read = view(vec![rule(&g.inside, Access::READ)]);
    refused(&only_read, reset, || fs::write(g.inside.join("file"), "x").is_ok());
    let only_file = view(vec![rule(g.inside.join("file"), Access::READ)]);
    refused(&only_file, reset, || fs::read(g.inside.join("other")).is_ok());
    let ended = in_child(Who::Same, || {
        confine(&only_file);
        i32::from(fs::read(g.inside.join("file")).is_ok())
    });
    assert_eq!(ended, Ended::Exited(1));
}

#[test]
fn devices_cannot_be_made_even_where_writing_is_granted() {
    let g = Ground::new("mknod");
    let path = c_path(&g.inside.join("null"));
    let mknod = || {
        let mode = u64::from(libc::S_IFCHR | 0o666);
        let device = libc::makedev(1, 3);
        i32::from(syscall(libc::SYS_mknodat, [libc::AT_FDCWD as u64, arg(&path), mode, device, 0, 0]).is_ok())
    };
    if in_child(Who::Same, mknod) != Ended::Exited(1) {
        eprintln!("SKIPPED: making device nodes needs root");
        return;
    }
    g.reset();
    let view = g.view();
    let confined = in_child(Who::Same, || {
        confine(&view);
        mknod()
    });
    assert_eq!(confined, Ended::Exited(0));
}

#[test]
fn executing_needs_an_execute_rule() {
    let g = Ground::new("execute");
    fs::copy("/bin/sh", g.root.0.join("tool")).unwrap();
    let tool = g.root.0.join("tool");
    let run = || std::process::Command::new(&tool).args(["-c", "exit 0"]).status().is_ok_and(|s| s.success());
    let files = vec![rule("/usr", Access::READ), rule("/dev/null", Access::READ.and(Access::DEVICE))];
    let mut readable = files.clone();
    readable.push(rule(&tool, Access::READ));
    refused(&view(readable), || (), run);
    let mut executable = files;
    executable.push(rule(&tool, Access::READ.and(Access::EXECUTE)));
    for file in super::super::loader::needed(&tool).unwrap() {
        executable.push(rule(file, Access::READ.and(Access::EXECUTE)));
    }
    executable.push(PathRule { path: "/lib".into(), access: Access::READ, optional: true });
    executable.push(PathRule { path: "/lib64".into(), access: Access::READ, optional: true });
    executable.push(PathRule { path: "/etc/ld.so.cache".into(), access: Access::READ, optional: true });
    let ended = in_child(Who::Same, || {
        confine(&view(executable));
        i32::from(run())
    });
    assert_eq!(ended, Ended::Exited(1), "granted");
}

#[test]
fn signals_and_abstract_sockets_stay_inside_from_abi_6() {
    if abi() < 6 {
        eprintln!("SKIPPED: this kernel's Landlock ABI {} has no scopes", abi());
        return;
    }
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
    let name = format!("guardexec-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    refused(&view(Vec::new()), || (), || UnixStream::connect_addr(&address).is_ok());
    // Signal 0 to the process that runs the tests: the right is asked for, nothing is sent.
    let parent = u64::from(std::process::id());
    let view = view(Vec::new());
    let kill = || i32::from(syscall(libc::SYS_kill, [parent, 0, 0, 0, 0, 0]).is_ok());
    assert_eq!(in_child(Who::Same, kill), Ended::Exited(1));
    let confined = in_child(Who::Same, || {
        confine(&view);
        kill()
    });
    assert_eq!(confined, Ended::Exited(0));
}

#[test]
fn tcp_is_refused_from_abi_4() {
    if abi() < 4 {
        eprintln!("SKIPPED: this kernel's Landlock ABI {} does not mediate TCP", abi());
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let view = view(Vec::new());
    refused(&view, || (), || std::net::TcpStream::connect(address).is_ok());
    refused(&view, || (), || std::net::TcpListener::bind("127.0.0.1:0").is_ok());
}

#[test]
fn older_abis_ask_for_nothing_they_do_not_know() {
    for old in 1..=abi() {
        let g = Ground::new(&format!("abi{old}"));
        let prepared = Prepared::new(&g.view(), old).unwrap();
        let named = prepared.rules.iter().chain(&prepared.late).fold(0, |all, rule| all | rule.dir_rights);
        assert_eq!(named & !handled_rights(old), 0);
    }
    assert_eq!(handled_rights(1), 0x1fff);
    assert_eq!(handled_rights(7), 0xffff);
}

#[test]
fn a_missing_path_is_an_error_unless_optional() {
    let missing = PathBuf::from("/nonexistent/guardexec");
    let error = Prepared::filled(&view(vec![rule(&missing, Access::READ)]), abi()).unwrap_err();
    assert_eq!(error, Error::Path(missing.clone(), libc::ENOENT));
    let optional = PathRule { path: missing.clone(), access: Access::READ, optional: true };
    assert_eq!(Prepared::new(&view(vec![optional]), abi()).unwrap().fill(), Ok(vec![missing]));
}

#[test]
fn nothing_is_granted_before_the_rules_are_added() {
    let g = Ground::new("unfilled");
    let ended = in_child(Who::Same, || {
        let prepared = Prepared::new(&g.view(), abi()).unwrap();
        raw::no_new_privs().unwrap();
        apply(prepared.fd.as_raw_fd()).unwrap();
        i32::from(fs::read(g.inside.join("file")).is_ok())
    });
    assert_eq!(ended, Ended::Exited(0));
}

#[test]
fn late_rules_open_what_was_mounted_later() {
    let g = Ground::new("late");
    let mut view = view(Vec::new());
    view.late.push(rule(&g.inside, Access::READ));
    let read = || i32::from(fs::read(g.inside.join("file")).is_ok());
    let without = in_child(Who::Same, || {
        confine(&view);
        read()
    });
    assert_eq!(without, Ended::Exited(0));
    let with = in_child(Who::Same, || {
        let prepared = Prepared::filled(&view, abi()).unwrap();
        add_late(prepared.fd.as_raw_fd(), &prepared.late).unwrap();
        raw::no_new_privs().unwrap();
        apply(prepared.fd.as_raw_fd()).unwrap();
        read()
    });
    assert_eq!(with, Ended::Exited(1));
}
