//! The log and its checkpoints, tables that are made anew, and compaction by SQL.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use pagecast_delta::Table;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::data::{Session, options, table};

const ALL: &str = "SELECT count(*), sum(id), sum(part), max(text) FROM t";

fn commit(root: &Path, version: u64) -> PathBuf {
    root.join(format!("_delta_log/{version:020}.json"))
}

/// Makes so many files of the checkpoint of a version.
fn divide(root: &Path, version: u64, parts: usize) -> Vec<PathBuf> {
    let whole = root.join(format!("_delta_log/{version:020}.checkpoint.parquet"));
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&whole).unwrap()).unwrap();
    let schema = reader.schema().clone();
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
    let rows = concat_batches(&schema, &batches).unwrap();
    fs::remove_file(&whole).unwrap();
    let share = rows.num_rows().div_ceil(parts);
    let name = |part: usize| format!("_delta_log/{version:020}.checkpoint.{:010}.{parts:010}.parquet", part + 1);
    let write = |part: usize| {
        let path = root.join(name(part));
        let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), schema.clone(), None).unwrap();
        let from = (part * share).min(rows.num_rows());
        writer.write(&rows.slice(from, share.min(rows.num_rows() - from))).unwrap();
        writer.close().unwrap();
        path
    };
    (0..parts).map(write).collect()
}

#[tokio::test]
async fn checkpoints_of_several_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), &[500, 400, 300, 200]).await;
    let session = Session::new(&table, None);
    session.run("DELETE FROM t WHERE id % 7 = 2").await;
    let version = table.checkpoint().unwrap();
    let before = session.run(ALL).await;
    let parts = divide(folder.path(), version, 3);
    let read = || async { Session::new(&Table::open(folder.path()).unwrap(), None).run(ALL).await };
    assert_eq!(read().await, before);
    // Without one of its files it is none, and the log before it is read.
    let kept = fs::read(&parts[1]).unwrap();
    fs::remove_file(&parts[1]).unwrap();
    assert_eq!(read().await, before);
    for version in 0..version {
        fs::remove_file(commit(folder.path(), version)).unwrap();
    }
    let fault = Table::open(folder.path()).unwrap_err().to_string();
    assert!(fault.contains("00000000000000000000.json") && fault.contains("missing"), "{fault}");
    fs::write(&parts[1], kept).unwrap();
    assert_eq!(read().await, before);
    // One that is cut says which.
    let whole = fs::read(&parts[2]).unwrap();
    fs::write(&parts[2], &whole[..whole.len() / 2]).unwrap();
    let fault = Table::open(folder.path()).unwrap_err().to_string();
    assert!(fault.contains("0000000003.0000000003.parquet") && !fault.contains('\n'), "{fault}");
}

#[tokio::test]
async fn a_commit_reads_no_version_that_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), &[100, 100, 100]).await;
    let session = Session::new(&table, None);
    // Who reads them again falls over them. A checkpoint, which the library makes of the log, does.
    let whole: Vec<_> = (0..3).map(|version| fs::read(commit(folder.path(), version)).unwrap()).collect();
    (0..3).for_each(|version| fs::write(commit(folder.path(), version), "torn").unwrap());
    for id in 1000..1006 {
        session.insert(id..id + 1).await;
    }
    assert_eq!(session.number("SELECT count(*) FROM t").await, 306);
    (0..3).for_each(|version| fs::write(commit(folder.path(), version), &whole[version as usize]).unwrap());
    session.insert(1006..1007).await;
    session.insert(1007..1008).await;
    let checkpoint = folder.path().join("_delta_log/00000000000000000010.checkpoint.parquet");
    assert!(checkpoint.exists(), "every tenth version has one");
    assert_eq!(Session::new(&Table::open(folder.path()).unwrap(), None).number("SELECT count(*) FROM t").await, 308);
}

#[tokio::test]
async fn a_table_that_is_made_anew_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("t");
    let old = table(&root, &[300, 200]).await;
    let session = Session::new(&old, None);
    assert_eq!(session.number("SELECT count(*) FROM t").await, 500);
    for files in [&[70, 30][..], &[10], &[5, 5, 5, 5]] {
        fs::remove_dir_all(&root).unwrap();
        let new = table(&root, files).await;
        let rows: i64 = files.iter().sum();
        assert_eq!(session.number("SELECT count(*) FROM t").await, rows);
        assert_eq!(session.number("DELETE FROM t WHERE id = 0").await, 1);
        assert_eq!(new.newest().unwrap().rows() as i64, rows - 1);
    }
}

#[tokio::test]
async fn a_table_is_compacted_by_sql() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), &[400, 400]).await;
    let session = Session::new(&table, None);
    session.run("DELETE FROM t WHERE id < 100").await;
    let before = session.run(ALL).await;
    let files = |table: &Table| table.newest().unwrap().files().map(Path::to_owned).collect::<Vec<_>>();
    let old = files(&table);
    let compact = format!("SELECT * FROM delta_compact('{}'", folder.path().display());
    session.run(&format!("EXPLAIN {compact}, 0)")).await;
    assert_eq!(files(&table), old, "nothing happens before it runs");
    // A quarter of the first file is deleted.
    assert!(session.run(&format!("{compact}, 0.5)")).await.lines().nth(3).unwrap().trim_matches(['|', ' ']).is_empty());
    assert_eq!(session.number(&format!("{compact})")).await, 4);
    assert_eq!(files(&table).iter().filter(|file| old.contains(file)).count(), 1);
    assert_eq!(session.run(ALL).await, before);
    for (arguments, what) in
        [("", "takes the table's folder"), ("7", "single quotes"), ("'t', 2", "no share from 0 to 1")]
    {
        let fault =
            session.try_run(&format!("SELECT * FROM delta_compact({arguments})")).await.unwrap_err().to_string();
        assert!(fault.contains(what), "{fault}");
    }
    let fault = session.try_run("SELECT * FROM delta_compact('/nowhere/t')").await.unwrap_err().to_string();
    assert!(fault.contains("/nowhere/t"), "{fault}");
    let again = Table::open_with(folder.path(), options()).unwrap();
    assert_eq!(again.newest().unwrap().version(), 4);
}
