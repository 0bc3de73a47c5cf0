//! Casts of columns of a file, which has bounds, beside casts of the same rows in memory.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int8Array, StringArray, TimestampMicrosecondArray};
use datafusion::arrow::compute::{SortOptions, concat, sort};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use parquet::arrow::ArrowWriter;

use crate::{batches, rows};

const COLUMNS: [&str; 6] = ["n", "s", "f", "ts", "tz", "here"];
const TYPES: [&str; 10] =
    ["TINYINT", "INT", "DOUBLE", "DECIMAL(9, 1)", "BOOLEAN", "VARCHAR", "DATE", "TIME", "TIMESTAMP(0)", "BIGINT"];

/// Small numbers, as texts, as fractions, and as instants a few hours apart, across the end of
/// summer time.
fn table() -> RecordBatch {
    let numbers: Vec<Option<i64>> = (0..120).map(|at| (at % 11 != 0).then_some((at * 37) % 120 - 50)).collect();
    let of = |value: fn(i64) -> i64| numbers.iter().map(move |number| number.map(value)).collect::<Vec<_>>();
    let instants = of(|number| 1_603_584_000_000_000 + number * 1_234_567_891);
    let columns: [ArrayRef; 6] = [
        Arc::new(Int8Array::from_iter(numbers.iter().map(|number| number.map(|number| number as i8)))),
        Arc::new(StringArray::from_iter(numbers.iter().map(|number| number.map(|number| number.to_string())))),
        Arc::new(Float64Array::from_iter(numbers.iter().map(|number| number.map(|number| number as f64 / 8.0)))),
        Arc::new(TimestampMicrosecondArray::from(instants.clone())),
        Arc::new(TimestampMicrosecondArray::from(instants.clone()).with_timezone("UTC")),
        Arc::new(TimestampMicrosecondArray::from(instants).with_timezone("Europe/Berlin")),
    ];
    RecordBatch::try_from_iter_with_nullable(
        COLUMNS.into_iter().zip(columns).map(|(name, column)| (name, column, true)),
    )
    .unwrap()
}

async fn session() -> (SessionContext, tempfile::TempDir) {
    let ctx = crate::session().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let table = table();
    let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), table.schema(), None).unwrap();
    for from in (0..table.num_rows()).step_by(30) {
        writer.write(&table.slice(from, 30)).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
    ctx.register_parquet("t", path.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
    ctx.register_batch("m", table).unwrap();
    (ctx, folder)
}

/// A column of a statement.
async fn column(ctx: &SessionContext, sql: &str) -> ArrayRef {
    let batches = batches(ctx, sql).await;
    let columns: Vec<_> = batches.iter().map(|batch| batch.column(0).as_ref()).collect();
    concat(&columns).unwrap_or_else(|fault| panic!("{sql}\n{fault}"))
}

fn in_order(values: &ArrayRef) -> ArrayRef {
    sort(values, Some(SortOptions { descending: false, nulls_first: false })).unwrap()
}

#[tokio::test]
async fn a_cast_has_its_own_bounds_and_order() {
    let (ctx, _folder) = session().await;
    let mut pairs = 0;
    for name in COLUMNS {
        for of_type in TYPES {
            let cast = format!("CAST({name} AS {of_type})");
            // Not all casts are possible.
            let rows_in_memory = async { ctx.sql(&format!("SELECT {cast} FROM m")).await?.collect().await };
            if rows_in_memory.await.is_err() {
                continue;
            }
            pairs += 1;
            let values = in_order(&column(&ctx, &format!("SELECT {cast} FROM m")).await);
            let known = values.len() - values.null_count();
            let ends = [("min", 0), ("max", known - 1)];
            for (end, place) in ends {
                let sql = format!("SELECT {end}(c) FROM (SELECT {cast} AS c FROM t UNION ALL SELECT {cast} FROM t) q");
                let found = ScalarValue::try_from_array(&column(&ctx, &sql).await, 0).unwrap();
                assert_eq!(found, ScalarValue::try_from_array(&values, place).unwrap(), "{sql}");
                let sql = format!("SELECT count(*) FROM t WHERE {cast} = (SELECT {end}({cast}) FROM m)");
                let same = format!("SELECT count(*) FROM m WHERE {cast} = (SELECT {end}({cast}) FROM m)");
                assert_eq!(rows(&ctx, &sql).await, rows(&ctx, &same).await, "{sql}");
            }
            let sql = format!("SELECT {cast} AS c FROM t ORDER BY c LIMIT 5");
            assert_eq!(&column(&ctx, &sql).await, &values.slice(0, 5), "{sql}");
            let sql = format!("SELECT c FROM (SELECT {cast} AS c FROM t ORDER BY {name} LIMIT 1000) q ORDER BY c");
            assert_eq!(&column(&ctx, &sql).await, &values, "{sql}");
        }
    }
    assert!(pairs > 30, "{pairs}");
}

#[tokio::test]
async fn one_value_of_a_cast_is_many_of_its_column() {
    let (ctx, _folder) = session().await;
    for (name, condition) in [
        ("f", "CAST(f AS INT) = 1"),
        ("f", "CAST(f AS DECIMAL(9, 0)) BETWEEN 2 AND 2"),
        ("ts", "CAST(ts AS DATE) = DATE '2020-10-25'"),
        ("ts", "ts::date = '2020-10-25' AND n > -40"),
        ("tz", "CAST(tz AS DATE) = DATE '2020-10-25'"),
        ("here", "CAST(here AS DATE) = DATE '2020-10-25'"),
        ("n", "CAST(s AS INT) > 7"),
    ] {
        let values = in_order(&column(&ctx, &format!("SELECT {name} FROM m WHERE {condition}")).await);
        assert!(values.len() > 1, "{condition}");
        let sql = format!("SELECT {name} FROM t WHERE {condition} ORDER BY {name}");
        assert_eq!(&column(&ctx, &sql).await, &values, "{sql}");
        // No value comes twice.
        let sql = format!("SELECT max(r) FROM (SELECT rank() OVER (ORDER BY {name}) AS r FROM t WHERE {condition}) q");
        assert_eq!(rows(&ctx, &sql).await, [[Some(values.len() as i64)]], "{sql}");
    }
}
