//! Columns of files that have other names, types, places or parts than the table has: each query
//! is asked of DataFusion and of a session with a pool.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use arrow::util::pretty::pretty_format_batches;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use pagecast::{Pool, PoolOptions};
use pagecast_datafusion::{HostOptions, install_with};
use pagecast_tables::{Column, TableColumns, TableFile, TableSnapshot};
use parquet::arrow::{ArrowWriter, PARQUET_FIELD_ID_META_KEY};
use parquet::file::properties::WriterProperties;

/// A table of these files.
#[derive(Debug)]
struct Files {
    columns: TableColumns,
    files: Vec<TableFile>,
}

#[async_trait]
impl TableProvider for Files {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.columns.all())
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
        let all: Vec<usize> = (0..self.schema().fields().len()).collect();
        let snapshot = TableSnapshot::new(ObjectStoreUrl::local_filesystem(), self.columns.clone(), self.files.clone());
        snapshot.scan(state, projection.unwrap_or(&all), limit)
    }
}

fn with_id(name: &str, kind: DataType, id: i32) -> Field {
    let id = (PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string());
    Field::new(name, kind, true).with_metadata([id].into())
}

/// A file of at least three row groups.
fn write(path: &Path, fields: Vec<Field>, columns: Vec<ArrayRef>) -> TableFile {
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let properties =
        WriterProperties::builder().set_max_row_group_row_count(Some((rows.num_rows() / 40).max(10))).build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    TableFile::at(path, path.metadata().unwrap().len()).unwrap()
}

fn texts(of: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(of.map(|number| format!("t{number}"))))
}

/// Sessions over the table, the second with a pool.
fn sessions(table: &Arc<Files>) -> [SessionContext; 2] {
    let session = || SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    let (plain, pooled) = (session(), session());
    let pool = Pool::new(PoolOptions::default().memory(4 << 20)).unwrap();
    // So little that the join below is done in chunks.
    install_with(&pooled, pool, HostOptions::default().join_memory(Some(1))).unwrap();
    for ctx in [&plain, &pooled] {
        ctx.register_table("t", Arc::clone(table) as _).unwrap();
    }
    [plain, pooled]
}

async fn rows(ctx: &SessionContext, sql: &str) -> String {
    let batches = ctx.sql(sql).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

async fn check(table: &Arc<Files>, sql: &str, expected: &[&str]) {
    for ctx in sessions(table) {
        let rows = rows(&ctx, sql).await;
        let rows: Vec<_> = rows.lines().filter(|line| line.starts_with('|')).skip(1).collect();
        let rows: Vec<_> = rows.iter().map(|row| row.trim_matches(['|', ' ']).replace(' ', "")).collect();
        assert_eq!(rows, expected, "{sql}");
    }
}

/// `a` was called `b` and `b` was called `a` in the older of two files, and `c` is new. The older
/// one may have `a` in a narrower type.
fn swapped(folder: &Path, older: &DataType, rows: i64) -> Arc<Files> {
    let (low, high) = (0..rows, 100..100 + rows);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(low.clone()));
    let old = write(
        &folder.join("old.parquet"),
        vec![with_id("b", older.clone(), 1), with_id("a", DataType::Utf8, 2)],
        vec![cast(&numbers, older).unwrap(), texts(low)],
    );
    let new = write(
        &folder.join("new.parquet"),
        vec![with_id("c", DataType::Int64, 3), with_id("a", DataType::Int64, 1), with_id("b", DataType::Utf8, 2)],
        vec![
            Arc::new(Int64Array::from_iter_values(high.clone().map(|of| of * 2))),
            Arc::new(Int64Array::from_iter_values(high.clone())),
            texts(high),
        ],
    );
    let all = Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Utf8, true),
        Field::new("c", DataType::Int64, true),
    ]);
    let found = [1, 2, 3].map(Column::with_id);
    let mut found = found.to_vec();
    found[2].default = Some(ScalarValue::Int32(Some(-7)));
    let columns = TableColumns::new(Arc::new(all), &[]).unwrap().found_as(found);
    Arc::new(Files { columns, files: vec![old, new] })
}

#[tokio::test]
async fn columns_are_found_by_their_ids() {
    let folder = tempfile::tempdir().unwrap();
    let table = swapped(folder.path(), &DataType::Int32, 40);
    for (sql, expected) in [
        ("SELECT count(*), sum(a), min(b), max(b) FROM t", "80|5560|t0|t9"),
        ("SELECT a, b, c FROM t WHERE a = 35", "35|t35|-7"),
        ("SELECT a, b, c FROM t WHERE b = 't120'", "120|t120|240"),
        ("SELECT count(*) FROM t WHERE c = -7", "40"),
        ("SELECT count(*), sum(c) FROM t WHERE a > 105 AND c < 230", "9|1980"),
        ("SELECT count(*) FROM t WHERE b IS NULL", "0"),
    ] {
        check(&table, sql, &[&expected.replace(' ', "")]).await;
    }
}

#[tokio::test]
async fn joins_cut_by_the_keys_of_each_file() {
    let folder = tempfile::tempdir().unwrap();
    let table = swapped(folder.path(), &DataType::Int64, 300_000);
    let sql = "SELECT count(*), sum(x.a), sum(y.c) FROM t x JOIN t y ON x.a = y.a WHERE y.b <> 't3'";
    let mut expected = Vec::new();
    for ctx in sessions(&table) {
        expected.push(rows(&ctx, sql).await);
    }
    assert_eq!(expected[0], expected[1]);
    let [_, pooled] = sessions(&table);
    let plan = rows(&pooled, &format!("EXPLAIN ANALYZE {sql}")).await;
    assert!(plan.contains("CooperativeMergeJoinExec"), "{plan}");
}

#[tokio::test]
async fn parts_of_columns_are_found_by_their_ids() {
    let folder = tempfile::tempdir().unwrap();
    let parts = Fields::from(vec![with_id("y", DataType::Int32, 11), with_id("x", DataType::Utf8, 12)]);
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..30));
    let pairs = StructArray::new(parts.clone(), vec![numbers, texts(0..30)], None);
    let element = Arc::new(with_id("element", DataType::Struct(parts.clone()), 21));
    let lengths = arrow::buffer::OffsetBuffer::from_lengths(std::iter::repeat_n(1, 30));
    let list = ListArray::new(Arc::clone(&element), lengths, Arc::new(pairs.clone()), None);
    let file = write(
        &folder.path().join("a.parquet"),
        vec![with_id("p", DataType::Struct(parts), 1), with_id("l", DataType::List(element), 2)],
        vec![Arc::new(pairs), Arc::new(list)],
    );
    // The names of the parts are swapped, one is wider and one is new.
    let now = Fields::from(vec![
        Field::new("y", DataType::Utf8, true),
        Field::new("new", DataType::Int64, true),
        Field::new("x", DataType::Int64, true),
    ]);
    let element = Arc::new(Field::new("element", DataType::Struct(now.clone()), true));
    let all =
        Schema::new(vec![Field::new("q", DataType::Struct(now), true), Field::new("m", DataType::List(element), true)]);
    let new = Column { default: Some(ScalarValue::Int64(Some(5))), ..Column::with_id(13) };
    let parts = vec![Column::with_id(12), new, Column::with_id(11)];
    let element = Column { parts: parts.clone(), ..Column::with_id(21) };
    let found = vec![Column { parts, ..Column::with_id(1) }, Column { parts: vec![element], ..Column::with_id(2) }];
    let columns = TableColumns::new(Arc::new(all), &[]).unwrap().found_as(found);
    let table = Arc::new(Files { columns, files: vec![file] });
    check(&table, "SELECT q['x'], q['y'], q['new'] FROM t WHERE q['x'] = 17", &["17|t17|5"]).await;
    check(&table, "SELECT m[1]['y'], m[1]['new'] FROM t WHERE m[1]['x'] = 29", &["t29|5"]).await;
    check(&table, "SELECT sum(q['x'] + m[1]['x']), count(q) FROM t", &["870|30"]).await;
}

#[tokio::test]
async fn rows_that_are_left_and_values_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, from: i64| {
        let numbers = Arc::new(Int64Array::from_iter_values(from..from + 30));
        write(&folder.path().join(name), vec![Field::new("n", DataType::Int64, true)], vec![numbers])
    };
    let one = file("a.parquet", 0).with_values(vec![ScalarValue::Utf8(Some("x".into()))]).with_first(0);
    let other = file("b.parquet", 30).with_values(vec![ScalarValue::Utf8(None)]).with_first(30);
    let all = Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("n", DataType::Int64, true)]);
    let columns = TableColumns::new(Arc::new(all), &["k"]).unwrap();
    let files = vec![one.left(30, vec![0..5, 12..13, 29..30]), other];
    let table = Arc::new(Files { columns: columns.clone(), files: files.clone() });
    check(&table, "SELECT count(*), sum(n) FROM t WHERE k = 'x'", &["7|51"]).await;
    check(&table, "SELECT count(*), sum(n) FROM t WHERE k IS NULL", &["30|1335"]).await;
    for ctx in sessions(&table) {
        let snapshot = TableSnapshot::new(ObjectStoreUrl::local_filesystem(), columns.clone(), files.clone());
        let scan = snapshot.scan_with_positions(&ctx.state(), &[1], None).unwrap();
        let batches = datafusion::physical_plan::collect(scan, ctx.task_ctx()).await.unwrap();
        for rows in &batches {
            let (numbers, positions) = (rows.column(0), rows.column(1));
            assert_eq!(numbers.as_primitive::<arrow::datatypes::Int64Type>(), positions.as_primitive());
        }
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 37);
    }
}
