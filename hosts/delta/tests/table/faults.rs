//! What is broken, or asks for what we do not know, has one line that says where and what to do.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
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

/// A statement was planned, and then somebody gives two columns each other's name.
#[tokio::test]
async fn columns_that_have_changed_are_planned_anew() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let table = table(root, &[100]).await;
    let session = Session::new(&table, None);
    // Without the words of Delta tables.
    let bare = SessionContext::new();
    bare.register_table("t", Arc::new(table.provider().unwrap())).unwrap();
    let insert = session.ctx.sql("INSERT INTO t VALUES (1, 2, 'x')").await.unwrap();
    let insert = insert.create_physical_plan().await.unwrap();

    let first = fs::read_to_string(commit(root, 0)).unwrap();
    let metadata = first.lines().find(|line| line.starts_with("{\"metaData\"")).unwrap();
    let (id, part) = ("\\\"name\\\":\\\"id\\\"", "\\\"name\\\":\\\"part\\\"");
    assert!(metadata.contains(id) && metadata.contains(part), "{metadata}");
    let swapped = metadata.replace(id, "?").replace(part, id).replace('?', part);
    fs::write(commit(root, 2), swapped + "\n").unwrap();

    let faults = [
        collect(insert, session.ctx.task_ctx()).await.unwrap_err(),
        bare.sql("SELECT id FROM t").await.unwrap().collect().await.unwrap_err(),
    ];
    for fault in faults {
        assert!(fault.to_string().contains("have changed; run the statement"), "{fault}");
    }
    assert_eq!(table.newest().unwrap().version(), 2);
    assert_eq!(session.number("SELECT sum(id) FROM t").await, 99 * 50);
}

#[tokio::test]
async fn what_only_looks_like_a_version_is_none() {
    let (folder, table) = broken().await;
    let root = folder.path();
    assert_eq!(table.checkpoint().unwrap(), 3);
    for name in ["+0000000000000000009", "18446744073709551615", "09223372036854775808", "9"] {
        for kind in ["json", "checkpoint.parquet"] {
            let of = root.join(format!("_delta_log/{:020}.{kind}", 3));
            fs::copy(of, root.join(format!("_delta_log/{name}.{kind}"))).unwrap();
        }
    }
    let table = Table::open(root).unwrap();
    assert_eq!(table.newest().unwrap().version(), 3);
    assert_eq!(Session::new(&table, None).number("DELETE FROM t WHERE id = 1").await, 1);
    assert_eq!(table.newest().unwrap().version(), 4);
}

/// Each byte of a checkpoint may be another one: a line says that it is broken, or nothing is lost.
#[tokio::test]
async fn a_broken_checkpoint_says_which() {
    let (folder, table) = broken().await;
    let root = folder.path();
    table.checkpoint().unwrap();
    let path = root.join(format!("_delta_log/{:020}.checkpoint.parquet", 3));
    let whole = fs::read(&path).unwrap();
    let mut refused = 0;
    for at in (0..whole.len()).step_by(37) {
        for flip in [0x01, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            fs::write(&path, &bytes).unwrap();
            if let Err(fault) = Table::open(root) {
                let text = fault.to_string();
                assert!(!text.contains('\n') && text.contains(root.to_str().unwrap()), "byte {at}: {text}");
                refused += 1;
            }
        }
    }
    assert!(refused > 20, "{refused}, of {} bytes", whole.len());
    fs::write(&path, &whole).unwrap();
    assert_eq!(Table::open(root).unwrap().newest().unwrap().rows(), 666);
}

#[tokio::test]
async fn a_broken_deletion_vector_or_data_file_says_which() {
    let (folder, table) = broken().await;
    let root = folder.path();
    let last = fs::read_to_string(commit(root, 3)).unwrap();
    edit(&commit(root, 3), "\"offset\":1,", "\"offset\":100000,");
    let text = fault(root);
    assert!(text.contains("deletion_vector_") && text.contains("100000") && text.contains("out of bounds"), "{text}");
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
    let writer = "\"writerFeatures\":[\"deletionVectors\"]";
    let both = |names: &str| format!("\"readerFeatures\":[{names}],\"writerFeatures\":[{names}]");
    let (known, new) = (both("\"deletionVectors\""), both("\"deletionVectors\",\"newFeature\""));
    for (from, to, name) in [
        (known.as_str(), new.as_str(), "newFeature"),
        ("\"minReaderVersion\":3", "\"minReaderVersion\":4", "reader version"),
        ("\"provider\":\"parquet\"", "\"provider\":\"orc\"", "orc"),
        ("\\\"long\\\"", "\\\"variant\\\"", "variant"),
    ] {
        assert!(first.contains(from), "{from} {first}");
        fs::write(commit(root, 0), first.replace(from, to)).unwrap();
        let text = fault(root);
        assert!(text.contains(name), "{name}: {text}");
    }
    // It can be read, and not written.
    for (to, name) in [
        ("\"writerFeatures\":[\"deletionVectors\",\"allowColumnDefaults\"]", "allowColumnDefaults"),
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

/// What a log names outside of the table's folder is refused by its name, in whatever words.
#[tokio::test]
async fn what_lies_outside_of_the_folder_is_refused() {
    let (folder, table) = broken().await;
    let root = folder.path();
    let secret = tempfile::tempdir().unwrap();
    let file = table.newest().unwrap().files().next().unwrap().to_owned();
    let name = file.file_name().unwrap().to_str().unwrap();
    let other = secret.path().join(name);
    fs::copy(&file, &other).unwrap();
    let (last, first) = (fs::read_to_string(commit(root, 3)).unwrap(), fs::read_to_string(commit(root, 1)).unwrap());
    let said = secret.path().display();
    let paths = [
        format!("file://{said}/{name}"),
        format!("{said}/{name}"),
        format!("..{said}/{name}"),
        format!("s3://b/{name}"),
    ];
    for path in paths {
        for version in [1, 3] {
            let text = if version == 1 { &first } else { &last };
            let named = text.replace(&format!("\"path\":\"{name}\""), &format!("\"path\":\"{path}\""));
            assert!(named != *text || version == 3, "{text}");
            fs::write(commit(root, version), named).unwrap();
        }
        let text = fault(root);
        assert!(text.contains(&path) && text.contains("is not read") || text.contains("only local files"), "{text}");
    }
    fs::write(commit(root, 1), &first).unwrap();
    fs::write(commit(root, 3), &last).unwrap();
    // By a link: a data file, a deletion vector, and a version.
    let vector = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let vector = { vector }.find(|path| path.extension().is_some_and(|end| end == "bin")).unwrap();
    for linked in [file, vector, commit(root, 2)] {
        let outside = secret.path().join("linked");
        fs::copy(&linked, &outside).unwrap();
        let whole = fs::read(&linked).unwrap();
        fs::remove_file(&linked).unwrap();
        std::os::unix::fs::symlink(&outside, &linked).unwrap();
        let text = fault(root);
        let name = linked.file_name().unwrap().to_str().unwrap();
        assert!(text.contains(name) && text.contains("leads outside"), "{text}");
        fs::remove_file(&linked).unwrap();
        fs::write(&linked, whole).unwrap();
    }
    assert_eq!(Table::open(root).unwrap().newest().unwrap().rows(), 666);
    // A deletion vector by a whole path.
    let path = format!("file://{said}/vector.bin");
    let lines = last.lines().map(|line| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(vector) = line.pointer_mut("/add/deletionVector") {
            (vector["storageType"], vector["pathOrInlineDv"]) = ("p".into(), path.as_str().into());
        }
        format!("{line}\n")
    });
    fs::write(commit(root, 3), lines.collect::<String>()).unwrap();
    let text = fault(root);
    assert!(text.contains(&path) && text.contains("is not read"), "{text}");
}
