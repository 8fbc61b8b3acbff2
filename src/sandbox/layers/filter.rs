//! The system call filter's part in an attempt: network, system calls, execution.

use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::Builder;
use crate::policy::model::{Layer, NetworkMode, Profile, ProgramName};
use crate::program::ProgramKind;
use crate::request::quote;
use crate::sandbox::raw;
use crate::sandbox::raw::secret::SecretPath;
use crate::sandbox::readback::Readback;
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
        let network = self.network();
        let channel = if network.waits() { Some(self.door()?) } else { None };
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
        let descriptors = channel.iter().map(AsRawFd::as_raw_fd).collect();
        let apply = move || match &channel {
            Some(channel) => seccomp::apply_listening(&filter, channel.as_raw_fd()),
            None => seccomp::apply(&filter),
        };
        self.step(Step::Seccomp, Stage::Filter, descriptors, Box::new(apply));
        self.layers.secret = Some(secret);
        self.layers.enforced.set(Layer::Syscalls, "seccomp");
        self.network_on(network);
        if self.wanted.profile != Profile::Host {
            self.execution_on(execution, abi);
        }
        Ok(())
    }

    fn network_on(&mut self, network: Network) {
        let host = self.wanted.network == NetworkMode::Host;
        let how = match network {
            Network::None => "none: no sockets (seccomp)",
            Network::Unix => "none but listed Unix sockets (seccomp)",
            Network::Internet { unix: false } if host => "host: IPv4 and IPv6 only (seccomp)",
            Network::Internet { unix: true } if host => "host: IPv4, IPv6 and listed Unix sockets (seccomp)",
            Network::Internet { unix: false } => "none but a private loopback (network namespace, seccomp)",
            Network::Internet { unix: true } => {
                "none but a private loopback and listed Unix sockets (network namespace, seccomp)"
            }
        };
        self.layers.enforced.set(Layer::Network, how);
        if let Some(why) = self.shut.take() {
            self.unheld(Layer::Network, why);
        }
        if self.wanted.loopback && self.wanted.network == NetworkMode::None && !self.ground.namespaces {
            let instead = "without a network namespace there is no private loopback: no sockets at all";
            self.unheld(Layer::Network, instead.into());
        }
    }

    /// The last step before the exec: the kernel is asked whether what was applied is on.
    pub(super) fn readback(&mut self) {
        let filtered = self.layers.enforced.has(Layer::Syscalls);
        let no_sockets = filtered && self.wanted.network == NetworkMode::None && !self.wanted.loopback;
        let root_refused =
            self.layers.steps.iter().any(|step| step.step == Step::Landlock) && !self.granted_root;
        if filtered || root_refused {
            let readback = Readback { filtered, no_sockets, root_refused };
            self.step(Step::Readback, Stage::Filter, Vec::new(), Box::new(move || readback.check()));
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
