//! `pagecast.simulate` and `pagecast.curve`: many policies at many sizes, on many threads.

use crate::policy::{Given, PythonPolicy, given};
use crate::results::Result as Table;
use crate::trace::Trace;
use crate::{errors, wait};
use pagecast_sim::simulation::{Contender, Interleaving};
use pagecast_sim::size::Size;
use pagecast_sim::study::{Input, Results, Study, StudyError, Work};
use pagecast_sim::trace::Format;
use pagecast_sim::watch::Watch;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt};
use std::path::PathBuf;
use std::sync::Arc;

/// `pagecast.simulate` behind its Python face.
#[pyfunction]
#[pyo3(signature = (traces, policies, sizes, *, format, page_size, latency, seed, threads, progress))]
#[expect(clippy::too_many_arguments, reason = "what a user may say")]
pub(crate) fn simulate(
    py: Python<'_>,
    traces: &Bound<'_, PyAny>,
    policies: &Bound<'_, PyAny>,
    sizes: &Bound<'_, PyAny>,
    format: &str,
    page_size: &Bound<'_, PyAny>,
    latency: Option<u32>,
    seed: u64,
    threads: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Table> {
    let policies = Policies::of(policies)?;
    if latency.is_some()
        && let Some(opt) = policies.contenders.iter().find(|policy| policy.needs_trace())
    {
        return Err(PyValueError::new_err(format!(
            "policies: `{}` cannot run in logical time, where the order depends on the policy; every row has opt_misses, the \
             fewest misses of its own order, instead",
            opt.name()
        )));
    }
    let sizes = many(sizes, |one| size(one, "sizes"))?;
    let page_size = match size(page_size, "page_size")? {
        Size::Bytes(bytes) | Size::Plain(bytes) => bytes,
        Size::Share(_) => return Err(PyValueError::new_err("page_size: a number of bytes is wanted")),
    };
    let study = Study {
        page_size,
        interleaving: latency.map_or(Interleaving::Fixed, |latency| Interleaving::Logical { latency }),
        seed,
        ..Study::of(inputs(traces, format)?, policies.contenders.clone(), sizes)
    };
    let results = perform(py, study.clone(), &policies, threads, progress)?;
    Table::of_rows(study, results)
}

/// `pagecast.curve` behind its Python face.
#[pyfunction]
#[pyo3(signature = (traces, policies, points, *, sample, format, seed, threads, progress))]
#[expect(clippy::too_many_arguments, reason = "what a user may say")]
pub(crate) fn curve(
    py: Python<'_>,
    traces: &Bound<'_, PyAny>,
    policies: &Bound<'_, PyAny>,
    points: u32,
    sample: f64,
    format: &str,
    seed: u64,
    threads: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Table> {
    if !(2..=1000).contains(&points) {
        return Err(PyValueError::new_err(format!("points: {points} is not from 2 to 1000")));
    }
    if !(sample > 0.0 && sample <= 1.0) {
        return Err(PyValueError::new_err(format!("sample: {sample} is not above 0 and up to 1")));
    }
    let policies = Policies::of(policies)?;
    let study = Study {
        curve: Some(points),
        sample,
        seed,
        ..Study::of(inputs(traces, format)?, policies.contenders.clone(), Vec::new())
    };
    let results = perform(py, study.clone(), &policies, threads, progress)?;
    Table::of_curves(study, results)
}

/// The names of all policies.
#[pyfunction]
pub(crate) fn policies() -> Vec<&'static str> {
    pagecast_core::policy::names().collect()
}

/// The workloads that `generate` makes: by name, what each imitates and takes.
#[pyfunction]
pub(crate) fn workloads(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    pagecast_sim::generate::workloads().try_for_each(|(name, about)| all.set_item(name, about))?;
    Ok(all)
}

/// What is to be compared, and which of it may raise.
struct Policies {
    contenders: Vec<Contender>,
    own: Vec<Arc<PythonPolicy>>,
}

impl Policies {
    fn of(policies: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut of = Self { contenders: Vec::new(), own: Vec::new() };
        for policy in given(policies)? {
            of.contenders.push(match policy {
                Given::Known(spec) => Contender::Known(spec),
                Given::Own(own) => {
                    of.own.push(Arc::clone(&own));
                    Contender::Own(own)
                }
            });
        }
        Ok(of)
    }
}

/// One thing, or each of several.
fn many<T>(of: &Bound<'_, PyAny>, one: fn(&Bound<'_, PyAny>) -> PyResult<T>) -> PyResult<Vec<T>> {
    if let Ok(text) = of.extract::<String>() {
        return text.split(',').map(|part| one(&part.trim().into_pyobject(of.py())?.into_any())).collect();
    }
    if of.is_instance_of::<PyInt>() || of.is_instance_of::<PyFloat>() {
        return Ok(vec![one(of)?]);
    }
    let all = of.try_iter()?.map(|item| one(&item?)).collect::<PyResult<Vec<_>>>()?;
    match all.is_empty() {
        true => Err(PyValueError::new_err("sizes: at least one is wanted")),
        false => Ok(all),
    }
}

/// A pool's size: a text as on the command line, a number of pages, or a share of the pages.
/// `what` names it in errors.
fn size(of: &Bound<'_, PyAny>, what: &str) -> PyResult<Size> {
    let refused = |error: String| PyValueError::new_err(format!("{what}: {error}"));
    if let Ok(text) = of.extract::<String>() {
        return Size::of_pool(&text).map_err(refused);
    }
    if of.is_instance_of::<PyFloat>() {
        let share: f64 = of.extract()?;
        return match share > 0.0 && share <= 1.0 {
            true => Ok(Size::Share(share)),
            false => Err(refused(format!("{share} is no share of the pages, above 0 and up to 1"))),
        };
    }
    match of.extract::<i128>() {
        Ok(pages) => Size::of_pool(&pages.to_string()).map_err(refused),
        Err(_) => {
            let kind = of.get_type();
            let cause = "write 1000 (pages), 0.1 (of the pages), \"10%\" or \"64MiB\", not";
            Err(PyTypeError::new_err(format!("{what}: {cause} {kind}")))
        }
    }
}

/// A trace, an array of page ids or a file, or several.
fn inputs(traces: &Bound<'_, PyAny>, format: &str) -> PyResult<Vec<Input>> {
    let format: Format = format.parse().map_err(PyValueError::new_err)?;
    let one = |object: &Bound<'_, PyAny>| -> PyResult<Input> {
        if let Ok(trace) = object.cast::<Trace>() {
            return Ok(Input::Trace(Arc::clone(&trace.get().loaded)));
        }
        match object.extract::<PathBuf>() {
            Ok(path) => Ok(Input::File(path, format.clone())),
            Err(_) => {
                let made = object.py().get_type::<Trace>().call1((object,))?;
                Ok(Input::Trace(Arc::clone(&made.cast::<Trace>()?.get().loaded)))
            }
        }
    };
    let several = traces.is_instance_of::<pyo3::types::PyList>() || traces.is_instance_of::<pyo3::types::PyTuple>();
    if !several {
        return Ok(vec![one(traces)?]);
    }
    let all = traces.try_iter()?.map(|trace| one(&trace?)).collect::<PyResult<Vec<_>>>()?;
    match all.is_empty() {
        true => Err(PyValueError::new_err("traces: at least one is wanted")),
        false => Ok(all),
    }
}

/// Runs all of it. The first fault is raised; the others are notes to it.
fn perform(
    py: Python<'_>,
    study: Study,
    policies: &Policies,
    threads: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Results> {
    let watch = Arc::new(Watch::default());
    let work = Arc::new(Work::new(Arc::new(study), Arc::clone(&watch), |_| ()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.unwrap_or(cores).min(work.jobs());
    let tick = || match progress {
        Some(progress) => progress.call1(watch.progress()).map(drop),
        None => Ok(()),
    };
    let done = wait::on_threads(py, &work, threads, &watch, Work::run, tick);
    if let Some(fault) = policies.own.iter().find_map(|policy| policy.fault()) {
        return Err(fault);
    }
    done?;
    let (results, faults) = work.finish();
    if let Some((first, others)) = faults.split_first() {
        return Err(noted(py, first, others));
    }
    if let Some(progress) = progress {
        let (_, all) = watch.progress();
        progress.call1((all, all))?;
    }
    Ok(results)
}

fn noted(py: Python<'_>, first: &StudyError, others: &[StudyError]) -> PyErr {
    let error = errors::of_study(first);
    for other in others {
        // A note that cannot be added is no reason to lose the error.
        let _ = error.value(py).call_method1("add_note", (other.to_string(),));
    }
    error
}
