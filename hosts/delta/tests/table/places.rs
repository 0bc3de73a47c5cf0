//! Tables whose logs name files in other folders, as shallow clones do.

use std::fs;
use std::path::Path;

use datafusion::prelude::SessionContext;
use pagecast_datafusion::Delivery;
use pagecast_delta::{Options, Table, Vacuum};

use super::data::{Session, table};

/// A table in `to` that has the files of the one in `from` where they are.
fn clone(from: &Path, to: &Path) {
    fs::create_dir_all(to.join("_delta_log")).unwrap();
    let log = |root: &Path, version: u64| root.join(format!("_delta_log/{version:020}.json"));
    for version in 0..2 {
        let text = fs::read_to_string(log(from, version)).unwrap();
        let whole = format!("\"path\":\"file://{}/", from.display());
        fs::write(log(to, version), text.replace("\"path\":\"", &whole)).unwrap();
    }
}

fn allowing(folder: &Path) -> Options {
    let mut options = Options::default();
    options.allowed = vec![folder.to_owned()];
    options
}

fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_clone_is_read_and_changed_where_its_source_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (source, cloned) = (root.join("a b/source"), root.join("cloned"));
    fs::create_dir_all(&source).unwrap();
    table(&source, &[3000]).await;
    clone(&source, &cloned);
    let before = files(&source);
    for options in [Options::default(), allowing(&root.join("a b/source/_delta_log"))] {
        let fault = Table::open_with(&cloned, options).unwrap_err().to_string();
        assert!(fault.contains("is not read unless you allow its place"), "{fault}");
    }
    let table = Table::open_with(&cloned, allowing(&root.join("a b"))).unwrap();
    for delivery in [Delivery::Stock, Delivery::InOrder, Delivery::OutOfOrder] {
        let session = Session::new(&table, Some(delivery));
        assert_eq!(session.number("SELECT sum(id) FROM t").await, 3000 * 2999 / 2);
    }
    let session = Session::new(&table, None);
    // Marks, copies of files, new files: all of that is in the clone's own folder.
    assert_eq!(session.number("DELETE FROM t WHERE id % 2 = 1").await, 1500);
    assert_eq!(session.number("UPDATE t SET part = 7 WHERE id = 2").await, 1);
    assert!(table.compact(0.0).unwrap().is_some());
    session.run("DELETE FROM t WHERE id = 4").await;
    let everything = Vacuum { retention: Some(std::time::Duration::ZERO), force: true, ..Vacuum::default() };
    drop(session);
    let gone = table.vacuum(everything).unwrap();
    assert!(!gone.is_empty() && gone.iter().all(|file| file.path.starts_with(&cloned)), "{gone:?}");
    assert_eq!(files(&source), before, "a vacuum of the clone leaves its source");
    let session = Session::new(&table, None);
    assert_eq!(session.number("SELECT count(*) FROM t").await, 1499);
}

#[tokio::test]
async fn a_statement_allows_places() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    table(&root.join("source"), &[100]).await;
    clone(&root.join("source"), &root.join("cloned"));
    let ctx = SessionContext::new();
    pagecast_delta::install(&ctx).unwrap();
    let named = |name: &str, options: &str| {
        let place = root.join("cloned").display().to_string();
        format!("CREATE EXTERNAL TABLE {name} STORED AS DELTATABLE LOCATION '{place}' {options}")
    };
    let fault = ctx.sql(&named("refused", "")).await.unwrap_err().to_string();
    assert!(fault.contains("unless you allow its place"), "{fault}");
    let fault = ctx.sql(&named("refused", "OPTIONS ('allowed' '/')")).await.unwrap_err().to_string();
    assert!(fault.contains("no option allowed here; there is 'allow'"), "{fault}");
    let options = format!("OPTIONS ('allow' '/tmp, {}')", root.join("source").display());
    ctx.sql(&named("cloned", &options)).await.unwrap();
    assert_eq!(ctx.sql("SELECT * FROM cloned").await.unwrap().count().await.unwrap(), 100);
}
