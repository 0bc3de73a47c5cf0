//! The rows of a row group that are left, of which all were decoded.

use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::FilterBuilder;
use datafusion::common::Result;
use parquet::arrow::arrow_reader::RowSelection;

/// Which rows of a row group are left, and how far they were taken.
pub(super) struct RowsLeft {
    /// Without it all are.
    mask: Option<BooleanBuffer>,
    at: usize,
}

impl RowsLeft {
    pub(super) fn all() -> Self {
        Self { mask: None, at: 0 }
    }

    /// Nothing if fewer than half are left: then it is cheaper not to decode the others.
    pub(super) fn most(rows: &RowSelection) -> Option<Self> {
        let mask = rows.as_mask()?;
        (2 * rows.row_count() >= mask.len()).then(|| Self { mask: Some(mask.clone()), at: 0 })
    }

    /// The rows that are left of the next batch; nothing if none are.
    pub(super) fn take_out_of(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let Some(mask) = &self.mask else { return Ok(Some(batch.clone())) };
        let rows = batch.num_rows();
        let left = mask.slice(self.at, rows);
        self.at += rows;
        Ok(match left.count_set_bits() {
            0 => None,
            all if all == rows => Some(batch.clone()),
            _ => {
                let filter = FilterBuilder::new(&BooleanArray::new(left, None)).optimize().build();
                Some(filter.filter_record_batch(batch)?)
            }
        })
    }
}
