//! Files that are not Parquet, as a table. DataFusion takes a file that is missing for an empty
//! folder, so that a table whose one file has gone would have no rows and no error; and it knows no
//! hidden folders.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::json::JsonFormat;
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

/// Fails if the one file of a table, in which no rows were found, should have some: it has gone, is
/// back only now, or was cut. `name` is for people.
pub(crate) async fn check_has_no_rows(table: &ListingTable, name: &str, session: &dyn Session) -> Result<()> {
    let format = &table.options().format;
    let may_be_empty = format.is::<CsvFormat>() || format.is::<JsonFormat>();
    for url in table.table_paths() {
        let store = session.runtime_env().object_store(url)?;
        let what = match store.head(url.prefix()).await {
            Err(Error::NotFound { .. }) => "has gone: the table's one file is not there any more",
            Err(error) => return Err(error.into()),
            Ok(file) if file.size == 0 && may_be_empty => continue,
            Ok(file) if file.size == 0 => "has no bytes: whoever writes it has not ended, or has failed",
            Ok(_) => "was not there when the statement began: it is now, so try again",
        };
        return Err(DataFusionError::Execution(format!("{name} {what}")));
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
            check_has_no_rows(&self.rows, file, session).await?;
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

    use crate::listed;
    use crate::tables::{discover, message};

    #[tokio::test]
    async fn a_file_that_has_gone_or_lost_its_bytes_is_an_error_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        for (format, of_no_bytes) in [
            ("parquet", "has no bytes: whoever writes it has not ended, or has failed"),
            ("arrow", "has no bytes: whoever writes it has not ended, or has failed"),
            ("csv", "no error, and no rows"),
        ] {
            let path = folder.path().join(format!("t.{format}"));
            let ctx = SessionContext::new();
            listed::install(&ctx);
            let copy = format!("COPY (SELECT 1 AS a) TO '{}'", path.display());
            ctx.sql(&copy).await.unwrap().collect().await.unwrap();
            for table in discover(&path).unwrap().all().unwrap() {
                table.register(&ctx).await.unwrap();
            }
            let place = path.display();
            ctx.sql(&format!("CREATE EXTERNAL TABLE e STORED AS {format} LOCATION '{place}'")).await.unwrap();
            let error_of = async |table| {
                let rows = async { ctx.sql(&format!("SELECT a FROM {table}")).await?.collect().await };
                match rows.await {
                    Err(error) => message(&error),
                    Ok(rows) if rows.is_empty() => "no error, and no rows".to_owned(),
                    Ok(_) => "none".to_owned(),
                }
            };
            for table in ["t", "e"] {
                assert_eq!(error_of(table).await, "none");
            }
            std::fs::write(&path, "").unwrap();
            for table in ["t", "e"] {
                let error = error_of(table).await;
                assert!(error.ends_with(of_no_bytes), "{table}: {error}");
            }
            std::fs::remove_file(&path).unwrap();
            for table in ["t", "e"] {
                let error = error_of(table).await;
                assert_eq!(error, format!("{place} has gone: the table's one file is not there any more"));
            }
        }
    }
}
