//! All layers of one attempt at a run: prepared together, because what one can do decides what another must.
//!
//! With namespaces of its own a run gets private mounts, a private tmp and a `/proc` of its own; without, Landlock and
//! the system call filter have to do alone. What is wanted and not had stands in [`Enforced::missing`], and a
//! layer that the policy requires makes the attempt an error before anything runs.

use std::ffi::CString;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::bounds::Bounds;
use super::door::Door;
use super::identity::{self, Identity};
use super::mount::keep::Kept;
use super::mount::{self, TmpPlaces};
use super::planted::Planted;
use super::raw::secret::SecretPath;
use super::tmp::{self, TmpDir};
use super::view::{self, Inputs, View};
use super::{Confinement as Job, Enforced, PrepareError, Prepared, Stage, Step, landlock};
use crate::decision::Wanted;
use crate::policy::model::{Layer, NetworkMode, Profile};
use crate::sys::path::{is_same, is_within};

mod bounds;
mod filter;
mod guarded;
mod input;
mod needs;
mod sockets;
mod workspace;

/// Bytes that the private tmp may hold, unless the policy says.
const TMP_SIZE: u64 = 64 << 20;

/// In which surroundings the attempt is made.
#[derive(Debug, Clone, Copy)]
pub struct Ground {
    /// PID and mount namespaces of its own.
    pub namespaces: bool,
    /// Inside a user namespace of its own.
    pub user_namespace: bool,
}

/// Everything prepared for one attempt.
#[derive(Debug)]
pub struct Layers {
    /// The child's halves, in order.
    pub steps: Vec<Prepared>,
    /// The keeper's half.
    pub ground: Option<GroundWork>,
    /// Path or empty path at a secret address, where execution is held to the guard's own exec.
    pub secret: Option<SecretPath>,
    /// As whom the run runs.
    pub identity: Identity,
    /// What is on once all steps have succeeded.
    pub enforced: Enforced,
    /// The environment with the private tmp in it.
    pub envp: Vec<CString>,
    /// What must not have appeared in the workspace afterwards.
    pub planted: Planted,
    /// Sentences for the result.
    pub warnings: Vec<String>,
    /// The door to listed Unix sockets.
    pub door: Option<Door>,
    /// The ruleset, which has still to be filled.
    rules: Option<Rc<landlock::Prepared>>,
    /// A private tmp without mounts; removed with this.
    pub tmp: Option<TmpDir>,
}

impl Layers {
    /// What can be done while the keeper makes the mounts, and must be before the child starts: Landlock's rules. Until then
    /// the ruleset grants nothing.
    ///
    /// # Errors
    /// A path that is needed cannot be granted.
    pub fn complete(&self) -> Result<(), PrepareError> {
        let Some(rules) = &self.rules else { return Ok(()) };
        rules.fill().map(drop).map_err(|error| PrepareError::Missing(error.to_string()))
    }

    /// What there is to say once the run has ended: warnings, and what it planted; and whether it planted anything.
    pub fn afterwards(&mut self) -> (Vec<String>, bool) {
        let mut all = std::mem::take(&mut self.warnings);
        let planted = self.planted.set_aside();
        let any = !planted.is_empty();
        all.extend(planted);
        (all, any)
    }
}

/// What the keeper does in the new namespaces before it makes the child.
#[derive(Debug)]
pub struct GroundWork {
    /// The mounts.
    pub mounts: mount::Prepared,
    /// Rules for paths that only exist then.
    late: Option<Rc<landlock::Prepared>>,
    /// The working directory, to be entered again by its path, and what it must still be: device and inode.
    cwd: (CString, u64, u64),
    /// Set the loopback interface up.
    pub loopback: bool,
}

impl GroundWork {
    /// Makes the mounts, adds the late rules, enters the working directory. Raw calls only.
    ///
    /// # Errors
    /// The errno of what failed; nothing may be executed then.
    pub fn apply(&self) -> Result<(), i32> {
        mount::apply(&self.mounts).map_err(|(_, errno)| errno)?;
        if let Some(rules) = &self.late {
            landlock::add_late(rules.fd.as_raw_fd(), &rules.late).map_err(|(_, errno)| errno)?;
        }
        if self.loopback {
            super::raw::process::loopback_up()?;
        }
        // The descriptor that was judged belongs to the old mounts and leads out of the new ones.
        let (path, device, inode) = &self.cwd;
        super::raw::change_directory(path)?;
        if super::raw::identity_of(c".")? == (*device, *inode) { Ok(()) } else { Err(libc::ESTALE) }
    }

    /// The descriptor that the keeper needs for it.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.late.as_ref().map(|rules| rules.fd.as_raw_fd())
    }
}

/// Prepares everything for `job` on this ground.
///
/// # Errors
/// A required layer cannot be had, or a path of the policy cannot be used.
pub fn prepare(job: &Job, ground: Ground) -> Result<Layers, PrepareError> {
    let wanted = &job.wanted;
    let mut builder = Builder::new(job, ground)?;
    if wanted.profile == Profile::Host {
        builder.host()?;
    } else {
        builder.files()?;
        builder.filter()?;
    }
    builder.input()?;
    builder.finish()
}

struct Builder<'a> {
    job: &'a Job,
    wanted: &'a Wanted,
    ground: Ground,
    layers: Layers,
    /// Why a layer is not on, for the sentence about a required one.
    why: Vec<(Layer, String)>,
    /// The policy grants reading `/` itself.
    granted_root: bool,
    /// Where a private tmp can be, once that was looked up.
    places: Option<TmpPlaces>,
    /// What is kept from the run.
    bounds: Option<Bounds>,
    /// What the run may write.
    writable: Vec<PathBuf>,
    /// Why there is no door to the listed sockets.
    shut: Option<String>,
}

impl<'a> Builder<'a> {
    fn new(job: &'a Job, ground: Ground) -> Result<Builder<'a>, PrepareError> {
        let wanted = &job.wanted;
        let mut enforced = Enforced::nothing(wanted.profile);
        enforced.set(Layer::Processes, if ground.namespaces { "pid_namespace" } else { "process_groups" });
        let identity = if wanted.profile == Profile::Host && wanted.user.is_none() {
            Identity::Same
        } else {
            identity::choose(wanted.user.as_deref(), &needs::of(job))
                .map_err(|e| PrepareError::Policy(e.to_string()))?
        };
        let layers = Layers {
            steps: Vec::new(),
            ground: None,
            secret: None,
            identity,
            enforced,
            envp: job.envp.clone(),
            planted: Planted::default(),
            warnings: Vec::new(),
            door: None,
            rules: None,
            tmp: None,
        };
        let mut builder = Builder {
            job,
            wanted,
            ground,
            layers,
            why: Vec::new(),
            granted_root: false,
            places: None,
            bounds: None,
            writable: Vec::new(),
            shut: None,
        };
        if wanted.profile != Profile::Host || wanted.user.is_some() {
            builder.identity();
        }
        Ok(builder)
    }

    fn identity(&mut self) {
        let prepared = identity::Prepared::new(self.layers.identity, self.ground.user_namespace);
        let apply = move || identity::apply(&prepared).map_err(|(_, errno)| errno);
        self.step(Step::Identity, Stage::Identity, Vec::new(), Box::new(apply));
        self.layers.enforced.set(Layer::Identity, self.layers.identity.describe());
    }

    fn step(&mut self, step: Step, stage: Stage, descriptors: Vec<RawFd>, apply: Box<dyn super::Apply>) {
        self.layers.steps.push(Prepared { step, stage, descriptors, apply });
    }

    fn missing(&mut self, layer: Layer, why: impl Into<String>) {
        self.why.push((layer, why.into()));
    }

    /// `host`: only what a policy asks for beyond limits.
    fn host(&mut self) -> Result<(), PrepareError> {
        let denies = self.wanted.filesystem.deny.as_ref().is_some_and(|d| !d.is_empty());
        if denies || !self.wanted.filesystem.map.is_empty() {
            self.files()?;
        }
        if self.wanted.network == NetworkMode::None || !self.wanted.unix.is_empty() {
            self.filter()?;
        }
        Ok(())
    }

    /// Landlock, the mounts and the private tmp.
    fn files(&mut self) -> Result<(), PrepareError> {
        let exec = self.executables();
        let host = self.wanted.profile == Profile::Host; // which keeps the real tmp
        let tmp = if host { "/tmp".into() } else { self.tmp()? };
        let lists = &self.wanted.filesystem;
        let inputs = Inputs {
            profile: self.wanted.profile,
            cwd: &self.job.cwd,
            filesystem: lists,
            program: &self.job.program_path,
            exec: exec.as_deref(),
            tmp: &tmp,
            guarded: &self.job.guarded,
            mounts: self.ground.namespaces,
            own_proc: self.ground.namespaces,
            privileged_reader: view::privileged_reader(&self.layers.identity),
            owns_system: self.layers.identity == Identity::PowerlessRoot,
            refuse_tcp: self.wanted.network == NetworkMode::None && !self.wanted.loopback,
        };
        let view = view::view(&inputs)
            .map_err(|e| PrepareError::Policy(format!("cannot make the run's view: {e}")))?;
        self.layers.warnings.extend_from_slice(&view.warnings);
        self.granted_root =
            view.rules.iter().chain(&view.late).any(|rule| is_same(&rule.path, Path::new("/")));
        self.unmade(&view)?;
        let mut kept = self.workspace();
        self.refuse(&view);
        self.writable.clone_from(&view.writable);
        kept.read_only.retain(|path| view.writable.iter().any(|dir| is_within(path, dir)));
        let rules = self.landlock(&view)?;
        if self.ground.namespaces {
            let read_only = kept.read_only.clone();
            self.mounts(&view, kept, rules)?;
            self.bound(view, read_only, exec, tmp);
            return Ok(());
        }
        self.recorded(&view)?;
        let mut holes: Vec<&Path> = view.holes().collect();
        holes.extend(kept.read_only.iter().map(PathBuf::as_path));
        self.holes(&holes);
        if !lists.map.is_empty() {
            self.unheld(Layer::Filesystem, "[filesystem] map needs a mount namespace".into());
        }
        self.bound(view, Vec::new(), exec, tmp);
        Ok(())
    }

    /// A layer is not held as the policy asks; where nothing requires it, that is at least said.
    fn unheld(&mut self, layer: Layer, why: String) {
        self.layers.enforced.lacks(layer);
        if !self.wanted.require.contains(&layer) {
            self.layers.warnings.push(why.clone());
        }
        self.missing(layer, why);
    }

    fn landlock(&mut self, view: &View) -> Result<Option<Rc<landlock::Prepared>>, PrepareError> {
        if self.wanted.profile == Profile::Host {
            return Ok(None);
        }
        match landlock::Prepared::new(view, landlock::abi()) {
            Ok(rules) => {
                let abi = rules.abi;
                let rules = Rc::new(rules);
                self.layers.rules = Some(Rc::clone(&rules));
                let shared = Rc::clone(&rules);
                let fd = rules.fd.as_raw_fd();
                let late = !self.ground.namespaces;
                let apply = move || {
                    if late {
                        landlock::add_late(fd, &shared.late).map_err(|(_, errno)| errno)?;
                    }
                    landlock::apply(fd)
                };
                self.step(Step::Landlock, Stage::Confine, vec![fd], Box::new(apply));
                let mounts = if self.ground.namespaces { ", mount namespace" } else { "" };
                self.layers.enforced.set(Layer::Filesystem, format!("landlock ABI {abi}{mounts}"));
                Ok(Some(rules))
            }
            Err(landlock::Error::Path(path, errno)) => {
                Err(PrepareError::Missing(landlock::Error::Path(path, errno).to_string()))
            }
            Err(error) => {
                self.missing(Layer::Filesystem, error.to_string());
                Ok(None)
            }
        }
    }

    fn mounts(
        &mut self,
        view: &View,
        kept: Kept,
        rules: Option<Rc<landlock::Prepared>>,
    ) -> Result<(), PrepareError> {
        let mut kept = kept;
        kept.hold_in_place(view.holes(), &view.writable);
        let size = self.wanted.filesystem.tmp.unwrap_or(TMP_SIZE);
        let spec = mount::Spec {
            view,
            cwd: &self.job.cwd,
            tmp_size: size,
            kept: Some(&kept),
            places: self.places.get_or_insert_with(TmpPlaces::find),
            map: &self.wanted.filesystem.map,
            own_proc: true,
        };
        let mounts = mount::Prepared::new(&spec).map_err(|e| PrepareError::Policy(e.to_string()))?;
        if self.wanted.profile == Profile::Host {
            // All of what the policy asked for: what is hidden, and what is shown elsewhere.
            self.layers.enforced.set(Layer::Filesystem, "mount namespace");
        } else {
            self.layers
                .enforced
                .set(Layer::Tmp, format!("private tmpfs of {size} bytes on {}", mounts.tmp.display()));
        }
        let path = CString::new(self.job.cwd.as_os_str().as_bytes()).map_err(std::io::Error::from)?;
        let judged = nix::sys::stat::fstat(&self.job.cwd_fd).map_err(std::io::Error::from)?;
        let cwd = (path, judged.st_dev, judged.st_ino);
        self.layers.ground = Some(GroundWork { mounts, late: rules, cwd, loopback: self.wanted.loopback });
        Ok(())
    }

    /// Where the private tmp is, and the environment that says so.
    fn tmp(&mut self) -> Result<PathBuf, PrepareError> {
        let dir = if self.ground.namespaces {
            self.places
                .get_or_insert_with(TmpPlaces::find)
                .first(&self.job.cwd, &self.wanted.filesystem)
                .ok_or_else(|| PrepareError::Policy(mount::Error::NoTmp.to_string()))?
        } else {
            let tmp = TmpDir::new(self.layers.identity.numbers(), self.job.caller_tmp.as_deref())?;
            let path = tmp.path().to_owned();
            self.layers.tmp = Some(tmp);
            self.missing(Layer::Tmp, "a private tmp with a size limit needs a mount namespace");
            path
        };
        for name in ["TMPDIR", "HOME"] {
            tmp::set_default(&mut self.layers.envp, name, &dir);
        }
        Ok(dir)
    }

    fn finish(mut self) -> Result<Layers, PrepareError> {
        let lacking: Vec<Layer> =
            self.wanted.require.iter().copied().filter(|layer| !self.layers.enforced.has(*layer)).collect();
        if lacking.is_empty() {
            self.readback();
            self.bounded();
            return Ok(self.layers);
        }
        self.why.retain(|(layer, _)| lacking.contains(layer));
        let why: Vec<String> = self.why.into_iter().map(|(_, why)| why).collect();
        Err(PrepareError::Required {
            layers: lacking,
            why: if why.is_empty() { "the profile does not provide it".into() } else { why.join("; ") },
            remedy: "see `guardexec doctor`, or leave it out of [sandbox] require to run without it".into(),
        })
    }
}
