//! Rows of files that are deleted or too new, and rows that are in the catalog.

use std::fs::{self, File};
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, RecordBatch, RecordBatchOptions, StringArray, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Fields, Int64Type, SchemaRef};
use datafusion::common::DataFusionError;
use pagecast_tables::{Column, deletion_vector};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{PARQUET_FIELD_ID_META_KEY, ProjectionMask};
use rusqlite::types::Value;

use crate::catalog::{DataFile, Inlined};
use crate::error::{DuckLakeError, Result};

/// The snapshot that a row is of, in files whose rows are of several.
const SNAPSHOT: &str = "_ducklake_internal_snapshot_id";
const POSITION: &str = "pos";

/// The rows of a file that are not seen at a snapshot, in order, and whether a later snapshot with
/// the same deletes sees just the same.
pub(crate) fn gone(file: &DataFile, snapshot: i64) -> Result<(Vec<u64>, bool)> {
    let (mut gone, mut is_last) = (file.deleted.clone(), true);
    if file.newest.is_some_and(|newest| newest > snapshot) {
        let [snapshots] = integers(&file.path, [SNAPSHOT])?;
        gone.extend((0..).zip(snapshots).filter(|&(_, of)| of > snapshot).map(|(row, _)| row));
        is_last = false;
    }
    if let Some(path) = file.deletes.as_ref().filter(|deletes| deletes.is_vector).map(|deletes| &deletes.path) {
        let blob = fs::read(path).map_err(|error| cannot_open(path, &error))?;
        gone.extend(decoded(path, || deletion_vector(&blob).map_err(|what| DuckLakeError::broken(path, what)))?);
    } else if let Some(path) = file.deletes.as_ref().map(|deletes| &deletes.path) {
        // Deletes of several snapshots, if the file says of which each is.
        let rows = if has_column(path, SNAPSHOT)? {
            let [rows, snapshots] = integers(path, [POSITION, SNAPSHOT])?;
            is_last &= snapshots.iter().all(|&of| of <= snapshot);
            rows.into_iter().zip(snapshots).filter(|&(_, of)| of <= snapshot).map(|(row, _)| row).collect()
        } else {
            let [rows] = integers(path, [POSITION])?;
            rows
        };
        gone.extend(rows.into_iter().map(|row| row as u64));
    }
    gone.sort_unstable();
    if let Some(last) = gone.last().filter(|&&last| last >= file.rows) {
        let what = format!("the catalog deletes row {last} of it, and it has {} rows", file.rows);
        return Err(DuckLakeError::broken(&file.path, what));
    }
    gone.dedup();
    Ok((gone, is_last))
}

/// Whether the columns of a file have ids.
pub(crate) fn has_ids(path: &Path) -> Result<bool> {
    Ok(fields(path)?.iter().any(|field| field.metadata().contains_key(PARQUET_FIELD_ID_META_KEY)))
}

fn has_column(path: &Path, name: &str) -> Result<bool> {
    Ok(fields(path)?.find(name).is_some())
}

fn fields(path: &Path) -> Result<Fields> {
    decoded(path, || {
        let reader = ParquetRecordBatchReaderBuilder::try_new(open(path)?).map_err(DataFusionError::from)?;
        Ok(reader.schema().fields().clone())
    })
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| cannot_open(path, &error))
}

fn cannot_open(path: &Path, error: &io::Error) -> DuckLakeError {
    DuckLakeError::broken(path, format!("cannot be opened ({error})"))
}

/// What the decoder makes of a file. It may panic over nonsense.
fn decoded<T>(path: &Path, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    let panicked = |_| Err(DuckLakeError::broken(path, "its bytes make no sense"));
    panic::catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(panicked)
}

/// The values of these columns of a file.
fn integers<const N: usize>(path: &Path, names: [&str; N]) -> Result<[Vec<i64>; N]> {
    decoded(path, || {
        let reader = ParquetRecordBatchReaderBuilder::try_new(open(path)?).map_err(DataFusionError::from)?;
        let mask = ProjectionMask::columns(reader.parquet_schema(), names);
        let mut columns = [(); N].map(|()| Vec::new());
        for batch in reader.with_projection(mask).build().map_err(DataFusionError::from)? {
            let batch = batch.map_err(DataFusionError::from)?;
            for (values, name) in columns.iter_mut().zip(names) {
                let column = batch.column_by_name(name).and_then(|column| column.as_primitive_opt::<Int64Type>());
                let column = column.filter(|column| column.null_count() == 0);
                let column =
                    column.ok_or_else(|| DuckLakeError::broken(path, format!("its column {name} is missing")))?;
                values.extend_from_slice(column.values());
            }
        }
        Ok(columns)
    })
}

/// Rows of the catalog as rows of the table, whose columns are `found_as`.
pub(crate) fn of_catalog(
    catalog: &Path,
    inlined: &Inlined,
    schema: &SchemaRef,
    found_as: &[Column],
) -> Result<RecordBatch> {
    let rows = inlined.rows.len();
    let column = |(field, column): (&FieldRef, &Column)| {
        let place = inlined.columns.iter().position(|&id| i32::try_from(id).ok() == column.id);
        let Some(place) = place else {
            return Ok(match &column.default {
                Some(value) => value.cast_to(field.data_type())?.to_array_of_size(rows)?,
                None => new_null_array(field.data_type(), rows),
            });
        };
        values(inlined.rows.iter().map(|row| &row[place]), field.data_type()).ok_or_else(|| {
            let feature = format!(
                "rows in the catalog whose column {} is {}; ducklake_flush_inlined_data writes them to files",
                field.name(),
                field.data_type()
            );
            DuckLakeError::feature(catalog, feature)
        })
    };
    let columns = schema.fields().iter().zip(found_as).map(column).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let rows = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options);
    Ok(rows.map_err(DataFusionError::from)?)
}

/// Values of the database as this type. Most are texts there. Nothing if that is not known here.
fn values<'a>(values: impl Iterator<Item = &'a Value>, kind: &DataType) -> Option<ArrayRef> {
    if *kind == DataType::BinaryView {
        let bytes = |value: &'a Value| match value {
            Value::Null => Some(None),
            Value::Blob(bytes) => Some(Some(bytes.as_slice())),
            Value::Text(text) => Some(Some(text.as_bytes())),
            _ => None,
        };
        return Some(Arc::new(values.map(bytes).collect::<Option<BinaryViewArray>>()?));
    }
    let text = |value: &Value| match value {
        Value::Null => Some(None),
        Value::Integer(value) => Some(Some(value.to_string())),
        Value::Real(value) => Some(Some(value.to_string())),
        Value::Text(text) => Some(Some(text.clone())),
        Value::Blob(_) => None,
    };
    let texts: ArrayRef = Arc::new(values.map(text).collect::<Option<StringArray>>()?);
    cast_with_options(&texts, kind, &CastOptions { safe: false, ..CastOptions::default() }).ok()
}
