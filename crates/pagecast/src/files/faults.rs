//! Calls of the file system that fail as a test has planned. Files are written by threads of
//! others, so plans are for folders; without one, a call costs a look at an empty list.
#![doc(hidden)]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static PLANS: Mutex<Vec<State>> = Mutex::new(Vec::new());

/// What becomes of a call that fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planned {
    /// Nothing of it is done.
    Nothing,
    /// All of it is done, and an error is said nevertheless.
    All,
}

#[derive(Debug)]
struct State {
    folder: PathBuf,
    calls_left: usize,
    how: Planned,
    failed: Option<&'static str>,
}

/// One call beneath a folder fails, for as long as this is kept.
#[derive(Debug)]
pub struct Plan(PathBuf);

impl Plan {
    /// Has the `call`th call beneath `folder` fail, 0 being the next. A folder has one plan.
    pub fn new(folder: &Path, call: usize, how: Planned) -> Self {
        plans().push(State { folder: folder.to_owned(), calls_left: call, how, failed: None });
        Self(folder.to_owned())
    }

    /// The call that has failed, if one has.
    pub fn failed(&self) -> Option<&'static str> {
        plans().iter().find(|plan| plan.folder == self.0)?.failed
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        plans().retain(|plan| plan.folder != self.0);
    }
}

fn plans() -> MutexGuard<'static, Vec<State>> {
    PLANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the next call beneath a folder is to fail, and how.
fn next(path: &Path, what: &'static str) -> Option<Planned> {
    let mut plans = plans();
    let plan = plans.iter_mut().find(|plan| plan.failed.is_none() && path.starts_with(&plan.folder))?;
    let Some(left) = plan.calls_left.checked_sub(1) else {
        plan.failed = Some(what);
        return Some(plan.how);
    };
    plan.calls_left = left;
    None
}

/// One call.
pub(super) fn call<T>(path: &Path, what: &'static str, operate: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some(planned) = next(path, what) else { return operate() };
    if planned == Planned::All {
        operate()?;
    }
    Err(io::Error::new(io::ErrorKind::StorageFull, "no room, as planned"))
}
