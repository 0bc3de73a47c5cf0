//! Delta tables in `pagecast sql`.

use std::path::Path;
use std::process::Output;

use crate::{assert_fails, lineitem, pagecast};

fn sql(data: &Path, statements: &str) -> Output {
    pagecast().args(["sql", "--data"]).arg(data).args(["-c", statements]).output().unwrap()
}

/// The cells of all results.
fn cells(data: &Path, statements: &str) -> Vec<String> {
    let output = sql(data, statements);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| line.starts_with('|')).map(|line| line.trim_matches(['|', ' ']).to_owned()).collect()
}

#[test]
fn a_delta_table_is_made_changed_and_seen_as_it_was() {
    let (data, _) = lineitem();
    let folder = data.path().join("items");
    let make = format!(
        "CREATE EXTERNAL TABLE items (l_orderkey BIGINT, l_quantity DECIMAL(15, 2), l_comment VARCHAR)
         STORED AS DELTATABLE LOCATION '{}';
         INSERT INTO items SELECT l_orderkey, l_quantity, l_comment FROM lineitem;
         SELECT count(*) AS n FROM items",
        folder.display()
    );
    assert_eq!(cells(data.path(), &make), ["count", "60175", "n", "60175"]);
    // Another process finds it beside the files, and alone.
    let change = "DELETE FROM items WHERE l_quantity < 10; UPDATE items SET l_comment = 'none' WHERE l_orderkey < 100;
         SELECT count(*) AS n FROM items; SELECT count(*) AS n FROM \"items@v1\"";
    let changed = cells(data.path(), change);
    let number = |at: usize| changed[at].parse::<u32>().unwrap();
    // The header of each result, and its number: deleted, updated, left, and before.
    assert_eq!((number(1) + number(5), number(7)), (60175, 60175), "{changed:?}");
    assert!(number(1) > 10_000 && number(3) > 50, "{changed:?}");
    // The table alone.
    let alone =
        cells(&folder, "SELECT count(*) AS n FROM items; SELECT count(*) AS n FROM items WHERE l_comment = 'none'");
    assert_eq!(alone, ["n", changed[5].as_str(), "n", changed[3].as_str()]);
    let explained = cells(&folder, "EXPLAIN SELECT l_comment FROM items").join("\n");
    assert!(explained.contains("out-of-order") || explained.contains("in-order"), "{explained}");
    assert_fails(&sql(&folder, "DELETE FROM \"items@v1\""), 1, &["version 1", "only the newest"]);
    assert_fails(&sql(&folder, "SELECT * FROM \"items@v7\""), 1, &["no version 7, the newest is 3"]);
}

#[test]
fn a_broken_delta_table_closes_itself_alone() {
    let (data, _) = lineitem();
    let log = data.path().join("broken/_delta_log");
    std::fs::create_dir_all(&log).unwrap();
    std::fs::write(log.join("00000000000000000000.json"), "{\"protocol\":{\"minReaderVersion\":3,").unwrap();
    assert!(sql(data.path(), "SELECT count(*) FROM lineitem").status.success());
    let words = ["table broken is closed", "00000.json, byte ", "torn"];
    assert_fails(&sql(data.path(), "SELECT * FROM broken"), 1, &words);
    assert_fails(&sql(&data.path().join("broken"), "SELECT 1"), 1, &["torn"]);
}

#[test]
fn a_file_and_a_delta_table_of_one_name_are_no_two_tables() {
    let (data, _) = lineitem();
    let folder = data.path().join("lineitem");
    let make = format!("CREATE EXTERNAL TABLE other (id BIGINT) STORED AS DELTATABLE LOCATION '{}'", folder.display());
    assert!(sql(data.path(), &make).status.success());
    let said = ["lineitem.parquet", "would both be table lineitem; rename one"];
    assert_fails(&sql(data.path(), "SELECT 1"), 1, &said);
}
