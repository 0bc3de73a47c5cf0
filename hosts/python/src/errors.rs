//! Rust's errors as Python's, with the same sentences.

use pagecast_core::policy::PolicyError;
use pagecast_sim::simulation::SimulationError;
use pagecast_sim::study::StudyError;
use pagecast_sim::trace::TraceError as Fault;
use pyo3::PyErr;
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};

pyo3::create_exception!(
    pagecast,
    TraceError,
    PyValueError,
    "A trace that cannot be read: the file, the place in it and the cause."
);

pub(crate) fn of_trace(error: &Fault) -> PyErr {
    TraceError::new_err(error.to_string())
}

pub(crate) fn of_policy(error: &PolicyError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

pub(crate) fn of_study(error: &StudyError) -> PyErr {
    match error {
        StudyError::Trace(error) => of_trace(error),
        StudyError::Simulation(SimulationError::Stopped) => PyKeyboardInterrupt::new_err(()),
        other => PyValueError::new_err(other.to_string()),
    }
}
