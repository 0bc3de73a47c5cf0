//! What is read of a table, and what is refused.

use super::data::{Fixture, LEFT, ROWS, number, open, run};

#[tokio::test]
async fn every_version_is_read_without_its_deleted_rows() {
    for version in 1..=3 {
        let table = Fixture::new(version).await;
        let ctx = open(&table.root).await.unwrap();
        let left = if version == 1 { 2 * ROWS } else { LEFT };
        assert_eq!(number(&ctx, "SELECT count(*) FROM t").await, left, "{version}");
        assert_eq!(number(&ctx, "SELECT count(*) FROM (SELECT DISTINCT word FROM t)").await, left, "{version}");
        let deleted = "SELECT count(*) FROM t WHERE id BETWEEN 10 AND 19 OR id = 50";
        assert_eq!(number(&ctx, deleted).await, left - LEFT, "{version}");
        // It came after the delete of its id.
        assert_eq!(number(&ctx, "SELECT count(*) FROM t WHERE id = 150").await, 1, "{version}");
    }
}

#[tokio::test]
async fn deletes_and_manifests_are_read_once() {
    let table = Fixture::new(2).await;
    let ctx = open(&table.root).await.unwrap();
    assert_eq!(number(&ctx, "SELECT count(*) FROM t").await, LEFT);
    for name in ["positions", "equal"] {
        std::fs::remove_file(table.root.join(format!("data/{name}.parquet"))).unwrap();
    }
    let manifest = std::fs::read(table.root.join("metadata/m1.avro")).unwrap();
    std::fs::remove_file(table.root.join("metadata/m1.avro")).unwrap();
    assert_eq!(number(&ctx, "SELECT count(id) FROM t").await, LEFT);
    // Also of a new version that has the same deletes, and the same manifests.
    table.metadata(|json| json["properties"]["a"] = "b".into());
    assert_eq!(number(&ctx, "SELECT count(id) FROM t").await, LEFT);
    assert!(open(&table.root).await.err().unwrap().contains("m1.avro"));
    std::fs::write(table.root.join("metadata/m1.avro"), manifest).unwrap();
    assert!(run(&open(&table.root).await.unwrap(), "SELECT * FROM t").await.unwrap_err().contains("positions.parquet"));
}

#[tokio::test]
async fn one_metadata_file_is_a_table() {
    let table = Fixture::new(2).await;
    let ctx = open(&table.root.join("metadata/v1.metadata.json")).await.unwrap();
    assert_eq!(number(&ctx, "SELECT count(*) FROM t").await, LEFT);
}

#[tokio::test]
async fn other_versions_have_names() {
    let table = Fixture::new(2).await;
    table.metadata(|json| json["refs"]["tag"] = serde_json::json!({"snapshot-id": 1, "type": "tag"}));
    let ctx = open(&table.root).await.unwrap();
    for name in ["main", "tag", "s1", "2024-01-01T00:00:00"] {
        assert_eq!(number(&ctx, &format!("SELECT count(*) FROM \"t@{name}\"")).await, LEFT, "{name}");
    }
    for (name, why) in [("s2", "no snapshot 2"), ("2001-01-01", "no snapshot at 2001"), ("x", "it has main, tag")] {
        let error = run(&ctx, &format!("SELECT * FROM \"t@{name}\"")).await.unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn columns_have_the_names_of_the_newest_schema() {
    let table = Fixture::new(3).await;
    table.metadata(|json| {
        json["schemas"][0]["fields"] = serde_json::json!([
            {"id": 2, "name": "id", "required": false, "type": "string"},
            {"id": 3, "name": "word", "required": false, "type": "int", "initial-default": 7},
            {"id": 1, "name": "number", "required": true, "type": "long"}]);
        json["last-column-id"] = 3.into();
    });
    let ctx = open(&table.root).await.unwrap();
    let rows = run(&ctx, "SELECT * FROM t WHERE number = 99").await.unwrap();
    assert!(rows.contains("| w99 | 7    | 99     |"), "{rows}");
    assert_eq!(number(&ctx, "SELECT count(*) FROM t WHERE word = 7 AND id > 'w'").await, LEFT);
}

#[tokio::test]
async fn what_is_not_read_has_a_name() {
    let table = Fixture::new(3).await;
    let of = async |change: fn(&mut serde_json::Value)| {
        table.metadata(change);
        open(&table.root).await.err().unwrap_or_default()
    };
    assert!(of(|json| json["format-version"] = 4.into()).await.contains("format version 4"));
    assert!(of(|json| json["properties"]["encryption.key-id"] = "k".into()).await.contains("encryption"));
    let variant = of(|json| json["schemas"][0]["fields"][1]["type"] = "variant".into()).await;
    assert!(variant.contains("the type variant (column word)"), "{variant}");
    let default = of(|json| json["schemas"][0]["fields"][1]["initial-default"] = serde_json::json!([1])).await;
    assert!(default.contains("a default of column word"), "{default}");
    let list = of(|json| json["snapshots"][0]["manifest-list"] = "file:///etc/passwd".into()).await;
    assert!(list.contains("lies outside"), "{list}");
}

#[tokio::test]
async fn files_elsewhere_are_refused() {
    let table = Fixture::new(2).await;
    let outside = table.folder.path().join("secret.parquet");
    std::fs::copy(table.root.join("data/a.parquet"), &outside).unwrap();
    std::os::unix::fs::symlink(&outside, table.root.join("data/link.parquet")).unwrap();
    for path in [
        outside.display().to_string(),
        table.uri("../secret.parquet"),
        table.uri("data/link.parquet"),
        "s3://bucket/a.parquet".to_owned(),
        "https://host/a.parquet".to_owned(),
    ] {
        let file = table.data("a", 0, Some(path.clone()));
        let manifest = table.manifest("m4", vec![(file, 1)], false).await;
        table.list(vec![manifest]).await;
        let error = open(&table.root).await.err().unwrap_or_default();
        assert!(error.contains(&path) && error.ends_with("is not read"), "{path}: {error}");
    }
}
