//! What a row group of many columns becomes while it is decoded.
//!
//! The decoder holds a page of each column that it decodes. Of a few columns that is little beside
//! what is read; of hundreds it is more than that, and comes before anybody has seen a batch.

use std::ops::Range;

use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
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
    let Some(number) = row_group_at(footer.row_groups(), first.start) else { return 0 };
    let index = footer.offset_index().and_then(|index| index.get(number));
    let columns = footer.row_group(number).columns().iter().enumerate();
    columns
        .filter(|(_, column)| is_read(column))
        .map(|(leaf, column)| page_of(column, index.and_then(|index| index.get(leaf))))
        .sum()
}

/// The number of the row group that has this byte of the file. Looks at one, where they lie in
/// their order.
fn row_group_at(row_groups: &[RowGroupMetaData], byte: u64) -> Option<usize> {
    let begins = |row_group: &RowGroupMetaData| row_group.columns().first().map_or(0, |column| column.byte_range().0);
    let has = |row_group: &RowGroupMetaData| {
        let mut ranges = row_group.columns().iter().map(ColumnChunkMetaData::byte_range);
        ranges.any(|(start, len)| (start..start + len).contains(&byte))
    };
    let likely = row_groups.partition_point(|row_group| begins(row_group) <= byte).checked_sub(1);
    likely.filter(|&number| has(&row_groups[number])).or_else(|| row_groups.iter().position(has))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use bytes::Bytes;
    use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
    use parquet::file::properties::WriterProperties;

    use super::*;

    /// Three row groups of 40 columns, each a page of 8,000 bytes.
    fn footer(index: PageIndexPolicy) -> ParquetMetaData {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3000));
        let columns = (0..40).map(|number| (format!("c{number}"), Arc::clone(&column)));
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let properties =
            WriterProperties::builder().set_max_row_group_row_count(Some(1000)).set_dictionary_enabled(false).build();
        let mut data = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut data, rows.schema(), Some(properties)).unwrap();
        writer.write(&rows).and_then(|()| writer.close()).unwrap();
        ParquetMetaDataReader::new().with_page_index_policy(index).parse_and_finish(&Bytes::from(data)).unwrap()
    }

    #[test]
    fn a_page_of_each_column_is_decoded_at_once() {
        for index in [PageIndexPolicy::Required, PageIndexPolicy::Skip] {
            let footer = footer(index);
            for row_group in footer.row_groups() {
                let ranges = row_group.columns().iter().map(|column| {
                    let (start, len) = column.byte_range();
                    start..start + len
                });
                let ranges: Vec<_> = ranges.collect();
                let all = row_group.columns().iter().map(|column| column.uncompressed_size() as u64).sum::<u64>();
                assert!(all >= 40 * 8000);
                assert_eq!(decoded_at_once(&footer, &ranges), all);
                let half: u64 = row_group.columns()[..35].iter().map(|column| column.uncompressed_size() as u64).sum();
                assert_eq!(decoded_at_once(&footer, &ranges[..35]), half);
                assert_eq!(decoded_at_once(&footer, &ranges[..20]), 0, "few hold next to nothing");
            }
            assert_eq!(decoded_at_once(&footer, &vec![1 << 40..(1 << 40) + 1; 40]), 0, "of no row group");
        }
    }
}
