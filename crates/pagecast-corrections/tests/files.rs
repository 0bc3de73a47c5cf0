//! Files whose footers promise less than DataFusion believes, and moments beside literals.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray, TimestampNanosecondArray,
};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::ListingOptions;
use datafusion::prelude::{SessionConfig, SessionContext};
use pagecast_corrections::CorrectedParquet;
use parquet::arrow::ArrowWriter;
use parquet::basic::{LogicalType, Repetition, Type};
use parquet::data_type::AsBytes;
use parquet::file::metadata::{ColumnChunkMetaData, FileMetaData, ParquetMetaData, RowGroupMetaData, SortingColumn};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::statistics::Statistics;
use parquet::schema::types::{SchemaDescriptor, Type as SchemaType};

/// Writes a table of one column `x`, a row group for each array.
fn write(path: &Path, row_groups: &[ArrayRef], properties: WriterPropertiesBuilder) {
    let batch = |array: &ArrayRef| RecordBatch::try_from_iter_with_nullable([("x", Arc::clone(array), true)]).unwrap();
    let schema = batch(&row_groups[0]).schema();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), schema, Some(properties.build())).unwrap();
    for array in row_groups {
        writer.write(&batch(array)).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
}

/// Asks a table `t` of the folder, and gives the values of each row between commas.
async fn ask(folder: &Path, sql: &str) -> Vec<String> {
    let ctx = SessionContext::new_with_config(pagecast_corrections::configured(SessionConfig::new()));
    pagecast_corrections::install(&ctx, |_| false).unwrap();
    let options = ListingOptions::new(CorrectedParquet::of(&ParquetFormat::default()).unwrap());
    ctx.register_listing_table("t", folder.display().to_string(), options, None, None).await.unwrap();
    let batches = ctx.sql(sql).await.unwrap().collect().await.unwrap();
    let options = arrow::util::display::FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let formatter = |column| arrow::util::display::ArrayFormatter::try_new(column, &options).unwrap();
        let columns: Vec<_> = batch.columns().iter().map(|column| formatter(column.as_ref())).collect();
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(","));
        }
    }
    rows
}

fn integers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn floats(values: &[f64]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

#[tokio::test]
async fn rows_are_sorted_within_a_row_group() {
    let folder = tempfile::tempdir().unwrap();
    let sorted = vec![SortingColumn { column_idx: 0, descending: false, nulls_first: false }];
    let properties = || WriterProperties::builder().set_sorting_columns(Some(sorted.clone()));
    write(&folder.path().join("0.parquet"), &[integers([0, 2, 4]), integers([1, 3, 4])], properties());
    assert_eq!(ask(folder.path(), "SELECT x FROM t ORDER BY x").await, ["0", "1", "2", "3", "4", "4"]);
    assert_eq!(ask(folder.path(), "SELECT count(DISTINCT x) FROM t").await, ["5"]);
    let groups = "SELECT max(c) FROM (SELECT x, count(*) c FROM t GROUP BY x)";
    assert_eq!(ask(folder.path(), groups).await, ["2"]);
    // Of one row group it is the file's order, which spares a sort.
    let alone = tempfile::tempdir().unwrap();
    write(&alone.path().join("0.parquet"), &[integers([0, 2, 4])], properties());
    let plan = ask(alone.path(), "EXPLAIN SELECT x FROM t ORDER BY x").await.join("\n");
    assert!(!plan.contains("SortExec"), "{plan}");
}

/// The writer's notes have the names twice as well.
#[tokio::test]
async fn two_columns_of_one_name_are_two() {
    let folder = tempfile::tempdir().unwrap();
    let field = || arrow::datatypes::Field::new("a", arrow::datatypes::DataType::Int64, true);
    let schema = Arc::new(arrow::datatypes::Schema::new(vec![field(), field()]));
    let rows = RecordBatch::try_new(Arc::clone(&schema), vec![integers([1, 2]), integers([3, 4])]).unwrap();
    let file = File::create(folder.path().join("0.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, schema, None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    assert_eq!(ask(folder.path(), "SELECT a, a_1 FROM t WHERE a_1 > 3").await, ["2,4"]);
}

#[tokio::test]
async fn bounds_of_floats_leave_out_nan() {
    let folder = tempfile::tempdir().unwrap();
    let row_groups = [floats(&[1.0, f64::NAN]), floats(&[2.0, 3.0])];
    write(&folder.path().join("0.parquet"), &row_groups, WriterProperties::builder());
    for (filter, right) in [
        ("x > 5", vec!["NaN"]),
        ("NOT (x <= 2)", vec!["3.0", "NaN"]),
        ("x = 1", vec!["1.0"]),
        ("x < 2", vec!["1.0"]),
        ("x IS NOT NULL", vec!["1.0", "2.0", "3.0", "NaN"]),
    ] {
        assert_eq!(ask(folder.path(), &format!("SELECT x FROM t WHERE {filter} ORDER BY x")).await, right, "{filter}");
    }
    assert_eq!(ask(folder.path(), "SELECT min(x), max(x) FROM t").await, ["1.0,NaN"]);
}

#[tokio::test]
async fn extremes_of_groups_are_values_of_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    write(&folder.path().join("0.parquet"), &[floats(&[nan, inf, -inf, 1.0])], WriterProperties::builder());
    for (filter, right) in [
        ("x = 'NaN'", ["NaN,NaN"]),
        ("x = 'inf'", ["inf,inf"]),
        ("x = '-inf'", ["-inf,-inf"]),
        ("x >= 1", ["1.0,NaN"]),
        ("x <= 1", ["-inf,1.0"]),
    ] {
        for kind in ["DOUBLE", "REAL"] {
            let of = format!("CAST(x AS {kind})");
            let sql = format!("SELECT min({of}), max({of}) FROM t WHERE {filter} GROUP BY x IS NULL");
            assert_eq!(ask(folder.path(), &sql).await, right, "{sql}");
        }
    }
}

#[tokio::test]
async fn zeros_are_equal() {
    let folder = tempfile::tempdir().unwrap();
    let properties = WriterProperties::builder().set_bloom_filter_enabled(true);
    write(&folder.path().join("0.parquet"), &[floats(&[-0.0, 7.0, -0.0]), floats(&[0.0, 1.0])], properties);
    for (filter, right) in [
        ("x = 0.0", 3),
        ("x = -0.0", 3),
        ("x <= -0.0", 3),
        ("x IN (0.0, 11, 12, 13, 14, 15, 16, 17, 18)", 3),
        ("x NOT IN (0.0, 11, 12, 13, 14, 15, 16, 17, 18)", 2),
        ("x IN (SELECT 0.0)", 3),
        ("x < 0", 0),
    ] {
        let count = ask(folder.path(), &format!("SELECT count(*) FROM t WHERE {filter}")).await;
        assert_eq!(count, [right.to_string()], "{filter}");
    }
    let ranks = "SELECT DISTINCT rank() OVER (ORDER BY x) r FROM t ORDER BY r";
    assert_eq!(ask(folder.path(), ranks).await, ["1", "4", "5"]);
    for (expr, right) in [
        ("count(DISTINCT x), count(DISTINCT x + 1), min(x)", "3,3,-0.0"),
        ("count(nullif(x, 0.0)), sum(CASE x WHEN 0 THEN 1 ELSE 0 END), max(-x)", "2,3,0.0"),
        ("max(n), min(n) FROM (SELECT count(*) OVER (PARTITION BY x) n FROM t)", "3,1"),
    ] {
        let sql = if expr.contains("FROM") { format!("SELECT {expr}") } else { format!("SELECT {expr} FROM t") };
        assert_eq!(ask(folder.path(), &sql).await, [right], "{sql}");
    }
    let of_zeros = "SELECT n FROM (SELECT x, row_number() OVER () n FROM t) WHERE x = 0 ORDER BY x, n";
    assert_eq!(ask(folder.path(), of_zeros).await, ["1", "3", "4"]);
}

/// Whether a comparison of two numbers holds.
type Holds = fn(i64, i64) -> bool;

/// Each operator beside literals that are finer than the column, as fine, and beyond it.
#[tokio::test]
async fn a_literal_finer_than_its_column_is_not_cut() {
    let folder = tempfile::tempdir().unwrap();
    let micros: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(0), Some(1), Some(2), None]));
    write(&folder.path().join("0.parquet"), &[micros], WriterProperties::builder());
    for nanoseconds in [-1i64, 0, 500, 1_000, 1_500, 2_000, 2_500] {
        let literal = format!("arrow_cast(CAST({nanoseconds} AS BIGINT), 'Timestamp(Nanosecond, None)')");
        let text = format!("'{}'", chrono::DateTime::from_timestamp_nanos(nanoseconds).format("%Y-%m-%dT%H:%M:%S%.9f"));
        let holds: [(&str, Holds); 6] = [
            ("=", |a, b| a == b),
            ("<>", |a, b| a != b),
            ("<", |a, b| a < b),
            ("<=", |a, b| a <= b),
            (">", |a, b| a > b),
            (">=", |a, b| a >= b),
        ];
        for (op, holds) in holds {
            let right: Vec<String> = (0..3).filter(|n| holds(n * 1_000, nanoseconds)).map(|n| n.to_string()).collect();
            for literal in [&literal, &text] {
                let sql = format!("SELECT arrow_cast(x, 'Int64') n FROM t WHERE x {op} {literal} ORDER BY n");
                assert_eq!(ask(folder.path(), &sql).await, right, "{sql}");
            }
        }
        let within = (0..3).filter(|n| n * 1_000 == nanoseconds).count().to_string();
        let sql = format!("SELECT count(*) FROM t WHERE x BETWEEN {literal} AND {literal} OR x IN ({literal})");
        assert_eq!(ask(folder.path(), &sql).await, [within], "{sql}");
    }
    let nanos = tempfile::tempdir().unwrap();
    let column: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![Some(0), None]));
    write(&nanos.path().join("0.parquet"), &[column], WriterProperties::builder());
    for (filter, right) in [("x < '9999-12-31'", "1"), ("x > '9999-12-31'", "0"), ("NOT (x = '9999-12-31')", "1")] {
        let count = ask(nanos.path(), &format!("SELECT count(*) FROM t WHERE {filter}")).await;
        assert_eq!(count, [right], "{filter}");
    }
}

/// Days and moments of all years beside each other, beside literals, and in bins.
#[tokio::test]
async fn years_that_are_no_nanoseconds_are_years() {
    let folder = tempfile::tempdir().unwrap();
    let micros = |text: &str| text.parse::<chrono::DateTime<chrono::Utc>>().unwrap().timestamp_micros();
    let moments = ["9999-12-31T01:02:03Z", "2024-05-01T00:00:00Z", "1500-01-02T00:00:00Z"].map(micros);
    write(
        &folder.path().join("0.parquet"),
        &[Arc::new(TimestampMicrosecondArray::from(moments.to_vec()))],
        WriterProperties::builder(),
    );
    for (expr, right) in [
        ("date_trunc('month', x)", ["9999-12-01T00:00:00", "2024-05-01T00:00:00", "1500-01-01T00:00:00"]),
        ("date_trunc('week', x)", ["9999-12-27T00:00:00", "2024-04-29T00:00:00", "1500-01-01T00:00:00"]),
        ("date_trunc('month', x::date)", ["9999-12-01T00:00:00", "2024-05-01T00:00:00", "1500-01-01T00:00:00"]),
        ("date_trunc('hour', x)", ["9999-12-31T01:00:00", "2024-05-01T00:00:00", "1500-01-02T00:00:00"]),
        ("date_bin(INTERVAL '1 day', x)", ["9999-12-31T00:00:00", "2024-05-01T00:00:00", "1500-01-02T00:00:00"]),
    ] {
        assert_eq!(ask(folder.path(), &format!("SELECT {expr} FROM t")).await, right, "{expr}");
    }
    for (filter, right) in [
        ("x >= DATE '9999-12-31'", 1),
        ("x = DATE '2024-05-01'", 1),
        ("x::date = x", 2),
        ("x::date <= x", 3),
        ("x::date < TIMESTAMP '2024-05-01 12:00:00'", 2),
        ("x::date = TIMESTAMP '2024-05-01 12:00:00'", 0),
        ("x < '9999-12-31'", 2),
    ] {
        let count = ask(folder.path(), &format!("SELECT count(*) FROM t WHERE {filter}")).await;
        assert_eq!(count, [right.to_string()], "{filter}");
    }
}

/// What a footer says of one column, and what is left of it.
fn left(repetition: Repetition, kind: (Type, Option<LogicalType>), statistics: Statistics) -> Option<Statistics> {
    let (physical, logical) = kind;
    let leaf = SchemaType::primitive_type_builder("x", physical).with_repetition(repetition).with_logical_type(logical);
    let root = SchemaType::group_type_builder("schema").with_fields(vec![Arc::new(leaf.build().unwrap())]);
    let schema = Arc::new(SchemaDescriptor::new(Arc::new(root.build().unwrap())));
    let column = ColumnChunkMetaData::builder(schema.column(0)).set_num_values(3).set_statistics(statistics);
    let row_group = RowGroupMetaData::builder(Arc::clone(&schema)).set_num_rows(3);
    let row_group = row_group.set_column_metadata(vec![column.build().unwrap()]).build().unwrap();
    let footer = ParquetMetaData::new(FileMetaData::new(2, 3, None, None, schema, None), vec![row_group]);
    let believed = pagecast_corrections::statistics::believed(footer).unwrap();
    believed.row_group(0).column(0).statistics().cloned()
}

#[test]
fn what_is_no_promise_is_taken_out() {
    let integers = |nulls| Statistics::int64(Some(1), Some(3), None, nulls, false);
    let of_integers = || (Type::INT64, None);
    // A missing count is none where a column may be NULL.
    assert!(left(Repetition::OPTIONAL, of_integers(), integers(None)).is_none());
    assert_eq!(left(Repetition::OPTIONAL, of_integers(), integers(Some(0))), Some(integers(Some(0))));
    assert_eq!(left(Repetition::REQUIRED, of_integers(), integers(None)), Some(integers(None)));
    // Old writers compared texts and unsigned numbers as signed bytes; this file does not say how.
    let texts = Statistics::byte_array(Some("a".into()), Some("b".into()), None, Some(0), true);
    let bounds = left(Repetition::OPTIONAL, (Type::BYTE_ARRAY, Some(LogicalType::String)), texts).unwrap();
    assert_eq!((bounds.min_bytes_opt(), bounds.null_count_opt()), (None, Some(0)));
    let unsigned = (Type::INT64, Some(LogicalType::integer(64, false)));
    let old = Statistics::int64(Some(1), Some(3), None, Some(0), true);
    assert_eq!(left(Repetition::OPTIONAL, unsigned, old).unwrap().min_bytes_opt(), None);
    // The least of floats may be -0, and there may be NaN.
    let zero = Statistics::double(Some(0.0), Some(1.0), None, Some(0), false);
    let bounds = left(Repetition::OPTIONAL, (Type::DOUBLE, None), zero).unwrap();
    assert_eq!((bounds.min_bytes_opt(), bounds.max_bytes_opt()), (Some((-0.0f64).as_bytes()), None));
}
