//! Files of actions as the protocol's library has them read and written: lines of JSON in the log,
//! rows of Parquet files in its checkpoints.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::json::ReaderBuilder;
use delta_kernel::engine::arrow_conversion::TryFromArrow;
use delta_kernel::engine::arrow_data::{ArrowEngineData, EngineDataArrowExt};
use delta_kernel::engine::arrow_utils::{
    build_json_reorder_indices, fixup_json_read, fixup_parquet_read, json_arrow_schema, parquet_read_plan,
    to_json_bytes,
};
use delta_kernel::engine::{reader_options, writer_options};
use delta_kernel::engine_data::FilteredEngineData;
use delta_kernel::schema::{SchemaRef, StructType};
use delta_kernel::{
    EngineData, FileDataReadResultIterator, FileMeta, JsonHandler, KernelError, KernelResult, KernelResultIterator,
    KernelResultIteratorStatic, ParquetFooter, ParquetHandler, PredicateRef,
};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use serde::de::IgnoredAny;
use url::Url;

use crate::engine::{Files, broken, open, ours};
use crate::error::{self, DeltaError, decoded};

type Batches = Vec<KernelResult<Box<dyn EngineData>>>;

impl JsonHandler for Files {
    fn parse_json(&self, texts: Box<dyn EngineData>, schema: SchemaRef) -> KernelResult<Box<dyn EngineData>> {
        delta_kernel::engine::parse_json(texts, schema)
    }

    fn read_json_files(
        &self,
        files: &[FileMeta],
        schema: SchemaRef,
        _predicate: Option<PredicateRef>,
    ) -> KernelResult<FileDataReadResultIterator> {
        let log = self.clone();
        Ok(one_by_one(files, move |url| {
            let (path, bytes) = log.read(url)?;
            check_lines(&path, &bytes).map_err(ours)?;
            guarded(&path, || from_json(&bytes, &schema, url))
        }))
    }

    fn write_json_file(
        &self,
        url: &Url,
        data: KernelResultIterator<'_, FilteredEngineData>,
        overwrite: bool,
    ) -> KernelResult<u64> {
        self.write(url, &to_json_bytes(data)?, overwrite)
    }
}

impl ParquetHandler for Files {
    fn read_parquet_files(
        &self,
        files: &[FileMeta],
        schema: SchemaRef,
        _predicate: Option<PredicateRef>,
    ) -> KernelResult<FileDataReadResultIterator> {
        let log = self.clone();
        Ok(one_by_one(files, move |url| {
            let path = log.path(url)?;
            guarded(&path, || from_parquet(&path, &schema, url))
        }))
    }

    fn write_parquet_file(&self, url: Url, data: KernelResultIteratorStatic<Box<dyn EngineData>>) -> KernelResult<u64> {
        let mut writer = None;
        for batch in data {
            let batch = batch.try_into_record_batch()?;
            let writer = match &mut writer {
                Some(writer) => writer,
                None => writer.insert(ArrowWriter::try_new_with_options(Vec::new(), batch.schema(), writer_options())?),
            };
            writer.write(&batch)?;
        }
        let writer = writer.ok_or_else(|| KernelError::generic("a file of no actions"))?;
        self.write(&url, &writer.into_inner()?, true)
    }

    fn read_parquet_footer(&self, file: &FileMeta) -> KernelResult<ParquetFooter> {
        let path = self.path(&file.location)?;
        guarded(&path, || {
            let footer = ArrowReaderMetadata::load(&open(&path)?, reader_options())?;
            let schema = Arc::new(StructType::try_from_arrow(footer.schema().as_ref())?);
            Ok(ParquetFooter { schema })
        })
    }
}

/// The batches of each file, which is read when it is its turn.
fn one_by_one(
    files: &[FileMeta],
    read: impl Fn(&Url) -> KernelResult<Batches> + Send + 'static,
) -> FileDataReadResultIterator {
    let files = files.to_vec();
    Box::new(files.into_iter().flat_map(move |file| read(&file.location).unwrap_or_else(|error| vec![Err(error)])))
}

/// What is decoded of a file. What the decoder says, or that it panics, is said of the file.
fn guarded<T>(path: &Path, decode: impl FnOnce() -> KernelResult<T>) -> KernelResult<T> {
    let said = decoded(path, || Ok(decode())).map_err(ours)?;
    said.map_err(|error| match error {
        error @ (KernelError::GenericError { .. } | KernelError::FileNotFound(_)) => error,
        error => broken(path, format!("what is here makes no sense ({error})")),
    })
}

/// That each line is one object, which the decoder does not ask for; and where it is not.
fn check_lines(path: &Path, bytes: &[u8]) -> error::Result<()> {
    let mut start = 0;
    for line in bytes.split(|&byte| byte == b'\n') {
        if !line.trim_ascii().is_empty() {
            serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(line).map_err(|error| {
                let at = (start + error.column().saturating_sub(1).min(line.len())) as u64;
                let what = if error.is_eof() { "the line is torn" } else { "the line is no action" };
                DeltaError::broken(path, at, format!("{what} ({error})"))
            })?;
        }
        start += line.len() + 1;
    }
    Ok(())
}

fn from_json(bytes: &[u8], schema: &SchemaRef, url: &Url) -> KernelResult<Batches> {
    let (fields, order) = (Arc::new(json_arrow_schema(schema)?), build_json_reorder_indices(schema)?);
    let reader = ReaderBuilder::new(fields).with_coerce_primitive(true).build(Cursor::new(bytes))?;
    reader.map(|batch| Ok(boxed(fixup_json_read(batch?, &order, url.as_str())))).collect()
}

fn from_parquet(path: &Path, schema: &SchemaRef, url: &Url) -> KernelResult<Batches> {
    let file = open(path)?;
    let footer = ArrowReaderMetadata::load(&file, reader_options())?;
    let (order, mask) = parquet_read_plan(schema, &footer)?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer);
    let builder = match mask {
        Some(mask) => builder.with_projection(mask),
        None => builder,
    };
    let fix = |batch: RecordBatch| fixup_parquet_read(batch, &order, None, Some(url.as_str()), Some(schema));
    builder.build()?.map(|batch| Ok(boxed(fix(batch?)))).collect()
}

fn boxed(batch: KernelResult<ArrowEngineData>) -> KernelResult<Box<dyn EngineData>> {
    batch.map(|batch| Box::new(batch) as _)
}
