//! What can be wrong with a DuckLake table, in one line each.

use std::path::{Path, PathBuf};

use datafusion::common::DataFusionError;

/// Why a table cannot be opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DuckLakeError {
    /// The catalog is no database of DuckLake, or a broken one.
    #[error("{}: the catalog cannot be read ({source}); it has to be a DuckLake catalog in SQLite", .path.display())]
    Catalog {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The catalog or a file is not what the specification says.
    #[error("{}: {what}", .path.display())]
    Broken {
        /// The database or file.
        path: PathBuf,
        /// What is wrong in it.
        what: String,
    },
    /// There is no such table or snapshot.
    #[error("{}: {what}", .path.display())]
    Missing {
        /// The database.
        path: PathBuf,
        /// What is not there.
        what: String,
    },
    /// The table uses something that is not read here.
    #[error("{}: the table has {feature}, which pagecast does not read", .path.display())]
    Feature {
        /// The database.
        path: PathBuf,
        /// Its name in the specification, and what it is about.
        feature: String,
    },
    /// DataFusion, Arrow or the Parquet decoder failed.
    #[error(transparent)]
    DataFusion(#[from] DataFusionError),
}

impl DuckLakeError {
    pub(crate) fn broken(path: &Path, what: impl Into<String>) -> Self {
        Self::Broken { path: path.to_owned(), what: what.into() }
    }

    pub(crate) fn missing(path: &Path, what: impl Into<String>) -> Self {
        Self::Missing { path: path.to_owned(), what: what.into() }
    }

    pub(crate) fn feature(path: &Path, feature: impl Into<String>) -> Self {
        Self::Feature { path: path.to_owned(), feature: feature.into() }
    }
}

impl From<DuckLakeError> for DataFusionError {
    fn from(error: DuckLakeError) -> Self {
        match error {
            DuckLakeError::DataFusion(error) => error,
            error => Self::External(Box::new(error)),
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, DuckLakeError>;
