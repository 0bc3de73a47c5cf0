//! Parquet files, alone or in a folder, as a table. All scans of it in a statement see one listing.
//!
//! DataFusion lists the files, and knows of each what its footer says. The values of folders
//! (`year=2024`) are taken as they are written, for writers call the folder of NULL
//! `year=__HIVE_DEFAULT_PARTITION__`, and DataFusion takes that for a value.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::datasource::listing::{ListingTable, PartitionedFile};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::functions::core::expr_fn::nullif;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, cast, ident, lit};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::ExecutionPlan;
use pagecast_corrections::uuid;
use pagecast_datafusion::naming_broken_files;
use pagecast_tables::{
    Asked, Column, TableColumns, TableFile, TableSnapshot, TableVersion, TableVersions, Wanted, is_of_keys, parts_of,
};

use crate::keys::{NULL_FOLDER, Numbers, is_null, is_shown};
use crate::named_file::check_has_no_rows;

/// A table of Parquet files.
#[derive(Debug)]
pub(crate) struct Folder {
    /// Lists the files, with the values of their folders as texts.
    files: ListingTable,
    /// The same with values in their types: rows are added to it.
    typed: ListingTable,
    keys: Vec<String>,
    numbers: Numbers,
    columns: TableColumns,
    /// Its one file, for people, if it has one that was named.
    file: Option<String>,
}

impl Folder {
    /// `files` lists the values of `keys` as texts, and `typed` in their types.
    pub(crate) fn new(
        files: ListingTable,
        typed: ListingTable,
        keys: &[(String, DataType)],
        numbers: Numbers,
        file: Option<String>,
    ) -> Result<Self> {
        let keys: Vec<String> = keys.iter().map(|(key, _)| key.clone()).collect();
        let schema = typed.schema();
        // A folder of NULL may come at any time.
        let field = |field: &FieldRef| match keys.contains(field.name()) {
            true => Arc::new(field.as_ref().clone().with_nullable(true)),
            false => Arc::clone(field),
        };
        let fields: Fields = schema.fields().iter().map(field).collect();
        let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
        let mut columns = TableColumns::new(Arc::new(schema), &keys.iter().map(String::as_str).collect::<Vec<_>>())?;
        if columns.in_files().fields().iter().any(|field| is_made(field)) {
            let found_as = columns.in_files().fields().iter().map(|field| by_name(field)).collect();
            columns = columns.found_as(found_as);
        }
        Ok(Self { files, typed, keys, numbers, columns, file })
    }

    /// A filter of keys, in terms of their texts.
    fn of_texts(&self, filter: &Expr) -> Result<Expr> {
        let of_text = |part: Expr| match &part {
            Expr::Column(column) => {
                let kind = self.columns.all().field_with_name(&column.name)?.data_type().clone();
                let text = nullif(ident(&column.name), lit(NULL_FOLDER));
                Ok(Transformed::yes(cast(text, kind)))
            }
            _ => Ok(Transformed::no(part)),
        };
        Ok(filter.clone().transform_up(of_text)?.data)
    }

    /// The folders that `key = value` is about, by which DataFusion lists no others.
    fn folder(&self, filter: &Expr) -> Option<Expr> {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = filter else { return None };
        let (Expr::Column(key), Expr::Literal(value, _)) = (&**left, &**right) else { return None };
        let kind = self.columns.all().field_with_name(&key.name).ok()?.data_type();
        if *kind == DataType::Boolean || self.numbers == Numbers::AsTheyCome && !kind.is_string() {
            return None;
        }
        let text = value.cast_to(&DataType::Utf8).ok()?;
        // Writers differ in how they write other characters.
        let is_plain = |text: &&str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let text = text.try_as_str().flatten().filter(is_plain)?;
        Some(ident(&key.name).eq(lit(text)))
    }

    fn table_file(&self, file: PartitionedFile) -> Result<TableFile> {
        let kinds = self.columns.partitions().iter().map(|key| key.data_type());
        let value = |(text, kind): (&ScalarValue, &DataType)| match text.try_as_str().flatten() {
            Some(text) if !is_null(text) => ScalarValue::try_from_string(text.to_owned(), kind),
            _ => ScalarValue::try_from(kind),
        };
        let values = file.partition_values.iter().zip(kinds).map(value).collect::<Result<Vec<_>>>();
        let values = values.map_err(|error| {
            let at = &file.object_meta.location;
            DataFusionError::Execution(format!("{at}: its folder's value is none of the table: {error}"))
        })?;
        Ok(TableFile::listed(file, values))
    }

    /// The files; those of which no row is asked for may be missing.
    async fn list(&self, state: &dyn Session, filters: &[Expr]) -> Result<Listing> {
        let filters = filters.iter().filter(|filter| is_of_keys(filter, &self.keys));
        let of_texts = filters.flat_map(|filter| [Some(self.of_texts(filter)), self.folder(filter).map(Ok)]);
        let of_texts = of_texts.flatten().collect::<Result<Vec<_>>>()?;
        let listed = self.files.list_files_for_scan(state, &of_texts, None).await?;
        let ordering = self.files.try_create_output_ordering(state.execution_props(), &listed.file_groups)?;
        // Their statistics are known now, and their rows are read by footers that the host keeps.
        let footers = state.runtime_env().cache_manager.get_file_metadata_cache();
        let files = listed.file_groups.into_iter().flat_map(|group| group.into_inner()).inspect(|file| {
            footers.remove(&file.object_meta.location);
        });
        let files = files.filter(|file| is_shown(self.files.table_paths(), &file.object_meta.location));
        let files = files.map(|file| self.table_file(file)).collect::<Result<Vec<_>>>()?;
        if let (Some(name), true) = (&self.file, files.is_empty()) {
            check_has_no_rows(&self.files, name, state).await?;
        }
        let store =
            self.files.table_paths().first().map_or_else(ObjectStoreUrl::local_filesystem, |url| url.object_store());
        Ok(Listing { store, columns: self.columns.clone(), files, ordering })
    }
}

/// Whether the column, or a part of it, has UUIDs or intervals, which no other reader makes of
/// bytes.
fn is_made(field: &Field) -> bool {
    let is_interval = matches!(field.data_type(), DataType::Interval(_));
    is_interval || uuid::is_text(field) || parts_of(field.data_type()).iter().any(|part| is_made(part))
}

/// How files have a column that they have by its name.
fn by_name(field: &Field) -> Column {
    let parts = parts_of(field.data_type()).iter().map(|part| by_name(part)).collect();
    Column { parts, ..Column::named(field.name()) }
}

#[async_trait]
impl TableVersions for Folder {
    async fn columns(&self) -> Result<SchemaRef> {
        Ok(Arc::clone(self.columns.all()))
    }

    async fn newest(&self, state: &dyn Session, asked: &Asked<'_>) -> Result<Arc<dyn TableVersion>> {
        Ok(Arc::new(naming_broken_files(state, self.files.table_paths(), self.list(state, asked.filters)).await?))
    }

    fn keys(&self) -> &[String] {
        &self.keys
    }

    async fn insert(
        &self,
        state: &dyn Session,
        _columns: &SchemaRef,
        rows: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.typed.insert_into(state, rows, op).await
    }
}

/// The files of a table when a statement began.
#[derive(Debug)]
struct Listing {
    store: ObjectStoreUrl,
    columns: TableColumns,
    files: Vec<TableFile>,
    ordering: Vec<LexOrdering>,
}

#[async_trait]
impl TableVersion for Listing {
    fn schema(&self) -> &SchemaRef {
        self.columns.all()
    }

    async fn scan(&self, state: &dyn Session, wanted: &Wanted<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        TableSnapshot::new(self.store.clone(), self.columns.clone(), self.files.clone())
            .ordered(self.ordering.clone())
            .matching(state, wanted.filters)?
            .measured()
            .scan(state, wanted.columns, wanted.limit)
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
        let others = session(&["h=x%3Ay", "h=y-x", null]).await;
        for (ctx, one, other) in [(&numbers, "1", "2"), (&texts, "'a b'", "'c/d'"), (&others, "'x:y'", "'y-x'")] {
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
