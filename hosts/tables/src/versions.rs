//! A table that has versions, as DataFusion's own kind of table.

use std::any::Any;
use std::collections::HashMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, not_impl_err, plan_err};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use tokio::sync::OnceCell;

use crate::filters::is_of_keys;

/// What a format knows of a table: its versions.
#[async_trait]
pub trait TableVersions: Any + Debug + Send + Sync {
    /// The columns of the newest version.
    async fn columns(&self) -> Result<SchemaRef>;

    /// The newest version, for a statement of this session that begins now.
    async fn newest(&self, state: &dyn Session, asked: &Asked<'_>) -> Result<Arc<dyn TableVersion>>;

    /// The version that SQL calls `"table@name"`. None if versions of this format have no names.
    async fn named(&self, name: &str) -> Result<Option<Arc<dyn TableVersion>>> {
        _ = name;
        Ok(None)
    }

    /// Columns of which each file has one value, in all versions.
    fn keys(&self) -> &[String] {
        &[]
    }

    /// A plan that adds rows to the newest version, which had these columns when the statement was
    /// planned.
    async fn insert(
        &self,
        state: &dyn Session,
        columns: &SchemaRef,
        rows: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        _ = (state, columns, rows);
        not_impl_err!("{op} into a table of a format that is read here, and not changed")
    }
}

/// A version of a table. It never changes.
#[async_trait]
pub trait TableVersion: Any + Debug + Send + Sync {
    /// Its columns.
    fn schema(&self) -> &SchemaRef;

    /// A scan of it.
    async fn scan(&self, state: &dyn Session, wanted: &Wanted<'_>) -> Result<Arc<dyn ExecutionPlan>>;
}

/// What a scan is for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Places of the columns in the table.
    pub columns: &'a [usize],
    /// Rows for which one of these does not hold may be left out. Those of key columns alone are
    /// asked nowhere else.
    pub filters: &'a [Expr],
    /// Rows that are enough.
    pub limit: Option<usize>,
}

/// A table or a version of one, to be registered with a session.
#[derive(Clone, Debug)]
pub struct VersionedTable {
    versions: Arc<dyn TableVersions>,
    schema: SchemaRef,
    pinned: Pinned,
}

/// For what a version is asked.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Tables of one catalog agree on a snapshot of it.
    pub agreed: &'a Agreed,
    /// The filters of the one scan that the version is for, as in [`Wanted`]; none if more scans
    /// may follow.
    pub filters: &'a [Expr],
}

/// The snapshots of catalogs that the tables of a statement have agreed on.
#[derive(Debug, Default)]
pub struct Agreed(Mutex<HashMap<PathBuf, i64>>);

impl Agreed {
    /// The snapshot of the catalog in this file, which is the `newest` for who asks first.
    ///
    /// # Errors
    /// That of `newest`.
    pub fn on<E>(&self, catalog: &Path, newest: impl FnOnce() -> Result<i64, E>) -> Result<i64, E> {
        let mut agreed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&snapshot) = agreed.get(catalog) {
            return Ok(snapshot);
        }
        let snapshot = newest()?;
        agreed.insert(catalog.to_owned(), snapshot);
        Ok(snapshot)
    }
}

/// The version that the scans of a statement share, once the first of them has asked.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// None if there is one scan, which knows better what it asks for.
    version: Option<Arc<OnceCell<Arc<dyn TableVersion>>>>,
    /// By all tables of the statement.
    agreed: Arc<Agreed>,
}

impl Seen {
    pub(crate) fn new(scans: usize, agreed: &Arc<Agreed>) -> Self {
        Self { version: (scans > 1).then(Arc::default), agreed: Arc::clone(agreed) }
    }

    async fn version(
        &self,
        versions: &dyn TableVersions,
        state: &dyn Session,
        filters: &[Expr],
    ) -> Result<Arc<dyn TableVersion>> {
        let newest = |filters| async move { versions.newest(state, &Asked { agreed: &self.agreed, filters }).await };
        match &self.version {
            Some(shared) => Ok(Arc::clone(shared.get_or_try_init(|| newest(&[])).await?)),
            None => newest(filters).await,
        }
    }
}

#[derive(Clone, Debug)]
enum Pinned {
    /// Each scan is of the newest version.
    No,
    ToStatement(Seen),
    To(Arc<dyn TableVersion>),
}

impl VersionedTable {
    /// The newest version, whenever a statement begins. In a session that has been
    /// [told](crate::install) all scans of a statement are of one version.
    ///
    /// # Errors
    /// The format cannot tell the columns.
    pub async fn newest(versions: Arc<dyn TableVersions>) -> Result<Self> {
        let columns = versions.columns().await?;
        Ok(Self::of_columns(versions, columns))
    }

    /// [`newest`](Self::newest), which has these columns.
    pub fn of_columns(versions: Arc<dyn TableVersions>, schema: SchemaRef) -> Self {
        Self { versions, schema, pinned: Pinned::No }
    }

    /// One version for ever.
    pub fn at(versions: Arc<dyn TableVersions>, version: Arc<dyn TableVersion>) -> Self {
        Self { versions, schema: Arc::clone(version.schema()), pinned: Pinned::To(version) }
    }

    /// What the format knows.
    pub fn versions(&self) -> &Arc<dyn TableVersions> {
        &self.versions
    }

    /// The version that it is of for ever, if it is.
    pub fn version(&self) -> Option<&Arc<dyn TableVersion>> {
        match &self.pinned {
            Pinned::To(version) => Some(version),
            _ => None,
        }
    }

    pub(crate) fn is_pinned(&self) -> bool {
        !matches!(self.pinned, Pinned::No)
    }

    /// The same for one statement, whose scans of the table share `seen`.
    pub(crate) fn in_statement(&self, seen: &Seen) -> Self {
        Self { pinned: Pinned::ToStatement(seen.clone()), ..self.clone() }
    }
}

#[async_trait]
impl TableProvider for VersionedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let keys = self.versions.keys();
        let of = |filter: &&Expr| match is_of_keys(filter, keys) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Inexact,
        };
        Ok(filters.iter().map(of).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let version = match &self.pinned {
            Pinned::No => self.versions.newest(state, &Asked { agreed: &Agreed::default(), filters }).await?,
            Pinned::ToStatement(seen) => seen.version(&*self.versions, state, filters).await?,
            Pinned::To(version) => Arc::clone(version),
        };
        if *version.schema() != self.schema {
            return plan_err!("the columns of a table have changed; run the statement or make the view anew");
        }
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let columns = projection.unwrap_or(&all);
        version.scan(state, &Wanted { columns, filters, limit }).await
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match &self.pinned {
            Pinned::To(_) => plan_err!("a version of a table was asked for, and only the newest can be changed"),
            _ => self.versions.insert(state, &self.schema, input, op).await,
        }
    }
}
