//! The mounts for a view of everything: the `host` profile with a `deny` or a `map`.

use std::path::PathBuf;

use super::{Error, Plan, Prepared, Spec, Step, c_path, root};

impl Prepared {
    /// For a view of everything (`host`): the mounts stay as they are, and only what is denied is hidden, and what is
    /// mapped shown. The stand-ins lie in a tmpfs on a directory where nothing is hidden, which goes again.
    pub(super) fn over_everything(spec: &Spec<'_>) -> Result<Prepared, Error> {
        let hidden = spec.view.hide.iter().map(PathBuf::as_path);
        let apart =
            |dir: &PathBuf| !hidden.clone().any(|path| path.starts_with(dir) || dir.starts_with(path));
        let stage = spec.places.free(std::iter::empty()).into_iter().find(apart).ok_or(Error::NoTmp)?;
        let mut plan = Plan { steps: vec![Step::Private], slots: 0 };
        if let Some(seen) = root::missing(spec.map)?.first() {
            return Err(Error::MapTarget(seen.to_path_buf()));
        }
        let mut trees = Vec::new();
        for (seen, from) in spec.map {
            plan.hold_one(&mut trees, from, seen, true)?;
        }
        plan.attach(&trees, &[])?;
        if !spec.view.hide.is_empty() {
            let at = c_path(&stage)?;
            plan.steps.push(Step::Tmpfs { at: at.clone(), data: c"size=64K,mode=755".to_owned() });
            plan.hide(spec, &stage)?;
            plan.steps.push(Step::Unmount(at));
        }
        if spec.own_proc {
            plan.steps.push(Step::Proc);
        }
        Ok(Prepared { steps: plan.steps, tmp: stage })
    }
}
