//! Filters that become narrower while a scan runs: what a join's build side holds, the best rows so
//! far.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use datafusion::datasource::physical_plan::parquet::ParquetAccessPlan;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;

use crate::read_plan::{PlannedFile, left_now};

/// The filter of a scan that may change, and the state of it that was last looked at.
pub(crate) struct Narrowing {
    config: FileScanConfig,
    filter: Arc<dyn PhysicalExpr>,
    generation: AtomicU64,
}

impl Narrowing {
    /// Nothing if the filter cannot change. What it lets through now has been planned.
    pub(crate) fn of(config: &FileScanConfig) -> Option<Self> {
        let filter = config.file_source().downcast_ref::<ParquetSource>()?.filter()?;
        // The generation of filters without a part that changes is 0, and any other's is not.
        let generation = Some(snapshot_generation(&filter)).filter(|generation| *generation != 0)?;
        Some(Self { config: config.clone(), filter, generation: AtomicU64::new(generation) })
    }

    /// Whether it has changed since this was last asked. One of several who ask at once is told.
    pub(crate) fn has_changed(&self) -> bool {
        let now = snapshot_generation(&self.filter);
        self.generation.swap(now, Relaxed) != now
    }

    /// Which of these row groups statistics leave now. In doubt all of them; the opener has the
    /// last word.
    pub(crate) fn left(
        &self,
        file: &PlannedFile,
        row_groups: impl Iterator<Item = usize>,
    ) -> Option<ParquetAccessPlan> {
        left_now(&self.config, file, row_groups).ok()
    }
}
