//! `pagecast simulate --flash` as a user meets it.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The exit status, and what was said.
fn pagecast(arguments: &[&str]) -> (i32, String, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_pagecast")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
}

/// A trace of 52 pages that come round.
fn round(folder: &Path) -> String {
    let pages: String = (0..4000u32).map(|at| format!("{}\n", at % 52)).collect();
    let path = folder.join("round.txt");
    std::fs::write(&path, pages).unwrap();
    path.display().to_string()
}

#[test]
fn each_tier_has_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, file) = (round(folder.path()), |name: &str| folder.path().join(name).display().to_string());
    let (json, csv, html) = (file("out.json"), file("out.csv"), file("out.html"));
    let arguments = ["simulate", &trace, "--policies", "lru,opt", "--sizes", "10", "--flash", "100%"];
    let (status, out, err) = pagecast(&[&arguments[..], &["--json", &json, "--csv", &csv, "--html", &html]].concat());
    assert_eq!(status, 0, "{err}");
    assert!(out.contains("store reads") && out.contains("lru second-touch"), "{out}");
    let result: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 12);
    let of = |policy: &str, tier: &str| {
        let row = rows.iter().find(|row| row["policy"] == policy && row["flash"] == tier).unwrap();
        ["misses", "flash_hits", "store_reads", "flash_written", "flash_pages"].map(|key| row[key].as_u64().unwrap())
    };
    // LRU misses always. The first round comes from the store, and is written as it leaves.
    assert_eq!(of("lru", "predicted"), [4000, 3948, 52, 52, 52]);
    assert_eq!(of("lru", "all"), [4000, 3948, 52, 52, 52]);
    assert_eq!(of("lru", "second-touch"), [4000, 3896, 104, 52, 52]);
    assert_eq!(of("opt", "opt")[2], 52);
    let row = &rows[0];
    assert_eq!(row["store_bytes"], row["store_reads"].as_u64().unwrap() * 8192);
    assert_eq!(row["flash_written_bytes"], row["flash_written"].as_u64().unwrap() * 8192);
    let text = std::fs::read_to_string(csv).unwrap();
    let lengths: Vec<_> = text.lines().map(|line| line.split(',').count()).collect();
    assert!(lengths.len() == 13 && lengths.iter().all(|&length| length == 16), "{text}");
    assert!(std::fs::read_to_string(html).unwrap().contains("flash written"));
}

#[test]
fn what_makes_no_sense_with_a_tier_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let trace = round(folder.path());
    let base = ["simulate", &trace, "--policies", "lru", "--sizes", "10"];
    for (more, said) in [
        (&["--flash", "0"][..], "--flash: a pool of 0 pages"),
        (&["--flash", "many"], "--flash"),
        (&["--flash-policies", "all"], "means something with --flash only"),
        (&["--flash", "10%", "--flash-policies", "al"], "no tier `al`; there are predicted"),
        (&["--flash", "10%", "--time", "logical"], "without --curve, --tuples and --time logical"),
        (&["--flash", "10%", "--curve", "5"], "without --curve, --tuples and --time logical"),
        (&["--flash", "10%", "--tuples", "learn"], "without --curve, --tuples and --time logical"),
    ] {
        let (status, _, err) = pagecast(&[&base[..], more].concat());
        assert_eq!(status, 2, "{more:?}: {err}");
        assert!(err.contains(said), "{more:?}: {err}");
    }
}
