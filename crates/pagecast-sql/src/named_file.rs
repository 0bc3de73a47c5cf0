//! Files that are not Parquet, as a table. DataFusion takes a file that is missing for an empty
//! folder, so that a table whose one file has gone would have no rows and no error; and it knows no
//! hidden folders.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::{ListingTable, PartitionedFile};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use object_store::{Error, ObjectStoreExt};

use crate::keys::is_shown;
use crate::unpacked::is_unpacked;

/// A table of files that are not Parquet.
#[derive(Debug)]
pub(crate) struct OtherFiles {
    rows: ListingTable,
    /// Where its one file is, if it has one that was named, for people: without secrets.
    file: Option<String>,
}

impl OtherFiles {
    pub(crate) fn new(rows: ListingTable, file: Option<String>) -> Self {
        Self { rows, file }
    }

    /// The plan without the files that are hidden.
    fn shown(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let shown = plan.transform_down(|plan| {
            let source = plan.downcast_ref::<DataSourceExec>().map(DataSourceExec::data_source);
            let Some(config) = source.and_then(|source| source.downcast_ref::<FileScanConfig>()) else {
                return Ok(Transformed::no(plan));
            };
            let is_ours = |file: &PartitionedFile| is_shown(self.rows.table_paths(), &file.object_meta.location);
            let is_packed = self.rows.table_paths().iter().any(is_unpacked);
            if !is_packed && config.file_groups.iter().flat_map(FileGroup::iter).all(is_ours) {
                return Ok(Transformed::no(plan));
            }
            let group =
                |group: &FileGroup| FileGroup::new(group.iter().filter(|file| is_ours(file)).cloned().collect());
            let groups: Vec<_> = config.file_groups.iter().map(group).filter(|group| !group.is_empty()).collect();
            // What is said of the groups keeps packed files from being cut.
            let whole = is_packed.then_some(Partitioning::UnknownPartitioning(groups.len()));
            let config = FileScanConfigBuilder::from(config.clone()).with_file_groups(groups);
            let config = config.with_output_partitioning(whole).build();
            Ok(Transformed::yes(DataSourceExec::from_data_source(config) as _))
        });
        Ok(shown?.data)
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
impl TableProvider for OtherFiles {
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
        if let (true, Some(file)) = (plan.is::<EmptyExec>(), &self.file) {
            check_is_there(&self.rows, file, session).await?;
        }
        self.shown(plan)
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
