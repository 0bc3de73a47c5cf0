//! The atomics and the mutex that core uses, exchanged for a schedule explorer's under test.
//!
//! Build with `--cfg pagecast_shuttle` or `--cfg pagecast_loom` to run the concurrency models. Public because the
//! memory that a host hands in, and the words it lends to a policy, must be made of the same atomics.

#[cfg(not(any(pagecast_shuttle, pagecast_loom)))]
pub use core::sync::atomic;
#[cfg(pagecast_loom)]
pub use loom::sync::atomic;
#[cfg(all(pagecast_shuttle, not(pagecast_loom)))]
pub use shuttle::sync::atomic;

#[cfg(all(feature = "std", pagecast_loom))]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(all(feature = "std", pagecast_shuttle, not(pagecast_loom)))]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
#[cfg(all(feature = "std", not(any(pagecast_shuttle, pagecast_loom))))]
pub(crate) use std::sync::{Mutex, MutexGuard};
