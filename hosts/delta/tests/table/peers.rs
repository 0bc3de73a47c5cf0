//! Other engines read what we write, and we read what they write. The `deltalake` wheel is asked
//! where `python3`, or `PAGECAST_PYTHON`, has it.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use pagecast_delta::{Options, Table};

use super::data::{Session, options, table};
use super::features;

fn python() -> Option<String> {
    let python = std::env::var("PAGECAST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let known = Command::new(&python).args(["-c", "import pyarrow; from deltalake import DeltaTable"]).output();
    if known.is_ok_and(|known| known.status.success()) {
        return Some(python);
    }
    println!("skipped: {python} has no deltalake and pyarrow (`pip install deltalake pyarrow`, PAGECAST_PYTHON)");
    None
}

fn ask(python: &str, script: &str, folder: &Path) -> String {
    ask_about(python, script, folder, &[])
}

fn ask_about(python: &str, script: &str, folder: &Path, versions: &[u64]) -> String {
    let versions = versions.iter().map(u64::to_string);
    let output = Command::new(python).args(["-c", script]).arg(folder).args(versions).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\\n{errors}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Sums of the table at the versions that are named, by the peer's own reader.
const SUMS: &str = "
import sys
from deltalake import DeltaTable, QueryBuilder
for version in map(int, sys.argv[2:]):
    table = DeltaTable(sys.argv[1], version=version)
    rows = QueryBuilder().register('t', table).execute(
        'select count(*) n, coalesce(sum(id), 0) i, coalesce(sum(part), 0) p, coalesce(max(text), \\'\\') m from t').read_all()
    print(version, *[rows.column(c)[0].as_py() for c in ['n', 'i', 'p', 'm']])
";

async fn sums(table: &Arc<Table>, versions: &[u64]) -> String {
    let mut lines = Vec::new();
    for &version in versions {
        let snapshot = table.at(version).unwrap();
        let session = Session::of(table.provider_at(&snapshot), None, 2);
        let sql = "SELECT count(*), coalesce(sum(id), 0), coalesce(sum(part), 0), coalesce(max(text), '') FROM t";
        let text = session.run(sql).await;
        let row = text.lines().nth(3).unwrap().split(['|', ' ']).filter(|word| !word.is_empty());
        lines.push(format!("{version} {}", row.collect::<Vec<_>>().join(" ")));
    }
    lines.join("\n").trim().to_owned()
}

/// Whether the peer, if it is there, reads the same in every version as we do.
async fn reads_every_version(table: &Arc<Table>) {
    let newest = table.newest().unwrap().version();
    reads_versions(table, &(0..=newest).collect::<Vec<_>>()).await;
}

/// The same of these versions.
pub(crate) async fn reads_versions(table: &Arc<Table>, versions: &[u64]) {
    let Some(python) = python() else { return };
    let theirs = ask_about(&python, SUMS, table.folder(), versions);
    let ours = sums(table, versions).await;
    let trimmed = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert_eq!(trimmed(&theirs), trimmed(&ours));
}

#[tokio::test]
async fn the_peer_reads_every_version_that_we_write() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), &[3000, 2000]).await;
    let session = Session::new(&table, None);
    session.run("DELETE FROM t WHERE id % 10 = 3").await;
    session.run("UPDATE t SET text = 'zz' || id, part = -1 WHERE id BETWEEN 2990 AND 3020").await;
    session.run("DELETE FROM t WHERE id >= 4000 OR id < 70").await;
    let transaction = table.begin().unwrap();
    let own = Session::of(transaction.provider(), None, 2);
    own.insert(9000..9100).await;
    own.run("DELETE FROM t WHERE id % 50 = 1").await;
    transaction.commit().unwrap();
    assert_eq!(table.checkpoint().unwrap(), 6);
    session.run("INSERT INTO t VALUES (1, 2, 'zzz')").await;
    session.run("DELETE FROM t WHERE id < 3000").await;
    reads_every_version(&table).await;
    // From the checkpoint alone, and what the peer appends is ours.
    for version in 0..6 {
        std::fs::remove_file(table.folder().join(format!("_delta_log/{version:020}.json"))).unwrap();
    }
    let fresh = Table::open(table.folder()).unwrap();
    let read = "
import sys
from deltalake import DeltaTable, QueryBuilder
rows = QueryBuilder().register('t', DeltaTable(sys.argv[1])).execute('select count(*) n from t').read_all()
print(rows.column('n')[0].as_py())";
    let count = Session::new(&fresh, None).number("SELECT count(*) FROM t").await;
    assert_eq!(ask(&python, read, table.folder()), count.to_string());
    let fault = fresh.at(3).unwrap_err().to_string();
    assert!(fault.contains("version 3 is gone") && fault.contains("the log begins after it"), "{fault}");
}

#[tokio::test]
async fn partitions_and_all_types_reach_the_peer_and_come_back() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let field = |name: &str, kind| Field::new(name, kind, true);
    let micros = datafusion::arrow::datatypes::TimeUnit::Microsecond;
    let schema = Schema::new(vec![
        field("day", DataType::Date32),
        field("id", DataType::Int64),
        field("small", DataType::Int16),
        field("kind", DataType::Utf8),
        field("price", DataType::Decimal128(12, 2)),
        field("rate", DataType::Float64),
        field("ok", DataType::Boolean),
        field("at", DataType::Timestamp(micros, Some("UTC".into()))),
    ]);
    let table = Table::create(folder.path(), &schema, &["day", "kind"], options()).unwrap();
    let session = Session::new(&table, None);
    session
        .run(
            "INSERT INTO t VALUES
            (DATE '2024-02-29', 1, 7, 'a b/ä%', 12.34, 0.5, true, TIMESTAMP '2024-01-02T03:04:05.678901Z'),
            (DATE '2024-02-29', 2, NULL, NULL, -0.01, NULL, NULL, NULL),
            (NULL, 3, 9, 'x', NULL, 'NaN'::double, false, TIMESTAMP '1969-12-31T23:59:59.999999Z')",
        )
        .await;
    session.run("DELETE FROM t WHERE kind = 'x'").await;
    session.run("UPDATE t SET day = DATE '2023-01-01', price = price + 1 WHERE id = 2").await;
    let read = "
import sys
from deltalake import DeltaTable, QueryBuilder
rows = QueryBuilder().register('t', DeltaTable(sys.argv[1])).execute('select * from t order by id').read_all()
for row in range(rows.num_rows):
    print(*[str(rows.column(c)[row].as_py()) for c in range(rows.num_columns)], sep='|')";
    assert_eq!(
        ask(&python, read, table.folder()),
        "2024-02-29|1|7|a b/ä%|12.34|0.5|True|2024-01-02 03:04:05.678901+00:00\n2023-01-01|2|None|None|0.99|None|None|None"
    );
    let ours = session
        .run("SELECT * FROM t WHERE at > TIMESTAMP '2024-01-02T03:04:05.678Z' OR price < 1.00 ORDER BY id")
        .await;
    assert!(ours.contains("678901") && ours.contains("0.99"), "{ours}");
}

#[tokio::test]
async fn tables_of_the_peer_are_read_and_changed() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let write = "
import sys, pyarrow as pa
from deltalake import write_deltalake, DeltaTable
def rows(a, b):
    return pa.table({'id': pa.array(range(a, b), pa.int64()), 'part': pa.array([i // 10 for i in range(a, b)], pa.int64()),
                     'text': pa.array(['t%d' % i for i in range(a, b)])})
for i in range(12):
    write_deltalake(sys.argv[1], rows(i * 100, i * 100 + 100), mode='append', partition_by=['part'])
table = DeltaTable(sys.argv[1])
table.delete('id = 5')
table.create_checkpoint()
write_deltalake(sys.argv[1], rows(5000, 5010), mode='append')
";
    ask(&python, write, folder.path());
    let table = Table::open_with(folder.path(), Options::default()).unwrap();
    let session = Session::new(&table, None);
    assert_eq!(session.number("SELECT count(*) FROM t").await, 1209);
    assert_eq!(session.number("SELECT sum(id) FROM t WHERE part = 0").await, 40);
    // Its protocol has no deletion vectors: files are written anew.
    assert_eq!(session.number("DELETE FROM t WHERE id % 2 = 0 AND part < 3").await, 15);
    assert_eq!(session.number("UPDATE t SET text = 'new' WHERE id = 777").await, 1);
    assert_eq!(session.number("SELECT count(*) FROM t").await, 1194);
    let theirs = ask_about(&python, SUMS, table.folder(), &[table.newest().unwrap().version()]);
    let last = theirs.lines().last().unwrap();
    let sum = session.number("SELECT sum(id) FROM t").await;
    assert!(last.contains(&format!(" 1194 {sum} ")), "{last} {sum}");
}

/// Columns that the peer maps, and its change feed, are read as it reads them, out of its log and
/// its checkpoint. Both are of a protocol that asks its writers for more than we know.
#[tokio::test]
async fn features_of_the_peer_are_read_and_refused_for_writing() {
    let Some(python) = python() else { return };
    let write = "
import sys, pyarrow as pa
from deltalake import write_deltalake, DeltaTable
folder, key, value = sys.argv[1], *sys.argv[2].split('=')
def rows(a, b):
    return pa.table({'id': pa.array(range(a, b), pa.int64()), 'part': pa.array([i // 10 for i in range(a, b)], pa.int64()),
                     'text': pa.array(['t%d' % i for i in range(a, b)]),
                     'pair': pa.array([{'a': i, 'b': [{'c': str(i)}]} for i in range(a, b)])})
write_deltalake(folder, rows(0, 100), configuration={key: value}, partition_by=['part'])
write_deltalake(folder, rows(100, 200), mode='append')
DeltaTable(folder).delete('id % 10 = 3')
DeltaTable(folder).create_checkpoint()
write_deltalake(folder, rows(200, 220), mode='append')
";
    for (property, feature) in
        [("delta.columnMapping.mode=name", "columnMapping"), ("delta.enableChangeDataFeed=true", "changeDataFeed")]
    {
        let folder = tempfile::tempdir().unwrap();
        let output = Command::new(&python).args(["-c", write]).arg(folder.path()).arg(property).output().unwrap();
        assert!(output.status.success(), "{property}: {}", String::from_utf8_lossy(&output.stderr));
        let table = Table::open(folder.path()).unwrap();
        reads_every_version(&table).await;
        let session = Session::new(&table, None);
        let sql = "SELECT sum(CAST(pair['b'][1]['c'] AS BIGINT)) - sum(pair['a']) + sum(pair['a'] - id) FROM t";
        assert_eq!(session.number(sql).await, 0, "{property}");
        assert_eq!(session.number("SELECT count(*) FROM t WHERE part = 20 AND id < 205").await, 5, "{property}");
        let fault = session.try_run("DELETE FROM t WHERE id = 1").await.unwrap_err().to_string();
        assert!(fault.contains(feature) && fault.contains("nothing was done"), "{fault}");
    }
}

/// What we write to mapped columns and widened types the peer reads, if it knows such tables.
#[tokio::test]
async fn the_peer_reads_mapped_columns_that_we_write() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    features::mapped(folder.path(), "name").await;
    let table = Table::open(folder.path()).unwrap();
    let session = Session::new(&table, None);
    session.run("UPDATE t SET part = part + 5000 WHERE part = 19").await;
    session.run("DELETE FROM t WHERE part < 10").await;
    let read = "
import sys
from deltalake import DeltaTable, QueryBuilder
rows = QueryBuilder().register('t', DeltaTable(sys.argv[1])).execute('select count(*) n, sum(part) p, sum(id) i from t').read_all()
print(*[rows.column(c)[0].as_py() for c in ['n', 'p', 'i']])";
    let ours = session.run("SELECT count(*), sum(part), sum(id) FROM t").await;
    let ours: Vec<_> = ours.lines().nth(3).unwrap().split(['|', ' ']).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(ask(&python, read, folder.path()), ours.join(" "));
}
