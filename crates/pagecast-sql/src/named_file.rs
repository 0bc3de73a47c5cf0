//! A table of one file that was named. DataFusion takes a file that is missing for an empty folder,
//! so that a table whose file has gone would have no rows and no error.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::ListingTable;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use object_store::{Error, ObjectStoreExt};

/// A table of one file, which is not Parquet.
#[derive(Debug)]
pub(crate) struct NamedFile {
    rows: ListingTable,
    /// Where it is, for people: without secrets.
    name: String,
}

impl NamedFile {
    pub(crate) fn new(rows: ListingTable, name: String) -> Self {
        Self { rows, name }
    }
}

/// Fails if the file of a table, which has this name for people, has gone.
pub(crate) async fn check_is_there(table: &ListingTable, name: &str, session: &dyn Session) -> Result<()> {
    for url in table.table_paths() {
        let store = session.runtime_env().object_store(url)?;
        if let Err(Error::NotFound { .. }) = store.head(url.prefix()).await {
            let what = format!("{name} has gone: the table's one file is not there any more");
            return Err(DataFusionError::Execution(what));
        }
    }
    Ok(())
}

#[async_trait]
impl TableProvider for NamedFile {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    fn table_type(&self) -> TableType {
        self.rows.table_type()
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.rows.supports_filters_pushdown(filters)
    }

    /// Only what would read nothing is looked at again: else there is a file.
    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.rows.scan(session, projection, filters, limit).await?;
        if plan.is::<EmptyExec>() {
            check_is_there(&self.rows, &self.name, session).await?;
        }
        Ok(plan)
    }

    async fn insert_into(
        &self,
        session: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.rows.insert_into(session, input, op).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::prelude::SessionContext;

    use crate::tables::{discover, message};

    #[tokio::test]
    async fn a_file_that_has_gone_is_an_error_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        for format in ["parquet", "csv"] {
            let path = folder.path().join(format!("t.{format}"));
            let ctx = SessionContext::new();
            let copy = format!("COPY (SELECT 1 AS a) TO '{}'", path.display());
            ctx.sql(&copy).await.unwrap().collect().await.unwrap();
            for table in discover(&path).unwrap().all().unwrap() {
                table.register(&ctx).await.unwrap();
            }
            let rows = async || ctx.sql("SELECT a FROM t").await?.collect().await;
            assert_eq!(rows().await.unwrap()[0].num_rows(), 1);
            std::fs::remove_file(&path).unwrap();
            let error = message(&rows().await.unwrap_err());
            assert_eq!(error, format!("{} has gone: the table's one file is not there any more", path.display()));
        }
    }
}
