//! The simulator as a Python extension module: page traces from arrays and files, replays on many
//! threads, results as Arrow tables.
//!
//! `array` is the only module with unsafe code: it reads the buffers of Python objects. What a
//! user sees is `python/pagecast`; this is what it is made of.
#![deny(unsafe_code)]

mod array;
mod arrow;
mod errors;
mod policy;
mod records;
mod results;
mod study;
mod trace;
mod wait;

/// `pagecast._pagecast`.
#[pyo3::pymodule]
mod _pagecast {
    #[pymodule_export]
    use crate::errors::TraceError;
    #[pymodule_export]
    use crate::results::Result;
    #[pymodule_export]
    use crate::study::{curve, policies, simulate, workloads};
    #[pymodule_export]
    use crate::trace::{Trace, generate};

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
