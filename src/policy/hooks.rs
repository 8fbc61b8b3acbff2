//! Environment variables that make a loader, an interpreter or a tool run or load something.
//!
//! A policy can pass one only by its full name; a glob never covers it, and `check` reports it. The table is
//! data: what is listed errs on the side of listing, because the price of a wrong entry is one written-out name.

/// Names that are hooks by themselves, sorted bytewise.
const NAMES: &[&str] = &[
    "ACLOCAL_PATH",
    "ALL_PROXY",
    "ANT_OPTS",
    "AR",
    "AS",
    "AWKLIBPATH",
    "AWKPATH",
    "BASHOPTS",
    "BASH_COMPAT",
    "BASH_ENV",
    "BASH_LOADABLES_PATH",
    "BASH_XTRACEFD",
    "BAT_PAGER",
    "BROWSER",
    "BUN_INSTALL",
    "BUN_OPTIONS",
    "CC",
    "CDPATH",
    "CFLAGS",
    "CLASSPATH",
    "COMPILER_PATH",
    "COMPOSER_HOME",
    "CONFIG_SHELL",
    "CONFIG_SITE",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "CPP",
    "CPPFLAGS",
    "CURL_CA_BUNDLE",
    "CURL_HOME",
    "CVS_RSH",
    "CXX",
    "CXXFLAGS",
    "C_INCLUDE_PATH",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DISPLAY",
    "EDITOR",
    "EMACSLOADPATH",
    "ENV",
    "EXINIT",
    "FC",
    "FCEDIT",
    "FIGNORE",
    "FPATH",
    "FTP_PROXY",
    "GCC_EXEC_PREFIX",
    "GCONV_PATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "GLOBIGNORE",
    "GNUMAKEFLAGS",
    "GNUPGHOME",
    "GODEBUG",
    "GOENV",
    "GOFLAGS",
    "GOPATH",
    "GOPROXY",
    "GOROOT",
    "GOTOOLCHAIN",
    "GRADLE_OPTS",
    "GREP_COLORS",
    "GREP_OPTIONS",
    "GTK_MODULES",
    "GTK_PATH",
    "GZIP",
    "HISTFILE",
    "HOSTALIASES",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "IFS",
    "INFOPATH",
    "INPUTRC",
    "JAVA_HOME",
    "JAVA_OPTS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "KRB5_CONFIG",
    "KUBECONFIG",
    "LD",
    "LDFLAGS",
    "LESS",
    "LESSCLOSE",
    "LESSEDIT",
    "LESSKEY",
    "LESSKEYIN",
    "LESSKEY_CONTENT",
    "LESSOPEN",
    "LIBRARY_PATH",
    "LOCALDOMAIN",
    "LOCPATH",
    "MAIL",
    "MAILCAPS",
    "MAILCHECK",
    "MAILPATH",
    "MAKEFILES",
    "MAKEFLAGS",
    "MANOPT",
    "MANPAGER",
    "MANPATH",
    "MANROFFOPT",
    "MAVEN_ARGS",
    "MAVEN_OPTS",
    "MFLAGS",
    "MORE",
    "MYVIMRC",
    "NETRC",
    "NIS_PATH",
    "NLSPATH",
    "NO_PROXY",
    "NULLCMD",
    "OBJC_INCLUDE_PATH",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PAGER",
    "PATH_LOCALE",
    "PERLLIB",
    "PGPASSFILE",
    "PGSERVICEFILE",
    "PGSYSCONFDIR",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "PKG_CONFIG",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "QT_PLUGIN_PATH",
    "READNULLCMD",
    "REQUESTS_CA_BUNDLE",
    "RES_OPTIONS",
    "RSYNC_CONNECT_PROG",
    "RSYNC_PROXY",
    "RSYNC_RSH",
    "RUBYLIB",
    "RUBYOPT",
    "RUBYPATH",
    "RUBYSHELL",
    "RUSTC",
    "RUSTDOC",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
    "SASL_PATH",
    "SHELL",
    "SHELLOPTS",
    "SSH_ASKPASS",
    "SSH_ASKPASS_REQUIRE",
    "SSH_AUTH_SOCK",
    "SSLKEYLOGFILE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "SUDO_ASKPASS",
    "SUDO_EDITOR",
    "SVN_EDITOR",
    "SVN_SSH",
    "TAPE",
    "TAR_OPTIONS",
    "TCLLIBPATH",
    "TERMCAP",
    "TERMPATH",
    "TEXINPUTS",
    "TIMEFORMAT",
    "TMPPREFIX",
    "UNZIP",
    "UNZIPOPT",
    "VIM",
    "VIMINIT",
    "VIMRUNTIME",
    "VISUAL",
    "WAYLAND_DISPLAY",
    "WGETRC",
    "XAUTHORITY",
    "XZ_DEFAULTS",
    "XZ_OPT",
    "ZDOTDIR",
    "ZIPINFO",
    "ZIPOPT",
    "ZSTD_CLEVEL",
    "_JAVA_OPTIONS",
    "all_proxy",
    "ftp_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Beginnings of names: everything that starts so is a hook. Sorted bytewise.
const PREFIXES: &[&str] = &[
    "ANSIBLE_",
    "AUTOM4TE",
    "BASH_FUNC_",
    "BUILDKIT_",
    "BUNDLE_",
    "BUNDLER_",
    "CARGO_",
    "CCACHE_",
    "CLOUDSDK_",
    "CMAKE_",
    "COMPlus_",
    "CONDA_",
    "CORECLR_",
    "COR_",
    "DENO_",
    "DOCKER_",
    "DOTNET_",
    "DYLD_",
    "GDB",
    "GEM_",
    "GIO_",
    "GIT_",
    "GST_",
    "GUARDEXEC_",
    "GUILE_",
    "HELM_",
    "JULIA_",
    "LD_",
    "LUA_",
    "MALLOC_",
    "MYSQL",
    "NODE_",
    "NPM_CONFIG_",
    "PERL5",
    "PERL_",
    "PIP_",
    "PKG_CONFIG_",
    "PODMAN_",
    "POETRY_",
    "PYENV_",
    "PYTEST_",
    "PYTHON",
    "RUSTC_",
    "RUSTUP_",
    "R_",
    "SUDO_",
    "SYSTEMD_",
    "TERMINFO",
    "UV_",
    "VIRTUALENV",
    "VSTEST_",
    "XDG_",
    "YARN_",
    "npm_config_",
];

/// Whether `name` is a variable by which its setter can make some program load or run something else.
/// The bytes are compared as they are.
pub fn is_hook(name: &[u8]) -> bool {
    NAMES.binary_search_by(|n| n.as_bytes().cmp(name)).is_ok()
        || PREFIXES.iter().any(|p| name.starts_with(p.as_bytes()))
        || is_lua_version(name)
        || is_bash_function(name)
}

/// `LUA_PATH_5_4` is covered by the prefix; `LUAROCKS_*`, `LUAJIT*` and the like by this.
fn is_lua_version(name: &[u8]) -> bool {
    name.starts_with(b"LUAROCKS_") || name.starts_with(b"LUAJIT")
}

/// Older shells read a function out of any variable whose name carries `()`.
fn is_bash_function(name: &[u8]) -> bool {
    name.ends_with(b"()") || name.ends_with(b"%%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sorted_and_hold_no_name_twice() {
        assert!(NAMES.windows(2).all(|w| w[0] < w[1]), "{:?}", NAMES.windows(2).find(|w| w[0] >= w[1]));
        assert!(PREFIXES.windows(2).all(|w| w[0] < w[1]));
    }

    #[test]
    fn hooks_are_known_and_ordinary_names_are_not() {
        let hooks = "LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES GCONV_PATH GLIBC_TUNABLES BASH_ENV ENV \
            BASH_FUNC_ls%% SHELLOPTS PS4 IFS PYTHONPATH PYTHONSTARTUP NODE_OPTIONS NODE_PATH npm_config_script_shell \
            NPM_CONFIG_PREFIX GIT_SSH_COMMAND GIT_CONFIG_COUNT PERL5LIB PERL5OPT PERLLIB RUBYOPT RUBYLIB GEM_HOME \
            BUNDLE_GEMFILE JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH MAVEN_OPTS PHPRC LUA_PATH \
            LUA_INIT_5_4 R_PROFILE EDITOR VISUAL PAGER LESSOPEN SSH_ASKPASS RUSTC_WRAPPER RUSTFLAGS CARGO_HOME CC \
            MAKEFLAGS GOFLAGS CMAKE_TOOLCHAIN_FILE AWKPATH TAR_OPTIONS GZIP RSYNC_RSH PGSERVICEFILE MYSQL_HOME \
            OPENSSL_CONF SSLKEYLOGFILE TERMINFO TERMINFO_DIRS HOSTALIASES XDG_CONFIG_HOME DOTNET_STARTUP_HOOKS \
            COMPlus_x CORECLR_PROFILER BUILDKIT_HOST DOCKER_HOST KUBECONFIG GUARDEXEC_POLICY";
        for name in hooks.split_whitespace() {
            assert!(is_hook(name.as_bytes()), "{name}");
        }
        for name in
            ["LANG", "LC_ALL", "TZ", "TERM", "HOME", "USER", "PATH", "CI", "MODE", "ENVIRONMENT", "", "ld_"]
        {
            assert!(!is_hook(name.as_bytes()), "{name}");
        }
    }
}
