//! pagecast on the workers of [`datafusion_distributed`]: each worker reads its Parquet files
//! through one pool, and each range of row groups is at home on one worker.
//!
//! [`PooledWorker`] makes the worker of a process. [`distribute`] prepares the session in which
//! queries are planned. [`Members`] says which workers there are.
//!
//! Without affinity a cluster's caches are worth little: the planner cuts files by the number of
//! tasks and begins at a worker drawn by lot, so the next query reads other bytes on each worker.
//! Here files are cut on fixed borders, and a range goes where it went before.
//!
//! Where a range is at home, how files are cut and the pool of a worker are
//! [`pagecast_cluster`]'s.
//!
//! * `leaf`: how many tasks a scan wants, and what each of them reads.
//! * `route`: which worker runs which task of a stage.
//! * `coordinator`: puts these into a session, and refuses one that has a pool.
//! * `channel`: errors say which worker they come from.
//! * `worker`: puts the pool under the scans of the plans that a worker is sent.
//!
//! The user's guide is `docs/distributed.md`; `examples/cluster.rs` is its code.

mod channel;
mod coordinator;
mod error;
mod leaf;
mod members;
mod route;
mod worker;

pub use coordinator::{CoordinatorOptions, distribute};
pub use error::DistributedError;
pub use members::Members;
pub use worker::PooledWorker;
