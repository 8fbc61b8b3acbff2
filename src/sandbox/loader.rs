//! Which further files the kernel opens to execute a file: the interpreter of `#!`, and the ELF loader.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use libc::{O_NOCTTY, O_NONBLOCK};

use crate::program::{HEAD, script_interpreter};

/// The kernel follows at most five interpreters (`search_binary_handler`, fs/exec.c).
const MAX_CHAIN: usize = 5;
/// Program headers that are looked at; the kernel takes at most 64 KiB of them.
const MAX_HEADERS: u16 = 1170;

/// The files, besides `program` itself, that need the right to be executed so that `program` can be: interpreters in
/// the order of the chain, and the ELF loader of the last one.
///
/// A chain that is longer than the kernel follows is cut: the exec itself says that it is.
///
/// # Errors
/// A file of the chain cannot be opened; the path is in the message.
pub fn needed(program: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut current = program.to_owned();
    for _ in 0..=MAX_CHAIN {
        // Whatever lies there is not waited for: a pipe would be, for ever.
        let opened = OpenOptions::new().read(true).custom_flags(O_NONBLOCK | O_NOCTTY).open(&current);
        let file = match opened {
            // The exec itself says that an interpreter is missing.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !found.is_empty() => return Ok(found),
            opened => opened.map_err(|e| named(&current, &e))?,
        };
        if !file.metadata().map_err(|e| named(&current, &e))?.is_file() {
            // Or that it is none.
            return Ok(found);
        }
        let mut head = [0_u8; HEAD];
        let len = read_up_to(&file, &mut head, 0).map_err(|e| named(&current, &e))?;
        let head = &head[..len];
        if let Some(interpreter) = script_interpreter(head) {
            if !interpreter.is_absolute() {
                let text = format!("{}: its interpreter is not an absolute path", current.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, text.escape_debug().to_string()));
            }
            found.push(interpreter.clone());
            current = interpreter;
            continue;
        }
        if let Some(loader) = elf_loader(&file, head).map_err(|e| named(&current, &e))? {
            found.push(loader);
        }
        return Ok(found);
    }
    Ok(found)
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display().to_string().escape_debug()))
}

fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read_at(&mut buffer[len..], offset + len as u64)? {
            0 => break,
            n => len += n,
        }
    }
    Ok(len)
}

/// The path in `PT_INTERP` of a 64-bit ELF file of this byte order; `None` for a static one or another format.
fn elf_loader(file: &File, head: &[u8]) -> io::Result<Option<PathBuf>> {
    const PT_INTERP: u32 = 3;
    const HEADER: usize = 56;
    let is_elf64 = head.starts_with(b"\x7fELF\x02") && head.len() >= 64;
    if !is_elf64 || (head[5] == 1) != cfg!(target_endian = "little") {
        return Ok(None);
    }
    let offset = number8(&head[32..]);
    let size = usize::from(number2(&head[54..]));
    let count = number2(&head[56..]);
    if size != HEADER || count > MAX_HEADERS {
        return Ok(None);
    }
    let mut headers = vec![0_u8; HEADER * usize::from(count)];
    let len = read_up_to(file, &mut headers, offset)?;
    for header in headers[..len].chunks_exact(HEADER) {
        if number4(header) != PT_INTERP {
            continue;
        }
        let length = usize::try_from(number8(&header[32..])).unwrap_or(usize::MAX).min(4096);
        let mut text = vec![0_u8; length];
        let len = read_up_to(file, &mut text, number8(&header[8..]))?;
        let text = text[..len].split(|b| *b == 0).next().unwrap_or_default();
        return Ok((!text.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(text))));
    }
    Ok(None)
}

fn number2(bytes: &[u8]) -> u16 {
    u16::from_ne_bytes([bytes[0], bytes[1]])
}

fn number4(bytes: &[u8]) -> u32 {
    u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn number8(bytes: &[u8]) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[..8]);
    u64::from_ne_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::super::raw::attack::Scratch;
    use super::*;

    #[test]
    fn an_interpreter_is_split_as_the_kernel_does() {
        let of = |text: &str| script_interpreter(text.as_bytes());
        assert_eq!(of("#!/bin/sh\n"), Some("/bin/sh".into()));
        assert_eq!(of("#! \t/usr/bin/env  python3 -x\nfoo"), Some("/usr/bin/env".into()));
        assert_eq!(of("#!/bin/sh"), Some("/bin/sh".into()));
        assert_eq!(of("#!\n/bin/sh"), None);
        assert_eq!(of(" #!/bin/sh\n"), None);
        assert_eq!(of("\x7fELF"), None);
    }

    #[test]
    fn a_dynamic_program_needs_its_loader_and_a_script_both() {
        let loader = needed(Path::new("/bin/sh")).unwrap();
        assert_eq!(loader.len(), 1, "{loader:?}");
        assert!(loader[0].exists(), "{loader:?}");
        let scratch = Scratch::new("loader");
        let (first, second) = (scratch.0.join("first"), scratch.0.join("second"));
        std::fs::write(&second, "#!/bin/sh\n").unwrap();
        std::fs::write(&first, format!("#!{} -x\n", second.display())).unwrap();
        let chain = needed(&first).unwrap();
        assert_eq!(chain, [second.as_path(), Path::new("/bin/sh"), &loader[0]]);
    }

    #[test]
    fn a_pipe_at_the_end_of_the_chain_is_not_waited_for() {
        let scratch = Scratch::new("loader-pipe");
        let [first, second, pipe] = ["first", "second", "pipe"].map(|name| scratch.0.join(name));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::write(&second, format!("#!{}\n", pipe.display())).unwrap();
        std::fs::write(&first, format!("#!{}\n", second.display())).unwrap();
        assert_eq!(needed(&first).unwrap(), [second, pipe]);
    }

    #[test]
    fn a_loop_ends_and_a_missing_interpreter_is_named() {
        let scratch = Scratch::new("loader-loop");
        let this = scratch.0.join("loop");
        std::fs::write(&this, format!("#!{}\n", this.display())).unwrap();
        assert!(needed(&this).unwrap().iter().all(|found| *found == this));
        std::fs::write(&this, "#!/nonexistent/sh\n").unwrap();
        // That it is missing is for the exec to say.
        assert_eq!(needed(&this).unwrap(), [PathBuf::from("/nonexistent/sh")]);
    }

    #[test]
    fn damaged_headers_are_no_loader() {
        let scratch = Scratch::new("loader-damaged");
        let path = scratch.0.join("elf");
        let mut elf = std::fs::read("/bin/sh").unwrap();
        elf.truncate(64);
        elf[32..40].copy_from_slice(&u64::MAX.to_ne_bytes()[..]);
        std::fs::write(&path, &elf).unwrap();
        assert!(needed(&path).map_or(true, |found| found.is_empty()));
        elf[32..40].copy_from_slice(&64_u64.to_ne_bytes());
        std::fs::write(&path, &elf).unwrap();
        assert_eq!(needed(&path).unwrap(), Vec::<PathBuf>::new());
    }
}
