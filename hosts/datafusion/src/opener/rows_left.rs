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

    pub(super) fn are_all(&self) -> bool {
        self.mask.is_none()
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, AsArray, Int32Array};
    use datafusion::arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn rows_are_taken_out_of_one_batch_after_the_other() {
        let left = |row: i32| row % 10 != 7 && !(16..24).contains(&row) && row < 50;
        let mask: BooleanBuffer = (0..60).map(left).collect();
        let mut rows = RowsLeft::most(&RowSelection::from_boolean_buffer(mask.clone())).unwrap();
        let mut taken = Vec::new();
        for start in (0..60).step_by(8) {
            let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(start..60.min(start + 8)));
            let batch = RecordBatch::try_from_iter([("row", numbers)]).unwrap();
            let out = rows.take_out_of(&batch).unwrap();
            assert_eq!(out.is_none(), start == 16 || start >= 56, "{start}");
            taken.extend(out.iter().flat_map(|out| out.column(0).as_primitive::<Int32Type>().values().to_vec()));
        }
        assert_eq!(taken, (0..60).filter(|&row| left(row)).collect::<Vec<_>>());
        // Of a row group with few rows left the others need not be decoded.
        assert!(RowsLeft::most(&RowSelection::from_boolean_buffer(!&mask)).is_none());
    }
}
