//! INSERT, DELETE and UPDATE, versions, and transactions.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use pagecast_delta::{DeltaError, Table, Transaction};

use super::data::{Session, Watched, options, rows, table};

const ALL: &str = "SELECT count(*), sum(id), sum(part), min(text) FROM t";

#[tokio::test]
async fn statements_change_what_they_say_and_old_versions_stay() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), &[3000, 2000]).await;
    let session = Session::new(&table, None);
    assert_eq!(session.number("SELECT count(*) FROM t").await, 5000);
    assert_eq!(session.number("DELETE FROM t WHERE id % 10 = 3").await, 500);
    assert_eq!(session.number("SELECT count(*) FROM t").await, 4500);
    assert_eq!(session.number("SELECT sum(id) FROM t WHERE id < 20").await, 190 - 16);
    assert_eq!(session.number("UPDATE t SET part = part + 100, text = 'new' WHERE id BETWEEN 2990 AND 3010").await, 19);
    assert_eq!(session.number("SELECT count(*) FROM t WHERE text = 'new' AND part BETWEEN 102 AND 103").await, 19);
    assert_eq!(session.number("SELECT count(*) FROM t").await, 4500);
    // Subqueries, aliases and joins say which rows.
    assert_eq!(session.number("DELETE FROM t WHERE id IN (SELECT max(id) FROM t)").await, 1);
    assert_eq!(session.number("SELECT max(id) FROM t").await, 4998);
    let other = "UPDATE t SET part = (SELECT count(*) FROM t AS o WHERE o.part = t.part) WHERE id IN (1, 2)";
    assert_eq!(session.number(other).await, 2);
    assert_eq!(session.number("SELECT part FROM t WHERE id = 2").await, 900);
    // Old versions: the empty table is 0, the files are 1 and 2.
    for (version, rows) in [(0, 0), (1, 3000), (2, 5000), (3, 4500), (5, 4499), (6, 4499)] {
        assert_eq!(session.number(&format!("SELECT count(*) FROM \"t@v{version}\"")).await, rows);
    }
    let fault = session.try_run("DELETE FROM \"t@v3\"").await.unwrap_err().to_string();
    assert!(fault.contains("only the newest"), "{fault}");
    let fault = session.try_run("SELECT * FROM \"t@v9\"").await.unwrap_err().to_string();
    assert!(fault.contains("no version 9, the newest is 6"), "{fault}");
    assert_eq!(session.number("DELETE FROM t").await, 4499);
    assert_eq!(session.number("SELECT count(*) FROM t").await, 0);
    assert_eq!(table.newest().unwrap().files().count(), 0);
}

#[tokio::test]
async fn a_transaction_sees_its_changes_and_others_see_them_when_it_commits() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), &[3000, 2000]).await;
    let others = Session::new(&table, None);
    others.run("DELETE FROM t WHERE id % 7 = 0").await;
    let before = others.run(ALL).await;
    let transaction = table.begin().unwrap();
    let own = Session::of(transaction.provider(), None, 3);
    own.insert(10_000..10_100).await;
    assert_eq!(own.number("DELETE FROM t WHERE id % 7 = 1").await, 715 + 14);
    assert_eq!(own.number("UPDATE t SET text = 'x' WHERE id IN (5, 10001, 10002)").await, 3);
    // Rows that were changed, or inserted, are changed again.
    assert_eq!(own.number("UPDATE t SET part = 1 WHERE text = 'x'").await, 3);
    assert_eq!(own.number("DELETE FROM t WHERE id IN (6, 10001, 10003)").await, 3);
    assert_eq!(own.number("SELECT count(*) FROM t").await, 5000 - 715 - 715 + 100 - 14 - 3);
    let seen = own.run(ALL).await;
    assert_eq!(others.run(ALL).await, before);
    let version = transaction.commit().unwrap();
    assert_eq!(others.run(ALL).await, seen);
    assert_eq!(others.run(&ALL.replace(" t", &format!(" \"t@v{}\" AS t", version - 1))).await, before);
}

#[tokio::test]
async fn begin_and_commit_are_words_of_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), &[1000]).await;
    let (session, others) = (Session::new(&table, None), Session::new(&table, None));
    session.run("CREATE VIEW small AS SELECT * FROM t WHERE id < 100").await;
    session.run("START TRANSACTION").await;
    session.run("DELETE FROM t WHERE id % 2 = 0").await;
    session.run("INSERT INTO t VALUES (-1, 0, 'x')").await;
    assert_eq!(session.number("SELECT count(*) FROM t").await, 501);
    assert_eq!(session.number("SELECT count(*) FROM small").await, 51);
    assert_eq!(others.number("SELECT count(*) FROM t").await, 1000);
    session.run("ROLLBACK").await;
    assert_eq!(session.number("SELECT count(*) FROM small").await, 100);
    session.run("START TRANSACTION").await;
    assert!(session.try_run("START TRANSACTION").await.unwrap_err().to_string().contains("is open already"));
    session.run("UPDATE t SET part = 5 WHERE id < 10").await;
    // Others commit meanwhile, and the transaction does not see it.
    others.run("INSERT INTO t VALUES (5000, 0, 'y')").await;
    assert_eq!(session.number("SELECT count(*) FROM t").await, 1000);
    assert_eq!(session.number("COMMIT").await, 1);
    assert_eq!(session.number("SELECT count(*) FROM t").await, 1001);
    assert_eq!(others.number("SELECT count(*) FROM t WHERE part = 5").await, 10);
    let fault = session.try_run("COMMIT").await.unwrap_err().to_string();
    assert!(fault.contains("no transaction is open"), "{fault}");

    // Two tables have two logs.
    let second = tempfile::tempdir().unwrap();
    let other = super::data::table(second.path(), &[10]).await;
    session.ctx.register_table("u", Arc::new(other.provider().unwrap())).unwrap();
    session.run("START TRANSACTION").await;
    session.run("DELETE FROM t WHERE id IN (SELECT id FROM u)").await;
    session.run("DELETE FROM u").await;
    let fault = session.try_run("COMMIT").await.unwrap_err().to_string();
    assert!(fault.contains("can change one table"), "{fault}");
    session.run("ROLLBACK").await;
    assert_eq!(session.number("SELECT count(*) FROM t, u").await, 10_010);
}

#[tokio::test]
async fn whoever_commits_first_wins() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), &[1000, 1000]).await;
    let begin = || {
        let transaction = table.begin().unwrap();
        let session = Session::of(transaction.provider(), None, 2);
        (transaction, session)
    };
    let ((one, first), (two, second), (three, third), (four, fourth)) = (begin(), begin(), begin(), begin());
    first.run("DELETE FROM t WHERE id < 10").await;
    // Another row of the same file, and a row that the first one deletes.
    second.run("DELETE FROM t WHERE id = 10").await;
    second.insert(5000..5010).await;
    third.run("UPDATE t SET part = 0 WHERE id = 9").await;
    fourth.insert(6000..6010).await;
    assert_eq!(one.commit().unwrap(), 3);
    assert_eq!(two.commit().unwrap(), 4);
    let fault = three.commit().unwrap_err();
    assert!(matches!(fault, DeltaError::Conflict { version: 4 | 3, .. }), "{fault}");
    assert!(fault.to_string().contains("nothing was changed"), "{fault}");
    assert_eq!(four.commit().unwrap(), 5);
    assert!(four.commit().unwrap_err().to_string().contains("has ended"));
    assert!(third.try_run("DELETE FROM t WHERE id = 11").await.unwrap_err().to_string().contains("has ended"));
    let session = Session::new(&table, None);
    assert_eq!(session.number("SELECT count(*) FROM t").await, 2000 - 11 + 20);
    assert_eq!(session.number("SELECT count(*) FROM t WHERE part = 0").await, 1000 - 11);
}

/// Writers in threads of their own: each adds its rows and moves an amount between two of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_at_once_lose_nothing() {
    const WRITERS: i64 = 4;
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), &[100]).await;
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let session = Session::new(&table, None);
        tasks.push(tokio::spawn(async move {
            let mut refused = 0;
            for turn in 0..5 {
                let id = 1000 * (writer + 1) + turn;
                session.insert(id..id + 1).await;
                // All want the same row.
                refused += i64::from(session.try_run("UPDATE t SET part = part + 1 WHERE id = 50").await.is_err());
                let sums = session.number("SELECT sum(part) FROM t WHERE id <> 50").await;
                assert!(sums >= 0);
            }
            refused
        }));
    }
    let mut refused = 0;
    for task in tasks {
        refused += task.await.unwrap();
    }
    let session = Session::new(&table, None);
    assert_eq!(session.number("SELECT count(*) FROM t").await, 100 + WRITERS * 5);
    assert_eq!(session.number("SELECT part FROM t WHERE id = 50").await, WRITERS * 5 - refused);
    let commits = table.newest().unwrap().version() as i64;
    assert_eq!(commits, 1 + WRITERS * 5 + WRITERS * 5 - refused);
}

/// Files of changes that come into no version go with their transaction.
#[tokio::test]
async fn what_is_refused_or_given_up_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), &[1000]).await;
    let options = {
        let mut options = options();
        options.memory = 0;
        options
    };
    let spilling = Table::open_with(folder.path(), options).unwrap();
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    let before = files();
    let (given_up, refused) = (spilling.begin().unwrap(), spilling.begin().unwrap());
    for transaction in [&given_up, &refused] {
        let own = Session::of(transaction.provider(), None, 1);
        own.insert(5000..5100).await;
        own.run("UPDATE t SET part = 9 WHERE id < 10 OR id > 5050").await;
        assert_eq!(own.number("SELECT sum(id) FROM t WHERE part = 9").await, 45 + (5051..5100).sum::<i64>());
    }
    assert_eq!(files(), before + 4, "what memory has no room for is written");
    drop(given_up);
    assert_eq!(files(), before + 2);
    Session::new(&table, None).run("DELETE FROM t WHERE id = 3").await;
    assert!(matches!(refused.commit(), Err(DeltaError::Conflict { version: 2, .. })));
    drop(refused);
    assert_eq!(files(), before + 1, "the deletion vector of the other one");
}

/// The log has NULL for the empty text.
#[tokio::test]
async fn an_empty_text_divides_no_table() {
    let folder = tempfile::tempdir().unwrap();
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, true), Field::new("kind", DataType::Utf8, true)]);
    let table = Table::create(folder.path(), &schema, &["kind"], options()).unwrap();
    let session = Session::new(&table, None);
    session.run("INSERT INTO t VALUES (1, 'a'), (2, NULL)").await;
    for change in ["INSERT INTO t VALUES (3, 'b'), (4, '')", "UPDATE t SET kind = '' WHERE id = 1"] {
        let fault = session.try_run(change).await.unwrap_err().to_string();
        assert!(fault.contains("cannot tell '' from NULL in kind"), "{fault}");
    }
    assert_eq!(session.number("SELECT count(*) FROM t WHERE kind IS NULL").await, 1);
    assert_eq!(session.number("SELECT count(*) FROM t").await, 2);
}

/// A statement that fails has written files before: what memory had no room for.
#[tokio::test]
async fn a_statement_that_fails_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path(), &[1000]).await;
    let mut options = options();
    options.memory = 0;
    let spilling = Table::open_with(folder.path(), options).unwrap();
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    let before = files();
    let session = Session::of(spilling.provider().unwrap(), None, 1);
    let new = [rows(5000..6000), rows(6000..7000)];
    session.ctx.register_table("new", session.ctx.read_batches(new).unwrap().into_view()).unwrap();
    let insert = |divisor: i64| format!("INSERT INTO t SELECT id, 1 / (id - {divisor}), text FROM new");
    let fault = session.try_run(&insert(6999)).await.unwrap_err().to_string();
    assert!(fault.contains("ivide by zero"), "{fault}");
    assert_eq!(files(), before);
    assert_eq!(session.number(&insert(1)).await, 2000);
    assert_eq!(files(), before + 1);
}

/// Somebody changes a file while it is compacted.
#[tokio::test]
async fn a_compaction_that_is_refused_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let others = table(folder.path(), &[1000]).await;
    Session::new(&others, None).run("DELETE FROM t WHERE id < 500").await;
    let once = std::sync::Once::new();
    let delete = move |path: &std::path::Path| {
        if path.extension().is_some_and(|kind| kind == "parquet") {
            let delete = async { Session::new(&others, None).run("DELETE FROM t WHERE id = 700").await };
            let alone = || tokio::runtime::Runtime::new().unwrap().block_on(delete);
            once.call_once(|| drop(std::thread::scope(|scope| scope.spawn(alone).join().unwrap())));
        }
    };
    let mut options = options();
    options.disk = Watched::disk(delete, |_| {});
    let table = Table::open_with(folder.path(), options).unwrap();
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    let before = files();
    assert!(matches!(table.compact(0.1), Err(DeltaError::Conflict { version: 3, .. })));
    assert_eq!(files(), before + 1, "the deletion vector of the other one");
    assert_eq!(table.compact(0.1).unwrap(), Some(4));
    assert_eq!(Session::new(&table, None).number("SELECT count(text) FROM t").await, 499);
}

/// Random changes against rows in a map, with filters that prune, and that are pushed down.
#[tokio::test]
async fn random_changes_agree_with_a_map() {
    let seed = std::env::var("PAGECAST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7_u64);
    println!("PAGECAST_SEED={seed}");
    let mut state = seed;
    let mut random = move |below: i64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % below as u64) as i64
    };
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), &[1200, 700]).await;
    let mut rows: BTreeMap<i64, i64> = (0..1900).map(|id| (id, id / 1000)).collect();
    let mut open: Option<Arc<Transaction>> = None;
    for turn in 0..60 {
        let seen = open.as_ref().map_or_else(|| table.provider().unwrap(), |open| open.provider());
        let session = Session::of(seen, None, 2);
        session.run(&format!("SET datafusion.execution.parquet.pushdown_filters = {}", turn % 2 == 0)).await;
        let (from, step) = (random(2500), 1 + random(9));
        let to = from + random(400);
        let meets = |id: i64| (from..=to).contains(&id) && id % step == 0;
        let filter = format!("id BETWEEN {from} AND {to} AND id % {step} = 0");
        match random(8) {
            0..3 => {
                rows.retain(|&id, _| !meets(id));
                session.run(&format!("DELETE FROM t WHERE {filter}")).await;
            }
            3..6 => {
                rows.iter_mut().filter(|(id, _)| meets(**id)).for_each(|(_, part)| *part += turn);
                session.run(&format!("UPDATE t SET part = part + {turn} WHERE {filter}")).await;
            }
            6 => {
                let first = 3000 + turn * 50;
                session.insert(first..first + 50).await;
                rows.extend((first..first + 50).map(|id| (id, id / 1000)));
            }
            _ => match open.take() {
                Some(transaction) => drop(transaction.commit().unwrap()),
                None if turn % 3 == 0 => drop(table.compact(0.2).unwrap()),
                None => open = Some(table.begin().unwrap()),
            },
        }
        let seen = open.as_ref().map_or_else(|| table.provider().unwrap(), |open| open.provider());
        let session = Session::of(seen, None, 2);
        let found =
            session.run("SELECT count(*), sum(id), sum(part), sum(id * part) FROM t WHERE length(text) > 0").await;
        let wanted =
            [rows.len() as i64, rows.keys().sum(), rows.values().sum(), rows.iter().map(|(id, part)| id * part).sum()];
        let found: Vec<i64> =
            found.lines().nth(3).unwrap().split('|').filter_map(|cell| cell.trim().parse().ok()).collect();
        assert_eq!(found, wanted, "turn {turn}, seed {seed}");
    }
    assert!(table.newest().unwrap().version() > 20);
}
