//! What pagecast's hosts on several machines share. Each engine has a host of its own; this is
//! beneath them.
//!
//! * [`affinity`]: which worker has which range. It knows no DataFusion.
//! * [`ranges`]: the Parquet files of a scan, cut on fixed borders.
//! * [`dealing`]: which task reads which ranges, so that they are read at home.
//! * [`WorkerPool`]: the pool of a worker's process, and the rule that puts it under the scans of
//!   a plan. [`has_pool`] tells a session that must not have one.

pub mod affinity;
pub mod dealing;
mod pool;
pub mod ranges;

pub use pool::{Rule, WorkerPool, WorkerPoolError, has_pool};
