//! The lists behind the profiles: what ordinary programs need, and what nobody's program should read.

use std::path::{Path, PathBuf};

/// Directories of installed programs and of their settings. `/etc` as a whole: what is secret in it is not for ordinary
/// users to read, and taken out for others.
pub const SYSTEM: &[&str] = &[
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/bin",
    "/sbin",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/etc",
];

/// Files and small directories elsewhere that runtimes look at: processors, container limits, huge pages.
pub const SYSTEM_FILES: &[&str] = &[
    "/etc/resolv.conf", // often a link out of /etc
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
];

/// Devices without state, and whether they can be written to.
pub const DEVICES: &[(&str, bool)] = &[
    ("/dev/null", true),
    ("/dev/zero", true),
    ("/dev/full", true),
    ("/dev/random", false),
    ("/dev/urandom", false),
];

/// What of the host's `/proc` says nothing about other processes.
pub const PROC: &[&str] = &[
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/loadavg",
    "/proc/version",
    "/proc/filesystems",
    "/proc/sys/kernel",
    "/proc/sys/vm",
    "/proc/sys/fs",
];

/// What of any `/proc` only root may read: the memory of the whole machine, page by page and cache by cache.
pub const PROC_OF_ROOT: &[&str] = &[
    "/proc/allocinfo",
    "/proc/kcore",
    "/proc/kmsg",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/pagetypeinfo",
    "/proc/sched_debug",
    "/proc/slabinfo",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/vmallocinfo",
];

/// Keys, password hashes and tokens in `/etc`. Directories stand for all beneath them.
const SECRETS: &[&str] = &[
    "shadow",
    "shadow-",
    "gshadow",
    "gshadow-",
    "sudoers",
    "sudoers.d",
    "doas.conf",
    "security/opasswd",
    "ssl/private",
    "pki/tls/private",
    "pki/private",
    "letsencrypt",
    "krb5.keytab",
    "ipsec.secrets",
    "ipsec.d/private",
    "swanctl",
    "wireguard",
    "openvpn",
    "ppp/chap-secrets",
    "ppp/pap-secrets",
    "NetworkManager/system-connections",
    "wpa_supplicant",
    "iwd",
    "docker/key.json",
    "kubernetes",
    "rancher",
    "mysql/debian.cnf",
    "cups/passwd.md5",
    "libvirt/secrets",
    "credstore",
    "credstore.encrypted",
    "vault.d",
];

/// Those of the secrets that exist, the SSH host keys included.
pub fn secrets_below(etc: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = SECRETS.iter().map(|name| etc.join(name)).collect();
    if let Ok(entries) = std::fs::read_dir(etc.join("ssh")) {
        let keys = entries.flatten().map(|entry| entry.path());
        found.extend(keys.filter(|path| {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            name.starts_with("ssh_host_") && name.ends_with("_key")
        }));
    }
    found.retain(|path| path.symlink_metadata().is_ok());
    found
}
