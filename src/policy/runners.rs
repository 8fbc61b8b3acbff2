//! Programs that run their arguments: given free arguments they are as good as a shell.
//!
//! The table is a help for `check`, not a boundary: a program that is missing here is held by the kernel's list
//! of what may be executed all the same.

use super::names::Names;

/// Names without a version, sorted bytewise.
const RUNNERS: Names = Names::new(
    "
    7z Rscript ack ag ansible ansible-playbook apptainer apt-get ar ash at awk bash batch bazel bpftrace bsdtar
    buildah bun bundle bunx busctl busybox bwrap c++ capsh cargo cc chroot chrt clang clang++ cmake composer
    cpio cpulimit crontab csh ctr curl dash dbus-launch dbus-run-session dbus-send deno doas docker dotnet ed
    elvish emacs emacsclient entr env erl ex expect fakeroot fd fdfind find firejail fish flock ftp fzf g++ gawk
    gcc gdb gdbus gem ghc ghci git gmake go gradle groovy guile hg hyperfine iex ionice irb java journalctl
    jrunscript jshell julia just ksh kubectl latex latexmk ld ld.so ldd less lftp logrotate ltrace lua luajit
    luatex lxc make man mawk mg mksh more mosh mutt mvn mysql nano nasm nawk nc ncat nerdctl nice ninja nix nmap
    node nodejs nohup npm npx nsenter nu nvim octave openssl parallel pdflatex pdftex perl php pip pipx pkexec
    pnpm podman poetry prlimit pry psql puppet pwsh pypy pytest python rake rbash rg rlwrap rpm rpmbuild rsync
    ruby run-parts runc runuser rust-gdb rustc rustup rview rvim scala scp screen script sed setarch setpriv
    setsid sftp sg sh slsh socat sort split sqlite ssh ssh-agent ssh-keygen ssh-keyscan sshfs sshpass
    start-stop-daemon stdbuf strace su sudo svn swift systemctl systemd-run tar taskset tclsh tcpdump tcsh tex
    time timeout tmux toybox ts-node tsx unbuffer unshare unzip uv uvx vagrant valgrind vi view vim vimdiff vipw
    visudo watch watchexec wget wish xargs xdg-open xelatex xterm xvfb-run yarn yash yum zip zsh zypper
",
);

/// Whether `name` (without directory) is a program that runs what its arguments say. Versions at the end of a
/// name do not count: `python3.11` is `python`.
pub fn runs_arguments(name: &[u8]) -> bool {
    if RUNNERS.has(name) {
        return true;
    }
    let end = name.iter().rposition(|b| !b.is_ascii_digit() && !b".-".contains(b)).map_or(0, |i| i + 1);
    end < name.len() && RUNNERS.has(&name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_without_versions() {
        assert!(RUNNERS.are_sorted());
        assert!(RUNNERS.iter().all(|n| !n.ends_with(|c: char| c.is_ascii_digit())));
    }

    #[test]
    fn runners_are_known_with_and_without_version() {
        for name in "sh bash dash zsh python python3 python3.11 perl5.36.0 lua5.4 php8.2 gcc-12 find xargs env awk gawk \
            mawk sed git tar make npm npx yarn pnpm cargo ssh scp rsync nice nohup timeout stdbuf setsid chroot sudo su \
            doas watch parallel entr time strace gdb vim less man emacs perl ruby php lua tclsh node deno bun java go \
            busybox toybox systemd-run at batch crontab docker podman tmux screen dbus-send gdbus sort rg zip curl"
            .split_whitespace()
        {
            assert!(runs_arguments(name.as_bytes()), "{name}");
        }
        for name in
            ["cat", "ls", "echo", "date", "uname", "head", "grep", "true", "", "3", "-", "pythonista", "Sh"]
        {
            assert!(!runs_arguments(name.as_bytes()), "{name}");
        }
    }
}
