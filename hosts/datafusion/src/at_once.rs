//! What a row group of many columns becomes while it is decoded.
//!
//! The decoder holds a page of each column that it decodes. Of a few columns that is little beside
//! what is read; of hundreds it is more than that, and comes before anybody has seen a batch.

use std::ops::Range;

use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::page_index::offset_index::OffsetIndexMetaData;

/// Reads of fewer ranges than so many hold next to nothing decoded.
const MANY: usize = 32;
/// Bytes of a page that no index tells of: what writers make unless they are told otherwise.
const PAGE: u64 = 1 << 20;

/// Bytes of pages that are decoded at once from `ranges`, which are of one row group.
pub(crate) fn decoded_at_once(footer: &ParquetMetaData, ranges: &[Range<u64>]) -> u64 {
    let Some(first) = ranges.first().filter(|_| ranges.len() >= MANY) else { return 0 };
    let is_read = |column: &ColumnChunkMetaData| {
        let (start, len) = column.byte_range();
        let after = ranges.partition_point(|range| range.end <= start);
        ranges.get(after).is_some_and(|range| range.start < start + len)
    };
    let has_first = |column: &ColumnChunkMetaData| {
        let (start, len) = column.byte_range();
        (start..start + len).contains(&first.start)
    };
    let found = footer.row_groups().iter().position(|row_group| row_group.columns().iter().any(has_first));
    let Some(number) = found else { return 0 };
    let index = footer.offset_index().and_then(|index| index.get(number));
    let columns = footer.row_group(number).columns().iter().enumerate();
    columns
        .filter(|(_, column)| is_read(column))
        .map(|(leaf, column)| page_of(column, index.and_then(|index| index.get(leaf))))
        .sum()
}

/// Bytes of the largest page of a column chunk, uncompressed.
fn page_of(column: &ColumnChunkMetaData, index: Option<&OffsetIndexMetaData>) -> u64 {
    let all = column.uncompressed_size().max(0) as u64;
    let stored = column.compressed_size().max(1) as f64;
    let pages = index.into_iter().flat_map(|index| &index.page_locations);
    match pages.map(|page| page.compressed_page_size.max(0)).max() {
        Some(largest) => (all as f64 * (f64::from(largest) / stored).min(1.0)) as u64,
        None => all.min(PAGE),
    }
}
