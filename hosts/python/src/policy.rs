//! A replacement policy that is written in Python.

use crate::errors;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pagecast_core::oracle::Oracle;
use pagecast_core::policy::{Access, Claimed, Frames, PolicySpec, SequentialPolicy};
use pagecast_core::{FrameId, PageId};
use pagecast_sim::simulation::OwnPolicy;
use pagecast_sim::watch::Watch;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// The interpreter's lock is let go every so many calls, so that Ctrl-C and progress have it, too.
const CALLS: u32 = 1 << 12;

/// A class, or whatever makes a policy of a number of frames.
pub(crate) struct PythonPolicy {
    name: String,
    make: Py<PyAny>,
    /// What the policy raised first.
    fault: Arc<Mutex<Option<PyErr>>>,
}

impl PythonPolicy {
    /// `make` is called with the number of frames, once a replay.
    pub(crate) fn of(make: &Bound<'_, PyAny>) -> PyResult<Self> {
        if !make.is_callable() {
            let cause = "a policy is a name like \"lru\", or a class that is called with the number of frames";
            return Err(PyTypeError::new_err(format!("policies: {cause}, not {}", make.get_type())));
        }
        let named = make.getattr("name").or_else(|_| make.getattr("__name__"));
        let name = named.and_then(|name| name.extract()).or_else(|_| Ok::<_, PyErr>(make.repr()?.to_string()))?;
        Ok(Self { name, make: make.clone().unbind(), fault: Arc::default() })
    }

    /// What it raised.
    pub(crate) fn fault(&self) -> Option<PyErr> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl OwnPolicy for PythonPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn build(&self, frames: u32, watch: Arc<Watch>) -> Box<dyn SequentialPolicy> {
        let made = Python::attach(|py| {
            let policy = self.make.bind(py).call1((frames,))?;
            let method = |name| policy.getattr(name).map(Bound::unbind);
            // Only the choice is a must: `admit` and `hit` may have nothing to do.
            Ok((method("evict")?, method("admit").ok(), method("hit").ok()))
        });
        let mut running = Running {
            name: self.name.clone(),
            methods: None,
            frames: HashMap::default(),
            calls: 0,
            fault: Arc::clone(&self.fault),
            watch,
        };
        match made {
            Ok((evict, admit, hit)) => running.methods = Some(Methods { evict, admit, hit }),
            Err(error) => running.fail(error),
        }
        Box::new(running)
    }

    /// Attached all the time: to attach for each call would cost more than most calls.
    fn around(&self, replay: &mut dyn FnMut()) {
        Python::attach(|_| replay());
    }
}

struct Methods {
    evict: Py<PyAny>,
    admit: Option<Py<PyAny>>,
    hit: Option<Py<PyAny>>,
}

/// One of them in a replay.
struct Running {
    name: String,
    /// `None` once it has failed.
    methods: Option<Methods>,
    frames: HashMap<PageId, FrameId, FixedState>,
    calls: u32,
    fault: Arc<Mutex<Option<PyErr>>>,
    watch: Arc<Watch>,
}

impl Running {
    fn fail(&mut self, error: PyErr) {
        self.methods = None;
        self.watch.stop();
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Calls a method that gives nothing back, if there is one.
    fn tell(&mut self, method: fn(&Methods) -> Option<&Py<PyAny>>, page: PageId) {
        self.breathe();
        let told = match self.methods.as_ref().and_then(method) {
            Some(method) => Python::attach(|py| method.bind(py).call1((page.raw(),)).map(drop)),
            None => return,
        };
        if let Err(error) = told {
            self.fail(error);
        }
    }

    fn breathe(&mut self) {
        self.calls = self.calls.wrapping_add(1);
        if self.calls.is_multiple_of(CALLS) {
            Python::attach(|py| py.detach(|| ()));
        }
    }

    /// The frame of the page that it gives up.
    fn choose(&mut self, incoming: PageId) -> Option<(FrameId, PageId)> {
        let evict = &self.methods.as_ref()?.evict;
        let chosen = Python::attach(|py| {
            let page = evict.bind(py).call1((incoming.raw(),))?;
            page.extract::<u64>().map_err(|_| {
                let cause = "`evict` gives the id of the page that leaves, not";
                PyTypeError::new_err(format!("policy `{}`: {cause} {}", self.name, page.get_type()))
            })
        });
        let page = match chosen {
            Ok(page) => PageId::from_raw(page),
            Err(error) => {
                self.fail(error);
                return None;
            }
        };
        match self.frames.remove(&page) {
            Some(frame) => Some((frame, page)),
            None => {
                let cause = "`evict` gave up page";
                let text = format!("policy `{}`: {cause} {}, which is not in the pool", self.name, page.raw());
                self.fail(PyValueError::new_err(text));
                None
            }
        }
    }
}

impl SequentialPolicy for Running {
    fn hit(&mut self, _frame: FrameId, access: &Access) {
        self.tell(|methods| methods.hit.as_ref(), access.page);
    }

    fn evict(&mut self, frames: &dyn Frames, incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        self.breathe();
        if let Some((frame, page)) = self.choose(incoming.page) {
            return frames.claim(frame, page).ok();
        }
        // It has failed: the replay ends soon, and until then anything will do.
        let frame = FrameId(0);
        let page = frames.evictable(frame)?;
        frames.claim(frame, page).ok()
    }

    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.frames.insert(access.page, frame);
        self.tell(|methods| methods.admit.as_ref(), access.page);
    }

    fn forget(&mut self, _frame: FrameId, page: PageId) {
        self.frames.remove(&page);
    }

    fn check(&self) {}
}

/// A policy as Python gives it: a name with parameters, or a class.
pub(crate) enum Given {
    Known(PolicySpec),
    Own(Arc<PythonPolicy>),
}

/// The policies in a text, or in a list of texts and classes.
pub(crate) fn given(policies: &Bound<'_, PyAny>) -> PyResult<Vec<Given>> {
    if let Ok(text) = policies.extract::<String>() {
        let list = PolicySpec::parse_list(&text).map_err(|error| errors::of_policy(&error))?;
        return Ok(list.into_iter().map(Given::Known).collect());
    }
    let one = |policy: &Bound<'_, PyAny>| match policy.extract::<String>() {
        Ok(text) => Ok(Given::Known(PolicySpec::parse(&text).map_err(|error| errors::of_policy(&error))?)),
        Err(_) => Ok(Given::Own(Arc::new(PythonPolicy::of(policy)?))),
    };
    let all = match policies.is_callable() {
        true => vec![one(policies)?],
        false => policies.try_iter()?.map(|policy| one(&policy?)).collect::<PyResult<Vec<_>>>()?,
    };
    match all.is_empty() {
        true => Err(PyValueError::new_err("policies: at least one is wanted")),
        false => Ok(all),
    }
}
