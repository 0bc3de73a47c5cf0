//! What is broken, or asks for what we do not know, has one line that says where and what to do.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagecast_datafusion::Delivery;
use pagecast_delta::{DeltaError, Table};

use super::data::{Session, table};

fn commit(root: &Path, version: u64) -> PathBuf {
    root.join(format!("_delta_log/{version:020}.json"))
}

/// A table of versions 0 to 3, of which the last has a deletion vector.
async fn broken() -> (tempfile::TempDir, Arc<Table>) {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), &[500, 500]).await;
    Session::new(&table, None).run("DELETE FROM t WHERE id % 3 = 0").await;
    (folder, table)
}

fn fault(root: &Path) -> String {
    let fault = Table::open(root).unwrap_err().to_string();
    assert!(!fault.contains('\n'), "{fault}");
    fault
}

fn edit(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

#[tokio::test]
async fn a_broken_log_says_where() {
    let (folder, _) = broken().await;
    let root = folder.path();
    let last = commit(root, 3);
    let whole = fs::read(&last).unwrap();
    // Cut anywhere, the log is torn, or ends with a line.
    for cut in [whole.len() - 2, whole.len() / 2, 3] {
        fs::write(&last, &whole[..cut]).unwrap();
        let fault = fault(root);
        assert!(fault.contains("00003.json, byte ") && fault.contains("torn"), "{fault}");
        assert!(fault.contains("restore"), "{fault}");
    }
    fs::write(&last, [&whole[..], b"what\n"].concat()).unwrap();
    let text = fault(root);
    assert!(text.contains(&format!("byte {}", whole.len())) && text.contains("no action"), "{text}");
    fs::write(&last, &whole).unwrap();
    fs::rename(commit(root, 1), commit(root, 8)).unwrap();
    let text = fault(root);
    assert!(text.contains("00001.json") && text.contains("version 1 is missing"), "{text}");
    fs::remove_dir_all(root.join("_delta_log")).unwrap();
    assert!(fault(root).contains("no Delta table is here"));
}

#[tokio::test]
async fn a_broken_deletion_vector_or_data_file_says_which() {
    let (folder, table) = broken().await;
    let root = folder.path();
    let last = fs::read_to_string(commit(root, 3)).unwrap();
    edit(&commit(root, 3), "\"offset\":1,", "\"offset\":100000,");
    let text = fault(root);
    assert!(text.contains("deletion_vector_") && text.contains("byte 100000") && text.contains("beyond"), "{text}");
    fs::write(commit(root, 3), last.replace("\\\"numRecords\\\":500", "\\\"numRecords\\\":400")).unwrap();
    let text = fault(root);
    assert!(text.contains(".parquet") && text.contains("names row 4") && text.contains("has 400 rows"), "{text}");
    fs::write(commit(root, 3), &last).unwrap();

    // A log that counts other rows than the file has.
    fs::write(commit(root, 3), last.replace("\\\"numRecords\\\":500", "\\\"numRecords\\\":501")).unwrap();
    let other = Table::open(root).unwrap();
    for delivery in [Delivery::Stock, Delivery::InOrder] {
        let text =
            Session::new(&other, Some(delivery)).try_run("SELECT max(text) FROM t").await.unwrap_err().to_string();
        assert!(text.contains("500 rows") && text.contains("501 rows"), "{text}");
    }
    fs::write(commit(root, 3), &last).unwrap();

    let file = table.newest().unwrap().files().next().unwrap().to_owned();
    let name = file.file_name().unwrap().to_str().unwrap();
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    for delivery in [Delivery::Stock, Delivery::InOrder, Delivery::OutOfOrder] {
        let session = Session::new(&table, Some(delivery));
        let text = session.try_run("SELECT max(text) FROM t").await.unwrap_err().to_string();
        assert!(text.contains(name), "{delivery:?} {text}");
    }
    fs::remove_file(&file).unwrap();
    let session = Session::new(&table, Some(Delivery::InOrder));
    let text = session.try_run("SELECT max(text) FROM t").await.unwrap_err().to_string();
    assert!(text.contains(name), "{text}");
    // The change reads the file, and nothing of it is in the table.
    assert!(session.try_run("UPDATE t SET text = text || 'x'").await.is_err());
    assert_eq!(table.newest().unwrap().version(), 3);
}

#[tokio::test]
async fn what_we_do_not_know_is_refused_by_name() {
    let (folder, _) = broken().await;
    let root = folder.path();
    let first = fs::read_to_string(commit(root, 0)).unwrap();
    let reader = "\"readerFeatures\":[\"deletionVectors\"]";
    let writer = "\"writerFeatures\":[\"deletionVectors\"]";
    for (from, to, name) in [
        (reader, "\"readerFeatures\":[\"deletionVectors\",\"variantType\"]", "variantType"),
        (reader, "\"readerFeatures\":[\"v2Checkpoint\"]", "v2Checkpoint"),
        ("\"minReaderVersion\":3", "\"minReaderVersion\":4", "version 4"),
        ("\"provider\":\"parquet\"", "\"provider\":\"orc\"", "orc"),
        ("\\\"long\\\"", "\\\"variant\\\"", "variant"),
    ] {
        assert!(first.contains(from), "{from} {first}");
        fs::write(commit(root, 0), first.replace(from, to)).unwrap();
        let text = fault(root);
        assert!(text.contains(name), "{name}: {text}");
    }
    let mapped = first.replace("\"delta.enableDeletionVectors\":\"true\"", "\"delta.columnMapping.mode\":\"name\"");
    fs::write(commit(root, 0), mapped.replace(reader, "\"readerFeatures\":[\"columnMapping\",\"deletionVectors\"]"))
        .unwrap();
    assert!(fault(root).contains("columnMapping"));

    // It can be read, and not written.
    for (to, name) in [
        ("\"writerFeatures\":[\"deletionVectors\",\"rowTracking\"]", "rowTracking"),
        ("\"writerFeatures\":[\"deletionVectors\",\"checkConstraints\"]", "checkConstraints"),
    ] {
        fs::write(commit(root, 0), first.replace(writer, to)).unwrap();
        let table = Table::open(root).unwrap();
        let session = Session::new(&table, None);
        assert_eq!(session.number("SELECT count(*) FROM t").await, 666);
        let before = fs::read_dir(root).unwrap().count();
        for sql in ["INSERT INTO t VALUES (1, 2, 'x')", "DELETE FROM t WHERE id = 1", "UPDATE t SET part = 1"] {
            let text = session.try_run(sql).await.unwrap_err().to_string();
            assert!(text.contains(name) && text.contains("nothing was done"), "{text}");
        }
        assert!(matches!(table.checkpoint(), Err(DeltaError::Feature { .. })));
        assert_eq!(fs::read_dir(root).unwrap().count(), before, "nothing was written");
    }
    let append = first
        .replace("\"delta.enableDeletionVectors\"", "\"delta.appendOnly\":\"true\",\"delta.enableDeletionVectors\"");
    fs::write(commit(root, 0), append).unwrap();
    let session = Session::new(&Table::open(root).unwrap(), None);
    session.run("INSERT INTO t VALUES (1, 2, 'x')").await;
    let text = session.try_run("DELETE FROM t WHERE id = 1").await.unwrap_err().to_string();
    assert!(text.contains("delta.appendOnly"), "{text}");
}
