//! Which bytes scans of different versions share, and for how long.

use std::sync::Arc;

use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use pagecast_datafusion::Delivery;
use pagecast_delta::{Table, Transaction};

use super::data::{PAGE, Session, options, schema};

const ROWS: i64 = 16_000;

async fn append(transaction: &Arc<Transaction>, numbers: &[i64]) {
    let own = Session::of(transaction.provider(), None, 1);
    for number in numbers {
        own.insert(number * ROWS..(number + 1) * ROWS).await;
    }
}

/// A table of files as the numbers say, each of 32 row groups, and whose transactions write what
/// they insert to files.
async fn appending(folder: &std::path::Path, numbers: &[i64]) -> Arc<Table> {
    let mut options = options();
    options.row_group_rows = 500;
    options.memory = 0;
    let table = Table::create(folder, &schema(), &[], options).unwrap();
    let transaction = table.begin().unwrap();
    append(&transaction, numbers).await;
    transaction.commit().unwrap();
    table
}

struct Running {
    stream: SendableRecordBatchStream,
    _plan: Arc<dyn ExecutionPlan>,
}

impl Session {
    /// Begins a scan of everything in `name`, and lets it read one batch.
    async fn begin(&self, name: &str) -> Running {
        let sql = format!("SELECT id, part, text FROM {name} WHERE length(text) > 0");
        let plan = self.ctx.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
        let mut stream = execute_stream(Arc::clone(&plan), self.ctx.task_ctx()).unwrap();
        stream.next().await.unwrap().unwrap();
        Running { stream, _plan: plan }
    }

    /// Bytes that so many of the running scans still need, without those of no scan.
    fn sharing(&self) -> Vec<u64> {
        self.host.as_ref().unwrap().sharing().to_vec()
    }
}

/// About as many, within what scans have read of their first chunks.
fn about(found: u64, wanted: u64, chunk: u64, what: &str) {
    assert!(found.abs_diff(wanted) <= chunk, "{what}: {found} of {wanted}");
}

/// Figure 4.7 of Świtakowski 2011. The table has chunks 0 to 3. T1 appends 4 and 5. T2 appends 6
/// and 7 and commits. T3 and T4 begin after it, and append to what it left. A chunk is a file here.
#[tokio::test]
async fn chunks_are_shared_as_in_figure_4_7() {
    let folder = tempfile::tempdir().unwrap();
    let table = appending(folder.path(), &[0, 1, 2, 3]).await;
    let (one, two) = (table.begin().unwrap(), table.begin().unwrap());
    append(&one, &[4, 5]).await;
    append(&two, &[6, 7]).await;
    assert_eq!(two.commit().unwrap(), 2);
    let (three, four) = (table.begin().unwrap(), table.begin().unwrap());
    append(&three, &[8]).await;
    append(&four, &[9]).await;

    let session = Session::of(table.provider_at(&table.at(1).unwrap()), Some(Delivery::OutOfOrder), 1);
    for (name, seen) in [
        ("t1", one.provider()),
        ("t2", table.provider_at(&table.at(2).unwrap())),
        ("t3", three.provider()),
        ("t4", four.provider()),
    ] {
        session.ctx.register_table(name, Arc::new(seen)).unwrap();
    }
    // What a scan of files 0 to 3 has left after one batch, and what the batch took.
    let alone = session.begin("t").await;
    let base = session.sharing()[0];
    // A chunk is of a unit of 16 pages and the row group that ends it.
    let (file, chunk) = (base / 4, 24 * PAGE);
    assert!(4 * chunk < file, "files are told apart");
    drop(alone);
    assert_eq!(session.sharing(), [0; 5]);

    let (first, second) = (session.begin("t1").await, session.begin("t2").await);
    let found = session.sharing();
    about(found[1], 4 * file, 2 * chunk, "T1 and T2 share 0 to 3");
    about(found[0], 4 * file, 2 * chunk, "4 and 5, 6 and 7 are local");
    let (third, fourth) = (session.begin("t3").await, session.begin("t4").await);
    let found = session.sharing();
    about(found[3], 4 * file, 4 * chunk, "all share 0 to 3");
    about(found[2], 2 * file, 4 * chunk, "T2, T3 and T4 share 6 and 7");
    about(found[0], 4 * file, 4 * chunk, "what T1, T3 and T4 appended is local");
    drop(first);
    let found = session.sharing();
    about(found[2], 6 * file, 4 * chunk, "{T2, T3, T4}: 0 to 3, 6 and 7");
    about(found[0], 2 * file, 4 * chunk, "8 and 9");
    drop(second);
    about(session.sharing()[1], 6 * file, 4 * chunk, "{T3, T4}: 0 to 3, 6 and 7");
    drop((third, fourth));
    assert_eq!(session.sharing(), [0; 5]);
    let pool = session.host.as_ref().unwrap().pool();
    assert_eq!((pool.scans().len(), pool.unordered_scans().len(), pool.pinned()), (0, 0, 0));
}

/// A compaction under a running scan leaves it its files, and what both versions have is shared.
#[tokio::test]
async fn compaction_leaves_running_scans_what_they_read() {
    let folder = tempfile::tempdir().unwrap();
    let table = appending(folder.path(), &[0, 1, 2]).await;
    let plain = Session::new(&table, None);
    plain.run(&format!("DELETE FROM t WHERE id BETWEEN {} AND {}", ROWS, ROWS * 2 - 1000)).await;
    let before = plain.run("SELECT count(*), sum(id), max(text) FROM t").await;
    let session = Session::of(table.provider().unwrap(), Some(Delivery::OutOfOrder), 1);
    let mut old = session.begin("t").await;
    assert_eq!(table.compact(0.95).unwrap(), None, "no file has lost so many rows");
    assert_eq!(table.compact(0.5).unwrap(), Some(3));
    let mut new = session.begin("t").await;
    let found = session.sharing();
    assert!(found[1] > 8 * found[0], "files 0 and 2 are shared, the end of 1 is not: {found:?}");
    let (mut counts, mut streams) = ([0, 0], [&mut old.stream, &mut new.stream]);
    for (count, stream) in counts.iter_mut().zip(&mut streams) {
        while let Some(batch) = stream.next().await {
            *count += batch.unwrap().num_rows();
        }
    }
    assert!(counts.iter().all(|&count| count > 0));
    drop((old, new));
    assert_eq!(session.sharing(), [0; 5]);
    assert_eq!(session.run("SELECT count(*), sum(id), max(text) FROM t").await, before);
    assert_eq!(
        session.run("SELECT count(*), sum(t.id), max(t.text) FROM \"t@v2\" AS t").await.lines().nth(3),
        before.lines().nth(3)
    );
    let rows: u64 = table.newest().unwrap().rows();
    assert_eq!(session.number("SELECT count(*) FROM t").await, rows as i64);
    assert_eq!(table.compact(0.0).unwrap(), None, "nothing is left to be compacted");
}
