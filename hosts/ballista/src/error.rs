//! What can go wrong when a cluster is put together.

use ballista_core::error::BallistaError;
use datafusion::error::DataFusionError;
use pagecast_cluster::WorkerPoolError;
use thiserror::Error;

/// An error of this host. Those of a running query are Ballista's.
#[derive(Debug, Error)]
pub enum BallistaHostError {
    /// A session of the scheduler has a pool of its own. Each task would read all of its scans.
    #[error(
        "a session of the scheduler has a pool of its own, and each task would read its scans whole; \
         install pools on the executors alone (PooledExecutor)"
    )]
    PoolOnScheduler,
    /// The borders of ranges are no bytes apart.
    #[error("ranges of 0 bytes: set range_bytes to at least 1")]
    NoRange,
    /// An executor gets no pool: its options cannot hold, or the pool's host refuses.
    #[error(transparent)]
    Pool(#[from] WorkerPoolError),
    /// Ballista does not make the state of the cluster.
    #[error("the scheduler's state cannot be made: {0}")]
    Cluster(#[from] BallistaError),
}

impl From<BallistaHostError> for DataFusionError {
    fn from(error: BallistaHostError) -> Self {
        Self::External(Box::new(error))
    }
}
