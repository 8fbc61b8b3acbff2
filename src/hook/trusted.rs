//! Could someone else have written what is about to be executed? Tested before every start, on the descriptor that is
//! then executed, on every directory on the way, on what interprets it, and on every file among its words.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::SFlag;

use crate::policy::model::Hook;
use crate::policy::trust::{self, TrustError};
use crate::program::{self, FindError, Program, ProgramKind};
use crate::request::quote::display;
use crate::sys::process;

/// How many scripts the kernel lets interpret each other (`exec_binprm`, fs/exec.c).
pub const INTERPRETERS: usize = 5;

/// Opens a hook's program, if nobody but root and the user who runs guardexec could have changed it, what interprets
/// it, or a file that its words name by an absolute path.
///
/// # Errors
/// One sentence, safe to print.
pub fn open(hook: &Hook, path: &[PathBuf]) -> Result<Program, String> {
    let uid = process::ids().0;
    let first = hook.argv.first().ok_or("it has no words")?;
    let program = trusted(Path::new(first), uid)?;
    interpreters(&program, path, uid)?;
    for named in hook.named() {
        file(named, uid)?;
    }
    Ok(program)
}

fn shown(path: &Path) -> String {
    display(path.as_os_str().as_bytes())
}

fn untrusted(error: &TrustError) -> String {
    let remedy = error.remedy().map(|remedy| format!("; {remedy}")).unwrap_or_default();
    format!("{error}{remedy}")
}

/// A program: opened, then tested by its descriptor and on its way.
fn trusted(path: &Path, uid: u32) -> Result<Program, String> {
    let program = program::open_absolute(path).map_err(|error| match error {
        FindError::NotFound => format!("{} is not there", shown(path)),
        FindError::NotExecutable { errno, .. } => {
            format!("{} cannot be executed: {}", shown(path), errno.desc())
        }
    })?;
    trust::check_installed(&program.file, path, uid).map_err(|e| untrusted(&e))?;
    let canonical = trust::check_way(path, uid).map_err(|e| untrusted(&e))?;
    if canonical != program.path {
        return Err(format!("{} was replaced while it was looked at", shown(path)));
    }
    Ok(program)
}

/// What the kernel starts in a script's place, and what `env` starts in its own: these go by their paths, which is
/// why the way to them has to be trusted.
fn interpreters(program: &Program, path: &[PathBuf], uid: u32) -> Result<(), String> {
    let mut words = program::interpreter_line(program);
    for _ in 0..INTERPRETERS {
        let Some(first) = words.first().map(Path::new) else { return Ok(()) };
        let what = |why: String| format!("its interpreter: {why}");
        if !first.is_absolute() {
            return Err(what(format!("{} is no absolute path", shown(first))));
        }
        let found = trusted(first, uid).map_err(what)?;
        if first.file_name() == Some(OsStr::new("env")) {
            let name = started_by_env(&words[1..])
                .ok_or_else(|| what(format!("nobody can tell what {} starts", shown(first))))?;
            let named = if name.as_bytes().contains(&b'/') {
                PathBuf::from(name)
            } else {
                program::find(name, path)
                    .map_err(|_| what(format!("{} is not in the policy's PATH", shown(Path::new(name)))))?
                    .path
            };
            trusted(&named, uid).map_err(what)?;
        }
        if found.kind == ProgramKind::Binary {
            return Ok(());
        }
        words = program::interpreter_line(&found);
    }
    Err("its interpreters are scripts of scripts without end".to_owned())
}

/// The program that `env` looks up: its first word that is neither an option nor an assignment. `-S` leads to one, which may
/// be glued to it.
pub fn started_by_env(words: &[std::ffi::OsString]) -> Option<&OsStr> {
    let is_program = |word: &&[u8]| !word.starts_with(b"-") && !word.contains(&b'=');
    let words = words.iter().map(|word| word.as_bytes());
    let unglued = words.map(|word| word.strip_prefix(b"-S").filter(|rest| !rest.is_empty()).unwrap_or(word));
    unglued.into_iter().find(is_program).map(OsStr::from_bytes)
}

/// A path in a word: where it names a regular file, that is tested as the program is.
fn file(path: &Path, uid: u32) -> Result<(), String> {
    let opened = match program::open_by_path(path, OFlag::empty()) {
        Ok((opened, _)) => opened,
        // It names nothing, or nothing that a program of this user could open.
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ENAMETOOLONG | Errno::EACCES) => return Ok(()),
        Err(errno) => return Err(format!("{} cannot be looked at: {}", shown(path), errno.desc())),
    };
    let stat = nix::sys::stat::fstat(&opened)
        .map_err(|errno| format!("{} cannot be looked at: {}", shown(path), errno.desc()))?;
    if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
        return Ok(());
    }
    trust::check_installed(&opened, path, uid).map_err(|e| untrusted(&e))?;
    trust::check_way(path, uid).map(drop).map_err(|e| untrusted(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_env_starts_is_found_however_it_is_written() {
        let found = |line: &str| {
            let words: Vec<std::ffi::OsString> = line.split(' ').map(Into::into).collect();
            started_by_env(&words).map(|name| name.to_string_lossy().into_owned())
        };
        for line in ["python3", "-S python3 -I", "-Spython3 -I", "-i A=b python3", "-S A=b python3 x"] {
            assert_eq!(found(line).as_deref(), Some("python3"), "{line}");
        }
        assert_eq!(found("--split-string=python3"), None);
    }
}
