//! SQL through one pool as a Python extension module: results as Arrow streams.
//!
//! `capsule_unsafe` is the only module with unsafe code: it takes streams out of their capsules.
//! What a user sees is `python/pagecast_sql`; this is what it is made of.
#![deny(unsafe_code)]

mod capsule_unsafe;
mod errors;
mod open;
mod rows;
mod session;
mod statement;
mod statistics;
mod wait;

/// Counted, so that `memory` bounds what statements really take.
#[global_allocator]
static HEAP: pagecast_sql::CountedHeap = pagecast_sql::CountedHeap;

/// `pagecast_sql._engine`.
#[pyo3::pymodule]
mod _engine {
    #[pymodule_export]
    use crate::errors::SqlError;
    #[pymodule_export]
    use crate::rows::Stream;
    #[pymodule_export]
    use crate::session::{Session, open};
    #[pymodule_export]
    use crate::statement::Statement;

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
