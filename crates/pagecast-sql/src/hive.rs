//! Tables in folders of values, in which one folder is that of NULL.
//!
//! Writers call it `key=__HIVE_DEFAULT_PARTITION__`, and DataFusion takes that for a value. Here
//! the values of folders are read as texts, and the table is a projection of them.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::functions::core::expr_fn::nullif;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown, TableType, cast, col, lit,
};
use datafusion::physical_plan::ExecutionPlan;

/// The folder of rows whose key is NULL.
pub(crate) const NULL_FOLDER: &str = "__HIVE_DEFAULT_PARTITION__";

/// A table with a folder of NULL.
#[derive(Debug)]
pub(crate) struct HiveTable {
    rows: ViewTable,
    /// The files, with the keys in their types: rows are added to it.
    files: Arc<ListingTable>,
}

impl HiveTable {
    /// `texts` reads the values of `keys` as they are written, and `files` as they are meant.
    pub(crate) fn new(texts: ListingTable, files: ListingTable, keys: &[(String, DataType)]) -> Result<Self> {
        let schema = files.schema();
        let columns = schema.fields().iter().map(|field| {
            let name = field.name();
            let column = col(datafusion::common::Column::from_name(name));
            match keys.iter().find(|(key, _)| key == name) {
                Some((_, kind)) => cast(nullif(column, lit(NULL_FOLDER)), kind.clone()).alias(name),
                None => column,
            }
        });
        let columns: Vec<Expr> = columns.collect();
        let texts = provider_as_source(Arc::new(Texts(texts)));
        let plan = LogicalPlanBuilder::scan("files", texts, None)?.project(columns)?;
        Ok(Self { rows: ViewTable::new(plan.build()?, None), files: Arc::new(files) })
    }
}

/// The table with its keys as they are written.
///
/// DataFusion leaves a folder out by a filter of keys, and then takes the filter for applied; but
/// it keeps folders for which the filter is NULL. So the filter is applied to rows once more.
#[derive(Debug)]
struct Texts(ListingTable);

#[async_trait]
impl TableProvider for Texts {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.scan(state, projection, filters, limit).await
    }
}

#[async_trait]
impl TableProvider for HiveTable {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        self.rows.get_logical_plan()
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.rows.supports_filters_pushdown(filters)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.rows.scan(state, projection, filters, limit).await
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.files.insert_into(state, input, op).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::assert_batches_eq;
    use datafusion::prelude::SessionContext;

    use crate::tables::discover;

    /// A table of one row a folder, `v` counted from 1. The last file has a column more.
    async fn session(folders: &[&str]) -> SessionContext {
        let folder = tempfile::tempdir().unwrap();
        let ctx = SessionContext::new();
        for (at, name) in folders.iter().enumerate() {
            let path = folder.path().join("t").join(name);
            std::fs::create_dir_all(&path).unwrap();
            let more = if at + 1 == folders.len() { ", 7 AS more" } else { "" };
            let path = path.join("0.parquet");
            let sql = format!("COPY (SELECT {} AS v{more}) TO '{}'", at + 1, path.display());
            ctx.sql(&sql).await.unwrap().collect().await.unwrap();
        }
        for table in discover(folder.path()).unwrap().all().unwrap() {
            table.register(&ctx).await.unwrap();
        }
        // The files are needed until the test ends.
        _ = folder.keep();
        ctx
    }

    /// The numbers `v` of the rows for which `condition` holds.
    async fn rows(ctx: &SessionContext, condition: &str) -> String {
        let sql = format!("SELECT array_to_string(array_agg(v ORDER BY v), ' ') AS v FROM t WHERE {condition}");
        let found = ctx.sql(&sql).await.unwrap().collect().await.unwrap();
        let text = arrow::util::pretty::pretty_format_batches(&found).unwrap().to_string();
        text.lines().nth(3).unwrap().replace('|', "").trim().to_owned()
    }

    #[tokio::test]
    async fn the_folder_of_null_is_null() {
        let null = "h=__HIVE_DEFAULT_PARTITION__";
        let numbers = session(&["h=1", "h=2", null]).await;
        let texts = session(&["h=a b", "h=c%2Fd", null]).await;
        for (ctx, one, other) in [(&numbers, "1", "2"), (&texts, "'a b'", "'c/d'")] {
            for (condition, expected) in [
                ("h IS NULL".to_owned(), "3"),
                ("h IS NOT NULL".to_owned(), "1 2"),
                (format!("h = {one}"), "1"),
                (format!("h <> {one}"), "2"),
                (format!("NOT (h = {one})"), "2"),
                (format!("h > {one}"), "2"),
                (format!("h IN ({one}, {other})"), "1 2"),
                (format!("h NOT IN ({one}, NULL)"), ""),
                (format!("h IS DISTINCT FROM {one}"), "2 3"),
                (format!("h = {other} OR v = 3"), "2 3"),
                (format!("coalesce(h, {one}) = {one}"), "1 3"),
                ("h IN (SELECT h FROM t WHERE v > 1)".to_owned(), "2"),
            ] {
                assert_eq!(rows(ctx, &condition).await, expected, "{condition}");
            }
        }
        let grouped = "SELECT h, count(*) AS rows FROM t GROUP BY h ORDER BY h NULLS LAST";
        let grouped = numbers.sql(grouped).await.unwrap().collect().await.unwrap();
        let expected = [
            "+---+------+",
            "| h | rows |",
            "+---+------+",
            "| 1 | 1    |",
            "| 2 | 1    |",
            "|   | 1    |",
            "+---+------+",
        ];
        assert_batches_eq!(expected, &grouped);
    }

    #[tokio::test]
    async fn a_column_that_a_file_lacks_is_null_there() {
        let ctx = session(&["h=1", "h=2"]).await;
        let sum = ctx.sql("SELECT sum(more) AS sum, count(more) AS count FROM t").await.unwrap();
        let expected = ["+-----+-------+", "| sum | count |", "+-----+-------+", "| 7   | 1     |", "+-----+-------+"];
        assert_batches_eq!(expected, &sum.collect().await.unwrap());
    }
}
