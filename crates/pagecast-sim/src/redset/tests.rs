#![allow(clippy::unwrap_used)]
use super::*;
use crate::trace::{LoadedEvent, Trace};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

/// Redset's schema as far as it matters here, with one column that does not.
const SCHEMA: &str = "message schema {
    optional int32 instance_id;
    optional int64 user_id;
    optional int64 arrival_timestamp (TIMESTAMP(MICROS, false));
    optional double execution_duration_ms;
    optional int32 was_aborted;
    optional boolean was_cached;
    optional binary query_type (UTF8);
    optional binary read_table_ids (UTF8);
    optional double mbytes_scanned;
}";

/// Instance, arrival in ms, duration in ms, type, tables, megabytes.
type QueryRow = (i32, i64, f64, &'static str, &'static str, f64);

/// A small file in that schema.
fn file(rows: &[QueryRow], schema: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(file.reopen().unwrap(), schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let present = vec![1i16; rows.len()];
    macro_rules! column {
        ($kind:ty, $value:expr) => {
            if let Some(mut column) = group.next_column().unwrap() {
                let values: Vec<_> = rows.iter().map($value).collect();
                column.typed::<$kind>().write_batch(&values, Some(&present), None).unwrap();
                column.close().unwrap();
            }
        };
    }
    column!(Int32Type, |row| row.0);
    column!(Int64Type, |_| 77);
    column!(Int64Type, |row| row.1 * 1000);
    column!(DoubleType, |row| row.2);
    column!(Int32Type, |_| 0);
    column!(BoolType, |_| false);
    column!(ByteArrayType, |row| ByteArray::from(row.3));
    column!(ByteArrayType, |row| ByteArray::from(row.4));
    column!(DoubleType, |row| row.5);
    group.close().unwrap();
    writer.close().unwrap();
    file
}

const ROWS: &[QueryRow] = &[
    (3, 5000, 100.0, "select", "11,12", 160.0),
    (3, 5020, 400.0, "select", "11", 800.0),
    (3, 9000, 10.0, "select", "12", 40.0),
    (3, 9000, 10.0, "insert", "12", 4000.0),
    (3, 9500, 10.0, "select", "", 0.0),
    (4, 100, 10.0, "select", "900", 8000.0),
];

fn options() -> RedsetOptions {
    RedsetOptions { page_mb: 1.0, ..RedsetOptions::default() }
}

#[test]
fn overlapping_queries_interleave_and_ranges_lie_in_their_tables() {
    let file = file(ROWS, SCHEMA);
    let trace = Trace::load("redset", &mut import(file.path(), &options()).unwrap()).unwrap();
    // Two tables at 80 pages, one at 800, one at 40: the insert and the empty select do not count.
    assert_eq!(trace.requests().len(), 80 + 80 + 800 + 40);
    // The first two overlap in time and need a stream each; the third comes when both are free.
    assert_eq!(trace.stream_count(), 2);
    let registered = trace.events().iter().filter(|event| matches!(event.event, LoadedEvent::Register(_)));
    assert_eq!(registered.count(), 4);
    let second = (0..trace.requests().len()).filter(|&at| trace.stream(at) == 1).collect::<Vec<_>>();
    assert!(second[0] > 0 && second[0] < 160, "the second query begins while the first runs: {}", second[0]);
    // Table 11 has the 800 pages of its largest scan, table 12 the 80 of its own.
    let of = |relation: u32| trace.pages().iter().filter(move |page| page.relation().0 == relation);
    assert!(of(1).all(|page| page.block() < 800) && of(2).all(|page| page.block() < 80));
    assert_eq!((of(1).count(), of(2).count()), (800, 80));
}

#[test]
fn instance_and_part_are_chosen() {
    let file = file(ROWS, SCHEMA);
    let take = |options: RedsetOptions| Trace::load("t", &mut import(file.path(), &options).unwrap()).unwrap();
    assert_eq!(take(RedsetOptions { instance: Some(4), ..options() }).requests().len(), 8000);
    assert_eq!(take(RedsetOptions { skip: 2, ..options() }).requests().len(), 40);
    assert_eq!(take(RedsetOptions { queries: 1, ..options() }).requests().len(), 160);
    let error = import(file.path(), &RedsetOptions { skip: 3, ..options() }).unwrap_err();
    assert!(error.contains("instance 3 has no usable query after the first 3"), "{error}");
    let error = import(file.path(), &RedsetOptions { page_mb: 1e-9, ..options() }).unwrap_err();
    assert!(error.contains("use larger pages"), "{error}");
}

#[test]
fn other_files_are_refused() {
    let no_parquet = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(no_parquet.path(), "1\n2\n").unwrap();
    assert!(import(no_parquet.path(), &options()).unwrap_err().contains("no readable Parquet file"));
    let other = file(ROWS, &SCHEMA.replace("mbytes_scanned", "megabytes"));
    assert!(import(other.path(), &options()).unwrap_err().contains("no column `mbytes_scanned`"));
    let words = [(3, 5000, 100.0, "select", "11,users", 160.0)];
    assert!(import(file(&words, SCHEMA).path(), &options()).unwrap_err().contains("row 0: `users` in read_table_ids"));
}

#[test]
fn what_has_the_same_fingerprint_comes_again() {
    let schema = SCHEMA.replace("optional int64 user_id;", "optional int64 feature_fingerprint;");
    let rows = [
        (3, 5000, 100.0, "select", "11", 160.0),
        (3, 9000, 100.0, "select", "11,12", 80.0),
        (3, 9500, 100.0, "select", "11", 80.0),
        (3, 9900, 100.0, "select", "11", 80.0),
    ];
    let file = file(&rows, &schema);
    let trace = Trace::load("redset", &mut import(file.path(), &options()).unwrap()).unwrap();
    let registered: Vec<_> = trace
        .events()
        .iter()
        .filter_map(|event| match &event.event {
            LoadedEvent::Register(registration) => Some((registration.template.unwrap(), registration.parts.clone())),
            _ => None,
        })
        .collect();
    let [first, both, other, again, once_more] = &registered[..] else { panic!("{registered:?}") };
    // Which tables it reads tells queries of one fingerprint apart; how much they read does not.
    assert!(both.0 != other.0 && both.0 != first.0 && first.0 == again.0 && again == once_more);
    assert_eq!((trace.clock().start, trace.clock().ticks_per_second), (5, 1_000_000));
}
