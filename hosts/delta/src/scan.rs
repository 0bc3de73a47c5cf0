//! What a scan of a version reads: its files, by the reader of all tables, and beside them the rows
//! that were inserted and not yet committed.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::compute::concat_batches;
use datafusion::catalog::Session;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::common::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use pagecast_core::positions::{Layer, Piece};
use pagecast_tables::{TableFile, TableSnapshot, with_position};

use crate::held::Held;

/// A version as a scan sees it.
pub(crate) struct View<'a> {
    pub(crate) snapshot: &'a Arc<Held>,
    /// Where its rows are.
    pub(crate) layer: Layer,
    /// Inserted rows, by their numbers in a layer.
    pub(crate) inserted: Vec<RecordBatch>,
}

impl View<'_> {
    /// A scan of these columns. With `positions` the hidden column is the last; there inserted rows
    /// have the negative numbers behind zero.
    pub(crate) fn scan(
        &self,
        state: &dyn Session,
        projection: &[usize],
        limit: Option<usize>,
        positions: bool,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files = self.files()?;
        let rows = self.in_memory(positions)?;
        let inserted = rows.iter().map(RecordBatch::num_rows).sum::<usize>();
        let only_inserted = files.is_empty() && inserted > 0;
        let store = ObjectStoreUrl::local_filesystem();
        let stored = TableSnapshot::new(store, self.snapshot.columns.table.clone(), files)
            .of_rows(self.layer.rows() - inserted as u64)
            .pinned_by(Arc::clone(self.snapshot) as _);
        let stored = if positions {
            stored.scan_with_positions(state, projection, limit)?
        } else {
            stored.scan(state, projection, limit)?
        };
        if inserted == 0 {
            return Ok(stored);
        }
        let inserted = self.memory_source(rows, projection, positions)?;
        if only_inserted { Ok(inserted) } else { UnionExec::try_new(vec![stored, inserted]) }
    }

    /// The files of which rows are left, with those rows.
    fn files(&self) -> Result<Vec<TableFile>> {
        let mut files = Vec::new();
        for (first, file) in &self.snapshot.files {
            let pieces = self.layer.pieces(self.layer.rids_of(*first..first + file.rows));
            let stored = pieces.filter_map(|piece| match piece {
                Piece::Stored(rows) => Some((rows.start - first) as usize..(rows.end - first) as usize),
                Piece::Inserted(_) => None,
            });
            let left: Vec<Range<usize>> = stored.collect();
            if left.is_empty() {
                continue;
            }
            let table_file = TableFile::at(&file.path, file.add.size as u64)?
                .with_values(file.values.clone())
                .with_statistics(Arc::clone(&file.statistics))
                .with_first(*first)
                .left(file.rows, left);
            files.push(table_file);
        }
        Ok(files)
    }

    /// The inserted rows that are left.
    fn in_memory(&self, positions: bool) -> Result<Vec<RecordBatch>> {
        let mut slices = Vec::new();
        let behind = self.layer.rids_of(self.snapshot.stored..self.snapshot.stored);
        for piece in self.layer.pieces(behind) {
            let Piece::Inserted(insert) = piece else { continue };
            let mut start = 0;
            for batch in &self.inserted {
                let end = start + batch.num_rows() as u64;
                let (from, to) = (insert.rows.start.max(start), insert.rows.end.min(end));
                if from < to {
                    let rows = batch.slice((from - start) as usize, (to - from) as usize);
                    slices.push(if positions { numbered(&rows, from..to)? } else { rows });
                }
                start = end;
            }
        }
        Ok(slices)
    }

    fn memory_source(
        &self,
        rows: Vec<RecordBatch>,
        projection: &[usize],
        positions: bool,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = rows[0].schema();
        let mut columns = projection.to_vec();
        columns.extend(positions.then(|| self.snapshot.schema().fields().len()));
        // Statements of few rows leave small batches.
        let rows = concat_batches(&schema, &rows)?;
        Ok(MemorySourceConfig::try_new_exec(&[vec![rows]], schema, Some(columns))?)
    }
}

/// The rows with their positions: those in memory have negative ones.
fn numbered(rows: &RecordBatch, numbers: Range<u64>) -> Result<RecordBatch> {
    let positions: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.map(|number| -1 - number as i64)));
    let columns = rows.columns().iter().cloned().chain([positions]).collect();
    Ok(RecordBatch::try_new(with_position(&rows.schema()), columns)?)
}
