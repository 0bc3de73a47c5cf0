//! What scans of tables with deleted rows read.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::physical_plan::{collect, displayable};
use pagecast_datafusion::Delivery;
use pagecast_delta::Table;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};

use super::data::{Session, options, schema, table};

const QUERIES: [&str; 5] = [
    "SELECT count(*), sum(id), min(text), max(text) FROM t",
    "SELECT sum(length(text)) FROM t WHERE id BETWEEN 7000 AND 12500",
    "SELECT part, count(*), min(text) FROM t WHERE text < '8' GROUP BY part ORDER BY part",
    "SELECT id, text FROM t WHERE part = 3 ORDER BY id LIMIT 20",
    "SELECT a.id FROM t a JOIN t b ON a.id = b.id + 1 WHERE b.part = 4 ORDER BY a.id LIMIT 7",
];

#[tokio::test]
async fn every_delivery_gives_the_rows_that_are_left() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), &[12_000, 1, 8_000]).await;
    let plain = Session::new(&table, None);
    for change in [
        "DELETE FROM t WHERE id % 97 = 5 OR id BETWEEN 2000 AND 8000",
        "UPDATE t SET text = upper(text) WHERE id % 1001 = 0 OR id = 12000",
    ] {
        plain.run(change).await;
        let kept = plain.number("SELECT count(*) FROM t WHERE length(text) > 0").await;
        assert_eq!(plain.number("SELECT count(*) FROM t").await, kept, "what the log counts is what is read");
        for delivery in [Delivery::Stock, Delivery::InOrder, Delivery::OutOfOrder] {
            let session = Session::new(&table, Some(delivery));
            for sql in QUERIES {
                assert_eq!(session.run(sql).await, plain.run(sql).await, "{delivery:?} {sql}");
            }
            let host = session.host.unwrap();
            assert!(host.pool().stats().requests > 0);
            assert_eq!(host.out_of_order_scans() > 0, delivery == Delivery::OutOfOrder);
        }
    }
}

fn footer(path: &Path) -> ParquetMetaData {
    let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Required);
    reader.parse_and_finish(&File::open(path).unwrap()).unwrap()
}

/// Bytes of the pages of these columns that have a row whose `id` is left, dictionaries included.
/// Files hold the ids from their first one on.
fn live_bytes(files: &BTreeMap<PathBuf, Range<i64>>, left: impl Fn(i64) -> bool) -> u64 {
    let mut bytes = 0;
    for (path, ids) in files {
        let footer = footer(path);
        let mut first = ids.start;
        for (row_group, pages) in footer.row_groups().iter().zip(footer.offset_index().unwrap()) {
            let rows = row_group.num_rows();
            for (column, pages) in row_group.columns().iter().zip(pages) {
                let pages = pages.page_locations();
                let end = |i: usize| pages.get(i + 1).map_or(rows, |next| next.first_row_index);
                let live = |i: usize| (pages[i].first_row_index..end(i)).any(|row| left(first + row));
                let of_pages: i64 =
                    (0..pages.len()).filter(|&i| live(i)).map(|i| i64::from(pages[i].compressed_page_size)).sum();
                if of_pages > 0 {
                    bytes += of_pages as u64 + (pages[0].offset as u64 - column.byte_range().0);
                }
            }
            first += rows;
        }
    }
    bytes
}

/// The bytes of the whole table's scan, as requested from the pool, and as the scan had registered
/// them.
async fn requested(session: &Session, sql: &str) -> (u64, u64) {
    let host = session.host.as_ref().unwrap();
    let plan = session.ctx.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    let planned = host.planned_reads(&plan, &session.ctx.task_ctx()).await.unwrap();
    let before = host.pool().stats().bytes_requested;
    collect(plan, session.ctx.task_ctx()).await.unwrap();
    let planned: u64 = planned.iter().flat_map(|read| &read.bytes).map(|range| range.end - range.start).sum();
    (host.pool().stats().bytes_requested - before, planned)
}

#[tokio::test]
async fn pages_without_rows_are_not_read_and_what_is_registered_is_read() {
    const SQL: &str = "SELECT count(id), sum(part), max(text) FROM t";
    const ROWS: i64 = 20_000;
    const NEW: i64 = 1_000_000;
    // 1 % and 10 % of the rows, apart from each other and as a stretch.
    let changed = [
        ("id % 100 = 7", (|id| id % 100 == 7) as fn(i64) -> bool),
        ("id % 10 = 7", |id| id % 10 == 7),
        ("id BETWEEN 6100 AND 6299", |id| (6100..=6299).contains(&id)),
        ("id BETWEEN 6100 AND 8099", |id| (6100..=8099).contains(&id)),
        ("id < 5000 OR id % 5000 > 1500", |id| id < 5000 || id % 5000 > 1500),
    ];
    for (i, (rows, gone)) in changed.into_iter().chain(changed).enumerate() {
        let change = if i < changed.len() { "DELETE FROM t" } else { "UPDATE t SET part = part + 1" };
        let change = format!("{change} WHERE {rows}");
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), &[ROWS / 2, ROWS / 2]).await;
        let whole = Session::new(&table, Some(Delivery::InOrder));
        let (all, _) = requested(&whole, SQL).await;
        // By one thread, so that an UPDATE writes its rows in their order.
        Session::of(table.provider().unwrap(), None, 1).run(&change).await;
        let mut files = BTreeMap::new();
        for (i, path) in table.newest().unwrap().files().enumerate() {
            // What an UPDATE wrote is the third file.
            let first = if i < 2 { i as i64 * ROWS / 2 } else { NEW };
            files.insert(path.to_owned(), first..first + ROWS / 2);
        }
        let need = live_bytes(&files, |id| id >= NEW || !gone(id));
        for delivery in [Delivery::InOrder, Delivery::OutOfOrder] {
            let session = Session::new(&table, Some(delivery));
            let (read, planned) = requested(&session, SQL).await;
            println!("{change}: {delivery:?} reads {read} of {all}, live pages are {need}");
            assert_eq!(read, planned, "{change} {delivery:?}");
            assert!(read <= need + need / 20, "{change} {delivery:?}: {read} of {need}");
            assert!(read >= need, "{change} {delivery:?}: {read} of {need}");
        }
        let pruned = format!("{SQL} WHERE id BETWEEN 7500 AND 9000");
        let session = Session::new(&table, Some(Delivery::InOrder));
        let (read, planned) = requested(&session, &pruned).await;
        assert_eq!(read, planned, "{change}");
        assert!(read < need / 3, "pruning stays on: {read} of {need}");
    }
}

/// A table of two files of 20 row groups each.
async fn of_small_row_groups(folder: &Path) -> Arc<Table> {
    let mut options = options();
    options.row_group_rows = 500;
    let table = Table::create(folder, &schema(), &[], options).unwrap();
    let session = Session::new(&table, None);
    session.insert(0..10_000).await;
    session.insert(10_000..20_000).await;
    table
}

/// DELETE and UPDATE look for their rows in scans like those of queries: the row groups go to
/// whoever asks, a row's position is the same, and what is registered is what is read.
#[tokio::test]
async fn scans_of_changes_are_registered_and_read_what_they_registered() {
    const ALL: &str = "SELECT count(*), sum(id), sum(part), sum(id * part), max(text), min(text) FROM t";
    let plain_folder = tempfile::tempdir().unwrap();
    let plain_table = of_small_row_groups(plain_folder.path()).await;
    for delivery in [Delivery::InOrder, Delivery::OutOfOrder] {
        let folder = tempfile::tempdir().unwrap();
        let table = of_small_row_groups(folder.path()).await;
        let plain = Session::of(plain_table.provider().unwrap(), None, 1);
        plain.run("START TRANSACTION").await;
        for sql in [
            "DELETE FROM t WHERE id % 100 = 7",
            "DELETE FROM t WHERE id BETWEEN 6100 AND 8299 OR id > 19900",
            "UPDATE t SET text = upper(text) WHERE id BETWEEN 5200 AND 12500 AND id % 3 = 0",
            "UPDATE t SET part = part + id WHERE text < '8' AND id > 15000",
            "DELETE FROM t WHERE id < 2000 AND length(text) > 0",
        ] {
            let session = Session::new(&table, Some(delivery));
            let host = session.host.as_ref().unwrap();
            let plan = session.ctx.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
            let shown = displayable(plan.as_ref()).indent(false).to_string();
            assert!(shown.contains("delivery=in-order"), "{shown}");
            let planned = host.planned_reads(&plan, &session.ctx.task_ctx()).await.unwrap();
            let planned: u64 = planned.iter().flat_map(|read| &read.bytes).map(|range| range.end - range.start).sum();
            collect(plan, session.ctx.task_ctx()).await.unwrap();
            assert_eq!(host.pool().stats().bytes_requested, planned, "{delivery:?} {sql}");
            assert!(planned > 0 && host.unregistered_scans() == 0, "{sql}");
            plain.run(sql).await;
            assert_eq!(Session::new(&table, Some(delivery)).run(ALL).await, plain.run(ALL).await, "{delivery:?} {sql}");
        }
        plain.run("ROLLBACK").await;
        // A query of positions that needs no order.
        let session = Session::new(&table, Some(delivery));
        let some = "DELETE FROM t WHERE id IN (SELECT id FROM t WHERE part % 7 = 3 AND id > 9000)";
        let gone = session.number(&some.replace("DELETE", "SELECT count(*)")).await;
        assert_eq!(session.number(some).await, gone);
        assert_eq!(session.number(&some.replace("DELETE", "SELECT count(*)")).await, 0);
    }
}

/// The log alone says that a file has nothing for a filter: its footer is not read.
#[tokio::test]
async fn statistics_of_the_log_prune_files() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), &[1000, 1000, 1000]).await;
    let session = Session::new(&table, Some(Delivery::InOrder));
    let host = session.host.as_ref().unwrap();
    assert_eq!(session.number("SELECT count(*) FROM t").await, 3000);
    assert_eq!((host.footer_bytes_read(), host.pool().stats().requests), (0, 0), "the log has the count");
    session.run("SELECT max(text) FROM t WHERE id BETWEEN 1100 AND 1200").await;
    let one = host.footer_bytes_read();
    session.run("SELECT max(text) FROM t").await;
    assert!(one > 0 && host.footer_bytes_read() >= one * 3 - one / 10, "{one} {}", host.footer_bytes_read());
}
