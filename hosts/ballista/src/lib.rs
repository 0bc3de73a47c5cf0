//! pagecast on the executors of Ballista: each executor reads its Parquet files through one pool,
//! and each range of row groups is at home on one executor.
//!
//! [`PooledExecutor`] configures the process of an executor. [`at_home`] configures the scheduler.
//!
//! * `scheduler`: what a scheduler is started with; it refuses sessions that have a pool.
//! * `policy`: which executor gets which partition of a stage, and when it waits.
//! * `homes`: what each partition of a stage reads, and who has it.
//! * `executor`: puts the pool under the scans of the plans that an executor is sent.
//!
//! Where a range is at home, how files are cut and the pool of a worker are [`pagecast_cluster`]'s.
//! The user's guide is `docs/distributed.md`; `examples/ballista.rs` is its code.

mod error;
mod executor;
mod homes;
mod policy;
mod scheduler;

pub use error::BallistaHostError;
pub use executor::PooledExecutor;
pub use scheduler::{SchedulerOptions, at_home};
