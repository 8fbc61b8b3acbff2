//! Real files: trust, `extends`, and what joining them comes to.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{LoadContext, load};
use crate::policy::error::{ErrorKind, PolicyError};
use crate::policy::model::{Bound, Layer, NetworkMode, Place, Policy, Profile, Verdict};

/// A directory that only this user can write, gone afterwards.
pub(in crate::policy) struct Dir(pub PathBuf);

impl Dir {
    pub fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("guardexec-policy-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = fs::canonicalize(std::env::temp_dir()).unwrap().join(name);
        fs::create_dir(&path).unwrap();
        mode(&path, 0o700);
        Dir(path)
    }

    /// Writes a file, `version = 1` first.
    pub fn put(&self, name: &str, text: &str) -> PathBuf {
        self.raw(name, format!("version = 1\n{text}\n").as_bytes())
    }

    pub fn raw(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        for dir in path.parent().unwrap().ancestors().take_while(|d| d.starts_with(&self.0)) {
            mode(dir, 0o700);
        }
        fs::write(&path, bytes).unwrap();
        mode(&path, 0o600);
        path
    }

    /// A message with this directory's name taken out.
    pub fn plain(&self, error: &PolicyError) -> String {
        error.one_line().replace(&format!("{}", self.0.display()), "D")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(in crate::policy) fn context() -> LoadContext {
    LoadContext { home: PathBuf::from("/home/u"), uid: nix::unistd::geteuid().as_raw() }
}

fn fails(dir: &Dir, path: &Path) -> String {
    dir.plain(&load(path, &context()).unwrap_err())
}

fn good(path: &Path) -> Policy {
    load(path, &context()).unwrap()
}

/// A user who is neither root nor the owner of what this test makes, and the path given to them if only root
/// can do that.
fn foreign(path: &Path) -> LoadContext {
    let mut context = context();
    if context.uid == 0 {
        std::os::unix::fs::lchown(path, Some(54321), None).unwrap();
    } else {
        context.uid += 1;
    }
    context
}

#[test]
fn a_policy_and_its_hash() {
    let d = Dir::new();
    let path = d.raw("p.toml", b"version = 1\nallow = [\"ls\"]\n");
    let p = good(&path);
    assert_eq!(p.path.as_ref(), path);
    assert_eq!(p.sources.len(), 1);
    assert_eq!(p.sources[0].sha256, "e88269e712aa6b0fc858d5e1ee1f9d3d7e7bd5c105c0f4ee7d46cd5df3026cdc");
    assert_eq!(p.rules[0].at.to_string(), format!("{}:2", path.display()));
    let spot = p.spot(&p.rules[0].at).unwrap();
    let error = spot.error(ErrorKind::Invalid, "so");
    let want =
        format!("error: so\n --> {}:2:1\n  |\n2 | allow = [\"ls\"]\n  | ^^^^^^^^^^^^^^", path.display());
    assert_eq!(error.to_string(), want);
    assert_eq!(p.spot(&Place { line: 0, ..spot.place.clone() }), None);
    assert_eq!(p.spot(&Place { line: 9, ..spot.place.clone() }), None);
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let d = Dir::new();
    let missing = load(&d.0.join("no.toml"), &context()).unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    assert_eq!(
        d.plain(&missing),
        "D/no.toml: cannot open the policy: No such file or directory (os error 2)"
    );
    let fifo = d.0.join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
    assert_eq!(fails(&d, &fifo), "D/fifo: a policy has to be a regular file, this is a pipe");
    assert_eq!(fails(&d, &d.0), "D: a policy has to be a regular file, this is a directory");
    let device = load(Path::new("/dev/null"), &context()).unwrap_err();
    assert_eq!(device.one_line(), "/dev/null: a policy has to be a regular file, this is a device");
    symlink("nowhere", d.0.join("dangling")).unwrap();
    let dangling = load(&d.0.join("dangling"), &context()).unwrap_err();
    assert_eq!(dangling.kind, ErrorKind::Unreadable);
    assert_eq!(d.plain(&dangling), "D/dangling: cannot open the policy: a link leads to nothing");
    let below = load(&d.put("f", "").join("p.toml"), &context()).unwrap_err();
    assert_eq!(below.kind, ErrorKind::Unreadable);
    let nul = Path::new(std::ffi::OsStr::from_bytes(b"a\0b"));
    assert_eq!(load(nul, &context()).unwrap_err().kind, ErrorKind::Unreadable);
}

#[test]
fn size_and_encoding() {
    let d = Dir::new();
    let mut text = b"version = 1\n#".to_vec();
    text.resize(1 << 20, b'x');
    good(&d.raw("max.toml", &text));
    text.push(b'x');
    assert_eq!(fails(&d, &d.raw("big.toml", &text)), "D/big.toml: a policy file cannot be larger than 1 MiB");
    let bad = d.raw("bytes.toml", b"version = 1\n# \xff\n");
    assert_eq!(fails(&d, &bad), "D/bytes.toml:2: not UTF-8 text");
}

#[test]
fn files_that_others_can_change_are_refused() {
    let d = Dir::new();
    let path = d.put("p.toml", "");
    for bits in [0o620, 0o602, 0o666] {
        mode(&path, bits);
        let want = format!(
            "D/p.toml: `D/p.toml` can be changed by its group or by others (mode {bits:04o}); chmod go-w D/p.toml"
        );
        assert_eq!(fails(&d, &path), want);
    }
    mode(&path, 0o644);
    good(&path);
    let context = foreign(&path);
    let error = load(&path, &context).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Untrusted);
    let message = d.plain(&error);
    assert!(
        message.contains("who is neither root nor the one who runs guardexec; chown root D/p.toml"),
        "{message}"
    );
}

#[test]
fn directories_that_others_can_change_are_refused() {
    let d = Dir::new();
    let path = d.put("sub/p.toml", "");
    let sub = d.0.join("sub");
    mode(&sub, 0o770);
    let want = "D/sub/p.toml: `D/sub` can be changed by its group or by others (mode 0770); chmod go-w D/sub";
    assert_eq!(fails(&d, &path), want);
    mode(&sub, 0o1777);
    good(&path);
    mode(&sub, 0o755);
    symlink("sub", d.0.join("link")).unwrap();
    assert_eq!(good(&d.0.join("link/p.toml")).path.as_ref(), path);
    let open = d.0.join("open");
    fs::create_dir(&open).unwrap();
    symlink("../sub/p.toml", open.join("p.toml")).unwrap();
    mode(&open, 0o777);
    let want =
        "D/open/p.toml: `D/open` can be changed by its group or by others (mode 0777); chmod go-w D/open";
    assert_eq!(fails(&d, &open.join("p.toml")), want);
}

#[test]
fn a_link_of_someone_else_in_a_sticky_directory_is_refused() {
    let d = Dir::new();
    d.put("p.toml", "");
    let sticky = d.0.join("sticky");
    fs::create_dir(&sticky).unwrap();
    mode(&sticky, 0o1777);
    let link = sticky.join("p.toml");
    symlink("../p.toml", &link).unwrap();
    good(&link);
    let error = load(&link, &foreign(&link)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Untrusted);
}

#[test]
fn extends_joins_parents_first() {
    let d = Dir::new();
    d.put(
        "base/base.toml",
        "allow = [\"date\", \"echo\"]\ndeny = [\"rm\"]\n[limits]\nwall_time = \"1s\"\npids = 5\n[env]\npass = [\"A\"]\n\
         set = { X = \"1\", Y = \"1\" }\n[sandbox]\nprofile = \"host\"\nrequire = [\"network\"]\n[filesystem]\n\
         read = [\"r\"]\nmap = { \"/a\" = \"a\", \"/b\" = \"b\" }\n[network]\nmode = \"host\"\nloopback = true\n\
         unix = [\"s\"]\n[audit]\nfile = \"a.jsonl\"\nrotate = \"1M\"\n[[rule]]\nid = \"x\"\nprogram = \"ls\"\ndecision = \"allow\"",
    );
    let path = d.put(
        "p.toml",
        "extends = [\"base/base.toml\"]\nallow = [\"uname\", \"date\", \"rm\"]\n[limits]\nwall_time = \"2s\"\n[env]\n\
         pass = [\"B\"]\nset = { Y = \"2\" }\n[sandbox]\nprofile = \"strict\"\nrequire = [\"filesystem\", \"network\"]\n\
         [filesystem]\nread = [\"r\"]\nmap = { \"/b\" = \"c\" }\n[network]\nloopback = false\nunix = [\"t\"]\n[audit]\n\
         rotate = \"2M\"",
    );
    let p = good(&path);
    let ids: Vec<&str> = p.rules.iter().map(|r| r.id.as_str()).collect();
    assert_eq!(ids, ["allow:date", "allow:echo", "deny:rm", "x", "allow:uname", "allow:rm"]);
    assert_eq!(p.rules[2].decision, Verdict::Deny);
    assert_eq!(p.limits.wall_time, Some(Bound::At(Duration::from_secs(2))));
    assert_eq!(p.limits.pids, Some(Bound::At(5)));
    assert_eq!(p.env.pass.unwrap(), ["A", "B"]);
    assert_eq!((p.env.set["X"].as_str(), p.env.set["Y"].as_str()), ("1", "2"));
    assert_eq!(p.sandbox.profile, Some(Profile::Strict));
    assert_eq!(p.sandbox.require.unwrap(), [Layer::Network, Layer::Filesystem]);
    assert_eq!(p.filesystem.read.unwrap(), [d.0.join("base/r"), d.0.join("r")]);
    let map = [("/a", "base/a"), ("/b", "c")].map(|(a, b)| (PathBuf::from(a), d.0.join(b)));
    assert_eq!(p.filesystem.map, map);
    assert_eq!((p.network.mode, p.network.loopback), (Some(NetworkMode::Host), false));
    assert_eq!(p.network.unix, [d.0.join("base/s"), d.0.join("t")]);
    let audit = p.audit.unwrap();
    assert_eq!((audit.file, audit.rotate), (d.0.join("base/a.jsonl"), Some(2 << 20)));
    assert_eq!(
        p.sources.iter().map(|s| s.path.as_ref()).collect::<Vec<_>>(),
        [&d.0.join("base/base.toml"), &path]
    );
}

#[test]
fn a_diamond_is_read_once_and_a_circle_is_refused() {
    let d = Dir::new();
    d.put("top.toml", "[[rule]]\nid = \"x\"\nprogram = \"ls\"\ndecision = \"allow\"");
    d.put("l.toml", "extends = [\"top.toml\"]");
    d.put("r.toml", "extends = [\"top.toml\"]");
    let p = good(&d.put("p.toml", "extends = [\"l.toml\", \"r.toml\", \"./l.toml\"]"));
    assert_eq!((p.rules.len(), p.sources.len()), (1, 4));
    let a = d.put("a.toml", "extends = [\"b.toml\"]");
    d.put("b.toml", "extends = [\"a.toml\"]");
    assert_eq!(fails(&d, &a), "D/b.toml:2:12: `extends` goes in a circle: D/a.toml -> D/b.toml -> D/a.toml");
    let own = d.put("own.toml", "extends = [\"own.toml\"]");
    assert_eq!(fails(&d, &own), "D/own.toml:2:12: `extends` goes in a circle: D/own.toml -> D/own.toml");
}

#[test]
fn extends_has_bounds_and_no_missing_or_untrusted_parents() {
    let d = Dir::new();
    for i in 0..17 {
        d.put(&format!("{i}.toml"), &format!("extends = [\"{}.toml\"]", i + 1));
    }
    d.put("17.toml", "");
    assert_eq!(fails(&d, &d.0.join("0.toml")), "D/16.toml:2:12: `extends` goes more than 16 files deep");
    good(&d.0.join("1.toml"));
    let orphan = load(&d.put("orphan.toml", "extends = [\"no.toml\"]"), &context()).unwrap_err();
    assert_eq!(orphan.kind, ErrorKind::Unreadable);
    assert_eq!(
        d.plain(&orphan),
        "D/orphan.toml:2:12: in `extends`, D/no.toml: cannot open the policy: No such file or directory (os error 2)"
    );
    mode(&d.0.join("17.toml"), 0o666);
    assert_eq!(
        fails(&d, &d.0.join("16.toml")),
        "D/16.toml:2:12: in `extends`, D/17.toml: `D/17.toml` can be changed by its group or by others (mode 0666); \
         chmod go-w D/17.toml"
    );
}

#[test]
fn what_is_unique_is_unique_over_all_files() {
    let d = Dir::new();
    let rule = "[[rule]]\nid = \"x\"\nprogram = \"ls\"\ndecision = \"allow\"";
    d.put("base.toml", rule);
    let again = d.put("p.toml", &format!("extends = [\"base.toml\"]\n{rule}"));
    assert_eq!(
        fails(&d, &again),
        "D/p.toml:4:6: the rule id `x` is used twice, first at D/base.toml:2; give this rule another id"
    );
    let short = d.put("s.toml", "extends = [\"base.toml\"]\nallow = [\"ls\"]");
    let hint =
        "keep one of the two: `allow` accepts any arguments, so the limits of the [[rule]] would never count";
    assert_eq!(
        fails(&d, &short),
        format!("D/s.toml:3:10: `ls` in `allow` also has a [[rule]], at D/base.toml:2; {hint}")
    );
    let tool = "[tools.t]\ndescription = \"d\"\nargv = [\"ls\"]\ndecision = \"ask\"";
    d.put("t.toml", tool);
    let tools = d.put("u.toml", &format!("extends = [\"t.toml\"]\n{tool}"));
    assert_eq!(fails(&d, &tools), "D/u.toml:3:8: the tool `t` is defined twice, first at D/t.toml:2");
    let collide = "allow = [\"a\"]\n[[rule]]\nid = \"allow:a\"\nprogram = \"b\"\ndecision = \"deny\"";
    assert_eq!(
        fails(&d, &d.put("c.toml", collide)),
        "D/c.toml:4:6: the rule id `allow:a` is used twice, first at D/c.toml:2; give this rule another id"
    );
}

#[test]
fn the_audit_file_is_out_of_the_runs_reach() {
    let d = Dir::new();
    let help = "keep it where no run can reach it";
    let bad = "[filesystem]\nwrite = [\"out\"]\n[audit]\nfile = \"out/a.jsonl\"";
    assert_eq!(
        fails(&d, &d.put("w.toml", bad)),
        format!("D/w.toml:5:8: the audit file lies in D/out, which `write` lets the run write; {help}")
    );
    let own = "[audit]\nfile = \"out/a.jsonl\"\n[[rule]]\nprogram = \"ls\"\ndecision = \"allow\"\nfilesystem = { write = [\".\"] }";
    assert_eq!(
        fails(&d, &d.put("o.toml", own)),
        format!("D/o.toml:3:8: the audit file lies in D, which `write` lets the run write; {help}")
    );
    let cwd = |profile: &str| {
        format!(
            "[sandbox]\nprofile = \"{profile}\"\n[filesystem]\ncwd = [\".\"]\n[audit]\nfile = \"a.jsonl\""
        )
    };
    assert_eq!(
        fails(&d, &d.put("c.toml", &cwd("workspace"))),
        format!("D/c.toml:7:8: the audit file lies in D, which `cwd` lets the run write; {help}")
    );
    good(&d.put("s.toml", &cwd("strict")));
    good(&d.put("h.toml", &cwd("host")));
    assert_eq!(
        fails(&d, &d.put("n.toml", "[audit]\nrotate = \"1M\"")),
        "D/n.toml:2:1: `file` is missing in [audit]"
    );
}

/// By hand: `cargo test --release --lib two_hundred_rules -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn two_hundred_rules_load_in_under_a_millisecond() {
    let plain = |i: usize| {
        format!(
            "[[rule]]\nid = \"r{i}\"\nprogram = \"p{i}\"\ndecision = \"allow\"\nflags = [\"-s\", \"--oneline\"]\n"
        )
    };
    let rich = |i: usize| {
        format!(
            "[[rule]]\nid = \"r{i}\"\nprogram = \"p{i}\"\ndecision = \"allow\"\nsubcommand = [\"status\", \"log\"]\n\
             flags = [\"-s\", {{ name = \"-n\", value = {{ min_value = 1, max_value = 1000 }} }}]\n\
             operands = [{{ pattern = '[a-z]+', max_length = 200, optional = true, repeat = true }}]\n\
             examples = {{ allow = [\"p{i} status\"], deny = [\"p{i} push\"] }}\n"
        )
    };
    let ordinary = measure("plain", &(0..200).map(plain).collect::<String>());
    measure("rich", &(0..200).map(rich).collect::<String>());
    assert!(ordinary < Duration::from_millis(1), "{ordinary:?}");
}

/// Prints how long a policy of 200 rules takes and gives the median.
fn measure(name: &str, text: &str) -> Duration {
    let d = Dir::new();
    let path = d.put("p.toml", text);
    let timed = |work: &dyn Fn()| {
        let start = std::time::Instant::now();
        work();
        start.elapsed()
    };
    let median = |work: &dyn Fn()| {
        let mut times: Vec<Duration> = (0..101).map(|_| timed(work)).collect();
        let first = times[0];
        times.sort();
        (first, times[0], times[50])
    };
    let parse = median(&|| drop(toml::de::DeTable::parse(text)));
    let load = median(&|| assert_eq!(good(&path).rules.len(), 200));
    println!("{name}: {} bytes; first, least, median: toml alone {parse:?}, load {load:?}", text.len());
    load.2
}
