//! Some row groups of a file as a file of their own.
//!
//! DataFusion names row groups by a list with an entry for each that the file has. Such a list for
//! every part of a file that is opened by itself would cost the square of the file's row groups, in
//! time and in memory. A part carries the numbers of its own row groups instead, and its reader
//! shows the opener a footer that has no others. Where rows are counted from the beginning of the
//! file, all row groups between two of them are shown as one, which the part's access plan skips.

use std::ops::Range;
use std::sync::Arc;

use parquet::errors::Result;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataBuilder, RowGroupMetaData};

/// The row groups that the opener is to see, by their numbers: a single one, or several that are
/// shown as one. Rides on the file that is opened.
#[derive(Clone, Debug)]
pub(crate) struct RowGroups(pub(crate) Arc<[Range<usize>]>);

impl RowGroups {
    /// The file's footer with these row groups alone.
    pub(crate) fn of(&self, footer: Arc<ParquetMetaData>) -> Result<Arc<ParquetMetaData>> {
        let shown = &self.0;
        if shown.len() == footer.num_row_groups() {
            return Ok(footer);
        }
        let row_groups = shown.iter().map(|numbers| as_one(&footer.row_groups()[numbers.clone()]));
        let view = ParquetMetaDataBuilder::new(footer.file_metadata().clone())
            .set_row_groups(row_groups.collect::<Result<_>>()?)
            .set_column_index(footer.column_index().and_then(|index| some_of(index, shown)))
            .set_offset_index(footer.offset_index().and_then(|index| some_of(index, shown)));
        Ok(Arc::new(view.build()))
    }
}

/// The first of them, with the rows of all.
fn as_one(row_groups: &[RowGroupMetaData]) -> Result<RowGroupMetaData> {
    match row_groups {
        [one] => Ok(one.clone()),
        several => {
            let rows = several.iter().map(RowGroupMetaData::num_rows).sum();
            several[0].clone().into_builder().set_num_rows(rows).build()
        }
    }
}

/// The entries of the first of each; nothing if the index does not have them all.
fn some_of<T: Clone>(index: &[T], shown: &[Range<usize>]) -> Option<Vec<T>> {
    shown.iter().map(|numbers| index.get(numbers.start).cloned()).collect()
}
