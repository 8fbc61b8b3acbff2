//! Names of variables in `pass` and `request`: exact, or with `*` for any bytes.

use crate::policy::hooks::is_hook;

/// Where programs look for their settings, which may name others to run: a policy that means it writes it out.
const HOME: &[u8] = b"HOME";

/// Whether one of the entries permits `name`. A variable that can make some program load code is permitted only by
/// its full name, `HOME` too, and the caller's `PATH` never.
pub(super) fn permits(entries: &[String], name: &[u8]) -> bool {
    // Whether the name is a hook is asked last: it is looked up in long tables, and nearly no glob gets that far.
    let stands = |entry: &[u8]| match entry.contains(&b'*') {
        true => matches(entry, name) && name != HOME && !is_hook(name),
        false => entry == name,
    };
    name != b"PATH" && entries.iter().any(|entry| stands(entry.as_bytes()))
}

/// `*` stands for any bytes, also none. Linear in the name for each star, without recursion.
fn matches(glob: &[u8], name: &[u8]) -> bool {
    let parts: Vec<&[u8]> = glob.split(|&b| b == b'*').collect();
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
    if name.len() < first.len() + last.len() || !name.starts_with(first) || !name.ends_with(last) {
        return false;
    }
    let mut rest = &name[first.len()..name.len() - last.len()];
    for part in &parts[1..parts.len() - 1] {
        let found = if part.is_empty() { Some(0) } else { rest.windows(part.len()).position(|w| w == *part) };
        match found {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permitted(entry: &str, name: &str) -> bool {
        permits(&[entry.to_string()], name.as_bytes())
    }

    #[test]
    fn stars_stand_for_any_bytes() {
        for (glob, name) in
            [("LC_*", "LC_ALL"), ("LC_*", "LC_"), ("*", "X"), ("A*B*C", "AxBByC"), ("*_X", "A_X")]
        {
            assert!(permitted(glob, name), "{glob} {name}");
        }
        for (glob, name) in
            [("LC_*", "LC"), ("LC_*", "XLC_A"), ("A*A", "A"), ("A*B*C", "AxC"), ("X", "XY"), ("X", "x")]
        {
            assert!(!permitted(glob, name), "{glob} {name}");
        }
        assert!(permits(&["*".into()], b"\xff\xfe"));
    }

    #[test]
    fn t1_13_25_and_26_hooks_need_their_full_name() {
        for name in [
            "LD_PRELOAD",
            "BASH_ENV",
            "BASH_FUNC_x%%",
            "PYTHONPATH",
            "NODE_OPTIONS",
            "GIT_CONFIG_COUNT",
            "HOME",
        ] {
            assert!(!permitted("*", name) && !permitted(&format!("{}*", &name[..3]), name), "{name}");
            assert!(permitted(name, name), "{name}");
        }
        assert!(!permitted("PATH", "PATH") && !permitted("*", "PATH"));
    }
}
