//! Writes a table as its files say.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::data_type::ByteArray;
use parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataBuilder, ParquetMetaDataReader, ParquetMetaDataWriter,
    RowGroupMetaData, SortingColumn,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::statistics::{Statistics as Bounds, ValueStatistics};

use crate::tables::{Column, DataFile, FOLDER, Layout, Statistics, Table};
use crate::types::Kind;

/// Writes all files of `table` into `folder`.
pub(crate) async fn write(table: &Table, folder: &Path) -> Result<()> {
    if let Layout::Delta { partitioned, deleted } = &table.layout {
        return write_delta(table, folder, *partitioned, deleted).await;
    }
    for file in &table.files {
        let folder = match file.folder {
            None => folder.to_owned(),
            Some(of) => folder.join(format!("{FOLDER}={}", folder_value(table, of.number())?)),
        };
        fs::create_dir_all(&folder)?;
        write_file(&folder.join(&file.name), &table.written(file)?, file)?;
    }
    Ok(())
}

/// What the folder of a value is called.
fn folder_value(table: &Table, number: Option<i64>) -> Result<String> {
    let Some(number) = number else { return Ok("__HIVE_DEFAULT_PARTITION__".to_owned()) };
    let column = table.columns.iter().find(|column| column.name == FOLDER).context("a hive without folders")?;
    Ok(match column.kind {
        Kind::Text(_) => column.kind.literal(number).trim_matches('\'').to_owned(),
        _ => number.to_string(),
    })
}

fn write_file(path: &Path, rows: &RecordBatch, file: &DataFile) -> Result<()> {
    let statistics = match file.statistics {
        Statistics::None => EnabledStatistics::None,
        Statistics::OfChunks => EnabledStatistics::Chunk,
        _ => EnabledStatistics::Page,
    };
    let truncated = (file.statistics == Statistics::Truncated).then_some(3);
    let lie = file.statistics == Statistics::LiesAboutOrder;
    let sorted = lie.then(|| vec![SortingColumn { column_idx: 0, descending: true, nulls_first: true }]);
    let properties = WriterProperties::builder()
        .set_compression(if file.snappy { Compression::SNAPPY } else { Compression::UNCOMPRESSED })
        .set_dictionary_enabled(file.dictionary)
        .set_writer_version(if file.version_2 { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 })
        .set_max_row_group_row_count(Some(file.row_group as usize))
        .set_data_page_row_count_limit(file.page as usize)
        .set_write_batch_size(file.page as usize)
        .set_statistics_enabled(statistics)
        .set_statistics_truncate_length(truncated.or(Some(64)))
        .set_column_index_truncate_length(truncated.or(Some(64)))
        .set_offset_index_disabled(!file.offset_index && statistics != EnabledStatistics::Page)
        .set_sorting_columns(sorted)
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, rows.schema(), Some(properties))?;
    // In pieces, because the writer calls itself for each row group that it begins.
    for from in (0..rows.num_rows()).step_by(file.row_group as usize) {
        writer.write(&rows.slice(from, (file.row_group as usize).min(rows.num_rows() - from)))?;
    }
    writer.close()?;
    if file.statistics == Statistics::Old { age(path) } else { Ok(()) }
}

/// Moves the bounds of all columns to where writers put them before 2017, who compared bytes as
/// they pleased.
fn age(path: &Path) -> Result<()> {
    let bytes = fs::read(path)?;
    let footer = ParquetMetaDataReader::new().parse_and_finish(&File::open(path)?)?;
    let length = bytes.last_chunk::<8>().context("no footer")?;
    let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
    let mut aged = bytes[..bytes.len() - 8 - length].to_vec();
    let row_groups = footer.row_groups().iter().map(aged_row_group).collect::<Result<_>>()?;
    let footer: ParquetMetaData =
        ParquetMetaDataBuilder::new(footer.file_metadata().clone()).set_row_groups(row_groups).build();
    ParquetMetaDataWriter::new(&mut aged, &footer).finish()?;
    Ok(fs::write(path, aged)?)
}

fn aged_row_group(row_group: &RowGroupMetaData) -> Result<RowGroupMetaData> {
    let columns = row_group.columns().iter().map(|chunk| match chunk.statistics() {
        // No index of pages, which old writers did not have.
        Some(bounds) => Ok(chunk.clone().into_builder().set_statistics(aged_bounds(bounds)).build()?),
        None => Ok(chunk.clone()),
    });
    let columns = columns.collect::<Result<Vec<ColumnChunkMetaData>>>()?;
    Ok(row_group.clone().into_builder().set_column_metadata(columns).build()?)
}

fn aged_bounds(bounds: &Bounds) -> Bounds {
    let (nulls, distinct) = (bounds.null_count_opt(), None);
    match bounds {
        Bounds::Boolean(of) => Bounds::boolean(of.min_opt().copied(), of.max_opt().copied(), distinct, nulls, true),
        Bounds::Int32(of) => Bounds::int32(of.min_opt().copied(), of.max_opt().copied(), distinct, nulls, true),
        Bounds::Int64(of) => Bounds::int64(of.min_opt().copied(), of.max_opt().copied(), distinct, nulls, true),
        Bounds::Int96(of) => Bounds::int96(of.min_opt().copied(), of.max_opt().copied(), distinct, nulls, true),
        Bounds::Float(of) => Bounds::float(of.min_opt().copied(), of.max_opt().copied(), distinct, nulls, true),
        Bounds::Double(of) => Bounds::double(of.min_opt().copied(), of.max_opt().copied(), distinct, nulls, true),
        Bounds::ByteArray(of) => {
            let (min, max) = as_signed_bytes(of);
            Bounds::byte_array(min, max, distinct, nulls, true)
        }
        Bounds::FixedLenByteArray(of) => {
            Bounds::fixed_len_byte_array(of.min_opt().cloned(), of.max_opt().cloned(), distinct, nulls, true)
        }
    }
}

/// Bounds of bytes that were compared with their signs: larger than 127 comes first.
fn as_signed_bytes(of: &ValueStatistics<ByteArray>) -> (Option<ByteArray>, Option<ByteArray>) {
    let is_large = |bytes: &ByteArray| bytes.data().first().is_some_and(|byte| *byte > 127);
    match (of.min_opt().cloned(), of.max_opt().cloned()) {
        (Some(min), Some(max)) if is_large(&max) && !is_large(&min) => (Some(max), Some(min)),
        bounds => bounds,
    }
}

/// An append for each file, and then the deletions.
async fn write_delta(table: &Table, folder: &Path, partitioned: bool, deleted: &[(u32, u32)]) -> Result<()> {
    fs::create_dir_all(folder)?;
    let schema = table.schema();
    // The last column that makes folders of few values. The empty text makes none.
    let divides = |column: &&Column| column.kind.is_compared() && !column.kind.has_empty();
    let by = table.columns.iter().skip(2).rfind(divides);
    let partitions: Vec<&str> = by.filter(|_| partitioned).iter().map(|column| column.name.as_str()).collect();
    let delta = pagecast_delta::Table::create(folder, &schema, &partitions, pagecast_delta::Options::default())?;
    let ctx = SessionContext::new();
    pagecast_delta::install(&ctx)?;
    ctx.register_table("delta", Arc::new(delta.provider()?))?;
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    for file in &table.files {
        ctx.deregister_table("rows")?;
        ctx.register_table("rows", Arc::new(MemTable::try_new(schema.clone(), vec![vec![table.rows_of(file)?]])?))?;
        ctx.sql(&format!("INSERT INTO delta SELECT {} FROM rows", names.join(", "))).await?.collect().await?;
    }
    for (by, remainder) in deleted {
        ctx.sql(&format!("DELETE FROM delta WHERE id % {by} = {remainder}")).await?.collect().await?;
    }
    Ok(())
}
