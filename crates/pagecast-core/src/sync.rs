//! The atomics and the mutex that core uses, exchanged for a schedule explorer's under test.
//!
//! Build with `--cfg pagecast_shuttle` to run the concurrency models. Public because the memory
//! that a host hands in, and the words it lends to a policy, must be made of the same atomics.

#[cfg(not(pagecast_shuttle))]
pub use core::sync::atomic;
#[cfg(pagecast_shuttle)]
pub use shuttle::sync::atomic;

#[cfg(all(feature = "std", pagecast_shuttle))]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, TryLockError};
#[cfg(all(feature = "std", not(pagecast_shuttle)))]
pub(crate) use std::sync::{Mutex, MutexGuard, TryLockError};
