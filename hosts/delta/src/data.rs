//! Data files: rows into new ones, and the rows that are left out of old ones.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray, UInt32Array, new_null_array};
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::common::DataFusionError;
use datafusion::datasource::physical_plan::parquet::Int96Coercer;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use uuid::Uuid;

use crate::add::{Add, PartitionValues};
use crate::columns::Columns;
use crate::disk::NewFile;
use crate::error::{DeltaError, Result, decoded};
use crate::options::Options;
use crate::snapshot::DataFile;
use crate::{bounds, now};

/// Writes rows into new data files, of which no version knows yet.
pub(crate) struct DataWriter<'a> {
    root: &'a Path,
    options: &'a Options,
    columns: &'a Columns,
    /// By the texts of their partition values.
    open: HashMap<Vec<Option<String>>, OpenFile>,
    done: Vec<Add>,
    /// All files until they are finished: they go with a writer that fails.
    begun: Vec<PathBuf>,
}

struct OpenFile {
    name: String,
    path: PathBuf,
    writer: ArrowWriter<Counted>,
}

/// Counts what is written.
struct Counted {
    file: Box<dyn NewFile>,
    bytes: u64,
}

impl Write for Counted {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let written = self.file.write(buf)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl<'a> DataWriter<'a> {
    pub(crate) fn new(root: &'a Path, options: &'a Options, columns: &'a Columns) -> Self {
        Self { root, options, columns, open: HashMap::new(), done: Vec::new(), begun: Vec::new() }
    }

    /// Adds rows of the whole table's columns.
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        if let Some(column) = self.columns.missing(rows) {
            let what = format!("column {column} may not be NULL, and a row has no value of it");
            return Err(DeltaError::Refused { path: self.root.to_owned(), what });
        }
        let rows = self.columns.to_stored(rows)?;
        let names = self.columns.partitions.iter().map(|field| field.name());
        let keys = names.map(|name| self.texts(&rows, name)).collect::<Result<Vec<_>>>()?;
        let in_files = fitted(&rows, &self.columns.in_files)?;
        if keys.is_empty() {
            return self.write_part(Vec::new(), &in_files);
        }
        let mut parts: HashMap<Vec<Option<String>>, Vec<u32>> = HashMap::new();
        for row in 0..rows.num_rows() {
            let key = keys.iter().map(|key| key.is_valid(row).then(|| key.value(row).to_owned())).collect();
            parts.entry(key).or_default().push(row as u32);
        }
        for (values, numbers) in parts {
            let part = if numbers.len() == rows.num_rows() {
                in_files.clone()
            } else {
                take_record_batch(&in_files, &UInt32Array::from(numbers)).map_err(DataFusionError::from)?
            };
            self.write_part(values, &part)?;
        }
        Ok(())
    }

    /// Values of a partition column as the log has them. There the empty text is NULL.
    fn texts(&self, rows: &RecordBatch, name: &str) -> Result<StringArray> {
        let missing = || DataFusionError::Internal("a partition column is not among the rows".to_owned());
        let column = rows.column_by_name(name).ok_or_else(missing)?;
        if matches!(column.data_type(), DataType::Binary | DataType::BinaryView) || column.data_type().is_nested() {
            let kind = column.data_type();
            return Err(DataFusionError::NotImplemented(format!("partition columns of type {kind}")).into());
        }
        let texts = cast(column, &DataType::Utf8).map_err(DataFusionError::from)?;
        let texts = texts.as_any().downcast_ref::<StringArray>().cloned().ok_or_else(missing)?;
        if texts.iter().any(|text| text == Some("")) {
            let what = format!("Delta tables cannot tell '' from NULL in {name}, which divides this one: write NULL");
            return Err(DeltaError::Refused { path: self.root.to_owned(), what });
        }
        Ok(texts)
    }

    /// Adds rows of the columns in files, which have these partition values.
    fn write_part(&mut self, values: Vec<Option<String>>, rows: &RecordBatch) -> Result<()> {
        if !self.open.contains_key(&values) {
            let file = self.begin()?;
            self.open.insert(values.clone(), file);
        }
        let Some(file) = self.open.get_mut(&values) else { return Ok(()) };
        file.writer.write(rows).map_err(DataFusionError::from)?;
        if file.writer.bytes_written() + file.writer.in_progress_size() >= self.options.file_bytes
            && let Some(file) = self.open.remove(&values)
        {
            self.end(values, file)?;
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<OpenFile> {
        // Names sort in the order in which files were begun.
        let name = format!("{:013x}-{}.parquet", now(), Uuid::new_v4());
        let path = self.root.join(&name);
        let file = self.options.disk.create(&path).map_err(DeltaError::io(&path))?;
        self.begun.push(path.clone());
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(self.options.row_group_rows))
            .set_data_page_row_count_limit(self.options.page_rows)
            .set_write_batch_size(self.options.page_rows.min(1024))
            .build();
        let schema = Arc::clone(&self.columns.written);
        let writer = ArrowWriter::try_new(Counted { file, bytes: 0 }, schema, Some(properties));
        Ok(OpenFile { name, path, writer: writer.map_err(DataFusionError::from)? })
    }

    fn end(&mut self, values: Vec<Option<String>>, mut file: OpenFile) -> Result<()> {
        let footer = file.writer.finish().map_err(DataFusionError::from)?;
        let counted = file.writer.inner_mut();
        counted.file.sync().map_err(DeltaError::io(&file.path))?;
        let names = self.columns.partitions.iter().map(|field| field.name().clone());
        self.done.push(Add {
            path: file.name,
            partition_values: names.zip(values).collect::<PartitionValues>(),
            size: counted.bytes as i64,
            modification_time: now(),
            stats: Some(bounds::of_footer(&footer, &self.columns.in_files)?.to_string()),
            ..Add::default()
        });
        Ok(())
    }

    /// The files, durable with their names.
    pub(crate) fn finish(mut self) -> Result<Vec<Add>> {
        for (values, file) in std::mem::take(&mut self.open) {
            self.end(values, file)?;
        }
        if !self.done.is_empty() {
            self.options.disk.sync_folder(self.root).map_err(DeltaError::io(self.root))?;
        }
        self.begun.clear();
        Ok(std::mem::take(&mut self.done))
    }

    /// Adds rows of an old file.
    pub(crate) fn copy(&mut self, file: &DataFile, left: Vec<Range<usize>>) -> Result<()> {
        decoded(&file.path, || self.copy_rows(file, left))
    }

    fn copy_rows(&mut self, file: &DataFile, left: Vec<Range<usize>>) -> Result<()> {
        let path = &file.path;
        let broken = |error: &dyn std::fmt::Display| DeltaError::parquet(path, error);
        let opened = File::open(path).map_err(DeltaError::io(path))?;
        let builder = opened_for_copy(opened).map_err(|error| broken(&error))?;
        let rows = builder.metadata().file_metadata().num_rows();
        if u64::try_from(rows) != Ok(file.rows) {
            return Err(broken(&format!("it has {rows} rows, and the log says {}", file.rows)));
        }
        let selection = RowSelection::from_consecutive_ranges(left.into_iter(), file.rows as usize);
        let values = &file.add.partition_values;
        let values = self.columns.partitions.iter().map(|field| values.get(field.name()).cloned().flatten());
        let values: Vec<_> = values.collect();
        for batch in builder.with_row_selection(selection).build().map_err(|error| broken(&error))? {
            let batch = self.columns.of_file(batch.map_err(|error| broken(&error))?)?;
            self.write_part(values.clone(), &batch)?;
        }
        Ok(())
    }
}

/// A file with times of microseconds, also where it has them in 96 bits: nanoseconds would not do
/// for all that these can be.
fn opened_for_copy(file: File) -> parquet::errors::Result<ParquetRecordBatchReaderBuilder<File>> {
    let footer = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())?;
    let coerced = Int96Coercer::new(footer.parquet_schema(), footer.schema(), &TimeUnit::Microsecond).coerce();
    let Some(schema) = coerced else { return Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer)) };
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
}

impl Drop for DataWriter<'_> {
    fn drop(&mut self) {
        for path in &self.begun {
            let _ = self.options.disk.remove(path);
        }
    }
}

/// The columns of `schema`, by their names. What is not there is null.
pub(crate) fn fitted(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let column = |field: &Arc<arrow::datatypes::Field>| -> std::result::Result<ArrayRef, DataFusionError> {
        match rows.column_by_name(field.name()) {
            None => Ok(new_null_array(field.data_type(), rows.num_rows())),
            Some(column) if column.data_type() == field.data_type() => Ok(Arc::clone(column)),
            Some(column) => Ok(cast(column, field.data_type())?),
        }
    };
    let columns = schema.fields().iter().map(column).collect::<std::result::Result<Vec<_>, _>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options);
    Ok(batch.map_err(DataFusionError::from)?)
}
