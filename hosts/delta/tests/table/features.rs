//! Features of tables that other writers have. What the library of the protocol knows is read, also
//! out of its checkpoints, and what our part of writing does not know is refused by its name.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use pagecast_datafusion::Delivery;
use pagecast_delta::Table;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};

use super::data::{Session, options};

fn commit(root: &Path, version: u64) -> PathBuf {
    root.join(format!("_delta_log/{version:020}.json"))
}

/// Changes protocol, properties and columns as if the table had been made with them.
fn edit(root: &Path, reader: &[&str], writer: &[&str], change: impl Fn(&mut Value, &mut Value)) {
    let text = fs::read_to_string(commit(root, 0)).unwrap();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &mut lines {
        if let Some(protocol) = line.get_mut("protocol") {
            for (key, names) in [("readerFeatures", reader), ("writerFeatures", writer)] {
                let list = protocol[key].as_array_mut().unwrap();
                list.extend(names.iter().map(|&name| Value::from(name)));
            }
        }
        if let Some(metadata) = line.get_mut("metaData") {
            let mut columns: Value = serde_json::from_str(metadata["schemaString"].as_str().unwrap()).unwrap();
            change(&mut columns["fields"], &mut metadata["configuration"]);
            metadata["schemaString"] = columns.to_string().into();
        }
    }
    let lines: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(commit(root, 0), lines.concat()).unwrap();
}

/// A table whose rows have deletion vectors, and lie in files of `part`.
async fn made(root: &Path) -> Arc<Table> {
    let field = |name: &str, kind| Field::new(name, kind, true);
    let pair = DataType::Struct(vec![field("a", DataType::Int32), field("b", DataType::Utf8)].into());
    let columns = Schema::new(vec![field("id", DataType::Int32), field("part", DataType::Int32), field("pair", pair)]);
    let table = Table::create(root, &columns, &["part"], options()).unwrap();
    let session = Session::new(&table, None);
    let rows = "SELECT v::int, (v % 3)::int, named_struct('a', (v * 2)::int, 'b', 'b' || v)
        FROM (SELECT unnest(range(0, 1000)) AS v)";
    session.run(&format!("INSERT INTO t {rows}")).await;
    session.run("DELETE FROM t WHERE id % 10 = 7").await;
    table
}

/// The same, whose columns have each other's name in the files.
pub(crate) async fn mapped(root: &Path, mode: &str) {
    made(root).await;
    edit(root, &["columnMapping"], &["columnMapping"], |columns, properties| {
        properties["delta.columnMapping.mode"] = mode.into();
        properties["delta.columnMapping.maxColumnId"] = "9".into();
        // Two columns have each other's name, and so have the parts of the third.
        let map = |field: &mut Value, id: u64, name: &str| {
            let stored = field["name"].take();
            field["metadata"] = json!({"delta.columnMapping.id": id, "delta.columnMapping.physicalName": stored});
            field["name"] = name.into();
        };
        (1..).zip(["part", "id", "both"]).for_each(|(id, name)| map(&mut columns[id as usize - 1], id, name));
        let parts = &mut columns[2]["type"]["fields"];
        map(&mut parts[0], 4, "b");
        map(&mut parts[1], 5, "a");
    });
    // The log names partition columns as queries do, and their values as files do.
    let text = fs::read_to_string(commit(root, 0)).unwrap();
    fs::write(commit(root, 0), text.replace("\"partitionColumns\":[\"part\"]", "\"partitionColumns\":[\"id\"]"))
        .unwrap();
}

async fn same_in_each_delivery(root: &Path, sql: &str, expected: &str) {
    for delivery in [None, Some(Delivery::Stock), Some(Delivery::InOrder), Some(Delivery::OutOfOrder)] {
        let session = Session::new(&Table::open(root).unwrap(), delivery);
        let text = session.run(sql).await;
        let row = text.lines().nth(3).unwrap().split('|').map(str::trim).filter(|cell| !cell.is_empty());
        assert_eq!(row.collect::<Vec<_>>().join(" "), expected, "{delivery:?} {sql}");
    }
}

#[tokio::test]
async fn columns_have_other_names_in_files() {
    for mode in ["name", "id"] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        mapped(root, mode).await;
        let sql = "SELECT count(*), sum(part), max(id), sum(both['b']), max(both['a']) FROM t";
        let sum = (0..1000).filter(|v| v % 10 != 7).sum::<i64>();
        same_in_each_delivery(root, sql, &format!("900 {sum} 2 {} b999", 2 * sum)).await;
        same_in_each_delivery(root, &format!("{sql} WHERE part BETWEEN 10 AND 20 AND id = 1"), "4 58 1 116 b19").await;
        // New files, and copies of old ones, have the same names, and the ids with them.
        let table = Table::open(root).unwrap();
        let session = Session::new(&table, None);
        session.run("UPDATE t SET part = part + 5000, id = NULL WHERE part = 19").await;
        session.run("INSERT INTO t SELECT part, 1, both FROM t WHERE part BETWEEN 20 AND 25").await;
        session.run("DELETE FROM t WHERE part = 5019 OR both['a'] = 'b25'").await;
        assert!(table.compact(0.0).unwrap().is_some());
        table.checkpoint().unwrap();
        let sql = "SELECT count(*), sum(part), max(id), sum(both['b']), max(both['a']) FROM t WHERE part < 30";
        let left = (0..30).filter(|v| v % 10 != 7 && ![19, 25].contains(v)).chain([20, 21, 22, 23, 24]);
        let sum = left.clone().sum::<i64>();
        same_in_each_delivery(root, sql, &format!("{} {sum} 2 {} b9", left.count(), 2 * sum)).await;
        let file = table.newest().unwrap().files().last().unwrap().to_owned();
        let footer = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(file).unwrap()).unwrap();
        let ids = footer.parquet_schema().root_schema().get_fields().iter().map(|field| field.get_basic_info().id());
        assert_eq!(ids.collect::<Vec<_>>(), [1, 3]);
    }
}

#[tokio::test]
async fn types_that_were_widened_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    made(root).await;
    edit(root, &["typeWidening"], &["typeWidening"], |columns, properties| {
        properties["delta.enableTypeWidening"] = "true".into();
        for place in [0, 1] {
            columns[place]["type"] = "long".into();
            let change = json!([{"fromType": "integer", "toType": "long", "tableVersion": 1}]);
            columns[place]["metadata"] = json!({"delta.typeChanges": change});
        }
    });
    let table = Table::open(root).unwrap();
    assert_eq!(table.newest().unwrap().schema().field(0).data_type(), &DataType::Int64);
    let sql = "SELECT count(*), sum(id), max(part) FROM t WHERE id + 3000000000 > 3000000009 AND part = 1";
    let left = || (10..1000).filter(|v| v % 10 != 7 && v % 3 == 1);
    same_in_each_delivery(root, sql, &format!("{} {} 1", left().count(), left().sum::<i64>())).await;
    let session = Session::new(&table, None);
    session.run("UPDATE t SET id = 5000000000 WHERE id = 13").await;
    assert!(table.compact(0.0).unwrap().is_some());
    let sum = left().sum::<i64>() - 13 + 5_000_000_000;
    same_in_each_delivery(root, sql, &format!("{} {sum} 1", left().count())).await;
}

#[tokio::test]
async fn rows_that_are_tracked_stay_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    made(root).await;
    edit(root, &[], &["domainMetadata", "rowTracking"], |_, properties| {
        properties["delta.enableRowTracking"] = "true".into();
        properties["delta.rowTracking.materializedRowIdColumnName"] = "_row-id".into();
        properties["delta.rowTracking.materializedRowCommitVersionColumnName"] = "_row-version".into();
    });
    same_in_each_delivery(root, "SELECT count(*), max(id) FROM t", "900 999").await;
    let table = Table::open(root).unwrap();
    let session = Session::new(&table, None);
    let fault = session.try_run("UPDATE t SET id = 0 WHERE id = 5").await.unwrap_err().to_string();
    assert!(fault.contains("rowTracking") && fault.contains("nothing was done"), "{fault}");
    assert!(table.compact(0.0).unwrap_err().to_string().contains("rowTracking"));
    assert_eq!(session.number("DELETE FROM t WHERE id < 10").await, 9);
    session.run("INSERT INTO t SELECT * FROM t WHERE id >= 990").await;
    // New rows have numbers behind those that were given, which the log keeps.
    let text = fs::read_to_string(commit(root, table.newest().unwrap().version())).unwrap();
    assert!(text.contains("\"baseRowId\":0") && text.contains("\"delta.rowTracking\""), "{text}");
    same_in_each_delivery(root, "SELECT count(*), max(id), min(id) FROM t", "900 999 10").await;
}

/// Of a change feed we write nothing, and who only adds rows need not.
#[tokio::test]
async fn rows_are_only_added_where_there_is_a_change_feed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    made(root).await;
    edit(root, &[], &["changeDataFeed"], |_, properties| {
        properties["delta.enableChangeDataFeed"] = "true".into();
    });
    let session = Session::new(&Table::open(root).unwrap(), None);
    session.run("INSERT INTO t SELECT * FROM t WHERE id >= 990").await;
    for change in ["DELETE FROM t WHERE id = 5", "UPDATE t SET id = 0 WHERE id = 5"] {
        let fault = session.try_run(change).await.unwrap_err().to_string();
        assert!(fault.contains("changeDataFeed") && fault.contains("nothing was done"), "{fault}");
    }
    same_in_each_delivery(root, "SELECT count(*), max(id) FROM t", "909 999").await;
}

/// Files of other writers say that parts of a column may be NULL, which the table does not.
#[tokio::test]
async fn parts_that_may_not_be_null_are_read_and_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    made(root).await;
    edit(root, &[], &[], |columns, _| {
        columns[2]["type"]["fields"][1]["nullable"] = false.into();
    });
    same_in_each_delivery(root, "SELECT count(*), max(pair['b']) FROM t", "900 b999").await;
    let session = Session::new(&Table::open(root).unwrap(), None);
    session.run("INSERT INTO t SELECT * FROM t WHERE id >= 990").await;
    session.run("INSERT INTO t VALUES (1, 1, NULL)").await;
    let nothing = "INSERT INTO t VALUES (1, 1, named_struct('a', CAST(1 AS INT), 'b', CAST(NULL AS VARCHAR)))";
    let fault = session.try_run(nothing).await.unwrap_err().to_string();
    assert!(fault.contains("column pair.b may not be NULL"), "{fault}");
    same_in_each_delivery(root, "SELECT count(*), count(pair['b']) FROM t", "910 909").await;
}

/// Its checkpoint has a name of its own, and the log before it is gone.
#[tokio::test]
async fn checkpoints_of_the_second_version_are_written_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    made(root).await;
    let in_commit = ["v2Checkpoint", "inCommitTimestamp", "domainMetadata"];
    edit(root, &["v2Checkpoint"], &in_commit, |_, properties| {
        properties["delta.checkpointPolicy"] = "v2".into();
    });
    let table = Table::open(root).unwrap();
    let session = Session::new(&table, None);
    assert_eq!(session.number("DELETE FROM t WHERE id = 500").await, 1);
    assert_eq!(table.checkpoint().unwrap(), 3);
    for version in 0..3 {
        fs::remove_file(commit(root, version)).unwrap();
    }
    same_in_each_delivery(root, "SELECT count(*), max(id), max(pair['b']) FROM t", "899 999 b999").await;
    let session = Session::new(&Table::open(root).unwrap(), None);
    assert_eq!(session.number("UPDATE t SET id = -1 WHERE id = 999").await, 1);
    assert_eq!(session.number("SELECT count(*) FROM t WHERE id < 0").await, 1);
}

/// Commits have times of their own, and a column without zone asks for its feature.
#[tokio::test]
async fn times_of_commits_and_columns_are_written_as_the_protocol_says() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let micros = DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Microsecond, None);
    let table = Table::create(root, &Schema::new(vec![Field::new("at", micros, true)]), &[], options()).unwrap();
    drop(table);
    let text = fs::read_to_string(commit(root, 0)).unwrap();
    assert_eq!(text.matches("\"timestampNtz\"").count(), 2, "of readers and writers: {text}");
    edit(root, &[], &["inCommitTimestamp"], |_, properties| {
        properties["delta.enableInCommitTimestamps"] = "true".into();
    });
    let text = fs::read_to_string(commit(root, 0)).unwrap();
    let info = text.lines().find(|line| line.starts_with("{\"commitInfo\"")).unwrap();
    let timed = info.replace("{\"commitInfo\":{", "{\"commitInfo\":{\"inCommitTimestamp\":4102444800000,");
    let rest: String = text.lines().filter(|line| *line != info).map(|line| format!("{line}\n")).collect();
    fs::write(commit(root, 0), format!("{timed}\n{rest}")).unwrap();
    let session = Session::new(&Table::open(root).unwrap(), None);
    session.run("INSERT INTO t VALUES (TIMESTAMP '2024-01-02T03:04:05.678901')").await;
    // Times of commits grow, also over one of the year 2100.
    let text = fs::read_to_string(commit(root, 1)).unwrap();
    assert!(text.lines().next().unwrap().contains("\"inCommitTimestamp\":4102444800001"), "{text}");
    same_in_each_delivery(root, "SELECT count(*), max(at)::varchar FROM t", "1 2024-01-02T03:04:05.678901").await;
}
