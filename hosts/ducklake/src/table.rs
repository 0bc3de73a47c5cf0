//! A table, its versions, and their scans.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Fields, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, Statistics};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use pagecast_tables::{Asked, Column, TableColumns, TableFile, TableSnapshot, TableVersion, TableVersions, Wanted};
use parking_lot::Mutex;

use crate::catalog::{Catalog, DataFile, Version};
use crate::error::{self, DuckLakeError};
use crate::{columns, rows};

/// A table of a catalog. It may be shared by any number of threads.
#[derive(Debug)]
pub struct Table {
    catalog: Arc<Catalog>,
    schema: String,
    table: String,
    last: Mutex<Option<Arc<Seen>>>,
}

/// A snapshot that was read.
#[derive(Debug)]
struct Seen {
    /// The catalog's file.
    at: PathBuf,
    version: Version,
    columns: TableColumns,
    found_as: Vec<Column>,
    files: Vec<TableFile>,
    /// What later snapshots need not read again.
    gone: HashMap<GoneKey, Arc<Vec<u64>>>,
    rows: u64,
}

/// A file, its deletes, and how many of its rows the catalog deletes.
type GoneKey = (i64, Option<i64>, usize);

impl Table {
    /// The table with this name in the catalog.
    ///
    /// # Errors
    /// The catalog cannot be read, has no such table, or uses what is not read here.
    pub fn open(catalog: Arc<Catalog>, schema: &str, table: &str) -> error::Result<Arc<Self>> {
        let (schema, table) = (schema.to_owned(), table.to_owned());
        let opened = Self { catalog, schema, table, last: Mutex::default() };
        opened.newest_seen()?;
        Ok(Arc::new(opened))
    }

    /// The data files of the newest snapshot.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub fn files(&self) -> error::Result<Vec<PathBuf>> {
        Ok(self.newest_seen()?.version.files.iter().map(|file| file.path.clone()).collect())
    }

    /// The table at a snapshot.
    ///
    /// # Errors
    /// There is none, or as [`Table::open`].
    pub fn at(&self, snapshot: i64) -> error::Result<Arc<dyn TableVersion>> {
        let version = self.catalog.version(&self.schema, &self.table, snapshot)?;
        Ok(Arc::new(Seen::of(&self.catalog, version, None)?))
    }

    fn newest_seen(&self) -> error::Result<Arc<Seen>> {
        self.seen(self.catalog.newest()?)
    }

    /// The table at a snapshot that was the newest when a statement began.
    fn seen(&self, snapshot: i64) -> error::Result<Arc<Seen>> {
        let mut last = self.last.lock();
        if let Some(known) = last.as_ref().filter(|known| known.version.snapshot == snapshot) {
            return Ok(Arc::clone(known));
        }
        let version = self.catalog.version(&self.schema, &self.table, snapshot)?;
        // A statement that is planned for long may come to a table behind others.
        let earlier = last.as_deref().filter(|known| known.version.snapshot < snapshot);
        let seen = Arc::new(Seen::of(&self.catalog, version, earlier)?);
        if earlier.is_some() || last.is_none() {
            *last = Some(Arc::clone(&seen));
        }
        Ok(seen)
    }
}

#[async_trait]
impl TableVersions for Table {
    async fn columns(&self) -> Result<SchemaRef> {
        Ok(Arc::clone(self.newest_seen()?.columns.all()))
    }

    async fn newest(&self, _state: &dyn Session, asked: &Asked<'_>) -> Result<Arc<dyn TableVersion>> {
        let snapshot = asked.agreed.on(&self.catalog.path, || self.catalog.newest())?;
        Ok(self.seen(snapshot)?)
    }

    /// `v` and the number of a snapshot.
    async fn named(&self, name: &str) -> Result<Option<Arc<dyn TableVersion>>> {
        let number = name.strip_prefix('v').and_then(|number| number.parse().ok());
        Ok(number.map(|snapshot| self.at(snapshot)).transpose()?)
    }
}

impl Seen {
    /// What an `earlier` one has read of the same files is not read again.
    fn of(catalog: &Catalog, version: Version, earlier: Option<&Self>) -> error::Result<Self> {
        let added = version.files.iter().filter(|file| file.is_by_names);
        for file in added.clone() {
            if rows::has_ids(&file.path)? && added.clone().count() < version.files.len() {
                return Err(DuckLakeError::feature(&file.path, "an added file with ids of its own"));
            }
        }
        let by_names = added.count() == version.files.len() && !version.files.is_empty();
        let top = version.columns.iter().filter(|row| row.parent.is_none());
        let columns = top.map(|row| columns::column(&catalog.path, row, &version.columns));
        let (fields, mut found_as): (Vec<FieldRef>, Vec<Column>) =
            columns.collect::<error::Result<Vec<_>>>()?.into_iter().unzip();
        let ids: Vec<i64> = found_as.iter().map(|column| column.id.map_or(-1, i64::from)).collect();
        let (mut files, mut gone, mut rows) = (Vec::new(), HashMap::new(), 0);
        for file in &version.files {
            let key = (file.id, file.deletes.as_ref().map(|deletes| deletes.id), file.deleted.len());
            let known = earlier.and_then(|earlier| earlier.gone.get(&key).cloned());
            let (of_file, is_last) = match known {
                Some(known) => (known, true),
                None => rows::gone(file, version.snapshot).map(|(gone, is_last)| (Arc::new(gone), is_last))?,
            };
            if is_last {
                gone.insert(key, Arc::clone(&of_file));
            }
            let left = file.rows - of_file.len() as u64;
            rows = u64::checked_add(rows, left).filter(|&rows| rows < i64::MAX as u64).ok_or_else(|| {
                DuckLakeError::broken(&catalog.path, "the catalog counts more rows than there can be")
            })?;
            if left > 0 {
                let statistics = Arc::new(statistics(file, &fields, &ids));
                let table_file = TableFile::at(&file.path, file.bytes)?.with_statistics(statistics);
                files.push(table_file.without(file.rows, of_file.iter().copied()));
            }
        }
        if by_names {
            found_as.iter_mut().for_each(without_ids);
        }
        let all = Arc::new(Schema::new(Fields::from(fields)));
        let columns = TableColumns::new(all, &[])?.found_as(found_as.clone());
        Ok(Self { at: catalog.path.clone(), version, columns, found_as, files, gone, rows })
    }
}

fn without_ids(column: &mut Column) {
    column.id = None;
    column.parts.iter_mut().for_each(without_ids);
}

/// What the catalog knows of a file.
fn statistics(file: &DataFile, fields: &[FieldRef], ids: &[i64]) -> Statistics {
    let of_column = |(field, id): (&Arc<Field>, &i64)| {
        let mut known = ColumnStatistics::new_unknown();
        let Some(bounds) = file.bounds.get(id) else { return known };
        known.null_count = bounds.nulls.map_or(Precision::Absent, |nulls| Precision::Exact(nulls as usize));
        if columns::has_bounds(field.data_type()) {
            let value = |text: &Option<String>| {
                let value = text.as_ref().and_then(|text| columns::value(text, field.data_type()).ok());
                value.map_or(Precision::Absent, Precision::Exact)
            };
            (known.min_value, known.max_value) = (value(&bounds.min), value(&bounds.max));
        }
        known
    };
    Statistics {
        num_rows: Precision::Absent,
        total_byte_size: Precision::Absent,
        column_statistics: fields.iter().zip(ids).map(of_column).collect(),
    }
}

#[async_trait]
impl TableVersion for Seen {
    fn schema(&self) -> &SchemaRef {
        self.columns.all()
    }

    async fn scan(&self, state: &dyn Session, wanted: &Wanted<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        let inlined = self.version.inlined.iter();
        let inlined = inlined
            .map(|rows| rows::of_catalog(&self.at, rows, self.schema(), &self.found_as))
            .collect::<error::Result<Vec<_>>>()?;
        let snapshot = TableSnapshot::new(ObjectStoreUrl::local_filesystem(), self.columns.clone(), self.files.clone());
        let stored = snapshot.of_rows(self.rows).scan(state, wanted.columns, wanted.limit)?;
        if inlined.is_empty() {
            return Ok(stored);
        }
        let (schema, columns) = (Arc::clone(self.schema()), wanted.columns.to_vec());
        let inlined = MemorySourceConfig::try_new_exec(&[inlined], schema, Some(columns))?;
        if self.files.is_empty() {
            return Ok(inlined);
        }
        UnionExec::try_new(vec![stored, inlined])
    }
}
