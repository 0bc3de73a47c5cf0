//! What a session sees of a table, and its scan.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Fields, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, Statistics, plan_err};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use pagecast_tables::{Column, TableColumns, TableFile, TableSnapshot};
use parking_lot::Mutex;

use crate::catalog::{Catalog, DataFile, Version};
use crate::error::{self, DuckLakeError};
use crate::{columns, rows};

/// A table of a catalog, to be registered with a session.
#[derive(Debug)]
pub struct DuckLakeTable {
    catalog: Arc<Catalog>,
    schema: String,
    table: String,
    /// Without one each scan is of the newest; two of one statement may differ.
    snapshot: Option<i64>,
    columns: SchemaRef,
    last: Mutex<Option<Arc<Seen>>>,
}

/// A snapshot that was read.
#[derive(Debug)]
struct Seen {
    version: Version,
    columns: TableColumns,
    found_as: Vec<Column>,
    files: Vec<TableFile>,
    gone: HashMap<GoneKey, Arc<Vec<u64>>>,
    rows: u64,
}

/// A file, its deletes, how many of its rows the catalog deletes, and the snapshot if that is none
/// of the newest: these see all that is in the files.
type GoneKey = (i64, Option<i64>, usize, Option<i64>);

impl DuckLakeTable {
    /// The table at a snapshot, or at the newest whenever a scan is planned.
    ///
    /// # Errors
    /// The catalog cannot be read, has no such table or snapshot, or uses what is not read here.
    pub fn open(
        catalog: Arc<Catalog>,
        schema: &str,
        table: &str,
        snapshot: Option<i64>,
    ) -> std::result::Result<Self, DuckLakeError> {
        let (schema, table) = (schema.to_owned(), table.to_owned());
        let columns = Arc::new(Schema::empty());
        let opened = Self { catalog, schema, table, snapshot, columns, last: Mutex::default() };
        let columns = Arc::clone(opened.seen()?.columns.all());
        Ok(Self { columns, ..opened })
    }

    /// The data files of the snapshot.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub fn files(&self) -> std::result::Result<Vec<PathBuf>, DuckLakeError> {
        Ok(self.seen()?.version.files.iter().map(|file| file.path.clone()).collect())
    }

    /// What a statement that begins now sees.
    fn seen(&self) -> error::Result<Arc<Seen>> {
        let mut last = self.last.lock();
        if let Some(known) = last.as_ref()
            && (self.snapshot.is_some() || self.catalog.newest()? == known.version.snapshot)
        {
            return Ok(Arc::clone(known));
        }
        let version = self.catalog.version(&self.schema, &self.table, self.snapshot)?;
        let seen = Arc::new(Seen::of(&self.catalog, version, self.snapshot, last.as_deref())?);
        Ok(Arc::clone(last.insert(seen)))
    }
}

impl Seen {
    /// What `known` has read of the same files is not read again.
    fn of(catalog: &Catalog, version: Version, pinned: Option<i64>, known: Option<&Self>) -> error::Result<Self> {
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
            let key = gone_key(file, pinned);
            let known = known.and_then(|known| known.gone.get(&key));
            let of_file =
                known.map_or_else(|| rows::gone(file, version.snapshot).map(Arc::new), |of| Ok(of.clone()))?;
            gone.insert(key, Arc::clone(&of_file));
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
        Ok(Self { version, columns, found_as, files, gone, rows })
    }
}

fn gone_key(file: &DataFile, pinned: Option<i64>) -> GoneKey {
    (file.id, file.deletes.as_ref().map(|deletes| deletes.id), file.deleted.len(), pinned)
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
impl TableProvider for DuckLakeTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.columns)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let seen = self.seen()?;
        if *seen.columns.all() != self.columns {
            return plan_err!("the columns of {}.{} have changed; register it anew", self.schema, self.table);
        }
        let all: Vec<usize> = (0..self.columns.fields().len()).collect();
        let projection = projection.unwrap_or(&all);
        let inlined = seen.version.inlined.iter();
        let inlined = inlined
            .map(|rows| rows::of_catalog(&self.catalog.path, rows, &self.columns, &seen.found_as))
            .collect::<error::Result<Vec<_>>>()?;
        let snapshot = TableSnapshot::new(ObjectStoreUrl::local_filesystem(), seen.columns.clone(), seen.files.clone());
        let stored = snapshot.of_rows(seen.rows).scan(state, projection, limit)?;
        if inlined.is_empty() {
            return Ok(stored);
        }
        let schema = Arc::clone(&self.columns);
        let inlined = MemorySourceConfig::try_new_exec(&[inlined], schema, Some(projection.clone()))?;
        if seen.files.is_empty() {
            return Ok(inlined);
        }
        UnionExec::try_new(vec![stored, inlined])
    }
}
