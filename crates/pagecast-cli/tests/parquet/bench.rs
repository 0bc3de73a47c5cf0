//! The contract of `pagecast bench`.

use std::fs;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::{assert_fails, lineitem, pagecast};
use serde_json::Value;

/// Runs a bench of `data` that must succeed; gives its JSON and what it printed.
pub(crate) fn bench(data: &Path, args: &[&str]) -> (Value, String) {
    let json = tempfile::NamedTempFile::new().unwrap();
    let mut command = pagecast();
    command.args(["bench", "--streams", "2", "--queries", "2", "--data"]).arg(data);
    let output = command.args(args).arg("--json").arg(json.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "no progress bar where there is no terminal: {output:?}");
    (serde_json::from_slice(&fs::read(json.path()).unwrap()).unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn json_and_table_keep_the_contract() {
    let (data, _) = lineitem();
    let policies = "pbm,clock(max=5,init=1),lru";
    let args = ["--policies", policies, "--pool", "2MiB", "--bandwidth", "20MB/s", "--latency", "1ms", "--seed", "7"];
    let (json, table) = bench(data.path(), &args);

    assert_eq!(json["schema"], 1);
    assert!(json["config"].is_object());
    let runs = json["runs"].as_array().unwrap();
    let rows: Vec<_> = runs.iter().map(|run| [&run["delivery"], &run["policy"]].map(|v| v.as_str().unwrap())).collect();
    let in_order = ["pbm", "clock(max=5,init=1)", "lru"].map(|policy| ["in-order", policy]);
    assert_eq!(
        rows,
        [&[["none", "none"], ["stock", "clock"]], &in_order[..], &[["out-of-order", "lru"]]].concat(),
        "rows come as they were asked for"
    );
    for run in runs {
        for key in ["bytes_requested", "bytes_read", "bypassed_bytes", "evictions", "pool_bytes", "touched_bytes"] {
            assert!(run[key].is_u64(), "{key} in {run}");
        }
        assert!(run["params"].is_string() && run["wall_s"].as_f64().unwrap() > 0.0);
        assert_eq!((&run["seed"], &run["streams"]), (&7.into(), &2.into()));
        assert!(run["bytes_requested"].as_u64().unwrap() > 0 && run["bytes_read"].as_u64().unwrap() > 0);
        let queries = run["queries"].as_array().unwrap();
        assert_eq!(queries.len(), 4);
        let names =
            |run: &Value| run["queries"].as_array().unwrap().iter().map(|q| q["name"].clone()).collect::<Vec<_>>();
        assert_eq!(names(run), names(&runs[0]), "every row runs the same list");
        assert!(queries.iter().all(|query| query["stream"].as_u64().unwrap() < 2 && query["wall_s"].is_f64()));
    }
    assert!(runs[0]["hit_rate"].is_null() && runs[0]["belady_bytes_read"].is_null(), "no pool, no figures of one");
    for run in &runs[1..] {
        assert!((0.0..=1.0).contains(&run["hit_rate"].as_f64().unwrap()));
        assert_eq!(run["pool_bytes"], 2 << 20);
        assert!(run["pool_memory_bytes"].as_u64().unwrap() <= 2 << 20);
        assert_eq!(run["bypassed_bytes"], 0);
        assert!(run["belady_bytes_read"].as_u64().unwrap() <= run["bytes_read"].as_u64().unwrap());
    }
    // Whoever had a page loaded, its bytes are some query's; the rest are footers.
    let footers = |run: &Value| {
        let of_queries = run["queries"].as_array().unwrap().iter().map(|query| query["bytes_read"].as_u64().unwrap());
        run["bytes_read"].as_u64().unwrap() - of_queries.sum::<u64>()
    };
    assert!(runs[1..].iter().all(|run| footers(run) == footers(&runs[1])));
    assert!(runs[0]["queries"][0]["bytes_read"].is_null());
    let last = &runs[runs.len() - 1];
    let delivered = ["scans_out_of_order", "scans_back_in_order"].map(|key| last[key].as_u64().unwrap());
    assert_eq!(delivered, [0, 4], "one row group is no choice");
    assert!(table.contains("came in file order: out-of-order lru 4 of 4"), "{table}");
    assert_eq!(runs[3]["params"], "max=5,init=1");
    assert!(table.contains("seed 7") && table.contains("declared") && table.contains("in-order"));
}

#[test]
fn rows_are_repeated_in_turns() {
    let (data, _) = lineitem();
    let args = ["--policies", "lru", "--delivery", "in-order,stock", "--bandwidth", "local", "--repeat", "3"];
    let (json, table) = bench(data.path(), &args);
    assert_eq!((&json["partial"], &json["config"]["repeat"]), (&false.into(), &3.into()));
    let runs = json["runs"].as_array().unwrap();
    let run = |run: &Value| (run["repetition"].as_u64().unwrap(), run["delivery"].as_str().unwrap().to_owned());
    let runs: Vec<_> = runs.iter().map(run).collect();
    let turn = |turn| ["stock", "in-order"].map(|delivery| (turn, delivery.to_owned()));
    assert_eq!(runs, [turn(1), turn(2), turn(3)].concat());
    let rows: Vec<_> = table.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 3, "one line a row, whatever it was repeated: {table}");
    assert!(rows[0].contains("read, least-most") && table.contains("medians"), "{table}");
}

#[test]
fn deliveries_are_chosen_and_ranges_have_several_lengths() {
    let (data, _) = lineitem();
    let args = ["--policies", "clock,pbm", "--delivery", "out-of-order,in-order", "--bandwidth", "local"];
    let (json, table) = bench(data.path(), &[&args[..], &["--selectivity", "1%,0.5,100%"]].concat());
    let runs = json["runs"].as_array().unwrap();
    let rows: Vec<_> = runs.iter().map(|run| [&run["delivery"], &run["policy"]].map(|v| v.as_str().unwrap())).collect();
    assert_eq!(
        rows,
        [["in-order", "clock"], ["in-order", "pbm"], ["out-of-order", "clock"], ["out-of-order", "pbm"]],
        "each delivery that is asked for has all policies"
    );
    assert!(table.contains("out-of-order"), "{table}");
    assert_eq!(json["config"]["selectivity"], serde_json::json!([0.01, 0.5, 1.0]));
    let queries = runs[0]["queries"].as_array().unwrap();
    let lengths: std::collections::BTreeSet<String> = queries.iter().map(|q| q["selectivity"].to_string()).collect();
    assert!(lengths.len() > 1, "{queries:?}");
    let answers =
        |run: &Value| run["queries"].as_array().unwrap().iter().map(|q| q["rows"].clone()).collect::<Vec<_>>();
    assert!(runs.iter().all(|run| answers(run) == answers(&runs[0])));
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_what_is_done() {
    let (data, _) = lineitem();
    let json = data.path().join("out.json");
    // Thousands of runs are never done. A machine that has not even done one gets another, longer
    // try.
    for seconds in [2, 8, 32, 128] {
        let mut command = pagecast();
        command.args(["bench", "--policies", "lru", "--streams", "1", "--queries", "20", "--bandwidth", "local"]);
        command.args(["--repeat", "1000", "--data"]).arg(data.path()).arg("--json").arg(&json);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_secs(seconds));
        let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(kill.success(), "the bench was over before Ctrl-C: {output:?}");
        let Ok(written) = fs::read(&json) else { continue };
        assert_fails(&output, 130, &["interrupted", "partial"]);
        let written: Value = serde_json::from_slice(&written).unwrap();
        let runs = written["runs"].as_array().unwrap().len();
        assert!(written["partial"] == true && (1..4000).contains(&runs));
        let table = String::from_utf8(output.stdout).unwrap();
        assert!(table.contains(&format!("partial: {runs} of 4000 runs")), "{table}");
        return;
    }
    panic!("not one run was done");
}

#[test]
fn a_seed_decides_the_query_list() {
    let (data, _) = lineitem();
    let list = |seed| {
        let (json, _) = bench(data.path(), &["--policies", "lru", "--bandwidth", "local", "--seed", seed]);
        assert_eq!(json["config"]["storage"]["declared"], false);
        let names = json["runs"][0]["queries"].as_array().unwrap().iter().map(|query| query["name"].to_string());
        (names.collect::<Vec<_>>(), json["runs"][2]["bytes_requested"].clone(), json["config"]["touched_bytes"].clone())
    };
    let three = list("3");
    assert_eq!(three, list("3"));
    assert_ne!(three, list("4"));
}

#[test]
fn a_pool_that_is_too_small_for_a_row_group_reads_past_itself() {
    let (data, _) = lineitem();
    // One frame beside what the policies need: of two neighbouring pages that are missing, the
    // second finds none.
    let (json, _) =
        bench(data.path(), &["--pool", "144KiB", "--bandwidth", "local", "--policies", "clock,lru,random,pbm"]);
    let runs = json["runs"].as_array().unwrap();
    assert!(runs[1..].iter().all(|run| run["bypassed_bytes"].as_u64().unwrap() > 0), "{runs:?}");
}

#[test]
fn any_folder_and_any_query() {
    let (data, file) = lineitem();
    let parts = data.path().join("orders");
    fs::create_dir(&parts).unwrap();
    fs::copy(&file, parts.join("part-0.parquet")).unwrap();
    fs::copy(&file, parts.join("part-1.parquet")).unwrap();
    let query = data.path().join("mine.sql");
    fs::write(&query, "SELECT count(*), {stream} FROM orders WHERE l_orderkey >= {lo} AND l_orderkey < {hi};\n")
        .unwrap();
    let query = query.to_str().unwrap();
    // A share of these few bytes would be less than a frame and what goes with it.
    let args = ["--query", query, "--range", "0..60000", "--pool", "1MiB", "--policies", "pbm", "--bandwidth", "local"];
    let (json, _) = bench(data.path(), &args);
    assert_eq!(json["runs"][2]["queries"][0]["name"], "mine");
    assert_eq!(json["runs"][2]["queries"][0]["rows"], 1);
}

#[test]
fn the_page_is_complete_in_itself() {
    let (data, _) = lineitem();
    let html = data.path().join("out.html");
    bench(data.path(), &["--policies", "pbm", "--bandwidth", "local", "--html", html.to_str().unwrap()]);
    let html = fs::read_to_string(html).unwrap();
    for part in [
        "Bytes read from storage",
        "Wall time",
        "Bytes read over time",
        "Scans in the table: in-order pbm",
        "Scans in the table: out-of-order pbm",
        "Sharing potential: in-order pbm",
        "Sharing potential: out-of-order pbm",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("<script src") && !html.contains("<link"));
}

#[test]
fn bad_usage_is_named_and_leaves_no_json() {
    let (data, file) = lineitem();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let (data_text, json) = (path(data.path()), path(&data.path().join("out.json")));
    let empty = data.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let broken = data.path().join("broken.sql");
    fs::write(&broken, "SELECT count(*)\nFROM lineitem WHERE (").unwrap();
    let keys = data.path().join("keys.sql");
    fs::write(
        &keys,
        "SELECT sum(l_tax) FROM lineitem WHERE l_shipdate >= DATE '{lo}' + 9999 AND l_shipdate < DATE '{hi}'",
    )
    .unwrap();
    let wrong = data.path().join("wrong.sql");
    fs::write(&wrong, "SELECT nothing_like_it FROM lineitem").unwrap();

    let cases: &[(&[&str], i32, &[&str])] = &[
        (&["--data", &data_text, "--pool", "0"], 2, &["--pool"]),
        (&["--data", &data_text, "--pool", "0MiB"], 2, &["--pool", "too small"]),
        (&["--data", &data_text, "--pool", "4096"], 2, &["--pool", "no unit"]),
        (&["--data", &data_text, "--pool", "120%"], 2, &["--pool", "120%"]),
        (&["--data", &data_text, "--policies", "lru,nope"], 2, &["--policies", "nope", "pbm", "clock"]),
        (&["--data", &data_text, "--policies", "clock(max=x)"], 2, &["--policies", "max"]),
        (&["--data", &data_text, "--policies", "opt"], 2, &["opt"]),
        (&["--data", &data_text, "--streams", "0"], 2, &["--streams"]),
        (&["--data", &data_text, "--bandwidth", "40"], 2, &["--bandwidth", "40"]),
        (&["--data", &data_text, "--latency", "soon"], 2, &["--latency", "soon"]),
        (&["--data", &data_text, "--selectivity", "0"], 2, &["--selectivity"]),
        (&["--data", &data_text, "--range", "5..1"], 2, &["--range", "5..1"]),
        (&["--data", &data_text, "--page-size", "1000B"], 2, &["--page-size"]),
        (&["--data", &data_text, "--html", "/no/such/folder/x.html"], 2, &["--html", "/no/such/folder"]),
        (&["--data", &data_text, "--query", &path(&keys)], 2, &["--range 1992-01-02..1998-12-02", "{lo}"]),
        (&["--sf", "0"], 2, &["--sf"]),
        (&["--workload", "tpch", "--query", &path(&keys)], 2, &["--query", "tpch"]),
        (&["--workload", "tpch", "--data", &data_text], 1, &["q21", "table"]),
        (&["--no-such-flag"], 2, &["--no-such-flag"]),
        (&["--data", "/no/such/folder"], 1, &["--data", "/no/such/folder"]),
        (&["--data", &path(&empty)], 1, &["no Parquet file", "empty"]),
        (&["--data", &data_text, "--query", "/no/such.sql"], 1, &["--query", "/no/such.sql"]),
        (&["--data", &data_text, "--query", &path(&broken)], 1, &["broken.sql:2:"]),
        (&["--data", &data_text, "--query", &path(&wrong)], 1, &["wrong.sql", "nothing_like_it"]),
    ];
    for (args, status, words) in cases {
        let args = [&["bench", "--json", &json], *args].concat();
        assert_fails(&pagecast().args(&args).output().unwrap(), *status, words);
        assert!(!Path::new(&json).exists(), "{args:?} left a file");
    }
    fs::remove_file(file).unwrap();
    assert_fails(&pagecast().args(["bench", "--data", &data_text]).output().unwrap(), 1, &["no Parquet file"]);
}

#[test]
fn tpch_runs_its_queries_over_its_tables() {
    let json = tempfile::NamedTempFile::new().unwrap();
    let mut command = pagecast();
    command.args(["bench", "--workload", "tpch", "--sf", "0.01", "--streams", "2", "--queries", "22"]);
    command.args(["--policies", "pbm", "--bandwidth", "local", "--pool", "2MiB", "--json"]).arg(json.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("queries /h"));
    let json: Value = serde_json::from_slice(&fs::read(json.path()).unwrap()).unwrap();
    assert_eq!((&json["config"]["workload"], &json["config"]["queries_per_stream"]), (&"tpch".into(), &22.into()));
    let rows = |run: &Value| -> Vec<(String, u64)> {
        let queries = run["queries"].as_array().unwrap().iter();
        queries.map(|query| (query["name"].as_str().unwrap().to_owned(), query["rows"].as_u64().unwrap())).collect()
    };
    let runs = json["runs"].as_array().unwrap();
    let plain = rows(&runs[0]);
    assert_eq!(plain.iter().take(3).map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["q21", "q3", "q18"]);
    assert!(plain.iter().filter(|(_, rows)| *rows > 0).count() > 30, "the parameters find rows: {plain:?}");
    for run in &runs[1..] {
        assert_eq!(rows(run), plain, "{} {}", run["delivery"], run["policy"]);
    }
}

#[test]
fn a_statement_that_does_more_than_read_is_refused() {
    let (data, file) = lineitem();
    let before = fs::read(&file).unwrap();
    let (query, copy) = (data.path().join("more.sql"), data.path().join("copy.parquet"));
    let statements = [
        "INSERT INTO lineitem SELECT * FROM lineitem",
        &format!("COPY lineitem TO '{}'", copy.display()),
        "CREATE TABLE other AS SELECT * FROM lineitem",
        "CREATE VIEW other AS SELECT * FROM lineitem",
        "DROP TABLE lineitem",
        "DELETE FROM lineitem",
        "SET datafusion.execution.batch_size = 1",
        "EXPLAIN ANALYZE INSERT INTO lineitem SELECT * FROM lineitem",
    ];
    for statement in statements {
        fs::write(&query, statement).unwrap();
        let output = pagecast().args(["bench", "--data"]).arg(data.path()).arg("--query").arg(&query).output().unwrap();
        assert_fails(&output, 2, &["more.sql", "more than read"]);
    }
    assert!(!copy.exists() && fs::read(&file).unwrap() == before);
}

#[test]
fn a_truncated_file_is_named() {
    let (data, file) = lineitem();
    let length = fs::metadata(&file).unwrap().len();
    let data = data.path().to_str().unwrap();
    for keep in [length - 1, length / 2, 3, 0] {
        fs::File::options().write(true).open(&file).unwrap().set_len(keep).unwrap();
        assert_fails(
            &pagecast().args(["bench", "--data", data]).output().unwrap(),
            1,
            &["lineitem.parquet", "truncated"],
        );
    }
}

/// The run takes many seconds on this device; the file, or the folder that is its table, changes
/// when it has begun.
#[cfg(target_os = "linux")]
fn changed_under_the_run(change: impl FnOnce(&Path)) {
    let (data, source) = lineitem();
    let file = data.path().join("lineitem/part-0.parquet");
    fs::create_dir(file.parent().unwrap()).unwrap();
    fs::rename(source, &file).unwrap();
    let json = data.path().join("out.json");
    let mut command = pagecast();
    command.args([
        "bench",
        "--policies",
        "pbm",
        "--streams",
        "2",
        "--queries",
        "4",
        "--bandwidth",
        "300KB/s",
        "--data",
    ]);
    command.arg(data.path()).arg("--json").arg(&json).stdout(std::process::Stdio::null());
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    // The first pool is made when the files have been looked at and the queries are being planned.
    let tasks = format!("/proc/{}/task", child.id());
    let is_io = |task: fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("pagecast-io"))
    };
    while !fs::read_dir(&tasks).unwrap().flatten().any(is_io) {
        assert!(child.try_wait().unwrap().is_none(), "the run was over before the change");
        std::thread::sleep(Duration::from_millis(10));
    }
    change(&file);
    assert_fails(&child.wait_with_output().unwrap(), 1, &["lineitem/part-", "while the bench ran"]);
    assert!(!json.exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_changes_size_under_the_run_is_named() {
    changed_under_the_run(|file| {
        fs::File::options().append(true).open(file).unwrap().write_all(b"more").unwrap();
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_changes_content_under_the_run_is_named() {
    changed_under_the_run(|file| {
        let mut file = fs::File::options().write(true).open(file).unwrap();
        file.seek(SeekFrom::Start(1000)).unwrap();
        file.write_all(&[0; 5000]).unwrap();
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_comes_under_the_run_is_named() {
    changed_under_the_run(|file| _ = fs::copy(file, file.with_file_name("part-1.parquet")).unwrap());
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_goes_under_the_run_is_named() {
    changed_under_the_run(|file| fs::remove_file(file).unwrap());
}

/// The folder goes away while the bench runs.
#[cfg(unix)]
#[test]
fn a_result_that_cannot_be_written_leaves_the_table() {
    let (data, _) = lineitem();
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = pagecast();
    command.args(["bench", "--policies", "lru", "--bandwidth", "local", "--streams", "1", "--queries", "1", "--data"]);
    command.arg(data.path()).args(["--pool", "1MiB", "--json"]).arg(folder.path().join("gone/out.json"));
    fs::create_dir(folder.path().join("gone")).unwrap();
    // Statements are read from the pipe after the check of --json, and before any row.
    let child = command
        .arg("--query")
        .arg(&pipe)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut statement = fs::File::options().write(true).open(&pipe).unwrap();
    fs::remove_dir(folder.path().join("gone")).unwrap();
    statement.write_all(b"SELECT sum(l_tax) FROM lineitem").unwrap();
    drop(statement);
    let output = child.wait_with_output().unwrap();
    assert_fails(&output, 1, &["cannot write", "out.json"]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("in-order") && table.contains("lru"), "{table}");
}

#[test]
fn a_page_shows_the_pools_meanwhile() {
    let (data, _) = lineitem();
    let mut command = pagecast();
    command.args(["bench", "--streams", "2", "--queries", "20", "--policies", "pbm", "--pool", "2MiB", "--data"]);
    command.arg(data.path()).args(["--delivery", "in-order", "--bandwidth", "4MB/s", "--watch", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let address = said.trim().strip_prefix("pagecast shows its pools on http://").unwrap();
    let (address, token) = address.split_once("/?token=").unwrap();
    let mut stranger = std::net::TcpStream::connect(address).unwrap();
    write!(stranger, "GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    assert!(std::io::read_to_string(stranger).unwrap().starts_with("HTTP/1.1 403 "));
    let mut browser = std::net::TcpStream::connect(address).unwrap();
    write!(browser, "GET /events?token={token} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let samples = BufReader::new(browser).lines().map(Result::unwrap).filter(|line| line.starts_with("data:"));
    let shown = samples.take(50).find(|sample| sample.contains("in-order pbm")).expect("a sample of the row");
    assert!(shown.contains("\"queries\""), "{shown}");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("in-order"), "{output:?}");
    let elsewhere = pagecast().args(["bench", "--watch", "0.0.0.0:0", "--data"]).arg(data.path()).output().unwrap();
    assert_fails(&elsewhere, 2, &["--watch", "can be reached from elsewhere"]);
}
