//! How programs spell their flags: the tables and the letters behind closed and open rules.

use crate::policy::model::Flag;
use crate::policy::names::Names;

/// Programs whose flags are words behind a single dash (`-name`, `-exec`, `-TT`), so that `-rn` is one flag and not two.
/// A rule that lists such a flag says the same for its program.
const SINGLE_DASH: Names = Names::new(
    "
    7z 7za 7zz Xorg animate ant aria2c asciidoctor blender c++ cc clang clang++ cmake compare composite consul
    convert cpp csc dart display dotnet dvips emacs erl erlc ffmpeg ffplay ffprobe find g++ gcc gdb gfortran ghc
    gnuplot go gofmt groovy gs helix identify import inkscape ip ip6tables iptables jar java javac javadoc
    jshell keytool kotlin kotlinc latex ld ld.gold ld.lld lualatex magick mencoder mkisofs mogrify mongo mono
    montage mplayer mpv msbuild mvn nft nmap nomad ocaml ocamlc ocamlfind ocamlopt openssl packer pdflatex
    pdftex pdftotext php qemu-img qemu-system-x86_64 rar scala scalac screen setxkbmap sox sqlite3 swift swiftc
    tc terraform tex tofu unrar unzip vault vim virsh vlc xauth xelatex xetex xorriso xrandr xset xterm zip
",
);

/// Programs that read a first word without a dash as a bundle of flags (`tar xfC`, `ps aux`).
const OLD_STYLE: &[&str] = &["ar", "bsdtar", "gar", "gtar", "ps", "tar"];

/// Programs that read words with a dash as flags, or as what they do, also behind a `--`: `find -- . -delete` deletes.
const DASHES_NEVER_END: Names = Names::new(
    "
    bfs compare composite convert ffmpeg ffprobe find gfind identify magick mogrify montage
",
);

/// Programs that accept the beginning of a subcommand for the whole (`ip l`, `npm i`, `hg st`).
const SHORT_SUBCOMMANDS: Names = Names::new(
    "
    bridge btrfs dcb devlink gdb hg ip lftp lvm nmcli npm pnpm rdma tc tipc vdpa virsh
",
);

/// Whether one of a program's names stands in a table, also with what distributions add to it: `gcc-12` and
/// `x86_64-linux-gnu-gcc` are `gcc`.
fn stand_in(table: Names, names: &[&[u8]]) -> bool {
    names.iter().any(|name| {
        let end = name.iter().rposition(|b| !b.is_ascii_digit() && !b".-".contains(b)).map_or(0, |i| i + 1);
        let bare = &name[..end];
        let last = bare.rsplit(|&b| b == b'-').next().unwrap_or(bare);
        table.iter().any(|known| [*name, bare, last].contains(&known.as_bytes()))
    })
}

/// Whether the program reads its first word as flags.
pub(super) fn is_old_style(names: &[&[u8]]) -> bool {
    OLD_STYLE.iter().any(|known| names.contains(&known.as_bytes()))
}

/// Whether a lone `--` ends the program's flags.
pub(super) fn dashes_end_flags(names: &[&[u8]]) -> bool {
    !stand_in(DASHES_NEVER_END, names)
}

/// Whether a single dash may start a long flag.
pub(super) fn single_dash(names: &[&[u8]]) -> bool {
    stand_in(SINGLE_DASH, names)
}

/// Whether the program takes the beginning of a subcommand for the whole.
pub(super) fn shortens_subcommands(names: &[&[u8]]) -> bool {
    stand_in(SHORT_SUBCOMMANDS, names)
}

/// Whether `-rn` may stand for `-r -n` and `-kVALUE` for `-k VALUE`.
pub(super) fn clusters<'f>(names: &[&[u8]], mut flags: impl Iterator<Item = &'f Flag>) -> bool {
    !stand_in(SINGLE_DASH, names) && !flags.any(|f| is_single_dash_word(f.name.as_bytes()))
}

/// `-n`: one dash and one byte.
pub(super) fn letter(name: &[u8]) -> Option<u8> {
    match name {
        [b'-', c] if *c != b'-' => Some(*c),
        _ => None,
    }
}

/// `-name`: one dash and a word.
pub(super) fn is_single_dash_word(name: &[u8]) -> bool {
    name.len() > 2 && name[0] == b'-' && name[1] != b'-'
}

/// Whether a word has the form of a flag. `-` alone is usually standard input.
pub(super) fn is_dashed(word: &[u8]) -> bool {
    word.len() > 1 && word[0] == b'-'
}

/// `NAME=VALUE` at its first `=`.
pub(super) fn split_value(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = word.iter().position(|&b| b == b'=')?;
    Some((&word[..at], &word[at + 1..]))
}

/// A word that means something to a shell and nothing to a program.
pub(super) fn is_shell_operator(word: &[u8]) -> bool {
    let digits = word.iter().take_while(|b| b.is_ascii_digit()).count();
    let rest = &word[digits..];
    matches!(rest, b";" | b"&&" | b"||" | b"|" | b"&" | b"|&" | b";;")
        || rest.starts_with(b">")
        || rest.starts_with(b"<")
        || word.starts_with(b"&>")
        || word.starts_with(b"$(")
        || word.starts_with(b"`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_their_plain_and_decorated_names() {
        for name in ["find", "gcc", "gcc-12", "x86_64-linux-gnu-gcc", "clang-17", "php8.2"] {
            assert!(stand_in(SINGLE_DASH, &[name.as_bytes()]), "{name}");
        }
        for name in ["sort", "git", "find2fs", "finder", "", "12"] {
            assert!(!stand_in(SINGLE_DASH, &[name.as_bytes()]), "{name}");
        }
        assert!(is_old_style(&[b"tar"]) && is_old_style(&[b"x", b"ps"]) && !is_old_style(&[b"star"]));
    }

    #[test]
    fn shell_operators() {
        for word in ["&&", ";", "|", ">", ">>", "2>&1", "2>", "<", "&>x", "$(id)", "`id`", "<<EOF"] {
            assert!(is_shell_operator(word.as_bytes()), "{word}");
        }
        for word in ["a;b", "x", "", "5", "-", "a>b", "$HOME"] {
            assert!(!is_shell_operator(word.as_bytes()), "{word}");
        }
    }
}
