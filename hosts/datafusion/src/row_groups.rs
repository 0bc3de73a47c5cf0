//! Some row groups of a file as a file of their own.
//!
//! DataFusion names row groups by a list with an entry for each that the file has. Such a list for
//! every part of a file that is opened by itself would cost the square of the file's row groups, in
//! time and in memory. A part carries the numbers of its own row groups instead, and its reader
//! shows the opener a footer that has no others.

use std::sync::Arc;

use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataBuilder};

/// The numbers of the row groups that the opener is to see. Rides on the file that is opened.
#[derive(Clone, Debug)]
pub(crate) struct RowGroups(pub(crate) Arc<[usize]>);

impl RowGroups {
    /// The file's footer with these row groups alone.
    pub(crate) fn of(&self, footer: Arc<ParquetMetaData>) -> Arc<ParquetMetaData> {
        let chosen = &self.0;
        if chosen.len() == footer.num_row_groups() {
            return footer;
        }
        let row_groups = chosen.iter().map(|&number| footer.row_group(number).clone()).collect();
        let view = ParquetMetaDataBuilder::new(footer.file_metadata().clone())
            .set_row_groups(row_groups)
            .set_column_index(footer.column_index().and_then(|index| some_of(index, chosen)))
            .set_offset_index(footer.offset_index().and_then(|index| some_of(index, chosen)));
        Arc::new(view.build())
    }
}

/// The entries of these numbers; nothing if the index does not have them all.
fn some_of<T: Clone>(index: &[T], chosen: &[usize]) -> Option<Vec<T>> {
    chosen.iter().map(|&number| index.get(number).cloned()).collect()
}
