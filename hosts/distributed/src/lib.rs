//! pagecast on the workers of `datafusion_distributed`: each worker reads its Parquet files
//! through one pool, and each range of row groups is at home on one worker.
//!
//! * [`affinity`]: which worker has which range. It knows no DataFusion.

pub mod affinity;
