//! What can go wrong when a cluster is put together.

use datafusion::error::DataFusionError;
use pagecast_cluster::WorkerPoolError;
use thiserror::Error;

/// An error of this host. Those of a running query are DataFusion's, or the pool's on a worker.
#[derive(Clone, Debug, Error)]
pub enum DistributedError {
    /// The session that plans queries has a pool of its own. Its scans cannot be sent to workers.
    #[error(
        "the session that plans for workers has a pool of its own, and its scans cannot be sent; \
         install pools on the workers alone (PooledWorker)"
    )]
    PoolOnCoordinator,
    /// The borders of ranges are no bytes apart.
    #[error("ranges of 0 bytes: set range_bytes to at least 1")]
    NoRange,
    /// A URL of a worker cannot be read.
    #[error("`{url}` is not the URL of a worker, such as http://10.0.0.7:50051: {what}")]
    Url {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        what: String,
    },
    /// A worker gets no pool: its options cannot hold, or the pool's host refuses.
    #[error(transparent)]
    Pool(#[from] WorkerPoolError),
}

impl From<DistributedError> for DataFusionError {
    fn from(error: DistributedError) -> Self {
        Self::External(Box::new(error))
    }
}
