//! What can be wrong with an Iceberg table, in one line each.

use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};

use datafusion::common::DataFusionError;

/// Why a table cannot be opened or read. No message holds what a catalog was asked with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IcebergError {
    /// A file of the table could not be read.
    #[error("{at}: {source}")]
    Io {
        /// The file or folder.
        at: String,
        /// What its store says.
        source: object_store::Error,
    },
    /// A file of the table is not what the specification says.
    #[error("{at}: {fault}; restore the file from a copy, or open an older snapshot")]
    Broken {
        /// The file.
        at: String,
        /// What is wrong in it.
        fault: String,
    },
    /// The table uses something that is not read here.
    #[error("{at}: the table has {feature}, which pagecast does not read")]
    Feature {
        /// The table's metadata or file.
        at: String,
        /// Its name in the specification.
        feature: String,
    },
    /// There is no such table, or no such version of it.
    #[error("{at}: {what}")]
    Missing {
        /// Where it was looked for.
        at: String,
        /// What is not there.
        what: String,
    },
    /// What is asked for is not allowed.
    #[error("{at}: {what}")]
    Refused {
        /// The table or catalog.
        at: String,
        /// Why not.
        what: String,
    },
    /// A catalog did not answer as it should.
    #[error("{at}: the catalog says: {said}")]
    Catalog {
        /// Its address, without secrets.
        at: String,
        /// Its words.
        said: String,
    },
    /// DataFusion, Arrow or the Parquet decoder failed.
    #[error(transparent)]
    DataFusion(#[from] DataFusionError),
}

impl IcebergError {
    pub(crate) fn io(at: impl Into<String>) -> impl FnOnce(object_store::Error) -> Self {
        |source| Self::Io { at: at.into(), source }
    }

    pub(crate) fn broken(at: impl Into<String>, fault: impl Display) -> Self {
        let fault = fault.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Self::Broken { at: at.into(), fault }
    }

    pub(crate) fn feature(at: impl Into<String>, feature: impl Into<String>) -> Self {
        Self::Feature { at: at.into(), feature: feature.into() }
    }
}

/// What the libraries make of a file. They may panic over nonsense.
pub(crate) fn decoded<T, E: Display>(at: &str, decode: impl FnOnce() -> std::result::Result<T, E>) -> Result<T> {
    match panic::catch_unwind(AssertUnwindSafe(decode)) {
        Ok(decoded) => decoded.map_err(|error| IcebergError::broken(at, error)),
        Err(_) => Err(IcebergError::broken(at, "its bytes make no sense")),
    }
}

impl From<IcebergError> for DataFusionError {
    fn from(error: IcebergError) -> Self {
        match error {
            IcebergError::DataFusion(error) => error,
            error => Self::External(Box::new(error)),
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, IcebergError>;
