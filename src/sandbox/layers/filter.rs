//! The system call filter's part in an attempt: network, system calls, execution.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::Builder;
use crate::policy::model::{Layer, NetworkMode, Profile, ProgramName};
use crate::program::ProgramKind;
use crate::request::quote;
use crate::sandbox::raw;
use crate::sandbox::raw::secret::SecretPath;
use crate::sandbox::seccomp::{self, Execution, Network};
use crate::sandbox::{PrepareError, Stage, Step, landlock};
use crate::sys::canonical;

impl Builder<'_> {
    /// The system call filter: network, system calls, execution.
    pub(super) fn filter(&mut self) -> Result<(), PrepareError> {
        if let Err(errno) = raw::seccomp_available() {
            let why = std::io::Error::from_raw_os_error(errno);
            for layer in [Layer::Network, Layer::Syscalls, Layer::Execution] {
                self.missing(layer, format!("this kernel offers no system call filter: {why}"));
            }
            return Ok(());
        }
        let by_descriptor = self.job.kind == ProgramKind::Binary;
        let path = if by_descriptor { c"" } else { self.job.path.as_c_str() };
        let secret = SecretPath::new(path).map_err(std::io::Error::from_raw_os_error)?;
        let strict = self.wanted.profile == Profile::Strict;
        let execution = match (strict, &self.wanted.exec) {
            (true, None) => Execution::Once { secret: secret.address(), by_descriptor },
            (_, Some(_)) => Execution::List { secret: by_descriptor.then(|| secret.address()) },
            (false, None) => Execution::Any,
        };
        let network = match (self.wanted.network, self.wanted.loopback && self.ground.namespaces) {
            (NetworkMode::None, true) => Network::Loopback,
            (NetworkMode::None, false) => Network::None,
            (NetworkMode::Host, _) => Network::Host { unix: false },
        };
        let abi = landlock::abi();
        let filter = seccomp::Prepared::new(&seccomp::Options {
            execution,
            network,
            pid_namespace: self.ground.namespaces,
            ipc_namespace: self.ground.namespaces,
            attributes: self.ground.namespaces || self.wanted.profile == Profile::Host,
            truncate_by_path: abi >= 3 || self.wanted.profile == Profile::Host,
            openat2: self.wanted.profile == Profile::Host,
        });
        self.step(Step::Seccomp, Stage::Filter, Vec::new(), Box::new(move || seccomp::apply(&filter)));
        self.layers.secret = Some(secret);
        self.layers.enforced.set(Layer::Syscalls, "seccomp");
        self.network_on(network);
        if self.wanted.profile != Profile::Host {
            self.execution_on(execution, abi);
        }
        Ok(())
    }

    fn network_on(&mut self, network: Network) {
        if !self.wanted.unix.is_empty() {
            self.missing(
                Layer::Network,
                "this kernel cannot hold a run to a list of Unix sockets ([network] unix)",
            );
            return;
        }
        let how = match network {
            Network::None => "none: no sockets (seccomp)",
            Network::Loopback => "none but a private loopback (network namespace, seccomp)",
            Network::Host { .. } => "host: IPv4 and IPv6 only (seccomp)",
        };
        self.layers.enforced.set(Layer::Network, how);
        if self.wanted.loopback && self.wanted.network == NetworkMode::None && !self.ground.namespaces {
            let instead = "without a network namespace there is no private loopback: no sockets at all";
            self.unheld(Layer::Network, instead.into());
        }
    }

    fn execution_on(&mut self, execution: Execution, abi: u32) {
        match execution {
            Execution::Once { .. } => self.layers.enforced.set(Layer::Execution, "once"),
            _ if abi == 0 => self.missing(Layer::Execution, "this kernel offers no Landlock to hold a list"),
            Execution::List { .. } => self.layers.enforced.set(Layer::Execution, "list"),
            Execution::Any => self.layers.enforced.set(Layer::Execution, "readable files"),
        }
    }

    /// The files of `exec`; names that the search path does not have cannot be started anyway, which is said.
    pub(super) fn executables(&mut self) -> Option<Vec<PathBuf>> {
        let wanted = self.wanted;
        let find = |name: &ProgramName| match name {
            ProgramName::Absolute(path) => canonical(path).ok(),
            ProgramName::Bare(name) => {
                canonical(&wanted.path.iter().map(|dir| dir.join(name)).find(|p| p.is_file())?).ok()
            }
        };
        let names = wanted.exec.as_ref()?;
        let mut files = Vec::with_capacity(names.len());
        let mut unknown = Vec::new();
        for name in names {
            match find(name) {
                Some(file) => files.push(file),
                None => unknown.push(quote::display(name.as_os_str().as_bytes())),
            }
        }
        if !unknown.is_empty() {
            let names = unknown.join(", ");
            self.layers.warnings.push(format!("exec: not found, so the run cannot start it: {names}"));
        }
        Some(files)
    }
}
