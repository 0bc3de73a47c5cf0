//! Rust's errors as Python's, each one line.

use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use pagecast_sql::{Misuse, OpenError, Setting, tables};
use pyo3::PyErr;
use pyo3::exceptions::{PyRuntimeError, PyValueError};

pyo3::create_exception!(
    pagecast_sql,
    SqlError,
    PyRuntimeError,
    "A statement or a table that failed: what, where, and what to do. One line."
);

/// Why a connection cannot be opened, by the argument at fault.
pub(crate) fn of_opening(OpenError { setting, cause }: OpenError) -> PyErr {
    let argument = setting.map(|setting| match setting {
        Setting::Data => "data",
        Setting::Endpoint => "endpoint",
        Setting::Flash => "flash",
        Setting::Policy => "policy",
        Setting::Memory => "memory",
        Setting::Temp => "temp",
    });
    of(&match argument {
        Some(argument) => cause.context(argument),
        None => cause,
    })
}

/// What the caller got wrong is a `ValueError`.
pub(crate) fn of(error: &anyhow::Error) -> PyErr {
    let text = one_line(&format!("{error:#}"));
    match error.is::<Misuse>() {
        true => PyValueError::new_err(text),
        false => SqlError::new_err(text),
    }
}

/// What DataFusion says, without the words that it puts before.
pub(crate) fn of_datafusion(error: &DataFusionError) -> PyErr {
    SqlError::new_err(one_line(&tables::message(error)))
}

pub(crate) fn of_arrow(error: &ArrowError) -> PyErr {
    SqlError::new_err(one_line(&error.to_string()))
}

/// `text` with every run of white space, line ends included, made one blank.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
