//! A table as DataFusion's own kind of table.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use tokio::sync::OnceCell;

use crate::error;
use crate::table::{Table, Version};

/// A table or a version of one, to be registered with a session.
#[derive(Clone, Debug)]
pub struct IcebergTable {
    pub(crate) table: Arc<Table>,
    schema: SchemaRef,
    pinned: Pinned,
}

#[derive(Clone, Debug)]
enum Pinned {
    /// Each scan is of the newest version.
    No,
    /// All scans of a statement are of the version that the first one finds.
    ToStatement(Arc<OnceCell<Arc<Version>>>),
    To(Arc<Version>),
}

impl IcebergTable {
    /// The newest version, whenever a statement begins.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub async fn newest(table: &Arc<Table>) -> error::Result<Self> {
        let schema = Arc::clone(table.newest().await?.schema());
        Ok(Self { table: Arc::clone(table), schema, pinned: Pinned::No })
    }

    /// One version for ever.
    pub fn version(table: &Arc<Table>, version: Arc<Version>) -> Self {
        Self { table: Arc::clone(table), schema: Arc::clone(version.schema()), pinned: Pinned::To(version) }
    }

    pub(crate) fn is_pinned(&self) -> bool {
        !matches!(self.pinned, Pinned::No)
    }

    /// The same for one statement, whose scans of the table share `seen`.
    pub(crate) fn in_statement(&self, seen: &Arc<OnceCell<Arc<Version>>>) -> Self {
        Self { pinned: Pinned::ToStatement(Arc::clone(seen)), ..self.clone() }
    }
}

#[async_trait]
impl TableProvider for IcebergTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
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
        let version = match &self.pinned {
            Pinned::No => self.table.newest().await?,
            Pinned::ToStatement(seen) => Arc::clone(seen.get_or_try_init(|| self.table.newest()).await?),
            Pinned::To(version) => Arc::clone(version),
        };
        if *version.schema() != self.schema {
            return plan_err!("the columns of an Iceberg table have changed; run the statement or make the view anew");
        }
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        Ok(version.scan(state, projection.unwrap_or(&all), limit).await?)
    }
}
