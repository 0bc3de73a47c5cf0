//! Writes a table as its files say.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::data_type::ByteArray;
use parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataBuilder, ParquetMetaDataReader, ParquetMetaDataWriter,
    RowGroupMetaData, SortingColumn,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::statistics::{Statistics as Bounds, ValueStatistics};
use parquet::schema::types::ColumnPath;

use crate::expr::Expr;
use crate::formats;
use crate::peers::Peers;
use crate::tables::{Column, DataFile, FOLDER, Layout, Statistics, Table, Writer};
use crate::types::Kind;

/// Writes all files of `table` into `folder`.
pub(crate) async fn write(table: &Table, folder: &Path, peers: Option<&Peers>) -> Result<()> {
    if let Layout::Delta { partitioned, deleted } = &table.layout {
        return write_delta(table, folder, *partitioned, deleted).await;
    }
    if matches!(table.layout, Layout::Written { .. }) {
        return formats::write(table, folder, peers.context("tables of other writers want a Python")?);
    }
    for file in &table.files {
        let folder = match file.folder {
            None => folder.to_owned(),
            Some(of) => folder.join(format!("{FOLDER}={}", folder_value(table, of.number())?)),
        };
        let path = folder.join(&file.name);
        fs::create_dir_all(path.parent().context("a file without a folder")?)?;
        let rows = table.written(file)?;
        match (file.writer, peers) {
            (Writer::Own, _) => write_file(&path, &rows, file)?,
            (_, Some(peers)) => peers.write(&path, &rows, file)?,
            (writer, None) => bail!("{writer:?} wants a Python"),
        }
    }
    Ok(())
}

/// What the folder of a value is called.
fn folder_value(table: &Table, number: Option<i64>) -> Result<String> {
    let Some(number) = number else { return Ok("__HIVE_DEFAULT_PARTITION__".to_owned()) };
    let column = table.columns.iter().find(|column| column.name == FOLDER).context("a hive without folders")?;
    Ok(match column.kind {
        Kind::Text(_) => column.kind.literal(number).trim_matches('\'').to_owned(),
        Kind::Bool => (number & 1 == 1).to_string(),
        _ if table.layout == Layout::DeclaredHive => format!("{number:02}"),
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
    let key = rows.schema().index_of("k").ok().filter(|_| file.sorted);
    let sorted = key.map(|key| vec![SortingColumn { column_idx: key as i32, descending: false, nulls_first: false }]);
    let unknown = rows.schema().fields().iter().filter(|field| is_text(field.data_type())).cloned().collect::<Vec<_>>();
    let mut properties = WriterProperties::builder()
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
        .set_bloom_filter_enabled(file.bloom)
        .set_sorting_columns(sorted);
    for field in unknown.iter().filter(|_| file.statistics == Statistics::NotOfTexts) {
        let column = ColumnPath::from(field.name().as_str());
        properties = properties.set_column_statistics_enabled(column, EnabledStatistics::None);
    }
    let properties = properties.build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, rows.schema(), Some(properties))?;
    // In pieces, because the writer calls itself for each row group that it begins.
    for from in (0..rows.num_rows()).step_by(file.row_group as usize) {
        writer.write(&rows.slice(from, (file.row_group as usize).min(rows.num_rows() - from)))?;
    }
    writer.close()?;
    match file.statistics {
        Statistics::Old => rewrite(path, &aged_bounds),
        Statistics::WithoutNulls => rewrite(path, &without_nulls),
        _ => Ok(()),
    }
}

fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, values) => is_text(values),
        _ => kind.is_string(),
    }
}

/// Exchanges what a footer says of the bounds of all columns.
fn rewrite(path: &Path, change: &dyn Fn(&Bounds) -> Bounds) -> Result<()> {
    let bytes = fs::read(path)?;
    let footer = ParquetMetaDataReader::new().parse_and_finish(&File::open(path)?)?;
    let length = bytes.last_chunk::<8>().context("no footer")?;
    let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
    let mut aged = bytes[..bytes.len() - 8 - length].to_vec();
    let row_groups = footer.row_groups().iter().map(|group| changed(group, change)).collect::<Result<_>>()?;
    let footer: ParquetMetaData =
        ParquetMetaDataBuilder::new(footer.file_metadata().clone()).set_row_groups(row_groups).build();
    ParquetMetaDataWriter::new(&mut aged, &footer).finish()?;
    Ok(fs::write(path, aged)?)
}

fn changed(row_group: &RowGroupMetaData, change: &dyn Fn(&Bounds) -> Bounds) -> Result<RowGroupMetaData> {
    let columns = row_group.columns().iter().map(|chunk| match chunk.statistics() {
        // No index of pages, which old writers did not have.
        Some(bounds) => Ok(chunk.clone().into_builder().set_statistics(change(bounds)).build()?),
        None => Ok(chunk.clone()),
    });
    let columns = columns.collect::<Result<Vec<ColumnChunkMetaData>>>()?;
    Ok(row_group.clone().into_builder().set_column_metadata(columns).build()?)
}

/// Where writers put them before 2017, who compared bytes as they pleased.
fn aged_bounds(bounds: &Bounds) -> Bounds {
    bounds_with(bounds, bounds.null_count_opt(), true)
}

/// Without the number of NULLs, which is optional.
fn without_nulls(bounds: &Bounds) -> Bounds {
    bounds_with(bounds, None, false)
}

fn bounds_with(bounds: &Bounds, nulls: Option<u64>, old: bool) -> Bounds {
    let distinct = None;
    match bounds {
        Bounds::Boolean(of) => Bounds::boolean(of.min_opt().copied(), of.max_opt().copied(), distinct, nulls, old),
        Bounds::Int32(of) => Bounds::int32(of.min_opt().copied(), of.max_opt().copied(), distinct, nulls, old),
        Bounds::Int64(of) => Bounds::int64(of.min_opt().copied(), of.max_opt().copied(), distinct, nulls, old),
        Bounds::Int96(of) => Bounds::int96(of.min_opt().copied(), of.max_opt().copied(), distinct, nulls, old),
        Bounds::Float(of) => Bounds::float(of.min_opt().copied(), of.max_opt().copied(), distinct, nulls, old),
        Bounds::Double(of) => Bounds::double(of.min_opt().copied(), of.max_opt().copied(), distinct, nulls, old),
        Bounds::ByteArray(of) => {
            let (min, max) = if old { as_signed_bytes(of) } else { (of.min_opt().cloned(), of.max_opt().cloned()) };
            Bounds::byte_array(min, max, distinct, nulls, old)
        }
        Bounds::FixedLenByteArray(of) => {
            Bounds::fixed_len_byte_array(of.min_opt().cloned(), of.max_opt().cloned(), distinct, nulls, old)
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
async fn write_delta(table: &Table, folder: &Path, partitioned: bool, deleted: &[Expr]) -> Result<()> {
    fs::create_dir_all(folder)?;
    let schema = table.schema();
    // The last column that makes folders of few values. The empty text makes none.
    let divides = |column: &&Column| column.kind.is_compared() && !column.kind.has_empty();
    let by = table.columns.iter().skip(2).rfind(divides);
    let partitions: Vec<&str> = by.filter(|_| partitioned).iter().map(|column| column.name.as_str()).collect();
    let delta = pagecast_delta::Table::create(folder, &schema, &partitions, pagecast_delta::Options::default())?;
    let ctx = SessionContext::new_with_config(pagecast_corrections::configured(SessionConfig::new()));
    pagecast_corrections::install(&ctx, |_| false)?;
    pagecast_delta::install(&ctx)?;
    ctx.register_table("delta", Arc::new(delta.provider()?))?;
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    for file in &table.files {
        ctx.deregister_table("rows")?;
        ctx.register_table("rows", Arc::new(MemTable::try_new(schema.clone(), vec![vec![table.rows_of(file)?]])?))?;
        ctx.sql(&format!("INSERT INTO delta SELECT {} FROM rows", names.join(", "))).await?.collect().await?;
    }
    for condition in deleted {
        ctx.sql(&format!("DELETE FROM delta WHERE {}", condition.sql())).await?.collect().await?;
    }
    Ok(())
}
