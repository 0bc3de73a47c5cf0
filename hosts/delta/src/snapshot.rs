//! A table at a version: which files it has, and which of their rows.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, sort_to_indices, take_record_batch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, DataFusionError, ScalarValue, Statistics};
use delta_kernel::actions::Metadata;
use delta_kernel::engine::arrow_data::{ArrowEngineData, EngineDataArrowExt};
use delta_kernel::engine_data::FilteredEngineData;
use delta_kernel::snapshot::SnapshotRef;
use pagecast_core::positions::{Insert, Layer};
use parquet::file::metadata::ParquetMetaDataReader;
use roaring::RoaringTreemap;
use serde_json::Value;

use crate::add::Add;
use crate::columns::Columns;
use crate::engine::LocalEngine;
use crate::error::{DeltaError, Result, decoded};
use crate::log::Made;
use crate::{schema, vector};

/// A data file of a version.
#[derive(Debug)]
pub(crate) struct DataFile {
    pub(crate) add: Add,
    pub(crate) path: PathBuf,
    /// Rows that are stored in it.
    pub(crate) rows: u64,
    /// Whether the log says how many.
    pub(crate) is_counted: bool,
    /// Those of them that are deleted.
    pub(crate) deleted: RoaringTreemap,
    /// Values of the partition columns, in their order.
    pub(crate) values: Vec<ScalarValue>,
    /// Bounds of the file's other columns, from the log.
    pub(crate) statistics: Arc<Statistics>,
}

/// A table at a version. It never changes.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) engine: LocalEngine,
    pub(crate) root: PathBuf,
    pub(crate) kernel: SnapshotRef,
    /// Which file made it.
    pub(crate) made: Made,
    pub(crate) columns: Columns,
    /// What the library says of each file, in their order.
    scanned: RecordBatch,
    /// Each with the number that its first row has among all stored rows.
    pub(crate) files: Vec<(u64, Arc<DataFile>)>,
    /// Stored rows of all files.
    pub(crate) stored: u64,
}

impl Snapshot {
    /// The table at this version. Files that `known` has, too, are not looked at again. It may be
    /// `earlier` in the same log, so that only what came since is read.
    pub(crate) fn of(
        engine: &LocalEngine,
        root: &Path,
        kernel: SnapshotRef,
        known: Option<&Self>,
        earlier: bool,
    ) -> Result<Self> {
        let made = Made::of(root, kernel.version());
        let columns = Columns::of(root, &kernel)?;
        let scanned = decoded(root, || scanned(engine, &kernel, known.filter(|_| earlier)))?;
        let known: HashMap<_, &Arc<DataFile>> = known
            .filter(|known| known.metadata() == kernel.table_configuration().metadata())
            .map(|known| known.files.iter().map(|(_, file)| (file.add.key(), file)).collect())
            .unwrap_or_default();
        let (mut files, mut stored) = (Vec::new(), 0_u64);
        for add in Add::of_scan(root, &scanned)? {
            let file = match known.get(&add.key()) {
                Some(file) => Arc::clone(file),
                None => Arc::new(DataFile::of(engine, root, &add, &columns)?),
            };
            let first = stored;
            stored = stored
                .checked_add(file.rows)
                .filter(|&rows| rows < i64::MAX as u64)
                .ok_or_else(|| DeltaError::broken(&file.path, None, "the log counts more rows than there can be"))?;
            files.push((first, file));
        }
        let (engine, root) = (engine.clone(), root.to_owned());
        Ok(Self { engine, root, kernel, made, columns, scanned, files, stored })
    }

    /// The same with more files behind, which no version has yet.
    pub(crate) fn with(&self, files: Vec<Add>) -> Result<Self> {
        let mut more = self.files.clone();
        let mut stored = self.stored;
        for add in files {
            let file = Arc::new(DataFile::of(&self.engine, &self.root, &add, &self.columns)?);
            stored += file.rows;
            more.push((stored - file.rows, file));
        }
        Ok(Self {
            engine: self.engine.clone(),
            root: self.root.clone(),
            kernel: Arc::clone(&self.kernel),
            made: self.made,
            columns: self.columns.clone(),
            scanned: self.scanned.clone(),
            files: more,
            stored,
        })
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.kernel.version()
    }

    /// The columns, in the table's order.
    pub fn schema(&self) -> &SchemaRef {
        self.columns.all()
    }

    /// Rows that a query sees.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|(_, file)| file.rows - file.deleted.len()).sum()
    }

    /// The data files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(_, file)| file.path.as_path())
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        self.kernel.table_configuration().metadata()
    }

    /// What the library says of these files, by their places.
    pub(crate) fn scanned(&self, files: impl IntoIterator<Item = usize>) -> Result<FilteredEngineData> {
        let rows = UInt32Array::from_iter_values(files.into_iter().map(|file| file as u32));
        let rows = take_record_batch(&self.scanned, &rows).map_err(DataFusionError::from)?;
        Ok(FilteredEngineData::with_all_rows_selected(Box::new(ArrowEngineData::new(rows))))
    }

    /// The place of the file that has this path.
    pub(crate) fn place(&self, path: &str) -> Option<usize> {
        self.files.iter().position(|(_, file)| file.add.path == path)
    }

    /// Where the rows are that a query sees: the stored ones that are not deleted, neither here nor
    /// by `own`, and then the `inserted` ones.
    pub(crate) fn layer(
        &self,
        own: &BTreeMap<String, RoaringTreemap>,
        inserted: impl IntoIterator<Item = Insert>,
    ) -> Result<Layer> {
        let deleted = self.files.iter().flat_map(|(first, file)| {
            let rows = match own.get(&file.add.path) {
                Some(own) => own | &file.deleted,
                None => file.deleted.clone(),
            };
            vector::stretches(&rows).map(|rows| rows.start + first..rows.end + first).collect::<Vec<_>>()
        });
        Ok(Layer::new(self.stored, deleted, inserted).map_err(|fault| DataFusionError::External(Box::new(fault)))?)
    }

    /// The file that has this stored row, and the row's number in it.
    pub(crate) fn locate(&self, position: u64) -> Option<(&Arc<DataFile>, u64)> {
        let after = self.files.partition_point(|(first, _)| *first <= position);
        // Files without rows have the same first row as the next.
        let (first, file) = self.files.get(after.checked_sub(1)?)?;
        (position - first < file.rows).then_some((file, position - first))
    }
}

impl DataFile {
    fn of(engine: &LocalEngine, root: &Path, add: &Add, columns: &Columns) -> Result<Self> {
        let path = engine.places().path_of(&add.path)?;
        engine.places().check(&path)?;
        let broken = |what: String| DeltaError::broken(&path, None, what);
        if add.size < 0 {
            return Err(broken(format!("the log says that it has {} bytes", add.size)));
        }
        let stats = add.stats.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
        let counted = stats["numRecords"].as_u64();
        let rows = counted.map_or_else(|| rows_of(&path), Ok)?;
        let deleted = add.deletion_vector.as_ref().map(|dv| vector::read(engine, root, dv));
        let deleted = deleted.transpose()?.unwrap_or_default();
        if let Some(last) = deleted.max().filter(|&last| last >= rows) {
            return Err(broken(format!("its deletion vector names row {last}, and it has {rows} rows")));
        }
        let value = |field: &arrow::datatypes::FieldRef| {
            let text = add.partition_values.get(field.name()).and_then(Option::as_deref);
            let value = schema::partition_value(text, field.data_type());
            value.ok_or_else(|| broken(format!("{text:?} is no value of partition column {}", field.name())))
        };
        let values = columns.partitions.iter().map(value).collect::<Result<_>>()?;
        let statistics = Arc::new(statistics(&stats, rows - deleted.len(), add.size as usize, &columns.in_files));
        let is_counted = counted.is_some();
        Ok(Self { add: add.clone(), path, rows, is_counted, deleted, values, statistics })
    }
}

/// What the library says of the files of a version, in the order of their paths.
fn scanned(engine: &LocalEngine, kernel: &SnapshotRef, earlier: Option<&Snapshot>) -> Result<RecordBatch> {
    let fault = |error| engine.fault(error);
    let scan = Arc::clone(kernel).scan_builder().without_row_transforms().build().map_err(fault)?;
    let files = match earlier {
        None => Box::new(scan.scan_metadata(engine).map_err(fault)?) as Box<dyn Iterator<Item = _>>,
        Some(earlier) => {
            let known = Some(&earlier.scanned).filter(|known| known.num_rows() > 0).cloned();
            let known = known.map(|known| Box::new(ArrowEngineData::new(known)) as _);
            scan.scan_metadata_from(engine, earlier.version(), known, None).map_err(fault)?
        }
    };
    let mut batches = Vec::new();
    for part in files {
        let part = part.and_then(|part| part.scan_files.apply_selection_vector());
        batches.push(part.try_into_record_batch().map_err(fault)?);
    }
    let Some(first) = batches.first() else { return Ok(RecordBatch::new_empty(Arc::new(Schema::empty()))) };
    let all = concat_batches(&first.schema(), &batches).map_err(DataFusionError::from)?;
    let by_path = |paths: &ArrayRef| sort_to_indices(paths, None, None);
    let order = all.column_by_name("path").map(by_path).transpose().map_err(DataFusionError::from)?;
    Ok(order.map_or(Ok(all.clone()), |order| take_record_batch(&all, &order)).map_err(DataFusionError::from)?)
}

/// Rows of a file whose statistics do not say.
fn rows_of(path: &Path) -> Result<u64> {
    let file = File::open(path).map_err(DeltaError::io(path))?;
    let footer = decoded(path, || {
        let footer = ParquetMetaDataReader::new().parse_and_finish(&file);
        footer.map_err(|error| DeltaError::parquet(path, &error))
    })?;
    u64::try_from(footer.file_metadata().num_rows()).map_err(|error| DeltaError::parquet(path, &error))
}

/// What the log knows of a file. Bounds hold for all stored rows, and so for those that are left.
/// They are exact to DataFusion, which prunes by no others; it takes a column for constant only if
/// it knows, too, that there are no nulls. Writers leave NaN out, which is greater than all
/// numbers.
fn statistics(stats: &Value, rows: u64, bytes: usize, columns: &Schema) -> Statistics {
    let precise = |bound: Option<ScalarValue>| bound.map_or(Precision::Absent, Precision::Exact);
    let of_column = |field: &arrow::datatypes::FieldRef| {
        let bound = |of: &str, upper| schema::bound(&stats[of][field.name()], field.data_type(), upper);
        let nested = matches!(field.data_type(), DataType::Struct(_) | DataType::List(_) | DataType::Map(..));
        let known = |of, upper| precise(bound(of, upper).filter(|_| !nested));
        let greatest = if field.data_type().is_floating() { Precision::Absent } else { known("maxValues", true) };
        ColumnStatistics::new_unknown().with_min_value(known("minValues", false)).with_max_value(greatest)
    };
    Statistics {
        num_rows: Precision::Exact(rows as usize),
        total_byte_size: Precision::Inexact(bytes),
        column_statistics: columns.fields().iter().map(of_column).collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn a_float_may_be_greater_than_its_bound() {
        let stats = serde_json::json!({"minValues": {"x": 1.0, "n": 1}, "maxValues": {"x": 2.0, "n": 2}});
        let columns =
            Schema::new(vec![Field::new("x", DataType::Float64, true), Field::new("n", DataType::Int64, true)]);
        let known = statistics(&stats, 3, 100, &columns).column_statistics;
        assert_eq!(known[0].min_value, Precision::Exact(ScalarValue::Float64(Some(1.0))));
        assert_eq!(known[0].max_value, Precision::Absent);
        assert_eq!(known[1].max_value, Precision::Exact(ScalarValue::Int64(Some(2))));
    }
}
