//! The front process before and after the poll loop: pipes, the fork of the keeper, and the account at the end.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::LimitKind;
use super::child::Plan;
use super::keeper::{self, Task};
use super::leaving::{self, Leaving};
use super::message::{self, Order};
use super::output::Captured;
use super::sockets;
use super::stream::{Feeder, Sinks, Stream};
use super::supervisor::{Deadlines, Supervisor, Verdict};
use super::tree::{self, Held};
use super::{Ended, How, Outside, RunError};
use crate::policy::model::{Layer, NetworkMode, Profile};
use crate::sandbox::cgroup::Cgroup;
use crate::sandbox::door::{Porter, Refused};
use crate::sandbox::identity::Identity;
use crate::sandbox::layers::{self, Ground, Layers};
use crate::sandbox::namespace::Namespace;
use crate::sandbox::rlimit::{self, LimitsHow, PidsBy};
use crate::sandbox::{Confinement, Enforced, Input, Step, is_root};
use crate::sys::process::{self, Forked, Pid};
use crate::sys::signal::{SignalSet, Signals};
use crate::sys::{errno_of, fd};

/// What one way to hold the tree came to.
pub enum Attempt {
    /// It ran.
    Ended(Box<Ended>),
    /// It cannot be held this way; nothing ran.
    Unable(Step, i32),
}

/// The child's ends of what it reads and writes, and ours.
struct Ends<'s> {
    child: [OwnedFd; 3],
    streams: [Stream<'s>; 2],
    feeder: Feeder,
}

fn ends<'s>(c: &Confinement, sinks: &'s mut Sinks, identity: Identity) -> io::Result<Ends<'s>> {
    let pair = || -> io::Result<(OwnedFd, OwnedFd)> {
        let (read, write) = fd::pipe()?;
        Ok((fd::above_stdio(read)?, fd::above_stdio(write)?))
    };
    let fed = |bytes: &[u8], relay: bool| -> io::Result<(OwnedFd, Feeder)> {
        let (read, write) = pair()?;
        Ok((read, Feeder::new(write, bytes, relay)?))
    };
    let (input, feeder) = match &c.input {
        Input::Null => (fd::above_stdio(fd::open(c"/dev/null", libc::O_RDONLY)?)?, Feeder::none()),
        Input::File(file) => (fd::above_stdio(file.try_clone()?)?, Feeder::none()),
        Input::Relay => fed(&[], true)?,
        Input::Bytes(bytes) => fed(bytes, false)?,
    };
    let (out, out_child) = pair()?;
    let (err, err_child) = pair()?;
    if let Some((uid, gid)) = identity.numbers() {
        // Else the run could not open its own `/dev/stdout` again, or read what a pipe of ours feeds it.
        let ours = !matches!(c.input, Input::Null | Input::File(_));
        for end in [&out_child, &err_child].into_iter().chain(ours.then_some(&input)) {
            // A pipe is its maker's: already right inside a run of another guardexec, which may change no owner.
            if (uid, gid) != process::ids() {
                std::os::unix::fs::fchown(end, Some(uid), Some(gid))?;
            }
        }
    }
    let kept = || Captured::new(c.limits.output);
    Ok(Ends {
        child: [input, out_child, err_child],
        streams: [
            Stream::new(out, kept(), sinks.stdout.as_mut())?,
            Stream::new(err, kept(), sinks.stderr.as_mut())?,
        ],
        feeder,
    })
}

/// Who holds the run to its `pids`.
fn pids_by(namespace: Option<&Namespace>, identity: Identity, cgroup: Option<&Cgroup>) -> PidsBy {
    match namespace {
        _ if cgroup.is_some_and(|group| group.holds.pids) => PidsBy::Cgroup,
        _ if identity.is_alone() => PidsBy::OwnUser,
        Some(namespace) if namespace.counts_tasks() => PidsBy::OwnNamespace,
        // The one number that is left where no other is mapped: every run's, and the machine's nobody.
        _ if matches!(identity, Identity::Anonymous(_)) => PidsBy::User,
        _ if is_root() => PidsBy::Watch,
        _ => PidsBy::User,
    }
}

fn pids_exact(by: PidsBy) -> bool {
    matches!(by, PidsBy::OwnNamespace | PidsBy::OwnUser | PidsBy::Cgroup)
}

fn ground(namespace: Option<&Namespace>) -> Ground {
    let user_namespace = namespace.is_some_and(Namespace::has_user_namespace);
    Ground { namespaces: namespace.is_some(), user_namespace }
}

/// How well each limit will be held.
fn limits_how(c: &Confinement, pids: PidsBy, cgroup: Option<&Cgroup>) -> LimitsHow {
    let how = LimitsHow::of(&c.limits, pids_exact(pids));
    cgroup.map_or(how, |group| how.in_cgroup(group.holds))
}

/// The namespaces to be made: those that hold the tree, and under confinement those that keep the run to itself.
fn flags(c: &Confinement, namespace: Option<&Namespace>) -> i32 {
    let Some(namespace) = namespace else { return 0 };
    let ipc = if c.wanted.profile == Profile::Host { 0 } else { libc::CLONE_NEWIPC };
    let net = if c.wanted.loopback && c.wanted.network == NetworkMode::None { libc::CLONE_NEWNET } else { 0 };
    namespace.flags() | ipc | net
}

/// Being a subreaper, so that the keeper's orphans come here; undone when dropped.
pub(crate) struct Reaper {
    before: BTreeSet<Pid>,
    on: bool,
}

impl Reaper {
    /// Only in groups, and only where no child of somebody else (of whoever called exec on guardexec) could be
    /// taken for one of the run.
    pub(crate) fn new(held: Held) -> Reaper {
        if held == Held::Namespace {
            return Reaper { before: BTreeSet::new(), on: false };
        }
        let before: BTreeSet<Pid> = tree::children_of(process::own_pid()).into_iter().collect();
        let on = before.is_empty() && process::set_subreaper(true).is_ok();
        Reaper { before, on }
    }

    /// After the keeper's death: ends everything that it left to us. Whether nothing is left.
    pub(crate) fn sweep(&self) -> bool {
        let end = Instant::now() + keeper::REAP;
        while self.on && Instant::now() < end {
            tree::sweep(&self.before, Duration::from_millis(500));
            loop {
                match process::try_wait(-1) {
                    process::Waited::Reaped(..) => {}
                    process::Waited::NoChildren => return true,
                    process::Waited::NoneDead => break,
                }
            }
            pause(Duration::from_millis(5));
        }
        !self.on
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        if self.on {
            let _ = process::set_subreaper(false);
        }
    }
}

fn pause(time: Duration) {
    let mut none: [fd::PollFd; 0] = [];
    let _ = fd::ppoll(&mut none, Some(time), &SignalSet::full());
}

/// Tries to run `c` with its tree held in `namespace` or, without one, as groups, and in `cgroup` if there is one.
/// `refusal`: why it could not be held in a better way.
pub fn attempt(
    c: &Confinement,
    namespace: Option<&Namespace>,
    cgroup: Option<Cgroup>,
    outside: Outside<'_>,
    sinks: &mut Sinks,
    refusal: Option<(Step, i32)>,
) -> Result<Attempt, RunError> {
    let held = if namespace.is_some() { Held::Namespace } else { Held::Groups };
    let mut layers = layers::prepare(c, ground(namespace))?;
    // Root without CAP_SYS_ADMIN may be to become somebody that the namespace would not map.
    if ground(namespace).user_namespace && !layers.identity.fits_user_namespace() {
        return Ok(Attempt::Unable(Step::Identity, libc::EPERM));
    }
    let cgroup = cgroup.as_ref();
    layers.enforced.set(Layer::Processes, name_of(held, cgroup));
    let Ends { child, streams, feeder } = ends(c, sinks, layers.identity)?;
    let (control, far) = fd::message_pair()?;
    let pids = pids_by(namespace, layers.identity, cgroup);
    let limits_how = limits_how(c, pids, cgroup);
    let stdio = [&child[0], &child[1], &child[2]].map(AsRawFd::as_raw_fd);
    let plan = Plan::new(c, &layers, stdio, rlimit::table(&c.limits, pids), rlimit::affinity(&c.limits));
    let (reaper, began) = (Reaper::new(held), Instant::now());
    let deadlines = Deadlines::new(began, &c.limits);
    let (control_far, ground, backstop) =
        (fd::above_stdio(far)?, layers.ground.as_ref(), deadlines.backstop());
    let (limits, pids_exact, tmp) = (&c.limits, pids_exact(pids), layers.tmp.as_ref());
    let task =
        Task { control: control_far, namespace, ground, plan, cgroup, tmp, limits, pids_exact, backstop };
    let (pid, pidfd) = match launch(c, flags(c, namespace), task)? {
        Ok(keeper) => keeper,
        Err((step @ Step::WorkingDirectory, errno)) => {
            let ended = settle(Verdict::not_started(step, errno), streams, layers.enforced, limits_how);
            return Ok(Attempt::Ended(Box::new(ended)));
        }
        Err((step, errno)) => return Ok(Attempt::Unable(step, errno)),
    };
    let (control, porter) = ready(&mut layers, control, pid, pidfd.as_ref())?;
    let _ = message::send(control.as_fd(), &Order::Start(Signals::ignored()));
    drop(child); // The child's ends live on in the child alone: else there would never be an end of file.
    let _ = process::set_dumpable(false);
    let mut supervisor = Supervisor::new(control, pidfd, streams, feeder, deadlines, outside);
    supervisor.drive();
    let (gone, leaving) = conclude(&mut supervisor, pid, cgroup, held, &reaper);
    let refused = porter.map(Porter::close);
    let duration = began.elapsed();
    if let Some((step, errno)) = supervisor.verdict.unable {
        return Ok(Attempt::Unable(step, errno));
    }
    let Supervisor { verdict, streams, .. } = supervisor;
    let mut ended = settle(verdict, streams, layers.enforced.clone(), limits_how);
    (ended.duration, ended.leaving) = (duration, leaving);
    ended.unreaped |= !gone;
    ended.warnings.extend(warnings(held, refusal, &reaper, cgroup.is_some()));
    afterwards(&mut ended, &mut layers, refused);
    Ok(Attempt::Ended(Box::new(ended)))
}

/// What has to be there before the keeper is told to start the child. Where it is not, the keeper goes: without a word it
/// starts nothing.
fn ready(
    layers: &mut Layers,
    control: OwnedFd,
    keeper: Pid,
    pidfd: Option<&OwnedFd>,
) -> Result<(OwnedFd, Option<Porter>), RunError> {
    let porter = layers.complete().map_err(RunError::from).and_then(|()| {
        let door = layers.door.take();
        Ok(door.map(Porter::open).transpose()?)
    });
    match porter {
        Ok(porter) => Ok((control, porter)),
        Err(error) => {
            drop(control);
            leaving::reap(keeper, pidfd);
            Err(error)
        }
    }
}

/// What the layers have to say at the end. `refused`: what the porter says, where there was one.
fn afterwards(ended: &mut Ended, layers: &mut Layers, refused: Option<Option<Refused>>) {
    let (said, planted) = layers.afterwards();
    ended.warnings.extend(said);
    ended.planted = planted;
    if let Some(refused) = refused {
        sockets::tell(ended, refused);
    }
}

/// Sees the end of the keeper, and of all that it could not end itself; takes what is left in the pipes. Whether
/// nothing is left but a keeper that is leaving.
fn conclude(
    supervisor: &mut Supervisor<'_>,
    pid: Pid,
    cgroup: Option<&Cgroup>,
    held: Held,
    reaper: &Reaper,
) -> (bool, Option<Leaving>) {
    if supervisor.verdict.account.is_some() {
        // The tree is dead and accounted for. Meanwhile the kernel takes down the keeper and its namespaces.
        supervisor.drain();
        return (true, Some(Leaving::new(pid, supervisor.pidfd.take())));
    }
    let mut gone = leaving::reap(pid, supervisor.pidfd.as_ref());
    if supervisor.verdict.lost {
        gone &= hunt(&mut supervisor.verdict, held, cgroup, reaper);
    }
    supervisor.drain();
    (gone, None)
}

/// Ends what a keeper left that was killed itself. Whether all of it is gone.
fn hunt(verdict: &mut Verdict, held: Held, cgroup: Option<&Cgroup>, reaper: &Reaper) -> bool {
    if let Some(group) = cgroup {
        group.kill();
        // A child that ran out of memory before its exec shared that memory with the keeper.
        let starved = group.out_of_memory().then_some(LimitKind::Memory);
        verdict.limit = verdict.limit.or(starved);
    }
    held != Held::Groups || reaper.sweep()
}

type Launched = Result<(Pid, Option<OwnedFd>), (Step, i32)>;

/// Forks the keeper from inside the run's working directory: a working directory is carried over into a new mount
/// namespace, a descriptor of it would not be. Then goes back.
fn launch(c: &Confinement, flags: i32, task: Task<'_>) -> io::Result<Launched> {
    let back = fd::open(c".", libc::O_PATH | libc::O_DIRECTORY).ok();
    if let Err(error) = fd::fchdir(c.cwd_fd.as_fd()) {
        return Ok(Err((Step::WorkingDirectory, errno_of(&error))));
    }
    let forked = process::fork(flags);
    if matches!(forked, Ok(Forked::Child)) {
        keeper::keep(task);
    }
    if let Some(back) = back {
        let _ = fd::fchdir(back.as_fd());
    }
    Ok(match forked {
        Ok(Forked::Parent(pid, pidfd)) => Ok((pid, pidfd)),
        Ok(Forked::Child) => unreachable!("the keeper never returns"),
        Err(error) => Err((Step::Keeper, errno_of(&error))),
    })
}

fn settle(verdict: Verdict, streams: [Stream<'_>; 2], enforced: Enforced, limits_how: LimitsHow) -> Ended {
    let mut warnings = verdict.warnings;
    let [stdout, stderr] = streams.map(Stream::finish);
    let mut unpassed = None;
    for (name, failed) in [("stdout", stdout.1), ("stderr", stderr.1)] {
        let Some(errno) = failed else { continue };
        let why = io::Error::from_raw_os_error(errno);
        let what = format!("could not pass on all of the command's {name}: {why}");
        match errno {
            libc::EPIPE => warnings.push(what),
            _ => unpassed = unpassed.or(Some(what)),
        }
    }
    let account = verdict.account;
    if let Some(refused) = account.map(|a| a.refused).filter(|&n| n > 0) {
        warnings.push(format!(
            "the run wanted more processes or threads than its pids limit: {refused} were refused"
        ));
    }
    let usage = account.map(|a| a.usage).or(verdict.main_usage).unwrap_or_default();
    Ended {
        how: verdict.how.unwrap_or(How::Unknown),
        limit: verdict.limit,
        duration: Duration::ZERO,
        cpu_user: usage.user,
        cpu_system: usage.system,
        max_rss: Some(usage.max_rss).filter(|&bytes| bytes > 0),
        processes: account.map(|a| a.processes),
        stdout: stdout.0,
        stderr: stderr.0,
        survivors: account.map_or(0, |a| a.survivors),
        enforced,
        limits_how,
        unreaped: verdict.unreaped || account.is_some_and(|a| a.unreaped),
        planted: false,
        unpassed,
        sockets_refused: Vec::new(),
        warnings,
        leaving: None,
    }
}

/// How results name what holds the tree.
fn name_of(held: Held, cgroup: Option<&Cgroup>) -> &'static str {
    match (held, cgroup) {
        (Held::Namespace, Some(_)) => "pid_namespace + cgroup_v2",
        (Held::Groups, Some(_)) => "cgroup_v2",
        (_, None) => held.as_str(),
    }
}

fn warnings(held: Held, refusal: Option<(Step, i32)>, reaper: &Reaper, cgroup: bool) -> Vec<String> {
    let mut all = Vec::new();
    if let (Held::Groups, Some((step, errno))) = (held, refusal) {
        let why = io::Error::from_raw_os_error(errno);
        all.push(format!(
            "no PID namespace (could not {step}: {why}): the tree is held {}",
            if cgroup { "in a cgroup" } else { "as supervised process groups" }
        ));
    }
    if held == Held::Groups && !reaper.on && !cgroup {
        all.push(
            "guardexec was started with children that are not its own, so it could not stand in for its keeper: \
             had the run killed the keeper, processes could have been left"
                .to_owned(),
        );
    }
    all.extend(rlimit::core_handler());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_user_counts_approximately() {
        let by = |uid| pids_by(None, Identity::Anonymous(uid), None);
        assert_eq!(by(65534), PidsBy::User);
        assert!(!pids_exact(by(65534)) && pids_exact(by(1_900_000_000)));
    }
}
