//! The default data: TPC-H lineitem as one Parquet file, made once and kept in the user's cache
//! folder.
//!
//! Rows are clustered by `greatest(l_receiptdate, l_commitdate)`, the order in which a warehouse
//! that loads finished orders receives them: a range of `l_shipdate` then falls on neighbouring row
//! groups, but with ragged ends.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::Date32Type;
use indicatif::ProgressBar;
use parquet::arrow::ArrowWriter;
use tpchgen::generators::LineItemGenerator;
use tpchgen_arrow::LineItemArrow;

use super::generated;

/// Rows generated, sorted and written at a time.
const BATCH_ROWS: usize = 32 << 10;
/// Raised when the same parameters give another file.
const VERSION: u32 = 1;

/// The folder with `lineitem.parquet` at scale factor `scale`.
///
/// All rows are held in memory while they are sorted, about 1.6 GB for each unit of `scale`.
pub(super) fn folder(scale: f64) -> anyhow::Result<PathBuf> {
    let name = format!("lineitem-sf{scale}-by-receipt-or-commit-rg128Ki-snappy-v{VERSION}");
    generated::folder(&name, |folder| write(scale, &folder.join("lineitem.parquet")))
}

/// Generates, clusters and writes the table.
fn write(scale: f64, path: &Path) -> anyhow::Result<()> {
    let bar = generated::bar((scale * 6_001_215.0) as u64);
    bar.set_message("generating lineitem");
    let batches = generate(scale, &bar)?;
    let order = clustered(&batches);

    bar.set_length(order.len() as u64);
    bar.set_position(0);
    bar.set_message("writing lineitem");
    let mut writer =
        ArrowWriter::try_new(File::create(path)?, LineItemArrow::schema_ref(), Some(generated::properties()))?;
    let sources: Vec<&RecordBatch> = batches.iter().collect();
    for rows in order.chunks(BATCH_ROWS) {
        writer.write(&interleave_record_batch(&sources, rows)?)?;
        bar.inc(rows.len() as u64);
    }
    writer.into_inner()?.sync_all()?;
    bar.finish_and_clear();
    Ok(())
}

/// All rows, in the generator's order; its parts are made side by side and are the same for any
/// number of them.
fn generate(scale: f64, bar: &ProgressBar) -> anyhow::Result<Vec<RecordBatch>> {
    let parts = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(16)) as i32;
    let part = |number: i32| -> Result<Vec<RecordBatch>, arrow::error::ArrowError> {
        LineItemArrow::new(LineItemGenerator::new(scale, number, parts))
            .with_batch_size(BATCH_ROWS)
            .inspect(|batch| bar.inc(batch.as_ref().map_or(0, |batch| batch.num_rows() as u64)))
            .collect()
    };
    std::thread::scope(|scope| {
        let part = &part;
        let threads: Vec<_> = (1..=parts).map(|number| scope.spawn(move || part(number))).collect();
        let mut batches = Vec::new();
        for thread in threads {
            batches.extend(thread.join().map_err(|_| anyhow::anyhow!("the generator panicked"))??);
        }
        Ok(batches)
    })
}

/// Every row as (batch, row) in the order of the clustering day; rows of one day keep the
/// generator's order.
fn clustered(batches: &[RecordBatch]) -> Vec<(usize, usize)> {
    let mut rows: Vec<(i32, u32, u32)> = Vec::new();
    for (number, batch) in batches.iter().enumerate() {
        let day = |name: &str| {
            let column = batch.column_by_name(name).expect("lineitem has this column");
            column.as_primitive::<Date32Type>()
        };
        let (receipt, commit) = (day("l_receiptdate"), day("l_commitdate"));
        let key = |row: usize| receipt.value(row).max(commit.value(row));
        rows.extend((0..receipt.len()).map(|row| (key(row), number as u32, row as u32)));
    }
    rows.sort_unstable();
    rows.into_iter().map(|(_, batch, row)| (batch as usize, row as usize)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    #[test]
    fn the_file_is_clustered_and_indexed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lineitem.parquet");
        write(0.03, &path).unwrap();

        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let footer = reader.metadata();
        assert_eq!(footer.num_row_groups(), 2, "180 K rows in groups of 128 Ki");
        assert!(footer.row_group(0).column(0).offset_index_offset().is_some());
        let batches = parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(File::open(&path).unwrap(), 8192);
        let batches: Vec<_> = batches.unwrap().map(Result::unwrap).collect();
        let order = clustered(&batches);
        assert!(order.is_sorted(), "rows lie in the order of their clustering day");
        assert_eq!(order.len() as i64, footer.file_metadata().num_rows());
    }
}
