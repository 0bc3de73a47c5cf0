//! Rust's errors as Python's, each one line.

use pagecast_sql::{Misuse, OpenError, Setting};
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
        Setting::Pool => "memory",
        Setting::Flash => "flash",
        Setting::Policy => "policy",
        Setting::Memory => "query_memory",
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

/// `text` with every run of white space, line ends included, made one blank.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
