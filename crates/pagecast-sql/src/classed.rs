//! An error that says its class.

use std::fmt;

use arrow::error::ArrowError;
use datafusion::common::DataFusionError;

/// One line, and the class that programs understand (SQLSTATE).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Classed {
    /// SQLSTATE.
    pub code: &'static str,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl Classed {
    /// An error of this class.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// What nothing here does.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new("0A000", message)
    }

    /// The one that went through DataFusion or Arrow.
    pub fn of(error: &DataFusionError) -> Option<&Self> {
        match error.find_root() {
            DataFusionError::External(error) => error.downcast_ref(),
            DataFusionError::ArrowError(error, _) => match &**error {
                ArrowError::ExternalError(error) => {
                    error.downcast_ref().or_else(|| Self::of(error.downcast_ref::<DataFusionError>()?))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

impl fmt::Display for Classed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Classed {}

impl From<Classed> for DataFusionError {
    fn from(error: Classed) -> Self {
        Self::External(Box::new(error))
    }
}
