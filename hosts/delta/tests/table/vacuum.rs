//! What a vacuum deletes, and what it leaves.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use futures::TryStreamExt;
use pagecast_datafusion::Delivery;
use pagecast_delta::{DeltaError, Table, Vacuum};

use super::data::{Session, Watched, options, table};

const ALL: &str = "SELECT count(*), sum(id), sum(part), max(text) FROM t";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// All that no version but the newest needs.
fn everything() -> Vacuum {
    Vacuum { retention: Some(Duration::ZERO), force: true, ..Vacuum::default() }
}

/// The files that a vacuum of the table has deleted, by their names.
fn vacuumed(table: &Table, how: Vacuum) -> BTreeSet<String> {
    let gone = table.vacuum(how).unwrap();
    gone.iter().map(|file| file.path.strip_prefix(table.folder()).unwrap().display().to_string()).collect()
}

/// The files in the folder itself.
fn files(folder: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "_delta_log").collect()
}

fn commit(root: &Path, version: u64) -> PathBuf {
    root.join(format!("_delta_log/{version:020}.json"))
}

/// Makes it as if what left the table in this version had left it so long ago.
fn age(root: &Path, version: u64, by: Duration) {
    let text = fs::read_to_string(commit(root, version)).unwrap();
    let long_ago = (SystemTime::now() - by).duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let (mut aged, mut rest) = (String::new(), text.as_str());
    const KEY: &str = "\"deletionTimestamp\":";
    while let Some(at) = rest.find(KEY) {
        aged += &rest[..at + KEY.len()];
        aged += &long_ago.to_string();
        rest = rest[at + KEY.len()..].trim_start_matches(|digit: char| digit.is_ascii_digit());
    }
    assert!(!aged.is_empty(), "{text}");
    fs::write(commit(root, version), aged + rest).unwrap();
}

fn lay(path: &Path, by: Duration) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = File::create(path).unwrap();
    file.set_modified(SystemTime::now() - by).unwrap();
}

#[tokio::test]
async fn what_no_version_within_the_retention_needs_goes() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let first = table(root, &[400, 300]).await;
    let session = Session::new(&first, None);
    session.run("DELETE FROM t WHERE id < 100").await;
    let marked = files(root);
    session.run("DELETE FROM t WHERE id = 350").await;
    assert_eq!(first.compact(0.1).unwrap(), Some(5));
    let before = session.run(ALL).await;
    let whole = files(root);
    let new: BTreeSet<_> = whole.difference(&marked).filter(|name| name.ends_with(".parquet")).cloned().collect();

    assert!(vacuumed(&first, Vacuum::default()).is_empty(), "everything is younger than a week");
    // As if the changes had been made twelve to ten days ago.
    (3..=5).for_each(|version| age(root, version, (15 - version as u32) * DAY));
    let table = Table::open_with(root, options()).unwrap();
    let longer = Vacuum { retention: Some(13 * DAY), ..Vacuum::default() };
    assert!(vacuumed(&table, longer).is_empty());
    // A checkpoint forgets them, the log does not.
    table.checkpoint().unwrap();
    let table = Table::open_with(root, options()).unwrap();
    assert!(vacuumed(&table, longer).is_empty());
    let dry = Vacuum { dry_run: true, ..Vacuum::default() };
    let would = vacuumed(&table, dry);
    assert_eq!(files(root), whole, "a dry run deletes nothing");
    // The file that was compacted, its two vectors, and nothing of the other one.
    assert_eq!(would.len(), 3, "{would:?}");
    assert!(would.iter().all(|name| whole.contains(name) && !new.contains(name)));
    assert_eq!(vacuumed(&table, Vacuum::default()), would);
    assert_eq!(files(root), whole.difference(&would).cloned().collect());
    assert!(vacuumed(&table, everything()).is_empty(), "nothing else is left over");

    let fresh = Session::new(&Table::open(root).unwrap(), None);
    assert_eq!(fresh.run(ALL).await, before);
    for version in 1..=4 {
        let sql = format!("SELECT count(*) FROM \"t@v{version}\"");
        let fault = fresh.try_run(&sql).await.unwrap_err().to_string();
        let said = format!("version {version} is gone: ");
        assert!(fault.contains(&said) && fault.contains("a vacuum") && !fault.contains('\n'), "{fault}");
        assert!(would.iter().any(|name| fault.contains(name)), "{fault}");
    }
    assert_eq!(fresh.number("SELECT count(*) FROM \"t@v0\"").await, 0);
    assert_eq!(fresh.number("DELETE FROM t WHERE id = 360").await, 1);
}

#[tokio::test]
async fn what_is_not_of_the_table_stays_and_what_writers_left_goes_with_time() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let table = table(root, &[10]).await;
    let old = ["left.parquet", "part=3/left.parquet", "_part=3/x.parquet", "_delta_log/_draft_1.tmp"];
    old.iter().for_each(|name| lay(&root.join(name), 8 * DAY));
    let stay = ["notes.txt", "_hidden/x.parquet", ".x.parquet", "data.csv", "_delta_log/notes.tmp"];
    stay.iter().for_each(|name| lay(&root.join(name), 8 * DAY));
    // A writer that has not committed yet.
    lay(&root.join("new.parquet"), 6 * DAY);
    let gone = vacuumed(&table, Vacuum::default());
    assert_eq!(gone, old.map(str::to_owned).into());
    assert!(stay.iter().chain(&["new.parquet"]).all(|name| root.join(name).exists()));
    assert_eq!(vacuumed(&table, everything()), ["new.parquet".to_owned()].into());
    assert_eq!(table.newest().unwrap().files().filter(|file| file.exists()).count(), 1);
}

#[tokio::test]
async fn files_that_a_log_names_through_a_link_stay() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("t");
    let whole = table(&root, &[10]).await;
    let file = whole.newest().unwrap().files().next().unwrap().to_owned();
    let name = file.file_name().unwrap().to_str().unwrap();
    fs::create_dir(root.join("real")).unwrap();
    fs::rename(&file, root.join("real").join(name)).unwrap();
    std::os::unix::fs::symlink("real", root.join("link")).unwrap();
    let text = fs::read_to_string(commit(&root, 1)).unwrap();
    fs::write(commit(&root, 1), text.replace(name, &format!("link/{name}"))).unwrap();
    let table = Table::open(&root).unwrap();
    assert!(vacuumed(&table, everything()).is_empty());
    assert_eq!(Session::new(&table, None).number("SELECT count(id) FROM t").await, 10);

    // It left the table, and somebody may still read it.
    let read = table.provider().unwrap();
    let old = Session::of(table.provider_at(&table.newest().unwrap()), None, 1);
    Session::of(read, None, 1).run("DELETE FROM t").await;
    assert!(vacuumed(&table, everything()).is_empty());
    assert_eq!(old.number("SELECT count(id) FROM t").await, 10);
    drop(old);
    assert_eq!(vacuumed(&table, everything()), [format!("real/{name}")].into());
}

#[tokio::test]
async fn tables_inside_of_tables_stay() {
    let folder = tempfile::tempdir().unwrap();
    let outer = table(folder.path(), &[10]).await;
    let inner = table(&folder.path().join("a/inner"), &[20]).await;
    lay(&folder.path().join("a/left.parquet"), 8 * DAY);
    assert_eq!(vacuumed(&outer, everything()), ["a/left.parquet".to_owned()].into());
    assert_eq!(Session::new(&inner, None).number("SELECT count(text) FROM t").await, 20);
}

#[tokio::test]
async fn two_vacuums_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let first = table(folder.path(), &[10]).await;
    (0..3).for_each(|i| lay(&folder.path().join(format!("{i}.parquet")), 8 * DAY));
    let mut options = options();
    // Another vacuum is always first.
    options.disk = Watched::disk(|_| {}, |path| fs::remove_file(path).unwrap());
    let second = Table::open_with(folder.path(), options).unwrap();
    assert_eq!(vacuumed(&second, everything()).len(), 3);
    assert!(vacuumed(&first, everything()).is_empty());
}

#[tokio::test]
async fn a_short_retention_has_to_be_forced_or_the_tables_own() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let table = table(root, &[10, 10]).await;
    Session::new(&table, None).run("DELETE FROM t WHERE id < 10").await;
    let short = Vacuum { retention: Some(DAY), ..Vacuum::default() };
    let fault = table.vacuum(short).unwrap_err();
    assert!(matches!(fault, DeltaError::Refused { .. }));
    let text = fault.to_string();
    assert!(text.contains("24 hours") && text.contains("168") && text.contains("nothing was done"), "{text}");
    assert!(vacuumed(&table, Vacuum { dry_run: true, ..short }).is_empty());

    let first = fs::read_to_string(commit(root, 0)).unwrap();
    let property = |text: &str| {
        let key = "\"delta.enableDeletionVectors\"";
        let with = format!("\"delta.deletedFileRetentionDuration\":\"{text}\",{key}");
        fs::write(commit(root, 0), first.replace(key, &with)).unwrap();
        Table::open(root).unwrap()
    };
    assert!(vacuumed(&property("interval 2 hours"), short).is_empty());
    let fault = property("a while").vacuum(Vacuum::default()).unwrap_err().to_string();
    assert!(fault.contains("deletedFileRetentionDuration") && fault.contains("a while"), "{fault}");
    assert_eq!(vacuumed(&property("interval 0 days"), Vacuum::default()).len(), 1);
}

/// Scans go on over files that left the table, and a vacuum takes these when the last has ended.
#[tokio::test]
async fn running_scans_keep_their_files() {
    for delivery in [None, Some(Delivery::Stock), Some(Delivery::InOrder), Some(Delivery::OutOfOrder)] {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options();
        options.row_group_rows = 500;
        let table = Table::create(folder.path(), &super::data::schema(), &[], options).unwrap();
        let session = Session::of(table.provider().unwrap(), delivery, 1);
        session.insert(0..16_000).await;
        session.insert(16_000..20_000).await;
        session.run("DELETE FROM t WHERE id % 5 = 0").await;
        const SQL: &str = "SELECT id, text FROM t WHERE length(text) > 0";
        let mut stream = session.ctx.sql(SQL).await.unwrap().execute_stream().await.unwrap();
        let mut rows = stream.try_next().await.unwrap().unwrap().num_rows();
        // It is planned, and not begun; and it is not even planned.
        let waiting = session.ctx.sql(SQL).await.unwrap().create_physical_plan().await.unwrap();
        let unplanned = session.ctx.sql("SELECT count(text), sum(id) FROM \"t@v2\"").await.unwrap();

        let others = Session::new(&table, None);
        others.run("DELETE FROM t WHERE id < 18000").await;
        assert_eq!(table.compact(0.0).unwrap(), Some(5));
        let marks = vacuumed(&table, everything());
        assert!(!marks.is_empty() && marks.iter().all(|name| name.ends_with(".bin")), "{delivery:?} {marks:?}");
        while let Some(batch) = stream.try_next().await.unwrap() {
            rows += batch.num_rows();
        }
        assert_eq!(rows, 16_000, "{delivery:?}");
        drop(stream);
        let batches = datafusion::physical_plan::collect(waiting, session.ctx.task_ctx()).await.unwrap();
        assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 16_000, "{delivery:?}");
        assert!(vacuumed(&table, everything()).is_empty(), "a statement that is not planned yet has them");
        let rows = unplanned.collect().await.unwrap();
        assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
        let gone = vacuumed(&table, everything());
        assert_eq!(gone.len(), 2, "{delivery:?}: both old files");
        assert_eq!(session.number("SELECT count(*) FROM t").await, 1600);
    }
}

#[tokio::test]
async fn a_transaction_keeps_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut spilling = options();
    spilling.memory = 0;
    table(folder.path(), &[500]).await;
    let table = Table::open_with(folder.path(), spilling).unwrap();
    let transaction = table.begin().unwrap();
    let own = Session::of(transaction.provider(), None, 1);
    own.insert(1000..1100).await;
    drop(own);
    let others = Session::new(&table, None);
    others.run("DELETE FROM t WHERE id < 400").await;
    table.compact(0.0).unwrap();
    assert!(vacuumed(&table, everything()).iter().all(|name| name.ends_with(".bin")));
    let own = Session::of(transaction.provider(), None, 1);
    assert_eq!(own.number("SELECT count(text) FROM t").await, 600);
    transaction.commit().unwrap();
    drop((own, transaction));
    assert_eq!(vacuumed(&table, everything()).len(), 1);
    assert_eq!(others.number("SELECT count(text) FROM t").await, 200);
}

#[tokio::test]
async fn a_table_is_vacuumed_by_sql() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), &[400, 400]).await;
    let session = Session::new(&table, None);
    session.run("DELETE FROM t WHERE id < 400").await;
    let before = files(folder.path());
    let vacuum = format!("SELECT * FROM delta_vacuum('{}'", folder.path().display());
    let number = |arguments: &str| format!("SELECT count(*) FROM ({vacuum}{arguments}))");
    assert_eq!(session.number(&number("")).await, 0);
    assert_eq!(session.number(&number(", NULL, 'dry run'")).await, 0);
    assert_eq!(session.number(&number(", 0.0, 'dry run'")).await, 1);
    session.run(&format!("EXPLAIN {vacuum}, 0, 'force')")).await;
    assert_eq!(files(folder.path()), before, "nothing happens before it runs");
    let said = session.run(&format!("{vacuum}, 0, 'force')")).await;
    let gone: Vec<_> = before.difference(&files(folder.path())).cloned().collect();
    assert!(gone.len() == 1 && said.contains(&gone[0]) && said.contains("bytes"), "{said}");
    let fault = session.try_run(&format!("{vacuum}, 1)")).await.unwrap_err().to_string();
    assert!(fault.contains("shorter than the table's 168"), "{fault}");
    for (arguments, what) in [
        ("", "takes the table's folder"),
        ("7", "single quotes"),
        ("'t', 'x'", "no number of hours"),
        ("'t', -1", "no number of hours"),
        ("'t', 1, 'dry'", "neither 'dry run' nor 'force'"),
        ("'t', 1, 'force', 2", "takes the table's folder"),
    ] {
        let sql = format!("SELECT * FROM delta_vacuum({arguments})");
        let fault = session.try_run(&sql).await.unwrap_err().to_string();
        assert!(fault.contains(what), "{fault}");
    }
    assert_eq!(session.number("SELECT count(id) FROM t").await, 400);
}
