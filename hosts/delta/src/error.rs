//! What can be wrong with a Delta table, in one line each.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use datafusion::common::DataFusionError;

/// Why a table cannot be opened, read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeltaError {
    /// A file of the table could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the file system says.
        source: io::Error,
    },
    /// A file of the table is not what the protocol says.
    #[error("{}{}: {fault}; {advice}", path.display(), at.map_or_else(String::new, |at| format!(", byte {at}")))]
    Broken {
        /// The file.
        path: PathBuf,
        /// Where in it.
        at: Option<u64>,
        /// What is wrong there.
        fault: String,
        /// What to do.
        advice: &'static str,
    },
    /// The table uses something that we do not know.
    #[error("{}: {what} {feature}, which pagecast does not know; nothing was done", path.display())]
    Feature {
        /// The table's folder.
        path: PathBuf,
        /// Who must know it.
        what: &'static str,
        /// Its name in the protocol.
        feature: String,
    },
    /// There is no table, or no such version of it.
    #[error("{}: {what}", path.display())]
    Missing {
        /// The table's folder.
        path: PathBuf,
        /// What is not there.
        what: String,
    },
    /// Somebody else has committed a change that this one does not go with. Nothing of this one is
    /// in the table.
    #[error("{}: version {version} {what}; nothing was changed, run the statement again", path.display())]
    Conflict {
        /// The table's folder.
        path: PathBuf,
        /// The version of the other change.
        version: u64,
        /// What the other one did.
        what: String,
    },
    /// The change is not possible in this table.
    #[error("{}: {what}", path.display())]
    Refused {
        /// The table's folder.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// DataFusion, Arrow or the Parquet decoder failed.
    #[error(transparent)]
    DataFusion(#[from] DataFusionError),
}

/// What to do about a broken log.
pub(crate) const RESTORE: &str = "restore the file from a copy, or open an older version";

impl DeltaError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Io { path, source }
    }

    pub(crate) fn broken(path: &Path, at: impl Into<Option<u64>>, fault: impl Into<String>) -> Self {
        Self::Broken { path: path.to_owned(), at: at.into(), fault: one_line(&fault.into()), advice: RESTORE }
    }

    /// The same of this file.
    pub(crate) fn of_file(self, file: &Path) -> Self {
        match self {
            Self::Broken { at, fault, advice, .. } => Self::Broken { path: file.to_owned(), at, fault, advice },
            other => other,
        }
    }

    pub(crate) fn parquet(path: &Path, error: &dyn std::fmt::Display) -> Self {
        Self::broken(path, None, format!("no whole Parquet file ({error})"))
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What is decoded of this Parquet file. The decoder may panic over nonsense.
pub(crate) fn decoded<T>(path: &Path, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    let decoded = panic::catch_unwind(AssertUnwindSafe(decode));
    decoded.unwrap_or_else(|_| Err(DeltaError::parquet(path, &"its bytes make no sense")))
}

impl From<DeltaError> for DataFusionError {
    fn from(error: DeltaError) -> Self {
        match error {
            DeltaError::DataFusion(error) => error,
            error => Self::External(Box::new(error)),
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, DeltaError>;
