//! What can go wrong beside the pool's own errors. Each names the file.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use pagecast::PoolError;
use parquet::errors::ParquetError;
use thiserror::Error;

/// An error of this host. Reaches the user inside a `DataFusionError`, as one line.
#[derive(Clone, Debug, Error)]
pub enum HostError {
    /// The session has a pool already.
    #[error("session {session} has a pool already; use the host of the first install, or install into a new session")]
    Installed {
        /// The session's id.
        session: String,
    },
    /// The session's runtime cannot be made anew.
    #[error("the session's runtime cannot be made anew with a pool: {source}")]
    Runtime {
        /// What DataFusion says.
        source: Arc<DataFusionError>,
    },
    /// The bytes at the end of the file are not a Parquet footer, or not a whole one.
    #[error("{}: not a readable Parquet file: {source}", path.display())]
    Footer {
        /// The file.
        path: PathBuf,
        /// What the decoder found.
        source: Arc<ParquetError>,
    },
    /// The file is encrypted.
    #[error("{} is encrypted: pagecast reads no encrypted Parquet files", path.display())]
    Encrypted {
        /// The file.
        path: PathBuf,
    },
    /// The pool refuses: the file changed, or cannot be read.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The file lies outside of what the session may read.
    #[error("{}: it leads out of the folder of the data, and is not read", path.display())]
    Outside {
        /// The file, as it was asked for.
        path: PathBuf,
    },
    /// A decoder panicked over what the file says.
    #[error("{}: not a readable Parquet file: its decoder panicked: {what}", path.display())]
    Decoder {
        /// The file.
        path: PathBuf,
        /// What the panic says.
        what: String,
    },
    /// A decoder found what the file does not have in this place.
    #[error("{}: its data cannot be decoded: {what}; the file is broken", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What the decoder says.
        what: String,
    },
    /// The statement was planned with a listing of the file that is no longer true.
    #[error("{}: the file changed after the statement was planned ({what}); run it again", path.display())]
    Relisted {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: String,
    },
}

impl From<HostError> for ParquetError {
    fn from(error: HostError) -> Self {
        Self::External(Box::new(error))
    }
}

impl From<HostError> for DataFusionError {
    fn from(error: HostError) -> Self {
        Self::External(Box::new(error))
    }
}
