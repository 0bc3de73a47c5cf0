//! Deletes of all kinds, as the numbers of rows of a data file.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::row::{RowConverter, SortField};
use datafusion::catalog::Session;
use datafusion::common::DataFusionError;
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;
use iceberg::spec::{DataContentType, DataFileFormat, NestedField, NestedFieldRef, PrimitiveType, Type};
use pagecast_tables::{TableFile, TableSnapshot, deletion_vector};
use roaring::RoaringTreemap;

use crate::columns::columns;
use crate::error::{IcebergError, Result, decoded};
use crate::place::{Location, Place};
use crate::plan::{Named, Partition, Planned};
use crate::schemas::Schemas;

/// Ids that the specification gives the columns of files of deleted positions.
const FILE_PATH: i32 = 2_147_483_546;
const POS: i32 = 2_147_483_545;

/// What reads files of deletes.
pub(crate) struct Reader<'a> {
    pub(crate) state: &'a dyn Session,
    pub(crate) place: &'a Place,
    pub(crate) schemas: &'a Schemas,
}

impl Reader<'_> {
    /// The rows of each of these files that are deleted. Each file of deletes is read once.
    pub(crate) async fn deleted(&self, files: &[&Planned]) -> Result<Vec<RoaringTreemap>> {
        let mut deleted = vec![RoaringTreemap::new(); files.len()];
        self.positions(files, &mut deleted).await?;
        for (file, rows) in files.iter().zip(&mut deleted) {
            for vector in file.deletes.iter().filter(|delete| is_vector(delete)) {
                *rows |= self.vector(vector).await?;
            }
        }
        self.equal_rows(files, &mut deleted).await?;
        for (file, rows) in files.iter().zip(&deleted) {
            let (entry, stored) = (&file.file.entry, file.file.entry.record_count());
            if let Some(last) = rows.max().filter(|&last| last >= stored) {
                let fault = format!("row {last} of it is deleted, and it has {stored} rows");
                return Err(IcebergError::broken(entry.file_path(), fault));
            }
        }
        Ok(deleted)
    }

    async fn positions(&self, files: &[&Planned], deleted: &mut [RoaringTreemap]) -> Result<()> {
        let is_positions = |delete: &&Arc<Named>| {
            delete.entry.content_type() == DataContentType::PositionDeletes && !is_vector(delete)
        };
        // By the files of deletes: the data files that each applies to.
        let mut by_delete: BTreeMap<&str, (&Arc<Named>, HashMap<&Location, usize>)> = BTreeMap::new();
        for (number, file) in files.iter().enumerate() {
            for delete in file.deletes.iter().filter(is_positions) {
                let of = by_delete.entry(delete.entry.file_path()).or_insert_with(|| (delete, HashMap::new()));
                of.1.insert(&file.file.location, number);
            }
        }
        let path = NestedField::required(FILE_PATH, "file_path", Type::Primitive(PrimitiveType::String));
        let pos = NestedField::required(POS, "pos", Type::Primitive(PrimitiveType::Long));
        for (at, (delete, of)) in by_delete {
            let columns = columns(at, &[&path, &pos], None, &[])?;
            let snapshot = TableSnapshot::new(self.place.url().clone(), columns, vec![table_file(delete)]);
            let mut known: Option<(String, Option<usize>)> = None;
            each_batch(self.state, snapshot, 2, |batch| {
                let paths = batch.column(0).as_string_view();
                let rows = batch.column(1).as_primitive::<Int64Type>();
                for (path, row) in paths.iter().zip(rows) {
                    let (Some(path), Some(row)) = (path, row.and_then(|row| u64::try_from(row).ok())) else {
                        return Err(IcebergError::broken(at, "a deleted position is none"));
                    };
                    if known.as_ref().is_none_or(|(known, _)| known != path) {
                        let file = Location::of(path).and_then(|location| of.get(&location).copied());
                        known = Some((path.to_owned(), file));
                    }
                    if let Some((_, Some(file))) = known {
                        deleted[file].insert(row);
                    }
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn vector(&self, named: &Named) -> Result<RoaringTreemap> {
        let file = named.entry.data_file();
        let at = file.file_path();
        let part = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
        let (Some(start), Some(bytes)) = (part(file.content_offset()), part(file.content_size_in_bytes())) else {
            return Err(IcebergError::broken(at, "the manifest does not say where its deletion vector is"));
        };
        let blob = self.place.read_range(at, start, bytes).await?;
        let rows = decoded(at, || deletion_vector(&blob))?;
        if rows.len() != file.record_count() {
            let (has, said) = (rows.len(), file.record_count());
            return Err(IcebergError::broken(
                at,
                format!("its deletion vector has {has} rows, and should have {said}"),
            ));
        }
        Ok(rows)
    }

    /// Rows that equal one of a file of equality deletes in its columns.
    async fn equal_rows(&self, files: &[&Planned], deleted: &mut [RoaringTreemap]) -> Result<()> {
        let mut known: BTreeMap<Vec<i32>, Keys> = BTreeMap::new();
        for (file, rows) in files.iter().zip(deleted) {
            let mut sets: BTreeMap<Vec<i32>, Vec<&Arc<Named>>> = BTreeMap::new();
            for delete in file.deletes.iter().filter(|delete| is_equality(delete)) {
                let ids = delete.entry.data_file().equality_ids().unwrap_or_default();
                sets.entry(ids).or_default().push(delete);
            }
            for (ids, deletes) in sets {
                let keys = match known.entry(ids) {
                    Entry::Occupied(keys) => keys.into_mut(),
                    Entry::Vacant(none) => {
                        let keys = Keys::of(self.schemas, none.key(), deletes[0].entry.file_path())?;
                        none.insert(keys)
                    }
                };
                for delete in deletes {
                    self.learn(keys, delete).await?;
                }
                self.find(keys, &file.file, rows).await?;
            }
        }
        Ok(())
    }

    /// Reads a file of equality deletes, unless that was done.
    async fn learn(&self, keys: &mut Keys, delete: &Arc<Named>) -> Result<()> {
        let scope = (!delete.is_of_all()).then(|| delete.partition.clone());
        let at = delete.entry.file_path();
        let columns = columns(at, &keys.fields(), None, &[])?;
        let width = keys.columns.len();
        let of_scope = keys.scopes.entry(scope).or_default();
        if !of_scope.read.insert(at.to_owned()) {
            return Ok(());
        }
        let snapshot = TableSnapshot::new(self.place.url().clone(), columns, vec![table_file(delete)]);
        let converter = &keys.converter;
        each_batch(self.state, snapshot, width, |batch| {
            for key in &converter.convert_columns(batch.columns()).map_err(DataFusionError::from)? {
                let last = of_scope.keys.entry(key.data().into()).or_insert(delete.sequence);
                *last = delete.sequence.max(*last);
            }
            Ok(())
        })
        .await
    }

    /// Adds the rows of a data file that a later file of equality deletes has the key of.
    async fn find(&self, keys: &Keys, file: &Named, rows: &mut RoaringTreemap) -> Result<()> {
        let at = file.entry.file_path();
        let (columns, values) = self.schemas.of_file(at, &keys.fields(), &file.constants)?;
        let width = keys.columns.len();
        let snapshot =
            TableSnapshot::new(self.place.url().clone(), columns, vec![table_file(file).with_values(values)]);
        let scopes: Vec<&Scope> =
            [None, Some(file.partition.clone())].iter().filter_map(|scope| keys.scopes.get(scope)).collect();
        let scan = snapshot.scan_with_positions(self.state, &(0..width).collect::<Vec<_>>(), None)?;
        let mut batches = execute_stream(scan, self.state.task_ctx())?;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            let found = keys.converter.convert_columns(&batch.columns()[..width]).map_err(DataFusionError::from)?;
            let positions = batch.column(width).as_primitive::<Int64Type>().values();
            for (key, &position) in found.iter().zip(positions) {
                let is_later = |scope: &&Scope| scope.keys.get(key.data()).is_some_and(|last| *last > file.sequence);
                if scopes.iter().any(is_later) {
                    rows.insert(position as u64);
                }
            }
        }
        Ok(())
    }
}

fn is_vector(delete: &Named) -> bool {
    delete.entry.file_format() == DataFileFormat::Puffin
}

fn is_equality(delete: &Named) -> bool {
    delete.entry.content_type() == DataContentType::EqualityDeletes
}

/// A file as the reader of tables takes it, of which all rows are left.
pub(crate) fn table_file(named: &Named) -> TableFile {
    TableFile::of(named.path.clone(), named.entry.file_size_in_bytes())
}

async fn each_batch(
    state: &dyn Session,
    snapshot: TableSnapshot,
    columns: usize,
    mut take: impl FnMut(&RecordBatch) -> Result<()>,
) -> Result<()> {
    let scan = snapshot.scan(state, &(0..columns).collect::<Vec<_>>(), None)?;
    let mut batches = execute_stream(scan, state.task_ctx())?;
    while let Some(batch) = batches.next().await {
        take(&batch?)?;
    }
    Ok(())
}

/// Keys that equality deletes name, in the same columns.
struct Keys {
    columns: Vec<NestedFieldRef>,
    converter: RowConverter,
    /// Those of one partition, or of all.
    scopes: HashMap<Option<Partition>, Scope>,
}

#[derive(Default)]
struct Scope {
    /// The files that they come from.
    read: HashSet<String>,
    /// With the newest sequence number that deletes them.
    keys: HashMap<Box<[u8]>, i64>,
}

impl Keys {
    fn of(schemas: &Schemas, ids: &[i32], at: &str) -> Result<Self> {
        if ids.is_empty() {
            return Err(IcebergError::broken(at, "an equality delete has no columns"));
        }
        let column = |id: &i32| {
            let feature = || IcebergError::feature(at, format!("an equality delete of a column in another ({id})"));
            schemas.column(*id).ok_or_else(feature)
        };
        let found = ids.iter().map(column).collect::<Result<Vec<_>>>()?;
        let kinds = columns(at, &found.iter().map(|column| &**column).collect::<Vec<_>>(), None, &[])?;
        let kinds = kinds.all().fields().iter().map(|field| SortField::new(field.data_type().clone()));
        let converter = RowConverter::new(kinds.collect()).map_err(DataFusionError::from)?;
        Ok(Self { columns: found, converter, scopes: HashMap::new() })
    }

    fn fields(&self) -> Vec<&NestedField> {
        self.columns.iter().map(|column| &**column).collect()
    }
}
