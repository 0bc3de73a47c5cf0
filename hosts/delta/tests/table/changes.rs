//! INSERT, DELETE and UPDATE, versions, and transactions.

use pagecast_delta::{DeltaError, DeltaTable};

use super::data::{Session, table};

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
    let own = Session::of(DeltaTable::transaction(&transaction), None, 3);
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
async fn whoever_commits_first_wins() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), &[1000, 1000]).await;
    let begin = || {
        let transaction = table.begin().unwrap();
        let session = Session::of(DeltaTable::transaction(&transaction), None, 2);
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
