//! A table at a version: which files it has, and which of their rows.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{DataType, Fields, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, DataFusionError, ScalarValue, Statistics};
use pagecast_core::positions::{Insert, Layer};
use parquet::file::metadata::ParquetMetaDataReader;
use roaring::RoaringTreemap;
use serde_json::Value;

use crate::actions::{Add, FileKey};
use crate::error::{DeltaError, Result, decoded};
use crate::log::State;
use crate::{inside, protocol, schema, vector};

/// A data file of a version.
#[derive(Debug)]
pub(crate) struct DataFile {
    pub(crate) add: Add,
    pub(crate) path: PathBuf,
    /// Rows that are stored in it.
    pub(crate) rows: u64,
    /// Those of them that are deleted.
    pub(crate) deleted: RoaringTreemap,
    /// Values of the partition columns, in their order.
    pub(crate) values: Vec<ScalarValue>,
    /// Bounds of the file's other columns, from the log.
    pub(crate) statistics: Arc<Statistics>,
}

/// The columns of a table.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// In the table's order.
    pub(crate) all: SchemaRef,
    /// Those that are in the files.
    pub(crate) in_files: SchemaRef,
    /// Those whose values are in the log.
    pub(crate) partitions: Fields,
}

impl Columns {
    fn of(root: &Path, state: &State) -> Result<Self> {
        let all = Arc::new(schema::from_log(root, &state.metadata.schema_string)?);
        let names = &state.metadata.partition_columns;
        let partition = |name: &String| {
            all.field_with_name(name).cloned().map_err(|_| {
                DeltaError::broken(root, None, format!("the log names a partition column that is none: {name}"))
            })
        };
        let partitions = names.iter().map(partition).collect::<Result<Fields>>()?;
        let in_files = all.fields().iter().filter(|field| !names.contains(field.name()));
        let in_files = Arc::new(Schema::new(in_files.cloned().collect::<Fields>()));
        Ok(Self { all, in_files, partitions })
    }

    /// Where the table's columns are among those of the files and, behind them, the partition
    /// columns.
    pub(crate) fn places(&self) -> Vec<usize> {
        let scanned: HashMap<_, _> = self
            .in_files
            .fields()
            .iter()
            .chain(&self.partitions)
            .enumerate()
            .map(|(i, field)| (field.name(), i))
            .collect();
        self.all.fields().iter().map(|field| scanned[field.name()]).collect()
    }
}

/// A table at a version. It never changes.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) root: PathBuf,
    pub(crate) state: Arc<State>,
    pub(crate) columns: Columns,
    /// Each with the number that its first row has among all stored rows.
    pub(crate) files: Vec<(u64, Arc<DataFile>)>,
    /// Stored rows of all files.
    pub(crate) stored: u64,
}

impl Snapshot {
    /// The table at `root` in this state. Files that `known` has, too, are not looked at again.
    pub(crate) fn of(root: &Path, state: State, known: Option<&Self>) -> Result<Self> {
        protocol::check_read(root, &state.protocol, &state.metadata)?;
        let columns = Columns::of(root, &state)?;
        let known: HashMap<FileKey, &Arc<DataFile>> = known
            .filter(|known| known.state.metadata == state.metadata)
            .map(|known| known.files.iter().map(|(_, file)| (file.add.key(), file)).collect())
            .unwrap_or_default();
        let (mut files, mut stored) = (Vec::new(), 0_u64);
        for (key, add) in &state.files {
            let file = match known.get(key) {
                Some(file) => Arc::clone(file),
                None => Arc::new(DataFile::of(root, add, &columns)?),
            };
            let first = stored;
            stored = stored
                .checked_add(file.rows)
                .filter(|&rows| rows < i64::MAX as u64)
                .ok_or_else(|| DeltaError::broken(&file.path, None, "the log counts more rows than there can be"))?;
            files.push((first, file));
        }
        Ok(Self { root: root.to_owned(), state: Arc::new(state), columns, files, stored })
    }

    /// The same with more files behind, which no version has yet.
    pub(crate) fn with(&self, files: Vec<Add>) -> Result<Self> {
        let mut more = self.files.clone();
        let mut stored = self.stored;
        for add in files {
            let file = Arc::new(DataFile::of(&self.root, &add, &self.columns)?);
            stored += file.rows;
            more.push((stored - file.rows, file));
        }
        let (root, state, columns) = (self.root.clone(), Arc::clone(&self.state), self.columns.clone());
        Ok(Self { root, state, columns, files: more, stored })
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.state.version
    }

    /// The columns, in the table's order.
    pub fn schema(&self) -> &SchemaRef {
        &self.columns.all
    }

    /// Rows that a query sees.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|(_, file)| file.rows - file.deleted.len()).sum()
    }

    /// The data files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(_, file)| file.path.as_path())
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
    pub(crate) fn of(root: &Path, add: &Add, columns: &Columns) -> Result<Self> {
        let path = inside::path_of(root, &add.path)?;
        let broken = |what: String| DeltaError::broken(&path, None, what);
        if add.size < 0 {
            return Err(broken(format!("the log says that it has {} bytes", add.size)));
        }
        let stats = add.stats.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
        let rows = match stats["numRecords"].as_u64() {
            Some(rows) => rows,
            None => rows_of(&path)?,
        };
        let deleted = add.deletion_vector.as_ref().map(|dv| vector::read(root, dv)).transpose()?.unwrap_or_default();
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
        Ok(Self { add: add.clone(), path, rows, deleted, values, statistics })
    }
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
/// it knows, too, that there are no nulls.
fn statistics(stats: &Value, rows: u64, bytes: usize, columns: &Schema) -> Statistics {
    let precise = |bound: Option<ScalarValue>| bound.map_or(Precision::Absent, Precision::Exact);
    let of_column = |field: &arrow::datatypes::FieldRef| {
        let bound = |of: &str, upper| schema::bound(&stats[of][field.name()], field.data_type(), upper);
        let nested = matches!(field.data_type(), DataType::Struct(_) | DataType::List(_) | DataType::Map(..));
        let known = |of, upper| precise(bound(of, upper).filter(|_| !nested));
        ColumnStatistics::new_unknown()
            .with_min_value(known("minValues", false))
            .with_max_value(known("maxValues", true))
    };
    Statistics {
        num_rows: Precision::Exact(rows as usize),
        total_byte_size: Precision::Inexact(bytes),
        column_statistics: columns.fields().iter().map(of_column).collect(),
    }
}
