//! `pagecast closed-loop` as a user meets it: results, files, and one clear line for each fault.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

use serde_json::Value;

fn pagecast(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pagecast")).arg("closed-loop").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const SMALL: &str = "speeds(streams=4,queries=2,units=12)";

#[test]
fn results_are_shown_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (json, html) = (path("loop.json"), path("loop.html"));
    let done = pagecast(&[
        SMALL,
        "columns(streams=2,queries=1,units=6)",
        "--deliveries",
        "ordered(ahead=1),unordered,static(scans=2)",
        "--policies",
        "lru,pbm(samples=5)",
        "--sizes",
        "30%,64,40MiB",
        "--seeds",
        "2",
        "--json",
        &json,
        "--html",
        &html,
    ]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let out = text(&done.stdout);
    assert_eq!(out.lines().filter(|line| line.contains("static(scans=2)")).count(), 12, "{out}");
    assert!(out.contains("seeds 1 to 2, 100 MB/s"), "{out}");
    let json: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &json["schema"], &json["config"]["seeds"]), (36, &1.into(), &2.into()));
    for row in rows {
        let figure = |name: &str, which: &str| row[name][which].as_f64().unwrap();
        assert!(figure("bytes_read", "low") <= figure("bytes_read", "mean"), "{row}");
        assert!(figure("bytes_read", "mean") <= figure("bytes_read", "high"), "{row}");
        assert!(figure("stream_s", "mean") <= figure("total_s", "mean"), "{row}");
        assert!(row["types"].as_array().unwrap().iter().all(|of| of["base_s"].as_f64().unwrap() > 0.0), "{row}");
        assert!(row["pool_bytes"].as_u64() <= row["table_bytes"].as_u64(), "{row}");
    }
    assert!(
        rows[1]["delivery_params"] == "ordered(ahead=1)" && rows[1]["params"] == "samples=5,history=on,forecast=off"
    );
    let page = std::fs::read_to_string(html).unwrap();
    for title in ["Bytes read of speeds", "What scans share: unordered", "Loads, and who used them: static(scans=2)"] {
        assert!(page.contains(title), "{title}");
    }
    // Pictures are of the first size only.
    assert_eq!(page.matches("<h2>What scans share").count(), 2 * 6);
}

/// One workload and one size: the types of queries are shown, too.
#[test]
fn types_of_queries_are_shown() {
    let done = pagecast(&[SMALL, "--seeds", "1", "--io-order", "least-left", "--latency", "1ms", "--outstanding", "4"]);
    let out = text(&done.stdout);
    assert!(done.status.success() && out.contains("alone s") && out.contains("S-50"), "{out}");
    assert!(out.contains("latency 1 ms, 4 at a time, 8 cores, reads by what their scan still needs"), "{out}");
}

#[test]
fn each_fault_is_one_line_that_names_the_flag() {
    let cases: [(&[&str], &str); 8] = [
        (&["mix"], "unknown workload `mix`; there are speeds, columns"),
        (&["speeds", "--deliveries", "any"], "--deliveries: unknown delivery `any`; there are ordered"),
        (&["speeds", "--policies", "lruu"], "--policies: unknown policy `lruu`"),
        (&["speeds", "--policies", "opt"], "--policies: `opt` cannot run here"),
        (&["speeds", "--sizes", "0"], "--sizes: a pool of 0 pages"),
        (&["speeds", "--sizes", "110%"], "--sizes: `110%` is not above 0 %"),
        (&["speeds", "--bandwidth", "fast"], "--bandwidth"),
        (&["speeds", "--json", "/no/such/x"], "--json: cannot write /no/such/x"),
    ];
    for (arguments, words) in cases {
        let done = pagecast(arguments);
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words) && said.lines().count() == 1, "{arguments:?}: {said}");
    }
}
