//! Two minutes of the finder, always the same rounds; `make fuzz-sql` looks further.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use pagecast_fuzz::{Options, find};

#[tokio::test(flavor = "multi_thread")]
async fn pagecast_answers_as_its_peers_do() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        seed: 1,
        statements: None,
        time: Some(Duration::from_secs(120)),
        python: std::env::var("PAGECAST_PYTHON").ok(),
        format: None,
        kind: None,
        shrinking: Duration::from_secs(20),
        folder: folder.path().to_owned(),
    };
    let report = find(&options, |_| ()).await.unwrap();
    println!("seed {}: {:#}", report.seed, report.json());
    if report.duckdb.is_none() {
        println!("skipped: DuckDB, for there is no PAGECAST_PYTHON that has it");
    }
    if !report.kept.is_empty() {
        println!("kept in {}", folder.keep().display());
    }
    assert_eq!(report.differences, 0);
    // What is computed here is what DuckDB computes.
    assert_eq!(report.between_peers, 0);
    assert!(report.compared > 0 && report.by_rule.contains_key("out of order"), "{report:?}");
}
