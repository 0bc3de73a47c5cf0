//! How scans get their rows.

use super::table::Table;
use super::workload::{ScanProgram, Workload};
use crate::generate::call::Call;
use pagecast_core::predictor::PredictorConfig;
use std::fmt;
use std::ops::Range;

/// How scans get their rows.
#[derive(Clone, PartialEq, Debug)]
pub enum Delivery {
    /// In the order of the table. The scan asks for `ahead` pages of each column before it needs
    /// them.
    Ordered {
        /// Pages.
        ahead: u32,
    },
}

impl Delivery {
    /// Reads `name` or `name(parameter=value,...)`.
    ///
    /// # Errors
    ///
    /// An unknown name or parameter, or a value out of its range, in one line that says which there
    /// are.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut call = Call::parse(text)?;
        let delivery = match call.name() {
            "ordered" => Self::Ordered { ahead: call.count("ahead", 2, 0, 1024)? },
            name => return Err(format!("unknown delivery `{name}`; there is ordered")),
        };
        call.finish()?;
        Ok(delivery)
    }

    /// How this scan is delivered.
    pub(super) fn of(&self, _table: &Table, _program: &ScanProgram) -> Self {
        self.clone()
    }

    /// The stretches of `rows` that are registered apart.
    pub(super) fn shares(&self, rows: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        std::iter::once(rows.clone())
    }

    /// Workers of a registration.
    pub(super) fn workers(&self) -> u32 {
        1
    }

    /// What the predictor needs room for.
    pub(super) fn room(&self, workload: &Workload) -> PredictorConfig {
        let scans = workload.streams.len().max(1) as u32;
        let runs = workload.tables.iter().map(|table| table.units * table.columns.len() as u32).max().unwrap_or(1);
        // Runs lie next to each other in one space that fragments: twice the room.
        PredictorConfig { scans, parts: scans, runs: 2 * scans * runs, cells: 4096, ..PredictorConfig::EMPTY }
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ordered { ahead } => write!(f, "ordered(ahead={ahead})"),
        }
    }
}
